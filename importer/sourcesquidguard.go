package importer

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
)

// squidGuardSource decides as squidGuard does: the first source that the client belongs to, its
// acl at that time, and the first word of the acl that matches.
type squidGuardSource struct {
	db      string
	times   map[string][]statement
	dests   map[string]*squidGuardDest
	sources []*squidGuardClients
	acls    map[string]*squidGuardACL
}

type squidGuardDest struct {
	domains     map[string]bool
	urls        map[string]bool
	expressions []*regexp.Regexp
	within      string
	outside     bool
}

type squidGuardClients struct {
	name, within string
	outside      bool
	networks     []netip.Prefix
	users        []string
}

// squidGuardACL has the rules within a time, and outside it.
type squidGuardACL struct {
	within      string
	outside     bool
	pass, other []string
	hasElse     bool
}

func newSquidGuardSource(s *Source, file string) (sourceRules, error) {
	file = fileIn(file, "squidGuard.conf")
	all, err := statements(file)
	if err != nil {
		return nil, err
	}
	q := &squidGuardSource{db: filepath.Dir(file), times: map[string][]statement{}, dests: map[string]*squidGuardDest{}, acls: map[string]*squidGuardACL{}}
	for i := 0; i < len(all); i++ {
		x := all[i]
		if len(x.words) > 1 && x.words[0] == "dbhome" {
			q.db = findFile(filepath.Dir(file), x.words[1])
		}
		if x.end != '{' {
			continue
		}
		n := blockEnd(all[i+1:])
		if n < 0 || len(x.words) == 0 {
			return nil, fmt.Errorf("%s: the block is not closed or has no name", x.place)
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

func (q *squidGuardSource) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(q.db, name)
}

func (q *squidGuardSource) source(s *Source, words []string, body []statement) {
	if len(words) == 0 {
		return
	}
	c := &squidGuardClients{name: words[0]}
	if len(words) > 2 {
		c.within, c.outside = words[2], words[1] == "outside"
	}
	add := func(word string) {
		nets, ok := networks(word)
		if !ok {
			s.noteUntested("source %s: %q", c.name, word)
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
			if err := s.linesOf(q.path(values[0]), func(_ int, line string) {
				switch line, _, _ = strings.Cut(line, "#"); {
				case strings.TrimSpace(line) == "":
				case x.words[0] == "iplist":
					add(strings.TrimSpace(line))
				default:
					user, _, _ := strings.Cut(strings.TrimSpace(line), ":")
					c.users = append(c.users, user)
				}
			}); err != nil {
				s.noteUntested("source %s: %v", c.name, err)
			}
		case "within", "outside":
			c.within, c.outside = values[0], x.words[0] == "outside"
		default:
			s.noteUntested("source %s: %s", c.name, x.what)
		}
	}
	q.sources = append(q.sources, c)
}

func (q *squidGuardSource) dest(s *Source, name string, body []statement) {
	d := &squidGuardDest{domains: map[string]bool{}, urls: map[string]bool{}}
	q.dests[name] = d
	for _, x := range body {
		if len(x.words) == 2 && (x.words[0] == "within" || x.words[0] == "outside") {
			d.within, d.outside = x.words[1], x.words[0] == "outside"
		}
		if len(x.words) < 2 || !strings.HasSuffix(x.words[0], "list") {
			continue
		}
		err := s.linesOf(q.path(x.words[len(x.words)-1]), func(n int, line string) {
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
					s.noteUntested("%s:%d: %v", x.words[1], n, err)
					return
				}
				d.expressions = append(d.expressions, e)
			}
		})
		if err != nil {
			s.noteUntested("dest %s: %v", name, err)
		}
	}
}

func (q *squidGuardSource) acl(body []statement) {
	pass := func(body []statement) (all []string) {
		for _, x := range body {
			if len(x.words) > 1 && x.words[0] == "pass" {
				all = append(all, strings.FieldsFunc(strings.Join(x.words[1:], " "), func(r rune) bool { return r == ' ' || r == ',' })...)
			}
		}
		return all
	}
	var last *squidGuardACL
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
		last = &squidGuardACL{pass: pass(inner)}
		if len(x.words) > 2 {
			last.within, last.outside = x.words[2], x.words[1] == "outside"
		}
		q.acls[x.words[0]] = last
	}
}

// now reports whether a named time is now.
func (q *squidGuardSource) now(name string, t *filter.Transaction) bool {
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

func (q *squidGuardSource) decide(_ context.Context, t *filter.Transaction, stage filter.Stage) (decision, bool) {
	if stage != filter.Request && t.Last != stage {
		return decision{}, false
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
			return decision{true, "no acl"}, true
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
			return decision{not, name + ": " + word}, true
		case dest == "none":
			return decision{!not, name + ": " + word}, true
		case dest == "in-addr":
			if _, err := netip.ParseAddr(t.Host); err == nil {
				return decision{not, name + ": " + word}, true
			}
		case q.holds(dest, t):
			return decision{not, name + ": " + word}, true
		}
	}
	return decision{len(pass) == 0, name + ": nothing fits"}, true
}

// holds reports whether a destination contains a request, and its time is now.
func (q *squidGuardSource) holds(name string, t *filter.Transaction) bool {
	d := q.dests[name]
	return d.has(t) && (d.within == "" || q.now(d.within, t) != d.outside)
}

// is reports whether a client belongs to a source. If addresses and users are
// given, both must match.
func (c *squidGuardClients) is(who filter.Client) bool {
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

func (d *squidGuardDest) has(t *filter.Transaction) bool {
	if d == nil {
		return false
	}
	if firstParent(t.Host, func(name string) bool { return d.domains[name] }) != "" {
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
