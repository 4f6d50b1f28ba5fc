package dnsmasq

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/resolver/forward"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// Options has options of dnsmasq that are converted together.
type Options struct {
	Files     *input.OptionFiles
	Port      string
	domain    string            // of devices
	devices   map[string]string // names by address
	addresses []string
}

// reasons are the reasons why options have no equivalent.
var reasons = report.Reasons{
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

// Option converts an option. Long because each option has a case.
func (o *Options) Option(p *build.Plain, key, value string) *report.Note {
	switch key {
	case "address":
		parts := strings.Split(strings.TrimPrefix(value, "/"), "/")
		to := parts[len(parts)-1]
		if slices.Contains(parts[:len(parts)-1], "#") {
			return report.None("it answers for all names: write a rule without conditions with action: block, and dns: block: sinkhole, if that is meant")
		}
		blocks := slices.Contains([]string{"", "#", "0.0.0.0", "::"}, to)
		for _, name := range parts[:len(parts)-1] {
			if blocks {
				p.Zone(true, name)
			} else {
				name = strings.Trim(strings.TrimPrefix(name, "*"), ".")
				p.Work.Host(p.At, name, to)
				p.Work.Host(p.At, "*."+name, to)
			}
		}
		if blocks {
			return report.Same("lists.blocked")
		}
		return report.Same("dns: hosts, with what is below the name")
	case "local", "server", "rev-server", "cname":
		if parts := strings.Split(value, "/"); key != "cname" && key != "rev-server" && len(parts) > 2 {
			to := parts[len(parts)-1]
			for _, name := range parts[1 : len(parts)-1] {
				p.Zone(to == "", name)
			}
			if to == "" {
				return report.Same("lists.blocked")
			} else if to == "#" {
				return report.Same("an exception in lists.blocked")
			}
		}
		if server := value[strings.LastIndexByte(value, '/')+1:]; key == "server" && build.ServerAddress(server) == "" {
			return report.ByHand("dns: forward: upstreams", "servers are named by address: write that")
		}
		TakeName(p.Work, p.At, key, value)
		return report.Same("dns: forward, hosts")
	case "host-record":
		HostRecord(p.Work, p.At, value)
		return report.Same("dns: hosts")
	case "dnssec":
		return p.Validate("true")
	case "conf-file", "servers-file", "conf-dir":
		return build.Included(o.Files, key, value)
	case "addn-hosts", "hostsdir":
		found := input.Glob(o.Files.Dir, value)
		if len(found) == 0 {
			found, _ = filepath.Glob(filepath.Join(input.Find(o.Files.Dir, value), "*"))
		}
		n := &p.Work.Set.UseDNS().Names
		for _, f := range found {
			n.HostsFiles = append(n.HostsFiles, p.Work.File(f))
		}
		if len(found) == 0 {
			return report.ByHand("dns: hosts-files", "no such file: name it there")
		}
		return report.Same("dns: hosts-files")
	case "resolv-file":
		found := input.Glob(o.Files.Dir, value)
		if len(found) == 0 {
			return report.ByHand("dns: forward: upstreams", "no such file: name the servers in it there")
		}
		p.Work.Lines(found[0], func(_ report.Place, s string) {
			if f := strings.Fields(s); len(f) > 1 && f[0] == "nameserver" {
				p.Upstream(f[1])
			}
		})
		return report.Differs("dns: forward: upstreams", "as they are in the file now")
	case "dhcp-leasefile":
		file := input.Find(o.Files.Dir, value)
		if !input.IsFile(file) {
			return report.ByHand("identity: names: leases", "no such file: name it there")
		}
		n := &p.Work.Set.Identity.Names
		n.Leases = append(n.Leases, setting.Source(file))
		return report.Same("identity: names: leases")
	case "dhcp-host":
		addr, name, _ := StaticLease(value)
		if addr == "" || name == "" {
			return report.None(reasons.Of(key))
		}
		p.Work.Host(p.At, name, addr)
		if o.domain != "" {
			p.Work.Host(p.At, name+"."+o.domain, addr)
		}
		if o.devices == nil {
			o.devices = map[string]string{}
		}
		o.devices[addr] = name
		return report.Differs("dns: hosts, identity: names", "its address is assigned by another program")
	case "domain":
		o.domain, _, _ = strings.Cut(value, ",")
		return report.Differs("dns: hosts", "names of devices are written whole, with ."+o.domain)
	case "edns-packet-max":
		return build.UdpSize(p.Work, value)
	}
	return o.take(p, key, value)
}

// take converts an option that is not about names.
func (o *Options) take(p *build.Plain, key, value string) *report.Note {
	dns := p.Work.Set.UseDNS()
	switch key {
	case "port":
		o.Port = value
		return report.Same("dns: listen")
	case "listen-address":
		for a := range strings.SplitSeq(value, ",") {
			o.addresses = append(o.addresses, strings.TrimSpace(a))
		}
		return report.Same("dns: listen")
	case "bind-interfaces", "bind-dynamic":
		return report.Same("dns: listen")
	case "no-resolv":
		return report.Same("dns: forward: upstreams")
	case "no-poll", "no-hosts":
		return report.Same("no dns: hosts-files")
	case "strict-order":
		dns.Forward.Order = forward.Strict
		return report.Same("dns: forward: order")
	case "all-servers":
		dns.Forward.Order = forward.Parallel
		return report.Same("dns: forward: order")
	case "cache-size":
		return p.Work.Set.CacheEntries(value)
	case "min-cache-ttl":
		return build.TakeTime(value, "dns: cache: min-ttl", time.Second, time.Hour, &dns.Cache.MinTTL)
	case "max-cache-ttl":
		return build.TakeTime(value, "dns: cache: max-ttl", time.Second, build.Week, &dns.Cache.MaxTTL)
	case "neg-ttl":
		return build.TakeTime(value, "dns: cache: negative-ttl", time.Second, 24*time.Hour, &dns.Cache.Negative)
	case "use-stale-cache":
		if value != "" {
			return build.TakeTime(value, "dns: cache: stale", time.Second, build.Week, &dns.Cache.Stale)
		}
		return report.Differs("dns: cache: stale", "stale answers are served while upstreams are slow or fail")
	case "filter-A", "filter-AAAA":
		return p.RefuseType(strings.TrimPrefix(key, "filter-"))
	case "filter-rr":
		for t := range strings.SplitSeq(value, ",") {
			p.RefuseType(strings.TrimSpace(t))
		}
		return report.Same("a rule for types of records")
	case "stop-dns-rebind":
		return build.PrivateRefused()
	case "rebind-domain-ok":
		return p.PrivateNames(strings.Split(value, "/"))
	case "log-queries":
		return report.Differs("events", "all queries are in the record, counters at /metrics")
	}
	return report.None(reasons.Of(key))
}

// Listeners sets the addresses of the name server.
func (o *Options) Listeners(w *build.Work) {
	w.LeaseNames(report.Place{File: o.Files.Dir}, o.devices)
	if o.Port == "53" && len(o.addresses) == 0 {
		return
	}
	if len(o.addresses) == 0 {
		o.addresses = []string{""}
	}
	s := &w.Set.UseDNS().Server
	s.Listen = nil
	for _, a := range o.addresses {
		s.Listen = append(s.Listen, net.JoinHostPort(a, o.Port))
	}
}
