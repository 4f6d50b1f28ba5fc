package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/filter"
	"shuultuur/resolver"
)

// says starts a name server that answers all questions for addresses with one, and returns where.
func says(t *testing.T, addr string) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	s := &miekg.Server{PacketConn: c, NotifyStartedFunc: func() { close(started) }, Handler: miekg.HandlerFunc(func(w miekg.ResponseWriter, q *miekg.Msg) {
		m := new(miekg.Msg).SetReply(q)
		m.RecursionAvailable = true
		if q.IsEdns0() != nil {
			m.SetEdns0(1232, false)
		}
		if q.Question[0].Qtype == miekg.TypeA {
			m.Answer = []miekg.RR{&miekg.A{Hdr: miekg.RR_Header{Name: q.Question[0].Name, Rrtype: miekg.TypeA, Class: 1, Ttl: 300}, A: net.ParseIP(addr)}}
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = s.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = s.Shutdown() })
	return c.LocalAddr().String()
}

// TestPoliciesHaveUpstreamsOfTheirOwn: their clients get answers of these, from the cache too, and
// names with a route those of the route.
func TestPoliciesHaveUpstreamsOfTheirOwn(t *testing.T) {
	all, pupils, route := says(t, "198.51.100.1"), says(t, "198.51.100.2"), says(t, "198.51.100.3")
	settings := fmt.Sprintf(`
data: ./data
policies:
  - {name: pupils, networks: [10.1.0.0/16], safesearch: true, rules: [{name: away, action: redirect, host: [away.example], to: "http://other.example/"}]}
  - {name: none, networks: [10.2.0.0/16]}
  - {name: rest}
dns:
  listen: ["127.0.0.1:0"]
  hosts: {alias.example: target.example}
  dns64: "2001:db8:64::/96"
  forward: {upstreams: [%q], routes: {routed.example: [%q]}, policies: {pupils: [%q], none: "off"}}
`, all, route, pupils)
	s, err := configuration.Read(folder(t, map[string]string{"shuultuur.yaml": settings}))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	e, err := engine.Build(context.Background(), s, nil, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Drop(nil, log) })
	store, err := resolver.NewStore(resolver.CacheConfig{}, "", e.Forward.Ask, e.Forward.AskFor(1), e.Forward.AskFor(2))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	if e.Resolver, err = e.ResolverFor(s.DNS, e.Policies, store); err != nil {
		t.Fatal(err)
	}
	for range 2 { // of upstreams, then of the cache
		for _, c := range []struct {
			client, name string
			qtype        uint16
			want         string
		}{
			{"10.3.0.1", "www.example", miekg.TypeA, "198.51.100.1"},
			{"10.1.0.1", "www.example", miekg.TypeA, "198.51.100.2"},
			{"10.1.0.1", "first.example", miekg.TypeA, "198.51.100.2"},
			{"10.3.0.1", "first.example", miekg.TypeA, "198.51.100.1"},
			{"10.2.0.1", "first.example", miekg.TypeA, "NXDOMAIN"},
			{"10.1.0.1", "www.routed.example", miekg.TypeA, "198.51.100.3"},
			{"10.2.0.1", "www.routed.example", miekg.TypeA, "198.51.100.3"},
			{"10.3.0.1", "www.routed.example", miekg.TypeA, "198.51.100.3"},
			{"10.1.0.1", "alias.example", miekg.TypeA, "198.51.100.2"},
			{"10.3.0.1", "alias.example", miekg.TypeA, "198.51.100.1"},
			{"10.1.0.1", "away.example", miekg.TypeA, "198.51.100.2"},
			{"10.1.0.1", "www.google.com", miekg.TypeA, "198.51.100.2"},
			{"10.3.0.1", "www.google.com", miekg.TypeA, "198.51.100.1"},
			{"10.1.0.1", "six.example", miekg.TypeAAAA, "2001:db8:64::c633:6402"},
			{"10.3.0.1", "six.example", miekg.TypeAAAA, "2001:db8:64::c633:6401"},
		} {
			if got, _ := askEngine(t, e, questionOf(t, c.client, c.name, c.qtype, time.Now())); !strings.Contains(got, c.want) {
				t.Errorf("%s asks for %s: got %s, want %s", c.client, c.name, got, c.want)
			}
		}
	}
	for client, want := range map[string]string{"10.1.0.1": pupils, "10.3.0.1": all, "10.2.0.1": ""} {
		x, err := e.Name(e.Policies, filter.Client{Addr: netip.MustParseAddr(client)}, "www.example", miekg.TypeA)
		if err != nil || !strings.Contains(strings.Join(x.Upstreams, " "), want) || len(x.Upstreams) > 0 != (want != "") {
			t.Errorf("why for %s: %v, %v; want %s", client, x, err, want)
		}
	}
}

func TestUpstreamsOfAPolicyThatIsMissingAreAMistake(t *testing.T) {
	file := folder(t, map[string]string{"shuultuur.yaml": "policies: [{name: all}]\ndns: {listen: ['127.0.0.1:0'], forward: {upstreams: [192.0.2.1], policies: {pupils: [192.0.2.2]}}}\n"})
	if _, _, err := engine.Explain(t.Context(), file); err == nil || !strings.Contains(err.Error(), "dns.forward.policies.pupils") {
		t.Errorf("got %v, want dns.forward.policies.pupils", err)
	}
}
