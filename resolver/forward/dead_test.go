package forward

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/setting"
)

// A hole is a network between a forwarder and a server, over TCP and UDP. When it is dug, what
// has passed through it before is lost, in both directions and without a word, as after a
// change of network; new connections pass.
type hole struct {
	addr string
	age  atomic.Int64
}

func (h *hole) dig() { h.age.Add(1) }

func newHole(t *testing.T, to string) *hole {
	t.Helper()
	h := &hole{}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []io.Closer
	closed := false
	keep := func(c io.Closer) {
		mu.Lock()
		defer mu.Unlock()
		if open = append(open, c); closed {
			c.Close()
		}
	}
	var pc net.PacketConn
	var ln net.Listener
	for range 20 {
		var err error
		if pc, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if ln, err = net.Listen("tcp", pc.LocalAddr().String()); err == nil {
			break
		}
		pc.Close()
	}
	if ln == nil {
		t.Fatal("no port is free for both UDP and TCP")
	}
	h.addr = pc.LocalAddr().String()
	keep(pc)
	keep(ln)
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			keep(c)
			keep(up)
			born := h.age.Load()
			pass := func(to, from net.Conn) {
				buf := make([]byte, 4096)
				for {
					n, err := from.Read(buf)
					if h.age.Load() != born {
						swallow(from, err)
						return
					}
					if n > 0 {
						to.Write(buf[:n])
					}
					if err != nil {
						to.Close()
						return
					}
				}
			}
			wg.Go(func() { pass(c, up) })
			wg.Go(func() { pass(up, c) })
		}
	})
	wg.Go(func() {
		type flow struct {
			up   net.Conn
			born int64
		}
		flows := map[string]flow{}
		buf := make([]byte, 4096)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			f, ok := flows[from.String()]
			if !ok {
				up, err := net.Dial("udp", to)
				if err != nil {
					continue
				}
				keep(up)
				f = flow{up, h.age.Load()}
				flows[from.String()] = f
				wg.Go(func() {
					buf := make([]byte, 4096)
					for {
						n, err := f.up.Read(buf)
						if err != nil {
							return
						}
						if h.age.Load() == f.born {
							pc.WriteTo(buf[:n], from)
						}
					}
				})
			}
			if h.age.Load() == f.born {
				f.up.Write(buf[:n])
			}
		}
	})
	t.Cleanup(func() {
		mu.Lock()
		closed = true
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return h
}

// swallow reads on from a lost connection, so that its sender notices nothing.
func swallow(from io.Reader, err error) {
	if err == nil {
		io.Copy(io.Discard, from)
	}
}

// TestDeadConnectionsCostNoAnswers loses the connections of each transport.
func TestDeadConnectionsCostNoAnswers(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	all := append([]encryptedTransport{{"tcp", nil}}, encryptedTransports...)
	for _, x := range all {
		t.Run(x.scheme, func(t *testing.T) {
			t.Parallel()
			to, name := "", "#dns.test"
			if x.serve == nil {
				to, name = serve(t, says("192.0.2.1")).addr, ""
			} else {
				to = x.serve(t, ca, says("192.0.2.1")).addr
			}
			h := newHole(t, to)
			f := start(t, Config{Upstreams: []string{x.scheme + "://" + h.addr + name}, CA: setting.File(ca.file)})
			if got := get(f, "first.example"); got != "192.0.2.1" {
				t.Fatalf("before: %s", got)
			}
			for round := range 2 {
				h.dig()
				var wg sync.WaitGroup
				for i := range 20 {
					wg.Go(func() {
						began := time.Now()
						if got := get(f, fmt.Sprintf("w%d.r%d.example", i, round)); got != "192.0.2.1" || time.Since(began) > 2*time.Second {
							t.Errorf("round %d: got %s after %v, want the address within 2s", round, got, time.Since(began))
						}
					})
				}
				wg.Wait()
				began := time.Now()
				if got := get(f, fmt.Sprintf("after%d.example", round)); got != "192.0.2.1" || time.Since(began) > silentFor {
					t.Errorf("round %d: the next query got %s after %v, want the address at once", round, got, time.Since(began))
				}
			}
			if n := first(f).reconnects.Load(); n < 2 || n > 8 {
				t.Errorf("%d reconnections counted for two lost connections", n)
			}
			if down, _ := first(f).health(); down {
				t.Error("the upstream counts as down, want only the connection lost")
			}
		})
	}
}

// TestASlowAnswerIsAwaitedWhereItWasAsked has one slow name: its connection is alive.
func TestASlowAnswerIsAwaitedWhereItWasAsked(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for _, x := range encryptedTransports {
		t.Run(x.scheme, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			s := x.serve(t, ca, func(q *miekg.Msg, tcp bool) *miekg.Msg {
				if q.Question[0].Name == "slow.example." {
					select {
					case <-release:
					case <-time.After(10 * time.Second):
					}
				}
				return says("192.0.2.1")(q, tcp)
			})
			f := start(t, Config{Upstreams: []string{x.scheme + "://" + s.addr + "#dns.test"}, CA: setting.File(ca.file)})
			get(f, "first.example")
			time.AfterFunc(silentFor+300*time.Millisecond, func() { close(release) })
			if got := get(f, "slow.example"); got != "192.0.2.1" {
				t.Errorf("got %s, want the late answer", got)
			}
		})
	}
}
