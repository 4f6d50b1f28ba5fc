// Package squid imports squid.conf. Each set of clients that its access lines distinguish becomes a
// policy with the lines that may decide for them, in their order. Acls become conditions of rules, or
// lists.
//
// Data moves as follows: lines are read into acls, access lines and settings; then the clients are
// divided, and each line is converted for each of them. An import never opens what was closed.
package squid

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"shuultuur/cache"
	"shuultuur/identity/directory"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// A acl has the lines with one name: one matching value is enough.
type acl struct {
	kind   string
	values []string
	lines  [][]string // of acls of acls
	at     report.Place
	class  string // category of its list; "" if the list is empty
	tried  bool   // the list was made, or cannot be made

	// partial says that some of its values are unknown, so that it matches more than it seems to.
	partial bool

	fold        map[string]bool // values behind -i
	expressions []*regexp.Regexp
}

// config has the parts of squid.conf that decide.
type config struct {
	w      *build.Work
	at     report.Place // of the current option
	dir    string
	files  int // that were read
	acls   map[string]*acl
	access []access

	replies, bumps []access              // http_reply_access, ssl_bump
	faults         []access              // sslproxy_cert_error, with a category for each fault
	closed         map[int][]policy.Rule // for policies that decrypt: the names that they do not decrypt
	denyInfo       map[string]string     // redirects for requests that an acl refuses
	cert, key      string                // files of the root
	groupHelpers   map[string]bool       // external_acl_type that tells groups
	directory      *directory.LDAP       // the directory that has these groups
	scanners       scanners
	fields         []field
	trusted        []setting.File
	realm          string
	cache          *cache.Config
	noCache        bool // cache deny all
	quoted         bool // a quoted word is a value, not the name of a file
	upload         setting.Size
	noParent       []string
	reported       map[string]bool // lines that the report already has

	spellings    map[string]string // of acls, by their names in lower case
	loginHelpers map[string]bool   // external_acl_type that needs a user
}

type access struct {
	allow bool
	names []string // with "!" for not
	at    report.Place
	bump  string // splice, bump or terminate, of ssl_bump
}

// Import reads squid.conf: ports, parents, and http_access in its order. Each acl of type
// src that a line names becomes a policy with the lines that may decide for these clients.
func Import(w *build.Work, file string) error {
	file = input.In(file, "squid.conf")
	c := newConfig(w, file)
	if err := c.read(file, 0); err != nil {
		return err
	}
	if err := c.policies(); err != nil {
		return err
	}
	signIn(c)
	if err := c.w.DemandSignIn(); err != nil {
		return err
	}
	id := &c.w.Set.Identity
	networks, any, some := c.asked()
	switch {
	case !any:
		id.Basic, id.Kerberos = nil, nil // Squid asks nobody
	case id.Basic != nil && id.Kerberos == nil:
		id.Basic.Networks = networks
	}
	if id.Basic != nil || id.Kerberos != nil {
		id.Open = c.withoutSignIn()
		if some {
			c.w.Report.Add(&report.Note{Kind: report.Changed, Effect: report.Closes, Place: report.Place{File: file}, What: "requests about which Squid does not ask who the client is", Ours: "identity.open", Why: "a rule does not ask, the gateway does, for each request but to the hosts there: add those that clients reach without signing in"})
		}
	}
	c.convertJoint()
	return nil
}

func newConfig(w *build.Work, file string) *config {
	return &config{w: w, dir: filepath.Dir(file), denyInfo: map[string]string{}, acls: map[string]*acl{
		"localhost": {kind: "src", values: []string{"127.0.0.1", "::1"}, at: report.Place{File: file, Text: "acl localhost"}}, // Squid knows this acl by itself
		"CONNECT":   {kind: "method", values: []string{"CONNECT"}, at: report.Place{File: file, Text: "acl CONNECT"}},

		"to_localhost": {kind: "dst", values: []string{"127.0.0.0/8", "0.0.0.0/32", "::1/128", "::/128"}, at: report.Place{File: file, Text: "acl to_localhost"}},
		"manager":      {kind: "url_regex", fold: map[string]bool{"^cache_object://": true, "^https?://[^/]+/squid-internal-mgr/": true}, values: []string{"^cache_object://", "^https?://[^/]+/squid-internal-mgr/"}, at: report.Place{File: file, Text: "acl manager"}},
		"to_linklocal": {kind: "dst", values: []string{"169.254.0.0/16", "fe80::/10"}, at: report.Place{File: file, Text: "acl to_linklocal"}},
	}}
}

// read reads the lines of a file, and of those that it includes.
func (c *config) read(file string, depth int) error {
	if c.files++; c.files > input.MaxFiles || depth > input.MaxDepth {
		return fmt.Errorf("%s: too many files that include others", file)
	}
	more, branches := "", branches{}
	return input.Lines(file, func(n int, s []byte) error {
		if line, goesOn := strings.CutSuffix(string(s), "\\"); goesOn && len(more) < input.MaxLine {
			more += line
			return nil
		}
		f := strings.Fields(more + string(s))
		more = ""
		if i := slices.IndexFunc(f, func(word string) bool { return word[0] == '#' }); i >= 0 {
			f = f[:i]
		}
		if len(f) == 0 {
			return nil
		}
		at := report.Place{File: file, Line: n, Text: strings.Join(f, " ")}
		if note, done := branches.take(f); done {
			note.Place, note.What = at, at.Text
			c.w.Report.Add(note)
			return nil
		}
		if f[0] != "include" {
			c.option(at, f)
			return nil
		}
		for _, pattern := range f[1:] {
			if err := c.include(at, pattern, depth); err != nil {
				return err
			}
		}
		return nil
	})
}

// include reads the files that a line names. It looks for moved files beside squid.conf.
func (c *config) include(at report.Place, pattern string, depth int) error {
	found := input.Glob(c.dir, pattern)
	note := report.Same("its lines")
	if len(found) == 0 {
		note = report.None("no such file: copy it beside squid.conf and import again")
	}
	note.Place, note.What = at, at.Text
	c.w.Report.Add(note)
	for _, file := range found {
		if err := c.read(file, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// convertJoint converts settings that several lines of the file make up.
func (c *config) convertJoint() {
	if slices.ContainsFunc(c.w.Set.Policies, func(p policy.Policy) bool { return p.Decrypt }) {
		n := c.w.Intercept(report.Place{File: c.dir}, c.cert, c.key)
		n.Place, n.What = report.Place{File: c.dir}, "ssl_bump: the root "+c.cert
		c.w.Report.Add(n)
		c.w.Decrypt = false // only for clients whose connections are bumped
		for i := range c.w.Set.Policies {
			c.w.Set.Policies[i].Decrypt = c.w.Set.Policies[i].Decrypt && c.w.Set.Cut != nil
		}
	}
	declareGroups(c)
	c.scanners.use(c.w, c.dir)
	if c.w.Set.Cut != nil {
		c.w.Set.Cut.Trust = c.trusted
	}
	if c.w.Set.Identity.Basic != nil {
		c.w.Set.Identity.Basic.Realm = c.realm
	}
	if !c.noCache {
		c.w.Set.Cache = c.cache
	}
	if c.w.Set.Proxy.Upstream.Parent != "" {
		c.w.Set.Proxy.Upstream.NoParent = c.noParent
	}
	if c.upload > 0 {
		c.w.First = append([]policy.Rule{{Name: "large requests", Action: "block", Larger: c.upload}}, c.w.First...)
	}
	c.w.AddSharedRules()
	for i, rules := range c.closed {
		StayClosed(&c.w.Set.Policies[i], rules, func(category string) bool {
			a := c.acls[category]
			return a != nil && !strings.HasSuffix(a.kind, "_regex")
		})
	}
}

// option converts a line.
func (c *config) option(at report.Place, f []string) {
	spell(c, f)
	c.at = at
	var n *report.Note
	switch r, known := table[f[0]]; {
	case known:
		n = r.Convert(c, f[1:], valueOf(f[1:]))
	case strings.HasPrefix(f[0], "icap_"), strings.HasPrefix(f[0], "adaptation_"):
		n = report.Same("checks.icap, which asks each server by OPTIONS how it wants to be asked")
	case len(f) == 2 && slices.Contains([]string{"off", "0", "none"}, f[1]):
		n = report.Needless("it is switched off")
	default:
		n = report.None(cmp.Or(reasons.Of(f[0]), report.NoneOfOurs))
	}
	if n != nil {
		n.Place, n.What = at, at.Text
		c.w.Report.Add(n)
	}
}

// acl adds the values of a line to an acl.
func (c *config) acl(f []string) *report.Note {
	if len(f) < 2 {
		return report.None("an acl without values")
	}
	name, kind, words := f[0], f[1], f[2:]
	a := c.acls[name]
	if a == nil {
		a = &acl{kind: kind, at: c.at}
		c.acls[name] = a
	}
	if a.kind != kind && name == "manager" {
		return report.Needless("Squid knows this acl by itself")
	}
	if a.kind != kind {
		a.partial = true
		return report.None(fmt.Sprintf("%s is of type %s already", name, a.kind))
	}
	if len(words) == 0 {
		return report.None("an acl without values, which never matches")
	}
	if kind == "any-of" || kind == "all-of" {
		a.lines = append(a.lines, words)
	}
	c.take(a, words)
	if (kind == "src" || kind == "dst") && slices.ContainsFunc(a.values, func(v string) bool {
		return len(networksOf([]string{v})) == 0 || kind == "dst" && strings.HasPrefix(v, "ipv") // which covers no destination in some versions
	}) {
		a.partial = true
	}
	switch kind {
	case "dst":
		return report.Differs("the rules that name it", "a request matches if it names one of these addresses; names are not resolved to compare")
	}
	return report.Same("the rules that name it")
}

// take adds words to the values of an acl. Those in front that begin with a dash are flags; of
// expressions, -i and +i are flags wherever they stand, and concern what is behind them.
func (c *config) take(a *acl, words []string) {
	expressions := a.expressive()
	fold, flags := false, true
	for _, word := range words {
		if flags && strings.HasPrefix(word, "-") && word != "-i" {
			flags = word != "--"
			continue
		}
		values, err := c.values(word)
		a.partial = a.partial || err != nil
		for _, v := range values {
			switch {
			case expressions && (v == "-i" || v == "+i"):
				fold = v == "-i"
				continue
			case fold && a.fold == nil:
				a.fold = map[string]bool{}
			}
			if a.values = append(a.values, v); fold {
				a.fold[v] = true
			}
			flags = false
		}
	}
}

// expressive reports whether the values of an acl are expressions.
func (a *acl) expressive() bool {
	return strings.HasSuffix(a.kind, "_regex") || slices.Contains([]string{"browser", "rep_mime_type", "req_mime_type", "req_header", "rep_header", "ident_regex"}, a.kind)
}

// port converts a port and its options.
func (c *config) port(f []string, https bool) *report.Note {
	if len(f) == 0 {
		return nil
	}
	addr, options := f[0], f[1:]
	if !strings.Contains(addr, ":") {
		addr = "[::]:" + addr
	}
	a := setting.Address(addr)
	has := func(words ...string) bool {
		return slices.ContainsFunc(options, func(s string) bool { return slices.Contains(words, s) })
	}
	cert, key := c.optionFile(options, "cert="), c.optionFile(options, "key=")
	speaksTLS := https && !has("tproxy", "intercept", "transparent", "ssl-bump")
	if !speaksTLS {
		c.cert, c.key = cmp.Or(c.cert, cert), cmp.Or(c.key, key)
	}
	switch {
	case has("tproxy"):
		c.w.Set.Listen.TPROXY = append(c.w.Set.Listen.TPROXY, a)
		return report.Differs("listen.tproxy", "docs/transparent.md has the firewall's rules")
	case has("intercept", "transparent"):
		if slices.Contains(c.w.Set.Listen.Transparent, a) {
			return report.Same("listen.transparent")
		}
		c.w.Set.Listen.Transparent = append(c.w.Set.Listen.Transparent, a)
		return report.Differs("listen.transparent", "one address for HTTP and HTTPS; docs/transparent.md has the firewall's rules")
	case speaksTLS:
		pair, err := build.LoadPair(c.w, cert, cmp.Or(key, cert))
		if err != nil {
			return report.ByHand("listen.tls", fmt.Sprintf("%v; write listen: tls with the certificate and its key: the proxy's ports then speak TLS too", err))
		}
		c.w.Set.Listen.Proxy, c.w.Set.Listen.TLS = append(c.w.Set.Listen.Proxy, a), pair
		return report.Differs("listen.proxy, listen.tls", "all ports of the proxy speak TLS too, with this certificate")
	case has("accel"):
		return report.None("it is not a reverse proxy")
	}
	c.w.Set.Listen.Proxy = append(c.w.Set.Listen.Proxy, a)
	return report.Same("listen.proxy")
}

// optionFile returns the file that an option of a port names, with or without "tls-" in front;
// "" if none does.
func (c *config) optionFile(options []string, prefix string) string {
	for _, o := range options {
		if file, ok := strings.CutPrefix(strings.TrimPrefix(o, "tls-"), prefix); ok {
			return input.Find(c.dir, file)
		}
	}
	return ""
}

// values returns the values that a word of an acl stands for: a quoted file has one per line.
func (c *config) values(v string) (all []string, err error) {
	file, isFile := strings.CutPrefix(v, `"`)
	if c.quoted {
		file, isFile = strings.CutPrefix(v, `parameters("`)
	}
	if !isFile {
		return []string{strings.Trim(v, `"`)}, nil
	}
	err = input.Lines(input.Find(c.dir, strings.TrimRight(file, `")`)), func(_ int, s []byte) error {
		s, _, _ = bytes.Cut(s, []byte("#"))
		if s = bytes.TrimSpace(s); len(s) > 0 {
			all = append(all, string(s))
		}
		return nil
	})
	if err != nil {
		why := err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			why = "the file is not there: copy it beside squid.conf and import again"
		}
		c.w.Report.Add(&report.Note{Kind: report.Lost, Place: c.at, What: v, Why: why})
	}
	return all, err
}

// policies makes a policy for each set of clients that the lines distinguish.
func (c *config) policies() error {
	for _, a := range c.acls {
		if a.kind == "external" && len(a.values) > 1 && c.groupHelpers[a.values[0]] {
			a.kind, a.values = "group", a.values[1:]
		}
	}
	c.access, c.replies, c.bumps = c.expand(c.access), c.expand(c.replies), c.expand(c.bumps)
	any := setting.OneOrMore[string]{"any"} // the lines limit ports
	c.w.Set.Proxy.SafePorts, c.w.Set.Proxy.ConnectPorts = any, any
	c.reach()
	for _, l := range slices.Concat(c.bumps, c.replies, c.access) {
		if err := c.noteLine(l); err != nil {
			return err
		}
	}
	taken := map[string]int{}
	for _, who := range c.clients() {
		p := policy.Policy{Name: who.Name(), Networks: who.Networks, Users: who.Users, Groups: who.Groups}
		if taken[p.Name]++; taken[p.Name] > 1 {
			p.Name = fmt.Sprintf("%s (%d)", p.Name, taken[p.Name])
		}
		if err := c.first(&p, who); err != nil {
			return err
		}
		for _, x := range c.fields {
			if c.concernsOnly(x.names, who) {
				x.set(&p)
			}
		}
		last := len(c.access) == 0 // without lines, everything is refused
		for _, l := range c.access {
			rule, fits, _, err := c.rule(l, who)
			if err != nil {
				return err
			}
			if last = l.allow; fits {
				c.purgers(&rule, who)
				rule.Name = ruleName(p.Rules, fmt.Sprintf("line %d", l.at.Line))
				c.refusal(&rule, l)
				if p.Rules = append(p.Rules, rule); hasNoConditions(rule) {
					break // lines after it are not reached
				}
			}
		}
		if n := len(p.Rules); (n == 0 || !hasNoConditions(p.Rules[n-1])) && last {
			p.Rules = append(p.Rules, policy.Rule{Name: "the opposite of the last line", Action: "block"})
		}
		c.w.Set.Policies = append(c.w.Set.Policies, p)
	}
	return nil
}

// reach lets requests reach private networks, but for those that a line refuses, or leaves out of what
// it allows: names that lead there are refused, too. Which clients ask, and for what, is not known where
// a name is resolved: if the line refuses only some requests, all are refused.
func (c *config) reach() {
	var refused []netip.Prefix
	some := false // an earlier line allows some requests
	for i, l := range c.access {
		all := !slices.ContainsFunc(l.names, func(n string) bool { return n != "all" })
		if l.allow && all {
			break // lines after it are not reached
		}
		later := slices.ContainsFunc(c.access[i+1:], func(l access) bool { return l.allow })
		for _, n := range l.names {
			n, not := strings.CutPrefix(n, "!")
			a := c.acls[n]
			if a == nil || a.kind != "dst" || not != l.allow {
				continue
			}
			for _, x := range networksOf(a.values) {
				refused = append(refused, x.Prefix)
			}
			if some || l.allow && later || !l.allow && slices.ContainsFunc(l.names, func(m string) bool { return m != "all" && m != n }) {
				c.w.Report.Add(&report.Note{Kind: report.Changed, Effect: report.Closes, Place: l.at, What: "names that lead to " + n, Ours: "proxy.private", Why: "they are refused to everybody: which requests the line means is not known where a name is resolved"})
			}
		}
		some = some || l.allow
	}
	for _, all := range build.AllNetworks() {
		c.w.Set.Proxy.Upstream.Private = append(c.w.Set.Proxy.Upstream.Private, build.Without(all, refused)...)
	}
}

// purgers lets clients that a rule allows the method PURGE remove URLs from the cache. The
// rules already refuse others.
func (c *config) purgers(r *policy.Rule, who *build.Clients) {
	if c.cache == nil || r.Action != "allow" || !slices.Contains(r.Method, "PURGE") {
		return
	}
	networks := who.Networks
	if len(networks)+len(who.Users)+len(who.Groups) == 0 { // everybody
		networks = []policy.Network{{Prefix: netip.MustParsePrefix("0.0.0.0/0")}, {Prefix: netip.MustParsePrefix("::/0")}}
	}
	for _, n := range networks {
		if !slices.Contains(c.cache.Purge, n.Prefix) {
			c.cache.Purge = append(c.cache.Purge, n.Prefix)
		}
	}
}

// ruleName returns a name that no rule has yet.
func ruleName(rules []policy.Rule, name string) string {
	free := name
	for n := 2; slices.ContainsFunc(rules, func(r policy.Rule) bool { return r.Name == free }); n++ {
		free = fmt.Sprintf("%s (%d)", name, n)
	}
	return free
}

// noteLine adds the note on a line, and converts its ports.
func (c *config) noteLine(l access) error {
	if c.reported == nil {
		c.reported = map[string]bool{}
	}
	if at := l.at.String(); l.at.Line == 0 || c.reported[at] {
		return nil // one line may have become several rules
	} else {
		c.reported[at] = true
	}
	_, _, n, err := c.rule(l, nil)
	n.Place, n.What = l.at, l.at.Text
	if l.bump == "" || n.Kind == report.Lost { // the others are reported where they are read
		c.w.Report.Add(n)
	}
	return err
}

// first adds to a policy the rules that Squid evaluates before http_access: for connections
// that are cut, and for responses by their type.
func (c *config) first(p *policy.Policy, who *build.Clients) error {
	decrypt, rules, err := c.opens(who)
	if err != nil {
		return err
	}
	if p.Decrypt = decrypt; decrypt {
		addFaultRules(c, p, who)
	}
	for _, r := range rules {
		if r.Action == "block" {
			p.Rules = append(p.Rules, r)
		} else if decrypt {
			at := len(c.w.Set.Policies) // the index that this policy will have
			if c.closed == nil {
				c.closed = map[int][]policy.Rule{}
			}
			c.closed[at] = append(c.closed[at], r)
		}
	}
	for _, l := range c.replies {
		if l.allow {
			continue // responses pass unless a line refuses them
		}
		rule, fits, _, err := c.rule(l, who)
		if err != nil {
			return err
		}
		if fits {
			rule.Name = ruleName(p.Rules, fmt.Sprintf("line %d", l.at.Line))
			p.Rules = append(p.Rules, rule)
		}
	}
	return nil
}

// refusal redirects clients as deny_info says for the last acl of a line.
func (c *config) refusal(r *policy.Rule, l access) {
	if l.allow || len(l.names) == 0 {
		return
	}
	if to, ok := c.denyTo(c.denyInfo[strings.TrimPrefix(l.names[len(l.names)-1], "!")]); ok {
		r.Action, r.To = "redirect", to
	}
}
