package nameserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	miekg "github.com/miekg/dns"
	"golang.org/x/net/http2"

	"shuultuur/lib/dns"
	"shuultuur/lib/handover"
	"shuultuur/lib/setting"
)

// TestConnectionsSayThatTheyEndWhenAnotherProcessHasTakenOver: connections announce their end,
// and answer what the client sent before it read that.
func TestConnectionsSayThatTheyEndWhenAnotherProcessHasTakenOver(t *testing.T) {
	s, cfg := secure(t, Config{})
	f := dialHTTP2(t, s, cfg)
	f.get(1, "www.test.", miekg.TypeA)
	if got := f.status(1); got != "200" {
		t.Fatalf("request before the takeover: got status %s, want 200", got)
	}
	f.next() // the body
	s.leaving.Store(true)
	f.get(3, "www.test.", miekg.TypeA)
	f.get(5, "www.test.", miekg.TypeA)
	away, answered := 0, 0
	for answered < 2 {
		switch x := f.next().(type) {
		case *http2.GoAwayFrame:
			if x.ErrCode != http2.ErrCodeNo || x.LastStreamID != 1<<31-1 {
				t.Errorf("GOAWAY after the takeover: got %v", x)
			}
			away++
		case *http2.MetaHeadersFrame:
			if away == 0 || x.PseudoValue("status") != "200" {
				t.Errorf("request after the takeover: got %v after %d GOAWAY frames", x, away)
			}
			answered++
		}
	}

	b, err := padded("www.test.", miekg.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", s.at(dns.HTTPS), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "GET /dns-query?dns=%s HTTP/1.1\r\nHost: dns.test\r\n\r\n", base64.RawURLEncoding.EncodeToString(b))
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != 200 || !res.Close {
		t.Fatalf("HTTP/1 after the takeover: got %+v, %v, want 200 and the end of the connection", res, err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("read after the answer: got %v, want EOF", err)
	}
}

// TestAConnectionIsAnsweredWhileItIsUsed: after another process has taken over, a connection is
// served until it has been silent for as long as connections may be.
func TestAConnectionIsAnsweredWhileItIsUsed(t *testing.T) {
	s, err := New(Config{Listen: []string{"127.0.0.1:0"}, Idle: setting.Duration(3 * time.Second)}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetResponders(nil, &zone{})
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	c := dial(t, s)
	ask := func() {
		t.Helper()
		if _, err := c.Write(frame(t, query("www.test.", miekg.TypeA))); err != nil {
			t.Fatal(err)
		}
		if m := next(t, c); len(m.Answer) != 1 {
			t.Errorf("query after the takeover: got %v, want 1 record", m)
		}
	}
	ask()
	leave(handover.HandedOver{Hurry: make(chan struct{})})
	for !s.leaving.Load() {
		time.Sleep(time.Millisecond)
	}
	ask()
	ended(t, c)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
