package e2guardian

import (
	"maps"
	"slices"
	"strings"

	"shuultuur/tool/importer/report"
)

// why has the reasons why options of e2guardian have no equivalent, by the words that their
// names begin or end with. The first match counts. A word in the middle of a name may be none
// of its words, as ssl in accesslog.
var why = []struct{ Strings, why string }{
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
		for _, word := range strings.Fields(w.Strings) {
			if strings.HasPrefix(name, word) || strings.HasSuffix(name, word) {
				return w.why
			}
		}
	}
	return report.NotKnown
}

// carriedOptions names options that other parts of the import convert.
var carriedOptions = []string{
	"groupname", "groupmode", "naughtynesslimit", "weightedphraselist", "bannedphraselist", "exceptionphraselist", "weightedphrasemode",
	"phrasefiltermode", "preservecase", "hexdecodecontent", "filtergroupslist", "storyboard", "authplugin",
}

// reportUnused reports the unconverted lists and options of a group.
func (c *folder) reportUnused(lists []ref, opts map[string]option, grey bool) {
	for _, r := range lists {
		switch {
		case r.typ == "ip" || r.typ == "ipmap" || r.typ == "map":
		case (r.typ == "replace" && r.name != "searchterms" || strings.HasSuffix(r.name, "header")) && len(c.items(r)) > 0:
			c.w.Report.Add(&report.Note{Kind: report.Carried, Place: r.Place, What: r.Text, Ours: "as for its lines"})
		case slices.Contains([]string{"banned", "exception", "grey", "semiexception", "localbanned", "localexception", "localgrey", "localsemiexception", "exceptionfile",
			"nomitm", "authexception", "bannedtimes", "blankettimes", "refererexception", "bannedheader", "exceptionheader", "banneduseragent", "exceptionuseragent", "bannedextension", "bannedmime"}, r.name) && r.typ != "category" && !(r.typ == "search" && r.name == "exception"):
		case r.name == "bannedbypass" && number(opts, "bypass", 0) > 0:
		case r.typ == "replace" && r.name != "searchterms":
			c.w.Report.Add(&report.Note{Kind: report.Empty, Place: r.Place, What: r.Text, Why: "nothing is in it"})
		case r.name == "searchterms":
			c.w.Report.Add(&report.Note{Kind: report.Carried, Place: r.Place, What: r.Text, Ours: "search:", Why: "search engines are built in"})
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
			n := &report.Note{Kind: report.Lost, Place: r.Place, What: r.Text, Why: reason}
			if r.typ != "category" && len(c.items(r)) == 0 {
				n.Kind = report.Empty
			}
			c.w.Report.Add(n)
		}
	}
	if grey {
		c.w.Report.Add(&report.Note{Kind: report.Changed, Place: report.Place{File: c.dir}, What: "grey lists and tunnels", Ours: "unless of the bans",
			Why: "e2guardian bans a tunnel to a site that is both banned and grey if it does not decrypt it; here it passes"})
	}
	for _, name := range slices.Sorted(maps.Keys(opts)) {
		if slices.Contains(carriedOptions, name) || name == "bypass" && number(opts, name, 0) > 0 {
			continue
		}
		for _, o := range opts[name].every() {
			n := c.convert(o, opts)
			if name == "reportinglevel" && o.value == "-1" {
				n.Why = "pages are blocked where e2guardian would only record them; set action: allow in the rules meanwhile"
			}
			n.Place, n.What = o.Place, o.Text
			c.w.Report.Add(n)
		}
	}
}
