//go:build !small

package nameserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	miekg "github.com/miekg/dns"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/handover"
	"shuultuur/lib/setting"
)

func TestDNSOverHTTPS(t *testing.T) {
	z := &zone{gate: make(chan struct{})}
	close(z.gate)
	s, cfg := secure(t, Config{}, z)
	url := "https://" + s.at(dns.HTTPS) + "/dns-query"
	one := func(force bool, protos *http.Protocols) *http.Transport {
		return &http.Transport{TLSClientConfig: cfg.Clone(), ForceAttemptHTTP2: force, Protocols: protos}
	}
	var only1 http.Protocols
	only1.SetHTTP1(true)
	h3 := &http3.Transport{TLSClientConfig: cfg.Clone()}
	defer h3.Close()
	for proto, rt := range map[int]http.RoundTripper{1: one(false, &only1), 2: one(true, nil), 3: h3} {
		c := &http.Client{Transport: rt, Timeout: time.Minute}
		defer c.CloseIdleConnections()
		for _, method := range []string{"GET", "POST"} {
			for name, x := range map[string]struct {
				n     int
				cache string
			}{"www.test.": {1, "max-age=300"}, "gone.test.": {0, "max-age=30"}, "later.test.": {1, "max-age=300"}} {
				b, err := padded(name, miekg.TypeA).Pack()
				if err != nil {
					t.Fatal(err)
				}
				req, err := http.NewRequest(method, url, bytes.NewReader(b))
				if method == "GET" {
					req, err = http.NewRequest(method, url+"?dns="+base64.RawURLEncoding.EncodeToString(b), nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", mediaType)
				res, err := c.Do(req)
				if err != nil {
					t.Fatalf("HTTP/%d %s: %v", proto, method, err)
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				m := new(miekg.Msg)
				if err = errors.Join(err, m.Unpack(body)); err != nil {
					t.Fatalf("HTTP/%d %s: reading the answer: %v %q", proto, method, err, body)
				}
				if res.ProtoMajor != proto || res.StatusCode != 200 || len(m.Answer) != x.n || len(body) != padBlock || res.Header.Get("Cache-Control") != x.cache || res.Header.Get("Content-Type") != mediaType {
					t.Errorf("HTTP/%d %s %s: got %s %v %d bytes, %v", proto, method, name, res.Proto, res.Header, len(body), m)
				}
				if alt := res.Header.Get("Alt-Svc"); (alt != "") != (proto < 3) {
					t.Errorf("HTTP/%d: got Alt-Svc %q", proto, alt)
				}
			}
		}
	}
	c := &http.Client{Transport: one(true, nil), Timeout: time.Minute}
	defer c.CloseIdleConnections()
	for name, x := range map[string]struct {
		method, url, kind, body string
		want                    int
	}{
		"elsewhere":    {"GET", strings.TrimSuffix(url, "/dns-query") + "/", "", "", 404},
		"no query":     {"GET", url, "", "", 400},
		"not base64":   {"GET", url + "?dns=***", "", "", 400},
		"too short":    {"GET", url + "?dns=AAAA", "", "", 400},
		"another kind": {"POST", url, "text/plain", strings.Repeat("x", 20), 415},
		"too long":     {"POST", url, mediaType, strings.Repeat("x", 70000), 413},
		"method":       {"PUT", url, mediaType, "", 405},
		"dropped":      {"GET", url + "?dns=" + base64.RawURLEncoding.EncodeToString(frame(t, query("drop.test.", 1))[2:]), "", "", 503},
	} {
		req, err := http.NewRequest(x.method, x.url, strings.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", x.kind)
		res, err := c.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if res.Body.Close(); res.StatusCode != x.want {
			t.Errorf("%s: got status %s", name, res.Status)
		}
	}
	if got := s.sums().requests[dns.HTTPS][0]; got[0] < 18 {
		t.Errorf("counted %v requests over HTTPS, want at least 18", got)
	}
}

func TestDNSOverQUIC(t *testing.T) {
	z := &zone{gate: make(chan struct{})}
	close(z.gate)
	s, cfg := secure(t, Config{}, z)
	cfg.NextProtos = []string{"doq"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	connect := func() *quic.Conn {
		c, err := quic.DialAddr(ctx, s.at(dns.QUIC), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.CloseWithError(doqNoError, "") })
		return c
	}
	c := connect()
	send := func(c *quic.Conn, b []byte) *quic.Stream {
		st, err := c.OpenStreamSync(ctx)
		if err != nil {
			t.Fatal(err)
		}
		st.Write(b)
		st.Close()
		return st
	}
	first := send(c, frame(t, padded("later.test.", miekg.TypeA)))
	second := send(c, frame(t, padded("www.test.", miekg.TypeA)))
	for _, st := range []*quic.Stream{second, first} {
		b, err := io.ReadAll(st)
		m := new(miekg.Msg)
		if err != nil || len(b) != padBlock+2 || int(binary.BigEndian.Uint16(b)) != padBlock || m.Unpack(b[2:]) != nil || len(m.Answer) != 1 {
			t.Errorf("query over QUIC: got %d bytes, %v, %v", len(b), err, m)
		}
	}
	withID := query("www.test.", miekg.TypeA)
	withID.Id = 7
	for name, b := range map[string][]byte{"ID not 0": frame(t, withID), "cut short": frame(t, padded("www.test.", 1))[:20], "nothing": nil} {
		c := connect()
		_, err := io.ReadAll(send(c, b))
		app, ok := errors.AsType[*quic.ApplicationError](err)
		if !ok || app.ErrorCode != doqProtocolError {
			t.Errorf("%s: got %v, want a protocol error", name, err)
		}
	}
}

func TestQUICConnectionsAreCounted(t *testing.T) {
	s, cfg := secure(t, Config{PerClient: 2})
	cfg.NextProtos = []string{"doq"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	closed := make(chan error, 3)
	for range 3 {
		c, err := quic.DialAddr(ctx, s.at(dns.QUIC), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseWithError(doqNoError, "")
		context.AfterFunc(c.Context(), func() { closed <- context.Cause(c.Context()) })
	}
	err := <-closed // one of the three
	app, ok := errors.AsType[*quic.ApplicationError](err)
	if !ok || app.ErrorCode != doqExcessiveLoad {
		t.Errorf("too many streams: got %v, want excessive load", err)
	}
}

func FuzzDoHQuery(f *testing.F) {
	q, err := query("www.test.", miekg.TypeA).Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add("GET", "dns="+base64.RawURLEncoding.EncodeToString(q), "", []byte{})
	f.Add("GET", "dns=%41AAA&dns=", "", []byte{})
	f.Add("POST", "", mediaType, q)
	f.Add("POST", "dns=AAAA", "text/plain", q)
	l := handlerAt(f, Config{})
	web := l.s.newWeb()
	f.Fuzz(func(t *testing.T, method, params, kind string, body []byte) {
		r := httptest.NewRequest("POST", "/dns-query", bytes.NewReader(body))
		r.Method, r.URL.RawQuery, r.RemoteAddr = method, params, "198.51.100.1:5353"
		r.Header.Set("Content-Type", kind)
		rec := httptest.NewRecorder()
		web.ServeHTTP(rec, r)
		m := new(miekg.Msg)
		if rec.Code == http.StatusOK && (m.Unpack(rec.Body.Bytes()) != nil || !m.Response) {
			t.Errorf("the reply with status 200 is not an answer: % x", rec.Body.Bytes())
		}
		if rec.Code != http.StatusOK && rec.Code < 400 {
			t.Errorf("got status %d, want 200 or an error", rec.Code)
		}
	})
}

// TestQUICEndsAtOnceWhenAnotherProcessHasTakenOver: both processes read the same socket, and
// each gets packets for the other. A query in progress is answered first.
func TestQUICEndsAtOnceWhenAnotherProcessHasTakenOver(t *testing.T) {
	z := &zone{gate: make(chan struct{}), entered: make(chan struct{}, 4)}
	cert, key, pool := certificate(t)
	s, err := New(Config{HTTPS: []string{"127.0.0.1:0"}, QUIC: []string{"127.0.0.1:0"}, Cert: setting.File(cert), Key: setting.File(key), Idle: setting.Duration(time.Hour)}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetResponders(nil, z)
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	run, leave := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(run) }()
	limit, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	cfg := &tls.Config{RootCAs: pool, ServerName: "dns.test", NextProtos: []string{"doq"}}
	c, err := quic.DialAddr(limit, s.at(dns.QUIC), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	h3 := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "dns.test"}}
	defer h3.Close()
	b, _ := padded("www.test.", miekg.TypeA).Pack()
	res, err := (&http.Client{Transport: h3, Timeout: time.Minute}).Post("https://"+s.at(dns.HTTPS)+"/dns-query", mediaType, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	st, err := c.OpenStreamSync(limit)
	if err != nil {
		t.Fatal(err)
	}
	st.Write(frame(t, padded("later.test.", miekg.TypeA)))
	st.Close()
	<-z.entered
	leave(handover.HandedOver{Hurry: make(chan struct{})})
	close(z.gate)
	select {
	case <-c.Context().Done():
		if app, ok := errors.AsType[*quic.ApplicationError](context.Cause(c.Context())); !ok || app.ErrorCode != doqNoError || !app.Remote {
			t.Errorf("the client was told %v, want an application error 0", context.Cause(c.Context()))
		}
	case <-limit.Done():
		t.Error("nothing told the client to connect again")
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-limit.Done():
		t.Error("the server waits for its clients, whose packets another process gets")
	}
}
