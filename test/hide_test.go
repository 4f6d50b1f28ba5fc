package test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAdsAreHidden: if the policy says hide, EasyList hides elements in a browser, even on
// pages with a strict content security policy, but not where a rule excepts the page. Further
// rules change headers and block pop-up windows. A block page must not be framed.
func TestAdsAreHidden(t *testing.T) {
	if os.Getenv("SHUULTUUR_DATA") == "" {
		t.Skip("EasyList is in SHUULTUUR_DATA, which is not set")
	}
	const class = "ADBox" // EasyList hides it on all pages
	page := "<!DOCTYPE html><html><head><title>news</title></head><body><p id=text>news<div id=ad class=" + class + ">AD</div><div id=own class=only-here>X</div></body></html>"
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if strings.HasPrefix(q.Host, "strict.") {
			w.Header().Set("Content-Security-Policy", "default-src 'none'")
		}
		fmt.Fprint(w, page)
	}))
	t.Cleanup(o.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(o.URL, "http://"), ":")
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("easylist.txt", readZipped(t, filepath.Join(os.Getenv("SHUULTUUR_DATA"), "lists", "easylist.txt.gz"))+`
plain.example,strict.example##.only-here
excepted.example#@#.`+class+`
@@||generic.example^$generichide
@@||whole.example^$elemhide
generic.example,whole.example##.only-here
||head.example^$csp=script-src 'none'
||head.example^$permissions=geolocation=()
||window.example^$popup
`)
	write("bad.txt", "bad.example\n")
	write("doubtful.txt", "doubtful.example\n")
	write("shuultuur.yaml", `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
proxy: {private: [127.0.0.0/8], safe-ports: [any], parent: "`+o.URL+`"}
lists:
  ads: {path: easylist.txt, format: adblock}
  bad: {path: bad.txt, format: domains}
  doubtful: {path: doubtful.txt, format: domains}
checks: {category: {lists: [ads, bad, doubtful]}}
policies:
  - name: all
    hide: true
    rules:
      - {name: refused, action: block, category: [bad, ads]}
      - {name: doubt, action: warn, category: [doubtful]}
`)
	p := start(t, filepath.Join(dir, "shuultuur.yaml"))
	ask := func(host string, fields ...string) *http.Response {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+host+".example:"+port+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Sec-Fetch-Dest", "document")
		for i := 0; i < len(fields); i += 2 {
			q.Header.Set(fields[i], fields[i+1])
		}
		res, err := through(p.proxy).Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		return res
	}
	for _, host := range []string{"bad", "doubtful"} {
		res := ask(host, "Accept", "text/html")
		policy := res.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if res.StatusCode != 403 || !strings.Contains(policy, want) {
				t.Errorf("%s: status %d, Content-Security-Policy %q; want 403 and %s", host, res.StatusCode, policy, want)
			}
		}
	}
	if res := ask("head"); !strings.HasPrefix(res.Header.Get("Content-Security-Policy"), "script-src 'sha256-") || res.Header.Get("Permissions-Policy") != "geolocation=()" {
		t.Errorf("fields that rules change: got %v", res.Header)
	}
	if res := ask("window", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Referer", "http://x.example/"); res.StatusCode != 403 {
		t.Errorf("a pop-up window that another site opens: status %d, want 403", res.StatusCode)
	}
	if res := ask("window"); res.StatusCode != 200 {
		t.Errorf("a page of the same name as the pop-up window: status %d, want 200", res.StatusCode)
	}
	b := newBrowser(t, p.proxy, "--proxy-bypass-list=<-loopback>")
	for _, tt := range []struct{ host, ad, own string }{
		{"plain", "none", "none"},
		{"strict", "none", "none"},
		{"excepted", "block", "block"},
		{"generic", "block", "none"},
		{"whole", "block", "block"},
	} {
		b.open("http://" + tt.host + ".example:" + port + "/")
		for id, want := range map[string]string{"ad": tt.ad, "own": tt.own, "text": "block"} {
			if got := b.script("return getComputedStyle(document.getElementById('" + id + "')).display"); got != want {
				t.Errorf("%s: display of %s is %v, want %s", tt.host, id, got, want)
			}
		}
	}
}

// TestHidingLeavesTheDocumentAlone: where elements are hidden, the scripts of the page find the
// document that its server sent, as frameworks need that hydrate all of it, and what they do to style
// sheets and documents does not show the elements again.
func TestHidingLeavesTheDocumentAlone(t *testing.T) {
	t.Parallel()
	const page = `<!DOCTYPE html><html><head><meta charset="utf-8"><script>window.sent = document.documentElement.outerHTML</script>` +
		`<style>#text { color: rgb(1, 2, 3) }</style><script>window.scripts = [document.scripts.length, document.scripts[0].textContent.slice(0, 11), document.styleSheets.length]</script><title>ä</title></head>` +
		`<body><p id="text">news</p><div id="ad" class="advert">AD</div><div id="own" class="here">X</div></body></html>`
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch {
		case strings.HasPrefix(q.Host, "strict."):
			w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-abc' 'strict-dynamic'; style-src 'nonce-abc'; require-trusted-types-for 'script'")
			fmt.Fprint(w, strings.NewReplacer("<script>", "<script nonce=abc>", "<style>", "<style nonce=abc>").Replace(page))
			return
		case strings.HasPrefix(q.Host, "sandbox."):
			w.Header().Set("Content-Security-Policy", "sandbox")
		}
		fmt.Fprint(w, page)
	}))
	t.Cleanup(o.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(o.URL, "http://"), ":")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"ads.txt": "##.advert\nplain.example,strict.example,sandbox.example##.here\n",
		"shuultuur.yaml": `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
proxy: {private: [127.0.0.0/8], safe-ports: [any], parent: "` + o.URL + `"}
lists:
  ads: {path: ads.txt, format: adblock}
checks: {category: {lists: [ads]}}
policies:
  - name: all
    hide: true
    rules: [{name: refused, action: block, category: [ads]}]
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, filepath.Join(dir, "shuultuur.yaml"))
	b := newBrowser(t, p.proxy)
	hidden := func(when string) {
		t.Helper()
		for id, want := range map[string]string{"ad": "none", "own": "none", "text": "block"} {
			if got := b.script("return getComputedStyle(document.getElementById('" + id + "')).display"); got != want {
				t.Errorf("%s: display of %s is %v, want %s", when, id, got, want)
			}
		}
	}
	for _, host := range []string{"plain", "strict"} {
		b.open("http://" + host + ".example:" + port + "/")
		hidden(host)
		sent := fmt.Sprint(b.script("return window.sent"))
		if want := `<html><head><meta charset="utf-8"><script`; !strings.HasPrefix(sent, want) {
			t.Errorf("%s: the document that the first script saw is %s, want it to begin with %s", host, sent, want)
		}
		if got := fmt.Sprint(b.script("return window.scripts")); got != "[2 window.sent 1]" {
			t.Errorf("%s: scripts and style sheets in the page are %s, want its own alone", host, got)
		}
		if got := b.script("return document.title + document.styleSheets[0].cssRules[0].selectorText + document.head.firstElementChild.localName + document.documentElement.outerHTML.includes('shuultuur')"); got != "ä#textmetafalse" {
			t.Errorf("%s: title, first style sheet and head are %v", host, got)
		}
		b.script("document.adoptedStyleSheets = []; const s = new CSSStyleSheet(); document.adoptedStyleSheets.push(s); document.adoptedStyleSheets = [s]")
		hidden(host + ", after the page set its own adopted style sheets")
		b.script("document.replaceChild(document.documentElement.cloneNode(true), document.documentElement)")
		hidden(host + ", after the page replaced its document")
	}
	b.open("http://sandbox.example:" + port + "/")
	hidden("a page whose scripts do not run")
}

func readZipped(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
