package nameserver

import (
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/nameserver/batch"
)

// Config says where the name server listens, whom it answers and how much.
type Config struct {
	Listen []string `yaml:"listen"` // UDP and TCP
	TLS    []string `yaml:"tls"`    // DNS over TLS
	HTTPS  []string `yaml:"https"`  // DNS over HTTPS: HTTP/1.1, HTTP/2 and, on the same port of UDP, HTTP/3
	QUIC   []string `yaml:"quic"`   // DNS over QUIC
	// Cert and Key are PEM files for tls, https and quic; read again on reload.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	Path string `yaml:"path"` // of DNS over HTTPS; default /dns-query

	// Trusted lists networks of load balancers whose PROXY protocol header is
	// believed on tcp, tls and https.
	Trusted []netip.Prefix `yaml:"trusted"`
	Deny    []netip.Prefix `yaml:"deny"`  // get no answer at all
	Allow   []netip.Prefix `yaml:"allow"` // only these are answered, others get REFUSED; default all
	// Recursion lists networks for which names of others are resolved; default
	// loopback, private and link-local networks. RRL does not limit them.
	Recursion []netip.Prefix `yaml:"recursion"`

	UDPSize int     `yaml:"udp-size"` // longest reply over UDP in bytes, 512 to 4096; default 1232
	Rate    int     `yaml:"rate"`     // queries a second of one client (IPv6: /56); default no limit
	RRL     RRL     `yaml:"rrl"`
	Cookies Cookies `yaml:"cookies"`
	NSID    string  `yaml:"nsid"` // our name for those who ask with NSID; default none

	Sockets     int           `yaml:"sockets"`     // per address of UDP; default GOMAXPROCS, at most 16
	Connections int           `yaml:"connections"` // at once, of all kinds; default 1024
	PerClient   int           `yaml:"per-client"`  // connections of one address at once; default 64
	Pipeline    int           `yaml:"pipeline"`    // queries of one connection under way; default 64
	Idle        time.Duration `yaml:"idle"`        // a connection without queries; default 30s
	Workers     int           `yaml:"workers"`     // queries that wait for others at once; default 512
	Queue       int           `yaml:"queue"`       // queries that wait for a worker; when it is full, the oldest of the domain with the most goes; default 2048
	Wait        time.Duration `yaml:"wait"`        // longest time for one of them; default 5s
	Log         int           `yaml:"log"`         // queries a second that are recorded, at most; default 1000, -1 for none
}

// RRL limits like replies to one network (IPv4: /24, IPv6: /56) over UDP: what
// an attacker with a forged address would have us send.
type RRL struct {
	Rate int `yaml:"rate"` // a second; default 200, -1 for no limit
	// Slip lets every so manyth reply through, truncated, so that a real
	// client can come again over TCP; default 2, -1 for none.
	Slip int `yaml:"slip"`
}

// Cookies are RFC 7873 and 9018.
type Cookies struct {
	// Mode is "on" (default), "off", or "require": who sends a client cookie
	// over UDP has to send ours with it, or gets BADCOOKIE.
	Mode string `yaml:"mode"`
	// Secret is 32 hexadecimal digits, for servers that share an address;
	// default made up at the start.
	Secret string `yaml:"secret"`
}

var privateNetworks = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10"),
}

// orDefault sets what was not set; -1 stands for 0.
func orDefault[T int | time.Duration](v *T, def T) {
	switch *v {
	case 0:
		*v = def
	case -1:
		*v = 0
	}
}

// defaults fills in what was not set and says what cannot be.
func (c *Config) defaults(procs int) error {
	for _, n := range []struct {
		key      string
		v        *int
		def, max int
		none     bool // -1 is a value
	}{
		{"udp-size", &c.UDPSize, 1232, batch.OutBytes - tsigRoom, false},
		{"rate", &c.Rate, -1, 1e6, true},
		{"rrl.rate", &c.RRL.Rate, 200, 1e6, true},
		{"rrl.slip", &c.RRL.Slip, 2, 1000, true},
		{"sockets", &c.Sockets, min(procs, 16), 256, false},
		{"connections", &c.Connections, 1024, 1 << 20, false},
		{"per-client", &c.PerClient, 64, 1 << 20, false},
		{"pipeline", &c.Pipeline, 64, 1024, false},
		{"workers", &c.Workers, 512, 1 << 16, false},
		{"queue", &c.Queue, 2048, 1 << 20, false},
		{"log", &c.Log, 1000, 1e6, true},
	} {
		if *n.v < 0 && (*n.v != -1 || !n.none) || *n.v > n.max {
			return filter.Setting(n.key, fmt.Errorf("%d is not a number from 1 to %d", *n.v, n.max))
		}
		orDefault(n.v, n.def)
		orDefault(n.v, 0) // a default of -1
	}
	if c.UDPSize < 512 {
		return filter.Setting("udp-size", fmt.Errorf("%d is less than the 512 bytes every client takes", c.UDPSize))
	}
	for key, d := range map[string]*time.Duration{"idle": &c.Idle, "wait": &c.Wait} {
		if *d < 0 || *d > time.Hour {
			return filter.Setting(key, fmt.Errorf("%s is not a time up to an hour", *d))
		}
	}
	orDefault(&c.Idle, 30*time.Second)
	orDefault(&c.Wait, 5*time.Second)
	if len(c.NSID) > 128 {
		return filter.Setting("nsid", fmt.Errorf("%d bytes; it can have 128", len(c.NSID)))
	}
	if c.Path == "" {
		c.Path = "/dns-query"
	}
	if !strings.HasPrefix(c.Path, "/") || strings.ContainsAny(c.Path, "?#{} ") {
		return filter.Setting("path", fmt.Errorf("%q is not a path such as /dns-query", c.Path))
	}
	if c.Recursion == nil {
		c.Recursion = privateNetworks
	}
	return nil
}

// addresses makes addresses of what is written: "192.0.2.1:53", "[::1]:53", or
// ":53" for every address of both families.
func addresses(key string, written []string, def uint16) ([]netip.AddrPort, error) {
	var all []netip.AddrPort
	for i, text := range written {
		here := fmt.Sprintf("%s[%d]", key, i)
		if port, ok := strings.CutPrefix(text, ":"); ok {
			four, err := netip.ParseAddrPort("0.0.0.0:" + port)
			if err != nil {
				return nil, filter.Setting(here, fmt.Errorf("%q has no port after the colon, such as :%d", text, def))
			}
			all = append(all, four, netip.AddrPortFrom(netip.IPv6Unspecified(), four.Port()))
			continue
		}
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.AddrPortFrom(a.Unmap(), def))
			continue
		}
		a, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, filter.Setting(here, fmt.Errorf("%q is not an address such as 127.0.0.1:%d, [::1]:%d or :%d", text, def, def, def))
		}
		all = append(all, netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
	}
	return all, nil
}

// A places is where a server listens.
type places struct{ plain, tls, https, quic []netip.AddrPort }

func (c *Config) places() (p places, err error) {
	for _, x := range []struct {
		key  string
		from []string
		def  uint16
		to   *[]netip.AddrPort
	}{
		{"listen", c.Listen, 53, &p.plain}, {"tls", c.TLS, 853, &p.tls}, {"https", c.HTTPS, 443, &p.https}, {"quic", c.QUIC, 853, &p.quic},
	} {
		if *x.to, err = addresses(x.key, x.from, x.def); err != nil {
			return p, err
		}
	}
	if len(p.plain)+len(p.tls)+len(p.https)+len(p.quic) == 0 {
		return p, filter.Setting("listen", errors.New(`no address to listen on; say for example listen: ["127.0.0.1:53"]`))
	}
	if len(p.tls)+len(p.https)+len(p.quic) > 0 && c.Cert == "" {
		return p, filter.Setting("cert", errors.New("tls, https and quic need a certificate: say cert and key"))
	}
	return p, nil
}

// Addresses are where the server is to listen, whatever is spoken there.
func (c *Config) Addresses() []netip.AddrPort {
	p, _ := c.places() // a mistake is New's to tell
	return slices.Concat(p.plain, p.tls, p.https, p.quic)
}

// rules are what a reload changes: made of a Config, never changed.
type rules struct {
	allow, deny, recursion, trusted *networks // allow is nil for all
	udpSize                         int
	rate, rrl                       int64 // microseconds between two, 0 for no limit
	slip                            uint32
	cookies                         mode
	nsid                            []byte
	idle                            time.Duration
	pipeline                        int
	log                             int64
	cert                            *tls.Certificate
}

type mode uint8

const (
	cookiesOn mode = iota
	cookiesOff
	cookiesRequired
)

func (c *Config) rules() (*rules, error) {
	r := &rules{
		deny: newNetworks(c.Deny), recursion: newNetworks(c.Recursion), trusted: newNetworks(c.Trusted),
		udpSize: c.UDPSize, rate: interval(c.Rate), rrl: interval(c.RRL.Rate), slip: uint32(c.RRL.Slip),
		nsid: []byte(c.NSID), idle: c.Idle, pipeline: c.Pipeline, log: int64(c.Log),
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
		return nil, filter.Setting("cookies.mode", fmt.Errorf("%q is not one of on, off, require", c.Cookies.Mode))
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, filter.Setting("cert", fmt.Errorf("read the certificate %q with the key %q: %w", c.Cert, c.Key, err))
		}
		r.cert = &pair
	}
	return r, nil
}

// interval is the time between two of so many a second, in microseconds.
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
		return key, false, filter.Setting("cookies.secret", errors.New(`not 32 hexadecimal digits; make them with "openssl rand -hex 16"`))
	}
	return [16]byte(b), true, nil
}

// tsigRoom is what a reply to a signed query leaves for the TSIG record.
const tsigRoom = 512
