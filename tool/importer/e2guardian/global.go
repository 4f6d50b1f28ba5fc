package e2guardian

import (
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/check/icap"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/report"
)

// defaults has the settings shipped with e2guardian and DansGuardian; they need no note.
var defaults = map[string][]string{
	"languagedir": {"/usr/share/e2guardian/languages"}, "language": {"ukenglish"}, "loglevel": {"3", "2"}, "logexceptionhits": {"2"}, "logclienthostnames": {"off"},
	"anonymizelogs": {"off"}, "logsyslog": {"off"}, "showweightedfound": {"on", "off"}, "weightedphrasemode": {"2"}, "usecustombannedimage": {"on"},
	"usecustombannedflash": {"on"}, "nonstandarddelimiter": {"on", "off"}, "reverseaddresslookups": {"off"}, "reverseclientiplookups": {"off"}, "createlistcachefiles": {"on", "off"},
	"prefercachedlists": {"off"}, "forcequicksearch": {"off"}, "mapportstoips": {"off"}, "mapauthtoports": {"off"}, "usexforwardedfor": {"off"}, "forwardedfor": {"off"}, "addforwardedfor": {"off"},
	"logconnectionhandlingerrors": {"on"}, "logchildprocesshandling": {"off"}, "nodaemon": {"off"}, "nologger": {"off"}, "softrestart": {"off"}, "deletedownloadedtempfiles": {"on"},
	"initialtrickledelay": {"20"}, "trickledelay": {"10"}, "scancleancache": {"on"}, "contentscanexceptions": {"off"}, "urlcachenumber": {"0", "1000"}, "urlcacheage": {"0", "900"},
	"reportinglevel": {"3"}, "weightedphrasereport": {"off"}, "disablecontentscan": {"off"}, "disablecontentscanerror": {"off"}, "infectionbypass": {"0"}, "infectionbypasserrorsonly": {"on"},
	"deepurlanalysis": {"off"}, "usesmtp": {"off"}, "notifyav": {"off"}, "notifycontent": {"off"}, "thresholdbyuser": {"off"}, "violations": {"0"}, "threshold": {"0"}, "enablepics": {"off"},
	"blockdownloads": {"off"}, "enablelookups": {"off"}, "bypass": {"0"}, "bypasskey": {""}, "bypassversion": {"1"}, "maxips": {"0"}, "enablessl": {"off"}, "sslmitm": {"off"}, "sslcertcheck": {"off"},
	"sslcheckcert": {"off"}, "mitmcheckcert": {"on"}, "onlymitmsslgrey": {"off"}, "ssllegacylogic": {"off"}, "usestorybook": {"on"}, "icapport": {"0"}, "transparenthttpsport": {"0"}, "maxuploadsize": {"-1"},
	"proxyexchange": {"20", "61"}, "pcontimeout": {"55"}, "proxytimeout": {"55", "20", "5"}, "connecttimeout": {"3", "5"}, "connectretries": {"5"}, "httpworkers": {"500"}, "maxheaderlines": {"500", "1000"}, "categorydisplaythreshold": {"0"},
	"statlocation": {""}, "dstatinterval": {"300"}, "daemonuser": {"e2guardian", "nobody"}, "daemongroup": {"e2guardian", "nobody"}, "embeddedurlweight": {"0"}, "textmimetypes": {""},
	"recheckreplacedurls": {"off"}, "logadblocks": {"off"}, "loguseragent": {"off"}, "searchsitelistforip": {"on"}, "contentscannertimeout": {"60"},
	"avsubject": {"e2guardian virus block"}, "contentsubject": {"e2guardian violation"}, "custombannedimagefile": {"/usr/share/e2guardian/transparent1x1.gif"},
	"custombannedflashfile": {"/usr/share/e2guardian/blockedflash.swf"}, "groupname": {"no_name_group"}, "groupmode": {"1"}, "accessdeniedaddress": {"http://YOURSERVER.YOURDOMAIN/cgi-bin/e2guardian.pl", "http://YOURSERVER.YOURDOMAIN/cgi-bin/dansguardian.pl"},
}

// times names the options that are times in seconds.
var times = map[string]struct {
	ours string
	to   func(c *folder) *setting.Duration
}{
	"proxytimeout":   {"proxy.dial", func(c *folder) *setting.Duration { return &c.w.Set.Proxy.Upstream.Dial }}, // timeout for connecting to the parent
	"connecttimeout": {"proxy.dial", func(c *folder) *setting.Duration { return &c.w.Set.Proxy.Upstream.Dial }},
	"pcontimeout":    {"proxy.idle", func(c *folder) *setting.Duration { return &c.w.Set.Proxy.Idle }},
	"proxyexchange":  {"proxy.answer", func(c *folder) *setting.Duration { return &c.w.Set.Proxy.Upstream.Answer }},
}

// means names the options whose values make no difference to us.
var means = map[string]*report.Note{
	"disablecontentscan":    report.Same("no rule for the scanner in this policy"),
	"contentscanexceptions": report.Same("the rule for the scanner is the first one"),
	"checkip":               report.Same("no setting is needed: requests that lead back to the gateway are refused"),
	"filtergroups":          report.Same("a policy each"),
	"defaultfiltergroup":    report.Same("the last policy"),
	"filterip":              report.Same("listen.proxy"),
	"sslmitm":               report.Same("decrypt: true"),
	"downloadmanager":       report.Differs("proxy.held, proxy.inspected", "large bodies pass while they are inspected; nothing is written to files"),
	"filecachedir":          report.Differs("proxy.held, proxy.inspected", "large bodies pass while they are inspected; nothing is written to files"),
	"maxheaderlines":        report.Differs("proxy.head", "in bytes, 64 KiB"),
	"loglocation":           report.Differs("events", "in the data folder"),
	"dstatlocation":         report.Differs("events", "in the data folder"),
	"statlocation":          report.Differs("events", "in the data folder"),
	"rqloglocation":         report.Differs("events", "in the data folder"),
	"htmltemplate":          report.Differs("pages", "pages are the gateway's own, in the reader's language; see pages.templates"),
	"languagedir":           report.Differs("pages", "pages are the gateway's own, in the reader's language; see pages.templates"),
	"language":              report.Differs("pages", "pages are the gateway's own, in the reader's language; see pages.templates"),
	"accessdeniedaddress":   report.ByHand("pages", "block pages are the gateway's own; a rule with action: redirect sends people elsewhere"),
}

// convert converts an option of the main file or of a group that is not about
// lists, and returns the note on it.
// Long because each option has a case.
func (c *folder) convert(o option, opts map[string]option) *report.Note {
	n, err := strconv.Atoi(o.value)
	isNumber := err == nil
	if d, known := defaults[o.name]; known && slices.Contains(d, o.value) || o.value == "" {
		return &report.Note{Kind: report.Default}
	}
	if t, ok := times[o.name]; ok && isNumber && n > 0 && n < 86400 {
		to := t.to(c)
		*to = max(*to, setting.Duration(time.Duration(n)*time.Second))
		return report.Same(t.ours)
	}
	if n, ok := means[o.name]; ok {
		own := *n
		return &own
	}
	switch o.name {
	case "logsyslog":
		return build.SendTo(c.w, build.LocalLog)
	case "preauthstoryboard":
		return preauth(c, o)
	case "enablessl":
		if c.cut {
			return &report.Note{Kind: report.Default}
		}
		cert, key := c.found(opts["cacertificatepath"].value), c.found(opts["caprivatekeypath"].value)
		c.cut = true
		note := c.w.Intercept(o.Place, cert, key)
		c.w.Decrypt = false // only for groups that ask for it
		return note
	case "cacertificatepath", "caprivatekeypath":
		if opts["enablessl"].value == "on" {
			return report.Same("intercept.root")
		}
		return &report.Note{Kind: report.Default, Why: "TLS is not decrypted"}
	case "certprivatekeypath", "generatedcertpath", "generatedlinkpath", "sslcertificatepath", "setcipherlist", "gencertstart", "gencertend":
		return report.Differs("intercept", "certificates are made in memory, with their own keys and dates")
	case "mitmcheckcert", "sslcertcheck", "sslcheckcert":
		return report.Differs("checks of certificates", "a fault of a certificate is refused; rules with its category may say otherwise")
	case "icapport":
		if isNumber && n > 0 && n < 65536 {
			c.w.Set.Listen.ICAP = build.ListenOn("", n)
			return report.Same("listen.icap")
		}
	case "transparenthttpsport":
		if isNumber && n > 0 && n < 65536 {
			c.w.Set.Listen.Transparent = build.ListenOn("", n)
			return report.Differs("listen.transparent", "one address for HTTP and HTTPS; docs/transparent.md has the firewall's rules")
		}
	case "contentscanner":
		return c.scanner(o)
	case "maxcontentfiltersize", "maxcontentramcachescansize":
		if isNumber && n > 0 && n <= 1<<20 {
			c.w.Set.Proxy.Exchange.Held = max(c.w.Set.Proxy.Exchange.Held, setting.Size(n)<<10)
			return report.Same("proxy.held")
		}
	case "maxcontentfilecachescansize":
		if isNumber && n > 0 && n <= 1<<20 {
			c.w.Set.Proxy.Exchange.Inspected = setting.Size(n) << 10
			return report.Same("proxy.inspected")
		}
	case "contentscannertimeout":
		d := setting.Duration(time.Duration(n) * time.Second)
		switch virus, icap := c.w.Set.Checks.Virus, c.w.Set.Checks.ICAP; {
		case !isNumber || n <= 0 || n > 600:
		case virus != nil:
			virus.Timeout = d
			return report.Same("checks.virus.timeout")
		case icap != nil:
			icap.Timeout = d
			return report.Same("checks.icap.timeout")
		}
	case "anonymizelogs":
		if o.value == "on" {
			c.w.Set.Events.SQLite, c.w.Set.Events.Anonymise = "events.db", setting.Duration(24*time.Hour)
			return report.Differs("events.anonymise", "rows lose their clients after a day")
		}
	case "maxuploadsize":
		return c.uploads(o, n, isNumber)
	case "httpworkers", "maxchildren":
		if isNumber && n > 0 && n < 1<<20 {
			c.w.Set.Proxy.Connections = setting.Count(n)
			return report.Differs("proxy.connections", "connections wait for a turn under overload")
		}
	}
	return &report.Note{Kind: report.Lost, Why: whyNot(o.name)}
}

// found returns the path where a file is now, or "" if it is missing.
func (c *folder) found(path string) string {
	if path == "" {
		return ""
	}
	if to, ok := c.locate(path, c.dir); ok {
		return to
	}
	return path
}

// scanner converts a virus scanner.
func (c *folder) scanner(o option) *report.Note {
	path, ok := c.locate(o.value, c.dir)
	if !ok {
		return report.ByHand("checks.virus", "its file is not there: write checks: virus: clamd with the scanner's address")
	}
	all, err := c.conf(path, 1)
	if err != nil {
		return report.ByHand("checks.virus", err.Error())
	}
	whole := report.ByHand("checks.virus", "clamd is asked, and servers by ICAP: write checks: virus: clamd, or checks: icap: servers")
	for _, s := range all {
		n := &report.Note{Kind: report.Lost, Why: "the scanner is asked as checks.virus says; nothing has to be done"}
		switch u, err := url.Parse(s.value); {
		case s.name == "plugname":
			n = report.Same("checks.virus")
		case s.name == "clamdudsfile":
			c.w.Clamd(s.value)
			n = report.Same("checks.virus.clamd")
			whole = n
		case s.name == "icapurl" && err == nil && u.Scheme == "icap":
			build.AskByICAP(c.w, icap.Config{Servers: setting.OneOrMore[string]{s.value}}, true)
			n = report.Same("checks.icap.servers")
			whole = n
		case strings.HasPrefix(s.name, "exception"):
			n.Why = "a rule that allows bodies exempts them"
		}
		n.Place, n.What = s.Place, s.Text
		c.w.Report.Add(n)
	}
	return whole
}

// uploads limits the bodies of clients, in KiB.
func (c *folder) uploads(o option, n int, isNumber bool) *report.Note {
	switch {
	case !isNumber || n < 0 || n > 1<<30:
		return &report.Note{Kind: report.Default}
	case n == 0:
		c.upload = append(c.upload, policy.Rule{Name: "no uploads", Action: "block", Method: []string{"POST", "PUT"}})
	default:
		c.upload = append(c.upload, policy.Rule{Name: "large uploads", Action: "block", Larger: setting.Size(n) << 10})
	}
	return report.Same("a rule with larger")
}

// global converts the main file's settings of the proxy.
func (c *folder) global(opts map[string]option) {
	carried := func(name, ours string) {
		c.w.Report.Add(&report.Note{Kind: report.Carried, Place: opts[name].Place, What: opts[name].Text, Ours: ours})
	}
	done := map[string]bool{}
	for _, name := range carriedOptions {
		done[name] = true
	}
	listen(c, opts["filterip"].every(), opts["filterports"].every())
	done["filterports"], done["filterip"] = true, true
	if ip, port := opts["proxyip"].value, number(opts, "proxyport", 0); ip != "" && port > 0 && port < 65536 {
		if _, err := netip.ParseAddr(ip); err == nil {
			c.w.Set.Proxy.Upstream.Parent = "http://" + netipJoin(ip, port)
			carried("proxyip", "proxy.parent")
			carried("proxyport", "proxy.parent")
			done["proxyip"], done["proxyport"] = true, true
		}
	}
	if opts["proxyip"].value == "" && opts["proxyport"].value != "" {
		c.w.Report.Add(&report.Note{Kind: report.Default, Place: opts["proxyport"].Place, What: opts["proxyport"].Text, Why: "there is no parent"})
		done["proxyport"] = true
	}
	if opts["usexforwardedfor"].value == "on" {
		if a, err := netip.ParseAddr(opts["xforwardedforfilterip"].value); err == nil {
			c.w.Set.Proxy.Trusted = []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
			carried("xforwardedforfilterip", "proxy.trusted")
			carried("usexforwardedfor", "proxy.trusted")
			done["usexforwardedfor"], done["xforwardedforfilterip"] = true, true
		}
	}
	switch number(opts, "logfileformat", 0) {
	case 1, 2, 4, 5, 6, 7, 8:
		c.w.Set.Events.SQLite, c.w.Set.Events.DansGuardian = "events.db", "access.log"
		carried("logfileformat", "events.dansguardian")
		done["logfileformat"] = true
	case 3:
		c.w.Set.Events.SQLite, c.w.Set.Events.Squid = "events.db", "access.log"
		carried("logfileformat", "events.squid")
		done["logfileformat"] = true
	}
	for _, name := range slices.Sorted(maps.Keys(opts)) {
		if done[name] {
			continue
		}
		for _, o := range opts[name].every() {
			n := c.convert(o, opts)
			n.Place, n.What = o.Place, o.Text
			c.w.Report.Add(n)
		}
	}
}

// listen converts the addresses and ports of the proxy: each port at each address.
func listen(c *folder, addresses, ports []option) {
	var ips []string
	for _, o := range addresses {
		a, err := netip.ParseAddr(o.value)
		n := report.Same("listen.proxy")
		switch {
		case o.value == "":
			n = &report.Note{Kind: report.Default}
		case err != nil:
			n = &report.Note{Kind: report.Line, Why: "not an address; left out", Mend: "one address a line"}
		case a.IsUnspecified():
		default:
			ips = append(ips, o.value)
		}
		n.Place, n.What = o.Place, o.Text
		c.w.Report.Add(n)
	}
	if len(ips) == 0 {
		ips = []string{""}
	}
	for _, o := range ports {
		n := report.Same("listen.proxy")
		if port, err := strconv.Atoi(o.value); err != nil || port < 1 || port > 65535 {
			n = &report.Note{Kind: report.Line, Why: "not a port; left out", Mend: "a port from 1 to 65535"}
		} else {
			for _, ip := range ips {
				for _, a := range build.ListenOn(ip, port) {
					if !slices.Contains(c.w.Set.Listen.Proxy, a) {
						c.w.Set.Listen.Proxy = append(c.w.Set.Listen.Proxy, a)
					}
				}
			}
		}
		n.Place, n.What = o.Place, o.Text
		c.w.Report.Add(n)
	}
}

func netipJoin(ip string, port int) string {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), uint16(port)).String()
}
