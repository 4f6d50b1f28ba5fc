package redins

import (
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/test/geotest"
	"shuultuur/test/race"
	"shuultuur/test/zonetest"
	"shuultuur/zone"
	"shuultuur/zone/redins/geo"
)

// geography returns a database with 192.0.2.0/26 in Germany, .64/26 in
// Mongolia, .128/26 in the US, each with its own network operator.
func geography(t testing.TB) *geo.DB {
	t.Helper()
	dir := t.TempDir()
	for name, networks := range map[string][]geotest.Network{
		"city": {
			{Prefix: "192.0.2.0/26", Country: "DE", HasPlace: true, Lat: 52.5, Lon: 13.4},
			{Prefix: "192.0.2.64/26", Country: "MN", HasPlace: true, Lat: 47.9, Lon: 106.9},
			{Prefix: "192.0.2.128/26", Country: "US", HasPlace: true, Lat: 40.7, Lon: -74},
			{Prefix: "198.51.100.0/25", Country: "FR", HasPlace: true, Lat: 48.9, Lon: 2.4},
			{Prefix: "198.51.100.128/25", Country: "JP", HasPlace: true, Lat: 35.7, Lon: 139.7},
			{Prefix: "2001:db8::/32", Country: "DE", HasPlace: true, Lat: 48.1, Lon: 11.6},
		},
		"asn": {
			{Prefix: "192.0.2.0/26", ASN: 64500},
			{Prefix: "192.0.2.64/26", ASN: 64501},
			{Prefix: "192.0.2.128/27", ASN: 64502},
		},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), geotest.File(networks), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := geo.New(geo.Config{Country: setting.Source(filepath.Join(dir, "city")), ASN: setting.Source(filepath.Join(dir, "asn"))}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// pickerOf builds the picker of an "a" of JSON.
func pickerOf(t testing.TB, schema Schema, json string) *picker {
	t.Helper()
	b := plainBuilder(schema)
	b.geo = geography(t)
	z := b.build(rawOf("example.com.", redinsConfig, map[string]string{"www": `{"a":` + json + `}`}))
	if schema == Z42 {
		b.problems = nil
	}
	if len(b.problems) > 0 || len(z.Choices) != 1 {
		t.Fatalf("%s: problems %v, %d choices; want none and 1", json, b.problems, len(z.Choices))
	}
	return z.Choices[0].Pick.(*picker)
}

func from(client string) *dns.Query {
	return &dns.Query{Client: netip.AddrPortFrom(netip.MustParseAddr(client), 53)}
}

const (
	berlin  = "192.0.2.1"
	ulan    = "192.0.2.65"
	newyork = "192.0.2.140"
	nowhere = "203.0.113.1"
)

func TestGeographyChooses(t *testing.T) {
	const countries = `{"records":[{"ip":"198.51.100.1","country":"DE"},{"ip":"198.51.100.2","country":["MN","US"]},{"ip":"198.51.100.3","country":""},{"ip":"198.51.100.4"}],"filter":{"geo_filter":"country"}}`
	const noDefault = `{"records":[{"ip":"198.51.100.1","country":"DE"},{"ip":"198.51.100.2","country":["MN"]}],"filter":{"geo_filter":"country"}}`
	const asns = `{"records":[{"ip":"198.51.100.1","asn":64500},{"ip":"198.51.100.2","asn":[64501,64502]},{"ip":"198.51.100.3","asn":0}],"filter":{"geo_filter":"asn"}}`
	const both = `{"records":[{"ip":"198.51.100.1","asn":64500,"country":"DE"},{"ip":"198.51.100.2","asn":64500,"country":"US"},{"ip":"198.51.100.3","country":"MN"},{"ip":"198.51.100.4"}],"filter":{"geo_filter":"asn+country"}}`
	const places = `{"records":[{"ip":"198.51.100.1"},{"ip":"198.51.100.200"},{"ip":"198.51.100.2"},{"ip":"203.0.113.77"}],"filter":{"geo_filter":"location"}}`
	for _, c := range []struct {
		json, client string
		want         []uint16
	}{
		{countries, berlin, []uint16{0}},
		{countries, ulan, []uint16{1}},
		{countries, newyork, []uint16{1}},
		{countries, "198.51.100.1", []uint16{2, 3}}, // France: the records for everybody
		{countries, nowhere, []uint16{2, 3}},
		{noDefault, nowhere, []uint16{0, 1}}, // no answer picks them: all
		{asns, berlin, []uint16{0}},
		{asns, newyork, []uint16{1}},
		{asns, nowhere, []uint16{2}},
		{both, berlin, []uint16{0}},
		{both, ulan, []uint16{2}},
		{both, nowhere, []uint16{3}},
		{places, berlin, []uint16{0, 2}},
		{places, ulan, []uint16{1}},
		{places, nowhere, []uint16{0, 1, 2, 3}},
		{places, "2001:db8::1", []uint16{0, 2}},
	} {
		p := pickerOf(t, Redins, c.json)
		got, _, hasScope := p.Pick(nil, from(c.client), len(p.entries))
		if !slices.Equal(got, c.want) || hasScope {
			t.Errorf("client %s with %s: got %v, want %v; scope given: %v", c.client, c.json, got, c.want, hasScope)
		}
	}
	b := plainBuilder(Z42)
	b.geo = geography(t)
	z := b.build(&raw{origin: "example.com.", values: []value{{label: "www", typ: "A", json: []byte(noDefault)}}})
	p := z.Choices[0].Pick.(*picker)
	if got, _, _ := p.Pick(nil, from(nowhere), 2); len(got) != 0 {
		t.Errorf("z42: client without a match got %v, want none", got)
	}
}

func TestTheClientsSubnetChooses(t *testing.T) {
	p := pickerOf(t, Redins, `{"records":[{"ip":"198.51.100.1","country":"DE","asn":64500},{"ip":"198.51.100.2","country":"MN"},{"ip":"198.51.100.3"}],"filter":{"geo_filter":"country"}}`)
	q := from(berlin)
	q.HasSubnet, q.Subnet = true, netip.MustParsePrefix("192.0.2.64/28")
	got, scope, has := p.Pick(nil, q, 3)
	if !slices.Equal(got, []uint16{1}) || !has || scope != 26 {
		t.Errorf("%v, scope %d %v; want the subnet's country and the 26 bits that it holds for", got, scope, has)
	}
	p.trusts = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	if got, _, has := p.Pick(nil, q, 3); !slices.Equal(got, []uint16{0}) || has {
		t.Errorf("subnet from an untrusted resolver: got %v, scope given: %v", got, has)
	}
	p.byASN = true
	p.trusts = nil
	q.Subnet = netip.MustParsePrefix("192.0.2.128/25")
	if _, scope, _ := p.Pick(nil, q, 3); scope != 27 {
		t.Errorf("two files: scope %d, want the longer of the two networks, 27", scope)
	}
}

func TestOrderAndCount(t *testing.T) {
	four := `{"records":[{"ip":"192.0.2.1","weight":6},{"ip":"192.0.2.2","weight":3},{"ip":"192.0.2.3","weight":1},{"ip":"192.0.2.4"}],"filter":{"order":%q,"count":%q}}`
	const rounds = 40000
	for _, c := range []struct {
		order, count string
		want         [4]float64 // share of answers in which each is the first
		n            int
	}{
		{"none", "single", [4]float64{1}, 1},
		{"rr", "single", [4]float64{.25, .25, .25, .25}, 1},
		{"rr", "multi", [4]float64{.25, .25, .25, .25}, 4},
		{"weighted", "single", [4]float64{.6, .3, .1, 0}, 1},
		{"weighted", "multi", [4]float64{.6, .3, .1, 0}, 4},
	} {
		p := pickerOf(t, Redins, fmt.Sprintf(four, c.order, c.count))
		var first [4]float64
		q := from(nowhere)
		for range rounds {
			got, _, _ := p.Pick(nil, q, 4)
			if len(got) != c.n {
				t.Fatalf("order %s, count %s: got %v", c.order, c.count, got)
			}
			for i, at := range got { // rotated, not shuffled
				if at != (got[0]+uint16(i))%4 {
					t.Fatalf("order %s, count %s: not a rotation: %v", c.order, c.count, got)
				}
			}
			first[got[0]] += 1.0 / rounds
		}
		for i := range first {
			if math.Abs(first[i]-c.want[i]) > 0.015 {
				t.Errorf("order %s, count %s: shares of the first place are %.3f, want %.3f", c.order, c.count, first, c.want)
				break
			}
		}
	}
	none := pickerOf(t, Redins, `{"records":[{"ip":"192.0.2.1"},{"ip":"192.0.2.2"}],"filter":{"order":"weighted","count":"single"}}`)
	seen := map[uint16]int{}
	for range 1000 {
		got, _, _ := none.Pick(nil, from(nowhere), 2)
		seen[got[0]]++
	}
	if seen[0] < 400 || seen[1] < 400 {
		t.Errorf("without weights, the records were picked %v times, want about equally often", seen)
	}
}

func TestAddressesThatAreDownAreLeftOut(t *testing.T) {
	for _, c := range []struct {
		status []int32
		want   []uint16
	}{
		{[]int32{0, 0, 0}, []uint16{0, 1, 2}}, // nothing is known yet
		{[]int32{3, -3, 3}, []uint16{0, 2}},
		{[]int32{3, 1, 2}, []uint16{0}},          // addresses that are up win
		{[]int32{1, 0, -3}, []uint16{0, 1}},      // uncertain: all except those that are down
		{[]int32{-1, -2, -3}, []uint16{0, 1}},    // still not down
		{[]int32{-3, -3, -3}, []uint16{0, 1, 2}}, // all are down: all
		{[]int32{2, 2, 0}, []uint16{0, 1}},
	} {
		p := pickerOf(t, Redins, `{"records":[{"ip":"192.0.2.1"},{"ip":"192.0.2.2"},{"ip":"192.0.2.3"}],"health_check":{"enable":true}}`)
		kept := p.leastStatus(c.status)
		var got []uint16
		for i, s := range c.status {
			if s >= kept {
				got = append(got, uint16(i))
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("status %v: got %v, want %v", c.status, got, c.want)
		}
	}
}

func TestToPickDoesNotAllocate(t *testing.T) {
	if race.On {
		t.Skip("the race detector allocates memory")
	}
	p := pickerOf(t, Redins, `{"records":[{"ip":"198.51.100.1","country":"DE","weight":1},{"ip":"198.51.100.2","asn":64500,"weight":2},{"ip":"198.51.100.200","country":["MN",""]}],
		"filter":{"geo_filter":"asn+country","order":"weighted"},"health_check":{"enable":true}}`)
	p.byPlace = true
	dst := make([]uint16, 0, 8)
	q := from(berlin)
	q.HasSubnet, q.Subnet = true, netip.MustParsePrefix("192.0.2.0/24")
	p.Pick(dst, q, 3)
	if n := testing.AllocsPerRun(100, func() { p.Pick(dst, q, 3) }); n != 0 {
		t.Errorf("%v allocations for a pick, want none", n)
	}
}

func TestPickKeepsWhatWasPickedBefore(t *testing.T) {
	var p zone.Picker = pickerOf(t, Redins, `{"records":[{"ip":"192.0.2.1","country":"DE"},{"ip":"192.0.2.2","country":"MN"}],"filter":{"geo_filter":"country","order":"rr"}}`)
	got, _, _ := p.Pick([]uint16{9, 8}, from(ulan), 2)
	if !slices.Equal(got, []uint16{9, 8, 1}) {
		t.Errorf("rotation: got %v, want [9 8 1]", got)
	}
}

func BenchmarkPick(b *testing.B) {
	p := pickerOf(b, Redins, `{"records":[{"ip":"198.51.100.1","country":"DE","weight":1},{"ip":"198.51.100.2","country":"MN","weight":2},{"ip":"198.51.100.200","country":["MN",""]}],
		"filter":{"geo_filter":"country","order":"weighted"},"health_check":{"enable":true}}`)
	dst := make([]uint16, 0, 8)
	q := from(ulan)
	b.ReportAllocs()
	for b.Loop() {
		p.Pick(dst, q, 3)
	}
}

// TestAnswersThatDependOnTheClientDoNotAllocate queries as a server does.
func TestAnswersThatDependOnTheClientDoNotAllocate(t *testing.T) {
	if race.On {
		t.Skip("the race detector allocates memory")
	}
	aliases := NewAliases(&upstream{ttl: time.Hour})
	if _, ok := aliases.Addresses(t.Context(), "cdn.example.net.", miekg.TypeA); !ok {
		t.Fatal("Addresses found nothing for cdn.example.net.")
	}
	b := plainBuilder(Redins)
	b.geo, b.resolver = geography(t), aliases
	z := b.build(rawOf("example.com.", redinsConfig, map[string]string{
		"www":   `{"a":{"records":[{"ip":"198.51.100.1","country":"DE","weight":1},{"ip":"198.51.100.2","country":"DE","weight":2},{"ip":"198.51.100.3"}],"filter":{"geo_filter":"country","order":"weighted"}}}`,
		"near":  `{"aname":{"location":"www.example.com."}}`,
		"far":   `{"aname":{"location":"cdn.example.net."}}`,
		"other": `{"cname":{"host":"www.example.com."}}`,
	}))
	zones := zone.NewResponder()
	if err := zones.Replace(z); err != nil || len(b.problems) > 0 {
		t.Fatalf("serving the zone: %v, problems %v", err, b.problems)
	}
	buf := make([]byte, 0, 4096)
	for name, answers := range map[string]uint16{"www": 2, "near": 2, "far": 1, "other": 3} {
		msg, err := zonetest.Question(name+".example.com.", miekg.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		q := from(berlin)
		if s := q.Parse(msg); s != dns.OK {
			t.Fatalf("parsing a query: got %v, want OK", s)
		}
		var r dns.Reply
		if n := testing.AllocsPerRun(100, func() {
			r.Start(q, buf, 1232)
			if out := zones.Answer(q, &r, nil); out != dns.Answered || r.Answers != answers {
				t.Fatalf("%s: outcome %d, %d answers", name, out, r.Answers)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations per query, want none", name, n)
		}
	}
}
