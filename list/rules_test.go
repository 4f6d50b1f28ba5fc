package list

import (
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/setting"
	"shuultuur/list/adblock"
	"shuultuur/test/data"
)

// judged returns the matches of f for a request, except the excepted ones.
func judged(t testing.TB, f *File, url string, typ adblock.Type, source string) (evidence []string) {
	t.Helper()
	_, rest, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, "/")
	var q Query
	var r adblock.Request
	q.SetURL(host, []byte("/"+path))
	r.Set(url, typ, source)
	found, err := f.Lookup(&q, nil)
	if err == nil {
		found, err = f.Rules().Judge(&r, found)
	}
	if err != nil {
		t.Fatal(err)
	}
	excepted := slices.ContainsFunc(found, func(m Match) bool { return m.Exception })
	for _, m := range found {
		if !m.Exception && (m.Important || !excepted) {
			e := f.Evidence(m)
			evidence = append(evidence, e[:strings.LastIndexByte(e, '"')+1]+e[strings.LastIndexByte(e, ':'):])
		}
	}
	return evidence
}

func TestAdblockRules(t *testing.T) {
	f, rep := compileText(t, Config{Format: Adblock}, `[Adblock Plus 2.0]
||ads.com^
@@||ads.com/ok$script
||strong.com^$important
@@||strong.com/ok
/banner/*$image,third-party
||gone.com^
||gone.com^$badfilter
/gone.js$script
/gone.js$script,badfilter
||r.com/x.js$script,redirect=noop.js
a.com##.ad
||p.com^$popup
0.0.0.0 host.com
/un(closed/x$script
/(un)?(closed/$script
`)
	for _, tt := range []struct {
		url    string
		typ    adblock.Type
		source string
		want   string
	}{
		{"http://www.ads.com/x", adblock.Image, "", `"ads.com":2`},
		{"http://ads.com/", adblock.Document, "", `"ads.com":2`},
		{"http://ads.com/ok", adblock.Script, "", ""},
		{"http://strong.com/ok", adblock.Script, "", `"strong.com":4`},
		{"http://x.com/banner/y", adblock.Image, "y.com", `"/banner/*$image,third-party":6`},
		{"http://x.com/banner/y", adblock.Image, "x.com", ""},
		{"http://gone.com/", adblock.Image, "", ""},
		{"http://x.com/gone.js", adblock.Script, "", ""},
		{"http://r.com/x.js", adblock.Script, "", `"||r.com/x.js$script,redirect=noop.js":11`},
		{"http://host.com/", adblock.Script, "", `"host.com":14`},
		{"http://x.com/un(closed/x", adblock.Script, "", `"/un(closed/x$script":15`},
	} {
		if got := strings.Join(judged(t, f, tt.url, tt.typ, tt.source), "; "); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.url, got, tt.want)
		}
	}
	if rep.Rules != 6 || rep.Cosmetics != 1 || rep.Entries != 3 || rep.Ignored != 0 || rep.Bad != 1 || !f.Rules().Exceptions() {
		t.Errorf("got %d rules, %d entries, %d ignored, %d bad, undecided %v: %v", rep.Rules, rep.Entries, rep.Ignored, rep.Bad, f.Rules().Exceptions(), rep.Problems)
	}
	var r adblock.Request
	r.Set("http://r.com/x.js", adblock.Script, "")
	found, err := f.Rules().Judge(&r, nil)
	if err != nil || len(found) != 1 || found[0].Redirect() != "noop.js" {
		t.Errorf("got %v, %v, want a redirect to noop.js", found, err)
	}
}

// TestRealRules: the lists people use, whole.
func TestRealRules(t *testing.T) {
	f, rep := compilePath(t, Config{Path: setting.Source(data.Path(t, "lists", "easylist.txt.gz"))})
	t.Logf("%d entries, %d rules in %d bytes, %d ignored, %d bad; first problems: %v", rep.Entries, rep.Rules, f.section[secRules].Size, rep.Ignored, rep.Bad, rep.Problems[:min(8, len(rep.Problems))])
	if rep.Rules < 4000 || rep.Bad > 5 {
		t.Errorf("got %d rules and %d bad lines, want at least 4000 and at most 5: %v", rep.Rules, rep.Bad, rep.Problems)
	}
	if size := f.section[secRules].Size; size > uint64(rep.Rules)*100 {
		t.Errorf("got %d bytes for %d rules, want at most 100 each", size, rep.Rules)
	}
}

func TestParametersAreTakenOutOfTheQuery(t *testing.T) {
	for _, tt := range []struct {
		rules string // a line each
		url   string
		typ   adblock.Type
		want  string
	}{
		{"$removeparam=utm_source", "https://a.com/?utm_source=x&b=1", adblock.Document, "utm_source"},
		{"$removeparam=utm_source", "https://a.com/?b=1&utm_source", adblock.Document, "utm_source"},
		{"$removeparam=utm_source", "https://a.com/?utm_sources=x&b=utm_source", adblock.Document, ""},
		{"$removeparam=utm_source", "https://a.com/utm_source=1", adblock.Document, ""},
		{"$removeparam=utm_source", "https://a.com/?utm_source=x", adblock.Image, ""},
		{"$removeparam=utm_source,image", "https://a.com/?utm_source=x", adblock.Image, "utm_source"},
		{"$queryprune=Gclid", "https://a.com/?Gclid=x", adblock.Document, "Gclid"},
		{"$removeparam=Gclid", "https://a.com/?gclid=x", adblock.Document, ""},
		{"||a.com^$removeparam=x", "https://www.a.com/?x=1&y=2", adblock.XMLHTTPRequest, "x"},
		{"||a.com^$removeparam=x", "https://b.com/?x=1&y=2", adblock.Document, ""},
		{"||a.com^$removeparam", "https://a.com/?x=1&y=2&x=3", adblock.Document, "x,y"},
		{"||a.com^$removeparam=~x", "https://a.com/?x=1&y=2", adblock.Document, "y"},
		{"$removeparam=/^utm_/", "https://a.com/?utm_a=1&b=2&utm_c=3", adblock.Document, "utm_a,utm_c"},
		{"$removeparam=/^UTM_/i", "https://a.com/?utm_a=1&b=2", adblock.Document, "utm_a"},
		{"$removeparam=x\n@@||a.com^$removeparam=x", "https://a.com/?x=1", adblock.Document, ""},
		{"$removeparam=x\n@@||a.com^$removeparam", "https://a.com/?x=1", adblock.Document, ""},
		{"$removeparam=x,important\n@@||a.com^$removeparam=x", "https://a.com/?x=1", adblock.Document, "x"},
		{"$removeparam=x\n@@||a.com^$removeparam=y", "https://a.com/?x=1", adblock.Document, "x"},
		{"$removeparam=x\n$removeparam=x,badfilter\n$removeparam=y", "https://a.com/?x=1&y=2", adblock.Document, "y"},
		{"||a.com/x$script", "https://a.com/?x=1", adblock.Document, ""},
	} {
		f, _ := compileText(t, Config{Format: Adblock}, tt.rules+"\n")
		var r adblock.Request
		r.Set(tt.url, tt.typ, "")
		found, err := f.Rules().MatchParams(&r, nil)
		if err == nil {
			found, err = f.Rules().ExceptParams(&r, found)
		}
		if err != nil {
			t.Fatal(err)
		}
		names, _ := RemoveParams(&r, found)
		if got := strings.Join(names, ","); got != tt.want {
			t.Errorf("%s on %s: got %q, want %q", tt.rules, tt.url, got, tt.want)
		}
		if found, err := f.Rules().Match(&r, nil); err != nil || len(found) > 0 {
			t.Errorf("%s on %s: a rule about parameters blocks the request: %v, %v", tt.rules, tt.url, found, err)
		}
	}
}
