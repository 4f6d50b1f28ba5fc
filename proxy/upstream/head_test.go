package upstream

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/message"
	"shuultuur/proxy/exchange"
)

// FuzzForwardedHead reads the heads sent to the origin or to a parent: the
// request that was judged, and nothing that is for this connection only.
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
	inspector, err := exchange.NewInspector(exchange.Config{})
	if err != nil {
		f.Fatal(err)
	}
	up, err := New(Config{Parent: "http://parent.test"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte, toParent bool) {
		var x exchange.Exchange
		inspector.Exchange(&x)
		x.Begin(&exchange.Engine{}, time.Now(), "id")
		err := message.NewReader(bytes.NewReader(in), 0, 8<<10).ReadRequest(&x.Q)
		if err != nil || x.Q.Form != message.Absolute || x.Q.Scheme != "http" {
			return
		}
		if x.T.Port = x.Q.Port; x.T.Port == 0 {
			x.T.Port = 80
		}
		var out message.Request
		x.MakeOutgoing(&out)
		head := up.appendHead(nil, &out, toParent, nil)
		var q message.Request
		if err := message.NewReader(bytes.NewReader(head), 0, 64<<10).ReadRequest(&q); err != nil {
			t.Fatalf("%q is forwarded as %q, which our reader refuses: %v", in, head, err)
		}
		if len(head) != len(q.Raw()) {
			t.Fatalf("%q is forwarded as %q, which is more than a head", in, head)
		}
		port := q.Port
		if port == 0 {
			port = 80
		}
		clean := func(h []byte) string { return string(appendClean(nil, h)) }
		if q.Method != x.Q.Method || clean(q.Host) != clean(x.Q.Host) || port != x.T.Port || q.Length != x.Q.Length {
			t.Fatalf("%q is forwarded as %q: read as %s to %q port %d, length %d", in, head, q.Method, q.Host, q.Port, q.Length)
		}
		if path := q.Path; !bytes.Equal(path, x.Q.Path) && (!toParent || string(x.Q.Path) != "*") {
			t.Fatalf("%q is forwarded as %q: read with path %q", in, head, path)
		}
		for _, name := range []string{"Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "TE"} {
			if q.Has(name) {
				t.Fatalf("%q is forwarded as %q, with the field %s", in, head, name)
			}
		}
	})
}

func TestAPortThatTheClientNamesStaysInsideTLS(t *testing.T) {
	for _, tt := range []struct {
		scheme string
		port   uint16
		named  bool
		want   string
	}{
		{"https", 443, true, "Host: a.test:443\r\n"}, {"https", 443, false, "Host: a.test\r\n"},
		{"https", 8443, false, "Host: a.test:8443\r\n"}, {"http", 80, true, "Host: a.test\r\n"},
	} {
		q := &message.Request{Method: "GET", Scheme: tt.scheme, Host: []byte("a.test"), Port: tt.port, PortNamed: tt.named, Path: []byte("/")}
		if got := string(new(Transport).appendHead(nil, q, false, nil)); !strings.Contains(got, tt.want) {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
}
