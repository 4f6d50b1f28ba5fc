package transfer

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/nameserver/zone/sign"
)

// Config is which zones are signed, who may fetch zones, who is told of changes,
// and which zones are fetched.
type Config struct {
	Keys  []KeyConfig `yaml:"tsig"`
	Sign  []Sign      `yaml:"sign"`
	Allow []Allow     `yaml:"allow"` // none: nobody
	Tell  []Tell      `yaml:"notify"`
	// Serial is how zones that are read here get their serial: keep, increment
	// or unixtime. Empty means keep, and unixtime for zones that are signed here.
	Serial      string      `yaml:"serial"`
	Secondaries []Secondary `yaml:"secondary"`
	// Folder keeps the zones of Secondaries from one start to the next, and of
	// zones that are signed here or may be fetched what else they need: serial,
	// signatures and differences. Without one the latter begin anew.
	Folder string `yaml:"folder"`
}

// Sign has zones signed here, wherever they come from.
type Sign struct {
	Zones       []string `yaml:"zones"`
	sign.Config `yaml:",inline"`
}

// Allow lets somebody fetch zones: who comes from one of the networks, signs
// with the key, or both where both are given. The first that fits counts.
type Allow struct {
	Zones    []string       `yaml:"zones"` // none: all
	Networks []netip.Prefix `yaml:"networks"`
	Key      string         `yaml:"key"`
	TLS      bool           `yaml:"tls"` // over TLS only
	// View is which view of the zones; empty means the one that the client's
	// questions are answered from.
	View string `yaml:"view"`
}

// Tell is a secondary that is told of changes (NOTIFY).
type Tell struct {
	Zones   []string `yaml:"zones"`   // none: all
	Address string   `yaml:"address"` // with a port, if it is not 53
	Key     string   `yaml:"key"`
	View    string   `yaml:"view"` // tell of this view only
}

// Secondary is a zone that is fetched from elsewhere.
type Secondary struct {
	Zone      string    `yaml:"zone"`
	Primaries []Primary `yaml:"primaries"`
	// MaxBytes is the most the zone may have in wire form; 0 means 512 MiB.
	MaxBytes int64 `yaml:"max-bytes"`
}

// Primary is one server that a zone is fetched from, and that may tell of
// changes.
type Primary struct {
	Address string `yaml:"address"` // with a port, if it is not 53, or 853 with TLS
	Key     string `yaml:"key"`
	// TLS is the name in its certificate, if the zone is fetched over TLS (RFC
	// 9103); CA is a PEM file of roots it is verified with, default the system's.
	TLS string `yaml:"tls"`
	CA  string `yaml:"ca"`
}

// in gives the settings with paths that are relative to dir made whole.
func (c Config) in(dir string) Config {
	whole := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	c.Folder = whole(c.Folder)
	c.Keys = slices.Clone(c.Keys)
	for i := range c.Keys {
		c.Keys[i].SecretFile = whole(c.Keys[i].SecretFile)
	}
	c.Sign = slices.Clone(c.Sign)
	for i := range c.Sign {
		keys := slices.Clone(c.Sign[i].Keys)
		for j := range keys {
			keys[j] = whole(keys[j])
		}
		c.Sign[i].Keys = keys
	}
	c.Secondaries = slices.Clone(c.Secondaries)
	for i := range c.Secondaries {
		primaries := slices.Clone(c.Secondaries[i].Primaries)
		for j := range primaries {
			primaries[j].CA = whole(primaries[j].CA)
		}
		c.Secondaries[i].Primaries = primaries
	}
	return c
}

// address reads an IP address with a port or without.
func address(s string, port uint16) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(a.Unmap(), port), nil
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address such as 192.0.2.1 or [2001:db8::1]:5353", s)
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
}

// origins reads names of zones.
func origins(names []string) ([]string, error) {
	var out []string
	for i, name := range names {
		if _, ok := dns.IsDomainName(name); !ok || name == "" {
			return nil, filter.Setting(fmt.Sprintf("[%d]", i), fmt.Errorf("%q is no domain name", name))
		}
		out = append(out, dns.CanonicalName(name))
	}
	return out, nil
}

// key finds a key by its name; an empty name is no key.
func (keys Keys) key(name string) (*Key, error) {
	if name == "" {
		return nil, nil
	}
	k := keys[dns.CanonicalName(name)]
	if k == nil {
		return nil, fmt.Errorf("there is no key %q: tsig has the keys", name)
	}
	return k, nil
}

type allowed struct {
	zones    []string
	networks []netip.Prefix
	key      *Key
	tls      bool
	view     string
}

type told struct {
	zones   []string
	address netip.AddrPort
	key     *Key
	view    string
}

type upstream struct {
	address netip.AddrPort
	key     *Key
	tls     *tls.Config // nil without
}

func covers(zones []string, origin string) bool {
	return len(zones) == 0 || slices.Contains(zones, origin)
}

// allow reads one rule.
func (keys Keys) allow(c Allow) (allowed, error) {
	zones, err := origins(c.Zones)
	if err != nil {
		return allowed{}, filter.Setting("zones", err)
	}
	key, err := keys.key(c.Key)
	if err != nil {
		return allowed{}, filter.Setting("key", err)
	}
	if key == nil && len(c.Networks) == 0 {
		return allowed{}, filter.Setting("networks", errors.New("neither networks nor a key: this would let everybody fetch the zones; say 0.0.0.0/0 and ::/0 if that is meant"))
	}
	return allowed{zones, c.Networks, key, c.TLS, c.View}, nil
}

func (keys Keys) tell(c Tell) (told, error) {
	zones, err := origins(c.Zones)
	if err != nil {
		return told{}, filter.Setting("zones", err)
	}
	a, err := address(c.Address, 53)
	if err != nil {
		return told{}, filter.Setting("address", err)
	}
	key, err := keys.key(c.Key)
	if err != nil {
		return told{}, filter.Setting("key", err)
	}
	return told{zones, a, key, c.View}, nil
}

func (keys Keys) primary(c Primary) (upstream, error) {
	port := uint16(53)
	if c.TLS != "" {
		port = 853
	}
	a, err := address(c.Address, port)
	if err != nil {
		return upstream{}, filter.Setting("address", err)
	}
	key, err := keys.key(c.Key)
	if err != nil {
		return upstream{}, filter.Setting("key", err)
	}
	u := upstream{address: a, key: key}
	if c.TLS == "" {
		if c.CA != "" {
			return upstream{}, filter.Setting("ca", errors.New("there is no name to look for in a certificate: tls has it"))
		}
		return u, nil
	}
	if _, ok := dns.IsDomainName(c.TLS); !ok {
		return upstream{}, filter.Setting("tls", fmt.Errorf("%q is no name of a certificate", c.TLS))
	}
	u.tls = &tls.Config{ServerName: strings.TrimSuffix(c.TLS, "."), NextProtos: []string{"dot"}, MinVersion: tls.VersionTLS13} // RFC 9103 section 7.1
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return upstream{}, filter.Setting("ca", err)
		}
		u.tls.RootCAs = x509.NewCertPool()
		if !u.tls.RootCAs.AppendCertsFromPEM(pem) {
			return upstream{}, filter.Setting("ca", fmt.Errorf("%q has no certificates in PEM form", c.CA))
		}
	}
	return u, nil
}

// rootName stands for the root in names of files: no other name is spelt so.
const rootName = "%2E"

// fileName is what a file of a zone is called: no two zones share a name.
func fileName(n id, ending string) string {
	name := url.PathEscape(strings.TrimSuffix(n.origin, "."))
	if name == "" {
		name = rootName
	}
	if n.view != "" {
		name += "@" + url.PathEscape(n.view)
	}
	if len(name) > 200 { // a file's may have 255, with what is behind it while it is written
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:])
	}
	return name + ending
}

// file is where something of a zone is kept. What lies there under the name that
// earlier versions gave it is taken over.
func (s *Server) file(n id, ending, before string) string {
	path := filepath.Join(s.folder, fileName(n, ending))
	if old := filepath.Join(s.folder, before); before != "" && old != path {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			_ = os.Rename(old, path) // most have none
		}
	}
	return path
}
