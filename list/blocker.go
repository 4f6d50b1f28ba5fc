package list

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"shuultuur/lib/dns"
	"shuultuur/list/adblock"
)

// adblockLine reads a rule of an ad blocker. A rule about a whole host is an entry; one that
// depends on more of a request goes into the table of rules; one that only a browser can apply
// is counted.
func (p *parser) adblockLine(s []byte) {
	if name, ok := adblock.Included(s); ok && !p.b.cfg.Fetched && p.conditions.Hold() {
		p.b.includes = append(p.b.includes, include{name, Problem{File: p.src.Path, Line: p.src.Lines}, p.b.depth + 1})
		return
	}
	switch ours, err := p.conditions.Read(s); {
	case err != nil:
		p.refuse(s, err.Error())
		return
	case ours:
		return
	case !p.conditions.Hold():
		p.countUnused("other programs")
		return
	}
	if i := bytes.IndexAny(s, " \t"); i > 0 && isAddr(s[:i]) {
		p.hostsRule(s[:i], s)
		return
	}
	if !p.exact {
		p.rule.Parse(s)
		p.adblockRule(s)
		return
	}
	// Where names match only the host, a rule still states its own scope.
	if isBareName(s) {
		p.name(s, 0)
		return
	}
	p.exact = false
	p.rule.Parse(s)
	p.adblockRule(s)
	p.exact = true
}

// isBareName reports whether s is a name and not a rule.
func isBareName(s []byte) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c < 0x80 {
			return false
		}
	}
	return bytes.IndexByte(s, '.') > 0
}

// isPiholeLine reports whether a line looks like one of this format: it begins where a name or a label
// does, or has a condition.
func isPiholeLine(s []byte) bool {
	return !bytes.ContainsAny(s, "/$= \t") && bytes.HasPrefix(s, []byte("^")) || bytes.HasPrefix(s, []byte(`(^|\.)`)) || bytes.HasPrefix(s, []byte(`(\.|^)`)) || bytes.Contains(s, []byte(";querytype="))
}

// piholeLine reads a regular expression of Pi-hole.
func (p *parser) piholeLine(s []byte) {
	remark := p.rule.ParsePihole(s, func() { p.adblockRule(s) })
	switch {
	case p.rule.Kind == adblock.Bad:
		p.refuse(s, p.rule.Reason)
	case remark != "":
		p.remark(s, remark)
	}
}

// adblockRule adds the parsed line s.
func (p *parser) adblockRule(s []byte) {
	switch r := &p.rule; r.Kind {
	case adblock.Host:
		p.adblockHost(r)
	case adblock.Network, adblock.Page, adblock.Cosmetic:
		if r.IsWide() && p.refuseWide(s) {
			return
		}
		if r.AnswersWithData() && p.b.cfg.Fetched && !p.b.cfg.Trusted {
			p.refuse(s, "says how a name is answered, which a fetched list may do only if its settings have trusted: true")
			return
		}
		if err := p.b.rules.add(r, p.cat, p.line()); err != nil {
			p.refuse(s, err.Error())
			return
		}
		if r.Kind == adblock.Network && p.format.likely != nil && !p.format.likely(s) {
			p.b.report.Odd++
		}
		if r.BadFilter {
			p.b.bad = append(p.b.bad, r.Canonical())
		}
	case adblock.Unsupported:
		p.countUnused(r.Reason)
	case adblock.Bad:
		p.refuse(s, r.Reason)
	}
}

// hostsRule reads a line of a hosts file among rules, which matches only the host. An address
// that is not a sink is the answer of a name server.
func (p *parser) hostsRule(addr, s []byte) {
	a, err := netip.ParseAddr(string(addr))
	if err != nil || a.IsUnspecified() || a.IsLoopback() {
		exact := p.exact
		p.exact = p.b.cfg.Subdomains == nil || !*p.b.cfg.Subdomains
		p.hostsLine(s)
		p.exact = exact
		return
	}
	s, _, _ = bytes.Cut(s, []byte("#"))
	_, rest := field(s)
	for name, rest := field(rest); len(name) > 0; name, rest = field(rest) {
		if _, reason := dns.Host(p.host[:0], name); reason != "" {
			p.refuse(name, reason)
			continue
		}
		p.rule.Parse(fmt.Appendf(nil, "|%s|$dnsrewrite=%v", name, a.WithZone("")))
		p.adblockRule(s)
	}
}

func (p *parser) adblockHost(r *adblock.Rule) {
	var flags uint8
	if r.Exception {
		flags |= flagException
	}
	if r.Important {
		flags |= flagImportant
	}
	if !r.BadFilter {
		p.name(r.Host, flags)
		return
	}
	if name, reason := dns.Host(nil, r.Host); reason == "" {
		if p.b.dropped == nil {
			p.b.dropped = map[string]bool{}
		}
		key := string(append([]byte{flags}, name...))
		p.b.dropped[key] = true
		p.b.bad = append(p.b.bad, key)
	}
}

// countUnused counts an unused rule.
func (p *parser) countUnused(what string) {
	p.src.Ignored++
	if p.b.rules.unused == nil {
		p.b.rules.unused = map[string]int{}
	}
	if _, ok := p.b.rules.unused[what]; ok || len(p.b.rules.unused) < keptPerFile {
		p.b.rules.unused[what]++
	}
}

// add adds a rule.
func (b *ruleBuilder) add(r *adblock.Rule, category uint16, line uint32) error {
	b.n++
	if r.Kind == adblock.Cosmetic {
		return b.cosmetics.Add(r, line)
	}
	if r.Effects != 0 {
		if err := b.pages.Add(r, category, line); err != nil {
			return err
		}
	}
	if r.Kind == adblock.Page {
		return nil
	}
	return b.requests.Add(r, category, line)
}

// unusedRules reports the rules that only a browser can apply.
func (p *parser) unusedRules() {
	b := p.b
	for _, what := range slices.Sorted(maps.Keys(b.rules.unused)) {
		p.note(0, fmt.Sprintf("%d rules for %s are not used", b.rules.unused[what], what))
	}
	b.rules.unused = nil
}

// namesBlocker reports whether a line names the ad blocker that a list is for.
func namesBlocker(s []byte) bool {
	return bytes.HasPrefix(s, []byte("[Adblock")) || bytes.HasPrefix(s, []byte("[uBlock"))
}

// isRule reports whether a line looks like a rule or comment of an ad blocker.
func isRule(s []byte) bool {
	if s[0] == '#' {
		return bytes.HasPrefix(s, []byte("##")) && len(s) > 2 && s[2] != '#' && s[2] != ' '
	}
	return s[0] == '!' || bytes.HasPrefix(s, []byte("||")) || bytes.HasPrefix(s, []byte("@@")) || bytes.Contains(s, []byte("##")) || bytes.IndexByte(s, '$') >= 0
}
