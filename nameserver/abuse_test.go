package nameserver

import (
	"context"
	"fmt"
	miekg "github.com/miekg/dns"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/nameserver/batch"
	"shuultuur/test/race"
)

// handlerAt makes a handler as a socket has it, without the socket.
func handlerAt(t testing.TB, cfg Config, rs ...Responder) *handler {
	t.Helper()
	cfg.Listen = []string{"127.0.0.1:0"}
	s, err := New(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(rs) == 0 {
		rs = []Responder{&zone{}}
	}
	s.SetResponders(nil, rs...)
	return &handler{s: s, t: s.shards[0], batch: true}
}

// askAt sends one query over UDP, at a time after the start; nil for no reply.
func (l *handler) askAt(t testing.TB, client string, after time.Duration, m *miekg.Msg) *miekg.Msg {
	t.Helper()
	msg, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	l.q.Client, l.q.Transport, l.q.At = netip.AddrPortFrom(netip.MustParseAddr(client), 5353), dns.UDP, l.s.start.Add(after)
	b, o := l.answer(msg, make([]byte, 0, batch.OutBytes))
	if o != dns.Answered {
		return nil
	}
	r := new(miekg.Msg)
	if err := r.Unpack(b); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRRLLimitsLikeRepliesAndSlips(t *testing.T) {
	for _, x := range []struct {
		name                string
		slip                int
		query               func(i int) *miekg.Msg
		clients             []string
		after               time.Duration // all within
		whole, slipped, not int           // of 1000 replies, with a tolerance
	}{
		{"one name", 2, func(int) *miekg.Msg { return query("www.test.", 1) }, []string{"198.51.100.7"}, 0, 100, 450, 450},
		{"a /24 is one", 2, func(int) *miekg.Msg { return query("www.test.", 1) }, []string{"198.51.100.7", "198.51.100.99"}, 0, 100, 450, 450},
		{"a /56 is one", 2, func(int) *miekg.Msg { return query("www.test.", 1) }, []string{"2001:db8:0:1::1", "2001:db8:0:2::2"}, 0, 100, 450, 450},
		{"two networks", 2, func(int) *miekg.Msg { return query("www.test.", 1) }, []string{"198.51.100.7", "203.0.113.7"}, 0, 200, 400, 400},
		{"random names that are not", 2, func(i int) *miekg.Msg { return query(fmt.Sprintf("gone%d.test.", i), 1) }, []string{"198.51.100.7"}, 0, 100, 450, 450},
		{"random names of a wildcard", 2, func(i int) *miekg.Msg { return query(fmt.Sprintf("x%d.wild.test.", i), 1) }, []string{"198.51.100.7"}, 0, 100, 450, 450},
		{"errors", 2, func(i int) *miekg.Msg { return query(fmt.Sprintf("x%d.example.", i), 1) }, []string{"198.51.100.7"}, 0, 100, 450, 450},
		{"different names", 2, func(i int) *miekg.Msg { return query(fmt.Sprintf("x%d.test.", i), 1) }, []string{"198.51.100.7"}, 0, 1000, 0, 0},
		{"no slip", -1, func(int) *miekg.Msg { return query("www.test.", 1) }, []string{"198.51.100.7"}, 0, 100, 0, 900},
		{"slip all", 1, func(int) *miekg.Msg { return query("www.test.", 1) }, []string{"198.51.100.7"}, 0, 100, 900, 0},
		{"slowly", 2, func(int) *miekg.Msg { return query("www.test.", 1) }, []string{"198.51.100.7"}, 10 * time.Second, 1000, 0, 0},
		{"our own clients", 2, func(int) *miekg.Msg { return query("www.test.", 1) }, []string{"192.168.1.7"}, 0, 1000, 0, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := handlerAt(t, Config{RRL: RRL{Rate: 100, Slip: setting.Count(x.slip)}})
			whole, slipped, not := 0, 0, 0
			for i := range 1000 {
				r := l.askAt(t, x.clients[i%len(x.clients)], x.after*time.Duration(i)/1000, x.query(i))
				switch {
				case r == nil:
					not++
				case r.Truncated && len(r.Answer)+len(r.Ns) == 0:
					slipped++
				default:
					whole++
				}
			}
			near := func(a, b int) bool { return a-b < 8 && b-a < 8 }
			if !near(whole, x.whole) || !near(slipped, x.slipped) || !near(not, x.not) {
				t.Errorf("whole %d, slipped %d, dropped %d; want %d, %d, %d", whole, slipped, not, x.whole, x.slipped, x.not)
			}
			if lost := l.t.drops; lost[rrlDropped] != uint64(not) || lost[rrlSlipped] != uint64(slipped) {
				t.Errorf("counted %d dropped and %d slipped replies, want those observed", lost[rrlDropped], lost[rrlSlipped])
			}
		})
	}
}

func TestAGoodCookieIsNotLimitedAndABadOneIsAskedAgain(t *testing.T) {
	l := handlerAt(t, Config{RRL: RRL{Rate: 1, Slip: 1}})
	with := func(cookie string) *miekg.Msg {
		m := query("www.test.", 1)
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = []miekg.EDNS0{&miekg.EDNS0_COOKIE{Code: miekg.EDNS0COOKIE, Cookie: cookie}}
		return l.askAt(t, "198.51.100.7", 0, m)
	}
	for range 10 {
		with("0102030405060708")
	}
	r := with("0102030405060708")
	if r.Rcode != dns.RcodeBadCookie {
		t.Fatalf("limited query with a client cookie: got %v, want BADCOOKIE", r)
	}
	ours := r.IsEdns0().Option[0].(*miekg.EDNS0_COOKIE).Cookie
	for range 10 {
		if r := with(ours); r.Rcode != 0 || len(r.Answer) != 1 {
			t.Fatalf("limited query with our cookie: got %v, want the answer", r)
		}
	}
}

func TestRateOfOneClient(t *testing.T) {
	l := handlerAt(t, Config{Rate: 50})
	n := 0
	for i := range 1000 { // in two seconds: the allowance of a second may be used at once
		if l.askAt(t, "192.168.1.7", time.Duration(i)*2*time.Millisecond, query("www.test.", 1)) != nil {
			n++
		}
	}
	if n < 145 || n > 155 {
		t.Errorf("%d answers in two seconds at a rate of 50 per second, want about 150", n)
	}
	if l.t.drops[overRate] != uint64(1000-n) {
		t.Errorf("counted %d queries over the rate, want those without an answer", l.t.drops[overRate])
	}
	if l.askAt(t, "192.168.1.8", 2*time.Second, query("www.test.", 1)) == nil {
		t.Error("a neighbour of the limited client got no answer")
	}
}

func TestALimiterForgetsButDoesNotGrow(t *testing.T) {
	l := newLimiter()
	const every = 10_000
	for i := range uint64(limiterSlots * 8) {
		l.take(l.client(netip.AddrFrom4([4]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)})), 1000, every)
	}
	if len(l.slots) != limiterSlots {
		t.Fatal("the table of the limiter grew")
	}
	key := l.client(netip.MustParseAddr("192.0.2.1"))
	n := 0
	for range 1000 {
		if l.take(key, 1000, every) {
			n++
		}
	}
	if n < 95 || n > 105 {
		t.Errorf("%d of 1000 in a full table, want 100 or so", n)
	}
	// The clock wraps after 203 days.
	now := int64(timeMask - 500_000)
	for range 1000 {
		l.take(key, now, every)
	}
	if l.take(key, now, every) {
		t.Error("take did not limit the key before the clock wraps")
	}
	if !l.take(key, now+2_000_000, every) {
		t.Error("take still limits the key after the clock has wrapped")
	}
}

func TestNetworksThatMayQuery(t *testing.T) {
	some := func(p string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(p)} }
	l := handlerAt(t, Config{Allow: some("198.51.100.0/24"), Deny: some("198.51.100.128/25"), Recursion: some("198.51.100.0/26")}, &recursing{})
	for client, want := range map[string]int{
		"198.51.100.1": 0, "198.51.100.65": miekg.RcodeRefused, "203.0.113.1": miekg.RcodeRefused, "198.51.100.129": -1,
	} {
		got := -1
		if r := l.askAt(t, client, 0, query("www.example.org.", 1)); r != nil {
			got = r.Rcode
		}
		if got != want {
			t.Errorf("%s: got %d, want %d", client, got, want)
		}
	}
	l = handlerAt(t, Config{}, &recursing{})
	for client, want := range map[string]int{
		"127.0.0.1": 0, "10.1.2.3": 0, "192.168.7.7": 0, "fd00::1": 0, "::1": 0, "8.8.8.8": miekg.RcodeRefused, "2001:db8::1": miekg.RcodeRefused,
	} {
		if r := l.askAt(t, client, 0, query("www.example.org.", 1)); r == nil || r.Rcode != want {
			t.Errorf("%s: got %v, want rcode %d", client, r, want)
		}
	}
}

// recursing answers clients that may use recursion.
type recursing struct{ zone }

func (*recursing) Answer(q *dns.Query, _ *dns.Reply, _ *filter.Transaction) dns.Outcome {
	if !q.Recursion {
		return dns.Declined
	}
	return dns.Answered
}

func TestAFullQueueDropsTheOldest(t *testing.T) {
	z := &zone{gate: make(chan struct{}), entered: make(chan struct{}, 10)}
	s := start(t, Config{Workers: 1, Queue: 3}, nil, z)
	c, err := net.Dial("udp", s.at(dns.UDP))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for id := range uint16(6) { // one in progress, the next two displaced, three queued
		m := query("later.test.", 1)
		m.Id = id
		msg, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		c.Write(msg)
		if id == 0 {
			<-z.entered
		}
	}
	for s.lost(queueFull) < 2 {
		runtime.Gosched()
	}
	close(z.gate)
	c.SetDeadline(time.Now().Add(time.Minute))
	b := make([]byte, 512)
	for _, want := range []byte{0, 3, 4, 5} {
		if n, err := c.Read(b); err != nil || n < 12 || b[1] != want || b[0] != 0 {
			t.Fatalf("got % x, %v, want ID %d", b[:min(n, 12)], err, want)
		}
	}
}

func TestAQueryThatWaitedTooLongIsNotAsked(t *testing.T) {
	z := &zone{gate: make(chan struct{}), entered: make(chan struct{}, 10)}
	s := start(t, Config{Workers: 1, Wait: setting.Duration(100 * time.Millisecond)}, nil, z)
	c, err := net.Dial("udp", s.at(dns.UDP))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	msg, err := query("later.test.", 1).Pack()
	if err != nil {
		t.Fatal(err)
	}
	c.Write(msg)
	c.Write(msg)
	b := make([]byte, 512)
	c.SetDeadline(time.Now().Add(time.Minute))
	if n, err := c.Read(b); err != nil || n < 12 || b[3]&15 != dns.RcodeServFail {
		t.Fatalf("got % x, %v, want SERVFAIL", b[:n], err)
	}
	for s.lost(queueOld) < 1 {
		runtime.Gosched()
	}
	if len(z.entered) != 1 {
		t.Errorf("the responder was asked %d times, want 1", len(z.entered))
	}
}

func TestAFloodIsBounded(t *testing.T) {
	const workers = 8
	z := &zone{gate: make(chan struct{})}
	s := start(t, Config{Workers: setting.Count(workers), Queue: 32, Sockets: 2}, nil, z)
	before := runtime.NumGoroutine()
	var conns []net.Conn
	for range 4 {
		c, err := net.Dial("udp", s.at(dns.UDP))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	var read atomic.Int64
	for i := range 4000 {
		msg, err := query(fmt.Sprintf("later%d.test.", i), 1).Pack()
		if err != nil {
			t.Fatal(err)
		}
		conns[i%len(conns)].Write(msg)
	}
	for read.Load() == 0 || s.sums().requests[dns.UDP][0][0] != uint64(read.Load()) { // until no more arrive
		read.Store(int64(s.sums().requests[dns.UDP][0][0]))
		time.Sleep(20 * time.Millisecond)
	}
	if grown := runtime.NumGoroutine() - before; grown > workers+10 { // those of the server may have started after before was read
		t.Errorf("%d goroutines more for %d queries, want at most the %d workers", grown, read.Load(), workers)
	}
	s.queue.mu.Lock()
	jobs := len(s.queue.free) + s.queue.domains.queued
	s.queue.mu.Unlock()
	if jobs > 32+workers+4 {
		t.Errorf("%d jobs in use, want at most those queued and in progress", jobs)
	}
	if want := uint64(read.Load()) - 32 - workers; s.lost(queueFull) != want {
		t.Errorf("%d of %d queries dropped, want %d", s.lost(queueFull), read.Load(), want)
	}
	close(z.gate)
	if r := exchange(t, s, "udp", query("www.test.", 1)); len(r.Answer) != 1 {
		t.Errorf("after a flood, www.test. is answered with %v, want one record", r)
	}
}

func TestTheRecordIsSampled(t *testing.T) {
	var all, blocked atomic.Int64
	s, err := New(Config{Listen: []string{"127.0.0.1:0"}, Log: 100}, slog.New(slog.DiscardHandler), func(q *dns.Query, r *dns.Reply, judged *filter.Transaction, _ time.Duration) {
		all.Add(1)
		if judged.Verdict.Action != 0 {
			blocked.Add(1)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s.SetResponders(nil, &zone{})
	l := &handler{s: s, t: s.shards[0], batch: true}
	for range 500 {
		l.askAt(t, "127.0.0.1", 0, query("www.test.", 1))
	}
	if all.Load() != 75 {
		t.Errorf("%d of 100 queries recorded, want 75: a quarter is reserved for refusals", all.Load())
	}
	for range 500 {
		l.askAt(t, "127.0.0.1", 0, query("blocked.test.", 1))
	}
	if all.Load() != 100 || blocked.Load() != 25 || l.t.drops[unlogged] != 900 {
		t.Errorf("%d queries recorded, %d of them blocked, and %d not recorded", all.Load(), blocked.Load(), l.t.drops[unlogged])
	}
}

func TestNothingIsAllocatedForAQuery(t *testing.T) {
	if race.On {
		t.Skip("the race detector allocates memory")
	}
	good := func(name string) []byte {
		m := query(name, 1)
		m.SetEdns0(1232, true)
		m.IsEdns0().Option = []miekg.EDNS0{&miekg.EDNS0_COOKIE{Code: miekg.EDNS0COOKIE, Cookie: "0102030405060708"}}
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, msg := range map[string][]byte{
		"answered": good("www.test."), "NXDOMAIN": good("gone.test."), "refused": good("www.example.org."),
		"malformed": good("www.test.")[:30], "blocked": good("blocked.test."),
	} {
		for _, client := range []string{"127.0.0.1:53", "198.51.100.1:53", "[2001:db8::1]:53"} {
			l := handlerAt(t, Config{Rate: 1e6, RRL: RRL{Rate: 1e6}, Deny: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}})
			buf := make([]byte, 0, batch.OutBytes)
			l.q.Client, l.q.At = netip.MustParseAddrPort(client), time.Now()
			if n := testing.AllocsPerRun(100, func() {
				if _, o := l.answer(msg, buf); o != dns.Answered {
					panic("no answer")
				}
			}); n != 0 {
				t.Errorf("%s from %s: %v allocations per query, want none", name, client, n)
			}
		}
	}
}

func TestNothingIsAllocatedInTheWholeEngine(t *testing.T) {
	if race.On {
		t.Skip("the race detector allocates memory")
	}
	s := handlerAt(t, Config{}).s
	conns, err := batch.Listen(context.Background(), netip.MustParseAddrPort("127.0.0.1:0"), 1)
	if err != nil {
		t.Fatal(err)
	}
	u, err := newSocket(s, conns[0], s.shards[0])
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	c, err := net.Dial("udp", u.conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	msg, err := query("www.test.", 1).Pack()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 512)
	if n := testing.AllocsPerRun(100, func() {
		c.Write(msg)
		n, err := u.conn.Read()
		if err != nil {
			panic(err)
		}
		u.answerAll(n)
		u.conn.Flush()
		if n, err := c.Read(b); err != nil || n < 12 || b[7] != 1 {
			panic("no answer")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a query from the socket and its reply, want none", n)
	}
}

func TestNothingIsAllocatedOnAConnection(t *testing.T) {
	if race.On {
		t.Skip("the race detector allocates memory")
	}
	s := start(t, Config{}, nil)
	c := dial(t, s)
	msg := frame(t, query("www.test.", miekg.TypeA))
	b := make([]byte, 512)
	if n := testing.AllocsPerRun(200, func() {
		c.Write(msg)
		if n, err := c.Read(b); err != nil || n < 14 || b[9] != 1 {
			panic("no answer")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a query, want none", n)
	}
}
