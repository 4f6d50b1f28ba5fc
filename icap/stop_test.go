package icap

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/handover"
	"shuultuur/lib/setting"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/page"
)

// startToStop starts a server that stop ends. Who is called "hold" is only identified when the test
// says so.
func startToStop(t *testing.T, drain time.Duration) (at net.Addr, asked, identify chan struct{}, stop context.CancelCauseFunc, ended chan error) {
	t.Helper()
	i, err := exchange.NewInspector(exchange.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Drain: setting.Duration(drain)}, i, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := page.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	asked, identify = make(chan struct{}, 10), make(chan struct{})
	if err := s.Use(&Engine{
		Decider: decider{}, Pages: pages, Tag: "tag1",
		Identify: func(_ context.Context, a netip.Addr, _ []byte) (filter.Client, error) {
			return filter.Client{Addr: a}, nil
		},
		Named: func(ctx context.Context, a netip.Addr, _, _ []string, _ string) filter.Client {
			asked <- struct{}{}
			select {
			case <-identify:
			case <-ctx.Done():
			}
			return filter.Client{Addr: a}
		},
	}); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	ended = make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	return ln.Addr(), asked, identify, stop, ended
}

// end reads until the server ends the connection, which must not be a reset.
func (c *talker) end(what string) {
	c.t.Helper()
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		c.t.Errorf("%s: at the end come %q and %v, want an end in order", what, rest, err)
	}
}

const slowUpload = "POST http://news.example/up HTTP/1.1\r\nHost: news.example\r\nTransfer-Encoding: chunked\r\n\r\n"

// TestAStopIsNoFailureForAProxy: idle connections end in order, what is under way is answered with the
// word that no more may follow, and what cannot be served is answered with 503.
func TestAStopIsNoFailureForAProxy(t *testing.T) {
	at, asked, identify, stop, ended := startToStop(t, 2*time.Second)
	fresh, idle, held, slow, begun := dial(t, at), dial(t, at), dial(t, at), dial(t, at), dial(t, at)
	idle.send(reqmod("Allow: 204\r\n", page1, ""))
	if status, fields := idle.head(); !strings.HasPrefix(status, "ICAP/1.0 204") || fields["Connection"] != "" {
		t.Fatalf("before the stop: %q %v", status, fields)
	}
	held.send(reqmod("X-Client-Username: hold\r\nAllow: 204\r\n", page1, ""))
	slow.send(reqmod("X-Client-Username: hold\r\nAllow: 204\r\n", slowUpload, "5\r\nhello\r\n")) // the rest does not come
	for range 2 {
		<-asked
	}
	begun.send("REQMOD icap://127.0.0.1/reqmod ICAP/1.0\r\nHost")
	idle.send(reqmod("Allow: 204\r\n", page1, ""))
	if status, _ := idle.head(); !strings.HasPrefix(status, "ICAP/1.0 204") {
		t.Fatalf("before the stop: %q", status)
	}
	stop(nil)
	for name, c := range map[string]*talker{"idle": idle, "unused": fresh} {
		c.end(name)
		c.Close()
	}
	close(identify)
	if status, fields := held.head(); !strings.HasPrefix(status, "ICAP/1.0 204") || fields["Connection"] != "close" {
		t.Errorf("what is under way at a stop: %q %v, want 204 and the end", status, fields)
	}
	held.end("under way")
	for name, c := range map[string]*talker{"half a body": slow, "half a head": begun} {
		if status, fields := c.head(); !strings.HasPrefix(status, "ICAP/1.0 503") || fields["Connection"] != "close" {
			t.Errorf("%s at the end of the time for the stop: %q %v, want 503 and the end", name, status, fields)
		}
		c.end(name)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestARequestThatCrossesAStopIsServed: a proxy may send one before it can know of the stop. The server
// may still answer before it knows of it, too: then nothing says that the end follows.
func TestARequestThatCrossesAStopIsServed(t *testing.T) {
	at, _, _, stop, ended := startToStop(t, 10*time.Second)
	var all []*talker
	for range 20 {
		c := dial(t, at)
		c.send(reqmod("Allow: 204\r\n", page1, ""))
		c.head()
		all = append(all, c)
	}
	stop(nil)
	for _, c := range all {
		c.send(reqmod("Allow: 204\r\n", page1, ""))
	}
	for _, c := range all {
		if status, fields := c.head(); !strings.HasPrefix(status, "ICAP/1.0 204") {
			t.Errorf("a request that crosses the stop: %q %v, want 204", status, fields)
		}
		c.end("after it")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAnotherProcessTakesOver: connections serve on, and say with the next answer that they end.
func TestAnotherProcessTakesOver(t *testing.T) {
	at, _, _, stop, ended := startToStop(t, 10*time.Minute)
	c, idle := dial(t, at), dial(t, at)
	for _, c := range []*talker{c, idle} {
		c.send(reqmod("Allow: 204\r\n", page1, ""))
		c.head()
	}
	hurry := make(chan struct{})
	stop(handover.HandedOver{Hurry: hurry})
	for closing := false; !closing; { // until the server has heard of it
		c.send(reqmod("Allow: 204\r\n", page1, ""))
		status, fields := c.head()
		if !strings.HasPrefix(status, "ICAP/1.0 204") {
			t.Fatalf("after another process took over: %q %v, want 204", status, fields)
		}
		closing = fields["Connection"] == "close"
	}
	c.end("after it")
	close(hurry)
	idle.end("idle")
	idle.Close()
	if err := <-ended; err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
