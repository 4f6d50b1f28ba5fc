package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"shuultuur/test/peer"
)

// limitSmall is the maximum size of the stripped small build in bytes.
const limitSmall = 35 << 20

// buildSmall builds the program for small devices with the flags of the packages.
func buildSmall(t *testing.T, arch, program string) {
	t.Helper()
	peer.NotQuick(t, "another build of the program")
	build := exec.Command("go", "build", "-trimpath", "-tags", "small", "-buildvcs=false", "-ldflags", "-s -w -X main.release=1.2.3", "-o", program, "../cmd/shuultuur")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > limitSmall {
		t.Errorf("the small build for %s has %d bytes, want at most %d", arch, info.Size(), limitSmall)
	}
}

// TestTheSmallBuildIsSmall builds it for the other architectures of its packages.
func TestTheSmallBuildIsSmall(t *testing.T) {
	t.Parallel()
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	if other == "" || testing.Short() {
		t.Skip("there is no package for this architecture, or the run is short")
	}
	buildSmall(t, other, filepath.Join(t.TempDir(), "shuultuur"))
}

// TestTheSmallBuildFilters starts the program for small devices, which answers
// names, filters a page and explains both, and refuses settings of parts that
// it lacks.
func TestTheSmallBuildFilters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "shuultuur")
	buildSmall(t, runtime.GOARCH, program)

	w := newSmallWorld(t, dir)
	settings := w.write("shuultuur.yaml", "")
	run := func(want int, args ...string) string {
		t.Helper()
		out, err := exec.Command(program, args...).CombinedOutput()
		status := 0
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			status = e.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if status != want {
			t.Fatalf("shuultuur %s: status %d, want %d\n%s", strings.Join(args, " "), status, want, out)
		}
		return string(out)
	}
	run(0, "check", settings)
	if out := run(1, "why", "-config", settings, "http://casino.example/"); !strings.Contains(out, "gambling") {
		t.Errorf("why does not name the category gambling: %s", out)
	}
	for more, lacks := range map[string]string{
		"events: {sqlite: events.db}":                           "SQLite",
		"events: {squid: access.log}":                           "Squid",
		"events: {postgres: postgres://a@b/c}":                  "PostgreSQL",
		"events: {clickhouse: http://a.b/c}":                    "ClickHouse",
		"events: {kafka: {to: [a.b:9092], topic: x}}":           "Kafka",
		"events: {parquet: {to: x}}":                            "Parquet",
		"events: {otlp: {to: http://a.b}}":                      "OpenTelemetry",
		"votes: {}":                                             "votes",
		"identity: {basic: {ldap: {servers: ldap://a.b}}}":      "LDAP",
		"identity: {accounting: {clients: {10.1.0.2: secret}}}": "RADIUS accounting",
		"state: {redis: {addresses: [127.0.0.1:6379]}}":         "Redis",
		"cache: {peers: {listen: 127.0.0.1:1, secret: 0123456789abcdef0123456789, nodes: [127.0.0.1:1, a.b:1]}}": "peers",
		"mail: {server: smtp://a.b:25, from: f@a.b}":                                                             "mail",
		"alerts: {themes: {x: {search: [x]}}}":                                                                   "alerts",
		"reports: [{every: day, mail: [a@b.c]}]":                                                                 "reports",
		"listen: {icap: 127.0.0.1:1344}":                                                                         "ICAP server",
		"listen: {squid: squid.sock}":                                                                            "helpers for Squid",
		"checks: {picture: {skin: true}}":                                                                        "pictures",
		"checks: {signature: {rules: [bets.txt]}}":                                                               "signature",
		"checks: {virus: {clamd: /run/clamd.sock}}":                                                              "virus scanners",
		"checks: {icap: {servers: icap://a.b/x}}":                                                                "ICAP servers",
	} {
		file := w.write("other.yaml", more)
		if key, _, _ := strings.Cut(more, ":"); key == "checks" || key == "listen" { // which is there already
			more += "\npolicies: [{name: everyone}]"
			if err := os.WriteFile(file, []byte(more), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if out := run(1, "check", file); !strings.Contains(out, "small build, which lacks") || !strings.Contains(out, lacks) {
			t.Errorf("check of settings with %q does not say what the small build lacks: %s", more, out)
		}
	}
	if out := run(2, "import", "pihole", dir); !strings.Contains(out, "use the full build") {
		t.Errorf("a command that the small build lacks does not say so: %s", out)
	}

	w.filters(exec.Command(program, "run", settings))
}

// A smallWorld is what a small build needs to show that it filters.
type smallWorld struct {
	*testing.T
	dir          string
	origin       string // URL of an ordinary page
	proxy, names string // ports
}

func newSmallWorld(t *testing.T, dir string) *smallWorld {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a page about museums") }))
	t.Cleanup(origin.Close)
	if err := os.WriteFile(filepath.Join(dir, "bets.txt"), []byte("casino.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &smallWorld{t, dir, origin.URL, peer.Port(t), peer.Port(t)}
}

// write writes settings, and more of them, into a file, and returns its path.
func (w *smallWorld) write(name, more string) string {
	w.Helper()
	text := fmt.Sprintf(`listen: {proxy: "127.0.0.1:%s", admin: "off"}
lists:
  bets: {format: domains, path: bets.txt, category: gambling}
checks: {category: {lists: [bets]}}
proxy: {private: [127.0.0.0/8]}
policies:
  - name: everyone
    rules: [{name: gambling, action: block, category: [gambling]}]
dns:
  listen: ["127.0.0.1:%s"]
%s`, w.proxy, w.names, more)
	file := filepath.Join(w.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	return file
}

// filters starts a gateway, asks it for pages and for a name, and ends it.
func (w *smallWorld) filters(gateway *exec.Cmd) {
	w.Helper()
	log, err := os.Create(filepath.Join(w.dir, "log"))
	if err != nil {
		w.Fatal(err)
	}
	gateway.Stdout, gateway.Stderr = log, log
	if err := gateway.Start(); err != nil {
		w.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = gateway.Wait(); close(ended) }()
	w.Cleanup(func() {
		_ = gateway.Process.Signal(os.Interrupt)
		<-ended
		log.Close()
		if w.Failed() {
			text, _ := os.ReadFile(log.Name())
			w.Logf("log of the program:\n%s", text)
		}
	})
	through := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:" + w.proxy})}}
	get := func(url string) (int, string) {
		for range 3000 {
			r, err := through.Get(url)
			if err == nil {
				defer r.Body.Close()
				body, _ := io.ReadAll(r.Body)
				return r.StatusCode, string(body)
			}
			select {
			case <-ended:
				w.Fatal("the program has ended")
			case <-time.After(20 * time.Millisecond): // it starts
			}
		}
		w.Fatal("the proxy does not answer")
		return 0, ""
	}
	if status, body := get("http://casino.example/"); status != http.StatusForbidden || !strings.Contains(body, "gambling") {
		w.Errorf("a blocked page: status %d, want 403 and gambling: %s", status, body)
	}
	if status, body := get(w.origin); status != http.StatusOK || !strings.Contains(body, "museums") {
		w.Errorf("an ordinary page: status %d, want 200: %s", status, body)
	}
	ask := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", "127.0.0.1:"+w.names)
	}}
	all, err := ask.LookupNetIP(w.Context(), "ip4", "casino.example.")
	if e, ok := errors.AsType[*net.DNSError](err); !(ok && e.IsNotFound) && !(err == nil && all[0] == netip.IPv4Unspecified()) {
		w.Errorf("a blocked name: answer %v, %v; want none, or 0.0.0.0", all, err)
	}
}
