package e2guardian

import (
	"cmp"
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
	"shuultuur/proxy/exchange"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/report"
)

// A row is about an option of e2guardian or DansGuardian; its standard values are shipped with one of them.
type row = report.Row[*folder, option]

// aNumber converts a number from 1 to most.
func aNumber(most int, take func(c *folder, n int) *report.Note) func(*folder, option) *report.Note {
	return func(c *folder, o option) *report.Note {
		if n, err := strconv.Atoi(o.value); err == nil && n > 0 && n <= most {
			return take(c, n)
		}
		return nil
	}
}

// aTime converts seconds. Of several options about the same time the longest counts.
func aTime(ours string, to func(c *folder) *setting.Duration) func(*folder, option) *report.Note {
	return aNumber(24*60*60-1, func(c *folder, n int) *report.Note {
		d := to(c)
		*d = max(*d, setting.Duration(time.Duration(n)*time.Second))
		return report.Same(ours)
	})
}

func dial(c *folder) *setting.Duration { return &c.w.Set.Proxy.Upstream.Dial }

// connections converts a number of workers.
func connections(c *folder, n int) *report.Note {
	c.w.Set.Proxy.Connections = setting.Count(n)
	return report.Differs("proxy.connections", "connections wait for a turn under overload")
}

// Options with different standard values share these notes.
var (
	ownPages = report.Differs("pages", "pages are the gateway's own, in the reader's language; see pages.templates")
	verified = report.Differs("checks of certificates", "a fault of a certificate is refused; rules with its category may say otherwise")
)

// table has the options of the main file and of groups that are not about lists, and that no other
// part of the import converts.
var table = report.Rows(
	row{Keys: "logclienthostnames reverseaddresslookups reverseclientiplookups prefercachedlists forcequicksearch mapportstoips mapauthtoports usexforwardedfor forwardedfor addforwardedfor logchildprocesshandling nodaemon nologger softrestart weightedphrasereport disablecontentscanerror deepurlanalysis usesmtp notifyav notifycontent thresholdbyuser enablepics blockdownloads enablelookups onlymitmsslgrey ssllegacylogic recheckreplacedurls logadblocks loguseragent",
		Standard: []string{"off"}},
	row{Keys: "usecustombannedimage usecustombannedflash logconnectionhandlingerrors deletedownloadedtempfiles scancleancache infectionbypasserrorsonly usestorybook searchsitelistforip", Standard: []string{"on"}},
	row{Keys: "showweightedfound nonstandarddelimiter createlistcachefiles", Standard: []string{"on", "off"}},
	row{Keys: "infectionbypass violations threshold bypass maxips categorydisplaythreshold embeddedurlweight", Standard: []string{"0"}},
	row{Keys: "daemonuser daemongroup", Standard: []string{"e2guardian", "nobody"}},
	row{Keys: "loglevel", Standard: []string{"3", "2"}},
	row{Keys: "logexceptionhits", Standard: []string{"2"}},
	row{Keys: "initialtrickledelay", Standard: []string{"20"}},
	row{Keys: "trickledelay", Standard: []string{"10"}},
	row{Keys: "urlcachenumber", Standard: []string{"0", "1000"}},
	row{Keys: "urlcacheage", Standard: []string{"0", "900"}},
	row{Keys: "reportinglevel", Standard: []string{"3"}},
	row{Keys: "bypassversion", Standard: []string{"1"}},
	row{Keys: "connectretries", Standard: []string{"5"}},
	row{Keys: "dstatinterval", Standard: []string{"300"}},
	row{Keys: "avsubject", Standard: []string{"e2guardian virus block"}},
	row{Keys: "contentsubject", Standard: []string{"e2guardian violation"}},
	row{Keys: "custombannedimagefile", Standard: []string{"/usr/share/e2guardian/transparent1x1.gif"}},
	row{Keys: "custombannedflashfile", Standard: []string{"/usr/share/e2guardian/blockedflash.swf"}},
	row{Keys: "proxytimeout", Standard: []string{"55", "20", "5"}, Take: aTime("proxy.dial", dial)}, // for connecting to the parent
	row{Keys: "connecttimeout", Standard: []string{"3", "5"}, Take: aTime("proxy.dial", dial)},
	row{Keys: "pcontimeout", Standard: []string{"55"}, Take: aTime("proxy.idle", func(c *folder) *setting.Duration { return &c.w.Set.Proxy.Idle })},
	row{Keys: "proxyexchange", Standard: []string{"20", "61"}, Take: aTime("proxy.answer", func(c *folder) *setting.Duration { return &c.w.Set.Proxy.Upstream.Answer })},
	row{Keys: "disablecontentscan", Standard: []string{"off"}, Note: report.Same("no rule for the scanner in this policy")},
	row{Keys: "contentscanexceptions", Standard: []string{"off"}, Note: report.Same("the rule for the scanner is the first one")},
	row{Keys: "checkip", Note: report.Same("no setting is needed: requests that lead back to the gateway are refused")},
	row{Keys: "filtergroups", Note: report.Same("a policy each")},
	row{Keys: "defaultfiltergroup", Note: report.Same("the last policy")},
	row{Keys: "filterip", Note: report.Same("listen.proxy")},
	row{Keys: "sslmitm", Standard: []string{"off"}, Note: report.Same("decrypt: true")},
	row{Keys: "downloadmanager filecachedir", Note: report.Differs("proxy.held, proxy.inspected", "large bodies pass while they are inspected; nothing is written to files")},
	row{Keys: "maxheaderlines", Standard: []string{"500", "1000"}, Note: report.Differs("proxy.head", "in bytes, 64 KiB")},
	row{Keys: "loglocation dstatlocation statlocation rqloglocation", Note: report.Differs("events", "in the data folder")},
	row{Keys: "htmltemplate", Note: ownPages},
	row{Keys: "languagedir", Standard: []string{"/usr/share/e2guardian/languages"}, Note: ownPages},
	row{Keys: "language", Standard: []string{"ukenglish"}, Note: ownPages},
	row{Keys: "accessdeniedaddress", Standard: []string{"http://YOURSERVER.YOURDOMAIN/cgi-bin/e2guardian.pl", "http://YOURSERVER.YOURDOMAIN/cgi-bin/dansguardian.pl"},
		Note: report.ByHand("pages", "block pages are the gateway's own; a rule with action: redirect sends people elsewhere")},
	row{Keys: "logsyslog", Standard: []string{"off"}, Take: func(c *folder, _ option) *report.Note { return build.SendTo(c.w, build.LocalLog) }},
	row{Keys: "preauthstoryboard", Take: preauth},
	row{Keys: "enablessl", Standard: []string{"off"}, Take: (*folder).intercept},
	row{Keys: "cacertificatepath caprivatekeypath", Take: func(c *folder, _ option) *report.Note {
		if c.opts["enablessl"].value == "on" {
			return report.Same("intercept.root")
		}
		return report.Needless("TLS is not decrypted")
	}},
	row{Keys: "certprivatekeypath generatedcertpath generatedlinkpath sslcertificatepath setcipherlist gencertstart gencertend", Note: report.Differs("intercept", "certificates are made in memory, with their own keys and dates")},
	row{Keys: "mitmcheckcert", Standard: []string{"on"}, Note: verified},
	row{Keys: "sslcertcheck sslcheckcert", Standard: []string{"off"}, Note: verified},
	row{Keys: "icapport", Standard: []string{"0"}, Take: aNumber(65535, func(c *folder, n int) *report.Note {
		c.w.Set.Listen.ICAP = build.ListenOn("", n)
		return report.Same("listen.icap")
	})},
	row{Keys: "transparenthttpsport", Standard: []string{"0"}, Take: aNumber(65535, func(c *folder, n int) *report.Note {
		c.w.Set.Listen.Transparent = build.ListenOn("", n)
		return report.Differs("listen.transparent", "one address for HTTP and HTTPS; docs/transparent.md has the firewall's rules")
	})},
	row{Keys: "contentscanner", Take: (*folder).scanner},
	row{Keys: "maxcontentfiltersize maxcontentramcachescansize", Take: aNumber(1<<20, func(c *folder, n int) *report.Note {
		e := &c.w.Set.Proxy.Exchange
		e.Held = max(e.Held, setting.Size(n)<<10)
		if e.Held > exchange.DefaultHeldTotal {
			e.HeldTotal = e.Held
			return report.Differs("proxy.held, held-total", "the bodies of all requests together have this room: large ones wait for each other")
		}
		return report.Same("proxy.held")
	})},
	row{Keys: "maxcontentfilecachescansize", Take: aNumber(1<<20, func(c *folder, n int) *report.Note {
		c.w.Set.Proxy.Exchange.Inspected = setting.Size(n) << 10
		return report.Same("proxy.inspected")
	})},
	row{Keys: "contentscannertimeout", Standard: []string{"60"}, Take: aNumber(600, func(c *folder, n int) *report.Note {
		d := setting.Duration(time.Duration(n) * time.Second)
		switch virus, icap := c.w.Set.Checks.Virus, c.w.Set.Checks.ICAP; {
		case virus != nil:
			virus.Timeout = d
			return report.Same("checks.virus.timeout")
		case icap != nil:
			icap.Timeout = d
			return report.Same("checks.icap.timeout")
		}
		return nil
	})},
	row{Keys: "anonymizelogs", Standard: []string{"off"}, Take: func(c *folder, o option) *report.Note {
		if o.value != "on" {
			return nil
		}
		c.w.Set.Events.SQLite, c.w.Set.Events.Anonymise = "events.db", setting.Duration(24*time.Hour)
		return report.Differs("events.anonymise", "rows lose their clients after a day")
	}},
	row{Keys: "maxuploadsize", Standard: []string{"-1"}, Take: (*folder).uploads},
	row{Keys: "httpworkers", Standard: []string{"500"}, Take: aNumber(1<<20-1, connections)},
	row{Keys: "maxchildren", Take: aNumber(1<<20-1, connections)},
)

// convert converts an option of a file with the options opts, and returns the note on it.
func (c *folder) convert(o option, opts map[string]option) *report.Note {
	c.opts = opts
	if o.value == "" {
		return &report.Note{Kind: report.Default}
	}
	return cmp.Or(table[o.name].Convert(c, o, o.value), report.None(whyNot(o.name)))
}

// intercept makes the root that groups need to decrypt TLS, once.
func (c *folder) intercept(o option) *report.Note {
	if c.cut {
		return &report.Note{Kind: report.Default}
	}
	c.cut = true
	note := c.w.Intercept(o.Place, c.found(c.opts["cacertificatepath"].value), c.found(c.opts["caprivatekeypath"].value))
	c.w.Decrypt = false // only for groups that ask for it
	return note
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
		c.w.Clamd(build.UsualClamd)
		return report.ByHand("checks.virus", "its file is not there: write checks: virus: clamd with the scanner's address; until it answers there, what it would scan is refused").Closing()
	}
	all, err := c.conf(path, 1)
	if err != nil {
		c.w.Clamd(build.UsualClamd)
		return report.ByHand("checks.virus", err.Error()+"; until clamd answers, what it would scan is refused").Closing()
	}
	whole := report.ByHand("checks.virus", "clamd is asked, and servers by ICAP: write checks: virus: clamd, or checks: icap: servers")
	defer func() {
		if whole.Kind == report.Lost {
			c.w.Clamd(build.UsualClamd)
			whole.Why += "; until clamd answers, what it would scan is refused"
			whole.Closing()
		}
	}()
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
func (c *folder) uploads(o option) *report.Note {
	switch n, err := strconv.Atoi(o.value); {
	case err != nil || n < 0 || n > 1<<30:
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
