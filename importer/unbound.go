package importer

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"shuultuur/setting"
)

// unboundOptions has options of Unbound's server that are converted together.
type unboundOptions struct {
	dir, port          string
	tlsPort, httpsPort string
	cert, key          string
	interfaces         []string
	allowed, refused   []netip.Prefix
	at                 place // files of the certificate
}

// take converts an option, and reports whether it is known.
func (o *unboundOptions) take(p *plain, key, value string) (*Note, bool) {
	dns := p.set.dns()
	on := value == "yes"
	switch key {
	case "port":
		o.port = value
		return carried("dns: listen"), true
	case "tls-port", "ssl-port":
		o.tlsPort = value
		return carried("dns: tls"), true
	case "https-port":
		o.httpsPort = value
		return carried("dns: https"), true
	case "http-endpoint":
		dns.Server.Path = value
		return carried("dns: path"), true
	case "tls-cert-bundle", "tls-system-cert", "tls-win-cert":
		if file := findFile(o.dir, value); key == "tls-cert-bundle" && isFile(file) && !strings.HasPrefix(file, "/etc/ssl/") && !strings.HasPrefix(file, "/etc/pki/") {
			dns.Forward.CA = p.file(file)
			return carried("dns: forward: ca"), true
		}
		return &Note{Kind: Default, Why: "the system's roots are used"}, true
	case "interface", "ip-address":
		o.interfaces = append(o.interfaces, value)
		return carried("dns: listen"), true
	case "edns-buffer-size", "max-udp-size":
		if dns.Server.UDPSize > 0 {
			return &Note{Kind: Default, Why: "one size holds for both"}, true
		}
		return udpSize(p.work, value), true
	case "nsid":
		dns.Server.NSID = strings.TrimPrefix(value, "ascii_")
		return carried("dns: nsid"), true
	case "tls-service-key", "ssl-service-key":
		o.key, o.at = value, p.at
		return carried("dns: key"), true
	case "tls-service-pem", "ssl-service-pem":
		o.cert, o.at = value, p.at
		return carried("dns: cert"), true
	case "cache-max-negative-ttl":
		return takeTime(value, "dns: cache: negative-ttl", time.Second, 24*time.Hour, &dns.Cache.Negative), true
	case "serve-expired-ttl":
		return takeTime(value, "dns: cache: stale", time.Second, week7d, &dns.Cache.Stale), true
	case "rrset-cache-size":
		return o.cacheSize(p, value), true
	case "ip-ratelimit":
		n, err := strconv.ParseUint(value, 10, 20)
		switch {
		case err != nil:
			return lostOurs("dns: rate", fmt.Sprintf("%q is not a number of queries a second", value)), true
		case n == 0:
			return &Note{Kind: Default}, true
		}
		dns.Server.Rate = setting.Count(n)
		return carried("dns: rate"), true
	case "dns64-prefix":
		n, err := netip.ParsePrefix(value)
		if err != nil {
			return lostOurs("dns: dns64", fmt.Sprintf("%q is not a network", value)), true
		}
		dns.Names.DNS64.Prefix = n.Masked()
		return carried("dns: dns64"), true
	case "do-ip4", "do-ip6", "do-udp", "do-tcp":
		if on {
			return &Note{Kind: Default}, true
		}
		return differs("dns: listen", "queries are taken at its addresses over UDP and TCP"), true
	}
	if value == "no" {
		return &Note{}, false
	}
	return unboundTake(p, key, value)
}

// privateRefused is the note on refusing answers with private addresses.
func privateRefused() *Note {
	return differs("dns: private", "private addresses of foreign names are refused")
}

// privateNames converts domains that may have private addresses.
func (p *plain) privateNames(domains []string) *Note {
	n := &p.set.dns().Names
	for _, d := range domains {
		if d = strings.TrimSpace(d); d != "" {
			n.Private = append(n.Private, d)
		}
	}
	return carried("dns: private")
}

// unboundTake converts an option of Unbound that is on, by Unbound's name, for Unbound itself
// and for programs that write its settings. It reports whether the option is known.
func unboundTake(p *plain, option, value string) (*Note, bool) {
	dns := p.set.dns()
	switch option {
	case "private-domain":
		return p.privateNames(strings.Split(value, ",")), true
	case "private-address":
		return privateRefused(), true
	case "domain-insecure":
		for d := range strings.SplitSeq(value, ",") {
			dns.Forward.Negative = append(dns.Forward.Negative, strings.TrimSpace(d))
		}
		return carried("dns: forward: negative-trust-anchors"), true
	case "serve-expired":
		return differs("dns: cache: stale", "stale answers are served while upstreams fail, for at most a day"), true
	case "cache-max-ttl":
		return takeTime(value, "dns: cache: max-ttl", time.Second, week7d, &dns.Cache.MaxTTL), true
	case "cache-min-ttl":
		return takeTime(value, "dns: cache: min-ttl", time.Second, time.Hour, &dns.Cache.MinTTL), true
	case "prefetch":
		return differs("dns: cache", "entries in use are fetched before they expire"), true
	}
	return &Note{}, false
}

func (o *unboundOptions) cacheSize(p *plain, value string) *Note {
	number := strings.TrimRight(strings.ToLower(value), "kmgb")
	n, _ := strconv.ParseUint(number, 10, 40) // 0 means no size
	shift := map[byte]int{'k': 10, 'm': 20, 'g': 30}
	if unit := strings.ToLower(value[len(number):]); unit != "" {
		n <<= shift[unit[0]]
	}
	return p.set.cacheSize(int64(n))
}

// listeners sets the addresses of the name server. Those with the port for TLS use TLS.
func (o *unboundOptions) listeners(w *work) {
	s := &w.set.dns().Server
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
func (o *unboundOptions) certificate(w *work) bool {
	err := keyPair(w, findFile(o.dir, o.cert), findFile(o.dir, o.key))
	if err != nil {
		w.rep.add(&Note{Kind: Lost, place: o.at, What: "tls: certificate and key", Ours: "dns: cert, key",
			Why: fmt.Sprintf("they cannot be used (%v): write dns: cert, key and tls", err)})
	}
	return err == nil
}

// unboundSized is the reason why limits are lost.
const unboundSized = "limits and caches follow the size of the machine"

// unboundReasons are the reasons why options have no equivalent.
var unboundReasons = reasons{
	{"log-", "all queries are recorded"},
	{"extended-", "counters are at /metrics"},
	{"dnssec-stripped", "names are resolved by upstreams, which do that"},
	{"outgoing-interface", "the system's routes choose the address that queries leave from"},
	{"outgoing-", unboundSized},
	{"incoming-", unboundSized},
	{"num-", unboundSized},
	{"so-", unboundSized},
	{"infra-", unboundSized},
	{"msg-", unboundSized},
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

// unboundWhy returns the reason why an option has no equivalent, or "" if it is
// unknown.
func unboundWhy(key string) string {
	if strings.HasSuffix(key, "-size") || strings.HasSuffix(key, "-slabs") {
		return unboundSized
	}
	return unboundReasons.of(key)
}
