package admin

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func handler(ready bool) http.Handler {
	return Handler(Parts{
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "metric 1\n") }),
		Health:  func() Health { return Health{Ready: ready, Revision: "abc", Problems: []string{"a list is old"}} },
	})
}

func TestRoutes(t *testing.T) {
	for _, c := range []struct {
		path, host string
		ready      bool
		status     int
		contains   string
	}{
		{"/metrics", "127.0.0.1:8081", true, 200, "metric 1"},
		{"/health", "localhost:8081", false, 200, `"problems":["a list is old"]`},
		{"/ready", "[::1]:8081", true, 200, `"ready":true`},
		{"/ready", "127.0.0.1", false, 503, `"ready":false`},
		{"/debug/pprof/", "127.0.0.1", true, 200, "goroutine"},
		{"/debug/pprof/cmdline", "127.0.0.1", true, 200, "admin.test"},
		{"/", "127.0.0.1", true, 200, "/metrics"},
		{"/nothing", "127.0.0.1", true, 404, ""},
		{"/metrics", "rebound.example", true, 403, "by address"},
		{"/debug/pprof/", "localhost.evil.example:8081", true, 403, "by address"},
	} {
		r := httptest.NewRequest("GET", "http://x"+c.path, nil)
		r.Host = c.host
		w := httptest.NewRecorder()
		handler(c.ready).ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.contains) {
			t.Errorf("GET %s from %q: got %d %q, want %d with %q", c.path, c.host, w.Code, w.Body, c.status, c.contains)
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "http://127.0.0.1/metrics", nil)
	handler(true).ServeHTTP(w, r)
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST /metrics: got %d, want 405", w.Code)
	}
}

func TestServeStopsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, handler(true)) }()
	res, err := http.Get("http://" + l.Addr().String() + "/health")
	if err != nil {
		t.Fatal(err)
	}
	var h Health
	if err := json.NewDecoder(res.Body).Decode(&h); err != nil || h.Revision != "abc" {
		t.Errorf("health: got %+v, %v", h, err)
	}
	res.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve after its context ended: %v", err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("still accepting after Serve returned")
	}
}
