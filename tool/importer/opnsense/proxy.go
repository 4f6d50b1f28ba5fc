package opnsense

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
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/report"
	"shuultuur/tool/importer/squid"
)

// An option is a setting of the proxy, and its conversion. take is not called for an empty
// text. A text "0" is the default unless zero says otherwise.
type option struct {
	path string
	zero bool
	take func(o *config, v string) *report.Note
}

// how ours differs, whatever the text
func noteDiffers(ours, why string) func(*config, string) *report.Note {
	return func(*config, string) *report.Note { return report.Differs(ours, why) }
}

// proxyOptions has the settings of Squid as OPNsense stores them, in the order of their conversion.
var proxyOptions = []option{
	{path: "forward.port", take: (*config).proxyPort},
	{path: "forward.interfaces", take: func(*config, string) *report.Note { return report.Same("listen: proxy") }},
	{path: "forward.transparentMode", take: func(o *config, v string) *report.Note {
		o.p.Work.Set.Listen.Transparent = setting.OneOrMore[setting.Address]{":" + setting.Address(o.transparentPort())}
		return report.Differs("listen: transparent", "one address for HTTP and HTTPS, which differs from that of the proxy: change the port in the firewall's rules; docs/transparent.md has them")
	}},
	{path: "forward.sslbumpport", take: noteDiffers("listen: transparent", "one address for HTTP and HTTPS")},
	{path: "forward.sslbump", take: (*config).bump},
	{path: "forward.sslcertificate", take: func(*config, string) *report.Note { return report.Same("intercept: root") }},
	{path: "forward.sslurlonly", take: func(*config, string) *report.Note {
		return report.Same("decrypt: false, by which names alone are judged")
	}},
	{path: "forward.sslnobumpsites", take: (*config).closed},
	{path: "forward.acl.blackList", take: func(o *config, v string) *report.Note {
		return o.eachPart(v, func(s string) *report.Note { return o.nameOrExpression(true, s) })
	}},
	{path: "forward.acl.whiteList", take: func(o *config, v string) *report.Note {
		return o.eachPart(v, func(s string) *report.Note { return o.nameOrExpression(false, s) })
	}},
	{path: "forward.acl.unrestricted", take: func(o *config, v string) *report.Note { return o.networksOf("policy unfiltered", v, o.p.Unfiltered) }},
	{path: "forward.acl.allowedSubnets", take: noteDiffers("policies", "everybody who reaches the proxy may use it: write the networks under policies, or leave it to the firewall")},
	{path: "forward.addACLforInterfaceSubnets", zero: true, take: noteDiffers("policies", "everybody who reaches the proxy may use it: write the networks under policies, or leave it to the firewall")},
	{path: "forward.acl.bannedHosts", take: func(o *config, v string) *report.Note {
		n := o.networksOf("policy banned hosts", v, func(p netip.Prefix) { o.banned = append(o.banned, policy.Network{Prefix: p}) })
		if n.Kind == report.Carried {
			n = report.Differs(n.Ours, "names are refused for them too")
		}
		return n
	}},
	{path: "forward.acl.browser", take: func(o *config, v string) *report.Note {
		return o.condition("browsers", v, func(r *policy.Rule, s string) error {
			r.Agent = append(r.Agent, s)
			_, err := regexp.Compile(s)
			return err
		})
	}},
	{path: "forward.acl.mimeType", take: func(o *config, v string) *report.Note {
		return o.condition("types", v, func(r *policy.Rule, s string) error {
			m, err := squid.MediaType(s)
			r.Type = append(r.Type, m)
			return err
		})
	}},
	{path: "forward.acl.googleapps", take: func(o *config, v string) *report.Note {
		return report.Same(build.Tenant(o.p.Work.MainPolicy(), "X-GoogApps-Allowed-Domains", v))
	}},
	{path: "forward.acl.youtube", take: func(o *config, v string) *report.Note {
		return report.Same(build.Tenant(o.p.Work.MainPolicy(), "YouTube-Restrict", strings.TrimSuffix(strings.ToLower(v), "restrict")))
	}},
	{path: "forward.acl.safePorts", take: func(o *config, v string) *report.Note {
		o.p.Work.Set.Proxy.SafePorts = portsOf(v)
		return report.Same("proxy.safe-ports")
	}},
	{path: "forward.acl.sslPorts", take: func(o *config, v string) *report.Note {
		o.p.Work.Set.Proxy.ConnectPorts = portsOf(v)
		return report.Same("proxy.connect-ports")
	}},
	{path: "forward.icap.enable", take: (*config).scanner},
	{path: "forward.authentication.method", take: func(o *config, v string) *report.Note { return o.eachPart(v, o.signIn) }},
	{path: "forward.authentication.realm", take: func(o *config, v string) *report.Note {
		if o.p.Work.Set.Identity.Basic == nil {
			return &report.Note{Kind: report.Default, Why: "nobody signs in"}
		}
		o.p.Work.Set.Identity.Basic.Realm = v
		return report.Same("identity.basic.realm")
	}},
	{path: "general.logging.enable.accessLog", take: noteDiffers("events", "all requests are recorded")},
	{path: "general.logging.target", take: func(o *config, v string) *report.Note {
		if v == "syslog" {
			return build.SendTo(o.p.Work, o.logServer())
		}
		return report.Differs("events", "all requests are recorded")
	}},
	{path: "general.logging.ignoreLogACL", take: func(*config, string) *report.Note { return report.None("the record has all clients") }},
	{path: "general.useViaHeader", take: func(o *config, _ string) *report.Note {
		o.p.Work.Set.Proxy.Via, o.p.Work.Set.Proxy.ViaResponses = "on", "on"
		return report.Same("proxy.via")
	}},
	{path: "general.forwardedForHandling", take: func(_ *config, v string) *report.Note {
		if v == "on" {
			return report.None("clients' addresses are not sent to origins")
		}
		return report.Same("proxy, which adds no X-Forwarded-For")
	}},
	{path: "general.VisibleEmail", take: func(o *config, v string) *report.Note {
		o.p.Work.Set.Pages.Contact = v
		return report.Same("pages.contact")
	}},
	{path: "general.connecttimeout", take: func(o *config, v string) *report.Note {
		return build.TakeTime(v, "proxy.dial", time.Second, 10*time.Minute, &o.p.Work.Set.Proxy.Upstream.Dial)
	}},
	{path: "general.alternateDNSservers", take: noteDiffers("dns", "the proxy asks the system's resolver")},
	{path: "general.parentproxy.enabled", take: (*config).parent},
	{path: "general.cache.local.enabled", take: (*config).store},
	{path: "general.traffic.enabled", take: (*config).traffic},
}

// proxyReasons say why settings of the proxy have no equivalent, or are converted together
// with others.
var proxyReasons = report.Reasons{
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
func (o *config) proxy() {
	if o.squid.at("general", "enabled").text == "0" {
		o.squid.eachLeaf("proxy", func(path string, n *xmlNode) {
			o.addNote(n, path, &report.Note{Kind: report.Default, Why: "the proxy is switched off"})
		})
		return
	}
	for _, s := range proxyOptions {
		n := o.squid.at(strings.Split(s.path, ".")...)
		o.take(n, "proxy."+s.path, func(v string) *report.Note {
			if v == "0" && !s.zero {
				return &report.Note{Kind: report.Default}
			}
			return s.take(o, v)
		})
	}
	o.squid.at("forward", "acl", "remoteACLs", "blacklists").eachChild("blacklist", func(b *xmlNode) {
		if o.isOff(b) {
			return
		}
		o.p.At.Line = b.line
		n := o.p.List(true, b.at("url").text)
		if f := b.at("filter").text; f != "" && n.Kind == report.Carried {
			n = report.Differs(n.Ours, "all of it is refused: for "+f+" alone write format: ut1 into the list, and these as category into the rule")
		}
		o.entry(b, "proxy.forward.acl.remoteACLs.blacklists.blacklist", n)
	})
}

// proxyPort makes the proxy listen at the addresses of its interfaces, or at all addresses.
func (o *config) proxyPort(port string) *report.Note {
	o.p.Work.Set.Listen.Proxy = nil
	for _, a := range o.addresses(o.squid.at("forward", "interfaces")) {
		n, err := strconv.Atoi(port)
		if err != nil {
			return report.ByHand("listen: proxy", strconv.Quote(port)+" is not a port")
		}
		o.p.Work.Set.Listen.Proxy = append(o.p.Work.Set.Listen.Proxy, build.ListenOn(a, n)...)
	}
	return report.Same("listen: proxy")
}

// addresses returns the addresses of the interfaces that a setting names, or "" for all.
func (o *config) addresses(of *xmlNode) (all []string) {
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
func (o *config) transparentPort() string {
	if p := o.squid.at("forward", "sslbumpport").text; p != "" {
		return p
	}
	return "3129"
}

// bump decrypts connections with the certificate authority in the firewall's settings.
func (o *config) bump(string) *report.Note {
	if o.squid.at("forward", "sslurlonly").text == "1" {
		return report.Same("decrypt: false, by which names alone are judged")
	}
	file, id := "", o.squid.at("forward", "sslcertificate").text
	for _, ca := range o.root.nodes {
		if !strings.EqualFold(ca.name, "ca") || id == "" || ca.at("refid").text != id {
			continue
		}
		crt, err := base64.StdEncoding.DecodeString(ca.at("crt").text)
		key, err2 := base64.StdEncoding.DecodeString(ca.at("prv").text)
		path := filepath.Join(o.p.Work.To, "authority.pem")
		if err == nil && err2 == nil && os.WriteFile(path, append(append(crt, '\n'), key...), 0o600) == nil {
			file = path
			defer os.Remove(path)
		}
	}
	return o.p.Work.Intercept(o.p.At, file, file)
}

// closed exempts some sites from decryption.
func (o *config) closed(v string) *report.Note {
	var lines []report.Place
	for s := range strings.FieldsFuncSeq(v, isBreak) {
		lines = append(lines, o.p.Entry(strings.TrimPrefix(strings.TrimSpace(s), ".")))
	}
	if o.squid.at("forward", "sslbump").text != "1" {
		return &report.Note{Kind: report.Default, Why: "TLS is not decrypted"}
	}
	path, err := o.p.Work.OwnLines("closed", lines)
	if err != nil {
		return report.ByHand("rules", err.Error())
	}
	name, err := o.p.Work.AddList("closed", list.Config{Path: setting.Source(path), Category: "closed", Format: list.Domains, Match: list.Boundary}, report.Place{File: o.p.At.File, Line: o.p.At.Line, Text: "proxy.forward.sslnobumpsites " + v})
	if err != nil || name == "" {
		return report.ByHand("rules", "it contains no valid names")
	}
	o.stayClosed = []policy.Rule{{Name: "closed", Action: "allow", Category: []string{"category/closed"}}}
	return report.Same("a rule that leaves them encrypted")
}

// nameOrExpression converts the forms of an entry in a list of Squid's: a name with those below
// it, or an expression.
func (o *config) nameOrExpression(block bool, text string) *report.Note {
	if strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789.-_") == "" {
		return o.p.AddNames(block, text)
	}
	if _, err := regexp.Compile(text); err != nil {
		return report.None(err.Error())
	}
	to, ours := &o.p.Blocked, "lists.blocked"
	if !block {
		to, ours = &o.p.Allowed, "lists.allowed"
	}
	*to = append(*to, o.p.Entry("/"+text+"/"))
	return report.Same(ours)
}

// eachPart converts the parts of a list. Each part that is lost has a note of its own.
func (o *config) eachPart(v string, take func(s string) *report.Note) (n *report.Note) {
	var kept, missed *report.Note
	for s := range strings.FieldsFuncSeq(v, isBreak) {
		s = strings.TrimSpace(s)
		switch n := take(s); {
		case n.Kind == report.Lost && s != v:
			n.Place, n.What, missed = o.p.At, s, n
			o.p.Work.Report.Add(n)
		case n.Kind == report.Lost:
			missed = n
		default:
			kept = cmp.Or(kept, n)
		}
	}
	return cmp.Or(kept, missed, &report.Note{Kind: report.Default})
}

// condition refuses requests that match one of several texts.
func (o *config) condition(name, v string, add func(r *policy.Rule, s string) error) *report.Note {
	r := policy.Rule{Name: name, Action: "block"}
	n := o.eachPart(v, func(s string) *report.Note {
		if err := add(&r, s); err != nil {
			return report.None(err.Error())
		}
		return report.Same("a rule for " + name)
	})
	if n.Kind == report.Carried {
		p := o.p.Work.MainPolicy()
		p.Rules = append(p.Rules, r)
	}
	return n
}

// signIn makes people sign in at an authentication server of the firewall.
func (o *config) signIn(name string) *report.Note {
	o.p.Work.AsksAt(report.Place{File: o.p.At.File, Line: o.p.At.Line, Text: "forward.authentication.method " + name})
	basic := o.p.Work.Set.Identity.Basic
	if basic == nil {
		basic = &identity.Basic{}
	}
	n := o.signInAt(name, basic)
	if n.Kind != report.Lost {
		o.p.Work.Set.Identity.Basic = basic
	}
	return n
}

// signInAt converts one server.
func (o *config) signInAt(name string, basic *identity.Basic) *report.Note {
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
		return report.ByHand("identity.basic", "one directory, or RADIUS, is asked besides the file: write "+host+" under servers of the first if it has the same users")
	case host != "" && kind == "radius":
		basic.RADIUS = &directory.RADIUS{Servers: setting.OneOrMore[string]{port("radius_auth_port", "1812")}, Secret: s.at("radius_secret").text}
		return report.Same("identity.basic.radius")
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
			return report.Differs("identity.basic.ldap", "the password alone counts, without a code")
		}
		return report.Same("identity.basic.ldap")
	}
	return report.ByHand("identity", name+" is not a directory or RADIUS server of the file: write identity: basic with a password file, ldap or radius, or identity: kerberos")
}

// passwords converts the firewall's own users, whose passwords are stored as bcrypt hashes.
func (o *config) passwords(basic *identity.Basic) *report.Note {
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
	file := filepath.Join(o.p.Work.To, "passwords")
	err := os.WriteFile(file, []byte(lines.String()), 0o600)
	if err == nil {
		_, err = identity.New(identity.Config{Basic: &identity.Basic{File: setting.File(file)}}, identity.Parts{})
	}
	if err != nil {
		return report.ByHand("identity.basic.file", fmt.Sprintf("%v: make the file with \"shuultuur passwd\"", err))
	}
	basic.File = "passwords"
	if others > 0 {
		return report.Differs("identity.basic.file", fmt.Sprintf("%d users have no password by bcrypt: add them with \"shuultuur passwd\"", others))
	}
	return report.Same("identity.basic.file")
}

// logServer returns the first server to which the firewall sends its logs, or the firewall's
// own.
func (o *config) logServer() string {
	server := build.LocalLog
	all := o.root.at("OPNsense", "Syslog", "destinations")
	for _, d := range slices.Backward(all.nodes) {
		if d.at("enabled").text != "0" && d.at("hostname").text != "" {
			transport := strings.TrimRight(cmp.Or(d.at("transport").text, "udp"), "46")
			server = transport + "://" + net.JoinHostPort(d.at("hostname").text, cmp.Or(d.at("port").text, "514"))
		}
	}
	return server
}

// portsOf converts ports, each with its purpose after a colon.
func portsOf(v string) (all setting.OneOrMore[string]) {
	for s := range strings.SplitSeq(v, ",") {
		port, _, _ := strings.Cut(strings.TrimSpace(s), ":")
		all = append(all, port)
	}
	return all
}

// scanner converts the servers that Squid asks by ICAP.
func (o *config) scanner(string) *report.Note {
	i := o.squid.at("forward", "icap")
	cfg := icap.Config{Clients: i.at("SendClientIP").text == "1" || i.at("SendUsername").text == "1"}
	for _, name := range []string{"RequestURL", "ResponseURL"} {
		n := i.at(name)
		if u := n.text; u != "" && (len(cfg.Servers) == 0 || cfg.Servers[0] != u) {
			cfg.Servers = append(cfg.Servers, u)
		}
		o.take(n, "proxy.forward.icap."+strings.ToLower(name), func(string) *report.Note { return report.Same("checks.icap.servers") })
	}
	for _, name := range []string{"SendClientIP", "SendUsername"} {
		o.take(i.at(name), "proxy.forward.icap."+strings.ToLower(name), func(string) *report.Note { return report.Same("checks.icap.clients") })
	}
	o.take(i.at("exclude"), "proxy.forward.icap.exclude", func(string) *report.Note {
		return report.ByHand("rules", "a rule with action: allow, in front of the others, keeps hosts from the scanner")
	})
	if len(cfg.Servers) == 0 {
		return report.ByHand("checks.icap.servers", "it names no server")
	}
	build.AskByICAP(o.p.Work, cfg, true)
	return report.Same("checks.icap")
}

// parent sends requests through another proxy.
func (o *config) parent(string) *report.Note {
	p := o.squid.at("general", "parentproxy")
	u := url.URL{Scheme: "http", Host: p.at("host").text + ":" + p.at("port").text}
	if p.at("enableauth").text == "1" {
		u.User = url.UserPassword(p.at("user").text, p.at("password").text)
	}
	up := &o.p.Work.Set.Proxy.Upstream
	up.Parent = u.String()
	for _, name := range []string{"localdomains", "localips"} {
		o.take(p.at(name), "proxy.general.parentproxy."+name, func(v string) *report.Note {
			return o.eachPart(v, func(s string) *report.Note {
				up.NoParent = append(up.NoParent, strings.TrimPrefix(s, "."))
				return report.Same("proxy.no-parent")
			})
		})
	}
	o.entry(p, "proxy.general.parentproxy", report.Same("proxy.parent"))
	return report.Same("proxy.parent")
}

// store converts sizes of the cache, which are in MB.
func (o *config) store(string) *report.Note {
	l := o.squid.at("general", "cache", "local")
	c := &cache.Config{}
	for _, x := range []struct {
		name, ours string
		to         *setting.Size
	}{{"cache_mem", "cache.memory", &c.Memory}, {"maximum_object_size", "cache.object", &c.Object}, {"size", "cache.disk", &c.Disk}} {
		o.take(l.at(x.name), "proxy.general.cache.local."+x.name, func(v string) *report.Note {
			s, ok := squid.Size([]string{v, "MB"})
			if !ok {
				return report.ByHand(x.ours, "it contains no valid size")
			}
			*x.to = s
			return report.Same(x.ours)
		})
	}
	o.p.Work.Set.Cache = c
	return report.Same("cache")
}

// traffic limits the bodies of clients, in KiB.
func (o *config) traffic(string) *report.Note {
	n := o.squid.at("general", "traffic", "maxUploadSize")
	o.take(n, "proxy.general.traffic.maxuploadsize", func(v string) *report.Note {
		s, ok := squid.Size([]string{v, "KB"})
		if !ok {
			return report.ByHand("larger", "it contains no valid size")
		}
		o.p.Work.First = append(o.p.Work.First, policy.Rule{Name: "large requests", Action: "block", Larger: s})
		return report.Same("a rule with larger")
	})
	return &report.Note{Kind: report.Default, Why: "with its neighbours"}
}

// safety adds the proxy's settings to the policies: scanners, sites that are not decrypted, and
// clients that may not use the proxy.
func (o *config) safety() {
	o.p.Work.AddSharedRules()
	for i := range o.p.Work.Set.Policies {
		if p := &o.p.Work.Set.Policies[i]; p.Decrypt && len(o.stayClosed) > 0 {
			squid.StayClosed(p, o.stayClosed, func(list string) bool { return list == "blocked" || list == "allowed" })
		}
	}
	if len(o.banned) > 0 {
		o.p.Work.Set.Policies = append(policy.Config{{Name: "banned hosts", Networks: o.banned, Rules: []policy.Rule{{Name: "banned", Action: "block"}}}}, o.p.Work.Set.Policies...)
	}
}
