package zone

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/nameserver"
	"shuultuur/test/zonetest"
)

// ferret returns the data set, with all its zones in one responder.
func ferret(t *testing.T) (map[string]*zonetest.Case, *Responder) {
	t.Helper()
	cases := zonetest.Ferret(t)
	if len(cases) < 6000 {
		t.Fatalf("the data set has only %d cases, want at least 6000", len(cases))
	}
	var zones []*Zone
	for id, c := range cases {
		z, err := Read(strings.NewReader(c.Zone), "", id)
		if err != nil {
			t.Fatalf("%v\n%s", err, c.Zone)
		}
		zones = append(zones, z)
	}
	return cases, serve(t, zones...)
}

func judge(t *testing.T, cases map[string]*zonetest.Case, ask func(*miekg.Msg) *miekg.Msg) {
	t.Helper()
	wrong := zonetest.Judge(t, cases, ask)
	for _, w := range wrong[:min(len(wrong), 10)] {
		t.Error(w)
	}
	if len(wrong) > 0 {
		t.Errorf("%d of %d cases were answered wrongly", len(wrong), len(cases))
	}
}

func TestFerretCasesAreAnsweredAsByTheMajority(t *testing.T) {
	cases, z := ferret(t)
	judge(t, cases, func(m *miekg.Msg) *miekg.Msg { return ask(t, z, m, 65535) })
}

func TestFerretCasesAreAnsweredOverUDPAsByTheMajority(t *testing.T) {
	cases, z := ferret(t)
	s, err := nameserver.New(nameserver.Config{Listen: []string{"127.0.0.1:0"}, UDPSize: 4000}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetResponders(nil, z)
	ctx, stop := context.WithCancel(t.Context())
	if err := s.Listen(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	c, err := miekg.Dial("udp", s.Addrs(dns.UDP)[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.UDPSize = 4096
	judge(t, cases, func(m *miekg.Msg) *miekg.Msg {
		m.SetEdns0(4096, false)
		return exchange(t, c, m)
	})
}
