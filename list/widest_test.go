package list

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/setting"
	"shuultuur/list/adblock"
	"shuultuur/list/width"
)

// strangers are pages that have nothing in common but what their key says: who covers most of a row
// covers nearly all that is like it.
var strangers = map[string][]string{
	"any name": {"tagesschau.de/inland", "nos.nl/teletekst", "debian.org/distrib/", "wetter.info/morgen", "arxiv.org/abs/1", "svt.se/nyheter", "elpais.es/opinion", "fsf.eu/join", "nhk.jp/p/1", "uba.ar/x", "golang.dev/ref", "kremlin.ru/e"},
	"com":      {"stackoverflow.com/q/1", "nytimes.com/section/a", "jeux-video.com/x", "k9.com/", "bing.com/search?q=1", "zoho.com/crm"},
	"net":      {"php.net/docs", "slashdot.net/x", "q4.net/", "heise-media.net/a", "jwz.net/blog"},
	"de":       {"spiegel.de/a", "bahn.de/", "x1.de/q", "taz.de/archiv", "zoo-koeln.de/"},
	"co.uk":    {"argos.co.uk/p", "itv.co.uk/", "z9.co.uk/x", "tesco-direct.co.uk/a", "rightmove.co.uk/q"},
	"www":      {"www.tagesschau.de/inland", "www.nos.nl/x", "www.debian.org/", "www.stackoverflow.com/q", "www.k9.io/", "www.uba.ar/a"},
	"address":  {"93.184.216.34/", "8.8.8.8/x", "172.217.16.14/", "151.101.1.69/", "31.13.64.35/a", "199.232.1.1/"},
	"address6": {"[2606:2800:220:1::1]/", "[2a00:1450:4001::e]/x", "[2001:67c:18::5]/", "[2400:cb00::1]/", "[2c0f:fb50::2]/"},
}

// coveredRow returns the row of which a list blocks, or excepts, nearly all: as pages, as what pages load, or
// as names.
func coveredRow(t *testing.T, f *File, format FormatName, exception bool) string {
	t.Helper()
	var r adblock.Request
	var q Query
	var found []Match
	ask := func() bool {
		dst, err := f.Lookup(&q, found[:0])
		if err == nil {
			dst, err = f.Rules().Judge(&r, dst)
		}
		if err == nil {
			dst, err = f.Search(&q, dst)
		}
		if err != nil {
			t.Fatal(err)
		}
		found = dst
		return slices.ContainsFunc(dst, func(m Match) bool { return m.Exception == exception })
	}
	asked := func(page string) bool {
		host, _, _ := strings.Cut(page, "/")
		for _, scheme := range []string{"http://", "https://"} {
			for typ, from := range map[adblock.Type]string{adblock.Document: "", adblock.Script: "other.example", adblock.Image: "other.example"} {
				h, target, _ := cutURL(scheme + page)
				q.SetURL(h, target)
				r.Set(scheme+page, typ, from)
				if ask() {
					return true
				}
			}
		}
		q.SetURL(host, nil)
		for _, qtype := range []uint16{1, 28, 65} {
			if r.SetName(host, qtype, adblock.Client{}); host[0] != '[' && ask() {
				return true
			}
		}
		return false
	}
	for what, pages := range strangers {
		n := 0
		for _, page := range pages {
			if asked(page) {
				n++
			}
		}
		// An expression, or a pattern with a colon, may mean hosts that are addresses.
		if n*10 >= len(pages)*8 && (!strings.HasPrefix(what, "address") || format != E2guardianRegexp && format != Adblock) {
			return what
		}
	}
	return ""
}

// wideLines returns lines that cover nearly all, or all of a public suffix, by format.
func wideLines() map[FormatName][]string {
	all := map[FormatName][]string{}
	add := func(format FormatName, lines ...string) { all[format] = append(all[format], lines...) }
	for _, name := range []string{"com", ".com", "*.com", "com.", "COM", "net", ".net.", "de", "*.de", "co.uk", ".co.uk", "*.co.uk", "*", "**", ".", "*.", "*.*", "..", "#", "*ip", "**s", "*.*.com", "www", "www.", "www.*", "http://com/", "https://*.com", "com/", "//com", "com:443"} {
		add(Domains, name)
		add("wildcard", name)
		add(Hosts, "0.0.0.0 "+name, "127.0.0.1\t"+name, ":: "+name)
		add("dnsmasq", "address=/"+name+"/", "address=/"+name+"/0.0.0.0", "local=/"+name+"/", "server=/"+name+"/")
		add("unbound", `local-zone: "`+name+`" always_nxdomain`, `local-zone: "`+name+`." refuse`, "local-zone: "+name+" static", `local-data: "`+name+` A 0.0.0.0"`)
		add(RPZ, name+" CNAME .", name+" CNAME *.", name+" IN A 0.0.0.0")
		add("csv", name, name+",ads", "domain,exact\n"+name+",no")
		add("json", fmt.Sprintf("[%q]", name), fmt.Sprintf(`[{"entry": %q, "exact": false}]`, name), fmt.Sprintf(`{"host": %q}`, name))
		add(E2guardian, name)
		add(Adblock, name, "||"+name, "||"+name+"^", "||"+name+"^$important", "||"+name+"^$all", "|https://"+name, "*"+name, name+"*", name+"^", "."+name+"^", "||*."+name+"^", "||*"+name+"^", "|https://*."+name+"/", "|http*://*."+name+"^", "*."+name+"/", "."+name+"|", "||"+name+"^$document", "||"+name+"^$third-party", "||"+name+"/", "||"+name+"*", "."+name, "0.0.0.0 "+name, "||"+name+"^$dnstype=A", "||"+name+"^$client=127.0.0.1", "||"+name+"^$script,image,document")
	}
	for _, net := range []string{"0.0.0.0/0", "1.2.3.4/0", "0.0.0.0/0.0.0.0", "0.0.0.0-255.255.255.255", "0.0.0.1-255.255.255.254", "0/0", "::/0", "2000::/3", "2000::-3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::ffff:0:0/96", "::ffff:0.0.0.0/96", "::/80", "::/64", "::1/8", "0.0.0.0/1", "128.0.0.0/1", "::-ffff::"} {
		add(Networks, net)
		add(E2guardian, net)
		add(Domains, net)
		add("json", fmt.Sprintf("[%q]", net))
		add("csv", net)
		add(Adblock, net, "||"+net+"^")
	}
	add(RPZ, "0.0.0.0.0.rpz-ip CNAME .", "1.0.0.0.128.rpz-ip CNAME .", "0.zz.rpz-ip CNAME .", "3.zz.2000.rpz-ip CNAME .", "0.0.0.0.0.rpz-client-ip CNAME .", "*.rpz-nsdname CNAME .")
	for _, re := range []string{".", ".*", ".+", "^", "$", "^.*$", "^.+$", ".?", "", "()", "(a|.)", "(.|a)", "[^x]", "[^ ]", "[a-z]", "[[:alnum:]]", "[a-z0-9.-]+", "\\.", "[.]", "\\w", "\\S", "\\b", "x*", "(x)?", "a|b|.", "(^|\\.)", "(^|\\.)[a-z0-9-]+\\.", "^[^/]+", "^[^.]+\\.", "[a-z]{2}", "^.{3,}", ".{4}", "^(.*)$", "(?i).", "(?:.)", "[aeiou]", "[0-9a-z]+\\.[a-z]+", "^([a-z0-9-]+\\.)+[a-z]{2,}", "^(www\\.)?", "/", "/?", "^[a-z]", "^https?", "https?://", "://",
		"\\.com", "\\.com$", "[.]com", "\\.(com)", "\\.com(/|$)", "\\.c[o]m", "\\.(com|net|org)", "com$", "^[^.]+\\.com", "^.*\\.com", "\\.de$", "\\.[d]e(/|$)", "\\.net$", "co\\.uk", "\\.co\\.uk$", "^www\\.", "www", "(^|\\.)www\\.", "\\.bet$", "\\.(tk|ml)(/|$)"} {
		add(Expressions, re)
		add(E2guardianRegexp, re)
		add(Pihole, re, re+";querytype=A", re+";querytype=!AAAA")
		add(Adblock, "/"+re+"/", "/"+re+"/$important", "/"+re+"/$document", "/"+re+"/$all")
	}
	add(Pihole, "ads\\.;invert", "^xyz$;invert", "^xyz$;querytype=A;invert")
	add(Adblock, "*$all", "$all", "*$important", "*$document", "*$dnstype=A", "*$client=127.0.0.1", "*$denyallow=a.example", "$third-party", "*$script", "*$image", "*$~document", "*$script,third-party", "$dnstype=~AAAA", "*$domain=~a.example", "*$from=~a.example", "*$~third-party", "*$dnsrewrite=NXDOMAIN", "*$ctag=~x", "*$1p,3p", "|", "||", "|*", "||*", "|||", "^^", "***", "*^*", "^*^", "|http", "|http:", "|https", "|https:", "|https://*", "http*", "*://*", ":/", "://^", "//", "/*", "*/*", "/^", "^/", "^//", "ttp", "https", "htt*", "|h", "|h*", "p:/", "s:/", "*:*", "?", "*.*", ".*", "*.*^", "||*.*^", "||*^", "||*/", "||^", "||/", "||.", "||.^", "/$all", "/*$all", "^$all", "a", "e", "o*", "||a*", "|*://*/*", "|https://*/*", "*/", "://*.", "://*/", "://www.", "|https://www.", "||www.", "||www.*^", "*$script,domain=com", "*$from=de|com", "*$csp=script-src 'none'", "|https://*$csp=default-src 'none'", "://*.com/", "|https://*.com^", ".com/", ".com^", ".com/$third-party", "com^", "m^")
	return all
}

// wide compiles lines from outside, with others behind them, and reports each that is taken and covers a
// row; all that are refused for their width must be named in a list of our own. It returns their number.
func wide(t *testing.T, format FormatName, lines []string, behind string, exception bool) int {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "list")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"+behind), 0o600); err != nil {
		t.Fatal(err)
	}
	found := map[bool]map[int]bool{true: {}, false: {}}
	for fetched, said := range found {
		dst := filepath.Join(dir, fmt.Sprint(fetched))
		r, err := Compile(t.Context(), "x", Config{Format: format, Path: setting.Source(file), Fetched: fetched}, dst)
		if err != nil {
			return 0
		}
		for _, p := range r.Problems {
			if strings.HasSuffix(p.Reason, width.TooWide) || strings.HasSuffix(p.Reason, width.Wide) {
				said[p.Line] = true
			}
		}
		if !fetched {
			continue
		}
		f, err := Open(dst)
		if err != nil {
			t.Fatal(err)
		}
		row := coveredRow(t, f, format, exception)
		f.Close()
		switch half := len(lines) / 2; {
		case row == "":
		case half == 0:
			t.Errorf("%s: %q covers the row %s: %v", format, lines[0], row, r.Problems)
		default:
			return wide(t, format, lines[:half], behind, exception) + wide(t, format, lines[half:], behind, exception)
		}
	}
	if !maps.Equal(found[true], found[false]) {
		t.Errorf("%s: of %q, the lines %v are refused, and %v of our own are named", format, lines, found[true], found[false])
	}
	return len(found[true])
}

// together returns how many lines of a format are tried at once: those of some say how others are read, and
// one of networks may have a hundred remarks.
func together(format FormatName) int {
	switch format {
	case Networks, "csv", "json":
		return 1
	}
	return 40
}

// TestNoLineOfAListFromOutsideCoversAll: what each line matches is counted, whatever it looks like.
func TestNoLineOfAListFromOutsideCoversAll(t *testing.T) {
	n, all := 0, 0
	for format, lines := range wideLines() {
		all += len(lines)
		for some := range slices.Chunk(lines, together(format)) {
			n += wide(t, format, some, "", false)
		}
	}
	if t.Logf("%d of %d lines are too wide", n, all); n < 200 {
		t.Errorf("only %d of %d lines are too wide", n, all)
	}
}

// TestNoExceptionOfAListFromOutsideOpensAll: beside what blocks every stranger by its name.
func TestNoExceptionOfAListFromOutsideOpensAll(t *testing.T) {
	lines := map[FormatName][]string{}
	for _, line := range wideLines()[Adblock] {
		lines[Adblock] = append(lines[Adblock], "@@"+line)
	}
	for _, line := range wideLines()[RPZ] {
		lines[RPZ] = append(lines[RPZ], strings.NewReplacer("CNAME .", "CNAME rpz-passthru.", "CNAME *.", "CNAME rpz-passthru.", "IN A 0.0.0.0", "CNAME rpz-passthru.").Replace(line))
	}
	for _, name := range []string{"com", ".com", "*.com", "co.uk", "*", ".", "0.0.0.0/0", "::/0"} {
		lines["csv"] = append(lines["csv"], "domain,exception\n"+name+",yes")
		lines["json"] = append(lines["json"], fmt.Sprintf(`{"entry": %q, "exception": true}`, name))
	}
	n, all := 0, 0
	for format, some := range lines {
		all += len(some)
		var blocked strings.Builder
		for what, pages := range strangers {
			for _, page := range pages {
				if host, _, _ := strings.Cut(page, "/"); !strings.HasPrefix(what, "address") {
					fmt.Fprintf(&blocked, map[FormatName]string{Adblock: "||%s^\n", RPZ: "%s CNAME .\n", "csv": "%s,no\n", "json": "%q\n"}[format], host)
				}
			}
		}
		for some := range slices.Chunk(some, together(format)) {
			n += wide(t, format, some, blocked.String(), true)
		}
	}
	if t.Logf("%d of %d exceptions are too wide", n, all); n < 100 {
		t.Errorf("only %d of %d exceptions are too wide", n, all)
	}
}
