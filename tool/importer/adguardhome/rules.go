package adguardhome

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/original"
)

// rules decides about names as AdGuard Home does. Rewritten names pass. Then come allow
// lists, then the strongest rule of all filters and the user's rules, then hosts and bare names
// if no such rule matches, and services last.
type rules struct {
	rewritten       []string // names, or *.name
	allowed, filter engine
	clients         []client
	services        []string // blocked for everybody; not evaluated
	noIPv6          bool
}

// engine are the rules of several lists that form one engine of AdGuard
// Home.
type engine struct {
	hosts map[string]string          // lines of hosts files and bare names, with their places
	names map[string][]rule          // ||name^
	rest  []rule                     // other patterns
	texts map[string]map[string]bool // $badfilter
}

type rule struct {
	at                            string
	exception, important, rewrite bool
	onURL                         bool // not about the host alone
	literal                       string
	pattern                       *regexp.Regexp
	types, clients, tags, denied  []string
	text                          string
}

func Rules(s *original.Source, file string) (original.Rules, error) {
	file = input.In(file, "AdGuardHome.yaml")
	data, err := input.Whole(file)
	if err != nil {
		return nil, err
	}
	var cfg config
	if err := setting.LoadYAML(data, &cfg); err != nil {
		return nil, err
	}
	a := &rules{noIPv6: cfg.DNS["aaaa_disabled"] == true}
	if a.clients, err = readClients(cfg.Clients); err != nil {
		return nil, err
	}
	for _, l := range []struct {
		lists []filterList
		to    *engine
	}{{cfg.Allow, &a.allowed}, {cfg.Filters, &a.filter}} {
		for _, f := range l.lists {
			path := filepath.Join(filepath.Dir(file), "data", "filters", strconv.FormatInt(f.ID, 10)+".txt")
			if !f.Enabled {
				continue
			}
			if err := s.LinesOf(path, func(n int, line string) { l.to.add(s, fmt.Sprintf("%s:%d", path, n), line) }); err != nil {
				s.Untested("filter %q: %v", f.Name, err)
			}
		}
	}
	for i, rule := range slices.Concat(cfg.UserRules, blockedHosts(cfg.DNS)) {
		a.filter.add(s, fmt.Sprintf("user rule %d", i+1), strings.TrimSpace(rule))
	}
	for _, key := range []any{cfg.Filtering["rewrites"], cfg.DNS["rewrites"]} {
		all, _ := key.([]any)
		for _, r := range all {
			if m, ok := r.(map[string]any); ok && m["enabled"] != false {
				a.rewritten = append(a.rewritten, strings.ToLower(input.Plain(m["domain"])))
			}
		}
	}
	for _, key := range []string{"blocked_services", "parental_enabled", "safebrowsing_enabled"} {
		if v := cfg.Filtering[key]; v != nil && v != false {
			if m, ok := v.(map[string]any); ok && len(input.Strings(m["ids"])) == 0 {
				continue
			}
			s.Untested("filtering.%s: AdGuard Home asks what it carries or a server", key)
		}
	}
	return a, nil
}

// special are characters that no bare name has.
const special = "|^$*/#@! \t,:;=&?%+~'\"()[]{}"

// add takes a line of a list.
func (r *engine) add(s *original.Source, at, line string) {
	if r.hosts == nil {
		r.hosts, r.names, r.texts = map[string]string{}, map[string][]rule{}, map[string]map[string]bool{}
	}
	text, _, _ := strings.Cut(line, " #")
	f := strings.Fields(text)
	switch {
	case line == "" || strings.HasPrefix(line, "!") || strings.HasPrefix(line, "#"), strings.Contains(line, "##"), strings.Contains(line, "#@#"), strings.Contains(line, "#?#"), strings.Contains(line, "#$#"):
		return
	case len(f) > 1:
		if ip, err := netip.ParseAddr(f[0]); err == nil {
			for _, name := range f[1:] {
				if ip.IsUnspecified() || ip.IsLoopback() {
					r.hosts[strings.ToLower(name)] = at
				} // otherwise the answer is an address of the client's
			}
			return
		}
	case strings.Contains(line, ".") && !strings.ContainsAny(line, special):
		r.hosts[strings.ToLower(line)] = at
		return
	}
	x := rule{at: at, text: line}
	line, x.exception = strings.CutPrefix(line, "@@")
	pattern, options := splitOptions(line)
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		switch name {
		case "important":
			x.important = true
		case "badfilter":
			text := strings.Join(slices.DeleteFunc(slices.Clone(options), func(o string) bool { return o == "badfilter" }), ",")
			if r.texts[pattern] == nil {
				r.texts[pattern] = map[string]bool{}
			}
			r.texts[pattern][fmt.Sprint(x.exception, text)] = true
			return
		case "dnstype":
			x.types = strings.Split(value, "|")
		case "client":
			x.clients = strings.Split(value, "|")
		case "ctag":
			x.tags = strings.Split(value, "|")
		case "denyallow":
			x.denied = strings.Split(strings.ToLower(value), "|")
		case "dnsrewrite":
			x.rewrite = !slices.Contains([]string{"NXDOMAIN", "REFUSED", "SERVFAIL"}, strings.ToUpper(value))
		case "document", "doc", "all", "~script", "~image", "~third-party":
		default:
			return // a rule with options for browsers does not match names
		}
	}
	x.text = pattern + "\x00" + fmt.Sprint(x.exception, strings.Join(options, ","))
	x.compile(s, strings.ToLower(pattern), pattern)
	switch {
	case x.pattern != nil:
		r.rest = append(r.rest, x)
	case x.literal != "":
		r.names[x.literal] = append(r.names[x.literal], x)
	}
}

// splitOptions splits a rule into its pattern and options. A dollar sign inside an expression
// does not begin options.
func splitOptions(line string) (pattern string, options []string) {
	at := strings.LastIndexByte(line, '$')
	if strings.HasPrefix(line, "/") {
		if end := strings.LastIndexByte(line, '/'); end > 0 && at <= end {
			at = strings.Index(line[end:], "$") // after the expression
			if at >= 0 {
				at += end
			}
		}
	}
	if at < 0 {
		return line, nil
	}
	text := strings.ReplaceAll(line[at+1:], `\,`, "\x00")
	for o := range strings.SplitSeq(text, ",") {
		options = append(options, strings.ReplaceAll(strings.TrimSpace(o), "\x00", ","))
	}
	return line[:at], options
}

// compile makes an expression from a pattern, or keeps the name in ||name^.
func (x *rule) compile(s *original.Source, pattern, written string) {
	if name, ok := strings.CutSuffix(strings.TrimPrefix(pattern, "||"), "^"); ok && strings.HasPrefix(pattern, "||") && !strings.ContainsAny(name, special) {
		x.literal = name
		return
	}
	expression := ""
	if len(written) > 1 && strings.HasPrefix(written, "/") && strings.HasSuffix(written, "/") {
		expression = written[1 : len(written)-1]
	} else {
		x.onURL = strings.HasPrefix(pattern, "||") || strings.HasPrefix(pattern, "|http") || strings.HasPrefix(pattern, "://")
		body, begin, end := pattern, "", ""
		if rest, ok := strings.CutPrefix(body, "||"); ok {
			body, begin = rest, `^https?://(?:[a-z0-9_.-]+\.)?`
		} else if rest, ok := strings.CutPrefix(body, "|"); ok {
			body, begin = rest, "^"
		}
		if rest, ok := strings.CutSuffix(body, "|"); ok {
			body, end = rest, "$"
		}
		for _, part := range strings.FieldsFunc(body, func(r rune) bool { return r == '*' || r == '^' || r == '|' }) {
			if len(part) > len(x.literal) {
				x.literal = part
			}
		}
		expression = begin + strings.NewReplacer(`\*`, ".*", `\^`, "(?:[^ a-zA-Z0-9.%_-]|$)").Replace(regexp.QuoteMeta(body)) + end
	}
	compiled, err := regexp.Compile("(?i)" + expression)
	if err != nil {
		s.Untested("%s: %v", x.at, err)
		x.literal = ""
		return
	}
	x.pattern = compiled
}

// strongest returns the deciding rule, or nil if none matches.
func (r *engine) strongest(q *query) *rule {
	var best *rule
	try := func(x *rule) {
		pattern, _, _ := strings.Cut(x.text, "\x00")
		if x.optionsMatch(q) && !r.texts[pattern][x.text[len(pattern)+1:]] && (best == nil || x.rank() > best.rank()) {
			best = x
		}
	}
	input.FirstParent(q.host, func(name string) bool {
		for i := range r.names[name] {
			try(&r.names[name][i])
		}
		return false
	})
	for i := range r.rest {
		x := &r.rest[i]
		if !strings.Contains(q.url, x.literal) {
			continue
		}
		if x.onURL && x.pattern.MatchString(q.url) || !x.onURL && x.pattern.MatchString(q.host) {
			try(x)
		}
	}
	return best
}

func (x *rule) rank() (n int) {
	if x.important {
		n += 2
	}
	if x.exception {
		n++
	}
	return n
}

// query is a query and its client.
type query struct {
	host, url string
	qtype     uint16
	addr      netip.Addr
	client    *client
}

// optionsMatch reports whether the options of a rule match.
func (x *rule) optionsMatch(q *query) bool {
	oneOf := func(all []string, is func(string) bool) bool {
		named, in := false, false
		for _, v := range all {
			v, not := strings.CutPrefix(v, "~")
			v = strings.Trim(v, `'"`)
			switch {
			case not && is(v):
				return false
			case !not:
				named, in = true, in || is(v)
			}
		}
		return !named || in
	}
	return oneOf(x.types, func(v string) bool { t, err := dns.Type(strings.ToUpper(v)); return err == nil && t == q.qtype }) &&
		oneOf(x.clients, q.isFrom) &&
		oneOf(x.tags, func(v string) bool { return q.client != nil && slices.Contains(q.client.Tags, v) }) &&
		!slices.ContainsFunc(x.denied, func(d string) bool { return q.host == d || strings.HasSuffix(q.host, "."+d) })
}

// isFrom reports whether v is the client's name, address or network.
func (q *query) isFrom(v string) bool {
	if q.client != nil && (q.client.Name == v || slices.Contains(q.client.IDs, v)) {
		return true
	}
	if a, err := netip.ParseAddr(v); err == nil {
		return a.Unmap() == q.addr
	}
	p, err := netip.ParsePrefix(v)
	return err == nil && p.Contains(q.addr)
}

func (a *rules) Decide(_ context.Context, t *filter.Transaction, stage filter.Stage) (original.Decision, bool) {
	if stage != filter.Name {
		return original.Decision{}, false
	}
	q := &query{host: t.Host, url: "http://" + t.Host, qtype: cmp.Or(t.Type, dns.TypeA), addr: t.Client.Addr, client: a.client(t.Client.Addr)}
	if q.client != nil && !q.client.Global && !q.client.Filtering && !(a.noIPv6 && q.qtype == dns.TypeAAAA) {
		return original.Decision{By: "filtering is off for " + q.client.Name}, true
	}
	for _, name := range a.rewritten {
		if name == q.host || strings.HasPrefix(name, "*.") && strings.HasSuffix(q.host, name[1:]) {
			return original.Decision{By: "rewrite of " + name}, true
		}
	}
	if a.noIPv6 && q.qtype == dns.TypeAAAA {
		return original.Decision{Refuse: true, By: "aaaa_disabled"}, true
	}
	if x := a.allowed.strongest(q); x != nil {
		return original.Decision{By: x.at}, true
	}
	if at := a.allowed.hosts[q.host]; at != "" {
		return original.Decision{By: at}, true
	}
	if x := a.filter.strongest(q); x != nil {
		return original.Decision{Refuse: !x.exception && !x.rewrite, By: x.at}, true
	}
	at := a.filter.hosts[q.host]
	return original.Decision{Refuse: at != "", By: cmp.Or(at, "no rule")}, true
}

// client returns AdGuard Home's settings for a client, by its address or else by the smallest
// network.
func (a *rules) client(addr netip.Addr) (found *client) {
	bits := -1
	for i := range a.clients {
		for _, id := range a.clients[i].IDs {
			p, err := netip.ParsePrefix(id)
			if one, failed := netip.ParseAddr(id); failed == nil {
				p, err = netip.PrefixFrom(one.Unmap(), one.Unmap().BitLen()), nil
			}
			if err == nil && p.Contains(addr) && p.Bits() > bits {
				found, bits = &a.clients[i], p.Bits()
			}
		}
	}
	return found
}
