package importer

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"shuultuur/check/phrase"
	"shuultuur/dns"
	"shuultuur/filter"
	"shuultuur/list"

	"shuultuur/policy"
	"shuultuur/setting"
)

// maxGroups is somewhat more than e2guardian's own limit of filter groups.
const maxGroups = 1000

// maxPattern is the longest expression a rule may have.
const maxPattern = 4096

// e2guardian reads the folder of e2guardian.conf or dansguardian.conf, or that
// file.
func (w *work) e2guardian(dir string) error {
	if isFile(dir) {
		dir = filepath.Dir(dir)
	}
	main, err := mainConf(dir)
	if err != nil {
		return err
	}
	c := &guard{work: w, dir: dir, indexes: map[string]*index{}, blanket: map[string][]place{}}
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
	var last []policy.Policy
	for _, g := range groups {
		p := c.policy(g.number, g.lists, g.opts, opts)
		if g.number == standard {
			last = append(last, p)
			continue
		}
		covers(c, p, g.number, members[g.number], main)
	}
	w.set.Policies = append(w.set.Policies, last...)
	names := map[string]int{}
	for i := range w.set.Policies {
		p := &w.set.Policies[i]
		if names[p.Name]++; names[p.Name] > 1 {
			p.Name = fmt.Sprintf("%s %d", p.Name, names[p.Name])
		}
	}
	c.finish()
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
func filterGroups(c *guard, main string, lists []ref, opts map[string]option) (groups []filterGroup) {
	for n := 1; n <= min(max(number(opts, "filtergroups", 1), 1), maxGroups); n++ {
		path := strings.TrimSuffix(main, ".conf") + "f" + strconv.Itoa(n) + ".conf"
		all, err := c.conf(path, 0)
		if err != nil {
			c.rep.add(&Note{Kind: Lost, place: place{file: path}, What: fmt.Sprintf("filter group %d", n), Why: err.Error()})
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

// sharedPhrases makes the phrase check from the first group that has phrase lists.
func sharedPhrases(c *guard, groups []filterGroup, opts map[string]option) {
	phrases := ""
	for _, g := range groups {
		switch s := phraseFiles(g.opts); {
		case s == "":
		case s == phrases:
			for _, name := range []string{"weightedphraselist", "bannedphraselist", "exceptionphraselist"} {
				for _, o := range g.opts[name].every() {
					c.rep.add(&Note{Kind: Carried, place: o.place, What: o.what, Ours: "checks.phrase, as of another group"})
				}
			}
		case phrases == "":
			phrases = s
			c.phrases(g.opts, opts)
		default:
			c.rep.add(&Note{Kind: Lost, place: g.opts["weightedphraselist"].place, What: fmt.Sprintf("phrase lists of filter group %d", g.number),
				Why: "there is one set of phrase lists for all; this group is judged by those of the first that has any, with its own limit"})
		}
	}
}

// covers adds the policy of a group for its users, and again for its addresses.
func covers(c *guard, p policy.Policy, number int, m membership, main string) {
	if len(m.users)+len(m.networks) == 0 {
		c.rep.add(&Note{Kind: Lost, place: place{file: main}, What: fmt.Sprintf("filter group %d, %q", number, p.Name), Why: "it has no user and no address, so it covers nobody"})
		return
	}
	if len(m.users) > 0 {
		q := p
		q.Users = m.users
		c.set.Policies = append(c.set.Policies, q)
	}
	if len(m.networks) > 0 {
		if len(m.users) > 0 {
			p.Name += " by address"
		}
		p.Networks = policyNetworks(c.work, place{file: main}, m.networks)
		c.set.Policies = append(c.set.Policies, p)
	}
}

// reportMoot reports settings that have no effect on a group.
func reportMoot(rep *Report, lists []ref, opts map[string]option, why string) {
	for _, r := range lists {
		rep.add(&Note{Kind: Default, place: r.place, What: r.what, Why: why})
	}
	for _, name := range sortedKeys(opts) {
		for _, o := range opts[name].every() {
			if name != "groupmode" && name != "groupname" {
				rep.add(&Note{Kind: Default, place: o.place, What: o.what, Why: why})
			}
		}
	}
}

// reportUnnoted reports settings that no other note covers.
func (c *guard) reportUnnoted() {
	reported := map[string]bool{}
	for _, n := range c.rep.Notes {
		reported[n.place.String()] = true
	}
	for _, o := range c.lines {
		if reported[o.place.String()] {
			continue
		}
		reported[o.place.String()] = true
		n := &Note{Kind: Lost, place: o.place, What: o.what, Why: whyNot(o.name)}
		if r, is, ok := c.list(o); is && ok {
			n.Kind = ifAny(c, r.path, Lost)
		}
		if n.Kind == Empty {
			n.Why = "nothing is in it"
		}
		c.rep.add(n)
	}
}

func number(opts map[string]option, name string, otherwise int) int {
	if n, err := strconv.Atoi(opts[name].value); err == nil {
		return n
	}
	return otherwise
}

// guessVersion decides which program and version the files are for.
func (c *guard) guessVersion(main string) {
	switch {
	case filepath.Base(main) == "dansguardian.conf":
		c.rep.Program, c.version = DansGuardian, "2"
	case c.typed && c.listDir != "":
		c.version = "5.5"
	case c.version == "" && c.typed:
		c.version = "5.3"
	case c.version == "":
		c.version = "4"
	}
	c.rep.Version = c.version
}

// compat returns the mode of the phrase check with the scores of this version.
func (c *guard) compat() string {
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

// clients makes policies for the clients that may do everything or nothing.
func (c *guard) clients(lists []ref) {
	for _, p := range []struct{ list, policy, action string }{{"bannedclient", "banned clients", "block"}, {"exceptionclient", "exception clients", "allow"}} {
		for _, r := range lists {
			if r.typ != "ip" || r.name != p.list {
				continue
			}
			var nets []string
			_, err := c.walk(r.path, func(at place, s []byte) {
				if s = cutNote(s); len(s) == 0 {
					return
				}
				n, ok := networks(string(s))
				if !ok {
					c.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q is neither an address nor a network nor a range", s), Why: "left out"})
				}
				if len(nets) <= maxNetworks {
					nets = append(nets, n...)
				}
			})
			unread(c.work, r.path, err)
			if len(nets) == 0 {
				c.rep.add(&Note{Kind: Empty, place: r.place, What: r.what, Why: "nobody is in it"})
				continue
			}
			c.rep.add(&Note{Kind: Carried, place: r.place, What: r.what, Ours: fmt.Sprintf("policy %q", p.policy)})
			c.set.Policies = append(c.set.Policies, policy.Policy{Name: p.policy, Networks: policyNetworks(c.work, r.place, nets), Rules: []policy.Rule{{Name: p.policy, Action: p.action}}})
		}
	}
	for _, r := range lists {
		if r.typ == "ip" && r.name == "authexception" {
			c.rep.add(&Note{Kind: ifAny(c, r.path, Lost), place: r.place, What: r.what, Why: "networks say who has to log in: write identity.basic.networks"})
		}
	}
}

// ifAny returns kind, or Empty if the list is empty.
func ifAny(c *guard, path string, kind Kind) Kind {
	if len(c.items(ref{path: path})) == 0 {
		return Empty
	}
	return kind
}

type membership struct{ users, networks []string }

// members reads which users and addresses belong to which filter group.
func (c *guard) members(lists []ref, opts map[string]option) map[int]membership {
	all := map[int]membership{}
	byAddress, byName := false, false
	take := func(path string) {
		_, err := c.walk(path, func(at place, s []byte) {
			if s = cutNote(s); len(s) == 0 {
				return
			}
			who, group, ok := strings.Cut(string(s), "=")
			who, group = strings.TrimSpace(who), strings.TrimSpace(group)
			n, err := strconv.Atoi(strings.TrimPrefix(strings.ToLower(group), "filter"))
			if !ok || err != nil || n < 0 || who == "" {
				c.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q puts no user into a group", s), Why: "left out", Mend: "name = filter1"})
				return
			}
			m := all[n]
			switch nets, ok := networks(who); {
			case !ok:
				m.users = append(m.users, who)
			case len(m.networks) <= maxNetworks:
				m.networks = append(m.networks, nets...)
			}
			all[n] = m
		})
		unread(c.work, path, err)
	}
	for _, o := range opts["authplugin"].every() {
		address, name := c.plugin(o, take)
		byAddress, byName = byAddress || address, byName || name
	}
	for _, r := range lists {
		if r.typ == "ipmap" || r.typ == "map" && strings.Contains(r.name, "user") {
			take(r.path)
			byAddress = byAddress || r.typ == "ipmap"
			byName = byName || r.typ == "map"
			c.rep.add(&Note{Kind: Carried, place: r.place, What: r.what, Ours: "networks and users of the policies"})
		}
	}
	if o, ok := opts["filtergroupslist"]; ok {
		switch path, found := c.locate(o.value, c.dir); {
		case !found:
			c.rep.add(&Note{Kind: Lost, place: o.place, What: o.what, Why: "the file is not there"})
		case byName:
			take(path)
			c.rep.add(&Note{Kind: Carried, place: o.place, What: o.what, Ours: "users of the policies"})
		default:
			c.rep.add(&Note{Kind: ifAny(c, path, Lost), place: o.place, What: o.what, Why: "no authplugin identifies users, so everybody is in the standard group"})
		}
	}
	return all
}

// plugin reads an authentication plug-in's file, and calls take with the file
// that assigns groups by address.
func (c *guard) plugin(o option, take func(path string)) (byAddress, byName bool) {
	if o.value == "" {
		c.rep.add(&Note{Kind: Default, place: o.place, What: o.what})
		return false, false
	}
	const mend = "write identity.basic with a password file (shuultuur passwd), or identity.addresses"
	path, ok := c.locate(o.value, c.dir)
	if !ok {
		c.rep.add(&Note{Kind: Lost, place: o.place, What: o.what, Ours: "identity", Why: "the file is not there", Mend: mend})
		return false, false
	}
	all, err := c.conf(path, 1)
	if err != nil {
		c.rep.add(&Note{Kind: Lost, place: o.place, What: o.what, Ours: "identity", Why: err.Error(), Mend: mend})
		return false, false
	}
	for _, s := range all {
		n := &Note{Kind: Lost, place: s.place, What: s.what, Why: whyNot("auth")}
		switch to, found := c.locate(s.value, c.dir); {
		case s.name == "plugname" && strings.HasSuffix(s.value, "ip"):
			byAddress = true
			n = carried("networks of the policies")
		case s.name == "plugname":
			byName = true
			n = differs("identity", "set identity.basic with a password file (shuultuur passwd), or identity.addresses, for the users named in policies to be known")
		case s.name == "ipgroups" && found:
			take(to)
			n = carried("networks of the policies")
		case s.name == "ipgroups":
			n = lostOurs("networks of the policies", "the file is not there: copy it beside the others and import again")
		}
		n.place, n.What = s.place, s.what
		c.rep.add(n)
	}
	c.rep.add(&Note{Kind: Carried, place: o.place, What: o.what, Ours: "identity, networks of the policies"})
	return byAddress, byName
}

// phraseFiles returns the phrase options of a group, for comparing groups.
func phraseFiles(opts map[string]option) string {
	all := ""
	for _, name := range []string{"weightedphraselist", "bannedphraselist", "exceptionphraselist"} {
		for _, o := range opts[name].every() {
			all += o.value + "\n"
		}
	}
	return strings.Trim(all, "\n")
}

// phrases makes the phrase check.
func (c *guard) phrases(opts, global map[string]option) {
	out := &phrase.Config{Compat: c.compat(), NaughtynessLimit: number(opts, "naughtynesslimit", 0)}
	cfg := phrase.Config{Compat: out.Compat, NaughtynessLimit: out.NaughtynessLimit}
	any := false
	for _, l := range []struct {
		option string
		to     *[]setting.File
		check  *[]setting.File
	}{{"weightedphraselist", &out.Weighted, &cfg.Weighted}, {"bannedphraselist", &out.Banned, &cfg.Banned}, {"exceptionphraselist", &out.Exception, &cfg.Exception}} {
		for _, o := range opts[l.option].every() {
			path, ok := phraseFile(c, o)
			if !ok {
				continue
			}
			any = true
			*l.check = append(*l.check, setting.File(path))
			if rel, err := filepath.Rel(c.to, path); err == nil && filepath.IsLocal(rel) {
				path = rel
			}
			*l.to = append(*l.to, setting.File(path))
		}
	}
	if !any {
		return
	}
	for _, n := range []struct {
		name string
		to   **int
		cfg  **int
		most int
	}{{"weightedphrasemode", &out.WeightedPhraseMode, &cfg.WeightedPhraseMode, 2}, {"phrasefiltermode", &out.PhraseFilterMode, &cfg.PhraseFilterMode, 3}, {"preservecase", &out.PreserveCase, &cfg.PreserveCase, 2}} {
		o, ok := opts[n.name]
		if !ok {
			o, ok = global[n.name]
		}
		if v, err := strconv.Atoi(o.value); ok && err == nil && v >= 0 && v <= n.most {
			*n.to, *n.cfg = &v, &v
			c.rep.add(&Note{Kind: Carried, place: o.place, What: o.what, Ours: "checks.phrase." + n.name})
		}
	}
	if o, ok := global["hexdecodecontent"]; ok {
		on := o.value == "on"
		out.HexDecodeContent, cfg.HexDecodeContent = &on, &on
		c.rep.add(&Note{Kind: Carried, place: o.place, What: o.what, Ours: "checks.phrase.hexdecodecontent"})
	}
	check, err := phrase.New(cfg, c.to, time.Now)
	if err != nil {
		c.rep.add(&Note{Kind: Lost, place: opts["weightedphraselist"].place, What: "phrase lists", Why: err.Error()})
		return
	}
	for _, m := range check.Remarks() {
		file := m.File
		if !filepath.IsAbs(file) {
			file = filepath.Join(c.to, file)
		}
		if from, copied := c.origin[file]; copied {
			file = from
		}
		c.rep.add(&Note{Kind: Line, place: place{file: file, line: m.Line}, What: m.Text, Mend: m.Mend})
	}
	c.set.Checks.Phrase = out
}

// phraseFile finds a file of phrases, and copies it if its includes are
// elsewhere.
func phraseFile(c *guard, o option) (path string, ok bool) {
	if o.value == "" {
		c.rep.add(&Note{Kind: Default, place: o.place, What: o.what})
		return "", false
	}
	from, ok := c.locate(o.value, c.dir)
	if !ok {
		c.rep.add(&Note{Kind: Lost, place: o.place, What: o.what, Why: "the file is not there"})
		return "", false
	}
	seen := map[string]place{}
	t, err := c.walk(from, func(at place, s []byte) { c.phraseTwice(seen, at, s) })
	path = from
	if err == nil && t.mend {
		path, err = c.copyTree(c.freeName(filepath.Base(from)), from)
	}
	if err != nil {
		c.rep.add(&Note{Kind: Lost, place: o.place, What: o.what, Why: err.Error()})
		return "", false
	}
	note := &Note{Kind: Carried, place: o.place, What: o.what, Ours: "checks.phrase"}
	if path != from {
		note.Kind, note.Why = Changed, "copied, as some of its includes are not where it says"
	}
	c.rep.add(note)
	return path, true
}

// phraseTwice reports a repeated phrase; only the greater weight counts.
func (c *guard) phraseTwice(seen map[string]place, at place, s []byte) {
	if s[0] != '<' {
		return
	}
	c.rep.Lines++
	text, _, _ := bytes.Cut(bytes.ToLower(s), []byte("><"))
	key := string(bytes.TrimSuffix(text, []byte(">")))
	if before, twice := seen[key]; twice {
		c.rep.Duplicates++
		c.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("phrase %q is already in %s", key+">", before), Why: "the greater weight counts; weights are not added"})
		return
	}
	if len(seen) < maxKeys {
		seen[key] = at
	}
	c.rep.Entries++
}

// listFor converts a site, URL or regexp list, once for each file. It returns
// the name of our list, or "" if it is empty.
func (c *guard) listFor(r ref) (string, error) {
	if name, done := c.byPath[r.path]; done {
		c.rep.add(&Note{Kind: Carried, place: r.place, What: r.what, Ours: "lists." + name})
		return name, nil
	}
	c.byPath[r.path] = ""
	format := list.E2guardian
	x := newIndex(r.name)
	categories := map[string]bool{}
	if r.typ == "regexp" {
		format = list.E2guardianRegexp
	}
	t, err := c.walk(r.path, func(at place, s []byte) {
		if rest, ok := bytes.CutPrefix(s, []byte("#listcategory:")); ok {
			categories[strings.Trim(string(rest), "\" \t")] = true
		}
		if r.typ != "regexp" {
			c.entry(x, r, at, s)
		}
	})
	if err != nil {
		c.rep.add(&Note{Kind: Lost, place: r.place, What: r.what, Why: err.Error()})
		return "", nil
	}
	path := r.path
	if t.mend {
		if path, err = c.copyTree(c.freeName(filepath.Base(path)), path); err != nil {
			return "", err
		}
	}
	name, err := c.addList(filepath.Base(r.path), list.Config{Format: format, Path: setting.Source(path), Match: list.Boundary}, r.place)
	if err != nil || name == "" {
		return name, err
	}
	c.byPath[r.path] = name
	if len(categories) > 0 {
		c.rep.add(&Note{Kind: Changed, place: r.place, What: "#listcategory " + strings.Join(sortedKeys(categories), ", "), Ours: fmt.Sprintf("category %s", name),
			Why: "a rule names the whole list, so lines that are added later also count; the block page names the file and line"})
	}
	if !t.timed {
		c.indexes[name] = x
		reportShadows(c.work, x, x, "a wider entry of the same list covers it")
	}
	return name, nil
}

// entry checks a line of a site or URL list.
func (c *guard) entry(x *index, r ref, at place, s []byte) {
	if s = cutNote(s); len(s) == 0 {
		return
	}
	text := string(s)
	switch text {
	case "**", "*ip", "**s", "*ips":
		at.what = text
		c.blanket[r.path] = append(c.blanket[r.path], at)
		return
	}
	if r.typ == "site" && bytes.IndexByte(bytes.TrimSuffix(s, []byte("/")), '/') > 0 && bytes.IndexByte(s, ':') < 0 {
		c.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q has a path but is in a site list, where e2guardian never finds it", text),
			Why: "used as a URL", Mend: "it into the URL list"})
	}
	if r.typ == "url" && bytes.IndexByte(s, '/') < 0 {
		c.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q is a whole site in a URL list", text), Why: "in e2guardian it covers plain requests, here tunnels too", Mend: "it into the site list"})
	}
	if before, twice := x.add(entryKey(s), at); twice {
		c.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q is in %s already", text, before)})
	}
}

// named makes a rule for those lists of a group that have one of the names.
func (c *guard) named(lists []ref, names ...string) (all []string) {
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
			c.rep.add(&Note{Kind: Lost, place: r.place, What: r.what, Why: err.Error()})
		}
		if name != "" && !slices.Contains(all, "category/"+name) {
			all = append(all, "category/"+name)
		}
	}
	return all
}

// policy converts a filter group. Its rules are in the order of e2guardian's
// storyboard.
// Long because each option has a case.
func (c *guard) policy(n int, lists []ref, opts, global map[string]option) policy.Policy {
	p := policy.Policy{Name: groupName(c, n, opts), Decrypt: c.cut && opts["sslmitm"].value == "on"}
	used := map[string]bool{}
	add := func(r policy.Rule) {
		name := r.Name
		for i := 2; used[r.Name]; i++ {
			r.Name = fmt.Sprintf("%s %d", name, i)
		}
		used[r.Name] = true
		p.Rules = append(p.Rules, r)
	}
	byList := func(name, action string, categories, unless []string) {
		if len(categories) > 0 {
			add(policy.Rule{Name: name, Action: action, Category: categories, Unless: unless})
		}
	}
	byList("without login", "allow", c.named(lists, "authexception"), nil)
	if !filters(c, lists, opts, add) {
		return p
	}
	// A ban that may be bypassed becomes a warning to click through.
	ban, seconds := "block", number(opts, "bypass", 0)
	if seconds > 0 {
		ban = "warn"
		byList("no bypass", "block", c.named(lists, "bannedbypass"), nil)
		c.rep.add(&Note{Kind: Changed, place: opts["bypass"].place, What: opts["bypass"].what, Ours: "action: warn", Why: "the page offers to continue for that time; the gateway remembers who clicked"})
	}

	localSemi, localGrey := c.named(lists, "localsemiexception"), c.named(lists, "localgrey")
	semi, grey := c.named(lists, "semiexception"), c.named(lists, "grey")
	notLocal := slices.Concat(localSemi, localGrey)
	not := slices.Concat(notLocal, semi, grey)

	byList("not looked into", "allow", c.named(lists, "nomitm"), nil)
	c.times(lists, "bannedtimes", "banned times", nil, add)
	localExceptions := c.named(lists, "localexception")
	byList("local exceptions", "allow", localExceptions, localSemi)
	localBans := c.named(lists, "localbanned")
	byList("local bans", ban, localBans, notLocal)
	c.search(lists, "localbanned", "local banned search", ban, add)
	exceptions := c.named(lists, "exception")
	byList("exceptions", "allow", exceptions, append(slices.Clone(notLocal), semi...))
	c.referers(lists, add)
	c.headers(lists, "exception", "allow", nil, add)
	c.times(lists, "blankettimes", "blanket times", not, add)
	bans := c.named(lists, "banned")
	c.blankets(lists, ban, not, add)
	if o, ok := opts["storyboard"]; ok {
		c.story(o, ban, not, add)
	}
	byList("bans", ban, bans, not)
	c.headers(lists, "banned", ban, not, add)
	files := c.named(lists, "exceptionfile")
	if exts := c.inline(lists, "extension", "bannedextension", filter.Extension); len(exts) > 0 {
		extensionRules(c, exts, files, add, policy.Rule{Name: "banned extensions", Action: ban, Unless: slices.Concat(files, not)})
	}
	c.search(lists, "banned", "banned search", ban, add)
	c.redirects(lists, add)
	if types := c.inline(lists, "type", "bannedmime", filter.MediaType); len(types) > 0 {
		add(policy.Rule{Name: "banned types", Action: ban, Type: types, Unless: files})
	}
	scan := e2Scans(c, opts)
	if opts["contentscanexceptions"].value != "on" {
		for _, r := range scan {
			add(r)
		}
		scan = nil
	}
	c.phraseRules(opts, ban, add)
	p.Rules = append(scan, p.Rules...)
	warnFor(&p, policy.Duration(time.Duration(seconds)*time.Second))
	c.replacements(lists, &p)
	c.conflicts(localExceptions, slices.Concat(localBans, bans), "it is a local exception, which is checked before it")
	if len(notLocal) == 0 { // it would otherwise decide before an exception
		c.conflicts(exceptions, bans, "it is an exception, which is checked before it")
	}
	bannedTwice(c, bans)
	uploadRules(c, lists, opts, &p, len(grey)+len(localGrey) > 0)
	if len(p.Rules) > maxRules {
		c.rep.add(&Note{Kind: Lost, place: place{file: c.dir}, What: fmt.Sprintf("%d rules of policy %q", len(p.Rules)-maxRules, p.Name), Why: "a policy has at most 500"})
		p.Rules = p.Rules[:maxRules]
	}
	return p
}

// e2Scans returns the rules about findings of scanners, or none if a group is not scanned.
func e2Scans(c *guard, opts map[string]option) []policy.Rule {
	if opts["disablecontentscan"].value == "on" {
		return nil
	}
	return slices.Clone(c.first)
}

// groupName returns the name of a filter group, or one made of its number.
func groupName(c *guard, n int, opts map[string]option) string {
	o := opts["groupname"]
	if o.value == "" {
		return "filter" + strconv.Itoa(n)
	}
	c.rep.add(&Note{Kind: Carried, place: o.place, What: o.what, Ours: "name of the policy"})
	return o.value
}

// warnFor sets how long a click on a warn page counts.
func warnFor(p *policy.Policy, d policy.Duration) {
	for i := range p.Rules {
		if p.Rules[i].Action == "warn" {
			p.Rules[i].WarnFor = d
		}
	}
}

// bannedTwice reports entries that several lists ban.
func bannedTwice(c *guard, bans []string) {
	for i, a := range bans {
		for _, b := range bans[:i] {
			reportShadows(c.work, c.indexes[strings.TrimPrefix(a, "category/")], c.indexes[strings.TrimPrefix(b, "category/")], "banned there already")
		}
	}
}

// filters reports whether a group is filtered at all, by its mode. If not, it adds the only
// rule of the group.
func filters(c *guard, lists []ref, opts map[string]option, add func(policy.Rule)) bool {
	mode, set := opts["groupmode"]
	if !set {
		return true
	}
	switch mode.value {
	case "0":
		c.rep.add(&Note{Kind: Carried, place: mode.place, What: mode.what, Ours: "rule \"group banned\""})
		add(policy.Rule{Name: "group banned", Action: "block"})
		reportMoot(c.rep, lists, opts, "all is refused to the group")
		return false
	case "1":
		c.rep.add(&Note{Kind: Default, place: mode.place, What: mode.what})
	case "2":
		c.rep.add(&Note{Kind: Carried, place: mode.place, What: mode.what, Ours: "rule \"group not filtered\""})
		add(policy.Rule{Name: "group not filtered", Action: "allow"})
		reportMoot(c.rep, lists, opts, "the group is not filtered")
		return false
	default:
		c.rep.add(&Note{Kind: Lost, place: mode.place, What: mode.what, Why: "not a known mode; the group is filtered"})
	}
	return true
}

// uploadRules reads the remaining options, and inserts rules for uploads before the others: the
// group's own rules, or else those for all groups.
func uploadRules(c *guard, lists []ref, opts map[string]option, p *policy.Policy, grey bool) {
	forAll := c.upload
	c.upload = nil
	c.reportUnused(lists, opts, grey)
	if len(c.upload) == 0 {
		c.upload = forAll
	}
	p.Rules = append(slices.Clone(c.upload), p.Rules...)
	c.upload = forAll
}

// extensionRules blocks files by the end of their path and, as e2guardian does, by the end of
// the query.
func extensionRules(c *guard, exts, files []string, add func(policy.Rule), rule policy.Rule) {
	behind := rule
	rule.Extension = exts
	add(rule)
	var quoted []string
	for _, x := range exts {
		quoted = append(quoted, regexp.QuoteMeta(x))
	}
	if expr := `/.*[?;].*[.](` + strings.Join(quoted, "|") + `)$`; len(expr) <= maxPattern {
		behind.Name, behind.URL = "extensions in queries", []string{expr}
		add(behind)
	}
	at := place{file: c.dir}
	c.rep.add(&Note{Kind: Changed, place: at, What: "banned extensions before a query", Ours: `rule "banned extensions"`,
		Why: "e2guardian checks only the end of the URL: it allows setup.exe?x=1, which the gateway refuses"})
	if len(files) > 0 {
		c.rep.add(&Note{Kind: Changed, place: at, What: "exceptionfile lists and banned extensions", Ours: "unless of the rule",
			Why: "e2guardian's storyboard refuses these files although its manual says that they pass; here they pass"})
	}
}

func (c *guard) conflicts(outer, inner []string, why string) {
	for _, a := range inner {
		for _, b := range outer {
			reportShadows(c.work, c.indexes[strings.TrimPrefix(a, "category/")], c.indexes[strings.TrimPrefix(b, "category/")], why)
		}
	}
}

func (c *guard) phraseRules(opts map[string]option, ban string, add func(policy.Rule)) {
	if c.set.Checks.Phrase == nil || phraseFiles(opts) == "" {
		if o, ok := opts["naughtynesslimit"]; ok {
			c.rep.add(&Note{Kind: Default, place: o.place, What: o.what, Why: "the group has no phrase lists, so no page reaches the limit"})
		}
		return
	}
	standard := 50
	if c.compat() == "e2guardian-5.5" {
		standard = 60
	}
	limit := max(number(opts, "naughtynesslimit", standard), 0)
	if o, ok := opts["naughtynesslimit"]; ok {
		c.rep.add(&Note{Kind: Carried, place: o.place, What: o.what, Ours: fmt.Sprintf("rule \"weighted phrases\", over: %d", limit)})
	}
	add(policy.Rule{Name: "exception phrases", Action: "allow", Category: []string{"exceptionphrase"}})
	add(policy.Rule{Name: "banned phrases", Action: ban, Category: []string{"bannedphrase"}})
	add(policy.Rule{Name: "weighted phrases", Action: ban, Category: []string{"phrase"}, Over: &limit})
}

// inline reads a list that becomes part of a rule.
func (c *guard) inline(lists []ref, typ, name string, read func(string) (string, error)) (all []string) {
	for _, r := range lists {
		if r.typ != typ || r.name != name {
			continue
		}
		n := len(all)
		for _, at := range c.items(r) {
			x, err := read(at.what)
			if err != nil {
				c.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q is no %s", at.what, typ), Why: "left out"})
				continue
			}
			if !slices.Contains(all, x) {
				all = append(all, x)
			}
		}
		if n == len(all) {
			c.rep.add(&Note{Kind: Empty, place: r.place, What: r.what, Why: "nothing is in it"})
			continue
		}
		c.rep.add(&Note{Kind: Carried, place: r.place, What: r.what, Ours: fmt.Sprintf("%d in %s of a rule", len(all)-n, typ)})
	}
	return all
}

// times makes rules from time lists.
func (c *guard) times(lists []ref, name, rule string, unless []string, add func(policy.Rule)) {
	for _, r := range lists {
		if r.typ != "time" || r.name != name {
			continue
		}
		var when policy.Schedule
		for _, at := range c.items(r) {
			s := at.what
			var sh, sm, eh, em int
			var days string
			if n, _ := fmt.Sscanf(s, "%d %d %d %d %s", &sh, &sm, &eh, &em, &days); n != 5 || sh < 0 || sh > 23 || eh < 0 || eh > 23 || sm < 0 || sm > 59 || em < 0 || em > 59 || strings.Trim(days, "0123456") != "" {
				c.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q is not a time", s), Why: "left out", Mend: "hour minute hour minute days, days 0 (Monday) to 6"})
				continue
			}
			when = append(when, policy.Window{Old: fmt.Sprintf("%d %d %d %d %s", sh, sm, eh, em, days)})
		}
		if len(when) > 0 {
			add(policy.Rule{Name: rule, Action: "block", Schedule: when, Unless: unless})
			c.rep.add(&Note{Kind: Carried, place: r.place, What: r.what, Ours: fmt.Sprintf("rule %q", rule)})
		}
	}
}

// blankets makes rules from "**" and "*ip".
func (c *guard) blankets(lists []ref, ban string, unless []string, add func(policy.Rule)) {
	for _, r := range lists {
		if r.name != "banned" {
			continue
		}
		for _, at := range c.blanket[r.path] {
			s := at.what
			switch {
			case c.typed:
				c.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q has no effect since e2guardian 5", s), Mend: "a rule without conditions, action: block, after those that allow"})
			case s == "**":
				add(policy.Rule{Name: "blanket block", Action: ban, Unless: unless})
				c.rep.add(&Note{Kind: Carried, place: at, What: `"**"`, Ours: `rule "blanket block"`})
			case s == "*ip":
				add(policy.Rule{Name: "addresses", Action: ban, Category: c.addresses(), Unless: unless})
				c.rep.add(&Note{Kind: Carried, place: at, What: `"*ip"`, Ours: `rule "addresses"`})
			default:
				c.rep.add(&Note{Kind: Lost, place: at, What: strconv.Quote(s), Why: "no rule is for tunnels alone"})
			}
		}
	}
}

// referers makes an allow rule from the sites whose links all work.
func (c *guard) referers(lists []ref, add func(policy.Rule)) {
	var hosts []string
	for _, r := range lists {
		if r.name != "refererexception" {
			continue
		}
		if r.typ == "url" {
			if n := len(c.items(r)); n > 0 {
				c.rep.add(&Note{Kind: Lost, place: r.place, What: r.what, Why: "a referring page is known by its host only"})
			}
			continue
		}
		before := len(hosts)
		for _, at := range c.items(r) {
			host, reason := dns.Host(nil, []byte(strings.TrimSuffix(at.what, "/")))
			if reason != "" {
				c.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q is not a host", at.what), Why: "left out"})
				continue
			}
			if len(hosts) >= 10_000 {
				c.rep.add(&Note{Kind: Lost, place: at, What: at.what, Why: "a rule has at most 10,000 referers"})
				continue
			}
			hosts = append(hosts, string(host))
		}
		n := &Note{Kind: Carried, place: r.place, What: r.what, Ours: `rule "referers"`}
		if len(hosts) == before {
			n.Kind, n.Ours, n.Why = Empty, "", "nothing is in it"
		}
		c.rep.add(n)
	}
	if len(hosts) > 0 {
		add(policy.Rule{Name: "referers", Action: "allow", Referer: hosts})
	}
}

var headerStart = regexp.MustCompile(`^\^?([A-Za-z][A-Za-z0-9-]*): ?`)

// headers makes rules from expressions for header lines and user agents.
func (c *guard) headers(lists []ref, begin, action string, unless []string, add func(policy.Rule)) {
	for _, r := range lists {
		if r.typ != "regexp" || r.name != begin+"header" && r.name != begin+"useragent" {
			continue
		}
		var agents []string
		for _, at := range c.items(r) {
			s := at.what
			if _, err := regexp.Compile("(?i:" + s + ")"); err != nil {
				c.rep.add(&Note{Kind: Regexp, place: at, What: s, Why: err.Error()})
				continue
			}
			if len(s) > maxPattern {
				c.rep.add(&Note{Kind: Lost, place: at, What: s[:80] + "…", Why: "an expression in a rule has at most 4096 bytes"})
				continue
			}
			if r.name == begin+"useragent" {
				agents = append(agents, s)
				continue
			}
			m := headerStart.FindStringSubmatch(s)
			rest := strings.TrimPrefix(s, strings.Join(m[:min(1, len(m))], ""))
			if _, err := regexp.Compile("(?i:" + rest + ")"); m == nil || rest == "" || err != nil {
				c.rep.add(&Note{Kind: Lost, place: at, What: s, Why: "a condition on a header names its field", Mend: "Name: and the expression for the value"})
				continue
			}
			add(policy.Rule{Name: begin + " header", Action: action, Header: map[string]string{m[1]: rest}, Unless: unless})
			c.rep.add(&Note{Kind: Carried, place: at, What: s, Ours: fmt.Sprintf("rule %q", begin+" header")})
		}
		if len(agents) > 0 {
			add(policy.Rule{Name: begin + " agents", Action: action, Agent: agents, Unless: unless})
			c.rep.add(&Note{Kind: Carried, place: r.place, What: r.what, Ours: fmt.Sprintf("rule %q", begin+" agents")})
		}
	}
}

// search makes rules from search lists, whose words e2guardian compares as a set.
func (c *guard) search(lists []ref, name, rule, ban string, add func(policy.Rule)) {
	for _, r := range lists {
		if r.typ != "search" || r.name != name {
			continue
		}
		var terms []string
		for _, at := range c.items(r) {
			s := at.what
			words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return r == '+' || r == ' ' })
			unsaid := slices.ContainsFunc(words, func(w string) bool { return !strings.ContainsFunc(w, isLetterOrDigit) })
			if unsaid {
				c.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q has no letter or digit to search for", s), Why: "left out"})
				continue
			}
			if len(words) == 0 || len(words) > 4 || len(terms) > 10_000 {
				c.rep.add(&Note{Kind: Lost, place: at, What: s, Why: "more than four words in any order cannot be expressed"})
				continue
			}
			terms = append(terms, list.Orders(words)...)
		}
		if len(terms) > 0 {
			add(policy.Rule{Name: rule, Action: ban, Search: terms})
			c.rep.add(&Note{Kind: Changed, place: r.place, What: r.what, Ours: fmt.Sprintf("rule %q", rule), Why: "matches when the words are part of a search, while e2guardian compares the whole search"})
		}
	}
}

func isLetterOrDigit(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// replacement reads "expression"->"text".
func replacement(s string) (expr, to string, ok bool) {
	expr, to, ok = strings.Cut(s, `"->"`)
	if !ok || !strings.HasPrefix(expr, `"`) || !strings.HasSuffix(to, `"`) {
		return "", "", false
	}
	return expr[1:], to[:len(to)-1], true
}

// redirects makes rules from a redirection list.
func (c *guard) redirects(lists []ref, add func(policy.Rule)) {
	for _, r := range lists {
		if r.typ != "replace" || r.name != "redirect" {
			continue
		}
		for _, at := range c.items(r) {
			s := at.what
			expr, to, ok := replacement(s)
			expr = strings.NewReplacer(`^http://`, "^", `^https://`, "^", `^https?://`, "^", `^http[s]?://`, "^").Replace(expr)
			_, err := regexp.Compile("(?i:" + expr + ")")
			switch {
			case !ok:
				c.rep.add(&Note{Kind: Line, place: at, What: s, Why: "left out", Mend: `"expression"->"URL"`})
			case err != nil:
				c.rep.add(&Note{Kind: Regexp, place: at, What: s, Why: err.Error()})
			case len(expr) > maxPattern:
				c.rep.add(&Note{Kind: Lost, place: at, What: s[:80] + "…", Why: "an expression in a rule has at most 4096 bytes"})
			case strings.ContainsAny(to, `\$`) || strings.Contains(expr, "://") || !plainURL(to) || expr == "":
				c.rep.add(&Note{Kind: Lost, place: at, What: s, Why: "a redirect leads to a fixed URL, with the whole URL or host filled in"})
			default:
				add(policy.Rule{Name: "redirect", Action: "redirect", URL: []string{expr}, To: to})
				c.rep.add(&Note{Kind: Carried, place: at, What: s, Ours: "rule \"redirect\""})
			}
		}
	}
}

// e2Tenants converts a field that is added to requests.
func e2Tenants(c *guard, p *policy.Policy, n *Note, s string) bool {
	_, to, ok := replacement(s)
	field, value, is := strings.Cut(to, ":")
	if n.Ours = tenant(p, strings.TrimSpace(field), strings.TrimSpace(value)); !ok || !is || n.Ours == "" {
		return false
	}
	n.Kind = Carried
	return true
}

// replacements converts the lists that change requests, as far as we have an equivalent.
func (c *guard) replacements(lists []ref, p *policy.Policy) {
	for _, r := range lists {
		if r.typ != "replace" || r.name == "redirect" || r.name == "searchterms" {
			continue
		}
		for _, at := range c.items(r) {
			s := at.what
			low := strings.ToLower(s)
			n := &Note{Kind: Changed, place: at, What: s}
			switch {
			case strings.Contains(low, "youtube-restrict") && strings.Contains(low, "strict"):
				p.YouTube, n.Ours = "strict", "youtube: strict"
				if strings.Contains(low, "moderate") {
					p.YouTube, n.Ours = "moderate", "youtube: moderate"
				}
			case strings.Contains(low, "safe=") || strings.Contains(low, "adlt=") || strings.Contains(low, "safesearch") || strings.Contains(low, "forcesafe") || strings.Contains(low, "vm=r"):
				p.SafeSearch, n.Ours = true, "safesearch: true"
			case e2Tenants(c, p, n, s):
			default:
				n.Kind, n.Why = Lost, "requests and pages are not rewritten by expressions"
			}
			if n.Kind == Changed {
				n.Why = "the preset covers current search engines"
			}
			c.rep.add(n)
		}
	}
}
