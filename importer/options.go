package importer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"shuultuur/policy"
)

// why has the reasons why options of e2guardian have no equivalent, by the words that their
// names begin or end with. The first match counts. A word in the middle of a name may be none
// of its words, as ssl in accesslog.
var why = []struct{ words, why string }{
	{"searchterm bannedsearchterm exceptionsearchterm weightedsearchterm", "search terms are judged by rules with search:, not by weight"},
	{"embeddedurl deepurl", "addresses inside URLs and pages are not looked up"},
	{"lookup lookups reverse dns searchsitelistforip", "names are judged when they are requested"},
	{"categorydisplay custombanned usecustombanned accessdenied sslaccessdenied", "block pages are the gateway's own: pages"},
	{"upload uploads maxupload", "uploads are not limited by size; a rule with method: [POST, PUT] can refuse them"},
	{"contentregexp", "pages are not rewritten"},
	{"picsfile pics", "PICS labels are obsolete"},
	{"contentscan disablecontentscan virus avsubject notifyav infection trickle initialtrickle downloadmanager filecache scansize scanclean deletedownloaded", "bodies are scanned while they are held; see checks.virus"},
	{"ssl openssl useopenssl cert generatedcert mitm onlymitm cacertificate caprivate", "certificates are made by the gateway itself; see intercept"},
	{"mail smtp notify violations threshold avadmin contentadmin contentsubject", "no mail is sent; see metrics and the record"},
	{"log logs maxlog nolog proxyfailurelog stat dstat", "the record is kept in full; shuultuur events searches it"},
	{"language template reporting delimiter showweighted", "block pages are the gateway's own: pages"},
	{"bypass cgi", "a ban is bypassed by the click on a warn page, which is signed"},
	{"workers children maxagechildren preforkchildren queue timeout exchange pcon maxips fds threads connect", "limits are those under proxy, and follow the size of the machine"},
	{"daemon pid ipc urlipc ipipc soft", "the service manager does that"},
	{"auth mapauth", "users are identified under identity"},
	{"storyboard story preauth", "storyboards are not run; rules are in the order they are shipped with"},
	{"icap defaulticap transparent defaulttransparent port ports mapports", "one port for the proxy; see listen"},
	{"textmime contentfiltersize", "text is recognised by type and content"},
	{"forcequick", "the phrase search has one algorithm"},
}

func whyNot(name string) string {
	name = strings.TrimSuffix(name, "list")
	for _, w := range why {
		for _, word := range strings.Fields(w.words) {
			if strings.HasPrefix(name, word) || strings.HasSuffix(name, word) {
				return w.why
			}
		}
	}
	return notKnown
}

// notKnown is the reason for an option of e2guardian or squidGuard about which nothing is known.
const notKnown = "there is no counterpart"

// carriedOptions names options that other parts of the import convert.
var carriedOptions = []string{
	"groupname", "groupmode", "naughtynesslimit", "weightedphraselist", "bannedphraselist", "exceptionphraselist", "weightedphrasemode",
	"phrasefiltermode", "preservecase", "hexdecodecontent", "filtergroupslist", "storyboard", "authplugin",
}

// reportUnused reports the unconverted lists and options of a group.
func (c *guard) reportUnused(lists []ref, opts map[string]option, grey bool) {
	for _, r := range lists {
		switch {
		case r.typ == "ip" || r.typ == "ipmap" || r.typ == "map":
		case (r.typ == "replace" && r.name != "searchterms" || strings.HasSuffix(r.name, "header")) && len(c.items(r)) > 0:
			c.rep.add(&Note{Kind: Carried, place: r.place, What: r.what, Ours: "as for its lines"})
		case slices.Contains([]string{"banned", "exception", "grey", "semiexception", "localbanned", "localexception", "localgrey", "localsemiexception", "exceptionfile",
			"nomitm", "authexception", "bannedtimes", "blankettimes", "refererexception", "bannedheader", "exceptionheader", "banneduseragent", "exceptionuseragent", "bannedextension", "bannedmime"}, r.name) && r.typ != "category" && !(r.typ == "search" && r.name == "exception"):
		case r.name == "bannedbypass" && number(opts, "bypass", 0) > 0:
		case r.typ == "replace" && r.name != "searchterms":
			c.rep.add(&Note{Kind: Empty, place: r.place, What: r.what, Why: "nothing is in it"})
		case r.name == "searchterms":
			c.rep.add(&Note{Kind: Carried, place: r.place, What: r.what, Ours: "search:", Why: "search engines are built in"})
		default:
			reason := whyNot(r.name)
			switch {
			case strings.HasPrefix(r.name, "ssl") || strings.HasSuffix(r.name, "ssl"):
				reason = "a list for tunnels only; tunnels are judged by their host with the general lists"
			case r.name == "nocheckcert":
				reason = "faults of certificates are categories: write a rule with host, action: warn or allow, and category: [self-signed, expired, …]"
			case r.name == "override":
				reason = "no rule allows searches"
			case r.name == "bannedbypass":
				reason = "nothing can be bypassed"
			case r.name == "exceptionextension" || r.name == "exceptionmime":
				reason = "useful only with a changed storyboard; a rule cannot say \"all types but these\""
			}
			n := &Note{Kind: Lost, place: r.place, What: r.what, Why: reason}
			if r.typ != "category" && len(c.items(r)) == 0 {
				n.Kind = Empty
			}
			c.rep.add(n)
		}
	}
	if grey {
		c.rep.add(&Note{Kind: Changed, place: place{file: c.dir}, What: "grey lists and tunnels", Ours: "unless of the bans",
			Why: "e2guardian bans a tunnel to a site that is both banned and grey if it does not decrypt it; here it passes"})
	}
	for _, name := range sortedKeys(opts) {
		if slices.Contains(carriedOptions, name) || name == "bypass" && number(opts, name, 0) > 0 {
			continue
		}
		for _, o := range opts[name].every() {
			n := c.convert(o, opts)
			if name == "reportinglevel" && o.value == "-1" {
				n.Why = "pages are blocked where e2guardian would only record them; set action: allow in the rules meanwhile"
			}
			n.place, n.What = o.place, o.what
			c.rep.add(n)
		}
	}
}

// global converts the main file's settings of the proxy.
func (c *guard) global(opts map[string]option) {
	carried := func(name, ours string) {
		c.rep.add(&Note{Kind: Carried, place: opts[name].place, What: opts[name].what, Ours: ours})
	}
	done := map[string]bool{}
	for _, name := range carriedOptions {
		done[name] = true
	}
	e2Listen(c, opts["filterip"].every(), opts["filterports"].every())
	done["filterports"], done["filterip"] = true, true
	if ip, port := opts["proxyip"].value, number(opts, "proxyport", 0); ip != "" && port > 0 && port < 65536 {
		if _, err := netip.ParseAddr(ip); err == nil {
			c.set.Proxy.Upstream.Parent = "http://" + netipJoin(ip, port)
			carried("proxyip", "proxy.parent")
			carried("proxyport", "proxy.parent")
			done["proxyip"], done["proxyport"] = true, true
		}
	}
	if opts["proxyip"].value == "" && opts["proxyport"].value != "" {
		c.rep.add(&Note{Kind: Default, place: opts["proxyport"].place, What: opts["proxyport"].what, Why: "there is no parent"})
		done["proxyport"] = true
	}
	if opts["usexforwardedfor"].value == "on" {
		if a, err := netip.ParseAddr(opts["xforwardedforfilterip"].value); err == nil {
			c.set.Proxy.Trusted = []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
			carried("xforwardedforfilterip", "proxy.trusted")
			carried("usexforwardedfor", "proxy.trusted")
			done["usexforwardedfor"], done["xforwardedforfilterip"] = true, true
		}
	}
	switch number(opts, "logfileformat", 0) {
	case 1, 2, 4, 5, 6, 7, 8:
		c.set.Events.SQLite, c.set.Events.DansGuardian = "events.db", "access.log"
		carried("logfileformat", "events.dansguardian")
		done["logfileformat"] = true
	case 3:
		c.set.Events.SQLite, c.set.Events.Squid = "events.db", "access.log"
		carried("logfileformat", "events.squid")
		done["logfileformat"] = true
	}
	for _, name := range sortedKeys(opts) {
		if done[name] {
			continue
		}
		for _, o := range opts[name].every() {
			n := c.convert(o, opts)
			n.place, n.What = o.place, o.what
			c.rep.add(n)
		}
	}
}

// e2Listen converts the addresses and ports of the proxy: each port at each address.
func e2Listen(c *guard, addresses, ports []option) {
	var ips []string
	for _, o := range addresses {
		a, err := netip.ParseAddr(o.value)
		n := carried("listen.proxy")
		switch {
		case o.value == "":
			n = &Note{Kind: Default}
		case err != nil:
			n = &Note{Kind: Line, Why: "not an address; left out", Mend: "one address a line"}
		case a.IsUnspecified():
		default:
			ips = append(ips, o.value)
		}
		n.place, n.What = o.place, o.what
		c.rep.add(n)
	}
	if len(ips) == 0 {
		ips = []string{""}
	}
	for _, o := range ports {
		n := carried("listen.proxy")
		if port, err := strconv.Atoi(o.value); err != nil || port < 1 || port > 65535 {
			n = &Note{Kind: Line, Why: "not a port; left out", Mend: "a port from 1 to 65535"}
		} else {
			for _, ip := range ips {
				for _, a := range listenOn(ip, port) {
					if !slices.Contains(c.set.Listen.Proxy, a) {
						c.set.Listen.Proxy = append(c.set.Listen.Proxy, a)
					}
				}
			}
		}
		n.place, n.What = o.place, o.what
		c.rep.add(n)
	}
}

func netipJoin(ip string, port int) string {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), uint16(port)).String()
}

// plainURL reports whether a redirect may lead to s: a URL without placeholders that we do not
// know.
func plainURL(s string) bool {
	s = strings.NewReplacer("{url}", "x", "{host}", "x", "{category}", "x", "{policy}", "x", "{id}", "x", "{client}", "x", "{login}", "x").Replace(s)
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && !strings.ContainsAny(s, "{}")
}

// shipped has the SHA-256 digests of the storyboards that e2guardian 5.3.5 ships.
var shipped = map[string]string{
	"site.story":    "ba33ba2bb8f623cd4407fb65ef2e3c419e77fada8085a08bac734de988a568cb",
	"preauth.story": "d5e391e9fbed9376caa79392723c09a0e3a2b15f20225b0ddeb7d58b076701d5",
	"common.story":  "ce14b606a9db5b6ef0a6f4cb157429c93f43fb1b31054528d804688b3df32269",
}

// story converts the blanket blocks in a group's storyboard, which the shipped storyboard
// leaves to the administrator, and reports other changes in it.
func (c *guard) story(o option, ban string, unless []string, add func(policy.Rule)) {
	path, ok := c.locate(o.value, c.dir)
	if !ok {
		c.rep.add(&Note{Kind: Lost, place: o.place, What: o.what, Why: "the file is not there"})
		return
	}
	functions, err := c.functions(path)
	if err != nil {
		c.rep.add(&Note{Kind: Lost, place: o.place, What: o.what, Why: err.Error()})
		return
	}
	changed := 0
	for _, name := range sortedKeys(functions) {
		for _, l := range functions[name] {
			n := &Note{Kind: Lost, place: l, What: fmt.Sprintf("function %s: %s", name, l.what), Why: "storyboards are not run"}
			switch {
			case name == "checkblanketblock" && strings.HasPrefix(l.what, "if(true"):
				n.Kind, n.Ours, n.Why = Carried, `rule "blanket block"`, ""
				add(policy.Rule{Name: "blanket block", Action: ban, Unless: unless})
			case name == "checkblanketblock" && strings.HasPrefix(l.what, "if(siteisip"):
				n.Kind, n.Ours, n.Why = Carried, `rule "addresses"`, ""
				add(policy.Rule{Name: "addresses", Action: ban, Category: c.addresses(), Unless: unless})
			case name == "checkrequest" && strings.HasPrefix(l.what, "if(true") && strings.HasSuffix(l.what, "setexception"):
				n.Kind, n.Ours, n.Why = Changed, "nothing", "everything would be allowed: write a rule without conditions and with action: allow if you want that"
			}
			changed++
			c.rep.add(n)
		}
	}
	if changed == 0 {
		c.rep.add(&Note{Kind: Carried, place: o.place, What: o.what, Ours: "the order of rules"})
	}
}

// functions returns the lines of each function in a group's storyboard. The shipped storyboard
// has only empty functions; the files that it includes are compared with the shipped ones.
func (c *guard) functions(path string) (map[string][]place, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, name, lines := map[string][]place{}, "", 0
	return all, eachLine(path, f, func(n int, s []byte) error {
		at := place{file: path, line: n, what: string(s)}
		if inc, ok := includes(s); ok {
			c.compareStory(inc, at)
			return nil
		}
		switch {
		case s[0] == '#':
		case bytes.HasPrefix(s, []byte("function(")):
			name = strings.TrimRight(string(s[len("function("):]), ")")
		case name != "" && string(s) != "end()" && lines < 1000:
			lines++
			all[name] = append(all[name], at)
		}
		return nil
	})
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (c *guard) compareStory(name string, at place) {
	path, ok := c.locate(name, c.dir)
	base := filepath.Base(path)
	want, known := shipped[base]
	if !known {
		c.rep.add(&Note{Kind: Lost, place: at, What: at.what, Why: "storyboards are not run, and this one is not one that is shipped"})
		return
	}
	if !ok {
		return
	}
	data, err := readWhole(path)
	if err != nil || digest(data) != want {
		c.rep.add(&Note{Kind: Changed, place: place{file: path}, What: base, Ours: "the order of rules",
			Why: "it is not the one of e2guardian 5.3.5: if it was edited, look at the order of the rules; one of another version says the same"})
	}
}
