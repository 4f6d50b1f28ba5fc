package test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/test/peer"
)

// freePort returns a port that was free for UDP and TCP.
func freePort(t *testing.T) string {
	t.Helper()
	for range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		u, err := net.ListenPacket("udp", "127.0.0.1:"+port)
		l.Close()
		if err == nil {
			u.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// upstreamFor starts a name server on port that answers with the records given, by name and
// type, and returns a function that ends it.
func upstreamFor(t *testing.T, port string, records ...string) (end func()) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	return upstreamOn(t, conn, records...)
}

func upstreamOn(t *testing.T, conn net.PacketConn, records ...string) (end func()) {
	t.Helper()
	s := &miekg.Server{PacketConn: conn, Handler: miekg.HandlerFunc(func(w miekg.ResponseWriter, q *miekg.Msg) {
		m := new(miekg.Msg)
		m.SetReply(q)
		for _, text := range records {
			rr, err := miekg.NewRR(text)
			if err != nil {
				t.Error(err)
				return
			}
			if h := rr.Header(); strings.EqualFold(h.Name, q.Question[0].Name) && (h.Rrtype == q.Question[0].Qtype || h.Rrtype == miekg.TypeCNAME) {
				m.Answer = append(m.Answer, rr)
			}
		}
		_ = w.WriteMsg(m)
	})}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.ActivateAndServe() })
	return func() { conn.Close(); wg.Wait() }
}

const namesSettings = `
listen: {proxy: 127.0.0.1:0, admin: "127.0.0.1:ADMIN", sinkhole: 127.0.0.1:PAGE}
lists: {own: {format: domains, path: own.txt, category: gambling}}
checks: {category: {lists: [own]}}
policies:
  - name: readers
    rules: [{name: betting, action: block, category: [gambling]}]
events: {sqlite: events.db, every: 100ms}
dns:
  listen: ["127.0.0.1:DNS"]
  block: {answer: sinkhole, sinkhole: [127.0.0.1]}
  hosts: {desk.lan: 10.0.0.9}
  forward: {upstreams: ["127.0.0.1:UP"], timeout: 300ms, total: 600ms}
  cache: {max-ttl: 1s}
`

// TestNamesAreFiltered tests a name server with and without upstreams, as dig, a browser and
// the operator see it.
func TestNamesAreFiltered(t *testing.T) {
	for _, need := range []string{"dig", "curl"} {
		peer.Program(t, need)
	}
	dir := t.TempDir()
	page, port, up, admin := freePort(t), freePort(t), freePort(t), freePort(t)
	records := []string{"ferry.example. 300 IN A 198.51.100.1", "cloak.example. 300 IN CNAME x.bet.example."}
	endUpstream := upstreamFor(t, up, records...)
	defer func() { endUpstream() }()
	file := filepath.Join(dir, "shuultuur.yaml")
	for name, text := range map[string]string{
		"shuultuur.yaml": strings.NewReplacer("PAGE", page, "DNS", port, "UP", up, "ADMIN", admin).Replace(namesSettings),
		"own.txt":        "bet.example\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(bin, "shuultuur")
	var output bytes.Buffer
	run := peer.Command(t, program, "run", "-config", file)
	run.Stdout, run.Stderr = &output, &output
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = run.Process.Signal(syscall.SIGTERM)
		if err := run.Wait(); err != nil {
			t.Errorf("the gateway ended with %v:\n%s", err, output.String())
		}
	}()
	dig := func(args ...string) string {
		out, _ := exec.Command("dig", append([]string{"@127.0.0.1", "-p", port, "+time=20", "+tries=2"}, args...)...).CombinedOutput()
		return string(out)
	}
	// until repeats a query until the answer has all words, that is, until a change has taken
	// effect.
	until := func(what string, words []string, args ...string) string {
		t.Helper()
		out := ""
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			out = dig(args...)
			missing := ""
			for _, w := range words {
				if !strings.Contains(out, w) {
					missing = w
				}
			}
			if missing == "" {
				return out
			}
		}
		t.Fatalf("%s: dig does not print %q:\n%s\nthe gateway says:\n%s", what, words, out, output.String())
		return ""
	}
	until("a harmless name", []string{"NOERROR", "198.51.100.1"}, "ferry.example")
	until("over TCP", []string{"NOERROR", "198.51.100.1"}, "+tcp", "ferry.example")
	until("a listed name", []string{"NOERROR", "EDE: 15 (Blocked)", "category gambling policy readers id ", "127.0.0.1"}, "www.bet.example")
	until("a name that hides a listed one", []string{"NOERROR", "EDE: 15 (Blocked)", "127.0.0.1"}, "cloak.example")
	until("a name of one's own", []string{"10.0.0.9"}, "desk.lan")
	until("and back", []string{"desk.lan."}, "-x", "10.0.0.9")

	for accept, want := range map[string]string{"text/html": "<title>This page is closed</title>", "*/*": "www.bet.example is not available here"} {
		out, err := exec.Command("curl", "-sS", "-m", "60", "-H", "Accept: "+accept, "--resolve", "www.bet.example:"+page+":127.0.0.1", "http://www.bet.example:"+page+"/").CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "gambling") {
			t.Errorf("a client that was sent to the sinkhole and accepts %s: %v:\n%s", accept, err, out)
		}
	}

	events := func(args ...string) string {
		out, err := exec.Command(program, append([]string{"events", "-config", file}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		out := events("host:cloak.example")
		if strings.Contains(out, "NOERROR") && strings.Contains(out, "readers/betting (gambling)") && strings.Contains(out, "x.bet.example") && strings.Contains(out, "A cloak.example") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no event says why cloak.example was refused:\n%s", out)
		}
	}
	out, _ := exec.Command(program, "why", "-config", file, "-dns", "www.bet.example").CombinedOutput()
	for _, want := range []string{"BLOCK  www.bet.example A", `"bet.example" in `, "www.bet.example. 10 IN A 127.0.0.1", "error   15 (Blocked)"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("why -dns does not print %q:\n%s", want, out)
		}
	}

	// Upstreams fail and return. This test keeps answers for a second.
	endUpstream()
	until("upstreams gone", []string{"NOERROR", "198.51.100.1", "EDE: 3 (Stale Answer)"}, "ferry.example")
	until("upstreams gone, a new name", []string{"SERVFAIL", "EDE: 2"}, "new.example")
	metrics, err := exec.Command("curl", "-sS", "-m", "60", "http://127.0.0.1:"+admin+"/metrics").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, metrics)
	}
	for _, counted := range []string{"coredns_cache_served_stale_total", "shuultuur_dns_upstream_failed_total"} {
		found := false
		for line := range strings.Lines(string(metrics)) {
			if strings.HasPrefix(line, counted) && !strings.HasSuffix(line, " 0\n") {
				found = true
			}
		}
		if !found {
			t.Errorf("the metric %s does not grow", counted)
		}
	}
	endUpstream = upstreamFor(t, up, append(records, "new.example. 300 IN A 198.51.100.2")...)
	until("upstreams back", []string{"NOERROR", "198.51.100.2"}, "new.example")
	if out := until("upstreams back, an old name", []string{"NOERROR", "198.51.100.1"}, "ferry.example"); strings.Contains(out, "SERVFAIL") {
		t.Errorf("with the upstreams back, an old name is answered with %s, want no SERVFAIL", out)
	}
	for end := time.Now().Add(time.Minute); strings.Contains(dig("ferry.example"), "Stale"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("answers are stale although the upstreams are back:\n%s", dig("ferry.example"))
		}
	}
}
