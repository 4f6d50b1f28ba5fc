//go:build !small

package nameserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
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
	"shuultuur/test/peer"
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

// TestConnectionsOverQUICOutliveTakeovers: three servers take over the same sockets in turn. The
// clients of each keep their connections and lose no query, and each server ends when its clients
// have gone.
func TestConnectionsOverQUICOutliveTakeovers(t *testing.T) {
	cert, key, pool := certificate(t)
	sockets := new(handover.Sockets)
	held := [2]string{"127.0.0.1:" + peer.Port(t), "127.0.0.1:" + peer.Port(t)}
	limit, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	type served struct {
		leave func(error)
		done  chan error
		ask   []func() error
		close func()
	}
	begin := func() *served {
		t.Helper()
		s, err := New(Config{HTTPS: []string{held[0]}, QUIC: []string{held[1]}, Cert: setting.File(cert), Key: setting.File(key)}, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.SetResponders(nil, &zone{})
		sockets.Offer()
		if err := s.Listen(sockets.With(t.Context())); err != nil {
			t.Fatal(err)
		}
		sockets.Unused() // second descriptors of sockets that earlier servers still have
		run, leave := context.WithCancelCause(t.Context())
		x := &served{leave: leave, done: make(chan error, 1)}
		go func() { x.done <- s.Run(run) }()
		return x
	}
	connect := func(x *served) {
		t.Helper()
		c, err := quic.DialAddr(limit, held[1], &tls.Config{RootCAs: pool, ServerName: "dns.test", NextProtos: []string{"doq"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		h3 := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "dns.test"}}
		client := &http.Client{Transport: h3, Timeout: time.Minute}
		packed, _ := padded("www.test.", miekg.TypeA).Pack()
		x.ask = append(x.ask, func() error {
			st, err := c.OpenStreamSync(limit)
			if err != nil {
				return err
			}
			_ = st.SetDeadline(time.Now().Add(time.Minute))
			_, _ = st.Write(frame(t, padded("www.test.", miekg.TypeA)))
			st.Close()
			b, err := io.ReadAll(st)
			if err == nil && len(b) < 20 {
				err = fmt.Errorf("an answer of %d bytes", len(b))
			}
			return err
		}, func() error {
			res, err := client.Post("https://"+held[0]+"/dns-query", mediaType, bytes.NewReader(packed))
			if err != nil {
				return err
			}
			defer res.Body.Close()
			if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || len(b) < 20 {
				return fmt.Errorf("%s, %d bytes, %w", res.Status, len(b), err)
			}
			return nil
		})
		x.close = func() { _ = c.CloseWithError(0, ""); h3.Close() }
	}
	var all []*served
	for range 3 {
		x := begin()
		if len(all) > 0 {
			all[len(all)-1].leave(handover.HandedOver{Hurry: make(chan struct{})})
		}
		connect(x)
		all = append(all, x)
		for range 50 {
			for i, x := range all {
				for _, ask := range x.ask {
					if err := ask(); err != nil {
						t.Fatalf("a client of server %d with %d servers: %v", i, len(all), err)
					}
				}
			}
		}
	}
	for i, x := range all {
		x.close()
		if i == len(all)-1 {
			x.leave(nil)
		}
		select {
		case err := <-x.done:
			if err != nil {
				t.Error(err)
			}
		case <-limit.Done():
			t.Fatalf("server %d does not end when its clients have gone", i)
		}
	}
}
