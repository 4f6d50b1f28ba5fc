package importer

import (
	"slices"
	"strings"

	"shuultuur/policy"
)

// bump takes a line of ssl_bump. at_step says when Squid asks, which is once here.
func (c *squidConf) bump(at place, f []string) *Note {
	if len(f) == 0 {
		return lost("it contains no valid action")
	}
	var names []string
	clients := true // alone
	for _, name := range f[1:] {
		a := c.acls[strings.TrimPrefix(name, "!")]
		if name == "all" || a != nil && a.kind == "at_step" {
			continue
		}
		names = append(names, name)
		clients = clients && a != nil && (a.kind == "src" || a.kind == "group" || a.kind == "proxy_auth")
	}
	l := squidAccess{allow: f[0] != "terminate", names: names, at: at, bump: f[0]}
	n := carried("decrypt: true")
	switch f[0] {
	case "peek", "stare":
		return carried("intercept, which reads the name of every hello")
	case "splice", "none":
		if l.bump = "splice"; clients {
			n = carried("decrypt: false")
		} else {
			n = carried("a rule by name, which leaves connections encrypted")
		}
	case "terminate":
		if len(names) == 0 {
			return lostOurs("policies", "everything would be refused: write a rule with action: block if you want that")
		}
		n = carried("a rule in front of the others, by name")
	case "bump", "client-first", "server-first":
		if l.bump = "bump"; !clients {
			n = differs("decrypt: true", "for all names; connections that should stay encrypted need a rule with action: allow")
		}
	default:
		return lost("not a known action")
	}
	c.bumps = append(c.bumps, l)
	return n
}

// opens returns the effect of ssl_bump on the connections of some clients: whether
// they are decrypted, and rules for the names of which they are not, or are cut.
func (c *squidConf) opens(who *squidClients) (decrypt bool, rules []policy.Rule, err error) {
	for _, l := range c.bumps {
		r, fits, n, err := c.rule(l, who)
		switch {
		case err != nil:
			return false, nil, err
		case !fits || n.Kind == Lost:
		case l.bump == "bump":
			return true, rules, nil
		case everything(r) && l.bump == "splice":
			return false, rules, nil
		default:
			r.Name = ruleName(rules, "ssl_bump "+strings.Join(l.names, " "))
			rules = append(rules, r)
		}
	}
	return false, rules, nil
}

// stayClosed keeps connections to names closed where http_access allows them: an allow counts for
// a name once no rule before it waits for more than the name.
func stayClosed(p *policy.Policy, closed []policy.Rule, acls map[string]*squidACL) {
	var names []string
	for _, r := range closed {
		names = append(names, r.Category...)
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		byName := !slices.ContainsFunc(r.Category, func(s string) bool {
			a := acls[strings.TrimPrefix(s, "category/")]
			return a == nil || strings.HasSuffix(a.kind, "_regex")
		})
		x := *r
		x.Category, x.Unless, x.Schedule = nil, nil, nil
		if !byName || r.Larger > 0 || !everything(x) {
			r.Unless = append(r.Unless, names...)
		}
	}
	if n := len(p.Rules); n > 0 && everything(p.Rules[n-1]) {
		return
	}
	for _, r := range closed {
		r.Name = ruleName(p.Rules, r.Name)
		p.Rules = append(p.Rules, r)
	}
}
