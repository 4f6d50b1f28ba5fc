package nameserver

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
	"shuultuur/nameserver/batch"
)

// Config sets where the name server listens, whom it answers and how much.
type Config struct {
	Listen setting.OneOrMore[string] `yaml:"listen" role:"owner"` // UDP and TCP
	TLS    setting.OneOrMore[string] `yaml:"tls" role:"owner"`    // DNS over TLS
	HTTPS  setting.OneOrMore[string] `yaml:"https" role:"owner"`  // DNS over HTTPS: HTTP/1.1, HTTP/2 and, on the same port of UDP, HTTP/3
	QUIC   setting.OneOrMore[string] `yaml:"quic" role:"owner"`   // DNS over QUIC
	HTTP   setting.OneOrMore[string] `yaml:"http" role:"owner"`   // DNS over HTTPS behind a proxy that ends TLS: HTTP/1.1 and HTTP/2 without TLS
	// Cert and Key are PEM files for tls, https and quic; read again when they
	// change.
	Cert setting.File `yaml:"cert" role:"owner"`
	Key  setting.File `yaml:"key" role:"owner"`
	// Name is our name in the certificate, which answers to discovery (RFC 9462)
	// contain; default the first name in the certificate. Clients may prepend their
	// ClientID, as in alices-phone.dns.example.com.
	Name string `yaml:"name"`
	Path string `yaml:"path"` // of DNS over HTTPS; default /dns-query
	JSON bool   `yaml:"json"` // answer /dns-query?name=example.com in JSON

	// Trusted lists networks of load balancers whose PROXY protocol header is
	// trusted on tcp, tls, https and http, and on http their X-Forwarded-For.
	Trusted setting.OneOrMore[netip.Prefix] `yaml:"trusted"`
	Deny    setting.OneOrMore[netip.Prefix] `yaml:"deny" names:"people"`  // networks that get no answer at all
	Allow   setting.OneOrMore[netip.Prefix] `yaml:"allow" names:"people"` // networks that are answered, others get REFUSED; default all
	// Recursion lists networks that may use us as a resolver; default loopback,
	// private and link-local networks. RRL does not limit them.
	Recursion setting.OneOrMore[netip.Prefix] `yaml:"recursion" names:"people"`

	UDPSize setting.Size  `yaml:"udp-size"` // longest reply over UDP, 512 to 4096 bytes; default 1232
	Rate    setting.Count `yaml:"rate"`     // queries per second of one client (IPv6: /56); default off
	RRL     RRL           `yaml:"rrl"`
	Cookies Cookies       `yaml:"cookies"`
	NSID    string        `yaml:"nsid"`    // our name, for queries with NSID or for id.server; default none
	Version string        `yaml:"version"` // answer to version.bind; default none
	// Dnstap is where all queries and replies are sent to: the path of a Unix socket, or
	// tcp://HOST:PORT; default nowhere.
	Dnstap string `yaml:"dnstap" role:"owner"`

	Sockets     setting.Count    `yaml:"sockets"`     // per address of UDP; default one for each processor, at most 16
	Connections setting.Count    `yaml:"connections"` // concurrent connections of all kinds; default 1024
	PerClient   setting.Count    `yaml:"per-client"`  // concurrent connections of one address; default 64
	Pipeline    setting.Count    `yaml:"pipeline"`    // queries of one connection in progress; default 64
	Idle        setting.Duration `yaml:"idle"`        // after which a connection without queries is closed; default 30s
	Workers     setting.Count    `yaml:"workers"`     // concurrent queries that wait for other servers; default 512
	Queue       setting.Count    `yaml:"queue"`       // queries that wait for a worker; default 2048
	Wait        setting.Duration `yaml:"wait"`        // longest time for one query; default 5s
	Log         setting.Count    `yaml:"log"`         // most queries recorded per second; default 1000

	// Uncertified ignores Cert and Key: every TLS handshake fails until the
	// settings change.
	Uncertified bool `yaml:"-"`
	// Certificate gives the certificate if Cert names none; nil if nothing does.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error) `yaml:"-"`
}

// RRL limits similar UDP replies to one network (IPv4: /24, IPv6: /56), because
// an attacker may forge that network's addresses.
type RRL struct {
	Rate setting.Count `yaml:"rate"` // per second; default 200
	// Slip is n if one of n limited replies is sent truncated, so that a real
	// client tries again over TCP; default 2.
	Slip setting.Count `yaml:"slip"`
}

// Cookies sets the DNS cookies of RFC 7873 and 9018.
type Cookies struct {
	// Mode is "on" (default), "off", or "require": a client that sends a client
	// cookie over UDP must also send ours, or it gets BADCOOKIE.
	Mode string `yaml:"mode"`
	// Secret is 32 hexadecimal digits, for servers that share an address; default
	// random at each start.
	Secret string `yaml:"secret" role:"owner" secret:"yes"`
}

// limits are the numbers of a Config with defaults applied.
type limits struct {
	sockets, connections, perClient, pipeline, workers, queue int
	idle, wait                                                time.Duration

	udpSize, rate, rrl, slip, log int // 0 for off
}

func (c *Config) limits(processors int) (l limits, err error) {
	for _, n := range []struct {
		key      string
		v        setting.Count
		to       *int
		def, max int
		off      bool // "off" is accepted
	}{
		{"udp-size", setting.Count(c.UDPSize), &l.udpSize, 1232, batch.OutBytes - tsigRoom, false},
		{"rate", c.Rate, &l.rate, 0, 1e6, true},
		{"rrl.rate", c.RRL.Rate, &l.rrl, 200, 1e6, true},
		{"rrl.slip", c.RRL.Slip, &l.slip, 2, 1000, true},
		{"sockets", c.Sockets, &l.sockets, min(processors, 16), 256, false},
		{"connections", c.Connections, &l.connections, 1024, 1 << 20, false},
		{"per-client", c.PerClient, &l.perClient, 64, 1 << 20, false},
		{"pipeline", c.Pipeline, &l.pipeline, 64, 1024, false},
		{"workers", c.Workers, &l.workers, 512, 1 << 16, false},
		{"queue", c.Queue, &l.queue, 2048, 1 << 20, false},
		{"log", c.Log, &l.log, 1000, 1e6, true},
	} {
		*n.to = n.v.Or(n.def)
		switch {
		case n.v.Off() && !n.off:
			return l, setting.At(n.key, fmt.Errorf("it cannot be off; write a number from 1 to %d", n.max))
		case *n.to > n.max:
			return l, setting.At(n.key, fmt.Errorf("%v is not a number from 1 to %d", n.v, n.max))
		}
	}
	if l.udpSize < 512 {
		return l, setting.At("udp-size", fmt.Errorf("%d is less than the 512 bytes that every client accepts", l.udpSize))
	}
	for _, d := range []struct {
		key string
		v   setting.Duration
		to  *time.Duration
		def time.Duration
	}{{"idle", c.Idle, &l.idle, 30 * time.Second}, {"wait", c.Wait, &l.wait, 5 * time.Second}} {
		if *d.to = d.v.Or(d.def); *d.to <= 0 || *d.to > time.Hour {
			return l, setting.At(d.key, fmt.Errorf("%v is not a time up to an hour", d.v))
		}
	}
	return l, nil
}

// path returns the path of DNS over HTTPS.
func (c *Config) path() (string, error) {
	if c.Path == "" {
		return "/dns-query", nil
	}
	if !strings.HasPrefix(c.Path, "/") || strings.ContainsAny(c.Path, "?#{} %") || len(c.Path) > 1 && strings.HasSuffix(c.Path, "/") {
		return "", setting.At("path", fmt.Errorf("%q is not a path such as /dns-query", c.Path))
	}
	return c.Path, nil
}

var privateNetworks = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10"),
}

// PrivateNetworks are those that may use the resolver unless the settings name
// others.
func PrivateNetworks() []netip.Prefix { return slices.Clone(privateNetworks) }

// addresses reads addresses: "192.0.2.1:53", "[::1]:53", or ":53" for every
// address of both families. "[::]:53" means the same, as for the proxy.
func addresses(key string, written []string, def uint16) ([]netip.AddrPort, error) {
	var all []netip.AddrPort
	add := func(a netip.AddrPort) {
		for _, x := range []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port()), a} {
			if (x == a || a.Addr() == netip.IPv6Unspecified()) && !slices.Contains(all, x) {
				all = append(all, x)
			}
		}
	}
	for i, text := range written {
		here := fmt.Sprintf("%s[%d]", key, i)
		if port, ok := strings.CutPrefix(text, ":"); ok && !strings.HasPrefix(port, ":") {
			four, err := netip.ParseAddrPort("0.0.0.0:" + port)
			if err != nil {
				return nil, setting.At(here, fmt.Errorf("%q has no port after the colon, such as :%d", text, def))
			}
			add(netip.AddrPortFrom(netip.IPv6Unspecified(), four.Port()))
			continue
		}
		if a, err := netip.ParseAddr(text); err == nil {
			add(netip.AddrPortFrom(a.Unmap(), def))
			continue
		}
		a, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, setting.At(here, fmt.Errorf("%q is not an address such as 127.0.0.1:%d, [::1]:%d or :%d", text, def, def, def))
		}
		add(netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
	}
	return all, nil
}

// places are the addresses that a server listens on.
type places struct{ plain, tls, https, quic, http []netip.AddrPort }

func (c *Config) places() (p places, err error) {
	for _, x := range []struct {
		key  string
		from []string
		def  uint16
		to   *[]netip.AddrPort
	}{
		{"listen", c.Listen, 53, &p.plain}, {"tls", c.TLS, 853, &p.tls}, {"https", c.HTTPS, 443, &p.https}, {"quic", c.QUIC, 853, &p.quic}, {"http", c.HTTP, 80, &p.http},
	} {
		if *x.to, err = addresses(x.key, x.from, x.def); err != nil {
			return p, err
		}
	}
	if release.Small && len(p.quic) > 0 {
		return p, setting.At("quic", release.Lacks("DNS over QUIC"))
	}
	if len(p.plain)+len(p.tls)+len(p.https)+len(p.quic)+len(p.http) == 0 {
		return p, setting.At("listen", errors.New(`no address to listen on; write for example listen: ["127.0.0.1:53"]`))
	}
	if len(p.tls)+len(p.https)+len(p.quic) > 0 && c.Cert == "" && c.Certificate == nil {
		return p, setting.At("cert", errors.New("tls, https and quic need a certificate; name it under cert and key, or have one sent by acme"))
	}
	if len(p.http) > 0 && len(c.Trusted) == 0 {
		return p, setting.At("http", errors.New("name the proxy in front of it under trusted, such as trusted: [127.0.0.1/32]: without it all clients would have its address"))
	}
	return p, nil
}

// Addresses returns the addresses that the server will listen on, of all
// transports.
func (c *Config) Addresses() []netip.AddrPort {
	p, _ := c.places() // New reports mistakes
	return slices.Concat(p.plain, p.tls, p.https, p.quic, p.http)
}

// HasHTTPS reports whether the server answers DNS over HTTPS on a port that other machines reach.
func (c *Config) HasHTTPS(port uint16) bool {
	p, _ := c.places() // New reports mistakes
	return slices.ContainsFunc(p.https, func(a netip.AddrPort) bool { return a.Port() == port && !a.Addr().IsLoopback() })
}

// rules are the part of a Config that a reload can change. They are immutable.
type rules struct {
	allow, deny, recursion, trusted *networks      // allow is nil for all
	proxies                         []netip.Prefix // trusted
	udpSize                         int
	rate, rrl                       int64 // microseconds between two; 0 for no limit
	slip                            uint32
	cookies                         mode
	nsid, version                   []byte
	idle                            time.Duration
	pipeline                        int
	log                             int64
	cert                            *tls.Certificate
	certificate                     func(*tls.ClientHelloInfo) (*tls.Certificate, error) // if there is no cert
	name                            []byte                                               // our name in wire form; nil if unknown
	suffix                          string                                               // "." and our name as text; "" if unknown
	json                            bool
}

type mode uint8

const (
	cookiesOn mode = iota
	cookiesOff
	cookiesRequired
)

func (c *Config) rules(l *limits) (*rules, error) {
	r := &rules{
		deny: newNetworks(c.Deny), recursion: newNetworks(c.Recursion.Or(privateNetworks...)), trusted: newNetworks(c.Trusted), proxies: c.Trusted,
		udpSize: l.udpSize, rate: interval(l.rate), rrl: interval(l.rrl), slip: uint32(l.slip),
		nsid: []byte(c.NSID), version: []byte(c.Version), idle: l.idle, pipeline: l.pipeline, log: int64(l.log), json: c.JSON,
		certificate: c.Certificate,
	}
	for key, text := range map[string]string{"nsid": c.NSID, "version": c.Version} {
		if len(text) > 128 {
			return nil, setting.At(key, fmt.Errorf("it has %d bytes, at most 128", len(text)))
		}
	}
	if len(c.Allow) > 0 {
		r.allow = newNetworks(c.Allow)
	}
	switch c.Cookies.Mode {
	case "", "on":
	case "off":
		r.cookies = cookiesOff
	case "require":
		r.cookies = cookiesRequired
	default:
		return nil, setting.At("cookies.mode", fmt.Errorf("%q is not one of on, off, require", c.Cookies.Mode))
	}
	if c.Cert != "" && !c.Uncertified {
		pair, err := tls.LoadX509KeyPair(string(c.Cert), string(c.Key))
		if err != nil {
			return nil, setting.At("cert", fmt.Errorf("read the certificate %q with the key %q: %w", c.Cert, c.Key, err))
		}
		r.cert = &pair
	}
	return r, r.setName(c.Name)
}

// present returns the certificate for a handshake.
func (r *rules) present(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if r.cert == nil && r.certificate != nil {
		return r.certificate(hello)
	}
	return r.cert, nil
}

// setName sets our name from the settings, or from the certificate.
func (r *rules) setName(name string) error {
	if name == "" && r.cert != nil {
		leaf, err := x509.ParseCertificate(r.cert.Certificate[0])
		if err != nil {
			return setting.At("cert", err)
		}
		for _, n := range leaf.DNSNames {
			if !strings.HasPrefix(n, "*") {
				name = n
				break
			}
		}
	}
	if name == "" {
		return nil
	}
	host, reason := dns.Host(nil, []byte(name))
	if reason != "" {
		return setting.At("name", fmt.Errorf("%q %s", name, reason))
	}
	var err error
	if r.name, err = dns.Name(string(host)); err != nil {
		return setting.At("name", err)
	}
	r.suffix = "." + string(host)
	return nil
}

// interval returns the microseconds between events at a rate per second; 0 for
// no limit.
func interval(rate int) int64 {
	if rate == 0 {
		return 0
	}
	return max(1e6/int64(rate), 1)
}

// secret reads or makes the key of the cookies.
func (c *Cookies) secret() (key [16]byte, set bool, err error) {
	if c.Secret == "" {
		return key, false, nil
	}
	b, err := hex.DecodeString(c.Secret)
	if err != nil || len(b) != len(key) {
		return key, false, setting.At("cookies.secret", errors.New(`not 32 hexadecimal digits; make them with "openssl rand -hex 16"`))
	}
	return [16]byte(b), true, nil
}

// tsigRoom is the space that a reply to a signed query leaves for the TSIG record.
const tsigRoom = 512
