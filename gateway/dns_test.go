package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/redis"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/resolver"
	"shuultuur/state"
	"shuultuur/test/race"
	"shuultuur/test/redistest"
)

const nameSettings = `
data: ./data
lists:
  own: {format: domains, path: own.txt, category: games}
  ads: {format: adblock, path: ads.txt, category: ads}
  bad: {format: networks, path: bad.txt, category: bots}
checks: {category: {lists: [own, ads, bad]}}
identity: {addresses: {mary: [10.1.0.7]}, groups: {staff: [mary]}}
policies:
  - name: staff
    groups: [staff]
    rules: [{name: bots, action: block, category: [bots], answer: refused}]
  - name: night
    networks: [10.1.0.0/16]
    schedule: {hours: "21:00-06:00", zone: UTC}
    dns: {answer: nxdomain, error: filtered}
    rules: [{name: all, action: block, host: ["*"]}]
  - name: pupils
    networks: [10.1.0.0/16]
    safesearch: true
    youtube: strict
    dns: {drop: [h3, ech]}
    rules:
      - {name: school, action: allow, host: [school.example, learn.games.example]}
      - {name: no v6, action: block, query: [AAAA], host: [v4only.example], answer: nodata}
      - {name: away, action: redirect, host: [away.example], to: "http://portal.example/x?u={url}"}
      - {name: games, action: block, category: [games], answer: nxdomain}
      - {name: ads, action: block, category: [ads]}
      - {name: bots, action: block, category: [bots], answer: refused}
      - {name: careful, action: warn, host: [warn.example]}
  - name: rest
    dns: {own-dns: true}
dns:
  listen: ["127.0.0.1:0"]
  block: {sinkhole: [10.0.0.1]}
  hosts: {portal.example: 10.0.0.5}
`

func nameFiles() map[string]string {
	return map[string]string{
		"shuultuur.yaml": nameSettings,
		"own.txt":        "games.example\n",
		"ads.txt":        "||ads.example^\n@@||good.ads.example^\n||v6ads.example^$dnstype=AAAA\n||mine.example^$dnsrewrite=192.0.2.55\n||frank.example^$client=10.1.0.9\n",
		"bad.txt":        "203.0.113.0/24\n",
	}
}

// world returns the records of upstreams, by "name type".
func world() map[string][]string {
	return map[string][]string{
		"fine.example. A":               {"fine.example. 300 IN A 198.51.100.1"},
		"fine.example. AAAA":            {"fine.example. 300 IN AAAA 2001:db8::1"},
		"v4only.example. A":             {"v4only.example. 300 IN A 198.51.100.2"},
		"v6ads.example. A":              {"v6ads.example. 300 IN A 198.51.100.3"},
		"frank.example. A":              {"frank.example. 300 IN A 198.51.100.3"},
		"good.ads.example. A":           {"good.ads.example. 300 IN A 198.51.100.4"},
		"ads.example. A":                {"ads.example. 300 IN A 198.51.100.4"},
		"learn.games.example. A":        {"learn.games.example. 300 IN A 198.51.100.5"},
		"games.example. A":              {"games.example. 300 IN A 198.51.100.5"},
		"cloak.example. A":              {"cloak.example. 300 IN CNAME x.games.example.", "x.games.example. 300 IN A 198.51.100.6"},
		"www.school.example. A":         {"www.school.example. 300 IN CNAME x.games.example.", "x.games.example. 300 IN A 198.51.100.6"},
		"bot.example. A":                {"bot.example. 300 IN A 203.0.113.9"},
		"warn.example. A":               {"warn.example. 300 IN A 198.51.100.7"},
		"use-application-dns.net. A":    {"use-application-dns.net. 300 IN A 198.51.100.8"},
		"forcesafesearch.google.com. A": {"forcesafesearch.google.com. 300 IN A 198.51.100.20"},
		"restrict.youtube.com. A":       {"restrict.youtube.com. 300 IN A 198.51.100.21"},
		"www.google.com. A":             {"www.google.com. 300 IN A 198.51.100.30"},
		"77.0.1.10.in-addr.arpa. PTR":   {"77.0.1.10.in-addr.arpa. 300 IN PTR tv.home.arpa."},
		"5.5.168.192.in-addr.arpa. PTR": {"5.5.168.192.in-addr.arpa. 300 IN PTR nobody.asked."},
		"h.example. HTTPS":              {`h.example. 300 IN HTTPS 1 . alpn="h2,h3" ech="AEX+DQA="`},
	}
}

func exchange(_ context.Context, name []byte, qtype, class uint16, do, cd bool) ([]byte, uint16, error) {
	m := new(miekg.Msg)
	m.SetQuestion(dns.Text(name), qtype)
	reply := answerOf(m)
	out, err := reply.Pack()
	return out, 0, err
}

func answerOf(q *miekg.Msg) *miekg.Msg {
	m := new(miekg.Msg)
	m.SetReply(q)
	m.RecursionAvailable, m.Compress = true, true
	known := world()
	for _, s := range known[strings.ToLower(q.Question[0].Name)+" "+miekg.TypeToString[q.Question[0].Qtype]] {
		rr, err := miekg.NewRR(s)
		if err != nil {
			panic(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	if len(m.Answer) == 0 {
		rr, _ := miekg.NewRR("example. 300 IN SOA ns.example. h.example. 1 2 3 4 300")
		m.Ns = append(m.Ns, rr)
	}
	return m
}

// nameEngine returns an engine with a store that queries world.
func nameEngine(t *testing.T) *engine.Engine {
	t.Helper()
	return nameEngineOf(t, nameFiles(), nil)
}

func nameEngineOf(t *testing.T, files map[string]string, memory state.Store) *engine.Engine {
	t.Helper()
	return restingEngineOf(t, files, memory, nil)
}

func restingEngineOf(t *testing.T, files map[string]string, memory state.Store, rest *policy.Pauses) *engine.Engine {
	t.Helper()
	s, err := configuration.Read(folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	store, err := resolver.NewStore(resolver.CacheConfig{Size: 8 << 20}, "", exchange)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	log := slog.New(slog.DiscardHandler)
	e, err := engine.Build(context.Background(), s, nil, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Drop(nil, log) })
	parts := policy.Parts{Pauses: rest, Log: log}
	if memory != nil {
		parts.Memory, parts.Counter = memory, memory
	}
	if e.Policies.Engine, err = policy.New(s.Policies, e.Checks.Checks, parts); err != nil {
		t.Fatal(err)
	}
	if e.Resolver, err = e.ResolverFor(s.DNS, e.Policies, store); err != nil {
		t.Fatal(err)
	}
	return e
}

func questionOf(t testing.TB, client, name string, qtype uint16, at time.Time) *dns.Query {
	t.Helper()
	m := new(miekg.Msg)
	m.SetQuestion(miekg.Fqdn(name), qtype)
	m.SetEdns0(1232, false)
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	q := &dns.Query{}
	if st := q.Parse(b); st != dns.OK {
		t.Fatalf("parsing a query for %s: status %d", name, st)
	}
	q.Client, q.At, q.Recursion = netip.AddrPortFrom(netip.MustParseAddr(client), 5353), at, true
	return q
}

// A reply is a reply with its transaction, as in the server.
type reply struct {
	dns.Reply
	T filter.Transaction
}

func (a *reply) Start(q *dns.Query, buf []byte, limit int) {
	a.Reply.Start(q, buf, limit)
	a.T.Reset()
}

func askEngine(t testing.TB, e *engine.Engine, q *dns.Query) (string, *reply) {
	t.Helper()
	a := &reply{}
	a.Start(q, nil, 1200)
	out := e.Resolver.Answer(q, &a.Reply, &a.T)
	if out == dns.Later {
		a.Start(q, a.Buf, 1200)
		out = e.Resolver.Wait(context.Background(), q, &a.Reply, &a.T)
	}
	if out != dns.Answered {
		t.Fatalf("the query has the outcome %d, want Answered", out)
	}
	var m miekg.Msg
	if err := m.Unpack(a.Finish(&dns.Options{Size: 1232, Max: 1232})); err != nil {
		t.Fatal(err)
	}
	return lineOf(&m), a
}

// lineOf returns an answer in one line.
func lineOf(m *miekg.Msg) string {
	s := miekg.RcodeToString[m.Rcode]
	for _, rr := range m.Answer {
		s += " " + miekg.TypeToString[rr.Header().Rrtype] + " " + strings.TrimPrefix(rr.String(), rr.Header().String())
	}
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if x, ok := o.(*miekg.EDNS0_EDE); ok {
				s += fmt.Sprintf(" EDE %d", x.InfoCode)
			}
		}
	}
	return s
}

func TestNamesAreAnsweredByThePolicyOfTheClient(t *testing.T) {
	e := nameEngine(t)
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	const pupil, mary, guest = "10.1.0.8", "10.1.0.7", "192.168.1.1"
	for _, c := range []struct {
		client, name string
		qtype        uint16
		hour         int
		want         string
	}{
		{pupil, "fine.example", miekg.TypeA, 12, "NOERROR A 198.51.100.1"},
		{pupil, "fine.example", miekg.TypeA, 22, "NXDOMAIN EDE 17"},
		{pupil, "fine.example", miekg.TypeA, 5, "NXDOMAIN EDE 17"},
		{pupil, "fine.example", miekg.TypeA, 6, "NOERROR A 198.51.100.1"},
		{mary, "fine.example", miekg.TypeA, 22, "NOERROR A 198.51.100.1"},
		{guest, "fine.example", miekg.TypeA, 22, "NOERROR A 198.51.100.1"},

		{pupil, "www.games.example", miekg.TypeA, 12, "NXDOMAIN EDE 15"},
		{pupil, "www.games.example", miekg.TypeHTTPS, 12, "NXDOMAIN EDE 15"},
		{mary, "games.example", miekg.TypeA, 12, "NOERROR A 198.51.100.5"},
		{pupil, "learn.games.example", miekg.TypeA, 12, "NOERROR A 198.51.100.5"},
		{pupil, "cloak.example", miekg.TypeA, 12, "NXDOMAIN EDE 15"},
		{mary, "cloak.example", miekg.TypeA, 12, "NOERROR CNAME x.games.example. A 198.51.100.6"},
		{pupil, "www.school.example", miekg.TypeA, 12, "NOERROR CNAME x.games.example. A 198.51.100.6"},

		{pupil, "ads.example", miekg.TypeA, 12, "NOERROR A 0.0.0.0 EDE 15"},
		{pupil, "x.ads.example", miekg.TypeAAAA, 12, "NOERROR AAAA :: EDE 15"},
		{pupil, "x.ads.example", miekg.TypeHTTPS, 12, "NOERROR EDE 15"},
		{pupil, "good.ads.example", miekg.TypeA, 12, "NOERROR A 198.51.100.4"},
		{pupil, "v6ads.example", miekg.TypeA, 12, "NOERROR A 198.51.100.3"},
		{pupil, "v6ads.example", miekg.TypeAAAA, 12, "NOERROR AAAA :: EDE 15"},
		{pupil, "mine.example", miekg.TypeA, 12, "NOERROR A 192.0.2.55 EDE 15"},
		{pupil, "frank.example", miekg.TypeA, 12, "NOERROR A 198.51.100.3"},
		{"10.1.0.9", "frank.example", miekg.TypeA, 12, "NOERROR A 0.0.0.0 EDE 15"},

		{pupil, "bot.example", miekg.TypeA, 12, "REFUSED EDE 15"},
		{mary, "bot.example", miekg.TypeA, 12, "REFUSED EDE 15"},
		{guest, "bot.example", miekg.TypeA, 12, "NOERROR A 203.0.113.9"},

		{pupil, "v4only.example", miekg.TypeA, 12, "NOERROR A 198.51.100.2"},
		{pupil, "v4only.example", miekg.TypeAAAA, 12, "NOERROR EDE 15"},
		{pupil, "away.example", miekg.TypeA, 12, "NOERROR CNAME portal.example. A 10.0.0.5"},
		{pupil, "warn.example", miekg.TypeA, 12, "NOERROR A 10.0.0.1 EDE 15"},
		{guest, "warn.example", miekg.TypeA, 12, "NOERROR A 198.51.100.7"},

		{pupil, "www.google.com", miekg.TypeA, 12, "NOERROR CNAME forcesafesearch.google.com. A 198.51.100.20"},
		{guest, "www.google.com", miekg.TypeA, 12, "NOERROR A 198.51.100.30"},
		{pupil, "m.youtube.com", miekg.TypeA, 12, "NOERROR CNAME restrict.youtube.com. A 198.51.100.21"},
		{pupil, "h.example", miekg.TypeHTTPS, 12, `NOERROR HTTPS 1 . alpn="h2"`},
		{guest, "h.example", miekg.TypeHTTPS, 12, `NOERROR HTTPS 1 . alpn="h2,h3" ech="AEX+DQA="`},
		{pupil, "use-application-dns.net", miekg.TypeA, 12, "NXDOMAIN EDE 15"},
		{guest, "use-application-dns.net", miekg.TypeA, 12, "NOERROR A 198.51.100.8"},
		{guest, "portal.example", miekg.TypeA, 12, "NOERROR A 10.0.0.5"},
	} {
		at := time.Date(noon.Year(), noon.Month(), noon.Day(), c.hour, 30, 0, 0, time.UTC)
		if c.hour == 5 {
			at = at.Add(29 * time.Minute)
		}
		for range 2 {
			if got, _ := askEngine(t, e, questionOf(t, c.client, c.name, c.qtype, at)); got != c.want {
				t.Errorf("%s asks at %d:30 for %s %s: %s, want %s", c.client, c.hour, c.name, miekg.TypeToString[c.qtype], got, c.want)
			}
		}
	}
}

func TestARefusedNameAllocatesNothing(t *testing.T) {
	e := nameEngine(t)
	now := time.Now()
	for _, c := range []struct{ client, name string }{
		{"10.1.0.8", "www.games.example"}, {"10.1.0.8", "ads.example"}, {"10.1.0.8", "fine.example"}, {"10.1.0.8", "www.google.com"},
		{"10.1.0.8", "cloak.example"}, {"10.1.0.8", "bot.example"}, {"192.168.1.1", "fine.example"}, {"10.1.0.8", "warn.example"}, {"192.168.1.1", "portal.example"},
	} {
		q := questionOf(t, c.client, c.name, miekg.TypeA, now)
		askEngine(t, e, q) // into the cache
		a, buf := &reply{}, make([]byte, 0, 4096)
		o := &dns.Options{Size: 1232, Max: 1232}
		n := testing.AllocsPerRun(200, func() {
			a.Start(q, buf, 1200)
			if out := e.Resolver.Answer(q, &a.Reply, &a.T); out != dns.Answered {
				t.Fatalf("%s: outcome %d", c.name, out)
			}
			a.Finish(o)
		})
		if n != 0 && !race.On {
			t.Errorf("answering %s for %s makes %v allocations, want 0", c.name, c.client, n)
		}
	}
}

const meteredSettings = `
data: ./data
lists: {own: {format: domains, path: own.txt, category: games}}
checks: {category: {lists: [own]}}
policies:
  - name: pupils
    limits:
      - {queries: 1000/1h, by: policy}
      - {queries: 8/1h}
    quotas:
      - {category: games, time: 1h, bytes: 1MB, queries: true}
      - {bytes: 1GB, by: policy}
dns: {listen: ["127.0.0.1:0"]}
`

func TestQueriesAreCounted(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) state.Store{
		"memory": func(t *testing.T) state.Store {
			s, err := state.New(state.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
		"Redis": func(t *testing.T) state.Store {
			s, err := state.Open(state.Config{Redis: &state.Redis{Config: redis.Config{Addresses: []string{redistest.Start(t).Addr}}}}, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			memory := open(t)
			e := nameEngineOf(t, map[string]string{"shuultuur.yaml": meteredSettings, "own.txt": "games.example\n"}, memory)
			now := time.Now()
			if y, m, d := now.Date(); now.Truncate(time.Hour).Add(time.Hour).Sub(now) < time.Minute {
				now = time.Date(y, m, d, now.Hour()+1, 0, 0, 0, now.Location()) // one hour of use in a span of two
			}
			ask := func(client, name string) string {
				s, a := askEngine(t, e, questionOf(t, client, name, miekg.TypeA, now))
				if x := e.Resolver.Record(questionOf(t, client, name, miekg.TypeA, now), &a.Reply, &a.T); x.Verdict.After > 0 && x.Verdict.Reason.Finding.Evidence == "" {
					t.Errorf("%s: the event lacks the reason: %+v", name, x.Verdict)
				}
				return s
			}
			// The first query needs upstreams, and counts once.
			for i := range 8 {
				if got := ask("10.1.0.8", "fine.example"); got != "NOERROR A 198.51.100.1" {
					t.Errorf("query %d within the limit: %s, want an answer", i+1, got)
				}
			}
			if got := ask("10.1.0.8", "fine.example"); got != "REFUSED EDE 15" {
				t.Errorf("the query beyond the limit: %s, want REFUSED EDE 15", got)
			}
			if got := ask("10.1.0.9", "games.example"); got != "NOERROR A 198.51.100.5" {
				t.Errorf("another client: %s, want an answer", got)
			}
			who := filter.Client{Addr: netip.MustParseAddr("10.1.0.9")}
			if _, left := e.Policies.Balance(t.Context(), "", &who, now); len(left) != 3 || left[0].Used != 1 || left[1].Used != 0 {
				t.Errorf("the quota is %+v, want one minute used", left)
			}
			e.Policies.Done(t.Context(), &filter.Transaction{Start: now, Client: who, Record: filter.Record{BytesOut: 2e6}, Findings: []filter.Finding{{Check: "category", Category: "games"}}})
			if got := ask("10.1.0.9", "games.example"); got != "NOERROR A 0.0.0.0 EDE 15" {
				t.Errorf("a name of games whose quota is used up: %s, want 0.0.0.0", got)
			}
			for client, name := range map[string]string{"10.1.0.8": "fine.example", "10.1.0.9": "games.example", "10.1.0.7": "fine.example"} {
				q := questionOf(t, client, name, miekg.TypeA, now)
				a, buf := &reply{}, make([]byte, 0, 4096)
				trips := memory.Stats().Trips
				n := testing.AllocsPerRun(200, func() {
					a.Start(q, buf, 1200)
					if out := e.Resolver.Answer(q, &a.Reply, &a.T); out != dns.Answered {
						t.Fatalf("%s: outcome %d", name, out)
					}
				})
				if trips = memory.Stats().Trips - trips; n != 0 && !race.On || trips != 0 {
					t.Errorf("answering %s for %s makes %v allocations, and %d queries waited for Redis; want none", name, client, n, trips)
				}
			}
		})
	}
}

func TestQuestionsAreRecordedWhole(t *testing.T) {
	e := nameEngine(t)
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	record := func(client, name string) event.Row {
		q := questionOf(t, client, name, miekg.TypeA, now)
		_, a := askEngine(t, e, q)
		x := e.Resolver.Record(q, &a.Reply, &a.T)
		return event.NewRow(&x)
	}
	r := record("10.1.0.8", "www.games.example")
	if r.Proto != filter.DNS || r.Method != "A" || r.Host != "www.games.example" || r.Status != miekg.RcodeNameError ||
		r.Policy != "pupils" || r.Rule != "games" || r.Category != "games" || !strings.Contains(r.Evidence, `"games.example" in`) || r.ID == "" {
		t.Errorf("the event of a refused name is %+v", r)
	}
	r = record("10.1.0.8", "cloak.example")
	if r.Host != "cloak.example" || r.Category != "games" || !strings.Contains(r.Note, "x.games.example") {
		t.Errorf("the event of a refused alias is %+v", r)
	}
	r = record("10.1.0.7", "fine.example")
	if r.User != "mary" || r.Policy != "staff" || r.Action != filter.Pass || r.Status != 0 {
		t.Errorf("the event of an answered name is %+v", r)
	}
	r = record("192.168.1.1", "portal.example")
	if r.Host != "portal.example" || r.Client != netip.MustParseAddr("192.168.1.1") || r.Method != "A" {
		t.Errorf("the event of a local name is %+v", r)
	}
}

// upstreamServer answers with the records of world until the test ends.
func upstreamServer(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &miekg.Server{PacketConn: conn, Handler: miekg.HandlerFunc(func(w miekg.ResponseWriter, q *miekg.Msg) { _ = w.WriteMsg(answerOf(q)) })}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.ActivateAndServe() })
	t.Cleanup(func() { conn.Close(); wg.Wait() })
	return conn.LocalAddr().String()
}

func TestAGatewayServesNamesAndReloads(t *testing.T) {
	files := nameFiles()
	up := upstreamServer(t)
	files["shuultuur.yaml"] = "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}\nevents: {jsonl: events.jsonl}\n" +
		strings.Replace(files["shuultuur.yaml"], "  hosts: {portal", "  forward: {upstreams: ["+up+"], routes: {10.1.0.0/16: ["+up+"]}}\n  hosts: {portal", 1)
	// The client is 127.0.0.1.
	files["shuultuur.yaml"] = strings.ReplaceAll(files["shuultuur.yaml"], "networks: [10.1.0.0/16]\n    safesearch", "networks: [127.0.0.0/8]\n    safesearch")
	file := folder(t, files)
	g, err := New(context.Background(), file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	server := g.engine.Load().Names.Addrs(dns.UDP)[0].String()
	ask := func(name string) string {
		t.Helper()
		m := new(miekg.Msg)
		m.SetQuestion(miekg.Fqdn(name), miekg.TypeA)
		m.SetEdns0(1232, false)
		r, _, err := new(miekg.Client).Exchange(m, server)
		if err != nil {
			t.Fatal(err)
		}
		return lineOf(r)
	}
	for name, want := range map[string]string{
		"fine.example": "NOERROR A 198.51.100.1", "games.example": "NXDOMAIN EDE 15", "cloak.example": "NXDOMAIN EDE 15", "portal.example": "NOERROR A 10.0.0.5",
	} {
		if got := ask(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	// The reverse zones to which their networks are routed name the devices.
	tv, mary, unrouted := netip.MustParseAddr("10.1.0.77"), netip.MustParseAddr("10.1.0.7"), netip.MustParseAddr("192.168.5.5")
	if names := (&pages{gateway: g}).clientNames(ctx, []netip.Addr{tv, mary, unrouted}); names[tv] != "tv.home.arpa" || names[mary] != "mary" || names[unrouted] != "" {
		t.Errorf("the clients have the names %v", names)
	}
	// An added or removed entry has effect at once.
	change := func(c list.Change) {
		t.Helper()
		if err := g.node.ChangeLists(ctx, map[string][]list.Change{"own": {c}}); err != nil {
			t.Fatal(err)
		}
	}
	change(list.Change{Entry: "fine.example"})
	if got := ask("fine.example"); got != "NXDOMAIN EDE 15" {
		t.Errorf("after fine.example was listed: %s, want NXDOMAIN EDE 15", got)
	}
	change(list.Change{Entry: "fine.example", Remove: true})
	if got := ask("fine.example"); got != "NOERROR A 198.51.100.1" {
		t.Errorf("after fine.example was removed from the list: %s, want its address", got)
	}
	// Other settings.
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(old), "portal.example: 10.0.0.5", "portal.example: 10.0.0.6", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	if got := ask("portal.example"); got != "NOERROR A 10.0.0.6" {
		t.Errorf("portal.example after a reload: %s, want 10.0.0.6", got)
	}
	resp, err := http.Get("http://" + g.AdminAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`coredns_cache_misses_total{server="dns://127.0.0.1:0",view="",zones="."}`, "coredns_dns_requests_total", "coredns_cache_hits_total", "coredns_proxy_request_duration_seconds"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

func TestWhyTellsTheAnswerForANameWithoutAQuery(t *testing.T) {
	e, done, err := engine.Explain(context.Background(), folder(t, nameFiles()))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	d, err := e.As("pupils")
	if err != nil {
		t.Fatal(err)
	}
	client := filter.Client{Addr: netip.MustParseAddr("127.0.0.1")}
	for name, want := range map[string]string{
		"games.example": "NXDOMAIN [] false", "portal.example": "NOERROR [portal.example. 60 IN A 10.0.0.5] false", "fine.example": " [] true",
		"ads.example": "NOERROR [ads.example. 10 IN A 0.0.0.0] false",
	} {
		x, err := e.Name(d, client, name, miekg.TypeA)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(x.Rcode, x.Records, x.Upstream); fmt.Sprint(x.Rcode, " ", x.Records, " ", x.Upstream) != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if _, err := e.Name(d, client, "a..b", miekg.TypeA); err == nil {
		t.Error("Name accepts a..b")
	}
}

func TestWhyTellsTheAddressesThatDNS64Makes(t *testing.T) {
	files := nameFiles()
	files["shuultuur.yaml"] = nameSettings + "  dns64: 2001:db8:64::/96\n"
	e, done, err := engine.Explain(t.Context(), folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	d, err := e.As("pupils")
	if err != nil {
		t.Fatal(err)
	}
	const reverse = ".0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
	for _, c := range []struct {
		name  string
		qtype uint16
		want  string
	}{
		{"fine.example", miekg.TypeAAAA, " [] where there is no IPv6 address, those below 2001:db8:64::/96 that stand for the IPv4 ones"},
		{"fine.example", miekg.TypeA, " [] "},
		{"games.example", miekg.TypeAAAA, "NXDOMAIN [] "},
		{"portal.example", miekg.TypeAAAA, "NOERROR [portal.example. 60 IN AAAA 2001:db8:64::a00:5] "},
		{"9.0.9.0.9.0.9.0" + reverse, miekg.TypePTR, " [] the name of 9.9.9.9, for which the address below 2001:db8:64::/96 stands"},
	} {
		x, err := e.Name(d, filter.Client{Addr: netip.MustParseAddr("10.1.0.9")}, c.name, c.qtype)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(x.Rcode, " ", x.Records, " ", x.DNS64); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, miekg.TypeToString[c.qtype], got, c.want)
		}
	}
}

func TestWhyTellsTheAnswerOfAnOwnZone(t *testing.T) {
	files := nameFiles()
	files["shuultuur.yaml"] = nameSettings + `
  redis: {addresses: ["127.0.0.1:1"]}
  zones:
    files:
      - {path: games.example.zone}
      - {path: near.zone, origin: seen.example, view: near, clients: [10.1.0.0/16]}
    secondary: [{zone: theirs.example, primaries: [{address: "127.0.0.1:1"}]}]
`
	files["games.example.zone"] = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n"
	files["near.zone"] = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.3\n"
	e, done, err := engine.Explain(t.Context(), folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	d, err := e.As("pupils")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ client, name, want string }{
		{"10.1.0.9", "www.games.example", "NOERROR [www.games.example. 60 IN A 192.0.2.2] false games.example. "},
		{"10.1.0.9", "no.Games.example", "NXDOMAIN [] false games.example. "},
		{"10.1.0.9", "www.seen.example", "NOERROR [www.seen.example. 60 IN A 192.0.2.3] false seen.example. "},
		{"10.2.0.9", "www.seen.example", " [] true  Redis"},
		{"10.1.0.9", "www.theirs.example", " [] true  the primaries of theirs.example."},
		{"10.1.0.9", "ads.example", "NOERROR [ads.example. 10 IN A 0.0.0.0] false  Redis"},
	} {
		x, err := e.Name(d, filter.Client{Addr: netip.MustParseAddr(c.client)}, c.name, miekg.TypeA)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(x.Rcode, " ", x.Records, " ", x.Upstream, " ", x.Zone, " ", x.Unknown); got != c.want {
			t.Errorf("%s asks for %s: %s, want %s", c.client, c.name, got, c.want)
		}
		if x.Zone != "" && x.Transaction.Verdict.Action != filter.Pass {
			t.Errorf("%s of our own zone is judged: %v", c.name, x.Transaction.Verdict)
		}
	}
}

func TestMistakesOfTheNameServerAreNamed(t *testing.T) {
	for _, c := range []struct{ old, new, key string }{
		{"sinkhole: [10.0.0.1]", "answer: sinkhole", "dns.block.answer"},
		{"portal.example: 10.0.0.5", "portal.example: [10.0.0.5, other.example]", "dns.hosts.portal.example"},
		{"answer: refused", "answer: nothing", "refused"},
		{"portal.example: 10.0.0.5}", "portal.example: 10.0.0.5}\n  dns64: 2001:db8::/63", "dns.dns64"},
		{"query: [AAAA]", "query: [QUARK]", "policies[2].rules[1].query[0]"},
		{"error: filtered", "error: sorry", "policies[1].dns.error"},
		{"drop: [h3, ech]", "drop: [h4]", "policies[2].dns.drop[0]"},
		{`listen: ["127.0.0.1:0"]`, `listen: ["nowhere"]`, "dns.listen[0]"},
		{`listen: ["127.0.0.1:0"]`, "listen: [\":5399\"]\n  forward: {upstreams: [\"127.0.0.1:5399\"]}", "dns.forward.upstreams[0]"},
		{`listen: ["127.0.0.1:0"]`, "listen: [\"127.0.0.1:0\"]\n  forward: {upstreams: [9.9.9.9], ca: nothing.pem}", "dns.forward.ca"},
		{`listen: ["127.0.0.1:0"]`, "listen: [\"127.0.0.1:0\"]\n  forward: {upstreams: [9.9.9.9], validate: true, trust-anchors: [\". A 192.0.2.1\"]}", "dns.forward.trust-anchors[0]"},
	} {
		files := nameFiles()
		files["shuultuur.yaml"] = strings.Replace(nameSettings, c.old, c.new, 1)
		err := explain(t, folder(t, files))
		if err == nil || !strings.Contains(err.Error(), c.key) {
			t.Errorf("%s: %v, want an error about %s", c.new, err, c.key)
		}
	}
}

// TestNamesPassInAPause: during a pause, names that a policy refuses are
// answered, and afterwards refused again, although the answer is cached. Refused
// names stay refused.
func TestNamesPassInAPause(t *testing.T) {
	var rest policy.Pauses
	e := restingEngineOf(t, nameFiles(), nil, &rest)
	noon := time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)
	rest.Set([]policy.Pause{{Who: "10.1.0.5", Until: noon.Add(time.Minute)}})
	for _, c := range []struct {
		client, name string
		at           time.Duration
		want         string
	}{
		{"10.1.0.5", "ads.example", 0, "NOERROR A 198.51.100.4"},
		{"10.1.0.5", "cloak.example", 0, "NOERROR CNAME x.games.example. A 198.51.100.6"},
		{"10.1.0.5", "bot.example", 0, "NOERROR A 203.0.113.9"},
		{"10.1.0.8", "ads.example", 0, "NOERROR A 0.0.0.0 EDE 15"},
		{"10.1.0.5", "use-application-dns.net", 0, "NXDOMAIN EDE 15"},
		{"10.1.0.5", "ads.example", time.Minute, "NOERROR A 0.0.0.0 EDE 15"},
		{"10.1.0.5", "cloak.example", time.Minute, "NXDOMAIN EDE 15"},
		{"10.1.0.5", "bot.example", time.Minute, "REFUSED EDE 15"},
	} {
		got, a := askEngine(t, e, questionOf(t, c.client, c.name, miekg.TypeA, noon.Add(c.at)))
		if got != c.want {
			t.Errorf("%s asks for %s after %v: %s, want %s", c.client, c.name, c.at, got, c.want)
		}
		x := e.Resolver.Record(questionOf(t, c.client, c.name, miekg.TypeA, noon.Add(c.at)), &a.Reply, &a.T)
		if passes := strings.Contains(c.want, " A 198") || strings.Contains(c.want, "203"); passes != (x.Verdict.Reason.Finding.Category == "paused") {
			t.Errorf("%s asks for %s after %v: the event says %+v", c.client, c.name, c.at, x.Verdict)
		}
	}
}

func TestPoliciesCoverClientsByClientID(t *testing.T) {
	files := nameFiles()
	files["shuultuur.yaml"] = strings.Replace(nameSettings, "addresses: {mary: [10.1.0.7]}", "addresses: {mary: [10.1.0.7]}, client-ids: {mary: [marys-phone]}", 1)
	e := nameEngineOf(t, files, nil)
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for id, want := range map[string]string{"": "pupils", "unknown": "pupils", "marys-phone": "staff"} {
		q := questionOf(t, "10.1.0.8", "fine.example", miekg.TypeA, at)
		q.ClientID = id
		_, a := askEngine(t, e, q)
		if got := a.T.Verdict.Reason.Policy; got != want {
			t.Errorf("ClientID %q: policy %q, want %q", id, got, want)
		}
	}
}
