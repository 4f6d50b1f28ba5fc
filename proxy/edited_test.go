package proxy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"shuultuur/filter"
)

// hider changes pages of documents; its style sheet has one path.
type hider struct{ judge }

const (
	hidden      = "<style>.ad{}</style>"
	hiddenSheet = "/.well-known/shuultuur/hide-1.css"
)

func (hider) Changes(t *filter.Transaction, dst *filter.Changes) bool {
	dst.Reset()
	if string(t.Request.Get("Sec-Fetch-Dest")) != "document" {
		return false
	}
	dst.Style = append(dst.Style, ".ad{}"...)
	dst.Policies = append(dst.Policies, "script-src 'none'")
	return true
}

func (hider) Sheet(t *filter.Transaction, zip bool) ([]byte, bool, bool) {
	css := "sheet of " + t.Host
	if zip {
		css = zipped(css)
	}
	return []byte(css), zip, strings.HasSuffix(t.URL, hiddenSheet)
}

func zipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, s)
	z.Close()
	return b.String()
}

// tidyScript is what takes the rest of the changes out of the document again.
var tidyScript = regexp.MustCompile(`(?s)<script>\(\(\) => \{.*?</script>`)

// TestPagesAreChangedOnTheirWay: the decider's edits are in the pages, plain and
// compressed, short and long, judged and not; all else passes as it came.
func TestPagesAreChangedOnTheirWay(t *testing.T) {
	long := "<html><head>" + strings.Repeat("0123456789", 300_000)
	changed := func(s string) string { return strings.Replace(s, "<head>", "<head>"+hidden, 1) }
	const short = "<html><head></head>text"
	pages := map[string]struct {
		ctype, coding, body, want string
		status                    int
	}{
		"/short":     {"text/html", "", short, changed(short), 200},
		"/missing":   {"text/html; charset=utf-8", "", short, changed(short), 404},
		"/long":      {"text/html", "", long, changed(long), 200},
		"/zipped":    {"text/html", "gzip", zipped(short), changed(short), 200},
		"/longer":    {"text/html", "gzip", zipped(long), changed(long), 200},
		"/text":      {"text/plain", "", short, short, 200},
		"/br":        {"text/html", "br", short, short, 200},
		"/redirect":  {"text/html", "", short, short, 302},
		"/reference": {"text/html", "", "", "", 200},
	}
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/same" {
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Content-Security-Policy", "style-src 'self'")
			w.WriteHeader(304)
			return
		}
		p := pages[q.URL.Path]
		if got := q.Header.Get("Accept-Encoding"); got != "gzip" {
			t.Errorf("%s: the origin got Accept-Encoding %q, want gzip", q.URL, got)
		}
		w.Header().Set("Content-Type", p.ctype)
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Accept-Ranges", "bytes")
		if p.coding != "" {
			w.Header().Set("Content-Encoding", p.coding)
		}
		w.WriteHeader(p.status)
		io.WriteString(w, p.body)
	})
	for _, held := range []bool{false, true} {
		r := start(t, Config{}, Engine{Decider: hider{judge{wants: func(_ *filter.Transaction, s filter.Stage) bool { return held && s == filter.ResponseBody }}}})
		ask := func(path string, fields ...string) (*http.Response, string) {
			t.Helper()
			q, _ := http.NewRequest("GET", o.URL+path, nil)
			q.Header.Set("Sec-Fetch-Dest", "document")
			q.Header.Set("Accept-Encoding", "br, gzip, zstd")
			for i := 0; i < len(fields); i += 2 {
				q.Header.Set(fields[i], fields[i+1])
			}
			res, err := r.client().Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body := io.Reader(res.Body)
			if res.Header.Get("Content-Encoding") == "gzip" {
				if body, err = gzip.NewReader(body); err != nil {
					t.Fatalf("held %v, %s: reading the head of gzip: %v", held, path, err)
				}
			}
			b, err := io.ReadAll(body)
			b = tidyScript.ReplaceAll(b, nil)
			if err != nil {
				t.Errorf("held %v, %s: reading the page: %v after %d bytes", held, path, err, len(b))
			}
			return res, string(b)
		}
		for path, p := range pages {
			res, b := ask(path)
			is := p.want != p.body && p.coding == "" || p.coding == "gzip"
			if res.StatusCode != p.status || b != p.want || res.Header.Get("Content-Encoding") != p.coding {
				t.Errorf("held %v, %s: got %d, %q, %d bytes %.60q; want %d bytes %.60q", held, path, res.StatusCode, res.Header.Get("Content-Encoding"), len(b), b, len(p.want), p.want)
			}
			tag := map[bool]string{true: `W/"1"`, false: `"1"`}[is]
			if res.Header.Get("ETag") != tag || (res.Header.Get("Accept-Ranges") == "") != is || (res.Header.Get("Content-Security-Policy") != "") != is {
				t.Errorf("held %v, %s: the head has ETag, Accept-Ranges or Content-Security-Policy wrong: %v", held, path, res.Header)
			}
		}
		res, _ := ask("/same", "If-None-Match", `W/"1"`)
		if got := res.Header.Values("Content-Security-Policy"); len(got) != 2 || !strings.Contains(got[0], "'sha256-") || res.Header.Get("ETag") != `W/"1"` {
			t.Errorf("held %v: the fields of a 304 are %v", held, res.Header)
		}
		if _, b := ask(hiddenSheet); b != "sheet of 127.0.0.1" {
			t.Errorf("the style sheet is %q, want that of 127.0.0.1", b)
		}
	}
}

// TestAChangedPageThatIsCutShowsIt: a client does not take the cut page for a complete one.
func TestAChangedPageThatIsCutShowsIt(t *testing.T) {
	for _, coding := range []string{"", "gzip"} {
		o := origin(t, func(w http.ResponseWriter, q *http.Request) {
			page := "<html><head>" + strings.Repeat("x", 200_000)
			w.Header().Set("Content-Type", "text/html")
			if coding != "" {
				w.Header().Set("Content-Encoding", coding)
				page = zipped(page)
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(page)+1))
			io.WriteString(w, page[:len(page)-10])
		})
		r := start(t, Config{}, Engine{Decider: hider{}})
		q, _ := http.NewRequest("GET", o.URL, nil)
		q.Header.Set("Sec-Fetch-Dest", "document")
		q.Header.Set("Accept-Encoding", "gzip")
		res, err := r.client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("coding %q: read %d bytes of a cut page without an error", coding, len(b))
		}
		res.Body.Close()
	}
}

// TestHeadAgreesWithGet: about a changed page, and about what is saved instead of shown.
func TestHeadAgreesWithGet(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-MD5", "x")
		if q.URL.Path == "/saved" {
			w.Header().Set("Content-Disposition", "Attachment; filename=a.html")
		}
		page := "<html><head></head>" + strings.Repeat("x", 100_000)
		w.Header().Set("Content-Length", fmt.Sprint(len(page)))
		if q.Method != "HEAD" {
			io.WriteString(w, page)
		}
	})
	r := start(t, Config{}, Engine{Decider: hider{}})
	for path, changed := range map[string]bool{"/": true, "/saved": false} {
		var heads []http.Header
		for _, method := range []string{"GET", "HEAD"} {
			q, _ := http.NewRequest(method, o.URL+path, nil)
			q.Header.Set("Sec-Fetch-Dest", "document")
			res, err := r.client().Do(q)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || strings.Contains(string(b), hidden) != (changed && method == "GET") {
				t.Errorf("%s %s: %d bytes, %v", method, path, len(b), err)
			}
			res.Header.Del("Date")
			heads = append(heads, res.Header)
		}
		if got, want := fmt.Sprint(heads[1]), fmt.Sprint(heads[0]); got != want || (heads[0].Get("ETag") != `"1"`) != changed || (heads[0].Get("Content-Length") == "") != changed {
			t.Errorf("%s: HEAD has %s\nGET has %s", path, got, want)
		}
	}
}

// TestAPageThatMustNotBeTransformedStaysAsItIs, whoever says so; what lists forbid it to do stays forbidden.
func TestAPageThatMustNotBeTransformedStaysAsItIs(t *testing.T) {
	const page = "<html><head></head>text"
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("ETag", `"1"`)
		for _, v := range q.Header["Answer"] {
			w.Header().Add("Cache-Control", v)
		}
		if q.URL.Path == "/same" {
			w.WriteHeader(304)
			return
		}
		io.WriteString(w, page)
	})
	r := start(t, Config{}, Engine{Decider: hider{}})
	for _, tt := range []struct {
		asked, answered []string
		changed         bool
	}{
		{nil, nil, true},
		{nil, []string{"max-age=60"}, true},
		{nil, []string{"x-no-transform"}, true},
		{nil, []string{"no-transform"}, false},
		{nil, []string{"max-age=60, No-Transform"}, false},
		{nil, []string{"max-age=60", "public,no-transform"}, false},
		{[]string{"no-transform"}, nil, false},
	} {
		for _, path := range []string{"/page", "/same"} {
			for _, method := range []string{"GET", "HEAD"} {
				q, _ := http.NewRequest(method, o.URL+path, nil)
				q.Header.Set("Sec-Fetch-Dest", "document")
				q.Header["Cache-Control"], q.Header["Answer"] = tt.asked, tt.answered
				res, err := r.client().Do(q)
				if err != nil {
					t.Fatal(err)
				}
				b, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if path == "/page" && method == "GET" && (string(b) == page) == tt.changed {
					t.Errorf("asked %q, answered %q: got %q", tt.asked, tt.answered, b)
				}
				if got := res.Header.Get("ETag") != `"1"`; got != tt.changed {
					t.Errorf("%s %s, asked %q, answered %q: ETag %q", method, path, tt.asked, tt.answered, res.Header.Get("ETag"))
				}
				if csp := res.Header.Values("Content-Security-Policy"); len(csp) != 1 || !strings.HasPrefix(csp[0], "script-src ") {
					t.Errorf("%s %s, asked %q, answered %q: policies %q", method, path, tt.asked, tt.answered, csp)
				}
			}
		}
	}
}
