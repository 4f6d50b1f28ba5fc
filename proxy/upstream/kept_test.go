package upstream

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func TestAnAnswerIsKeptForAsLongAsItSays(t *testing.T) {
	name := dnsmessage.MustNewName("www.example.")
	question := dnsmessage.Question{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}
	pack := func(change func(*dnsmessage.Message)) []byte {
		m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, Response: true}, Questions: []dnsmessage.Question{question}}
		if change == nil {
			m.Response = false
		} else {
			change(&m)
		}
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	head := func(typ dnsmessage.Type, ttl uint32) dnsmessage.ResourceHeader {
		return dnsmessage.ResourceHeader{Name: name, Type: typ, Class: dnsmessage.ClassINET, TTL: ttl}
	}
	address := func(ttl uint32) dnsmessage.Resource {
		return dnsmessage.Resource{Header: head(dnsmessage.TypeA, ttl), Body: &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}}
	}
	soa := func(ttl uint32) dnsmessage.Resource {
		return dnsmessage.Resource{Header: head(dnsmessage.TypeSOA, ttl), Body: &dnsmessage.SOAResource{NS: name, MBox: name}}
	}
	for _, tt := range []struct {
		name  string
		reply func(*dnsmessage.Message)
		want  time.Duration
	}{
		{"an address", func(m *dnsmessage.Message) { m.Answers = append(m.Answers, address(60)) }, time.Minute},
		{"the shortest of two", func(m *dnsmessage.Message) { m.Answers = append(m.Answers, address(60), address(20)) }, 20 * time.Second},
		{"an alias that lives shorter", func(m *dnsmessage.Message) {
			alias := dnsmessage.Resource{Header: head(dnsmessage.TypeCNAME, 5), Body: &dnsmessage.CNAMEResource{CNAME: name}}
			m.Answers = append(m.Answers, alias, address(60))
		}, 5 * time.Second},
		{"a week", func(m *dnsmessage.Message) { m.Answers = append(m.Answers, address(7*86400)) }, longestAnswer},
		{"no time", func(m *dnsmessage.Message) { m.Answers = append(m.Answers, address(0)) }, 0},
		{"no such name", func(m *dnsmessage.Message) {
			m.RCode, m.Authorities = dnsmessage.RCodeNameError, append(m.Authorities, soa(10))
		}, 10 * time.Second},
		{"no such name, for a day", func(m *dnsmessage.Message) {
			m.RCode, m.Authorities = dnsmessage.RCodeNameError, append(m.Authorities, soa(86400))
		}, longestNothing},
		{"no address", func(m *dnsmessage.Message) { m.Authorities = append(m.Authorities, soa(10)) }, 10 * time.Second},
		{"nothing at all", func(*dnsmessage.Message) {}, 0},
		{"a failure", func(m *dnsmessage.Message) {
			m.RCode, m.Authorities = dnsmessage.RCodeServerFailure, append(m.Authorities, soa(10))
		}, 0},
		{"a refusal", func(m *dnsmessage.Message) {
			m.RCode, m.Answers = dnsmessage.RCodeRefused, append(m.Answers, address(10))
		}, 0},
		{"a part", func(m *dnsmessage.Message) { m.Truncated, m.Answers = true, append(m.Answers, address(10)) }, 0},
		{"a question", func(m *dnsmessage.Message) { m.Response, m.Answers = false, append(m.Answers, address(10)) }, 0},
		{"of another number", func(m *dnsmessage.Message) { m.ID, m.Answers = 8, append(m.Answers, address(10)) }, 0},
		{"of another type", func(m *dnsmessage.Message) {
			m.Questions[0].Type, m.Answers = dnsmessage.TypeAAAA, append(m.Answers, address(10))
			question.Type = dnsmessage.TypeA
		}, 0},
	} {
		asked := pack(nil)
		reply := pack(func(m *dnsmessage.Message) {
			m.Questions = []dnsmessage.Question{question}
			tt.reply(m)
		})
		if got := keptFor(asked, reply); got != tt.want {
			t.Errorf("%s: kept for %v, want %v", tt.name, got, tt.want)
		}
		for n := range reply {
			if got := keptFor(asked, reply[:n]); got != 0 {
				t.Errorf("%s, %d of %d bytes: kept for %v", tt.name, n, len(reply), got)
			}
		}
	}
}

func TestANameIsAskedForOnceWhileItsAnswerLives(t *testing.T) {
	t.Parallel()
	s := newNameServer(t, func(n int64, q dnsmessage.Question) ([]netip.Addr, bool) {
		return []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(n)})}, true
	})
	r := asking(s)
	for range 3 {
		got, err := r.LookupNetIP(t.Context(), "ip4", "name.example")
		if err != nil || fmt.Sprint(got) != "[192.0.2.1]" {
			t.Errorf("got %v, %v", got, err)
		}
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
	if got, err := r.LookupNetIP(t.Context(), "ip4", "other.example"); err != nil || fmt.Sprint(got) != "[192.0.2.2]" {
		t.Errorf("another name: %v, %v", got, err)
	}
}

// FuzzKept: no reply makes the memory fail or grow without a bound.
func FuzzKept(f *testing.F) {
	f.Add([]byte("\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"), []byte("\x00\x07\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, question, reply []byte) {
		if d := keptFor(question, reply); d < 0 || d > longestAnswer {
			t.Errorf("kept for %v", d)
		}
		var s keptAnswers
		s.put(question, reply)
		s.get(question)
	})
}
