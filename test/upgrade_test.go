package test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shuultuur/test/peer"
)

const upgradeSettings = `listen: {proxy: "127.0.0.1:PORT", admin: "127.0.0.1:ADMIN", portal: "127.0.0.1:PORTAL", icap: "127.0.0.1:ICAP", squid: squid.sock}
intercept: {root: root.pem, trust: [origin.pem]}
policies:
  - {name: decrypted, networks: [127.0.0.2/32], decrypt: true}
  - {name: all, rules: [{name: own, action: block, host: [bet.example]}]}
proxy: {private: [127.0.0.0/8], trusted: [127.0.0.1/32], connect-ports: any, drain: 5s, idle: 20s}
cache: {disk: 64MiB}
votes: {store: votes.db, limit: off, listen: "127.0.0.1:BALLOT"}
events: {sqlite: events.db, jsonl: events.jsonl}
dns:
  listen: ["127.0.0.1:DNS"]
  tls: ["127.0.0.1:DOT"]
  https: ["127.0.0.1:DOH"]
  quic: ["127.0.0.1:DOQ"]
  cert: cert.pem
  key: key.pem
  hosts: {desk.lan: 10.0.0.9}
  forward: {upstreams: ["127.0.0.1:9"]}
`

// A shipped is a copy of the program in its own folder, which runs as a user starts it.
type shipped struct {
	t                                          *testing.T
	dir, program, settings, dns, dot, doh, doq string
	out                                        bytes.Buffer
	proxy, admin, portal, icap, ballot         string
	origin                                     *upgradeOrigin
}

// ship puts the program and settings into a folder.
func ship(t *testing.T) *shipped {
	dir := t.TempDir()
	s := &shipped{t: t, dir: dir, program: filepath.Join(dir, "shuultuur"), settings: filepath.Join(dir, "shuultuur.yaml")}
	for _, a := range []*string{&s.proxy, &s.dns, &s.dot, &s.doh, &s.doq, &s.admin, &s.portal, &s.icap, &s.ballot} {
		*a = "127.0.0.1:" + peer.Port(t)
	}
	text := strings.NewReplacer("127.0.0.1:PORTAL", s.portal, "127.0.0.1:PORT", s.proxy, "127.0.0.1:ADMIN", s.admin, "127.0.0.1:ICAP", s.icap, "127.0.0.1:BALLOT", s.ballot, "127.0.0.1:DNS", s.dns, "127.0.0.1:DOT", s.dot, "127.0.0.1:DOH", s.doh, "127.0.0.1:DOQ", s.doq).Replace(upgradeSettings)
	s.origin = newUpgradeOrigin(s)
	s.write("shuultuur.yaml", text)
	s.replace()
	return s
}

func (s *shipped) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shipped) read(name string) string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// replace replaces the program by a new copy, as package managers do.
func (s *shipped) replace() {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(bin, "shuultuur"))
	if err == nil {
		err = os.WriteFile(s.program+".new", b, 0o755)
	}
	if err == nil {
		err = os.Rename(s.program+".new", s.program)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// holder returns the process that uses the data folder.
func (s *shipped) holder() int { return s.holderIn(filepath.Join("data", "lock")) }

// wait waits until done, for a minute at most.
func (s *shipped) wait(what string, done func() bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited a minute for %s", what)
		}
	}
}

// start runs cmd, which serves as the gateway until the test ends.
func (s *shipped) start(cmd *exec.Cmd) {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	var ended atomic.Bool
	go func() {
		_ = cmd.Wait() // the exit status does not matter
		ended.Store(true)
	}()
	s.t.Cleanup(func() {
		if pid := s.holder(); pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGTERM)
			s.wait("the end of the last process", func() bool { return syscall.Kill(pid, 0) != nil })
		}
		// A process that has handed over may still wait for clients.
		_ = cmd.Process.Signal(os.Interrupt)
		s.wait("the end of the first process", ended.Load)
		if s.t.Failed() {
			b, _ := os.ReadFile(log.Name())
			s.t.Logf("log of the program:\n%s", b)
		}
	})
	s.wait("the start", func() bool {
		c, err := net.Dial("tcp", s.proxy)
		if err == nil {
			c.Close()
		}
		return err == nil && s.holder() > 0 || ended.Load()
	})
	if ended.Load() {
		s.t.Fatal("the program ended before it served")
	}
}

// upgrade runs the command "shuultuur upgrade".
func (s *shipped) upgrade() (output string, err error) {
	ctx, stop := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, s.program, "upgrade", s.settings)
	b, err := cmd.CombinedOutput()
	return string(b), err
}

// A flood is the traffic of clients during an upgrade.
type flood struct {
	requests, queries, messages, votes atomic.Int64
	mu                                 sync.Mutex
	failures                           []string
	lost                               int
	kept                               []*atomic.Int64 // answers of each client of askOnce
}

func (l *flood) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost++
	if len(l.failures) < 20 {
		l.failures = append(l.failures, fmt.Sprintf(format, args...))
	}
}

// browse sends requests until stop, over kept connections or over a new one for each. The
// client never sends a POST again, whatever happens to its connection.
func (l *flood) browse(ctx context.Context, proxy, origin string, keep bool) {
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}), DisableKeepAlives: !keep,
		IdleConnTimeout: 5 * time.Second} // this also closes connections that were opened in reserve, for which a process that has handed over would wait
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr, Timeout: time.Minute}
	for ctx.Err() == nil {
		res, err := c.Post(origin, "text/plain", strings.NewReader("a word"))
		if err != nil {
			l.fail("keep %v: %v", keep, err)
			continue
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 || string(b) != ferry {
			l.fail("keep %v: status %d, %q, %v", keep, res.StatusCode, b, err)
		}
		l.requests.Add(1)
	}
}

// desk is a query for the A record of desk.lan.
const desk = "\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04desk\x03lan\x00\x00\x01\x00\x01"

// ask sends queries until stop, each once.
func (l *flood) ask(ctx context.Context, network, server string) {
	c, err := net.Dial(network, server)
	if err != nil {
		l.fail("%v", err)
		return
	}
	defer func() { c.Close() }()
	query := desk
	if network == "tcp" {
		query = "\x00" + string(rune(len(desk))) + desk
	}
	b := make([]byte, 1500)
	for ctx.Err() == nil {
		if network == "tcp" {
			c.Close()
			if c, err = net.Dial(network, server); err != nil {
				l.fail("%v", err)
				return
			}
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		_, err := c.Write([]byte(query))
		n := 0
		if err == nil {
			n, err = c.Read(b)
		}
		if err != nil || !bytes.Contains(b[:n], []byte{10, 0, 0, 9}) {
			l.fail("%s query: %q, %v", network, b[:n], err)
		}
		l.queries.Add(1)
	}
}

func TestAnUpgradeLosesNothing(t *testing.T) {
	peer.NotQuick(t, "half a minute of traffic")
	s := ship(t)
	s.start(exec.Command(s.program, "run", s.settings))
	first := s.holder()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load flood
	phase := int64(100) // requests before, between and after the upgrades
	if n, err := strconv.ParseInt(os.Getenv("UPGRADE_REQUESTS"), 10, 64); err == nil {
		phase = n / 5 // docs/measurements.md
	}
	all := load.begin(ctx, s)
	all.Go(func() { load.vote(ctx, s.proxy) })
	more := func() { // however slow the machine is
		for n := phase; n > 0; n -= 100 {
			want := load.requests.Load() + min(n, 100)
			s.wait("traffic", func() bool { return load.requests.Load() >= want })
		}
		s.wait("an answer to each client", load.reconnected())
	}
	pids := map[int]bool{first: true}
	for i := range 4 {
		more()
		// One connection is silent during the upgrade and works afterwards.
		quiet, err := net.Dial("tcp", s.proxy)
		if err != nil {
			t.Fatal(err)
		}
		defer quiet.Close()
		s.replace()
		if i == 3 { // a reload upgrades, too, when the program has changed
			pid := s.holder()
			if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			s.wait("the next process", func() bool { now := s.holder(); return now > 0 && now != pid })
		} else if out, err := s.upgrade(); err != nil || !strings.Contains(out, "finishes its connections") {
			t.Fatalf("shuultuur upgrade: %s %v", out, err)
		}
		if pid := s.holder(); pids[pid] {
			t.Errorf("after the upgrade process %d has the data folder, which is an old one", pid)
		} else {
			pids[pid] = true
		}
		fmt.Fprintf(quiet, "GET http://bet.example/ HTTP/1.1\r\nHost: bet.example\r\n\r\n")
		b, err := io.ReadAll(quiet) // it reads to the end, because the old process closes the connection
		if err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 403")) {
			t.Errorf("a connection from before the upgrade: %.80q, %v; want 403", b, err)
		}
	}
	more()
	stop()
	all.Wait()
	if len(load.failures) > 0 {
		t.Errorf("some of %d requests and %d queries failed:\n%s", load.requests.Load(), load.queries.Load(), strings.Join(load.failures, "\n"))
	}
	t.Logf("%d requests, %d votes, %d WebSocket messages and %d queries during four upgrades; %d were lost", load.requests.Load(), load.votes.Load(), load.messages.Load(), load.queries.Load(), load.lost)
	s.wait("each acknowledged vote is counted", func() bool { return s.counted() == load.votes.Load() })
	now := s.holder()
	for pid := range pids {
		if pid != now {
			s.wait("the end of a process that has handed over", func() bool { return syscall.Kill(pid, 0) != nil })
		}
	}
	out, err := exec.Command(s.program, "events", "-config", s.settings, "host:bet.example").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "bet.example") {
		t.Errorf("the events of the old process after it handed over are not on record: %s %v", out, err)
	}
}

func TestAProgramThatCannotStartDoesNotTakeOver(t *testing.T) {
	s := ship(t)
	s.start(exec.Command(s.program, "run", s.settings))
	first := s.holder()
	settings, err := os.ReadFile(s.settings)
	if err != nil {
		t.Fatal(err)
	}
	s.write("shuultuur.yaml", string(settings)+"pages: {nothing: 1}\n")
	other := filepath.Join(s.dir, "other.yaml") // the command reads settings too
	if err := os.WriteFile(other, settings, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(s.program, "upgrade", other).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "nothing") || !strings.Contains(string(out), fmt.Sprintf("process %d goes on", first)) {
		t.Errorf("shuultuur upgrade with mistakes in the settings: %s %v; want an error, and that the old process goes on", out, err)
	}
	s.write("shuultuur.yaml", string(settings))
	if err := os.WriteFile(s.program+".new", []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(bin, "shuultuur")
	if err := os.Rename(s.program+".new", s.program); err != nil {
		t.Fatal(err)
	}
	out, err = exec.Command(mine, "upgrade", s.settings).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "ended without a reply") {
		t.Errorf("shuultuur upgrade to another program: %s %v; want \"ended without a reply\"", out, err)
	}
	if status, _, err := get(through(s.proxy), "http://bet.example/"); status != 403 || err != nil || s.holder() != first {
		t.Errorf("after the failed upgrades: status %d, %v, process %d; want 403 and process %d", status, err, s.holder(), first)
	}
	s.replace()
	if out, err := s.upgrade(); err != nil {
		t.Errorf("shuultuur upgrade after two failures: %s %v", out, err)
	}
}

// TestAProgramThatEndsHalfwayLeavesTheOldOneServing: the new process ends when it already has
// the data folder.
func TestAProgramThatEndsHalfwayLeavesTheOldOneServing(t *testing.T) {
	bash := peer.Program(t, "bash")
	s := ship(t)
	s.start(exec.Command(s.program, "run", s.settings))
	first := s.holder()
	halfway := "#!" + bash + `
IFS=';' read -ra all <<<"$SHUULTUUR_SOCKETS"
in=$((3 + ${#all[@]})) out=$((4 + ${#all[@]}))
echo able >&$out
read -r line <&$in
exit 7
`
	if err := os.WriteFile(s.program+".new", []byte(halfway), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.program+".new", s.program); err != nil {
		t.Fatal(err)
	}
	applied := 0
	for range 2 { // and when it is tried again
		out, err := exec.Command(filepath.Join(bin, "shuultuur"), "upgrade", s.settings).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "ended without a reply") || !strings.Contains(string(out), fmt.Sprintf("process %d goes on", first)) {
			t.Errorf("shuultuur upgrade to a program that ends halfway: %s %v", out, err)
		}
		if status, _, err := get(through(s.proxy), "http://bet.example/"); status != 403 || err != nil || s.holder() != first {
			t.Errorf("after an upgrade that ended halfway: status %d, %v, process %d; want 403 and process %d", status, err, s.holder(), first)
		}
		// A reload does not start again what was handed over.
		s.write("shuultuur.yaml", s.read("shuultuur.yaml")+"# changed\n")
		s.wait("the settings to be applied", func() bool { return strings.Count(s.read("log"), "settings applied") > applied })
		applied = strings.Count(s.read("log"), "settings applied")
		if status, _, err := get(through(s.proxy), "http://bet.example/"); status != 403 || err != nil || s.holder() != first {
			t.Errorf("after a reload: status %d, %v, process %d; want 403 and process %d", status, err, s.holder(), first)
		}
	}
	s.replace()
	if out, err := s.upgrade(); err != nil || s.holder() == first {
		t.Errorf("shuultuur upgrade after two that ended halfway: %s %v, process %d", out, err, s.holder())
	}
	if status, _, err := get(through(s.proxy), "http://bet.example/"); status != 403 || err != nil {
		t.Errorf("the new process: status %d, %v; want 403", status, err)
	}
}

func TestAServiceManagerMayOpenTheSockets(t *testing.T) {
	s := ship(t)
	ln, err := net.Listen("tcp", s.proxy)
	if err != nil {
		t.Fatal(err)
	}
	names, err := net.ListenPacket("udp4", s.dns)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	udp, err := names.(*net.UDPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	names.Close()
	// Queries that arrive before the program runs are answered when it does.
	early, err := net.Dial("tcp", s.proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	fmt.Fprintf(early, "GET http://bet.example/ HTTP/1.0\r\n\r\n")
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=2 exec "$0" run "$1"`, s.program, s.settings)
	cmd.ExtraFiles = []*os.File{tcp, udp}
	s.start(cmd)
	tcp.Close()
	udp.Close()
	if b, err := io.ReadAll(early); err != nil || !bytes.Contains(b, []byte(" 403 ")) {
		t.Errorf("a request from before the start: %.80q, %v; want 403", b, err)
	}
	var load flood
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer stop()
		for load.queries.Load() < 10 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	load.ask(ctx, "udp", s.dns)
	if len(load.failures) > 0 {
		t.Errorf("queries failed while the service manager held the sockets: %v", load.failures)
	}
	if out, err := s.upgrade(); err != nil {
		t.Errorf("shuultuur upgrade after the start by socket: %s %v", out, err)
	}
	if status, _, err := get(through(s.proxy), "http://bet.example/"); status != 403 || err != nil {
		t.Errorf("after that upgrade: status %d, %v; want 403", status, err)
	}
}
