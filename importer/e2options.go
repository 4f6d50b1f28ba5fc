package importer

import (
	"net/url"
	"shuultuur/check/icap"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/policy"
	"shuultuur/setting"
)

// e2Defaults has the settings shipped with e2guardian and DansGuardian; they need no note.
var e2Defaults = map[string][]string{
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

// e2Time names the options that are times in seconds.
var e2Time = map[string]struct {
	ours string
	to   func(c *guard) *setting.Duration
}{
	"proxytimeout":   {"proxy.dial", func(c *guard) *setting.Duration { return &c.set.Proxy.Upstream.Dial }}, // timeout for connecting to the parent
	"connecttimeout": {"proxy.dial", func(c *guard) *setting.Duration { return &c.set.Proxy.Upstream.Dial }},
	"pcontimeout":    {"proxy.idle", func(c *guard) *setting.Duration { return &c.set.Proxy.Idle }},
	"proxyexchange":  {"proxy.answer", func(c *guard) *setting.Duration { return &c.set.Proxy.Upstream.Answer }},
}

// e2Means names the options whose values make no difference to us.
var e2Means = map[string]*Note{
	"disablecontentscan":    carried("no rule for the scanner in this policy"),
	"contentscanexceptions": carried("the rule for the scanner is the first one"),
	"checkip":               carried("no setting is needed: requests that lead back to the gateway are refused"),
	"filtergroups":          carried("a policy each"),
	"defaultfiltergroup":    carried("the last policy"),
	"filterip":              carried("listen.proxy"),
	"sslmitm":               carried("decrypt: true"),
	"downloadmanager":       differs("proxy.held, proxy.inspected", "large bodies pass while they are inspected; nothing is written to files"),
	"filecachedir":          differs("proxy.held, proxy.inspected", "large bodies pass while they are inspected; nothing is written to files"),
	"maxheaderlines":        differs("proxy.head", "in bytes, 64 KiB"),
	"loglocation":           differs("events", "in the data folder"),
	"dstatlocation":         differs("events", "in the data folder"),
	"statlocation":          differs("events", "in the data folder"),
	"rqloglocation":         differs("events", "in the data folder"),
	"htmltemplate":          differs("pages", "pages are the gateway's own, in the reader's language; see pages.templates"),
	"languagedir":           differs("pages", "pages are the gateway's own, in the reader's language; see pages.templates"),
	"language":              differs("pages", "pages are the gateway's own, in the reader's language; see pages.templates"),
	"accessdeniedaddress":   lostOurs("pages", "block pages are the gateway's own; a rule with action: redirect sends people elsewhere"),
}

// convert converts an option of the main file or of a group that is not about
// lists, and returns the note on it.
// Long because each option has a case.
func (c *guard) convert(o option, opts map[string]option) *Note {
	n, err := strconv.Atoi(o.value)
	isNumber := err == nil
	if d, known := e2Defaults[o.name]; known && slices.Contains(d, o.value) || o.value == "" {
		return &Note{Kind: Default}
	}
	if t, ok := e2Time[o.name]; ok && isNumber && n > 0 && n < 86400 {
		to := t.to(c)
		*to = max(*to, setting.Duration(time.Duration(n)*time.Second))
		return carried(t.ours)
	}
	if n, ok := e2Means[o.name]; ok {
		own := *n
		return &own
	}
	switch o.name {
	case "logsyslog":
		return sendTo(c.work, localLog)
	case "preauthstoryboard":
		return preauth(c, o)
	case "enablessl":
		if c.cut {
			return &Note{Kind: Default}
		}
		cert, key := c.found(opts["cacertificatepath"].value), c.found(opts["caprivatekeypath"].value)
		c.cut = true
		note := c.intercept(o.place, cert, key)
		c.decrypt = false // only for groups that ask for it
		return note
	case "cacertificatepath", "caprivatekeypath":
		if opts["enablessl"].value == "on" {
			return carried("intercept.root")
		}
		return &Note{Kind: Default, Why: "TLS is not decrypted"}
	case "certprivatekeypath", "generatedcertpath", "generatedlinkpath", "sslcertificatepath", "setcipherlist", "gencertstart", "gencertend":
		return differs("intercept", "certificates are made in memory, with their own keys and dates")
	case "mitmcheckcert", "sslcertcheck", "sslcheckcert":
		return differs("checks of certificates", "a fault of a certificate is refused; rules with its category may say otherwise")
	case "icapport":
		if isNumber && n > 0 && n < 65536 {
			c.set.Listen.ICAP = listenOn("", n)
			return carried("listen.icap")
		}
	case "transparenthttpsport":
		if isNumber && n > 0 && n < 65536 {
			c.set.Listen.Transparent = listenOn("", n)
			return differs("listen.transparent", "one address for HTTP and HTTPS; docs/transparent.md has the firewall's rules")
		}
	case "contentscanner":
		return c.scanner(o)
	case "maxcontentfiltersize", "maxcontentramcachescansize":
		if isNumber && n > 0 && n <= 1<<20 {
			c.set.Proxy.Exchange.Held = max(c.set.Proxy.Exchange.Held, setting.Size(n)<<10)
			return carried("proxy.held")
		}
	case "maxcontentfilecachescansize":
		if isNumber && n > 0 && n <= 1<<20 {
			c.set.Proxy.Exchange.Inspected = setting.Size(n) << 10
			return carried("proxy.inspected")
		}
	case "contentscannertimeout":
		d := setting.Duration(time.Duration(n) * time.Second)
		switch virus, icap := c.set.Checks.Virus, c.set.Checks.ICAP; {
		case !isNumber || n <= 0 || n > 600:
		case virus != nil:
			virus.Timeout = d
			return carried("checks.virus.timeout")
		case icap != nil:
			icap.Timeout = d
			return carried("checks.icap.timeout")
		}
	case "anonymizelogs":
		if o.value == "on" {
			c.set.Events.SQLite, c.set.Events.Anonymise = "events.db", setting.Duration(24*time.Hour)
			return differs("events.anonymise", "rows lose their clients after a day")
		}
	case "maxuploadsize":
		return c.uploads(o, n, isNumber)
	case "httpworkers", "maxchildren":
		if isNumber && n > 0 && n < 1<<20 {
			c.set.Proxy.Connections = setting.Count(n)
			return differs("proxy.connections", "connections wait for a turn under overload")
		}
	}
	return &Note{Kind: Lost, Why: whyNot(o.name)}
}

// found returns the path where a file is now, or "" if it is missing.
func (c *guard) found(path string) string {
	if path == "" {
		return ""
	}
	if to, ok := c.locate(path, c.dir); ok {
		return to
	}
	return path
}

// preauth compares the storyboard that runs before users are known with the shipped one.
func preauth(c *guard, o option) *Note {
	path, ok := c.locate(o.value, c.dir)
	if !ok {
		return lost("the file is not there; storyboards are not run, and rules are in the order they are shipped with")
	}
	if data, err := readWhole(path); err == nil && digest(data) == shipped["preauth.story"] {
		return carried("the order of rules")
	}
	return lost("storyboards are not run, and this one is not the one of e2guardian 5.3.5: write what it allows as a rule with action: allow at the top of each policy")
}

// scanner converts a virus scanner.
func (c *guard) scanner(o option) *Note {
	path, ok := c.locate(o.value, c.dir)
	if !ok {
		return lostOurs("checks.virus", "its file is not there: write checks: virus: clamd with the scanner's address")
	}
	all, err := c.conf(path, 1)
	if err != nil {
		return lostOurs("checks.virus", err.Error())
	}
	whole := lostOurs("checks.virus", "clamd is asked, and servers by ICAP: write checks: virus: clamd, or checks: icap: servers")
	for _, s := range all {
		n := &Note{Kind: Lost, Why: "the scanner is asked as checks.virus says; nothing has to be done"}
		switch u, err := url.Parse(s.value); {
		case s.name == "plugname":
			n = carried("checks.virus")
		case s.name == "clamdudsfile":
			c.clamd(s.value)
			n = carried("checks.virus.clamd")
			whole = n
		case s.name == "icapurl" && err == nil && u.Scheme == "icap":
			askByICAP(c.work, icap.Config{Servers: setting.OneOrMore[string]{s.value}}, true)
			n = carried("checks.icap.servers")
			whole = n
		case strings.HasPrefix(s.name, "exception"):
			n.Why = "a rule that allows bodies exempts them"
		}
		n.place, n.What = s.place, s.what
		c.rep.add(n)
	}
	return whole
}

// uploads limits the bodies of clients, in KiB.
func (c *guard) uploads(o option, n int, isNumber bool) *Note {
	switch {
	case !isNumber || n < 0 || n > 1<<30:
		return &Note{Kind: Default}
	case n == 0:
		c.upload = append(c.upload, policy.Rule{Name: "no uploads", Action: "block", Method: []string{"POST", "PUT"}})
	default:
		c.upload = append(c.upload, policy.Rule{Name: "large uploads", Action: "block", Larger: setting.Size(n) << 10})
	}
	return carried("a rule with larger")
}
