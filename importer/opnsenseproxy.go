package importer

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/cache"
	"shuultuur/check/icap"
	"shuultuur/identity"
	"shuultuur/identity/directory"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/setting"
)

// An opnSetting is a setting of the proxy, and its conversion. take is not called for an empty
// text. A text "0" is the default unless zero says otherwise.
type opnSetting struct {
	path string
	zero bool
	take func(o *opnSense, v string) *Note
}

// how ours differs, whatever the text
func noteDiffers(ours, why string) func(*opnSense, string) *Note {
	return func(*opnSense, string) *Note { return differs(ours, why) }
}

// opnProxy has the settings of Squid as OPNsense stores them, in the order of their conversion.
var opnProxy = []opnSetting{
	{path: "forward.port", take: (*opnSense).proxyPort},
	{path: "forward.interfaces", take: func(*opnSense, string) *Note { return carried("listen: proxy") }},
	{path: "forward.transparentMode", take: func(o *opnSense, v string) *Note {
		o.set.Listen.Transparent = setting.OneOrMore[setting.Address]{":" + setting.Address(o.transparentPort())}
		return differs("listen: transparent", "one address for HTTP and HTTPS, which differs from that of the proxy: change the port in the firewall's rules; docs/transparent.md has them")
	}},
	{path: "forward.sslbumpport", take: noteDiffers("listen: transparent", "one address for HTTP and HTTPS")},
	{path: "forward.sslbump", take: (*opnSense).bump},
	{path: "forward.sslcertificate", take: func(*opnSense, string) *Note { return carried("intercept: root") }},
	{path: "forward.sslurlonly", take: func(*opnSense, string) *Note { return carried("decrypt: false, by which names alone are judged") }},
	{path: "forward.sslnobumpsites", take: (*opnSense).closed},
	{path: "forward.acl.blackList", take: func(o *opnSense, v string) *Note {
		return o.eachPart(v, func(s string) *Note { return o.nameOrExpression(true, s) })
	}},
	{path: "forward.acl.whiteList", take: func(o *opnSense, v string) *Note {
		return o.eachPart(v, func(s string) *Note { return o.nameOrExpression(false, s) })
	}},
	{path: "forward.acl.unrestricted", take: func(o *opnSense, v string) *Note { return o.networksOf("policy unfiltered", v, o.unfiltered) }},
	{path: "forward.acl.allowedSubnets", take: noteDiffers("policies", "everybody who reaches the proxy may use it: write the networks under policies, or leave it to the firewall")},
	{path: "forward.addACLforInterfaceSubnets", zero: true, take: noteDiffers("policies", "everybody who reaches the proxy may use it: write the networks under policies, or leave it to the firewall")},
	{path: "forward.acl.bannedHosts", take: func(o *opnSense, v string) *Note {
		n := o.networksOf("policy banned hosts", v, func(p netip.Prefix) { o.banned = append(o.banned, policy.Network{Prefix: p}) })
		if n.Kind == Carried {
			n = differs(n.Ours, "names are refused for them too")
		}
		return n
	}},
	{path: "forward.acl.browser", take: func(o *opnSense, v string) *Note {
		return o.condition("browsers", v, func(r *policy.Rule, s string) error {
			r.Agent = append(r.Agent, s)
			_, err := regexp.Compile(s)
			return err
		})
	}},
	{path: "forward.acl.mimeType", take: func(o *opnSense, v string) *Note {
		return o.condition("types", v, func(r *policy.Rule, s string) error {
			m, err := squidType(s)
			r.Type = append(r.Type, m)
			return err
		})
	}},
	{path: "forward.acl.googleapps", take: func(o *opnSense, v string) *Note {
		return carried(tenant(o.mainPolicy(), "X-GoogApps-Allowed-Domains", v))
	}},
	{path: "forward.acl.youtube", take: func(o *opnSense, v string) *Note {
		return carried(tenant(o.mainPolicy(), "YouTube-Restrict", strings.TrimSuffix(strings.ToLower(v), "restrict")))
	}},
	{path: "forward.acl.safePorts", take: func(o *opnSense, v string) *Note {
		o.set.Proxy.SafePorts = opnPorts(v)
		return carried("proxy.safe-ports")
	}},
	{path: "forward.acl.sslPorts", take: func(o *opnSense, v string) *Note {
		o.set.Proxy.ConnectPorts = opnPorts(v)
		return carried("proxy.connect-ports")
	}},
	{path: "forward.icap.enable", take: (*opnSense).scanner},
	{path: "forward.authentication.method", take: func(o *opnSense, v string) *Note { return o.eachPart(v, o.signIn) }},
	{path: "forward.authentication.realm", take: func(o *opnSense, v string) *Note {
		if o.set.Identity.Basic == nil {
			return &Note{Kind: Default, Why: "nobody signs in"}
		}
		o.set.Identity.Basic.Realm = v
		return carried("identity.basic.realm")
	}},
	{path: "general.logging.enable.accessLog", take: noteDiffers("events", "all requests are recorded")},
	{path: "general.logging.target", take: func(o *opnSense, v string) *Note {
		if v == "syslog" {
			return sendTo(o.work, o.logServer())
		}
		return differs("events", "all requests are recorded")
	}},
	{path: "general.logging.ignoreLogACL", take: func(*opnSense, string) *Note { return lost("the record has all clients") }},
	{path: "general.useViaHeader", take: func(o *opnSense, _ string) *Note {
		o.set.Proxy.Via, o.set.Proxy.ViaResponses = "on", "on"
		return carried("proxy.via")
	}},
	{path: "general.forwardedForHandling", take: func(_ *opnSense, v string) *Note {
		if v == "on" {
			return lost("clients' addresses are not sent to origins")
		}
		return carried("proxy, which adds no X-Forwarded-For")
	}},
	{path: "general.VisibleEmail", take: func(o *opnSense, v string) *Note { o.set.Pages.Contact = v; return carried("pages.contact") }},
	{path: "general.connecttimeout", take: func(o *opnSense, v string) *Note {
		return takeTime(v, "proxy.dial", time.Second, 10*time.Minute, &o.set.Proxy.Upstream.Dial)
	}},
	{path: "general.alternateDNSservers", take: noteDiffers("dns", "the proxy asks the system's resolver")},
	{path: "general.parentproxy.enabled", take: (*opnSense).parent},
	{path: "general.cache.local.enabled", take: (*opnSense).store},
	{path: "general.traffic.enabled", take: (*opnSense).traffic},
}

// opnProxyReasons say why settings of the proxy have no equivalent, or are converted together
// with others.
var opnProxyReasons = reasons{
	{"proxy.general.traffic", "neither bandwidth nor the size of downloads is limited; quotas of a policy limit the bytes of a day"},
	{"proxy.general.cache", "the cache is sized by memory, disk and object"},
	{"proxy.general.error", "pages are the gateway's own, in the reader's language; see pages.templates"},
	{"proxy.general.icpport", "gateways of one house share their caches by cache: peers"},
	{"proxy.general.visiblehostname", "pages do not show a name of the gateway"},
	{"proxy.forward.icap", "checks: icap asks each server by OPTIONS how it wants to be asked"},
	{"proxy.forward.ftp", "only http and https URLs are fetched"},
	{"proxy.forward.snmp", "counters are at /metrics"},
	{"proxy.forward.ssl", "certificates are made by the gateway itself"},
	{"proxy.forward.authentication", "it is part of the sign-in method"},
	{"proxy.pac", "the portal serves a proxy configuration: docs/portal.md"},
}

// proxy converts the settings that OPNsense writes for Squid.
func (o *opnSense) proxy() {
	if o.squid.at("general", "enabled").text == "0" {
		o.squid.eachLeaf("proxy", func(path string, n *xmlNode) {
			o.addNote(n, path, &Note{Kind: Default, Why: "the proxy is switched off"})
		})
		return
	}
	for _, s := range opnProxy {
		n := o.squid.at(strings.Split(s.path, ".")...)
		o.take(n, "proxy."+s.path, func(v string) *Note {
			if v == "0" && !s.zero {
				return &Note{Kind: Default}
			}
			return s.take(o, v)
		})
	}
	o.squid.at("forward", "acl", "remoteACLs", "blacklists").eachChild("blacklist", func(b *xmlNode) {
		if o.isOff(b) {
			return
		}
		o.at.line = b.line
		n := o.list(true, b.at("url").text)
		if f := b.at("filter").text; f != "" && n.Kind == Carried {
			n = differs(n.Ours, "all of it is refused: for "+f+" alone write format: ut1 into the list, and these as category into the rule")
		}
		o.entry(b, "proxy.forward.acl.remoteACLs.blacklists.blacklist", n)
	})
}

// proxyPort makes the proxy listen at the addresses of its interfaces, or at all addresses.
func (o *opnSense) proxyPort(port string) *Note {
	o.set.Listen.Proxy = nil
	for _, a := range o.addresses(o.squid.at("forward", "interfaces")) {
		n, err := strconv.Atoi(port)
		if err != nil {
			return lostOurs("listen: proxy", strconv.Quote(port)+" is not a port")
		}
		o.set.Listen.Proxy = append(o.set.Listen.Proxy, listenOn(a, n)...)
	}
	return carried("listen: proxy")
}

// addresses returns the addresses of the interfaces that a setting names, or "" for all.
func (o *opnSense) addresses(of *xmlNode) (all []string) {
	for _, name := range of.values() {
		a, err := netip.ParseAddr(o.interfaces.at(name, "ipaddr").text)
		if err != nil {
			return []string{""} // an interface gets its address from elsewhere, such as DHCP
		}
		all = append(all, a.String())
	}
	if len(all) == 0 {
		return []string{""}
	}
	return all
}

// transparentPort listens at a port unless the proxy itself has it.
func (o *opnSense) transparentPort() string {
	if p := o.squid.at("forward", "sslbumpport").text; p != "" {
		return p
	}
	return "3129"
}

// bump decrypts connections with the certificate authority in the firewall's settings.
func (o *opnSense) bump(string) *Note {
	if o.squid.at("forward", "sslurlonly").text == "1" {
		return carried("decrypt: false, by which names alone are judged")
	}
	file, id := "", o.squid.at("forward", "sslcertificate").text
	for _, ca := range o.root.nodes {
		if !strings.EqualFold(ca.name, "ca") || id == "" || ca.at("refid").text != id {
			continue
		}
		crt, err := base64.StdEncoding.DecodeString(ca.at("crt").text)
		key, err2 := base64.StdEncoding.DecodeString(ca.at("prv").text)
		path := filepath.Join(o.to, "authority.pem")
		if err == nil && err2 == nil && os.WriteFile(path, append(append(crt, '\n'), key...), 0o600) == nil {
			file = path
			defer os.Remove(path)
		}
	}
	return o.intercept(o.at, file, file)
}

// closed exempts some sites from decryption.
func (o *opnSense) closed(v string) *Note {
	var lines []place
	for s := range strings.FieldsFuncSeq(v, isBreak) {
		lines = append(lines, o.plain.entry(strings.TrimPrefix(strings.TrimSpace(s), ".")))
	}
	if o.squid.at("forward", "sslbump").text != "1" {
		return &Note{Kind: Default, Why: "TLS is not decrypted"}
	}
	path, err := o.ownLines("closed", lines)
	if err != nil {
		return lostOurs("rules", err.Error())
	}
	name, err := o.addList("closed", list.Config{Path: setting.Source(path), Category: "closed", Format: list.Domains, Match: list.Boundary}, place{file: o.at.file, line: o.at.line, what: "proxy.forward.sslnobumpsites " + v})
	if err != nil || name == "" {
		return lostOurs("rules", "it contains no valid names")
	}
	o.stayClosed = []policy.Rule{{Name: "closed", Action: "allow", Category: []string{"category/closed"}}}
	return carried("a rule that leaves them encrypted")
}

// nameOrExpression converts the forms of an entry in a list of Squid's: a name with those below
// it, or an expression.
func (o *opnSense) nameOrExpression(block bool, text string) *Note {
	if strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789.-_") == "" {
		return o.addNames(block, text)
	}
	if _, err := regexp.Compile(text); err != nil {
		return lost(err.Error())
	}
	to, ours := &o.blocked, "lists.blocked"
	if !block {
		to, ours = &o.allowed, "lists.allowed"
	}
	*to = append(*to, o.plain.entry("/"+text+"/"))
	return carried(ours)
}

// eachPart converts the parts of a list. Each part that is lost has a note of its own.
func (o *opnSense) eachPart(v string, take func(s string) *Note) (n *Note) {
	var kept, missed *Note
	for s := range strings.FieldsFuncSeq(v, isBreak) {
		s = strings.TrimSpace(s)
		switch n := take(s); {
		case n.Kind == Lost && s != v:
			n.place, n.What, missed = o.at, s, n
			o.rep.add(n)
		case n.Kind == Lost:
			missed = n
		default:
			kept = cmp.Or(kept, n)
		}
	}
	return cmp.Or(kept, missed, &Note{Kind: Default})
}

// condition refuses requests that match one of several texts.
func (o *opnSense) condition(name, v string, add func(r *policy.Rule, s string) error) *Note {
	r := policy.Rule{Name: name, Action: "block"}
	n := o.eachPart(v, func(s string) *Note {
		if err := add(&r, s); err != nil {
			return lost(err.Error())
		}
		return carried("a rule for " + name)
	})
	if n.Kind == Carried {
		p := o.mainPolicy()
		p.Rules = append(p.Rules, r)
	}
	return n
}

// signIn makes people sign in at an authentication server of the firewall.
func (o *opnSense) signIn(name string) *Note {
	basic := o.set.Identity.Basic
	if basic == nil {
		basic = &identity.Basic{}
	}
	n := o.signInAt(name, basic)
	if n.Kind != Lost {
		o.set.Identity.Basic = basic
	}
	return n
}

// signInAt converts one server.
func (o *opnSense) signInAt(name string, basic *identity.Basic) *Note {
	if name == "Local Database" {
		return o.passwords(basic)
	}
	s := &xmlNode{}
	o.root.at("system").eachChild("authserver", func(n *xmlNode) {
		if n.at("name").text == name {
			s = n
		}
	})
	host, base := s.at("host").text, s.at("ldap_authcn").text
	if base == "" || strings.Contains(base, ";") { // a base may name several parts of the directory
		base = s.at("ldap_basedn").text
	}
	port := func(name, standard string) string {
		if p := s.at(name).text; p != "" && p != standard {
			return net.JoinHostPort(host, p)
		}
		return host
	}
	switch kind := s.at("type").text; {
	case host != "" && (basic.RADIUS != nil || basic.LDAP != nil):
		return lostOurs("identity.basic", "one directory, or RADIUS, is asked besides the file: write "+host+" under servers of the first if it has the same users")
	case host != "" && kind == "radius":
		basic.RADIUS = &directory.RADIUS{Servers: setting.OneOrMore[string]{port("radius_auth_port", "1812")}, Secret: s.at("radius_secret").text}
		return carried("identity.basic.radius")
	case host != "" && strings.HasPrefix(kind, "ldap"):
		server := "ldap://" + port("ldap_port", "389")
		if strings.HasPrefix(s.at("ldap_urltype").text, "SSL") {
			server = "ldaps://" + port("ldap_port", "636")
		}
		l := &directory.LDAP{Servers: setting.OneOrMore[string]{server}, StartTLS: s.at("ldap_urltype").text == "StartTLS", Base: base, Bind: s.at("ldap_binddn").text, Password: s.at("ldap_bindpw").text}
		if field := s.at("ldap_attr_user").text; field != "" {
			l.User = "(" + field + "=%s)"
		}
		if more := s.at("ldap_extended_query").text; more != "" {
			if !strings.HasPrefix(more, "(") {
				more = "(" + more + ")"
			}
			l.User = "(&" + cmp.Or(l.User, "(uid=%s)") + more + ")"
		}
		if basic.LDAP = l; kind == "ldap-totp" {
			return differs("identity.basic.ldap", "the password alone counts, without a code")
		}
		return carried("identity.basic.ldap")
	}
	return lostOurs("identity", name+" is not a directory or RADIUS server of the file: write identity: basic with a password file, ldap or radius, or identity: kerberos")
}

// passwords converts the firewall's own users, whose passwords are stored as bcrypt hashes.
func (o *opnSense) passwords(basic *identity.Basic) *Note {
	var lines strings.Builder
	others := 0
	o.root.at("system").eachChild("user", func(u *xmlNode) {
		switch hash := u.at("password").text; {
		case u.at("disabled").text == "1":
		case strings.HasPrefix(hash, "$2"):
			fmt.Fprintf(&lines, "%s:%s\n", u.at("name").text, hash)
		default:
			others++
		}
	})
	file := filepath.Join(o.to, "passwords")
	err := os.WriteFile(file, []byte(lines.String()), 0o600)
	if err == nil {
		_, err = identity.New(identity.Config{Basic: &identity.Basic{File: setting.File(file)}}, identity.Parts{})
	}
	if err != nil {
		return lostOurs("identity.basic.file", fmt.Sprintf("%v: make the file with \"shuultuur passwd\"", err))
	}
	basic.File = "passwords"
	if others > 0 {
		return differs("identity.basic.file", fmt.Sprintf("%d users have no password by bcrypt: add them with \"shuultuur passwd\"", others))
	}
	return carried("identity.basic.file")
}

// logServer returns the first server to which the firewall sends its logs, or the firewall's
// own.
func (o *opnSense) logServer() string {
	server := localLog
	all := o.root.at("OPNsense", "Syslog", "destinations")
	for _, d := range slices.Backward(all.nodes) {
		if d.at("enabled").text != "0" && d.at("hostname").text != "" {
			transport := strings.TrimRight(cmp.Or(d.at("transport").text, "udp"), "46")
			server = transport + "://" + net.JoinHostPort(d.at("hostname").text, cmp.Or(d.at("port").text, "514"))
		}
	}
	return server
}

// opnPorts converts ports, each with its purpose after a colon.
func opnPorts(v string) (all setting.OneOrMore[string]) {
	for s := range strings.SplitSeq(v, ",") {
		port, _, _ := strings.Cut(strings.TrimSpace(s), ":")
		all = append(all, port)
	}
	return all
}

// scanner converts the servers that Squid asks by ICAP.
func (o *opnSense) scanner(string) *Note {
	i := o.squid.at("forward", "icap")
	cfg := icap.Config{Clients: i.at("SendClientIP").text == "1" || i.at("SendUsername").text == "1"}
	for _, name := range []string{"RequestURL", "ResponseURL"} {
		n := i.at(name)
		if u := n.text; u != "" && (len(cfg.Servers) == 0 || cfg.Servers[0] != u) {
			cfg.Servers = append(cfg.Servers, u)
		}
		o.take(n, "proxy.forward.icap."+strings.ToLower(name), func(string) *Note { return carried("checks.icap.servers") })
	}
	for _, name := range []string{"SendClientIP", "SendUsername"} {
		o.take(i.at(name), "proxy.forward.icap."+strings.ToLower(name), func(string) *Note { return carried("checks.icap.clients") })
	}
	o.take(i.at("exclude"), "proxy.forward.icap.exclude", func(string) *Note {
		return lostOurs("rules", "a rule with action: allow, in front of the others, keeps hosts from the scanner")
	})
	if len(cfg.Servers) == 0 {
		return lostOurs("checks.icap.servers", "it names no server")
	}
	askByICAP(o.work, cfg, true)
	return carried("checks.icap")
}

// parent sends requests through another proxy.
func (o *opnSense) parent(string) *Note {
	p := o.squid.at("general", "parentproxy")
	u := url.URL{Scheme: "http", Host: p.at("host").text + ":" + p.at("port").text}
	if p.at("enableauth").text == "1" {
		u.User = url.UserPassword(p.at("user").text, p.at("password").text)
	}
	up := &o.set.Proxy.Upstream
	up.Parent = u.String()
	for _, name := range []string{"localdomains", "localips"} {
		o.take(p.at(name), "proxy.general.parentproxy."+name, func(v string) *Note {
			return o.eachPart(v, func(s string) *Note {
				up.NoParent = append(up.NoParent, strings.TrimPrefix(s, "."))
				return carried("proxy.no-parent")
			})
		})
	}
	o.entry(p, "proxy.general.parentproxy", carried("proxy.parent"))
	return carried("proxy.parent")
}

// store converts sizes of the cache, which are in MB.
func (o *opnSense) store(string) *Note {
	l := o.squid.at("general", "cache", "local")
	c := &cache.Config{}
	for _, x := range []struct {
		name, ours string
		to         *setting.Size
	}{{"cache_mem", "cache.memory", &c.Memory}, {"maximum_object_size", "cache.object", &c.Object}, {"size", "cache.disk", &c.Disk}} {
		o.take(l.at(x.name), "proxy.general.cache.local."+x.name, func(v string) *Note {
			s, ok := squidSize([]string{v, "MB"})
			if !ok {
				return lostOurs(x.ours, "it contains no valid size")
			}
			*x.to = s
			return carried(x.ours)
		})
	}
	o.set.Cache = c
	return carried("cache")
}

// traffic limits the bodies of clients, in KiB.
func (o *opnSense) traffic(string) *Note {
	n := o.squid.at("general", "traffic", "maxUploadSize")
	o.take(n, "proxy.general.traffic.maxuploadsize", func(v string) *Note {
		s, ok := squidSize([]string{v, "KB"})
		if !ok {
			return lostOurs("larger", "it contains no valid size")
		}
		o.first = append(o.first, policy.Rule{Name: "large requests", Action: "block", Larger: s})
		return carried("a rule with larger")
	})
	return &Note{Kind: Default, Why: "with its neighbours"}
}

// safety adds the proxy's settings to the policies: scanners, sites that are not decrypted, and
// clients that may not use the proxy.
func (o *opnSense) safety() {
	o.addSharedRules()
	for i := range o.set.Policies {
		if p := &o.set.Policies[i]; p.Decrypt && len(o.stayClosed) > 0 {
			stayClosed(p, o.stayClosed, map[string]*squidACL{"blocked": {kind: "dstdomain"}, "allowed": {kind: "dstdomain"}})
		}
	}
	if len(o.banned) > 0 {
		o.set.Policies = append(policy.Config{{Name: "banned hosts", Networks: o.banned, Rules: []policy.Rule{{Name: "banned", Action: "block"}}}}, o.set.Policies...)
	}
}
