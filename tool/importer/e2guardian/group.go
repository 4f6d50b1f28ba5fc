package e2guardian

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/list/files"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/report"
)

// policy converts a filter group. Its rules are in the order of e2guardian's
// storyboard.
// Long because each option has a case.
func (c *folder) policy(n int, lists []ref, opts, global map[string]option) policy.Policy {
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
		c.w.Report.Add(&report.Note{Kind: report.Changed, Place: opts["bypass"].Place, What: opts["bypass"].Text, Ours: "action: warn", Why: "the page offers to continue for that time; the gateway remembers who clicked"})
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
	at := len(p.Rules)
	c.headers(lists, "banned", ban, not, add)
	files := c.named(lists, "exceptionfile")
	if exts := c.inline(lists, "extension", "bannedextension", filter.Extension); len(exts) > 0 {
		unless := files
		if _, story := opts["storyboard"]; story {
			unless = nil
		}
		extensionRules(c, exts, add, policy.Rule{Name: "banned extensions", Action: ban, Unless: slices.Concat(unless, not)})
		if len(files) > len(unless) {
			c.w.Report.Add(&report.Note{Kind: report.Changed, Place: report.Place{File: c.dir}, What: "exceptionfile lists and banned extensions", Ours: "rules",
				Why: "the storyboard refuses these files, although the manual of e2guardian says that they pass: add the lists to the unless of the rule if they are to pass"})
		}
	}
	c.search(lists, "banned", "banned search", ban, add)
	c.redirects(lists, add)
	if types := c.inline(lists, "type", "bannedmime", filter.MediaType); len(types) > 0 {
		add(policy.Rule{Name: "banned types", Action: ban, Type: types, Unless: files})
	}
	scan := scans(c, opts)
	if opts["contentscanexceptions"].value != "on" {
		for _, r := range scan {
			add(r)
		}
		scan = nil
	}
	c.phraseRules(opts, ban, add)
	if c.incompleteBans(lists) {
		p.Rules = slices.Insert(p.Rules, at, policy.Rule{Name: "what is not known", Action: "block", Unless: not})
	}
	p.Rules = append(scan, p.Rules...)
	warnFor(&p, policy.Duration(time.Duration(seconds)*time.Second))
	c.replacements(lists, &p)
	c.conflicts(localExceptions, slices.Concat(localBans, bans), "it is a local exception, which is checked before it")
	if len(notLocal) == 0 { // it would otherwise decide before an exception
		c.conflicts(exceptions, bans, "it is an exception, which is checked before it")
	}
	bannedTwice(c, bans)
	uploadRules(c, lists, opts, &p, len(grey)+len(localGrey) > 0)
	if len(p.Rules) > build.MaxRules {
		n := report.ByHand("a rule that refuses what is left", fmt.Sprintf("a policy has at most %d", build.MaxRules))
		n.Place, n.What = report.Place{File: c.dir}, fmt.Sprintf("%d rules of policy %q", len(p.Rules)-build.MaxRules+1, p.Name)
		c.w.Report.Add(n.Closing())
		p.Rules = append(p.Rules[:build.MaxRules-1], policy.Rule{Name: "what other rules would decide", Action: "block"})
	}
	return p
}

// incompleteBans reports whether something that refuses is not known of a group, and reports the
// lists.
func (c *folder) incompleteBans(lists []ref) bool {
	for _, r := range lists {
		if r.isBan() && r.typ != missing && c.short[r.path] {
			c.refuses(r.Place, r.Text, "a part of the list is not there, or does not compile")
		}
		c.incomplete = c.incomplete || r.isBan() && r.typ == missing
	}
	return c.incomplete
}

// scans returns the rules about findings of scanners, or none if a group is not scanned.
func scans(c *folder, opts map[string]option) []policy.Rule {
	if opts["disablecontentscan"].value == "on" {
		return nil
	}
	return slices.Clone(c.w.First)
}

// groupName returns the name of a filter group, or one made of its number.
func groupName(c *folder, n int, opts map[string]option) string {
	o := opts["groupname"]
	if o.value == "" {
		return "filter" + strconv.Itoa(n)
	}
	c.w.Report.Add(&report.Note{Kind: report.Carried, Place: o.Place, What: o.Text, Ours: "name of the policy"})
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
func bannedTwice(c *folder, bans []string) {
	for i, a := range bans {
		for _, b := range bans[:i] {
			build.ReportShadows(c.w, c.indexes[strings.TrimPrefix(a, "category/")], c.indexes[strings.TrimPrefix(b, "category/")], "banned there already")
		}
	}
}

// filters reports whether a group is filtered at all, by its mode. If not, it adds the only
// rule of the group.
func filters(c *folder, lists []ref, opts map[string]option, add func(policy.Rule)) bool {
	mode, set := opts["groupmode"]
	if !set {
		return true
	}
	switch mode.value {
	case "0":
		if mode.Line > 0 { // it is not for a group without a file
			c.w.Report.Add(&report.Note{Kind: report.Carried, Place: mode.Place, What: mode.Text, Ours: "rule \"group banned\""})
		}
		add(policy.Rule{Name: "group banned", Action: "block"})
		reportMoot(c.w.Report, lists, opts, "all is refused to the group")
		return false
	case "1":
		c.w.Report.Add(&report.Note{Kind: report.Default, Place: mode.Place, What: mode.Text})
	case "2":
		c.w.Report.Add(&report.Note{Kind: report.Carried, Place: mode.Place, What: mode.Text, Ours: "rule \"group not filtered\""})
		add(policy.Rule{Name: "group not filtered", Action: "allow"})
		reportMoot(c.w.Report, lists, opts, "the group is not filtered")
		return false
	default:
		c.w.Report.Add(&report.Note{Kind: report.Lost, Place: mode.Place, What: mode.Text, Why: "not a known mode; the group is filtered"})
	}
	return true
}

// uploadRules reads the remaining options, and inserts rules for uploads before the others: the
// group's own rules, or else those for all groups.
func uploadRules(c *folder, lists []ref, opts map[string]option, p *policy.Policy, grey bool) {
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
func extensionRules(c *folder, exts []string, add func(policy.Rule), rule policy.Rule) {
	behind := rule
	rule.Extension = exts
	add(rule)
	var quoted []string
	for _, x := range exts {
		quoted = append(quoted, regexp.QuoteMeta(x))
	}
	if expr := `/.*[?;].*[.](` + strings.Join(quoted, "|") + `)$`; len(expr) <= build.MaxPattern {
		behind.Name, behind.URL = "extensions in queries", []string{expr}
		add(behind)
	}
	at := report.Place{File: c.dir}
	c.w.Report.Add(&report.Note{Kind: report.Changed, Place: at, What: "banned extensions before a query", Ours: `rule "banned extensions"`,
		Why: "e2guardian checks only the end of the URL: it allows setup.exe?x=1, which the gateway refuses", Effect: report.Closes})
}

func (c *folder) conflicts(outer, inner []string, why string) {
	for _, a := range inner {
		for _, b := range outer {
			build.ReportShadows(c.w, c.indexes[strings.TrimPrefix(a, "category/")], c.indexes[strings.TrimPrefix(b, "category/")], why)
		}
	}
}

// inline reads a list that becomes part of a rule.
func (c *folder) inline(lists []ref, typ, name string, read func(string) (string, error)) (all []string) {
	for _, r := range lists {
		if r.typ != typ || r.name != name {
			continue
		}
		n := len(all)
		for _, at := range c.items(r) {
			x, err := read(at.Text)
			if err != nil {
				c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q is no %s", at.Text, typ), Why: "left out"})
				continue
			}
			if !slices.Contains(all, x) {
				all = append(all, x)
			}
		}
		if n == len(all) {
			c.w.Report.Add(&report.Note{Kind: report.Empty, Place: r.Place, What: r.Text, Why: "nothing is in it"})
			continue
		}
		c.w.Report.Add(&report.Note{Kind: report.Carried, Place: r.Place, What: r.Text, Ours: fmt.Sprintf("%d in %s of a rule", len(all)-n, typ)})
	}
	return all
}

// times makes rules from time lists.
func (c *folder) times(lists []ref, name, rule string, unless []string, add func(policy.Rule)) {
	for _, r := range lists {
		if r.typ != "time" || r.name != name {
			continue
		}
		var when policy.Schedule
		for _, at := range c.items(r) {
			s := at.Text
			var sh, sm, eh, em int
			var days string
			if n, _ := fmt.Sscanf(s, "%d %d %d %d %s", &sh, &sm, &eh, &em, &days); n != 5 || sh < 0 || sh > 23 || eh < 0 || eh > 23 || sm < 0 || sm > 59 || em < 0 || em > 59 || strings.Trim(days, "0123456") != "" {
				c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q is not a time", s), Why: "left out", Mend: "hour minute hour minute days, days 0 (Monday) to 6"})
				continue
			}
			when = append(when, policy.Window{Old: fmt.Sprintf("%d %d %d %d %s", sh, sm, eh, em, days)})
		}
		if len(when) > 0 {
			add(policy.Rule{Name: rule, Action: "block", Schedule: when, Unless: unless})
			c.w.Report.Add(&report.Note{Kind: report.Carried, Place: r.Place, What: r.Text, Ours: fmt.Sprintf("rule %q", rule)})
		}
	}
}

// blankets makes rules from "**" and "*ip".
func (c *folder) blankets(lists []ref, ban string, unless []string, add func(policy.Rule)) {
	for _, r := range lists {
		if r.name != "banned" {
			continue
		}
		for _, at := range c.blanket[r.path] {
			s := at.Text
			switch {
			case c.typed:
				c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q has no effect since e2guardian 5", s), Mend: "a rule without conditions, action: block, after those that allow"})
			case s == "**":
				add(policy.Rule{Name: "blanket block", Action: ban, Unless: unless})
				c.w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: `"**"`, Ours: `rule "blanket block"`})
			case s == "*ip":
				add(policy.Rule{Name: "addresses", Action: ban, Category: c.w.Addresses(), Unless: unless})
				c.w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: `"*ip"`, Ours: `rule "addresses"`})
			case s == "**s":
				add(policy.Rule{Name: "blanket block of tunnels", Action: "block", Method: []string{"CONNECT"}, Unless: unless})
				c.w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: `"**s"`, Ours: `rule "blanket block of tunnels"`})
			case s == "*ips":
				add(policy.Rule{Name: "tunnels to addresses", Action: "block", Method: []string{"CONNECT"}, Category: c.w.Addresses(), Unless: unless})
				c.w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: `"*ips"`, Ours: `rule "tunnels to addresses"`})
			}
		}
	}
}

// referers makes an allow rule from the sites whose links all work.
func (c *folder) referers(lists []ref, add func(policy.Rule)) {
	var hosts []string
	for _, r := range lists {
		if r.name != "refererexception" {
			continue
		}
		if r.typ == "url" {
			if n := len(c.items(r)); n > 0 {
				c.w.Report.Add(&report.Note{Kind: report.Lost, Place: r.Place, What: r.Text, Why: "a referring page is known by its host only"})
			}
			continue
		}
		before := len(hosts)
		for _, at := range c.items(r) {
			host, reason := dns.Host(nil, []byte(strings.TrimSuffix(at.Text, "/")))
			if reason != "" {
				c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q is not a host", at.Text), Why: "left out"})
				continue
			}
			if len(hosts) >= 10_000 {
				c.w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: at.Text, Why: "a rule has at most 10,000 referers"})
				continue
			}
			hosts = append(hosts, string(host))
		}
		n := &report.Note{Kind: report.Carried, Place: r.Place, What: r.Text, Ours: `rule "referers"`}
		if len(hosts) == before {
			n.Kind, n.Ours, n.Why = report.Empty, "", "nothing is in it"
		}
		c.w.Report.Add(n)
	}
	if len(hosts) > 0 {
		add(policy.Rule{Name: "referers", Action: "allow", Referer: hosts})
	}
}

var headerStart = regexp.MustCompile(`^\^?([A-Za-z][A-Za-z0-9-]*): ?`)

// headers makes rules from expressions for header lines and user agents.
func (c *folder) headers(lists []ref, begin, action string, unless []string, add func(policy.Rule)) {
	for _, r := range lists {
		if r.typ != "regexp" || r.name != begin+"header" && r.name != begin+"useragent" {
			continue
		}
		var agents []string
		for _, at := range c.items(r) {
			s := at.Text
			lost := func(n *report.Note) {
				if c.short[r.path] = true; !r.isBan() {
					n.Effect = report.Closes
				}
				n.Place, n.What = at, report.Clip(s)
				c.w.Report.Add(n)
			}
			if _, err := regexp.Compile("(?i:" + s + ")"); err != nil {
				if !build.OtherSyntax(err) {
					c.w.Report.Add(&report.Note{Kind: report.Regexp, Place: at, What: report.Clip(s), Why: err.Error()})
					continue
				}
				lost(&report.Note{Kind: report.Regexp, Why: err.Error()})
				continue
			}
			if len(s) > build.MaxPattern {
				lost(report.None("an expression in a rule has at most 4096 bytes"))
				continue
			}
			if r.name == begin+"useragent" {
				agents = append(agents, s)
				continue
			}
			m := headerStart.FindStringSubmatch(s)
			rest := strings.TrimPrefix(s, strings.Join(m[:min(1, len(m))], ""))
			if _, err := regexp.Compile("(?i:" + rest + ")"); m == nil || rest == "" || err != nil {
				lost(&report.Note{Kind: report.Lost, Why: "a condition on a header names its field", Mend: "Name: and the expression for the value"})
				continue
			}
			add(policy.Rule{Name: begin + " header", Action: action, Header: map[string]string{m[1]: rest}, Unless: unless})
			c.w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: s, Ours: fmt.Sprintf("rule %q", begin+" header")})
		}
		if len(agents) > 0 {
			add(policy.Rule{Name: begin + " agents", Action: action, Agent: agents, Unless: unless})
			c.w.Report.Add(&report.Note{Kind: report.Carried, Place: r.Place, What: r.Text, Ours: fmt.Sprintf("rule %q", begin+" agents")})
		}
	}
}

// search makes rules from search lists, whose words e2guardian compares as a set.
func (c *folder) search(lists []ref, name, rule, ban string, add func(policy.Rule)) {
	for _, r := range lists {
		if r.typ != "search" || r.name != name {
			continue
		}
		var terms []string
		for _, at := range c.items(r) {
			s := at.Text
			words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return r == '+' || r == ' ' })
			unsaid := slices.ContainsFunc(words, func(w string) bool { return !strings.ContainsFunc(w, isLetterOrDigit) })
			if unsaid {
				c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q has no letter or digit to search for", s), Why: "left out"})
				continue
			}
			if len(words) == 0 || len(terms) > 10_000 {
				c.short[r.path] = true
				c.w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: s, Why: "a rule has at most 10,000 searches"})
				continue
			}
			if len(words) > 4 {
				n := report.Differs(fmt.Sprintf("rule %q", rule), "more than four words in any order cannot be expressed, so the first four are enough")
				n.Place, n.What = at, s
				c.w.Report.Add(n.Closing())
				words = words[:4]
			}
			terms = append(terms, files.Orders(words)...)
		}
		if len(terms) > 0 {
			add(policy.Rule{Name: rule, Action: ban, Search: terms})
			c.w.Report.Add(&report.Note{Kind: report.Changed, Place: r.Place, What: r.Text, Ours: fmt.Sprintf("rule %q", rule), Why: "matches when the words are part of a search, while e2guardian compares the whole search"})
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
func (c *folder) redirects(lists []ref, add func(policy.Rule)) {
	for _, r := range lists {
		if r.typ != "replace" || r.name != "redirect" {
			continue
		}
		for _, at := range c.items(r) {
			s := at.Text
			expr, to, ok := replacement(s)
			expr = strings.NewReplacer(`^http://`, "^", `^https://`, "^", `^https?://`, "^", `^http[s]?://`, "^").Replace(expr)
			_, err := regexp.Compile("(?i:" + expr + ")")
			switch {
			case !ok:
				c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: s, Why: "left out", Mend: `"expression"->"URL"`})
			case err != nil:
				c.w.Report.Add(&report.Note{Kind: report.Regexp, Place: at, What: s, Why: err.Error()})
			case len(expr) > build.MaxPattern:
				c.w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: s[:80] + "…", Why: "an expression in a rule has at most 4096 bytes"})
			case strings.ContainsAny(to, `\$`) || strings.Contains(expr, "://") || !build.PlainURL(to) || expr == "":
				c.w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: s, Why: "a redirect leads to a fixed URL, with the whole URL or host filled in"})
			default:
				add(policy.Rule{Name: "redirect", Action: "redirect", URL: []string{expr}, To: to})
				c.w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: s, Ours: "rule \"redirect\""})
			}
		}
	}
}

// tenants converts a field that is added to requests.
func tenants(c *folder, p *policy.Policy, n *report.Note, s string) bool {
	_, to, ok := replacement(s)
	field, value, is := strings.Cut(to, ":")
	if n.Ours = build.Tenant(p, strings.TrimSpace(field), strings.TrimSpace(value)); !ok || !is || n.Ours == "" {
		return false
	}
	n.Kind = report.Carried
	return true
}

// replacements converts the lists that change requests, as far as we have an equivalent.
func (c *folder) replacements(lists []ref, p *policy.Policy) {
	for _, r := range lists {
		if r.typ != "replace" || r.name == "redirect" || r.name == "searchterms" {
			continue
		}
		for _, at := range c.items(r) {
			s := at.Text
			low := strings.ToLower(s)
			n := &report.Note{Kind: report.Changed, Place: at, What: s}
			switch {
			case strings.Contains(low, "youtube-restrict") && strings.Contains(low, "strict"):
				p.YouTube, n.Ours = "strict", "youtube: strict"
				if strings.Contains(low, "moderate") {
					p.YouTube, n.Ours = "moderate", "youtube: moderate"
				}
			case strings.Contains(low, "safe=") || strings.Contains(low, "adlt=") || strings.Contains(low, "safesearch") || strings.Contains(low, "forcesafe") || strings.Contains(low, "vm=r"):
				p.SafeSearch, n.Ours = true, "safesearch: true"
			case tenants(c, p, n, s):
			default:
				n.Kind, n.Why = report.Lost, "requests and pages are not rewritten by expressions"
			}
			if n.Kind == report.Changed {
				n.Why = "the preset covers current search engines"
			}
			c.w.Report.Add(n)
		}
	}
}
