package category

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/test/data"
)

func compile(t testing.TB, name string, cfg list.Config, text string) *list.File {
	t.Helper()
	dir := t.TempDir()
	cfg.Path = setting.Source(filepath.Join(dir, name+".txt"))
	if err := os.WriteFile(string(cfg.Path), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(dir, name+".list")
	if _, err := list.Compile(context.Background(), name, cfg, dst); err != nil {
		t.Fatal(err)
	}
	f, err := list.Open(dst)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func newCheck(t testing.TB) *Check {
	t.Helper()
	lists := map[string]*list.File{
		"adult": compile(t, "adult", list.Config{}, "example.com\nwww.example.com\nurl.com/bad\nboth.com\nboth.com/x\n"),
		"news":  compile(t, "news", list.Config{Category: "press"}, "example.com\n"),
		"more":  compile(t, "more", list.Config{Category: "adult"}, "example.com\n"),
		"ads":   compile(t, "ads", list.Config{Format: list.Adblock, Category: "ads"}, "||ads.com^\n@@||good.ads.com^\n"),
		"off":   compile(t, "off", list.Config{}, "unused.com\n"),
	}
	c, err := New(Config{Lists: []string{"adult", "news", "more", "ads"}}, lists)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var folder = regexp.MustCompile(` in /[^ ;]*/`)

// find runs the stages of a request and returns the findings of each.
func find(t testing.TB, c *Check, host, path string) (atName, atRequest []filter.Finding) {
	t.Helper()
	tr := &filter.Transaction{Host: host, URL: "http://" + host + path}
	for _, s := range []filter.Stage{filter.Name, filter.Request} {
		if s == filter.Request {
			tr.Request = &message.Request{Path: []byte(path)}
		}
		got, err := c.Find(context.Background(), tr, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			got[i].Evidence = folder.ReplaceAllString(got[i].Evidence, " in ")
		}
		tr.Findings = append(tr.Findings, got...)
		if s == filter.Name {
			atName = got
		} else {
			atRequest = got
		}
	}
	return atName, atRequest
}

func TestFindings(t *testing.T) {
	c := newCheck(t)
	finding := func(category, evidence string) filter.Finding {
		return filter.Finding{Check: "category", Category: category, Evidence: evidence}
	}
	lifted := filter.Finding{Check: Exception, Category: "ads", Evidence: `"ads.com" in ads.txt:1, lifted by "good.ads.com" in ads.txt:2`}
	for _, tt := range []struct {
		host, path        string
		atName, atRequest []filter.Finding
	}{
		{"harmless.org", "/x", nil, nil},
		{"unused.com", "/", nil, nil},
		{"www.example.com", "/", []filter.Finding{
			finding("adult", `"example.com" in adult.txt:1; "www.example.com" in adult.txt:2; "example.com" in more.txt:1`),
			finding("press", `"example.com" in news.txt:1`),
		}, nil},
		{"url.com", "/", nil, nil},
		{"www.url.com", "/bad/thing", nil, []filter.Finding{finding("adult", `"url.com/bad" in adult.txt:3`)}},
		{"both.com", "/x", []filter.Finding{finding("adult", `"both.com" in adult.txt:4`)}, nil},
		{"x.ads.com", "/", []filter.Finding{finding("ads", `"ads.com" in ads.txt:1`)}, nil},
		{"good.ads.com", "/", []filter.Finding{lifted}, nil},
		{"very.good.ads.com", "/", []filter.Finding{lifted}, nil},
	} {
		atName, atRequest := find(t, c, tt.host, tt.path)
		if d := cmp.Diff(tt.atName, atName); d != "" {
			t.Errorf("findings for the name %s (-want +got):\n%s", tt.host, d)
		}
		if d := cmp.Diff(tt.atRequest, atRequest); d != "" {
			t.Errorf("findings for the request %s%s (-want +got):\n%s", tt.host, tt.path, d)
		}
	}
}

func TestPathOfURLWithoutRequest(t *testing.T) {
	c := newCheck(t)
	for url, want := range map[string]int{
		"https://url.com/bad/x":  1,
		"https://url.com":        0,
		"https://url.com?x=/bad": 0,
		"https://url.com#/bad":   0,
	} {
		tr := &filter.Transaction{Host: "url.com", URL: url}
		got, err := c.Find(context.Background(), tr, filter.Request, nil)
		if err != nil || len(got) != want {
			t.Errorf("%s: found %v, %v; want %d findings", url, got, err, want)
		}
	}
}

func TestCategoriesAndWants(t *testing.T) {
	c := newCheck(t)
	want := []filter.Category{{Name: "ads"}, {Name: "adult"}, {Name: "press"}}
	if d := cmp.Diff(want, c.Categories()); d != "" {
		t.Errorf("categories differ (-want +got):\n%s", d)
	}
	tr := &filter.Transaction{Host: "x.org"}
	got := map[filter.Stage]bool{}
	for s := filter.Name; s <= filter.ResponseBody; s++ {
		got[s] = c.Wants(tr, s)
	}
	if d := cmp.Diff(map[filter.Stage]bool{filter.Name: true, filter.Request: true, filter.RequestBody: false, filter.Response: false, filter.ResponseBody: false}, got); d != "" {
		t.Errorf("wanted stages differ (-want +got):\n%s", d)
	}
	only, err := New(Config{Lists: []string{"ads"}}, map[string]*list.File{"ads": compile(t, "ads", list.Config{Format: list.Adblock}, "||ads.com^\n")})
	if err != nil {
		t.Fatal(err)
	}
	if only.Wants(tr, filter.Request) {
		t.Error("wants requests although no list has URLs")
	}
}

func TestUnknownListIsASettingError(t *testing.T) {
	_, err := New(Config{Lists: []string{"own", "ut1"}}, map[string]*list.File{"own": compile(t, "own", list.Config{}, "a.com\n")})
	if _, near := New(Config{Lists: []string{"onw"}}, map[string]*list.File{"own": nil}); near == nil || !strings.HasSuffix(near.Error(), `did you mean "own"?`) {
		t.Errorf("New with a misspelt list: %v, want the nearest name", near)
	}
	var se *setting.Error
	if !errors.As(err, &se) || se.Key != "lists[1]" {
		t.Fatalf("New returned %v, want an error about lists[1]", err)
	}
	if got, want := err.Error(), `lists[1]: "ut1" is not a list; name one of those under lists`; got != want {
		t.Errorf("the error is %s, want %s", got, want)
	}
}

func TestNothingFoundAllocatesNothing(t *testing.T) {
	c := newCheck(t)
	tr := &filter.Transaction{Host: "www.harmless.org", Request: &message.Request{Path: []byte("/some/where?a=b")}}
	for _, s := range []filter.Stage{filter.Name, filter.Request} {
		got := testing.AllocsPerRun(1000, func() {
			if f, err := c.Find(context.Background(), tr, s, nil); err != nil || len(f) > 0 {
				t.Fatalf("a request that no list has: got %v, %v, want nothing", f, err)
			}
		})
		if got != 0 {
			t.Errorf("Find at %v allocates %v times, want 0", s, got)
		}
	}
}

// BenchmarkFind measures both stages of a request that is in no list.
func BenchmarkFind(b *testing.B) {
	c := newCheck(b)
	tr := &filter.Transaction{Host: "www.harmless.org", Request: &message.Request{Path: []byte("/some/where?a=b")}}
	b.ReportAllocs()
	for b.Loop() {
		for _, s := range []filter.Stage{filter.Name, filter.Request} {
			if f, err := c.Find(context.Background(), tr, s, nil); err != nil || len(f) > 0 {
				b.Fatalf("a request that no list has: got %v, %v, want nothing", f, err)
			}
		}
	}
}

var _ filter.Check = (*Check)(nil)

func TestExpressionsAreTriedWhenAllIsKnown(t *testing.T) {
	f := compile(t, "re", list.Config{Format: list.Expressions}, "(^|[-./])casino([-./]|$)\n\\.ru$\n")
	c, err := New(Config{Lists: []string{"re"}}, map[string]*list.File{"re": f})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host, path string
		last       filter.Stage
		name, url  int
	}{
		{"casino.com", "/", filter.Response, 0, 1},
		{"casino.com", "/", filter.Name, 1, 0},
		{"a.com", "/my-casino/", filter.Response, 0, 1},
		{"a.ru", "/x", filter.Response, 0, 0}, // the address does not end in .ru
		{"a.ru", "", filter.Name, 1, 0},
	} {
		tr := &filter.Transaction{Host: tt.host, Last: tt.last}
		name, err := c.Find(context.Background(), tr, filter.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		tr.Findings = name
		tr.Request = &message.Request{Path: []byte(tt.path)}
		url, err := c.Find(context.Background(), tr, filter.Request, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(name) != tt.name || len(url) != tt.url {
			t.Errorf("%s%s, last %s: got %v at name and %v at request, want %d and %d", tt.host, tt.path, tt.last, name, url, tt.name, tt.url)
		}
	}
}

func TestTimesOfLists(t *testing.T) {
	f := compile(t, "x", list.Config{Format: list.E2guardian}, "#time: 8 0 16 0 01234\na.com\n")
	now := time.Date(2024, 1, 1, 9, 0, 0, 0, time.UTC) // a Monday
	c, err := New(Config{Lists: []string{"x"}, Now: func() time.Time { return now }}, map[string]*list.File{"x": f})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		got, err := c.Find(context.Background(), &filter.Transaction{Host: "a.com"}, filter.Name, nil)
		if err != nil || len(got) != want {
			t.Errorf("at %v: found %v, %v; want %d findings", now, got, err, want)
		}
		now = now.Add(12 * time.Hour)
	}
}

func TestAdblockRules(t *testing.T) {
	f := compile(t, "ads", list.Config{Format: list.Adblock}, "||ads.com^\n@@||ads.com/ok$script\n/banner.gif$third-party\n||x.com/a$xmlhttprequest\n")
	c, err := New(Config{Lists: []string{"ads"}}, map[string]*list.File{"ads": f})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host, path string
		fields     []string
		last       filter.Stage
		name, url  string
	}{
		{"www.ads.com", "/", nil, filter.Name, `"ads.com" in ads.txt:1`, ""},
		{"www.ads.com", "/", nil, filter.Response, "", `"ads.com" in ads.txt:1`},
		{"ads.com", "/ok.js", []string{"Sec-Fetch-Dest", "script"}, filter.Response, "", `"ads.com" in ads.txt:1, lifted by "@@||ads.com/ok$script" in ads.txt:2`},
		{"ads.com", "/ok.js", nil, filter.Response, "", `"ads.com" in ads.txt:1, lifted by "@@||ads.com/ok$script" in ads.txt:2`}, // by its name
		{"ads.com", "/ok.js", []string{"Sec-Fetch-Dest", "image"}, filter.Response, "", `"ads.com" in ads.txt:1`},
		{"y.com", "/banner.gif", []string{"Referer", "https://z.com/"}, filter.Response, "", `"/banner.gif$third-party" in ads.txt:3`},
		{"y.com", "/banner.gif", []string{"Referer", "https://WWW.y.com:8443/x"}, filter.Response, "", ""},
		{"y.com", "/banner.gif", []string{"Sec-Fetch-Site", "cross-site"}, filter.Response, "", `"/banner.gif$third-party" in ads.txt:3`},
		{"y.com", "/banner.gif", nil, filter.Response, "", `"/banner.gif$third-party" in ads.txt:3`},
		{"x.com", "/a", []string{"X-Requested-With", "XMLHttpRequest"}, filter.Response, "", `"||x.com/a$xmlhttprequest" in ads.txt:4`},
		{"x.com", "/a", []string{"Accept", "text/html,*/*"}, filter.Response, "", ""},
	} {
		tr := &filter.Transaction{Host: tt.host, URL: "https://" + tt.host + tt.path, Last: tt.last}
		name, err := c.Find(context.Background(), tr, filter.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		var url []filter.Finding
		if tt.last != filter.Name {
			tr.Findings = name
			tr.Request = &message.Request{Path: []byte(tt.path)}
			for i := 0; i < len(tt.fields); i += 2 {
				tr.Request.Add(tt.fields[i], tt.fields[i+1])
			}
			if url, err = c.Find(context.Background(), tr, filter.Request, nil); err != nil {
				t.Fatal(err)
			}
		}
		describe := func(found []filter.Finding) string {
			if len(found) == 0 {
				return ""
			}
			return folder.ReplaceAllString(found[0].Evidence, " in ")
		}
		if describe(name) != tt.name || describe(url) != tt.url {
			t.Errorf("%s%s with %q: found %q for the name and %q for the request, want %q and %q", tt.host, tt.path, tt.fields, describe(name), describe(url), tt.name, tt.url)
		}
	}
}

// TestRequestFromAnUnknownPage: it counts as third party unless the settings say otherwise; a
// document is its own page.
func TestRequestFromAnUnknownPage(t *testing.T) {
	f := compile(t, "ads", list.Config{Format: list.Adblock}, "||x.com^$third-party\n||y.com^$~third-party\n")
	for _, tt := range []struct {
		setting, host string
		fields        []string
		want          bool
	}{
		{"", "x.com", nil, true},
		{"third-party", "x.com", nil, true},
		{"first-party", "x.com", nil, false},
		{"", "y.com", nil, false},
		{"first-party", "y.com", nil, true},
		{"", "x.com", []string{"Accept", "text/html"}, false},
		{"", "x.com", []string{"Sec-Fetch-Dest", "document"}, false},
		{"", "x.com", []string{"Sec-Fetch-Site", "same-site"}, false},
		{"first-party", "x.com", []string{"Sec-Fetch-Site", "cross-site"}, true},
		{"", "x.com", []string{"Referer", "https://www.x.com/"}, false},
		{"first-party", "x.com", []string{"Origin", "https://y.com"}, true},
	} {
		c, err := New(Config{Lists: []string{"ads"}, UnknownPage: tt.setting}, map[string]*list.File{"ads": f})
		if err != nil {
			t.Fatal(err)
		}
		tr := &filter.Transaction{Host: tt.host, URL: "https://" + tt.host + "/a", Last: filter.Response, Request: &message.Request{Path: []byte("/a")}}
		for i := 0; i < len(tt.fields); i += 2 {
			tr.Request.Add(tt.fields[i], tt.fields[i+1])
		}
		found, err := c.Find(context.Background(), tr, filter.Request, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(found) > 0; got != tt.want {
			t.Errorf("with unknown-page %q, %s with %q is found: %v, want %v", tt.setting, tt.host, tt.fields, got, tt.want)
		}
	}
	if _, err := New(Config{UnknownPage: "second"}, nil); err == nil || err.Error() != `unknown-page: "second" is neither third-party nor first-party` {
		t.Errorf("New with a wrong unknown-page: %v", err)
	}
}

// TestPopups: a document requested by a page of another site may be a popup.
func TestPopups(t *testing.T) {
	f := compile(t, "ads", list.Config{Format: list.Adblock}, "||pop.com^$popup\n")
	c, err := New(Config{Lists: []string{"ads"}}, map[string]*list.File{"ads": f})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		fields []string
		want   bool
	}{
		{[]string{"Accept", "text/html", "Referer", "https://site.com/"}, true},
		{[]string{"Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "cross-site"}, true},
		{[]string{"Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "same-origin", "Referer", "https://pop.com/"}, false},
		{[]string{"Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "none"}, false},
		{[]string{"Accept", "text/html"}, false},
		{[]string{"Accept", "image/*", "Referer", "https://site.com/"}, false},
	} {
		tr := &filter.Transaction{Host: "pop.com", URL: "https://pop.com/", Last: filter.Response, Request: &message.Request{Path: []byte("/")}}
		for i := 0; i < len(tt.fields); i += 2 {
			tr.Request.Add(tt.fields[i], tt.fields[i+1])
		}
		found, err := c.Find(context.Background(), tr, filter.Request, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(found) > 0; got != tt.want {
			t.Errorf("with the fields %q the popup is found: %v, want %v", tt.fields, got, tt.want)
		}
	}
}

// TestChangesOfPages: pages are changed, other resources of a site are not.
func TestChangesOfPages(t *testing.T) {
	f := compile(t, "ads", list.Config{Format: list.Adblock}, "##.all\na.com##.ad\n")
	c, err := New(Config{Lists: []string{"ads"}}, map[string]*list.File{"ads": f})
	if err != nil {
		t.Fatal(err)
	}
	var changes filter.Changes
	for _, tt := range []struct {
		path   string
		fields []string
		want   bool
	}{
		{"/", nil, true},
		{"/", []string{"Sec-Fetch-Dest", "document"}, true},
		{"/", []string{"Sec-Fetch-Dest", "iframe"}, true},
		{"/", []string{"Sec-Fetch-Dest", "empty"}, false},
		{"/", []string{"X-Requested-With", "XMLHttpRequest"}, false},
		{"/x.png", nil, false},
		{"/x.png", []string{"Accept", "text/html"}, true},
	} {
		tr := &filter.Transaction{Host: "a.com", URL: "https://a.com" + tt.path, Request: &message.Request{Path: []byte(tt.path)}}
		for i := 0; i < len(tt.fields); i += 2 {
			tr.Request.Add(tt.fields[i], tt.fields[i+1])
		}
		got := c.Changes(tr, &changes)
		if got != tt.want || got && (string(changes.Style) != ".ad{display:none!important}\n" || changes.Sheet == "") {
			t.Errorf("Changes of %s with %q returned %v, the style %q and the sheet %q; want %v", tt.path, tt.fields, got, changes.Style, changes.Sheet, tt.want)
		}
	}
	tr := &filter.Transaction{Host: "a.com", URL: "https://a.com/", Request: &message.Request{Path: []byte("/")}}
	c.Changes(tr, &changes)
	tr.Request.Path = []byte(changes.Sheet)
	if css, _, ok := c.Sheet(tr, false); !ok || string(css) != ".all{display:none!important}\n" {
		t.Errorf("Sheet returned %q, %v", css, ok)
	}
}

// BenchmarkAdblock looks up requests of a browser in two real lists. None is listed, so
// nothing may be allocated.
func BenchmarkAdblock(b *testing.B) {
	lists := map[string]*list.File{}
	for _, name := range []string{"easylist", "easyprivacy"} {
		dst := filepath.Join(b.TempDir(), name)
		if _, err := list.Compile(context.Background(), name, list.Config{Path: setting.Source(data.Path(b, "lists", name+".txt.gz"))}, dst); err != nil {
			b.Fatal(err)
		}
		f, err := list.Open(dst)
		if err != nil {
			b.Fatal(err)
		}
		lists[name] = f
	}
	c, err := New(Config{Lists: []string{"easylist", "easyprivacy"}}, lists)
	if err != nil {
		b.Fatal(err)
	}
	path := "/static/7f3a9c/images/page-77.html?id=1234&lang=en"
	tr := &filter.Transaction{Host: "www.example.org", URL: "https://www.example.org" + path, Last: filter.ResponseBody}
	tr.Request = &message.Request{Path: []byte(path)}
	tr.Request.Add("Referer", "https://news.example.org/today")
	tr.Request.Add("Sec-Fetch-Dest", "image")
	b.ReportAllocs()
	for b.Loop() {
		for _, s := range []filter.Stage{filter.Name, filter.Request} {
			found, err := c.Find(context.Background(), tr, s, nil)
			if err != nil || len(found) > 0 {
				b.Fatalf("a request that no list has: got %v, %v, want nothing", found, err)
			}
		}
	}
}

func TestModifiersOfAdBlockRulesAreReported(t *testing.T) {
	ads := compile(t, "ads", list.Config{Format: list.Adblock}, "||r.com/x.js$script,redirect=noop.js\n$removeparam=utm_source\n$removeparam=/^fb/\n")
	c, err := New(Config{Lists: []string{"ads"}}, map[string]*list.File{"ads": ads})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ method, url, category, modifier string }{
		{"GET", "https://r.com/x.js", "ads", "redirect=noop.js"},
		{"GET", "https://a.com/page.html?utm_source=1&q=2&fbclid=3", RemoveParam, "removeparam=utm_source&fbclid"},
		{"POST", "https://a.com/page.html?utm_source=1", "", ""},
		{"GET", "https://a.com/page.html?q=2", "", ""},
	} {
		u, err := url.Parse(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		tr := &filter.Transaction{Host: u.Host, URL: tt.url, Last: filter.Response, Request: &message.Request{Method: tt.method, Path: []byte(u.RequestURI())}}
		got, err := c.Find(t.Context(), tr, filter.Request, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.category == "" {
			if len(got) > 0 {
				t.Errorf("%s %s: found %v, want nothing", tt.method, tt.url, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Category != tt.category || got[0].Modifier != tt.modifier || got[0].Evidence == "" {
			t.Errorf("%s %s: found %+v, want %s in %s", tt.method, tt.url, got, tt.modifier, tt.category)
		}
	}
}
