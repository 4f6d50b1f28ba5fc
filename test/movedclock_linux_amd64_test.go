package test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shuultuur/admin/clients"
	"shuultuur/admin/remote"
	"shuultuur/lib/wait/waittest"
	"shuultuur/policy"
	"shuultuur/test/peer"
)

// clockStub is what a program under a moved clock has in place of clock_gettime of the vDSO: it asks
// the kernel and adds the seconds behind it to the wall clock. All other clocks stay as they are.
var clockStub = []byte{
	0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime)
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi (CLOCK_REALTIME is 0)
	0x75, 0x0a, // jnz to the end
	0x48, 0x8b, 0x0d, 0x07, 0, 0, 0, // mov rcx, [the seconds]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3,    // ret
	0, 0, 0, // and the seconds, 8 bytes
}

const clockSeconds = 25 // where they begin

// A movedClock is the wall clock of a program that runs, which a test moves. The program is the one
// that people get: nothing is built into it.
type movedClock struct {
	t   *testing.T
	mem *os.File
	at  int64
}

// startMoved starts a program whose wall clock differs from ours.
func startMoved(t *testing.T, cmd *exec.Cmd, by time.Duration) *movedClock {
	t.Helper()
	runtime.LockOSThread() // who traces is a thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Skipf("a program cannot be traced here: %v", err)
	}
	pid := cmd.Process.Pid
	fail := func(err error) {
		t.Helper()
		if err != nil {
			_ = cmd.Process.Kill()
			t.Fatalf("moving the clock of process %d: %v", pid, err)
		}
	}
	var ws syscall.WaitStatus
	_, err := syscall.Wait4(pid, &ws, 0, nil)
	fail(err)
	auxv, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	fail(err)
	var base int64
	const sysinfoEHDR = 33
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		if binary.LittleEndian.Uint64(auxv) == sysinfoEHDR {
			base = int64(binary.LittleEndian.Uint64(auxv[8:]))
		}
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	fail(err)
	t.Cleanup(func() { mem.Close() })
	image := make([]byte, 2*os.Getpagesize())
	_, err = mem.ReadAt(image, base)
	fail(err)
	vdso, err := elf.NewFile(bytes.NewReader(image))
	fail(err)
	symbols, err := vdso.DynamicSymbols()
	fail(err)
	c := &movedClock{t: t, mem: mem}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Size >= clockSeconds+8 {
			c.at = base + int64(s.Value)
		}
	}
	if c.at == 0 {
		fail(fmt.Errorf("the vDSO has no clock_gettime with room for %d bytes", clockSeconds+8))
	}
	_, err = mem.WriteAt(clockStub, c.at)
	fail(err)
	c.move(by)
	fail(syscall.PtraceDetach(pid))
	return c
}

// move sets how far the clock of the program differs from ours.
func (c *movedClock) move(by time.Duration) {
	c.t.Helper()
	if _, err := c.mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(int64(by/time.Second))), c.at+clockSeconds); err != nil {
		c.t.Fatal(err)
	}
}

const movedSettings = `
listen: {proxy: "%s", admin: "%s"}
data: data
lists:
  own: {format: domains, path: own.txt, category: gambling}
  games: {format: domains, path: games.txt, category: games}
checks:
  category: {lists: [own, games]}
intercept: {root: root.pem}
identity: {groups: {class: [127.0.0.0/8]}}
alerts:
  themes: {bets: {category: [gambling]}}
  to: [{groups: [class], webhook: {url: "%s/told", format: json}}]
policies:
  - name: everyone
    decrypt: true
    quotas: [{category: [games], time: 1h}]
    rules: [{name: betting, action: block, category: [gambling]}]
state: {file: state.db}
events: {sqlite: events.db, every: 50ms, keep: 90d}
proxy: {parent: "%[3]s"}
`

// TestAWrongClockDestroysNothing: the program runs under a clock that is wrong, by an hour, by a year
// or in 1970, and is started under it. It serves; and when the clock is right again the record, a
// pause, the use of a quota, a session and an alert that waits are all there.
func TestAWrongClockDestroysNothing(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, by := range map[string]time.Duration{
		"an hour ahead":  time.Hour,
		"an hour behind": -time.Hour,
		"a year ahead":   year,
		"a year behind":  -year,
		"1970":           time.Until(time.Unix(600, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newMovedHouse(t)
			h.start(0)
			for range 5 {
				h.ask("http://bet.example/", 403)
			}
			h.ask("http://game.example/", 200)
			if all, err := (remote.Client{URL: "http://" + h.pages}).Pause(t.Context(), "", "2h"); err != nil || len(all) != 1 {
				t.Fatalf("pausing: %v, %v", all, err)
			}
			h.signIn()
			waittest.Until(t, "the alert is refused", func() bool { return h.refused.Load() > 0 })
			waittest.Until(t, "the record", func() bool { return h.rows() >= 6 })
			rows, day, used := h.rows(), time.Now().YearDay(), h.used()
			if used == 0 {
				t.Fatal("a game costs nothing")
			}

			h.clock.move(by) // while it runs
			h.ask("http://game.example/", 200)
			h.clock.move(0)
			h.kept("after a step", rows, day, used)

			h.stop()
			h.start(by) // at the start
			h.ask("http://news.example/", 200)
			if n := h.rows(); n < rows {
				t.Errorf("started by a clock that is wrong: %d of %d rows are there", n, rows)
			}
			h.stop()
			h.taken.Store(true)
			h.start(0)
			h.kept("after a start", rows, day, used)
			waittest.Until(t, "the alert arrives", func() bool { return h.told.Load() > 0 })
		})
	}
}

// A movedHouse is a gateway under a clock that moves, with its origin, which also takes alerts.
type movedHouse struct {
	t            *testing.T
	dir          string
	proxy, pages string
	cookie       string // of the session
	origin       *httptest.Server
	cmd          *exec.Cmd
	clock        *movedClock
	taken        atomic.Bool // whether alerts are taken
	refused      atomic.Int32
	told         atomic.Int32
}

func newMovedHouse(t *testing.T) *movedHouse {
	t.Helper()
	h := &movedHouse{t: t, dir: t.TempDir(), proxy: "127.0.0.1:" + peer.Port(t), pages: "127.0.0.1:" + peer.Port(t)}
	h.origin = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/told":
			fmt.Fprint(w, "<p>A page.")
		case h.taken.Load():
			h.told.Add(1)
		default:
			h.refused.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(h.origin.Close)
	for name, text := range map[string]string{
		"shuultuur.yaml": fmt.Sprintf(movedSettings, h.proxy, h.pages, h.origin.URL),
		"own.txt":        "bet.example\n", "games.txt": "game.example\n",
	} {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := h.command("ca", "init").CombinedOutput(); err != nil {
		t.Fatalf("making a root: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if h.cmd != nil {
			_ = h.cmd.Process.Kill()
			_ = h.cmd.Wait()
		}
	})
	return h
}

func (h *movedHouse) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, "shuultuur"), args...)
	cmd.Dir = h.dir
	return cmd
}

// start starts the program, and waits until it is ready.
func (h *movedHouse) start(by time.Duration) {
	h.t.Helper()
	h.cmd = h.command("run", "shuultuur.yaml")
	h.cmd.Stdout, h.cmd.Stderr = h.t.Output(), h.t.Output()
	h.clock = startMoved(h.t, h.cmd, by)
	waittest.Until(h.t, "the program is ready", func() bool {
		res, err := http.Get("http://" + h.pages + "/ready")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == 200
	})
}

func (h *movedHouse) stop() {
	h.t.Helper()
	_ = h.cmd.Process.Signal(syscall.SIGTERM)
	if err := h.cmd.Wait(); err != nil {
		h.t.Errorf("the program ended with %v", err)
	}
	h.cmd = nil
}

func (h *movedHouse) ask(address string, want int) {
	h.t.Helper()
	c := through(h.proxy)
	defer c.CloseIdleConnections()
	if status, _, err := get(c, address); err != nil || status != want {
		h.t.Errorf("%s: status %d, %v, want %d", address, status, err, want)
	}
}

// signIn makes an owner and a session of theirs.
func (h *movedHouse) signIn() {
	h.t.Helper()
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, path := range []string{"/accounts", "/login"} {
		res, err := c.PostForm("http://"+h.pages+path, ownerAnd()[0])
		if err != nil {
			h.t.Fatal(err)
		}
		res.Body.Close()
		for _, k := range res.Cookies() {
			h.cookie = k.Name + "=" + k.Value
			return
		}
	}
	h.t.Fatal("the owner cannot sign in")
}

// rows returns how many rows the record has.
func (h *movedHouse) rows() int {
	out, err := h.command("events", "-config", "shuultuur.yaml", "-n", "0", "-json").Output()
	if err != nil {
		h.t.Fatalf("reading the record: %v", err)
	}
	return bytes.Count(out, []byte("\n"))
}

// read reads what the session may see.
func (h *movedHouse) read(path string, into any) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), "GET", "http://"+h.pages+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Cookie", h.cookie)
	r.Header.Set("Accept", "application/json")
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil || res.StatusCode != 200 {
		h.t.Errorf("%s in the session: %s, %v", path, res.Status, err)
	}
}

// used returns how many minutes of the quota are used.
func (h *movedHouse) used() int64 {
	h.t.Helper()
	var got clients.Quotas
	h.read("/quotas?policy=everyone&client=127.0.0.1", &got)
	if len(got.Quotas) != 1 {
		h.t.Fatalf("quotas: %+v, want one", got)
	}
	return got.Quotas[0].Used
}

// kept checks that what was there before is there. The session is, or nothing could be read.
func (h *movedHouse) kept(when string, rows, day int, used int64) {
	h.t.Helper()
	if n := h.rows(); n < rows {
		h.t.Errorf("%s %d of %d rows are there", when, n, rows)
	}
	if n := h.used(); n < used && time.Now().YearDay() == day {
		h.t.Errorf("%s %d minutes are used, want at least %d", when, n, used)
	}
	var pauses []policy.Pause
	if h.read("/pause", &pauses); len(pauses) != 1 {
		h.t.Errorf("%s the pauses are %v, want one", when, pauses)
	}
	h.ask("http://bet.example/", 200)
}
