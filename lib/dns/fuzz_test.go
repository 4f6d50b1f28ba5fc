package dns

import (
	"bytes"
	"encoding/binary"
	miekg "github.com/miekg/dns"
	"testing"
)

// FuzzParse compares Parse with the library: both accept the same messages and read them alike,
// except where Parse says that it is stricter.
func FuzzParse(f *testing.F) {
	f.Add(pack(f, question("www.example.org.", miekg.TypeA)))
	f.Add(pack(f, with(question("WWW.example.org.", miekg.TypeA),
		&miekg.EDNS0_COOKIE{Code: miekg.EDNS0COOKIE, Cookie: "0102030405060708"},
		&miekg.EDNS0_SUBNET{Code: miekg.EDNS0SUBNET, Family: 1, SourceNetmask: 20, Address: []byte{192, 0, 0x20, 0}},
		&miekg.EDNS0_PADDING{Padding: make([]byte, 5)})))
	f.Add(pack(f, with(question(`\000.\255.`, miekg.TypeANY), &miekg.EDNS0_NSID{Code: miekg.EDNS0NSID})))
	f.Add(pack(f, new(miekg.Msg).SetIxfr("example.org.", 7, "a.", "b.")))
	f.Add(longName(61))
	f.Add(longName(62))
	f.Add([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, msg []byte) {
		var q Query
		status := q.Parse(msg)
		if q.End > 0 {
			name, next, err := ReadName(nil, msg, headerLen)
			if err != nil || next+4 != q.End || !bytes.Equal(name, q.Name) {
				t.Fatalf("the question's name is % x to %d, ReadName has % x to %d (%v)", q.Name, q.End, name, next, err)
			}
			if again, err := Name(Text(q.Name)); err != nil || !bytes.Equal(again, q.Name) {
				t.Fatalf("name % x changed to % x in text form and back (%v)", q.Name, again, err)
			}
		}
		if status == OK || status == Malformed {
			var r Reply
			o := Options{Size: 1232, Cookie: make([]byte, 24), NSID: []byte("n"), Block: 128, Max: 512}
			r.Start(&q, nil, 512-o.Room(&q))
			var m miekg.Msg
			if err := m.Unpack(r.Finish(&o)); err != nil || len(r.Buf) > 512 {
				t.Fatalf("reading the reply % x: %v", r.Buf, err)
			}
		}
		if len(msg) < headerLen || q.Opcode() != OpcodeQuery || q.Flags&flagQR != 0 ||
			binary.BigEndian.Uint32(msg[4:]) != 1<<16 || msg[8] != 0 || msg[9] != 0 {
			return // other than a plain query: TestParseStatus
		}
		var m miekg.Msg
		err := m.Unpack(msg)
		if q.End == 0 && err == nil {
			_, next, bad := ReadName(nil, msg, headerLen)
			if hasPointer(msg) || bad == nil && next+4 > len(msg) || len(msg) == headerLen {
				return // the library accepts a pointer, and a message that ends before type or class
			}
			t.Fatalf("Parse refused a message that the library reads: %v", &m)
		}
		if q.End > 0 {
			text, _, bad := miekg.UnpackDomainName(msg, headerLen)
			if bad != nil {
				t.Fatalf("the library cannot read the name % x: %v", q.Name, bad)
			}
			name := make([]byte, 300)
			n, bad := miekg.PackDomainName(text, name, 0, nil, false)
			if bad != nil || !equalFold(name[:n], q.Name) {
				t.Fatalf("name is % x, the library has % x (%v)", q.Name, name[:n], bad)
			}
		}
		if err == nil && q.End > 0 && status != OK && int(msg[10])<<8|int(msg[11]) == len(m.Extra) && !stricter(&m) {
			t.Fatalf("Parse returned status %d, but the library reads %v", status, &m)
		}
		if err != nil || status != OK {
			return
		}
		if e := m.IsEdns0(); (e != nil) != q.HasEDNS {
			t.Fatalf("HasEDNS is %v, the library has %v", q.HasEDNS, e)
		} else if e != nil && (e.Do() != q.DO || e.Co() != q.CO || e.Version() != q.Version || max(e.UDPSize(), 512) != q.Size) {
			t.Fatalf("EDNS is %+v, the library has %v", q, e)
		}
		if m.Question[0].Qtype != q.Type || m.Question[0].Qclass != q.Class || m.Id != q.ID {
			t.Fatalf("question is %+v, the library has %v", q, &m)
		}
	})
}

// hasPointer reports whether the question's name has a byte above 63 where a
// label's length belongs.
func hasPointer(msg []byte) bool {
	for off := headerLen; off < len(msg) && msg[off] != 0; off += 1 + int(msg[off]) {
		if msg[off] > maxLabel {
			return true
		}
	}
	return false
}

// equalFold compares with ASCII letters folded; bytes.EqualFold also folds letters that DNS
// does not.
func equalFold(a, b []byte) bool {
	for i := range a {
		if i >= len(b) || a[i] != b[i] && (a[i]|0x20 != b[i] || a[i] < 'A' || a[i] > 'Z') {
			return false
		}
	}
	return len(a) == len(b)
}

// stricter reports whether m has something in its additional section about which
// Parse is stricter than the library.
func stricter(m *miekg.Msg) bool {
	opts := 0
	for i, rr := range m.Extra {
		switch rr := rr.(type) {
		case *miekg.TSIG: // the last record
			if i < len(m.Extra)-1 {
				return true
			}
		case *miekg.OPT:
			if opts++; opts > 1 || rr.Hdr.Name != "." {
				return true
			}
			for _, o := range rr.Option {
				switch o := o.(type) {
				case *miekg.EDNS0_COOKIE:
					if n := len(o.Cookie) / 2; n != 8 && (n < 16 || n > 40) {
						return true
					}
				case *miekg.EDNS0_SUBNET: // scope, length and bits beyond the prefix
					return true
				}
			}
		}
	}
	return false
}
