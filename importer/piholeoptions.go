package importer

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/setting"
)

// piholeKeys converts the settings of Pi-hole one by one. Those of version 5
// are first renamed to those of version 6.
type piholeKeys struct {
	*work
	at    place
	all   map[string]tomlValue
	limit policy.Rate // limit of queries, for every policy

	macs    map[string]string // addresses of static leases
	extra   *plain            // values of dnsmasq's options
	dnsmasq *dnsmasqOptions
}

// A piholeKey is Pi-hole's default for a setting, and the conversion of another
// value.
type piholeKey struct {
	standard string
	take     func(p *piholeKeys, v tomlValue) *Note
	why      string
}

// piholeOlderKeys are the names that version 6 has for settings of version 5, in
// setupVars.conf and pihole-FTL.conf.
var piholeOlderKeys = map[string]string{
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

// piholeSettings reads pihole.toml, and the files of older versions.
func piholeSettings(w *work, dir string) *piholeKeys {
	p := &piholeKeys{work: w, all: map[string]tomlValue{}, macs: map[string]string{}, extra: &plain{work: w, flags: true}, dnsmasq: &dnsmasqOptions{port: "53", files: dnsmasqFiles()}}
	p.dnsmasq.files.dir = dir
	p.read(dir)
	p.files(dir)
	p.dnsmasq.listeners(w)
	return p
}

func (p *piholeKeys) read(dir string) {
	w := p.work
	for _, name := range []string{"setupVars.conf", "pihole-FTL.conf"} {
		w.lines(filepath.Join(dir, name), func(at place, s string) {
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
			v := tomlValue{path: piholeOlderKeys[key], text: strings.TrimSpace(value), changed: true}
			if v.path == "" {
				v.path = key
			}
			p.one(v, key)
		})
	}
	file := filepath.Join(dir, "pihole.toml")
	data, err := readText(file)
	if err != nil {
		unread(w, file, err)
		return
	}
	values, err := readTOML(data)
	if err != nil {
		w.rep.add(&Note{Kind: Lost, place: place{file: file}, What: "pihole.toml", Ours: "dns", Why: fmt.Sprintf("it cannot be read: %s: %v", file, err)})
		return
	}
	marks := slices.ContainsFunc(values, func(v tomlValue) bool { return v.changed })
	for _, v := range values {
		p.all[v.path] = v
	}
	for _, v := range values {
		p.at = place{file: file, line: v.line}
		if v.again > 0 {
			w.rep.add(&Note{Kind: Line, place: p.at, What: v.path, Why: fmt.Sprintf("has no effect: it is set again in line %d", v.again)})
			continue
		}
		v.changed = v.changed || !marks
		p.one(v, v.path)
	}
}

// one reports a setting, which the file calls name.
func (p *piholeKeys) one(v tomlValue, name string) {
	p.all[v.path] = v
	text := v.text
	if strings.Contains(v.path, "pwhash") || strings.Contains(v.path, "secret") || strings.Contains(v.path, "password") {
		text = "…"
	}
	n := &Note{Kind: Lost, place: p.at, What: strings.TrimSpace(name + ": " + text)}
	settle := func(x *Note) { n.Kind, n.Ours, n.Why = x.Kind, x.Ours, x.Why }
	k, ok := piholeTable[v.path]
	empty := v.text == "" || v.text == "false" || v.text == "0"
	switch {
	case strings.HasPrefix(v.path, "dhcp.") && v.path != "dhcp.hosts" && p.all["dhcp.active"].text != "true":
		n.Kind, n.Why = Default, "it is switched off"
	case slices.Contains(piholeArrays, v.path) && !v.isList && !empty:
		n.Ours, n.Why = "dns", "it is not an array, so Pi-hole does not use it: write its values in brackets"
	case ok && k.take != nil && v.text != k.standard && !(empty && k.standard == ""):
		settle(k.take(p, v))
	case ok && k.take == nil && k.why != "" && v.text != k.standard:
		n.Why = k.why
	case ok, empty, !v.changed:
		n.Kind = Default
	default:
		n.Why = cmp.Or(piholeReasons.of(v.path), noneOfOurs)
	}
	p.rep.add(n)
}

// piholeArrays are the settings of pihole.toml that have more than one value.
var piholeArrays = []string{"dns.upstreams", "dns.hosts", "dns.cnameRecords", "dns.revServers", "dhcp.hosts"}

// piholeReasons are the reasons why parts of Pi-hole have no equivalent.
var piholeReasons = reasons{
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
func sameSetting(ours string) func(*piholeKeys, tomlValue) *Note {
	return func(*piholeKeys, tomlValue) *Note { return carried(ours) }
}

// browsers converts the settings about names with which systems bypass Pi-hole's answers.
func browsers(_ *piholeKeys, v tomlValue) *Note {
	if v.text == "true" {
		return carried("policies: dns: own-dns: false, which is the default")
	}
	return differs("policies: dns: own-dns", "write own-dns: true into the policies whose clients may use encrypted DNS of their own")
}

var piholeTable = map[string]piholeKey{
	"dns.upstreams":     {take: sameSetting("dns: forward: upstreams")},
	"dns.hosts":         {take: sameSetting("dns: hosts")},
	"dns.cnameRecords":  {take: sameSetting("dns: hosts")},
	"dns.revServers":    {take: sameSetting("dns: forward: routes")},
	"dns.dnssec":        {standard: "false", take: (*piholeKeys).dnssec},
	"dns.blockTTL":      {take: (*piholeKeys).blockTTL},
	"dns.blocking.mode": {take: (*piholeKeys).blockingMode},
	"dns.blocking.active": {standard: "true", take: func(*piholeKeys, tomlValue) *Note {
		return differs("nothing", "Pi-hole filters nothing at present; these settings filter")
	}},
	"dns.blocking.edns": {standard: "TEXT", take: func(*piholeKeys, tomlValue) *Note {
		return differs("dns", "refusals say why in extended errors (RFC 8914)")
	}},
	"dns.port": {take: (*piholeKeys).port},
	"dns.interface": {take: func(*piholeKeys, tomlValue) *Note {
		return differs("dns: listen", "it listens on all addresses; write those of the interface to restrict it")
	}},
	"dns.listeningMode":            {take: (*piholeKeys).listening},
	"dns.queryLogging":             {standard: "true", take: (*piholeKeys).noLog},
	"dns.cache.size":               {standard: "10000", take: (*piholeKeys).cacheSize},
	"dns.cache.optimizer":          {take: (*piholeKeys).stale},
	"dns.cache.upstreamBlockedTTL": {standard: "86400"},
	"dns.rateLimit.count":          {take: (*piholeKeys).rate},
	"dns.rateLimit.interval":       {take: sameSetting("limits: queries of each policy")},
	"dns.hostRecord":               {take: (*piholeKeys).hostRecord},
	"dns.domain":                   {standard: "lan", take: (*piholeKeys).domain},
	"dns.domain.name":              {standard: "lan", take: (*piholeKeys).domain},
	"dns.domain.local":             {standard: "true", take: sameSetting("names below it are resolved like others")},
	"dns.expandHosts":              {take: (*piholeKeys).expand},
	"dns.bogusPriv":                {standard: "true"},
	"dns.domainNeeded":             {standard: "false", why: "names without a dot are resolved like others"},
	"dns.CNAMEdeepInspect":         {standard: "true", take: func(*piholeKeys, tomlValue) *Note { return differs("dns", "aliases in answers are always judged") }},
	"dns.blockESNI": {standard: "true", take: func(*piholeKeys, tomlValue) *Note {
		return differs("policies: dns: drop: [ech]", "write it into the policies that need it")
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
	"database.maxDBdays":                    {take: (*piholeKeys).keep},
	"database.DBinterval":                   {standard: "60", take: (*piholeKeys).every},
	"database.DBimport":                     {standard: "true"},
	"database.useWAL":                       {standard: "true"},
	"misc.privacylevel":                     {standard: "0", take: (*piholeKeys).privacy},
	"misc.dnsmasq_lines":                    {take: (*piholeKeys).dnsmasqLines},
	"misc.etc_dnsmasq_d":                    {standard: "false", take: sameSetting("dns")},
	"misc.nice":                             {standard: "-10"},
	"misc.addr2line":                        {standard: "true"},
	"misc.check.load":                       {standard: "true"}, "misc.check.shmem": {standard: "90"}, "misc.check.disk": {standard: "90"},
	"dhcp.hosts":           {take: (*piholeKeys).staticLeases},
	"resolver.resolveIPv4": {standard: "true"}, "resolver.resolveIPv6": {standard: "true"}, "resolver.networkNames": {standard: "true"},
	"resolver.refreshNames": {standard: "IPV4_ONLY"}, "resolver.macNames": {standard: "true"},
	"webserver.port": {standard: "80o,443os,[::]:80o,[::]:443os", take: func(*piholeKeys, tomlValue) *Note {
		return differs("listen: admin", "it is at 127.0.0.1:8081; for other machines write the address, a token and tls under listen")
	}},
	"webserver.api.pwhash": {why: "the administration has its own: listen: token"},
	"webserver.domain":     {standard: "pi.hole"},
	"webserver.email": {take: func(p *piholeKeys, v tomlValue) *Note {
		p.set.Pages.Contact = v.text
		return carried("pages.contact")
	}},
	"dns.revServer": {standard: "false", take: sameSetting("dns: forward: routes")}, "dns.revServer.cidr": {take: (*piholeKeys).reverse},
	"dns.revServer.target": {take: (*piholeKeys).reverse}, "dns.revServer.domain": {take: (*piholeKeys).reverse},
}

func (p *piholeKeys) dnssec(tomlValue) *Note {
	p.set.dns().Forward.Validate = true
	return carried("dns: forward: validate")
}

func (p *piholeKeys) blockTTL(v tomlValue) *Note {
	n, err := strconv.Atoi(v.text)
	if err != nil || n <= 0 || n > 86400 {
		return lostOurs("dns: block: ttl", "between a second and a day")
	}
	p.set.dns().Names.Block.TTL = setting.Duration(time.Duration(n) * time.Second)
	return carried("dns: block: ttl")
}

func (p *piholeKeys) blockingMode(v tomlValue) *Note {
	b := &p.set.dns().Names.Block
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
			return differs("dns: block: answer", "0.0.0.0 and ::; to send clients to the block page, write answer: sinkhole and sinkhole with an address of this machine")
		}
	}
	return carried("dns: block: answer")
}

func (p *piholeKeys) port(v tomlValue) *Note {
	if n, err := strconv.ParseUint(v.text, 10, 16); err != nil || n == 0 {
		return lostOurs("dns: listen", fmt.Sprintf("%q is not a port", v.text))
	}
	p.set.dns().Server.Listen = []string{":" + v.text}
	return carried("dns: listen")
}

func (p *piholeKeys) listening(v tomlValue) *Note {
	switch strings.ToUpper(v.text) {
	case "LOCAL":
		return carried("dns: recursion, which is loopback and private networks")
	case "ALL":
		p.set.dns().Server.Recursion = allNetworks()
		return carried("dns: recursion")
	}
	return differs("dns: listen", "it listens on all addresses; write those of the interface to restrict it")
}

// privacy converts the level at which Pi-hole hides data in its statistics: names, clients too,
// or everything.
func (p *piholeKeys) privacy(v tomlValue) *Note {
	if v.text == "3" {
		return p.noLog(v)
	}
	return lostOurs("events: anonymise", "the record has names and addresses: write there after how long clients are removed, or dns: log: off to leave queries out")
}

func (p *piholeKeys) noLog(tomlValue) *Note {
	p.leaveOutQueries()
	return carried("dns: log: off")
}

func (p *piholeKeys) cacheSize(v tomlValue) *Note { return p.set.cacheEntries(v.text) }

func (p *piholeKeys) stale(v tomlValue) *Note {
	n, err := strconv.ParseInt(v.text, 10, 32)
	if err != nil || n < 0 {
		return differs("dns: cache: stale", "a day")
	}
	p.set.dns().Cache.Stale = setting.Duration(time.Duration(n) * time.Second)
	return differs("dns: cache: stale", "stale answers are served while upstreams are slow or fail")
}

func (p *piholeKeys) rate(v tomlValue) *Note {
	count, err := strconv.ParseInt(v.text, 10, 31)
	interval, failed := strconv.ParseInt(p.all["dns.rateLimit.interval"].text, 10, 31)
	if failed != nil {
		interval = 60
	}
	if err != nil || count <= 0 || interval <= 0 {
		return carried("no limits")
	}
	p.limit = policy.Rate{Most: count, In: time.Duration(interval) * time.Second}
	return carried("limits: queries of each policy")
}

func (p *piholeKeys) hostRecord(v tomlValue) *Note {
	hostRecord(p.work, p.at, v.text)
	return carried("dns: hosts")
}

func (p *piholeKeys) domain(v tomlValue) *Note {
	return differs("dns: hosts", "names of devices are written whole, with ."+v.text)
}

// expand gives names without a dot a second name in the local domain.
func (p *piholeKeys) expand(tomlValue) *Note {
	domain := p.localDomain()
	hosts := p.set.dns().Names.Hosts
	for _, name := range sortedKeys(hosts) {
		if to := hosts[name]; !strings.Contains(name, ".") && hosts[name+"."+domain] == nil {
			hosts[name+"."+domain] = to
		}
	}
	return carried("dns: hosts")
}

func (p *piholeKeys) localDomain() string {
	for _, key := range []string{"dns.domain.name", "dns.domain"} {
		if s := p.all[key].text; s != "" && !strings.ContainsAny(s, " {}") {
			return s
		}
	}
	return "lan"
}

func (p *piholeKeys) keep(v tomlValue) *Note {
	days, err := strconv.Atoi(v.text)
	if err != nil || days <= 0 || days > 36500 {
		return differs("events: keep", "90 days")
	}
	p.keepRecord(time.Duration(days) * 24 * time.Hour)
	return carried("events: keep")
}

func (p *piholeKeys) every(v tomlValue) *Note {
	n, err := strconv.ParseFloat(v.text, 64)
	if err != nil || n < 0.1 || n > 60 {
		return differs("events: every", "every second")
	}
	p.set.Events.SQLite, p.set.Events.Every = "events.db", time.Duration(n*float64(time.Second))
	return carried("events: every")
}

func (p *piholeKeys) dnsmasqLines(v tomlValue) *Note {
	for _, line := range v.list {
		p.line(p.at, line)
	}
	return carried("dns, line by line")
}

// line converts an option of dnsmasq, on which Pi-hole's name server is based.
func (p *piholeKeys) line(at place, s string) {
	if s = strings.TrimSpace(s); s == "" || s[0] == '#' {
		return
	}
	key, value, _ := strings.Cut(s, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	p.extra.at = at
	p.extra.addNote(at, key, value, p.dnsmasq.option(p.extra, key, value))
}

// piholeFiles names the files in dnsmasq.d that Pi-hole itself writes.
var piholeFiles = []string{"01-pihole.conf", "02-pihole-dhcp.conf", "04-pihole-static-dhcp.conf", "05-pihole-custom-cname.conf", "06-rfc6761.conf"}

// files converts the administrator's own files in dnsmasq.d, which version 6 reads
// when configured to.
func (p *piholeKeys) files(dir string) {
	for _, in := range []string{filepath.Join(dir, "dnsmasq.d"), filepath.Join(filepath.Dir(dir), "dnsmasq.d")} {
		for _, file := range filesOf(in, "*.conf") {
			switch {
			case slices.Contains(piholeFiles, filepath.Base(file)):
			case p.all["misc.etc_dnsmasq_d"].text == "false":
				p.rep.add(&Note{Kind: Default, place: place{file: file}, What: filepath.Base(file), Why: "Pi-hole does not read it: misc.etc_dnsmasq_d is false"})
			default:
				p.lines(file, p.line)
			}
		}
	}
}

// reverse converts version 5's settings of the server for local names, after all of them were
// read.
func (p *piholeKeys) reverse(tomlValue) *Note {
	server := func(key string) string { return p.all["dns.revServer"+key].text }
	if server("") != "true" {
		return &Note{Kind: Default, Why: "it is switched off"}
	}
	if target := server(".target"); target != "" {
		if n := server(".cidr"); n != "" {
			p.dnsmasqOption(p.at, "rev-server", n+","+target)
		}
		if d := server(".domain"); d != "" {
			p.dnsmasqOption(p.at, "server", "/"+d+"/"+target)
		}
	}
	return carried("dns: forward: routes")
}

// staticLease splits a line about a device: its MAC, address, name, and more, in any order.
func staticLease(lease string) (addr, name, mac string) {
	for f := range strings.SplitSeq(lease, ",") {
		f = strings.Trim(strings.TrimSpace(f), "[]")
		if a, err := netip.ParseAddr(f); err == nil {
			addr = a.String()
		} else if m, err := net.ParseMAC(f); err == nil {
			mac = m.String()
		} else if isClientID(f) && name == "" && f != "infinite" && f != "ignore" && strings.Trim(f, "0123456789hmd") != "" {
			name = f
		}
	}
	return addr, name, mac
}

// staticLeases reads "MAC,address,name" and more, in any order.
func (p *piholeKeys) staticLeases(v tomlValue) *Note {
	names := map[string]string{}
	for _, lease := range v.list {
		addr, name, mac := staticLease(lease)
		if addr != "" && mac != "" {
			p.macs[mac] = addr
		}
		if addr != "" && name != "" {
			names[addr] = name
			p.host(p.at, name+"."+p.localDomain(), addr)
		}
	}
	p.leaseNames(p.at, names)
	return carried("identity: names, dns: hosts")
}

// limitQueries gives every policy a limit for the queries of each client.
func limitQueries(w *work, rate policy.Rate) {
	if rate.Most == 0 {
		return
	}
	for i := range w.set.Policies {
		w.set.Policies[i].Limits = []policy.Limit{{Queries: rate}}
	}
}
