package gateway

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/intercept"
)

// endless are kinds of answers that programs read while they come, with a piece of each.
var endless = []struct{ name, ctype, piece string }{
	{"text", "text/plain; charset=utf-8", "a word "},
	{"text of other letters", "text/plain; charset=utf-16le", "a\x00 \x00"},
	{"text without a type", "", "a word "},
	{"components", "text/x-component", `1:["$","p",null,{}]` + "\n"},
	{"JSON", "application/json", `{"a": "word"}, `},
	{"JSON in one text", "application/json", "a word "},
	{"JSON of an API", "application/vnd.api+json", `{"a": "word"}, `},
	{"lines of JSON", "application/x-ndjson", `{"a": "word"}` + "\n"},
	{"lines of JSON by another name", "application/jsonl", `{"a": "word"}` + "\n"},
	{"lines of JSON in JSON", "application/json", `{"a": "word"}` + "\n"},
	{"a sequence of JSON", "application/json-seq", "\x1e" + `{"a": "word"}` + "\n"},
	{"a stream of JSON", "application/stream+json", `{"a": "word"}` + "\n"},
	{"parts", "multipart/mixed; boundary=b", "--b\r\nContent-Type: application/json\r\n\r\n{\"a\": 1}\r\n"},
	{"parts that replace each other", "multipart/x-mixed-replace; boundary=b", "--b\r\nContent-Type: image/jpeg\r\n\r\n\xff\xd8\xff\xd9\r\n"},
	{"bytes", "application/octet-stream", "\x01\x02\x03\x00"},
	{"bytes that are text", "application/octet-stream", "a word "},
	{"events", "text/event-stream", "data: word\n\n"},
	{"comments of events", "text/event-stream", ": word\n"},
	{"XML", "application/xml", "<a>word</a>"},
	{"a feed", "application/atom+xml", "<a>word</a>"},
	{"a script", "text/javascript", `f("word");` + "\n"},
	{"comma-separated values", "text/csv", "a,word\n"},
	{"a log", "text/x-log", "a word\n"},
	{"Markdown", "text/markdown", "a *word* "},
	{"subtitles", "text/vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\nword\n\n"},
	{"a play list", "application/vnd.apple.mpegurl", "#EXTM3U\n"},
	{"gRPC on the web", "application/grpc-web+proto", "\x00\x00\x00\x00\x02\x0a\x00"},
	{"gRPC as text", "application/grpc-web-text", "AAAAAAIKAA=="},
	{"protobuf", "application/x-protobuf", "\x0a\x04word"},
	{"CBOR", "application/cbor", "\x64word"},
	{"an unknown type", "application/x-of-ours", "a word "},
	{"sound", "audio/mpeg", "\xff\xfb\x90\x00"},
	{"film", "video/mp2t", "\x47\x40\x00\x10"},
	{"a page", "text/html", strings.Repeat("<p>A sentence of a page.", 500)},
}

// A client gets what an origin sends without an end while it comes, however small the pieces are: the
// origin here ends its answer when the client has seen a part.
func TestAnswersArriveWhileTheyCome(t *testing.T) {
	seen := make(map[string]chan struct{})
	var mu sync.Mutex
	waiting := func(id string) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if seen[id] == nil {
			seen[id] = make(chan struct{})
		}
		return seen[id]
	}
	answer := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var n int
		_, _ = fmt.Sscan(q.FormValue("n"), &n)
		w.Header()["Content-Type"] = nil
		if of := endless[n]; of.ctype != "" {
			w.Header().Set("Content-Type", of.ctype)
		}
		out := http.NewResponseController(w)
		var to io.Writer = w
		flush := func() {}
		if q.FormValue("packed") != "" {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			to, flush = z, func() { _ = z.Flush() }
		}
		every := time.NewTicker(20 * time.Millisecond)
		defer every.Stop()
		for {
			if _, err := io.WriteString(to, endless[n].piece); err != nil {
				return
			}
			flush()
			if out.Flush() != nil {
				return
			}
			select {
			case <-waiting(q.URL.RawQuery):
				return
			case <-q.Context().Done():
				return
			case <-every.C:
			}
		}
	})
	origin := httptest.NewServer(answer)
	defer origin.Close()
	secure, trust := secureOrigin(t, answer)
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	file := folder(t, map[string]string{"words": "<gross><40>\n", "banned": "<verboten>\n", "trust.pem": trust, "shuultuur.yaml": `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
proxy: {private: [127.0.0.0/8], connect-ports: [443, 1024-65535]}
intercept: {root: root.pem, trust: [trust.pem]}
checks: {phrase: {weighted: [words], banned: [banned]}}
policies:
  - name: all
    decrypt: true
    rules:
      - {name: banned, action: block, category: [phrase/bannedphrase]}
      - {name: words, action: block, category: [phrase], over: 50}
      - {name: unread, action: block, category: [unread]}
`})
	if err := root.Write(filepath.Join(filepath.Dir(file), "root.pem"), false); err != nil {
		t.Fatal(err)
	}
	g := serving(t, file)
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: g.ProxyAddr()}), ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true}
	defer transport.CloseIdleConnections()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var all sync.WaitGroup
	for n, of := range endless {
		for _, at := range []string{origin.URL, secure.URL} {
			for _, packed := range []string{"", "&packed=yes"} {
				all.Go(func() {
					query := fmt.Sprintf("n=%d%s&secure=%v", n, packed, at == secure.URL)
					q, _ := http.NewRequestWithContext(ctx, "GET", at+"/?"+query, nil)
					if packed != "" {
						q.Header.Set("Accept-Encoding", "gzip")
					}
					res, err := transport.RoundTrip(q)
					if err != nil {
						t.Errorf("%s, %s: %v", of.name, query, err)
						return
					}
					defer res.Body.Close()
					if _, err := io.ReadFull(res.Body, make([]byte, 1)); err != nil {
						t.Errorf("%s, %s: status %d, nothing came: %v", of.name, query, res.StatusCode, err)
						return
					}
					close(waiting(query))
					if _, err := io.Copy(io.Discard, res.Body); err != nil && !errors.Is(err, io.EOF) {
						t.Errorf("%s, %s: %v", of.name, query, err)
					}
				})
			}
		}
	}
	all.Wait()
}
