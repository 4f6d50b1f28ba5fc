package importer

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
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

// A squidACL is what lines of one name say: one of the values is enough.
type squidACL struct {
	kind   string
	values []string
	at     place
	class  string // category of its list, once it is made
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
	data, err := readWhole(file)
	if err != nil {
		return err
	}
	c := &squidConf{work: w, dir: filepath.Dir(file), acls: map[string]*squidACL{}, denyInfo: map[string]string{}}
	if err := eachLine(bytes.NewReader(data), func(n int, s []byte) error {
		text, _, _ := strings.Cut(string(s), " #")
		if f := strings.Fields(text); len(f) > 0 && f[0][0] != '#' {
			c.option(place{file: file, line: n, what: text}, f)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := c.policies(); err != nil {
		return err
	}
	c.whole()
	return nil
}

// whole takes what the file says in several places.
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

// squidLost says what to do about options of which nothing is ours.
var squidLost = []struct{ prefix, why string }{
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
		for _, v := range f[3:] {
			if strings.HasPrefix(v, "-") {
				continue
			}
			a.values = append(a.values, c.values(at, v)...)
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
		for _, l := range squidLost {
			if strings.HasPrefix(f[0], l.prefix) {
				say(lost(l.why))
				return
			}
		}
		say(lost("limits and timeouts are those of proxy, and sized to the machine"))
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

// values are what a word of an acl stands for: a file in quotes has one a line.
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

// policies makes one for each acl of clients, in the order in which the lines
// name them, and one for everybody else.
func (c *squidConf) policies() error {
	var clients []string
	for _, l := range c.access {
		for _, n := range l.names {
			if a := c.acls[n]; a != nil && (a.kind == "src" || a.kind == "proxy_auth" && !a.anybody()) && n != "all" && !slices.Contains(clients, n) {
				clients = append(clients, n)
			}
		}
	}
	for _, who := range append(clients, "") {
		p := policy.Policy{Name: who}
		if who == "" {
			p.Name = "everyone else"
		} else if c.acls[who].kind == "proxy_auth" {
			p.Users = c.acls[who].values
		} else if p.Networks = squidNetworks(c.acls[who].values); len(p.Networks) == 0 {
			c.rep.add(Note{Kind: Lost, place: c.acls[who].at, What: c.acls[who].at.what, Why: "no addresses or networks: write a policy with users"})
			continue
		}
		last := false
		if err := c.first(&p, who); err != nil {
			return err
		}
		for _, l := range c.access {
			rule, fits, err := c.rule(l, who)
			if err != nil {
				return err
			}
			if last = l.allow; fits {
				rule.Name = fmt.Sprintf("line %d", l.at.line)
				c.refusal(&rule, l)
				p.Rules = append(p.Rules, rule)
			}
		}
		if n := len(p.Rules); len(c.access) > 0 && (n == 0 || !everything(p.Rules[n-1])) && last {
			p.Rules = append(p.Rules, policy.Rule{Name: "the opposite of the last line", Action: "block"})
		}
		c.set.Policies = append(c.set.Policies, p)
	}
	return nil
}

// first puts into a policy what is decided before http_access: connections that
// stay closed, and answers by their type.
func (c *squidConf) first(p *policy.Policy, who string) error {
	for i, l := range slices.Concat(c.spliced, c.replies) {
		if everyone := len(l.names) == 1 && l.names[0] == "all"; everyone || i >= len(c.spliced) && l.allow {
			continue // answers pass unless a line says that they do not
		}
		l.at.what = cmp.Or(l.at.what, "ssl_bump "+strings.Join(l.names, " "))
		rule, fits, err := c.rule(l, who)
		if err != nil {
			return err
		}
		if fits {
			rule.Name = fmt.Sprintf("line %d", l.at.line)
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

// anybody says whether an acl is about whoever has logged in.
func (a *squidACL) anybody() bool { return len(a.values) == 1 && a.values[0] == "REQUIRED" }

// everything says whether a rule has no conditions.
func everything(r policy.Rule) bool {
	return len(r.Category)+len(r.URL)+len(r.Method)+len(r.Unless)+len(r.Host)+len(r.Agent)+len(r.Type)+len(r.Schedule)+len(r.Header) == 0
}

// rule makes one of a line for the clients of an acl, "" for those of none;
// fits is false when the line is not about them or cannot be said.
func (c *squidConf) rule(l squidAccess, who string) (r policy.Rule, fits bool, err error) {
	r.Action = "block"
	if l.allow {
		r.Action = "allow"
	}
	note := Note{Kind: Carried, place: l.at, What: l.at.what, Ours: "a rule of each policy it may decide for"}
	defer func() {
		if err == nil && who == "" { // every line is said of once
			c.rep.add(note)
		}
	}()
	for _, name := range l.names {
		name, not := strings.CutPrefix(name, "!")
		a := c.acls[name]
		switch {
		case name == "all":
			if not {
				return r, false, nil
			}
			continue
		case name == "Safe_ports" || name == "SSL_ports":
			if a != nil && name == "SSL_ports" {
				c.set.Proxy.ConnectPorts = a.values
			} else if a != nil {
				c.set.Proxy.SafePorts = a.values
			}
			note.Ours = "proxy.connect-ports, proxy.safe-ports"
			return r, false, nil
		case name == "CONNECT" && slices.Contains(l.names, "!SSL_ports"):
			continue
		case name == "manager" || name == "to_localhost" || name == "to_linklocal":
			note.Ours = "listen.admin and proxy.private, which refuse it by themselves"
			return r, false, nil
		case name == "localhost" && a == nil:
			return r, false, nil
		case a == nil:
			note = Note{Kind: Lost, place: l.at, What: l.at.what, Why: fmt.Sprintf("there is no acl %q", name)}
			return r, false, nil
		case a.kind == "proxy_auth" && a.anybody():
			if not {
				note.Ours = "identity.basic, which asks everybody"
				return r, false, nil
			}
			continue
		case a.kind == "proxy_auth":
			if not == (who == name) {
				return r, false, nil
			}
			continue
		case a.kind == "src":
			if not == c.within(who, a) {
				return r, false, nil
			}
			continue
		}
		if why := c.condition(&r, name, a, not, &err); why != "" || err != nil {
			note = Note{Kind: Lost, place: l.at, What: l.at.what, Why: why}
			return r, false, err
		}
	}
	return r, true, nil
}

// within says whether the clients of the acl called who are all those of another.
func (c *squidConf) within(who string, of *squidACL) bool {
	if who == "" {
		return false
	}
	all := squidNetworks(of.values)
	for _, n := range squidNetworks(c.acls[who].values) {
		if !slices.ContainsFunc(all, func(o policy.Network) bool { return o.Bits() <= n.Bits() && o.Contains(n.Addr()) }) {
			return false
		}
	}
	return true
}

// condition puts an acl into a rule, or says why it cannot.
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
			return "write a rule with the opposite action and url before it"
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
		if not || r.Method != nil {
			return "write the methods that are meant under method"
		}
		r.Method = a.values
	case "browser":
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
		if !ok || not || r.Schedule != nil {
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

// squidPattern is an expression of Squid for the host and the path, as ours are.
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

// domains makes lists of an acl: a name with a dot before it stands for what is
// below it too.
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
		path, err := c.own(name+x.suffix, func(to io.Writer) error {
			_, err := io.WriteString(to, strings.Join(x.names, "\n")+"\n")
			return err
		})
		if err != nil {
			return err
		}
		made, err := c.addList(name+x.suffix, list.Config{Path: setting.Source(path), Category: name, Format: format, Match: list.Boundary, Subdomains: x.below}, a.at)
		if err != nil {
			return err
		}
		if made != "" {
			a.class = name
		}
	}
	return nil
}
