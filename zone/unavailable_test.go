package zone

import (
	"net/netip"
	"testing"

	miekg "github.com/miekg/dns"
)

func TestAZoneThatCannotBeServedIsServfail(t *testing.T) {
	z := serve(t, parse(t, "x.test.", tiny+"www A 192.0.2.1\nout CNAME www.broken.x.test.\n"),
		&Zone{Origin: "broken.x.test.", Unavailable: "the file cannot be read"},
		&Zone{Origin: "x.test.", View: "inside", Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Unavailable: "the file cannot be read"})
	for name, want := range map[string]int{
		"www.x.test.": 0, "broken.x.test.": miekg.RcodeServerFailure, "a.b.broken.x.test.": miekg.RcodeServerFailure, "out.x.test.": miekg.RcodeServerFailure,
	} {
		if r := ask(t, z, question(name, miekg.TypeA), 4096); r == nil || r.Rcode != want || r.Rcode != 0 && len(r.Answer)+len(r.Ns) > 0 {
			t.Errorf("%s: got %v, want rcode %d", name, r, want)
		}
	}
	if z.Served("x.test.", "inside") != nil || z.Zone("x.test.", netip.MustParseAddr("10.1.1.1")) != nil {
		t.Error("Served or Zone returned contents of an unavailable zone")
	}
	if n, m := len(z.Zones()), len(z.Unavailable()); n != 1 || m != 2 {
		t.Errorf("%d zones served and %d not, want 1 and 2", n, m)
	}
}

// bareZone has names without records and names whose records are unknown.
func bareZone(t *testing.T) *Zone {
	z := parse(t, "x.test.", tiny+"www A 192.0.2.1\nhalf A 192.0.2.2\nbelow.known A 192.0.2.3\n")
	z.Empty = []string{"empty.x.test.", "*.wild.x.test."}
	z.Unknown = []Unknown{{"half.x.test.", miekg.TypeTXT}, {"all.x.test.", 0}, {"known.x.test.", miekg.TypeNS}, {"txt.x.test.", miekg.TypeTXT}}
	z.Aliases = []Alias{{"to-all.x.test.", "all.x.test."}}
	return z
}

// bareAnswers are the answers for bareZone: rcode and number of answers.
var bareAnswers = []struct {
	name    string
	typ     uint16
	rcode   int
	answers int
}{
	{"empty", miekg.TypeA, 0, 0}, {"a.wild", miekg.TypeA, 0, 0}, {"none", miekg.TypeA, miekg.RcodeNameError, 0},
	{"half", miekg.TypeA, 0, 1}, {"half", miekg.TypeTXT, miekg.RcodeServerFailure, 0}, {"half", miekg.TypeMX, 0, 0},
	{"all", miekg.TypeA, miekg.RcodeServerFailure, 0}, {"sub.all", miekg.TypeA, miekg.RcodeServerFailure, 0},
	{"known", miekg.TypeA, miekg.RcodeServerFailure, 0}, {"below.known", miekg.TypeA, 0, 1}, {"to-all", miekg.TypeA, miekg.RcodeServerFailure, 0},
	{"txt", miekg.TypeANY, 0, 0}, {"txt", miekg.TypeTXT, miekg.RcodeServerFailure, 0},
}

func TestNamesWithoutRecordsExistAndUnknownRecordsAreServfail(t *testing.T) {
	whole := serve(t, bareZone(t))
	changed := serve(t, parse(t, "x.test.", tiny))
	z := bareZone(t)
	c := &Change{Origin: z.Origin, Records: z.Records, Aliases: z.Aliases, Empty: z.Empty, Unknown: z.Unknown}
	for _, name := range []string{"@", "ns", "www", "half", "below.known", "empty", "*.wild", "all", "known", "txt", "to-all"} {
		if name == "@" {
			c.Names = append(c.Names, z.Origin)
			continue
		}
		c.Names = append(c.Names, name+"."+z.Origin)
	}
	if err := changed.Change(c); err != nil {
		t.Fatal(err)
	}
	again := serve(t, whole.Served("x.test.", "").Source())
	for what, r := range map[string]*Responder{"compiled": whole, "changed": changed, "from its source": again} {
		for _, c := range bareAnswers {
			got := ask(t, r, question(c.name+".x.test.", c.typ), 4096)
			if got.Rcode != c.rcode || len(got.Answer) != c.answers {
				t.Errorf("%s: %s %s: rcode %d with %d answers, want %d with %d", what, c.name, miekg.TypeToString[c.typ], got.Rcode, len(got.Answer), c.rcode, c.answers)
			}
		}
	}
	// Without its data a name is gone again.
	if err := changed.Change(&Change{Origin: z.Origin, Names: []string{"empty.x.test.", "all.x.test.", "txt.x.test."}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"empty", "all", "txt"} {
		if r := ask(t, changed, question(name+".x.test.", miekg.TypeTXT), 4096); r.Rcode != miekg.RcodeNameError {
			t.Errorf("%s after it went: rcode %d, want NXDOMAIN", name, r.Rcode)
		}
	}
}

func TestCAARecordsOfANameAboveAreAnsweredWhereAZoneSaysSo(t *testing.T) {
	z := parse(t, "x.test.", tiny+"@ CAA 0 issue \"a.test\"\nh CAA 0 issue \"b.test\"\ng.h A 192.0.2.1\nj.g.h A 192.0.2.1\nwww A 192.0.2.1\nalias CNAME j.g.h\n")
	z.ClimbCAA = true
	r := serve(t, z)
	for name, want := range map[string]string{"www": "a.test", "h": "b.test", "g.h": "b.test", "j.g.h": "b.test", "alias": "b.test"} {
		m := ask(t, r, question(name+".x.test.", miekg.TypeCAA), 4096)
		if len(m.Answer) == 0 {
			t.Errorf("%s has no CAA record", name)
			continue
		}
		caa, ok := m.Answer[len(m.Answer)-1].(*miekg.CAA)
		if !ok || caa.Value != want || len(m.Answer) == 1 && caa.Hdr.Name != name+".x.test." {
			t.Errorf("%s: got %v, want %q with the name as owner", name, m.Answer, want)
		}
	}
	if m := ask(t, r, question("none.x.test.", miekg.TypeCAA), 4096); m.Rcode != miekg.RcodeNameError {
		t.Errorf("CAA of a name that does not exist: got %v, want NXDOMAIN", m)
	}
}
