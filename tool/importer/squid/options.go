package squid

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/cache"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// A row is about an option of Squid. Its value is the words behind the option.
type row = report.Row[*config, []string]

// valueOf returns the first of the words behind an option, or "".
func valueOf(f []string) string {
	if len(f) == 0 {
		return ""
	}
	return f[0]
}

// table has the options that have an equivalent, or need none.
var table = report.Rows(
	row{Keys: "acl", Take: (*config).acl},
	row{Keys: "http_access", Take: func(c *config, f []string) *report.Note {
		if len(f) < 2 {
			return report.None("it names no acl, so Squid ignores it")
		}
		c.access = append(c.access, access{allow: f[0] == "allow", names: f[1:], at: c.at})
		return nil // noteLine reports it once all acls are known
	}},
	row{Keys: "configuration_includes_quoted_values", Take: func(c *config, f []string) *report.Note {
		c.quoted = valueOf(f) == "on"
		return report.Same("its lines, as they are read then")
	}},
	row{Keys: "http_port", Take: func(c *config, f []string) *report.Note { return c.port(f, false) }},
	row{Keys: "https_port", Take: func(c *config, f []string) *report.Note { return c.port(f, true) }},
	row{Keys: "cache_peer", Take: peer},
	row{Keys: "icap_enable", Take: func(c *config, f []string) *report.Note {
		if c.scanners.on = valueOf(f) == "on"; !c.scanners.on {
			return &report.Note{Kind: report.Default}
		}
		return report.Same("checks.icap")
	}},
	row{Keys: "icap_service", Take: func(c *config, f []string) *report.Note { return c.scanners.service(f) }},
	row{Keys: "icap_send_client_ip adaptation_send_client_ip icap_send_client_username adaptation_send_username", Take: func(c *config, f []string) *report.Note {
		c.scanners.Clients = c.scanners.Clients || valueOf(f) == "on"
		return report.Same("checks.icap.clients")
	}},
	row{Keys: "icap_connect_timeout", Take: aTime("checks.icap.connect", 30*time.Second, func(c *config) *setting.Duration { return &c.scanners.Connect })},
	row{Keys: "icap_io_timeout", Take: aTime("checks.icap.timeout", 15*time.Minute, func(c *config) *setting.Duration { return &c.scanners.Timeout })},
	row{Keys: "adaptation_service_set", Take: func(c *config, _ []string) *report.Note {
		c.scanners.set = true
		return report.Same("checks.icap.servers")
	}},
	row{Keys: "adaptation_access icap_access", Take: func(_ *config, f []string) *report.Note {
		if len(f) > 2 && f[1] == "allow" && !slices.Equal(f[2:], []string{"all"}) || len(f) > 1 && f[1] == "deny" {
			return report.Differs("checks.icap", "it gets everything that no earlier rule decides: a rule with action: allow in front exempts the rest")
		}
		return report.Same("checks.icap")
	}},
	row{Keys: "connect_timeout", Take: aTime("proxy.dial", time.Minute, func(c *config) *setting.Duration { return &c.w.Set.Proxy.Upstream.Dial })},
	row{Keys: "read_timeout", Take: aTime("proxy.answer", 15*time.Minute, func(c *config) *setting.Duration { return &c.w.Set.Proxy.Upstream.Answer })},
	row{Keys: "request_timeout", Take: aTime("proxy.head-time", 5*time.Minute, func(c *config) *setting.Duration { return &c.w.Set.Proxy.HeadTime })},
	row{Keys: "request_start_timeout", Take: aTime("proxy.idle", 5*time.Minute, func(c *config) *setting.Duration { return &c.w.Set.Proxy.Idle })},
	row{Keys: "client_idle_pconn_timeout persistent_request_timeout", Take: aTime("proxy.idle", 2*time.Minute, func(c *config) *setting.Duration { return &c.w.Set.Proxy.Idle })},
	row{Keys: "server_idle_pconn_timeout pconn_timeout", Take: aTime("proxy.upstream-idle", time.Minute, func(c *config) *setting.Duration { return &c.w.Set.Proxy.Upstream.Idle })},
	row{Keys: "client_lifetime", Take: aTime("proxy.total", 24*time.Hour, func(c *config) *setting.Duration { return &c.w.Set.Proxy.Total })},
	row{Keys: "shutdown_lifetime", Take: aTime("proxy.drain", 30*time.Second, func(c *config) *setting.Duration { return &c.w.Set.Proxy.Drain })},
	row{Keys: "cache_effective_user cache_effective_group pid_filename coredump_dir logfile_rotate workers cpu_affinity_map debug_options cache_log cache_store_log mime_table hosts_file max_filedescriptors unlinkd_program netdb_filename visible_hostname unique_hostname",
		Note: report.Needless("the service manager and the system do that")},
	row{Keys: "ssl_bump", Take: (*config).bump},
	row{Keys: "sslcrtd_program sslcrtd_children sslproxy_session_cache_size sslproxy_session_ttl", Note: report.Same("intercept, which makes certificates itself")},
	row{Keys: "sslproxy_cert_error", Take: func(c *config, f []string) *report.Note {
		if len(f) < 2 {
			return report.None("it contains no valid action and acl")
		}
		return certificates(c, access{allow: f[0] == "allow", names: f[1:], at: c.at})
	}},
	row{Keys: "tls_outgoing_options sslproxy_flags", Take: func(c *config, f []string) *report.Note {
		if strings.Contains(c.at.Text, "DONT_VERIFY_PEER") {
			return certificates(c, access{allow: true, names: []string{"all"}, at: c.at})
		}
		return c.trust(f)
	}},
	row{Keys: "sslproxy_cafile", Take: (*config).trust},
	row{Keys: "auth_param", Take: (*config).auth},
	row{Keys: "external_acl_type", Take: external},
	row{Keys: "request_header_add", Take: addField},
	row{Keys: "cache no_cache store_miss", Take: uncached},
	row{Keys: "request_header_max_size reply_header_max_size", Take: func(c *config, f []string) *report.Note {
		if s, ok := Size(f); ok && s >= 1<<10 && s <= 1<<20 {
			c.w.Set.Proxy.Upstream.Head = max(c.w.Set.Proxy.Upstream.Head, s)
			return report.Same("proxy.head")
		}
		return report.ByHand("proxy.head", "it contains no valid size from 1 KiB to 1 MiB")
	}},
	row{Keys: "cache_mem", Take: func(c *config, f []string) *report.Note {
		return c.stored(f, report.Same("cache.memory"), func(to *cache.Config, s setting.Size) { to.Memory = max(s, 1<<20) })
	}},
	row{Keys: "maximum_object_size", Take: func(c *config, f []string) *report.Note {
		return c.stored(f, report.Same("cache.object"), func(to *cache.Config, s setting.Size) { to.Object = s })
	}},
	row{Keys: "cache_dir", Take: func(c *config, f []string) *report.Note { // a type, a folder, and MB
		megabytes := append(slices.Clone(f[min(2, len(f)):min(3, len(f))]), "MB")
		return c.stored(megabytes, report.Differs("cache.disk", "in the data folder; name another one with cache.folder"), func(to *cache.Config, s setting.Size) { to.Disk = s })
	}},
	row{Keys: "maximum_object_size_in_memory minimum_object_size", Take: func(c *config, _ []string) *report.Note { return c.stored(nil, nil, nil) }},
	row{Keys: "access_log", Take: (*config).accessLog},
	row{Keys: "cache_mgr", Take: func(c *config, f []string) *report.Note {
		c.w.Set.Pages.Contact = valueOf(f)
		return report.Same("pages.contact")
	}},
	row{Keys: "cache_peer_access", Take: func(c *config, f []string) *report.Note {
		if len(f) > 2 && f[1] == "deny" && f[2] != "all" {
			return c.direct(f[2:])
		}
		return report.Same("proxy.parent")
	}},
	row{Keys: "acl_uses_indirect_client log_uses_indirect_client", Take: func(_ *config, f []string) *report.Note {
		if valueOf(f) == "on" {
			return report.Same("proxy.trusted")
		}
		return report.None("a client that a trusted proxy names is the client everywhere")
	}},
	row{Keys: "collapsed_forwarding httpd_suppress_version_string", Take: func(_ *config, f []string) *report.Note {
		if valueOf(f) == "on" {
			return report.Same("no setting is needed: it is always so")
		}
		return &report.Note{Kind: report.Default}
	}},
	row{Keys: "client_persistent_connections server_persistent_connections half_closed_clients pipeline_prefetch buffered_logs mail_program mail_from client_request_buffer_max_size", Note: report.Needless(sized)},
	row{Keys: "strip_query_terms", Note: report.Differs("events", "the record has whole addresses; events: anonymise has it forget who asked")},
	row{Keys: "via", Take: func(c *config, f []string) *report.Note {
		if valueOf(f) == "on" {
			c.w.Set.Proxy.Via, c.w.Set.Proxy.ViaResponses = "on", "on"
		}
		return report.Same("proxy.via")
	}},
	row{Keys: "forwarded_for", Take: func(_ *config, f []string) *report.Note {
		if slices.Contains([]string{"delete", "off", "transparent"}, valueOf(f)) {
			return report.Differs("proxy", "X-Forwarded-For is not added")
		}
		return report.ByHand("proxy.parent", "clients' addresses are not sent to origins")
	}},
	row{Keys: "follow_x_forwarded_for", Take: (*config).follow},
	row{Keys: "client_ip_max_connections", Take: func(c *config, f []string) *report.Note {
		if v, err := strconv.ParseUint(valueOf(f), 10, 20); err == nil && v > 0 {
			c.w.Set.Proxy.PerClient = setting.Count(v)
			return report.Same("proxy.per-client")
		}
		return &report.Note{Kind: report.Default}
	}},
	row{Keys: "request_body_max_size", Standard: []string{"", "0"}, Take: func(c *config, f []string) *report.Note {
		var ok bool
		if c.upload, ok = Size(f); !ok {
			return report.ByHand("larger", "it contains no valid size")
		}
		return report.Same("a rule with larger")
	}},
	row{Keys: "http_reply_access", Take: func(c *config, f []string) *report.Note {
		if len(f) > 1 {
			c.replies = append(c.replies, access{allow: f[0] == "allow", names: f[1:], at: c.at})
		}
		return report.Same("rules by type, before the others")
	}},
	row{Keys: "deny_info", Take: (*config).refusals},
	row{Keys: "always_direct", Take: func(c *config, f []string) *report.Note {
		if len(f) > 1 && f[0] == "allow" {
			return c.direct(f[1:])
		}
		return report.Same("proxy.parent")
	}},
	row{Keys: "never_direct prefer_direct nonhierarchical_direct", Note: report.Same("proxy.parent")},
	row{Keys: "refresh_pattern", Note: report.Differs("cache", "the origin says how long an object is fresh; cache.rules has exceptions")},
	row{Keys: "dns_nameservers", Note: report.ByHand("dns: forward: upstreams", "the proxy asks the system's resolver: write these servers into /etc/resolv.conf, or under dns: forward: upstreams where our name server is used")},
)

// aTime converts a number and its unit, unless they are the time that Squid has anyway.
func aTime(ours string, standard time.Duration, to func(c *config) *setting.Duration) func(*config, []string) *report.Note {
	return func(c *config, f []string) *report.Note {
		if len(f) == 0 {
			return report.None("it contains no valid time")
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
			return report.ByHand(ours, "it contains no valid time from a second to a week")
		case d == standard:
			return &report.Note{Kind: report.Default}
		}
		*to(c) = setting.Duration(d)
		return report.Same(ours)
	}
}

func (c *config) trust(f []string) *report.Note {
	for _, word := range f {
		file := strings.TrimPrefix(word, "cafile=")
		if strings.Contains(file, "=") || strings.HasPrefix(file, "-") {
			continue
		}
		if file = input.Find(c.dir, file); !input.IsFile(file) {
			return report.ByHand("intercept.trust", "the file is not there: copy it, and name it under intercept: trust")
		}
		c.trusted = append(c.trusted, c.w.File(file))
		return report.Same("intercept.trust")
	}
	return report.Differs("intercept", "TLS is that of the gateway, with its own limits")
}

// Size reads a size and its unit.
func Size(f []string) (setting.Size, bool) {
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

// stored converts a size of Squid's cache; n is the note if it is valid.
func (c *config) stored(f []string, n *report.Note, take func(to *cache.Config, s setting.Size)) *report.Note {
	if c.cache == nil {
		c.cache = &cache.Config{}
	}
	s, ok := Size(f)
	if !ok {
		return report.Differs("cache", "objects are kept in memory or on the disk by how often they are requested")
	}
	take(c.cache, s)
	return n
}

func (c *config) accessLog(f []string) *report.Note {
	if len(f) == 0 || f[0] == "none" {
		return report.Differs("events", "the record is always kept")
	}
	switch where, to, _ := strings.Cut(f[0], ":"); where {
	case "syslog":
		return build.SendTo(c.w, build.LocalLog)
	case "udp", "tcp":
		return build.SendTo(c.w, where+"://"+strings.TrimPrefix(to, "//"))
	}
	c.w.Set.Events.SQLite, c.w.Set.Events.Squid = "events.db", "access.log"
	if len(f) > 1 && !slices.Contains([]string{"squid", "logformat=squid", "all"}, f[1]) {
		return report.Differs("events.squid", "in Squid's own format")
	}
	return report.Same("events.squid")
}

func (c *config) follow(f []string) *report.Note {
	if len(f) < 2 || f[0] != "allow" {
		return report.Same("proxy.trusted")
	}
	for _, name := range f[1:] {
		if name == "localhost" {
			c.w.Set.Proxy.Trusted = append(c.w.Set.Proxy.Trusted, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
			continue
		}
		a := c.acls[name]
		if a == nil || a.kind != "src" {
			return report.ByHand("proxy.trusted", "write the networks whose X-Forwarded-For is believed")
		}
		for _, n := range networksOf(a.values) {
			c.w.Set.Proxy.Trusted = append(c.w.Set.Proxy.Trusted, n.Prefix)
		}
	}
	return report.Same("proxy.trusted")
}

// direct converts the hosts that bypass the parent.
func (c *config) direct(names []string) *report.Note {
	for _, name := range names {
		a := c.acls[name]
		if a == nil || a.kind != "dstdomain" {
			return report.ByHand("proxy.no-parent", "write the hosts that do not go through the parent")
		}
		for _, v := range a.values {
			c.noParent = append(c.noParent, strings.TrimPrefix(v, "."))
		}
	}
	return report.Same("proxy.no-parent")
}

// refusals converts where to send those whom acls refuse.
func (c *config) refusals(f []string) *report.Note {
	if len(f) > 1 {
		for _, acl := range f[1:] {
			c.denyInfo[acl] = f[0]
		}
	}
	if _, ok := c.denyTo(valueOf(f)); !ok {
		return report.Differs("action: block", "pages are the gateway's own; see pages.templates")
	}
	return report.Same("action: redirect")
}

// denyTo converts the address in deny_info.
func (c *config) denyTo(s string) (to string, ok bool) {
	if i := strings.IndexByte(s, ':'); i == 3 && s[0] == '3' { // 303:https://…
		s = s[4:]
	}
	if !input.IsURL(s) || strings.ContainsAny(s, "{} ") {
		return "", false
	}
	s = strings.NewReplacer("%u", "{url}", "%U", "{url}", "%s", "{url}", "%H", "{host}", "%h", "{host}", "%a", "{login}", "%i", "{client}", "%o", "", "%%", "%25").Replace(s)
	return s, build.PlainURL(s)
}

// reasons has the remedies for options without an equivalent.
var reasons = report.Reasons{
	{"url_rewrite", "import the rewriter's own settings, such as \"shuultuur import squidguard\""},
	{"redirect_", "import the rewriter's own settings, such as \"shuultuur import squidguard\""},
	{"store_id", "addresses of objects are not changed; cache: ignore-query leaves out parts of a query"},
	{"delay_", "bandwidth is not limited; quotas of a policy limit the bytes of a day"},
	{"client_delay", "bandwidth is not limited; quotas of a policy limit the bytes of a day"},
	{"response_delay", "bandwidth is not limited; quotas of a policy limit the bytes of a day"},
	{"reply_body_max_size", "the size of answers is not limited; checks read bodies up to proxy.inspected"},
	{"logformat", "events: squid writes Squid's native form"},
	{"log_", "events: squid writes Squid's native form"},
	{"client_netmask", "the record has whole addresses; events: anonymise has it forget who asked"},
	{"request_header_", "fields are passed on as they come, but for those that a proxy takes out"},
	{"reply_header_", "fields are passed on as they come, but for those that a proxy takes out"},
	{"header_", "fields are passed on as they come, but for those that a proxy takes out"},
	{"icp_", "gateways of one house share their caches by cache: peers"},
	{"htcp_", "gateways of one house share their caches by cache: peers"},
	{"digest_", "gateways of one house share their caches by cache: peers"},
	{"cache_peer", "there is one parent; no-parent names the hosts that bypass it"},
	{"dead_peer", "a parent is tried again for each request"},
	{"peer_", "times of a parent are those of proxy: dial and answer"},
	{"snmp_", "counters are at /metrics"},
	{"cachemgr_", "the gateway is controlled at listen: admin"},
	{"wccp", "docs/transparent.md says how to redirect requests to the gateway"},
	{"tcp_outgoing", "the system's routes choose the address that requests leave from"},
	{"udp_outgoing", "the system's routes choose the address that requests leave from"},
	{"dns_", "the system's resolver is used"},
	{"append_domain", "the system's resolver is used; names without a dot are completed by its search list"},
	{"positive_dns", "the system's resolver is used"},
	{"negative_dns", "the system's resolver is used"},
	{"ipcache", "the system's resolver is used"},
	{"fqdncache", "the system's resolver is used"},
	{"error_", "pages are the gateway's own, in the reader's language; see pages.templates"},
	{"err_", "pages are the gateway's own, in the reader's language; see pages.templates"},
	{"cache_", sized},
	{"memory_", sized},
	{"quick_abort", sized},
	{"read_ahead", sized},
	{"range_offset", "parts of a body are handled as proxy: ranges says"},
	{"negative_ttl", "errors are kept as long as their origin says"},
	{"offline_mode", "write cache: offline for how long stale objects are served while their origin fails"},
	{"max_stale", "write cache: offline for how long stale objects are served while their origin fails"},
	{"forward_", sized},
	{"write_timeout", sized},
	{"authenticate_", "answers of directories are remembered for ten minutes"},
	{"ftp_", "only http and https URLs are fetched"},
	{"on_unsupported_protocol", "what is not TLS passes through a tunnel unread; docs/https.md"},
	{"high_", "alerts are defined on the metrics at /metrics"},
}

const sized = "limits are those under proxy and cache, and follow the size of the machine"

// peer converts a parent.
func peer(c *config, f []string) *report.Note {
	if len(f) < 3 || f[1] != "parent" || c.w.Set.Proxy.Upstream.Parent != "" {
		return report.None(reasons.Of("cache_peer"))
	}
	n, user := report.Same("proxy.parent"), ""
	for _, o := range f[3:] {
		switch login, is := strings.CutPrefix(o, "login="); {
		case is && strings.Contains(login, ":") && !strings.HasPrefix(login, "*"):
			user = login + "@" // it is escaped as in a URL
		case is:
			n = report.Differs("proxy.parent", "it is asked without a name and password: write both into its URL if it wants them")
		case o == "ssl" || o == "tls":
			return report.ByHand("proxy.parent", "a parent is reached without TLS: name a port of it that takes plain HTTP")
		}
	}
	c.w.Set.Proxy.Upstream.Parent = "http://" + user + net.JoinHostPort(f[0], f[2])
	return n
}

// uncached converts a line that excludes objects from the cache.
func uncached(c *config, f []string) *report.Note {
	if len(f) < 2 || f[0] != "deny" {
		return report.Same("cache")
	}
	r := cache.Rule{Store: new(bool)}
	for _, name := range f[1:] {
		a := c.acls[name]
		switch {
		case name == "all" && len(f) == 2:
			c.noCache = true
			return report.Same("no cache")
		case a != nil && a.kind == "dstdomain" && r.Host == nil:
			for _, v := range a.values {
				r.Host = append(r.Host, strings.TrimPrefix(v, "."))
			}
		case a != nil && a.kind == "method" && r.Method == nil:
			r.Method = upper(a.values)
		case a != nil && a.kind == "rep_mime_type" && r.Type == nil:
			for _, v := range a.values {
				m, err := MediaType(v)
				if err != nil {
					return report.ByHand("cache.rules", err.Error())
				}
				r.Type = append(r.Type, m)
			}
		default:
			return report.ByHand("cache.rules", "write a rule there with store: false, and host, type, category or method")
		}
	}
	if c.cache == nil {
		c.cache = &cache.Config{}
	}
	c.cache.Rules = append(c.cache.Rules, r)
	return report.Same("cache.rules")
}

// A field is a field that is added to requests of some clients.
type field struct {
	names []string // of acls
	set   func(p *policy.Policy)
}

// addField converts a field that is added to requests, if policies have a setting for it.
func addField(c *config, f []string) *report.Note {
	words := quotedWords(strings.Join(f, " "))
	if len(words) < 2 {
		return report.None("it contains no valid field and value")
	}
	ours := build.Tenant(&policy.Policy{}, words[0], words[1])
	if ours == "" {
		return report.None(reasons.Of("request_header_"))
	}
	c.fields = append(c.fields, field{words[2:], func(p *policy.Policy) { build.Tenant(p, words[0], words[1]) }})
	return report.Same(ours)
}
