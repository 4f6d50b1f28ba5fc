package importer

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"shuultuur/filter"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/setting"
)

// A privoxySection has patterns that share actions. Of the sections with a pattern for a
// request, the last one in all files decides whether it is blocked.
type privoxySection struct {
	place
	actions  string // the text between the braces, with aliases replaced
	patterns []place
}

// privoxyAction matches one action of a section: "+name{text}" or "-name".
var privoxyAction = regexp.MustCompile(`([+-])([a-z][a-z0-9-]*)(\{[^}]*\})?`)

// blocks reports whether a section blocks or allows; says is false if it does
// neither.
func (s *privoxySection) blocks() (block, says bool) { return s.switches("block") }

// switches reports whether a section switches an action on or off; says is false if it does neither.
func (s *privoxySection) switches(action string) (on, switches bool) {
	for _, m := range privoxyAction.FindAllStringSubmatch(s.actions, -1) {
		if m[2] == action {
			on, switches = m[1] == "+", true
		}
	}
	return on, switches
}

// privoxyFile reads a file of actions.
func privoxyFile(file string) (all []*privoxySection, err error) {
	aliases, special, long := map[string]string{}, "", ""
	err = textLines(file, func(n int, b []byte) error {
		if b = privoxyComment(b); len(b) == 0 {
			return nil
		}
		line := long + string(b)
		if rest, more := strings.CutSuffix(line, `\`); more && len(line) < maxLine {
			long = rest
			return nil
		}
		long = ""
		at := place{file: file, line: n, what: line}
		if name, ok := strings.CutPrefix(line, "{{"); ok {
			special, _, _ = strings.Cut(name, "}}")
			return nil
		}
		if strings.HasPrefix(line, "{") && strings.HasSuffix(line, "}") {
			special = ""
			all = append(all, &privoxySection{place: at, actions: privoxyActions(line[1:len(line)-1], aliases)})
			return nil
		}
		switch name, value, ok := strings.Cut(line, "="); {
		case special == "alias" && ok:
			aliases[strings.TrimSpace(name)] = privoxyActions(strings.TrimSpace(value), aliases)
		case special == "" && len(all) > 0:
			last := all[len(all)-1]
			last.patterns = append(last.patterns, at)
		}
		return nil
	})
	return all, err
}

// privoxyComment cuts a comment off; "\#" does not begin one.
func privoxyComment(b []byte) []byte {
	for i := range b {
		if b[i] == '#' && (i == 0 || b[i-1] != '\\') {
			return bytes.TrimSpace(b[:i])
		}
	}
	return bytes.ReplaceAll(b, []byte(`\#`), []byte("#"))
}

// privoxyActions replaces aliases.
func privoxyActions(text string, aliases map[string]string) string {
	f := strings.Fields(text)
	for i, word := range f {
		if of, ok := aliases[word]; ok {
			f[i] = of
		}
	}
	text = strings.Join(f, " ")
	return text[:min(len(text), maxLine)]
}

// A privoxyPattern is a pattern for URLs. Either part may be "".
type privoxyPattern struct {
	host, port, path string
	expr             bool // host is an expression
}

// privoxyURL splits a pattern. Patterns of tags are not about URLs.
func privoxyURL(text string) (p privoxyPattern, ok bool) {
	for _, tag := range []string{"TAG:", "CLIENT-TAG:", "NO-REQUEST-TAG:", "NO-RESPONSE-TAG:"} {
		if strings.HasPrefix(text, tag) {
			return p, false
		}
	}
	p.host, p.expr = strings.CutPrefix(text, "PCRE-HOST-PATTERN:")
	if i := strings.IndexByte(text, '/'); i >= 0 {
		p.host, p.path = text[:i], text[i:]
	}
	if strings.HasPrefix(p.host, "<") {
		return p, false // an IPv6 address
	}
	p.host, p.port, _ = strings.Cut(p.host, ":")
	if p.path == "/" {
		p.path = ""
	}
	return p, true
}

// expression returns the pattern for host and path as one expression.
func (p privoxyPattern) expression() string {
	if p.expr {
		rest, ends := strings.CutSuffix(squidPattern("dstdom_regex", p.host), "(?:/|$)")
		if p.path == "" && !ends {
			return rest
		}
		return rest + cmp.Or(p.path, "(/|$)")
	}
	var b strings.Builder
	b.WriteByte('^')
	body := strings.Trim(p.host, ".")
	switch {
	case body == "":
		b.WriteString("[^/]*")
	case strings.HasPrefix(p.host, "."):
		b.WriteString(`([^/.]+\.)*`)
		fallthrough
	default:
		for i := 0; i < len(body); i++ {
			switch c := body[i]; c {
			case '*':
				b.WriteString("[^/.]*")
			case '?':
				b.WriteString("[^/.]")
			case '[', ']', '-':
				b.WriteByte(c)
			default:
				b.WriteString(regexp.QuoteMeta(string(c)))
			}
		}
		if strings.HasSuffix(p.host, ".") {
			b.WriteString(`(\.[^/.]+)*`)
		}
	}
	if p.path == "" {
		b.WriteString("(/|$)")
	} else {
		b.WriteString(p.path)
	}
	return b.String()
}

// name returns the host if the pattern is only about a host, with or without its subdomains.
func (p privoxyPattern) name() (name string, below, ok bool) {
	name, below = strings.CutPrefix(p.host, ".")
	return name, below, p.path == "" && !p.expr && name != "" && !strings.ContainsAny(name, "*?[]") && !strings.HasSuffix(name, ".")
}

// readPrivoxy makes a rule from every section that says whether to block. The last section
// comes first, because in our settings the first rule that matches decides.
func readPrivoxy(w *work, file string) error {
	conf := &privoxyConf{plain: &plain{work: w}, dir: filepath.Dir(file)}
	if !isFile(file) {
		conf.dir = file
	}
	type option struct {
		at         place
		key, value string
	}
	var options []option
	all, err := privoxySections(file, func(at place, key, value string) { options = append(options, option{at, key, value}) })
	if err != nil {
		return err
	}
	conf.decrypts(all)
	for _, o := range options {
		conf.at = o.at
		n := conf.privoxyOption(o.key, o.value)
		n.place, n.What = o.at, o.at.what
		if n.Kind == Lost && n.Why == "" {
			n.Why = noneOfOurs
		}
		w.rep.add(n)
	}
	if w.set.Proxy.Upstream.Parent == "" {
		w.set.Proxy.Upstream.NoParent = nil // it is an exception from nothing
	}
	p := policy.Policy{Name: "everyone"}
	for i := len(all); i > 0; {
		i--
		group := []*privoxySection{all[i]}
		block, says := all[i].blocks()
		for ; says && i > 0; i-- { // adjacent sections with the same effect become one rule
			if b, also := all[i-1].blocks(); !also || b != block {
				break
			}
			group = append(group, all[i-1])
		}
		if !says {
			conf.section(all[i])
			continue
		}
		action, name := "allow", fmt.Sprintf("allow-%d", i+1)
		if block {
			action, name = "block", fmt.Sprintf("block-%d", i+1)
		}
		categories, err := privoxyLists(w, name, group)
		if err != nil {
			return err
		}
		for _, s := range group {
			w.rep.add(&Note{Kind: Carried, place: s.place, What: s.what, Ours: "rule " + name})
			conf.reportEffects(s)
		}
		if len(categories) > 0 && len(p.Rules) < maxRules {
			p.Rules = append(p.Rules, policy.Rule{Name: name, Action: action, Category: categories})
		} else if len(categories) > 0 {
			w.rep.add(&Note{Kind: Lost, place: group[0].place, What: group[0].what, Ours: "rule " + name, Why: fmt.Sprintf("a policy has %d rules: put sections of the same action beside each other", maxRules)})
		}
	}
	return conf.finish(p)
}

// privoxyPages is the end of the names of categories whose patterns are about paths, too.
const privoxyPages = "-pages"

// privoxyLists writes the lists of a rule: names with subdomains, names alone,
// and expressions. It returns their categories.
func privoxyLists(w *work, name string, sections []*privoxySection) (categories []string, err error) {
	var kinds [6][]place
	at := sections[0].place
	for _, s := range sections {
		for _, line := range s.patterns {
			p, ok := privoxyURL(line.what)
			if !ok {
				w.rep.add(&Note{Kind: Lost, place: line, What: line.what, Ours: "rules: header, networks", Why: "a pattern of tags, not of URLs: write a rule with header for it"})
				continue
			}
			if p.port != "" && strings.Trim(p.host, ".*") == "" {
				w.rep.add(&Note{Kind: Lost, place: line, What: line.what, Ours: "proxy.safe-ports", Why: "a rule does not ask for ports: write under proxy: safe-ports and connect-ports those that are left"})
				continue
			}
			n := &Note{Kind: Carried, place: line, What: line.what, Ours: "lists." + name}
			if p.port != "" {
				n.Kind, n.Why = Changed, "for all ports"
			}
			host, below, plain := p.name()
			if !strings.Contains(host, ".") {
				plain = plain && below
				host = "." + host // a list accepts a whole top-level domain only in this form
			}
			switch {
			case !plain:
				kind := 2
				if _, err := regexp.Compile(p.expression()); err != nil {
					kind = 3 // it may have look-around
				}
				if p.path != "" {
					kind += 2
				}
				kinds[kind] = append(kinds[kind], place{line.file, line.line, p.expression() + "(?:)"}) // keeps a "/" at the end
			case below:
				kinds[0] = append(kinds[0], place{line.file, line.line, host})
			default:
				kinds[1] = append(kinds[1], place{line.file, line.line, host})
			}
			w.rep.add(n)
		}
	}
	return privoxyWrite(w, name, at, kinds)
}

// privoxyWrite writes a list of each kind of pattern.
func privoxyWrite(w *work, name string, at place, kinds [6][]place) (categories []string, err error) {
	for i, lines := range kinds {
		if len(lines) == 0 {
			continue
		}
		cfg := list.Config{Category: name, Format: list.Domains, Match: list.Boundary}
		file := name + []string{"", "-exact", "-expressions", "-looking-around", "-paths", "-paths-looking-around"}[i]
		switch i {
		case 1:
			cfg.Subdomains = new(bool)
		case 2, 4:
			cfg.Format = list.Expressions
		case 3, 5:
			cfg.Format = list.E2guardianRegexp // supports Perl's syntax
		}
		if i > 3 {
			cfg.Category += privoxyPages
		}
		path, err := w.ownLines(file, lines)
		if err != nil {
			return nil, err
		}
		cfg.Path = setting.Source(path)
		made, err := w.addList(file, cfg, at)
		if err != nil {
			return nil, err
		}
		if c := "category/" + cfg.Category; made != "" && !slices.Contains(categories, c) {
			categories = append(categories, c)
		}
	}
	return categories, nil
}

// privoxySource decides as Privoxy does.
type privoxySource struct {
	rules []privoxyRule // the last one first
}

type privoxyRule struct {
	block bool
	at    place
	port  string
	host  *regexp.Regexp
	path  *regexp.Regexp // nil for all
}

func newPrivoxySource(s *Source, file string) (sourceRules, error) {
	all, err := privoxySections(file, func(at place, key, value string) {
		switch {
		case key == "actionsfile" && !filepath.IsAbs(value), key == "trustfile", key == "permit-access", key == "deny-access":
			s.noteUntested("%s: %s", at, at.what)
		}
	})
	if err != nil {
		return nil, err
	}
	p := &privoxySource{}
	for _, section := range all {
		block, says := section.blocks()
		if !says {
			continue
		}
		for _, at := range section.patterns {
			url, ok := privoxyURL(at.what)
			if !ok {
				s.noteUntested("%s: %s is about tags", at, at.what)
				continue
			}
			r := privoxyRule{block: block, at: at, port: url.port}
			var err, bad error
			r.host, err = regexp.Compile("(?i)" + privoxyPattern{host: url.host, expr: url.expr}.expression())
			if url.path != "" {
				r.path, bad = regexp.Compile("(?i)^(?:" + url.path + ")")
			}
			if err = cmp.Or(err, bad); err != nil {
				s.noteUntested("%s: %v", at, err)
				continue
			}
			p.rules = append(p.rules, r)
		}
	}
	slices.Reverse(p.rules)
	return p, nil
}

func (p *privoxySource) decide(_ context.Context, t *filter.Transaction, stage filter.Stage) (decision, bool) {
	if stage != filter.Request && t.Last != stage {
		return decision{}, false
	}
	path := "/"
	if t.Request != nil {
		path = string(t.Request.Path)
	}
	for _, r := range p.rules {
		if (r.port == "" || hasPort(r.port, t.Port)) && r.host.MatchString(t.Host) && (r.path == nil || r.path.MatchString(path)) {
			return decision{r.block, r.at.String()}, true
		}
	}
	return decision{by: "no pattern"}, true
}
