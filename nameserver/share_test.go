package nameserver

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"shuultuur/nameserver/wire"
)

// others is a responder for names of others, whose upstreams answer when gate
// can be read from; it has a stale answer for stale.victim.test.
type others struct {
	gate    chan struct{}
	entered chan struct{}
}

func (o *others) Answer(q *wire.Query, r *wire.Reply) wire.Outcome {
	r.RA = true
	switch {
	case !q.Late:
		return wire.Later
	case wire.Text(q.Name) == "stale.victim.test.":
		return o.answer(r)
	}
	r.Rcode = servFail
	return wire.Answered
}

func (o *others) answer(r *wire.Reply) wire.Outcome {
	r.RA = true
	r.Record(nil, dns.TypeA, 1, 300, addrData)
	r.Answers++
	return wire.Answered
}

func (o *others) Wait(ctx context.Context, _ *wire.Query, r *wire.Reply) wire.Outcome {
	o.entered <- struct{}{}
	select {
	case <-o.gate:
	case <-ctx.Done():
	}
	return o.answer(r)
}

// TestADomainThatIsSlowLeavesRoomForOthers: also for clients that come by TCP.
func TestADomainThatIsSlowLeavesRoomForOthers(t *testing.T) {
	const places = 64
	o := &others{make(chan struct{}), make(chan struct{}, 2*places)}
	s := start(t, Config{Workers: places / 2, Queue: places / 2}, nil, o)
	conn, err := net.Dial("udp", s.at(wire.UDP))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &dns.Conn{Conn: conn}
	ask := func(name string) {
		t.Helper()
		m := query(name, dns.TypeA)
		m.SetEdns0(1232, false)
		if err := c.WriteMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	read := func() *dns.Msg {
		t.Helper()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		r, err := c.ReadMsg()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const share = 7 // an eighth of the 57 that are free then
	for i := range 2 * places {
		ask(fmt.Sprintf("x%d.victim.test.", i))
	}
	for range 2*places - share {
		r := read()
		e := r.IsEdns0()
		if r.Rcode != servFail || e == nil || len(e.Option) != 1 || e.Option[0].(*dns.EDNS0_EDE).InfoCode != edeOther ||
			!strings.Contains(e.Option[0].(*dns.EDNS0_EDE).ExtraText, "this domain") {
			t.Fatalf("%v", r)
		}
	}
	if n := s.lost(domainFull); n != 2*places-share {
		t.Errorf("%d counted, want %d", n, 2*places-share)
	}
	ask("stale.victim.test.")
	if r := read(); r.Rcode != 0 || len(r.Answer) != 1 {
		t.Errorf("what is there without asking is not given: %v", r)
	}
	if r := exchange(t, s, "tcp", query("y.victim.test.", dns.TypeA)); r.Rcode != servFail {
		t.Errorf("by TCP: %v", r)
	}
	for range share {
		<-o.entered
	}
	ask("www.well.example.")
	<-o.entered // it is asked
	close(o.gate)
	for range share + 1 {
		if r := read(); r.Rcode != 0 || len(r.Answer) != 1 {
			t.Errorf("%v", r)
		}
	}
	// Its places are free again, as soon as the replies are out of our hands.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		ask("www.victim.test.")
		r := read()
		if r.Rcode == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("10 s afterwards: %v", r)
		}
	}
}

// TestZonesOfOurOwnHaveAllPlaces: what does not come from upstreams has no
// share.
func TestZonesOfOurOwnHaveAllPlaces(t *testing.T) {
	const places = 64
	z := &zone{gate: make(chan struct{}), entered: make(chan struct{}, places)}
	s := start(t, Config{Workers: places, Queue: places}, nil, z)
	conn, err := net.Dial("udp", s.at(wire.UDP))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &dns.Conn{Conn: conn}
	for i := range places {
		if err := c.WriteMsg(query(fmt.Sprintf("later%d.test.", i), dns.TypeA)); err != nil {
			t.Fatal(err)
		}
	}
	for range places {
		<-z.entered
	}
	close(z.gate)
	c.SetDeadline(time.Now().Add(5 * time.Second))
	for range places {
		if r, err := c.ReadMsg(); err != nil || r.Rcode != 0 {
			t.Fatalf("%v, %v", r, err)
		}
	}
}

func TestDomainIsWhatCanBeRegistered(t *testing.T) {
	for name, want := range map[string]string{
		".":                              ".",
		"com.":                           "com.",
		"example.com.":                   "example.com.",
		"a.b.example.com.":               "example.com.",
		"x.t.co.":                        "t.co.",
		"www.example.co.uk.":             "example.co.uk.",
		"co.uk.":                         "co.uk.",
		"a.b.github.io.":                 "github.io.", // one company answers for all of it
		"x.corp.":                        "x.corp.",
		"4.3.2.1.in-addr.arpa.":          "1.in-addr.arpa.",
		"a\\.b.example.org.":             "example.org.",
		"a.b.c.d.e.f.g.h.i.example.net.": "example.net.",
	} {
		msg, err := query(name, dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		var q wire.Query
		if st := q.Parse(msg); st != wire.OK {
			t.Fatalf("%s: status %d", name, st)
		}
		if got := wire.Text(domain(&q)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
