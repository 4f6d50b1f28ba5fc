package squid

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/identity"
	"shuultuur/identity/directory"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// asksWho reports whether an acl matches only who has signed in, so that Squid asks for it.
func asksWho(c *config, a *acl) bool {
	switch a.kind {
	case "proxy_auth", "proxy_auth_regex", "group", "max_user_ip":
		return true
	case "external":
		return len(a.values) > 0 && c.loginHelpers[a.values[0]]
	}
	return false
}

// signIn records that lines of http_access ask who the client is.
func signIn(c *config) {
	for _, l := range c.access {
		for _, n := range l.names {
			if a := c.acls[strings.TrimPrefix(n, "!")]; a != nil && asksWho(c, a) {
				c.w.AsksAt(a.at)
			}
		}
	}
}

// asked returns the networks whose clients reach a line that asks who they are, nil for all, and
// whether there are any. some is true if Squid does not ask them for each request.
func (c *config) asked() (networks []string, any, some bool) {
	var in, out []netip.Prefix
	everybody := true
	for _, who := range c.clients() {
		if len(who.Users)+len(who.Groups) > 0 {
			continue
		}
		asks, part := c.asks(who)
		some = some || part
		for _, n := range who.Networks {
			if asks {
				in = append(in, n.Prefix)
			} else {
				out = append(out, n.Prefix)
			}
		}
		if len(who.Networks) == 0 {
			everybody = asks
		}
	}
	if everybody && len(out) == 0 {
		return nil, true, some
	}
	if everybody {
		for _, all := range build.AllNetworks() {
			in = append(in, build.Without(all, out)...)
		}
	}
	for _, n := range in {
		networks = append(networks, n.String())
	}
	slices.Sort(networks)
	return slices.Compact(networks), len(networks) > 0, some
}

// asks reports whether a line that asks who clients are comes before one that decides about all of
// their requests. some is true if Squid does not ask for each request, because of what is before that.
func (c *config) asks(who *build.Clients) (asks, some bool) {
	for _, l := range c.access {
		decides, fits := true, true
		for _, n := range l.names {
			name, not := strings.CutPrefix(n, "!")
			a := c.acls[name]
			switch {
			case name == "all":
				fits = fits && !not
			case a != nil && a.kind == "src":
				fits = fits && who.Is(name) != not
			case a != nil && asksWho(c, a):
				return true, some || !decides // whatever is behind it
			default:
				decides = false
			}
			if !fits {
				break // later acls are not tested
			}
		}
		if fits && decides {
			return false, false
		}
		some = some || fits
	}
	return false, false
}

// mostOpen bounds the domains that need no sign-in.
const mostOpen = 1000

// withoutSignIn returns the domains about which a line decides, for everybody who is asked, before
// another one asks who they are: Squid does not ask then. Those without what is below them begin
// with "=".
func (c *config) withoutSignIn() (domains []string) {
	if slices.ContainsFunc(c.replies, func(l access) bool { return c.asksIn(l) }) {
		return nil // what they are answered depends on who they are
	}
	first := true
	for _, who := range c.clients() {
		if asks, _ := c.asks(who); len(who.Users)+len(who.Groups) > 0 || !asks {
			continue
		}
		here := c.decided(who)
		if first {
			domains, first = here, false
			continue
		}
		domains = slices.DeleteFunc(domains, func(d string) bool { return !slices.Contains(here, d) })
	}
	if len(domains) > mostOpen {
		return nil
	}
	slices.Sort(domains)
	return slices.Compact(domains)
}

// asksIn reports whether a line names an acl that asks who a client is.
func (c *config) asksIn(l access) bool {
	return slices.ContainsFunc(l.names, func(n string) bool {
		a := c.acls[strings.TrimPrefix(n, "!")]
		return a != nil && asksWho(c, a)
	})
}

// decided returns the domains about which a line decides for clients by their domain alone, before one
// asks who they are.
func (c *config) decided(who *build.Clients) (domains []string) {
	for _, l := range c.access {
		if c.asksIn(l) {
			return domains
		}
		var of *acl
		for _, n := range l.names {
			name, not := strings.CutPrefix(n, "!")
			switch a := c.acls[name]; {
			case name == "all" && !not:
			case a != nil && a.kind == "src" && who.Is(name) != not:
			case a != nil && a.kind == "dstdomain" && !not && !a.partial && of == nil:
				of = a
			default:
				of = &acl{} // it decides about some requests only
			}
		}
		if of == nil {
			continue
		}
		for _, v := range of.values {
			d, below := strings.CutPrefix(strings.ToLower(v), ".")
			if !dns.IsHost([]byte(d)) {
				continue
			}
			if !below {
				d = "=" + d
			}
			domains = append(domains, d)
		}
	}
	return domains
}

// quotedWords splits a text at blanks outside double quotes, and removes the quotes.
func quotedWords(s string) (words []string) {
	var b strings.Builder
	quoted, some := false, false
	for _, c := range s {
		switch {
		case c == '"':
			quoted, some = !quoted, true
		case !quoted && (c == ' ' || c == '\t'):
			if some {
				words = append(words, b.String())
			}
			b.Reset()
			some = false
		default:
			b.WriteRune(c)
			some = true
		}
	}
	if some {
		words = append(words, b.String())
	}
	return words
}

// helperArg returns the value of a helper's flag, which is the next word or follows directly.
func helperArg(words []string, flag string) string {
	for i, w := range words {
		switch {
		case w == flag && i+1 < len(words):
			return words[i+1]
		case len(flag) == 2 && len(w) > 2 && strings.HasPrefix(w, flag) && w[2] != flag[1]: // not -ZZ
			return w[2:]
		}
	}
	return ""
}

// auth converts a line of auth_param.
func (c *config) auth(f []string) *report.Note {
	if len(f) < 2 {
		return report.None("it contains no valid scheme and option")
	}
	words := quotedWords(strings.Join(f[2:], " "))
	switch scheme, option := f[0], f[1]; {
	case option == "program" && len(words) == 0:
		return report.None("it names no helper")
	case scheme == "negotiate" && option == "program":
		return c.kerberos(words)
	case scheme == "ntlm" && option == "program":
		return report.ByHand("identity.kerberos", "NTLM is refused because an eavesdropper can compute the password: write identity: kerberos, or basic")
	case scheme == "digest" && option == "program":
		return report.ByHand("identity.basic", "clients sign in by Basic or with a ticket: make a file with \"shuultuur passwd\", and write identity: basic: file")
	case scheme == "basic" && option == "realm":
		c.realm = strings.Join(words, " ")
		return report.Same("identity.basic.realm")
	case scheme == "basic" && option == "program":
		return c.passwords(words)
	}
	return &report.Note{Kind: report.Default, Why: "there are no helpers; answers are remembered for a while"}
}

// basic are our settings for names and passwords, made when they are first needed.
func (c *config) basic() *identity.Basic {
	if c.w.Set.Identity.Basic == nil {
		c.w.Set.Identity.Basic = &identity.Basic{}
	}
	return c.w.Set.Identity.Basic
}

// passwords converts the helper that verifies names and passwords.
func (c *config) passwords(words []string) *report.Note {
	switch helper := filepath.Base(words[0]); {
	case strings.Contains(helper, "ncsa") && len(words) > 1:
		file, locked, err := c.w.Passwords(input.Find(c.dir, words[len(words)-1]))
		if err != nil {
			return report.ByHand("identity.basic.file", fmt.Sprintf("%v: make the file anew with \"shuultuur passwd\", and write identity: basic: file", err))
		}
		c.basic().File = file
		if len(locked) > 0 {
			names := locked[:min(len(locked), 20)]
			return report.Differs("identity.basic.file", fmt.Sprintf("the file is copied, and people in it (%d) cannot sign in until \"shuultuur passwd\" gives them new passwords, because hashes of their kind are not verified: %s", len(locked), strings.Join(names, ", "))).Closing()
		}
		return report.Same("identity.basic.file")
	case strings.Contains(helper, "ldap"):
		l, why := c.ldap(words[1:])
		if l == nil {
			return report.ByHand("identity.basic.ldap", why)
		}
		c.basic().LDAP = l
		if why != "" {
			return report.Differs("identity.basic.ldap", why)
		}
		return report.Same("identity.basic.ldap")
	case strings.Contains(helper, "radius"):
		return c.radius(words[1:])
	}
	return report.ByHand("identity.basic", "an unknown helper: name a password file, ldap or radius under identity: basic")
}

// ldap reads the arguments of a helper that asks a directory. why names the missing
// part.
func (c *config) ldap(words []string) (l *directory.LDAP, why string) {
	arg := func(flag string) string { return helperArg(words, flag) }
	l = &directory.LDAP{Base: arg("-b"), Bind: arg("-D"), Password: arg("-w"), User: arg("-f"), StartTLS: slices.Contains(words, "-ZZ") || slices.Contains(words, "-Z")}
	if l.User != "" && !strings.HasPrefix(l.User, "(") { // which the helper accepts
		l.User = "(" + l.User + ")"
	}
	hosts := cmp.Or(arg("-H"), arg("-h"))
	if n := len(words); hosts == "" && n > 0 {
		hosts = words[n-1]
	}
	for host := range strings.FieldsSeq(hosts) {
		if !strings.Contains(host, "://") {
			if port := arg("-p"); port != "" && port != "389" && !strings.Contains(host, ":") {
				host += ":" + port
			}
			host = "ldap://" + host
		}
		l.Servers = append(l.Servers, host)
	}
	if len(l.Servers) == 0 {
		return nil, "it names no server: write servers and base there"
	}
	if file := arg("-W"); file != "" {
		data, err := input.Whole(input.Find(c.dir, file))
		if err != nil {
			return l, "write its password, which is in " + file
		}
		l.Password = strings.TrimRight(string(data), "\r\n")
	}
	return l, ""
}

// radius reads the arguments of basic_radius_auth, or the file that they name.
func (c *config) radius(words []string) *report.Note {
	server, secret := helperArg(words, "-h"), helperArg(words, "-w")
	if file := helperArg(words, "-f"); file != "" {
		c.w.Lines(input.Find(c.dir, file), func(_ report.Place, s string) {
			switch f := strings.Fields(s); {
			case len(f) == 2 && f[0] == "server":
				server = f[1]
			case len(f) == 2 && f[0] == "secret":
				secret = f[1]
			}
		})
	}
	if server == "" {
		return report.ByHand("identity.basic.radius", "it names no server: write servers and secret there")
	}
	c.basic().RADIUS = &directory.RADIUS{Servers: setting.OneOrMore[string]{server}, Secret: secret}
	return report.Same("identity.basic.radius")
}

// kerberos converts the helper that verifies tickets, even inside a helper that distinguishes
// tickets from NTLM.
func (c *config) kerberos(words []string) *report.Note {
	file := strings.TrimPrefix(cmp.Or(helperArg(words, "-k"), "/etc/krb5.keytab"), "FILE:")
	k := &identity.Kerberos{}
	k.Keytab = setting.File(input.Find(c.dir, file))
	if s := helperArg(words, "-s"); s != "GSS_C_NO_NAME" {
		k.Service, _, _ = strings.Cut(s, "@")
	}
	if _, err := identity.New(identity.Config{Kerberos: k}, identity.Parts{}); err != nil {
		return report.ByHand("identity.kerberos", fmt.Sprintf("%v: copy the keytab beside squid.conf and import again, or write identity: kerberos", err))
	}
	k.Keytab = c.w.File(string(k.Keytab))
	c.w.Set.Identity.Kerberos = k
	return report.Same("identity.kerberos")
}

// external converts a helper that tells the groups of a user. Others have no equivalent.
func external(c *config, f []string) *report.Note {
	words := quotedWords(strings.Join(f, " "))
	if len(words) > 0 && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "%LOGIN") || strings.Contains(w, "%ul") }) {
		if c.loginHelpers == nil {
			c.loginHelpers = map[string]bool{}
		}
		c.loginHelpers[words[0]] = true
	}
	i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "/") })
	if i < 1 || !strings.Contains(filepath.Base(words[i]), "group") {
		return report.None("no external programs are asked: users and groups come from identity, sessions from the portal")
	}
	if c.groupHelpers == nil {
		c.groupHelpers = map[string]bool{}
	}
	c.groupHelpers[words[0]] = true
	if strings.Contains(filepath.Base(words[i]), "ldap") {
		c.directory, _ = c.ldap(words[i+1:])
	}
	return report.Differs("groups of the policies", "a user in several groups of rules gets the first of their policies")
}

// declareGroups declares the groups that policies name: a directory has them, or they are still
// empty.
func declareGroups(c *config) {
	id := &c.w.Set.Identity
	if k := id.Kerberos; k != nil && k.LDAP == nil {
		k.LDAP = c.directory
		if c.directory == nil && id.Basic != nil {
			k.LDAP = id.Basic.LDAP
		}
	}
	if id.Kerberos != nil && id.Kerberos.LDAP != nil || id.Basic != nil && id.Basic.LDAP != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.acls)) {
		a := c.acls[name]
		if a.kind != "group" {
			continue
		}
		if id.Groups == nil {
			id.Groups = map[string][]string{}
		}
		for _, g := range a.values {
			id.Groups[g] = []string{}
		}
		c.w.Report.Add(&report.Note{Kind: report.Changed, Place: a.at, What: a.at.Text, Ours: "identity: groups", Why: "nobody is in these groups yet: name their members, or the directory that has them under identity: kerberos: ldap"})
	}
}
