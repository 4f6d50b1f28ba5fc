package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/test/peer"
)

// TestAResponsePolicyZoneIsAList: one gateway serves a zone. Another fetches it, is notified of
// changes, and filters by it.
func TestAResponsePolicyZoneIsAList(t *testing.T) {
	run := func(files map[string]string) (*Gateway, string) {
		t.Helper()
		file := folder(t, files)
		ctx, stop := context.WithCancel(context.Background())
		g, err := New(ctx, file, slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			stop()
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- g.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		return g, filepath.Dir(file)
	}
	const head = "listen: {proxy: \"127.0.0.1:0\", admin: \"127.0.0.1:0\"}\ndata: ./data\n"
	rpz := func(serial int, name string) string {
		return fmt.Sprintf("$TTL 60\n@ SOA ns.localhost. root.localhost. %d 3600 600 86400 60\n@ NS localhost.\n%s CNAME .\n*.%s CNAME .\n", serial, name, name)
	}
	here, there := peer.Port(t), peer.Port(t)
	_, dir := run(map[string]string{"rpz.zone": rpz(1, "bad.com"), "shuultuur.yaml": head + fmt.Sprintf(`
policies: [{name: all}]
dns:
  listen: ["127.0.0.1:%s"]
  zones:
    files: [{path: rpz.zone, origin: rpz.example}]
    reread: 20ms
    allow: [{networks: [127.0.0.1/32]}]
    notify: [{zones: [rpz.example], address: "127.0.0.1:%s"}]
`, there, here)})
	g, _ := run(map[string]string{"shuultuur.yaml": head + fmt.Sprintf(`
lists: {threats: {zone: RPZ.example., category: malware}}
checks: {category: {lists: [threats]}}
policies: [{name: all, rules: [{name: threats, action: block, category: [malware]}]}]
dns:
  listen: ["127.0.0.1:%s"]
  block: {answer: nxdomain}
  hosts: {other.test: 192.0.2.1}
  forward: {upstreams: ["127.0.0.1:1"]}
  zones:
    secondary: [{zone: rpz.example, primaries: [{address: "127.0.0.1:%s"}]}]
`, here, there)})
	addr := g.engine.Load().Names.Addrs(dns.UDP)[0].String()
	blocked := func(name string) bool {
		m := new(miekg.Msg).SetQuestion(name, miekg.TypeA)
		m.SetEdns0(1232, false)
		r, err := miekg.Exchange(m, addr)
		if err != nil || r.IsEdns0() == nil {
			return false
		}
		for _, o := range r.IsEdns0().Option {
			if e, ok := o.(*miekg.EDNS0_EDE); ok && e.InfoCode == 15 {
				return r.Rcode == miekg.RcodeNameError
			}
		}
		return false
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s did not happen within a minute", what)
			}
		}
	}
	until("the zone blocks", func() bool { return blocked("bad.com.") && blocked("www.bad.com.") })
	if err := os.WriteFile(filepath.Join(dir, "rpz.zone"), []byte(rpz(2, "worse.com")), 0o644); err != nil {
		t.Fatal(err)
	}
	until("the changed zone blocks", func() bool { return blocked("worse.com.") && !blocked("bad.com.") })
}

func TestMistakesInListsOfZonesAreNamed(t *testing.T) {
	for list, want := range map[string]string{
		"{zone: rpz.example}":                           "lists.a.zone",
		"{zone: rpz.example, url: https://example.com}": "lists.a.zone",
		"{zone: rpz.example, format: hosts}":            "lists.a.format",
	} {
		file := folder(t, map[string]string{"shuultuur.yaml": "lists: {a: " + list + "}\npolicies: [{name: all}]\n"})
		_, err := New(t.Context(), file, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a mistake at %s", list, err, want)
		}
	}
}
