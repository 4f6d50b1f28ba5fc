package importer

import (
	"cmp"
	"fmt"
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
	limit policy.Rate // of queries, for every policy
}

// A piholeKey is what Pi-hole has a setting at when nobody changed it, and what
// is made of another value.
type piholeKey struct {
	standard string
	take     func(p *piholeKeys, v tomlValue) Note
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
}

// piholeSettings reads pihole.toml, and what older versions have instead.
func piholeSettings(w *work, dir string) (queries policy.Rate) {
	p := &piholeKeys{work: w, all: map[string]tomlValue{}}
	for _, name := range []string{"setupVars.conf", "pihole-FTL.conf"} {
		w.lines(filepath.Join(dir, name), func(at place, s string) {
			key, value, _ := strings.Cut(s, "=")
			if strings.HasPrefix(s, "#") || strings.HasPrefix(key, "PIHOLE_DNS_") {
				return // which are taken with the names
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
	data, err := readWhole(file)
	if err != nil {
		return p.limit
	}
	values, err := readTOML(data)
	if err != nil {
		w.rep.add(Note{Kind: Lost, place: place{file: file}, What: "pihole.toml", Ours: "dns", Why: "it cannot be read: " + err.Error()})
		return p.limit
	}
	marks := slices.ContainsFunc(values, func(v tomlValue) bool { return v.changed })
	for _, v := range values {
		p.all[v.path] = v
	}
	for _, v := range values {
		p.at = place{file: file, line: v.line}
		v.changed = v.changed || !marks
		p.one(v, v.path)
	}
	return p.limit
}

// one reports a setting, which the file calls name.
func (p *piholeKeys) one(v tomlValue, name string) {
	p.all[v.path] = v
	text := v.text
	if strings.Contains(v.path, "pwhash") || strings.Contains(v.path, "secret") || strings.Contains(v.path, "password") {
		text = "…"
	}
	n := Note{Kind: Lost, place: p.at, What: strings.TrimSpace(name + ": " + text)}
	settle := func(x Note) { n.Kind, n.Ours, n.Why = x.Kind, x.Ours, x.Why }
	k, ok := piholeTable[v.path]
	empty := v.text == "" || v.text == "false" || v.text == "0"
	switch {
	case strings.HasPrefix(v.path, "dhcp.") && v.path != "dhcp.hosts" && p.all["dhcp.active"].text != "true":
		n.Kind, n.Why = Default, "it is switched off"
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

// piholeReasons are the reasons why parts of Pi-hole have no equivalent.
var piholeReasons = reasons{
	{"dhcp.", "addresses are given out by another program: keep Pi-hole's DHCP server, dnsmasq or Kea for it, and name its leases under identity: names: leases"},
	{"webserver.", "pages of the administration are at listen: admin"},
	{"ntp.", "time is kept by the system"},
	{"resolver.", "devices get names from identity: names"},
	{"files.", "files are in data, and the log goes to standard error"},
	{"database.", "the record is kept by events"},
	{"debug.", "the log says what is wrong without being asked"},
	{"misc.", "the service manager sees to that"},
	{"dns.reply.", "Pi-hole's own name is not answered"},
}

// as returns a reader for a setting that is the same here.
func as(ours string) func(*piholeKeys, tomlValue) Note {
	return func(*piholeKeys, tomlValue) Note { return carried(ours) }
}

// browsers converts the settings about names by which systems avoid Pi-hole's
// answers.
func browsers(_ *piholeKeys, v tomlValue) Note {
	if v.text == "true" {
		return carried("policies: dns: own-dns: false, which is the default")
	}
	return differs("policies: dns: own-dns", "write own-dns: true into the policies whose clients may use encrypted DNS of their own")
}

var piholeTable = map[string]piholeKey{
	"dns.upstreams":     {take: as("dns: forward: upstreams")},
	"dns.hosts":         {take: as("dns: hosts")},
	"dns.cnameRecords":  {take: as("dns: hosts")},
	"dns.revServers":    {take: as("dns: forward: routes")},
	"dns.dnssec":        {standard: "false", take: (*piholeKeys).dnssec},
	"dns.blockTTL":      {take: (*piholeKeys).blockTTL},
	"dns.blocking.mode": {take: (*piholeKeys).blockingMode},
	"dns.blocking.active": {standard: "true", take: func(*piholeKeys, tomlValue) Note {
		return differs("nothing", "Pi-hole lets everything pass; these settings filter")
	}},
	"dns.blocking.edns": {standard: "TEXT", take: func(*piholeKeys, tomlValue) Note {
		return differs("dns", "refusals say why in extended errors (RFC 8914)")
	}},
	"dns.port": {take: (*piholeKeys).port},
	"dns.interface": {take: func(*piholeKeys, tomlValue) Note {
		return differs("dns: listen", "it listens on all addresses; write those of the interface to have fewer")
	}},
	"dns.listeningMode":            {take: (*piholeKeys).listening},
	"dns.queryLogging":             {standard: "true", take: (*piholeKeys).noLog},
	"dns.cache.size":               {standard: "10000", take: (*piholeKeys).cacheSize},
	"dns.cache.optimizer":          {take: (*piholeKeys).stale},
	"dns.cache.upstreamBlockedTTL": {standard: "86400"},
	"dns.rateLimit.count":          {take: (*piholeKeys).rate},
	"dns.rateLimit.interval":       {take: as("limits: queries of each policy")},
	"dns.hostRecord":               {take: (*piholeKeys).hostRecord},
	"dns.domain":                   {standard: "lan", take: (*piholeKeys).domain},
	"dns.domain.name":              {standard: "lan", take: (*piholeKeys).domain},
	"dns.domain.local":             {standard: "true", take: as("names below it are asked for as others are")},
	"dns.expandHosts":              {take: (*piholeKeys).expand},
	"dns.bogusPriv":                {standard: "true"},
	"dns.domainNeeded":             {standard: "false", why: "names without a dot are asked for as others are"},
	"dns.CNAMEdeepInspect":         {standard: "true", take: func(*piholeKeys, tomlValue) Note { return differs("dns", "aliases in answers are always judged") }},
	"dns.blockESNI": {standard: "true", take: func(*piholeKeys, tomlValue) Note {
		return differs("policies: dns: drop: [ech]", "write it into the policies that are meant")
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
	"misc.privacylevel":                     {standard: "0", why: "the record has names and addresses: keep it for less time with events: keep, or leave queries out with dns: log: off"},
	"misc.dnsmasq_lines":                    {take: (*piholeKeys).dnsmasqLines},
	"misc.etc_dnsmasq_d": {standard: "false", take: func(*piholeKeys, tomlValue) Note {
		return differs("dns", "01-pihole.conf and 05-pihole-custom-cname.conf are read; import other files with \"shuultuur import dnsmasq\"")
	}},
	"misc.nice":       {standard: "-10"},
	"misc.addr2line":  {standard: "true"},
	"misc.check.load": {standard: "true"}, "misc.check.shmem": {standard: "90"}, "misc.check.disk": {standard: "90"},
	"dhcp.hosts":           {take: (*piholeKeys).staticLeases},
	"resolver.resolveIPv4": {standard: "true"}, "resolver.resolveIPv6": {standard: "true"}, "resolver.networkNames": {standard: "true"},
	"resolver.refreshNames": {standard: "IPV4_ONLY"}, "resolver.macNames": {standard: "true"},
	"webserver.port": {standard: "80o,443os,[::]:80o,[::]:443os", take: func(*piholeKeys, tomlValue) Note {
		return differs("listen: admin", "it is at 127.0.0.1:8081; for other machines write the address, a token and tls under listen")
	}},
	"webserver.api.pwhash": {why: "the administration has its own: listen: token"},
	"webserver.domain":     {standard: "pi.hole"},
}

func (p *piholeKeys) dnssec(tomlValue) Note {
	p.set.dns().Forward.Validate = true
	return carried("dns: forward: validate")
}

func (p *piholeKeys) blockTTL(v tomlValue) Note {
	n, err := strconv.Atoi(v.text)
	if err != nil || n <= 0 || n > 86400 {
		return lostOurs("dns: block: ttl", "between a second and a day")
	}
	p.set.dns().Names.Block.TTL = setting.Duration(time.Duration(n) * time.Second)
	return carried("dns: block: ttl")
}

func (p *piholeKeys) blockingMode(v tomlValue) Note {
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

func (p *piholeKeys) port(v tomlValue) Note {
	if n, err := strconv.ParseUint(v.text, 10, 16); err != nil || n == 0 {
		return lostOurs("dns: listen", fmt.Sprintf("%q is not a port", v.text))
	}
	p.set.dns().Server.Listen = []string{":" + v.text}
	return carried("dns: listen")
}

func (p *piholeKeys) listening(v tomlValue) Note {
	switch strings.ToUpper(v.text) {
	case "LOCAL":
		return carried("dns: recursion, which is loopback and private networks")
	case "ALL":
		p.set.dns().Server.Recursion = anybody()
		return carried("dns: recursion")
	}
	return differs("dns: listen", "it listens on all addresses; write those of the interface to have fewer")
}

func (p *piholeKeys) noLog(tomlValue) Note {
	p.leaveOutQueries()
	return carried("dns: log: off")
}

func (p *piholeKeys) cacheSize(v tomlValue) Note {
	n, err := strconv.ParseInt(v.text, 10, 32)
	if err != nil || n <= 0 {
		return differs("dns: cache: size", "there is always a cache, of 16 MiB")
	}
	p.set.dns().Cache.Size = setting.Size(max(1<<20, n*1024))
	return differs("dns: cache: size", "in bytes, 1 KiB for each entry")
}

func (p *piholeKeys) stale(v tomlValue) Note {
	n, err := strconv.ParseInt(v.text, 10, 32)
	if err != nil || n < 0 {
		return differs("dns: cache: stale", "a day")
	}
	p.set.dns().Cache.Stale = setting.Duration(time.Duration(n) * time.Second)
	return differs("dns: cache: stale", "old answers are given while upstreams are slow or fail")
}

func (p *piholeKeys) rate(v tomlValue) Note {
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

// hostRecord takes names and their addresses, with commas between.
func (p *piholeKeys) hostRecord(v tomlValue) Note {
	var names []string
	for s := range strings.SplitSeq(v.text, ",") {
		s = strings.TrimSpace(s)
		if _, err := netip.ParseAddr(s); err != nil {
			names = append(names, s)
			continue
		}
		for _, name := range names {
			p.host(p.at, name, s)
		}
	}
	return carried("dns: hosts")
}

func (p *piholeKeys) domain(v tomlValue) Note {
	return differs("dns: hosts", "names of devices are written whole, with ."+v.text)
}

// expand gives names without a dot the local domain too.
func (p *piholeKeys) expand(tomlValue) Note {
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

func (p *piholeKeys) keep(v tomlValue) Note {
	days, err := strconv.Atoi(v.text)
	if err != nil || days <= 0 || days > 36500 {
		return differs("events: keep", "90 days")
	}
	p.keepRecord(time.Duration(days) * 24 * time.Hour)
	return carried("events: keep")
}

func (p *piholeKeys) every(v tomlValue) Note {
	n, err := strconv.ParseFloat(v.text, 64)
	if err != nil || n < 0.1 || n > 60 {
		return differs("events: every", "every second")
	}
	p.set.Events.SQLite, p.set.Events.Every = "events.db", time.Duration(n*float64(time.Second))
	return carried("events: every")
}

func (p *piholeKeys) dnsmasqLines(v tomlValue) Note {
	left := 0
	for _, line := range v.list {
		key, value, _ := strings.Cut(line, "=")
		switch key = strings.TrimSpace(key); key {
		case "server", "rev-server", "cname":
			p.dnsmasqOption(p.at, key, strings.TrimSpace(value))
		case "host-record":
			p.hostRecord(tomlValue{text: value})
		case "address":
			parts := strings.Split(strings.Trim(value, "/ "), "/")
			for _, name := range parts[:len(parts)-1] {
				p.host(p.at, name, parts[len(parts)-1])
				p.host(p.at, "*."+name, parts[len(parts)-1])
			}
		default:
			left++
			p.rep.add(Note{Kind: Lost, place: p.at, What: line, Why: "a line for dnsmasq of which nothing is ours"})
		}
	}
	if left > 0 {
		return differs("dns", fmt.Sprintf("%d lines are left out", left))
	}
	return carried("dns")
}

// staticLeases reads "MAC,address,name" and more, in any order.
func (p *piholeKeys) staticLeases(v tomlValue) Note {
	names := map[string]string{}
	for _, lease := range v.list {
		addr, name := "", ""
		for f := range strings.SplitSeq(lease, ",") {
			f = strings.Trim(strings.TrimSpace(f), "[]")
			if a, err := netip.ParseAddr(f); err == nil {
				addr = a.String()
			} else if isClientID(f) && name == "" && f != "infinite" && strings.Trim(f, "0123456789hmd") != "" {
				name = f
			}
		}
		if addr != "" && name != "" {
			names[addr] = name
			p.host(p.at, name+"."+p.localDomain(), addr)
		}
	}
	p.leaseNames(p.at, names)
	return carried("identity: names, dns: hosts")
}

// limitQueries gives every policy a limit of queries of each client.
func limitQueries(w *work, rate policy.Rate) {
	if rate.Most == 0 {
		return
	}
	for i := range w.set.Policies {
		w.set.Policies[i].Limits = []policy.Limit{{Queries: rate}}
	}
}
