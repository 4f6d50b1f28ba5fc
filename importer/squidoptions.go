package importer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/cache"
	"shuultuur/policy"
	"shuultuur/setting"
)

// squidTimes maps times of Squid to our settings.
var squidTimes = map[string]struct {
	standard time.Duration
	ours     string
	to       func(c *squidConf) *setting.Duration
}{
	"connect_timeout":            {time.Minute, "proxy.dial", func(c *squidConf) *setting.Duration { return &c.set.Proxy.Upstream.Dial }},
	"read_timeout":               {15 * time.Minute, "proxy.answer", func(c *squidConf) *setting.Duration { return &c.set.Proxy.Upstream.Answer }},
	"request_timeout":            {5 * time.Minute, "proxy.head-time", func(c *squidConf) *setting.Duration { return &c.set.Proxy.HeadTime }},
	"request_start_timeout":      {5 * time.Minute, "proxy.idle", func(c *squidConf) *setting.Duration { return &c.set.Proxy.Idle }},
	"client_idle_pconn_timeout":  {2 * time.Minute, "proxy.idle", func(c *squidConf) *setting.Duration { return &c.set.Proxy.Idle }},
	"server_idle_pconn_timeout":  {time.Minute, "proxy.upstream-idle", func(c *squidConf) *setting.Duration { return &c.set.Proxy.Upstream.Idle }},
	"persistent_request_timeout": {2 * time.Minute, "proxy.idle", func(c *squidConf) *setting.Duration { return &c.set.Proxy.Idle }},
	"pconn_timeout":              {time.Minute, "proxy.upstream-idle", func(c *squidConf) *setting.Duration { return &c.set.Proxy.Upstream.Idle }},
	"client_lifetime":            {24 * time.Hour, "proxy.total", func(c *squidConf) *setting.Duration { return &c.set.Proxy.Total }},
	"shutdown_lifetime":          {30 * time.Second, "proxy.drain", func(c *squidConf) *setting.Duration { return &c.set.Proxy.Drain }},
}

// squidSystem names options for which the service manager or the system is responsible.
var squidSystem = []string{"cache_effective_user", "cache_effective_group", "pid_filename", "coredump_dir", "logfile_rotate", "workers", "cpu_affinity_map",
	"debug_options", "cache_log", "cache_store_log", "mime_table", "hosts_file", "max_filedescriptors", "unlinkd_program", "netdb_filename", "visible_hostname", "unique_hostname"}

// convertOption converts options other than ports, acls and parents; ok is false if the
// option is unknown.
// Long because each option has a case.
func (c *squidConf) convertOption(at place, f []string) (n *Note, ok bool) {
	value := ""
	if len(f) > 1 {
		value = f[1]
	}
	if n, is := c.scanners.take(f); is {
		return n, true
	}
	if t, is := squidTimes[f[0]]; is {
		return squidTime(t.ours, t.standard, f[1:], func() *setting.Duration { return t.to(c) }), true
	}
	if slices.Contains(squidSystem, f[0]) {
		return &Note{Kind: Default, Why: "the service manager and the system do that"}, true
	}
	switch f[0] {
	case "ssl_bump":
		return c.bump(at, f[1:]), true
	case "sslcrtd_program", "sslcrtd_children", "sslproxy_session_cache_size", "sslproxy_session_ttl":
		return carried("intercept, which makes certificates itself"), true
	case "sslproxy_cert_error":
		if len(f) < 3 {
			return lost("it contains no valid action and acl"), true
		}
		return squidCertificates(c, squidAccess{allow: value == "allow", names: f[2:], at: at}), true
	case "tls_outgoing_options", "sslproxy_flags":
		if strings.Contains(at.what, "DONT_VERIFY_PEER") {
			return squidCertificates(c, squidAccess{allow: true, names: []string{"all"}, at: at}), true
		}
		return c.trust(at, f[1:]), true
	case "sslproxy_cafile":
		return c.trust(at, f[1:]), true
	case "auth_param":
		return c.auth(f[1:]), true
	case "external_acl_type":
		return squidExternal(c, f[1:]), true
	case "request_header_add":
		return squidTenant(c, f[1:]), true
	case "cache", "no_cache", "store_miss":
		return squidUncached(c, f[1:]), true
	case "request_header_max_size", "reply_header_max_size":
		if s, ok := squidSize(f[1:]); ok && s >= 1<<10 && s <= 1<<20 {
			c.set.Proxy.Upstream.Head = max(c.set.Proxy.Upstream.Head, s)
			return carried("proxy.head"), true
		}
		return lostOurs("proxy.head", "it contains no valid size from 1 KiB to 1 MiB"), true
	case "cache_mem", "maximum_object_size", "maximum_object_size_in_memory", "cache_dir", "minimum_object_size":
		return c.stored(f), true
	case "access_log":
		return c.accessLog(f[1:]), true
	case "cache_mgr":
		c.set.Pages.Contact = value
		return carried("pages.contact"), true
	case "cache_peer_access":
		if len(f) > 3 && f[2] == "deny" && f[3] != "all" {
			return c.direct(f[3:]), true
		}
		return carried("proxy.parent"), true
	case "acl_uses_indirect_client", "log_uses_indirect_client":
		if value == "on" {
			return carried("proxy.trusted"), true
		}
		return lost("a client that a trusted proxy names is the client everywhere"), true
	case "collapsed_forwarding", "httpd_suppress_version_string":
		if value == "on" {
			return carried("no setting is needed: it is always so"), true
		}
		return &Note{Kind: Default}, true
	case "client_persistent_connections", "server_persistent_connections", "half_closed_clients", "pipeline_prefetch", "buffered_logs", "mail_program", "mail_from", "client_request_buffer_max_size":
		return &Note{Kind: Default, Why: squidSized}, true
	case "strip_query_terms":
		return differs("events", "the record has whole addresses; events: anonymise has it forget who asked"), true
	case "via":
		if value == "on" {
			c.set.Proxy.Via, c.set.Proxy.ViaResponses = "on", "on"
		}
		return carried("proxy.via"), true
	case "forwarded_for":
		if value == "delete" || value == "off" || value == "transparent" {
			return differs("proxy", "X-Forwarded-For is not added"), true
		}
		return lostOurs("proxy.parent", "clients' addresses are not sent to origins"), true
	case "follow_x_forwarded_for":
		return c.follow(f[1:]), true
	case "client_ip_max_connections":
		if v, err := strconv.ParseUint(value, 10, 20); err == nil && v > 0 {
			c.set.Proxy.PerClient = setting.Count(v)
			return carried("proxy.per-client"), true
		}
		return &Note{Kind: Default}, true
	case "request_body_max_size":
		return c.largest(f[1:]), true
	case "http_reply_access":
		if len(f) > 2 {
			c.replies = append(c.replies, squidAccess{allow: f[1] == "allow", names: f[2:], at: at})
		}
		return carried("rules by type, before the others"), true
	case "deny_info":
		if len(f) > 2 {
			for _, acl := range f[2:] {
				c.denyInfo[acl] = f[1]
			}
		}
		if _, ok := c.denyTo(value); !ok {
			return differs("action: block", "pages are the gateway's own; see pages.templates"), true
		}
		return carried("action: redirect"), true
	case "never_direct", "always_direct", "prefer_direct", "nonhierarchical_direct":
		if f[0] == "always_direct" && len(f) > 2 && f[1] == "allow" {
			return c.direct(f[2:]), true
		}
		return carried("proxy.parent"), true
	case "refresh_pattern":
		return differs("cache", "the origin says how long an object is fresh; cache.rules has exceptions"), true
	case "dns_nameservers":
		return lostOurs("dns: forward: upstreams", "the proxy asks the system's resolver: write these servers into /etc/resolv.conf, or under dns: forward: upstreams where our name server is used"), true
	}
	return n, false
}

func squidTime(ours string, standard time.Duration, f []string, to func() *setting.Duration) *Note {
	if len(f) == 0 {
		return lost("it contains no valid time")
	}
	number, err := strconv.ParseFloat(f[0], 64)
	unit := time.Second
	if len(f) > 1 {
		var ok bool
		u := strings.TrimSuffix(strings.ToLower(f[1]), "s")
		if unit, ok = map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[u]; !ok {
			err = fmt.Errorf("%q is not a unit", f[1])
		}
	}
	d := time.Duration(number * float64(unit))
	switch {
	case err != nil || d < time.Second || d > 7*24*time.Hour:
		return lostOurs(ours, "it contains no valid time from a second to a week")
	case d == standard:
		return &Note{Kind: Default}
	}
	*to() = setting.Duration(d)
	return carried(ours)
}

func (c *squidConf) trust(at place, f []string) *Note {
	for _, word := range f {
		file := strings.TrimPrefix(word, "cafile=")
		if strings.Contains(file, "=") || strings.HasPrefix(file, "-") {
			continue
		}
		if file = findFile(c.dir, file); !isFile(file) {
			return lostOurs("intercept.trust", "the file is not there: copy it, and name it under intercept: trust")
		}
		c.trusted = append(c.trusted, c.file(file))
		return carried("intercept.trust")
	}
	return differs("intercept", "TLS is that of the gateway, with its own limits")
}

// squidSize reads a size and its unit.
func squidSize(f []string) (setting.Size, bool) {
	if len(f) == 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(f[0], 10, 40)
	unit := int64(1)
	if len(f) > 1 {
		unit = map[string]int64{"bytes": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}[strings.ToLower(f[1])]
	}
	return setting.Size(n * unit), err == nil && n*unit > 0
}

// stored converts Squid's settings of its cache.
func (c *squidConf) stored(f []string) *Note {
	if c.cache == nil {
		c.cache = &cache.Config{}
	}
	switch f[0] {
	case "cache_mem":
		if s, ok := squidSize(f[1:]); ok {
			c.cache.Memory = max(s, 1<<20)
			return carried("cache.memory")
		}
	case "maximum_object_size":
		if s, ok := squidSize(f[1:]); ok {
			c.cache.Object = s
			return carried("cache.object")
		}
	case "cache_dir":
		if len(f) > 3 {
			if s, ok := squidSize([]string{f[3], "MB"}); ok {
				c.cache.Disk = s
				return differs("cache.disk", "in the data folder; name another one with cache.folder")
			}
		}
	}
	return differs("cache", "objects are kept in memory or on the disk by how often they are requested")
}

func (c *squidConf) accessLog(f []string) *Note {
	if len(f) == 0 || f[0] == "none" {
		return differs("events", "the record is always kept")
	}
	switch where, to, _ := strings.Cut(f[0], ":"); where {
	case "syslog":
		return sendTo(c.work, localLog)
	case "udp", "tcp":
		return sendTo(c.work, where+"://"+strings.TrimPrefix(to, "//"))
	}
	c.set.Events.SQLite, c.set.Events.Squid = "events.db", "access.log"
	if len(f) > 1 && !slices.Contains([]string{"squid", "logformat=squid", "all"}, f[1]) {
		return differs("events.squid", "in Squid's own format")
	}
	return carried("events.squid")
}

func (c *squidConf) follow(f []string) *Note {
	if len(f) < 2 || f[0] != "allow" {
		return carried("proxy.trusted")
	}
	for _, name := range f[1:] {
		if name == "localhost" {
			c.set.Proxy.Trusted = append(c.set.Proxy.Trusted, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
			continue
		}
		a := c.acls[name]
		if a == nil || a.kind != "src" {
			return lostOurs("proxy.trusted", "write the networks whose X-Forwarded-For is believed")
		}
		for _, n := range squidNetworks(a.values) {
			c.set.Proxy.Trusted = append(c.set.Proxy.Trusted, n.Prefix)
		}
	}
	return carried("proxy.trusted")
}

// largest refuses requests with bodies that are too large.
func (c *squidConf) largest(f []string) *Note {
	if len(f) == 0 || f[0] == "0" {
		return &Note{Kind: Default}
	}
	var ok bool
	if c.upload, ok = squidSize(f); !ok {
		return lostOurs("larger", "it contains no valid size")
	}
	return carried("a rule with larger")
}

// direct converts the hosts that bypass the parent.
func (c *squidConf) direct(names []string) *Note {
	for _, name := range names {
		a := c.acls[name]
		if a == nil || a.kind != "dstdomain" {
			return lostOurs("proxy.no-parent", "write the hosts that do not go through the parent")
		}
		for _, v := range a.values {
			c.noParent = append(c.noParent, strings.TrimPrefix(v, "."))
		}
	}
	return carried("proxy.no-parent")
}

// denyTo converts the address in deny_info.
func (c *squidConf) denyTo(s string) (to string, ok bool) {
	if i := strings.IndexByte(s, ':'); i == 3 && s[0] == '3' { // 303:https://…
		s = s[4:]
	}
	if !isURL(s) || strings.ContainsAny(s, "{} ") {
		return "", false
	}
	s = strings.NewReplacer("%u", "{url}", "%U", "{url}", "%s", "{url}", "%H", "{host}", "%h", "{host}", "%a", "{login}", "%i", "{client}", "%o", "", "%%", "%25").Replace(s)
	return s, plainURL(s)
}

// squidDays are Squid's letters for days.
var squidDays = map[byte]string{'S': "sun", 'M': "mon", 'T': "tue", 'W': "wed", 'H': "thu", 'F': "fri", 'A': "sat", 'D': "mon-fri"}

// squidSchedule reads the values of an acl of type time.
func squidSchedule(values []string) (when policy.Schedule, ok bool) {
	days := ""
	for _, v := range values {
		if m := hoursText.FindStringSubmatch(v); m != nil && isClock(m[1], m[2]) && isClock(m[3], m[4]) {
			when = append(when, policy.Window{Days: days, Hours: fmt.Sprintf("%02s:%s-%02s:%s", m[1], m[2], m[3], m[4])})
			days = ""
			continue
		}
		if days != "" {
			when = append(when, policy.Window{Days: days})
		}
		var all []string
		for i := range len(v) {
			d := squidDays[v[i]]
			if d == "" {
				return nil, false
			}
			all = append(all, d)
		}
		days = strings.Join(all, ",")
	}
	if days != "" {
		when = append(when, policy.Window{Days: days})
	}
	return when, len(when) > 0
}

// methods names the methods of requests to a proxy.
var methods = []string{"CONNECT", "DELETE", "GET", "HEAD", "MKCOL", "MOVE", "OPTIONS", "PATCH", "POST", "PROPFIND", "PROPPATCH", "PUT", "REPORT", "TRACE"}

func upper(words []string) (all []string) {
	for _, w := range words {
		all = append(all, strings.ToUpper(w))
	}
	return all
}

// outside returns the rest of the week. It supports one window of hours for each day.
func outside(when policy.Schedule) (rest policy.Schedule, ok bool) {
	week := []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}
	hours := map[string]string{}
	for _, w := range when {
		days := strings.Split(strings.ReplaceAll(w.Days, "mon-fri", "mon,tue,wed,thu,fri"), ",")
		if w.Days == "" {
			days = week
		}
		for _, d := range days {
			if _, twice := hours[d]; twice {
				return nil, false
			}
			hours[d] = cmp.Or(w.Hours, "00:00-24:00")
		}
	}
	for _, d := range week {
		from, to, _ := strings.Cut(hours[d], "-")
		var left []string
		if hours[d] == "" {
			left = []string{"00:00-24:00"}
		} else if to < from {
			return nil, false
		}
		if from > "00:00" {
			left = append(left, "00:00-"+from)
		}
		if to != "" && to < "24:00" {
			left = append(left, to+"-24:00")
		}
		if len(left) > 0 {
			rest = append(rest, policy.Window{Days: d, Hours: strings.Join(left, ",")})
		}
	}
	return rest, len(rest) > 0
}

// squidNetworks returns the networks of an acl of type src; it divides ranges.
func squidNetworks(values []string) []policy.Network {
	var all []string
	for _, v := range values {
		switch nets, _ := networks(v); v {
		case "all":
			all = append(all, "0.0.0.0/0", "::/0")
		case "ipv4":
			all = append(all, "0.0.0.0/0")
		case "ipv6":
			all = append(all, "::/0")
		default:
			all = append(all, nets...)
		}
	}
	return asNetworks(all)
}
