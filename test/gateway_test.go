package test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shuultuur/test/peer"
)

// through returns a client whose requests go through the proxy at addr.
func through(addr string) *http.Client {
	return &http.Client{
		Timeout:       time.Minute,
		Transport:     &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: addr}), MaxIdleConnsPerHost: 8},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func get(c *http.Client, url string) (status int, body string, err error) {
	res, err := c.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

func TestChangedSettingsAreTakenIntoUseWithoutDroppingAConnection(t *testing.T) {
	h := newHouse(t, map[string]string{"news.example/": "<p>The ferry sails at nine.", "late.example/": "<p>Later."})
	var load sync.WaitGroup
	stop := make(chan struct{})
	var mu sync.Mutex
	var failures []error
	for range 4 {
		load.Go(func() {
			c := through(h.g.ProxyAddr())
			for {
				select {
				case <-stop:
					return
				default:
				}
				status, body, err := get(c, "http://news.example/")
				if err != nil || status != 200 || !strings.Contains(body, "ferry") {
					mu.Lock()
					failures = append(failures, fmt.Errorf("status %d, body %q: %w", status, body, err))
					mu.Unlock()
					return
				}
			}
		})
	}
	// One connection is kept alive over all changes.
	c, err := net.Dial("tcp", h.g.ProxyAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	ask := func() int {
		fmt.Fprint(c, "GET http://late.example/ HTTP/1.1\r\nHost: late.example\r\n\r\n")
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode
	}
	for i := range 20 {
		want := 200
		entries := "bet.example\n"
		if i%2 == 0 {
			entries += "late.example\n"
			want = 403
		}
		h.write("own.txt", entries)
		if err := h.g.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := ask(); got != want {
			t.Fatalf("after change %d: status %d, want %d", i, got, want)
		}
	}
	close(stop)
	load.Wait()
	if len(failures) > 0 {
		t.Errorf("%d requests failed while settings changed; the first: %v", len(failures), failures[0])
	}
}

func TestAFileThatChangesIsTakenIntoUseByItself(t *testing.T) {
	h := newHouse(t, map[string]string{"late.example/": "<p>Later."})
	c := through(h.g.ProxyAddr())
	if status, _, err := get(c, "http://late.example/"); status != 200 {
		t.Fatalf("before the change: status %d, %v; want 200", status, err)
	}
	h.write("own.txt", "bet.example\nlate.example\n")
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if status, _, _ := get(c, "http://late.example/"); status == 403 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the changed list is not in use after a minute")
		}
	}
}

func TestBadSettingsLeaveTheRunningOnes(t *testing.T) {
	h := newHouse(t, map[string]string{"news.example/": "<p>The ferry."})
	good, err := os.ReadFile(h.file)
	if err != nil {
		t.Fatal(err)
	}
	c := through(h.g.ProxyAddr())
	for name, bad := range map[string]string{
		"half of the file": string(good[:len(good)/2]),
		"unknown key":      strings.Replace(string(good), "checks:", "cheks:", 1),
		"empty":            "",
		"list gone":        strings.Replace(string(good), "own.txt", "gone.txt", 1),
	} {
		h.write("shuultuur.yaml", bad)
		if err := h.g.Reload(t.Context()); err == nil {
			t.Errorf("Reload took the faulty settings %q into use", name)
		}
		if status, _, err := get(c, "http://www.bet.example/"); status != 403 {
			t.Errorf("after refusing %s, a listed site gets status %d, %v; the running settings block it", name, status, err)
		}
		if status, _, err := get(c, "http://news.example/"); status != 200 {
			t.Errorf("after refusing %s, an ordinary page gets status %d, %v", name, status, err)
		}
		res, err := http.Get("http://" + h.g.AdminAddr() + "/health")
		if err != nil {
			t.Fatal(err)
		}
		var health struct{ Problems []string }
		err = json.NewDecoder(res.Body).Decode(&health)
		res.Body.Close()
		if err != nil || len(health.Problems) == 0 || !strings.Contains(health.Problems[0], "the running ones stay") {
			t.Errorf("after refusing %s, /health says %v, %v", name, health.Problems, err)
		}
	}
	h.write("shuultuur.yaml", string(good))
	if err := h.g.Reload(t.Context()); err != nil {
		t.Errorf("reloading good settings after bad ones: %v", err)
	}
}

func TestMetricsCountWhatWasDecided(t *testing.T) {
	h := newHouse(t, map[string]string{"news.example/": "<p>The ferry."})
	c := through(h.g.ProxyAddr())
	for _, u := range []string{"http://news.example/", "http://www.bet.example/", "http://www.bet.example/2"} {
		if _, _, err := get(c, u); err != nil {
			t.Fatal(err)
		}
	}
	h.recorded("bet.example/2")
	_, body, err := get(http.DefaultClient, "http://"+h.g.AdminAddr()+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`shuultuur_transactions_total{action="block",category="gambling",policy="readers",proto="http",rule="betting"} 2`,
		`shuultuur_transactions_total{action="pass",category="",policy="readers",proto="http",rule=""} 1`,
		`shuultuur_events_written_total{store="sqlite"} 3`,
		`shuultuur_events_dropped_total{store="sqlite"} 0`,
		"shuultuur_requests_total 3",
		"go_goroutines",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

func TestTheProxyDoesNotLeadToTheAdminAddress(t *testing.T) {
	direct := newDirectHouse(t)
	c := through(direct.proxy)
	for _, u := range []string{"http://" + direct.admin + "/metrics", "http://" + direct.proxy + "/", "http://localhost:" + direct.admin[strings.LastIndexByte(direct.admin, ':')+1:] + "/metrics"} {
		status, body, err := get(c, u)
		if err != nil || status != 403 || strings.Contains(body, "go_goroutines") {
			t.Errorf("%s through the proxy: status %d, %v", u, status, err)
		}
	}
}

// process is the program started as a user would start it.
type process struct {
	cmd          *exec.Cmd
	proxy, admin string
	out          *bytes.Buffer
}

var serving = regexp.MustCompile(`msg=serving proxy=(\S+) admin=(\S+)`)

// start runs "shuultuur run" on a settings file and waits until it serves.
func start(t *testing.T, file string, env ...string) *process {
	t.Helper()
	p := &process{cmd: peer.Command(t, filepath.Join(bin, "shuultuur"), "run", "-config", file), out: &bytes.Buffer{}}
	p.cmd.Env = append(os.Environ(), env...)
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		p.out.WriteString(lines.Text() + "\n")
		if m := serving.FindStringSubmatch(lines.Text()); m != nil {
			p.proxy, p.admin = m[1], m[2]
			go func() { _, _ = io.Copy(io.Discard, pipe) }()
			return p
		}
	}
	t.Fatalf("the gateway does not serve:\n%s", p.out)
	return nil
}

// newDirectHouse starts a gateway process that connects to origins directly.
func newDirectHouse(t *testing.T) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shuultuur.yaml")
	settings := `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
proxy: {private: [127.0.0.0/8, "::1/128"], connect-ports: [any]}
policies: [{name: all}]
events: {sqlite: events.db, every: 50ms}
`
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	return start(t, file)
}

func TestRecordsWrittenBeforeAKillAreIntact(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "shuultuur.yaml")
	settings := `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
lists: {own: {format: domains, path: own.txt, category: own}}
checks: {category: {lists: [own]}}
policies: [{name: all, rules: [{name: own, action: block, category: [own]}]}]
events: {sqlite: events.db, jsonl: events.jsonl, every: 20ms}
`
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("shuultuur.yaml", settings)
	write("own.txt", "own.example\n")
	written := 0
	for round := range 3 {
		p := start(t, file)
		c := through(p.proxy)
		stop := make(chan struct{})
		var load sync.WaitGroup
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				// It ends with an error when the gateway is killed.
				if _, _, err := get(c, fmt.Sprintf("http://own.example/%d/%d", round, i)); err != nil {
					return
				}
			}
		})
		// Kill it when some batches are written and others are not.
		for before := written; written < before+50; time.Sleep(10 * time.Millisecond) {
			written = countWritten(t, p.admin) + before
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.cmd.Wait()
		close(stop)
		load.Wait()
		// A kill may leave a list half written under its temporary name, and, if renaming were
		// not atomic, half a list in place.
		list := filepath.Join(dir, "data", "lists", "own.list")
		whole, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(list, whole[:len(whole)*2/3], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, file)
	if status, _, err := get(through(p.proxy), "http://www.own.example/"); status != 403 {
		t.Errorf("with half a compiled list in place: status %d, %v; want 403, as the list must be compiled again", status, err)
	}
	out, err := exec.Command(filepath.Join(bin, "shuultuur"), "events", "-config", file, "-n", "0", "-json").Output()
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range bytes.Lines(out) {
		if !json.Valid(line) {
			t.Fatalf("the log of events has a broken line: %s", line)
		}
		rows++
	}
	if rows < written {
		t.Errorf("%d events are on record after three kills; at least %d had been written", rows, written)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM the program ended with %v, want status 0", err)
	}
}

var writtenLine = regexp.MustCompile(`shuultuur_events_written_total\{store="sqlite"\} (\d+)`)

func countWritten(t *testing.T, admin string) int {
	t.Helper()
	_, body, err := get(http.DefaultClient, "http://"+admin+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	m := writtenLine.FindStringSubmatch(body)
	if m == nil {
		t.Fatal("/metrics has no count of written events")
	}
	n := 0
	if _, err := fmt.Sscan(m[1], &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTerminatingFinishesWhatIsInFlight(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	origin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-release
		_, _ = io.WriteString(w, "finished")
	})}
	go func() { _ = s.Serve(origin) }()
	t.Cleanup(func() { s.Close() })

	p := newDirectHouse(t)
	got := make(chan error, 1)
	go func() {
		status, body, err := get(through(p.proxy), "http://"+origin.Addr().String()+"/slow")
		if err == nil && (status != 200 || body != "finished") {
			err = fmt.Errorf("the request in flight got status %d, body %q", status, body)
		}
		got <- err
	}()
	<-begun
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// The gateway refuses new connections first.
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", p.proxy)
		if errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		if err == nil {
			c.Close()
		}
		if time.Now().After(end) {
			t.Fatal("the gateway still accepts connections ten seconds after SIGTERM")
		}
	}
	close(release)
	if err := <-got; err != nil {
		t.Errorf("the request in flight during the shutdown failed: %v", err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the gateway ended with: %v", err)
	}
}

// TestReadmeShowsSettingsThatWork compares the README's settings with those of the gateway's
// tests.
func TestReadmeShowsSettingsThatWork(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```yaml\n")
	example, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("the README has no settings")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"shuultuur.yaml": example, "own.txt": "own.example\n", "w.list": "<blimey><60>\n", "b.list": "<banned>\n", "e.list": "<excepted>\n",
		"lists/blacklists/bank/domains": "bank.example\n", "lists/blacklists/adult/domains": "adult.example\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := exec.Command(filepath.Join(bin, "shuultuur"), "check", "-config", "shuultuur.yaml")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
