package proxy

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/proxy/upstream"
)

// FuzzSession sends arbitrary bytes to a proxy that refuses everything: each request is
// recorded once, nothing panics, and no memory stays in use.
func FuzzSession(f *testing.F) {
	for _, s := range []string{
		"GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n",
		"GET http://x.test/?shuultuur-accept=a.b&c HTTP/1.1\r\nHost: x.test\r\nCookie: shuultuur=a.b; c=d\r\nAccept: application/json\r\n\r\n",
		"POST http://[::1]:99/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n",
		"CONNECT x.test:443 HTTP/1.1\r\nHost: x.test\r\n\r\n\x16\x03\x01",
		"TRACE http://x.test/ HTTP/1.1\r\nHost: x.test\r\nMax-Forwards: 0\r\nVia: 1.1 a, 1.0 fuzz\r\n\r\n",
		"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.0\r\n\r\nGET http://a/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"GET http://warn.test/?a=b HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.2.3.4, junk\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	var done int64
	p, err := New(Config{Via: "fuzz", HeadTime: setting.Duration(time.Second), Idle: setting.Duration(time.Second), Upstream: upstream.Config{Answer: setting.Duration(time.Second)}}, &Engine{Identify: anybody, Decider: judge{decide: func(x *filter.Transaction, _ filter.Stage) filter.Verdict {
		if strings.HasPrefix(x.Host, "warn") {
			return filter.Verdict{Action: filter.Warn, To: "token"}
		}
		return block("all")
	}}}, func(*filter.Transaction) { done++ }, slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &listener{p: p, ctx: context.Background(), open: map[*conn]struct{}{}}
		before, requests := done, p.Stats().Requests
		client, server := net.Pipe()
		go func() {
			client.Write(b)
			client.Close()
		}()
		go io.Copy(io.Discard, client)
		l.n.Add(1)
		p.counters[connectionsOpen].Add(1)
		l.serve(server)
		s := p.Stats()
		if s.Panics != 0 || s.Held != 0 || s.ConnectionsOpen != 0 || p.turns.Used() != 0 {
			t.Fatalf("counters after the input: %+v; want no panic and nothing in use", s)
		}
		if done-before != s.Requests-requests {
			t.Fatalf("%d requests, but %d records", s.Requests-requests, done-before)
		}
	})
}
