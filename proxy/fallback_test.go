package proxy

import (
	"bufio"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/filter"
)

func TestHTTPSFailsFirstAndIsExplainedToWhoWantsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fallbacks
		a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		typed, other, upgraded := pin{a, "site.test"}, pin{b, "site.test"}, pin{a, "old.test"}
		f.take(a, "old.test") // before anything has failed
		for _, tt := range []struct {
			after time.Duration
			k     pin
			http  bool // the client asks by http before
			want  bool
		}{
			{0, typed, false, true},
			{100 * time.Millisecond, typed, false, true}, // the same attempt with other offers
			{time.Second, typed, false, false},           // reloaded
			{0, other, false, true},
			{0, upgraded, false, true},
			{0, upgraded, true, true},
			{time.Minute, upgraded, false, true},
			{9 * time.Minute, upgraded, false, true},
			{time.Minute, typed, false, true}, // forgotten
			{time.Second, typed, false, false},
		} {
			time.Sleep(tt.after)
			if tt.http {
				f.take(tt.k.client, tt.k.host)
			}
			if got := f.fails(tt.k, time.Now()); got != tt.want {
				t.Errorf("%+v: fails %v, want %v", tt, got, tt.want)
			}
		}
	})
}

func TestFallbacksTakeLimitedMemory(t *testing.T) {
	var f fallbacks
	for i := range 3 * maxFallbacks {
		f.fails(pin{host: fmt.Sprint(i)}, time.Now())
	}
	if n := len(f.all); n > maxFallbacks {
		t.Errorf("%d fallbacks are remembered, want %d at most", n, maxFallbacks)
	}
}

func TestWebSocketAskedForByItsOwnScheme(t *testing.T) {
	o := chatOrigin(t)
	r := start(t, Config{}, Engine{})
	for _, tt := range []struct{ scheme, fields, want string }{
		{"ws", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "HTTP/1.1 101 "},
		{"WS", "Connection: Upgrade\r\nUpgrade: WebSocket\r\n", "HTTP/1.1 101 "},
		{"http", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "HTTP/1.1 101 "},
		{"ws", "", "HTTP/1.1 501 "},
		{"ws", "Upgrade: websocket\r\n", "HTTP/1.1 501 "}, // Connection does not name it
		{"ftp", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "HTTP/1.1 501 "},
	} {
		c, br := r.raw()
		fmt.Fprintf(c, "GET %s://%s/chat HTTP/1.1\r\nHost: x\r\n%sSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", tt.scheme, o, tt.fields)
		if head := readHead(br); !strings.HasPrefix(head, tt.want) {
			t.Errorf("%s with %q: got %q, want %q", tt.scheme, tt.fields, head, tt.want)
		}
		c.Close()
	}
}

// chatOrigin agrees to every upgrade.
func chatOrigin(t *testing.T) string {
	return strings.TrimPrefix(origin(t, func(rw http.ResponseWriter, q *http.Request) {
		c, _, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptKey(q.Header.Get("Sec-WebSocket-Key")))
		c.Close()
	}).URL, "http://")
}

func TestHTTPSAskedOfTheProxyItself(t *testing.T) {
	w := newWorld(t)
	serve := func(rw http.ResponseWriter, q *http.Request) {
		fmt.Fprintf(rw, "%s %s over %s", q.Method, q.URL, q.Proto)
	}
	one, two := w.origin2(t, false, serve), w.origin2(t, true, serve)
	_, bad := w.origin(t, w.leaf(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), serve)
	r := start(t, Config{}, Engine{Intercept: w.in, Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) (v filter.Verdict) {
		for _, f := range x.Findings {
			if f.Check == "certificate" {
				return block("certificate")
			}
		}
		return v
	}}})
	for _, tt := range []struct {
		host   string
		status int
		want   string
	}{{one, 200, "GET /page?q over HTTP/1.1"}, {two, 200, "GET /page?q over HTTP/2.0"}, {bad, 403, ""}} {
		c, br := r.raw()
		fmt.Fprintf(c, "GET https://%s/page?q HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", tt.host, tt.host)
		res, err := http.ReadResponse(bufio.NewReader(br), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		if res.StatusCode != tt.status || tt.want != "" && string(b) != tt.want {
			t.Errorf("%s: got %d %.200q, want %d %q", tt.host, res.StatusCode, b, tt.status, tt.want)
		}
	}
}
