package transfer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/setting"
	"shuultuur/zone"
	"shuultuur/zone/sign"
)

// Config sets which zones are signed, which clients may fetch zones, which servers are
// notified of changes, and which zones are fetched.
type Config struct {
	Keys   []KeyConfig `yaml:"tsig,omitempty" role:"owner"`
	Sign   []Sign      `yaml:"sign,omitempty"`
	Allow  []Allow     `yaml:"allow,omitempty"` // none: no client
	Notify []Notify    `yaml:"notify,omitempty"`
	Update []Update    `yaml:"update,omitempty" role:"owner"` // none: nobody
	// Serial says how zones that are read here get their serial: keep, increment or unixtime.
	// Default: keep, and unixtime for zones that are signed here.
	Serial      string      `yaml:"serial,omitempty"`
	Secondaries []Secondary `yaml:"secondary,omitempty"`
	// Catalogs are catalog zones of our zones (RFC 9432).
	Catalogs []Catalog `yaml:"catalogs,omitempty"`
	// Folder keeps secondary zones over a restart. For zones that are signed here or may be
	// fetched it keeps serials, signatures and differences; without a folder these are lost at
	// a restart.
	Folder setting.Folder `yaml:"folder,omitempty" role:"owner"`
}

// Sign sets which zones are signed here, wherever they come from.
type Sign struct {
	Zones       []string `yaml:"zones"`
	sign.Config `yaml:",inline"`
}

// Allow lets clients fetch zones: those in one of the networks, those that sign with the key,
// or if both are given, those that do both. The first rule that matches applies.
type Allow struct {
	Zones    []string         `yaml:"zones,omitempty"` // none: all
	Networks setting.Networks `yaml:"networks,omitempty" names:"people"`
	Key      string           `yaml:"key,omitempty"`
	TLS      bool             `yaml:"tls,omitempty"` // over TLS only
	// View is the view to send; default: the one that answers the client's queries.
	View string `yaml:"view,omitempty"`
}

// Update lets those who sign with a key update zones (RFC 2136). The first rule that matches applies.
type Update struct {
	Zones []string `yaml:"zones,omitempty"` // none: all
	Key   string   `yaml:"key"`
	// View is the view to update; default: the one that answers the client's queries.
	View string `yaml:"view,omitempty"`
}

// Notify is a secondary to notify of changes (NOTIFY).
type Notify struct {
	Zones   []string `yaml:"zones,omitempty"` // none: all
	Address string   `yaml:"address"`         // with a port, unless it is 53
	Key     string   `yaml:"key,omitempty"`
	View    string   `yaml:"view,omitempty"` // only of changes of this view
}

// Secondary is a zone that is fetched from other servers.
type Secondary struct {
	Zone      string    `yaml:"zone"`
	Primaries []Primary `yaml:"primaries"`
	// Catalog marks a catalog zone (RFC 9432): the zones that it lists are fetched from the same
	// primaries.
	Catalog bool `yaml:"catalog,omitempty"`
	// MaxBytes bounds the zone in wire form; default 512 MiB.
	MaxBytes setting.Size `yaml:"max-bytes,omitempty"`
}

// Primary is a server from which a zone is fetched, and which may send NOTIFY.
type Primary struct {
	Address string `yaml:"address"` // with a port, unless it is 53, or 853 with TLS
	Key     string `yaml:"key,omitempty"`
	// TLS is the name in the primary's certificate, if the zone is fetched over TLS (RFC 9103).
	// CA is a PEM file of root certificates; default: the system's.
	TLS string       `yaml:"tls,omitempty"`
	CA  setting.File `yaml:"ca,omitempty"`
}

// address parses an IP address with or without a port.
func address(s string, port uint16) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(a.Unmap(), port), nil
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address such as 192.0.2.1 or [2001:db8::1]:5353", s)
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
}

// origins parses names of zones.
func origins(names []string) ([]string, error) {
	var out []string
	for i, name := range names {
		if _, ok := miekg.IsDomainName(name); !ok || name == "" {
			return nil, setting.At(fmt.Sprintf("[%d]", i), fmt.Errorf("%q is not a domain name", name))
		}
		out = append(out, zone.Canonical(name))
	}
	return out, nil
}

// key returns a key by its name; an empty name means no key.
func (keys Keys) key(name string) (*Key, error) {
	if name == "" {
		return nil, nil
	}
	k := keys[zone.Canonical(name)]
	if k == nil {
		return nil, fmt.Errorf("there is no key %q: tsig has the keys", name)
	}
	return k, nil
}

type accessRule struct {
	zones    []string
	networks []netip.Prefix
	key      *Key
	tls      bool
	view     string
}

type notifyRule struct {
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

// allow compiles one rule.
func (keys Keys) allow(c Allow) (accessRule, error) {
	zones, err := origins(c.Zones)
	if err != nil {
		return accessRule{}, setting.At("zones", err)
	}
	key, err := keys.key(c.Key)
	if err != nil {
		return accessRule{}, setting.At("key", err)
	}
	if key == nil && len(c.Networks) == 0 {
		return accessRule{}, setting.At("networks", errors.New("neither networks nor a key: anybody could fetch the zones; write 0.0.0.0/0 and ::/0 if you mean that"))
	}
	return accessRule{zones, c.Networks, key, c.TLS, c.View}, nil
}

func (keys Keys) update(c Update) (accessRule, error) {
	zones, err := origins(c.Zones)
	if err != nil {
		return accessRule{}, setting.At("zones", err)
	}
	if c.Key == "" {
		return accessRule{}, setting.At("key", errors.New("there is no key: anybody could change the zones; name one of tsig"))
	}
	key, err := keys.key(c.Key)
	if err != nil {
		return accessRule{}, setting.At("key", err)
	}
	return accessRule{zones: zones, key: key, view: c.View}, nil
}

func (keys Keys) notify(c Notify) (notifyRule, error) {
	zones, err := origins(c.Zones)
	if err != nil {
		return notifyRule{}, setting.At("zones", err)
	}
	a, err := address(c.Address, 53)
	if err != nil {
		return notifyRule{}, setting.At("address", err)
	}
	key, err := keys.key(c.Key)
	if err != nil {
		return notifyRule{}, setting.At("key", err)
	}
	return notifyRule{zones, a, key, c.View}, nil
}

func (keys Keys) primary(c Primary) (upstream, error) {
	port := uint16(53)
	if c.TLS != "" {
		port = 853
	}
	a, err := address(c.Address, port)
	if err != nil {
		return upstream{}, setting.At("address", err)
	}
	key, err := keys.key(c.Key)
	if err != nil {
		return upstream{}, setting.At("key", err)
	}
	u := upstream{address: a, key: key}
	if c.TLS == "" {
		if c.CA != "" {
			return upstream{}, setting.At("ca", errors.New("there is no name for the certificate: give it under tls"))
		}
		return u, nil
	}
	if _, ok := miekg.IsDomainName(c.TLS); !ok {
		return upstream{}, setting.At("tls", fmt.Errorf("%q is not the name of a certificate", c.TLS))
	}
	roots, err := c.CA.Roots()
	if err != nil {
		return upstream{}, setting.At("ca", err)
	}
	u.tls = &tls.Config{RootCAs: roots, ServerName: strings.TrimSuffix(c.TLS, "."), NextProtos: []string{"dot"}, MinVersion: tls.VersionTLS13} // RFC 9103 section 7.1
	return u, nil
}

// fileName returns the name of a file about a zone.
func fileName(n id, ending string) string {
	name := strings.TrimSuffix(n.origin, ".")
	if n.view != "" {
		name += "@" + n.view
	}
	return zone.FileName(name) + ending
}

// File returns the path of a secondary zone's zone file in a folder.
func File(folder, origin string) string {
	return filepath.Join(folder, fileName(id{zone.Canonical(origin), ""}, ".zone"))
}

// file returns the path of a file about a zone.
func (s *Server) file(n id, ending string) string {
	return filepath.Join(s.folder, fileName(n, ending))
}
