package message

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// silence is what the peers of these tests may be silent. They move something twenty times as
// often.
const silence = time.Second

// pair returns two ends of a TCP connection with small buffers.
func pair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	a, b = c.(*net.TCPConn), d.(*net.TCPConn)
	for _, x := range [...]*net.TCPConn{a, b} {
		x.SetReadBuffer(64 << 10)
		x.SetWriteBuffer(64 << 10)
		x.SetReadDeadline(time.Now().Add(20 * time.Second))
		t.Cleanup(func() { x.Close() })
	}
	return a, b
}

// readSlowly reads n bytes in more than twice the silence.
func readSlowly(c net.Conn, n int) []byte {
	got := make([]byte, n)
	read, tick := 0, time.NewTicker(silence/20)
	defer tick.Stop()
	for read < n {
		<-tick.C
		m, err := c.Read(got[read:min(n, read+n/25)])
		if read += m; err != nil {
			break
		}
	}
	return got[:read]
}

func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func TestASlowPeerIsNotASilentOne(t *testing.T) {
	body := content(2 << 20)
	arm := func(c net.Conn) func() {
		return func() { c.SetDeadline(time.Now().Add(silence)) }
	}
	for name, write := range map[string]func(c, origin *net.TCPConn) error{
		"one write": func(c, _ *net.TCPConn) error {
			_, err := (&Steady{Conn: c, Arm: arm(c)}).Write(body)
			return err
		},
		"several buffers": func(c, _ *net.TCPConn) error {
			return (&Steady{Conn: c, Arm: arm(c)}).WriteBuffers(&net.Buffers{body[:100], body[100:5000], body[5000:]})
		},
		"copied from another connection": func(c, origin *net.TCPConn) error {
			r := NewReader(origin, 1024, 1024)
			r.Steady(arm(origin))
			r.body.begin(r, int64(len(body)), 502)
			_, err := r.body.Copy(&Steady{Conn: c, Arm: arm(c)}, int64(len(body)))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, peer := pair(t)
			origin, far := pair(t)
			go far.Write(body)
			done := make(chan error, 1)
			go func() { done <- write(c, origin) }()
			if got := readSlowly(peer, len(body)); !bytes.Equal(got, body) {
				t.Errorf("the slow reader got %d of %d bytes", len(got), len(body))
			}
			c.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestASilentPeerEndsAWrite(t *testing.T) {
	body := content(2 << 20)
	c, _ := pair(t)
	s := &Steady{Conn: c, Arm: func() { c.SetDeadline(time.Now().Add(50 * time.Millisecond)) }}
	if n, err := s.Write(body); !errors.Is(err, os.ErrDeadlineExceeded) || n == len(body) {
		t.Errorf("silent reader: got %d, %v, want a deadline", n, err)
	}
}

func TestAHeadThatComesSlowlyIsNotSilent(t *testing.T) {
	for _, head := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", "ICY 200 OK\r\nicy-name: late songs\r\n\r\n"} {
		for _, relaxed := range []bool{false, true} {
			if !relaxed && strings.HasPrefix(head, "ICY") {
				continue
			}
			t.Run(fmt.Sprintf("%.12q, relaxed %v", head, relaxed), func(t *testing.T) {
				t.Parallel()
				origin, far := pair(t)
				go func() {
					tick := time.NewTicker(silence / 20)
					defer tick.Stop()
					for i := range head {
						<-tick.C
						_, _ = io.WriteString(far, head[i:i+1])
					}
				}()
				r := NewReader(origin, 1024, 1024)
				r.Relax(relaxed)
				r.Steady(func() { origin.SetReadDeadline(time.Now().Add(silence)) })
				origin.SetReadDeadline(time.Now().Add(silence)) // as it was for the request
				var s Response
				if err := r.ReadResponse(&s, "GET"); err != nil || s.Status != 200 {
					t.Errorf("a head that came byte by byte: status %d, %v", s.Status, err)
				}
			})
		}
	}
}

func TestAHeadThatStopsIsSilent(t *testing.T) {
	origin, far := pair(t)
	_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-")
	r := NewReader(origin, 1024, 1024)
	r.Steady(func() { origin.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) })
	var s Response
	if err := r.ReadResponse(&s, "GET"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("half of a head and nothing more: %v, want a deadline", err)
	}
}

func TestABodyThatComesSlowlyIsNotSilent(t *testing.T) {
	for _, tt := range []struct {
		name   string
		length int64
	}{
		{"of known length", 25}, {"long", 1 << 20}, {"chunked", Chunked}, {"until the end", UntilClose},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			origin, far := pair(t)
			go func() {
				tick := time.NewTicker(silence / 10)
				defer tick.Stop()
				for i := range 25 {
					<-tick.C
					switch {
					case tt.length == Chunked:
						io.WriteString(far, "1\r\nx\r\n")
					case tt.length > 25 && i == 24:
						far.Write(make([]byte, tt.length-24))
					default:
						io.WriteString(far, "x")
					}
				}
				if tt.length == Chunked {
					io.WriteString(far, "0\r\n\r\n")
				}
				far.Close()
			}()
			to, sink := pair(t)
			go io.Copy(io.Discard, sink)
			r := NewReader(origin, 1024, 1024)
			r.Steady(func() { origin.SetReadDeadline(time.Now().Add(silence)) })
			r.body.begin(r, tt.length, 502)
			n, err := r.body.Copy(&Steady{Conn: to, Arm: func() { to.SetWriteDeadline(time.Now().Add(silence)) }}, 2<<20)
			if want := max(tt.length, 25); n != want || err != nil || !r.body.AtEnd() {
				t.Errorf("got %d, %v, want %d bytes to the end", n, err, want)
			}
		})
	}
}
