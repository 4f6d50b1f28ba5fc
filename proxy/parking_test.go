package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/platform"
	"shuultuur/lib/setting"
)

// startParking starts a proxy that parks silent tunnels after a few milliseconds.
func startParking(t *testing.T, cfg Config, e Engine) *rig {
	t.Helper()
	k, err := platform.NewPoller()
	if err != nil {
		t.Skip(err)
	}
	k.Close()
	k.Wait(nil, -1)
	r := start(t, cfg, e)
	r.tunnels.Still = 5 * time.Millisecond
	return r
}

// parked waits until n directions are parked.
func (r *rig) parked(n int) {
	r.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		got := r.l.parking.Len()
		if got == n {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%d directions are parked, want %d", got, n)
		}
		time.Sleep(time.Millisecond)
	}
}

// socketTo opens a WebSocket through the proxy.
func (r *rig) socketTo(o string) (net.Conn, *bufio.Reader) {
	r.t.Helper()
	c, br := r.raw()
	fmt.Fprintf(c, "GET http://%s/ws HTTP/1.1\r\nHost: x\r\n%s\r\n", o, websocket)
	if head := readHead(br); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		r.t.Fatalf("upgrade: got %q, want 101", head)
	}
	return c, br
}

func TestParkedWebSocketIsStillJudged(t *testing.T) {
	for name, tt := range map[string]struct {
		send   []string // payloads, each after a silence
		answer func(s string) string
		want   []string // what comes back for each
	}{
		"clean":              {[]string{"one", "two", "three"}, strings.ToUpper, []string{"ONE", "TWO", "THREE"}},
		"from the client":    {[]string{"one", "a bad one"}, strings.ToUpper, []string{"ONE", "\x03\xf0blocked"}},
		"from the origin":    {[]string{"one", "two"}, func(s string) string { return strings.Replace(s, "two", "a bad one", 1) }, []string{"one", "\x03\xf0blocked"}},
		"over two messages":  {[]string{`{"t":"a b"}`, `{"t":"ad one"}`}, func(string) string { return "ok" }, []string{"ok", "\x03\xf0blocked"}},
		"over two, downward": {[]string{`{"t":"a b"}`, `{"t":"ad one"}`}, func(s string) string { return s }, []string{`{"t":"a b"}`, "\x03\xf0blocked"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := chat(t, "", func(_ byte, s string) string { return frame(0x81, false, tt.answer(s)) })
			r := startParking(t, Config{}, Engine{Decider: eavesdropper{}})
			c, br := r.socketTo(o)
			for i, s := range tt.send {
				r.parked(2)
				io.WriteString(c, frame(0x81, true, s))
				if _, got, err := readFrame(br); err != nil || !strings.HasPrefix(got, tt.want[i]) {
					t.Fatalf("after %q: got %.60q, %v, want %q", s, got, err, tt.want[i])
				}
			}
			c.Close()
			n := 1
			refused := strings.HasPrefix(tt.want[len(tt.want)-1], "\x03\xf0")
			if refused {
				n++ // the message
			}
			if x := r.wait(n)[n-1]; x.Status != 101 || refused != (x.Action == filter.Block) || x.In == 0 {
				t.Errorf("record of the WebSocket: got %+v", x)
			}
			r.parked(0)
		})
	}
}

func TestFrameArrivesByteByByteInAParkedTunnel(t *testing.T) {
	o, got := chat(t, "", func(byte, string) string { return frame(0x81, false, "ok") })
	r := startParking(t, Config{}, Engine{Decider: eavesdropper{}})
	c, br := r.socketTo(o)
	for _, b := range []byte(frame(0x81, true, "hello")) {
		r.parked(2)
		c.Write([]byte{b})
	}
	if _, s, err := readFrame(br); err != nil || s != "ok" {
		t.Fatalf("echo after parking: got %q, %v, want ok", s, err)
	}
	if g := got(); g[len(g)-1] != "hello" {
		t.Errorf("the origin got %q, want hello last", g)
	}
}

func TestParkedTunnelEnds(t *testing.T) {
	type ends struct {
		r      *rig
		c      net.Conn
		br     *bufio.Reader
		origin net.Conn
	}
	for name, tt := range map[string]struct {
		cfg  Config
		end  func(e *ends)
		note string
	}{
		"by the client":          {end: func(e *ends) { e.c.Close() }},
		"by a half-close":        {end: func(e *ends) { e.c.(*net.TCPConn).CloseWrite() }},
		"by the client's reset":  {end: func(e *ends) { e.c.(*net.TCPConn).SetLinger(0); e.c.Close() }, note: "reset"},
		"by the origin":          {end: func(e *ends) { e.origin.Close() }},
		"by the origin's reset":  {end: func(e *ends) { e.origin.(*net.TCPConn).SetLinger(0); e.origin.Close() }, note: "reset"},
		"by both":                {end: func(e *ends) { e.c.Close(); e.origin.Close() }},
		"after the longest wait": {cfg: Config{Tunnel: setting.Duration(100 * time.Millisecond)}, end: func(*ends) {}, note: "silent"},
		"by the stop":            {cfg: Config{Drain: setting.Duration(20 * time.Millisecond)}, end: func(e *ends) { e.r.stop() }},
	} {
		t.Run(name, func(t *testing.T) {
			e := &ends{}
			begun, over := make(chan struct{}), make(chan struct{})
			o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
				defer close(over)
				e.origin = c
				readHead(br)
				io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
				close(begun)
				io.Copy(io.Discard, br)
			})
			e.r = startParking(t, tt.cfg, Engine{Decider: eavesdropper{}})
			e.c, e.br = e.r.socketTo(o)
			<-begun
			e.r.parked(2)
			if s := e.r.Stats(); s.TunnelsOpen != 1 || s.ConnectionsOpen != 1 {
				t.Errorf("%d tunnels and %d connections are open, want 1 of each", s.TunnelsOpen, s.ConnectionsOpen)
			}
			tt.end(e)
			io.Copy(io.Discard, e.br)
			e.c.Close()
			<-over
			x := e.r.wait(1)[0]
			if x.Status != 101 || !strings.Contains(x.Note, tt.note) || tt.note == "" && x.Note != "" {
				t.Errorf("record of the tunnel: got %+v", x)
			}
			e.r.parked(0)
			e.r.stop()
			if s := e.r.Stats(); s.TunnelsOpen != 0 || s.ConnectionsOpen != 0 {
				t.Errorf("%d tunnels and %d connections are open at the end, want none", s.TunnelsOpen, s.ConnectionsOpen)
			}
		})
	}
}

// A tunnel is silent only if nothing arrives in either direction.
func TestParkedDirectionOutlastsTheWaitWhileTheOtherIsBusy(t *testing.T) {
	const pieces = 40
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		readHead(br)
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
		for range pieces {
			time.Sleep(10 * time.Millisecond) // an origin's pace, not a guess about ours
			io.WriteString(c, frame(0x81, false, "x"))
		}
	})
	r := startParking(t, Config{Tunnel: setting.Duration(200 * time.Millisecond)}, Engine{Decider: eavesdropper{}})
	for tries := 1; ; tries++ { // a busy machine may keep the origin from its pace
		_, br := r.socketTo(o)
		got := 0
		for _, s, err := readFrame(br); err == nil && s == "x"; _, s, err = readFrame(br) {
			got++
		}
		if got == pieces {
			break
		}
		if tries == 5 {
			t.Fatalf("got %d pieces, want %d", got, pieces)
		}
	}
}

func TestWebSocketInsideOfTLSIsParked(t *testing.T) {
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	defer cert.Close()
	plain, _ := chat(t, "", func(_ byte, s string) string { return frame(0x81, false, s) })
	w := newWorld(t)
	_, secure := w.origin(t, w.leaf(t, nil), func(rw http.ResponseWriter, q *http.Request) {
		c, buf, _ := rw.(http.Hijacker).Hijack()
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		for {
			_, s, err := readFrame(buf.Reader)
			if err != nil {
				return
			}
			io.WriteString(c, frame(0x81, false, s))
		}
	})
	for name, open := range map[string]func(r *rig) (c net.Conn, target string){
		"to the proxy": func(r *rig) (net.Conn, string) {
			c, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			return tls.Client(c, &tls.Config{InsecureSkipVerify: true}), "http://" + plain + "/ws"
		},
		"decrypted": func(r *rig) (net.Conn, string) {
			c, br := r.tunnelTo(secure)
			return tls.Client(&buffered{c, br}, &tls.Config{ServerName: "localhost", RootCAs: w.ours}), "/ws"
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := startParking(t, Config{}, Engine{Decider: eavesdropper{}, Intercept: w.in, TLS: &tls.Config{Certificates: cert.TLS.Certificates}})
			c, target := open(r)
			defer c.Close()
			br := bufio.NewReader(c)
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", target, secure, websocket)
			if head := readHead(br); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
				t.Fatalf("upgrade: got %q, want 101", head)
			}
			for range 3 {
				r.parked(2)
				io.WriteString(c, frame(0x81, true, "hello"))
				if _, s, err := readFrame(br); err != nil || s != "hello" {
					t.Fatalf("message that passes: got %q, %v, want hello", s, err)
				}
			}
			r.parked(2)
			io.WriteString(c, frame(0x81, true, "a bad one"))
			if _, s, err := readFrame(br); err != nil || !strings.HasPrefix(s, "\x03\xf0blocked") {
				t.Fatalf("blocked message: got %q, %v, want a Close frame", s, err)
			}
		})
	}
}

// Messages arrive while directions are being parked; none is lost or late.
func TestMessagesRaceWithParking(t *testing.T) {
	o, _ := chat(t, "", func(_ byte, s string) string { return frame(0x81, false, s) })
	r := startParking(t, Config{}, Engine{Decider: eavesdropper{}})
	r.tunnels.Still = time.Millisecond
	var wg sync.WaitGroup
	for i := range 20 {
		c, br := r.socketTo(o)
		c.SetDeadline(time.Now().Add(time.Minute))
		wg.Go(func() {
			for n := range 60 {
				want := fmt.Sprintf("message %d of %d", n, i)
				io.WriteString(c, frame(0x81, true, want))
				if _, s, err := readFrame(br); err != nil || s != want {
					t.Errorf("echo: got %q, %v, want %q", s, err, want)
					return
				}
				time.Sleep(time.Duration((i*7+n*13)%40) * 100 * time.Microsecond)
			}
			c.Close()
		})
	}
	wg.Wait()
	r.wait(20)
}
