package dnsmasq

import (
	"cmp"
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
	p         *build.Plain // with the place of the current option, which is
	key       string
	domain    string            // of devices
	devices   map[string]string // names by address
	addresses []string

	limited    bool           // it listens at some interfaces
	everything bool           // all names without a server or address of their own are refused
	dotted     bool           // names without a dot are refused
	open       []report.Place // names with a server
	bogus      []report.Place // answers with these addresses are refused
}

// reasons are the reasons why options with these beginnings have no equivalent.
var reasons = report.Reasons{
	{"dhcp", "addresses are assigned by another program: leave DHCP where it is, and name its leases under identity: names: leases"},
	{"enable-ra", "addresses are assigned by another program: leave DHCP where it is, and name its leases under identity: names: leases"},
	{"tftp", "files are served by another program"},
	{"enable-tftp", "files are served by another program"},
}

// seconds converts a time of at most most.
func seconds(ours string, most time.Duration, to func(dns *build.NameServer) *setting.Duration) func(*Options, string) *report.Note {
	return func(o *Options, value string) *report.Note {
		return build.TakeTime(value, ours, time.Second, most, to(o.p.Work.Set.UseDNS()))
	}
}

// A row is about an option of dnsmasq.
type row = report.Row[*Options, string]

// table has the options, and why those without an equivalent have none.
var table = report.Rows(
	row{Keys: "address", Take: (*Options).address},
	row{Keys: "local server rev-server cname", Take: (*Options).names},
	row{Keys: "host-record", Take: func(o *Options, value string) *report.Note {
		HostRecord(o.p.Work, o.p.At, value)
		return report.Same("dns: hosts")
	}},
	row{Keys: "txt-record mx-host mx-target srv-host ptr-record caa-record naptr-record", Note: report.None("other records are kept in a zone file: dns: zones")},
	row{Keys: "dnssec", Take: func(o *Options, _ string) *report.Note { return o.p.Validate("true") }},
	row{Keys: "trust-anchor", Take: (*Options).anchor},
	row{Keys: "conf-file servers-file conf-dir", Take: func(o *Options, value string) *report.Note { return o.p.Included(o.Files, o.key, value) }},
	row{Keys: "addn-hosts hostsdir", Take: (*Options).hostsFiles},
	row{Keys: "resolv-file", Take: func(o *Options, value string) *report.Note {
		found := input.Glob(o.Files.Dir, value)
		if len(found) == 0 {
			return report.ByHand("dns: forward: upstreams", "no such file: name the servers in it there")
		}
		o.p.Work.Lines(found[0], func(_ report.Place, s string) {
			if f := strings.Fields(s); len(f) > 1 && f[0] == "nameserver" {
				o.p.Upstream(f[1])
			}
		})
		return report.Differs("dns: forward: upstreams", "as they are in the file now")
	}},
	row{Keys: "dhcp-leasefile", Take: func(o *Options, value string) *report.Note {
		file := input.Find(o.Files.Dir, value)
		if !input.IsFile(file) {
			return report.ByHand("identity: names: leases", "no such file: name it there")
		}
		n := &o.p.Work.Set.Identity.Names
		n.Leases = append(n.Leases, setting.Source(file))
		return report.Same("identity: names: leases")
	}},
	row{Keys: "dhcp-host", Take: (*Options).device},
	row{Keys: "domain", Take: func(o *Options, value string) *report.Note {
		o.domain, _, _ = strings.Cut(value, ",")
		return report.Differs("dns: hosts", "names of devices are written whole, with ."+o.domain)
	}},
	row{Keys: "edns-packet-max", Take: func(o *Options, value string) *report.Note { return build.UdpSize(o.p.Work, value) }},
	row{Keys: "port", Take: func(o *Options, value string) *report.Note { o.Port = value; return report.Same("dns: listen") }},
	row{Keys: "listen-address", Take: func(o *Options, value string) *report.Note {
		o.addresses = append(o.addresses, strings.Split(value, ",")...)
		return report.Same("dns: listen")
	}},
	row{Keys: "bind-interfaces bind-dynamic", Note: report.Same("dns: listen")},
	row{Keys: "interface", Take: func(o *Options, value string) *report.Note {
		o.limited = true
		if value == "lo" {
			return report.Same("dns: listen")
		}
		return report.ByHand("dns: listen", "write the addresses of the interface there; until then it is not served").Closing()
	}},
	row{Keys: "except-interface", Take: func(o *Options, _ string) *report.Note {
		o.limited = true
		return report.ByHand("dns: listen", "write the addresses of the other interfaces there; until then only this machine is served").Closing()
	}},
	row{Keys: "interface-name", Note: report.ByHand("dns: hosts", "write the addresses of the interface under its name there")},
	row{Keys: "no-resolv", Note: report.Same("dns: forward: upstreams")},
	row{Keys: "no-poll no-hosts", Note: report.Same("no dns: hosts-files")},
	row{Keys: "strict-order all-servers", Take: func(o *Options, _ string) *report.Note {
		o.p.Work.Set.UseDNS().Forward.Order = map[string]forward.Order{"strict-order": forward.Strict, "all-servers": forward.Parallel}[o.key]
		return report.Same("dns: forward: order")
	}},
	row{Keys: "cache-size", Take: func(o *Options, value string) *report.Note { return o.p.Work.Set.CacheEntries(value) }},
	row{Keys: "min-cache-ttl", Take: seconds("dns: cache: min-ttl", time.Hour, func(dns *build.NameServer) *setting.Duration { return &dns.Cache.MinTTL })},
	row{Keys: "max-cache-ttl", Take: seconds("dns: cache: max-ttl", build.Week, func(dns *build.NameServer) *setting.Duration { return &dns.Cache.MaxTTL })},
	row{Keys: "neg-ttl", Take: seconds("dns: cache: negative-ttl", 24*time.Hour, func(dns *build.NameServer) *setting.Duration { return &dns.Cache.Negative })},
	row{Keys: "local-ttl", Note: report.None("local names have one TTL")},
	row{Keys: "max-ttl", Note: report.None("answers have the TTL of the upstream, or dns: cache: max-ttl")},
	row{Keys: "use-stale-cache", Take: func(o *Options, value string) *report.Note {
		if value == "" {
			return report.Differs("dns: cache: stale", "stale answers are served while upstreams are slow or fail")
		}
		return build.TakeTime(value, "dns: cache: stale", time.Second, build.Week, &o.p.Work.Set.UseDNS().Cache.Stale)
	}},
	row{Keys: "filter-A filter-AAAA", Take: func(o *Options, _ string) *report.Note { return o.p.RefuseType(strings.TrimPrefix(o.key, "filter-")) }},
	row{Keys: "filter-rr", Take: func(o *Options, value string) *report.Note {
		for t := range strings.SplitSeq(value, ",") {
			o.p.RefuseType(strings.TrimSpace(t))
		}
		return report.Same("a rule for types of records")
	}},
	row{Keys: "stop-dns-rebind", Note: build.PrivateRefused()},
	row{Keys: "rebind-domain-ok", Take: func(o *Options, value string) *report.Note { return o.p.PrivateNames(strings.Split(value, "/")) }},
	row{Keys: "rebind-localhost-ok", Note: report.None("answers with loopback addresses are refused")},
	row{Keys: "bogus-nxdomain", Take: func(o *Options, value string) *report.Note {
		if _, err := input.Network(value); err != nil {
			return report.None(err.Error())
		}
		o.bogus = append(o.bogus, o.p.Entry(value))
		return report.Same("a rule for answers with these addresses")
	}},
	row{Keys: "bogus-priv", Note: report.None("name the servers for private addresses under dns: forward: routes")},
	row{Keys: "domain-needed", Take: func(o *Options, _ string) *report.Note {
		o.dotted = true
		return report.Same("a rule for names without a dot")
	}},
	row{Keys: "expand-hosts", Note: report.None("write names under dns: hosts with their domain")},
	row{Keys: "ipset nftset", Note: report.None("the firewall's sets are not filled")},
	row{Keys: "local-service", Note: report.None("write dns: recursion or allow for who may ask")},
	row{Keys: "dns-forward-max", Note: report.None("limits follow the size of the machine")},
	row{Keys: "query-port", Note: report.None("each query has its own source port")},
	row{Keys: "log-queries", Note: report.Differs("events", "all queries are in the record, counters at /metrics")},
	row{Keys: "log-facility", Note: report.None("the log goes to standard error, which the service manager collects")},
	row{Keys: "user group", Note: report.None("the service manager sets user, group and limits")},
	row{Keys: "pid-file", Note: report.None("the service manager does that")},
)

// Option converts an option.
func (o *Options) Option(p *build.Plain, key, value string) *report.Note {
	o.p, o.key = p, key
	return cmp.Or(table[key].Convert(o, value, value), report.None(reasons.Of(key)))
}

// address converts names that have an address, or none.
func (o *Options) address(value string) *report.Note {
	parts := strings.Split(strings.TrimPrefix(value, "/"), "/")
	names, to := parts[:len(parts)-1], parts[len(parts)-1]
	if slices.Contains(names, "#") {
		o.everything = to != ""
		return report.Differs("a rule that refuses all other names", "they are answered as dns: block: answer says")
	}
	if slices.Contains([]string{"", "#", "0.0.0.0", "::"}, to) {
		for _, name := range names {
			o.p.Zone(true, name)
		}
		return report.Same("lists.blocked")
	}
	for _, name := range names {
		name = strings.Trim(strings.TrimPrefix(name, "*"), ".")
		o.p.Work.Host(o.p.At, name, to)
		o.p.Work.Host(o.p.At, "*."+name, to)
	}
	return report.Same("dns: hosts, with what is below the name")
}

// names converts names that have a server or another name, and names that are refused.
func (o *Options) names(value string) *report.Note {
	parts := strings.Split(value, "/")
	to := parts[len(parts)-1]
	if (o.key == "local" || o.key == "server") && len(parts) > 2 {
		for _, name := range parts[1 : len(parts)-1] {
			switch {
			case name == "" && to == "":
				o.dotted = true
				continue
			case name == "#" && to == "":
				o.everything = true
				continue
			case name == "" || name == "#":
				continue
			}
			if to != "" {
				o.open = append(o.open, o.p.Entry(build.ZoneRule(true, name)))
			}
			o.p.Zone(to == "", name)
		}
		if ours, ok := map[string]string{"": "lists.blocked", "#": "an exception in lists.blocked"}[to]; ok {
			return report.Same(ours)
		}
	}
	key := o.key
	if key == "local" {
		key = "server" // which means the same
	}
	if key == "server" && build.ServerAddress(to) == "" {
		return report.ByHand("dns: forward: upstreams", "servers are named by address: write that")
	}
	TakeName(o.p.Work, o.p.At, key, value)
	return report.Same("dns: forward, hosts")
}

// anchor converts the DS record of a domain, "[class,]domain,tag,algorithm,digest type,digest".
func (o *Options) anchor(value string) *report.Note {
	parts := strings.Split(value, ",")
	if len(parts) == 6 {
		parts = parts[1:]
	}
	if len(parts) != 5 {
		return report.ByHand("dns: forward: trust-anchors", "it is not domain, key tag, algorithm, digest type and digest")
	}
	domain := strings.Trim(strings.TrimSpace(parts[0]), ".")
	if domain == "" {
		return report.None("the keys of the root are in the program")
	}
	f := &o.p.Work.Set.UseDNS().Forward
	f.Anchors = append(f.Anchors, domain+". IN DS "+strings.Join(parts[1:], " "))
	return report.Same("dns: forward: trust-anchors")
}

func (o *Options) hostsFiles(value string) *report.Note {
	found := input.Glob(o.Files.Dir, value)
	if len(found) == 0 {
		found, _ = filepath.Glob(filepath.Join(input.Find(o.Files.Dir, value), "*"))
	}
	n := &o.p.Work.Set.UseDNS().Names
	for _, f := range found {
		n.HostsFiles = append(n.HostsFiles, o.p.Work.File(f))
	}
	if len(found) == 0 {
		return report.ByHand("dns: hosts-files", "no such file: name it there; names that it refuses resolve until then").Opening()
	}
	return report.Same("dns: hosts-files")
}

// device names a device that has a fixed address.
func (o *Options) device(value string) *report.Note {
	addr, name, _ := StaticLease(value)
	if addr == "" || name == "" {
		return nil
	}
	o.p.Work.Host(o.p.At, name, addr)
	if o.domain != "" {
		o.p.Work.Host(o.p.At, name+"."+o.domain, addr)
	}
	if o.devices == nil {
		o.devices = map[string]string{}
	}
	o.devices[addr] = name
	return report.Differs("dns: hosts, identity: names", "its address is assigned by another program")
}

// Listeners sets the addresses of the name server, and ends the reading: anchors mean nothing
// without validation.
func (o *Options) Listeners(w *build.Work) {
	w.LeaseNames(report.Place{File: o.Files.Dir}, o.devices)
	if f := &w.Set.UseDNS().Forward; !f.Validate {
		f.Anchors = nil
	}
	if o.limited {
		o.addresses = append(o.addresses, "127.0.0.1", "::1") // which dnsmasq serves besides
	}
	if o.Port == "53" && len(o.addresses) == 0 {
		return
	}
	if len(o.addresses) == 0 {
		o.addresses = []string{""}
	}
	s := &w.Set.UseDNS().Server
	s.Listen = nil
	for _, a := range o.addresses {
		s.Listen = append(s.Listen, net.JoinHostPort(strings.TrimSpace(a), o.Port))
	}
}
