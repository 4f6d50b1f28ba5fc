package importer

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"shuultuur/cache"
	"shuultuur/filter"
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
	class  string // category of its list, once it is made

	anyCase     bool // -i
	expressions []*regexp.Regexp
}

// squidConf is squid.conf as far as it decides.
type squidConf struct {
	*work
	dir    string
	acls   map[string]*squidACL
	access []squidAccess

	replies, spliced []squidAccess     // http_reply_access, and what ssl_bump leaves closed
	denyInfo         map[string]string // where what an acl refuses is sent
	bumped           bool
	cert, key        string // of the root
	trusted          []setting.File
	realm            string
	cache            *cache.Config
	upload           setting.Size
	noParent         []string
	reported         map[string]bool // lines that the report has
}

type squidAccess struct {
	allow bool
	names []string // with "!" for not
	at    place
}

// readSquid reads squid.conf: ports, parents, and http_access in its order. Each
// acl of type src that a line names gives a policy, with the lines that may
// decide for these clients.
func readSquid(w *work, file string) error {
	if !isFile(file) {
		file = filepath.Join(file, "squid.conf")
	}
	c := newSquidConf(w, file)
	if err := c.read(file, 0); err != nil {
		return err
	}
	if err := c.policies(); err != nil {
		return err
	}
	c.whole()
	return nil
}

func newSquidConf(w *work, file string) *squidConf {
	return &squidConf{work: w, dir: filepath.Dir(file), denyInfo: map[string]string{}, acls: map[string]*squidACL{
		"localhost": {kind: "src", values: []string{"127.0.0.1", "::1"}, at: place{file: file, what: "acl localhost"}}, // built into Squid
	}}
}

// read takes the lines of a file, and of those that it includes.
func (c *squidConf) read(file string, depth int) error {
	data, err := readWhole(file)
	if err != nil {
		return err
	}
	if c.work.read++; c.work.read > maxFiles || depth > maxDepth {
		return fmt.Errorf("%s: too many files that include others", file)
	}
	more := ""
	return eachLine(bytes.NewReader(data), func(n int, s []byte) error {
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

// include reads the files that a line names; files that have moved are looked
// for beside squid.conf.
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

// whole converts what is distributed over several lines of the file.
func (c *squidConf) whole() {
	if c.bumped {
		n := c.intercept(place{file: c.dir}, c.cert, c.key)
		n.place, n.What = place{file: c.dir}, "ssl_bump: the root "+c.cert
		c.rep.add(n)
	}
	if c.set.Cut != nil {
		c.set.Cut.Trust = c.trusted
	}
	if c.set.Identity.Basic != nil {
		c.set.Identity.Basic.Realm = c.realm
	}
	c.set.Cache = c.cache
	if c.set.Proxy.Upstream.Parent != "" {
		c.set.Proxy.Upstream.NoParent = c.noParent
	}
	if c.upload > 0 {
		for i := range c.set.Policies {
			p := &c.set.Policies[i]
			p.Rules = append([]policy.Rule{{Name: "large requests", Action: "block", Larger: c.upload}}, p.Rules...)
		}
	}
	c.everywhere()
}

// squidLost has the advice for options without equivalent.
var squidLost = reasons{
	{"external_acl", "users and groups are told by identity"},
	{"url_rewrite", "import the rewriter's own settings, such as \"shuultuur import squidguard\""},
	{"redirect_program", "import the rewriter's own settings, such as \"shuultuur import squidguard\""},
	{"delay_", "write limits into the policies"},
	{"logformat", "events: squid writes Squid's native form"},
}

// option takes a line.
func (c *squidConf) option(at place, f []string) {
	say := func(n Note) {
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
		if a.kind == "url_regex" {
			say(differs("the rules that name it", "expressions see host and path here: neither the scheme nor a port, and no case"))
			return
		}
		say(carried("the rules that name it"))
	case "http_access":
		if len(f) > 1 {
			c.access = append(c.access, squidAccess{f[1] == "allow", f[2:], at})
		}
	case "http_port", "https_port":
		if len(f) > 1 {
			say(c.port(f[0], f[1], f[2:]))
		}
	case "cache_peer":
		if len(f) > 3 && f[2] == "parent" && c.set.Proxy.Upstream.Parent == "" {
			c.set.Proxy.Upstream.Parent = "http://" + net.JoinHostPort(f[1], f[3])
			say(carried("proxy.parent"))
			return
		}
		say(lost("one parent is asked; see proxy.parent"))
	default:
		if n, ok := c.more(at, f); ok {
			say(n)
			return
		}
		say(lost(cmp.Or(squidLost.of(f[0]), "limits and timeouts are those of proxy, and sized to the machine")))
	}
}

// port takes a port and its options.
func (c *squidConf) port(kind, addr string, options []string) Note {
	if !strings.Contains(addr, ":") {
		addr = "[::]:" + addr
	}
	a := setting.Address(addr)
	has := func(words ...string) bool {
		return slices.ContainsFunc(options, func(s string) bool { return slices.Contains(words, s) })
	}
	for _, o := range options {
		for _, x := range []struct {
			prefixes []string
			to       *string
		}{{[]string{"cert=", "tls-cert="}, &c.cert}, {[]string{"key=", "tls-key="}, &c.key}} {
			for _, prefix := range x.prefixes {
				if file, ok := strings.CutPrefix(o, prefix); ok && *x.to == "" {
					if !isFile(file) && isFile(filepath.Join(c.dir, filepath.Base(file))) {
						file = filepath.Join(c.dir, filepath.Base(file))
					}
					*x.to = file
				}
			}
		}
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
	case kind == "https_port":
		return lostOurs("listen.tls", "write listen: tls with the certificate: the proxy's port then speaks TLS too")
	case has("accel"):
		return lost("it does not stand in front of servers")
	}
	c.set.Listen.Proxy = append(c.set.Listen.Proxy, a)
	return carried("listen.proxy")
}

// values returns the values in a word of an acl: a quoted file has one per
// line.
func (c *squidConf) values(at place, v string) (all []string) {
	if !strings.HasPrefix(v, `"`) {
		return []string{v}
	}
	file := strings.Trim(v, `"`)
	if !isFile(file) {
		file = filepath.Join(c.dir, filepath.Base(file))
	}
	data, err := readWhole(file)
	if err != nil {
		c.rep.add(Note{Kind: Lost, place: at, What: v, Why: "the file is not there: copy it beside squid.conf and import again"})
		return nil
	}
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// policies makes a policy for each set of clients that the lines distinguish.
func (c *squidConf) policies() error {
	c.access, c.replies, c.spliced = c.expand(c.access), c.expand(c.replies), c.expand(c.spliced)
	for _, l := range slices.Concat(c.spliced, c.replies, c.access) {
		if err := c.noteLine(l); err != nil {
			return err
		}
	}
	taken := map[string]int{}
	for _, who := range c.clients() {
		p := policy.Policy{Name: who.name(), Networks: who.networks, Users: who.users}
		if taken[p.Name]++; taken[p.Name] > 1 {
			p.Name = fmt.Sprintf("%s (%d)", p.Name, taken[p.Name])
		}
		if err := c.first(&p, who); err != nil {
			return err
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
				if p.Rules = append(p.Rules, rule); everything(rule) {
					break // no line behind it is reached
				}
			}
		}
		if n := len(p.Rules); len(c.access) > 0 && (n == 0 || !everything(p.Rules[n-1])) && last {
			p.Rules = append(p.Rules, policy.Rule{Name: "the opposite of the last line", Action: "block"})
		}
		c.set.Policies = append(c.set.Policies, p)
	}
	return nil
}

// purgers lets clients that a rule allows the method PURGE take URLs out of the
// cache. That others must not is in the rules already.
func (c *squidConf) purgers(r *policy.Rule, who *squidClients) {
	if c.cache == nil || r.Action != "allow" || !slices.Contains(r.Method, "PURGE") {
		return
	}
	networks := who.networks
	if len(networks)+len(who.users) == 0 { // all clients
		networks = []policy.Network{{Prefix: netip.MustParsePrefix("0.0.0.0/0")}, {Prefix: netip.MustParsePrefix("::/0")}}
	}
	for _, n := range networks {
		if !slices.Contains(c.cache.Purge, n.Prefix) {
			c.cache.Purge = append(c.cache.Purge, n.Prefix)
		}
	}
}

// ruleName is a name that no rule has yet.
func ruleName(rules []policy.Rule, name string) string {
	free := name
	for n := 2; slices.ContainsFunc(rules, func(r policy.Rule) bool { return r.Name == free }); n++ {
		free = fmt.Sprintf("%s (%d)", name, n)
	}
	return free
}

// noteLine adds the note on a line, and converts what it contains about ports.
func (c *squidConf) noteLine(l squidAccess) error {
	if c.reported == nil {
		c.reported = map[string]bool{}
	}
	if at := l.at.String(); l.at.line == 0 || c.reported[at] {
		return nil // one line may have become several
	} else {
		c.reported[at] = true
	}
	_, _, n, err := c.rule(l, nil)
	n.place, n.What = l.at, l.at.what
	c.rep.add(n)
	return err
}

// first puts into a policy what is decided before http_access: connections that
// stay closed, and answers by their type.
func (c *squidConf) first(p *policy.Policy, who *squidClients) error {
	for i, l := range slices.Concat(c.spliced, c.replies) {
		if everyone := len(l.names) == 1 && l.names[0] == "all"; everyone || i >= len(c.spliced) && l.allow {
			continue // answers pass unless a line denies them
		}
		l.at.what = cmp.Or(l.at.what, "ssl_bump "+strings.Join(l.names, " "))
		rule, fits, _, err := c.rule(l, who)
		if err != nil {
			return err
		}
		if fits {
			rule.Name = ruleName(p.Rules, fmt.Sprintf("line %d", l.at.line))
			if l.at.line == 0 {
				rule.Name = fmt.Sprintf("ssl_bump %d", i+1)
			}
			p.Rules = append(p.Rules, rule)
		}
	}
	return nil
}

// refusal sends clients where deny_info says for the last acl of a line.
func (c *squidConf) refusal(r *policy.Rule, l squidAccess) {
	if l.allow || len(l.names) == 0 {
		return
	}
	if to, ok := c.denyTo(c.denyInfo[strings.TrimPrefix(l.names[len(l.names)-1], "!")]); ok {
		r.Action, r.To = "redirect", to
	}
}

// anybody reports whether an acl covers every signed-in user.
func (a *squidACL) anybody() bool { return len(a.values) == 1 && a.values[0] == "REQUIRED" }

// everything reports whether a rule has no conditions.
func everything(r policy.Rule) bool {
	return len(r.Category)+len(r.URL)+len(r.Method)+len(r.Unless)+len(r.Host)+len(r.Agent)+len(r.Type)+len(r.Schedule)+len(r.Header) == 0
}

// rule converts a line for some clients; fits is false if the line is not about
// them or cannot be expressed. The note gives the reason, and is the same for
// all clients.
func (c *squidConf) rule(l squidAccess, who *squidClients) (r policy.Rule, fits bool, n Note, err error) {
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
		case a.kind == "proxy_auth" && a.anybody():
			if not {
				fits, n = false, carried("identity.basic, which asks everybody")
			}
		case a.kind == "proxy_auth" || a.kind == "src":
			if who != nil && who.is(name) == not {
				fits = false
			}
		default:
			if why := c.condition(&r, name, a, not, &err); why != "" || err != nil {
				return r, false, Note{Kind: Lost, Why: why}, err
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
		case a != nil && a.kind == "method" && !not && slices.Equal(a.values, []string{"CONNECT"}), a == nil && name == "CONNECT" && !not:
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
func (c *squidConf) condition(r *policy.Rule, name string, a *squidACL, not bool, err *error) (why string) {
	switch a.kind {
	case "dstdomain", "ssl::server_name", "dst":
		if a.class == "" {
			*err = c.domains(name, a)
		}
		switch {
		case *err != nil:
		case a.class == "":
			return "its acl has no names"
		case not:
			r.Unless = append(r.Unless, "category/"+a.class)
		case r.Category != nil:
			return "a rule asks for one list of names: write the names that are in both"
		default:
			r.Category = []string{"category/" + a.class}
		}
	case "url_regex", "urlpath_regex", "dstdom_regex":
		if not || r.URL != nil {
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
			return "two acls about methods: write the methods that are meant under method"
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
			return "write a rule with type"
		}
		for _, v := range a.values {
			m := strings.NewReplacer("^", "", "$", "", "\\", "", ".*", "*").Replace(v)
			if strings.HasSuffix(m, "/") || !strings.Contains(m, "/") {
				m = strings.TrimSuffix(m, "/") + "/*"
			}
			m, err := filter.MediaType(m)
			if err != nil {
				return err.Error()
			}
			r.Type = append(r.Type, m)
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
			return "write a rule with header"
		}
		r.Header = map[string]string{a.values[0]: strings.Join(a.values[1:], "|")}
	case "ident", "ext_user":
		return "write a policy with users, and identity"
	default:
		return "an acl of type " + a.kind + " has no condition of ours"
	}
	return ""
}

// byList adds expressions to a rule as a list, because they are negated or must
// match together with others.
func (c *squidConf) byList(r *policy.Rule, name string, a *squidACL, not bool, err *error) (why string) {
	if a.class == "" {
		var lines []place
		for _, v := range a.values {
			lines = append(lines, place{a.at.file, a.at.line, squidPattern(a.kind, v)})
		}
		path, wrong := c.ownLines(name, lines)
		if *err = wrong; *err != nil {
			return ""
		}
		if a.class, *err = c.addList(name, list.Config{Path: setting.Source(path), Category: name, Format: list.Expressions, Match: list.Boundary}, a.at); *err != nil {
			return ""
		}
	}
	switch {
	case a.class == "":
		return "none of its expressions compiles"
	case not:
		r.Unless = append(r.Unless, "category/"+name)
	case r.Category != nil:
		return "a rule asks for one list of names: write the names that are in both"
	default:
		r.Category = []string{"category/" + name}
	}
	return ""
}

// squidPattern converts an expression of Squid to one on host and path.
func squidPattern(kind, v string) string {
	switch {
	case kind == "dstdom_regex":
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
	for _, scheme := range []string{"^http://", "^https://", "^https?://", "^http[s]?://", "^http(s)?://"} {
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
		category, err := c.addList(name+x.suffix, list.Config{Path: setting.Source(path), Category: name, Format: format, Match: list.Boundary, Subdomains: x.below}, a.at)
		if err != nil {
			return err
		}
		if category != "" {
			a.class = category
		}
	}
	return nil
}
