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

// An key has the default of a setting in AdGuard Home, and converts
// other values. Without take there is no equivalent, for the given reason.
type key struct {
	standard []string
	take     func(a *keys, v any) *report.Note
	why      string
}

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
		settle := func(x *report.Note) { n.Kind, n.Ours, n.Why = x.Kind, x.Ours, x.Why }
		k, ok := table[path]
		if !ok {
			k, ok = table[strings.Replace(path, "dns.", "filtering.", 1)] // older files have it there
		}
		switch {
		case strings.HasPrefix(path, "tls.") && tlsOff, strings.HasPrefix(path, "dhcp.") && dhcpOff:
			n.Kind, n.Why = report.Default, "it is switched off"
		case ok && slices.Contains(k.standard, text), !ok && isEmpty(a.all[path]):
			n.Kind = report.Default
		case path == "users":
			n.What, n.Why = fmt.Sprintf("%s: %d", path, max(1, len(input.Strings(a.all[path])))), whyNot(path)
		case unusable && strings.HasPrefix(path, "tls."):
			n.Ours, n.Why = "dns: cert, key, tls, https, quic", "the certificate and key cannot be used; see above"
		case strings.HasPrefix(path, "filtering.blocked_services.schedule."):
			n.Kind, n.Ours = report.Carried, "schedule of the rule"
		case ok && k.take != nil:
			settle(k.take(a, a.all[path]))
		case ok && k.why != "":
			n.Why = k.why
		default:
			n.Why = whyNot(path)
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

// readWith has the notes on settings that are read together with another one.
func readWith(ours string) func(*keys, any) *report.Note {
	return func(*keys, any) *report.Note { return report.Same(ours) }
}

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
var table = map[string]key{
	"http.address":            {take: (*keys).admin},
	"http.session_ttl":        {standard: []string{"720h", "720h0m0s"}},
	"http.pprof.enabled":      {standard: []string{"false"}, take: readWith("listen: admin, which has profiles")},
	"http.pprof.port":         {standard: []string{"6060"}},
	"auth_attempts":           {standard: []string{"5"}, why: "wrong passwords are counted by address, ten a minute"},
	"block_auth_min":          {standard: []string{"15"}, why: "wrong passwords are counted by address, ten a minute"},
	"http_proxy":              {standard: []string{""}, take: (*keys).parent},
	"language":                {standard: []string{"", "en"}, take: func(*keys, any) *report.Note { return report.Differs("pages", "pages are in the reader's language") }},
	"theme":                   {standard: []string{"auto", ""}, take: func(*keys, any) *report.Note { return report.Differs("pages", "pages follow the reader's system") }},
	"dns.bind_hosts":          {take: readWith("dns: listen")},
	"dns.bind_host":           {take: readWith("dns: listen")},
	"dns.port":                {take: readWith("dns: listen")},
	"dns.serve_plain_dns":     {standard: []string{"true"}, take: readWith("dns: listen")},
	"dns.anonymize_client_ip": {standard: []string{"false"}, take: (*keys).anonymise},
	"dns.ratelimit":           {standard: []string{"0"}, take: aCount("dns: rate", "", 1e6, func(a *keys) *setting.Count { return &a.w.Set.UseDNS().Server.Rate })},
	"dns.refuse_any": {standard: []string{"true"}, take: func(*keys, any) *report.Note {
		return report.Differs("dns", "queries of type ANY get a short answer (RFC 8482)")
	}},
	"dns.upstream_dns_file":  {standard: []string{""}, take: (*keys).upstreamFile},
	"dns.fallback_dns":       {standard: []string{""}, take: (*keys).fallback},
	"dns.upstream_mode":      {standard: []string{""}, take: (*keys).upstreamMode},
	"dns.all_servers":        {standard: []string{"false"}, take: func(a *keys, _ any) *report.Note { return a.upstreamMode("parallel") }},
	"dns.fastest_addr":       {standard: []string{"false"}, take: func(a *keys, _ any) *report.Note { return a.upstreamMode("fastest_addr") }},
	"dns.fastest_timeout":    {standard: []string{"1s"}, why: "earlier answers show which upstream is the fastest; no probe delays a query"},
	"dns.allowed_clients":    {standard: []string{""}, take: prefixes("dns: allow", func(a *keys) *setting.OneOrMore[netip.Prefix] { return &a.w.Set.UseDNS().Server.Allow })},
	"dns.disallowed_clients": {standard: []string{""}, take: prefixes("dns: deny", func(a *keys) *setting.OneOrMore[netip.Prefix] { return &a.w.Set.UseDNS().Server.Deny })},
	"dns.trusted_proxies":    {standard: []string{""}, take: prefixes("dns: trusted", func(a *keys) *setting.OneOrMore[netip.Prefix] { return &a.w.Set.UseDNS().Server.Trusted })},
	"dns.blocked_hosts":      {standard: []string{"version.bind id.server hostname.bind", ""}, take: readWith("lists.user-rules")},
	"dns.cache_enabled": {standard: []string{"true"}, take: func(*keys, any) *report.Note {
		return report.Differs("dns: cache", "there is always a cache, of 16 MiB")
	}},
	"dns.cache_size":    {standard: []string{"0"}, take: (*keys).cacheSize},
	"dns.cache_ttl_min": {standard: []string{"0"}, take: aDuration("dns: cache: min-ttl", time.Hour, func(a *keys) *setting.Duration { return &a.w.Set.UseDNS().Cache.MinTTL })},
	"dns.cache_ttl_max": {standard: []string{"0"}, take: aDuration("dns: cache: max-ttl", 7*24*time.Hour, func(a *keys) *setting.Duration { return &a.w.Set.UseDNS().Cache.MaxTTL })},
	"dns.cache_optimistic": {standard: []string{"false"}, take: func(*keys, any) *report.Note {
		return report.Differs("dns: cache: stale", "stale answers are served while upstreams are slow or fail, and entries in use are fetched before they expire")
	}},
	"dns.cache_optimistic_answer_ttl": {standard: []string{"30s"}},
	"dns.cache_optimistic_max_age":    {standard: []string{"0", "0s", "12h", "12h0m0s"}, take: aDuration("dns: cache: stale", 7*24*time.Hour, func(a *keys) *setting.Duration { return &a.w.Set.UseDNS().Cache.Stale })},
	"dns.aaaa_disabled":               {standard: []string{"false"}, take: (*keys).noAAAA},
	"dns.max_goroutines":              {standard: []string{"300", "0"}, take: aCount("dns: workers", "", 65536, func(a *keys) *setting.Count { return &a.w.Set.UseDNS().Server.Workers })},
	"dns.handle_ddr": {standard: []string{"true"}, take: func(*keys, any) *report.Note {
		return report.Differs("dns: name", "encrypted addresses are announced if there are any")
	}},
	"dns.upstream_timeout":          {standard: []string{"10s"}, take: (*keys).upstreamTimeout},
	"dns.use_private_ptr_resolvers": {standard: []string{"true", "false"}},
	"dns.local_ptr_upstreams":       {standard: []string{""}, take: (*keys).privateNames},
	"dns.use_dns64":                 {standard: []string{"false"}, take: (*keys).dns64},
	"dns.dns64_prefixes":            {standard: []string{""}, take: readWith("dns: dns64")},
	"dns.serve_http3":               {standard: []string{"false"}, take: readWith("dns: https, which speaks HTTP/3 too")},
	"dns.use_http3_upstreams": {standard: []string{"false"}, take: func(*keys, any) *report.Note {
		return report.Differs("dns: forward: upstreams", "write h3:// instead of https:// for upstreams that support it")
	}},
	"dns.hostsfile_enabled":                         {take: (*keys).hostsFile},
	"dns.pending_requests.enabled":                  {standard: []string{"true"}},
	"dns.edns_client_subnet.enabled":                {standard: []string{"false"}, why: "the networks of clients are not sent to upstreams"},
	"dns.ratelimit_subnet_len_ipv4":                 {standard: []string{"24"}, take: func(*keys, any) *report.Note { return report.Differs("dns: rate", "for each IPv4 address") }},
	"dns.ratelimit_subnet_len_ipv6":                 {standard: []string{"56"}, take: func(*keys, any) *report.Note { return report.Differs("dns: rate", "for each IPv6 /56") }},
	"dns.ratelimit_whitelist":                       {standard: []string{""}, why: "the limit is the same for all; raise dns: rate for a resolver with many clients behind it"},
	"dns.bogus_nxdomain":                            {standard: []string{""}, why: "answers are not rewritten by their address; use a list of networks and a rule that blocks it"},
	"dns.ipset":                                     {standard: []string{""}, why: "the firewall's sets are not filled"},
	"filtering.blocked_services.ids":                {standard: []string{""}, take: (*keys).blockedServices},
	"filtering.blocked_services":                    {standard: []string{"", "map[]"}, take: (*keys).blockedServices},
	"filtering.blocked_services.schedule.time_zone": {standard: []string{"", "Local", "UTC"}, take: readWith("schedule of the rule: zone")},
	"filtering.blocking_ipv4":                       {standard: []string{"", "0.0.0.0"}, take: readWith("dns: block: sinkhole")},
	"filtering.blocking_ipv6":                       {standard: []string{"", "::"}, take: readWith("dns: block: sinkhole")},
	"filtering.blocked_response_ttl":                {standard: []string{"10"}, take: aDuration("dns: block: ttl", 24*time.Hour, func(a *keys) *setting.Duration { return &a.w.Set.UseDNS().Names.Block.TTL })},
	"filtering.filters_update_interval":             {standard: []string{"24"}, take: (*keys).updates},
	"filtering.cache_time":                          {standard: []string{"30"}},
	"filtering.safebrowsing_cache_size":             {standard: []string{"1048576"}},
	"filtering.safesearch_cache_size":               {standard: []string{"1048576"}},
	"filtering.parental_cache_size":                 {standard: []string{"1048576"}},
	"filtering.parental_block_host":                 {standard: []string{"", "family-block.dns.adguard.com"}, why: "refused names are answered as dns: block says"},
	"filtering.safebrowsing_block_host":             {standard: []string{"", "standard-block.dns.adguard.com"}, why: "refused names are answered as dns: block says"},
	"filtering.protection_disabled_until":           {standard: []string{""}, why: "filtering is paused with \"shuultuur pause\""},
	"filtering.filtering_enabled":                   {standard: []string{"true"}, take: filtersAnyway},
	"filtering.protection_enabled":                  {standard: []string{"true"}, take: filtersAnyway},
	"filtering.rewrites_enabled":                    {standard: []string{"true"}, take: readWith("no local names")},
	"filtering.parental_enabled":                    {standard: []string{"false"}, take: func(a *keys, _ any) *report.Note { return a.catalogued("ut1-adult", "adult") }},
	"filtering.safebrowsing_enabled":                {standard: []string{"false"}, take: func(a *keys, _ any) *report.Note { return a.catalogued("hagezi-tif", "malware") }},
	"filtering.safesearch_enabled": {standard: []string{"false"}, take: func(a *keys, _ any) *report.Note {
		safeSearch(a.everyone, nil)
		return report.Same("safesearch: true, youtube: strict")
	}},
	"filtering.safe_fs_patterns": {take: readWith("lists: path, which reads any file that the gateway may")},
	"querylog.enabled":           {standard: []string{"true"}, take: (*keys).queryLog},
	"querylog.file_enabled": {standard: []string{"true"}, take: func(*keys, any) *report.Note {
		return report.Differs("events", "the record is kept in a file; dns: log: off keeps queries out of it")
	}},
	"querylog.interval": {take: (*keys).keep},
	"querylog.size_memory": {standard: []string{"1000"}, take: func(*keys, any) *report.Note {
		return report.Differs("events: queue", "rows are written every second, in batches")
	}},
	"querylog.ignored":   {standard: []string{""}, why: "the record has all names; \"shuultuur events\" can leave some out"},
	"statistics.enabled": {standard: []string{"true"}},
	"statistics.interval": {standard: []string{"24h", "24h0m0s", "1"}, take: func(*keys, any) *report.Note {
		return report.Differs("events: keep", "statistics are computed from the record, for as long as it is kept")
	}},
	"tls.enabled":                   {take: readWith("dns: tls, https, quic")},
	"tls.server_name":               {standard: []string{""}, take: (*keys).serverName},
	"tls.force_https":               {standard: []string{"false"}, why: "pages of the administration are at listen: admin, with listen: tls"},
	"tls.port_https":                {standard: []string{"0"}, take: readWith("dns: https")},
	"tls.port_dns_over_tls":         {standard: []string{"0"}, take: readWith("dns: tls")},
	"tls.port_dns_over_quic":        {standard: []string{"0"}, take: readWith("dns: quic")},
	"tls.allow_unencrypted_doh":     {standard: []string{"false"}, why: "DNS over HTTPS is always encrypted; let the proxy in front speak to dns: https with the PROXY protocol and dns: trusted"},
	"tls.certificate_chain":         {standard: []string{""}, take: readWith("dns: cert")},
	"tls.private_key":               {standard: []string{""}, take: readWith("dns: key")},
	"tls.certificate_path":          {standard: []string{""}, take: readWith("dns: cert")},
	"tls.private_key_path":          {standard: []string{""}, take: readWith("dns: key")},
	"tls.strict_sni_check":          {standard: []string{"false"}, why: "clients may ask for any name"},
	"clients.runtime_sources.hosts": {standard: []string{"true"}},
	"clients.runtime_sources.dhcp":  {standard: []string{"true"}},
	"clients.runtime_sources.arp":   {standard: []string{"true"}},
	"clients.runtime_sources.rdns":  {standard: []string{"true"}},
	"clients.runtime_sources.whois": {standard: []string{"true"}},
	"log.enabled":                   {standard: []string{"true"}},
	"log.max_size":                  {standard: []string{"100"}},
	"log.max_age":                   {standard: []string{"3"}},
	"dhcp.enabled":                  {why: whyNot("dhcp.")},
}

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
	categories, note := a.w.BlockServices(a.at, ids)
	if len(categories) > 0 {
		a.everyone.Rules = append(a.everyone.Rules, build.ServiceRule(categories, build.BlockedTimes(a.all, "filtering.blocked_services.schedule.")))
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
