package importer

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

	"shuultuur/dns"
	"shuultuur/filter"
)

// adGuardSource decides about names as AdGuard Home does. Rewritten names pass. Then come allow
// lists, then the strongest rule of all filters and the user's rules, then hosts and bare names
// if no such rule matches, and services last.
type adGuardSource struct {
	rewritten       []string // names, or *.name
	allowed, filter adGuardRules
	clients         []adGuardClient
	services        []string // blocked for everybody; not evaluated
}

// adGuardRules are the rules of several lists that form one engine of AdGuard
// Home.
type adGuardRules struct {
	hosts map[string]string          // lines of hosts files and bare names, with their places
	names map[string][]adGuardRule   // ||name^
	rest  []adGuardRule              // other patterns
	texts map[string]map[string]bool // $badfilter
}

type adGuardRule struct {
	at                            string
	exception, important, rewrite bool
	onURL                         bool // not about the host alone
	literal                       string
	pattern                       *regexp.Regexp
	types, clients, tags, denied  []string
	text                          string
}

func newAdGuardSource(s *Source, file string) (sourceRules, error) {
	file = fileIn(file, "AdGuardHome.yaml")
	data, err := readWhole(file)
	if err != nil {
		return nil, err
	}
	var cfg adGuard
	if err := loadYAML(data, &cfg); err != nil {
		return nil, err
	}
	a := &adGuardSource{}
	if a.clients, err = adGuardClients(cfg.Clients); err != nil {
		return nil, err
	}
	for _, l := range []struct {
		lists []adGuardList
		to    *adGuardRules
	}{{cfg.Allow, &a.allowed}, {cfg.Filters, &a.filter}} {
		for _, f := range l.lists {
			path := filepath.Join(filepath.Dir(file), "data", "filters", strconv.FormatInt(f.ID, 10)+".txt")
			if !f.Enabled {
				continue
			}
			if err := s.linesOf(path, func(n int, line string) { l.to.add(s, fmt.Sprintf("%s:%d", path, n), line) }); err != nil {
				s.noteUntested("filter %q: %v", f.Name, err)
			}
		}
	}
	for i, rule := range slices.Concat(cfg.UserRules, adGuardBlockedHosts(cfg.DNS)) {
		a.filter.add(s, fmt.Sprintf("user rule %d", i+1), strings.TrimSpace(rule))
	}
	for _, key := range []any{cfg.Filtering["rewrites"], cfg.DNS["rewrites"]} {
		all, _ := key.([]any)
		for _, r := range all {
			if m, ok := r.(map[string]any); ok && m["enabled"] != false {
				a.rewritten = append(a.rewritten, strings.ToLower(plainText(m["domain"])))
			}
		}
	}
	for _, key := range []string{"blocked_services", "parental_enabled", "safebrowsing_enabled"} {
		if v := cfg.Filtering[key]; v != nil && v != false {
			if m, ok := v.(map[string]any); ok && len(words(m["ids"])) == 0 {
				continue
			}
			s.noteUntested("filtering.%s: AdGuard Home asks what it carries or a server", key)
		}
	}
	return a, nil
}

// adGuardSpecial are characters that no bare name has.
const adGuardSpecial = "|^$*/#@! \t,:;=&?%+~'\"()[]{}"

// add takes a line of a list.
func (r *adGuardRules) add(s *Source, at, line string) {
	if r.hosts == nil {
		r.hosts, r.names, r.texts = map[string]string{}, map[string][]adGuardRule{}, map[string]map[string]bool{}
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
	case strings.Contains(line, ".") && !strings.ContainsAny(line, adGuardSpecial):
		r.hosts[strings.ToLower(line)] = at
		return
	}
	x := adGuardRule{at: at, text: line}
	line, x.exception = strings.CutPrefix(line, "@@")
	pattern, options := adGuardOptions(line)
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

// adGuardOptions splits a rule into its pattern and options. A dollar sign inside an expression
// does not begin options.
func adGuardOptions(line string) (pattern string, options []string) {
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
func (x *adGuardRule) compile(s *Source, pattern, written string) {
	if name, ok := strings.CutSuffix(strings.TrimPrefix(pattern, "||"), "^"); ok && strings.HasPrefix(pattern, "||") && !strings.ContainsAny(name, adGuardSpecial) {
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
		s.noteUntested("%s: %v", x.at, err)
		x.literal = ""
		return
	}
	x.pattern = compiled
}

// strongest returns the deciding rule, or nil if none matches.
func (r *adGuardRules) strongest(q *adGuardQuery) *adGuardRule {
	var best *adGuardRule
	try := func(x *adGuardRule) {
		pattern, _, _ := strings.Cut(x.text, "\x00")
		if x.optionsMatch(q) && !r.texts[pattern][x.text[len(pattern)+1:]] && (best == nil || x.rank() > best.rank()) {
			best = x
		}
	}
	firstParent(q.host, func(name string) bool {
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

func (x *adGuardRule) rank() (n int) {
	if x.important {
		n += 2
	}
	if x.exception {
		n++
	}
	return n
}

// adGuardQuery is a query and its client.
type adGuardQuery struct {
	host, url string
	qtype     uint16
	addr      netip.Addr
	client    *adGuardClient
}

// optionsMatch reports whether the options of a rule match.
func (x *adGuardRule) optionsMatch(q *adGuardQuery) bool {
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
func (q *adGuardQuery) isFrom(v string) bool {
	if q.client != nil && (q.client.Name == v || slices.Contains(q.client.IDs, v)) {
		return true
	}
	if a, err := netip.ParseAddr(v); err == nil {
		return a.Unmap() == q.addr
	}
	p, err := netip.ParsePrefix(v)
	return err == nil && p.Contains(q.addr)
}

func (a *adGuardSource) decide(_ context.Context, t *filter.Transaction, stage filter.Stage) (decision, bool) {
	if stage != filter.Name {
		return decision{}, false
	}
	q := &adGuardQuery{host: t.Host, url: "http://" + t.Host, qtype: cmp.Or(t.Type, dns.TypeA), addr: t.Client.Addr, client: a.client(t.Client.Addr)}
	if q.client != nil && !q.client.Global && !q.client.Filtering {
		return decision{by: "filtering is off for " + q.client.Name}, true
	}
	for _, name := range a.rewritten {
		if name == q.host || strings.HasPrefix(name, "*.") && strings.HasSuffix(q.host, name[1:]) {
			return decision{by: "rewrite of " + name}, true
		}
	}
	if x := a.allowed.strongest(q); x != nil {
		return decision{by: x.at}, true
	}
	if at := a.allowed.hosts[q.host]; at != "" {
		return decision{by: at}, true
	}
	if x := a.filter.strongest(q); x != nil {
		return decision{refuse: !x.exception && !x.rewrite, by: x.at}, true
	}
	at := a.filter.hosts[q.host]
	return decision{refuse: at != "", by: cmp.Or(at, "no rule")}, true
}

// client returns AdGuard Home's settings for a client, by its address or else by the smallest
// network.
func (a *adGuardSource) client(addr netip.Addr) (found *adGuardClient) {
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
