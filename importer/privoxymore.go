package importer

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/setting"
)

// privoxyConf collects everything in Privoxy's main file and actions except blocking.
type privoxyConf struct {
	*plain
	dir string

	rootNote             *Note  // on which the notes about the root are made
	authority, cert, key string // the root: a folder, and files in it
	trusted              setting.File
	clients              []privoxyClients
	opens                bool              // TLS of all hosts is decrypted, with exceptions
	hosts                []*privoxySection // sections that say otherwise for some hosts
	decided              bool              // a later section decides for all requests whether TLS is decrypted
	intercepted          bool              // the proxy also gets requests of clients that do not know it
	trust                []policy.Rule
	redirects            []policy.Rule
}

// privoxyClients has networks that may or may not use the proxy. The last line that matches
// counts.
type privoxyClients struct {
	permit bool
	nets   []policy.Network
}

// decrypts finds the sections that say which TLS is decrypted: the last one that is about all
// requests, and those after it.
func (p *privoxyConf) decrypts(all []*privoxySection) {
	p.rootNote = &Note{Kind: Default, Why: "no section looks into connections"}
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
	if p.opens || slices.ContainsFunc(p.hosts, func(s *privoxySection) bool { open, _ := s.switches("https-inspection"); return open }) {
		p.rootNote = carried("intercept: root")
	}
}

// inspection converts what a section says about decrypting TLS.
func (p *privoxyConf) inspection(s *privoxySection, on bool) *Note {
	switch {
	case !s.coversAll() && !slices.Contains(p.hosts, s), s.coversAll() && p.decided:
		return &Note{Kind: Default, Why: "a later section decides"}
	case s.coversAll():
		p.decided = true
	}
	if on && p.set.Cut == nil {
		n := p.intercept(s.place, findFile(p.authority, filepath.Join(p.authority, p.cert)), findFile(p.authority, filepath.Join(p.authority, p.key)))
		if n.Kind != Carried || s.coversAll() {
			return n
		}
	}
	switch {
	case s.coversAll() && on:
		return carried("decrypt: true")
	case s.coversAll():
		return carried("decrypt: false")
	case p.opens:
		return differs("a rule that keeps connections closed", "the pages of these hosts are judged by their names, also where they come by plain HTTP")
	}
	return differs("decrypt: true, and a rule that keeps other connections closed", "the pages of other hosts are judged by their names, also where they come by plain HTTP")
}

// closed adds to a policy which connections are not decrypted: those to some hosts, or to all
// but some. Rules about pages do not apply to them.
func (p *privoxyConf) closed(to *policy.Policy) error {
	var names, expressions []place
	for _, s := range p.hosts {
		for _, at := range s.patterns {
			u, ok := privoxyURL(at.what)
			if !ok {
				p.rep.add(&Note{Kind: Lost, place: at, What: at.what, Ours: "rules", Why: "a pattern of tags, not of URLs: write a rule with action: allow and host for what is to stay closed"})
				continue
			}
			u.path, u.port = "", ""
			name, below, plain := u.name()
			switch open, _ := s.switches("https-inspection"); {
			case !plain && open == p.opens:
				p.rep.add(&Note{Kind: Lost, place: at, What: at.what, Ours: "lists.inspection", Why: "a pattern within other ones: write the hosts that it stands for into the list, each with @@ in front"})
			case !plain:
				expressions = append(expressions, place{at.file, at.line, u.expression()})
			case open == p.opens:
				names = append(names, place{at.file, at.line, "@@||" + name + "^"})
			case below:
				name = "||" + name + "^"
				fallthrough
			default:
				names = append(names, place{at.file, at.line, name})
			}
		}
	}
	some := false
	for i, lines := range [][]place{names, expressions} {
		if len(lines) == 0 || p.set.Cut == nil {
			continue
		}
		path, err := p.ownLines(p.freeName("inspection"), lines)
		if err != nil {
			return err
		}
		cfg := listOfZones(path, "inspection")
		if i == 1 {
			cfg = list.Config{Path: cfg.Path, Category: "inspection", Format: list.Expressions, Match: list.Boundary}
		}
		made, err := p.addList("inspection", cfg, place{file: p.dir, what: "hosts of https-inspection"})
		if err != nil {
			return err
		}
		some = some || made != ""
	}
	if !some {
		return nil
	}
	hosts := []string{"category/inspection"}
	isPages := func(c string) bool { return strings.HasSuffix(c, privoxyPages) }
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
			pages.Name, pages.Unless = pages.Name+privoxyPages, slices.Concat(r.Unless, hosts)
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

// access converts a line about clients. If there is such a line, other clients are refused.
func (p *privoxyConf) access(permit bool, f []string) *Note {
	if len(f) != 1 {
		return lostOurs("policies", "write a policy with the networks, and a rule for the host")
	}
	n, err := network(f[0])
	if err != nil {
		return lostOurs("policies", err.Error()+": write a policy with the networks")
	}
	if last := len(p.clients) - 1; last >= 0 && p.clients[last].permit == permit {
		p.clients[last].nets = append(p.clients[last].nets, policy.Network{Prefix: n})
	} else {
		p.clients = append(p.clients, privoxyClients{permit, []policy.Network{{Prefix: n}}})
	}
	return carried("policies: networks")
}

// trustFile reads the only sites that may be visited: "~host", and "+host", whose links may be
// followed as well. Other entries of the file forbid sites.
func (p *privoxyConf) trustFile(value string) *Note {
	found := filesOf(p.dir, value)
	if len(found) == 0 {
		return lost("no such file: copy it beside the settings and import again")
	}
	trusted, refused := &privoxySection{place: p.at}, &privoxySection{place: p.at}
	err := textLines(found[0], func(n int, b []byte) error {
		if b = privoxyComment(b); len(b) == 0 {
			return nil
		}
		at, to := place{file: found[0], line: n, what: string(b)}, refused
		if b[0] == '~' || b[0] == '+' {
			to, at.what = trusted, at.what[1:]
		}
		if b[0] == '+' {
			p.rep.add(&Note{Kind: Changed, place: at, What: string(b), Ours: "lists.trusted", Why: "pages that it links to are refused unless they are trusted too"})
		}
		to.patterns = append(to.patterns, at)
		return nil
	})
	if err != nil {
		return lost(err.Error())
	}
	var rules []policy.Rule
	for _, x := range []struct {
		name string
		of   *privoxySection
	}{{"untrusted", refused}, {"trusted", trusted}} {
		categories, err := privoxyLists(p.work, x.name, []*privoxySection{x.of})
		switch r := (policy.Rule{Name: x.name, Action: "block"}); {
		case err != nil:
			return lost(err.Error())
		case x.name == "trusted":
			r.Name, r.Unless = "not trusted", categories
			rules = append(rules, r)
		case len(categories) > 0:
			r.Category = categories
			rules = append(rules, r)
		}
	}
	p.trust = rules
	return carried("rules in front of the others")
}

// coversAll reports whether a section is about all requests.
func (s *privoxySection) coversAll() bool {
	return slices.ContainsFunc(s.patterns, func(at place) bool { return at.what == "/" })
}

// section converts one that does not say whether to block. Sections come from the last one to
// the first, and the first that says something counts.
func (p *privoxyConf) section(s *privoxySection) {
	p.reportEffects(s)
	for _, at := range s.patterns {
		p.rep.add(&Note{Kind: Default, place: at, What: at.what, Why: "with its actions"})
	}
}

// privoxySeen names actions that are not needed beside a block.
var privoxySeen = []string{"block", "handle-as-image", "handle-as-empty-document", "set-image-blocker"}

// reportEffects reports the effects of a section besides blocking, action by action.
func (p *privoxyConf) reportEffects(s *privoxySection) {
	some := false
	for _, m := range privoxyAction.FindAllStringSubmatch(s.actions, -1) {
		if slices.Contains(privoxySeen, m[2]) {
			continue
		}
		n := p.action(s, m[1] == "+", m[2], strings.Trim(m[3], "{}"))
		n.place, n.What, some = s.place, m[0], true
		p.rep.add(n)
	}
	if _, blocks := s.blocks(); !some && !blocks {
		p.rep.add(&Note{Kind: Default, place: s.place, What: s.what, Why: "blocked pictures are always replaced by empty ones"})
	}
}

// privoxyToURL is a fixed address; others are selected by expressions.
var privoxyToURL = regexp.MustCompile(`^https?://[^\\$ ]+$`)

// action converts one that does not block.
func (p *privoxyConf) action(s *privoxySection, on bool, name, value string) *Note {
	switch {
	case name == "https-inspection":
		return p.inspection(s, on)
	case !on:
		return &Note{Kind: Default}
	case name == "limit-connect" && s.coversAll():
		if p.set.Proxy.ConnectPorts = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }); len(p.set.Proxy.ConnectPorts) == 0 {
			p.set.Proxy.ConnectPorts = setting.OneOrMore[string]{"any"}
		}
		return carried("proxy.connect-ports")
	case name == "limit-connect":
		return lostOurs("proxy.connect-ports", "ports are the same for all hosts: write there the ports of tunnels")
	case name == "redirect" && privoxyToURL.MatchString(value) && plainURL(value):
		list := fmt.Sprintf("redirect-%d", len(p.redirects)+1)
		categories, err := privoxyLists(p.work, list, []*privoxySection{s})
		if err != nil || len(categories) == 0 {
			return lostOurs("rules", "it contains no valid hosts")
		}
		p.redirects = append(p.redirects, policy.Rule{Name: list, Action: "redirect", To: value, Category: categories})
		return carried("a rule with action: redirect")
	case name == "redirect":
		return lostOurs("rules", "a redirect leads to a fixed URL, with the whole URL or host filled in: write a rule with action: redirect")
	case name == "forward-override" && value == "forward .":
		for _, at := range s.patterns {
			p.privoxyForward([]string{at.what, "."})
		}
		return carried("proxy.no-parent")
	case name == "add-header":
		field, text, _ := strings.Cut(value, ":")
		if ours := tenant(p.mainPolicy(), field, strings.TrimSpace(text)); ours != "" && s.coversAll() {
			return carried(ours)
		}
	}
	return lost("only blocks are carried over; pages and fields are not rewritten")
}

// finish makes the policies: for some clients, and for everybody.
func (p *privoxyConf) finish(everyone policy.Policy) error {
	if len(p.set.Policies) > 0 { // made for values of fields
		everyone.Tenants, everyone.YouTube = p.set.Policies[0].Tenants, p.set.Policies[0].YouTube
	}
	everyone.Rules = slices.Concat(p.trust, p.redirects, everyone.Rules)
	everyone.Decrypt = p.decrypt
	if err := p.closed(&everyone); err != nil {
		return err
	}
	if p.set.Cut != nil && p.trusted != "" {
		p.set.Cut.Trust = append(p.set.Cut.Trust, p.trusted)
	}
	if len(p.set.Listen.Proxy) == 0 {
		p.set.Listen.Proxy = listenOn("127.0.0.1", 8118) // as Privoxy does
	}
	for _, a := range p.set.Listen.Proxy {
		if host, port, err := net.SplitHostPort(string(a)); err == nil && p.intercepted {
			n, _ := strconv.Atoi(port) // which is one, or check says so
			p.set.Listen.Transparent = append(p.set.Listen.Transparent, listenOn(host, n+1)...)
		}
	}
	p.set.Policies = nil
	for i, c := range slices.Backward(p.clients) {
		x := everyone
		if x.Name = "permitted"; !c.permit {
			x = policy.Policy{Name: "denied", Rules: []policy.Rule{{Name: "denied", Action: "block"}}}
		}
		if n := len(p.clients) - i; n > 2 { // they alternate
			x.Name = fmt.Sprintf("%s (%d)", x.Name, (n+1)/2)
		}
		x.Networks = c.nets
		p.set.Policies = append(p.set.Policies, x)
	}
	if len(p.clients) > 0 {
		everyone = policy.Policy{Name: "everyone else", Rules: []policy.Rule{{Name: "not permitted", Action: "block"}}}
	}
	p.set.Policies = append(p.set.Policies, everyone)
	return nil
}
