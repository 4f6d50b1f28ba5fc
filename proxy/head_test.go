package proxy

import (
	"bytes"
	"strings"
	"testing"

	"shuultuur/message"
)

// FuzzForwardedHead reads what goes to the origin or to a parent: the request
// that was judged, and nothing that is for this connection only.
func FuzzForwardedHead(f *testing.F) {
	for _, s := range []string{
		"GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n",
		"GET http://x.test?a b HTTP/1.1\r\nHost: y.test\r\nUser-Agent: a\r\nProxy-Connection: keep-alive\r\n\r\n",
		"OPTIONS http://x.test HTTP/1.1\r\nHost: x.test\r\nConnection: close, x\r\nX: 1\r\nTE: trailers\r\n\r\n",
		"POST http://[::1]:99/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\nExpect: 100-continue\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n",
		"POST http://x.test/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: content-length, host\r\nCookie: shuultuur=a; b=c\r\n\r\nabc",
		"GET http://x.test/ HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\nAccept-Encoding: gzip, x;q=1\r\n\r\n",
		"TRACE http://x.test/ HTTP/1.1\r\nHost: x.test\r\nMax-Forwards: 3\r\nVia: 1.1 a, 1.0 fuzz\r\n\r\n",
		"GET http://x.test/ HTTP/1.0\r\nKeep-Alive: 3\r\nProxy-Authorization: Basic YTpi\r\n\r\n",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	p, err := New(Config{Via: "fuzz"}, &Engine{Identify: anybody, Decider: judge{}}, nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	p.up.parent = &parent{}
	f.Fuzz(func(t *testing.T, in []byte, toParent bool) {
		x := &session{p: p}
		err := message.NewReader(bytes.NewReader(in), 0, 8<<10).ReadRequest(&x.q)
		if err != nil || x.q.Form != message.Absolute || x.q.Scheme != "http" || !x.address() {
			return
		}
		x.requestHead(toParent, x.q.Length)
		var q message.Request
		if err := message.NewReader(bytes.NewReader(x.out), 0, 64<<10).ReadRequest(&q); err != nil {
			t.Fatalf("%q goes on as %q, which is refused: %v", in, x.out, err)
		}
		if len(x.out) != len(q.Raw()) {
			t.Fatalf("%q goes on as %q: more than a head", in, x.out)
		}
		port := q.Port
		if port == 0 {
			port = 80
		}
		if q.Method != x.q.Method || !bytes.Equal(q.Host, x.q.Host) && !toParent || port != x.t.Port || q.Length != x.q.Length {
			t.Fatalf("%q goes on as %q: %s to %q port %d, length %d", in, x.out, q.Method, q.Host, q.Port, q.Length)
		}
		if host, _ := cleanHost(q.Host); toParent && !strings.Contains(x.t.Host, ":") && host != x.t.Host {
			t.Fatalf("%q goes on as %q: to %q, and %q was judged", in, x.out, q.Host, x.t.Host)
		}
		if path := q.Path; !bytes.Equal(path, x.q.Path) && (!toParent || string(x.q.Path) != "*") {
			t.Fatalf("%q goes on as %q: path %q", in, x.out, path)
		}
		for _, name := range []string{"Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "TE"} {
			if q.Has(name) {
				t.Fatalf("%q goes on as %q, with %s", in, x.out, name)
			}
		}
	})
}
