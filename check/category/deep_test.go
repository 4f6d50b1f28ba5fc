package category

import (
	"context"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/list"
)

func deepCheck(t testing.TB, deep bool) *Check {
	t.Helper()
	lists := map[string]*list.File{
		"adult": compile(t, "adult", list.Config{}, "bad.com\nurl.com/bad\n"),
		"ads":   compile(t, "ads", list.Config{Format: list.Adblock, Category: "ads"}, "||ads.com^\n||img.com/ad/\n@@||ads.com/ok\n"),
		"words": compile(t, "words", list.Config{Format: list.Expressions, Category: "words"}, "casino[0-9]+\\.\n"),
	}
	c, err := New(Config{Lists: []string{"adult", "ads", "words"}, Deep: deep}, lists)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// all runs a transaction through the stages of the check.
func all(t *testing.T, c *Check, tr *filter.Transaction) []filter.Finding {
	t.Helper()
	if tr.URL == "" {
		tr.URL = "https://" + tr.Host + string(tr.Request.Path)
	}
	tr.Last = filter.Response
	for s := filter.Name; s <= filter.Response; s++ {
		found, err := c.Find(context.Background(), tr, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		tr.Findings = append(tr.Findings, found...)
	}
	return tr.Findings
}

func TestAddressesInsideAddresses(t *testing.T) {
	std := base64.StdEncoding.EncodeToString
	for _, c := range []struct {
		host, path, category, way string
	}{
		{"proxy.org", "/https://bad.com/", "adult", ""},
		{"proxy.org", "/?u=https://www.bad.com/x", "adult", ""},
		{"proxy.org", "/?u=" + url.QueryEscape(std([]byte("https://bad.com"))), "adult", "base64"},
		{"proxy.org", "/?u=https://url.com/bad/x", "adult", ""},
		{"proxy.org", "/?u=https://url.com/good", "", ""},
		{"proxy.org", "/?u=https://img.com/ad/1.png", "ads", ""},
		{"proxy.org", "/?u=https://ads.com/", "ads", ""},
		{"proxy.org", "/?u=https://ads.com/ok", "", ""},
		{"proxy.org", "/?u=https://my-casino77.net/", "words", ""},
		{"bad-com.translate.goog", "/", "adult", "dashes"},
		{"proxy.org", "/?u=https://good.com/", "", ""},
	} {
		tr := &filter.Transaction{Host: c.host, Request: &message.Request{Method: "GET", Path: []byte(c.path)}}
		if c.category == "words" { // the expression matches the address that is asked, too
			continue
		}
		found := all(t, deepCheck(t, true), tr)
		switch {
		case c.category == "" && len(found) == 0:
		case len(found) != 1 || found[0].Category != c.category || !found[0].Wrapped || !strings.Contains(found[0].Evidence, "inside the address") || !strings.Contains(found[0].Evidence, c.way):
			t.Errorf("%s%s: found %+v, want %q inside the address (%s)", c.host, c.path, found, c.category, c.way)
		}
		tr = &filter.Transaction{Host: c.host, Request: &message.Request{Method: "GET", Path: []byte(c.path)}}
		for _, f := range all(t, deepCheck(t, false), tr) {
			if f.Wrapped {
				t.Errorf("%s%s: found %+v without deep", c.host, c.path, f)
			}
		}
	}
}

// TestAskedComesBeforeInside: what is asked is reported as such, whatever else the address has.
func TestAskedComesBeforeInside(t *testing.T) {
	tr := &filter.Transaction{Host: "bad.com", Request: &message.Request{Path: []byte("/?u=https://www.bad.com.proxy.org/&v=https://url.com/bad")}}
	if found := all(t, deepCheck(t, true), tr); len(found) != 1 || found[0].Wrapped {
		t.Errorf("found %+v, want the host alone", found)
	}
	tr = &filter.Transaction{Host: "url.com", Request: &message.Request{Path: []byte("/bad?u=https://bad.com/")}}
	if found := all(t, deepCheck(t, true), tr); len(found) != 1 || found[0].Wrapped {
		t.Errorf("found %+v, want the URL alone", found)
	}
	tr = &filter.Transaction{Host: "www-bad-com.url.com", Request: &message.Request{Path: []byte("/bad")}}
	if found := all(t, deepCheck(t, true), tr); len(found) != 2 || !found[0].Wrapped || found[1].Wrapped {
		t.Errorf("found %+v, want the host inside, and the URL that is asked", found)
	}
}

// TestFormsOfProxies: proxies on the web are told by a form what to show, and hide it in the address after.
func TestFormsOfProxies(t *testing.T) {
	for body, want := range map[string]bool{
		"u=https%3A%2F%2Fbad.com%2F&encodeURL=on": true,
		"u=bad.com":                       true,
		"a=1&URL=http://www.bad.com/x":    true,
		"q=https://bad.com/":              true,
		"url=aHR0cHM6Ly9iYWQuY29tLw":      true,
		"u=good.com":                      false,
		"text=see+https://bad.com/":       false,
		"comment=https://bad.com/&mail=x": false,
		"u=":                              false,
		"":                                false,
		"u=https://bad.com/&x=" + strings.Repeat("x", mostForm): false,
	} {
		foundInForm(t, "Application/x-www-form-urlencoded; charset=utf-8", body, want)
	}
}

// TestFormsOfScripts: pages that are proxies send what they are asked for as JSON, as text, or as a form with
// parts.
func TestFormsOfScripts(t *testing.T) {
	for body, want := range map[string]bool{
		`{"url":"https://bad.com/"}`: true,
		`{"cmd":"request.get","url":"https:\/\/www.bad.com\/","maxTimeout":60000}`: true,
		`{"query":"x","variables":{"target":"bad.com"}}`:                           true,
		`[{"a":{}},{"URL":"aHR0cHM6Ly9iYWQuY29tLw"}]`:                              true,
		`{"urls":[],"url":["https://good.com/","https://bad.com/"]}`:               true,
		`{"u":"https://bad.com/","x":`:                                             true, // what was read counts
		`{"url":"https://good.com/"}`:                                              false,
		`{"url":{"text":"https://bad.com/"}}`:                                      false,
		`{"text":"url","comment":"https://bad.com/"}`:                              false,
		`{"url":5,"text":"https://bad.com/"}`:                                      false,
		`{"url":null}`:                                                             false,
		`{"url":`:                                                                  false,
		`{}`:                                                                       false,
		`}`:                                                                        false,
		``:                                                                         false,
		`"https://bad.com/"`:                                                       true,
		`https://bad.com/x`:                                                        true,
		`see https://bad.com/`:                                                     false,
		`https://bad.com/ is bad`:                                                  false,
		`{"url":"https://bad.com/","x":"` + strings.Repeat("x", mostForm) + `"}`: false,
	} {
		foundInForm(t, "application/json", body, want)
		foundInForm(t, "text/plain;charset=UTF-8", body, want)
		foundInForm(t, "application/ld+json", body, want)
		foundInForm(t, "image/png", body, false)
	}
	const typ = "multipart/form-data; boundary=line"
	part := func(fields, value string) string {
		return "--line\r\nContent-Disposition: form-data; " + fields + "\r\n\r\n" + value + "\r\n"
	}
	for body, want := range map[string]bool{
		part(`name="url"`, "https://bad.com/") + "--line--\r\n":                 true,
		part(`name="a"`, "1") + part(`name="u"`, "bad.com") + "--line--\r\n":    true,
		part(`name="u"`, "good.com") + "--line--\r\n":                           false,
		part(`name="text"`, "https://bad.com/") + "--line--\r\n":                false,
		part(`name="u"; filename="a.txt"`, "https://bad.com/") + "--line--\r\n": false,
		part(`name="u"`, "") + "--line--\r\n":                                   false,
		"--other\r\n":                                                           false,
		"":                                                                      false,
		strings.TrimSuffix(part(`name="u"`, "https://bad.com/"), "\r\n"):        true, // it does not end
	} {
		foundInForm(t, typ, body, want)
		foundInForm(t, "multipart/form-data", body, false)
	}
}

// foundInForm tries whether an address of adult content is found in a form.
func foundInForm(t *testing.T, typ, body string, want bool) {
	t.Helper()
	tr := &filter.Transaction{Host: "proxy.org", Request: &message.Request{Method: "POST", Path: []byte("/includes/process.php")}}
	tr.Request.Add("Content-Type", typ)
	tr.Request.Add("Content-Length", strconv.Itoa(len(body)))
	var b content.Body
	defer b.Release()
	b.Reset(tr.Sent(), content.Limits{})
	b.Append([]byte(body))
	b.Finish()
	tr.Upload = &b
	found, err := deepCheck(t, true).Find(t.Context(), tr, filter.RequestBody, nil)
	if got := len(found) == 1 && found[0].Wrapped; got != want || err != nil {
		t.Errorf("%s: %.80s: found %+v, %v; want %v", typ, body, found, err, want)
	}
}

func TestFieldsWithAddresses(t *testing.T) {
	for _, c := range []struct {
		field, value, host string
		status             int
		location           string
		want               bool
	}{
		{"X-Bare-URL", "https://bad.com/", "bare.org", 0, "", true},
		{"X-Bare-Host", "bad.com", "bare.org", 0, "", true},
		{"X-Anything", "https://bad.com/", "bare.org", 0, "", true},
		{"Target", "wss://bad.com/", "bare.org", 0, "", true},
		{"Origin", "https://bad.com", "cdn.org", 0, "", false},
		{"Referer", "https://bad-com.translate.goog/", "cdn.org", 0, "", true},
		{"Referer", "https://translate.google.com/translate?u=bad.com", "cdn.org", 0, "", true},
		{"Referer", "https://bad.com/", "cdn.org", 0, "", false},
		{"Referer", "https://other.org/?u=https://bad.com/", "cdn.org", 0, "", false},
		{"", "", "short.org", 302, "https://bad.com/", true},
		{"", "", "short.org", 307, "/next?u=https%3A%2F%2Fbad.com", true},
		{"", "", "short.org", 302, "https://good.com/", false},
		{"", "", "short.org", 200, "https://bad.com/", false},
		{"", "", "short.org", 304, "https://bad.com/", false},
	} {
		tr := &filter.Transaction{Host: c.host, Request: &message.Request{Method: "GET", Path: []byte("/")}}
		if c.field != "" {
			tr.Request.Add(c.field, c.value)
		}
		if c.status != 0 {
			tr.Response = &message.Response{Status: c.status}
			tr.Response.Add("Location", c.location)
		}
		found := all(t, deepCheck(t, true), tr)
		if got := len(found) == 1 && found[0].Wrapped; got != c.want {
			t.Errorf("%s: %s at %s, %d to %s: found %+v, want %v", c.field, c.value, c.host, c.status, c.location, found, c.want)
		}
	}
}

// TestInsideHasNoOtherEffect: a match inside an address has no modifier, and a look-up for a name
// server finds it, too.
func TestInsideHasNoOtherEffect(t *testing.T) {
	f := compile(t, "dns", list.Config{Format: list.Adblock, Category: "dns"}, "||bad.com^$dnsrewrite=192.0.2.1\n||red.com^$redirect=noopjs\nbad.com\n")
	c, err := New(Config{Lists: []string{"dns"}, Deep: true}, map[string]*list.File{"dns": f})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"bad-com.translate.goog", "red-com.translate.goog"} {
		tr := &filter.Transaction{Proto: filter.DNS, Host: host, Type: 1, Last: filter.Name}
		found, err := c.Find(context.Background(), tr, filter.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.Modifier != "" || !f.Wrapped {
				t.Errorf("%s: found %+v, want no modifier", host, f)
			}
		}
	}
}

func BenchmarkFindDeep(b *testing.B) {
	b.Run("off", func(b *testing.B) { benchmarkDeep(b, false) })
	b.Run("on", func(b *testing.B) { benchmarkDeep(b, true) })
}

func benchmarkDeep(b *testing.B, deep bool) {
	c := deepCheck(b, deep)
	tr := &filter.Transaction{Host: "www.harmless.org", URL: "https://www.harmless.org/some/where?a=b", Last: filter.Response, Request: &message.Request{Path: []byte("/some/where/app.min.js?a=b&lang=en&next=%2Fhome")}}
	b.ReportAllocs()
	for b.Loop() {
		for _, s := range []filter.Stage{filter.Name, filter.Request} {
			if f, err := c.Find(context.Background(), tr, s, nil); err != nil || len(f) > 0 {
				b.Fatalf("a request that no list has: got %v, %v, want nothing", f, err)
			}
		}
	}
}
