package bundle

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"aead.dev/minisign"
	"filippo.io/age"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/setting"
)

// Config says from where a gateway takes what its fleet decides by, and what it offers.
type Config struct {
	// Name is that of this node in reports; default the name of the machine.
	Name    string  `yaml:"name"`
	Bundles *Source `yaml:"bundles"` // nil: none are taken
	Desk    *Offers `yaml:"desk"`    // nil: none are offered
}

// Source says where bundles are taken.
type Source struct {
	// From is a folder, an https:// address or s3://bucket/prefix.
	From string `yaml:"from"`
	// Token is sent to an https:// address, as a bearer token: at the admin address of a desk, one of an
	// operator.
	Token string `yaml:"token" secret:"yes"`
	Store `yaml:",inline"`
	CA    setting.File     `yaml:"ca"`    // roots that the server's certificate may have; default those of the system
	Key   string           `yaml:"key"`   // public key of the desk: the second line of minisign's key file
	Every setting.Duration `yaml:"every"` // how often the place is asked; default 1m
	// Takes are the keys of the settings that a bundle may replace; default lists, checks, policies
	// and pages. A bundle with others is refused.
	Takes []string `yaml:"takes"`
	// Identity is a file with an age identity, which decrypts files of bundles.
	Identity setting.File `yaml:"identity"`
}

// Offers says what a desk offers.
type Offers struct {
	// To is a folder or s3://bucket/prefix; default the data folder, from where the admin address
	// offers it under /bundles.
	To    string `yaml:"to"`
	Store `yaml:",inline"`
	Key   setting.File `yaml:"key"` // secret key of minisign without a password, which signs
	// Carries are the keys of the settings that bundles have; default lists, checks, policies and
	// pages.
	Carries []string `yaml:"carries"`
	// Recipients are age recipients: if there are any, only their identities can read the files.
	Recipients []string `yaml:"recipients"`
	// Wait is how long reports have to be good before more nodes take a bundle; default 10m.
	Wait setting.Duration `yaml:"wait"`
	// Expires is how long nodes may take a bundle; default 30d.
	Expires setting.Duration `yaml:"expires"`
}

const (
	defaultEvery   = time.Minute
	leastEvery     = time.Second
	defaultWait    = 10 * time.Minute
	defaultExpires = 30 * 24 * time.Hour
)

// defaultKeys are the keys of what decides, and of what people see of it.
var defaultKeys = []string{"lists", "checks", "policies", "pages"}

// neverKeys are the keys of what is each node's own.
var neverKeys = []string{"listen", "data", "fleet"}

// NodeName returns the name of this node.
func (c *Config) NodeName() string {
	if c.Name != "" {
		return c.Name
	}
	if name, err := os.Hostname(); err == nil && name != "" {
		return name
	}
	return "node"
}

// Check finds mistakes.
func (c *Config) Check() error {
	if len(c.Name) > 100 || strings.ContainsFunc(c.Name, func(r rune) bool { return r < ' ' }) {
		return setting.At("name", errors.New("a name has at most 100 bytes, on one line"))
	}
	if c.Bundles != nil {
		if _, err := c.Bundles.open(); err != nil {
			return setting.At("bundles", err)
		}
	}
	if c.Desk != nil {
		if _, err := c.Desk.open(""); err != nil {
			return setting.At("desk", err)
		}
	}
	return nil
}

// A source is an opened Source.
type source struct {
	place      Place
	key        minisign.PublicKey
	every      time.Duration
	takes      []string
	identities []age.Identity
}

func (s *Source) open() (*source, error) {
	o := &source{every: s.Every.Or(defaultEvery), takes: s.Takes}
	if o.takes == nil {
		o.takes = defaultKeys
	}
	if err := o.key.UnmarshalText([]byte(strings.TrimSpace(s.Key))); err != nil {
		return nil, setting.At("key", fmt.Errorf(`%q is not a public key of minisign, which begins with RW; "shuultuur fleet key FILE" makes one`, s.Key))
	}
	if o.every < leastEvery {
		return nil, setting.At("every", fmt.Errorf("%v is not at least %v", s.Every, leastEvery))
	}
	if err := checkKeys(o.takes); err != nil {
		return nil, setting.At("takes", err)
	}
	client, err := s.client()
	if err != nil {
		return nil, setting.At("ca", err)
	}
	if s.From == "" {
		return nil, setting.At("from", errors.New("is missing: name a folder, an https:// address or s3://bucket/prefix"))
	}
	if o.place, err = openPlace(s.From, s.Store, s.Token, client); err != nil {
		return nil, setting.At("from", err)
	}
	if s.Identity != "" {
		f, err := os.Open(string(s.Identity))
		if err != nil {
			return nil, setting.At("identity", err)
		}
		defer f.Close()
		if o.identities, err = age.ParseIdentities(f); err != nil {
			return nil, setting.At("identity", fmt.Errorf("%s has no age identity: %w", s.Identity, err))
		}
	}
	return o, nil
}

func (s *Source) client() (*http.Client, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy, t.ResponseHeaderTimeout = nil, silence
	if s.CA != "" {
		roots, err := s.CA.Roots()
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = roots
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

func checkKeys(keys []string) error {
	if len(keys) == 0 {
		return errors.New("no key is named")
	}
	for _, k := range keys {
		for _, never := range neverKeys {
			if k == never {
				return fmt.Errorf("%s is each node's own", k)
			}
		}
		if k == "" || strings.ContainsAny(k, ".[] \n") {
			return fmt.Errorf("%q is not a key on the outermost level of the settings", k)
		}
	}
	return nil
}

// offers are opened Offers.
type offers struct {
	to            Offer
	key           minisign.PrivateKey
	carries       []string
	recipients    []age.Recipient
	wait, expires time.Duration
}

// open opens what a desk offers; own is the folder that its own admin address offers.
func (s *Offers) open(own string) (*offers, error) {
	o := &offers{carries: s.Carries, wait: s.Wait.Or(defaultWait), expires: s.Expires.Or(defaultExpires)}
	if o.carries == nil {
		o.carries = defaultKeys
	}
	if err := checkKeys(o.carries); err != nil {
		return nil, setting.At("carries", err)
	}
	if s.Key == "" {
		return nil, setting.At("key", errors.New(`is missing: "shuultuur fleet key FILE" makes the file`))
	}
	text, err := os.ReadFile(string(s.Key))
	if err != nil {
		return nil, setting.At("key", err)
	}
	if err := o.key.UnmarshalText(text); err != nil {
		return nil, setting.At("key", fmt.Errorf("%s is not a secret key of minisign without a password: %w", s.Key, err))
	}
	for _, r := range s.Recipients {
		to, err := age.ParseX25519Recipient(r)
		if err != nil {
			return nil, setting.At("recipients", fmt.Errorf("%q is not an age recipient, which begins with age1: %w", r, err))
		}
		o.recipients = append(o.recipients, to)
	}
	if o.expires < time.Hour {
		return nil, setting.At("expires", fmt.Errorf("%v is not at least 1h", s.Expires))
	}
	if s.To == "" {
		o.to = Folder(own)
		return o, nil
	}
	at, err := openPlace(s.To, s.Store, "", nil)
	if err != nil {
		return nil, setting.At("to", err)
	}
	to, ok := at.(Offer)
	if !ok {
		return nil, setting.At("to", fmt.Errorf("%q takes no files: name a folder or s3://bucket/prefix", s.To))
	}
	o.to = to
	return o, nil
}

// MakeKey makes a key that signs bundles, keeps it in a new file for its owner alone, and returns the
// public key for the settings of the nodes.
func MakeKey(file string) (public string, err error) {
	pub, key, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	text, err := key.MarshalText()
	if err != nil {
		return "", err
	}
	if err := atomicfile.CreateBytes(file, 0o600, append(text, '\n')); err != nil {
		return "", fmt.Errorf("keeping the key: %w", err)
	}
	return pub.String(), nil
}
