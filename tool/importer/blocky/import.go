// Package blocky imports Blocky's config.yml: lists by group, groups by client, and settings key by
// key.
package blocky

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/resolver/forward"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// defaults are the values that Blocky 0.26 uses for omitted keys.
var defaults = map[string][]string{
	"upstreams.timeout": {"2s"}, "upstreams.init.strategy": {"blocking"}, "connectIPVersion": {"dual"},
	"customDNS.customTTL": {"1h"}, "customDNS.filterUnmappedTypes": {"true"},
	"blocking.blockTTL": {"6h"}, "blocking.loading.concurrency": {"4"}, "blocking.loading.strategy": {"blocking"},
	"blocking.loading.maxErrorsPerSource": {"5"}, "blocking.loading.downloads.timeout": {"5s"},
	"blocking.loading.downloads.attempts": {"3"}, "blocking.loading.downloads.cooldown": {"500ms"},
	"caching.minTime": {"0s"}, "caching.maxTime": {"0s"}, "caching.prefetchExpires": {"2h"}, "caching.prefetchThreshold": {"5"},
	"caching.cacheTimeNegative": {"30m"}, "prometheus.path": {"/metrics"}, "ports.dohPath": {"/dns-query"},
	"log.level": {"info"}, "log.format": {"text"}, "log.timestamp": {"true"}, "minTlsServeVersion": {"1.2"},
	"queryLog.creationAttempts": {"3"}, "queryLog.creationCooldown": {"2s"}, "queryLog.flushInterval": {"30s"},
	"hostsFile.hostsTTL": {"1h"}, "hostsFile.filterLoopback": {"true"}, "specialUseDomains.rfc6762-appendixG": {"true"},
	"specialUseDomains.enable": {"true"}, "ede.enable": {"true"},
}

// reasons are the reasons why keys have no equivalent.
var reasons = report.Reasons{
	{"upstreams.groups.", "upstreams are chosen by the name, not by the client"},
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
	dir   string
	every time.Duration // interval of checks of lists; 0: not set
	tls   bool          // whether the certificate can be used
	ports bool          // whether some were named

	groups  map[string]*build.Plain // lists, by their group
	clients map[string][]string     // groups, by client
}

func Import(w *build.Work, file string) error {
	w.Set.UseDNS()
	b := &config{dir: file, groups: map[string]*build.Plain{}, clients: map[string][]string{}}
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

func (b *config) take(p *build.Plain, key, value string) *report.Note {
	if slices.Contains(defaults[key], value) {
		return &report.Note{Kind: report.Default}
	}
	top, rest, _ := strings.Cut(key, ".")
	group, name, _ := strings.Cut(rest, ".")
	dns := p.Work.Set.UseDNS()
	switch {
	case strings.HasPrefix(key, "upstreams.groups.default"), strings.HasPrefix(key, "upstream.default"):
		return p.Upstream(value)
	case key == "upstreams.strategy":
		if dns.Forward.Order = forward.Fastest; value == "strict" {
			dns.Forward.Order = forward.Strict
			return report.Same("dns: forward: order: strict")
		}
		return report.Differs("dns: forward: order", "the fastest upstream is asked, and another one if it does not answer")
	case key == "upstreams.timeout":
		return takeTime(value, "dns: forward: timeout", 100*time.Millisecond, 5*time.Second, &dns.Forward.Timeout)
	case top == "bootstrapDns":
		return p.Bootstrap(strings.TrimPrefix(value, "tcp+udp:"))
	case top == "customDNS" && group == "mapping" && name != "":
		for a := range strings.SplitSeq(value, ",") {
			p.Work.Host(p.At, name, strings.TrimSpace(a))
		}
		return report.Same("dns: hosts")
	case top == "conditional" && group == "mapping" && name != "":
		for a := range strings.SplitSeq(value, ",") {
			p.Work.Route(p.At, name, strings.TrimSpace(a))
		}
		return report.Same("dns: forward: routes")
	case top == "blocking":
		return b.blocking(p, key, group, name, value)
	case key == "caching.minTime":
		return takeTime(value, "dns: cache: min-ttl", time.Second, time.Hour, &dns.Cache.MinTTL)
	case key == "caching.maxItemsCount":
		return p.Work.Set.CacheEntries(value)
	case key == "caching.maxTime":
		return takeTime(value, "dns: cache: max-ttl", time.Second, build.Week, &dns.Cache.MaxTTL)
	case key == "caching.cacheTimeNegative":
		return takeTime(value, "dns: cache: negative-ttl", time.Second, 24*time.Hour, &dns.Cache.Negative)
	case key == "caching.prefetching" && value == "true":
		return report.Differs("dns: cache", "names in use are fetched before they expire")
	case top == "clientLookup" && group == "clients" && name != "":
		return b.client(p, name, value)
	case key == "filtering.queryTypes":
		return p.RefuseType(value)
	case top == "queryLog", top == "prometheus", top == "hostsFile":
		return b.record(p, key, value)
	case key == "dnssec.validate":
		return p.Validate(value)
	case top == "ports", top == "port", key == "certFile", key == "keyFile", key == "minTlsServeVersion":
		return b.port(p, key, value)
	}
	return report.None(reasons.Of(key))
}

func (b *config) blocking(p *build.Plain, key, group, name, value string) *report.Note {
	switch {
	case group == "denylists" || group == "blackLists":
		return b.listsOf(p, name).List(true, value)
	case group == "allowlists" || group == "whiteLists":
		return b.listsOf(p, name).List(false, value)
	case group == "blockType":
		return p.Answer(value)
	case group == "blockTTL":
		return takeTime(value, "dns: block: ttl", time.Second, 24*time.Hour, &p.Work.Set.UseDNS().Names.Block.TTL)
	case group == "clientGroupsBlock":
		b.clients[name] = append(b.clients[name], value)
		return report.Same("a policy of these clients")
	case key == "blocking.loading.refreshPeriod", key == "blocking.refreshPeriod":
		d, err := duration(value)
		if err != nil || d < time.Hour {
			return report.Differs("lists: every", "lists are checked once a day")
		}
		b.every = min(d, 365*24*time.Hour)
		return report.Same("lists: every")
	}
	return report.None(reasons.Of(key))
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

// record converts keys about the record of queries, metrics and hosts files.
func (b *config) record(p *build.Plain, key, value string) *report.Note {
	switch key {
	case "queryLog.type":
		if value == "none" {
			p.Work.LeaveOutQueries()
			return report.Same("dns: log: off")
		}
		return report.Differs("events", "the record is the gateway's own database; \"shuultuur events\" searches it")
	case "queryLog.logRetentionDays":
		days, err := strconv.Atoi(value)
		if err != nil || days <= 0 || days > 36500 {
			return report.ByHand("events: keep", "rows are kept for 90 days")
		}
		p.Work.KeepRecord(time.Duration(days) * 24 * time.Hour)
		return report.Same("events: keep")
	case "prometheus.enable":
		if value == "true" {
			return report.Differs("listen: admin", "metrics are at /metrics of that address")
		}
	case "hostsFile.sources", "hostsFile.filePath":
		if strings.Contains(value, "://") || strings.Contains(value, "\n") {
			return report.ByHand("dns: hosts-files", "save it as a file, and name that there")
		}
		n := &p.Work.Set.UseDNS().Names
		n.HostsFiles = append(n.HostsFiles, setting.File(value))
		return report.Same("dns: hosts-files")
	}
	return report.None(reasons.Of(key))
}

// port converts the addresses on which queries are answered.
func (b *config) port(p *build.Plain, key, value string) *report.Note {
	s := &p.Work.Set.UseDNS().Server
	to, ours := &s.Listen, "dns: listen"
	switch key {
	case "ports.dns", "port":
		if !b.ports { // replaces our default
			s.Listen, b.ports = nil, true
		}
	case "ports.tls":
		to, ours = &s.TLS, "dns: tls"
	case "ports.https", "httpsPort":
		to, ours = &s.HTTPS, "dns: https"
	case "certFile":
		to, ours = nil, "dns: cert"
	case "keyFile":
		to, ours = nil, "dns: key"
	case "minTlsServeVersion":
		return report.Differs("dns: tls", "TLS 1.2 and 1.3 are spoken")
	default:
		return report.None(reasons.Of(key))
	}
	if ours != "dns: listen" && !b.tls {
		return report.ByHand(ours, "a certificate and key that belong together are needed: write dns: cert, key, tls and https")
	}
	if to == nil {
		return report.Same(ours)
	}
	*to = append(*to, build.ListenAddresses(value)...)
	return report.Same(ours)
}

// duration reads a duration; a bare number means minutes.
func duration(value string) (time.Duration, error) {
	if n, err := strconv.Atoi(value); err == nil {
		return time.Duration(n) * time.Minute, nil
	}
	return time.ParseDuration(value)
}

// takeTime converts a duration between least and most.
func takeTime(value, ours string, least, most time.Duration, to *setting.Duration) *report.Note {
	d, err := duration(value)
	if err != nil || d < least {
		return report.ByHand(ours, fmt.Sprintf("%q is less than %v", value, setting.Duration(least)))
	}
	return build.AtMost(ours, d, most, to)
}
