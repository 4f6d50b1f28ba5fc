package unbound

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// noServer is the remark for settings that name no server for all names.
func noServer(file string) *report.Note {
	return &report.Note{Kind: report.Changed, Place: report.Place{File: file}, What: "no forward-zone for \".\"", Ours: "dns: forward: upstreams",
		Why: "Unbound asks the servers of each zone itself; here those of /etc/resolv.conf are asked: name upstreams if they are not what you want"}
}

// Options has options of Unbound's server that are converted together.
type Options struct {
	p                  *build.Plain // with the place of the current option
	dir, port          string
	tlsPort, httpsPort string
	cert, key          string
	interfaces         []string
	allowed, refused   []netip.Prefix
	at                 report.Place // files of the certificate
	automatic          bool         // it listens at all addresses
}

// seconds converts a time of at most most.
func seconds(ours string, most time.Duration, to func(dns *build.NameServer) *setting.Duration) func(*Options, string) *report.Note {
	return func(o *Options, value string) *report.Note {
		return build.TakeTime(value, ours, time.Second, most, to(o.p.Work.Set.UseDNS()))
	}
}

// A row is about an option of Unbound's server.
type row = report.Row[*Options, string]

var table = report.Rows(
	row{Keys: "port", Take: func(o *Options, v string) *report.Note { o.port = v; return report.Same("dns: listen") }},
	row{Keys: "tls-port ssl-port", Take: func(o *Options, v string) *report.Note { o.tlsPort = v; return report.Same("dns: tls") }},
	row{Keys: "https-port", Take: func(o *Options, v string) *report.Note { o.httpsPort = v; return report.Same("dns: https") }},
	row{Keys: "http-endpoint", Take: func(o *Options, v string) *report.Note {
		o.p.Work.Set.UseDNS().Server.Path = v
		return report.Same("dns: path")
	}},
	row{Keys: "tls-system-cert tls-win-cert", Note: report.Needless("the system's roots are used")},
	row{Keys: "tls-cert-bundle", Take: func(o *Options, v string) *report.Note {
		file := input.Find(o.dir, v)
		if !input.IsFile(file) || strings.HasPrefix(file, "/etc/ssl/") || strings.HasPrefix(file, "/etc/pki/") {
			return report.Needless("the system's roots are used")
		}
		o.p.Work.Set.UseDNS().Forward.CA = o.p.Work.File(file)
		return report.Same("dns: forward: ca")
	}},
	row{Keys: "interface ip-address", Take: func(o *Options, v string) *report.Note {
		o.interfaces = append(o.interfaces, v)
		return report.Same("dns: listen")
	}},
	row{Keys: "interface-automatic", Standard: []string{"no"}, Take: func(o *Options, v string) *report.Note {
		o.automatic = v == "yes"
		return report.Same("dns: listen")
	}},
	row{Keys: "edns-buffer-size max-udp-size", Take: func(o *Options, v string) *report.Note {
		if o.p.Work.Set.UseDNS().Server.UDPSize > 0 {
			return report.Needless("one size holds for both")
		}
		return build.UdpSize(o.p.Work, v)
	}},
	row{Keys: "nsid", Take: func(o *Options, v string) *report.Note {
		o.p.Work.Set.UseDNS().Server.NSID = strings.TrimPrefix(v, "ascii_")
		return report.Same("dns: nsid")
	}},
	row{Keys: "tls-service-key ssl-service-key", Take: func(o *Options, v string) *report.Note { o.key, o.at = v, o.p.At; return report.Same("dns: key") }},
	row{Keys: "tls-service-pem ssl-service-pem", Take: func(o *Options, v string) *report.Note { o.cert, o.at = v, o.p.At; return report.Same("dns: cert") }},
	row{Keys: "cache-max-negative-ttl", Take: seconds("dns: cache: negative-ttl", 24*time.Hour, func(dns *build.NameServer) *setting.Duration { return &dns.Cache.Negative })},
	row{Keys: "serve-expired-ttl", Take: seconds("dns: cache: stale", build.Week, func(dns *build.NameServer) *setting.Duration { return &dns.Cache.Stale })},
	row{Keys: "rrset-cache-size", Take: (*Options).cacheSize},
	row{Keys: "ip-ratelimit", Take: func(o *Options, v string) *report.Note {
		n, err := strconv.ParseUint(v, 10, 20)
		switch {
		case err != nil:
			return report.ByHand("dns: rate", fmt.Sprintf("%q is not a number of queries a second", v))
		case n == 0:
			return &report.Note{Kind: report.Default}
		}
		o.p.Work.Set.UseDNS().Server.Rate = setting.Count(n)
		return report.Same("dns: rate")
	}},
	row{Keys: "dns64-prefix", Take: func(o *Options, v string) *report.Note {
		n, err := netip.ParsePrefix(v)
		if err != nil {
			return report.ByHand("dns: dns64", fmt.Sprintf("%q is not a network", v))
		}
		o.p.Work.Set.UseDNS().Names.DNS64.Prefix = n.Masked()
		return report.Same("dns: dns64")
	}},
	row{Keys: "do-ip4 do-ip6 do-udp do-tcp", Standard: []string{"yes"}, Note: report.Differs("dns: listen", "queries are taken at its addresses over UDP and TCP")},
)

// whenOn has options that mean nothing with the value "no".
var whenOn = report.Rows(
	row{Keys: "private-domain", Take: func(o *Options, v string) *report.Note { return o.p.PrivateNames(strings.Split(v, ",")) }},
	row{Keys: "private-address", Note: build.PrivateRefused()},
	row{Keys: "domain-insecure", Take: func(o *Options, v string) *report.Note {
		f := &o.p.Work.Set.UseDNS().Forward
		for d := range strings.SplitSeq(v, ",") {
			f.Negative = append(f.Negative, strings.TrimSpace(d))
		}
		return report.Same("dns: forward: negative-trust-anchors")
	}},
	row{Keys: "serve-expired", Note: report.Differs("dns: cache: stale", "stale answers are served while upstreams fail, for at most a day")},
	row{Keys: "cache-max-ttl", Take: seconds("dns: cache: max-ttl", build.Week, func(dns *build.NameServer) *setting.Duration { return &dns.Cache.MaxTTL })},
	row{Keys: "cache-min-ttl", Take: seconds("dns: cache: min-ttl", time.Hour, func(dns *build.NameServer) *setting.Duration { return &dns.Cache.MinTTL })},
	row{Keys: "prefetch", Note: report.Differs("dns: cache", "entries in use are fetched before they expire")},
)

// Take converts an option of Unbound, for Unbound itself and for programs that write its
// settings. It reports whether the option is known.
func (o *Options) Take(p *build.Plain, key, value string) (*report.Note, bool) {
	o.p = p
	n := table[key].Convert(o, value, value)
	if n == nil && value != "no" {
		n = whenOn[key].Convert(o, value, value)
	}
	return n, n != nil
}

func (o *Options) cacheSize(value string) *report.Note {
	number := strings.TrimRight(strings.ToLower(value), "kmgb")
	n, _ := strconv.ParseUint(number, 10, 40) // 0 means no size
	shift := map[byte]int{'k': 10, 'm': 20, 'g': 30}
	if unit := strings.ToLower(value[len(number):]); unit != "" {
		n <<= shift[unit[0]]
	}
	return o.p.Work.Set.CacheSize(int64(n))
}

// listeners sets the addresses of the name server. Those with the port for TLS use TLS.
func (o *Options) listeners(w *build.Work) {
	s := &w.Set.UseDNS().Server
	encrypted := o.key != "" && o.certificate(w)
	if o.tlsPort == "" {
		o.tlsPort = "853"
	}
	if o.automatic {
		o.interfaces = append(o.interfaces, "0.0.0.0", "::0")
	}
	if len(o.interfaces) == 0 {
		o.interfaces = []string{"127.0.0.1", "::1"}
	}
	s.Listen = nil
	for _, name := range o.interfaces {
		addr, port, ok := strings.Cut(name, "@")
		if !ok {
			port = o.port
		}
		if a, err := netip.ParseAddr(addr); err == nil {
			addr = a.String()
		} else {
			n := report.ByHand("dns: listen", "write the addresses of the interface there; until then it is not served")
			n.Place, n.What = report.Place{File: o.dir}, "interface: "+name
			w.Report.Add(n.Closing())
			continue
		}
		switch at := net.JoinHostPort(addr, port); {
		case port != o.tlsPort && (port != o.httpsPort || port == o.port):
			s.Listen = append(s.Listen, at)
		case !encrypted:
		case port == o.tlsPort:
			s.TLS = append(s.TLS, at)
		default:
			s.HTTPS = append(s.HTTPS, at)
		}
	}
	if len(s.Listen)+len(s.TLS)+len(s.HTTPS) == 0 { // no more widely than Unbound
		s.Listen = append(s.Listen, net.JoinHostPort("127.0.0.1", o.port))
	}
	o.readClients(w)
}

// certificate converts the certificate and its key, and reports whether they belong together.
func (o *Options) certificate(w *build.Work) bool {
	err := build.KeyPair(w, input.Find(o.dir, o.cert), input.Find(o.dir, o.key))
	if err != nil {
		w.Report.Add(&report.Note{Kind: report.Lost, Place: o.at, What: "tls: certificate and key", Ours: "dns: cert, key",
			Why: fmt.Sprintf("they cannot be used (%v): write dns: cert, key and tls", err)})
	}
	return err == nil
}

// Sized is the reason why limits are lost.
const Sized = "limits and caches follow the size of the machine"

// Reasons are the reasons why options have no equivalent.
var Reasons = report.Reasons{
	{"log-", "all queries are recorded"},
	{"extended-", "counters are at /metrics"},
	{"dnssec-stripped", "names are resolved by upstreams, which do that"},
	{"outgoing-interface", "the system's routes choose the address that queries leave from"},
	{"outgoing-", Sized},
	{"incoming-", Sized},
	{"num-", Sized},
	{"so-", Sized},
	{"infra-", Sized},
	{"msg-", Sized},
	{"hide-", "the program answers no queries about itself"},
	{"harden-", "names are resolved by upstreams, which do that"},
	{"qname-", "names are resolved by upstreams, which do that"},
	{"use-caps", "names are resolved by upstreams, which do that"},
	{"aggressive-", "names are resolved by upstreams, which do that"},
	{"root-hints", "names are resolved by upstreams, which do that"},
	{"target-", "names are resolved by upstreams, which do that"},
	{"ratelimit", "no domain gets more than its share of the resolver"},
	{"forward-host", "a server of a domain is named by its address"},
	{"stub-host", "a server of a domain is named by its address"},
	{"identity", "the program answers no queries about itself"},
	{"minimal-responses", "answers have what was asked for"},
}

// whyNot returns the reason why an option has no equivalent, or "" if it is
// unknown.
func whyNot(key string) string {
	if strings.HasSuffix(key, "-size") || strings.HasSuffix(key, "-slabs") {
		return Sized
	}
	return Reasons.Of(key)
}
