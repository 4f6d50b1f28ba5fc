package importer

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
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/setting"
)

// A squidACL has the lines with one name: one matching value is enough.
type squidACL struct {
	kind   string
	values []string
	lines  [][]string // of acls of acls
	at     place
	class  string // category of its list; "" if the list is empty
	tried  bool   // the list was made, or cannot be made

	anyCase     bool // -i
	expressions []*regexp.Regexp
}

// squidConf has the parts of squid.conf that decide.
type squidConf struct {
	*work
	dir    string
	acls   map[string]*squidACL
	access []squidAccess

	replies, bumps []squidAccess         // http_reply_access, ssl_bump
	faults         []squidAccess         // sslproxy_cert_error, with a category for each fault
	closed         map[int][]policy.Rule // for policies that decrypt: the names that they do not decrypt
	denyInfo       map[string]string     // redirects for requests that an acl refuses
	cert, key      string                // files of the root
	groupHelpers   map[string]bool       // external_acl_type that tells groups
	directory      *directory.LDAP       // the directory that has these groups
	scanners       squidScanners
	fields         []squidField
	trusted        []setting.File
	realm          string
	cache          *cache.Config
	noCache        bool // cache deny all
	upload         setting.Size
	noParent       []string
	reported       map[string]bool // lines that the report already has
}

type squidAccess struct {
	allow bool
	names []string // with "!" for not
	at    place
	bump  string // splice, bump or terminate, of ssl_bump
}

// readSquid reads squid.conf: ports, parents, and http_access in its order. Each acl of type
// src that a line names becomes a policy with the lines that may decide for these clients.
func readSquid(w *work, file string) error {
	file = fileIn(file, "squid.conf")
	c := newSquidConf(w, file)
	if err := c.read(file, 0); err != nil {
		return err
	}
	if err := c.policies(); err != nil {
		return err
	}
	c.convertJoint()
	return nil
}

func newSquidConf(w *work, file string) *squidConf {
	return &squidConf{work: w, dir: filepath.Dir(file), denyInfo: map[string]string{}, acls: map[string]*squidACL{
		"localhost": {kind: "src", values: []string{"127.0.0.1", "::1"}, at: place{file: file, what: "acl localhost"}}, // Squid knows this acl by itself
		"CONNECT":   {kind: "method", values: []string{"CONNECT"}, at: place{file: file, what: "acl CONNECT"}},
	}}
}

// read reads the lines of a file, and of those that it includes.
func (c *squidConf) read(file string, depth int) error {
	if c.work.read++; c.work.read > maxFiles || depth > maxDepth {
		return fmt.Errorf("%s: too many files that include others", file)
	}
	more, branches := "", squidBranches{}
	return textLines(file, func(n int, s []byte) error {
		if line, goesOn := strings.CutSuffix(string(s), "\\"); goesOn && len(more) < maxLine {
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
		at := place{file: file, line: n, what: strings.Join(f, " ")}
		if note, done := branches.take(f); done {
			note.place, note.What = at, at.what
			c.rep.add(note)
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
func (c *squidConf) include(at place, pattern string, depth int) error {
	found := filesOf(c.dir, pattern)
	note := carried("its lines")
	if len(found) == 0 {
		note = lost("no such file: copy it beside squid.conf and import again")
	}
	note.place, note.What = at, at.what
	c.rep.add(note)
	for _, file := range found {
		if err := c.read(file, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// convertJoint converts settings that several lines of the file make up.
func (c *squidConf) convertJoint() {
	if slices.ContainsFunc(c.set.Policies, func(p policy.Policy) bool { return p.Decrypt }) {
		n := c.intercept(place{file: c.dir}, c.cert, c.key)
		n.place, n.What = place{file: c.dir}, "ssl_bump: the root "+c.cert
		c.rep.add(n)
		c.decrypt = false // only for clients whose connections are bumped
		for i := range c.set.Policies {
			c.set.Policies[i].Decrypt = c.set.Policies[i].Decrypt && c.set.Cut != nil
		}
	}
	squidGroups(c)
	c.scanners.use(c.work, c.dir)
	if c.set.Cut != nil {
		c.set.Cut.Trust = c.trusted
	}
	if c.set.Identity.Basic != nil {
		c.set.Identity.Basic.Realm = c.realm
	}
	if !c.noCache {
		c.set.Cache = c.cache
	}
	if c.set.Proxy.Upstream.Parent != "" {
		c.set.Proxy.Upstream.NoParent = c.noParent
	}
	if c.upload > 0 {
		c.work.first = append([]policy.Rule{{Name: "large requests", Action: "block", Larger: c.upload}}, c.work.first...)
	}
	c.addSharedRules()
	for i, rules := range c.closed {
		stayClosed(&c.set.Policies[i], rules, c.acls)
	}
}

// option converts a line.
func (c *squidConf) option(at place, f []string) {
	say := func(n *Note) {
		n.place, n.What = at, at.what
		c.rep.add(n)
	}
	switch f[0] {
	case "acl":
		if len(f) < 4 {
			say(lost("an acl without values"))
			return
		}
		a := c.acls[f[1]]
		if a == nil {
			a = &squidACL{kind: f[2], at: at}
			c.acls[f[1]] = a
		}
		if a.kind != f[2] {
			say(lost(fmt.Sprintf("%s is of type %s already", f[1], a.kind)))
			return
		}
		if a.kind == "any-of" || a.kind == "all-of" {
			a.lines = append(a.lines, f[3:])
		}
		a.anyCase = a.anyCase || slices.Contains(f[3:], "-i")
		for _, v := range f[3:] {
			if !strings.HasPrefix(v, "-") && !strings.HasPrefix(v, "+") {
				a.values = append(a.values, c.values(at, v)...)
			}
		}
		switch a.kind {
		case "url_regex":
			say(differs("the rules that name it", "expressions see host and path here: neither the scheme nor a port, and no case"))
		case "dst":
			say(differs("the rules that name it", "a request matches if it names one of these addresses; names are not resolved to compare"))
		default:
			say(carried("the rules that name it"))
		}
	case "http_access":
		if len(f) > 1 {
			c.access = append(c.access, squidAccess{allow: f[1] == "allow", names: f[2:], at: at})
		}
	case "http_port", "https_port":
		if len(f) > 1 {
			say(c.port(f[0], f[1], f[2:]))
		}
	case "cache_peer":
		say(squidPeer(c, f[1:]))
	default:
		if n, ok := c.convertOption(at, f); ok {
			say(n)
			return
		}
		if last := f[len(f)-1]; len(f) == 2 && (last == "off" || last == "0" || last == "none") {
			say(&Note{Kind: Default, Why: "it is switched off"})
			return
		}
		say(lost(cmp.Or(squidLost.of(f[0]), noneOfOurs)))
	}
}

// port converts a port and its options.
func (c *squidConf) port(kind, addr string, options []string) *Note {
	if !strings.Contains(addr, ":") {
		addr = "[::]:" + addr
	}
	a := setting.Address(addr)
	has := func(words ...string) bool {
		return slices.ContainsFunc(options, func(s string) bool { return slices.Contains(words, s) })
	}
	cert, key := c.optionFile(options, "cert="), c.optionFile(options, "key=")
	speaksTLS := kind == "https_port" && !has("tproxy", "intercept", "transparent", "ssl-bump")
	if !speaksTLS {
		c.cert, c.key = cmp.Or(c.cert, cert), cmp.Or(c.key, key)
	}
	switch {
	case has("tproxy"):
		c.set.Listen.TPROXY = append(c.set.Listen.TPROXY, a)
		return differs("listen.tproxy", "docs/transparent.md has the firewall's rules")
	case has("intercept", "transparent"):
		if slices.Contains(c.set.Listen.Transparent, a) {
			return carried("listen.transparent")
		}
		c.set.Listen.Transparent = append(c.set.Listen.Transparent, a)
		return differs("listen.transparent", "one address for HTTP and HTTPS; docs/transparent.md has the firewall's rules")
	case speaksTLS:
		pair, err := loadPair(c.work, cert, cmp.Or(key, cert))
		if err != nil {
			return lostOurs("listen.tls", fmt.Sprintf("%v; write listen: tls with the certificate and its key: the proxy's ports then speak TLS too", err))
		}
		c.set.Listen.Proxy, c.set.Listen.TLS = append(c.set.Listen.Proxy, a), pair
		return differs("listen.proxy, listen.tls", "all ports of the proxy speak TLS too, with this certificate")
	case has("accel"):
		return lost("it is not a reverse proxy")
	}
	c.set.Listen.Proxy = append(c.set.Listen.Proxy, a)
	return carried("listen.proxy")
}

// optionFile returns the file that an option of a port names, with or without "tls-" in front;
// "" if none does.
func (c *squidConf) optionFile(options []string, prefix string) string {
	for _, o := range options {
		if file, ok := strings.CutPrefix(strings.TrimPrefix(o, "tls-"), prefix); ok {
			return findFile(c.dir, file)
		}
	}
	return ""
}

// values returns the values that a word of an acl stands for: a quoted file has one per line.
func (c *squidConf) values(at place, v string) (all []string) {
	if !strings.HasPrefix(v, `"`) {
		return []string{v}
	}
	err := textLines(findFile(c.dir, strings.Trim(v, `"`)), func(_ int, s []byte) error {
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
		c.rep.add(&Note{Kind: Lost, place: at, What: v, Why: why})
	}
	return all
}

// policies makes a policy for each set of clients that the lines distinguish.
func (c *squidConf) policies() error {
	for _, a := range c.acls {
		if a.kind == "external" && len(a.values) > 1 && c.groupHelpers[a.values[0]] {
			a.kind, a.values = "group", a.values[1:]
		}
	}
	c.access, c.replies, c.bumps = c.expand(c.access), c.expand(c.replies), c.expand(c.bumps)
	for _, l := range slices.Concat(c.bumps, c.replies, c.access) {
		if err := c.noteLine(l); err != nil {
			return err
		}
	}
	taken := map[string]int{}
	for _, who := range c.clients() {
		p := policy.Policy{Name: who.name(), Networks: who.networks, Users: who.users, Groups: who.groups}
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
		last := false
		for _, l := range c.access {
			rule, fits, _, err := c.rule(l, who)
			if err != nil {
				return err
			}
			if last = l.allow; fits {
				c.purgers(&rule, who)
				rule.Name = ruleName(p.Rules, fmt.Sprintf("line %d", l.at.line))
				c.refusal(&rule, l)
				if p.Rules = append(p.Rules, rule); hasNoConditions(rule) {
					break // lines after it are not reached
				}
			}
		}
		if n := len(p.Rules); len(c.access) > 0 && (n == 0 || !hasNoConditions(p.Rules[n-1])) && last {
			p.Rules = append(p.Rules, policy.Rule{Name: "the opposite of the last line", Action: "block"})
		}
		c.set.Policies = append(c.set.Policies, p)
	}
	return nil
}

// purgers lets clients that a rule allows the method PURGE remove URLs from the cache. The
// rules already refuse others.
func (c *squidConf) purgers(r *policy.Rule, who *squidClients) {
	if c.cache == nil || r.Action != "allow" || !slices.Contains(r.Method, "PURGE") {
		return
	}
	networks := who.networks
	if len(networks)+len(who.users)+len(who.groups) == 0 { // everybody
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
func (c *squidConf) noteLine(l squidAccess) error {
	if c.reported == nil {
		c.reported = map[string]bool{}
	}
	if at := l.at.String(); l.at.line == 0 || c.reported[at] {
		return nil // one line may have become several rules
	} else {
		c.reported[at] = true
	}
	_, _, n, err := c.rule(l, nil)
	n.place, n.What = l.at, l.at.what
	if l.bump == "" || n.Kind == Lost { // the others are reported where they are read
		c.rep.add(n)
	}
	return err
}

// first adds to a policy the rules that Squid evaluates before http_access: for connections
// that are cut, and for responses by their type.
func (c *squidConf) first(p *policy.Policy, who *squidClients) error {
	decrypt, rules, err := c.opens(who)
	if err != nil {
		return err
	}
	if p.Decrypt = decrypt; decrypt {
		squidFaulty(c, p, who)
	}
	for _, r := range rules {
		if r.Action == "block" {
			p.Rules = append(p.Rules, r)
		} else if decrypt {
			at := len(c.set.Policies) // the index that this policy will have
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
			rule.Name = ruleName(p.Rules, fmt.Sprintf("line %d", l.at.line))
			p.Rules = append(p.Rules, rule)
		}
	}
	return nil
}

// refusal redirects clients as deny_info says for the last acl of a line.
func (c *squidConf) refusal(r *policy.Rule, l squidAccess) {
	if l.allow || len(l.names) == 0 {
		return
	}
	if to, ok := c.denyTo(c.denyInfo[strings.TrimPrefix(l.names[len(l.names)-1], "!")]); ok {
		r.Action, r.To = "redirect", to
	}
}

// coversUsers reports whether an acl covers every signed-in user.
func (a *squidACL) coversUsers() bool { return len(a.values) == 1 && a.values[0] == "REQUIRED" }

// tunnels reports whether an acl matches exactly the method CONNECT.
func (a *squidACL) tunnels() bool {
	return a.kind == "method" && !slices.ContainsFunc(a.values, func(v string) bool { return !strings.EqualFold(v, "CONNECT") })
}

// hasNoConditions reports whether a rule has no conditions.
func hasNoConditions(r policy.Rule) bool {
	return len(r.Category)+len(r.URL)+len(r.Method)+len(r.Unless)+len(r.Host)+len(r.Agent)+len(r.Type)+len(r.Upload)+len(r.Schedule)+len(r.Header) == 0
}

// rule converts a line for some clients. fits is false if the line is not about them or cannot
// be expressed. The note gives the reason, and is the same for all clients.
func (c *squidConf) rule(l squidAccess, who *squidClients) (r policy.Rule, fits bool, n *Note, err error) {
	r.Action = "block"
	if l.allow {
		r.Action = "allow"
	}
	fits = true
	n = carried("a rule of each policy it may decide for")
	if c.ports(l) {
		return r, false, carried("proxy.connect-ports, proxy.safe-ports"), nil
	}
	for _, name := range c.intersect(l.names) {
		name, not := strings.CutPrefix(name, "!")
		a := c.acls[name]
		switch {
		case name == "all":
			fits = fits && !not
		case name == "manager" || name == "to_localhost" || name == "to_linklocal":
			return r, false, carried("listen.admin and proxy.private, which refuse it by themselves"), nil
		case a == nil:
			return r, false, lost(fmt.Sprintf("there is no acl %q", name)), nil
		case a.kind == "proxy_auth" && a.coversUsers():
			if not {
				fits, n = false, carried("identity.basic, which asks everybody")
			}
		case a.kind == "maxconn" && !l.allow && len(l.names) == 1:
			return r, false, squidPerClient(c, a.values), nil
		case a.kind == "port" && !not && squidUnsafe(c, a.values), a.kind == "proto" && !not && unfetched(a.values):
			return r, false, carried("proxy.safe-ports, and the schemes that it fetches, which refuse it by themselves"), nil
		case a.tunnels() && !not:
			if len(l.names) == 1 {
				return r, false, lost("rules do not distinguish tunnels: write action: block for their hosts"), nil
			}
			n = differs("a rule of each policy it may decide for", "for requests outside of tunnels too")
		case a.kind == "proxy_auth" || a.kind == "src" || a.kind == "group":
			if who != nil && who.is(name) == not {
				fits = false
			}
		default:
			if why := c.condition(&r, name, a, not, &err); why != "" || err != nil {
				return r, false, &Note{Kind: Lost, Why: why}, err
			}
		}
	}
	return r, fits, n, nil
}

// ports converts a line that permits ports: deny !ports, deny CONNECT !ports.
func (c *squidConf) ports(l squidAccess) bool {
	var of *squidACL
	tunnel := false
	for _, n := range l.names {
		name, not := strings.CutPrefix(n, "!")
		switch a := c.acls[name]; {
		case a != nil && a.kind == "port" && not && of == nil:
			of = a
		case a != nil && a.tunnels() && !not:
			tunnel = true
		case n != "all":
			return false
		}
	}
	switch {
	case of == nil || l.allow:
		return false
	case tunnel:
		c.set.Proxy.ConnectPorts = of.values
	default:
		c.set.Proxy.SafePorts = of.values
	}
	return true
}

// intersect replaces two acls of names that must both match by one with the names in
// both.
func (c *squidConf) intersect(names []string) []string {
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
		a := &squidACL{kind: "dstdomain", at: c.acls[of[0]].at, values: c.acls[of[0]].values}
		for _, n := range of[1:] {
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
func (c *squidConf) condition(r *policy.Rule, name string, a *squidACL, not bool, err *error) (why string) {
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
		// Lists match the names of tunnels as well.
		if not || r.URL != nil || r.Category == nil && a.kind != "urlpath_regex" {
			return c.byList(r, name, a, not, err)
		}
		for _, v := range a.values {
			if v = squidPattern(a.kind, v); len(v) > maxPattern {
				return "an expression in a rule has at most 4096 bytes"
			}
			if _, err := regexp.Compile("(?i:" + v + ")"); err != nil {
				return "an expression that does not compile: " + err.Error()
			}
			r.URL = append(r.URL, v)
		}
	case "method":
		if r.Method != nil {
			return "two acls about methods: write the methods under method"
		}
		if r.Method = upper(a.values); not {
			r.Method = slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return slices.Contains(upper(a.values), m) })
		}
	case "browser":
		if not || r.Agent != nil {
			return "write a rule with the opposite action and agent before it"
		}
		r.Agent = a.values
	case "rep_mime_type", "req_mime_type":
		if not {
			return "write a rule with type or upload"
		}
		to := &r.Type
		if a.kind == "req_mime_type" {
			to = &r.Upload
		}
		for _, v := range a.values {
			m, err := squidType(v)
			if err != nil {
				return err.Error()
			}
			*to = append(*to, m)
		}
	case "time":
		when, ok := squidSchedule(a.values)
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
		setHeader(r, a.values[0], a.values[1:])
	case "referer_regex":
		if not {
			return "a rule with header matches if the field is present: write one with the opposite action before it"
		}
		setHeader(r, "Referer", a.values)
	default:
		return cmp.Or(squidKinds.of(a.kind), "an acl of type "+a.kind+" has no counterpart among conditions")
	}
	return ""
}

// byList adds expressions to a rule as a list, because they are negated or must
// match together with others.
func (c *squidConf) byList(r *policy.Rule, name string, a *squidACL, not bool, err *error) (why string) {
	if !a.tried {
		a.tried = true
		var lines []place
		for _, v := range a.values {
			lines = append(lines, place{a.at.file, a.at.line, squidPattern(a.kind, v)})
		}
		path, wrong := c.ownLines(name, lines)
		if *err = wrong; *err != nil {
			return ""
		}
		added, wrong := c.addList(name, list.Config{Path: setting.Source(path), Category: name, Format: list.Expressions, Match: list.Boundary}, a.at)
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

// setHeader makes a rule require a field of requests.
func setHeader(r *policy.Rule, field string, expressions []string) {
	if r.Header == nil {
		r.Header = map[string]string{}
	}
	r.Header[field] = strings.Join(expressions, "|")
}

// squidPattern converts an expression of Squid to ours for the host and the path.
func squidPattern(kind, v string) string {
	switch {
	case kind == "dstdom_regex" || kind == "ssl::server_name_regex":
		rest, begins := strings.CutPrefix(v, "^")
		if !begins {
			rest = "[^/]*" + rest
		}
		if r, ends := strings.CutSuffix(rest, "$"); ends {
			rest = r + "(?:/|$)"
		}
		return "^" + rest
	case kind == "urlpath_regex":
		if rest, begins := strings.CutPrefix(v, "^"); begins {
			return "^[^/]*" + rest
		}
		return "/.*" + v
	}
	for _, scheme := range []string{"^http://", "^https://", "^https?://", "^http[s]?://", "^http(s)?://", "^(http|https)://"} {
		if rest, ok := strings.CutPrefix(v, scheme); ok {
			return "^" + rest
		}
	}
	return v
}

// domains makes lists from an acl: a name with a leading dot includes its
// subdomains.
func (c *squidConf) domains(name string, a *squidACL) error {
	format := list.Domains
	if a.kind == "dst" {
		format = list.Networks
	}
	var below, alone []string
	for _, v := range a.values {
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
		var lines []place
		for _, n := range x.names {
			lines = append(lines, place{a.at.file, a.at.line, n})
		}
		path, err := c.ownLines(name+x.suffix, lines)
		if err != nil {
			return err
		}
		added, err := c.addList(name+x.suffix, list.Config{Path: setting.Source(path), Category: name, Format: format, Match: list.Boundary, Subdomains: x.below}, a.at)
		if err != nil {
			return err
		}
		if added != "" {
			a.class = name // several lists may have it
		}
	}
	return nil
}
