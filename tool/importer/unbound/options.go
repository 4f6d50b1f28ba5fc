package unbound

import (
	"cmp"
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

// localData converts a local record, in a zone of some kind.
func localData(p *build.Plain, at report.Place, f []string, kinds map[string]string) *report.Note {
	name := strings.ToLower(strings.TrimSuffix(cmp.Or(append(f, "")...), "."))
	zone := input.FirstParent(name, func(n string) bool { return kinds[n] != "" })
	if kind := kinds[zone]; strings.HasPrefix(kind, "always_") && kind != "always_transparent" {
		return &report.Note{Kind: report.Default, Why: "its zone refuses it anyway"}
	}
	for i, x := range f {
		if (x == "A" || x == "AAAA" || x == "CNAME") && i+1 < len(f) && i > 0 {
			p.Work.Host(at, name, f[i+1])
			if strings.HasSuffix(kinds[zone], "redirect") && zone == name {
				p.Work.Host(at, "*."+name, f[i+1])
			}
			return report.Same("dns: hosts")
		}
	}
	return report.None("other records are kept in a zone file: dns: zones")
}

// noServer is the remark for settings that name no server for all names.
func noServer(file string) *report.Note {
	return &report.Note{Kind: report.Changed, Place: report.Place{File: file}, What: "no forward-zone for \".\"", Ours: "dns: forward: upstreams",
		Why: "Unbound asks the servers of each zone itself; here those of /etc/resolv.conf are asked: name upstreams if they are not what you want"}
}

// other returns the note on an option that is not about names.
func other(section, key string) *report.Note {
	switch key {
	case "verbosity", "use-syslog", "logfile", "log-queries", "statistics-interval", "extended-statistics":
		return report.Differs("events", "all queries are in the record, counters at /metrics")
	case "forward-tls-upstream", "forward-ssl-upstream":
		return report.Differs("dns: forward: upstreams", "servers with port 853 are asked over TLS")
	case "username", "directory", "chroot", "pidfile", "num-threads", "so-reuseport":
		return &report.Note{Kind: report.Default, Why: "the service manager and the program do that"}
	}
	if section == "remote-control" {
		return report.Differs("listen.admin", "the gateway is controlled at its admin address")
	}
	return report.None(whyNot(key))
}

// Options has options of Unbound's server that are converted together.
type Options struct {
	dir, port          string
	tlsPort, httpsPort string
	cert, key          string
	interfaces         []string
	allowed, refused   []netip.Prefix
	at                 report.Place // files of the certificate
}

// Take converts an option, and reports whether it is known.
func (o *Options) Take(p *build.Plain, key, value string) (*report.Note, bool) {
	dns := p.Work.Set.UseDNS()
	on := value == "yes"
	switch key {
	case "port":
		o.port = value
		return report.Same("dns: listen"), true
	case "tls-port", "ssl-port":
		o.tlsPort = value
		return report.Same("dns: tls"), true
	case "https-port":
		o.httpsPort = value
		return report.Same("dns: https"), true
	case "http-endpoint":
		dns.Server.Path = value
		return report.Same("dns: path"), true
	case "tls-cert-bundle", "tls-system-cert", "tls-win-cert":
		if file := input.Find(o.dir, value); key == "tls-cert-bundle" && input.IsFile(file) && !strings.HasPrefix(file, "/etc/ssl/") && !strings.HasPrefix(file, "/etc/pki/") {
			dns.Forward.CA = p.Work.File(file)
			return report.Same("dns: forward: ca"), true
		}
		return &report.Note{Kind: report.Default, Why: "the system's roots are used"}, true
	case "interface", "ip-address":
		o.interfaces = append(o.interfaces, value)
		return report.Same("dns: listen"), true
	case "edns-buffer-size", "max-udp-size":
		if dns.Server.UDPSize > 0 {
			return &report.Note{Kind: report.Default, Why: "one size holds for both"}, true
		}
		return build.UdpSize(p.Work, value), true
	case "nsid":
		dns.Server.NSID = strings.TrimPrefix(value, "ascii_")
		return report.Same("dns: nsid"), true
	case "tls-service-key", "ssl-service-key":
		o.key, o.at = value, p.At
		return report.Same("dns: key"), true
	case "tls-service-pem", "ssl-service-pem":
		o.cert, o.at = value, p.At
		return report.Same("dns: cert"), true
	case "cache-max-negative-ttl":
		return build.TakeTime(value, "dns: cache: negative-ttl", time.Second, 24*time.Hour, &dns.Cache.Negative), true
	case "serve-expired-ttl":
		return build.TakeTime(value, "dns: cache: stale", time.Second, build.Week, &dns.Cache.Stale), true
	case "rrset-cache-size":
		return o.cacheSize(p, value), true
	case "ip-ratelimit":
		n, err := strconv.ParseUint(value, 10, 20)
		switch {
		case err != nil:
			return report.ByHand("dns: rate", fmt.Sprintf("%q is not a number of queries a second", value)), true
		case n == 0:
			return &report.Note{Kind: report.Default}, true
		}
		dns.Server.Rate = setting.Count(n)
		return report.Same("dns: rate"), true
	case "dns64-prefix":
		n, err := netip.ParsePrefix(value)
		if err != nil {
			return report.ByHand("dns: dns64", fmt.Sprintf("%q is not a network", value)), true
		}
		dns.Names.DNS64.Prefix = n.Masked()
		return report.Same("dns: dns64"), true
	case "do-ip4", "do-ip6", "do-udp", "do-tcp":
		if on {
			return &report.Note{Kind: report.Default}, true
		}
		return report.Differs("dns: listen", "queries are taken at its addresses over UDP and TCP"), true
	}
	if value == "no" {
		return &report.Note{}, false
	}
	return takeOn(p, key, value)
}

// takeOn converts an option of Unbound that is on, by Unbound's name, for Unbound itself
// and for programs that write its settings. It reports whether the option is known.
func takeOn(p *build.Plain, option, value string) (*report.Note, bool) {
	dns := p.Work.Set.UseDNS()
	switch option {
	case "private-domain":
		return p.PrivateNames(strings.Split(value, ",")), true
	case "private-address":
		return build.PrivateRefused(), true
	case "domain-insecure":
		for d := range strings.SplitSeq(value, ",") {
			dns.Forward.Negative = append(dns.Forward.Negative, strings.TrimSpace(d))
		}
		return report.Same("dns: forward: negative-trust-anchors"), true
	case "serve-expired":
		return report.Differs("dns: cache: stale", "stale answers are served while upstreams fail, for at most a day"), true
	case "cache-max-ttl":
		return build.TakeTime(value, "dns: cache: max-ttl", time.Second, build.Week, &dns.Cache.MaxTTL), true
	case "cache-min-ttl":
		return build.TakeTime(value, "dns: cache: min-ttl", time.Second, time.Hour, &dns.Cache.MinTTL), true
	case "prefetch":
		return report.Differs("dns: cache", "entries in use are fetched before they expire"), true
	}
	return &report.Note{}, false
}

func (o *Options) cacheSize(p *build.Plain, value string) *report.Note {
	number := strings.TrimRight(strings.ToLower(value), "kmgb")
	n, _ := strconv.ParseUint(number, 10, 40) // 0 means no size
	shift := map[byte]int{'k': 10, 'm': 20, 'g': 30}
	if unit := strings.ToLower(value[len(number):]); unit != "" {
		n <<= shift[unit[0]]
	}
	return p.Work.Set.CacheSize(int64(n))
}

// listeners sets the addresses of the name server. Those with the port for TLS use TLS.
func (o *Options) listeners(w *build.Work) {
	s := &w.Set.UseDNS().Server
	encrypted := o.key != "" && o.certificate(w)
	if o.tlsPort == "" {
		o.tlsPort = "853"
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
