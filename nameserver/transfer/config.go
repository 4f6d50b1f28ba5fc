package transfer

import (
	"errors"
	"fmt"
	"net/netip"
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
	Address string `yaml:"address"` // with a port, if it is not 53
	Key     string `yaml:"key"`
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
	return c
}

// address reads an IP address with or without a port.
func address(s string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(a.Unmap(), 53), nil
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
	return allowed{zones, c.Networks, key, c.View}, nil
}

func (keys Keys) tell(c Tell) (told, error) {
	zones, err := origins(c.Zones)
	if err != nil {
		return told{}, filter.Setting("zones", err)
	}
	a, err := address(c.Address)
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
	a, err := address(c.Address)
	if err != nil {
		return upstream{}, filter.Setting("address", err)
	}
	key, err := keys.key(c.Key)
	if err != nil {
		return upstream{}, filter.Setting("key", err)
	}
	return upstream{a, key}, nil
}

// fileName is where a zone is kept: its name without the last dot, and nothing
// in it that leads elsewhere.
func fileName(origin string) string {
	name := strings.TrimSuffix(origin, ".")
	if name == "" {
		name = "root"
	}
	return strings.NewReplacer("/", "_", "\\", "_").Replace(name) + ".zone"
}
