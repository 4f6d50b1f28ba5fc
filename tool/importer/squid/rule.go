package squid

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// coversUsers reports whether an acl covers every signed-in user.
func (a *acl) coversUsers() bool { return slices.Contains(a.values, "REQUIRED") }

// tunnels reports whether an acl matches exactly the method CONNECT.
func (a *acl) tunnels() bool {
	return a.kind == "method" && !slices.ContainsFunc(a.values, func(v string) bool { return !strings.EqualFold(v, "CONNECT") })
}

// hasNoConditions reports whether a rule has no conditions.
func hasNoConditions(r policy.Rule) bool {
	return len(r.Category)+len(r.URL)+len(r.FullURL)+len(r.Method)+len(r.Port)+len(r.Scheme)+len(r.Unless)+len(r.Host)+len(r.Agent)+len(r.Type)+len(r.Upload)+len(r.Schedule)+len(r.Header) == 0
}

// rule converts a line for some clients. fits is false if the line is not about them, or allows
// something that cannot be expressed. Of a line that refuses, conditions that cannot be expressed
// are left out. The note gives the reason, and is the same for all clients.
func (c *config) rule(l access, who *build.Clients) (r policy.Rule, fits bool, n *report.Note, err error) {
	r.Action = "block"
	if l.allow {
		r.Action = "allow"
	}
	fits = true
	n = report.Same("a rule of each policy it may decide for")
	var loss *report.Note
	lose := func(why string) {
		if fits = fits && !l.allow; loss == nil {
			loss = closes(c, l, why)
		}
	}
	for _, name := range c.intersect(l.names) {
		name, not := strings.CutPrefix(name, "!")
		a := c.acls[name]
		switch {
		case name == "all":
			fits = fits && !not
		case a == nil:
			lose(fmt.Sprintf("there is no acl %q", name))
		case a.partial && (not == l.allow || len(a.values) == 0):
			lose("some of the values of " + name + " are not known")
		case len(a.values) == 0:
			fits = fits && not // it never matches
		case a.kind == "proxy_auth" && a.coversUsers():
			if not {
				fits, n = false, report.Same("identity, which asks everybody to sign in")
			}
		case a.kind == "maxconn" && !l.allow && !not:
			n := perClient(c, a.values)
			if len(l.names) > 1 && n.Kind == report.Carried {
				n = report.Differs(n.Ours, "for all clients")
			}
			if n.Kind != report.Lost {
				return r, false, n, nil
			}
			lose(n.Why)
		case a.tunnels() && !not && l.allow && len(c.bumps) > 0:
			lose("a tunnel that is decrypted is judged by its requests: write a rule for their hosts")
		case a.kind == "port":
			words := input.PortsOf(a.values).Words()
			if not {
				words = input.OtherPorts(a.values)
			}
			if r.Port != nil {
				words = inAll(r.Port, words)
			}
			if r.Port = words; len(words) == 0 {
				fits = false // there is no such port
			}
		case a.kind == "proto":
			some := lower(a.values)
			if slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(schemes, s) }) {
				lose("one of its schemes is not known")
				break
			}
			some = slices.DeleteFunc(some, func(s string) bool { return s == "cache_object" }) // asks Squid itself
			if not {
				some = slices.DeleteFunc(slices.Clone(schemes), func(s string) bool { return s == "cache_object" || slices.Contains(lower(a.values), s) })
			}
			if r.Scheme != nil {
				some = slices.DeleteFunc(slices.Clone(r.Scheme), func(s string) bool { return !slices.Contains(some, s) })
			}
			if r.Scheme = some; len(some) == 0 {
				fits = false
			}
		case a.kind == "dst" && a.coversAddresses():
			fits = fits && !not
		case a.kind == "proxy_auth" || a.kind == "src" || a.kind == "group":
			if who != nil && who.Is(name) == not {
				fits = false
			}
		default:
			switch why := c.condition(&r, name, a, not, &err); {
			case err != nil:
				return r, false, report.None(""), err
			case why != "":
				lose(why)
			case l.bump == "" && loss == nil:
				if note := a.closing(l.allow, not); note != nil {
					n = note
				}
			}
		}
	}
	if loss != nil {
		n = loss
	}
	return r, fits, n, nil
}

// coversAddresses reports whether an acl of type dst covers every address.
func (a *acl) coversAddresses() bool {
	for _, all := range build.AllNetworks() {
		if !build.Covers(networksOf(a.values), all) {
			return false
		}
	}
	return true
}

// closing returns the note on a condition by which a line refuses more than Squid's, or allows less;
// nil for none.
func (a *acl) closing(allow, not bool) *report.Note {
	switch a.kind {
	case "dst":
		if allow != not { // what is refused there is refused where a name is resolved
			return report.Differs("a rule of each policy it may decide for", "names that lead to these addresses are not known by their rules, and count as others: write their names").Closing()
		}
	case "browser", "req_header", "referer_regex":
		if a.withCase(a.patterns()) {
			return report.Differs("a rule of each policy it may decide for", "fields are compared without regard to case").Closing()
		}
	}
	return nil
}

// patterns returns the expressions of an acl about a field, whose name may be the first value.
func (a *acl) patterns() []string {
	if a.kind == "req_header" {
		return a.values[1:]
	}
	return a.values
}

// withCase reports whether one of its expressions tells capitals from small letters.
func (a *acl) withCase(expressions []string) bool {
	return slices.ContainsFunc(expressions, func(v string) bool { return !a.fold[v] && strings.ToUpper(v) != strings.ToLower(v) })
}

// intersect replaces two acls of names that must both match by one with the names in
// both.
func (c *config) intersect(names []string) []string {
	var of []string
	for _, n := range names {
		if a := c.acls[n]; a != nil && (a.kind == "dstdomain" || a.kind == "ssl::server_name") {
			of = append(of, n)
		}
	}
	if len(of) < 2 {
		return names
	}
	name := strings.Join(of, "+")
	if c.acls[name] == nil {
		a := &acl{kind: "dstdomain", at: c.acls[of[0]].at, values: c.acls[of[0]].values, partial: c.acls[of[0]].partial}
		for _, n := range of[1:] {
			a.partial = a.partial || c.acls[n].partial
			a.values = inBoth(a.values, c.acls[n].values)
		}
		c.acls[name] = a
	}
	return append(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(of, n) }), name)
}

// inBoth returns the names that two lists of dstdomain have in common.
func inBoth(a, b []string) (all []string) {
	below := func(s, of string) bool {
		return s == of || strings.HasPrefix(of, ".") && (strings.HasSuffix(s, of) || s == of[1:])
	}
	for _, x := range a {
		for _, y := range b {
			switch x, y := strings.ToLower(x), strings.ToLower(y); {
			case below(x, y):
				all = append(all, x)
			case below(y, x):
				all = append(all, y)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// condition adds an acl to a rule, or returns the reason why it cannot.
// Long because each option has a case.
func (c *config) condition(r *policy.Rule, name string, a *acl, not bool, err *error) (why string) {
	switch a.kind {
	case "dstdomain", "ssl::server_name", "dst":
		if !a.tried {
			a.tried, *err = true, c.domains(name, a)
		}
		switch {
		case *err != nil:
		case a.class == "":
			return "its acl has no names"
		case not:
			r.Unless = append(r.Unless, "category/"+a.class)
		case r.Category != nil:
			return "a rule has one list of names: write the names that are in both"
		default:
			r.Category = []string{"category/" + a.class}
		}
	case "url_regex", "urlpath_regex", "dstdom_regex", "ssl::server_name_regex":
		if a.kind == "ssl::server_name_regex" || len(r.FullURL) > 0 && a.kind == "dstdom_regex" && !not {
			return c.byList(r, name, a, not, err)
		}
		return fullURLs(r, a, not)
	case "method":
		r.Method = allMethods(r.Method, slices.Compact(slices.Sorted(slices.Values(upper(a.values)))), not)
	case "browser":
		if not || r.Agent != nil {
			return "write a rule with the opposite action and agent before it"
		}
		if r.Action == "allow" && a.withCase(a.patterns()) {
			return "rules compare fields without regard to case: write -i in front of its expressions, if that is meant"
		}
		r.Agent = posix(a.values)
	case "rep_mime_type", "req_mime_type":
		if not {
			return "write a rule with type or upload"
		}
		to := &r.Type
		if a.kind == "req_mime_type" {
			to = &r.Upload
		}
		if *to != nil {
			return "two acls with media types that have to match: write those that match both"
		}
		for _, v := range a.values {
			for v := range strings.SplitSeq(v, "|") {
				m, err := MediaType(v)
				if err != nil {
					return err.Error()
				}
				*to = append(*to, m)
			}
		}
	case "time":
		when, ok := schedule(a.values)
		if ok && not {
			when, ok = outside(when)
		}
		if !ok || r.Schedule != nil {
			return "write a schedule into the rule"
		}
		r.Schedule = when
	case "req_header":
		if not || len(a.values) < 2 {
			return "a rule with header matches if the field is present: write one with the opposite action before it"
		}
		return a.field(r, a.values[0])
	case "referer_regex":
		if not {
			return "a rule with header matches if the field is present: write one with the opposite action before it"
		}
		return a.field(r, "Referer")
	default:
		return cmp.Or(kindReasons.Of(a.kind), "an acl of type "+a.kind+" has no counterpart among conditions")
	}
	return ""
}

// byList adds expressions to a rule as a list, because they are negated or must
// match together with others.
func (c *config) byList(r *policy.Rule, name string, a *acl, not bool, err *error) (why string) {
	if !a.tried {
		a.tried = true
		var lines []report.Place
		for _, v := range a.values {
			text, err := hostExpression(a, v)
			if err != nil {
				return "an expression that does not compile: " + err.Error()
			}
			lines = append(lines, report.Place{File: a.at.File, Line: a.at.Line, Text: text})
		}
		path, wrong := c.w.OwnLines(name, lines)
		if *err = wrong; *err != nil {
			return ""
		}
		added, wrong := c.w.AddList(name, list.Config{Path: setting.Source(path), Category: name, Format: "e2guardian-regexp", Match: list.Boundary}, a.at)
		if *err = wrong; *err != nil {
			return ""
		}
		if added != "" {
			a.class = name
		}
	}
	switch {
	case a.class == "":
		return "none of its expressions compiles"
	case not:
		r.Unless = append(r.Unless, "category/"+a.class)
	case r.Category != nil:
		return "a rule has one list of names: write the names that are in both"
	default:
		r.Category = []string{"category/" + a.class}
	}
	return ""
}

// inAll returns the ports that two lists of ports have in common.
func inAll(a, b []string) []string {
	x, y := input.PortsOf(a), input.PortsOf(b)
	for p := range x {
		x[p] = x[p] && y[p]
	}
	return x.Words()
}

// schemes are those that Squid knows.
var schemes = []string{"http", "https", "ftp", "gopher", "wais", "whois", "urn", "cache_object"}

func lower(words []string) (all []string) {
	for _, w := range words {
		all = append(all, strings.ToLower(w))
	}
	return all
}

// fullURLs adds expressions on whole URLs to a rule, joined to few: Squid compares each with the URL,
// with case unless -i is in front.
func fullURLs(r *policy.Rule, a *acl, not bool) (why string) {
	if len(r.FullURL) > 0 && !not && !strings.HasPrefix(r.FullURL[0], "!") {
		return "two acls with expressions that have to match: write those that match both"
	}
	var all []string
	for _, v := range a.values {
		v, err := fullURL(a, v)
		if err != nil {
			return "an expression that does not compile: " + err.Error()
		}
		if last := len(all) - 1; last >= 0 && len(all[last])+len(v) < build.MaxPattern-10 {
			all[last] += "|" + v
		} else {
			all = append(all, v)
		}
		if len(v) >= build.MaxPattern-10 {
			return "an expression in a rule has at most 4096 bytes"
		}
	}
	for i := range all {
		if not {
			all[i] = "!" + all[i]
		} else if strings.HasPrefix(all[i], "!") {
			all[i] = "(?:" + all[i] + ")"
		}
	}
	if not {
		r.FullURL = append(r.FullURL, all...) // those that must not match are behind
	} else {
		r.FullURL = append(all, r.FullURL...)
	}
	return ""
}

// field makes a rule require that a field of requests matches one of an acl's expressions.
func (a *acl) field(r *policy.Rule, name string) (why string) {
	name = http.CanonicalHeaderKey(name)
	switch {
	case r.Action == "allow" && a.withCase(a.patterns()):
		return "rules compare fields without regard to case: write -i in front of its expressions, if that is meant"
	case r.Header[name] != "":
		return "two acls with expressions on one field that have to match: write those that match both"
	case r.Header == nil:
		r.Header = map[string]string{}
	}
	r.Header[name] = strings.Join(posix(a.patterns()), "|")
	return ""
}

// posix returns expressions of regcomp(3) as ours.
func posix(expressions []string) (all []string) {
	for _, v := range expressions {
		all = append(all, fromPOSIX(v))
	}
	return all
}

// allMethods adds some methods, or all others, to those that a rule has.
func allMethods(has, some []string, not bool) []string {
	if not {
		for _, m := range some {
			has = append(has, "!"+m)
		}
		return has
	}
	one := func(m string) bool { return !strings.HasPrefix(m, "!") }
	if slices.ContainsFunc(has, one) {
		some = slices.DeleteFunc(some, func(m string) bool { return !slices.Contains(has, m) })
		has = slices.DeleteFunc(slices.Clone(has), one)
	}
	if len(some) == 0 {
		some = []string{"NONE"} // no request has both
	}
	return append(some, has...)
}

// domains makes lists from an acl: a name with a leading dot includes its
// subdomains.
func (c *config) domains(name string, a *acl) error {
	format, values := list.Domains, a.values
	if a.kind == "dst" {
		format, values = list.Networks, nil
		for _, n := range networksOf(a.values) {
			values = append(values, n.String())
		}
	}
	var below, alone []string
	for _, v := range values {
		if d, ok := strings.CutPrefix(v, "."); ok {
			below = append(below, d)
		} else {
			alone = append(alone, v)
		}
	}
	for _, x := range []struct {
		suffix string
		names  []string
		below  *bool
	}{{"", below, nil}, {"-alone", alone, new(bool)}} {
		if len(x.names) == 0 {
			continue
		}
		var lines []report.Place
		for _, n := range x.names {
			lines = append(lines, report.Place{File: a.at.File, Line: a.at.Line, Text: n})
		}
		path, err := c.w.OwnLines(name+x.suffix, lines)
		if err != nil {
			return err
		}
		added, err := c.w.AddList(name+x.suffix, list.Config{Path: setting.Source(path), Category: name, Format: format, Match: list.Boundary, Subdomains: x.below}, a.at)
		if err != nil {
			return err
		}
		if added != "" {
			a.class = name // several lists may have it
		}
	}
	return nil
}

// closes returns the note on a line of which something cannot be carried over, for the reason why.
func closes(c *config, l access, why string) *report.Note {
	n := report.None(why)
	switch {
	case l.bump == "splice" || l.bump == "bump":
	case l.allow:
		n.Why += "; until then the line allows nothing"
	default:
		n.Ours, n.Why = "a rule that refuses more", n.Why+"; until then the line refuses whatever the rest of it selects"
	}
	if l.bump == "" || l.bump == "terminate" {
		n.Effect = report.Closes
	}
	return n
}

// dayLetters are Squid's letters for days.
var dayLetters = map[byte]string{'S': "sun", 'M': "mon", 'T': "tue", 'W': "wed", 'H': "thu", 'F': "fri", 'A': "sat", 'D': "mon-fri"}

// schedule reads the values of an acl of type time.
func schedule(values []string) (when policy.Schedule, ok bool) {
	days := ""
	for _, v := range values {
		if m := input.Hours.FindStringSubmatch(v); m != nil && input.IsClock(m[1], m[2]) && input.IsClock(m[3], m[4]) {
			when = append(when, policy.Window{Days: days, Hours: fmt.Sprintf("%02s:%s-%02s:%s", m[1], m[2], m[3], m[4])})
			days = ""
			continue
		}
		if days != "" {
			when = append(when, policy.Window{Days: days})
		}
		var all []string
		for i := range len(v) {
			d := dayLetters[v[i]]
			if d == "" {
				return nil, false
			}
			all = append(all, d)
		}
		days = strings.Join(all, ",")
	}
	if days != "" {
		when = append(when, policy.Window{Days: days})
	}
	return when, len(when) > 0
}

func upper(words []string) (all []string) {
	for _, w := range words {
		all = append(all, strings.ToUpper(w))
	}
	return all
}

// outside returns the rest of the week. It supports one window of hours for each day.
func outside(when policy.Schedule) (rest policy.Schedule, ok bool) {
	week := []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}
	hours := map[string]string{}
	for _, w := range when {
		days := strings.Split(strings.ReplaceAll(w.Days, "mon-fri", "mon,tue,wed,thu,fri"), ",")
		if w.Days == "" {
			days = week
		}
		for _, d := range days {
			if _, twice := hours[d]; twice {
				return nil, false
			}
			hours[d] = cmp.Or(w.Hours, "00:00-24:00")
		}
	}
	for _, d := range week {
		from, to, _ := strings.Cut(hours[d], "-")
		var left []string
		if hours[d] == "" {
			left = []string{"00:00-24:00"}
		} else if to < from {
			return nil, false
		}
		if from > "00:00" {
			left = append(left, "00:00-"+from)
		}
		if to != "" && to < "24:00" {
			left = append(left, to+"-24:00")
		}
		if len(left) > 0 {
			rest = append(rest, policy.Window{Days: d, Hours: strings.Join(left, ",")})
		}
	}
	return rest, len(rest) > 0
}

// networksOf returns the networks of an acl of type src; it divides ranges.
func networksOf(values []string) []policy.Network {
	var all []string
	for _, v := range values {
		switch nets, _ := input.Networks(v); v {
		case "all":
			all = append(all, "0.0.0.0/0", "::/0")
		case "ipv4":
			all = append(all, "0.0.0.0/0")
		case "ipv6":
			all = append(all, "::/0")
		default:
			all = append(all, nets...)
		}
	}
	return build.AsNetworks(all)
}

// kindReasons say why acls of some types have no equivalent condition.
var kindReasons = report.Reasons{
	{"ident", "write a policy with users, and identity"},
	{"ext_user", "write a policy with users, and identity"},
	{"proxy_auth_regex", "policies name users as they are: write a policy with users or groups"},
	{"external", "no external programs are asked: users and groups come from identity"},
	{"arp", "clients are identified by address: write identity: names: leases, and a policy with networks"},
	{"eui64", "clients are identified by address: write identity: names: leases, and a policy with networks"},
	{"my", "all ports of the proxy have the same rules: tell clients apart by networks"},
	{"local", "all ports of the proxy have the same rules: tell clients apart by networks"},
	{"max_user_ip", "one user may have several addresses: write quotas or limits with by: user"},
	{"rep_header", "rules can match the type of an answer: write a rule with type"},
}

// perClient converts the number of connections above which a client is refused.
func perClient(c *config, values []string) *report.Note {
	n, err := strconv.ParseUint(values[0], 10, 20)
	if err != nil || n == 0 {
		return report.ByHand("proxy.per-client", "it contains no valid number of connections")
	}
	if was := c.w.Set.Proxy.PerClient; was == 0 || setting.Count(n) < was {
		c.w.Set.Proxy.PerClient = setting.Count(n)
	}
	return report.Same("proxy.per-client")
}

// kinds are the top-level media types.
var kinds = []string{"application", "audio", "font", "image", "message", "model", "multipart", "text", "video"}

// MediaType converts an expression for a media type to our syntax. Types are compared whole: a word
// that stands anywhere in a type has no counterpart.
func MediaType(v string) (string, error) {
	m := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(v, "^"), "$"), `\`, "")
	major, minor, _ := strings.Cut(m, "/")
	if minor = strings.TrimPrefix(minor, ".*"); minor == "" && slices.Contains(kinds, strings.ToLower(major)) {
		minor = "*"
	}
	if minor == "" || minor != "*" && strings.ContainsAny(m, "^$*|{}?") || strings.Contains(m, ".+") {
		return "", fmt.Errorf("types are compared whole, and %.80q may match many: write the types that are meant", v)
	}
	return filter.MediaType(major + "/" + minor)
}
