package importer

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/cache"
	"shuultuur/check/icap"
	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/setting"
)

// squidLost has the remedies for options without an equivalent.
var squidLost = reasons{
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
	{"cache_", squidSized},
	{"memory_", squidSized},
	{"quick_abort", squidSized},
	{"read_ahead", squidSized},
	{"range_offset", "parts of a body are handled as proxy: ranges says"},
	{"negative_ttl", "errors are kept as long as their origin says"},
	{"offline_mode", "write cache: offline for how long stale objects are served while their origin fails"},
	{"max_stale", "write cache: offline for how long stale objects are served while their origin fails"},
	{"forward_", squidSized},
	{"write_timeout", squidSized},
	{"authenticate_", "answers of directories are remembered for ten minutes"},
	{"ftp_", "only http and https URLs are fetched"},
	{"on_unsupported_protocol", "what is not TLS passes through a tunnel unread; docs/https.md"},
	{"high_", "alerts are defined on the metrics at /metrics"},
}

const squidSized = "limits are those under proxy and cache, and follow the size of the machine"

// squidKinds say why acls of some types have no equivalent condition.
var squidKinds = reasons{
	{"ident", "write a policy with users, and identity"},
	{"ext_user", "write a policy with users, and identity"},
	{"proxy_auth_regex", "policies name users as they are: write a policy with users or groups"},
	{"external", "no external programs are asked: users and groups come from identity"},
	{"arp", "clients are identified by address: write identity: names: leases, and a policy with networks"},
	{"eui64", "clients are identified by address: write identity: names: leases, and a policy with networks"},
	{"port", "rules have no condition for ports: leave them out of proxy: safe-ports and connect-ports"},
	{"my", "all ports of the proxy have the same rules: tell clients apart by networks"},
	{"local", "all ports of the proxy have the same rules: tell clients apart by networks"},
	{"max_user_ip", "one user may have several addresses: write quotas or limits with by: user"},
	{"rep_header", "rules can match the type of an answer: write a rule with type"},
}

// squidBranches is the nesting of if and else in a file: for each level, whether its lines
// count.
type squidBranches []bool

// take reads a line that begins or ends a branch, or is in one that does not count.
func (b *squidBranches) take(f []string) (n *Note, done bool) {
	taken := !slices.Contains(*b, false)
	switch last := len(*b) - 1; {
	case f[0] == "if":
		*b = append(*b, squidTrue(f[1:]))
	case f[0] == "else" && last >= 0:
		(*b)[last] = !(*b)[last]
	case f[0] == "endif" && last >= 0:
		*b = (*b)[:last]
	default:
		return &Note{Kind: Default, Why: "in a branch that the first process does not take"}, !taken
	}
	return carried("its lines, as the first process reads them"), true
}

// squidTrue reports whether a condition holds for the first process.
func squidTrue(f []string) bool {
	text := strings.NewReplacer("${process_number}", "1", "${service_name}", "squid", " ", "").Replace(strings.Join(f, ""))
	a, b, compared := strings.Cut(text, "=")
	return compared && a == b || text == "true"
}

// squidPeer converts a parent.
func squidPeer(c *squidConf, f []string) *Note {
	if len(f) < 3 || f[1] != "parent" || c.set.Proxy.Upstream.Parent != "" {
		return lost(squidLost.of("cache_peer"))
	}
	n, user := carried("proxy.parent"), ""
	for _, o := range f[3:] {
		switch login, is := strings.CutPrefix(o, "login="); {
		case is && strings.Contains(login, ":") && !strings.HasPrefix(login, "*"):
			user = login + "@" // it is escaped as in a URL
		case is:
			n = differs("proxy.parent", "it is asked without a name and password: write both into its URL if it wants them")
		case o == "ssl" || o == "tls":
			return lostOurs("proxy.parent", "a parent is reached without TLS: name a port of it that takes plain HTTP")
		}
	}
	c.set.Proxy.Upstream.Parent = "http://" + user + net.JoinHostPort(f[0], f[2])
	return n
}

// squidPerClient converts the number of connections above which a client is refused.
func squidPerClient(c *squidConf, values []string) *Note {
	n, err := strconv.ParseUint(values[0], 10, 20)
	if err != nil || n == 0 {
		return lostOurs("proxy.per-client", "it contains no valid number of connections")
	}
	c.set.Proxy.PerClient = setting.Count(n)
	return carried("proxy.per-client")
}

// squidUnsafe reports whether no request may go to any of some ports.
func squidUnsafe(c *squidConf, ports []string) bool {
	safe := c.set.Proxy.SafePorts
	return len(safe) > 0 && !slices.ContainsFunc(ports, func(p string) bool {
		from, to, _ := strings.Cut(p, "-")
		return slices.ContainsFunc(safe, func(s string) bool {
			first, _, _ := strings.Cut(s, "-")
			n, err := strconv.ParseUint(from, 10, 16)
			m, err2 := strconv.ParseUint(first, 10, 16)
			return err != nil || err2 != nil || hasPort(s, uint16(n)) || to != "" && hasPort(p, uint16(m))
		})
	})
}

// unfetched reports whether the proxy never fetches these schemes.
func unfetched(schemes []string) bool {
	return !slices.ContainsFunc(upper(schemes), func(s string) bool {
		return !slices.Contains([]string{"FTP", "GOPHER", "WAIS", "WHOIS", "URN", "CACHE_OBJECT"}, s)
	})
}

// squidType converts an expression for a media type to our syntax.
func squidType(v string) (string, error) {
	m := strings.NewReplacer("^", "", "$", "", "\\", "", ".*", "*").Replace(v)
	if strings.HasSuffix(m, "/") || !strings.Contains(m, "/") {
		m = strings.TrimSuffix(m, "/") + "/*"
	}
	return filter.MediaType(m)
}

// squidUncached converts a line that excludes objects from the cache.
func squidUncached(c *squidConf, f []string) *Note {
	if len(f) < 2 || f[0] != "deny" {
		return carried("cache")
	}
	r := cache.Rule{Store: new(bool)}
	for _, name := range f[1:] {
		a := c.acls[name]
		switch {
		case name == "all" && len(f) == 2:
			c.noCache = true
			return carried("no cache")
		case a != nil && a.kind == "dstdomain" && r.Host == nil:
			for _, v := range a.values {
				r.Host = append(r.Host, strings.TrimPrefix(v, "."))
			}
		case a != nil && a.kind == "method" && r.Method == nil:
			r.Method = upper(a.values)
		case a != nil && a.kind == "rep_mime_type" && r.Type == nil:
			for _, v := range a.values {
				m, err := squidType(v)
				if err != nil {
					return lostOurs("cache.rules", err.Error())
				}
				r.Type = append(r.Type, m)
			}
		default:
			return lostOurs("cache.rules", "write a rule there with store: false, and host, type, category or method")
		}
	}
	if c.cache == nil {
		c.cache = &cache.Config{}
	}
	c.cache.Rules = append(c.cache.Rules, r)
	return carried("cache.rules")
}

// A squidField is a field that is added to requests of some clients.
type squidField struct {
	names []string // of acls
	set   func(p *policy.Policy)
}

// squidTenant converts a field that is added to requests, if policies have a setting for it.
func squidTenant(c *squidConf, f []string) *Note {
	words := quotedWords(strings.Join(f, " "))
	if len(words) < 2 {
		return lost("it contains no valid field and value")
	}
	ours := tenant(&policy.Policy{}, words[0], words[1])
	if ours == "" {
		return lost(squidLost.of("request_header_"))
	}
	c.fields = append(c.fields, squidField{words[2:], func(p *policy.Policy) { tenant(p, words[0], words[1]) }})
	return carried(ours)
}

// tenant makes a policy restrict an application, as a field of requests does, and returns our
// name for it, or "" if there is none.
func tenant(p *policy.Policy, field, value string) (ours string) {
	list := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	t := &p.Tenants
	microsoft := func() *policy.Microsoft {
		if t.Microsoft == nil {
			t.Microsoft = &policy.Microsoft{}
		}
		return t.Microsoft
	}
	switch strings.ToLower(field) {
	case "x-googapps-allowed-domains":
		t.Google = list
		return "tenants.google"
	case "restrict-access-to-tenants":
		microsoft().Allow = list
		return "tenants.microsoft.allow"
	case "restrict-access-context":
		microsoft().Context = value
		return "tenants.microsoft.context"
	case "x-dropbox-allowed-team-ids":
		t.Dropbox = list
		return "tenants.dropbox"
	case "youtube-restrict":
		if v := strings.ToLower(value); v == "strict" || v == "moderate" {
			p.YouTube = v
			return "youtube"
		}
	}
	return ""
}

// squidScanners has the servers that Squid asks by ICAP.
type squidScanners struct {
	icap.Config
	on     bool
	strict bool            // refuse bodies that they cannot scan
	points map[string]bool // points at which a server is already used
	set    bool            // some servers replace each other
}

// take converts an option about ICAP.
func (s *squidScanners) take(f []string) (n *Note, is bool) {
	value := ""
	if len(f) > 1 {
		value = f[1]
	}
	switch f[0] {
	case "icap_enable":
		s.on = value == "on"
		if !s.on {
			return &Note{Kind: Default}, true
		}
		return carried("checks.icap"), true
	case "icap_service":
		return s.service(f[1:]), true
	case "icap_send_client_ip", "adaptation_send_client_ip", "icap_send_client_username", "adaptation_send_username":
		s.Clients = s.Clients || value == "on"
		return carried("checks.icap.clients"), true
	case "icap_connect_timeout":
		return squidTime("checks.icap.connect", 30*time.Second, f[1:], func() *setting.Duration { return &s.Connect }), true
	case "icap_io_timeout":
		return squidTime("checks.icap.timeout", 15*time.Minute, f[1:], func() *setting.Duration { return &s.Timeout }), true
	case "adaptation_service_set":
		s.set = true
		return carried("checks.icap.servers"), true
	case "adaptation_access", "icap_access":
		if len(f) > 3 && f[2] == "allow" && !slices.Equal(f[3:], []string{"all"}) || len(f) > 2 && f[2] == "deny" {
			return differs("checks.icap", "it gets everything that no earlier rule decides: a rule with action: allow in front exempts the rest"), true
		}
		return carried("checks.icap"), true
	}
	if strings.HasPrefix(f[0], "icap_") || strings.HasPrefix(f[0], "adaptation_") {
		return carried("checks.icap, which asks each server by OPTIONS how it wants to be asked"), true
	}
	return n, false
}

// service converts a server: name, point, whether it may fail, and its address last.
func (s *squidScanners) service(f []string) *Note {
	if len(f) < 3 || !strings.HasPrefix(f[len(f)-1], "icap") {
		return lostOurs("checks.icap.servers", "it contains no valid address of an ICAP server")
	}
	point, address := f[1], f[len(f)-1]
	if !slices.Contains(f, "bypass=on") && !slices.Contains(f, "bypass=1") && f[2] != "1" {
		s.strict = true
	}
	n := carried("checks.icap.servers")
	if s.points[point] && !s.set {
		n = differs("checks.icap.servers", "it is asked when the one before it fails, and not besides")
	}
	if s.points == nil {
		s.points = map[string]bool{}
	}
	if s.points[point] = true; point == "reqmod_precache" {
		s.Requests = true
	}
	if !slices.Contains(s.Servers, address) {
		s.Servers = append(s.Servers, address)
	}
	return n
}

// use adds the servers to our settings, unless ICAP is switched off.
func (s *squidScanners) use(w *work, dir string) {
	switch {
	case len(s.Servers) == 0:
	case !s.on:
		w.rep.add(&Note{Kind: Default, place: place{file: dir}, What: "icap_service", Why: "icap_enable is off"})
	default:
		askByICAP(w, s.Config, s.strict)
	}
}
