package forward

import (
	"context"
	"fmt"
	miekg "github.com/miekg/dns"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

// A moody upstream works, or fails in one of many ways.
type moody struct {
	addr string
	mood atomic.Int32
	conn atomic.Pointer[net.UDPConn]
	wg   sync.WaitGroup
}

const (
	well = iota
	paused
	slow
	garbage
	forging
	servfail
	killed
	moods
)

func newMoody(t *testing.T) *moody {
	t.Helper()
	m := &moody{addr: "127.0.0.1:0"}
	m.open(t)
	t.Cleanup(func() { m.conn.Load().Close(); m.wg.Wait() })
	return m
}

func (m *moody) open(t *testing.T) {
	a, err := net.ResolveUDPAddr("udp", m.addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.ListenUDP("udp", a)
	if err != nil {
		return // another process has the port now: the server stays down
	}
	m.addr = c.LocalAddr().String()
	m.conn.Store(c)
	m.wg.Go(func() { m.serve(c) })
}

func (m *moody) serve(c *net.UDPConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		var q miekg.Msg
		if q.Unpack(buf[:n]) != nil {
			continue
		}
		out, err := says("192.0.2.1")(&q, false).Pack()
		if err != nil {
			continue
		}
		switch m.mood.Load() {
		case paused:
			continue
		case slow:
			m.wg.Go(func() {
				time.Sleep(250 * time.Millisecond)
				c.WriteToUDPAddrPort(out, from)
			})
			continue
		case garbage:
			for i := range out[12:] {
				out[12+i] = byte(rand.Uint32())
			}
		case forging:
			out[0]++
		case servfail:
			out[3] |= dns.RcodeServFail
		}
		c.WriteToUDPAddrPort(out, from)
	}
}

// become changes how the upstream works; killed closes the port.
func (m *moody) become(t *testing.T, mood int32) {
	was := m.mood.Swap(mood)
	if mood == killed && was != killed {
		m.conn.Load().Close()
	}
	if mood != killed && was == killed {
		m.open(t)
	}
}

// TestEveryQuestionIsAnsweredWhileOneIsWell: upstreams fail and recover under load. While one
// works, every answer must be correct and arrive within the time limit of a query.
func TestEveryQuestionIsAnsweredWhileOneIsWell(t *testing.T) {
	for _, order := range []Order{Fastest, Parallel, Strict} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			var all []*moody
			cfg := Config{Order: order, Timeout: setting.Duration(400 * time.Millisecond), Total: setting.Duration(time.Minute)}
			for range 4 {
				m := newMoody(t)
				all = append(all, m)
				cfg.Upstreams = append(cfg.Upstreams, m.addr)
			}
			f := start(t, cfg)
			done := make(chan struct{})
			var asked atomic.Int64
			var wg sync.WaitGroup
			wg.Go(func() {
				defer close(done)
				rnd, healthy := rand.New(rand.NewPCG(1, 2)), 0
				for round := 0; round < 10 || asked.Load() < 100 && round < 200; round++ {
					healthy = (healthy + rnd.IntN(2)) % len(all)
					all[healthy].become(t, well)
					time.Sleep(50 * time.Millisecond) // the previous server's question is answered
					for i, m := range all {
						if i != healthy {
							m.become(t, int32(rnd.IntN(moods)))
						}
					}
					time.Sleep(200 * time.Millisecond)
				}
			})
			for i := range 4 {
				wg.Go(func() {
					for j := 0; ; j++ {
						select {
						case <-done:
							return
						default:
						}
						ask(t, f, fmt.Sprintf("h%d-%d.example", i, j))
						asked.Add(1)
					}
				})
			}
			wg.Wait()
			var errs int64
			for _, u := range f.upstreams {
				errs += u.errors.Load()
			}
			if asked.Load() < 100 || errs == 0 {
				t.Errorf("%d queries and %d errors of upstreams are too few to test anything", asked.Load(), errs)
			}
		})
	}
}

func ask(t *testing.T, f *Forwarder, host string) {
	name, err := dns.Name(host)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	msg, to, err := f.Exchange(context.Background(), name, miekg.TypeA, miekg.ClassINET, Option{})
	took := time.Since(began)
	var m miekg.Msg
	switch {
	case err != nil:
		t.Errorf("query for %s: %v after %v", host, err, took)
	case m.Unpack(msg) != nil || len(m.Answer) != 1 || m.Answer[0].(*miekg.A).A.String() != "192.0.2.1":
		t.Errorf("query for %s: got %v from %s", host, &m, to)
	}
}
