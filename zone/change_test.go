package zone

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/test/race"
	"shuultuur/test/zonetest"
)

// content is a zone by its names.
type content struct {
	origin  string
	names   map[string][]miekg.RR
	aliases map[string]string
	chosen  map[string]bool // that have a Choice among their A records
}

// whole is the zone as text.
func (c *content) whole() *Zone {
	z := &Zone{Origin: c.origin}
	for name := range c.names {
		c.add(name, &z.Records, &z.Choices, &z.Aliases)
	}
	return z
}

// change returns a change that gives some names of the zone the records in c.
func (c *content) change(names []string) *Change {
	ch := &Change{Origin: c.origin, Names: names}
	for _, name := range names {
		c.add(name, &ch.Records, &ch.Choices, &ch.Aliases)
	}
	return ch
}

func (c *content) add(name string, records *[]miekg.RR, choices *[]Choice, aliases *[]Alias) {
	*records = append(*records, c.names[name]...)
	if c.chosen[name] {
		*choices = append(*choices, Choice{name, miekg.TypeA, backwards{}})
	}
	if to := c.aliases[name]; to != "" {
		*aliases = append(*aliases, Alias{name, to})
	}
}

// backwards picks all, in reverse order.
type backwards struct{}

func (backwards) Pick(dst []uint16, _ *dns.Query, n int) ([]uint16, uint8, bool) {
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, uint16(i))
	}
	return dst, 0, false
}

var anybody = netip.MustParseAddr("192.0.2.200")

// lines reads records of example.test.
func lines(t *testing.T, text string) (all []miekg.RR) {
	t.Helper()
	p := miekg.NewZoneParser(strings.NewReader(text), "example.test.", "")
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		all = append(all, rr)
	}
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// anyName returns one of a few names, so that many are ancestors of others.
func (c *content) anyName(rnd *rand.Rand) string {
	labels := []string{"a", "b", "c", "*", "d", "longer-label"}
	name := c.origin
	for range 1 + rnd.IntN(4) {
		name = labels[rnd.IntN(len(labels))] + "." + name
	}
	return name
}

// turn gives a name other records, or none.
func (c *content) turn(t *testing.T, rnd *rand.Rand, name string) {
	target := func() string {
		switch rnd.IntN(8) {
		case 0:
			return "out.side.test."
		case 1:
			return strings.ToUpper(c.anyName(rnd))
		case 2:
			return c.origin
		}
		return c.anyName(rnd)
	}
	delete(c.names, name)
	delete(c.aliases, name)
	delete(c.chosen, name)
	var lines []string
	kind := rnd.IntN(12)
	switch {
	case name == c.origin:
		lines = []string{fmt.Sprintf("3600 SOA ns hostmaster %d 3600 600 86400 %d", rnd.IntN(1e6), rnd.IntN(1000)), "300 NS a." + name, "300 MX 10 " + target()}
		if rnd.IntN(6) == 0 {
			lines = append(lines, "300 DNAME "+target())
		}
	case kind < 4: // nothing
	case kind == 4:
		lines = []string{"300 CNAME " + target()}
	case kind == 5:
		lines = []string{"300 DNAME " + target(), "300 TXT beside"}
	case kind == 6:
		lines = []string{"300 NS " + target(), "300 NS ns." + name, "300 DS 1 13 9 00"}
	case kind == 7:
		c.aliases[name] = target()
		lines = []string{"300 TXT alias"}
	default:
		lines = []string{fmt.Sprintf("300 A 192.0.2.%d", rnd.IntN(256)), "300 A 192.0.2.7", "300 MX 10 " + target(), "300 SRV 1 2 3 " + target()}
		lines = slices.Delete(lines, rnd.IntN(3)+1, 4)
		c.chosen[name] = rnd.IntN(3) == 0
	}
	for _, line := range lines {
		rr, err := miekg.NewRR("$ORIGIN " + c.origin + "\n" + name + " " + line)
		if err != nil {
			t.Fatal(err)
		}
		c.names[name] = append(c.names[name], rr)
	}
	if len(lines) > 0 && rnd.IntN(3) == 0 && kind == 6 {
		glue := "ns." + name
		rr, err := miekg.NewRR(glue + " 300 A 192.0.2.9")
		if err != nil {
			t.Fatal(err)
		}
		c.names[glue] = []miekg.RR{rr}
	}
}

// sameAnswers sends both the same queries about everything that may differ.
func sameAnswers(t *testing.T, c *content, rnd *rand.Rand, changed, compiled *Responder) {
	t.Helper()
	asked := map[string]bool{}
	ask := func(name string) {
		if asked[name] {
			return
		}
		asked[name] = true
		for _, typ := range []uint16{miekg.TypeA, miekg.TypeMX, miekg.TypeNS, miekg.TypeDS, miekg.TypeANY} {
			for _, limit := range []int{65535, 100 + rnd.IntN(200)} {
				m := zonetest.Question(name, typ)
				got, want := zonetest.Ask(t, changed, m, limit), zonetest.Ask(t, compiled, m, limit)
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%s %s within %d bytes\ngot  %v\nwant %v", name, miekg.TypeToString[typ], limit, got, want)
				}
			}
		}
	}
	for name := range c.names {
		if rnd.IntN(10) > 0 { // other changes exercise the rest
			continue
		}
		ask(name)
		ask("zz." + name)
		ask("zz.a." + name)
		for strings.HasSuffix(name, "."+c.origin) {
			_, name, _ = strings.Cut(name, ".")
			ask(name)
		}
	}
	for range 20 {
		ask(c.anyName(rnd))
	}
}

// contents lists the records with which a zone is served, in a fixed order.
func contents(t *testing.T, z *Responder) string {
	t.Helper()
	var all []string
	for b := range z.Zone("example.test.", anybody).Records() {
		rr, _, err := miekg.UnpackRR(bytes.Clone(b), 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rr.String())
	}
	if len(all) == 0 || !strings.Contains(all[0], "\tSOA\t") {
		t.Errorf("the SOA is not the first record: %q", all)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func TestAChangedZoneAnswersLikeOneCompiledFromTheStart(t *testing.T) {
	steps := 120
	if race.On {
		steps = 40
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	c := &content{origin: "example.test.", names: map[string][]miekg.RR{}, aliases: map[string]string{}, chosen: map[string]bool{}}
	c.turn(t, rnd, c.origin)
	changed := NewResponder()
	if err := changed.Replace(c.whole()); err != nil {
		t.Fatal(err)
	}
	compactions := 0
	for step := range steps {
		before := map[string]bool{}
		for name := range c.names {
			before[name] = true
		}
		var names []string
		for range 1 + rnd.IntN(1+step%5*3) {
			name := c.anyName(rnd)
			if rnd.IntN(10) == 0 {
				name = c.origin
			}
			c.turn(t, rnd, name)
			names = append(names, name, "ns."+name)
		}
		// The glue may belong to a delegation that no longer exists.
		if err := changed.Change(c.change(slices.Compact(slices.Sorted(slices.Values(names))))); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if step%40 == 39 {
			served := changed.Zone(c.origin, anybody)
			changed.mu.Lock()
			changed.swap(served.t.compact())
			changed.mu.Unlock()
			compactions++
		}
		compiled := NewResponder()
		if err := compiled.Replace(c.whole()); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		sameAnswers(t, c, rnd, changed, compiled)
		if got, want := contents(t, changed), contents(t, compiled); got != want {
			t.Fatalf("step %d: the changed zone has\n%s\nthe compiled one\n%s", step, got, want)
		}
		got, want := changed.Zones()[0], compiled.Zones()[0]
		if got.Bytes, want.Bytes = 0, 0; got != want {
			t.Fatalf("step %d: Info of the changed zone is %+v, of the compiled one %+v", step, got, want)
		}
	}
	t.Logf("%d names, %d compactions", len(c.names), compactions)
}

func TestAChangeThatCannotBeServedChangesNothing(t *testing.T) {
	z := NewResponder()
	one := lines(t, "@ 300 SOA ns h 1 2 3 4 5\nwww 300 A 192.0.2.1\n")
	if err := z.Change(&Change{Origin: "example.test.", Names: []string{"www.example.test."}}); !errors.Is(err, ErrWhole) {
		t.Errorf("Change of a zone that is not served: got %v, want ErrWhole", err)
	}
	if err := z.Replace(&Zone{Origin: "example.test.", Records: one}); err != nil {
		t.Fatal(err)
	}
	before := contents(t, z)
	record := func(s string) []miekg.RR { return lines(t, s) }
	for name, c := range map[string]*Change{
		"two CNAMEs":         {Names: []string{"www.example.test."}, Records: record("www 1 CNAME a\nwww 1 CNAME b\n")},
		"an unlisted name":   {Names: []string{"www.example.test."}, Records: record("ftp 1 A 192.0.2.1\n")},
		"no SOA":             {Names: []string{"example.test."}},
		"another zone":       {Names: []string{"www.example.org."}},
		"a signature":        {Names: []string{"www.example.test."}, Records: record("www 1 RRSIG A 13 2 1 20300101000000 20200101000000 1 example.test. AAAA\n")},
		"a choice of none":   {Names: []string{"www.example.test."}, Choices: []Choice{{"www.example.test.", miekg.TypeA, backwards{}}}},
		"another view's":     {View: "in", Names: []string{"www.example.test."}},
		"a SOA further down": {Names: []string{"a.example.test.", "www.example.test."}, Records: record("a 300 SOA ns h 1 2 3 4 5\nwww 300 A 192.0.2.9\n")},
	} {
		c.Origin = "example.test."
		if err := z.Change(c); err == nil {
			t.Errorf("%s: Change returned no error", name)
		}
		if after := contents(t, z); after != before {
			t.Errorf("%s: after the failed Change, the zone is\n%s", name, after)
		}
	}
}

func TestQueriesGoOnWhileAZoneChanges(t *testing.T) {
	z := NewResponder()
	text := "@ 300 SOA ns h 1 2 3 4 5\n@ 300 MX 1 www\n@ 300 NS n2\n*.w 300 TXT w\n"
	for i := range 300 {
		text += fmt.Sprintf("n%d 300 A 192.0.2.1\n", i)
	}
	if err := z.Replace(&Zone{Origin: "example.test.", Records: lines(t, text)}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				for _, name := range []string{"example.test.", fmt.Sprintf("n%d.example.test.", i%300), "x.w.example.test.", "www.example.test."} {
					r := zonetest.Ask(t, z, zonetest.Question(name, miekg.TypeMX), 65535)
					if r == nil || r.Rcode != miekg.RcodeSuccess && name != "www.example.test." {
						t.Errorf("A of %s: got %v", name, r)
						return
					}
				}
			}
		})
	}
	for i := range 2000 {
		name := fmt.Sprintf("n%d.example.test.", i%300)
		c := &Change{Origin: "example.test.", Names: []string{name, "www.example.test.", "*.w.example.test."}, Records: lines(t, fmt.Sprintf("%s 300 A 192.0.2.%d\n*.w 300 TXT w%d\n", name, i%256, i))}
		if i%2 == 0 {
			c.Records = append(c.Records, lines(t, "www 300 A 192.0.2.5\n")...)
		}
		if err := z.Change(c); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	wg.Wait()
	// The arena is rewritten from time to time, so that changes do not accumulate.
	if i := z.Zones()[0]; i.Bytes > 3*(64<<10+300*80) || i.Names != 303 {
		t.Errorf("after many changes, the zone takes %+v", i)
	}
}
