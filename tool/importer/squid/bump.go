package squid

import (
	"slices"
	"strings"

	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/report"
)

// bump converts a line of ssl_bump. at_step says when Squid decides; we decide once.
func (c *config) bump(f []string) *report.Note {
	if len(f) == 0 {
		return report.None("it contains no valid action")
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
	l := access{allow: f[0] != "terminate", names: names, at: c.at, bump: f[0]}
	n := report.Same("decrypt: true")
	switch f[0] {
	case "peek", "stare":
		return report.Same("intercept, which reads the name of every hello")
	case "splice", "none":
		if l.bump = "splice"; clients {
			n = report.Same("decrypt: false")
		} else {
			n = report.Same("a rule by name, which leaves connections encrypted")
		}
	case "terminate":
		if len(names) == 0 {
			return report.ByHand("policies", "everything would be refused: write a rule with action: block if you want that")
		}
		n = report.Same("a rule in front of the others, by name")
	case "bump", "client-first", "server-first":
		if l.bump = "bump"; !clients {
			n = report.Differs("decrypt: true", "for all names; connections that should stay encrypted need a rule with action: allow")
		}
	default:
		return report.None("not a known action")
	}
	c.bumps = append(c.bumps, l)
	return n
}

// opens returns the effect of ssl_bump on the connections of some clients: whether they are
// decrypted, and rules for the names whose connections are not decrypted, or are cut.
func (c *config) opens(who *build.Clients) (decrypt bool, rules []policy.Rule, err error) {
	for _, l := range c.bumps {
		r, fits, n, err := c.rule(l, who)
		switch {
		case err != nil:
			return false, nil, err
		case !fits || n.Kind == report.Lost && l.bump != "terminate":
		case l.bump == "bump":
			return true, rules, nil
		case hasNoConditions(r) && l.bump == "splice":
			return false, rules, nil
		default:
			r.Name = ruleName(rules, "ssl_bump "+strings.Join(l.names, " "))
			rules = append(rules, r)
		}
	}
	return false, rules, nil
}

// StayClosed keeps connections to names undecrypted where http_access allows them. An allow
// rule counts for a name once no rule before it needs more than the name. hasNames reports whether a
// category has names alone.
func StayClosed(p *policy.Policy, closed []policy.Rule, hasNames func(category string) bool) {
	var names []string
	for _, r := range closed {
		names = append(names, r.Category...)
	}
	var rules []policy.Rule
	for _, r := range p.Rules { // what is asked of the URLs of requests is asked of those of tunnels first
		if len(r.FullURL) > 0 && r.Method == nil {
			tunnel := r
			tunnel.Name, tunnel.Method = ruleName(slices.Concat(rules, p.Rules), r.Name+", tunnels"), []string{"CONNECT"}
			rules = append(rules, tunnel)
		}
		rules = append(rules, r)
	}
	p.Rules = rules
	for i := range p.Rules {
		r := &p.Rules[i]
		byName := !slices.ContainsFunc(r.Category, func(s string) bool {
			return !hasNames(strings.TrimPrefix(s, "category/"))
		})
		x := *r
		x.Category, x.Unless, x.Schedule, x.Port = nil, nil, nil, nil // which are known of tunnels, too
		if slices.Equal(x.Method, []string{"CONNECT"}) {
			x.Method, x.FullURL = nil, nil
		}
		if !byName || r.Larger > 0 || !hasNoConditions(x) {
			r.Unless = append(r.Unless, names...)
		}
	}
	if n := len(p.Rules); n > 0 && hasNoConditions(p.Rules[n-1]) {
		return
	}
	for _, r := range closed {
		r.Name = ruleName(p.Rules, r.Name)
		p.Rules = append(p.Rules, r)
	}
}

// faults maps words in the names of certificate faults to our categories.
var faults = []struct{ word, ours string }{
	{"SELF_SIGNED_CERT_IN_CHAIN", "unknown-root"},
	{"SELF_SIGNED", "self-signed"}, {"SELFSIGNED", "self-signed"},
	{"NOT_YET_VALID", "not-yet-valid"}, {"NOTYETVALID", "not-yet-valid"},
	{"EXPIRED", "expired"},
	{"MISMATCH", "wrong-host"},
	{"REVOKED", "revoked"},
	{"UNABLE_TO_GET_ISSUER", "unknown-root"}, {"UNABLE_TO_GET_ISSUER", "missing-intermediate"},
	{"LEAF_SIGNATURE", "unknown-root"}, {"LEAF_SIGNATURE", "missing-intermediate"}, {"UNTRUSTED", "unknown-root"},
	{"INVALID", "invalid-chain"}, {"PATH_LENGTH", "invalid-chain"}, {"CHAIN", "invalid-chain"},
	{"TOO_WEAK", "weak-key"}, {"TOO_SMALL", "weak-key"},
}

// allFaults are all faults of certificates that a rule may name.
var allFaults = []string{"self-signed", "unknown-root", "missing-intermediate", "invalid-chain", "wrong-host", "expired", "not-yet-valid", "weak-key"}

// certificates converts a line about faults in the certificates of origins.
func certificates(c *config, l access) *report.Note {
	if !l.allow && slices.Equal(l.names, []string{"all"}) {
		c.faults = append(c.faults, l)
		return &report.Note{Kind: report.Default, Why: "a fault of a certificate is refused"}
	}
	r, _, why := faultRule(c, l, nil)
	if why != "" {
		return report.ByHand("a rule for faults of certificates", why+": write a rule with action: warn, the hosts, and category: ["+strings.Join(allFaults, ", ")+"]")
	}
	c.faults = append(c.faults, l)
	if r.Action == "block" {
		return report.Same("a rule for faults of certificates")
	}
	return report.Differs("a rule for faults of certificates, with action: warn", "who visits the host confirms once; the pages are filtered as others are")
}

// faultRule makes a rule from a line about faults in certificates. fits is false if it is
// not about these clients.
func faultRule(c *config, l access, who *build.Clients) (r policy.Rule, fits bool, why string) {
	r.Action, r.Category = "block", allFaults
	if l.allow {
		r.Action = "warn"
	}
	for _, n := range l.names {
		name, not := strings.CutPrefix(n, "!")
		a := c.acls[name]
		faults := faultsOf([]string{strings.TrimPrefix(name, "ssl::cert")})
		switch {
		case name == "all":
		case a == nil && strings.HasPrefix(name, "ssl::cert") && len(faults) > 0 && !not: // Squid knows this acl by itself
			r.Category = faults
		case a == nil:
			return r, false, "there is no acl " + name
		case a.kind == "src" || a.kind == "proxy_auth" || a.kind == "group":
			if who != nil && who.Is(name) == not {
				return r, false, ""
			}
		case not:
			return r, false, "what it is not about cannot be said"
		case a.kind == "ssl_error":
			if r.Category = faultsOf(a.values); len(r.Category) == 0 {
				return r, false, "none of its faults is one of ours"
			}
		case (a.kind == "dstdomain" || a.kind == "ssl::server_name") && r.Host == nil:
			for _, v := range a.values {
				r.Host = append(r.Host, strings.TrimPrefix(v, "."))
			}
		default:
			return r, false, "acls of type " + a.kind + " are not asked about certificates"
		}
	}
	return r, true, ""
}

// faultsOf returns our categories for faults by Squid's names.
func faultsOf(names []string) (all []string) {
	for _, n := range names {
		for _, f := range faults {
			if strings.Contains(strings.ToUpper(n), f.word) && !slices.Contains(all, f.ours) {
				if all = append(all, f.ours); f.word == "SELF_SIGNED_CERT_IN_CHAIN" {
					break
				}
			}
		}
	}
	return all
}

// addFaultRules adds the rules for lines about faults in certificates to a policy.
func addFaultRules(c *config, p *policy.Policy, who *build.Clients) {
	for _, l := range c.faults {
		r, fits, why := faultRule(c, l, who)
		if !fits || why != "" {
			continue
		}
		if !l.allow && slices.Equal(l.names, []string{"all"}) {
			return // it is so anyway
		}
		r.Name = ruleName(p.Rules, "certificates")
		p.Rules = append(p.Rules, r)
	}
}
