// Package privoxy imports Privoxy: sections of actions become rules, the last one first, because in our
// settings the first rule that matches decides; the main file is converted line by line.
package privoxy

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// Import makes a rule from every section that says whether to block. The last section
// comes first, because in our settings the first rule that matches decides.
func Import(w *build.Work, file string) error {
	conf := &config{p: &build.Plain{Work: w}, dir: filepath.Dir(file)}
	if !input.IsFile(file) {
		conf.dir = file
	}
	type option struct {
		at         report.Place
		key, value string
	}
	var options []option
	all, err := readSections(file, func(at report.Place, key, value string) { options = append(options, option{at, key, value}) })
	if err != nil {
		return err
	}
	conf.sections = all
	conf.decrypts(all)
	for _, o := range options {
		conf.p.At = o.at
		n := conf.option(o.key, o.value)
		n.Place, n.What = o.at, o.at.Text
		w.Report.Add(n)
	}
	if w.Set.Proxy.Upstream.Parent == "" {
		w.Set.Proxy.Upstream.NoParent = nil // it is an exception from nothing
	}
	p := policy.Policy{Name: "everyone"}
	for i := len(all); i > 0; {
		i--
		group := []*section{all[i]}
		block, says := all[i].blocks()
		for ; says && i > 0; i-- { // adjacent sections with the same effect become one rule
			if b, also := all[i-1].blocks(); !also || b != block {
				break
			}
			group = append(group, all[i-1])
		}
		if !says {
			conf.reportSection(all[i])
			continue
		}
		action, name := "allow", fmt.Sprintf("allow-%d", i+1)
		if block {
			action, name = "block", fmt.Sprintf("block-%d", i+1)
		}
		rules, err := conf.rules(name, action, group)
		if err != nil {
			return err
		}
		for _, s := range group {
			w.Report.Add(&report.Note{Kind: report.Carried, Place: s.Place, What: s.Text, Ours: "rule " + name})
			conf.reportEffects(s)
		}
		if p.Rules = append(p.Rules, rules...); len(p.Rules) >= build.MaxRules {
			n := report.ByHand("a rule that refuses what is left", fmt.Sprintf("a policy has %d rules: put sections of the same action beside each other", build.MaxRules))
			n.Place, n.What = group[0].Place, group[0].Text
			w.Report.Add(n.Closing())
			p.Rules = append(p.Rules[:build.MaxRules-1], policy.Rule{Name: "what other sections decide", Action: "block"})
			break
		}
	}
	return conf.finish(p)
}

// rules makes rules of sections with the same effect: one for patterns without a port, and one for
// each port that patterns name.
func (p *config) rules(name, action string, group []*section) (rules []policy.Rule, err error) {
	byPort, ports := map[string]*section{}, []string{}
	for _, s := range group {
		for _, line := range s.patterns {
			if strings.Contains(line.Text, "(?-i") { // URLs are compared in lower case
				n := report.Differs("lists."+name, "paths are compared without regard to case")
				if action == "allow" {
					n = report.None("paths are compared without regard to case: write those that are meant; until then nothing is allowed by it")
				}
				n.Place, n.What = line, line.Text
				p.p.Work.Report.Add(n.Closing())
				if action == "allow" {
					continue
				}
				line.Text = strings.NewReplacer("(?-i:", "(?:", "(?-i)", "").Replace(line.Text)
			}
			u, _ := parsePattern(line.Text)
			if byPort[u.port] == nil {
				byPort[u.port], ports = &section{Place: s.Place, actions: s.actions}, append(ports, u.port)
			}
			byPort[u.port].patterns = append(byPort[u.port].patterns, line)
		}
	}
	for _, port := range ports {
		r := policy.Rule{Name: name, Action: action}
		if port != "" {
			r.Name = strings.ReplaceAll(name+"-port-"+port, ",", "-")
			if r.Port = input.PortsOf(strings.Split(port, ",")).Words(); r.Port == nil {
				continue // no port at all
			}
		}
		var whole bool
		if r.Category, whole, err = makeLists(p.p.Work, r.Name, []*section{byPort[port]}); err != nil {
			return nil, err
		}
		switch {
		case !whole && action == "block":
			n := report.ByHand("a rule that refuses more", "some of its patterns are not about URLs, or do not compile: until they are changed, all is refused that no later section allows")
			n.Place, n.What = byPort[port].Place, name
			p.p.Work.Report.Add(n.Closing())
			return []policy.Rule{{Name: name, Action: action}}, nil
		case len(r.Category) > 0:
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// pagesSuffix is the end of the names of categories whose patterns are about paths, too.
const pagesSuffix = "-pages"

// makeLists writes the lists of a rule: names with subdomains, names alone,
// and expressions. It returns their categories, and whether all patterns are in them.
func makeLists(w *build.Work, name string, sections []*section) (categories []string, whole bool, err error) {
	var kinds [6][]report.Place
	at := sections[0].Place
	whole = true
	for _, s := range sections {
		for _, line := range s.patterns {
			p, ok := parsePattern(line.Text)
			if !ok {
				whole = false
				w.Report.Add(&report.Note{Kind: report.Lost, Place: line, What: line.Text, Ours: "rules: header, networks", Why: "a pattern of tags, not of URLs: write a rule with header for it"})
				continue
			}
			n := &report.Note{Kind: report.Carried, Place: line, What: line.Text, Ours: "lists." + name}
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
				kinds[kind] = append(kinds[kind], report.Place{File: line.File, Line: line.Line, Text: p.expression() + "(?:)"}) // keeps a "/" at the end
			case below:
				kinds[0] = append(kinds[0], report.Place{File: line.File, Line: line.Line, Text: host})
			default:
				kinds[1] = append(kinds[1], report.Place{File: line.File, Line: line.Line, Text: host})
			}
			w.Report.Add(n)
		}
	}
	w.Partial()
	categories, err = writeLists(w, name, at, kinds)
	return categories, whole && !w.Partial(), err
}

// writeLists writes a list of each kind of pattern.
func writeLists(w *build.Work, name string, at report.Place, kinds [6][]report.Place) (categories []string, err error) {
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
			cfg.Category += pagesSuffix
		}
		path, err := w.OwnLines(file, lines)
		if err != nil {
			return nil, err
		}
		cfg.Path = setting.Source(path)
		made, err := w.AddList(file, cfg, at)
		if err != nil {
			return nil, err
		}
		if c := "category/" + cfg.Category; made != "" && !slices.Contains(categories, c) {
			categories = append(categories, c)
		}
	}
	return categories, nil
}

// config collects everything in Privoxy's main file and actions except blocking.
type config struct {
	p        *build.Plain
	dir      string
	sections []*section

	rootNote             *report.Note // on which the notes about the root are made
	authority, cert, key string       // the root: a folder, and files in it
	trusted              setting.File
	clients              []clients
	opens                bool       // TLS of all hosts is decrypted, with exceptions
	hosts                []*section // sections that say otherwise for some hosts
	decided              bool       // a later section decides for all requests whether TLS is decrypted
	intercepted          bool       // the proxy also gets requests of clients that do not know it
	trust                []policy.Rule
	redirects            []policy.Rule
	kept                 []string // categories that a later section does not redirect
	unknown              bool     // files that may refuse are not there
}

// clients has networks that may or may not use the proxy. The last line that matches
// counts.
type clients struct {
	permit bool
	nets   []policy.Network
}

// closed adds to a policy which connections are not decrypted: those to some hosts, or to all
// but some. Rules about pages do not apply to them.
func (p *config) closed(to *policy.Policy) error {
	var names, expressions []report.Place
	for _, s := range p.hosts {
		for _, at := range s.patterns {
			u, ok := parsePattern(at.Text)
			if !ok {
				p.p.Work.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: at.Text, Ours: "rules", Why: "a pattern of tags, not of URLs: write a rule with action: allow and host for what is to stay closed"})
				continue
			}
			u.path, u.port = "", ""
			name, below, plain := u.name()
			switch open, _ := s.switches("https-inspection"); {
			case !plain && open == p.opens:
				p.p.Work.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: at.Text, Ours: "lists.inspection", Why: "a pattern within other ones: write the hosts that it stands for into the list, each with @@ in front"})
			case !plain:
				expressions = append(expressions, report.Place{File: at.File, Line: at.Line, Text: u.expression()})
			case open == p.opens:
				names = append(names, report.Place{File: at.File, Line: at.Line, Text: "@@||" + name + "^"})
			case below:
				name = "||" + name + "^"
				fallthrough
			default:
				names = append(names, report.Place{File: at.File, Line: at.Line, Text: name})
			}
		}
	}
	some := false
	for i, lines := range [][]report.Place{names, expressions} {
		if len(lines) == 0 || p.p.Work.Set.Cut == nil {
			continue
		}
		path, err := p.p.Work.OwnLines(p.p.Work.FreeName("inspection"), lines)
		if err != nil {
			return err
		}
		cfg := build.ListOfZones(path, "inspection")
		if i == 1 {
			cfg = list.Config{Path: cfg.Path, Category: "inspection", Format: list.Expressions, Match: list.Boundary}
		}
		made, err := p.p.Work.AddList("inspection", cfg, report.Place{File: p.dir, Text: "hosts of https-inspection"})
		if err != nil {
			return err
		}
		some = some || made != ""
	}
	if !some {
		return nil
	}
	hosts := []string{"category/inspection"}
	isPages := func(c string) bool { return strings.HasSuffix(c, pagesSuffix) }
	var byName, all []policy.Rule
	for _, r := range to.Rules {
		names, pages := r, r
		names.Category = slices.DeleteFunc(slices.Clone(r.Category), isPages)
		pages.Category = slices.DeleteFunc(slices.Clone(r.Category), func(c string) bool { return !isPages(c) })
		if len(names.Category) > 0 || len(r.Category) == 0 {
			all = append(all, names)
			names.Name, names.Unless = names.Name+" (closed)", slices.Concat(r.Unless, hosts)
			byName = append(byName, names)
		}
		if len(pages.Category) > 0 {
			pages.Name, pages.Unless = pages.Name+pagesSuffix, slices.Concat(r.Unless, hosts)
			all = append(all, pages)
		}
	}
	if p.opens {
		to.Rules = append(all, policy.Rule{Name: "stays closed", Action: "allow", Category: hosts})
		return nil
	}
	byName = append(byName, policy.Rule{Name: "stays closed", Action: "allow", Unless: hosts})
	to.Rules = append(byName, to.Rules...)
	return nil
}

// finish makes the policies: for some clients, and for everybody.
func (p *config) finish(everyone policy.Policy) error {
	if len(p.p.Work.Set.Policies) > 0 { // made for values of fields
		everyone.Tenants, everyone.YouTube = p.p.Work.Set.Policies[0].Tenants, p.p.Work.Set.Policies[0].YouTube
	}
	everyone.Rules = slices.Concat(p.trust, p.redirects, everyone.Rules)
	if p.unknown {
		everyone.Rules = []policy.Rule{{Name: "what is not known", Action: "block"}}
	}
	for _, ports := range []*setting.OneOrMore[string]{&p.p.Work.Set.Proxy.ConnectPorts, &p.p.Work.Set.Proxy.SafePorts} {
		if *ports == nil { // Privoxy limits ports if it is told to
			*ports = setting.OneOrMore[string]{"any"}
		}
	}
	everyone.Decrypt = p.p.Work.Decrypt
	if err := p.closed(&everyone); err != nil {
		return err
	}
	if p.p.Work.Set.Cut != nil && p.trusted != "" {
		p.p.Work.Set.Cut.Trust = append(p.p.Work.Set.Cut.Trust, p.trusted)
	}
	if len(p.p.Work.Set.Listen.Proxy) == 0 {
		p.p.Work.Set.Listen.Proxy = build.ListenOn("127.0.0.1", 8118) // as Privoxy does
	}
	for _, a := range p.p.Work.Set.Listen.Proxy {
		if host, port, err := net.SplitHostPort(string(a)); err == nil && p.intercepted {
			n, _ := strconv.Atoi(port) // which is one, or check says so
			p.p.Work.Set.Listen.Transparent = append(p.p.Work.Set.Listen.Transparent, build.ListenOn(host, n+1)...)
		}
	}
	p.p.Work.Set.Policies = nil
	for i, c := range slices.Backward(p.clients) {
		if len(c.nets) == 0 {
			continue // nobody whose address is known
		}
		x := everyone
		if x.Name = "permitted"; !c.permit {
			x = policy.Policy{Name: "denied", Rules: []policy.Rule{{Name: "denied", Action: "block"}}}
		}
		if n := len(p.clients) - i; n > 2 { // they alternate
			x.Name = fmt.Sprintf("%s (%d)", x.Name, (n+1)/2)
		}
		x.Networks = c.nets
		p.p.Work.Set.Policies = append(p.p.Work.Set.Policies, x)
	}
	if len(p.clients) > 0 {
		everyone = policy.Policy{Name: "everyone else", Rules: []policy.Rule{{Name: "not permitted", Action: "block"}}}
	}
	p.p.Work.Set.Policies = append(p.p.Work.Set.Policies, everyone)
	return nil
}
