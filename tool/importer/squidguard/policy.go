package squidguard

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/report"
)

// policies makes a policy for each source, in the order of definition, and for the default.
func (q *config) policies() error {
	standard := q.acls["default"]
	if standard == nil {
		standard = &acl{then: branch{pass: []string{"none"}, Place: report.Place{File: q.file}}}
	}
	known := map[string]bool{"default": true}
	for _, s := range q.sources {
		known[s.name] = true
		a := q.acls[s.name]
		if a == nil {
			a = standard
			q.w.Report.Add(&report.Note{Kind: report.Changed, Place: s.Place, What: "source " + s.name, Ours: "the rules of default", Why: "no acl is for it"})
		}
		if s.unknown || len(s.networks)+len(s.users) == 0 {
			n := report.ByHand("rules of the policies after it", "not all of its clients are known: what it refuses is refused to everybody whom no source before has")
			n.Place, n.What = s.Place, "source "+s.name
			q.w.Report.Add(n.Closing())
			q.refuse(a, standard)
			continue
		}
		q.policy(s, a, standard)
	}
	for _, name := range slices.Sorted(maps.Keys(q.acls)) {
		if !known[name] {
			q.w.Report.Add(&report.Note{Kind: report.Lost, Place: q.acls[name].Place, What: "acl " + name, Why: "there is no source of that name"})
		}
	}
	q.policy(&source{name: "default"}, standard, standard)
	return nil
}

func (q *config) policy(s *source, a, standard *acl) {
	put := func(name string, b branch, when *calendar) {
		schedule, ok := when.schedule()
		if !ok {
			q.w.Report.Add(&report.Note{Kind: report.Empty, Place: b.Place, What: "policy " + name, Why: "it would never apply"})
			return
		}
		q.w.Set.Policies = append(q.w.Set.Policies, policy.Policy{Name: name, Networks: build.PolicyNetworks(q.w, s.Place, s.networks), Users: s.users,
			Schedule: schedule, SafeSearch: b.safe, Rules: slices.Concat(q.refused, q.rules(b, standard.then.redirect))})
	}
	second := a.elseThen
	if !a.hasElse {
		second = standard.then
	}
	outer := q.within(s.within, s.outside, s.Place)
	switch inner := q.times[a.within]; {
	case a.within == "":
		put(s.name, a.then, outer)
	case inner == nil:
		q.w.Report.Add(&report.Note{Kind: report.Lost, Place: a.Place, What: "time " + a.within, Why: "it is unknown, so what applies outside of it is used"})
		if a.outside {
			second = a.then
		}
		put(s.name, second, outer)
	default:
		put(s.name, a.then, outer.and(q.within(a.within, a.outside, a.Place)))
		put(s.name+" else", second, outer)
	}
}

// refuse adds what an acl refuses at any time to the rules of the policies after it.
func (q *config) refuse(a, standard *acl) {
	branches := []branch{a.then}
	switch {
	case a.hasElse:
		branches = append(branches, a.elseThen)
	case a.within != "":
		branches = append(branches, standard.then)
	}
	for _, b := range branches {
		var unless []string
		for _, r := range q.rules(b, standard.then.redirect) {
			switch {
			case r.Action != "allow":
				r.Name, r.Schedule, r.Unless = fmt.Sprintf("%s (%d)", r.Name, len(q.refused)+1), nil, slices.Clone(unless)
				q.refused = append(q.refused, r)
			case r.Schedule == nil:
				unless = append(unless, r.Category...)
			}
		}
	}
}

// redirected notes that a redirect is carried over. If we cannot redirect there, the notes on
// its rules say so.
func (q *config) redirected(s statement) {
	to := strings.Join(s.words[1:], " ")
	if _, ok := redirectTo(to); !ok {
		return
	}
	n := &report.Note{Kind: report.Carried, Place: s.Place, What: s.Text, Ours: "action: redirect", Why: redirectChange(to)}
	if n.Why != "" {
		n.Kind = report.Changed
	}
	q.w.Report.Add(n)
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

// rules makes rules from a pass list. The first that matches counts in squidGuard, too.
func (q *config) rules(b branch, standard string) (rules []policy.Rule) {
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
			q.w.Report.Add(&report.Note{Kind: report.Changed, Place: b.Place, What: name, Ours: "action: block", Why: "squidGuard has no target for the redirect, and allows it"})
		case !ok:
			q.w.Report.Add(&report.Note{Kind: report.Changed, Place: b.Place, What: "redirect " + to, Ours: "action: block", Why: "not a URL that a redirect of ours can lead to"})
		default:
			r.Action, r.To = "redirect", url
		}
		rules = append(rules, r)
	}
	used := map[string]bool{}
	for _, word := range b.pass {
		name, not := strings.CutPrefix(word, "!")
		if used[word] {
			continue
		}
		if len(rules) >= build.MaxRules {
			refuse("what the rest selects", nil, "")
			n := report.ByHand("rules", fmt.Sprintf("a policy has %d rules: what the words after %q select is refused", build.MaxRules, word))
			n.Place, n.What = b.Place, b.Text
			q.w.Report.Add(n.Closing())
			return rules
		}
		used[word] = true
		var categories []string
		var when policy.Schedule
		to := ""
		switch d := q.dests[name]; {
		case word == "any" || word == "all":
			q.w.Report.Add(&report.Note{Kind: report.Carried, Place: b.Place, What: b.Text, Ours: "rules"})
			return rules
		case name == "none" || name == "any" || name == "all":
			refuse("everything else", nil, "")
			q.w.Report.Add(&report.Note{Kind: report.Carried, Place: b.Place, What: b.Text, Ours: "rules"})
			return rules
		case name == "in-addr":
			categories = q.w.Addresses()
		case d == nil:
			n := report.None("there is no destination of that name")
			if n.Place, n.What = b.Place, word; not {
				refuse(word, nil, "")
				q.w.Report.Add(n.Closing())
				return rules
			}
			q.w.Report.Add(n)
			continue
		default:
			var ok bool
			categories, to = d.categories, d.redirect
			if when, ok = d.when.schedule(); !ok {
				q.w.Report.Add(&report.Note{Kind: report.Empty, Place: b.Place, What: word, Why: "its time is empty"})
				continue
			}
		}
		switch d := q.dests[name]; {
		case d != nil && d.lost && not:
			refuse(word, nil, to)
			rules[len(rules)-1].Schedule = when
			n := report.ByHand("a rule that refuses more", "some of its lists are not there, or have lines that do not compile: until they do, all is refused that no word before allows")
			n.Place, n.What = b.Place, word
			if q.w.Report.Add(n.Closing()); when == nil {
				return rules
			}
		case len(categories) == 0:
			q.w.Report.Add(&report.Note{Kind: report.Empty, Place: b.Place, What: word, Why: "nothing is in it, so there is no rule for it"})
		case not:
			refuse(word, categories, to)
			rules[len(rules)-1].Schedule = when
		default:
			rules = append(rules, policy.Rule{Name: word, Action: "allow", Category: categories, Schedule: when})
		}
	}
	if len(b.pass) > 0 {
		q.w.Report.Add(&report.Note{Kind: report.Carried, Place: b.Place, What: b.Text, Ours: "rules", Why: "it ends in neither all nor none, so other requests pass", Mend: "none at its end if you want that"})
	} else {
		refuse("everything", nil, "")
		q.w.Report.Add(&report.Note{Kind: report.Changed, Place: b.Place, What: "no pass", Ours: "action: block"})
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
	return s, build.PlainURL(s) && !strings.ContainsAny(authority, "{}")
}
