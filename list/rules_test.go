package list

import (
	"slices"
	"strings"
	"testing"

	"shuultuur/list/adblock"
	"shuultuur/realdata"
)

// judged returns what f says about a request, less what is excepted.
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
		found, err = f.Judge(&r, found)
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
	if rep.Rules != 5 || rep.Entries != 3 || rep.Ignored != 2 || rep.Bad != 1 || !f.Undecided() {
		t.Errorf("got %d rules, %d entries, %d ignored, %d bad, undecided %v: %v", rep.Rules, rep.Entries, rep.Ignored, rep.Bad, f.Undecided(), rep.Problems)
	}
	var r adblock.Request
	r.Set("http://r.com/x.js", adblock.Script, "")
	found, err := f.Judge(&r, nil)
	if err != nil || len(found) != 1 || f.Redirect(found[0]) != "noop.js" {
		t.Errorf("got %v, %v, want a redirect to noop.js", found, err)
	}
}

// TestRealRules: the lists people use, whole.
func TestRealRules(t *testing.T) {
	f, rep := compilePath(t, Config{Path: realdata.Path(t, "lists", "easylist.txt.gz")})
	t.Logf("%d entries, %d rules in %d bytes, %d ignored, %d bad; first problems: %v", rep.Entries, rep.Rules, f.section[secRules].Size, rep.Ignored, rep.Bad, rep.Problems[:min(8, len(rep.Problems))])
	if rep.Rules < 4000 || rep.Bad > 5 {
		t.Errorf("got %d rules, %d bad: %v", rep.Rules, rep.Bad, rep.Problems)
	}
	if size := f.section[secRules].Size; size > uint64(rep.Rules)*100 {
		t.Errorf("got %d bytes for %d rules, want at most 100 each", size, rep.Rules)
	}
}
