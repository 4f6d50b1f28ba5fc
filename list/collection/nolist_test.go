package collection

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"shuultuur/list"
	"shuultuur/list/source"
)

// instead is what servers give in place of a list.
var instead = map[string]string{
	"page":        "<!DOCTYPE html>\n<html><head>\n<style>\nbody {\n margin: 0;\n}\n/* x */\n*/\n</style>\n<script>\nvar x = 1;\n</script></head>\n<body><p>\nlogin.example\n</p></body></html>\n",
	"script":      "(function () {\n  var a = window.b;\n  if (!a) {\n    return;\n  }\n  /* x\n   */\n  a.push({\n    x: 1,\n  });\n})();\n",
	"style sheet": "body {\n  margin: 0;\n}\n\na:hover {\n  color: red;\n}\n*/\n",
	"readme":      "# The list\n\nThis list blocks advertisements and trackers on many sites.\n\nTo use it, add this address to your settings:\n\n    https://lists.example/ads.txt\n\nPlease report mistakes to the authors of the list.\nIt is updated each day, and free for any use.\n",
	"error":       "404: Not Found",
	"sentence":    "The requested file could not be found on this server.\nPlease contact the administrator.\n",
	"object":      "{\"message\": \"Not Found\", \"host\": \"api.example\", \"status\": \"404\"}",
	"pointer":     "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n",
	"link":        "../data/ads.txt",
	"document":    "%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\nendobj\n",
	"settings":    "name: ads\nevery: 24h\nsources:\n  - url: x\n    kind: y\n  - url: z\n    kind: y\n",
	"challenge":   "<!DOCTYPE html><html lang=\"en-US\"><head><title>Just a moment...</title></head><body><noscript>Enable JavaScript and cookies to continue</noscript></body></html>",
	"login":       "<html><body><form action=\"/login\" method=\"post\"><input name=\"user\"></form></body></html>\n",
	"feed":        "<?xml version=\"1.0\"?>\n<rss version=\"2.0\"><channel><title>News</title></channel></rss>\n",
	"denied":      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
	"limit":       "Rate limit exceeded; try again later.\n",
	"picture":     "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00",
	"program":     "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00>\x00\x01\x00\x00\x00",
	"nothing":     "",
	"mail":        "From: a@mail.example\nTo: b@mail.example\nSubject: The list\n\nDear all,\n\nthe list has moved to another place.\nGreetings, the author\n",
}

// labels are what servers call it; "" is nothing.
var labels = []string{"text/plain", "text/html; charset=utf-8", "application/octet-stream", "application/xhtml+xml", "", "application/json", "text/csv"}

// TestWhatIsNoListIsTakenInNoFormat: whatever its label, first and in place of a good version. Each kind has
// all labels in turn, over the formats.
func TestWhatIsNoListIsTakenInNoFormat(t *testing.T) {
	client := source.NewClient(nil, func(string) bool { return false }, (&net.Dialer{}).DialContext)
	good := map[list.FormatName]string{
		"adblock": "||%d.a.example^\n", "expressions": "(^|[.])%d[.]a[.]example\n", "pihole": "(\\.|^)%d\\.a\\.example$\n", "e2guardian-regexp": "%d\\.a\\.example\n",
		"hosts": "0.0.0.0 %d.a.example\n", "domains": "%d.a.example\n", "wildcard": "*.%d.a.example\n", "dnsmasq": "address=/%d.a.example/\n", "rpz": "%d.a.example CNAME .\n",
		"unbound": "local-zone: \"%d.a.example\" always_nxdomain\n", "networks": "192.0.2.%d\n", "csv": "%d.a.example\n", "e2guardian": "%d.a.example\n", "json": "\"%d.a.example\"\n", "": "%d.a.example\n",
	}
	turn := 0
	next := func() string {
		turn++
		return labels[turn%len(labels)]
	}
	kinds := slices.Sorted(maps.Keys(instead))
	for _, format := range slices.Sorted(maps.Keys(good)) {
		line := good[format]
		data := t.TempDir()
		var content, label string
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if w.Header()["Content-Type"] = nil; label != "" {
				w.Header().Set("Content-Type", label)
			}
			_, _ = w.Write([]byte(content))
		}))
		defer srv.Close()
		cfg := Config{"ads": {Config: list.Config{Format: format}, Fetch: source.Config{URL: []string{srv.URL}, Shrink: "99%"}}}
		c, err := update(t, cfg, data)
		if err != nil {
			t.Fatal(err)
		}
		refuse := func(when string) {
			for _, what := range kinds {
				content, label = instead[what], next()
				if got, err := c.Update(t.Context(), client, "ads"); err == nil {
					t.Errorf("%q, %s: %s as %s is taken: %d entries", format, when, what, label, got.Entries)
				}
			}
		}
		refuse("first")
		list := ""
		for i := range 50 {
			list += fmt.Sprintf(line, i)
		}
		for _, label = range labels[2:] { // each is taken
			content = list
			if _, err := c.Update(t.Context(), client, "ads"); err != nil {
				t.Errorf("%q: a list labelled %q: %v", format, label, err)
			}
			list += fmt.Sprintf(line, 50+len(list)%50)
		}
		content, label = list, "text/html; charset=utf-8"
		if got, err := c.Update(t.Context(), client, "ads"); err != nil || !got.Updated {
			t.Fatalf("%q: a list labelled %s: %+v, %v", format, label, got, err)
		}
		refuse("later")
		content = strings.Replace(list, "\n", "\n\n", 5)
		if got, err := c.Update(t.Context(), client, "ads"); err != nil {
			t.Errorf("%q: a list with comments: %+v, %v", format, got, err)
		}
	}
}
