package zone

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"shuultuur/nameserver/zone/zonetest"
)

func TestFerretCasesAreAnsweredAsByTheMajority(t *testing.T) {
	cases := zonetest.Ferret(t)
	if len(cases) < 6000 {
		t.Fatalf("only %d cases", len(cases))
	}
	var zones []*Zone
	for id, c := range cases {
		z, err := Read(strings.NewReader(c.Zone), "", id)
		if err != nil {
			t.Fatalf("%v\n%s", err, c.Zone)
		}
		zones = append(zones, z)
	}
	z := NewResponder()
	if err := z.Replace(zones...); err != nil {
		t.Fatal(err)
	}
	wrong := zonetest.Judge(t, cases, func(m *dns.Msg) *dns.Msg { return ask(t, z, m, 65535) })
	for _, w := range wrong[:min(len(wrong), 10)] {
		t.Error(w)
	}
	if len(wrong) > 0 {
		t.Errorf("%d of %d cases", len(wrong), len(cases))
	}
}
