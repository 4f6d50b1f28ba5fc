package importer

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/identity"
	"shuultuur/policy"
	"shuultuur/resolver/forward"
	"shuultuur/setting"
)

// adGuardKeys converts the settings of AdGuardHome.yaml one by one.
type adGuardKeys struct {
	*work
	at       place // of the current setting
	file     yamlFile
	all      map[string]any // by path, such as dns.ratelimit
	everyone *policy.Policy
}

// An adGuardKey has the default of a setting in AdGuard Home, and converts
// other values. Without take there is no equivalent, for the given reason.
type adGuardKey struct {
	standard []string
	take     func(a *adGuardKeys, v any) *Note
	why      string
}

// text returns a setting of the file, or "".
func (a *adGuardKeys) text(path string) string {
	if v := a.all[path]; v != nil {
		return plainText(v)
	}
	return ""
}

// plainText writes a value for people; for a list it writes the values.
func plainText(v any) string {
	if l, ok := v.([]any); ok {
		var all []string
		for _, x := range l {
			all = append(all, fmt.Sprint(x))
		}
		return strings.Join(all, " ")
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// adGuardMeans names the settings that other parts of the import convert and report.
var adGuardMeans = []string{"filters", "whitelist_filters", "user_rules", "clients", "schema_version",
	"filtering.rewrites", "dns.rewrites", "dns.upstream_dns", "dns.bootstrap_dns", "dns.enable_dnssec",
	"dns.blocking_mode", "filtering.blocking_mode"}

// settingsBelow puts the settings below v into all, each list as one value.
func settingsBelow(v any, path string, all map[string]any) {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		all[path] = v
		return
	}
	for k, x := range m {
		settingsBelow(x, strings.TrimPrefix(path+"."+k, "."), all)
	}
}

// adGuardSettings reports every setting that is not about lists, rules or
// clients, and converts those that have an equivalent.
func adGuardSettings(w *work, file yamlFile, known map[string]any, everyone *policy.Policy) {
	a := &adGuardKeys{work: w, at: file.at("tls"), file: file, all: map[string]any{}, everyone: everyone}
	for _, k := range sortedKeys(known) {
		if !slices.Contains(adGuardMeans, k) {
			settingsBelow(known[k], k, a.all)
		}
	}
	if m, ok := known["clients"].(map[string]any); ok {
		for k, v := range m {
			if k != "persistent" {
				settingsBelow(v, "clients."+k, a.all)
			}
		}
	}
	tlsOff := a.text("tls.enabled") != "true"
	unusable := !tlsOff && !a.certificate()
	dhcpOff := a.text("dhcp.enabled") != "true"
	for _, path := range sortedKeys(a.all) {
		if slices.Contains(adGuardMeans, path) || strings.HasPrefix(path, "filtering.safe_search.") {
			continue
		}
		text := a.text(path)
		a.at = file.at(path)
		n := &Note{Kind: Lost, place: a.at, What: strings.TrimSpace(path + ": " + text)}
		settle := func(x *Note) { n.Kind, n.Ours, n.Why = x.Kind, x.Ours, x.Why }
		k, ok := adGuardTable[path]
		if !ok {
			k, ok = adGuardTable[strings.Replace(path, "dns.", "filtering.", 1)] // older files have it there
		}
		switch {
		case strings.HasPrefix(path, "tls.") && tlsOff, strings.HasPrefix(path, "dhcp.") && dhcpOff:
			n.Kind, n.Why = Default, "it is switched off"
		case ok && slices.Contains(k.standard, text), !ok && adGuardEmpty(a.all[path]):
			n.Kind = Default
		case path == "users":
			n.What, n.Why = fmt.Sprintf("%s: %d", path, max(1, len(words(a.all[path])))), adGuardWhy(path)
		case unusable && strings.HasPrefix(path, "tls."):
			n.Ours, n.Why = "dns: cert, key, tls, https, quic", "the certificate and key cannot be used; see above"
		case strings.HasPrefix(path, "filtering.blocked_services.schedule."):
			n.Kind, n.Ours = Carried, "schedule of the rule"
		case ok && k.take != nil:
			settle(k.take(a, a.all[path]))
		case ok && k.why != "":
			n.Why = k.why
		default:
			n.Why = adGuardWhy(path)
		}
		w.rep.add(n)
	}
	a.safeSearch()
	a.listeners(!tlsOff && !unusable)
}

func adGuardEmpty(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return v == nil || v == false || v == "" || v == 0
}

// adGuardReasons say why parts of AdGuard Home have no equivalent.
var adGuardReasons = reasons{
	{"dhcp.", "addresses are assigned by another program: keep AdGuard Home's DHCP server, dnsmasq or Kea for it, and name its leases under identity: names: leases"},
	{"log.", "the log goes to standard error, which the service manager collects"},
	{"os.", "the service manager sets user, group and limits"},
	{"users", "the administration has its own: listen: token, and docs of the admin address"},
	{"http.", "metrics and administration are at listen: admin"},
	{"statistics.", "statistics are computed from the record; events: keep says for how long"},
	{"clients.", "devices get names from identity: names"},
	{"tls.", "not part of the name server's TLS here"},
}

func adGuardWhy(path string) string { return cmp.Or(adGuardReasons.of(path), noneOfOurs) }

// readWith has the notes on settings that are read together with another one.
func readWith(ours string) func(*adGuardKeys, any) *Note {
	return func(*adGuardKeys, any) *Note { return carried(ours) }
}

// seconds reads a number of seconds, or a duration in AdGuard Home's syntax.
func seconds(v any) (setting.Duration, error) {
	text := plainText(v)
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
func aDuration(ours string, most time.Duration, to func(a *adGuardKeys) *setting.Duration) func(*adGuardKeys, any) *Note {
	return func(a *adGuardKeys, v any) *Note {
		d, err := seconds(v)
		if err != nil {
			return lostOurs(ours, err.Error())
		}
		return atMost(ours, time.Duration(d), most, to(a))
	}
}

// aCount converts a count of at most most.
func aCount(ours, why string, most uint64, to func(a *adGuardKeys) *setting.Count) func(*adGuardKeys, any) *Note {
	return func(a *adGuardKeys, v any) *Note {
		n, err := strconv.ParseUint(plainText(v), 10, 31)
		if err != nil || n == 0 {
			return lostOurs(ours, fmt.Sprintf("%q is not a count", plainText(v)))
		}
		*to(a) = setting.Count(min(n, most))
		if why != "" || n > most {
			return differs(ours, cmp.Or(why, fmt.Sprintf("at most %d", most)))
		}
		return carried(ours)
	}
}

// prefixes reads addresses and networks; other values are ClientIDs.
func prefixes(ours string, to func(a *adGuardKeys) *setting.OneOrMore[netip.Prefix]) func(*adGuardKeys, any) *Note {
	return func(a *adGuardKeys, v any) *Note {
		var others []string
		for _, s := range words(v) {
			n, err := network(s)
			if err != nil {
				others = append(others, s)
				continue
			}
			*to(a) = append(*to(a), n)
		}
		if len(others) > 0 {
			return differs(ours, "only addresses and networks; left out: "+strings.Join(others, ", "))
		}
		return carried(ours)
	}
}

// adGuardTable has the settings by path, as in AdGuard Home 0.107. Older files
// have those about filtering under dns.
var adGuardTable = map[string]adGuardKey{
	"http.address":            {take: (*adGuardKeys).admin},
	"http.session_ttl":        {standard: []string{"720h", "720h0m0s"}},
	"http.pprof.enabled":      {standard: []string{"false"}, take: readWith("listen: admin, which has profiles")},
	"http.pprof.port":         {standard: []string{"6060"}},
	"auth_attempts":           {standard: []string{"5"}, why: "wrong passwords are counted by address, ten a minute"},
	"block_auth_min":          {standard: []string{"15"}, why: "wrong passwords are counted by address, ten a minute"},
	"http_proxy":              {standard: []string{""}, take: (*adGuardKeys).parent},
	"language":                {standard: []string{"", "en"}, take: func(*adGuardKeys, any) *Note { return differs("pages", "pages are in the reader's language") }},
	"theme":                   {standard: []string{"auto", ""}, take: func(*adGuardKeys, any) *Note { return differs("pages", "pages follow the reader's system") }},
	"dns.bind_hosts":          {take: readWith("dns: listen")},
	"dns.bind_host":           {take: readWith("dns: listen")},
	"dns.port":                {take: readWith("dns: listen")},
	"dns.serve_plain_dns":     {standard: []string{"true"}, take: readWith("dns: listen")},
	"dns.anonymize_client_ip": {standard: []string{"false"}, take: (*adGuardKeys).anonymise},
	"dns.ratelimit":           {standard: []string{"0"}, take: aCount("dns: rate", "", 1e6, func(a *adGuardKeys) *setting.Count { return &a.set.dns().Server.Rate })},
	"dns.refuse_any": {standard: []string{"true"}, take: func(*adGuardKeys, any) *Note {
		return differs("dns", "queries of type ANY get a short answer (RFC 8482)")
	}},
	"dns.upstream_dns_file":  {standard: []string{""}, take: (*adGuardKeys).upstreamFile},
	"dns.fallback_dns":       {standard: []string{""}, take: (*adGuardKeys).fallback},
	"dns.upstream_mode":      {standard: []string{""}, take: (*adGuardKeys).upstreamMode},
	"dns.all_servers":        {standard: []string{"false"}, take: func(a *adGuardKeys, _ any) *Note { return a.upstreamMode("parallel") }},
	"dns.fastest_addr":       {standard: []string{"false"}, take: func(a *adGuardKeys, _ any) *Note { return a.upstreamMode("fastest_addr") }},
	"dns.fastest_timeout":    {standard: []string{"1s"}, why: "earlier answers show which upstream is the fastest; no probe delays a query"},
	"dns.allowed_clients":    {standard: []string{""}, take: prefixes("dns: allow", func(a *adGuardKeys) *setting.OneOrMore[netip.Prefix] { return &a.set.dns().Server.Allow })},
	"dns.disallowed_clients": {standard: []string{""}, take: prefixes("dns: deny", func(a *adGuardKeys) *setting.OneOrMore[netip.Prefix] { return &a.set.dns().Server.Deny })},
	"dns.trusted_proxies":    {standard: []string{""}, take: prefixes("dns: trusted", func(a *adGuardKeys) *setting.OneOrMore[netip.Prefix] { return &a.set.dns().Server.Trusted })},
	"dns.blocked_hosts":      {standard: []string{"version.bind id.server hostname.bind", ""}, take: readWith("lists.user-rules")},
	"dns.cache_enabled":      {standard: []string{"true"}, take: func(*adGuardKeys, any) *Note { return differs("dns: cache", "there is always a cache, of 16 MiB") }},
	"dns.cache_size":         {standard: []string{"0"}, take: (*adGuardKeys).cacheSize},
	"dns.cache_ttl_min":      {standard: []string{"0"}, take: aDuration("dns: cache: min-ttl", time.Hour, func(a *adGuardKeys) *setting.Duration { return &a.set.dns().Cache.MinTTL })},
	"dns.cache_ttl_max":      {standard: []string{"0"}, take: aDuration("dns: cache: max-ttl", 7*24*time.Hour, func(a *adGuardKeys) *setting.Duration { return &a.set.dns().Cache.MaxTTL })},
	"dns.cache_optimistic": {standard: []string{"false"}, take: func(*adGuardKeys, any) *Note {
		return differs("dns: cache: stale", "stale answers are served while upstreams are slow or fail, and entries in use are fetched before they expire")
	}},
	"dns.cache_optimistic_answer_ttl": {standard: []string{"30s"}},
	"dns.cache_optimistic_max_age":    {standard: []string{"0", "0s", "12h", "12h0m0s"}, take: aDuration("dns: cache: stale", 7*24*time.Hour, func(a *adGuardKeys) *setting.Duration { return &a.set.dns().Cache.Stale })},
	"dns.aaaa_disabled":               {standard: []string{"false"}, take: (*adGuardKeys).noAAAA},
	"dns.max_goroutines":              {standard: []string{"300", "0"}, take: aCount("dns: workers", "", 65536, func(a *adGuardKeys) *setting.Count { return &a.set.dns().Server.Workers })},
	"dns.handle_ddr": {standard: []string{"true"}, take: func(*adGuardKeys, any) *Note {
		return differs("dns: name", "encrypted addresses are announced if there are any")
	}},
	"dns.upstream_timeout":          {standard: []string{"10s"}, take: (*adGuardKeys).upstreamTimeout},
	"dns.use_private_ptr_resolvers": {standard: []string{"true", "false"}},
	"dns.local_ptr_upstreams":       {standard: []string{""}, take: (*adGuardKeys).privateNames},
	"dns.use_dns64":                 {standard: []string{"false"}, take: (*adGuardKeys).dns64},
	"dns.dns64_prefixes":            {standard: []string{""}, take: readWith("dns: dns64")},
	"dns.serve_http3":               {standard: []string{"false"}, take: readWith("dns: https, which speaks HTTP/3 too")},
	"dns.use_http3_upstreams": {standard: []string{"false"}, take: func(*adGuardKeys, any) *Note {
		return differs("dns: forward: upstreams", "write h3:// instead of https:// for upstreams that support it")
	}},
	"dns.hostsfile_enabled":                         {take: (*adGuardKeys).hostsFile},
	"dns.pending_requests.enabled":                  {standard: []string{"true"}},
	"dns.edns_client_subnet.enabled":                {standard: []string{"false"}, why: "the networks of clients are not sent to upstreams"},
	"dns.ratelimit_subnet_len_ipv4":                 {standard: []string{"24"}, take: func(*adGuardKeys, any) *Note { return differs("dns: rate", "for each IPv4 address") }},
	"dns.ratelimit_subnet_len_ipv6":                 {standard: []string{"56"}, take: func(*adGuardKeys, any) *Note { return differs("dns: rate", "for each IPv6 /56") }},
	"dns.ratelimit_whitelist":                       {standard: []string{""}, why: "the limit is the same for all; raise dns: rate for a resolver with many clients behind it"},
	"dns.bogus_nxdomain":                            {standard: []string{""}, why: "answers are not rewritten by their address; use a list of networks and a rule that blocks it"},
	"dns.ipset":                                     {standard: []string{""}, why: "the firewall's sets are not filled"},
	"filtering.blocked_services.ids":                {standard: []string{""}, take: (*adGuardKeys).blockedServices},
	"filtering.blocked_services":                    {standard: []string{"", "map[]"}, take: (*adGuardKeys).blockedServices},
	"filtering.blocked_services.schedule.time_zone": {standard: []string{"", "Local", "UTC"}, take: readWith("schedule of the rule: zone")},
	"filtering.blocking_ipv4":                       {standard: []string{"", "0.0.0.0"}, take: readWith("dns: block: sinkhole")},
	"filtering.blocking_ipv6":                       {standard: []string{"", "::"}, take: readWith("dns: block: sinkhole")},
	"filtering.blocked_response_ttl":                {standard: []string{"10"}, take: aDuration("dns: block: ttl", 24*time.Hour, func(a *adGuardKeys) *setting.Duration { return &a.set.dns().Names.Block.TTL })},
	"filtering.filters_update_interval":             {standard: []string{"24"}, take: (*adGuardKeys).updates},
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
	"filtering.parental_enabled":                    {standard: []string{"false"}, take: func(a *adGuardKeys, _ any) *Note { return a.catalogued("ut1-adult", "adult") }},
	"filtering.safebrowsing_enabled":                {standard: []string{"false"}, take: func(a *adGuardKeys, _ any) *Note { return a.catalogued("hagezi-tif", "malware") }},
	"filtering.safesearch_enabled": {standard: []string{"false"}, take: func(a *adGuardKeys, _ any) *Note {
		safeSearch(a.everyone, nil)
		return carried("safesearch: true, youtube: strict")
	}},
	"filtering.safe_fs_patterns": {take: readWith("lists: path, which reads any file that the gateway may")},
	"querylog.enabled":           {standard: []string{"true"}, take: (*adGuardKeys).queryLog},
	"querylog.file_enabled": {standard: []string{"true"}, take: func(*adGuardKeys, any) *Note {
		return differs("events", "the record is kept in a file; dns: log: off keeps queries out of it")
	}},
	"querylog.interval": {take: (*adGuardKeys).keep},
	"querylog.size_memory": {standard: []string{"1000"}, take: func(*adGuardKeys, any) *Note {
		return differs("events: queue", "rows are written every second, in batches")
	}},
	"querylog.ignored":   {standard: []string{""}, why: "the record has all names; \"shuultuur events\" can leave some out"},
	"statistics.enabled": {standard: []string{"true"}},
	"statistics.interval": {standard: []string{"24h", "24h0m0s", "1"}, take: func(*adGuardKeys, any) *Note {
		return differs("events: keep", "statistics are computed from the record, for as long as it is kept")
	}},
	"tls.enabled":                   {take: readWith("dns: tls, https, quic")},
	"tls.server_name":               {standard: []string{""}, take: (*adGuardKeys).serverName},
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
	"dhcp.enabled":                  {why: adGuardWhy("dhcp.")},
}

func filtersAnyway(*adGuardKeys, any) *Note {
	return differs("nothing", "AdGuard Home filters nothing at present; these settings filter")
}

// admin converts the address of the administration. Beyond loopback, our admin address requires
// a token and a certificate, so it stays on loopback until these exist.
func (a *adGuardKeys) admin(v any) *Note {
	addr, err := netip.ParseAddrPort(plainText(v))
	if err != nil || addr.Port() == 0 {
		return lostOurs("listen: admin", "it contains no valid address and port")
	}
	if addr.Addr().IsLoopback() {
		a.set.Listen.Admin = setting.OneOrMore[setting.Address]{setting.Address(addr.String())}
		return carried("listen: admin")
	}
	return differs("listen: admin", "it is at 127.0.0.1:8081; for other machines write the address, a token and tls under listen")
}

// parent converts the proxy through which AdGuard Home fetches.
func (a *adGuardKeys) parent(v any) *Note {
	if s := plainText(v); strings.HasPrefix(s, "http://") {
		a.set.Proxy.Upstream.Parent = s
		return carried("proxy: parent")
	}
	return lostOurs("proxy: parent", "a parent is reached over http://")
}

func (a *adGuardKeys) upstreamMode(v any) *Note {
	order, ok := map[string]forward.Order{"parallel": forward.Parallel, "fastest_addr": forward.Fastest, "load_balance": forward.Fastest}[plainText(v)]
	if !ok {
		return lostOurs("dns: forward: order", fmt.Sprintf("%q is not a known mode", plainText(v)))
	}
	if len(words(a.all["dns.fallback_dns"])) > 0 {
		return differs("dns: forward: order: strict", "fallback servers are to come last, so upstreams are asked as they are listed")
	}
	a.set.dns().Forward.Order = order
	if order == forward.Parallel {
		return carried("dns: forward: order")
	}
	return differs("dns: forward: order", "the fastest upstream is asked, and another one if it does not answer")
}

func (a *adGuardKeys) upstreamFile(v any) *Note {
	file := plainText(v)
	if !isFile(file) {
		file = filepath.Join(filepath.Dir(a.at.file), filepath.Base(file))
	}
	data, err := readWhole(file)
	if err != nil {
		return lostOurs("dns: forward: upstreams", "the file is not there: write its lines under upstreams")
	}
	var all []any
	for line := range strings.Lines(string(data)) {
		all = append(all, strings.TrimSpace(line))
	}
	a.set.dns().Forward.Upstreams = nil // AdGuard Home then reads the file instead of upstream_dns
	a.adGuardUpstreams(a.at, all)
	return differs("dns: forward: upstreams", "copied: it is not read again when it changes")
}

func (a *adGuardKeys) fallback(v any) *Note {
	f := &a.set.dns().Forward
	if len(f.Upstreams) == 0 {
		return lostOurs("dns: forward: upstreams", "no upstreams come before them")
	}
	for _, s := range words(v) {
		if s != "" && !strings.HasPrefix(s, "[/") && !strings.HasPrefix(s, "sdns://") && !slices.Contains(f.Upstreams, s) {
			f.Upstreams = append(f.Upstreams, strings.TrimPrefix(s, "udp://"))
		}
	}
	f.Order = forward.Strict
	return differs("dns: forward: upstreams, order: strict", "upstreams are asked as they are listed, these last")
}

func (a *adGuardKeys) cacheSize(v any) *Note {
	n, _ := strconv.ParseInt(plainText(v), 10, 64) // 0 means no size
	return a.set.cacheSize(n)
}

// noAAAA refuses queries for IPv6 addresses.
func (a *adGuardKeys) noAAAA(any) *Note {
	a.everyone.Rules = append([]policy.Rule{{Name: "no IPv6 addresses", Action: "block", Query: []string{"AAAA"}, Answer: filter.NoData}}, a.everyone.Rules...)
	return carried(`rule "no IPv6 addresses"`)
}

func (a *adGuardKeys) upstreamTimeout(v any) *Note {
	d, err := seconds(v)
	if err != nil || time.Duration(d) > 30*time.Second || time.Duration(d) < 100*time.Millisecond {
		return lostOurs("dns: forward: timeout", "between 100ms and 30s")
	}
	f := &a.set.dns().Forward
	if f.Timeout = d; time.Duration(d) > 5*time.Second {
		f.Total = d
	}
	if time.Duration(d) > 5*time.Second {
		a.set.dns().Server.Wait = d
	}
	return carried("dns: forward: timeout")
}

// privateNetworks has the networks whose reverse names private resolvers have.
var privateNetworks = []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8"}

func (a *adGuardKeys) privateNames(v any) *Note {
	networks := privateNetworks
	if own := words(a.all["dns.private_networks"]); len(own) > 0 {
		networks = nil
		for _, s := range own {
			if p, err := netip.ParsePrefix(s); err == nil {
				networks = append(networks, p.Masked().String())
			}
		}
	}
	for _, s := range words(v) {
		if strings.HasPrefix(s, "[/") {
			a.adGuardUpstreams(a.at, []any{s})
			continue
		}
		for _, n := range networks {
			a.route(a.at, n, strings.TrimPrefix(s, "udp://"))
		}
	}
	return carried("dns: forward: routes")
}

func (a *adGuardKeys) dns64(any) *Note {
	p := netip.MustParsePrefix("64:ff9b::/96")
	own := words(a.all["dns.dns64_prefixes"])
	for _, s := range own {
		if n, err := netip.ParsePrefix(s); err == nil {
			p = n.Masked()
			break
		}
	}
	a.set.dns().Names.DNS64.Prefix = p
	if len(own) > 1 {
		return differs("dns: dns64", "one prefix, the first")
	}
	return carried("dns: dns64")
}

func (a *adGuardKeys) hostsFile(v any) *Note {
	if v != true {
		return carried("no dns: hosts-files")
	}
	a.set.dns().Names.HostsFiles = setting.OneOrMore[setting.File]{"/etc/hosts"}
	return carried("dns: hosts-files")
}

func (a *adGuardKeys) blockedServices(v any) *Note {
	ids := words(v)
	categories, note := a.blockServices(a.at, ids)
	if len(categories) > 0 {
		a.everyone.Rules = append(a.everyone.Rules, serviceRule(categories, adGuardBlockedTimes(a.all, "filtering.blocked_services.schedule.")))
	}
	return note
}

// adGuardBlockedTimes returns the times outside those in which AdGuard Home
// permits blocked services, or nil if it never does.
func adGuardBlockedTimes(all map[string]any, prefix string) policy.Schedule {
	zone := plainText(all[prefix+"time_zone"])
	if zone == "Local" {
		zone = ""
	}
	var when policy.Schedule
	paused := false
	for _, day := range []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"} {
		start, end := adGuardMoment(all[prefix+day+".start"]), adGuardMoment(all[prefix+day+".end"])
		if end <= start {
			when = append(when, policy.Window{Days: day, Zone: zone})
			continue
		}
		paused = true
		var hours []string
		if start > 0 {
			hours = append(hours, "00:00-"+clock(start))
		}
		if end < 24*time.Hour {
			hours = append(hours, clock(end)+"-24:00")
		}
		if len(hours) > 0 {
			when = append(when, policy.Window{Days: day, Hours: strings.Join(hours, ","), Zone: zone})
		}
	}
	if !paused {
		return nil
	}
	if len(when) == 0 { // they are permitted at all times
		return policy.Schedule{{Days: "mon", Hours: "00:00-00:01", Zone: zone}}
	}
	return when
}

// adGuardMoment reads a time of day: a duration, or milliseconds as a number.
func adGuardMoment(v any) time.Duration {
	text := plainText(v)
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(n) * time.Millisecond
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > 24*time.Hour {
		return 0
	}
	return d
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60)
}

// updates converts the interval for fetching lists.
func (a *adGuardKeys) updates(v any) *Note {
	hours, err := strconv.Atoi(plainText(v))
	if err != nil || hours <= 0 || hours > 24*365 {
		return differs("lists: every", "lists are checked once a day; pin their content with sha256 if they must not change")
	}
	a.set.listsEvery(time.Duration(hours) * time.Hour)
	return carried("lists: every")
}

// catalogued blocks a list of the catalogue in place of AdGuard's servers.
func (a *adGuardKeys) catalogued(source, category string) *Note {
	a.addCatalogued(source, category)
	a.everyone.Rules = append(a.everyone.Rules, policy.Rule{Name: category, Action: "block", Category: []string{"category/" + category}})
	return differs("lists."+category+", a rule that blocks it", "a list that is fetched ("+source+") instead of a question to AdGuard's servers")
}

func (a *adGuardKeys) queryLog(v any) *Note {
	if v == false {
		a.leaveOutQueries()
	}
	return differs("dns: log: off", "queries are not recorded; what the proxy refuses still is")
}

// anonymise makes rows anonymous as early as permitted: pages try the effect of a change of
// settings on the rows of the last day.
func (a *adGuardKeys) anonymise(any) *Note {
	a.set.Events.Anonymise = setting.Duration(24 * time.Hour)
	return differs("events: anonymise", "rows lose their clients after a day, not at once, unless they are deleted by then")
}

func (a *adGuardKeys) keep(v any) *Note {
	d, err := time.ParseDuration(plainText(v))
	if days, failed := strconv.Atoi(plainText(v)); failed == nil { // older files have days
		d, err = time.Duration(days)*24*time.Hour, nil
	}
	if err != nil || d < time.Hour || d > 100*365*24*time.Hour {
		return lostOurs("events: keep", "it contains no valid duration")
	}
	a.keepRecord(d)
	if d <= 24*time.Hour {
		a.set.Events.Anonymise = 0
	}
	return carried("events: keep")
}

func (a *adGuardKeys) serverName(v any) *Note {
	a.set.dns().Server.Name = plainText(v)
	return carried("dns: name")
}

// safeSearch converts the setting for everybody, where services are separate settings.
func (a *adGuardKeys) safeSearch() {
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
	for _, name := range sortedKeys(services) {
		n := &Note{Kind: Carried, place: a.file.at("filtering.safe_search." + name), What: fmt.Sprintf("filtering.safe_search.%s: %v", name, services[name]), Ours: fmt.Sprintf("safesearch: %v, youtube: %s", a.everyone.SafeSearch, cmp.Or(a.everyone.YouTube, "off"))}
		switch {
		case !on:
			n.Kind, n.Ours = Default, ""
		case name != "enabled" && name != "youtube" && services[name] == false && a.everyone.SafeSearch:
			n.Kind, n.Why = Changed, "all search engines filter or none"
		}
		a.rep.add(n)
	}
}

// listeners sets the addresses of the name server, each with each port.
func (a *adGuardKeys) listeners(encrypted bool) {
	s := &a.set.dns().Server
	hosts := words(a.all["dns.bind_hosts"])
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
func (a *adGuardKeys) certificate() bool {
	find := func(path, inline, name string, mode os.FileMode) string {
		file := a.text(path)
		if text := a.text(inline); text != "" {
			file = filepath.Join(a.to, name)
			if os.WriteFile(file, []byte(text), mode) != nil {
				return ""
			}
			return file
		}
		return findFile(filepath.Dir(a.at.file), file)
	}
	cert := find("tls.certificate_path", "tls.certificate_chain", "cert.pem", 0o644)
	key := find("tls.private_key_path", "tls.private_key", "key.pem", 0o600)
	if err := keyPair(a.work, cert, key); err != nil {
		a.rep.add(&Note{Kind: Lost, place: a.at, What: "tls: certificate and key", Ours: "dns: cert, key", Why: fmt.Sprintf("they cannot be used (%v): write dns: cert and key, and tls, https and quic", err)})
		return false
	}
	return true
}

// leaseNames gives devices the names in their leases.
func (w *work) leaseNames(at place, leases map[string]string) {
	if len(leases) == 0 {
		return
	}
	name := "devices"
	for n := 2; isFile(filepath.Join(w.to, "lists", name)); n++ {
		name = fmt.Sprintf("devices-%d", n)
	}
	path, err := w.create(name, func(to io.Writer) error {
		for _, addr := range sortedKeys(leases) {
			if _, err := fmt.Fprintf(to, "%s %s\n", addr, leases[addr]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.rep.add(&Note{Kind: Lost, place: at, What: "names of leases", Ours: "identity: names", Why: err.Error()})
		return
	}
	rel, err := filepath.Rel(w.to, path)
	if err != nil {
		rel = path
	}
	w.set.Identity.Names = identity.NamesConfig{Hosts: append(w.set.Identity.Names.Hosts, setting.Source(rel)), Leases: w.set.Identity.Names.Leases}
	w.rep.add(&Note{Kind: Carried, place: at, What: fmt.Sprintf("names of %d leases", len(leases)), Ours: "identity: names: hosts"})
}
