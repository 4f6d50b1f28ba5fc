package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	miekg "github.com/miekg/dns"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/metric"
	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/resolver/validate"
)

// silent answers nothing.
func silent(*miekg.Msg, bool) *miekg.Msg { return nil }

// failing answers SERVFAIL.
func failing(q *miekg.Msg, _ bool) *miekg.Msg {
	return new(miekg.Msg).SetRcode(q, miekg.RcodeServerFailure)
}

func quick(c Config) Config {
	c.Timeout, c.Total = setting.Duration(400*time.Millisecond), setting.Duration(5*time.Second)
	return c
}

func TestOneThatFailsIsPassedOver(t *testing.T) {
	for _, order := range []Order{Fastest, Parallel, Strict} {
		for what, bad := range map[string]func(*miekg.Msg, bool) *miekg.Msg{"silent": silent, "SERVFAIL": failing,
			"REFUSED": func(q *miekg.Msg, _ bool) *miekg.Msg { return new(miekg.Msg).SetRcode(q, miekg.RcodeRefused) }} {
			t.Run(string(order)+" "+what, func(t *testing.T) {
				t.Parallel()
				f := start(t, quick(Config{Upstreams: []string{serve(t, bad).addr, serve(t, says("192.0.2.2")).addr}, Order: order}))
				for range 5 {
					if got := get(f, "example.com"); got != "192.0.2.2" {
						t.Errorf("got %s, want the answer of the other one", got)
					}
				}
			})
		}
	}
}

func TestNoAnswerTakesBoundedTime(t *testing.T) {
	s := serve(t, silent)
	for _, order := range []Order{Fastest, Parallel, Strict} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			f := start(t, quick(Config{Upstreams: []string{s.addr}, Order: order}))
			_, _, err := f.Exchange(context.Background(), []byte("\x01a\x00"), 1, 1, Option{})
			var e *Error
			if !errors.As(err, &e) || e.EDE != dns.EDENoReachable {
				t.Errorf("got %v, want an error with EDE %d", err, dns.EDENoReachable)
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if _, _, err := f.Exchange(ctx, []byte("\x01a\x00"), 1, 1, Option{}); !errors.Is(err, context.Canceled) {
				t.Errorf("Exchange with a context that has ended: got %v, want canceled", err)
			}
		})
	}
}

func TestTheOnlyAnswerIsGivenEvenIfPoor(t *testing.T) {
	s := serve(t, func(q *miekg.Msg, _ bool) *miekg.Msg {
		m := new(miekg.Msg).SetRcode(q, miekg.RcodeServerFailure)
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = append(m.IsEdns0().Option, &miekg.EDNS0_EDE{InfoCode: 9})
		return m
	})
	f := start(t, Config{Upstreams: []string{s.addr}})
	msg, ede, err := f.Ask(context.Background(), []byte("\x01a\x00"), 1, 1, false, false)
	if err != nil || msg[3]&15 != dns.RcodeServFail || ede != 9 {
		t.Errorf("got rcode %d, EDE %d, %v; want SERVFAIL with the upstream's EDE 9", msg[3]&15, ede, err)
	}
	if n := s.queries.Load(); n != 1 {
		t.Errorf("the server got %d queries, want 1", n)
	}
}

func TestDownUpstreamIsProbedAndComesBack(t *testing.T) {
	t.Parallel()
	var dead atomic.Bool
	dead.Store(true)
	shaky := serve(t, func(q *miekg.Msg, tcp bool) *miekg.Msg {
		if dead.Load() {
			return nil
		}
		return says("192.0.2.1")(q, tcp)
	})
	good := serve(t, says("192.0.2.2"))
	f := start(t, quick(Config{Upstreams: []string{shaky.addr, good.addr}, Order: Strict}))
	u := first(f)
	waittest.Until(t, "the upstream is left alone", func() bool {
		if got := get(f, "example.com"); got != "192.0.2.2" {
			t.Fatalf("address from the second upstream: got %s, want 192.0.2.2", got)
		}
		down, _ := u.health()
		return down
	})
	before := u.requests.Load()
	for range 20 {
		get(f, "example.com")
	}
	if n := u.requests.Load() - before; n > 5 { // a few only, when the other upstream is late
		t.Errorf("%d of 20 queries went to an upstream that is down, want at most 5", n)
	}
	waittest.Until(t, "probes fail", func() bool { return u.probeFailures.Load() > 0 })
	dead.Store(false)
	waittest.Until(t, "the upstream is back", func() bool { return get(f, "example.com") == "192.0.2.1" })
}

func TestWithEveryUpstreamDownTheyAreAskedAnyway(t *testing.T) {
	s := serve(t, says("192.0.2.1"))
	f, err := New(Config{Upstreams: []string{s.addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range failuresDown {
		first(f).failed(context.DeadlineExceeded, f.alarm)
	}
	if down, _ := first(f).health(); !down {
		t.Fatal("the failing upstream does not count as down")
	}
	if got := get(f, "example.com"); got != "192.0.2.1" || f.broken.Load() != 1 {
		t.Errorf("the only upstream is down: got %s, %d counted", got, f.broken.Load())
	}
	if down, _ := first(f).health(); down {
		t.Error("the upstream answered and still counts as down")
	}
}

func TestProbesComeMoreSeldom(t *testing.T) {
	u := &upstream{}
	u.failed(errFormat, func() {})
	u.failed(errFormat, func() {})
	u.failed(errFormat, func() {})
	last := u.backoff
	for range 10 {
		u.probed(errFormat, 0)
		if u.backoff < last || u.backoff > lastBackoff {
			t.Fatalf("back-off %v after %v, want no decrease and at most lastBackoff", u.backoff, last)
		}
		last = u.backoff
	}
	if last != lastBackoff {
		t.Errorf("the back-off ends at %v, want %v", last, lastBackoff)
	}
}

func TestParallelTakesTheFirstAnswer(t *testing.T) {
	t.Parallel()
	slow := serve(t, func(q *miekg.Msg, tcp bool) *miekg.Msg {
		time.Sleep(200 * time.Millisecond)
		return says("192.0.2.1")(q, tcp)
	})
	fast := serve(t, says("192.0.2.2"))
	f := start(t, Config{Upstreams: []string{slow.addr, fast.addr}, Order: Parallel})
	for range 3 {
		if got := get(f, "example.com"); got != "192.0.2.2" {
			t.Errorf("got %s, want the fast one's answer", got)
		}
	}
	for end := time.Now().Add(time.Minute); slow.queries.Load() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) { // the server reads its socket when the system schedules it
			t.Fatal("the slow upstream got no query")
		}
	}
}

func TestFastestIsPreferred(t *testing.T) {
	slow := serve(t, func(q *miekg.Msg, tcp bool) *miekg.Msg {
		time.Sleep(50 * time.Millisecond)
		return says("192.0.2.1")(q, tcp)
	})
	fast := serve(t, says("192.0.2.2"))
	f := start(t, Config{Upstreams: []string{slow.addr, fast.addr}})
	for range 200 {
		if got := get(f, "example.com"); got != "192.0.2.2" && got != "192.0.2.1" {
			t.Fatalf("example.com: got %s, want an answer of either upstream", got)
		}
	}
	if n := slow.queries.Load(); n < 1 || n > 50 {
		t.Errorf("the slow one was asked %d times of 200: want a few", n)
	}
}

func TestStrictAsksTheFirstWhileItAnswers(t *testing.T) {
	t.Parallel()
	a, b := serve(t, says("192.0.2.1")), serve(t, says("192.0.2.2"))
	f := start(t, Config{Upstreams: []string{a.addr, b.addr}, Order: Strict})
	for range 50 {
		if got := get(f, "example.com"); got != "192.0.2.1" {
			t.Errorf("address: got %s, want that of the first upstream", got)
		}
	}
	if n := b.queries.Load(); n != 0 {
		t.Errorf("the second upstream got %d queries, want none", n)
	}
}

func TestCaseIsRandomAndServersThatDropItAreKnown(t *testing.T) {
	var mu sync.Mutex
	names := map[string]bool{}
	keeps := func(q *miekg.Msg, tcp bool) *miekg.Msg {
		mu.Lock()
		names[q.Question[0].Name] = true
		mu.Unlock()
		return says("192.0.2.1")(q, tcp)
	}
	f := start(t, Config{Upstreams: []string{serve(t, keeps).addr}})
	for range 20 {
		if got := get(f, "www.a-rather-long-name.example.com"); got != "192.0.2.1" {
			t.Fatalf("a long name: got %s, want 192.0.2.1", got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(names) < 19 {
		t.Errorf("%d spellings of the name in 20 queries, want at least 19", len(names))
	}

	folds := serve(t, func(q *miekg.Msg, tcp bool) *miekg.Msg {
		q.Question[0].Name = strings.ToLower(q.Question[0].Name)
		return says("192.0.2.1")(q, tcp)
	})
	f = start(t, Config{Upstreams: []string{folds.addr}})
	for range 20 {
		if got := get(f, "www.a-rather-long-name.example.com"); got != "192.0.2.1" {
			t.Fatalf("a long name again: got %s, want 192.0.2.1", got)
		}
	}
	if n, tcp := first(f).caseless.Load(), folds.tcp.Load(); n != 1 || tcp != 1 {
		t.Errorf("%d answers in other case, %d queries over TCP, want 1 and 1", n, tcp)
	}
}

// A forger sends forged answers before the real one, if there is one.
func forger(t *testing.T, forge func(q []byte) [][]byte, honest bool) (string, *net.UDPConn) {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFromUDP(buf)
			if err != nil {
				return
			}
			for _, m := range forge(buf[:n]) {
				c.WriteToUDP(m, from)
			}
			if honest {
				var q miekg.Msg
				q.Unpack(buf[:n])
				out, _ := says("192.0.2.1")(&q, false).Pack()
				c.WriteToUDP(out, from)
			}
		}
	})
	t.Cleanup(func() { c.Close(); wg.Wait() })
	return c.LocalAddr().String(), c
}

func answerWith(q []byte, change func(*miekg.Msg)) []byte {
	var m miekg.Msg
	m.Unpack(q)
	a := says("198.51.100.66")(&m, false)
	change(a)
	out, _ := a.Pack()
	return out
}

func TestForgedAnswersAreIgnoredAndCounted(t *testing.T) {
	addr, _ := forger(t, func(q []byte) [][]byte {
		echo := append([]byte(nil), q...)
		return [][]byte{
			answerWith(q, func(m *miekg.Msg) { m.Id++ }),
			answerWith(q, func(m *miekg.Msg) { m.Question[0].Name = "other.example." }),
			answerWith(q, func(m *miekg.Msg) { m.Question[0].Qtype = miekg.TypeMX }),
			answerWith(q, func(m *miekg.Msg) { m.Question = nil }),
			answerWith(q, func(m *miekg.Msg) { m.Response = false }),
			echo, {}, q[:5],
		}
	}, true)
	f := start(t, Config{Upstreams: []string{addr}})
	if got := get(f, "example.com"); got != "192.0.2.1" {
		t.Errorf("address despite forged answers: got %s, want 192.0.2.1", got)
	}
	if n := first(f).forged.Load(); n != 8 {
		t.Errorf("%d forged answers counted, want 8", n)
	}
}

func TestAnswersFromElsewhereAreNotHeard(t *testing.T) {
	other, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	got := make(chan net.Addr, 1)
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		buf := make([]byte, 1500)
		n, from, err := c.ReadFromUDP(buf)
		if err != nil {
			return
		}
		// The right answer, from another port; then the same from the right one.
		other.WriteToUDP(answerWith(buf[:n], func(*miekg.Msg) {}), from)
		c.WriteToUDP(answerWith(buf[:n], func(m *miekg.Msg) { m.Answer[0].(*miekg.A).A = net.IPv4(192, 0, 2, 1) }), from)
		got <- from
	}()
	f := start(t, Config{Upstreams: []string{c.LocalAddr().String()}})
	if addr := get(f, "example.com"); addr != "192.0.2.1" {
		t.Errorf("address after the wrong answers: got %s, want 192.0.2.1", addr)
	}
	<-got
}

func TestManyForgedAnswersLeadToTCP(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &miekg.Server{Listener: ln, Handler: miekg.HandlerFunc(func(w miekg.ResponseWriter, q *miekg.Msg) { w.WriteMsg(says("192.0.2.1")(q, true)) })}
	ended := make(chan error, 1)
	go func() { ended <- srv.ActivateAndServe() }()
	t.Cleanup(func() { ln.Close(); <-ended })
	c, err := net.ListenPacket("udp", ln.Addr().String())
	if err != nil {
		t.Skipf("the port is taken: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			for i := range 3 * mostForged {
				c.WriteTo(answerWith(buf[:n], func(m *miekg.Msg) { m.Id += uint16(1 + i) }), from)
			}
		}
	}()
	f := start(t, Config{Upstreams: []string{ln.Addr().String()}})
	if got := get(f, "example.com"); got != "192.0.2.1" {
		t.Errorf("got %s, want the answer over TCP", got)
	}
}

func TestServersWithoutEDNSAreAskedWithout(t *testing.T) {
	s := serve(t, func(q *miekg.Msg, tcp bool) *miekg.Msg {
		if q.IsEdns0() != nil {
			return new(miekg.Msg).SetRcode(q, miekg.RcodeFormatError)
		}
		return says("192.0.2.1")(q, tcp)
	})
	f := start(t, Config{Upstreams: []string{s.addr}})
	for i := range plainNames + 4 {
		if got := get(f, fmt.Sprintf("w%d.example.com", i)); got != "192.0.2.1" {
			t.Errorf("address %d: got %s, want 192.0.2.1", i, got)
		}
	}
	if n := s.queries.Load(); n != 2*plainNames+4 || first(f).plain.Load() != plainNames {
		t.Errorf("%d queries, %d counted, want %d and %d", n, first(f).plain.Load(), 2*plainNames+4, plainNames)
	}
	// Signatures come with EDNS only.
	wire, _ := dns.Name("signed.example.com")
	if _, _, err := f.Exchange(context.Background(), wire, miekg.TypeA, miekg.ClassINET, Option{DO: true}); err != nil || first(f).plain.Load() != plainNames+1 {
		t.Errorf("a query for signatures: %v, %d counted; want it to be tried with EDNS", err, first(f).plain.Load())
	}
}

// TestOneOddAnswerDoesNotEndEDNS answers FORMERR without OPT for some names.
func TestOneOddAnswerDoesNotEndEDNS(t *testing.T) {
	var plain atomic.Int64 // queries without EDNS, for other names
	s := serve(t, func(q *miekg.Msg, tcp bool) *miekg.Msg {
		odd := strings.HasPrefix(strings.ToLower(q.Question[0].Name), "odd")
		switch {
		case q.IsEdns0() != nil && odd:
			return new(miekg.Msg).SetRcode(q, miekg.RcodeFormatError)
		case q.IsEdns0() == nil && !odd:
			plain.Add(1)
		}
		return says("192.0.2.1")(q, tcp)
	})
	f := start(t, Config{Upstreams: []string{s.addr}})
	for _, names := range [][]string{
		{"odd", "odd", "odd", "odd", "odd", "good"},                              // the same one
		{"odd1", "odd2", "good", "odd3", "odd4", "good", "odd5", "odd6", "good"}, // several, but not in succession
		{"odd7", "good7", "odd8", "good8", "odd9", "good9", "odd0", "good0"},     // every other one
	} {
		for _, name := range names {
			if got := get(f, name+".example.com"); got != "192.0.2.1" {
				t.Errorf("%s: got %s, want 192.0.2.1", name, got)
			}
		}
	}
	if n := plain.Load(); n > 0 {
		t.Errorf("%d queries for other names went without EDNS", n)
	}
}

func TestMalformedAnswersAreAskedForOverTCP(t *testing.T) {
	s := serve(t, func(q *miekg.Msg, tcp bool) *miekg.Msg {
		m := says("192.0.2.1")(q, tcp)
		if !tcp {
			m.Answer = append(m.Answer, &miekg.RFC3597{Hdr: miekg.RR_Header{Name: ".", Rrtype: miekg.TypeOPT, Class: 1}})
		}
		return m
	})
	f := start(t, Config{Upstreams: []string{s.addr}})
	if got := get(f, "example.com"); got != "192.0.2.1" || first(f).malformed.Load() != 1 {
		t.Errorf("malformed answer, then a good one: got %s, %d malformed counted", got, first(f).malformed.Load())
	}
}

func TestQueriesInFlightAreBounded(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(q *miekg.Msg, tcp bool) *miekg.Msg {
		<-release
		return says("192.0.2.1")(q, tcp)
	})
	f := start(t, Config{Upstreams: []string{s.addr}, InFlight: 3, Order: Strict})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { get(f, "example.com") })
	}
	waittest.Until(t, "three wait", func() bool { return s.queries.Load() == 3 })
	if got := get(f, "example.com"); !strings.Contains(got, errFull.Error()) {
		t.Errorf("got %q, want a refusal", got)
	}
	close(release)
	wg.Wait()
	if first(f).full.Load() != 1 || f.refused.Load() != 1 {
		t.Errorf("%d queries refused by the upstream's limit and %d by the total, want 1 and 1", first(f).full.Load(), f.refused.Load())
	}
}

func TestStreamsCarryManyQueriesInAnyOrder(t *testing.T) {
	var mu sync.Mutex
	conns := map[string]bool{}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[c.RemoteAddr().String()] = true
			mu.Unlock()
			wg.Go(func() { backwards(c, 10) })
		}
	})
	f := start(t, Config{Upstreams: []string{"tcp://" + ln.Addr().String()}, Order: Strict})
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			want := fmt.Sprintf("192.0.2.%d", i)
			if got := get(f, fmt.Sprintf("h%d.example", i)); got != want {
				t.Errorf("address: got %s, want %s", got, want)
			}
		})
	}
	all.Wait()
	if len(conns) != 1 {
		t.Errorf("%d connections to the server, want 1", len(conns))
	}
}

// backwards reads n queries and answers them in reverse order.
func backwards(c net.Conn, n int) {
	defer c.Close()
	co := &miekg.Conn{Conn: c}
	var all []*miekg.Msg
	for range n {
		m, err := co.ReadMsg()
		if err != nil {
			return
		}
		all = append(all, m)
	}
	for i := range all {
		q := all[len(all)-1-i]
		co.WriteMsg(says("192.0.2."+q.Question[0].Name[1:2])(q, true))
	}
	co.ReadMsg()
}

func TestConnectionsThatFallSilentAreGivenUp(t *testing.T) {
	var conns atomic.Int64
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			first := conns.Add(1) == 1
			wg.Go(func() {
				defer c.Close()
				co := &miekg.Conn{Conn: c}
				for n := 0; ; n++ {
					q, err := co.ReadMsg()
					if err != nil {
						return
					}
					if !first || n == 0 {
						co.WriteMsg(says("192.0.2.1")(q, true))
					}
				}
			})
		}
	})
	f := start(t, quick(Config{Upstreams: []string{"tcp://" + ln.Addr().String()}}))
	for range 3 {
		if got := get(f, "example.com"); got != "192.0.2.1" {
			t.Errorf("address: got %s, want 192.0.2.1", got)
		}
	}
	if n := conns.Load(); n != 2 {
		t.Errorf("%d connections to the server, want 2", n)
	}
}

func TestNamesOfEmptyRoutesDoNotExist(t *testing.T) {
	s := serve(t, says("192.0.2.1"))
	f := start(t, Config{Upstreams: []string{s.addr}, Routes: map[string]setting.OneOrMore[string]{"private.example": {}}})
	msg, to, err := f.Exchange(context.Background(), []byte("\x03www\x07private\x07example\x00"), 1, 1, Option{})
	var m miekg.Msg
	if err != nil || m.Unpack(msg) != nil || m.Rcode != miekg.RcodeNameError || to != "" || m.Question[0].Name != "www.private.example." {
		t.Errorf("denied name: got %v from %q, %v, want NXDOMAIN", m, to, err)
	}
	if s.queries.Load() != 0 {
		t.Error("an upstream got the query for a denied name")
	}
}

func TestClientSubnetIsSentOnlyWhenAsked(t *testing.T) {
	seen := make(chan string, 1)
	s := serve(t, func(q *miekg.Msg, tcp bool) *miekg.Msg {
		text := ""
		for _, o := range q.IsEdns0().Option {
			text += o.String()
		}
		seen <- text
		return says("192.0.2.1")(q, tcp)
	})
	f := start(t, Config{Upstreams: []string{s.addr}})
	for subnet, want := range map[string]string{"": "", "192.0.2.77/24": "192.0.2.0/24/0", "2001:db8:1:2::3/56": "[2001:db8:1::]/56/0"} {
		opt := Option{}
		if subnet != "" {
			opt.Subnet = netip.MustParsePrefix(subnet)
		}
		if _, _, err := f.Exchange(context.Background(), []byte("\x01a\x00"), 1, 1, opt); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != want {
			t.Errorf("client subnet %q: the upstream got %q, want %q", subnet, got, want)
		}
	}
}

func TestLookupFollowsAliasesAndKnowsHowLongItHolds(t *testing.T) {
	rr := func(s string) miekg.RR {
		r, err := miekg.NewRR(s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	s := serve(t, func(q *miekg.Msg, _ bool) *miekg.Msg {
		m := new(miekg.Msg).SetReply(q)
		switch {
		case strings.EqualFold(q.Question[0].Name, "none.example."):
			m.Rcode = miekg.RcodeNameError
			m.Ns = []miekg.RR{rr("example. 900 SOA a. b. 1 2 3 4 120")}
		default:
			m.Answer = []miekg.RR{rr("WWW.example. 300 CNAME A.example."), rr("a.example. 60 CNAME b.example."), rr("b.example. 200 A 192.0.2.1"),
				rr("b.example. 200 A 192.0.2.2"), rr("other.example. 1 A 192.0.2.3")}
		}
		return m
	})
	f := start(t, Config{Upstreams: []string{s.addr}})
	addrs, ttl, err := f.Lookup(context.Background(), "www.example", miekg.TypeA)
	if err != nil || fmt.Sprint(addrs) != "[192.0.2.1 192.0.2.2]" || ttl != time.Minute {
		t.Errorf("Lookup: got %v for %v, %v", addrs, ttl, err)
	}
	addrs, ttl, err = f.Lookup(context.Background(), "none.example", miekg.TypeA)
	if err != nil || len(addrs) != 0 || ttl != 2*time.Minute {
		t.Errorf("got %v for %v, %v; want none for 2m", addrs, ttl, err)
	}
}

func TestNothingIsLeftRunning(t *testing.T) {
	ca := newAuthority(t)
	before := runtime.NumGoroutine()
	t.Run("work", func(t *testing.T) {
		var ups []string
		for _, x := range encryptedTransports {
			ups = append(ups, x.scheme+"://"+x.serve(t, ca, says("192.0.2.1")).addr+"#dns.test")
		}
		plain := serve(t, says("192.0.2.1")).addr
		ups = append(ups, plain, "tcp://"+plain, serve(t, silent).addr)
		f := start(t, quick(Config{Upstreams: ups, CA: setting.File(ca.file), Order: Parallel, Race: 6}))
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() { get(f, fmt.Sprintf("h%d.example", i)) })
		}
		wg.Wait()
	})
	waittest.Until(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before+2 })
}

func TestClosedForwarderSaysSo(t *testing.T) {
	s := serve(t, says("192.0.2.1"))
	f, err := New(Config{Upstreams: []string{s.addr}})
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	f.Close()
	if got := get(f, "example.com"); !strings.Contains(got, errClosed.Error()) {
		t.Errorf("after Close: got %s, want errClosed", got)
	}
}

func TestMetricsBearTheNamesOfCoreDNS(t *testing.T) {
	s := serve(t, says("192.0.2.1"))
	f := start(t, Config{Upstreams: []string{s.addr}, Validate: true, Config: validate.Config{Negative: []string{"example.com"}}})
	get(f, "example.com")
	var all strings.Builder
	if err := metric.Write(&all, f); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(all.String()) {
		name, labels, labelled := strings.Cut(line, "{")
		if !labelled {
			name, _, _ = strings.Cut(line, " ")
		}
		if !labelled || strings.Contains(labels, s.addr) || strings.Contains(labels, "insecure") {
			found[name] = line
		}
	}
	for _, name := range []string{"coredns_proxy_request_duration_seconds_bucket", "coredns_proxy_healthcheck_failures_total", "coredns_proxy_conn_cache_hits_total",
		"coredns_proxy_conn_cache_misses_total", "coredns_forward_healthcheck_broken_total", "coredns_forward_max_concurrent_rejects_total",
		"shuultuur_dns_validated_total", "shuultuur_dns_upstream_forged_total", "shuultuur_dns_upstream_rtt_seconds"} {
		if found[name] == "" {
			t.Errorf("the metric %s is missing", name)
		}
	}
	if got := found["coredns_proxy_request_duration_seconds_count"]; !strings.Contains(got, "NOERROR") || !strings.HasSuffix(got, " 1\n") {
		t.Errorf("metric of request durations: got %s", got)
	}
}

func TestMistakesInSettingsAreNamed(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.pem")
	if err := os.WriteFile(bad, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := []string{"192.0.2.1"}
	for _, x := range []struct {
		cfg       Config
		key, want string
	}{
		{Config{Upstreams: []string{"192.0.2.1", "dns.example"}}, "upstreams[1]", "neither an IP address"},
		{Config{Upstreams: []string{"ftp://dns.example"}}, "upstreams[0]", "not one of udp, tcp"},
		{Config{Upstreams: []string{"tls://"}}, "upstreams[0]", "no host"},
		{Config{Upstreams: []string{"tls://dns.example:0"}}, "upstreams[0]", "not a port"},
		{Config{Upstreams: []string{"tls://dns.example#nine"}}, "upstreams[0]", "not an IP address"},
		{Config{Upstreams: []string{"udp://192.0.2.1#dns.example"}}, "upstreams[0]", "no certificate"},
		{Config{Upstreams: []string{"tls://192.0.2.1?pin=ab"}}, "upstreams[0]", "64 hexadecimal digits"},
		{Config{Upstreams: []string{"tls://192.0.2.1/path"}}, "upstreams[0]", "no path"},
		{Config{Upstreams: []string{"https://me:secret@dns.example/dns-query"}}, "upstreams[0]", "no user"},
		{Config{Upstreams: []string{"127.0.0.53"}, Own: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.53:53")}}, "upstreams[0]", "this server itself"},
		{Config{Upstreams: []string{"127.0.0.1"}, Own: []netip.AddrPort{netip.MustParseAddrPort("[::]:53")}}, "upstreams[0]", "this server itself"},
		{Config{Upstreams: []string{"tls://192.0.2.1#a.example", "tls://192.0.2.1#b.example"}}, "upstreams[1]", "appears twice"},
		{Config{Upstreams: up, Routes: map[string]setting.OneOrMore[string]{"a..b": up}}, "routes.a..b", "not a domain"},
		{Config{Upstreams: up, Routes: map[string]setting.OneOrMore[string]{"b": {"x"}}}, "routes.b[0]", "neither"},
		{Config{Upstreams: up, Bootstrap: []string{"tls://dns.example"}}, "bootstrap[0]", "IP address"},
		{Config{Upstreams: up, Order: "random"}, "order", "not one of fastest"},
		{Config{Upstreams: up, Race: 7}, "race", "from 1 to 6"},
		{Config{Upstreams: up, InFlight: -1}, "in-flight", "from 1 to"},
		{Config{Upstreams: up, Timeout: setting.Duration(time.Hour)}, "timeout", "up to 1m"},
		{Config{Upstreams: up, CA: setting.File(bad)}, "ca", "no certificate"},
		{Config{Upstreams: up, CA: setting.File(bad + "x")}, "ca", "no such file"},
	} {
		f, err := New(x.cfg)
		var s *setting.Error
		if err == nil {
			f.Close()
		}
		if !errors.As(err, &s) || s.Key != x.key || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v; want a mistake at %q that says %q", x.cfg, err, x.key, x.want)
		}
	}
}

func TestSystemServersAreThoseOfResolvConf(t *testing.T) {
	own := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:53")}
	text := "# nameserver 192.0.2.9\nsearch example\nnameserver 127.0.0.1\nnameserver 192.0.2.1\nnameserver 192.0.2.1\nnameserver 2001:db8::1\nnameserver\nnameserver x\n"
	if got := fmt.Sprint(others(serversIn(text), own)); got != "[192.0.2.1 2001:db8::1]" {
		t.Errorf("servers of resolv.conf except ours: got %s", got)
	}
}

// TestWithoutAnyServerNamesFailAndSayWhy: the system's only name server is ours, as on a
// machine whose network is not up yet. Names with a route, and denied ones, are still
// answered.
func TestWithoutAnyServerNamesFailAndSayWhy(t *testing.T) {
	var own []netip.AddrPort
	for _, s := range configured() {
		if ip, err := netip.ParseAddr(s); err == nil {
			own = append(own, netip.AddrPortFrom(ip, 53))
		}
	}
	there := serve(t, says("192.0.2.1"))
	for _, validated := range []bool{false, true} {
		f := start(t, Config{Own: own, Validate: validated, Routes: map[string]setting.OneOrMore[string]{"corp.example": {there.addr}, "lan": {}}})
		_, ede, err := f.Ask(t.Context(), []byte("\x03www\x07example\x00"), 1, 1, false, false)
		if !errors.Is(err, errNone) || ede != dns.EDENoReachable {
			t.Errorf("validated %v: without a server: %v, EDE %d, want %v, EDE %d", validated, err, ede, errNone, dns.EDENoReachable)
		}
		if !validated {
			if got := get(f, "www.corp.example"); got != "192.0.2.1" {
				t.Errorf("name with a route: got %s, want 192.0.2.1", got)
			}
			if got := get(f, "printer.lan"); got != "" {
				t.Errorf("denied name: got %s, want no address", got)
			}
		}
		if p := f.Problems(); len(p) != 1 || !strings.Contains(p[0], "dns.forward.upstreams") {
			t.Errorf("problems: got %q, want one that names dns.forward.upstreams", p)
		}
		if !slices.Equal(f.AwaitedFiles(), systemFiles) {
			t.Errorf("Awaited: got %q, want the files of the system", f.AwaitedFiles())
		}
	}
	all := start(t, Config{Own: own, Routes: map[string]setting.OneOrMore[string]{".": {there.addr}}})
	if got := get(all, "www.example"); got != "192.0.2.1" || len(all.Problems()) > 0 || len(all.AwaitedFiles()) > 0 {
		t.Errorf("with a route for all names: got %s, problems %q", got, all.Problems())
	}
	named := start(t, Config{Own: own, Upstreams: []string{"tls://dns.example"}})
	if got := get(named, "www.example"); !strings.Contains(got, errNone.Error()) {
		t.Errorf("upstream by name without bootstrap: got %s, want errNone", got)
	}
	if p := named.Problems(); len(p) != 1 || !strings.Contains(p[0], "dns.forward.bootstrap") {
		t.Errorf("upstream by name without bootstrap: got problems %q", p)
	}
}

// FuzzCheck: check accepts only messages that the library can read and that answer the query.
func FuzzCheck(f *testing.F) {
	q := &query{name: []byte("\x03www\x07example\x03com\x00"), qtype: 1, class: 1}
	form := form{id: 0x1234, name: []byte("\x03wWw\x07eXample\x03com\x00")}
	m := new(miekg.Msg).SetQuestion("wWw.eXample.com.", 1)
	m.Id = 0x1234
	a := says("192.0.2.1")(m.SetEdns0(1232, true), false)
	for _, rr := range []string{"www.example.com. CNAME a.b.example.com.", "example.com. SOA a.example.com. b. 1 2 3 4 5", "x. TXT \"y\""} {
		r, err := miekg.NewRR(rr)
		if err != nil {
			f.Fatal(err)
		}
		a.Answer = append(a.Answer, r)
		a.Compress = true
		out, err := a.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(out)
		f.Add(out[:len(out)-3])
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		a, err := q.check(msg, form)
		if len(msg) >= headerSize {
			extendedErrorOf(msg)
		}
		if err != nil {
			return
		}
		if binary.BigEndian.Uint16(msg) != form.id || !dns.EqualFold(msg[headerSize:headerSize+len(q.name)], q.name) {
			t.Fatal("check accepted an answer to another query")
		}
		var m miekg.Msg
		if m.Unpack(msg) != nil {
			return // the library also examines records
		}
		if len(m.Question) != 1 || !strings.EqualFold(m.Question[0].Name, "www.example.com.") || m.Rcode != int(a.rcode) || m.Truncated != a.tc {
			t.Fatalf("check read %+v, the library reads %v", a, &m)
		}
	})
}

// extendedErrorOf reads messages of any rcode.
func extendedErrorOf(msg []byte) uint16 {
	m := append([]byte(nil), msg...)
	m[3] |= 2
	m[3] &^= 1
	return extendedError(m)
}
