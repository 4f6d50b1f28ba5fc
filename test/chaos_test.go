package test

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/lib/wait/waittest"
	"shuultuur/test/redistest"
)

// A cable leads to a server and can be cut. Then nothing passes and no connection is closed, as
// when a switch loses power.
type cable struct {
	l   net.Listener
	to  string
	cut atomic.Bool
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{l: l, to: to}
	var ends sync.WaitGroup
	ends.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			ends.Go(func() { c.carry(near, far) })
			ends.Go(func() { c.carry(far, near) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		ends.Wait()
	})
	return c
}

func (c *cable) carry(dst, src net.Conn) {
	defer dst.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := src.Read(b)
		if err != nil {
			return
		}
		if c.cut.Load() { // bytes in flight are lost
			_, _ = io.Copy(io.Discard, src)
			return
		}
		if _, err := dst.Write(b[:n]); err != nil {
			return
		}
	}
}

// traffic is the result of some clients' requests in a phase.
type traffic struct {
	mu    sync.Mutex
	took  []time.Duration
	wrong []string
}

func (s *traffic) median() time.Duration {
	slices.Sort(s.took)
	return s.took[len(s.took)/2]
}

// drive requests new pages, so that each request uses the state three times. It goes on for a
// while, and until enough returns true.
func (f *fleet) drive(least time.Duration, enough func() bool) *traffic {
	var s traffic
	var work sync.WaitGroup
	end, late := time.Now().Add(least), time.Now().Add(time.Minute)
	var done atomic.Bool
	var served atomic.Int64
	for range 4 {
		work.Go(func() {
			c := through(f.nodes[0].ProxyAddr())
			defer c.CloseIdleConnections()
			for !done.Load() {
				start := time.Now()
				status, _, err := get(c, fmt.Sprintf("http://calm.example/%d", f.served.Add(1)))
				took := time.Since(start)
				s.mu.Lock()
				s.took = append(s.took, took)
				if err != nil || status != 200 {
					s.wrong = append(s.wrong, fmt.Sprintf("status %d, %v", status, err))
				}
				s.mu.Unlock()
				served.Add(1)
			}
		})
	}
	// 100 requests are enough for a pause of the machine not to count.
	for now := time.Now(); now.Before(end) || (served.Load() < 100 || !enough()) && now.Before(late); now = time.Now() {
		time.Sleep(20 * time.Millisecond)
	}
	done.Store(true)
	work.Wait()
	return &s
}

// TestNobodyNoticesThatRedisIsLost kills, pauses, cuts off and fills Redis under load. The
// bound on the additional time of a request is wide, because other tests use the processors,
// too. It finds requests that wait for Redis until they time out. "go run -C bench . state"
// measures the time. It runs alone, because it counts the goroutines of the process.
func TestNobodyNoticesThatRedisIsLost(t *testing.T) {
	r := redistest.Start(t)
	wire := newCable(t, r.Addr)
	f := newFleet(t, 1, fmt.Sprintf("{addresses: [%q]}", wire.l.Addr()))
	is := func(state string) func() bool { return func() bool { return f.health(0).State == state } }
	calm := f.drive(time.Second, is("shared"))
	goroutines := runtime.NumGoroutine()
	for _, trouble := range []struct {
		name       string
		begin, end func()
	}{
		{"killed", r.Stop, func() { r.Restart(t) }},
		{"paused", func() { r.Pause(t) }, func() { r.Resume(t) }},
		{"cut off", func() { wire.cut.Store(true) }, func() { wire.cut.Store(false) }},
		{"full", func() { r.Do(t, "CONFIG", "SET", "maxmemory", "1") }, func() { r.Do(t, "CONFIG", "SET", "maxmemory", "0") }},
	} {
		trouble.begin()
		during := f.drive(time.Second, is("degraded"))
		if !is("degraded")() {
			t.Errorf("%s: the gateway does not say that its state is degraded", trouble.name)
		}
		trouble.end()
		after := f.drive(500*time.Millisecond, is("shared"))
		waittest.Until(t, trouble.name+": the gateway has Redis back", is("shared")) // on a busy machine the gateway may lose Redis once more
		for when, s := range map[string]*traffic{"during": during, "after": after} {
			if len(s.wrong) > 0 {
				t.Errorf("%s, %s: %d of %d requests failed; the first: %s", trouble.name, when, len(s.wrong), len(s.took), s.wrong[0])
			}
			if before, now := calm.median(), s.median(); now > before+2*time.Second {
				t.Errorf("%s, %s: half of the requests took %v or more; before the trouble %v", trouble.name, when, now, before)
			}
			t.Logf("%s, %s: %d requests, median %v (before: %v)", trouble.name, when, len(s.took), s.median(), calm.median())
		}
	}
	waittest.Until(t, "no goroutines are left over", func() bool { return runtime.NumGoroutine() <= goroutines+20 })
}
