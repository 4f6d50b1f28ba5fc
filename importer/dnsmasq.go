package importer

import (
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/resolver/forward"
	"shuultuur/setting"
)

// dnsmasqOptions has options of dnsmasq that are converted together.
type dnsmasqOptions struct {
	files     *optionFiles
	port      string
	domain    string            // of devices
	devices   map[string]string // names by address
	addresses []string
}

// dnsmasqReasons are the reasons why options have no equivalent.
var dnsmasqReasons = reasons{
	{"dhcp", "addresses are assigned by another program: leave DHCP where it is, and name its leases under identity: names: leases"},
	{"enable-ra", "addresses are assigned by another program: leave DHCP where it is, and name its leases under identity: names: leases"},
	{"txt-record", "other records are kept in a zone file: dns: zones"},
	{"mx-", "other records are kept in a zone file: dns: zones"},
	{"srv-host", "other records are kept in a zone file: dns: zones"},
	{"ptr-record", "other records are kept in a zone file: dns: zones"},
	{"caa-record", "other records are kept in a zone file: dns: zones"},
	{"naptr-record", "other records are kept in a zone file: dns: zones"},
	{"local-ttl", "local names have one TTL"},
	{"max-ttl", "answers have the TTL of the upstream, or dns: cache: max-ttl"},
	{"trust-anchor", "the keys of the root are in the program"},
	{"bogus-nxdomain", "answers are not rewritten by their address; use a list of networks and a rule that blocks it"},
	{"domain-needed", "names without a dot are resolved like others"},
	{"bogus-priv", "name the servers for private addresses under dns: forward: routes"},
	{"expand-hosts", "write names under dns: hosts with their domain"},
	{"interface", "write its addresses under dns: listen"},
	{"except-interface", "write the other addresses under dns: listen"},
	{"ipset", "the firewall's sets are not filled"},
	{"nftset", "the firewall's sets are not filled"},
	{"local-service", "write dns: recursion or allow for who may ask"},
	{"resolv-file", "name its servers under dns: forward: upstreams"},
	{"dns-forward-max", "limits follow the size of the machine"},
	{"query-port", "each query has its own source port"},
	{"rebind-localhost-ok", "answers with loopback addresses are refused"},
	{"enable-tftp", "files are served by another program"},
	{"tftp", "files are served by another program"},
	{"user", "the service manager sets user, group and limits"},
	{"group", "the service manager sets user, group and limits"},
	{"pid-file", "the service manager does that"},
	{"log-facility", "the log goes to standard error, which the service manager collects"},
}

// option converts an option. Long because each option has a case.
func (o *dnsmasqOptions) option(p *plain, key, value string) *Note {
	switch key {
	case "address":
		parts := strings.Split(strings.TrimPrefix(value, "/"), "/")
		to := parts[len(parts)-1]
		if slices.Contains(parts[:len(parts)-1], "#") {
			return lost("it answers for all names: write a rule without conditions with action: block, and dns: block: sinkhole, if that is meant")
		}
		blocks := slices.Contains([]string{"", "#", "0.0.0.0", "::"}, to)
		for _, name := range parts[:len(parts)-1] {
			if blocks {
				p.zone(true, name)
			} else {
				name = strings.Trim(strings.TrimPrefix(name, "*"), ".")
				p.host(p.at, name, to)
				p.host(p.at, "*."+name, to)
			}
		}
		if blocks {
			return carried("lists.blocked")
		}
		return carried("dns: hosts, with what is below the name")
	case "local", "server", "rev-server", "cname":
		if parts := strings.Split(value, "/"); key != "cname" && key != "rev-server" && len(parts) > 2 {
			to := parts[len(parts)-1]
			for _, name := range parts[1 : len(parts)-1] {
				p.zone(to == "", name)
			}
			if to == "" {
				return carried("lists.blocked")
			} else if to == "#" {
				return carried("an exception in lists.blocked")
			}
		}
		if server := value[strings.LastIndexByte(value, '/')+1:]; key == "server" && dnsmasqServer(server) == "" {
			return lostOurs("dns: forward: upstreams", "servers are named by address: write that")
		}
		p.dnsmasqOption(p.at, key, value)
		return carried("dns: forward, hosts")
	case "host-record":
		hostRecord(p.work, p.at, value)
		return carried("dns: hosts")
	case "dnssec":
		return p.validate("true")
	case "conf-file", "servers-file", "conf-dir":
		return included(o.files, key, value)
	case "addn-hosts", "hostsdir":
		found := filesOf(o.files.dir, value)
		if len(found) == 0 {
			found, _ = filepath.Glob(filepath.Join(findFile(o.files.dir, value), "*"))
		}
		n := &p.set.dns().Names
		for _, f := range found {
			n.HostsFiles = append(n.HostsFiles, p.file(f))
		}
		if len(found) == 0 {
			return lostOurs("dns: hosts-files", "no such file: name it there")
		}
		return carried("dns: hosts-files")
	case "resolv-file":
		found := filesOf(o.files.dir, value)
		if len(found) == 0 {
			return lostOurs("dns: forward: upstreams", "no such file: name the servers in it there")
		}
		p.lines(found[0], func(_ place, s string) {
			if f := strings.Fields(s); len(f) > 1 && f[0] == "nameserver" {
				p.upstream(f[1])
			}
		})
		return differs("dns: forward: upstreams", "as they are in the file now")
	case "dhcp-leasefile":
		file := findFile(o.files.dir, value)
		if !isFile(file) {
			return lostOurs("identity: names: leases", "no such file: name it there")
		}
		n := &p.set.Identity.Names
		n.Leases = append(n.Leases, setting.Source(file))
		return carried("identity: names: leases")
	case "dhcp-host":
		addr, name, _ := staticLease(value)
		if addr == "" || name == "" {
			return lost(dnsmasqReasons.of(key))
		}
		p.host(p.at, name, addr)
		if o.domain != "" {
			p.host(p.at, name+"."+o.domain, addr)
		}
		if o.devices == nil {
			o.devices = map[string]string{}
		}
		o.devices[addr] = name
		return differs("dns: hosts, identity: names", "its address is assigned by another program")
	case "domain":
		o.domain, _, _ = strings.Cut(value, ",")
		return differs("dns: hosts", "names of devices are written whole, with ."+o.domain)
	case "edns-packet-max":
		return udpSize(p.work, value)
	}
	return o.take(p, key, value)
}

// hostRecord converts names and the addresses that follow them.
func hostRecord(w *work, at place, value string) {
	var names []string
	for s := range strings.SplitSeq(value, ",") {
		s = strings.TrimSpace(s)
		if _, err := netip.ParseAddr(s); err == nil {
			for _, name := range names {
				w.host(at, name, s)
			}
		} else if strings.Trim(s, "0123456789") != "" { // not a TTL
			names = append(names, s)
		}
	}
}

// take converts an option that is not about names.
func (o *dnsmasqOptions) take(p *plain, key, value string) *Note {
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
	case "cache-size":
		return p.set.cacheEntries(value)
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
		return differs("dns: cache: stale", "stale answers are served while upstreams are slow or fail")
	case "filter-A", "filter-AAAA":
		return p.refuseType(strings.TrimPrefix(key, "filter-"))
	case "filter-rr":
		for t := range strings.SplitSeq(value, ",") {
			p.refuseType(strings.TrimSpace(t))
		}
		return carried("a rule for types of records")
	case "stop-dns-rebind":
		return privateRefused()
	case "rebind-domain-ok":
		return p.privateNames(strings.Split(value, "/"))
	case "log-queries":
		return differs("events", "all queries are in the record, counters at /metrics")
	}
	return lost(dnsmasqReasons.of(key))
}

// listeners sets the addresses of the name server.
func (o *dnsmasqOptions) listeners(w *work) {
	w.leaseNames(place{file: o.files.dir}, o.devices)
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
