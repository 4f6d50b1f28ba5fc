package web_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/admintest"
)

func TestStaticFilesAreKeptForEverByTheirDigest(t *testing.T) {
	h := admin.New(admintest.Nobody())
	page := admintest.Ask(h, "GET", "/", "text/html", "").Body.String()
	total := len(page)
	gz := func(r *http.Request) { r.Header.Set("Accept-Encoding", "br, gzip;q=0.9") }
	found := map[string]bool{}
	for _, f := range regexp.MustCompile(`(?:href|src)="(/static/[^"#]+)`).FindAllStringSubmatch(page, -1) {
		found[f[1]] = true
	}
	if len(found) != 7 { // two style sheets, a font, the mark and the icons, htmx and what is between it and the pages
		t.Fatalf("the start page loads %v", found)
	}
	for f := range found {
		w := admintest.Ask(h, "GET", f, "", "", gz)
		total += w.Body.Len()
		plain := admintest.Ask(h, "GET", f, "", "", func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip;q=0") })
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatalf("decompressing %s: %v", f, err)
		}
		if b, err := io.ReadAll(z); err != nil || !bytes.Equal(b, plain.Body.Bytes()) || len(b) == 0 || plain.Header().Get("Content-Encoding") != "" || plain.Header().Get("ETag") == w.Header().Get("ETag") {
			t.Errorf("%s: %v, %d bytes compressed, %d plain; %v", f, err, len(b), plain.Body.Len(), plain.Header())
		}
		if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Header().Get("ETag") == "" {
			t.Errorf("%s: status %d, header %v; want it cached", f, w.Code, w.Header())
		}
		again := admintest.Ask(h, "GET", f, "", "", gz, func(r *http.Request) { r.Header.Set("If-None-Match", w.Header().Get("ETag")) })
		if again.Code != http.StatusNotModified {
			t.Errorf("%s with its ETag: status %d, want 304", f, again.Code)
		}
	}
	if total > 150<<10 {
		t.Errorf("the first page loads %d bytes, want at most 150 KiB", total)
	}
	if w := admintest.Ask(h, "GET", "/static/0000/face.css", "", ""); w.Code != 200 || w.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("a file under another digest: status %d, header %v; want it uncached", w.Code, w.Header())
	}
	for _, bad := range []string{"/static/0/../admin.go", "/static/0/none.css", "/static/0/..%2fadmin.go"} {
		if w := admintest.Ask(h, "GET", bad, "", ""); w.Code == 200 {
			t.Errorf("the server serves %s", bad)
		}
	}
}

// Whoever reads in another language loads a file of letters more.
func TestLettersAndStylesAreSmall(t *testing.T) {
	h := admin.New(admintest.Nobody())
	page := admintest.Ask(h, "GET", "/", "text/html", "").Body.String()
	gz := func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") }
	styles, letters, named := 0, 0, 0
	for _, f := range regexp.MustCompile(`href="(/static/[^"]+/(?:tokens|face)\.css)"`).FindAllStringSubmatch(page, -1) {
		styles += admintest.Ask(h, "GET", f[1], "", "", gz).Body.Len()
		css := admintest.Ask(h, "GET", f[1], "", "").Body.String()
		for _, u := range regexp.MustCompile(`url\("([^"]+)"\)`).FindAllStringSubmatch(css, -1) {
			w := admintest.Ask(h, "GET", u[1], "", "")
			if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Header().Get("Content-Type") != "font/woff2" {
				t.Errorf("%s names %s: status %d, header %v", f[1], u[1], w.Code, w.Header())
			}
			letters += w.Body.Len()
			named++
		}
	}
	if styles == 0 || styles > 18<<10 {
		t.Errorf("the style sheets take %d bytes compressed, want at most 18 KiB", styles)
	}
	if named != 4 || letters > 45<<10 {
		t.Errorf("%d files of letters take %d bytes, want four with at most 45 KiB", named, letters)
	}
}
