package squidguard

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/original"
)

// rules decides as squidGuard does: the first source that the client belongs to, its
// acl at that time, and the first word of the acl that matches.
type rules struct {
	db      string
	times   map[string][]statement
	dests   map[string]*target
	sources []*clients
	acls    map[string]*rights
	pages   []string // where refused requests are sent, without the query: these have to arrive
}

type target struct {
	domains     map[string]bool
	urls        map[string]bool
	expressions []*regexp.Regexp
	within      string
	outside     bool
}

type clients struct {
	name, within string
	outside      bool
	networks     []netip.Prefix
	users        []string
}

// rights has the rules within a time, and outside it.
type rights struct {
	within      string
	outside     bool
	pass, other []string
	hasElse     bool
}

func Rules(s *original.Source, file string) (original.Rules, error) {
	file = input.In(file, "squidGuard.conf")
	all, err := statements(file)
	if err != nil {
		return nil, err
	}
	q := &rules{db: filepath.Dir(file), times: map[string][]statement{}, dests: map[string]*target{}, acls: map[string]*rights{}}
	for _, x := range all {
		if len(x.words) > 1 && x.words[0] == "redirect" {
			page := x.words[1]
			if i := strings.Index(page, ":http"); i == 3 { // 302:http://…
				page = page[i+1:]
			}
			if page = page[:strings.IndexAny(page+"?", "?%")]; strings.HasPrefix(page, "http") {
				q.pages = append(q.pages, page)
			}
		}
	}
	for i := 0; i < len(all); i++ {
		x := all[i]
		if len(x.words) > 1 && x.words[0] == "dbhome" {
			q.db = input.Find(filepath.Dir(file), x.words[1])
		}
		if x.end != '{' {
			continue
		}
		n := blockEnd(all[i+1:])
		if n < 0 || len(x.words) == 0 {
			return nil, fmt.Errorf("%s: the block is not closed or has no name", x.Place)
		}
		body := all[i+1 : i+1+n]
		i += 1 + n
		name := ""
		if len(x.words) > 1 {
			name = x.words[1]
		}
		switch x.words[0] {
		case "time":
			q.times[name] = body
		case "src", "source":
			q.source(s, x.words[1:], body)
		case "dest", "destination":
			q.dest(s, name, body)
			if len(x.words) > 3 {
				q.dests[name].within, q.dests[name].outside = x.words[3], x.words[2] == "outside"
			}
		case "acl":
			q.acl(body)
		}
	}
	return q, nil
}

func (q *rules) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(q.db, name)
}

func (q *rules) source(s *original.Source, words []string, body []statement) {
	if len(words) == 0 {
		return
	}
	c := &clients{name: words[0]}
	if len(words) > 2 {
		c.within, c.outside = words[2], words[1] == "outside"
	}
	add := func(word string) {
		nets, ok := input.Networks(word)
		if !ok {
			s.Untested("source %s: %q", c.name, word)
		}
		for _, n := range nets {
			p, err := netip.ParsePrefix(n)
			if a, failed := netip.ParseAddr(n); failed == nil {
				p, err = netip.PrefixFrom(a, a.BitLen()), nil
			}
			if err == nil {
				c.networks = append(c.networks, p)
			}
		}
	}
	for _, x := range body {
		if len(x.words) < 2 {
			continue
		}
		values := strings.FieldsFunc(strings.Join(x.words[1:], " "), func(r rune) bool { return r == ' ' || r == ',' })
		switch x.words[0] {
		case "ip":
			for _, v := range values {
				add(v)
			}
		case "user":
			c.users = append(c.users, values...)
		case "iplist", "userlist":
			if err := s.LinesOf(q.path(values[0]), func(_ int, line string) {
				switch line, _, _ = strings.Cut(line, "#"); {
				case strings.TrimSpace(line) == "":
				case x.words[0] == "iplist":
					add(strings.TrimSpace(line))
				default:
					user, _, _ := strings.Cut(strings.TrimSpace(line), ":")
					c.users = append(c.users, user)
				}
			}); err != nil {
				s.Untested("source %s: %v", c.name, err)
			}
		case "within", "outside":
			c.within, c.outside = values[0], x.words[0] == "outside"
		default:
			s.Untested("source %s: %s", c.name, x.Text)
		}
	}
	q.sources = append(q.sources, c)
}

func (q *rules) dest(s *original.Source, name string, body []statement) {
	d := &target{domains: map[string]bool{}, urls: map[string]bool{}}
	q.dests[name] = d
	for _, x := range body {
		if len(x.words) == 2 && (x.words[0] == "within" || x.words[0] == "outside") {
			d.within, d.outside = x.words[1], x.words[0] == "outside"
		}
		if len(x.words) < 2 || !strings.HasSuffix(x.words[0], "list") {
			continue
		}
		err := s.LinesOf(q.path(x.words[len(x.words)-1]), func(n int, line string) {
			if line[0] == '#' {
				return
			}
			switch x.words[0] {
			case "domainlist":
				d.domains[strings.ToLower(line)] = true
			case "urllist":
				d.urls[strings.ToLower(strings.TrimSuffix(line, "/"))] = true
			case "expressionlist":
				e, err := regexp.Compile("(?i)" + line)
				if err != nil {
					s.Untested("%s:%d: %v", x.words[1], n, err)
					return
				}
				d.expressions = append(d.expressions, e)
			}
		})
		if err != nil {
			s.Untested("dest %s: %v", name, err)
		}
	}
}

func (q *rules) acl(body []statement) {
	pass := func(body []statement) (all []string) {
		for _, x := range body {
			if len(x.words) > 1 && x.words[0] == "pass" {
				all = append(all, strings.FieldsFunc(strings.Join(x.words[1:], " "), func(r rune) bool { return r == ' ' || r == ',' })...)
			}
		}
		return all
	}
	var last *rights
	for i := 0; i < len(body); i++ {
		x := body[i]
		n := blockEnd(body[i+1:])
		if x.end != '{' || len(x.words) == 0 || n < 0 {
			continue
		}
		inner := body[i+1 : i+1+n]
		i += 1 + n
		if x.words[0] == "else" && last != nil {
			last.other, last.hasElse = pass(inner), true
			continue
		}
		last = &rights{pass: pass(inner)}
		if len(x.words) > 2 {
			last.within, last.outside = x.words[2], x.words[1] == "outside"
		}
		q.acls[x.words[0]] = last
	}
}

// now reports whether a named time is now.
func (q *rules) now(name string, t *filter.Transaction) bool {
	for _, x := range q.times[name] {
		if len(x.words) < 2 {
			continue
		}
		var stretches [][2]int
		why, on := "neither weekly nor date", false
		switch x.words[0] {
		case "weekly":
			var days [7]bool
			days, stretches, why = weekly(x.words[1:])
			on = days[t.Start.Weekday()]
		case "date":
			var dates string
			if dates, stretches, why = parseDates(x.words[1:]); why == "" {
				hours, _ := policy.Schedule{{Dates: dates}}.Compile() // the function dated has read them
				on = hours.Open(t.Start)
			}
		}
		now := t.Start.Hour()*60 + t.Start.Minute()
		if why == "" && on && slices.ContainsFunc(stretches, func(s [2]int) bool { return s[0] <= now && now < s[1] }) {
			return true
		}
	}
	return false
}

func (q *rules) Decide(_ context.Context, t *filter.Transaction, stage filter.Stage) (original.Decision, bool) {
	if stage != filter.Request && t.Last != stage {
		return original.Decision{}, false
	}
	if slices.ContainsFunc(q.pages, func(page string) bool { return strings.HasPrefix(t.URL, page) }) {
		return original.Decision{By: "redirect"}, true
	}
	name := "default"
	for _, c := range q.sources {
		if c.is(t.Client) && (c.within == "" || q.now(c.within, t) != c.outside) {
			name = c.name
			break
		}
	}
	acl, standard := q.acls[name], q.acls["default"]
	if acl == nil {
		if acl = standard; acl == nil {
			return original.Decision{Refuse: true, By: "no acl"}, true
		}
	}
	pass := acl.pass
	if acl.within != "" && q.now(acl.within, t) == acl.outside {
		if pass = acl.other; !acl.hasElse && standard != nil {
			pass = standard.pass
		}
	}
	for _, word := range pass {
		dest, not := strings.CutPrefix(word, "!")
		switch {
		case dest == "all" || dest == "any":
			return original.Decision{Refuse: not, By: name + ": " + word}, true
		case dest == "none":
			return original.Decision{Refuse: !not, By: name + ": " + word}, true
		case dest == "in-addr":
			if _, err := netip.ParseAddr(t.Host); err == nil {
				return original.Decision{Refuse: not, By: name + ": " + word}, true
			}
		case q.holds(dest, t):
			return original.Decision{Refuse: not, By: name + ": " + word}, true
		}
	}
	return original.Decision{Refuse: len(pass) == 0, By: name + ": nothing fits"}, true
}

// holds reports whether a destination contains a request, and its time is now.
func (q *rules) holds(name string, t *filter.Transaction) bool {
	d := q.dests[name]
	return d.has(t) && (d.within == "" || q.now(d.within, t) != d.outside)
}

// is reports whether a client belongs to a source. If addresses and users are
// given, both must match.
func (c *clients) is(who filter.Client) bool {
	at := slices.ContainsFunc(c.networks, func(p netip.Prefix) bool { return p.Contains(who.Addr) })
	named := who.User != "" && slices.Contains(c.users, who.User)
	switch {
	case len(c.networks) == 0:
		return named
	case len(c.users) == 0:
		return at
	}
	return at && named
}

// hostNumbers matches the part that squidGuard removes from the front of a URL's
// host.
var hostNumbers = regexp.MustCompile(`^(www|web|ftp)[0-9]*\.`)

func (d *target) has(t *filter.Transaction) bool {
	if d == nil {
		return false
	}
	if input.FirstParent(t.Host, func(name string) bool { return d.domains[name] }) != "" {
		return true
	}
	url := t.Host
	if t.Request != nil {
		url += strings.ToLower(string(t.Request.Path))
	}
	short := hostNumbers.ReplaceAllString(url, "")
	for at := range len(short) + 1 {
		if (at == len(short) || short[at] == '/' || short[at] == '?') && d.urls[short[:at]] {
			return true
		}
	}
	whole := t.URL
	if whole == "" {
		whole = t.Host
	}
	return slices.ContainsFunc(d.expressions, func(x *regexp.Regexp) bool { return x.MatchString(whole) })
}
