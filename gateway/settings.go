package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v4"

	"shuultuur/check"
	"shuultuur/event"
	"shuultuur/identity"
	"shuultuur/list"
	"shuultuur/list/source"
	"shuultuur/policy"
	"shuultuur/proxy"
	"shuultuur/state"
)

// maxSettings bounds a settings file; lists belong into files of their own.
const maxSettings = 4 << 20

// Settings are one settings file. Each room brings its own part; this type
// only says under which key it stands.
type Settings struct {
	Listen    Listen          `yaml:"listen"`
	Data      string          `yaml:"data"` // folder for compiled lists, events, keys; default "data"
	Lists     map[string]List `yaml:"lists"`
	Checks    check.Config    `yaml:"checks"`
	Policies  policy.Config   `yaml:"policies"`
	Identity  identity.Config `yaml:"identity"`
	Proxy     proxy.Config    `yaml:"proxy"`
	Pages     Pages           `yaml:"pages"`
	Intercept *Intercept      `yaml:"intercept"`
	Events    event.Config    `yaml:"events"`
	State     state.Config    `yaml:"state"`
	DNS       *DNS            `yaml:"dns"` // nil: no name server

	file string // as given
	root yaml.Node
	dir  string // of the file: what relative paths stand on
	plan plan
}

// A List is read from a file or folder, or else fetched.
type List struct {
	list.Config `yaml:",inline"`
	Fetch       source.Config `yaml:",inline"`
}

// Listen says where the gateway listens.
type Listen struct {
	Proxy Addresses `yaml:"proxy"` // default 127.0.0.1:8080
	// Transparent and TPROXY are where a firewall sends the connections of
	// clients that know of no proxy: with the destination changed (REDIRECT,
	// ipfw fwd) and with it kept (TPROXY). Default none.
	Transparent Addresses `yaml:"transparent"`
	TPROXY      Addresses `yaml:"tproxy"`
	// Sinkhole is where the name server sends clients that may not have what
	// they asked for, usually ports 80 and 443 of the addresses under dns:
	// block: sinkhole. Default none.
	Sinkhole Addresses `yaml:"sinkhole"`
	Admin    Addresses `yaml:"admin"` // default 127.0.0.1:8081; "off" for none
	// Token opens the profiles of the admin address to other machines; 16
	// bytes or more. Without one they are for this machine only.
	Token string `yaml:"token"`
	// TLS is the certificate with which the proxy port answers clients that
	// speak TLS to the proxy itself ("HTTPS proxy").
	TLS *KeyPair `yaml:"tls"`
}

// addresses are what only a restart changes.
func (l *Listen) addresses() []any {
	return []any{l.Proxy, l.Transparent, l.TPROXY, l.Sinkhole, l.Admin, l.Token}
}

// A KeyPair names a certificate and its key, both PEM.
type KeyPair struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Intercept says with what the gateway looks into TLS connections. Whose are
// looked into is for the policies to say (decrypt).
type Intercept struct {
	Root     string `yaml:"root"`      // file that "shuultuur ca init" made
	LeafDays int    `yaml:"leaf-days"` // validity of a minted certificate, 3 to 398; default 90
	Leaves   int    `yaml:"leaves"`    // minted certificates that are kept; default 10,000
	// Trust are PEM files with roots that origins may have besides those of
	// the system, such as a company's own.
	Trust []string `yaml:"trust"`
	// ExceptAfter lets a host through unseen for a client that has refused
	// our certificate for it this often within a day. 0, the default: never.
	ExceptAfter int `yaml:"except-after"`
}

// Pages says how block and warn pages look.
type Pages struct {
	Templates string `yaml:"templates"` // folder with templates that replace the built-in ones
	Contact   string `yaml:"contact"`   // whom a blocked person may ask
}

// Addresses is one listen address or a list of them.
type Addresses []string

// UnmarshalYAML reads a single address or a list.
func (a *Addresses) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*a = Addresses{n.Value}
		return nil
	}
	var many []string
	if err := n.Load(&many); err != nil {
		return err
	}
	*a = many
	return nil
}

// Read reads and checks the form of a settings file: syntax, unknown keys,
// values of the wrong kind. Every mistake found is in the error, a [Mistakes].
// What the settings mean is looked at by [Build].
func Read(file string) (*Settings, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, Mistakes{{File: file, Text: "cannot read the settings: " + plainPath(err)}}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err != nil {
		return nil, Mistakes{{File: file, Text: "cannot read the settings: " + plainPath(err)}}
	}
	if len(data) > maxSettings {
		return nil, Mistakes{{File: file, Text: fmt.Sprintf("the settings are larger than %d bytes; put lists into files of their own", maxSettings)}}
	}
	return Parse(file, data)
}

// Parse is Read for settings already in memory; file is what mistakes name
// and what relative paths stand on.
func Parse(file string, data []byte) (*Settings, error) {
	s := &Settings{file: file, dir: filepath.Dir(file)}
	root := &s.root
	if len(bytes.TrimSpace(data)) > 0 {
		if err := yaml.Load(data, root); err != nil {
			return nil, s.plan.mistakes(file, err)
		}
	}
	s.plan = newPlan(root)
	if root.Kind != 0 {
		if err := yaml.Load(data, s, yaml.WithKnownFields()); err != nil {
			return nil, s.plan.mistakes(file, err)
		}
	}
	s.defaults()
	return s, nil
}

func (s *Settings) defaults() {
	if s.Data == "" {
		s.Data = "data"
	}
	if len(s.Listen.Proxy) == 0 {
		s.Listen.Proxy = Addresses{"127.0.0.1:8080"}
	}
	if len(s.Listen.Admin) == 0 {
		s.Listen.Admin = Addresses{"127.0.0.1:8081"}
	}
	if len(s.Listen.Admin) == 1 && s.Listen.Admin[0] == "off" {
		s.Listen.Admin = nil
	}
}

// path makes a path of the settings stand on the settings file's folder.
func (s *Settings) path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(s.dir, p)
}

// mistake turns an error about a setting into Mistakes.
func (s *Settings) mistake(err error) error {
	if err == nil {
		return nil
	}
	var m Mistakes
	if errors.As(err, &m) {
		return m
	}
	return s.plan.setting(s.file, err)
}

// plainPath drops the operation from a path error: the sentence around it
// says what was being done.
func plainPath(err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Path + ": " + pe.Err.Error()
	}
	return err.Error()
}
