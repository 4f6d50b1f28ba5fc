package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/engine"
	"shuultuur/lib/dns"
	"shuultuur/test/redistest"
	"shuultuur/zone/sign"
)

const zoneText = `$TTL 300
@   SOA ns1 hostmaster %d 3600 600 86400 300
    NS  ns1
ns1 A   192.0.2.53
www A   192.0.2.%d
`

// TestZonesOfOurOwn serves zones from files and Redis, signs them, transfers them to permitted
// clients, and changes them while the gateway runs.
func TestZonesOfOurOwn(t *testing.T) {
	redis := redistest.Start(t, "--notify-keyspace-events", "AK")
	redis.Do(t, "SADD", "redins:zones", "redis.example.")
	redis.Do(t, "HSET", "redins:zones:redis.example.", "@", `{"ns":{"ttl":300,"records":[{"host":"ns1.redis.example."}]}}`, "www", `{"a":{"ttl":300,"records":[{"ip":"192.0.2.7"}]}}`)
	file := folder(t, map[string]string{
		"own.example.zone": fmt.Sprintf(zoneText, 1, 1),
		"policy.txt":       "own.example\n",
	})
	dir := filepath.Dir(file)
	key, err := sign.Generate("own.example.", "ed25519", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := key.Write(dir); err != nil {
		t.Fatal(err)
	}
	const secret = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	settings := fmt.Sprintf(`
listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0"}
data: ./data
lists: {own: {format: domains, path: policy.txt}}
checks: {category: {lists: [own]}}
policies: [{name: all, rules: [{name: own, action: block, category: [own]}]}]
dns:
  listen: ["127.0.0.1:0"]
  forward: {upstreams: ["127.0.0.1:1"]}
  redis: {addresses: [%q]}
  zones:
    files: [{path: own.example.zone}]
    reread: 20ms
    tsig: [{name: partner, algorithm: hmac-sha256, secret: %s}]
    sign: [{zones: [own.example], keys: [.]}]
    allow: [{key: partner}]
`, redis.Addr, secret)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("shuultuur.yaml", settings)
	ctx, stop := context.WithCancel(context.Background())
	g, err := New(ctx, filepath.Join(dir, "shuultuur.yaml"), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		stop()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	addr := g.engine.Load().Names.Addrs(dns.UDP)[0].String()
	ask := func(name string, do bool) *miekg.Msg {
		t.Helper()
		m := new(miekg.Msg)
		m.SetQuestion(name, miekg.TypeA)
		m.SetEdns0(1232, do)
		r, err := miekg.Exchange(m, addr)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	until := func(what, name, want string) {
		t.Helper()
		var got string
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if got = lineOf(ask(name, false)); got == want {
				return
			}
		}
		t.Errorf("%s: %s is %s, want %s", what, name, got, want)
	}

	for name, want := range map[string]string{
		"www.own.example.":   "NOERROR A 192.0.2.1", // zones of our own are not filtered
		"www.redis.example.": "NOERROR A 192.0.2.7",
		"no.redis.example.":  "NXDOMAIN",
	} {
		r := ask(name, false)
		if got := lineOf(r); got != want || !r.Authoritative {
			t.Errorf("%s: %s, authoritative %v, want %s", name, got, r.Authoritative, want)
		}
	}
	signed := ask("www.own.example.", true)
	if len(signed.Answer) != 2 || signed.Answer[1].Header().Rrtype != miekg.TypeRRSIG {
		t.Errorf("the answer is not signed: %v", signed.Answer)
	} else if err := signed.Answer[1].(*miekg.RRSIG).Verify(key.DNSKEY, signed.Answer[:1]); err != nil {
		t.Error(err)
	}

	transfer := func(secret string) (n int, err error) {
		m := new(miekg.Msg)
		m.SetAxfr("own.example.")
		tr := new(miekg.Transfer)
		if secret != "" {
			tr.TsigSecret = map[string]string{"partner.": secret}
			m.SetTsig("partner.", miekg.HmacSHA256, 300, time.Now().Unix())
		}
		c, err := tr.In(m, addr)
		if err != nil {
			return 0, err
		}
		for e := range c {
			if e.Error != nil {
				err = e.Error
			}
			n += len(e.RR)
		}
		return n, err
	}
	if n, err := transfer(secret); err != nil || n < 10 {
		t.Errorf("a transfer with the key has %d records, %v; want at least 10", n, err)
	}
	if n, err := transfer(""); err == nil {
		t.Errorf("a transfer without the key succeeds with %d records", n)
	}

	write("own.example.zone", fmt.Sprintf(zoneText, 2, 2))
	until("after the file changed", "www.own.example.", "NOERROR A 192.0.2.2")
	redis.Do(t, "HSET", "redins:zones:redis.example.", "www", `{"a":{"ttl":300,"records":[{"ip":"192.0.2.8"}]}}`)
	until("after Redis was written", "www.redis.example.", "NOERROR A 192.0.2.8")
	text, err := g.engine.Load().Zones.Text(ctx, "redis.example", "")
	if want := "@ {\"ns\":{\"ttl\":300,\"records\":[{\"host\":\"ns1.redis.example.\"}]}}\nwww {\"a\":{\"ttl\":300,\"records\":[{\"ip\":\"192.0.2.8\"}]}}\n"; string(text) != want || err != nil {
		t.Errorf("the zone as text: %v, %s", err, text)
	}
	if editZone != nil {
		if err := editZone(ctx, g, "redis.example", bytes.ReplaceAll(text, []byte("2.8"), []byte("2.9"))); err != nil {
			t.Error(err)
		}
		until("after it was edited", "www.redis.example.", "NOERROR A 192.0.2.9")
	}

	// A reload of the same settings keeps the zones; other settings replace them. If a zone's
	// file is bad, the zone answers SERVFAIL, and /health reports it.
	before := g.engine.Load().Zones
	if err := g.Reload(ctx); err != nil || g.engine.Load().Zones != before {
		t.Errorf("reload: %v, zones kept: %v", err, g.engine.Load().Zones == before)
	}
	write("shuultuur.yaml", strings.Replace(settings, "path: own.example.zone", "path: other.example.zone", 1))
	write("other.example.zone", "@ SOA ns1 hostmaster 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\nwww A not-an-address\n")
	if err := g.Reload(ctx); err != nil {
		t.Errorf("reloading with a bad zone file: %v", err)
	}
	until("after a reload with a bad zone file", "www.other.example.", "SERVFAIL EDE 24")
	until("after a reload with a bad zone file", "www.redis.example.", "NOERROR A 192.0.2.9")
	if problems := strings.Join(g.health().Problems, "\n"); !strings.Contains(problems, "other.example.zone:4: ") {
		t.Errorf("/health does not name the bad zone file: %s", problems)
	}
	write("other.example.zone", fmt.Sprintf(zoneText, 1, 9))
	if err := g.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	until("after a reload", "www.other.example.", "NOERROR A 192.0.2.9")
	until("after a reload", "www.redis.example.", "NOERROR A 192.0.2.9")
	if got := lineOf(ask("www.own.example.", false)); !strings.HasPrefix(got, "NOERROR A 0.0.0.0") {
		t.Errorf("a name of a removed zone: %s, want it filtered like any name", got)
	}

	res, err := http.Get("http://" + g.AdminAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err = io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"shuultuur_dns_zones 2", "shuultuur_dns_redis_connected 1", "shuultuur_dns_redis_interruptions_total 0", "shuultuur_dns_redis_load_slowest_seconds 0.",
		`shuultuur_dns_health_checks_total{result="late"} 0`, "shuultuur_dns_health_redis_errors_total 0",
		`shuultuur_dns_transfers_total{direction="out",result="whole"}`, `shuultuur_dns_signatures_total{result="fresh"}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Count(string(text), "\n# HELP shuultuur_dns_tsig_refused_total") != 1 || strings.Contains(string(text), "shuultuur_dns_notify_total") {
		t.Error("/metrics has the counters of transfers twice")
	}
}

func TestMistakesInZonesAreNamed(t *testing.T) {
	for _, c := range []struct{ settings, want string }{
		{"dns:\n  listen: ['127.0.0.1:0']\n  zones:\n    files: [{path: none.zone}]\n", "dns.zones.files[0].path"},
		{"dns:\n  listen: ['127.0.0.1:0']\n  zones:\n    allow: [{key: nobody}]\n", "dns.zones.allow[0].key"},
		{"dns:\n  listen: ['127.0.0.1:0']\n  redis: {schema: other}\n", "dns.redis"},
		{"dns:\n  listen: ['127.0.0.1:0']\n  zones:\n    files: [{path: bad.example.zone}]\n", "bad.example.zone:2"},
	} {
		file := folder(t, map[string]string{"shuultuur.yaml": "policies: [{name: all}]\n" + c.settings, "bad.example.zone": "@ SOA ns1 h 1 2 3 4 5\nwww A x\n"})
		if _, _, err := engine.Explain(t.Context(), file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.settings, err, c.want)
		}
	}
}
