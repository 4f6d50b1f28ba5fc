package test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

// startHAProxy starts HAProxy with a configuration that listens at the addresses.
func startHAProxy(t *testing.T, conf string, listens ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	peer.Start(t, "haproxy", "-db", "-f", file)
	for _, at := range listens {
		waittest.Until(t, "HAProxy at "+at, func() bool {
			c, err := net.Dial("tcp", at)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
}

const balancedSettings = `
listen: {proxy: 127.0.0.1:0, admin: off}
proxy: {trusted: [127.0.0.1/32], private: [127.0.0.0/8], connect-ports: any}
policies:
  - {name: pupils, networks: [127.0.0.2/32, "2001:db8::/32"], rules: [{name: none, action: block, host: ["127.0.0.1"]}]}
  - {name: teachers, networks: [127.0.0.3/32]}
  - {name: nobody, rules: [{name: unknown, action: block}]}
`

// TestHAProxyNamesTheClients: with each form of its PROXY protocol, the client of HAProxy and not
// HAProxy is judged, for requests and tunnels.
func TestHAProxyNamesTheClients(t *testing.T) {
	peer.Program(t, "haproxy")
	g := runGateway(t, t.TempDir(), balancedSettings)
	origin := httptest.NewServer(newHoldingOrigin(t).Config.Handler)
	defer origin.Close()
	conf, forms := "defaults\n mode tcp\n timeout connect 5s\n timeout client 1m\n timeout server 1m\n", map[string]string{}
	var listens []string
	for _, form := range []string{
		"send-proxy",
		"send-proxy-v2",
		"send-proxy-v2 proxy-v2-options unique-id",
		"send-proxy-v2 proxy-v2-options crc32c,unique-id,authority",
	} {
		at := "127.0.0.1:" + peer.Port(t)
		forms[form], listens = at, append(listens, at)
		conf += fmt.Sprintf("listen l%d\n bind %s\n unique-id-format %%{+X}o%%ci-%%cp-%%rt\n server s %s %s\n", len(forms), at, g.ProxyAddr(), form)
	}
	startHAProxy(t, conf, listens...)
	for form, at := range forms {
		for from, want := range map[string]int{"127.0.0.2": 403, "127.0.0.3": 200} {
			for method, target := range map[string]string{"GET": origin.URL + "/good", "CONNECT": strings.TrimPrefix(origin.URL, "http://")} {
				if status := askFrom(t, at, from, method, target); status != want {
					t.Errorf("%s: %s from %s: status %d, want %d", form, method, from, status, want)
				}
			}
		}
	}
}

// TestTwoICAPServersBehindHAProxy: with the lines of docs/icap.md, a Squid that asks two gateways by
// HAProxy loses nothing while they are stopped and started by turns.
func TestTwoICAPServersBehindHAProxy(t *testing.T) {
	peer.Program(t, "haproxy")
	peer.Program(t, "squid")
	servers, addrs := [2]*shipped{}, [2]string{}
	for i := range servers {
		servers[i], addrs[i] = icapProgram(t)
		servers[i].start(exec.Command(servers[i].program, "run", servers[i].settings))
	}
	b, err := os.ReadFile("../docs/icap.md")
	if err != nil {
		t.Fatal(err)
	}
	_, conf, ok := strings.Cut(string(b), "```haproxy\n")
	conf, _, end := strings.Cut(conf, "```")
	if !ok || !end {
		t.Fatal("docs/icap.md has no lines for HAProxy")
	}
	at := "127.0.0.1:" + peer.Port(t)
	control := filepath.Join(t.TempDir(), "control")
	startHAProxy(t, "global\n stats socket "+control+"\n"+strings.NewReplacer("127.0.0.1:1344", at, "10.0.0.1:1344", addrs[0], "10.0.0.2:1344", addrs[1]).Replace(conf), at)
	squid, _ := startSquidAs(t, icapLines(t, at))
	pages := httptest.NewServer(newHoldingOrigin(t).Config.Handler)
	defer pages.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var by bystander
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() { by.look(ctx, squid, pages.URL, fmt.Sprintf("client %d", i)) })
	}
	wait := func(what string) {
		t.Helper()
		was := by.requests.Load()
		servers[0].wait("requests "+what, func() bool { return by.requests.Load() > was+60 })
	}
	wait("of both")
	for _, s := range servers {
		s.end()
		wait("of one")
		s.start(exec.Command(s.program, "run", s.settings))
		wait("of both again")
		waittest.Until(t, "HAProxy knows that both are there", func() bool {
			c, err := net.Dial("unix", control)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = io.WriteString(c, "show stat\n")
			state, _ := io.ReadAll(c)
			return strings.Count(string(state), ",UP,") == 3 // and that of both
		})
	}
	stop()
	all.Wait()
	t.Logf("%d requests", by.requests.Load())
	for _, f := range by.failures {
		t.Error(f)
	}
}
