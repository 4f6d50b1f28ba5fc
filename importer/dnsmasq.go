package importer

import (
	"net"
	"strings"
	"time"

	"shuultuur/resolver/forward"
)

// dnsmasqOptions are options of dnsmasq that count together.
type dnsmasqOptions struct {
	port      string
	addresses []string
}

// dnsmasqReasons are the reasons why options have no equivalent.
var dnsmasqReasons = reasons{
	{"dhcp", "addresses are given out by another program: leave DHCP where it is, and name its leases under identity: names: leases"},
	{"enable-ra", "addresses are given out by another program: leave DHCP where it is, and name its leases under identity: names: leases"},
	{"txt-record", "other records are kept in a zone file: dns: zones"},
	{"mx-", "other records are kept in a zone file: dns: zones"},
	{"srv-host", "other records are kept in a zone file: dns: zones"},
	{"ptr-record", "other records are kept in a zone file: dns: zones"},
	{"caa-record", "other records are kept in a zone file: dns: zones"},
	{"naptr-record", "other records are kept in a zone file: dns: zones"},
	{"cache-size", "the cache has a size in bytes: dns: cache: size"},
	{"local-ttl", "names of one's own have one TTL"},
	{"max-ttl", "answers have the TTL of the upstream, or dns: cache: max-ttl"},
	{"trust-anchor", "the keys of the root are in the program"},
	{"bogus-nxdomain", "answers are not rewritten by their address; a list of networks and a rule that blocks it does the same"},
	{"domain-needed", "names without a dot are asked like others"},
	{"bogus-priv", "name who knows private addresses under dns: forward: routes"},
	{"domain", "write names under dns: hosts with their domain"},
	{"expand-hosts", "write names under dns: hosts with their domain"},
	{"interface", "write its addresses under dns: listen"},
	{"except-interface", "write the other addresses under dns: listen"},
	{"ipset", "the firewall's sets are not filled"},
	{"nftset", "the firewall's sets are not filled"},
	{"edns-packet-max", "write dns: udp-size, which is 1232"},
	{"user", "the service manager sees to user, group and limits"},
	{"group", "the service manager sees to user, group and limits"},
	{"pid-file", "the service manager sees to that"},
	{"log-facility", "the log goes to standard error, and from there where the service manager puts it"},
}

// take takes an option that is not about names.
func (o *dnsmasqOptions) take(p *plain, key, value string) Note {
	dns := p.set.dns()
	switch key {
	case "port":
		o.port = value
		return carried("dns: listen")
	case "listen-address":
		for a := range strings.SplitSeq(value, ",") {
			o.addresses = append(o.addresses, strings.TrimSpace(a))
		}
		return carried("dns: listen")
	case "bind-interfaces", "bind-dynamic":
		return carried("dns: listen")
	case "no-resolv":
		return carried("dns: forward: upstreams")
	case "no-poll", "no-hosts":
		return carried("no dns: hosts-files")
	case "strict-order":
		dns.Forward.Order = forward.Strict
		return carried("dns: forward: order")
	case "all-servers":
		dns.Forward.Order = forward.Parallel
		return carried("dns: forward: order")
	case "min-cache-ttl":
		return takeTime(value, "dns: cache: min-ttl", time.Second, time.Hour, &dns.Cache.MinTTL)
	case "max-cache-ttl":
		return takeTime(value, "dns: cache: max-ttl", time.Second, week7d, &dns.Cache.MaxTTL)
	case "neg-ttl":
		return takeTime(value, "dns: cache: negative-ttl", time.Second, 24*time.Hour, &dns.Cache.Negative)
	case "use-stale-cache":
		if value != "" {
			return takeTime(value, "dns: cache: stale", time.Second, week7d, &dns.Cache.Stale)
		}
		return differs("dns: cache: stale", "old answers are given while upstreams are slow or fail")
	case "filter-A", "filter-AAAA":
		return p.refuseType(strings.TrimPrefix(key, "filter-"))
	case "filter-rr":
		for t := range strings.SplitSeq(value, ",") {
			p.refuseType(strings.TrimSpace(t))
		}
		return carried("a rule for types of records")
	case "stop-dns-rebind":
		return privateRefused
	case "rebind-domain-ok":
		return p.privateNames(strings.Split(value, "/"))
	case "log-queries":
		return differs("events", "all queries are in the record, counters at /metrics")
	}
	return lost(dnsmasqReasons.of(key))
}

// listeners makes the addresses of the name server.
func (o *dnsmasqOptions) listeners(w *work) {
	if o.port == "53" && len(o.addresses) == 0 {
		return
	}
	if len(o.addresses) == 0 {
		o.addresses = []string{""}
	}
	s := &w.set.dns().Server
	s.Listen = nil
	for _, a := range o.addresses {
		s.Listen = append(s.Listen, net.JoinHostPort(a, o.port))
	}
}
