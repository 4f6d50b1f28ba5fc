package adblock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestCosmeticRules(t *testing.T) {
	for _, tt := range []struct {
		line    string
		kind    Kind
		domains string
		text    string // selector or scriptlet
	}{
		{"##.ad", Cosmetic, "", ".ad"},
		{"a.com,~x.A.com,b.*##div[id^=\"ad-\"] > .x:not(.y)", Cosmetic, "a.com|~x.a.com|b.*", `div[id^="ad-"] > .x:not(.y)`},
		{"b\u00fccher.example##.ad", Cosmetic, "xn--bcher-kva.example", ".ad"},
		{"a.com#@#.ad", Cosmetic, "a.com", ".ad"},
		{"#@#.ad", Cosmetic, "", ".ad"},
		{"a.com#?#div:has(> .ad)", Cosmetic, "a.com", "div:has(> .ad)"},
		{"a.com##a[href=\"x\\\"y{}\"]", Cosmetic, "a.com", `a[href="x\"y{}"]`},
		{"a.com##.md\\:block", Cosmetic, "a.com", ".md\\:block"},
		{"a.com##.x::before", Cosmetic, "a.com", ".x::before"},
		{"a.com##+js(set, a.b, true)", Cosmetic, "a.com", "set, a.b, true"},
		{"a.com##+js(aopr.js, a.b)", Cosmetic, "a.com", "aopr.js, a.b"},
		{"a.com#@#+js(noeval)", Cosmetic, "a.com", "noeval"},
		{"a.com#@#+js()", Cosmetic, "a.com", ""},
		{"##+js(noeval)", Unsupported, "", ""},
		{"a.com##+js(set, a.b)", Unsupported, "", ""},
		{"a.com##+js(trusted-set-cookie, a, b)", Unsupported, "", ""},
		{"a.com##+js()", Unsupported, "", ""},
		{"/a\\d/##.ad", Unsupported, "", ""},
		{"~a.com#@#.ad", Unsupported, "", ""},
		{"a b.com##.ad", Bad, "", ""},
		{"a.com##^script", Unsupported, "", ""},
		{"a.com##div:has-text(Ad)", Unsupported, "", ""},
		{"a.com##.x:style(color: red)", Unsupported, "", ""},
		{"a.com##.x:upward(2)", Unsupported, "", ""},
		{"a.com##:xpath(//a)", Unsupported, "", ""},
		// Nothing may begin a block, a comment, a tag or a string that does not end.
		{"a.com##.x{}", Unsupported, "", ""},
		{"a.com##.x</style><script>alert(1)</script>", Unsupported, "", ""},
		{"a.com##a[title=\"</style>\"]", Unsupported, "", ""},
		{"a.com##.x\\</style>", Unsupported, "", ""},
		{"a.com##.x /* y", Unsupported, "", ""},
		{"a.com##a[title=\"x]", Unsupported, "", ""},
		{"a.com##a[title=x", Unsupported, "", ""},
		{"a.com##.x:not(.y", Unsupported, "", ""},
		{"a.com##.x)", Unsupported, "", ""},
		{"a.com##.x; @import url(x)", Unsupported, "", ""},
		{"a.com##@import", Unsupported, "", ""},
		{"a.com##.x\\", Unsupported, "", ""},
		{"a.com##" + strings.Repeat(".x", 2000), Unsupported, "", ""},
	} {
		var r Rule
		r.Parse([]byte(tt.line))
		var domains []string
		for _, d := range r.domains {
			domains = append(domains, string(d))
		}
		if r.Kind != tt.kind {
			t.Errorf("%.80s: got kind %d (%s), want %d", tt.line, r.Kind, r.Reason, tt.kind)
		}
		if got := strings.Join(domains, "|"); tt.kind == Cosmetic && (got != tt.domains || string(r.Selector) != tt.text) {
			t.Errorf("%s: got %q for %q, want %q for %q", tt.line, r.Selector, got, tt.text, tt.domains)
		}
	}
}

// cosmetics makes a table from rules, and fails on lines that are not rules.
func cosmetics(t testing.TB, lines ...string) *Cosmetics {
	t.Helper()
	var b CosmeticBuilder
	var r Rule
	for i, line := range lines {
		if r.Parse([]byte(line)); r.Kind != Cosmetic {
			t.Fatalf("%s: got kind %d (%s), want a cosmetic rule", line, r.Kind, r.Reason)
		}
		if err := b.Add(&r, uint32(i)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	c, err := OpenCosmetics(b.Build())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// found records the results of a table for a page: exceptions with "-",
// scriptlets with "+".
func found(c *Cosmetics, url string) (all []string) {
	var r Request
	r.SetDocument(url, Document)
	for _, x := range c.Find(&r, nil) {
		all = append(all, written(x))
	}
	slices.Sort(all)
	return all
}

func written(x CosmeticMatch) string {
	s := x.Text
	if x.Scriptlet {
		s = "+" + s
	}
	if x.Exception {
		s = "-" + s
	}
	return s
}

func TestCosmeticsOfPages(t *testing.T) {
	c := cosmetics(t, "##.all", "~x.com##.but-x", "#@#.never", "a.com,b.com##.ab", "a.com,~www.a.com##.a", "sub.a.com#@#.all", "name.*##.any", "a.com##+js(noeval)", "a.com##.all")
	for _, tt := range []struct {
		url  string
		want string
	}{
		{"https://a.com/", "+noeval .a .ab .all"},
		{"https://A.com:8443/x?y", "+noeval .a .ab .all"},
		{"https://www.a.com/", "+noeval -.a .a .ab .all"},
		{"https://sub.a.com/", "+noeval -.all .a .ab .all"},
		{"https://b.com/", ".ab"},
		{"https://nota.com/", ""},
		{"https://com/", ""},
		{"https://x.com/", "-.but-x"},
		{"https://name.co.uk/", ".any"},
		{"https://www.name.org/", ".any"},
		{"https://name.sub.org/", ""},
		{"https://192.0.2.1/", ""},
	} {
		if got := strings.Join(found(c, tt.url), " "); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.url, got, tt.want)
		}
	}
	var all []string
	c.Generic(func(x CosmeticMatch) bool {
		all = append(all, fmt.Sprint(written(x), " ", x.Line))
		return true
	})
	if got, want := strings.Join(all, ", "), ".all 0, .but-x 1, -.never 2"; got != want {
		t.Errorf("got %s for all pages, want %s", got, want)
	}
}

func TestEffectsOnPages(t *testing.T) {
	for _, tt := range []struct {
		rule, url string
		typ       Type
		want      Effect
		value     string
		exception bool
	}{
		{"@@||a.com^$elemhide", "https://www.a.com/x", Document, NoHiding, "", true},
		{"@@||a.com^$elemhide", "https://b.com/", Document, 0, "", false},
		{"@@||a.com^$generichide,jsinject", "https://a.com/", Subdocument, NoGeneric | NoScripts, "", true},
		{"@@||a.com/path^$shide", "https://a.com/path/x", Document, NoSpecific, "", true},
		{"@@||a.com/path^$shide", "https://a.com/other", Document, 0, "", false},
		{"@@*$ghide,domain=a.com", "https://www.a.com/", Document, NoGeneric, "", true},
		{"@@||a.com^$document", "https://a.com/", Document, NoHiding | NoScripts, "", true},
		{"||a.com^$csp=script-src 'self' 'unsafe-inline'", "https://a.com/", Document, AddPolicy, "script-src 'self' 'unsafe-inline'", false},
		{"$csp=child-src 'none'; frame-src *,domain=a.com|b.com", "https://b.com/", Document, AddPolicy, "child-src 'none'; frame-src *", false},
		{"@@||a.com^$csp", "https://a.com/", Document, AddPolicy, "", true},
		{"||a.com^$permissions=geolocation=()|camera=()", "https://a.com/", Document, AddPermissions, "geolocation=()|camera=()", false},
	} {
		var r Rule
		if r.Parse([]byte(tt.rule)); r.Effects == 0 {
			t.Errorf("rule %s has no effect: got kind %d (%s)", tt.rule, r.Kind, r.Reason)
			continue
		}
		var b Builder
		if err := b.Add(&r, 0, 1); err != nil {
			t.Fatal(err)
		}
		e, err := Open(b.Build())
		if err != nil {
			t.Fatal(err)
		}
		var q Request
		q.SetDocument(tt.url, tt.typ)
		var got Effect
		var value string
		exception := false
		for _, ref := range e.MatchPage(&q, nil) {
			effects, v, x := e.Effect(ref)
			got, value, exception = got|effects, string(v), x
		}
		if got != tt.want || value != tt.value || exception != tt.exception {
			t.Errorf("%s on %s: got %b %q %v, want %b %q %v", tt.rule, tt.url, got, value, exception, tt.want, tt.value, tt.exception)
		}
	}
	for line, want := range map[string]Kind{
		"||a.com^$elemhide": Unsupported, "||a.com^$csp": Bad, "||a.com^$csp=script-src x\u00e9": Bad, "||a.com^$permissions": Bad,
		"||a.com^$csp=script-src 'self'; report-uri https://b.com/": Unsupported, "||a.com^$webrtc": Unsupported, "@@||a.com^$genericblock": Unsupported,
	} {
		var r Rule
		if r.Parse([]byte(line)); r.Kind != want {
			t.Errorf("%s: got kind %d (%s), want %d", line, r.Kind, r.Reason, want)
		}
	}
}

func TestPopups(t *testing.T) {
	for _, tt := range []struct {
		rule string
		typ  Type
		want bool
	}{
		{"||a.com^$popup", Document | Popup, true},
		{"||a.com^$popup", Document, false},
		{"||a.com^$popup", Script, false},
		{"||a.com^$popup,third-party", Document | Popup, true},
		{"||a.com^$script,popup", Document | Popup, true},
		{"||a.com^$script,popup", Script, true},
		{"||a.com/x$~popup", Document | Popup, false},
		{"||a.com/x$all", Document, true},
		{"/x/y", Document | Popup, false},
	} {
		e := build(t, tt.rule)
		if got := matching(e, "https://a.com/x/y", tt.typ, "b.com"); got != tt.want {
			t.Errorf("%s for type %b: got %v, want %v", tt.rule, tt.typ, got, tt.want)
		}
	}
}

// TestRealCosmeticRules: nearly all rules of real lists are used.
func TestRealCosmeticRules(t *testing.T) {
	lines := linesOf(t, "easylist.txt.gz")
	n, unused := 0, map[string]int{}
	var b CosmeticBuilder
	for i, line := range lines {
		if _, mark, _ := cutMark([]byte(line)); mark == "" || line[0] == '!' {
			continue
		}
		n++
		var r Rule
		if r.Parse([]byte(line)); r.Kind != Cosmetic {
			unused[r.Reason]++
		} else if err := b.Add(&r, uint32(i)); err != nil {
			t.Fatal(err)
		}
	}
	table := b.Build()
	t.Logf("%d of %d rules, %d bytes; not used: %v", b.Len(), n, len(table), unused)
	if n < 20_000 || b.Len() < n*98/100 {
		t.Errorf("%d of %d rules are used; unused: %v", b.Len(), n, unused)
	}
	if _, err := OpenCosmetics(table); err != nil {
		t.Error(err)
	}
}

func BenchmarkCosmetics(b *testing.B) {
	var hide CosmeticBuilder
	var hosts []string
	for _, line := range linesOf(b, "easylist.txt.gz") {
		var r Rule
		if r.Parse([]byte(line)); r.Kind == Cosmetic {
			_ = hide.Add(&r, 1)
			for _, d := range r.domains {
				hosts = append(hosts, "www."+strings.Replace(strings.TrimPrefix(string(d), "~"), "*", "com", 1))
			}
		}
	}
	c, err := OpenCosmetics(hide.Build())
	if err != nil {
		b.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	var r Request
	var dst []CosmeticMatch
	n, i := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		r.SetDocument("https://"+hosts[rnd.IntN(len(hosts))]+"/some/page.html", Document)
		dst = c.Find(&r, dst[:0])
		n += len(dst)
		i++
	}
	b.ReportMetric(float64(n)/float64(i), "rules/page")
}

func TestScriptletWords(t *testing.T) {
	for in, want := range map[string][]string{
		"a, b,c":               {"a", "b", "c"},
		"a, b\\,c, ":           {"a", "b,c", ""},
		"a, 'b, c', \"d\"":     {"a", "b, c", "d"},
		"a, /x(y,z)/":          {"a", "/x(y", "z)/"},
		"a, 'b' c":             {"a", "'b' c"},
		"":                     {""},
		"noeval":               {"noeval"},
		"a, ``, 'x":            {"a", "``", "'x"},
		"set, a.b, '\u2028</'": {"set", "a.b", "\u2028</"},
	} {
		got := scriptletWords(in)
		if in == "a, ``, 'x" { // an empty string in quotes is an argument
			want = []string{"a", "", "'x"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("arguments of %q: got %q, want %q", in, got, want)
		}
	}
}

func TestScript(t *testing.T) {
	text := string(AppendScript(nil, []string{"set, a.b, true", "aopr, x", "set, c, '</script>'", "nothing, x", "noeval"}))
	for _, want := range []string{`s3(...["a.b","true"])`, `["c","\u003c/script\u003e"]`, `s0(...["x"])`, "(...[])"} {
		if !strings.Contains(text, want) {
			t.Errorf("the script lacks %s:\n%s", want, text)
		}
	}
	if strings.Count(text, "const s3 =") != 1 || strings.Contains(text, "///") {
		t.Errorf("the script has a scriptlet twice, or comments: %s", text)
	}
	if all := string(AppendScript(nil, allScriptlets())); strings.Contains(strings.ToLower(all), "</script") || strings.Contains(all, "<!--") {
		t.Errorf("the script contains text that ends its element: %s", all)
	}
}

// allScriptlets calls each with all arguments it can have.
func allScriptlets() (calls []string) {
	for _, s := range scriptlets {
		calls = append(calls, s.names[0]+strings.Repeat(", x", s.most))
	}
	return calls
}

// FuzzCosmetic: any rule can be in a table, and a selector in use does not change
// its surroundings in a style sheet.
func FuzzCosmetic(f *testing.F) {
	for _, s := range []string{"##.a", "a.com,~b.a.com##a[b='c']", "a.*#@#+js(set, x, 'y')", "##a\\\"{", "x##:not(:has(a))"} {
		f.Add(s, "https://www.a.com/x")
	}
	f.Fuzz(func(t *testing.T, line, url string) {
		var r Rule
		if r.Parse([]byte(strings.TrimSpace(line))); r.Kind != Cosmetic {
			return
		}
		if s := string(r.Selector); !r.Scriptlet && (strings.ContainsAny(s, "\n\r\f") || strings.Contains(s, "</") || strings.Contains(s, "<!--")) {
			t.Errorf("an unsafe selector is used: %q", s)
		}
		var b CosmeticBuilder
		if err := b.Add(&r, 3); err != nil {
			t.Fatal(err)
		}
		c, err := OpenCosmetics(b.Build())
		if err != nil {
			t.Fatal(err)
		}
		var q Request
		q.SetDocument(url, Document)
		for _, x := range c.Find(&q, nil) {
			if x.Text != string(r.Selector) || x.Line != 3 {
				t.Errorf("rule %q in the table: got %+v", line, x)
			}
			if x.Scriptlet {
				if script := string(AppendScript(nil, []string{x.Text})); strings.Contains(strings.ToLower(script), "</script") {
					t.Errorf("the script of %q contains text that ends its element", x.Text)
				}
			}
		}
	})
}

func FuzzOpenCosmetics(f *testing.F) {
	var b CosmeticBuilder
	for _, line := range []string{"##.a", "a.com,~b.a.com##.b", "a.*#@#+js(noeval)"} {
		var r Rule
		r.Parse([]byte(line))
		if err := b.Add(&r, 3); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b.Build(), "https://a.com/")
	f.Fuzz(func(t *testing.T, data []byte, url string) {
		c, err := OpenCosmetics(slices.Clone(data))
		if err != nil {
			return
		}
		var q Request
		q.SetDocument(url, Document)
		c.Find(&q, nil)
		c.Generic(func(CosmeticMatch) bool { return true })
	})
}
