//go:build !small

package virus

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/setting"
)

// narrow is a clamd that finds marmots and has few connections: it closes one too many, as one does
// that has no descriptors left.
func narrow(t *testing.T, most int64) (addr string, open, refused *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	open, refused = new(atomic.Int64), new(atomic.Int64)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				defer open.Add(-1)
				if open.Add(1) > most {
					refused.Add(1)
					return
				}
				answerStreams(c, func(body []byte) string {
					if bytes.Contains(body, []byte("forty marmots")) {
						return "Own.Marmots FOUND"
					}
					return "OK"
				})
			}()
		}
	}()
	return ln.Addr().String(), open, refused
}

// answerStreams answers the streams on a connection as clamd does; answer says what it finds in a body.
func answerStreams(c net.Conn, answer func(body []byte) string) {
	for r, n := bufio.NewReader(c), 1; ; n++ {
		command, err := r.ReadString(0)
		switch {
		case err != nil:
			return
		case command == "zPING\x00":
			_, _ = io.WriteString(c, "PONG\x00")
			return
		case command != "zINSTREAM\x00":
			n--
			continue
		}
		var body bytes.Buffer
		for size := uint32(1); size > 0; {
			if binary.Read(r, binary.BigEndian, &size) != nil {
				return
			}
			if _, err := io.CopyN(&body, r, int64(size)); err != nil {
				return
			}
		}
		if _, err := fmt.Fprintf(c, "%d: stream: %s\x00", n, answer(body.Bytes())); err != nil {
			return
		}
	}
}

// An arriving is a body that is kept until its end, and arrives in two pieces.
type arriving struct {
	b     content.Body
	t     filter.Transaction
	bytes string
}

func begin(who netip.Addr, text string) *arriving {
	s := &arriving{bytes: text}
	s.b.Reset(&content.Head{}, content.Limits{})
	s.t.Body, s.t.Client.Addr = &s.b, who
	s.b.Wait.Keep(func(yield func([]byte, error) bool) { yield([]byte(s.bytes), nil) })
	s.b.Append([]byte(text[:len(text)/2]))
	return s
}

func (s *arriving) find(t *testing.T, c *Check) []filter.Finding {
	got, err := c.Find(t.Context(), &s.t, filter.ResponseBody, nil)
	if err != nil {
		t.Error(err)
	}
	return got
}

func (s *arriving) end() {
	s.b.Append([]byte(s.bytes[len(s.bytes)/2:]))
	s.b.Finish()
}

// TestSlowBodiesOfAClientLeaveTheScannerToOthers: however many downloads of a client arrive slowly,
// those of others are scanned at once, and all of them are when they end.
func TestSlowBodiesOfAClientLeaveTheScannerToOthers(t *testing.T) {
	const places = 8
	addr, open, refused := narrow(t, 2*places) // it notices late that one was closed
	c, err := New(Config{Clamd: setting.OneOrMore[string]{addr}, Connections: places, Sessions: 1, Remember: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var held []*arriving
	for range 3 * places {
		s := begin(a, "there are forty marmots in the house")
		defer s.b.Release()
		if got := s.find(t, c); len(got) > 0 {
			t.Fatalf("half of a body gives %v", got)
		}
		held = append(held, s)
	}
	if n := open.Load(); n == 0 || n > places/2 {
		t.Errorf("%d slow bodies of one client hold %d of %d connections, want at most half, and some", len(held), n, places)
	}
	for _, who := range []netip.Addr{b, a} {
		var all sync.WaitGroup
		for range 4 * places {
			all.Go(func() {
				var whole content.Body
				whole.Reset(&content.Head{}, content.Limits{})
				defer whole.Release()
				whole.Append([]byte("forty marmots"))
				whole.Finish()
				x := &filter.Transaction{Body: &whole}
				x.Client.Addr = who
				if got, err := c.Find(t.Context(), x, filter.ResponseBody, nil); err != nil || len(got) != 1 || got[0].Category != "virus" {
					t.Errorf("a whole body of %s beside slow ones: %v, %v", who, got, err)
				}
			})
		}
		all.Wait()
	}
	other := begin(b, "there are forty marmots in the yard")
	defer other.b.Release()
	before := open.Load()
	if other.find(t, c); open.Load() <= before && before < places/2 {
		t.Error("a slow body of another client is not sent while it arrives")
	}
	for _, s := range append(held, other) {
		s.end()
		if got := s.find(t, c); len(got) != 1 || got[0].Category != "virus" {
			t.Errorf("a slow body gives %v at its end, want a virus", got)
		}
	}
	if n := refused.Load(); n > 0 {
		t.Errorf("%d connections were too many for a scanner that takes %d", n, 2*places)
	}
	c.Close() // also kept sessions
	for end := time.Now().Add(10 * time.Second); open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections are left open", open.Load())
		}
	}
	if !c.scanners[0].gate.Stream(a) || c.scanners[0].gate.InUse() != 0 {
		t.Error("places are lost")
	}
}
