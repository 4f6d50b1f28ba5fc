// Package blocky imports Blocky's config.yml: lists by group, groups by client, and settings key by
// key.
package blocky

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/resolver/forward"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// reasons are the reasons why keys have no equivalent.
var reasons = report.Reasons{
	{"upstreams.groups.", "upstreams are chosen by the name, not by the client"},
	{"upstream.", "upstreams are chosen by the name, not by the client"},
	{"upstreams.init.", "the gateway serves at once, and asks upstreams when a client asks it"},
	{"customDNS.rewrite.", "names are not rewritten: write the names themselves under dns: hosts"},
	{"customDNS.zone", "save the text as a file, and name that under zones"},
	{"customDNS.", "local names are answered as dns: hosts says"},
	{"conditional.rewrite.", "names are not rewritten: write the domain itself under dns: forward: routes"},
	{"blocking.loading.", "lists are fetched in the background and again after a failure; the last good copy stays in use"},
	{"caching.prefetch", "names in use are fetched before they expire; how often cannot be set"},
	{"caching.exclude", "all answers are kept as long as their TTL says"},
	{"clientLookup.", "devices get names from identity: names"},
	{"queryLog.", "rows are written every second, and again after a failure; docs/events.md names their fields"},
	{"redis.", "gateways share their state through Redis: name it under state: redis"},
	{"hostsFile.", "hosts files are read as they are, and read again when they change"},
	{"ecs.", "clients are identified by their address; networks of clients are not sent to upstreams"},
	{"fqdnOnly.", "names without a dot are resolved like others; a rule that blocks them needs a list"},
	{"specialUseDomains.", "special-use names are answered as RFC 6761 says"},
	{"log.", "the log goes to standard error, which the service manager collects"},
	{"prometheus.path", "metrics are at /metrics"},
	{"ports.dohPath", "DNS over HTTPS is at /dns-query"},
	{"ports.http", "metrics and API are at listen.admin"},
	{"httpPort", "metrics and API are at listen.admin"},
}

// A config reads the settings of Blocky.
type config struct {
	p     *build.Plain // with the place of the current key
	dir   string
	every time.Duration // interval of checks of lists; 0: not set
	tls   bool          // whether the certificate can be used
	ports bool          // whether some were named

	groups  map[string]*build.Plain // lists, by their group
	denies  map[string]bool         // groups that have deny lists, be they empty
	clients map[string][]string     // groups, by client
}

func Import(w *build.Work, file string) error {
	w.Set.UseDNS()
	b := &config{dir: file, groups: map[string]*build.Plain{}, denies: map[string]bool{}, clients: map[string][]string{}}
	if input.IsFile(file) {
		b.dir = filepath.Dir(file)
	}
	err := build.ReadTree(w, file, "config.yml", func(all map[string]string) build.Reader {
		b.tls = build.KeyPair(w, input.Find(b.dir, all["certFile"]), input.Find(b.dir, all["keyFile"])) == nil
		return b.take
	})
	if err != nil {
		return err
	}
	if err := b.finish(w, report.Place{File: file}); err != nil {
		return err
	}
	if b.every > 0 {
		w.Set.ListsEvery(b.every)
	}
	return nil
}

// A row is about a key.
type row = report.Row[*config, string]

// table has the keys without a name in them, and the values that Blocky 0.26 uses for omitted
// ones.
var table = report.Rows(
	row{Keys: "connectIPVersion", Standard: []string{"dual"}},
	row{Keys: "upstreams.init.strategy blocking.loading.strategy", Standard: []string{"blocking"}},
	row{Keys: "customDNS.customTTL hostsFile.hostsTTL", Standard: []string{"1h"}},
	row{Keys: "customDNS.filterUnmappedTypes hostsFile.filterLoopback log.timestamp specialUseDomains.rfc6762-appendixG specialUseDomains.enable ede.enable", Standard: []string{"true"}},
	row{Keys: "blocking.loading.concurrency", Standard: []string{"4"}},
	row{Keys: "blocking.loading.maxErrorsPerSource caching.prefetchThreshold", Standard: []string{"5"}},
	row{Keys: "blocking.loading.downloads.timeout", Standard: []string{"5s"}},
	row{Keys: "blocking.loading.downloads.attempts queryLog.creationAttempts", Standard: []string{"3"}},
	row{Keys: "blocking.loading.downloads.cooldown", Standard: []string{"500ms"}},
	row{Keys: "caching.prefetchExpires", Standard: []string{"2h"}},
	row{Keys: "queryLog.creationCooldown", Standard: []string{"2s"}},
	row{Keys: "queryLog.flushInterval", Standard: []string{"30s"}},
	row{Keys: "prometheus.path", Standard: []string{"/metrics"}},
	row{Keys: "ports.dohPath", Standard: []string{"/dns-query"}},
	row{Keys: "log.level", Standard: []string{"info"}},
	row{Keys: "log.format", Standard: []string{"text"}},
	row{Keys: "upstreams.strategy", Take: func(b *config, v string) *report.Note {
		f := &b.p.Work.Set.UseDNS().Forward
		if f.Order = forward.Fastest; v == "strict" {
			f.Order = forward.Strict
			return report.Same("dns: forward: order: strict")
		}
		return report.Differs("dns: forward: order", "the fastest upstream is asked, and another one if it does not answer")
	}},
	row{Keys: "upstreams.timeout upstreamTimeout", Standard: []string{"2s"}, Take: between("dns: forward: timeout", 100*time.Millisecond, 5*time.Second, func(dns *build.NameServer) *setting.Duration { return &dns.Forward.Timeout })},
	row{Keys: "blocking.blockType", Take: func(b *config, v string) *report.Note { return b.p.Answer(v) }},
	row{Keys: "blocking.blockTTL", Standard: []string{"6h"}, Take: between("dns: block: ttl", time.Second, 24*time.Hour, func(dns *build.NameServer) *setting.Duration { return &dns.Names.Block.TTL })},
	row{Keys: "blocking.loading.refreshPeriod blocking.refreshPeriod", Take: func(b *config, v string) *report.Note {
		d, err := duration(v)
		if err != nil || d < time.Hour {
			return report.Differs("lists: every", "lists are checked once a day")
		}
		b.every = min(d, 365*24*time.Hour)
		return report.Same("lists: every")
	}},
	row{Keys: "caching.minTime", Standard: []string{"0s"}, Take: between("dns: cache: min-ttl", time.Second, time.Hour, func(dns *build.NameServer) *setting.Duration { return &dns.Cache.MinTTL })},
	row{Keys: "caching.maxTime", Standard: []string{"0s"}, Take: between("dns: cache: max-ttl", time.Second, build.Week, func(dns *build.NameServer) *setting.Duration { return &dns.Cache.MaxTTL })},
	row{Keys: "caching.cacheTimeNegative", Standard: []string{"30m"}, Take: between("dns: cache: negative-ttl", time.Second, 24*time.Hour, func(dns *build.NameServer) *setting.Duration { return &dns.Cache.Negative })},
	row{Keys: "caching.maxItemsCount", Standard: []string{"0"}, Take: func(b *config, v string) *report.Note { return b.p.Work.Set.CacheEntries(v) }}, // 0: without a bound
	row{Keys: "caching.prefetching", Take: ifTrue("dns: cache", "names in use are fetched before they expire")},
	row{Keys: "filtering.queryTypes", Take: func(b *config, v string) *report.Note { return b.p.RefuseType(v) }},
	row{Keys: "dnssec.validate", Take: func(b *config, v string) *report.Note { return b.p.Validate(v) }},
	row{Keys: "queryLog.type", Take: func(b *config, v string) *report.Note {
		if v == "none" {
			b.p.Work.LeaveOutQueries()
			return report.Same("dns: log: off")
		}
		return report.Differs("events", "the record is the gateway's own database; \"shuultuur events\" searches it")
	}},
	row{Keys: "queryLog.logRetentionDays", Take: func(b *config, v string) *report.Note {
		days, err := strconv.Atoi(v)
		if err != nil || days <= 0 || days > 36500 {
			return report.ByHand("events: keep", "rows are kept for 90 days")
		}
		b.p.Work.KeepRecord(time.Duration(days) * 24 * time.Hour)
		return report.Same("events: keep")
	}},
	row{Keys: "prometheus.enable", Take: ifTrue("listen: admin", "metrics are at /metrics of that address")},
	row{Keys: "hostsFile.sources hostsFile.filePath", Take: func(b *config, v string) *report.Note {
		if strings.Contains(v, "://") || strings.Contains(v, "\n") {
			return report.ByHand("dns: hosts-files", "save it as a file, and name that there")
		}
		n := &b.p.Work.Set.UseDNS().Names
		n.HostsFiles = append(n.HostsFiles, setting.File(v))
		return report.Same("dns: hosts-files")
	}},
	row{Keys: "ports.dns port", Take: func(b *config, v string) *report.Note {
		s := &b.p.Work.Set.UseDNS().Server
		if !b.ports { // replaces our default
			s.Listen, b.ports = nil, true
		}
		s.Listen = append(s.Listen, build.ListenAddresses(v)...)
		return report.Same("dns: listen")
	}},
	row{Keys: "ports.tls tlsPort", Take: encrypted("dns: tls", func(dns *build.NameServer) *setting.OneOrMore[string] { return &dns.Server.TLS })},
	row{Keys: "ports.https httpsPort", Take: encrypted("dns: https", func(dns *build.NameServer) *setting.OneOrMore[string] { return &dns.Server.HTTPS })},
	row{Keys: "certFile", Take: encrypted("dns: cert", nil)},
	row{Keys: "keyFile", Take: encrypted("dns: key", nil)},
	row{Keys: "minTlsServeVersion", Standard: []string{"1.2"}, Note: report.Differs("dns: tls", "TLS 1.2 and 1.3 are spoken")},
)

// take converts a key. Those with the name of a host, list or client in them have no row.
func (b *config) take(p *build.Plain, key, value string) *report.Note {
	b.p = p
	if n := table[key].Convert(b, value, value); n != nil {
		return n
	}
	top, rest, _ := strings.Cut(key, ".")
	group, name, _ := strings.Cut(rest, ".")
	switch section := top + "." + group; {
	case strings.HasPrefix(key, "upstreams.groups.default"), strings.HasPrefix(key, "upstream.default"):
		return p.Upstream(value)
	case top == "bootstrapDns":
		return p.Bootstrap(strings.TrimPrefix(value, "tcp+udp:"))
	case section == "customDNS.mapping" && name != "":
		for a := range strings.SplitSeq(value, ",") {
			p.Work.Host(p.At, name, strings.TrimSpace(a))
			p.Work.Host(p.At, "*."+name, strings.TrimSpace(a)) // Blocky answers for the names below it as well
		}
		return report.Same("dns: hosts")
	case section == "conditional.mapping" && name == ".":
		return report.ByHand("dns: forward: routes", "names without a dot are asked at the upstreams: write the domain of this network there, with the server that knows its names")
	case section == "conditional.mapping" && name != "":
		for a := range strings.SplitSeq(value, ",") {
			p.Work.Route(p.At, name, strings.TrimSpace(a))
		}
		return report.Same("dns: forward: routes")
	case section == "blocking.denylists", section == "blocking.blackLists":
		b.denies[name] = true
		return b.listsOf(p, name).List(true, source(b.dir, value))
	case section == "blocking.allowlists", section == "blocking.whiteLists":
		return b.listsOf(p, name).List(false, source(b.dir, value))
	case section == "blocking.clientGroupsBlock":
		b.clients[name] = append(b.clients[name], value)
		return report.Same("a policy of these clients")
	case section == "clientLookup.clients" && name != "":
		return b.client(p, name, value)
	}
	return report.None(reasons.Of(key))
}

// source returns a list as Blocky takes it: several lines are the list itself, and what does not
// begin like an address is the path of a file, also without a slash.
func source(dir, value string) string {
	if strings.Contains(value, "\n") || strings.HasPrefix(value, "http") {
		return value
	}
	return input.Find(dir, strings.TrimPrefix(value, "file://"))
}

// client names a device by its addresses.
func (b *config) client(p *build.Plain, name, value string) *report.Note {
	for a := range strings.SplitSeq(value, ",") {
		addr, err := netip.ParseAddr(strings.TrimSpace(a))
		if err != nil {
			return report.ByHand("identity: addresses", fmt.Sprintf("%q is no address", a))
		}
		if p.Work.Set.Identity.Addresses == nil {
			p.Work.Set.Identity.Addresses = map[string][]string{}
		}
		p.Work.Set.Identity.Addresses[name] = append(p.Work.Set.Identity.Addresses[name], addr.Unmap().String())
	}
	return report.Same("identity: addresses")
}

// ifTrue converts a key that is true.
func ifTrue(ours, why string) func(*config, string) *report.Note {
	return func(_ *config, v string) *report.Note {
		if v != "true" {
			return nil
		}
		return report.Differs(ours, why)
	}
}

// encrypted converts addresses that need the certificate, or a file of that.
func encrypted(ours string, to func(dns *build.NameServer) *setting.OneOrMore[string]) func(*config, string) *report.Note {
	return func(b *config, v string) *report.Note {
		if !b.tls {
			return report.ByHand(ours, "a certificate and key that belong together are needed: write dns: cert, key, tls and https")
		}
		if to != nil {
			all := to(b.p.Work.Set.UseDNS())
			*all = append(*all, build.ListenAddresses(v)...)
		}
		return report.Same(ours)
	}
}

// duration reads a duration; a bare number means minutes.
func duration(value string) (time.Duration, error) {
	if n, err := strconv.Atoi(value); err == nil {
		return time.Duration(n) * time.Minute, nil
	}
	return time.ParseDuration(value)
}

// between converts a duration between least and most.
func between(ours string, least, most time.Duration, to func(dns *build.NameServer) *setting.Duration) func(*config, string) *report.Note {
	return func(b *config, v string) *report.Note {
		d, err := duration(v)
		if err != nil || d < least {
			return report.ByHand(ours, fmt.Sprintf("%q is less than %v", v, setting.Duration(least)))
		}
		return build.AtMost(ours, d, most, to(b.p.Work.Set.UseDNS()))
	}
}
