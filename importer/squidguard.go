package importer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"shuultuur/list"

	"shuultuur/policy"
	"shuultuur/setting"
)

// A statement is a line of squidGuard.conf, or the part of one up to a brace.
type statement struct {
	words []string
	end   byte // '{', '}' or '\n'
	place
}

// noBlock is the reason for a block that squidGuard does not know.
const noBlock = "not a block of squidGuard 1.6"

// maxStatements is the most statements of a squidGuard.conf.
const maxStatements = 200_000

// statements cuts squidGuard.conf into statements.
func statements(file string) (all []statement, err error) {
	err = textLines(file, func(n int, s []byte) error {
		if s[0] == '#' {
			return nil
		}
		if i := bytes.Index(s, []byte(" #")); i >= 0 {
			s = s[:i]
		}
		at := place{file: file, line: n, what: string(bytes.TrimSpace(s))}
		for len(s) > 0 {
			if len(all) > maxStatements {
				return fmt.Errorf("%s: there are more than %d statements: divide the file", at, maxStatements)
			}
			i := bytes.IndexAny(s, "{}")
			if i < 0 {
				all = splitStatements(all, strings.Fields(string(s)), at)
				break
			}
			words := strings.Fields(string(s[:i]))
			if s[i] == '}' && len(words) > 0 {
				all = splitStatements(all, words, at)
				words = nil
			}
			all = append(all, statement{words, s[i], at})
			s = bytes.TrimSpace(s[i+1:])
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no statement", file)
	}
	return all, err
}

// splitStatements adds the statements of a line, each of which begins with its own keyword.
func splitStatements(all []statement, words []string, at place) []statement {
	for len(words) > 0 {
		n := 1
		for n < len(words) && (words[0] == "user" || !slices.Contains([]string{"pass", "redirect", "rewrite", "domainlist", "urllist", "expressionlist", "userlist", "iplist", "log"}, words[n])) {
			n++
		}
		all = append(all, statement{words[:n], '\n', at})
		words = words[n:]
	}
	return all
}

// squid is the import of a squidGuard.conf.
type squid struct {
	*work
	file, db string
	times    map[string]*calendar
	dests    map[string]*dest
	sources  []*source
	acls     map[string]*acl // by source
}

type dest struct {
	name       string
	categories []string
	redirect   string
	when       *calendar // nil means always
}

type source struct {
	name            string
	networks, users []string
	within          string
	outside         bool
	place
}

// An acl sets the rights of a source at a time, and otherwise.
type acl struct {
	within   string
	outside  bool
	then     branch
	hasElse  bool
	elseThen branch
	place
}

type branch struct {
	pass     []string
	redirect string
	safe     bool // a rewrite makes search engines safe
	place
}

func (w *work) squidGuard(file string) error {
	file = fileIn(file, "squidGuard.conf")
	all, err := statements(file)
	if err != nil {
		return err
	}
	q := &squid{work: w, file: file, db: filepath.Dir(file), times: map[string]*calendar{}, dests: map[string]*dest{}, acls: map[string]*acl{}}
	safe := map[string]bool{}
	for i := 0; i < len(all); i++ {
		s := all[i]
		body := all[i+1:]
		if s.end == '{' {
			n := blockEnd(body)
			if n < 0 {
				return fmt.Errorf("%s: the block is not closed", s.place)
			}
			body, i = body[:n], i+1+n
		}
		name := ""
		if len(s.words) > 1 {
			name = s.words[1]
		}
		switch {
		case len(s.words) == 0:
		case s.end == '\n' && s.words[0] == "dbhome" && name != "":
			q.db = findFile(filepath.Dir(file), name)
			w.rep.add(&Note{Kind: Carried, place: s.place, What: s.what, Ours: "path of lists"})
		case s.end == '\n':
			w.rep.add(&Note{Kind: Lost, place: s.place, What: s.what, Why: whyNoLine(s.words[0])})
		case s.words[0] == "time" && name != "":
			q.time(name, body)
		case (s.words[0] == "src" || s.words[0] == "source") && name != "":
			q.source(name, s, body)
		case (s.words[0] == "dest" || s.words[0] == "destination") && name != "":
			if err := q.dest(name, s, body); err != nil {
				return err
			}
		case (s.words[0] == "rew" || s.words[0] == "rewrite") && name != "":
			safe[name] = q.rewrite(name, s, body)
		case s.words[0] == "acl":
			q.acl(body, safe)
		case s.words[0] == "else":
			w.rep.add(&Note{Kind: Lost, place: s.place, What: s.what, Why: "the block before applies at its time, and no block at other times"})
		default:
			w.rep.add(&Note{Kind: Lost, place: s.place, What: s.what, Why: noBlock})
		}
	}
	return cmp.Or(w.rep.checkKnown(), q.policies())
}

// blockEnd is the index of the statement that closes a block.
func blockEnd(body []statement) int {
	depth := 0
	for i, s := range body {
		switch s.end {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

func (q *squid) source(name string, at statement, body []statement) {
	src := &source{name: name, place: at.place}
	src.within, src.outside = q.parseTimed(at)
	addNetwork := func(p place, word string) {
		nets, ok := networks(word)
		if !ok {
			q.rep.add(&Note{Kind: Line, place: p, What: fmt.Sprintf("%q is neither an address nor a network nor a range", word), Why: "left out"})
		}
		if len(src.networks) <= maxNetworks {
			src.networks = append(src.networks, nets...)
		}
	}
	for _, s := range body {
		if len(s.words) == 0 {
			continue
		}
		values := strings.FieldsFunc(strings.Join(s.words[1:], " "), func(r rune) bool { return r == ' ' || r == ',' })
		ours := "networks"
		switch s.words[0] {
		case "ip":
			for _, v := range values {
				addNetwork(s.place, v)
			}
		case "user":
			src.users, ours = append(src.users, values...), "users"
		case "iplist", "userlist":
			if len(values) == 0 {
				continue
			}
			err := textLines(q.path(values[0]), func(n int, l []byte) error {
				if l = cutNote(l); len(l) == 0 {
					return nil
				}
				if s.words[0] == "iplist" {
					addNetwork(place{file: q.path(values[0]), line: n}, string(l))
				} else {
					name, _, _ := strings.Cut(string(l), ":")
					src.users = append(src.users, name)
				}
				return nil
			})
			if err != nil {
				q.rep.add(&Note{Kind: Lost, place: s.place, What: s.what, Why: err.Error()})
				continue
			}
			if s.words[0] == "userlist" {
				ours = "users"
			}
		case "within", "outside":
			if len(values) > 0 {
				src.within, src.outside, ours = values[0], s.words[0] == "outside", "schedule"
			}
		default:
			q.rep.add(&Note{Kind: Lost, place: s.place, What: s.what, Why: whyNoClient(s.words[0])})
			continue
		}
		q.rep.add(&Note{Kind: Carried, place: s.place, What: s.what, Ours: fmt.Sprintf("%s of policy %q", ours, name)})
	}
	q.sources = append(q.sources, src)
}

func (q *squid) path(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(q.db, name)
}

func (q *squid) dest(name string, at statement, body []statement) error {
	d := &dest{name: name}
	if within, outside := q.parseTimed(at); within != "" {
		d.when = q.within(within, outside, at.place)
	}
	q.dests[name] = d
	var domains *index
	for _, s := range body {
		if len(s.words) < 2 {
			continue
		}
		cfg := list.Config{Format: list.Domains, Category: name, Match: list.Boundary}
		switch s.words[0] {
		case "domainlist":
		case "urllist":
			cfg.Match = list.Prefix
		case "expressionlist":
			cfg.Format = list.Expressions
		case "redirect":
			d.redirect = strings.Join(s.words[1:], " ")
			q.redirected(s)
			continue
		case "within", "outside":
			if d.when = q.within(s.words[1], s.words[0] == "outside", s.place); d.when != nil {
				q.rep.add(&Note{Kind: Carried, place: s.place, What: s.what, Ours: "schedule of the rules"})
			}
			continue
		default:
			q.rep.add(&Note{Kind: Lost, place: s.place, What: s.what, Why: "the record is kept in full; shuultuur events searches it"})
			continue
		}
		cfg.Path = setting.Source(q.path(s.words[len(s.words)-1]))
		if !isFile(string(cfg.Path)) {
			q.rep.add(&Note{Kind: Lost, place: s.place, What: s.what, Why: fmt.Sprintf("the list file %q is not there", cfg.Path)})
			continue
		}
		listName, err := q.addList(name+"-"+strings.TrimSuffix(s.words[0], "list"), cfg, s.place)
		if err != nil {
			return err
		}
		if listName == "" {
			continue
		}
		d.categories = []string{"category/" + name}
		if cfg.Format == list.Domains {
			x := q.lint(string(cfg.Path), cfg.Match == list.Prefix)
			if cfg.Match == list.Boundary {
				domains = x
				reportShadows(q.work, x, x, "a wider entry of the same list covers it")
			} else {
				reportShadows(q.work, x, domains, "the whole site is in the domain list")
			}
		}
	}
	return nil
}

// lint looks for lines that squidGuard never matches, and for duplicates.
func (q *squid) lint(path string, urls bool) *index {
	x := newIndex(path)
	x.hostsOnly = true
	f, err := readWhole(path)
	if err != nil {
		return x // compiled already, so it is only too large to compare
	}
	_ = eachLine(path, bytes.NewReader(f), func(n int, s []byte) error {
		at := place{file: path, line: n}
		if s[0] == '#' {
			return nil
		}
		dead := ""
		switch {
		case bytes.Contains(s, []byte("://")):
			dead = "has a scheme"
		case s[0] == '.':
			dead = "begins with a dot"
		case !urls && bytes.IndexByte(s, '/') >= 0:
			dead = "has a path in a domain list"
		}
		if dead != "" {
			q.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q %s, so squidGuard never finds it", s, dead), Why: "ours does", Mend: entryKey(s)})
		}
		if before, twice := x.add(entryKey(s), at); twice {
			q.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q is in line %d already", s, before.line)})
		}
		return nil
	})
	return x
}

func (q *squid) rewrite(name string, at statement, body []statement) (safe bool) {
	if within, _ := q.parseTimed(at); within != "" {
		q.rep.add(&Note{Kind: Changed, place: at.place, What: at.what, Ours: "safesearch", Why: "it applies at all times, as a policy has it on or off"})
	}
	for _, s := range body {
		low := strings.ToLower(s.what)
		if strings.Contains(low, "safe=") || strings.Contains(low, "adlt=") || strings.Contains(low, "vm=r") || strings.Contains(low, "safesearch") {
			safe = true
			q.rep.add(&Note{Kind: Changed, place: s.place, What: s.what, Ours: "safesearch: true", Why: "the preset covers current search engines"})
			continue
		}
		why := "requests are not rewritten by expressions; a rule with action: redirect leads from a URL to another"
		if len(s.words) > 0 && s.words[0] == "log" {
			why = "the record is kept in full; shuultuur events searches it"
		}
		if len(s.words) > 0 {
			q.rep.add(&Note{Kind: Lost, place: s.place, What: s.what, Why: why})
		}
	}
	return safe
}

// acl reads the acl block: for each source its branches.
func (q *squid) acl(body []statement, safe map[string]bool) {
	for i := 0; i < len(body); i++ {
		s := body[i]
		if s.end != '{' || len(s.words) == 0 {
			continue
		}
		n := blockEnd(body[i+1:])
		if n < 0 {
			return
		}
		inner := body[i+1 : i+1+n]
		i += 1 + n
		a := &acl{place: s.place, then: q.branch(inner, s.place, safe)}
		if len(s.words) > 2 {
			a.within, a.outside = s.words[2], s.words[1] == "outside"
		}
		if i+1 < len(body) && len(body[i+1].words) > 0 && body[i+1].words[0] == "else" && body[i+1].end == '{' {
			if n := blockEnd(body[i+2:]); n >= 0 {
				a.hasElse, a.elseThen = true, q.branch(body[i+2:i+2+n], body[i+1].place, safe)
				i += 2 + n
			}
		}
		q.acls[s.words[0]] = a
	}
}

func (q *squid) branch(body []statement, at place, safe map[string]bool) (b branch) {
	b.place = at
	for _, s := range body {
		if len(s.words) < 2 {
			continue
		}
		switch s.words[0] {
		case "pass":
			b.place = s.place
			b.pass = append(b.pass, strings.FieldsFunc(strings.Join(s.words[1:], " "), func(r rune) bool { return r == ' ' || r == ',' })...)
		case "redirect":
			b.redirect = strings.Join(s.words[1:], " ")
			q.redirected(s)
		case "rewrite", "rew":
			on, known := safe[s.words[1]]
			b.safe = b.safe || on
			switch {
			case on:
				q.rep.add(&Note{Kind: Carried, place: s.place, What: s.what, Ours: "safesearch"})
			case !known:
				q.rep.add(&Note{Kind: Lost, place: s.place, What: s.what, Why: "there is no rewrite of that name before it"})
			default:
				q.rep.add(&Note{Kind: Lost, place: s.place, What: s.what, Why: "nothing of that rewrite is carried over"})
			}
		default:
			q.rep.add(&Note{Kind: Lost, place: s.place, What: s.what, Why: "the record is kept in full; shuultuur events searches it"})
		}
	}
	return b
}

// policies makes a policy for each source, in the order of definition, and for the default.
func (q *squid) policies() error {
	standard := q.acls["default"]
	if standard == nil {
		standard = &acl{then: branch{pass: []string{"none"}, place: place{file: q.file}}}
	}
	known := map[string]bool{"default": true}
	for _, s := range q.sources {
		known[s.name] = true
		a := q.acls[s.name]
		if a == nil {
			a = standard
			q.rep.add(&Note{Kind: Changed, place: s.place, What: "source " + s.name, Ours: "the rules of default", Why: "no acl is for it"})
		}
		if len(s.networks)+len(s.users) == 0 {
			q.rep.add(&Note{Kind: Lost, place: s.place, What: "source " + s.name, Why: "none of its clients is known"})
			continue
		}
		q.policy(s, a, standard)
	}
	for _, name := range sortedKeys(q.acls) {
		if !known[name] {
			q.rep.add(&Note{Kind: Lost, place: q.acls[name].place, What: "acl " + name, Why: "there is no source of that name"})
		}
	}
	q.policy(&source{name: "default"}, standard, standard)
	return nil
}

func (q *squid) policy(s *source, a, standard *acl) {
	put := func(name string, b branch, when *calendar) {
		schedule, ok := when.schedule()
		if !ok {
			q.rep.add(&Note{Kind: Empty, place: b.place, What: "policy " + name, Why: "it would never apply"})
			return
		}
		q.set.Policies = append(q.set.Policies, policy.Policy{Name: name, Networks: policyNetworks(q.work, s.place, s.networks), Users: s.users,
			Schedule: schedule, SafeSearch: b.safe, Rules: q.rules(b, standard.then.redirect)})
	}
	second := a.elseThen
	if !a.hasElse {
		second = standard.then
	}
	outer := q.within(s.within, s.outside, s.place)
	switch inner := q.times[a.within]; {
	case a.within == "":
		put(s.name, a.then, outer)
	case inner == nil:
		q.rep.add(&Note{Kind: Lost, place: a.place, What: "time " + a.within, Why: "it is unknown, so what applies outside of it is used"})
		if a.outside {
			second = a.then
		}
		put(s.name, second, outer)
	default:
		put(s.name, a.then, outer.and(q.within(a.within, a.outside, a.place)))
		put(s.name+" else", second, outer)
	}
}

// redirected notes that a redirect is carried over. If we cannot redirect there, the notes on
// its rules say so.
func (q *squid) redirected(s statement) {
	to := strings.Join(s.words[1:], " ")
	if _, ok := redirectTo(to); !ok {
		return
	}
	n := &Note{Kind: Carried, place: s.place, What: s.what, Ours: "action: redirect", Why: redirectChange(to)}
	if n.Why != "" {
		n.Kind = Changed
	}
	q.rep.add(n)
}

// redirectChange returns how our redirect to the same page differs, or "".
func redirectChange(to string) string {
	var all []string
	if strings.HasPrefix(to, "301:") || strings.HasPrefix(to, "308:") {
		all = append(all, "a redirect is temporary, as rules change")
	}
	for len(to) > 0 {
		_, rest, ok := strings.Cut(to, "%")
		if !ok || rest == "" {
			break
		}
		switch rest[0] {
		case 'n':
			all = append(all, "%n becomes the client's address, since its name is not looked up")
		case 'p', 'q':
			all = append(all, "%"+rest[:1]+" is left out: {url} has the whole address")
		}
		to = rest[1:]
	}
	return strings.Join(slices.Compact(all), "; ")
}

// whyNoLine returns the reason why a line outside all blocks is not carried
// over.
func whyNoLine(word string) string {
	if strings.HasPrefix(word, "ldap") || strings.HasPrefix(word, "mysql") {
		return whyNoClient("ldap")
	}
	return whyNot(word)
}

// whyNoClient returns the reason why a condition on clients is not carried over,
// and the remedy.
func whyNoClient(word string) string {
	switch {
	case strings.HasPrefix(word, "ldap"):
		return "groups of the policy and identity.basic.ldap find people in a directory: write its address there, and the group here"
	case word == "execuserlist" || word == "userquery":
		return "no program or database is asked for names: write them into users of the policy, or ask a directory with identity.basic.ldap"
	case word == "log" || word == "logfile":
		return "the record is kept in full; shuultuur events searches it"
	case word == "domain":
		return "clients are identified by address and user: write the networks of that domain"
	}
	return "clients are identified by address and user"
}

// rules makes rules from a pass list. The first that matches counts in squidGuard, too.
func (q *squid) rules(b branch, standard string) (rules []policy.Rule) {
	refuse := func(name string, categories []string, to string) {
		r := policy.Rule{Name: name, Action: "block", Category: categories}
		if to == "" {
			to = b.redirect
		}
		if to == "" {
			to = standard
		}
		switch url, ok := redirectTo(to); {
		case to == "":
			q.rep.add(&Note{Kind: Changed, place: b.place, What: name, Ours: "action: block", Why: "squidGuard has no target for the redirect, and allows it"})
		case !ok:
			q.rep.add(&Note{Kind: Changed, place: b.place, What: "redirect " + to, Ours: "action: block", Why: "not a URL that a redirect of ours can lead to"})
		default:
			r.Action, r.To = "redirect", url
		}
		rules = append(rules, r)
	}
	used := map[string]bool{}
	for _, word := range b.pass {
		name, not := strings.CutPrefix(word, "!")
		if used[word] || len(rules) >= maxRules {
			continue
		}
		used[word] = true
		var categories []string
		var when policy.Schedule
		to := ""
		switch d := q.dests[name]; {
		case word == "any" || word == "all":
			q.rep.add(&Note{Kind: Carried, place: b.place, What: b.what, Ours: "rules"})
			return rules
		case name == "none" || name == "any" || name == "all":
			refuse("everything else", nil, "")
			q.rep.add(&Note{Kind: Carried, place: b.place, What: b.what, Ours: "rules"})
			return rules
		case name == "in-addr":
			categories = q.addresses()
		case d == nil:
			q.rep.add(&Note{Kind: Lost, place: b.place, What: word, Why: "there is no destination of that name"})
			continue
		default:
			var ok bool
			categories, to = d.categories, d.redirect
			if when, ok = d.when.schedule(); !ok {
				q.rep.add(&Note{Kind: Empty, place: b.place, What: word, Why: "its time is empty"})
				continue
			}
		}
		switch {
		case len(categories) == 0:
			q.rep.add(&Note{Kind: Empty, place: b.place, What: word, Why: "nothing is in it, so there is no rule for it"})
		case not:
			refuse(word, categories, to)
			rules[len(rules)-1].Schedule = when
		default:
			rules = append(rules, policy.Rule{Name: word, Action: "allow", Category: categories, Schedule: when})
		}
	}
	if len(b.pass) > 0 {
		q.rep.add(&Note{Kind: Carried, place: b.place, What: b.what, Ours: "rules", Why: "it ends in neither all nor none, so other requests pass", Mend: "none at its end if you want that"})
	} else {
		refuse("everything", nil, "")
		q.rep.add(&Note{Kind: Changed, place: b.place, What: "no pass", Ours: "action: block"})
	}
	return rules
}

var redirectStatus = regexp.MustCompile(`^30[1-7][:|]`)

// redirectTo converts the URL of a redirect.
func redirectTo(s string) (string, bool) {
	s = redirectStatus.ReplaceAllString(strings.TrimSpace(s), "")
	if strings.ContainsAny(s, "{} ") {
		return "", false
	}
	s = strings.NewReplacer("%u", "{url}", "%t", "{category}", "%s", "{policy}", "%a", "{client}", "%n", "{client}", "%i", "{login}", "%p", "", "%q", "", "%%", "%25").Replace(s)
	authority := s
	if _, rest, ok := strings.Cut(s, "://"); ok {
		authority, _, _ = strings.Cut(rest, "/")
	}
	return s, plainURL(s) && !strings.ContainsAny(authority, "{}")
}

// addresses returns the category of hosts that are addresses.
func (w *work) addresses() []string {
	const name = "addresses"
	if _, done := w.byPath[name]; !done {
		w.byPath[name] = ""
		path, err := w.create("addresses", func(to io.Writer) error {
			_, err := io.WriteString(to, "0.0.0.0/0\n::/0\n")
			return err
		})
		if err == nil {
			w.byPath[name], err = w.addList(name, list.Config{Format: list.Networks, Path: setting.Source(path), Match: list.Boundary}, place{file: path, what: "hosts that are addresses"})
		}
		if err = errors.Join(err, w.ctx.Err()); err != nil {
			w.rep.add(&Note{Kind: Lost, place: place{file: path}, What: "hosts that are addresses", Why: err.Error()})
		}
	}
	if w.byPath[name] == "" {
		return nil
	}
	return []string{"category/" + w.byPath[name]}
}
