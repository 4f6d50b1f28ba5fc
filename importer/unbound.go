package importer

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"shuultuur/setting"
)

// unboundOptions are options of Unbound's server that count together.
type unboundOptions struct {
	dir, port, tlsPort string
	cert, key          string
	interfaces         []string
	at                 place // of the certificate
}

// take takes an option, and says whether it is known.
func (o *unboundOptions) take(p *plain, key, value string) (Note, bool) {
	dns := p.set.dns()
	duration := func(ours string, most time.Duration, to *setting.Duration) (Note, bool) {
		n, err := strconv.ParseUint(value, 10, 31)
		switch {
		case err != nil:
			return lostOurs(ours, fmt.Sprintf("%q is not a number of seconds", value)), true
		case n == 0:
			return Note{Kind: Default}, true
		}
		return atMost(ours, time.Duration(n)*time.Second, most, to), true
	}
	on := value == "yes"
	switch key {
	case "port":
		o.port = value
		return carried("dns: listen"), true
	case "tls-port", "ssl-port":
		o.tlsPort = value
		return carried("dns: tls"), true
	case "tls-service-key", "ssl-service-key":
		o.key, o.at = value, p.at
		return carried("dns: key"), true
	case "tls-service-pem", "ssl-service-pem":
		o.cert, o.at = value, p.at
		return carried("dns: cert"), true
	case "cache-min-ttl":
		return duration("dns: cache: min-ttl", time.Hour, &dns.Cache.MinTTL)
	case "cache-max-ttl":
		return duration("dns: cache: max-ttl", 7*24*time.Hour, &dns.Cache.MaxTTL)
	case "cache-max-negative-ttl":
		return duration("dns: cache: negative-ttl", 24*time.Hour, &dns.Cache.Negative)
	case "serve-expired-ttl":
		return duration("dns: cache: stale", 7*24*time.Hour, &dns.Cache.Stale)
	case "serve-expired":
		if on {
			return differs("dns: cache: stale", "old answers are given while upstreams are slow or fail"), true
		}
	case "prefetch":
		if on {
			return differs("dns: cache", "names that are asked for again are fetched before they expire"), true
		}
	case "rrset-cache-size":
		return o.cacheSize(p, value), true
	case "ip-ratelimit":
		n, err := strconv.ParseUint(value, 10, 20)
		switch {
		case err != nil:
			return lostOurs("dns: rate", fmt.Sprintf("%q is not a number of queries a second", value)), true
		case n == 0:
			return Note{Kind: Default}, true
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
			return Note{Kind: Default}, true
		}
		return differs("dns: listen", "queries are taken at its addresses over UDP and TCP"), true
	}
	return Note{}, false
}

func (o *unboundOptions) cacheSize(p *plain, value string) Note {
	number := strings.TrimRight(strings.ToLower(value), "kmgb")
	n, err := strconv.ParseUint(number, 10, 40)
	shift := map[byte]int{'k': 10, 'm': 20, 'g': 30}
	if unit := strings.ToLower(value[len(number):]); err == nil && unit != "" {
		n <<= shift[unit[0]]
	}
	if err != nil || n < 1<<20 || n > 1<<40 {
		return lostOurs("dns: cache: size", "from 1 MiB on")
	}
	p.set.dns().Cache.Size = setting.Size(n)
	return carried("dns: cache: size")
}

// listeners makes the addresses of the name server. Those with the port for TLS speak it.
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
		if at := net.JoinHostPort(addr, port); port != o.tlsPort {
			s.Listen = append(s.Listen, at)
		} else if encrypted {
			s.TLS = append(s.TLS, at)
		}
	}
}

// certificate takes the certificate and its key, and says whether they belong together.
func (o *unboundOptions) certificate(w *work) bool {
	find := func(name string) string {
		if !isFile(name) {
			name = filepath.Join(o.dir, filepath.Base(name))
		}
		if abs, err := filepath.Abs(name); err == nil {
			return abs
		}
		return name
	}
	cert, key := find(o.cert), find(o.key)
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		w.rep.add(Note{Kind: Lost, place: o.at, What: "tls: certificate and key", Ours: "dns: cert, key",
			Why: fmt.Sprintf("they cannot be used (%v): write dns: cert, key and tls", err)})
		return false
	}
	s := &w.set.dns().Server
	s.Cert, s.Key = w.file(cert), w.file(key)
	return true
}

// unboundWhy says why an option has nothing of ours.
func unboundWhy(key string) string {
	for _, x := range []struct{ has, why string }{
		{"-size", "limits and caches are sized to the machine"}, {"-slabs", "limits and caches are sized to the machine"},
		{"outgoing-", "limits and caches are sized to the machine"}, {"incoming-", "limits and caches are sized to the machine"},
		{"num-", "limits and caches are sized to the machine"}, {"so-", "limits and caches are sized to the machine"},
		{"infra-", "limits and caches are sized to the machine"}, {"msg-", "limits and caches are sized to the machine"},
		{"hide-", "the program answers no questions about itself"},
		{"harden-", "names are asked of upstreams, which look after that"}, {"qname-", "names are asked of upstreams, which look after that"},
		{"use-caps", "names are asked of upstreams, which look after that"}, {"aggressive-", "names are asked of upstreams, which look after that"},
		{"root-hints", "names are asked of upstreams, which look after that"}, {"target-", "names are asked of upstreams, which look after that"},
		{"private-", "a list of networks and a rule that blocks it refuse answers with such addresses"},
		{"ratelimit", "no domain gets more than its share of the resolver"},
		{"domain-insecure", "answers are validated by what the root says; a domain that it does not sign passes"},
		{"local-data-ptr", "write the name and its address under dns: hosts"},
		{"url", "name it under lists with format: rpz and a category, and block that"},
		{"zonefile", "name it under lists with format: rpz and a category, and block that"},
		{"forward-tls-upstream", "write upstreams as tls://ADDRESS"},
	} {
		if strings.HasPrefix(key, x.has) || strings.HasPrefix(x.has, "-") && strings.HasSuffix(key, x.has) {
			return x.why
		}
	}
	return "nothing of ours is like it; nothing has to be done"
}
