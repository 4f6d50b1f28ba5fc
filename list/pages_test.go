package list

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/test/data"
)

// pagesOf makes a list of each text.
func pagesOf(t testing.TB, lists ...string) *Pages {
	t.Helper()
	var files []*File
	for _, text := range lists {
		f, _ := compileText(t, Config{Format: Adblock}, text)
		files = append(files, f)
	}
	return NewPages(files)
}

// style returns the selectors of a style sheet, in any grouping.
func style(css []byte) string {
	var all []string
	for block := range strings.SplitSeq(strings.TrimSuffix(string(css), hide), hide) {
		all = append(all, block)
	}
	return strings.Join(all, " ")
}

func TestWhatListsChangeInPages(t *testing.T) {
	p := pagesOf(t, `
##.all
##div.all > a
###id
##.dead
a.com##.a
a.com,~www.a.com##.not-www
b.com##.b
b.com##.dead
a.com##+js(set, x, true)
@@||bare.com^$elemhide
@@||ghide.com/x^$generichide
ghide.com##.own
@@||shide.com^$specifichide
shide.com##.own
@@||whole.com^$document
whole.com##.own
whole.com##+js(noeval)
@@||nojs.com^$jsinject
nojs.com##.own
nojs.com##+js(noeval)
||csp.com^$csp=script-src 'self'
||csp.com^$csp=frame-src 'none'
@@||www.csp.com^$csp=frame-src 'none'
||perm.com^$permissions=geolocation=()|camera=(self "https://x.com"\, self)
@@||free.csp.com^$csp
`, `
#@#.dead
a.com##.a2
b.com#@#.all
sub.a.com#@#.a
sub.a.com#@#+js(set, x, true)
b.com##+js(noeval)
never.com#@#+js()
never.com##+js(noeval)
`)
	for _, tt := range []struct {
		url     string
		style   string
		generic bool
		scripts string
		headers string
	}{
		{"https://x.com/", "", true, "", ""},
		{"https://a.com/", ".a .not-www .a2", true, "set, x, true", ""},
		{"https://www.a.com/page", ".a .a2", true, "set, x, true", ""},
		{"https://sub.a.com/", ".not-www .a2", true, "", ""},
		{"https://b.com/", ".b", true, "noeval", ""},
		{"https://bare.com/", "", false, "", ""},
		{"https://ghide.com/x", ".own", false, "", ""},
		{"https://ghide.com/y", ".own", true, "", ""},
		{"https://shide.com/", "", true, "", ""},
		{"https://whole.com/", "", false, "", ""},
		{"https://nojs.com/", ".own", true, "", ""},
		{"https://never.com/", "", true, "", ""},
		{"https://csp.com/", "", true, "", "script-src 'self' / frame-src 'none'"},
		{"https://www.csp.com/", "", true, "", "script-src 'self'"},
		{"https://free.csp.com/", "", true, "", ""},
		{"https://perm.com/", "", true, "", `geolocation=(), camera=(self "https://x.com", self)`},
	} {
		var page filter.Changes
		for range 2 { // its storage is reused
			p.Look(tt.url, false, &page)
		}
		headers := strings.Join(append(page.Policies, page.Permissions...), " / ")
		if got := style(page.Style); got != tt.style || (page.Sheet != "") != tt.generic || headers != tt.headers {
			t.Errorf("%s: got style %q, sheet %q, headers %q, want %q, %v, %q", tt.url, got, page.Sheet, headers, tt.style, tt.generic, tt.headers)
		}
		if got := strings.Join(page.Scriptlets, " / "); got != tt.scripts || (len(page.Script) > 0) != (tt.scripts != "") {
			t.Errorf("%s: got scriptlets %q and %d bytes, want %q", tt.url, got, len(page.Script), tt.scripts)
		}
		if want := tt.style == "" && !tt.generic && tt.scripts == "" && tt.headers == ""; page.Empty() != want {
			t.Errorf("%s: Empty = %v, want %v", tt.url, page.Empty(), want)
		}
	}
	var page filter.Changes
	p.Look("https://x.com/", false, &page)
	for host, want := range map[string]string{"x.com": ".all,#id div.all > a", "b.com": "#id div.all > a", "www.b.com": "#id div.all > a"} {
		if css, zipped, ok := p.Sheet([]byte(page.Sheet), host, false); style(css) != want || zipped || !ok {
			t.Errorf("%s: got %q for all pages, want %q", host, css, want)
		}
	}
	css, zipped, _ := p.Sheet([]byte(page.Sheet), "x.com", true)
	if !zipped {
		t.Fatal("the style sheet for all pages is not compressed")
	}
	z, err := gzip.NewReader(bytes.NewReader(css))
	if err != nil {
		t.Fatal(err)
	}
	plain, _, _ := p.Sheet([]byte(page.Sheet), "x.com", false)
	if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("compressed style sheet: got %q, %v, want %q", got, err, plain)
	}
	if _, _, ok := p.Sheet([]byte("/style.css"), "x.com", true); ok {
		t.Error("Sheet claimed a path of the site")
	}
	var other filter.Changes
	if pagesOf(t, "##.other").Look("https://x.com/", false, &other); other.Sheet == page.Sheet {
		t.Errorf("two different style sheets have the path %s", page.Sheet)
	}
	if pagesOf(t, "||a.com^\n") != nil {
		t.Error("a list without rules about pages gave Pages")
	}
}

// BenchmarkPages looks up the changes of two real lists for the pages that they
// have rules for, and for others.
func BenchmarkPages(b *testing.B) {
	var files []*File
	for _, name := range []string{"easylist", "easyprivacy"} {
		f, _ := compilePath(b, Config{Format: Adblock, Path: setting.Source(data.Path(b, "lists", name+".txt.gz"))})
		files = append(files, f)
	}
	p := NewPages(files)
	p.generic()
	var hosts []string
	packed, err := os.ReadFile(data.Path(b, "lists", "easylist.txt.gz"))
	if err != nil {
		b.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if domains, _, ok := strings.Cut(line, "##"); ok && domains != "" && !strings.ContainsAny(domains, "*~!$") {
			for d := range strings.SplitSeq(domains, ",") {
				hosts = append(hosts, "www."+d)
			}
		}
	}
	for name, url := range map[string]func(int) string{
		"listed": func(i int) string {
			return "https://" + hosts[i%len(hosts)] + "/news/2026/some-article.html?from=front"
		},
		"others": func(i int) string { return "https://www.example.org/news/2026/some-article.html?from=front" },
	} {
		b.Run(name, func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(1, 1))
			urls := make([]string, 4096)
			for i := range urls {
				urls[i] = url(rnd.IntN(1 << 30))
			}
			var page filter.Changes
			i, n := 0, 0
			b.ReportAllocs()
			for b.Loop() {
				p.Look(urls[i&4095], false, &page)
				i++
				n += page.Hidden
			}
			b.ReportMetric(float64(n)/float64(i), "rules/page")
		})
	}
}
