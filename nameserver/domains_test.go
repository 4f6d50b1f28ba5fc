package nameserver

import (
	"context"
	"fmt"
	miekg "github.com/miekg/dns"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

// others is a responder for external names, whose upstreams answer when gate
// can be read from. It has a stale answer for stale.victim.test.
type others struct {
	gate    chan struct{}
	entered chan struct{}
}

func (o *others) Answer(q *dns.Query, r *dns.Reply, _ *filter.Transaction) dns.Outcome {
	r.RA = true
	if r.Stale = dns.Text(q.Name) == "stale.victim.test."; r.Stale && q.Late {
		return o.answer(r)
	}
	return dns.Later
}

func (o *others) answer(r *dns.Reply) dns.Outcome {
	r.RA = true
	r.Record(nil, miekg.TypeA, 1, 300, addrData)
	r.Answers++
	return dns.Answered
}

func (o *others) Wait(ctx context.Context, _ *dns.Query, r *dns.Reply, _ *filter.Transaction) dns.Outcome {
	o.entered <- struct{}{}
	select {
	case <-o.gate:
	case <-ctx.Done():
	}
	return o.answer(r)
}

// TestADomainThatIsSlowLeavesRoomForOthers: a slow domain gets an eighth of the free workers.
// It has the whole queue while no other domain needs it. This also holds over TCP.
func TestADomainThatIsSlowLeavesRoomForOthers(t *testing.T) {
	const workers, line = 64, 32
	const share = 7 // an eighth of the 57 that are free then
	o := &others{make(chan struct{}), make(chan struct{}, workers+2*line)}
	s := start(t, Config{Workers: setting.Count(workers), Queue: setting.Count(line)}, nil, o)
	conn, err := net.Dial("udp", s.at(dns.UDP))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &miekg.Conn{Conn: conn}
	ask := func(name string) {
		t.Helper()
		if err := c.WriteMsg(query(name, miekg.TypeA)); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		t.Helper()
		c.SetDeadline(time.Now().Add(time.Minute))
		r, err := c.ReadMsg()
		if err != nil {
			t.Fatal(err)
		}
		if r.Rcode != 0 || len(r.Answer) != 1 {
			t.Errorf("query for another domain: got %v, want 1 record", r)
		}
		return r.Question[0].Name
	}
	for i := range share + 2*line {
		ask(fmt.Sprintf("x%d.victim.test.", i))
		if i < share {
			<-o.entered
		}
	}
	for s.lost(queueFull) < line { // the oldest are displaced
		runtime.Gosched()
	}
	if queued, waiting := s.queue.state(); queued != line || waiting != share {
		t.Errorf("%d in line and %d at work, want %d and %d", queued, waiting, line, share)
	}
	ask("stale.victim.test.")
	if got := read(); got != "stale.victim.test." {
		t.Errorf("got the answer for %s first, want the stale one, which is available at once", got)
	}
	for i := range line / 2 { // the first takes a place in the queue, which is then free for the next ones
		ask(fmt.Sprintf("www.well%d.example.", i))
		<-o.entered
	}
	tcp := make(chan *miekg.Msg)
	go func() { tcp <- exchange(t, s, "tcp", query("y.victim.test.", miekg.TypeA)) }()
	<-o.entered // it does not share a place with possibly forged addresses
	close(o.gate)
	if r := <-tcp; r.Rcode != 0 {
		t.Errorf("query over TCP: got %v, want NOERROR", r)
	}
	got := map[string]bool{}
	for range share + line - 1 + line/2 {
		got[read()] = true
	}
	for i := share + line + 1; i < share+2*line; i++ { // the newest were in the queue
		if name := fmt.Sprintf("x%d.victim.test.", i); !got[name] {
			t.Errorf("no answer for %s", name)
		}
	}
	if n := s.lost(queueFull); n != line+1 {
		t.Errorf("%d queries counted as dropped, want %d", n, line+1)
	}
}

// TestAFullQueueDropsTheOldestQueryOfTheLargestDomain: a full queue drops queries of the domain that has most,
// not the oldest ones of any domain.
func TestAFullQueueDropsTheOldestQueryOfTheLargestDomain(t *testing.T) {
	const line = 32
	o := &others{make(chan struct{}), make(chan struct{}, 8*line)}
	s := start(t, Config{Workers: 1, Queue: setting.Count(line)}, nil, o)
	conn, err := net.Dial("udp", s.at(dns.UDP))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &miekg.Conn{Conn: conn}
	ask := func(name string) {
		t.Helper()
		if err := c.WriteMsg(query(name, miekg.TypeA)); err != nil {
			t.Fatal(err)
		}
	}
	ask("busy.example.")
	<-o.entered
	place := func(domain string) uint16 {
		wire := make([]byte, 64)
		n, err := miekg.PackDomainName(domain, wire, 0, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		return s.queue.place(wire[:n], true)
	}
	well := "well.example."
	for i := 0; place(well) == place("victim.test."); i++ { // one of 4,095 domains shares the queue
		well = fmt.Sprintf("well%d.example.", i)
	}
	for i := range 3 {
		ask(fmt.Sprintf("x%d.%s", i, well))
	}
	for i := range 4 * line {
		ask(fmt.Sprintf("x%d.victim.test.", i))
	}
	for s.lost(queueFull) < 3*line+3 {
		runtime.Gosched()
	}
	close(o.gate)
	got := map[string]int{}
	var order []string
	c.SetDeadline(time.Now().Add(time.Minute))
	for range 1 + line {
		r, err := c.ReadMsg()
		if err != nil {
			t.Fatal(err)
		}
		_, of, _ := strings.Cut(r.Question[0].Name, ".")
		got[of]++
		order = append(order, of)
	}
	if got[well] != 3 {
		t.Errorf("answers by domain: got %v, want all 3 of the small domain", got)
	}
	// The queues are served in rotation, not one after another.
	if last := slices.Index(order, well); last > 3 {
		t.Errorf("the first query of the small domain was answered as number %d: %v", last, order[:10])
	}
}

// TestDuplicateQueriesOccupyOneWorker: of many queries for one name, only one occupies a
// worker.
func TestDuplicateQueriesOccupyOneWorker(t *testing.T) {
	const many = 20
	o := &others{make(chan struct{}), make(chan struct{}, 2*many)}
	s := start(t, Config{Workers: 64, Queue: 64}, nil, o)
	conn, err := net.Dial("udp", s.at(dns.UDP))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &miekg.Conn{Conn: conn}
	for i := range many {
		m := query("www.example.", miekg.TypeA)
		m.Id = uint16(i)
		if err := c.WriteMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	<-o.entered
	for queued, waiting := s.queue.state(); queued != many-1; queued, waiting = s.queue.state() {
		if runtime.Gosched(); waiting != 1 {
			t.Fatalf("%d workers busy, want 1", waiting)
		}
	}
	close(o.gate)
	seen := map[uint16]bool{}
	c.SetDeadline(time.Now().Add(time.Minute))
	for range many {
		r, err := c.ReadMsg()
		if err != nil || r.Rcode != 0 {
			t.Fatalf("reply to a duplicate query: %v, %v", r, err)
		}
		seen[r.Id] = true
	}
	if len(seen) != many {
		t.Errorf("%d of %d clients got their answer", len(seen), many)
	}
}

// TestZonesOfOurOwnHaveAllPlaces: queries that need no upstream are not limited to a share of
// the workers.
func TestZonesOfOurOwnHaveAllPlaces(t *testing.T) {
	const places = 64
	z := &zone{gate: make(chan struct{}), entered: make(chan struct{}, places)}
	s := start(t, Config{Workers: setting.Count(places), Queue: setting.Count(places)}, nil, z)
	conn, err := net.Dial("udp", s.at(dns.UDP))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &miekg.Conn{Conn: conn}
	for i := range places {
		if err := c.WriteMsg(query(fmt.Sprintf("later%d.test.", i), miekg.TypeA)); err != nil {
			t.Fatal(err)
		}
	}
	for range places {
		<-z.entered
	}
	close(z.gate)
	c.SetDeadline(time.Now().Add(time.Minute))
	for range places {
		if r, err := c.ReadMsg(); err != nil || r.Rcode != 0 {
			t.Fatalf("query for our own zone: %v, %v", r, err)
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
		"a.b.github.io.":                 "github.io.", // one company is responsible for all of it
		"x.corp.":                        "x.corp.",
		"4.3.2.1.in-addr.arpa.":          "1.in-addr.arpa.",
		"a\\.b.example.org.":             "example.org.",
		"a.b.c.d.e.f.g.h.i.example.net.": "example.net.",
	} {
		msg, err := query(name, miekg.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		var q dns.Query
		if st := q.Parse(msg); st != dns.OK {
			t.Fatalf("parsing the query for %s: status %d", name, st)
		}
		if got := dns.Text(domain(&q)); got != want {
			t.Errorf("domain of %s: got %s, want %s", name, got, want)
		}
	}
}

// TestOneClientLeavesWorkersForOthers: a client that asks for more slow domains than there are workers,
// each another one, gets half of them, and another client is answered, also behind it in one queue.
func TestOneClientLeavesWorkersForOthers(t *testing.T) {
	const workers = 64
	d := newDomainQueues(workers)
	greedy, other := netip.MustParseAddrPort("192.0.2.1:1000"), netip.MustParseAddrPort("[2001:db8::1]:53")
	ask := func(client netip.AddrPort, domain string) {
		j := &job{client: client, domain: d.place([]byte(domain), true), transport: dns.UDP}
		j.of = d.clientOf(j)
		d.enter(j, false)
	}
	work := func() (of map[netip.AddrPort][]*job) {
		of = map[netip.AddrPort][]*job{}
		for quiet := 0; d.busy < workers && quiet < 100; quiet++ { // each call looks at some queues
			if i, ok := d.ready(); ok {
				j := d.leave(i)
				d.begin(j)
				of[j.client] = append(of[j.client], j)
			}
		}
		return of
	}
	for i := range 10 * workers {
		ask(greedy, fmt.Sprintf("x%d.example", i))
	}
	first := work()
	if n := len(first[greedy]); n != workers/2 {
		t.Errorf("one client has %d of %d workers, want half", n, workers)
	}
	for i := range 4 {
		ask(other, fmt.Sprintf("x%d.example", 600+i)) // behind the first client's
		ask(other, fmt.Sprintf("y%d.example", i))
	}
	second := work()
	if len(second[other]) != 8 || len(second[greedy]) != 0 {
		t.Errorf("then it has %d more workers, and another client %d for 8 queries", len(second[greedy]), len(second[other]))
	}
	for _, j := range first[greedy] {
		d.end(j)
	}
	if third := work(); len(third[greedy]) != workers/2 {
		t.Errorf("afterwards the client has %d workers", len(third[greedy]))
	}
}
