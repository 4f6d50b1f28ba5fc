package importer

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/resolver/forward"
	"shuultuur/setting"
)

// blockyDefaults are the values that Blocky 0.26 uses for omitted keys.
var blockyDefaults = map[string][]string{
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

// blockyReasons are the reasons why keys have no equivalent.
var blockyReasons = reasons{
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

// A blocky reads the settings of Blocky.
type blocky struct {
	dir   string
	every time.Duration // interval of checks of lists; 0: not set
	tls   bool          // whether the certificate can be used
	ports bool          // whether some were named

	groups  map[string]*plain   // lists, by their group
	clients map[string][]string // groups, by client
}

func readBlocky(w *work, file string) error {
	w.set.dns()
	b := &blocky{dir: file, groups: map[string]*plain{}, clients: map[string][]string{}}
	if isFile(file) {
		b.dir = filepath.Dir(file)
	}
	err := readTree(w, file, "config.yml", func(all map[string]string) reader {
		b.tls = keyPair(w, findFile(b.dir, all["certFile"]), findFile(b.dir, all["keyFile"])) == nil
		return b.take
	})
	if err != nil {
		return err
	}
	if err := b.finish(w, place{file: file}); err != nil {
		return err
	}
	if b.every > 0 {
		w.set.listsEvery(b.every)
	}
	return nil
}

func (b *blocky) take(p *plain, key, value string) *Note {
	if slices.Contains(blockyDefaults[key], value) {
		return &Note{Kind: Default}
	}
	top, rest, _ := strings.Cut(key, ".")
	group, name, _ := strings.Cut(rest, ".")
	dns := p.set.dns()
	switch {
	case strings.HasPrefix(key, "upstreams.groups.default"), strings.HasPrefix(key, "upstream.default"):
		return p.upstream(value)
	case key == "upstreams.strategy":
		if dns.Forward.Order = forward.Fastest; value == "strict" {
			dns.Forward.Order = forward.Strict
			return carried("dns: forward: order: strict")
		}
		return differs("dns: forward: order", "the fastest upstream is asked, and another one if it does not answer")
	case key == "upstreams.timeout":
		return blockyTime(value, "dns: forward: timeout", 100*time.Millisecond, 5*time.Second, &dns.Forward.Timeout)
	case top == "bootstrapDns":
		return p.bootstrap(strings.TrimPrefix(value, "tcp+udp:"))
	case top == "customDNS" && group == "mapping" && name != "":
		for a := range strings.SplitSeq(value, ",") {
			p.host(p.at, name, strings.TrimSpace(a))
		}
		return carried("dns: hosts")
	case top == "conditional" && group == "mapping" && name != "":
		for a := range strings.SplitSeq(value, ",") {
			p.route(p.at, name, strings.TrimSpace(a))
		}
		return carried("dns: forward: routes")
	case top == "blocking":
		return b.blocking(p, key, group, name, value)
	case key == "caching.minTime":
		return blockyTime(value, "dns: cache: min-ttl", time.Second, time.Hour, &dns.Cache.MinTTL)
	case key == "caching.maxItemsCount":
		return p.set.cacheEntries(value)
	case key == "caching.maxTime":
		return blockyTime(value, "dns: cache: max-ttl", time.Second, week7d, &dns.Cache.MaxTTL)
	case key == "caching.cacheTimeNegative":
		return blockyTime(value, "dns: cache: negative-ttl", time.Second, 24*time.Hour, &dns.Cache.Negative)
	case key == "caching.prefetching" && value == "true":
		return differs("dns: cache", "names in use are fetched before they expire")
	case top == "clientLookup" && group == "clients" && name != "":
		return b.client(p, name, value)
	case key == "filtering.queryTypes":
		return p.refuseType(value)
	case top == "queryLog", top == "prometheus", top == "hostsFile":
		return b.record(p, key, value)
	case key == "dnssec.validate":
		return p.validate(value)
	case top == "ports", top == "port", key == "certFile", key == "keyFile", key == "minTlsServeVersion":
		return b.port(p, key, value)
	}
	return lost(blockyReasons.of(key))
}

func (b *blocky) blocking(p *plain, key, group, name, value string) *Note {
	switch {
	case group == "denylists" || group == "blackLists":
		return b.listsOf(p, name).list(true, value)
	case group == "allowlists" || group == "whiteLists":
		return b.listsOf(p, name).list(false, value)
	case group == "blockType":
		return p.answer(value)
	case group == "blockTTL":
		return blockyTime(value, "dns: block: ttl", time.Second, 24*time.Hour, &p.set.dns().Names.Block.TTL)
	case group == "clientGroupsBlock":
		b.clients[name] = append(b.clients[name], value)
		return carried("a policy of these clients")
	case key == "blocking.loading.refreshPeriod", key == "blocking.refreshPeriod":
		d, err := blockyDuration(value)
		if err != nil || d < time.Hour {
			return differs("lists: every", "lists are checked once a day")
		}
		b.every = min(d, 365*24*time.Hour)
		return carried("lists: every")
	}
	return lost(blockyReasons.of(key))
}

// client names a device by its addresses.
func (b *blocky) client(p *plain, name, value string) *Note {
	for a := range strings.SplitSeq(value, ",") {
		addr, err := netip.ParseAddr(strings.TrimSpace(a))
		if err != nil {
			return lostOurs("identity: addresses", fmt.Sprintf("%q is no address", a))
		}
		if p.set.Identity.Addresses == nil {
			p.set.Identity.Addresses = map[string][]string{}
		}
		p.set.Identity.Addresses[name] = append(p.set.Identity.Addresses[name], addr.Unmap().String())
	}
	return carried("identity: addresses")
}

// refuseType refuses queries for a type of records.
func (p *plain) refuseType(value string) *Note {
	const name = "types of records"
	all := p.mainPolicy()
	i := slices.IndexFunc(all.Rules, func(r policy.Rule) bool { return r.Name == name })
	if i < 0 {
		all.Rules = append([]policy.Rule{{Name: name, Action: "block", Answer: filter.NoData}}, all.Rules...)
		i = 0
	}
	all.Rules[i].Query = append(all.Rules[i].Query, strings.ToUpper(value))
	return carried(fmt.Sprintf("rule %q", name))
}

// record converts keys about the record of queries, metrics and hosts files.
func (b *blocky) record(p *plain, key, value string) *Note {
	switch key {
	case "queryLog.type":
		if value == "none" {
			p.leaveOutQueries()
			return carried("dns: log: off")
		}
		return differs("events", "the record is the gateway's own database; \"shuultuur events\" searches it")
	case "queryLog.logRetentionDays":
		days, err := strconv.Atoi(value)
		if err != nil || days <= 0 || days > 36500 {
			return lostOurs("events: keep", "rows are kept for 90 days")
		}
		p.keepRecord(time.Duration(days) * 24 * time.Hour)
		return carried("events: keep")
	case "prometheus.enable":
		if value == "true" {
			return differs("listen: admin", "metrics are at /metrics of that address")
		}
	case "hostsFile.sources", "hostsFile.filePath":
		if strings.Contains(value, "://") || strings.Contains(value, "\n") {
			return lostOurs("dns: hosts-files", "save it as a file, and name that there")
		}
		n := &p.set.dns().Names
		n.HostsFiles = append(n.HostsFiles, setting.File(value))
		return carried("dns: hosts-files")
	}
	return lost(blockyReasons.of(key))
}

// port converts the addresses on which queries are answered.
func (b *blocky) port(p *plain, key, value string) *Note {
	s := &p.set.dns().Server
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
		return differs("dns: tls", "TLS 1.2 and 1.3 are spoken")
	default:
		return lost(blockyReasons.of(key))
	}
	if ours != "dns: listen" && !b.tls {
		return lostOurs(ours, "a certificate and key that belong together are needed: write dns: cert, key, tls and https")
	}
	if to == nil {
		return carried(ours)
	}
	*to = append(*to, listenAddresses(value)...)
	return carried(ours)
}

// blockyDuration reads a duration; a bare number means minutes.
func blockyDuration(value string) (time.Duration, error) {
	if n, err := strconv.Atoi(value); err == nil {
		return time.Duration(n) * time.Minute, nil
	}
	return time.ParseDuration(value)
}

// blockyTime converts a duration between least and most.
func blockyTime(value, ours string, least, most time.Duration, to *setting.Duration) *Note {
	d, err := blockyDuration(value)
	if err != nil || d < least {
		return lostOurs(ours, fmt.Sprintf("%q is less than %v", value, setting.Duration(least)))
	}
	return atMost(ours, d, most, to)
}
