package redins

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/race"
	"shuultuur/test/redistest"
	"shuultuur/test/zonetest"
	"shuultuur/zone"
)

// counted counts how zones come to a name server.
type counted struct {
	*zone.Responder
	replaced, changed, names atomic.Int32
}

func (c *counted) Replace(zones ...*zone.Zone) error {
	c.replaced.Add(int32(len(zones)))
	return c.Responder.Replace(zones...)
}

func (c *counted) Change(ch *zone.Change) error {
	c.changed.Add(1)
	c.names.Add(int32(len(ch.Names)))
	return c.Responder.Change(ch)
}

func startCounted(t *testing.T, cfg Config) (*node, *counted) {
	t.Helper()
	to := &counted{Responder: zone.NewResponder()}
	n := &node{zones: to.Responder}
	var err error
	if n.Source, err = New(cfg, "", to, nil, nil, nil, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(n.stop)
	waittest.Until(t, "it is told of changes", func() bool { return n.Stats().Connected && !n.Stats().Reconciled.IsZero() })
	return n, to
}

// served returns everything that a zone is answered from, in a fixed order.
func served(t *testing.T, z *zone.Responder, origin string) string {
	t.Helper()
	s := z.Zone(origin, netip.MustParseAddr("192.0.2.200"))
	if s == nil {
		return "none"
	}
	var all []string
	for b := range s.Records() {
		rr, _, err := miekg.UnpackRR(bytes.Clone(b), 0)
		if err != nil {
			t.Fatal(err)
		}
		if soa, ok := rr.(*miekg.SOA); ok {
			soa.Serial = 0 // of a zone without one it is the time
		}
		all = append(all, rr.String())
	}
	slices.Sort(all)
	return fmt.Sprintf("%d names\n%s", s.Info().Names, strings.Join(all, "\n"))
}

// answering is a zone's contents, its problems, and its answers.
func answering(t *testing.T, z *zone.Responder, problems []Problem) string {
	t.Helper()
	all := []string{served(t, z, "a.example.")}
	var wrong []string
	for _, p := range problems {
		wrong = append(wrong, fmt.Sprint(p))
	}
	slices.Sort(wrong)
	all = append(all, wrong...)
	for _, name := range []string{"a.example.", "b.a.example.", "q.a.example.", "q.c.a.example.", "e.d.c.a.example.", "q.b.a.example."} {
		for _, typ := range []uint16{miekg.TypeA, miekg.TypeTXT, miekg.TypeNS} {
			m := zonetest.Ask(t, z, zonetest.Question(name, typ), 65535)
			all = append(all, fmt.Sprintf("%s %s: %s, %d, %d and %d records", name, miekg.TypeToString[typ], miekg.RcodeToString[m.Rcode], len(m.Answer), len(m.Ns), len(m.Extra)))
		}
	}
	return strings.Join(all, "\n")
}

// someJSON returns random values of a name in the layout of redins, by type.
func someJSON(rnd *rand.Rand) map[string]string {
	ip := fmt.Sprintf("192.0.2.%d", rnd.IntN(256))
	all := []map[string]string{
		{"a": `{"ttl":300,"records":[{"ip":"` + ip + `"}]}`, "txt": `{"records":[{"text":"x"}]}`},
		{"a": `{"ttl":300,"records":[{"ip":"` + ip + `","weight":3},{"ip":"192.0.2.1","weight":1}],"filter":{"order":"weighted"}}`},
		{"a": `{"ttl":300,"records":[{"ip":"` + ip + `"}],"health_check":{"enable":true,"protocol":"tcp","port":9}}`},
		{"ns": `{"records":[{"host":"ns.b.a.example."}]}`},
		{"cname": `{"host":"b.a.example."}`},
		{"dname": `{"host":"a.example.net."}`},
		{"aname": `{"location":"b.a.example."}`, "mx": `{"records":[{"host":"c.a.example.","preference":1}]}`},
		{"a": `{"records":[{"ip":"nowhere"}]}`, "aaaa": `{"records":[{"ip":"2001:db8::1"}]}`},
		{"a": `{{{`},
	}
	return all[rnd.IntN(len(all))]
}

func TestNamesThatWereWrittenAreChangedAlone(t *testing.T) {
	t.Parallel()
	for _, schema := range []Schema{Redins, Z42} {
		t.Run(string(schema), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 0))
			store := open(t, s, schema)
			write := func(label string, types map[string]string) {
				if schema == Redins {
					if types == nil {
						s.Do(t, "HDEL", "redins:zones:a.example.", label)
						return
					}
					var parts []string
					for typ, text := range types {
						parts = append(parts, fmt.Sprintf("%q:%s", typ, text))
					}
					s.Do(t, "HSET", "redins:zones:a.example.", label, "{"+strings.Join(parts, ",")+"}")
					return
				}
				for _, typ := range typeNames {
					s.Do(t, "DEL", store.set("a.example.", label, typ))
				}
				if types == nil {
					s.Do(t, "SREM", store.labels("a.example."), label)
					return
				}
				// The name is listed before it has its values, or after.
				if rnd.IntN(2) == 0 {
					s.Do(t, "SADD", store.labels("a.example."), label)
				}
				for typ, text := range types {
					s.Do(t, "SET", store.set("a.example.", label, strings.ToUpper(typ)), text)
				}
				s.Do(t, "SADD", store.labels("a.example."), label)
			}
			write("@", map[string]string{"ns": `{"records":[{"host":"b.a.example."}]}`, "a": `{"records":[{"ip":"192.0.2.5"}]}`})
			for i := range 200 {
				write(fmt.Sprintf("host%d", i), map[string]string{"a": `{"records":[{"ip":"192.0.2.5"}]}`})
			}
			s.Do(t, "SADD", string(schema)+":zones", "a.example.")
			cfg := at127(s)
			cfg.Schema, cfg.Reload = schema, setting.Duration(time.Hour)
			n, to := startCounted(t, cfg)
			labels := []string{"b", "c", "*", "d.c", "*.c", "e.d.c", "ns.b", "@", "x.host1", "host2", "_sip._tcp.b", "u", "no..name"}
			steps := 60
			if race.On {
				steps = 15
			}
			for step := range steps {
				for range 1 + rnd.IntN(4) {
					label := labels[rnd.IntN(len(labels))]
					types := someJSON(rnd)
					if rnd.IntN(3) == 0 {
						types = nil
					}
					write(label, types)
				}
				if rnd.IntN(10) == 0 {
					s.Do(t, "SET", store.config("a.example."), fmt.Sprintf(`{"soa":{"ns":"n%d.","MBox":"m.","ttl":5}}`, step))
				}
				r, err := store.read(store.session(t.Context()), "a.example.", nil)
				if err != nil {
					t.Fatal(err)
				}
				for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
					b := n.builder()
					b.checker, b.served = nil, n.zones.Served("a.example.", "") // for last good values
					fresh := zone.NewResponder()
					if err := fresh.Replace(b.build(r)); err != nil {
						t.Fatal(err)
					}
					got, want := answering(t, n.zones, n.Problems()), answering(t, fresh, b.problems)
					if got == want {
						break
					}
					if time.Now().After(end) {
						t.Fatalf("step %d: got  %s\nwant %s", step, got, want)
					}
				}
			}
			if to.replaced.Load() != 1 || to.changed.Load() == 0 {
				t.Errorf("the zone was replaced %d times and changed %d times; want 1 and some", to.replaced.Load(), to.changed.Load())
			}
			if to.names.Load() > 20*to.changed.Load() {
				t.Errorf("%d names changed in %d changes, want at most 20 per change", to.names.Load(), to.changed.Load())
			}
			// The counts along the way agree with the contents.
			for _, label := range labels {
				write(label, nil)
			}
			s.Do(t, "DEL", store.config("a.example."))
			waittest.Until(t, "nothing but the first names is counted", func() bool {
				st := n.Stats()
				return strings.HasPrefix(served(t, n.zones, "a.example."), "200 names") && st.Health.Watched == 0 && st.Problems == 0
			})
		})
	}
}

func TestANameInThePlaceOfAnotherIsFound(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	putRedins(t, s, "a.example.", "", map[string]string{"b": oneA("192.0.2.1"), "c": oneA("192.0.2.2")})
	n, to := startCounted(t, at127(s))
	// The number of names is the same before and after.
	s.Do(t, "EVAL", `redis.call("HDEL", KEYS[1], "b") return redis.call("HSET", KEYS[1], "d", ARGV[1])`, "1", "redins:zones:a.example.", oneA("192.0.2.3"))
	n.answers(t, "d.a.example.", "A", "NOERROR d.a.example. 300 IN A 192.0.2.3")
	n.answers(t, "b.a.example.", "A", "NXDOMAIN")
	n.answers(t, "c.a.example.", "A", "NOERROR c.a.example. 300 IN A 192.0.2.2")
	if to.replaced.Load() != 1 {
		t.Errorf("the zone was replaced %d times, want 1", to.replaced.Load())
	}
}

func TestAZoneThatSpellsNamesInTwoWaysIsReadAsAWhole(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	putRedins(t, s, "a.example.", "", map[string]string{"www": oneA("192.0.2.1"), "b": oneA("192.0.2.2")})
	n, to := startCounted(t, at127(s))
	s.Do(t, "HSET", "redins:zones:a.example.", "WWW", oneA("192.0.2.9"))
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.1 | www.a.example. 300 IN A 192.0.2.9")
	s.Do(t, "HDEL", "redins:zones:a.example.", "www")
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.9")
	if got := to.replaced.Load(); got != 3 {
		t.Errorf("zone with two spellings of a name: replaced %d times, want 3", got)
	}
	// Without the other spelling it is changed by names again.
	s.Do(t, "HDEL", "redins:zones:a.example.", "WWW")
	n.answers(t, "www.a.example.", "A", "NXDOMAIN")
	s.Do(t, "HSET", "redins:zones:a.example.", "www", oneA("192.0.2.3"))
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.3")
	if got := to.replaced.Load(); got != 4 || to.changed.Load() != 1 {
		t.Errorf("without the other spelling: replaced %d times, changed %d times; want 4 and 1", got, to.changed.Load())
	}
	// A setting about all names changes all names.
	s.Do(t, "HSET", "redins:zones:a.example.", "c", `{"cname":{"host":"b.a.example."}}`)
	n.answers(t, "c.a.example.", "CNAME", "NOERROR c.a.example. 3600 IN CNAME b.a.example.")
	s.Do(t, "SET", "redins:zones:a.example.:config", `{"cname_flattening":true}`)
	n.answers(t, "c.a.example.", "A", "NOERROR c.a.example. 300 IN A 192.0.2.2")
	s.Do(t, "HSET", "redins:zones:a.example.", "b", oneA("192.0.2.4"))
	n.answers(t, "c.a.example.", "A", "NOERROR c.a.example. 300 IN A 192.0.2.4")
	if got := to.replaced.Load(); got != 6 || to.changed.Load() != 2 {
		t.Errorf("after a setting of all names: replaced %d times, changed %d times; want 6 and 2", got, to.changed.Load())
	}
}
