package adguardhome

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/resolver/forward"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// keys converts the settings of AdGuardHome.yaml one by one.
type keys struct {
	w        *build.Work
	at       report.Place // of the current setting
	file     input.Tree
	all      map[string]any // by path, such as dns.ratelimit
	everyone *policy.Policy
}

// A row is about a setting of AdGuard Home by its path.
type row = report.Row[*keys, any]

// text returns a setting of the file, or "".
func (a *keys) text(path string) string {
	if v := a.all[path]; v != nil {
		return input.Plain(v)
	}
	return ""
}

// elsewhere names the settings that other parts of the import convert and report.
var elsewhere = []string{"filters", "whitelist_filters", "user_rules", "clients", "schema_version",
	"filtering.rewrites", "dns.rewrites", "dns.upstream_dns", "dns.bootstrap_dns", "dns.enable_dnssec",
	"dns.blocking_mode", "filtering.blocking_mode"}

// convertSettings reports every setting that is not about lists, rules or
// clients, and converts those that have an equivalent.
func convertSettings(w *build.Work, file input.Tree, known map[string]any, everyone *policy.Policy) {
	a := &keys{w: w, at: file.At("tls"), file: file, all: map[string]any{}, everyone: everyone}
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if !slices.Contains(elsewhere, k) {
			input.Leaves(known[k], k, a.all)
		}
	}
	if m, ok := known["clients"].(map[string]any); ok {
		for k, v := range m {
			if k != "persistent" {
				input.Leaves(v, "clients."+k, a.all)
			}
		}
	}
	tlsOff := a.text("tls.enabled") != "true"
	unusable := !tlsOff && !a.certificate()
	dhcpOff := a.text("dhcp.enabled") != "true"
	for _, path := range slices.Sorted(maps.Keys(a.all)) {
		if slices.Contains(elsewhere, path) || strings.HasPrefix(path, "filtering.safe_search.") {
			continue
		}
		text := a.text(path)
		a.at = file.At(path)
		n := &report.Note{Kind: report.Lost, Place: a.at, What: strings.TrimSpace(path + ": " + text)}
		k, ok := table[path]
		if !ok {
			k, ok = table[strings.Replace(path, "dns.", "filtering.", 1)] // older files have it there
		}
		switch {
		case strings.HasPrefix(path, "tls.") && tlsOff, strings.HasPrefix(path, "dhcp.") && dhcpOff:
			n.Kind, n.Why = report.Default, "it is switched off"
		case ok && slices.Contains(k.Standard, text), !ok && isEmpty(a.all[path]):
			n.Kind = report.Default
		case path == "users":
			n.What, n.Why = fmt.Sprintf("%s: %d", path, max(1, len(input.Strings(a.all[path])))), whyNot(path)
		case unusable && strings.HasPrefix(path, "tls."):
			n.Ours, n.Why = "dns: cert, key, tls, https, quic", "the certificate and key cannot be used; see above"
		case strings.HasPrefix(path, "filtering.blocked_services.schedule."):
			n.Kind, n.Ours = report.Carried, "schedule of the rule"
		default:
			n.Why = whyNot(path)
			if !ok {
				break
			}
			if x := k.Convert(a, a.all[path], text); x != nil {
				n.Kind, n.Ours, n.Why = x.Kind, x.Ours, x.Why
			}
		}
		w.Report.Add(n)
	}
	a.safeSearch()
	a.listeners(!tlsOff && !unusable)
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return v == nil || v == false || v == "" || v == 0
}

// reasons say why parts of AdGuard Home have no equivalent.
var reasons = report.Reasons{
	{"dhcp.", "addresses are assigned by another program: keep AdGuard Home's DHCP server, dnsmasq or Kea for it, and name its leases under identity: names: leases"},
	{"log.", "the log goes to standard error, which the service manager collects"},
	{"os.", "the service manager sets user, group and limits"},
	{"users", "the administration has its own: listen: token, and docs of the admin address"},
	{"http.", "metrics and administration are at listen: admin"},
	{"statistics.", "statistics are computed from the record; events: keep says for how long"},
	{"clients.", "devices get names from identity: names"},
	{"tls.", "not part of the name server's TLS here"},
}

func whyNot(path string) string { return cmp.Or(reasons.Of(path), report.NoneOfOurs) }

// seconds reads a number of seconds, or a duration in AdGuard Home's syntax.
func seconds(v any) (setting.Duration, error) {
	text := input.Plain(v)
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return setting.Duration(time.Duration(n) * time.Second), nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%q is no duration", text)
	}
	return setting.Duration(d), err
}

// aDuration converts a duration of at most most.
func aDuration(ours string, most time.Duration, to func(a *keys) *setting.Duration) func(*keys, any) *report.Note {
	return func(a *keys, v any) *report.Note {
		d, err := seconds(v)
		if err != nil {
			return report.ByHand(ours, err.Error())
		}
		return build.AtMost(ours, time.Duration(d), most, to(a))
	}
}

// aCount converts a count of at most most.
func aCount(ours, why string, most uint64, to func(a *keys) *setting.Count) func(*keys, any) *report.Note {
	return func(a *keys, v any) *report.Note {
		n, err := strconv.ParseUint(input.Plain(v), 10, 31)
		if err != nil || n == 0 {
			return report.ByHand(ours, fmt.Sprintf("%q is not a count", input.Plain(v)))
		}
		*to(a) = setting.Count(min(n, most))
		if why != "" || n > most {
			return report.Differs(ours, cmp.Or(why, fmt.Sprintf("at most %d", most)))
		}
		return report.Same(ours)
	}
}

// prefixes reads addresses and networks; other values are ClientIDs.
func prefixes(ours string, to func(a *keys) *setting.OneOrMore[netip.Prefix]) func(*keys, any) *report.Note {
	return func(a *keys, v any) *report.Note {
		var others []string
		for _, s := range input.Strings(v) {
			n, err := input.Network(s)
			if err != nil {
				others = append(others, s)
				continue
			}
			*to(a) = append(*to(a), n)
		}
		if len(others) > 0 {
			return report.Differs(ours, "only addresses and networks; left out: "+strings.Join(others, ", "))
		}
		return report.Same(ours)
	}
}

// table has the settings by path, as in AdGuard Home 0.107. Older files
// have those about filtering under dns.
var table = report.Rows(
	row{Keys: "http.address", Take: (*keys).admin},
	row{Keys: "http.session_ttl", Standard: []string{"720h", "720h0m0s"}},
	row{Keys: "http.pprof.enabled", Standard: []string{"false"}, Note: report.Same("listen: admin, which has profiles")},
	row{Keys: "http.pprof.port", Standard: []string{"6060"}},
	row{Keys: "auth_attempts", Standard: []string{"5"}, Note: report.None("wrong passwords are counted by address, ten a minute")},
	row{Keys: "block_auth_min", Standard: []string{"15"}, Note: report.None("wrong passwords are counted by address, ten a minute")},
	row{Keys: "http_proxy", Standard: []string{""}, Take: (*keys).parent},
	row{Keys: "language", Standard: []string{"", "en"}, Note: report.Differs("pages", "pages are in the reader's language")},
	row{Keys: "theme", Standard: []string{"auto", ""}, Note: report.Differs("pages", "pages follow the reader's system")},
	row{Keys: "dns.bind_hosts dns.bind_host dns.port", Note: report.Same("dns: listen")},
	row{Keys: "dns.serve_plain_dns", Standard: []string{"true"}, Note: report.Same("dns: listen")},
	row{Keys: "dns.anonymize_client_ip", Standard: []string{"false"}, Take: (*keys).anonymise},
	row{Keys: "dns.ratelimit", Standard: []string{"0"}, Take: aCount("dns: rate", "", 1e6, func(a *keys) *setting.Count { return &a.w.Set.UseDNS().Server.Rate })},
	row{Keys: "dns.refuse_any", Standard: []string{"true"}, Note: report.Differs("dns", "queries of type ANY get a short answer (RFC 8482)")},
	row{Keys: "dns.upstream_dns_file", Standard: []string{""}, Take: (*keys).upstreamFile},
	row{Keys: "dns.fallback_dns", Standard: []string{""}, Take: (*keys).fallback},
	row{Keys: "dns.upstream_mode", Standard: []string{""}, Take: (*keys).upstreamMode},
	row{Keys: "dns.all_servers", Standard: []string{"false"}, Take: func(a *keys, _ any) *report.Note { return a.upstreamMode("parallel") }},
	row{Keys: "dns.fastest_addr", Standard: []string{"false"}, Take: func(a *keys, _ any) *report.Note { return a.upstreamMode("fastest_addr") }},
	row{Keys: "dns.fastest_timeout", Standard: []string{"1s"}, Note: report.None("earlier answers show which upstream is the fastest; no probe delays a query")},
	row{Keys: "dns.allowed_clients", Standard: []string{""}, Take: prefixes("dns: allow", func(a *keys) *setting.OneOrMore[netip.Prefix] { return &a.w.Set.UseDNS().Server.Allow })},
	row{Keys: "dns.disallowed_clients", Standard: []string{""}, Take: prefixes("dns: deny", func(a *keys) *setting.OneOrMore[netip.Prefix] { return &a.w.Set.UseDNS().Server.Deny })},
	row{Keys: "dns.trusted_proxies", Standard: []string{""}, Take: prefixes("dns: trusted", func(a *keys) *setting.OneOrMore[netip.Prefix] { return &a.w.Set.UseDNS().Server.Trusted })},
	row{Keys: "dns.blocked_hosts", Standard: []string{"version.bind id.server hostname.bind", ""}, Note: report.Same("lists.user-rules")},
	row{Keys: "dns.cache_enabled", Standard: []string{"true"}, Note: report.Differs("dns: cache", "there is always a cache, of 16 MiB")},
	row{Keys: "dns.cache_size", Standard: []string{"0"}, Take: (*keys).cacheSize},
	row{Keys: "dns.cache_ttl_min", Standard: []string{"0"}, Take: aDuration("dns: cache: min-ttl", time.Hour, func(a *keys) *setting.Duration { return &a.w.Set.UseDNS().Cache.MinTTL })},
	row{Keys: "dns.cache_ttl_max", Standard: []string{"0"}, Take: aDuration("dns: cache: max-ttl", 7*24*time.Hour, func(a *keys) *setting.Duration { return &a.w.Set.UseDNS().Cache.MaxTTL })},
	row{Keys: "dns.cache_optimistic", Standard: []string{"false"}, Note: report.Differs("dns: cache: stale", "stale answers are served while upstreams are slow or fail, and entries in use are fetched before they expire")},
	row{Keys: "dns.cache_optimistic_answer_ttl", Standard: []string{"30s"}},
	row{Keys: "dns.cache_optimistic_max_age", Standard: []string{"0", "0s", "12h", "12h0m0s"}, Take: aDuration("dns: cache: stale", 7*24*time.Hour, func(a *keys) *setting.Duration { return &a.w.Set.UseDNS().Cache.Stale })},
	row{Keys: "dns.aaaa_disabled", Standard: []string{"false"}, Take: (*keys).noAAAA},
	row{Keys: "dns.max_goroutines", Standard: []string{"300", "0"}, Take: aCount("dns: workers", "", 65536, func(a *keys) *setting.Count { return &a.w.Set.UseDNS().Server.Workers })},
	row{Keys: "dns.handle_ddr", Standard: []string{"true"}, Note: report.Differs("dns: name", "encrypted addresses are announced if there are any")},
	row{Keys: "dns.upstream_timeout", Standard: []string{"10s"}, Take: (*keys).upstreamTimeout},
	row{Keys: "dns.use_private_ptr_resolvers", Standard: []string{"true", "false"}},
	row{Keys: "dns.local_ptr_upstreams", Standard: []string{""}, Take: (*keys).privateNames},
	row{Keys: "dns.use_dns64", Standard: []string{"false"}, Take: (*keys).dns64},
	row{Keys: "dns.dns64_prefixes", Standard: []string{""}, Note: report.Same("dns: dns64")},
	row{Keys: "dns.serve_http3", Standard: []string{"false"}, Note: report.Same("dns: https, which speaks HTTP/3 too")},
	row{Keys: "dns.use_http3_upstreams", Standard: []string{"false"}, Note: report.Differs("dns: forward: upstreams", "write h3:// instead of https:// for upstreams that support it")},
	row{Keys: "dns.hostsfile_enabled", Take: (*keys).hostsFile},
	row{Keys: "dns.pending_requests.enabled statistics.enabled clients.runtime_sources.hosts clients.runtime_sources.dhcp clients.runtime_sources.arp clients.runtime_sources.rdns clients.runtime_sources.whois log.enabled", Standard: []string{"true"}},
	row{Keys: "dns.edns_client_subnet.enabled", Standard: []string{"false"}, Note: report.None("the networks of clients are not sent to upstreams")},
	row{Keys: "dns.ratelimit_subnet_len_ipv4", Standard: []string{"24"}, Note: report.Differs("dns: rate", "for each IPv4 address")},
	row{Keys: "dns.ratelimit_subnet_len_ipv6", Standard: []string{"56"}, Note: report.Differs("dns: rate", "for each IPv6 /56")},
	row{Keys: "dns.ratelimit_whitelist", Standard: []string{""}, Note: report.None("the limit is the same for all; raise dns: rate for a resolver with many clients behind it")},
	row{Keys: "dns.bogus_nxdomain", Standard: []string{""}, Note: report.None("answers are not rewritten by their address; use a list of networks and a rule that blocks it")},
	row{Keys: "dns.ipset", Standard: []string{""}, Note: report.None("the firewall's sets are not filled")},
	row{Keys: "filtering.blocked_services.ids", Standard: []string{""}, Take: (*keys).blockedServices},
	row{Keys: "filtering.blocked_services", Standard: []string{"", "map[]"}, Take: (*keys).blockedServices},
	row{Keys: "filtering.blocked_services.schedule.time_zone", Standard: []string{"", "Local", "UTC"}, Note: report.Same("schedule of the rule: zone")},
	row{Keys: "filtering.blocking_ipv4", Standard: []string{"", "0.0.0.0"}, Note: report.Same("dns: block: sinkhole")},
	row{Keys: "filtering.blocking_ipv6", Standard: []string{"", "::"}, Note: report.Same("dns: block: sinkhole")},
	row{Keys: "filtering.blocked_response_ttl", Standard: []string{"10"}, Take: aDuration("dns: block: ttl", 24*time.Hour, func(a *keys) *setting.Duration { return &a.w.Set.UseDNS().Names.Block.TTL })},
	row{Keys: "filtering.filters_update_interval", Standard: []string{"24"}, Take: (*keys).updates},
	row{Keys: "filtering.cache_time", Standard: []string{"30"}},
	row{Keys: "filtering.safebrowsing_cache_size filtering.safesearch_cache_size filtering.parental_cache_size", Standard: []string{"1048576"}},
	row{Keys: "filtering.parental_block_host", Standard: []string{"", "family-block.dns.adguard.com"}, Note: report.None("refused names are answered as dns: block says")},
	row{Keys: "filtering.safebrowsing_block_host", Standard: []string{"", "standard-block.dns.adguard.com"}, Note: report.None("refused names are answered as dns: block says")},
	row{Keys: "filtering.protection_disabled_until", Standard: []string{""}, Note: report.None("filtering is paused with \"shuultuur pause\"")},
	row{Keys: "filtering.filtering_enabled filtering.protection_enabled", Standard: []string{"true"}, Take: filtersAnyway},
	row{Keys: "filtering.rewrites_enabled", Standard: []string{"true"}, Note: report.Same("no local names")},
	row{Keys: "filtering.parental_enabled", Standard: []string{"false"}, Take: func(a *keys, _ any) *report.Note { return a.catalogued("ut1-adult", "adult") }},
	row{Keys: "filtering.safebrowsing_enabled", Standard: []string{"false"}, Take: func(a *keys, _ any) *report.Note { return a.catalogued("hagezi-tif", "malware") }},
	row{Keys: "filtering.safesearch_enabled", Standard: []string{"false"}, Take: func(a *keys, _ any) *report.Note {
		safeSearch(a.everyone, nil)
		return report.Same("safesearch: true, youtube: strict")
	}},
	row{Keys: "filtering.safe_fs_patterns", Note: report.Same("lists: path, which reads any file that the gateway may")},
	row{Keys: "querylog.enabled", Standard: []string{"true"}, Take: (*keys).queryLog},
	row{Keys: "querylog.file_enabled", Standard: []string{"true"}, Note: report.Differs("events", "the record is kept in a file; dns: log: off keeps queries out of it")},
	row{Keys: "querylog.interval", Take: (*keys).keep},
	row{Keys: "querylog.size_memory", Standard: []string{"1000"}, Note: report.Differs("events: queue", "rows are written every second, in batches")},
	row{Keys: "querylog.ignored", Standard: []string{""}, Note: report.None("the record has all names; \"shuultuur events\" can leave some out")},
	row{Keys: "statistics.interval", Standard: []string{"24h", "24h0m0s", "1"}, Note: report.Differs("events: keep", "statistics are computed from the record, for as long as it is kept")},
	row{Keys: "tls.enabled", Note: report.Same("dns: tls, https, quic")},
	row{Keys: "tls.server_name", Standard: []string{""}, Take: (*keys).serverName},
	row{Keys: "tls.force_https", Standard: []string{"false"}, Note: report.None("pages of the administration are at listen: admin, with listen: tls")},
	row{Keys: "tls.port_https", Standard: []string{"0"}, Note: report.Same("dns: https")},
	row{Keys: "tls.port_dns_over_tls", Standard: []string{"0"}, Note: report.Same("dns: tls")},
	row{Keys: "tls.port_dns_over_quic", Standard: []string{"0"}, Note: report.Same("dns: quic")},
	row{Keys: "tls.allow_unencrypted_doh", Standard: []string{"false"}, Note: report.ByHand("dns: http", "write there an address for the proxy in front, and its network under dns: trusted")},
	row{Keys: "tls.certificate_chain tls.certificate_path", Standard: []string{""}, Note: report.Same("dns: cert")},
	row{Keys: "tls.private_key tls.private_key_path", Standard: []string{""}, Note: report.Same("dns: key")},
	row{Keys: "tls.strict_sni_check", Standard: []string{"false"}, Note: report.None("clients may ask for any name")},
	row{Keys: "log.max_size", Standard: []string{"100"}},
	row{Keys: "log.max_age", Standard: []string{"3"}},
	row{Keys: "dhcp.enabled", Note: report.None(whyNot("dhcp."))},
)

func filtersAnyway(*keys, any) *report.Note {
	return report.Differs("nothing", "AdGuard Home filters nothing at present; these settings filter")
}

// admin converts the address of the administration. Beyond loopback, our admin address requires
// a token and a certificate, so it stays on loopback until these exist.
func (a *keys) admin(v any) *report.Note {
	addr, err := netip.ParseAddrPort(input.Plain(v))
	if err != nil || addr.Port() == 0 {
		return report.ByHand("listen: admin", "it contains no valid address and port")
	}
	if addr.Addr().IsLoopback() {
		a.w.Set.Listen.Admin = setting.OneOrMore[setting.Address]{setting.Address(addr.String())}
		return report.Same("listen: admin")
	}
	return report.Differs("listen: admin", "it is at 127.0.0.1:8081; for other machines write the address, a token and tls under listen")
}

// parent converts the proxy through which AdGuard Home fetches.
func (a *keys) parent(v any) *report.Note {
	if s := input.Plain(v); strings.HasPrefix(s, "http://") {
		a.w.Set.Proxy.Upstream.Parent = s
		return report.Same("proxy: parent")
	}
	return report.ByHand("proxy: parent", "a parent is reached over http://")
}

func (a *keys) upstreamMode(v any) *report.Note {
	order, ok := map[string]forward.Order{"parallel": forward.Parallel, "fastest_addr": forward.Fastest, "load_balance": forward.Fastest}[input.Plain(v)]
	if !ok {
		return report.ByHand("dns: forward: order", fmt.Sprintf("%q is not a known mode", input.Plain(v)))
	}
	if len(input.Strings(a.all["dns.fallback_dns"])) > 0 {
		return report.Differs("dns: forward: order: strict", "fallback servers are to come last, so upstreams are asked as they are listed")
	}
	a.w.Set.UseDNS().Forward.Order = order
	if order == forward.Parallel {
		return report.Same("dns: forward: order")
	}
	return report.Differs("dns: forward: order", "the fastest upstream is asked, and another one if it does not answer")
}

func (a *keys) upstreamFile(v any) *report.Note {
	file := input.Plain(v)
	if !input.IsFile(file) {
		file = filepath.Join(filepath.Dir(a.at.File), filepath.Base(file))
	}
	data, err := input.Whole(file)
	if err != nil {
		return report.ByHand("dns: forward: upstreams", "the file is not there: write its lines under upstreams")
	}
	var all []any
	for line := range strings.Lines(string(data)) {
		all = append(all, strings.TrimSpace(line))
	}
	a.w.Set.UseDNS().Forward.Upstreams = nil // AdGuard Home then reads the file instead of upstream_dns
	convertUpstreams(a.w, a.at, all)
	return report.Differs("dns: forward: upstreams", "copied: it is not read again when it changes")
}

func (a *keys) fallback(v any) *report.Note {
	f := &a.w.Set.UseDNS().Forward
	if len(f.Upstreams) == 0 {
		return report.ByHand("dns: forward: upstreams", "no upstreams come before them")
	}
	for _, s := range input.Strings(v) {
		if s != "" && !strings.HasPrefix(s, "[/") && !strings.HasPrefix(s, "sdns://") && !slices.Contains(f.Upstreams, s) {
			f.Upstreams = append(f.Upstreams, strings.TrimPrefix(s, "udp://"))
		}
	}
	f.Order = forward.Strict
	return report.Differs("dns: forward: upstreams, order: strict", "upstreams are asked as they are listed, these last")
}

func (a *keys) cacheSize(v any) *report.Note {
	n, _ := strconv.ParseInt(input.Plain(v), 10, 64) // 0 means no size
	return a.w.Set.CacheSize(n)
}

// noAAAA refuses queries for IPv6 addresses.
func (a *keys) noAAAA(any) *report.Note {
	a.everyone.Rules = append([]policy.Rule{{Name: "no IPv6 addresses", Action: "block", Query: []string{"AAAA"}, Answer: filter.NoData}}, a.everyone.Rules...)
	return report.Same(`rule "no IPv6 addresses"`)
}

func (a *keys) upstreamTimeout(v any) *report.Note {
	d, err := seconds(v)
	if err != nil || time.Duration(d) > 30*time.Second || time.Duration(d) < 100*time.Millisecond {
		return report.ByHand("dns: forward: timeout", "between 100ms and 30s")
	}
	f := &a.w.Set.UseDNS().Forward
	if f.Timeout = d; time.Duration(d) > 5*time.Second {
		f.Total = d
	}
	if time.Duration(d) > 5*time.Second {
		a.w.Set.UseDNS().Server.Wait = d
	}
	return report.Same("dns: forward: timeout")
}

// privateNetworks has the networks whose reverse names private resolvers have.
var privateNetworks = []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8"}

func (a *keys) privateNames(v any) *report.Note {
	networks := privateNetworks
	if own := input.Strings(a.all["dns.private_networks"]); len(own) > 0 {
		networks = nil
		for _, s := range own {
			if p, err := netip.ParsePrefix(s); err == nil {
				networks = append(networks, p.Masked().String())
			}
		}
	}
	for _, s := range input.Strings(v) {
		if strings.HasPrefix(s, "[/") {
			convertUpstreams(a.w, a.at, []any{s})
			continue
		}
		for _, n := range networks {
			a.w.Route(a.at, n, strings.TrimPrefix(s, "udp://"))
		}
	}
	return report.Same("dns: forward: routes")
}

func (a *keys) dns64(any) *report.Note {
	p := netip.MustParsePrefix("64:ff9b::/96")
	own := input.Strings(a.all["dns.dns64_prefixes"])
	for _, s := range own {
		if n, err := netip.ParsePrefix(s); err == nil {
			p = n.Masked()
			break
		}
	}
	a.w.Set.UseDNS().Names.DNS64.Prefix = p
	if len(own) > 1 {
		return report.Differs("dns: dns64", "one prefix, the first")
	}
	return report.Same("dns: dns64")
}

func (a *keys) hostsFile(v any) *report.Note {
	if v != true {
		return report.Same("no dns: hosts-files")
	}
	a.w.Set.UseDNS().Names.HostsFiles = setting.OneOrMore[setting.File]{"/etc/hosts"}
	return report.Same("dns: hosts-files")
}

func (a *keys) blockedServices(v any) *report.Note {
	ids := input.Strings(v)
	services, note := build.Services(ids)
	if len(services) > 0 {
		a.everyone.Rules = append(a.everyone.Rules, build.ServiceRule(services, build.BlockedTimes(a.all, "filtering.blocked_services.schedule.")))
	}
	return note
}

// updates converts the interval for fetching lists.
func (a *keys) updates(v any) *report.Note {
	hours, err := strconv.Atoi(input.Plain(v))
	if err != nil || hours <= 0 || hours > 24*365 {
		return report.Differs("lists: every", "lists are checked once a day; pin their content with sha256 if they must not change")
	}
	a.w.Set.ListsEvery(time.Duration(hours) * time.Hour)
	return report.Same("lists: every")
}

// catalogued blocks a list of the catalogue in place of AdGuard's servers.
func (a *keys) catalogued(source, category string) *report.Note {
	a.w.AddCatalogued(source, category)
	a.everyone.Rules = append(a.everyone.Rules, policy.Rule{Name: category, Action: "block", Category: []string{"category/" + category}})
	return report.Differs("lists."+category+", a rule that blocks it", "a list that is fetched ("+source+") instead of a question to AdGuard's servers")
}

func (a *keys) queryLog(v any) *report.Note {
	if v == false {
		a.w.LeaveOutQueries()
	}
	return report.Differs("dns: log: off", "queries are not recorded; what the proxy refuses still is")
}

// anonymise makes rows anonymous as early as permitted: pages try the effect of a change of
// settings on the rows of the last day.
func (a *keys) anonymise(any) *report.Note {
	a.w.Set.Events.Anonymise = setting.Duration(24 * time.Hour)
	return report.Differs("events: anonymise", "rows lose their clients after a day, not at once, unless they are deleted by then")
}

func (a *keys) keep(v any) *report.Note {
	d, err := time.ParseDuration(input.Plain(v))
	if days, failed := strconv.Atoi(input.Plain(v)); failed == nil { // older files have days
		d, err = time.Duration(days)*24*time.Hour, nil
	}
	if err != nil || d < time.Hour || d > 100*365*24*time.Hour {
		return report.ByHand("events: keep", "it contains no valid duration")
	}
	a.w.KeepRecord(d)
	if d <= 24*time.Hour {
		a.w.Set.Events.Anonymise = 0
	}
	return report.Same("events: keep")
}

func (a *keys) serverName(v any) *report.Note {
	a.w.Set.UseDNS().Server.Name = input.Plain(v)
	return report.Same("dns: name")
}

// safeSearch converts the setting for everybody, where services are separate settings.
func (a *keys) safeSearch() {
	services := map[string]any{}
	for path, v := range a.all {
		if name, ok := strings.CutPrefix(path, "filtering.safe_search."); ok {
			services[name] = v
		}
	}
	for path, v := range a.all {
		if name, ok := strings.CutPrefix(path, "dns.safe_search."); ok {
			services[name] = v
		}
	}
	if len(services) == 0 {
		return
	}
	on := services["enabled"] == true
	if on {
		safeSearch(a.everyone, services)
	}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		n := &report.Note{Kind: report.Carried, Place: a.file.At("filtering.safe_search." + name), What: fmt.Sprintf("filtering.safe_search.%s: %v", name, services[name]), Ours: fmt.Sprintf("safesearch: %v, youtube: %s", a.everyone.SafeSearch, cmp.Or(a.everyone.YouTube, "off"))}
		switch {
		case !on:
			n.Kind, n.Ours = report.Default, ""
		case name != "enabled" && name != "youtube" && services[name] == false && a.everyone.SafeSearch:
			n.Kind, n.Why = report.Changed, "all search engines filter or none"
		}
		a.w.Report.Add(n)
	}
}

// listeners sets the addresses of the name server, each with each port.
func (a *keys) listeners(encrypted bool) {
	s := &a.w.Set.UseDNS().Server
	hosts := input.Strings(a.all["dns.bind_hosts"])
	if h := a.text("dns.bind_host"); h != "" && len(hosts) == 0 {
		hosts = []string{h}
	}
	if slices.Contains(hosts, "0.0.0.0") || slices.Contains(hosts, "::") || len(hosts) == 0 {
		hosts = []string{""}
	}
	at := func(port string) (all setting.OneOrMore[string]) {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil
		}
		for _, h := range hosts {
			if addr := net.JoinHostPort(h, port); !slices.Contains(all, addr) {
				all = append(all, addr)
			}
		}
		return all
	}
	s.Listen = at(cmp.Or(a.text("dns.port"), "53"))
	if !encrypted {
		return
	}
	s.HTTPS, s.TLS, s.QUIC = at(a.text("tls.port_https")), at(a.text("tls.port_dns_over_tls")), at(a.text("tls.port_dns_over_quic"))
	if a.all["dns.serve_plain_dns"] == false && len(s.HTTPS)+len(s.TLS)+len(s.QUIC) > 0 {
		s.Listen = nil
	}
	if len(s.HTTPS)+len(s.TLS)+len(s.QUIC) == 0 {
		s.Cert, s.Key, s.Name = "", "", ""
	}
}

// certificate finds the certificate and key, or writes them to files if they are in the
// settings, and reports whether they belong together.
func (a *keys) certificate() bool {
	find := func(path, inline, name string, mode os.FileMode) string {
		file := a.text(path)
		if text := a.text(inline); text != "" {
			file = filepath.Join(a.w.To, name)
			if os.WriteFile(file, []byte(text), mode) != nil {
				return ""
			}
			return file
		}
		return input.Find(filepath.Dir(a.at.File), file)
	}
	cert := find("tls.certificate_path", "tls.certificate_chain", "cert.pem", 0o644)
	key := find("tls.private_key_path", "tls.private_key", "key.pem", 0o600)
	if err := build.KeyPair(a.w, cert, key); err != nil {
		a.w.Report.Add(&report.Note{Kind: report.Lost, Place: a.at, What: "tls: certificate and key", Ours: "dns: cert, key", Why: fmt.Sprintf("they cannot be used (%v): write dns: cert and key, and tls, https and quic", err)})
		return false
	}
	return true
}
