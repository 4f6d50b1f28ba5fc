package transfer_test

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/wait/waittest"
)

// TestDifferencesThatFailLeadToTheWholeZone has a primary whose answers to IXFR are wrong.
func TestDifferencesThatFailLeadToTheWholeZone(t *testing.T) {
	line := func(serial int) string {
		return fmt.Sprintf("example.com. 300 IN SOA ns1.example.com. h.example.com. %d 3600 600 86400 300", serial)
	}
	const ns, one, two = "example.com. 300 IN NS ns1.example.com.", "a.example.com. 300 IN A 192.0.2.1", "b.example.com. 300 IN A 192.0.2.2"
	for name, ixfr := range map[string][]string{
		"is empty":                            {},
		"is closed at once":                   nil,
		"ends early":                          {line(2), line(1), one},
		"has a newer serial and no more":      {line(2)},
		"begins from another version":         {line(2), line(7), one, line(2), two, line(2)},
		"removes what does not exist":         {line(2), line(1), two, line(2), one, line(2)},
		"adds what exists":                    {line(2), line(1), line(2), one, line(2)},
		"is a whole zone that ends otherwise": {line(2), ns, one, two, line(3)},
		"makes a zone that cannot be served":  {line(2), line(1), line(2), "a.example.com. 300 IN CNAME b.example.com.", line(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var serialNow, whole atomic.Int32
			serialNow.Store(1)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			send := func(w miekg.ResponseWriter, q *miekg.Msg, lines []string) {
				m := new(miekg.Msg).SetReply(q)
				for _, s := range lines {
					rr, err := miekg.NewRR(s)
					if err != nil {
						t.Error(err)
					}
					m.Answer = append(m.Answer, rr)
				}
				w.WriteMsg(m)
			}
			primary := &miekg.Server{Listener: ln, Handler: miekg.HandlerFunc(func(w miekg.ResponseWriter, q *miekg.Msg) {
				serial := int(serialNow.Load())
				switch {
				case q.Question[0].Qtype == miekg.TypeAXFR:
					whole.Add(1)
					zone := []string{line(serial), ns, one}
					if serial == 2 {
						zone = append(zone, two)
					}
					send(w, q, append(zone, line(serial)))
				case serial == 1:
					send(w, q, []string{line(1)})
				case ixfr == nil:
					w.Close()
				default:
					send(w, q, ixfr)
					w.Close()
				}
			})}
			ended := make(chan error, 1)
			go func() { ended <- primary.ActivateAndServe() }()
			t.Cleanup(func() { primary.Shutdown(); <-ended })
			c := secondaryOf(t, ln.Addr().String())
			c.Secondaries[0].Primaries[0].Key = ""
			s := start(t, c)
			waittest.Until(t, "the zone is here", func() bool { return serial(s.addr.String()) == 1 })
			serialNow.Store(2)
			waittest.Until(t, "the new version is here", func() bool {
				if serial(s.addr.String()) == 2 {
					return true
				}
				q := new(miekg.Msg).SetNotify("example.com.")
				_, _, _ = (&miekg.Client{}).Exchange(q, s.addr.String())
				return false
			})
			if n := whole.Load(); n != 2 {
				t.Errorf("the whole zone was fetched %d times, want 2", n)
			}
		})
	}
}
