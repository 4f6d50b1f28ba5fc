package dns

import (
	"bytes"
	"encoding/binary"
	miekg "github.com/miekg/dns"
	"net/netip"
	"strings"
	"testing"

	"shuultuur/test/race"
)

// pack makes a query with the library that is our oracle.
func pack(t testing.TB, m *miekg.Msg) []byte {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func question(name string, typ uint16) *miekg.Msg {
	m := new(miekg.Msg).SetQuestion(name, typ)
	m.Id = 0x1234
	return m
}

// with adds an OPT record with options.
func with(m *miekg.Msg, options ...miekg.EDNS0) *miekg.Msg {
	m.SetEdns0(1232, true)
	m.IsEdns0().Option = options
	return m
}

func TestParseReadsWhatTheQuerySays(t *testing.T) {
	msg := pack(t, with(question("WwW.Example.ORG.", miekg.TypeAAAA),
		&miekg.EDNS0_COOKIE{Code: miekg.EDNS0COOKIE, Cookie: "0102030405060708"},
		&miekg.EDNS0_SUBNET{Code: miekg.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: netip.MustParseAddr("192.0.2.0").AsSlice()},
		&miekg.EDNS0_NSID{Code: miekg.EDNS0NSID},
		&miekg.EDNS0_PADDING{Padding: make([]byte, 3)},
		&miekg.EDNS0_TCP_KEEPALIVE{Code: miekg.EDNS0TCPKEEPALIVE},
		&miekg.EDNS0_LOCAL{Code: 65001, Data: []byte("x")}))
	var q Query
	if s := q.Parse(msg); s != OK {
		t.Fatalf("Parse: got status %d, want OK", s)
	}
	if got := Text(q.Name); got != "www.example.org." {
		t.Errorf("name: got %q, want www.example.org.", got)
	}
	if !bytes.Equal(q.Labels, []uint8{0, 4, 12}) {
		t.Errorf("offsets of labels: got %v", q.Labels)
	}
	if q.ID != 0x1234 || q.Type != miekg.TypeAAAA || q.Class != 1 || q.Flags&flagRD == 0 || q.CD() || q.AD() {
		t.Errorf("header: got ID %x, type %d, class %d, flags %x", q.ID, q.Type, q.Class, q.Flags)
	}
	if !q.HasEDNS || q.Version != 0 || !q.DO || q.Size != 1232 || len(q.Cookie) != 8 || !q.NSID || !q.Padding || !q.Keepalive {
		t.Errorf("OPT record: got %+v", q)
	}
	if !q.HasSubnet || q.Subnet != netip.MustParsePrefix("192.0.2.0/24") {
		t.Errorf("client subnet: got %v, want 192.0.2.0/24", q.Subnet)
	}
}

func TestParseStatus(t *testing.T) {
	plain := pack(t, question("example.org.", miekg.TypeA))
	change := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(plain)) }
	opt := func(options ...byte) []byte {
		return change(func(b []byte) []byte {
			b[11]++
			b = append(b, 0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, byte(len(options)))
			return append(b, options...)
		})
	}
	long := strings.Repeat(strings.Repeat("a", 63)+".", 3)
	notify := question("example.org.", miekg.TypeSOA)
	notify.Opcode = miekg.OpcodeNotify
	notify.Answer = []miekg.RR{&miekg.SOA{Hdr: miekg.RR_Header{Name: "example.org.", Rrtype: miekg.TypeSOA, Class: 1}, Ns: "a.", Mbox: "b.", Serial: 7}}
	ixfr := new(miekg.Msg).SetIxfr("example.org.", 7, "a.", "b.")
	signed := question("example.org.", miekg.TypeSOA).SetTsig("key.", miekg.HmacSHA256, 300, 0)
	signed.Extra[0].(*miekg.TSIG).MAC = "00"
	signed.Extra[0].(*miekg.TSIG).MACSize = 1
	for name, c := range map[string]struct {
		msg  []byte
		want Status
	}{
		"plain":                   {plain, OK},
		"bytes after the message": {append(bytes.Clone(plain), 1, 2, 3), OK},
		"root":                    {pack(t, question(".", miekg.TypeNS)), OK},
		"name of 255 octets":      {pack(t, question(long+strings.Repeat("b", 61)+".", 1)), OK},
		"nothing":                 {nil, Drop},
		"half a header":           {plain[:11], Drop},
		"an answer":               {change(func(b []byte) []byte { b[2] |= 0x80; return b }), Drop},
		"opcode STATUS":           {change(func(b []byte) []byte { b[2] |= 2 << 3; return b }), Unknown},
		"opcode 15, header only":  {change(func(b []byte) []byte { b[2] |= 15 << 3; b[5] = 0; return b[:12] }), Unknown},
		"no question":             {change(func(b []byte) []byte { b[5] = 0; return b[:12] }), Malformed},
		"two questions":           {change(func(b []byte) []byte { b[5] = 2; return append(b, b[12:]...) }), Malformed},
		"question cut short":      {plain[:len(plain)-1], Malformed},
		"name cut short":          {plain[:20], Malformed},
		"pointer in the question": {change(func(b []byte) []byte { b[12] = 0xc0; return b }), Malformed},
		"label type 01":           {change(func(b []byte) []byte { b[12] = 0x41; return b }), Malformed},
		"name of 256 octets":      {longName(62), Malformed},
		"an answer record":        {change(func(b []byte) []byte { b[7] = 1; return append(b, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0) }), Malformed},
		"records announced, none": {change(func(b []byte) []byte { b[10] = 255; return b }), Malformed},
		"NOTIFY with its SOA":     {pack(t, notify), OK},
		"IXFR with its SOA":       {pack(t, ixfr), OK},
		"signed":                  {pack(t, signed), OK},
		"OPT":                     {opt(), OK},
		"two OPT": {change(func(b []byte) []byte {
			b[11] = 2
			o := []byte{0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0}
			return append(append(b, o...), o...)
		}), Malformed},
		"OPT not of the root":        {change(func(b []byte) []byte { b[11] = 1; return append(b, 0xc0, 12, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0) }), Malformed},
		"option cut short":           {opt(0, 3, 0), Malformed},
		"option's length lies":       {opt(0, 3, 0, 9), Malformed},
		"cookie of 8":                {opt(0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8), OK},
		"cookie of 7":                {opt(0, 10, 0, 7, 1, 2, 3, 4, 5, 6, 7), Malformed},
		"cookie of 12":               {opt(0, 10, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9), Malformed},
		"subnet of no bits":          {opt(0, 8, 0, 4, 0, 1, 0, 0), OK},
		"subnet with scope":          {opt(0, 8, 0, 5, 0, 1, 8, 8, 10), Malformed},
		"subnet too long":            {opt(0, 8, 0, 6, 0, 1, 8, 0, 10, 0), Malformed},
		"subnet of 33 bits":          {opt(0, 8, 0, 9, 0, 1, 33, 0, 10, 0, 0, 0, 0), Malformed},
		"subnet with bits beyond it": {opt(0, 8, 0, 5, 0, 1, 4, 0, 0x1f), Malformed},
		"subnet of another family":   {opt(0, 8, 0, 5, 0, 9, 8, 0, 1), OK},
		"cookie without a question": {change(func(b []byte) []byte {
			b[5], b[11] = 0, 1
			return append(b[:12], 0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 12, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8)
		}), Bare},
	} {
		var q Query
		if got := q.Parse(c.msg); got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
		if name == "signed" && q.TSIG == 0 {
			t.Error("Parse did not find the TSIG record")
		}
	}
}

// longName is a query for a name of three labels of 63 and one of n, which
// the library would not pack.
func longName(n int) []byte {
	b := []byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, n := range []int{63, 63, 63, n} {
		b = append(append(b, byte(n)), bytes.Repeat([]byte{'a'}, n)...)
	}
	return append(b, 0, 0, 1, 0, 1)
}

func TestReplyIsWhatTheLibraryReads(t *testing.T) {
	msg := pack(t, with(question("WwW.Example.ORG.", miekg.TypeA),
		&miekg.EDNS0_SUBNET{Code: miekg.EDNS0SUBNET, Family: 2, SourceNetmask: 33, Address: netip.MustParseAddr("2001:db8:8000::").AsSlice()},
		&miekg.EDNS0_NSID{Code: miekg.EDNS0NSID}, &miekg.EDNS0_PADDING{}))
	var q Query
	if s := q.Parse(msg); s != OK {
		t.Fatalf("parsing a query: got %v, want OK", s)
	}
	var r Reply
	o := Options{Size: 1232, Cookie: make([]byte, 24), NSID: []byte("one"), Keepalive: 100, Block: 468, Max: 4096}
	r.Start(&q, nil, 4096-o.Room(&q))
	alias, _ := Name("Web.example.org")
	at := r.Begin(nil, miekg.TypeCNAME, 1, 60)
	r.Name(alias)
	r.End(at)
	r.Record(alias, miekg.TypeA, 1, 60, []byte{192, 0, 2, 1})
	r.Answers = 2
	r.AA, r.RA, r.Rcode, r.HasEDE, r.EDE, r.EDEText = true, true, 23, true, 15, []byte("why")
	r.HasScope, r.Scope = true, 48
	var m miekg.Msg
	out := r.Finish(&o)
	if err := m.Unpack(out); err != nil {
		t.Fatal(err)
	}
	if len(out) != 468 {
		t.Errorf("%d bytes, want one block of 468", len(out))
	}
	if m.Id != 0x1234 || !m.Response || !m.Authoritative || !m.RecursionDesired || !m.RecursionAvailable || m.Rcode != 23 {
		t.Errorf("header of the reply: got %+v", m.MsgHdr)
	}
	if m.Question[0].Name != "WwW.Example.ORG." {
		t.Errorf("question %q does not have the query's letter case", m.Question[0].Name)
	}
	if len(m.Answer) != 2 || m.Answer[0].(*miekg.CNAME).Target != "web.Example.ORG." || m.Answer[1].(*miekg.A).A.String() != "192.0.2.1" {
		t.Errorf("answer section: got %v", m.Answer)
	}
	e := m.IsEdns0()
	if e == nil || !e.Do() || e.UDPSize() != 1232 || len(e.Option) != 6 {
		t.Fatalf("OPT record of the reply: got %v", e)
	}
	s := e.Option[3].(*miekg.EDNS0_SUBNET)
	if s.SourceScope != 48 || s.SourceNetmask != 33 || s.Address.String() != "2001:db8:8000::" {
		t.Errorf("client subnet of the reply: got %v", s)
	}
	if d := e.Option[4].(*miekg.EDNS0_EDE); d.InfoCode != 15 || d.ExtraText != "why" {
		t.Errorf("extended error: got %v, want 15 why", d)
	}
}

func TestSetsThatDoNotFitAreUndoneOrTruncated(t *testing.T) {
	var q Query
	q.Parse(pack(t, with(question("example.org.", miekg.TypeTXT))))
	var r Reply
	o := Options{Size: 1232, Max: 512}
	r.Start(&q, nil, 512-o.Room(&q))
	r.Record(nil, miekg.TypeA, 1, 1, []byte{1, 2, 3, 4})
	r.Answers++
	m := r.Mark()
	r.Record(nil, miekg.TypeTXT, 1, 1, make([]byte, 600))
	r.Answers++
	if !r.Overflows() {
		t.Fatal("Overflows is false although 600 bytes exceed 512")
	}
	r.Undo(m)
	if r.Overflows() || r.Answers != 1 {
		t.Error("Undo did not remove the record")
	}
	for range 4 { // some of these would fit
		r.Record(nil, miekg.TypeTXT, 1, 1, make([]byte, 200))
		r.Answers++
	}
	r.HasEDE, r.EDEText = true, bytes.Repeat([]byte("é"), 600)
	out := r.Finish(&o)
	var got miekg.Msg
	if err := got.Unpack(out); err != nil || len(out) > 512 {
		t.Fatalf("Finish: got %d bytes, %v, want at most 512", len(out), err)
	}
	if !got.Truncated || len(got.Answer) != 1 || got.IsEdns0() == nil || len(got.Question) != 1 {
		t.Errorf("truncated reply: got %v", &got)
	}
	if text := got.IsEdns0().Option[0].(*miekg.EDNS0_EDE).ExtraText; len(text) < 400 || strings.Trim(text, "é") != "" {
		t.Errorf("text of the extended error has %d bytes, or a broken character", len(text))
	}
}

func TestNamesAreReadAndWritten(t *testing.T) {
	for _, text := range []string{".", "example.org.", `a\.b.c.`, `\000\255.x.`, `\(x\).y.`, strings.Repeat("a", 63) + "."} {
		name, err := Name(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := Text(name); got != text {
			t.Errorf("Text(Name(%q)) = %q", text, got)
		}
		b := make([]byte, 300)
		n, err := miekg.PackDomainName(text, b, 0, nil, false)
		if err != nil || !bytes.Equal(b[:n], name) {
			t.Errorf("Name(%q) = % x, the library has % x (%v)", text, name, b[:n], err)
		}
	}
	for _, text := range []string{"a..b", ".a", strings.Repeat("a", 64), `\`, `a\`, `\256`, strings.Repeat("a.", 128)} {
		if name, err := Name(text); err == nil {
			t.Errorf("Name(%q) = % x, want an error", text, name)
		}
	}
	loop := []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'a', 0xc0, 12}
	if name, _, err := ReadName(nil, loop, 12); err == nil {
		t.Errorf("ReadName followed a loop and returned % x", name)
	}
}

func TestRecordsAreWalked(t *testing.T) {
	m := question("example.org.", miekg.TypeA)
	m.Compress = true
	m.Answer = []miekg.RR{
		&miekg.CNAME{Hdr: miekg.RR_Header{Name: "example.org.", Rrtype: miekg.TypeCNAME, Class: 1, Ttl: 7}, Target: "www.example.org."},
		&miekg.A{Hdr: miekg.RR_Header{Name: "www.example.org.", Rrtype: miekg.TypeA, Class: 1, Ttl: 8}, A: []byte{1, 2, 3, 4}},
	}
	msg := pack(t, m)
	off, err := SkipQuestions(msg)
	if err != nil {
		t.Fatal(err)
	}
	x, err := ReadRecord(msg, off)
	if err != nil || x.Type != miekg.TypeCNAME || x.TTL != 7 || binary.BigEndian.Uint32(msg[x.TTLAt:]) != 7 {
		t.Fatalf("first record: got %+v, %v", x, err)
	}
	target, _, err := ReadName(nil, msg, x.Data)
	if err != nil || Text(target) != "www.example.org." {
		t.Fatalf("target of the CNAME: got %q, %v", Text(target), err)
	}
	x, err = ReadRecord(msg, x.End)
	if err != nil || x.TTL != 8 || x.End != len(msg) || !bytes.Equal(msg[x.Data:x.End], []byte{1, 2, 3, 4}) {
		t.Fatalf("second record: got %+v, %v", x, err)
	}
	if _, err = ReadRecord(msg, x.End); err == nil {
		t.Error("ReadRecord read a record beyond the end")
	}
}

func TestNothingIsAllocated(t *testing.T) {
	if race.On {
		t.Skip("the race detector allocates memory")
	}
	msg := pack(t, with(question("www.example.org.", miekg.TypeA),
		&miekg.EDNS0_COOKIE{Code: miekg.EDNS0COOKIE, Cookie: "0102030405060708"},
		&miekg.EDNS0_SUBNET{Code: miekg.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: []byte{192, 0, 2, 0}}))
	var q Query
	var r Reply
	buf, cookie, addr := make([]byte, 0, 1232), make([]byte, 24), []byte{192, 0, 2, 1}
	if n := testing.AllocsPerRun(100, func() {
		if q.Parse(msg) != OK {
			panic("not parsed")
		}
		o := Options{Size: 1232, Cookie: cookie, Max: 1232}
		r.Start(&q, buf, 1232-o.Room(&q))
		r.Record(nil, 1, 1, 60, addr)
		r.Record(q.Name[4:], 1, 1, 60, addr)
		r.Answers = 2
		r.Finish(&o)
	}); n != 0 {
		t.Errorf("%v allocations for a query and its reply, want none", n)
	}
}

func BenchmarkParse(b *testing.B) {
	msg := pack(b, with(question("www.example.org.", miekg.TypeA), &miekg.EDNS0_COOKIE{Code: miekg.EDNS0COOKIE, Cookie: "0102030405060708"}))
	var q Query
	for b.Loop() {
		q.Parse(msg)
	}
}

func BenchmarkReply(b *testing.B) {
	var q Query
	q.Parse(pack(b, with(question("www.example.org.", miekg.TypeA))))
	var r Reply
	buf, addr := make([]byte, 0, 1232), []byte{192, 0, 2, 1}
	for b.Loop() {
		o := Options{Size: 1232, Max: 1232}
		r.Start(&q, buf, 1232-o.Room(&q))
		r.Record(nil, 1, 1, 60, addr)
		r.Answers = 1
		r.Finish(&o)
	}
}

// TestOtherOpcodesKeepTheirOPT: a reply has an OPT record if the query has.
func TestOtherOpcodesKeepTheirOPT(t *testing.T) {
	for _, c := range []struct {
		question, edns bool
	}{{true, true}, {false, true}, {true, false}, {false, false}} {
		m := new(miekg.Msg)
		m.Opcode = miekg.OpcodeStatus
		if c.question {
			m.Question = []miekg.Question{{Name: "example.org.", Qtype: miekg.TypeA, Qclass: 1}}
		}
		if c.edns {
			m.SetEdns0(1232, true)
		}
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		var q Query
		if s := q.Parse(b); s != Unknown || q.HasEDNS != c.edns || q.End != 0 {
			t.Errorf("question %v, OPT %v: status %d, OPT %v, question until %d", c.question, c.edns, s, q.HasEDNS, q.End)
		}
		for n := headerLen; n < len(b); n++ { // cut anywhere
			if s := q.Parse(b[:n]); s != Unknown || q.End != 0 {
				t.Errorf("cut to %d bytes: status %d", n, s)
			}
		}
	}
}
