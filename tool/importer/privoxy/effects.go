package privoxy

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// decrypts finds the sections that say which TLS is decrypted: the last one that is about all
// requests, and those after it.
func (p *config) decrypts(all []*section) {
	p.rootNote = &report.Note{Kind: report.Default, Why: "no section looks into connections"}
	for _, s := range all {
		open, says := s.switches("https-inspection")
		switch {
		case !says:
		case s.coversAll():
			p.opens, p.hosts = open, nil
		default:
			p.hosts = append(p.hosts, s)
		}
	}
	if p.opens || slices.ContainsFunc(p.hosts, func(s *section) bool { open, _ := s.switches("https-inspection"); return open }) {
		p.rootNote = report.Same("intercept: root")
	}
}

// inspection converts what a section says about decrypting TLS.
func (p *config) inspection(s *section, on bool) *report.Note {
	switch {
	case !s.coversAll() && !slices.Contains(p.hosts, s), s.coversAll() && p.decided:
		return &report.Note{Kind: report.Default, Why: "a later section decides"}
	case s.coversAll():
		p.decided = true
	}
	if on && p.p.Work.Set.Cut == nil {
		n := p.p.Work.Intercept(s.Place, input.Find(p.authority, filepath.Join(p.authority, p.cert)), input.Find(p.authority, filepath.Join(p.authority, p.key)))
		if n.Kind != report.Carried || s.coversAll() {
			return n
		}
	}
	switch {
	case s.coversAll() && on:
		return report.Same("decrypt: true")
	case s.coversAll():
		return report.Same("decrypt: false")
	case p.opens:
		return report.Differs("a rule that keeps connections closed", "the pages of these hosts are judged by their names, also where they come by plain HTTP")
	}
	return report.Differs("decrypt: true, and a rule that keeps other connections closed", "the pages of other hosts are judged by their names, also where they come by plain HTTP")
}

// access converts a line about clients. If there is such a line, other clients are refused.
func (p *config) access(permit bool, f []string) *report.Note {
	var nets []policy.Network
	var lost *report.Note
	n, err := input.Network(cmp.Or(append(slices.Clone(f), "")...))
	switch {
	case err != nil:
		lost = report.ByHand("policies", err.Error()+": write a policy with the networks")
		for _, n := range build.AllNetworks() {
			nets = append(nets, policy.Network{Prefix: n})
		}
	case len(f) != 1:
		lost = report.ByHand("policies", "write a policy with the networks, and a rule for the host")
		fallthrough
	default:
		nets = []policy.Network{{Prefix: n}}
	}
	if lost != nil && permit {
		nets = nil
		lost.Why += "; until then it permits nobody"
	} else if lost != nil {
		lost.Why += "; until then it denies all that these clients ask for"
	}
	if last := len(p.clients) - 1; last >= 0 && p.clients[last].permit == permit {
		p.clients[last].nets = append(p.clients[last].nets, nets...)
	} else {
		p.clients = append(p.clients, clients{permit, nets})
	}
	if lost != nil {
		return lost.Closing()
	}
	return report.Same("policies: networks")
}

// trustFile reads the only sites that may be visited: "~host", and "+host", whose links may be
// followed as well. Other entries of the file forbid sites.
func (p *config) trustFile(value string) *report.Note {
	found := input.Glob(p.dir, value)
	if len(found) == 0 {
		p.trust = []policy.Rule{{Name: "not trusted", Action: "block"}}
		return report.None("no such file: copy it beside the settings and import again; until then no site is trusted").Closing()
	}
	trusted, refused := &section{Place: p.p.At}, &section{Place: p.p.At}
	err := input.Lines(found[0], func(n int, b []byte) error {
		if b = cutComment(b); len(b) == 0 {
			return nil
		}
		at, to := report.Place{File: found[0], Line: n, Text: string(b)}, refused
		if b[0] == '~' || b[0] == '+' {
			to, at.Text = trusted, at.Text[1:]
		}
		if b[0] == '+' {
			p.p.Work.Report.Add(&report.Note{Kind: report.Changed, Place: at, What: string(b), Ours: "lists.trusted", Why: "pages that it links to are refused unless they are trusted too"})
		}
		to.patterns = append(to.patterns, at)
		return nil
	})
	if err != nil {
		p.trust = []policy.Rule{{Name: "not trusted", Action: "block"}}
		return report.None(err.Error() + "; until it can be read no site is trusted").Closing()
	}
	var rules []policy.Rule
	for _, x := range []struct {
		name string
		of   *section
	}{{"untrusted", refused}, {"trusted", trusted}} {
		categories, whole, err := makeLists(p.p.Work, x.name, []*section{x.of})
		switch r := (policy.Rule{Name: x.name, Action: "block"}); {
		case err != nil, !whole && x.of == refused:
			p.trust = []policy.Rule{{Name: "not trusted", Action: "block"}}
			return report.None("it cannot be read whole; until it can no site is trusted").Closing()
		case x.name == "trusted":
			r.Name, r.Unless = "not trusted", categories
			rules = append(rules, r)
		case len(categories) > 0:
			r.Category = categories
			rules = append(rules, r)
		}
	}
	p.trust = rules
	return report.Same("rules in front of the others")
}

// coversAll reports whether a section is about all requests.
func (s *section) coversAll() bool {
	return slices.ContainsFunc(s.patterns, func(at report.Place) bool { return at.Text == "/" })
}

// reportSection converts one that does not say whether to block. Sections come from the last one to
// the first, and the first that says something counts.
func (p *config) reportSection(s *section) {
	p.reportEffects(s)
	for _, at := range s.patterns {
		p.p.Work.Report.Add(&report.Note{Kind: report.Default, Place: at, What: at.Text, Why: "with its actions"})
	}
}

// besideBlock names actions that are not needed beside a block.
var besideBlock = []string{"block", "handle-as-image", "handle-as-empty-document", "set-image-blocker"}

// reportEffects reports the effects of a section besides blocking, action by action.
func (p *config) reportEffects(s *section) {
	some := false
	for _, m := range actionText.FindAllStringSubmatch(s.actions, -1) {
		if slices.Contains(besideBlock, m[2]) {
			continue
		}
		n := p.action(s, m[1] == "+", m[2], strings.Trim(m[3], "{}"))
		n.Place, n.What, some = s.Place, m[0], true
		p.p.Work.Report.Add(n)
	}
	if _, blocks := s.blocks(); !some && !blocks {
		p.p.Work.Report.Add(&report.Note{Kind: report.Default, Place: s.Place, What: s.Text, Why: "blocked pictures are always replaced by empty ones"})
	}
}

// fixedURL is a fixed address; others are selected by expressions.
var fixedURL = regexp.MustCompile(`^https?://[^\\$ ]+$`)

// redirectsBefore reports whether a section before s redirects something.
func (p *config) redirectsBefore(s *section) bool {
	return slices.ContainsFunc(p.sections[:slices.Index(p.sections, s)], func(x *section) bool {
		on, _ := x.switches("redirect")
		return on
	})
}

// action converts one that does not block.
func (p *config) action(s *section, on bool, name, value string) *report.Note {
	switch {
	case name == "https-inspection":
		return p.inspection(s, on)
	case !on && name == "redirect" && p.redirectsBefore(s):
		rules, err := p.rules(p.p.Work.FreeName("not-redirected"), "allow", []*section{s})
		if err != nil || slices.ContainsFunc(rules, func(r policy.Rule) bool { return r.Port != nil }) {
			return report.None("patterns with a port: write them into the rules that redirect").Closing()
		}
		for _, r := range rules {
			p.kept = append(p.kept, r.Category...)
		}
		return report.Same("unless, of the rules that redirect")
	case !on:
		return &report.Note{Kind: report.Default}
	case name == "limit-connect" && s.coversAll():
		if p.p.Work.Set.Proxy.ConnectPorts = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }); len(p.p.Work.Set.Proxy.ConnectPorts) == 0 {
			p.p.Work.Set.Proxy.ConnectPorts = setting.OneOrMore[string]{"any"}
		}
		return report.Same("proxy.connect-ports")
	case name == "limit-connect":
		list := fmt.Sprintf("limit-connect-%d", len(p.redirects)+1)
		categories, whole, err := makeLists(p.p.Work, list, []*section{s})
		if err != nil || !whole {
			categories = nil
		}
		others := input.OtherPorts(strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }))
		if len(others) == 0 || err == nil && whole && len(categories) == 0 {
			return report.Same("no rule")
		}
		p.redirects = append(p.redirects, policy.Rule{Name: list, Action: "block", Method: []string{"CONNECT"}, Port: others, Category: categories})
		return report.Same("a rule for tunnels to other ports")
	case name == "redirect" && fixedURL.MatchString(value) && build.PlainURL(value):
		list := fmt.Sprintf("redirect-%d", len(p.redirects)+1)
		rules, err := p.rules(list, "redirect", []*section{s})
		if err != nil || len(rules) == 0 {
			return report.ByHand("rules", "it contains no valid hosts")
		}
		for _, r := range rules {
			r.To, r.Unless = value, slices.Clone(p.kept)
			p.redirects = append(p.redirects, r)
		}
		return report.Same("a rule with action: redirect")
	case name == "redirect":
		return report.ByHand("rules", "a redirect leads to a fixed URL, with the whole URL or host filled in: write a rule with action: redirect")
	case name == "forward-override" && value == "forward .":
		for _, at := range s.patterns {
			p.forward([]string{at.Text, "."})
		}
		return report.Same("proxy.no-parent")
	case name == "add-header":
		field, text, _ := strings.Cut(value, ":")
		if ours := build.Tenant(p.p.Work.MainPolicy(), field, strings.TrimSpace(text)); ours != "" && s.coversAll() {
			return report.Same(ours)
		}
	}
	return report.None("only blocks are carried over; pages and fields are not rewritten")
}
