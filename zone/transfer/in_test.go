package transfer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"
)

func rrs(t testing.TB, lines ...string) []miekg.RR {
	t.Helper()
	var out []miekg.RR
	for _, line := range lines {
		rr, err := miekg.NewRR(line)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rr)
	}
	return out
}

func soa(serial int) string {
	return fmt.Sprintf("example.com. 300 IN SOA ns1.example.com. hostmaster.example.com. %d 3600 600 86400 300", serial)
}

func a(i int) string { return fmt.Sprintf("host%d.example.com. 300 IN A 192.0.2.%d", i, i) }

// receive gives messages with these records to a receiver.
func receive(t testing.TB, have int, max int64, messages ...[]string) (*primaryAnswer, error) {
	t.Helper()
	var old *miekg.SOA
	if have > 0 {
		old = rrs(t, soa(have))[0].(*miekg.SOA)
	}
	r := newReceiver("example.com.", 7, old, max)
	for i, lines := range messages {
		m := &miekg.Msg{MsgHdr: miekg.MsgHdr{Id: 7, Response: true}, Answer: rrs(t, lines...), Compress: true}
		wire, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.message(wire); err != nil {
			return nil, err
		}
		if r.done != (i == len(messages)-1) {
			return nil, fmt.Errorf("done %v after message %d", r.done, i)
		}
	}
	return r.result()
}

func TestTransfersArePutTogether(t *testing.T) {
	whole, err := receive(t, 0, 0, []string{soa(5), a(1)}, []string{a(2)}, []string{a(3), soa(5)})
	if err != nil || len(whole.records) != 4 || whole.serial != 5 {
		t.Errorf("AXFR: got %v, %v", whole, err)
	}
	// An answer to IXFR may be all of the zone, and an empty one.
	whole, err = receive(t, 4, 0, []string{soa(5)}, []string{a(1), soa(5)})
	if err != nil || len(whole.records) != 2 {
		t.Errorf("IXFR answered with the whole zone: got %v, %v", whole, err)
	}
	whole, err = receive(t, 4, 0, []string{soa(5), soa(5)})
	if err != nil || len(whole.records) != 1 || whole.steps != nil {
		t.Errorf("IXFR answered with an empty zone: got %v, %v", whole, err)
	}
	nothing, err := receive(t, 5, 0, []string{soa(5)})
	if err != nil || nothing.records != nil || nothing.steps != nil {
		t.Errorf("IXFR without a newer version: got %v, %v", nothing, err)
	}
	steps, err := receive(t, 3, 0, []string{soa(5), soa(3), a(1), soa(4), a(2)}, []string{a(3), soa(4), a(3), soa(5), a(4), soa(5)})
	if err != nil || len(steps.steps) != 2 {
		t.Fatalf("IXFR with differences: got %v, %v, want 2 steps", steps, err)
	}
	records, err := apply(rrs(t, soa(3), a(1), a(9)), steps.steps)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, rr := range records[1:] {
		names = append(names, strings.TrimSuffix(rr.Header().Name, ".example.com."))
	}
	slices.Sort(names)
	if records[0].(*miekg.SOA).Serial != 5 || !slices.Equal(names, []string{"host2", "host4", "host9"}) {
		t.Errorf("after the differences: serial %d with %v", records[0].(*miekg.SOA).Serial, names)
	}
	for name, have := range map[string][]string{"to go": {soa(3), a(9)}, "to come": {soa(3), a(1), a(2)}} {
		if _, err := apply(rrs(t, have...), steps.steps); err == nil {
			t.Errorf("%s: apply accepted differences that do not fit the zone", name)
		}
	}
}

func TestBadTransfersAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		have int
		max  int64
		msgs [][]string
		want string
	}{
		"no SOA first":      {0, 0, [][]string{{a(1), soa(5)}}, "not with the SOA"},
		"another zone":      {0, 0, [][]string{{strings.Replace(soa(5), "example.com.", "example.org.", 1), a(1)}}, "SOA record of"},
		"another end":       {0, 0, [][]string{{soa(5), a(1), soa(6)}}, "ends with 6"},
		"more after it":     {0, 0, [][]string{{soa(5), a(1), soa(5), a(2)}}, "after the end"},
		"nothing":           {0, 0, [][]string{{}}, "without records"},
		"too much":          {0, 200, [][]string{{soa(5), a(1), a(2), a(3), a(4), soa(5)}}, "more than 200 bytes"},
		"SOA elsewhere":     {0, 0, [][]string{{soa(5), strings.Replace(soa(5), "example.com.", "x.example.com.", 1)}}, "SOA record of"},
		"another beginning": {3, 0, [][]string{{soa(5), soa(2), soa(5), soa(5)}}, "from serial 2, not from 3"},
		"a gap":             {3, 0, [][]string{{soa(6), soa(3), soa(4), soa(5), soa(6), soa(6)}}, "from serial 5, not from 4"},
	} {
		if _, err := receive(t, tt.have, tt.max, tt.msgs...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", name, err, tt.want)
		}
	}
}

func FuzzReceiver(f *testing.F) {
	add := func(have byte, lines ...string) {
		m := &miekg.Msg{MsgHdr: miekg.MsgHdr{Id: 7, Response: true}, Answer: rrs(f, lines...), Compress: true}
		wire, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(have, wire)
	}
	add(0, soa(5), a(1), soa(5))
	add(3, soa(5), soa(3), a(1), soa(5), a(2), soa(5))
	add(5, soa(5))
	f.Fuzz(func(t *testing.T, have byte, msg []byte) {
		var old *miekg.SOA
		if have > 0 {
			old = &miekg.SOA{Hdr: miekg.RR_Header{Name: "example.com.", Rrtype: miekg.TypeSOA, Class: 1}, Serial: uint32(have)}
		}
		r := newReceiver("example.com.", 7, old, 1<<20)
		for range 2 {
			if r.message(msg) != nil {
				return
			}
			if r.done {
				break
			}
		}
		if !r.done {
			return
		}
		got, err := r.result()
		if err != nil {
			return
		}
		records := got.records
		if got.steps != nil {
			var base []miekg.RR
			for _, s := range got.steps {
				base = append(base, s.gone...)
			}
			if records, err = apply(base, got.steps); err != nil {
				return
			}
		}
		if len(records) > 0 {
			if _, ok := records[0].(*miekg.SOA); !ok {
				t.Errorf("the zone begins with %s, want the SOA", records[0])
			}
		}
	})
}

func TestDifferencesAreBounded(t *testing.T) {
	build := func(serial, from, to int) *version {
		lines := []string{soa(serial)}
		for i := from; i < to; i++ {
			lines = append(lines, a(i))
		}
		c, err := wholeContent("example.com.", rrs(t, lines...))
		if err != nil {
			t.Fatal(err)
		}
		return c.version()
	}
	one, two := build(1, 0, 100), build(2, 1, 101)
	d := diff(one, two)
	if len(d.gone) != 1 || len(d.come) != 1 || !bytes.HasPrefix(d.gone[0], []byte("\x05host0")) || !bytes.HasPrefix(d.come[0], []byte("\x07host100")) {
		t.Errorf("difference: got removed %q, added %q, want host0 and host100", d.gone, d.come)
	}
	var j journal
	for i := range 1000 {
		j = j.add(&difference{from: uint32(i), to: uint32(i + 1), size: 10}, 100_000)
	}
	if len(j) != maxJournal || j.since(999) == nil || j.since(1) != nil {
		t.Errorf("the journal has %d differences, want maxJournal, without the oldest", len(j))
	}
	j = j.add(&difference{from: 1000, to: 1001, size: 99_990}, 100_000)
	if len(j) != 2 {
		t.Errorf("%d differences kept beside a large one, want 1", len(j)-1)
	}
	if j = j.add(&difference{from: 1001, to: 1002, size: 100_001}, 100_000); len(j) != 0 {
		t.Errorf("after a difference larger than the zone, the journal has %d, want none", len(j))
	}
}

func TestMessagesOfATransferAreReadByTheCodec(t *testing.T) {
	lines := []string{soa(1)}
	for i := range 3000 {
		lines = append(lines, fmt.Sprintf("host%d.sub%d.example.com. 300 IN A 192.0.2.1", i, i%7), fmt.Sprintf("host%d.sub%d.example.com. 300 IN TXT \"%s\"", i, i%7, strings.Repeat("x", i%200)))
	}
	big := "big.example.com. 300 IN TXT" + strings.Repeat(" \""+strings.Repeat("y", 250)+"\"", 250) // 62 KiB
	lines = append(lines, big)
	v, err := wholeContent("example.com.", rrs(t, lines...))
	if err != nil {
		t.Fatal(err)
	}
	question := new(miekg.Msg)
	question.SetAxfr("example.com.")
	head, err := question.Pack()
	if err != nil {
		t.Fatal(err)
	}
	got, messages := map[string]int{}, 0
	p := newPacker(head, nil, nil, func(msg []byte) error {
		messages++
		if len(msg) > 65535 {
			t.Errorf("a message has %d bytes, want at most 65535", len(msg))
		}
		var m miekg.Msg
		if err := m.Unpack(msg); err != nil {
			return err
		}
		for _, rr := range m.Answer {
			got[rr.String()]++
		}
		return nil
	})
	if err := p.writeZone(v); err != nil {
		t.Fatal(err)
	}
	if messages < 5 {
		t.Errorf("the zone took %d messages, want at least 5", messages)
	}
	for i, rr := range rrs(t, lines...) {
		want := 1
		if i == 0 {
			want = 2
		}
		if got[rr.String()] != want {
			t.Fatalf("sent %d times, want %d: %s", got[rr.String()], want, rr)
		}
	}
}

func TestRecordsOutsideTheZoneAreLeftOut(t *testing.T) {
	const out = "www.example.org. 300 IN A 192.0.2.1"
	whole, err := receive(t, 0, 0, []string{soa(5), out, a(1), out, soa(5)})
	if err != nil || len(whole.records) != 2 || whole.outside.count != 2 || whole.outside.first != "www.example.org." {
		t.Errorf("AXFR: got %+v, %v; want two records, and two outside", whole, err)
	}
	steps, err := receive(t, 4, 0, []string{soa(5), out, soa(4), a(1), out, soa(5), a(2), out, soa(5)})
	if err != nil || len(steps.steps) != 1 || len(steps.steps[0].gone) != 1 || len(steps.steps[0].come) != 1 {
		t.Errorf("IXFR: got %+v, %v; want one record less and one more", steps, err)
	}
	none, err := receive(t, 5, 0, []string{soa(5)})
	if err != nil || none.outside.count != 0 {
		t.Errorf("nothing newer: got %+v, %v", none, err)
	}
}
