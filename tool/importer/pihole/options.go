package pihole

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/dnsmasq"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// keys converts the settings of Pi-hole one by one. Those of version 5
// are first renamed to those of version 6.
type keys struct {
	w     *build.Work
	at    report.Place
	all   map[string]tomlValue
	limit policy.Rate // limit of queries, for every policy

	macs    map[string]string // addresses of static leases
	extra   *build.Plain      // values of dnsmasq's options
	dnsmasq *dnsmasq.Options
}

// A key is Pi-hole's default for a setting, and the conversion of another
// value.
type key struct {
	standard string
	take     func(p *keys, v tomlValue) *report.Note
	why      string
}

// olderKeys are the names that version 6 has for settings of version 5, in
// setupVars.conf and pihole-FTL.conf.
var olderKeys = map[string]string{
	"DNSSEC": "dns.dnssec", "PIHOLE_INTERFACE": "dns.interface", "DNSMASQ_LISTENING": "dns.listeningMode", "QUERY_LOGGING": "dns.queryLogging",
	"CACHE_SIZE": "dns.cache.size", "DNS_FQDN_REQUIRED": "dns.domainNeeded", "DNS_BOGUS_PRIV": "dns.bogusPriv", "PIHOLE_DOMAIN": "dns.domain",
	"BLOCKING_ENABLED": "dns.blocking.active", "DHCP_ACTIVE": "dhcp.active", "DHCP_START": "dhcp.start", "DHCP_END": "dhcp.end", "DHCP_ROUTER": "dhcp.router",
	"DHCP_LEASETIME": "dhcp.leaseTime", "DHCP_IPv6": "dhcp.ipv6", "DHCP_RAPID_COMMIT": "dhcp.rapidCommit", "WEBPASSWORD": "webserver.api.pwhash",
	"BLOCKINGMODE": "dns.blocking.mode", "MAXDBDAYS": "database.maxDBdays", "DBINTERVAL": "database.DBinterval", "PRIVACYLEVEL": "misc.privacylevel",
	"BLOCK_TTL": "dns.blockTTL", "LOCAL_IPV4": "dns.reply.host.IPv4", "LOCAL_IPV6": "dns.reply.host.IPv6",
	"MOZILLA_CANARY": "dns.specialDomains.mozillaCanary", "BLOCK_ICLOUD_PR": "dns.specialDomains.iCloudPrivateRelay", "CNAME_DEEP_INSPECT": "dns.CNAMEdeepInspect",
	"RESOLVE_IPV4": "resolver.resolveIPv4", "RESOLVE_IPV6": "resolver.resolveIPv6", "REFRESH_HOSTNAMES": "resolver.refreshNames", "NAMES_FROM_NETDB": "resolver.networkNames",
	"REPLY_WHEN_BUSY": "dns.replyWhenBusy", "IGNORE_LOCALHOST": "dns.ignoreLocalhost", "ANALYZE_ONLY_A_AND_AAAA": "dns.analyzeOnlyAandAAAA", "EDNS0_ECS": "dns.EDNS0ECS",
	"SHOW_DNSSEC": "dns.showDNSSEC", "PIHOLE_PTR": "dns.piholePTR", "BLOCK_ESNI": "dns.blockESNI", "PARSE_ARP_CACHE": "database.network.parseARPcache", "DBIMPORT": "database.DBimport",
	"API_EXCLUDE_DOMAINS": "webserver.api.excludeDomains", "API_EXCLUDE_CLIENTS": "webserver.api.excludeClients", "WEBUIBOXEDLAYOUT": "webserver.interface.boxed", "WEBTHEME": "webserver.interface.theme",
	"TEMPERATUREUNIT": "webserver.api.temp.unit", "INSTALL_WEB_SERVER": "webserver.serve", "INSTALL_WEB_INTERFACE": "webserver.serve", "LIGHTTPD_ENABLED": "webserver.serve", "FTLPORT": "webserver.serve",
	"SOCKET_LISTENING": "webserver.serve", "DBFILE": "files.database", "GRAVITYDB": "files.gravity", "LOGFILE": "files.log.ftl", "PIDFILE": "files.pid", "MACVENDORDB": "files.macvendor",
	"NICE": "misc.nice", "DELAY_STARTUP": "misc.delay_startup", "ADDR2LINE": "misc.addr2line", "CHECK_LOAD": "misc.check.load", "ADMIN_EMAIL": "webserver.email",
	"REV_SERVER": "dns.revServer", "REV_SERVER_CIDR": "dns.revServer.cidr", "REV_SERVER_TARGET": "dns.revServer.target", "REV_SERVER_DOMAIN": "dns.revServer.domain",
}

// convertSettings reads pihole.toml, and the files of older versions.
func convertSettings(w *build.Work, dir string) *keys {
	p := &keys{w: w, all: map[string]tomlValue{}, macs: map[string]string{}, extra: &build.Plain{Work: w, Flags: true}, dnsmasq: &dnsmasq.Options{Port: "53", Files: dnsmasq.Files()}}
	p.dnsmasq.Files.Dir = dir
	p.read(dir)
	p.files(dir)
	p.dnsmasq.Listeners(w)
	return p
}

func (p *keys) read(dir string) {
	w := p.w
	for _, name := range []string{"setupVars.conf", "pihole-FTL.conf"} {
		w.Lines(filepath.Join(dir, name), func(at report.Place, s string) {
			key, value, _ := strings.Cut(s, "=")
			if strings.HasPrefix(s, "#") || strings.HasPrefix(key, "PIHOLE_DNS_") {
				return // names converts these, too
			}
			p.at = at
			if key == "RATE_LIMIT" {
				count, interval, _ := strings.Cut(value, "/")
				p.one(tomlValue{path: "dns.rateLimit.interval", text: interval}, key)
				p.one(tomlValue{path: "dns.rateLimit.count", text: count}, key)
				return
			}
			v := tomlValue{path: olderKeys[key], text: strings.TrimSpace(value), changed: true}
			if v.path == "" {
				v.path = key
			}
			p.one(v, key)
		})
	}
	file := filepath.Join(dir, "pihole.toml")
	data, err := input.Text(file)
	if err != nil {
		build.Unread(w, file, err)
		return
	}
	values, err := readTOML(data)
	if err != nil {
		w.Report.Add(&report.Note{Kind: report.Lost, Place: report.Place{File: file}, What: "pihole.toml", Ours: "dns", Why: fmt.Sprintf("it cannot be read: %s: %v", file, err)})
		return
	}
	marks := slices.ContainsFunc(values, func(v tomlValue) bool { return v.changed })
	for _, v := range values {
		p.all[v.path] = v
	}
	for _, v := range values {
		p.at = report.Place{File: file, Line: v.line}
		if v.again > 0 {
			w.Report.Add(&report.Note{Kind: report.Line, Place: p.at, What: v.path, Why: fmt.Sprintf("has no effect: it is set again in line %d", v.again)})
			continue
		}
		v.changed = v.changed || !marks
		p.one(v, v.path)
	}
}

// one reports a setting, which the file calls name.
func (p *keys) one(v tomlValue, name string) {
	p.all[v.path] = v
	text := v.text
	if strings.Contains(v.path, "pwhash") || strings.Contains(v.path, "secret") || strings.Contains(v.path, "password") {
		text = "…"
	}
	n := &report.Note{Kind: report.Lost, Place: p.at, What: strings.TrimSpace(name + ": " + text)}
	settle := func(x *report.Note) { n.Kind, n.Ours, n.Why = x.Kind, x.Ours, x.Why }
	k, ok := table[v.path]
	empty := v.text == "" || v.text == "false" || v.text == "0"
	switch {
	case strings.HasPrefix(v.path, "dhcp.") && v.path != "dhcp.hosts" && p.all["dhcp.active"].text != "true":
		n.Kind, n.Why = report.Default, "it is switched off"
	case slices.Contains(arrays, v.path) && !v.isList && !empty:
		n.Ours, n.Why = "dns", "it is not an array, so Pi-hole does not use it: write its values in brackets"
	case ok && k.take != nil && v.text != k.standard && !(empty && k.standard == ""):
		settle(k.take(p, v))
	case ok && k.take == nil && k.why != "" && v.text != k.standard:
		n.Why = k.why
	case ok, empty, !v.changed:
		n.Kind = report.Default
	default:
		n.Why = cmp.Or(reasons.Of(v.path), report.NoneOfOurs)
	}
	p.w.Report.Add(n)
}

// arrays are the settings of pihole.toml that have more than one value.
var arrays = []string{"dns.upstreams", "dns.hosts", "dns.cnameRecords", "dns.revServers", "dhcp.hosts"}

// reasons are the reasons why parts of Pi-hole have no equivalent.
var reasons = report.Reasons{
	{"dhcp.", "addresses are assigned by another program: keep Pi-hole's DHCP server, dnsmasq or Kea for it, and name its leases under identity: names: leases"},
	{"webserver.", "pages of the administration are at listen: admin"},
	{"ntp.", "the system keeps the time"},
	{"resolver.", "devices get names from identity: names"},
	{"files.", "files are in data, and the log goes to standard error"},
	{"database.", "events keeps the record"},
	{"debug.", "the log reports errors by default"},
	{"misc.", "the service manager does that"},
	{"dns.reply.", "Pi-hole's own name is not answered"},
}

// sameSetting returns a reader for a setting that is the same here.
func sameSetting(ours string) func(*keys, tomlValue) *report.Note {
	return func(*keys, tomlValue) *report.Note { return report.Same(ours) }
}

// browsers converts the settings about names with which systems bypass Pi-hole's answers.
func browsers(_ *keys, v tomlValue) *report.Note {
	if v.text == "true" {
		return report.Same("policies: dns: own-dns: false, which is the default")
	}
	return report.Differs("policies: dns: own-dns", "write own-dns: true into the policies whose clients may use encrypted DNS of their own")
}

var table = map[string]key{
	"dns.upstreams":     {take: sameSetting("dns: forward: upstreams")},
	"dns.hosts":         {take: sameSetting("dns: hosts")},
	"dns.cnameRecords":  {take: sameSetting("dns: hosts")},
	"dns.revServers":    {take: sameSetting("dns: forward: routes")},
	"dns.dnssec":        {standard: "false", take: (*keys).dnssec},
	"dns.blockTTL":      {take: (*keys).blockTTL},
	"dns.blocking.mode": {take: (*keys).blockingMode},
	"dns.blocking.active": {standard: "true", take: func(*keys, tomlValue) *report.Note {
		return report.Differs("nothing", "Pi-hole filters nothing at present; these settings filter")
	}},
	"dns.blocking.edns": {standard: "TEXT", take: func(*keys, tomlValue) *report.Note {
		return report.Differs("dns", "refusals say why in extended errors (RFC 8914)")
	}},
	"dns.port": {take: (*keys).port},
	"dns.interface": {take: func(*keys, tomlValue) *report.Note {
		return report.Differs("dns: listen", "it listens on all addresses; write those of the interface to restrict it")
	}},
	"dns.listeningMode":            {take: (*keys).listening},
	"dns.queryLogging":             {standard: "true", take: (*keys).noLog},
	"dns.cache.size":               {standard: "10000", take: (*keys).cacheSize},
	"dns.cache.optimizer":          {take: (*keys).stale},
	"dns.cache.upstreamBlockedTTL": {standard: "86400"},
	"dns.rateLimit.count":          {take: (*keys).rate},
	"dns.rateLimit.interval":       {take: sameSetting("limits: queries of each policy")},
	"dns.hostRecord":               {take: (*keys).hostRecord},
	"dns.domain":                   {standard: "lan", take: (*keys).domain},
	"dns.domain.name":              {standard: "lan", take: (*keys).domain},
	"dns.domain.local":             {standard: "true", take: sameSetting("names below it are resolved like others")},
	"dns.expandHosts":              {take: (*keys).expand},
	"dns.bogusPriv":                {standard: "true"},
	"dns.domainNeeded": {standard: "false", take: func(p *keys, _ tomlValue) *report.Note {
		return p.dnsmasq.Option(p.extra, "domain-needed", "")
	}},
	"dns.CNAMEdeepInspect": {standard: "true", take: func(*keys, tomlValue) *report.Note {
		return report.Differs("dns", "aliases in answers are always judged")
	}},
	"dns.blockESNI": {standard: "true", take: func(*keys, tomlValue) *report.Note {
		return report.Differs("policies: dns: drop: [ech]", "write it into the policies that need it")
	}},
	"dns.EDNS0ECS":                          {standard: "true"},
	"dns.ignoreLocalhost":                   {standard: "false", why: "the record has all clients"},
	"dns.showDNSSEC":                        {standard: "true"},
	"dns.analyzeOnlyAandAAAA":               {standard: "false", why: "the record has all types"},
	"dns.piholePTR":                         {standard: "PI.HOLE"},
	"dns.replyWhenBusy":                     {standard: "ALLOW"},
	"dns.specialDomains.mozillaCanary":      {take: browsers},
	"dns.specialDomains.iCloudPrivateRelay": {take: browsers},
	"dns.specialDomains.designatedResolver": {take: browsers},
	"database.maxDBdays":                    {take: (*keys).keep},
	"database.DBinterval":                   {standard: "60", take: (*keys).every},
	"database.DBimport":                     {standard: "true"},
	"database.useWAL":                       {standard: "true"},
	"misc.privacylevel":                     {standard: "0", take: (*keys).privacy},
	"misc.dnsmasq_lines":                    {take: (*keys).dnsmasqLines},
	"misc.etc_dnsmasq_d":                    {standard: "false", take: sameSetting("dns")},
	"misc.nice":                             {standard: "-10"},
	"misc.addr2line":                        {standard: "true"},
	"misc.check.load":                       {standard: "true"}, "misc.check.shmem": {standard: "90"}, "misc.check.disk": {standard: "90"},
	"dhcp.hosts":           {take: (*keys).staticLeases},
	"resolver.resolveIPv4": {standard: "true"}, "resolver.resolveIPv6": {standard: "true"}, "resolver.networkNames": {standard: "true"},
	"resolver.refreshNames": {standard: "IPV4_ONLY"}, "resolver.macNames": {standard: "true"},
	"webserver.port": {standard: "80o,443os,[::]:80o,[::]:443os", take: func(*keys, tomlValue) *report.Note {
		return report.Differs("listen: admin", "it is at 127.0.0.1:8081; for other machines write the address, a token and tls under listen")
	}},
	"webserver.api.pwhash": {why: "the administration has its own: listen: token"},
	"webserver.domain":     {standard: "pi.hole"},
	"webserver.email": {take: func(p *keys, v tomlValue) *report.Note {
		p.w.Set.Pages.Contact = v.text
		return report.Same("pages.contact")
	}},
	"dns.revServer": {standard: "false", take: sameSetting("dns: forward: routes")}, "dns.revServer.cidr": {take: (*keys).reverse},
	"dns.revServer.target": {take: (*keys).reverse}, "dns.revServer.domain": {take: (*keys).reverse},
}

func (p *keys) dnssec(tomlValue) *report.Note {
	p.w.Set.UseDNS().Forward.Validate = true
	return report.Same("dns: forward: validate")
}

func (p *keys) blockTTL(v tomlValue) *report.Note {
	n, err := strconv.Atoi(v.text)
	if err != nil || n <= 0 || n > 86400 {
		return report.ByHand("dns: block: ttl", "between a second and a day")
	}
	p.w.Set.UseDNS().Names.Block.TTL = setting.Duration(time.Duration(n) * time.Second)
	return report.Same("dns: block: ttl")
}

func (p *keys) blockingMode(v tomlValue) *report.Note {
	b := &p.w.Set.UseDNS().Names.Block
	switch strings.ToUpper(v.text) {
	case "NULL":
		b.Answer = filter.Zero
	case "NX", "NXDOMAIN":
		b.Answer = filter.NXDomain
	case "NODATA":
		b.Answer = filter.NoData
	default: // IP, IP_NODATA_AAAA
		for _, key := range []string{"dns.reply.blocking.IPv4", "dns.reply.blocking.IPv6", "dns.reply.host.IPv4", "dns.reply.host.IPv6"} {
			if a, err := netip.ParseAddr(p.all[key].text); err == nil && !slices.Contains(b.Sinkhole, a) {
				b.Answer, b.Sinkhole = filter.Sinkhole, append(b.Sinkhole, a)
			}
		}
		if len(b.Sinkhole) == 0 {
			return report.Differs("dns: block: answer", "0.0.0.0 and ::; to send clients to the block page, write answer: sinkhole and sinkhole with an address of this machine")
		}
	}
	return report.Same("dns: block: answer")
}

func (p *keys) port(v tomlValue) *report.Note {
	if n, err := strconv.ParseUint(v.text, 10, 16); err != nil || n == 0 {
		return report.ByHand("dns: listen", fmt.Sprintf("%q is not a port", v.text))
	}
	p.w.Set.UseDNS().Server.Listen = []string{":" + v.text}
	return report.Same("dns: listen")
}

func (p *keys) listening(v tomlValue) *report.Note {
	switch strings.ToUpper(v.text) {
	case "LOCAL":
		return report.Same("dns: recursion, which is loopback and private networks")
	case "ALL":
		p.w.Set.UseDNS().Server.Recursion = build.AllNetworks()
		return report.Same("dns: recursion")
	}
	return report.Differs("dns: listen", "it listens on all addresses; write those of the interface to restrict it")
}

// privacy converts the level at which Pi-hole hides data in its statistics: names, clients too,
// or everything.
func (p *keys) privacy(v tomlValue) *report.Note {
	if v.text == "3" {
		return p.noLog(v)
	}
	return report.ByHand("events: anonymise", "the record has names and addresses: write there after how long clients are removed, or dns: log: off to leave queries out")
}

func (p *keys) noLog(tomlValue) *report.Note {
	p.w.LeaveOutQueries()
	return report.Same("dns: log: off")
}

func (p *keys) cacheSize(v tomlValue) *report.Note { return p.w.Set.CacheEntries(v.text) }

func (p *keys) stale(v tomlValue) *report.Note {
	n, err := strconv.ParseInt(v.text, 10, 32)
	if err != nil || n < 0 {
		return report.Differs("dns: cache: stale", "a day")
	}
	p.w.Set.UseDNS().Cache.Stale = setting.Duration(time.Duration(n) * time.Second)
	return report.Differs("dns: cache: stale", "stale answers are served while upstreams are slow or fail")
}

func (p *keys) rate(v tomlValue) *report.Note {
	count, err := strconv.ParseInt(v.text, 10, 31)
	interval, failed := strconv.ParseInt(p.all["dns.rateLimit.interval"].text, 10, 31)
	if failed != nil {
		interval = 60
	}
	if err != nil || count <= 0 || interval <= 0 {
		return report.Same("no limits")
	}
	p.limit = policy.Rate{Most: count, In: time.Duration(interval) * time.Second}
	return report.Same("limits: queries of each policy")
}

func (p *keys) hostRecord(v tomlValue) *report.Note {
	dnsmasq.HostRecord(p.w, p.at, v.text)
	return report.Same("dns: hosts")
}

func (p *keys) domain(v tomlValue) *report.Note {
	return report.Differs("dns: hosts", "names of devices are written whole, with ."+v.text)
}

// expand gives names without a dot a second name in the local domain.
func (p *keys) expand(tomlValue) *report.Note {
	domain := p.localDomain()
	hosts := p.w.Set.UseDNS().Names.Hosts
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if to := hosts[name]; !strings.Contains(name, ".") && hosts[name+"."+domain] == nil {
			hosts[name+"."+domain] = to
		}
	}
	return report.Same("dns: hosts")
}

func (p *keys) localDomain() string {
	for _, key := range []string{"dns.domain.name", "dns.domain"} {
		if s := p.all[key].text; s != "" && !strings.ContainsAny(s, " {}") {
			return s
		}
	}
	return "lan"
}

func (p *keys) keep(v tomlValue) *report.Note {
	days, err := strconv.Atoi(v.text)
	if err != nil || days <= 0 || days > 36500 {
		return report.Differs("events: keep", "90 days")
	}
	p.w.KeepRecord(time.Duration(days) * 24 * time.Hour)
	return report.Same("events: keep")
}

func (p *keys) every(v tomlValue) *report.Note {
	n, err := strconv.ParseFloat(v.text, 64)
	if err != nil || n < 0.1 || n > 60 {
		return report.Differs("events: every", "every second")
	}
	p.w.Set.Events.SQLite, p.w.Set.Events.Every = "events.db", time.Duration(n*float64(time.Second))
	return report.Same("events: every")
}

func (p *keys) dnsmasqLines(v tomlValue) *report.Note {
	for _, line := range v.list {
		p.line(p.at, line)
	}
	return report.Same("dns, line by line")
}

// line converts an option of dnsmasq, on which Pi-hole's name server is based.
func (p *keys) line(at report.Place, s string) {
	if s = strings.TrimSpace(s); s == "" || s[0] == '#' {
		return
	}
	key, value, _ := strings.Cut(s, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	p.extra.At = at
	p.extra.Note(at, key, value, p.dnsmasq.Option(p.extra, key, value))
}

// ownFiles names the files in dnsmasq.d that Pi-hole itself writes.
var ownFiles = []string{"01-pihole.conf", "02-pihole-dhcp.conf", "04-pihole-static-dhcp.conf", "05-pihole-custom-cname.conf", "06-rfc6761.conf"}

// files converts the administrator's own files in dnsmasq.d, which version 6 reads
// when configured to.
func (p *keys) files(dir string) {
	for _, in := range []string{filepath.Join(dir, "dnsmasq.d"), filepath.Join(filepath.Dir(dir), "dnsmasq.d")} {
		for _, file := range input.Glob(in, "*.conf") {
			switch {
			case slices.Contains(ownFiles, filepath.Base(file)):
			case p.all["misc.etc_dnsmasq_d"].text == "false":
				p.w.Report.Add(&report.Note{Kind: report.Default, Place: report.Place{File: file}, What: filepath.Base(file), Why: "Pi-hole does not read it: misc.etc_dnsmasq_d is false"})
			default:
				p.w.Lines(file, p.line)
			}
		}
	}
}

// reverse converts version 5's settings of the server for local names, after all of them were
// read.
func (p *keys) reverse(tomlValue) *report.Note {
	server := func(key string) string { return p.all["dns.revServer"+key].text }
	if server("") != "true" {
		return &report.Note{Kind: report.Default, Why: "it is switched off"}
	}
	if target := server(".target"); target != "" {
		if n := server(".cidr"); n != "" {
			dnsmasq.TakeName(p.w, p.at, "rev-server", n+","+target)
		}
		if d := server(".domain"); d != "" {
			dnsmasq.TakeName(p.w, p.at, "server", "/"+d+"/"+target)
		}
	}
	return report.Same("dns: forward: routes")
}

// staticLeases reads "MAC,address,name" and more, in any order.
func (p *keys) staticLeases(v tomlValue) *report.Note {
	names := map[string]string{}
	for _, lease := range v.list {
		addr, name, mac := dnsmasq.StaticLease(lease)
		if addr != "" && mac != "" {
			p.macs[mac] = addr
		}
		if addr != "" && name != "" {
			names[addr] = name
			p.w.Host(p.at, name+"."+p.localDomain(), addr)
		}
	}
	p.w.LeaseNames(p.at, names)
	return report.Same("identity: names, dns: hosts")
}

// limitQueries gives every policy a limit for the queries of each client.
func limitQueries(w *build.Work, rate policy.Rate) {
	if rate.Most == 0 {
		return
	}
	for i := range w.Set.Policies {
		w.Set.Policies[i].Limits = []policy.Limit{{Queries: rate}}
	}
}
