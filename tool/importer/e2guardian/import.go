// Package e2guardian imports the folder of e2guardian or DansGuardian: each filter group becomes a
// policy whose rules are in the order of the shipped storyboard. Lists are compiled where they are,
// or copied where their includes have moved.
//
// Data moves as follows: the main file and those of the groups are read into options and references
// to lists; both are turned into rules, checks and settings; what no part converts is reported with
// a reason.
package e2guardian

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
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

// maxGroups is somewhat more than e2guardian's own limit of filter groups.
const maxGroups = 1000

// maxOptions bounds the options in all files.
const maxOptions = 100_000

// Import reads the folder of e2guardian.conf or dansguardian.conf, or that
// file.
func Import(w *build.Work, dir string) error {
	if input.IsFile(dir) {
		dir = filepath.Dir(dir)
	}
	main, err := mainConf(dir)
	if err != nil {
		return err
	}
	c := &folder{w: w, dir: dir, byPath: map[string]string{}, indexes: map[string]*build.Index{}, blanket: map[string][]report.Place{}, short: map[string]bool{}}
	all, err := c.conf(main, 0)
	if err != nil {
		return err
	}
	lists, opts := c.options(all)
	groups := filterGroups(c, main, lists, opts)
	c.guessVersion(main)
	c.clients(lists)
	members := c.members(lists, opts)
	c.global(opts)
	standard := number(opts, "defaultfiltergroup", 1)
	sharedPhrases(c, groups, opts)
	forAll := c.incomplete
	var last []policy.Policy
	for _, g := range groups {
		c.incomplete = forAll
		p := c.policy(g.number, g.lists, g.opts, opts)
		if g.number == standard {
			if c.strangers {
				p.Rules = []policy.Rule{{Name: "members of groups are not known", Action: "block"}}
			}
			last = append(last, p)
			continue
		}
		covers(c, p, g.number, members[g.number], main)
	}
	w.Set.Policies = append(w.Set.Policies, last...)
	names := map[string]int{}
	for i := range w.Set.Policies {
		p := &w.Set.Policies[i]
		if names[p.Name]++; names[p.Name] > 1 {
			p.Name = fmt.Sprintf("%s %d", p.Name, names[p.Name])
		}
	}
	c.w.Finish()
	c.reportUnnoted()
	return nil
}

// A filterGroup is one file of a filter group.
type filterGroup struct {
	number int
	lists  []ref
	opts   map[string]option
}

// filterGroups reads the files of the filter groups. Without any, the main file is one.
func filterGroups(c *folder, main string, lists []ref, opts map[string]option) (groups []filterGroup) {
	for n := 1; n <= min(max(number(opts, "filtergroups", 1), 1), maxGroups); n++ {
		path := strings.TrimSuffix(main, ".conf") + "f" + strconv.Itoa(n) + ".conf"
		all, err := c.conf(path, 0)
		if err != nil {
			note := report.ByHand("a policy that refuses everything", err.Error()+": copy the file beside the settings and import again")
			note.Place, note.What = report.Place{File: path}, fmt.Sprintf("filter group %d", n)
			if n == 1 && slices.ContainsFunc(lists, func(r ref) bool { return r.typ != "ip" }) && number(opts, "filtergroups", 1) == 1 {
				break // before there were groups, the main file named the lists
			}
			c.w.Report.Add(note.Closing())
			groups = append(groups, filterGroup{number: n, opts: map[string]option{"groupmode": {name: "groupmode", value: "0", Place: note.Place}}})
			continue
		}
		g := filterGroup{number: n}
		g.lists, g.opts = c.options(all)
		for name, o := range opts { // before there were groups, the main file named the phrase lists
			if _, set := g.opts[name]; !set && strings.HasSuffix(name, "phraselist") {
				g.opts[name] = o
			}
		}
		// Before version 5 the main file named some lists; later lists go before them.
		g.lists = append(slices.DeleteFunc(slices.Clone(lists), func(r ref) bool { return r.typ == "ip" }), g.lists...)
		groups = append(groups, g)
	}
	if len(groups) == 0 {
		return append(groups, filterGroup{number: 1, lists: lists, opts: map[string]option{}})
	}
	return groups
}

// covers adds the policy of a group for its users, and again for its addresses.
func covers(c *folder, p policy.Policy, number int, m membership, main string) {
	if len(m.users)+len(m.networks) == 0 {
		c.w.Report.Add(&report.Note{Kind: report.Lost, Place: report.Place{File: main}, What: fmt.Sprintf("filter group %d, %q", number, p.Name), Why: "it has no user and no address, so it covers nobody"})
		return
	}
	if len(m.users) > 0 {
		q := p
		q.Users = m.users
		c.w.Set.Policies = append(c.w.Set.Policies, q)
	}
	if len(m.networks) > 0 {
		if len(m.users) > 0 {
			p.Name += " by address"
		}
		p.Networks = build.PolicyNetworks(c.w, report.Place{File: main}, m.networks)
		c.w.Set.Policies = append(c.w.Set.Policies, p)
	}
}

// reportMoot reports settings that have no effect on a group.
func reportMoot(rep *report.Report, lists []ref, opts map[string]option, why string) {
	for _, r := range lists {
		rep.Add(&report.Note{Kind: report.Default, Place: r.Place, What: r.Text, Why: why})
	}
	for _, name := range slices.Sorted(maps.Keys(opts)) {
		for _, o := range opts[name].every() {
			if name != "groupmode" && name != "groupname" {
				rep.Add(&report.Note{Kind: report.Default, Place: o.Place, What: o.Text, Why: why})
			}
		}
	}
}

// reportUnnoted reports settings that no other note covers.
func (c *folder) reportUnnoted() {
	reported := map[string]bool{}
	for _, n := range c.w.Report.Notes {
		reported[n.Place.String()] = true
	}
	for _, o := range c.lines {
		if reported[o.Place.String()] {
			continue
		}
		reported[o.Place.String()] = true
		n := &report.Note{Kind: report.Lost, Place: o.Place, What: o.Text, Why: whyNot(o.name)}
		if r, is, ok := c.list(o); is && ok {
			n.Kind = ifAny(c, r.path, report.Lost)
		}
		if n.Kind == report.Empty {
			n.Why = "nothing is in it"
		}
		c.w.Report.Add(n)
	}
}

func number(opts map[string]option, name string, otherwise int) int {
	if n, err := strconv.Atoi(opts[name].value); err == nil {
		return n
	}
	return otherwise
}

// guessVersion decides which program and version the files are for.
func (c *folder) guessVersion(main string) {
	switch {
	case filepath.Base(main) == "dansguardian.conf":
		c.w.Report.Program, c.version = "dansguardian", "2"
	case c.typed && c.listDir != "":
		c.version = "5.5"
	case c.version == "" && c.typed:
		c.version = "5.3"
	case c.version == "":
		c.version = "4"
	}
	c.w.Report.Version = c.version
}

// compat returns the mode of the phrase check with the scores of this version.
func (c *folder) compat() string {
	var major, minor int
	_, _ = fmt.Sscanf(c.version, "%d.%d", &major, &minor) // an invalid version counts as 0.0
	switch {
	case major < 4:
		return "dansguardian"
	case major == 5 && minor >= 4 || major > 5:
		return "e2guardian-5.5"
	}
	return "e2guardian-5.3"
}

// listFor converts a site, URL or regexp list, once for each file. It returns
// the name of our list, or "" if it is empty.
func (c *folder) listFor(r ref) (string, error) {
	if name, done := c.byPath[r.path]; done {
		c.w.Report.Add(&report.Note{Kind: report.Carried, Place: r.Place, What: r.Text, Ours: "lists." + name})
		return name, nil
	}
	c.byPath[r.path] = ""
	format := list.E2guardian
	x := build.NewIndex(r.name)
	categories := map[string]bool{}
	if r.typ == "regexp" {
		format = list.E2guardianRegexp
	}
	t, err := c.walk(r.path, func(at report.Place, s []byte) {
		if rest, ok := bytes.CutPrefix(s, []byte("#listcategory:")); ok {
			categories[strings.Trim(string(rest), "\" \t")] = true
		}
		if r.typ != "regexp" {
			c.entry(x, r, at, s)
		}
	})
	if err != nil {
		c.short[r.path] = true
		c.w.Report.Add(&report.Note{Kind: report.Lost, Place: r.Place, What: r.Text, Why: err.Error()})
		return "", nil
	}
	path := r.path
	if t.mend {
		if path, err = c.copyTree(c.w.FreeName(filepath.Base(path)), path); err != nil {
			return "", err
		}
	}
	name, err := c.w.AddList(filepath.Base(r.path), list.Config{Format: format, Path: setting.Source(path), Match: list.Boundary}, r.Place)
	c.short[r.path] = c.w.Partial() || err != nil || c.short[r.path]
	if err != nil || name == "" {
		return name, err
	}
	c.byPath[r.path] = name
	if len(categories) > 0 {
		c.w.Report.Add(&report.Note{Kind: report.Changed, Place: r.Place, What: "#listcategory " + strings.Join(slices.Sorted(maps.Keys(categories)), ", "), Ours: fmt.Sprintf("category %s", name),
			Why: "a rule names the whole list, so lines that are added later also count; the block page names the file and line"})
	}
	if !t.timed {
		c.indexes[name] = x
		build.ReportShadows(c.w, x, x, "a wider entry of the same list covers it")
	}
	return name, nil
}

// entry checks a line of a site or URL list.
func (c *folder) entry(x *build.Index, r ref, at report.Place, s []byte) {
	if s = input.CutNote(s); len(s) == 0 {
		return
	}
	text := string(s)
	switch text {
	case "**", "*ip", "**s", "*ips":
		at.Text = text
		c.blanket[r.path] = append(c.blanket[r.path], at)
		return
	}
	if r.typ == "site" && bytes.IndexByte(bytes.TrimSuffix(s, []byte("/")), '/') > 0 && bytes.IndexByte(s, ':') < 0 {
		c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q has a path but is in a site list, where e2guardian never finds it", text),
			Why: "used as a URL", Mend: "it into the URL list"})
	}
	if r.typ == "url" && bytes.IndexByte(s, '/') < 0 {
		c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q is a whole site in a URL list", text), Why: "in e2guardian it covers plain requests, here tunnels too", Mend: "it into the site list"})
	}
	if before, twice := x.Add(build.EntryKey(s), at); twice {
		c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q is in %s already", text, before)})
	}
}

// named makes a rule for those lists of a group that have one of the names.
func (c *folder) named(lists []ref, names ...string) (all []string) {
	for _, r := range lists {
		switch r.typ {
		case "site", "ipsite", "url", "regexp":
		default:
			continue
		}
		if !slices.Contains(names, r.name) {
			continue
		}
		name, err := c.listFor(r)
		if err != nil {
			c.w.Report.Add(&report.Note{Kind: report.Lost, Place: r.Place, What: r.Text, Why: err.Error()})
		}
		if name != "" && !slices.Contains(all, "category/"+name) {
			all = append(all, "category/"+name)
		}
	}
	return all
}
