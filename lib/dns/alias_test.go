package dns

import (
	"testing"

	miekg "github.com/miekg/dns"
)

func TestAnswersThatEndInAnAlias(t *testing.T) {
	for _, c := range []struct {
		name       string
		typ        uint16
		rcode      int
		answer, ns []string
		last       string
		open       bool
	}{
		{"a.", miekg.TypeA, 0, nil, nil, "", false},
		{"a.", miekg.TypeA, 0, []string{"a. A 192.0.2.1"}, nil, "", false},
		{"a.", miekg.TypeA, 0, []string{"a. CNAME b."}, nil, "b.", true},
		{"A.", miekg.TypeA, 0, []string{"a. CNAME B.", "b. CNAME c."}, nil, "c.", true},
		{"a.", miekg.TypeA, 0, []string{"b. CNAME c.", "a. CNAME b."}, nil, "c.", true},
		{"a.", miekg.TypeA, 0, []string{"a. CNAME b.", "b. AAAA 2001:db8::1"}, nil, "b.", true},
		{"a.", miekg.TypeA, 0, []string{"b. A 192.0.2.1", "a. CNAME b."}, nil, "b.", false},
		{"a.", miekg.TypeA, 0, []string{"a. CNAME b."}, []string{". SOA . . 1 2 3 4 5"}, "b.", false},
		{"a.x.", miekg.TypeA, 0, []string{"a.x. CNAME b.y."}, []string{"x. SOA . . 1 2 3 4 5"}, "b.y.", true}, // it speaks of another zone
		{"a.x.", miekg.TypeA, 0, []string{"a.x. CNAME b.y."}, []string{"y. NS ns.y."}, "b.y.", true},
		{"a.", miekg.TypeA, miekg.RcodeNameError, []string{"a. CNAME b."}, nil, "", false},
		{"a.", miekg.TypeCNAME, 0, []string{"a. CNAME b."}, nil, "", false},
		{"a.", miekg.TypeANY, 0, []string{"a. CNAME b."}, nil, "", false},
		{"a.", miekg.TypeA, 0, []string{"c. CNAME b."}, nil, "", false},
		{"a.", miekg.TypeA, 0, []string{"a. CNAME a."}, nil, "a.", true},
	} {
		m := new(miekg.Msg).SetQuestion(c.name, c.typ)
		m.Response, m.Rcode = true, c.rcode
		for _, s := range c.answer {
			rr, err := miekg.NewRR(s)
			if err != nil {
				t.Fatal(err)
			}
			m.Answer = append(m.Answer, rr)
		}
		for _, s := range c.ns {
			rr, err := miekg.NewRR(s)
			if err != nil {
				t.Fatal(err)
			}
			m.Ns = append(m.Ns, rr)
		}
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		got, open := OpenAlias(b)
		if open != c.open || c.last != "" && Text(got.Last) != c.last {
			t.Errorf("%s %d %v %v: ends at %q, open %v; want %q, %v", c.name, c.typ, c.answer, c.ns, Text(got.Last), open, c.last, c.open)
		}
		for n := range len(b) { // whatever is missing, nothing is read beyond the end
			OpenAlias(b[:n:n])
		}
	}
}
