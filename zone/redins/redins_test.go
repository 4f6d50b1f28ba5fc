package redins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/redis"
	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/geotest"
	"shuultuur/test/race"
	"shuultuur/test/redistest"
	"shuultuur/test/zonetest"
	"shuultuur/zone"
	"shuultuur/zone/redins/geo"
	"shuultuur/zone/redins/health"
)

// node is a name server with zones in Redis.
type node struct {
	*Source
	zones *zone.Responder
	stop  func()
}

func startNode(t testing.TB, cfg Config, up Upstream, sign Signer) *node {
	t.Helper()
	n := &node{zones: zone.NewResponder()}
	var err error
	if n.Source, err = New(cfg, "", n.zones, up, sign, nil, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(n.stop)
	return n
}

func at127(s *redistest.Server) Config {
	return Config{Redis: redis.Config{Addresses: []string{s.Addr}}, SetNotify: true}
}

func open(t testing.TB, s *redistest.Server, schema Schema) *Store {
	t.Helper()
	store, err := Open(t.Context(), at127(s).Redis, schema, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Client.Close)
	return store
}

// ask returns the answers to a question, sorted, as "rcode name ttl type data".
func (n *node) ask(t testing.TB, name, typ string) string {
	t.Helper()
	r := zonetest.Ask(t, n.zones, zonetest.Question(name, miekg.StringToType[typ]), 65535)
	if r == nil {
		return "declined"
	}
	var all []string
	for _, rr := range r.Answer {
		all = append(all, strings.Join(strings.Fields(rr.String()), " "))
	}
	slices.Sort(all)
	return strings.TrimSpace(miekg.RcodeToString[r.Rcode] + " " + strings.Join(all, " | "))
}

func (n *node) answers(t testing.TB, name, typ, want string) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		if got = n.ask(t, name, typ); got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s %s\ngot  %s\nwant %s", name, typ, got, want)
		}
	}
}

// putRedins writes a zone as redins' tools do.
func putRedins(t testing.TB, s *redistest.Server, origin, config string, labels map[string]string) {
	t.Helper()
	for label, text := range labels {
		s.Do(t, "HSET", "redins:zones:"+origin, label, text)
	}
	if config != "" {
		s.Do(t, "SET", "redins:zones:"+origin+":config", config)
	}
	s.Do(t, "SADD", "redins:zones", origin)
}

func TestARedinsDataSetIsServed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	labels := maps.Clone(redinsZone)
	delete(labels, "www")
	putRedins(t, s, "example.com.", redinsConfig, labels)
	n := startNode(t, at127(s), &upstream{ttl: time.Minute}, nil)
	waittest.Until(t, "zones are read", func() bool { return n.Stats().Zones == 1 })
	for q, want := range map[string]string{
		"example.com. SOA":                "NOERROR example.com. 300 IN SOA ns1.example.com. hostmaster.example.com. 1460498836 86400 7200 3600 300",
		"example.com. A":                  "NOERROR example.com. 300 IN A 192.0.2.1",
		"example.com. NS":                 "NOERROR example.com. 300 IN NS ns1.example.com. | example.com. 300 IN NS ns2.example.com.",
		"example.com. MX":                 "NOERROR example.com. 300 IN MX 10 mx1.example.com. | example.com. 300 IN MX 20 mx2.example.com.",
		"example.com. CAA":                `NOERROR example.com. 300 IN CAA 0 issue "ca.example"`,
		"alias.example.com. CNAME":        "NOERROR alias.example.com. 300 IN CNAME www.example.com.",
		"any.wild.example.com. A":         "NOERROR any.wild.example.com. 60 IN A 192.0.2.7",
		"any.wild.example.com. TXT":       `NOERROR any.wild.example.com. 3600 IN TXT "any"`,
		"wild.example.com. A":             "NOERROR",
		"_sip._tcp.example.com. SRV":      "NOERROR _sip._tcp.example.com. 300 IN SRV 10 100 555 sip.example.com.",
		"_443._tcp.www.example.com. TLSA": "NOERROR _443._tcp.www.example.com. 300 IN TLSA 1 1 1 1cfc98a706bcf3683015",
		"7.example.com. PTR":              "NOERROR 7.example.com. 300 IN PTR mail.example.com.",
		"host.sub.example.com. A":         "NOERROR", // a referral
		"sub.example.com. DS":             "NOERROR sub.example.com. 300 IN DS 57855 5 1 B6DCD485719ADCA18E5F3D48A2331627FDD3636B",
		"web.example.com. A":              "NOERROR web.example.com. 300 IN A 192.0.2.8 | web.example.com. 300 IN A 192.0.2.9",
		"x.ours.example.com. A":           "NOERROR ours.example.com. 300 IN DNAME example.net. | x.ours.example.com. 300 IN CNAME x.example.net.",
		"ours.example.com. SSHFP":         "NOERROR ours.example.com. 300 IN SSHFP 1 1 A0B1C2",
		"nothing.example.com. A":          "NXDOMAIN",
		"elsewhere.example.com. A":        "NOERROR elsewhere.example.com. 60 IN A 192.0.2.1",
		"example.net. A":                  "declined",
	} {
		name, typ, _ := strings.Cut(q, " ")
		if got := n.ask(t, name, typ); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", q, got, want)
		}
	}
}

func TestAZ42DataSetIsServed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for key, text := range map[string]string{
		"example.com.:config":                    redinsConfig,
		"example.com.:labels:@:NS":               `{"ttl":300,"records":[{"host":"ns1.example.com."}]}`,
		"example.com.:labels:@:A":                `{"ttl":300,"records":[{"ip":"192.0.2.1"}]}`,
		"example.com.:labels:www:A":              `{"ttl":300,"records":[{"ip":"1.2.3.4"},{"ip":"1.2.3.5"}],"filter":{"count":"multi","order":"rr","geo_filter":"none"}}`,
		"example.com.:labels:www:AAAA":           `{"ttl":300,"records":[{"ip":"2001:db8::1","country":["US"],"asn":[1]}]}`,
		"example.com.:labels:alias:CNAME":        `{"ttl":300,"host":"www.example.com."}`,
		"example.com.:labels:*.wild:TXT":         `{"ttl":300,"records":[{"text":"w"}]}`,
		"example.com.:labels:_sip._tcp:SRV":      `{"ttl":300,"records":[{"target":"sip.example.com.","priority":10,"weight":100,"port":555}]}`,
		"example.com.:labels:_443._tcp.www:TLSA": `{"ttl":300,"records":[{"usage":1,"selector":1,"matching_type":1,"certificate":"1CFC"}]}`,
		"example.com.:labels:any:ANAME":          `{"location":"www.example.com."}`,
		"example.com.:labels:any:MX":             `{"ttl":300,"records":[{"host":"mx.example.com.","preference":10}]}`,
		"example.com.:labels:any:CAA":            `{"ttl":300,"records":[{"tag":"issue","value":"ca.example","flag":0}]}`,
		"example.com.:labels:any:PTR":            `{"ttl":300,"domain":"mail.example.com"}`,
		"example.com.:labels:sub:NS":             `{"ttl":300,"records":[{"host":"ns.elsewhere.net."}]}`,
		"example.com.:labels:sub:DS":             `{"ttl":300,"records":[{"key_tag":1,"algorithm":13,"digest_type":2,"digest":"AB"}]}`,
		"example.com.:labels:notlisted:A":        `{"ttl":300,"records":[{"ip":"192.0.2.99"}]}`,
		"example.com.:labels:bad:A":              `{"ttl":300,"records":[{"ip":"nowhere"}]}`,
		"example.com.:labels:old:RR":             `["300 HINFO a b"]`,
	} {
		s.Do(t, "SET", "p/z42:zones:"+key+"/s", text)
	}
	s.Do(t, "SADD", "p/z42:zones:example.com.:labels/s", "@", "www", "alias", "*.wild", "_sip._tcp", "_443._tcp.www", "any", "sub", "bad", "old")
	s.Do(t, "SADD", "p/z42:zones/s", "example.com.")
	cfg := at127(s)
	cfg.Schema, cfg.Redis.Prefix, cfg.Suffix = Z42, "p/", "/s"
	n := startNode(t, cfg, nil, nil)
	waittest.Until(t, "zones are read", func() bool { return n.Stats().Zones == 1 })
	for q, want := range map[string]string{
		"example.com. SOA":                "NOERROR example.com. 300 IN SOA ns1.example.com. hostmaster.example.com. 1460498836 86400 7200 3600 300",
		"example.com. A":                  "NOERROR example.com. 300 IN A 192.0.2.1",
		"www.example.com. A":              "NOERROR www.example.com. 300 IN A 1.2.3.4 | www.example.com. 300 IN A 1.2.3.5",
		"www.example.com. AAAA":           "NOERROR www.example.com. 300 IN AAAA 2001:db8::1",
		"alias.example.com. AAAA":         "NOERROR alias.example.com. 300 IN CNAME www.example.com. | www.example.com. 300 IN AAAA 2001:db8::1",
		"x.wild.example.com. TXT":         `NOERROR x.wild.example.com. 300 IN TXT "w"`,
		"_sip._tcp.example.com. SRV":      "NOERROR _sip._tcp.example.com. 300 IN SRV 10 100 555 sip.example.com.",
		"_443._tcp.www.example.com. TLSA": "NOERROR _443._tcp.www.example.com. 300 IN TLSA 1 1 1 1cfc",
		"any.example.com. A":              "NOERROR any.example.com. 300 IN A 1.2.3.4 | any.example.com. 300 IN A 1.2.3.5",
		"any.example.com. MX":             "NOERROR any.example.com. 300 IN MX 10 mx.example.com.",
		"any.example.com. CAA":            `NOERROR any.example.com. 300 IN CAA 0 issue "ca.example"`,
		"any.example.com. PTR":            "NOERROR any.example.com. 300 IN PTR mail.example.com.",
		"sub.example.com. DS":             "NOERROR sub.example.com. 300 IN DS 1 13 2 AB",
		"notlisted.example.com. A":        "NXDOMAIN",
		"old.example.com. HINFO":          `NOERROR old.example.com. 300 IN HINFO "a" "b"`,
	} {
		name, typ, _ := strings.Cut(q, " ")
		if got := n.ask(t, name, typ); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", q, got, want)
		}
	}
	if p := n.Problems(); len(p) != 1 || p[0].Error() != `p/z42:zones:example.com.:labels:bad:A/s: records[0]: ip "nowhere": not an address` {
		t.Errorf("problems: got %v, want the one address", p)
	}
	s.Do(t, "SET", "p/z42:zones:example.com.:labels:www:AAAA/s", `{"records":[{"ip":"2001:db8::2"}]}`)
	n.answers(t, "www.example.com.", "AAAA", "NOERROR www.example.com. 3600 IN AAAA 2001:db8::2")
}

func oneA(ip string) string { return `{"a":{"ttl":300,"records":[{"ip":"` + ip + `"}]}}` }

func TestAChangeIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, o := range []string{"a.example.", "b.example."} {
		putRedins(t, s, o, "", map[string]string{"www": oneA("192.0.2.1")})
	}
	cfg := at127(s)
	cfg.Reload = setting.Duration(time.Hour)
	n, to := startCounted(t, cfg)
	n.answers(t, "www.b.example.", "A", "NOERROR www.b.example. 300 IN A 192.0.2.1")
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.1")
	var slowest time.Duration
	for i := range 20 {
		s.Do(t, "HSET", "redins:zones:a.example.", "www", oneA(fmt.Sprintf("192.0.2.%d", 100+i)))
		began := time.Now()
		n.answers(t, "www.a.example.", "A", fmt.Sprintf("NOERROR www.a.example. 300 IN A 192.0.2.%d", 100+i))
		slowest = max(slowest, time.Since(began))
		if whole, names := to.replaced.Load(), to.changed.Load(); whole != 2 || names != int32(i+1) {
			t.Errorf("after %d changes of one name: %d zones were read as a whole, names were changed %d times; want 2 and %d", i+1, whole, names, i+1)
		}
	}
	t.Logf("a change was answered after at most %v", slowest)
	for _, step := range []struct {
		do               []string
		name, typ, after string
	}{
		{[]string{"HDEL", "redins:zones:a.example.", "www"}, "www.a.example.", "A", "NXDOMAIN"},
		{[]string{"SET", "redins:zones:a.example.:config", `{"soa":{"ns":"n.","mbox":"m.","serial":7,"ttl":1,"refresh":2,"retry":3,"expire":4,"minttl":5}}`}, "a.example.", "SOA", "NOERROR a.example. 1 IN SOA n. m. 7 2 3 4 5"},
		{[]string{"SREM", "redins:zones", "a.example."}, "a.example.", "SOA", "declined"},
		{[]string{"SADD", "redins:zones", "a.example."}, "a.example.", "SOA", "NOERROR a.example. 1 IN SOA n. m. 7 2 3 4 5"},
		{[]string{"DEL", "redins:zones"}, "www.b.example.", "A", "declined"},
	} {
		s.Do(t, step.do...)
		n.answers(t, step.name, step.typ, step.after)
	}
	if st := n.Stats(); st.Zones != 0 || st.Events == 0 {
		t.Errorf("after the zone was removed: got %+v", st)
	}
}

func TestNonsenseDoesNotReplaceAZoneWithNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	putRedins(t, s, "a.example.", "", map[string]string{"www": oneA("192.0.2.1"), "other": oneA("192.0.2.2")})
	n := startNode(t, at127(s), nil, nil)
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.1")
	s.Do(t, "HSET", "redins:zones:a.example.", "www", "{{{")
	waittest.Until(t, "it is named", func() bool { return len(n.Problems()) == 1 })
	if got := n.ask(t, "other.a.example.", "A"); got != "NOERROR other.a.example. 300 IN A 192.0.2.2" {
		t.Errorf("rest of a zone with a bad value: got %s", got)
	}
	// A change that cannot be read at all leaves the zone as it was.
	s.Do(t, "SET", "elsewhere", "of another type")
	s.Do(t, "RENAME", "elsewhere", "redins:zones:a.example.") // atomically: without its names the zone would be empty
	waittest.Until(t, "it is counted", func() bool { return n.Stats().Failures > 0 })
	if got := n.ask(t, "other.a.example.", "A"); got != "NOERROR other.a.example. 300 IN A 192.0.2.2" {
		t.Errorf("zone whose new state cannot be read: got %s", got)
	}
	s.Do(t, "DEL", "redins:zones:a.example.")
	s.Do(t, "HSET", "redins:zones:a.example.", "www", oneA("192.0.2.3"))
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.3")
	s.Do(t, "SADD", "redins:zones", "no..name")
	s.Do(t, "SADD", "redins:zones", "b.example.")
	n.answers(t, "b.example.", "NS", "NOERROR")
}

func TestWithoutEventsTheIntervalFindsChanges(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	putRedins(t, s, "a.example.", "", map[string]string{"www": oneA("192.0.2.1")})
	cfg := at127(s)
	cfg.SetNotify, cfg.Reload = false, setting.Duration(time.Second)
	n := startNode(t, cfg, nil, nil)
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.1")
	s.Do(t, "HSET", "redins:zones:a.example.", "www", oneA("192.0.2.2"))
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.2")
	if n.Stats().Events != 0 {
		t.Error("Redis reported events, although notifications are off")
	}
	waittest.Until(t, "it is counted", func() bool { return n.Stats().Loads == 2 })
	loads := n.Stats().Loads
	at := n.Stats().Reconciled
	waittest.Until(t, "two more rounds", func() bool { return n.Stats().Reconciled.Sub(at) > 1500*time.Millisecond })
	if n.Stats().Loads != loads {
		t.Error("an unchanged zone was replaced")
	}
}

func TestAnswersGoOnWithoutRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	put := func(ip string) {
		putRedins(t, s, "a.example.", "", map[string]string{"www": oneA(ip)})
	}
	put("192.0.2.1")
	cfg := at127(s)
	cfg.Reload = setting.Duration(time.Second)
	n := startNode(t, cfg, nil, nil)
	const first = "NOERROR www.a.example. 300 IN A 192.0.2.1"
	n.answers(t, "www.a.example.", "A", first)
	s.Stop()
	waittest.Until(t, "the loss is counted", func() bool { st := n.Stats(); return !st.Connected && st.Interruptions > 0 && st.Failures > 0 })
	if got := n.ask(t, "www.a.example.", "A"); got != first {
		t.Errorf("while Redis is away: got %s", got)
	}
	// Redis comes back without any data, but the zone is still listed.
	s.Restart(t)
	reconnected(t, s)
	failures := n.Stats().Failures
	waittest.Until(t, "it is back and empty", func() bool { st := n.Stats(); return st.Connected && st.Failures > failures })
	if got := n.ask(t, "www.a.example.", "A"); got != first {
		t.Errorf("while Redis is empty: got %s", got)
	}
	put("192.0.2.2")
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.2")
	// Events work again, too.
	waittest.Until(t, "events are asked for", func() bool {
		before := n.Stats().Events
		s.Do(t, "SET", "redins:zones:a.example.:config", "{}")
		time.Sleep(5 * time.Millisecond)
		return n.Stats().Events > before
	})
	s.Pause(t)
	if got := n.ask(t, "www.a.example.", "A"); got != "NOERROR www.a.example. 300 IN A 192.0.2.2" {
		t.Errorf("while Redis hangs: got %s", got)
	}
	s.Resume(t)
	s.Do(t, "HSET", "redins:zones:a.example.", "www", oneA("192.0.2.3"))
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.3")
}

// reconnected waits until the test's own client has seen the restart.
func reconnected(t *testing.T, s *redistest.Server) {
	t.Helper()
	waittest.Until(t, "the client is back", func() bool {
		return s.Do(t, "PING").Err() == nil
	})
}

func TestRedisMayComeLater(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Stop()
	n := startNode(t, at127(s), nil, nil)
	waittest.Until(t, "it is counted", func() bool { return n.Stats().Failures > 0 })
	s.Restart(t)
	reconnected(t, s)
	putRedins(t, s, "a.example.", "", map[string]string{"www": oneA("192.0.2.1")})
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.1")
}

func TestAUserOfAnACLNeedsWhatTheManualSays(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	putRedins(t, s, "a.example.", "", map[string]string{"www": oneA("192.0.2.1")})
	s.Do(t, "ACL", "SETUSER", "dns", "on", ">secret", "~*", "&__keyspace@*__:redins:zones*", "+@read", "+@connection", "+psubscribe", "+config|get", "+config|set")
	cfg := at127(s)
	cfg.Redis.Username, cfg.Redis.Password = "dns", "secret"
	n := startNode(t, cfg, nil, nil)
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.1")
	waittest.Until(t, "it is told of changes", func() bool { return n.Stats().Connected })
	s.Do(t, "HSET", "redins:zones:a.example.", "www", oneA("192.0.2.2"))
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.2")

	s.Do(t, "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "resetchannels", "+@read", "+@connection")
	cfg.Redis.Username, cfg.Reload = "deaf", setting.Duration(time.Second)
	n = startNode(t, cfg, nil, nil)
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.2")
	s.Do(t, "HSET", "redins:zones:a.example.", "www", oneA("192.0.2.3"))
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.3")
	if st := n.Stats(); st.Connected || st.Interruptions != 0 {
		t.Errorf("metrics without Redis since the start: %+v", st)
	}
}

func TestZonesInACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	for _, schema := range []Schema{Redins, Z42} {
		store, err := Open(t.Context(), redis.Config{Addresses: []string{nodes[0].Addr}, Cluster: true}, schema, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Client.Close)
		for i := range 10 {
			origin := fmt.Sprintf("%s%d.example.", schema, i)
			if _, _, err := store.Write(t.Context(), parseZone(t, "@ 300 SOA a. b. 1 2 3 4 5\nwww 300 A 192.0.2.1\nwww 300 TXT a\nb 300 A 192.0.2.3", origin)); err != nil {
				t.Fatal(err)
			}
		}
		n := startNode(t, Config{Redis: redis.Config{Addresses: []string{nodes[1].Addr}, Cluster: true}, Schema: schema, SetNotify: true}, nil, nil)
		waittest.Until(t, "zones are read", func() bool { return n.Stats().Zones == 10 && n.Stats().Connected })
		for i := range 10 {
			origin := fmt.Sprintf("%s%d.example.", schema, i)
			if _, _, err := store.Write(t.Context(), parseZone(t, "@ 300 SOA a. b. 2 2 3 4 5\nwww 300 A 192.0.2.2", origin)); err != nil {
				t.Fatal(err)
			}
			n.answers(t, "www."+origin, "A", "NOERROR www."+origin+" 300 IN A 192.0.2.2")
			n.answers(t, "b."+origin, "A", "NXDOMAIN")
		}
		n.stop()
	}
}

func TestGeographyByTheSubnetOfTheQuery(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	putRedins(t, s, "a.example.", "", map[string]string{
		"www": `{"a":{"ttl":300,"records":[{"ip":"192.0.2.1","country":"DE"},{"ip":"192.0.2.2","country":["MN"]},{"ip":"192.0.2.3"}],"filter":{"geo_filter":"country","count":"single"}}}`,
	})
	cfg := at127(s)
	cfg.Geography.Country = setting.Source(filepath.Join(t.TempDir(), "c.mmdb"))
	networks := []geotest.Network{{Prefix: "198.51.100.0/24", Country: "DE"}, {Prefix: "203.0.113.0/24", Country: "MN"}}
	if err := os.WriteFile(string(cfg.Geography.Country), geotest.File(networks), 0o600); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, cfg, nil, nil)
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.3")
	for subnet, want := range map[string]string{"198.51.100.0/24": "192.0.2.1", "203.0.113.128/25": "192.0.2.2", "100.64.0.0/10": "192.0.2.3"} {
		m := zonetest.Question("www.a.example.", miekg.TypeA)
		p := netip.MustParsePrefix(subnet)
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = append(m.IsEdns0().Option, &miekg.EDNS0_SUBNET{Code: miekg.EDNS0SUBNET, Family: 1, SourceNetmask: uint8(p.Bits()), Address: p.Addr().AsSlice()})
		r := zonetest.Ask(t, n.zones, m, 4096)
		if len(r.Answer) != 1 || r.Answer[0].(*miekg.A).A.String() != want {
			t.Errorf("subnet %s: got %v, want %s", subnet, r.Answer, want)
		}
		echo, _ := func() (*miekg.EDNS0_SUBNET, bool) {
			for _, o := range r.IsEdns0().Option {
				if e, ok := o.(*miekg.EDNS0_SUBNET); ok {
					return e, true
				}
			}
			return &miekg.EDNS0_SUBNET{}, false
		}()
		if want != "192.0.2.3" && echo.SourceScope != 24 {
			t.Errorf("subnet %s: got scope %d, want 24", subnet, echo.SourceScope)
		}
	}
}

// TestNodesShareHealth has two nodes with one Redis: both answer by the results
// of either.
func TestNodesShareHealth(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var hits atomic.Int32
	var bad atomic.Bool
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		if bad.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	web.Listener.Close()
	web.Listener = l
	web.Start()
	t.Cleanup(web.Close)
	putRedins(t, s, "a.example.", "", map[string]string{"www": fmt.Sprintf(
		`{"a":{"ttl":300,"records":[{"ip":"127.0.0.1"},{"ip":"127.0.0.2"}],"health_check":{"enable":true,"protocol":"http","uri":"/hc","port":%d,"up_count":1,"down_count":-1,"timeout":500}}}`, l.Addr().(*net.TCPAddr).Port)})
	cfg := at127(s)
	cfg.Health = health.Config{Interval: setting.Duration(time.Second)}
	var nodes []*node
	for range 2 {
		nodes = append(nodes, startNode(t, cfg, nil, nil))
	}
	for _, n := range nodes {
		n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 127.0.0.1")
	}
	bad.Store(true)
	for _, n := range nodes { // both are down: both are answered
		n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 127.0.0.1 | www.a.example. 300 IN A 127.0.0.2")
	}
	bad.Store(false)
	for _, n := range nodes {
		n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 127.0.0.1")
	}
	if nodes[0].Stats().Health.Shared+nodes[1].Stats().Health.Shared == 0 {
		t.Error("neither node used a health result of the other")
	}
	s.Do(t, "HSET", "redins:zones:a.example.", "www", oneA("127.0.0.1"))
	waittest.Until(t, "checks end with the record", func() bool { return nodes[0].Stats().Health.Watched == 0 })
}

func TestZonesAreSignedWithTheirKeys(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	putRedins(t, s, "a.example.", `{"dnssec":true}`, map[string]string{"www": oneA("192.0.2.1")})
	var signed atomic.Int32
	sign := func(z *zone.Zone, keys Keys) (*zone.Zone, error) {
		if keys != (Keys{"zp", "zs", "kp", "ks"}) && keys != (Keys{"zp", "other", "kp", "ks"}) {
			return nil, fmt.Errorf("keys %v", keys)
		}
		n := signed.Add(1)
		rr, err := miekg.NewRR(fmt.Sprintf("signed.a.example. 300 TXT %d", n))
		z.Records = append(z.Records, rr)
		return z, err
	}
	n := startNode(t, at127(s), nil, sign)
	n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.1")
	if p := n.Problems(); len(p) != 1 || !strings.Contains(p[0].Error(), "no keys") || !strings.Contains(p[0].Error(), "unsigned") {
		t.Errorf("zone with dnssec and no keys: problems %v", p)
	}
	for part, text := range map[string]string{"zsk:pub": "zp", "zsk:priv": "zs", "ksk:pub": "kp", "ksk:priv": "ks"} {
		s.Do(t, "SET", "redins:zones:a.example.:"+part, text)
	}
	waittest.Until(t, "it is signed", func() bool {
		return n.ask(t, "signed.a.example.", "TXT") == `NOERROR signed.a.example. 300 IN TXT "1"`
	})
	s.Do(t, "HSET", "redins:zones:a.example.", "other", oneA("192.0.2.2"))
	n.answers(t, "other.a.example.", "A", "NOERROR other.a.example. 300 IN A 192.0.2.2")
	if got := signed.Load(); got != 1 {
		t.Errorf("a change of one name had the zone signed %d times more, want none", got-1)
	}
	s.Do(t, "SET", "redins:zones:a.example.:zsk:priv", "other")
	waittest.Until(t, "it is signed with other keys", func() bool { return signed.Load() == 2 })
	if p := n.Problems(); len(p) != 0 {
		t.Errorf("zone with dnssec and keys: problems %v, want none", p)
	}
	s.Do(t, "DEL", "redins:zones:a.example.:zsk:priv")
	waittest.Until(t, "it is named", func() bool { return len(n.Problems()) == 1 })
	if got := n.ask(t, "signed.a.example.", "TXT"); !strings.HasPrefix(got, "NOERROR signed") {
		t.Errorf("the signed zone was not served: got %s", got)
	}
}

func TestSettingsThatCannotBeUsedAreNamed(t *testing.T) {
	ok := redis.Config{Addresses: []string{"127.0.0.1:6379"}}
	for key, cfg := range map[string]Config{
		"addresses":         {},
		"schema":            {Redis: ok, Schema: "hash"},
		"reload":            {Redis: ok, Reload: setting.Duration(time.Millisecond)},
		"geography.country": {Redis: ok, Geography: geo.Config{Country: "nowhere.mmdb"}},
		"health.interval":   {Redis: ok, Health: health.Config{Interval: 1}},
	} {
		_, err := New(cfg, "", zone.NewResponder(), nil, nil, nil, slog.New(slog.DiscardHandler))
		var setting *setting.Error
		if !errors.As(err, &setting) || setting.Key != key {
			t.Errorf("got error %v, want one about %s", err, key)
		}
	}
}

func TestAllFerretCasesFromRedis(t *testing.T) {
	t.Parallel()
	cases := zonetest.Ferret(t)
	if race.On { // this part of the data covers everything that can race
		maps.DeleteFunc(cases, func(id string, _ *zonetest.Case) bool { return !strings.HasSuffix(id, "7") })
	}
	for _, schema := range []Schema{Redins, Z42} {
		s := redistest.Start(t)
		store := open(t, s, schema)
		var wg sync.WaitGroup
		work := make(chan *zone.Zone)
		for range 4 {
			wg.Go(func() {
				for z := range work {
					if _, _, err := store.Write(t.Context(), z); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for id, c := range cases {
			z, err := zone.Read(strings.NewReader(c.Zone), "", id)
			if err != nil {
				t.Fatal(err)
			}
			work <- z
		}
		close(work)
		wg.Wait()
		cfg := at127(s)
		cfg.Schema, cfg.SetNotify, cfg.Reload = schema, false, setting.Duration(time.Hour)
		n := startNode(t, cfg, nil, nil)
		waittest.Until(t, "all zones are read", func() bool { return n.Stats().Zones == len(cases) })
		wrong := zonetest.Judge(t, cases, func(m *miekg.Msg) *miekg.Msg { return zonetest.Ask(t, n.zones, m, 65535) })
		for _, w := range wrong[:min(len(wrong), 5)] {
			t.Error(w)
		}
		if len(wrong) > 0 || len(n.Problems()) > 0 {
			t.Errorf("%s: %d of %d cases were answered wrongly; problems %v", schema, len(wrong), len(cases), n.Problems())
		}
		n.stop()
	}
}
