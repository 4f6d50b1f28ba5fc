// Package configuration defines the settings file of a gateway: which part has its settings
// under which key, and values that follow from several of them, such as where clients find
// the portal. Each part declares its own settings.
//
// [Read] turns a file into [Settings]; package engine builds parts from them. Functions that
// take a file are for commands, which use a gateway's data whether it runs or not.
package configuration

import (
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"shuultuur/admin/accounts"
	"shuultuur/admin/alert"
	"shuultuur/admin/mail"
	"shuultuur/admin/report"
	"shuultuur/cache"
	"shuultuur/check"
	"shuultuur/event/record"
	"shuultuur/fleet/bundle"
	"shuultuur/icap"
	"shuultuur/identity"
	"shuultuur/lib/certificate"
	"shuultuur/lib/release/notice"
	"shuultuur/lib/setting"
	"shuultuur/list/collection"
	"shuultuur/nameserver"
	"shuultuur/policy"
	"shuultuur/portal"
	"shuultuur/proxy"
	"shuultuur/resolver"
	"shuultuur/resolver/forward"
	"shuultuur/state"
	"shuultuur/vote/booth"
	"shuultuur/zone"
	"shuultuur/zone/authority"
	"shuultuur/zone/redins"
	"shuultuur/zone/transfer"
)

// Settings are a settings file. Each part declares its own settings; this type only assigns
// their keys.
type Settings struct {
	Listen    Listen                 `yaml:"listen" role:"owner"`
	Data      setting.Folder         `yaml:"data" role:"owner"` // folder for compiled lists, events, keys; default "data"
	Lists     collection.Config      `yaml:"lists"`
	Checks    check.Config           `yaml:"checks"`
	Policies  policy.Config          `yaml:"policies"`
	Identity  identity.Config        `yaml:"identity"`
	Proxy     proxy.Config           `yaml:"proxy"`
	ACME      *certificate.Config    `yaml:"acme" role:"owner"` // nil: no certificate is ordered
	Cache     *cache.Config          `yaml:"cache"`             // nil: nothing is stored
	ICAP      icap.Config            `yaml:"icap"`
	Pages     Pages                  `yaml:"pages"`
	Intercept *proxy.InterceptConfig `yaml:"intercept"`
	Events    record.Config          `yaml:"events" role:"owner" two:"people"`
	State     state.Config           `yaml:"state" role:"owner"`
	Votes     *booth.Config          `yaml:"votes"` // nil: no votes
	Access    accounts.Config        `yaml:"access" role:"owner" two:"people"`
	Portal    portal.Config          `yaml:"portal"`
	Mail      *mail.Config           `yaml:"mail" role:"owner" two:"people"` // nil: no mail is sent
	Alerts    *alert.Config          `yaml:"alerts"`                         // nil: no alerts
	Reports   []report.Schedule      `yaml:"reports" role:"owner" two:"people"`
	DNS       *DNS                   `yaml:"dns"`                // nil: no name server
	Fleet     *bundle.Config         `yaml:"fleet" role:"owner"` // nil: no bundles are taken or offered
	Updates   notice.URL             `yaml:"updates"`            // where to ask for the newest version; default off

	Text  *setting.Text `yaml:"-"`
	Dir   string        `yaml:"-"` // of the file
	Stamp string        `yaml:"-"` // stamp of the file from before it was read
}

// DNS are the settings of the name server.
type DNS struct {
	Server  nameserver.Config    `yaml:",inline"`
	Names   resolver.Config      `yaml:",inline"`
	Forward forward.Config       `yaml:"forward"`
	Cache   resolver.CacheConfig `yaml:"cache"`
	Zones   authority.Config     `yaml:"zones"`
	Redis   *redins.Config       `yaml:"redis" role:"owner"` // zones in Redis; nil for none
}

// Listen sets the addresses that the gateway listens on.
type Listen struct {
	Proxy setting.OneOrMore[setting.Address] `yaml:"proxy"` // default 127.0.0.1:8080, none beside other servers of people
	// Transparent and TPROXY receive connections that a firewall redirects: with the destination
	// changed (REDIRECT, ipfw fwd), or kept (TPROXY). Default none.
	Transparent setting.OneOrMore[setting.Address] `yaml:"transparent"`
	TPROXY      setting.OneOrMore[setting.Address] `yaml:"tproxy"`
	// Sinkhole receives clients that were given its address for a blocked name, usually on ports
	// 80 and 443 of the addresses under dns: block: sinkhole. Default none.
	Sinkhole setting.OneOrMore[setting.Address] `yaml:"sinkhole"`
	// ICAP and ICAPS receive requests of other proxies, without and with TLS. Default none.
	ICAP  setting.OneOrMore[setting.Address] `yaml:"icap"`
	ICAPS setting.OneOrMore[setting.Address] `yaml:"icaps"`
	// RADIUS receives RADIUS accounting (UDP) of access points and VPNs, usually on port 1813.
	// Default none.
	RADIUS setting.OneOrMore[setting.Address] `yaml:"radius"`
	// Portal and PortalTLS serve the pages for clients, without and with TLS: the proxy
	// configuration, profiles, the sign-in page. Default none.
	Portal    setting.OneOrMore[setting.Address] `yaml:"portal"`
	PortalTLS setting.OneOrMore[setting.Address] `yaml:"portal-tls"`
	// Squid is the unix socket for Squid's helpers. Default none.
	Squid setting.Folder                     `yaml:"squid"`
	Admin setting.OneOrMore[setting.Address] `yaml:"admin"` // default 127.0.0.1:8081; "off" for none
	// Token permits other machines to use the admin address; at least 16 bytes. Without it, only
	// this machine may.
	Token string `yaml:"token" secret:"yes" two:"people"`
	// Monitors are the networks that may read metrics and health without the token. Default
	// none.
	Monitors setting.OneOrMore[policy.Network] `yaml:"monitors" names:"people"`
	// TLS is the certificate of the proxy port for clients that use TLS to the proxy itself
	// ("HTTPS proxy"), and of the pages that other machines can reach. Without it, intercept.root signs
	// certificates for those.
	TLS *KeyPair `yaml:"tls"`
}

// A KeyPair names a certificate and its key, both PEM.
type KeyPair struct {
	Cert setting.File `yaml:"cert"`
	Key  setting.File `yaml:"key"`
}

// Pages sets how the pages look that people behind the filter meet.
type Pages struct {
	Templates setting.File `yaml:"templates"` // folder with templates that replace the built-in ones
	Name      string       `yaml:"name"`      // whose network it is
	Contact   string       `yaml:"contact"`   // whom a blocked user may contact
	// Children are the policies whose block pages speak to children.
	Children setting.OneOrMore[string] `yaml:"children"`
}

// Read reads a settings file: syntax, unknown keys, values of the wrong type. The error has
// every mistake, [setting.Mistakes]. The parts check the meaning when they are built.
func Read(file string) (*Settings, error) { return ReadAs(file, file) }

// ReadAs is Read for a copy of a settings file elsewhere: as is the name in mistakes, and the base of
// relative paths.
func ReadAs(file, as string) (*Settings, error) {
	s := &Settings{Stamp: setting.Stamp(as, time.Time{})}
	var err error
	if s.Text, err = setting.ReadFileAs(file, as, s); err != nil {
		return nil, err
	}
	if err := s.complete(); err != nil {
		return nil, err
	}
	return s, nil
}

// Parse is Read for settings in memory; file is the name in mistakes, and the base of relative
// paths.
func Parse(file string, data []byte) (*Settings, error) {
	s := &Settings{Stamp: setting.Stamp(file, time.Time{})}
	var err error
	if s.Text, err = setting.Read(file, data, s); err != nil {
		return nil, err
	}
	if err := s.complete(); err != nil {
		return nil, err
	}
	return s, nil
}

// WithPaths returns the same settings with other paths.
func (s *Settings) WithPaths(to func(path string) string) (*Settings, error) {
	c := &Settings{Text: s.Text, Stamp: s.Stamp}
	if err := s.Text.DecodeInto(c); err != nil {
		return nil, err
	}
	if err := c.complete(); err != nil {
		return nil, err
	}
	setting.Move(c, to)
	return c, nil
}

// servesOthers reports whether the settings name another server of people than the proxy. Who wants a
// name server alone gets no proxy unasked.
func (s *Settings) servesOthers() bool {
	l := &s.Listen
	return s.DNS != nil || l.Squid != "" || len(l.Transparent)+len(l.TPROXY)+len(l.Sinkhole)+len(l.ICAP)+len(l.ICAPS) > 0
}

// complete fills in what depends on other settings.
func (s *Settings) complete() error {
	s.Dir = filepath.Dir(s.Text.File)
	if s.Data == "" {
		s.Data = setting.Folder(filepath.Join(s.Dir, "data"))
	}
	if !s.servesOthers() {
		s.Listen.Proxy = s.Listen.Proxy.Or("127.0.0.1:8080")
	}
	s.Listen.Admin = s.Listen.Admin.Or("127.0.0.1:8081")
	if d := s.DNS; d != nil {
		s.Proxy.Upstream.NAT64 = d.Names.DNS64.Prefix
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
	var err error
	if s.Policies, err = s.Policies.Complete(func(key string) bool { return s.Text.Has("policies" + key) }); err != nil {
		return s.Text.Mistakes(setting.At("policies", err))
	}
	return nil
}

// ClientNames returns the settings for names of devices, including the hosts files of the name
// server.
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

// AdminURL returns the URL of the admin address, "" if there is none.
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

// AdminTLS reports whether the first admin address uses TLS, because other machines can reach it.
func (s *Settings) AdminTLS() bool {
	return len(s.Listen.Admin) > 0 && !s.Listen.Admin[0].AddrPort().Addr().IsLoopback()
}
