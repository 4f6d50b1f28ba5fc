package warm

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestURLsAreFetchedThroughTheProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/new":
			w.Header().Set("Cache-Status", "x; fwd=miss; stored")
		case "/had":
			w.Header().Set("Cache-Status", "x; hit")
		case "/gone":
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	w := Warmer{Proxy: at, Failed: func(string, error) { failed++ }}
	got, err := w.Run(t.Context(), strings.NewReader("http://a.example/new\n# a comment\nhttp://a.example/had\nhttp://a.example/never\nhttp://a.example/gone\nftp://a.example/\n"), 2)
	if want := (Counts{Stored: 1, Had: 1, Not: 1, Failed: 2}); err != nil || got != want || failed != 2 {
		t.Errorf("got %+v, %v, and was told of %d failures; want %+v", got, err, failed, want)
	}
}
