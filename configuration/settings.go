// Package configuration is the settings file of a gateway: which parts have
// settings under which key, and what follows from several of them together,
// such as where clients find the portal. Each part declares its own settings.
//
// Data moves so. [Read] turns a file into [Settings]; package engine builds
// parts from them. The functions that take a file are for commands, which look
// at what a gateway with these settings has, beside one that runs or not.
package configuration

import (
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/alert"
	"shuultuur/admin/mail"
	"shuultuur/admin/report"
	"shuultuur/cache"
	"shuultuur/check"
	"shuultuur/event"
	"shuultuur/icap"
	"shuultuur/identity"
	"shuultuur/list/collection"
	"shuultuur/nameserver"
	"shuultuur/policy"
	"shuultuur/portal"
	"shuultuur/proxy"
	"shuultuur/resolver"
	"shuultuur/resolver/forward"
	"shuultuur/setting"
	"shuultuur/state"
	"shuultuur/vote/booth"
	"shuultuur/zone"
	"shuultuur/zone/authority"
	"shuultuur/zone/redins"
	"shuultuur/zone/transfer"
)

// Settings are one settings file. Each part declares its own settings; this
// type only says under which key they are.
type Settings struct {
	Listen    Listen                 `yaml:"listen"`
	Data      setting.Folder         `yaml:"data"` // folder for compiled lists, events, keys; default "data"
	Lists     collection.Config      `yaml:"lists"`
	Checks    check.Config           `yaml:"checks"`
	Policies  policy.Config          `yaml:"policies"`
	Identity  identity.Config        `yaml:"identity"`
	Proxy     proxy.Config           `yaml:"proxy"`
	Cache     *cache.Config          `yaml:"cache"` // nil: nothing is stored
	ICAP      icap.Config            `yaml:"icap"`
	Pages     Pages                  `yaml:"pages"`
	Intercept *proxy.InterceptConfig `yaml:"intercept"`
	Events    event.Config           `yaml:"events"`
	State     state.Config           `yaml:"state"`
	Votes     *booth.Config          `yaml:"votes"` // nil: nobody votes
	Access    admin.Config           `yaml:"access"`
	Portal    portal.Config          `yaml:"portal"`
	Mail      *mail.Config           `yaml:"mail"`   // nil: no mail is sent
	Alerts    *alert.Config          `yaml:"alerts"` // nil: nobody is told
	Reports   []report.Schedule      `yaml:"reports"`
	DNS       *DNS                   `yaml:"dns"` // nil: no name server

	Text  *setting.Text `yaml:"-"`
	Dir   string        `yaml:"-"` // of the file
	Stamp string        `yaml:"-"` // of the file, from before it was read
}

// DNS are the settings of the name server.
type DNS struct {
	Server  nameserver.Config    `yaml:",inline"`
	Names   resolver.Config      `yaml:",inline"`
	Forward forward.Config       `yaml:"forward"`
	Cache   resolver.CacheConfig `yaml:"cache"`
	Zones   authority.Config     `yaml:"zones"`
	Redis   *redins.Config       `yaml:"redis"` // zones in redins' layout; nil for none
}

// Listen says where the gateway listens.
type Listen struct {
	Proxy setting.OneOrMore[setting.Address] `yaml:"proxy"` // default 127.0.0.1:8080
	// Transparent and TPROXY are where a firewall sends the connections of
	// clients that know of no proxy: with the destination changed (REDIRECT,
	// ipfw fwd) and with it kept (TPROXY). Default none.
	Transparent setting.OneOrMore[setting.Address] `yaml:"transparent"`
	TPROXY      setting.OneOrMore[setting.Address] `yaml:"tproxy"`
	// Sinkhole is where the name server sends clients that asked for a blocked
	// name, usually ports 80 and 443 of the addresses under dns: block:
	// sinkhole. Default none.
	Sinkhole setting.OneOrMore[setting.Address] `yaml:"sinkhole"`
	// ICAP and ICAPS are where proxies of others ask, without and with TLS.
	// Default none.
	ICAP  setting.OneOrMore[setting.Address] `yaml:"icap"`
	ICAPS setting.OneOrMore[setting.Address] `yaml:"icaps"`
	// RADIUS is where access points and VPNs send RADIUS accounting (UDP),
	// usually port 1813. Default none.
	RADIUS setting.OneOrMore[setting.Address] `yaml:"radius"`
	// Portal and PortalTLS are where clients find the pages for them, without and
	// with TLS: the proxy configuration, profiles, the page to sign in on. Default
	// none.
	Portal    setting.OneOrMore[setting.Address] `yaml:"portal"`
	PortalTLS setting.OneOrMore[setting.Address] `yaml:"portal-tls"`
	// Squid is the unix socket on which helpers of Squid ask. Default none.
	Squid setting.Folder                     `yaml:"squid"`
	Admin setting.OneOrMore[setting.Address] `yaml:"admin"` // default 127.0.0.1:8081; "off" for none
	// Token opens the admin address to other machines; 16 bytes or more.
	// Without one it is for this machine only.
	Token string `yaml:"token"`
	// Monitors are the networks that may read metrics and health from the
	// admin address without the token. Default none.
	Monitors setting.OneOrMore[policy.Network] `yaml:"monitors"`
	// TLS is the certificate with which the proxy port answers clients that
	// speak TLS to the proxy itself ("HTTPS proxy"). An admin address that
	// other machines reach speaks TLS with it, and needs it.
	TLS *KeyPair `yaml:"tls"`
}

// A KeyPair names a certificate and its key, both PEM.
type KeyPair struct {
	Cert setting.File `yaml:"cert"`
	Key  setting.File `yaml:"key"`
}

// Pages says how block and warn pages look.
type Pages struct {
	Templates setting.File `yaml:"templates"` // folder with templates that replace the built-in ones
	Contact   string       `yaml:"contact"`   // whom a blocked person may ask
}

// Read reads a settings file: syntax, unknown keys, values of the wrong kind.
// Every mistake found is in the error, [setting.Mistakes]. What the settings
// mean is for the parts to say when they are built.
func Read(file string) (*Settings, error) {
	s := &Settings{Stamp: setting.Stamp(file, time.Time{})}
	var err error
	if s.Text, err = setting.ReadFile(file, s); err != nil {
		return nil, err
	}
	s.complete()
	return s, nil
}

// Parse is Read for settings already in memory; file is what mistakes name
// and what relative paths are relative to.
func Parse(file string, data []byte) (*Settings, error) {
	s := &Settings{Stamp: setting.Stamp(file, time.Time{})}
	var err error
	if s.Text, err = setting.Read(file, data, s); err != nil {
		return nil, err
	}
	s.complete()
	return s, nil
}

// Moved returns the same settings with the paths of files changed.
func (s *Settings) Moved(to func(path string) string) (*Settings, error) {
	c := &Settings{Text: s.Text, Stamp: s.Stamp}
	if err := s.Text.Again(c); err != nil {
		return nil, err
	}
	c.complete()
	setting.Move(c, to)
	return c, nil
}

func (s *Settings) complete() {
	s.Dir = filepath.Dir(s.Text.File)
	if s.Data == "" {
		s.Data = setting.Folder(filepath.Join(s.Dir, "data"))
	}
	s.Listen.Proxy = s.Listen.Proxy.Or("127.0.0.1:8080")
	s.Listen.Admin = s.Listen.Admin.Or("127.0.0.1:8081")
	if d := s.DNS; d != nil {
		if d.Zones.Transfer.Folder == "" {
			d.Zones.Transfer.Folder = setting.Folder(filepath.Join(string(s.Data), "zones"))
		}
		for name, l := range s.Lists {
			if l.Zone == "" {
				continue
			}
			for _, z := range d.Zones.Transfer.Secondaries {
				if zone.Canonical(z.Zone) == zone.Canonical(l.Zone) {
					l.ZoneFile = transfer.File(string(d.Zones.Transfer.Folder), l.Zone)
				}
			}
			s.Lists[name] = l
		}
	}
}

// ClientNames are the settings of what devices are called: hosts files that the
// name server answers from count too.
func (s *Settings) ClientNames() identity.NamesConfig {
	cfg := s.Identity.Names
	if s.DNS != nil {
		for _, f := range s.DNS.Names.HostsFiles {
			if f := setting.Source(f); !slices.Contains(cfg.Hosts, f) {
				cfg.Hosts = append(slices.Clip(cfg.Hosts), f)
			}
		}
	}
	return cfg
}

// AdminURL is the URL of the admin address, "" when there is none.
func (s *Settings) AdminURL() string {
	if len(s.Listen.Admin) == 0 {
		return ""
	}
	at := string(s.Listen.Admin[0])
	host, port, err := net.SplitHostPort(at)
	if ip, bad := netip.ParseAddr(host); err == nil && (host == "" || bad == nil && ip.IsUnspecified()) {
		at = net.JoinHostPort("localhost", port)
	}
	if s.AdminTLS() {
		return "https://" + at
	}
	return "http://" + at
}

// AdminTLS says whether the admin address speaks TLS: other machines reach it.
func (s *Settings) AdminTLS() bool {
	return slices.ContainsFunc(s.Listen.Admin, func(a setting.Address) bool { return !a.AddrPort().Addr().IsLoopback() })
}
