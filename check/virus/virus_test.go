//go:build !small

package virus

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
	"shuultuur/test/peer"
)

// memory is a Memory without limits.
type memory struct {
	mu sync.Mutex
	m  map[[16]byte][]byte
}

func (m *memory) Get(_ context.Context, k [16]byte) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.m[k]
	return v, ok
}

func (m *memory) Put(_ context.Context, k [16]byte, v []byte, _ time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.m[k] = v
}

// find checks a body as a download or an upload.
func find(t *testing.T, c *Check, s filter.Stage, body string) ([]filter.Finding, error) {
	t.Helper()
	return findInPieces(t, c, s, 1, body)
}

// findInPieces checks a body that arrives in pieces.
func findInPieces(t *testing.T, c *Check, s filter.Stage, pieces int, body string) (got []filter.Finding, err error) {
	t.Helper()
	var b content.Body
	b.Reset(&content.Head{}, content.Limits{})
	defer b.Release()
	x := &filter.Transaction{Body: &b}
	if s == filter.RequestBody {
		x = &filter.Transaction{Upload: &b}
	}
	for n := pieces; n > 0; n-- {
		k := len(body) / n
		b.Append([]byte(body[:k]))
		if body = body[k:]; n == 1 {
			b.Finish()
		}
		if got, err = c.Find(t.Context(), x, s, nil); err != nil || len(got) > 0 {
			return got, err
		}
		b.Forget()
	}
	return got, err
}

// clamd starts a clamd with one signature of our own: the words "forty marmots". files are
// additional signatures of whole files.
func clamd(t *testing.T, files ...string) (socket, port string) {
	t.Helper()
	_, conf, socket := startClamd(t, files...)
	text, _ := os.ReadFile(conf)
	_, port, _ = strings.Cut(string(text), "TCPSocket ")
	port, _, _ = strings.Cut(port, "\n")
	return socket, port
}

func startClamd(t *testing.T, files ...string) (server *exec.Cmd, conf, socket string) {
	t.Helper()
	peer.Program(t, "clamd")
	dir := t.TempDir()
	db := filepath.Join(dir, "db")
	if err := os.Mkdir(db, 0o755); err != nil {
		t.Fatal(err)
	}
	socket, conf = filepath.Join(dir, "c.sock"), filepath.Join(dir, "clamd.conf")
	for file, text := range map[string]string{
		filepath.Join(db, "own.ndb"): "Own.Marmots:0:*:" + hex.EncodeToString([]byte("forty marmots")) + "\n",
		conf:                         fmt.Sprintf("Foreground yes\nDatabaseDirectory %s\nLocalSocket %s\nTCPSocket %s\nTCPAddr 127.0.0.1\nStreamMaxLength 1M\nMaxThreads 4\n", db, socket, peer.Port(t)),
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if len(files) > 0 {
		if err := os.WriteFile(filepath.Join(db, "own.hdb"), []byte(strings.Join(files, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	server = peer.Start(t, "clamd", "--config-file="+conf)
	listens(t, socket)
	return server, conf, socket
}

func listens(t *testing.T, socket string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Skip("clamd does not start on this machine")
		}
	}
}

func TestClamdFindsASignature(t *testing.T) {
	socket, port := clamd(t)
	for _, at := range []string{socket, "127.0.0.1:" + port} {
		m := &memory{m: map[[16]byte][]byte{}}
		c, err := New(Config{Clamd: setting.OneOrMore[string]{"127.0.0.1:1", at}}, m)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, s := range []filter.Stage{filter.RequestBody, filter.ResponseBody} {
			for n := range 3 { // the first on a new connection, the second on a kept one, the third from memory
				got, err := find(t, c, s, fmt.Sprint("there are forty marmots ", n%2, s))
				if err != nil || len(got) != 1 || got[0].Category != "virus" || !strings.Contains(got[0].Evidence, "Own.Marmots") {
					t.Fatalf("%s, %v: an infected body gave %v, %v", at, s, got, err)
				}
			}
			if got, err := find(t, c, s, "there are three marmots"); err != nil || len(got) > 0 {
				t.Errorf("%s, %v: a clean body gave %v, %v", at, s, got, err)
			}
		}
		if n := c.counters[remembered].Load(); n != 3 { // one each, because a verdict on a download also applies to an upload
			t.Errorf("%s: %d verdicts were remembered, want 3", at, n)
		}
		if _, err := find(t, c, filter.ResponseBody, strings.Repeat("long ", 1<<19)); err == nil {
			t.Errorf("%s: a body longer than StreamMaxLength gave no error", at)
		}
		if got, err := find(t, c, filter.ResponseBody, "again forty marmots"); err != nil || len(got) != 1 {
			t.Errorf("%s: an infected body after an error gave %v, %v", at, got, err)
		}
	}
}

// TestABodyIsScannedWhileItComes: its hash is also looked up.
func TestABodyIsScannedWhileItComes(t *testing.T) {
	socket, _ := clamd(t)
	bad := strings.Repeat("quiet ", 30_000) + "forty marmots"
	file := filepath.Join(t.TempDir(), "hashes")
	sum := sha256.Sum256([]byte("evil twin"))
	if err := os.WriteFile(file, []byte(hex.EncodeToString(sum[:])+" evil.exe\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := &memory{m: map[[16]byte][]byte{}}
	c, err := New(Config{Clamd: setting.OneOrMore[string]{"127.0.0.1:1", socket}, Hashes: setting.OneOrMore[setting.File]{setting.File(file)}, Largest: 1 << 19}, m)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tt := range []struct {
		body, want string
		category   filter.Category
		count      int // counter that rises
	}{
		{bad, "Own.Marmots", filter.Category{Name: "virus"}, scanned},
		{bad, "Own.Marmots", filter.Category{Name: "virus"}, remembered},
		{"evil twin", "evil.exe", filter.Category{Name: "virus"}, listed},
		{strings.Repeat("quiet ", 30_000), "", filter.Category{}, scanned},
		{strings.Repeat("quiet ", 100_000), "checks.virus.largest", filter.Category{Name: filter.Unread}, unscanned},
	} {
		before := c.counters[tt.count].Load()
		got, err := findInPieces(t, c, filter.ResponseBody, 4, tt.body)
		if err != nil || len(got) > 1 || len(got) == 0 != (tt.want == "") || len(got) == 1 && (got[0].Category != tt.category.Name || !strings.Contains(got[0].Evidence, tt.want)) {
			t.Errorf("the body %.10q gave %v, %v; want %q", tt.body, got, err, tt.want)
		}
		if n := c.counters[tt.count].Load(); n != before+1 {
			t.Errorf("the body %.10q raised counter %d by %d, want 1", tt.body, tt.count, n-before)
		}
	}
	if got, err := findInPieces(t, c, filter.ResponseBody, 1, strings.Repeat("quiet ", 100_000)); err != nil || len(got) != 1 || got[0].Category != filter.Unread {
		t.Errorf("a complete body above the limit gave %v, %v; want unread", got, err)
	}
}

// TestClamdIsKilledUnderLoad: while clamd is away, bodies give errors, and none waits longer
// than the limit. They are scanned again as soon as it is back.
func TestClamdIsKilledUnderLoad(t *testing.T) {
	server, conf, socket := startClamd(t)
	const limit = 3 * time.Second
	c, err := New(Config{Clamd: setting.OneOrMore[string]{socket}, Timeout: setting.Duration(limit)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var found, failed, longest atomic.Int64
	var stop atomic.Bool
	var load sync.WaitGroup
	for n := range 4 {
		load.Go(func() {
			for ; !stop.Load(); time.Sleep(time.Millisecond) {
				begin := time.Now()
				got, err := findInPieces(t, c, filter.ResponseBody, 1+n%2*2, "there are forty marmots")
				switch {
				case err != nil:
					failed.Add(1)
				case len(got) == 1:
					found.Add(1)
				default:
					t.Errorf("an infected body gave %v", got)
				}
				for took := int64(time.Since(begin)); ; {
					if was := longest.Load(); was >= took || longest.CompareAndSwap(was, took) {
						break
					}
				}
			}
		})
	}
	more := func(what string, n *atomic.Int64) {
		t.Helper()
		for was, end := n.Load(), time.Now().Add(30*time.Second); n.Load() < was+20; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%s: fewer than 20 bodies were scanned in 30 s", what)
				return
			}
		}
	}
	more("at first", &found)
	if n := failed.Load(); n > 0 {
		t.Errorf("%d bodies failed before clamd was killed", n)
	}
	_ = server.Process.Kill()
	_ = server.Wait()
	more("killed", &failed)
	_ = os.Remove(socket)
	peer.Start(t, "clamd", "--config-file="+conf)
	listens(t, socket)
	back := time.Now()
	more("back", &found)
	if took := time.Since(back); took > 2*time.Second {
		t.Errorf("it took %v until a clamd that is back was asked", took)
	}
	stop.Store(true)
	load.Wait()
	if took := time.Duration(longest.Load()); took > limit+500*time.Millisecond {
		t.Errorf("a body waited %v for its verdict, the limit is %v", took, limit)
	}
}

// TestAHangingScannerDelaysFewBodies: a clamd that accepts connections and does not answer
// delays only the bodies that discover it.
func TestAHangingScannerDelaysFewBodies(t *testing.T) {
	peer.Program(t, "clamd")
	server, _, socket := startClamd(t)
	c, err := New(Config{Clamd: setting.OneOrMore[string]{socket}, Timeout: setting.Duration(3 * time.Second)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(pieces int) error {
		_, err := findInPieces(t, c, filter.ResponseBody, pieces, "there are forty marmots")
		return err
	}
	if err := errors.Join(ask(1), ask(3)); err != nil {
		t.Fatal(err)
	}
	if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer server.Process.Signal(syscall.SIGCONT) //nolint:errcheck // it may have ended
	if err := ask(1); err == nil {
		t.Fatal("a stopped clamd gave a verdict")
	}
	start := time.Now()
	for range 20 {
		for _, pieces := range []int{1, 3} {
			if err := ask(pieces); err == nil || !strings.Contains(err.Error(), "is not used until it answers") {
				t.Fatalf("with a stopped clamd the error is %v", err)
			}
		}
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("40 bodies waited %v for a clamd that hangs, want at most 3 s", took)
	}
	if err := server.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	for ask(1) != nil || ask(3) != nil {
		if time.Since(back) > 30*time.Second {
			t.Fatal("a clamd that is back was not used within 30 s")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if took := time.Since(back); took > 2*time.Second {
		t.Errorf("it took %v until a clamd that is back was asked", took)
	}
}

func TestNoScannerIsAnError(t *testing.T) {
	c, err := New(Config{Clamd: setting.OneOrMore[string]{"127.0.0.1:1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := find(t, c, filter.ResponseBody, "x"); err == nil || !strings.Contains(err.Error(), "connecting to clamd") {
		t.Errorf("without a clamd the error is %v", err)
	}
}

func TestAHashOnAListNeedsNoScanner(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hashes")
	sum := sha256.Sum256([]byte("evil"))
	if err := os.WriteFile(file, []byte("# bad\n"+hex.EncodeToString(sum[:])+"  evil.exe\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Hashes: setting.OneOrMore[setting.File]{setting.File(file)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := find(t, c, filter.ResponseBody, "evil"); err != nil || len(got) != 1 || !strings.Contains(got[0].Evidence, "evil.exe ("+file+":2)") {
		t.Errorf("a listed body gave %v, %v", got, err)
	}
	if got, err := find(t, c, filter.ResponseBody, "good"); err != nil || len(got) > 0 {
		t.Errorf("a body that is not listed gave %v, %v", got, err)
	}
}

// TestFilesOfFormsAreScannedSeparately: files in forms match lists, and signatures of clamd
// for whole files.
func TestFilesOfFormsAreScannedSeparately(t *testing.T) {
	evil := "MZ\r\nevil\r\n--bx\r\n--" // it resembles a boundary
	dir := t.TempDir()
	list := filepath.Join(dir, "hashes")
	sum := sha256.Sum256([]byte(evil))
	if err := os.WriteFile(list, []byte(hex.EncodeToString(sum[:])+" evil.exe\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	listed, err := New(Config{Hashes: setting.OneOrMore[setting.File]{setting.File(list)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const file = "Content-Disposition: form-data; name=f; filename=x\r\n\r\n"
	coded := func(how string) string {
		return "Content-Disposition: form-data; name=f; filename=x\r\nContent-Transfer-Encoding: " + how + "\r\n\r\n"
	}
	end := "\r\n--b--\r\n"
	check := func(t *testing.T, c *Check) {
		t.Helper()
		for name, tt := range map[string]struct {
			body  string
			found bool
		}{
			"alone":         {"--b\r\n" + file + evil + end, true},
			"third":         {"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b\r\n" + file + "good\r\n--b\r\n" + file + evil + end, true},
			"after empty":   {"--b\r\n" + file + "--b\r\n" + file + "\r\n--b \r\n" + file + evil + end, true},
			"preamble":      {"a preamble\r\n--b\r\n" + file + evil + end + "an epilogue", true},
			"line feeds":    {"--b\n" + strings.ReplaceAll(file, "\r", "") + evil + "\n--b--\n", true},
			"type only":     {"--b\r\nContent-Type: application/x-dosexec\r\n\r\n" + evil + end, true},
			"no end":        {"--b\r\n" + file + evil, true},
			"end in middle": {"--b\r\n" + file + evil + "\r\n--b", true},
			"base64":        {"--b\r\n" + coded("base64") + base64.StdEncoding.EncodeToString([]byte(evil)) + end, true},
			"base64 lines":  {"--b\r\n" + coded("Base64") + strings.Join(strings.SplitAfter(base64.StdEncoding.EncodeToString([]byte(evil)), "V"), "\r\n") + end, true},
			"base64 folded": {"--b\r\n" + coded("\r\n base64 (as mail has it)") + base64.RawStdEncoding.EncodeToString([]byte(evil)) + "\r\n" + end, true},
			"base64 no end": {"--b\r\n" + coded("base64") + base64.StdEncoding.EncodeToString([]byte(evil)), true},
			"quoted":        {"--b\r\n" + coded("quoted-printable") + "M=5A=0D=0Ae=\r\nvil=0d=0a--bx=0D=0A--" + end, true},
			"not base64":    {"--b\r\n" + coded("base64") + evil + end, true}, // servers that do not decode transfer codings get it
			"base64 good":   {"--b\r\n" + coded("base64") + base64.StdEncoding.EncodeToString([]byte("good")) + end, false},
			"binary":        {"--b\r\n" + coded("binary") + evil + end, true},
			"good":          {"--b\r\n" + file + "good" + end, false},
			"longer":        {"--b\r\n" + file + evil + "\r\n" + end, false},
			"nothing":       {"", false},
			"no boundary":   {strings.Repeat("x", 100<<10), false},
			"long fields":   {"--b\r\n" + strings.Repeat("x", 100<<10), false},
		} {
			for _, size := range []int{1, 3, 1 << 20} {
				for _, held := range []bool{true, false} {
					var b content.Body
					b.Reset(content.Describe(`multipart/form-data; boundary="b"`, ""), content.Limits{})
					x := &filter.Transaction{Upload: &b}
					var got []filter.Finding
					for rest := tt.body; ; {
						n := min(size, len(rest))
						b.Append([]byte(rest[:n]))
						if rest = rest[n:]; rest == "" {
							b.Finish()
						}
						if !held || rest == "" {
							if got, err = c.Find(t.Context(), x, filter.RequestBody, nil); err != nil {
								t.Fatalf("%s: judging the form: %v", name, err)
							}
						}
						if rest == "" || len(got) > 0 {
							break
						}
						if !held {
							b.Forget()
						}
					}
					b.Release()
					if found := len(got) == 1 && got[0].Category == "virus"; found != tt.found {
						t.Errorf("%s in pieces of %d, held %v: found %v", name, size, held, got)
					}
				}
			}
		}
	}
	check(t, listed)
	many := strings.Repeat("--b\r\n"+file+"x\r\n", maxFiles+1) + "--b--"
	var b content.Body
	b.Reset(content.Describe("multipart/form-data; boundary=b", ""), content.Limits{})
	defer b.Release()
	b.Append([]byte(many))
	b.Finish()
	if got, err := listed.Find(t.Context(), &filter.Transaction{Upload: &b}, filter.RequestBody, nil); err != nil || len(got) != 1 || got[0].Category != filter.Unread || !strings.Contains(got[0].Evidence, "100 files") {
		t.Errorf("a form with too many files gave %v, %v; want unread", got, err)
	}
	// A signature of a whole file: its MD5 and its size.
	socket, _ := clamd(t, fmt.Sprintf("%x:%d:Own.File\n", md5.Sum([]byte(evil)), len(evil)))
	c, err := New(Config{Clamd: setting.OneOrMore[string]{socket}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	check(t, c)
}

// TestListsApplyToTypesThatAreNotScanned: lists of hashes also apply to pictures and films.
func TestListsApplyToTypesThatAreNotScanned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hashes")
	film := "a film" + strings.Repeat("\x00\x01", 1000)
	sum := sha256.Sum256([]byte(film))
	if err := os.WriteFile(file, []byte(hex.EncodeToString(sum[:])+" bad film\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Clamd: setting.OneOrMore[string]{"127.0.0.1:1"}, Hashes: setting.OneOrMore[setting.File]{setting.File(file)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for body, want := range map[string]int{film: 1, "another" + film: 0} {
		for _, pieces := range []int{1, 3} {
			var b content.Body
			b.Reset(content.Describe("video/mp4", ""), content.Limits{})
			x := &filter.Transaction{Body: &b, Response: &message.Response{Fields: []message.Field{{Name: []byte("Content-Type"), Value: []byte("video/mp4")}}}}
			if c.Wants(x, filter.ResponseBody) != true {
				t.Fatal("it is not wanted")
			}
			var got []filter.Finding
			for rest, n := body, pieces; n > 0; n-- {
				k := len(rest) / n
				b.Append([]byte(rest[:k]))
				if rest = rest[k:]; n == 1 {
					b.Finish()
				}
				if got, err = c.Find(t.Context(), x, filter.ResponseBody, nil); err != nil {
					t.Fatal(err)
				}
				b.Forget()
			}
			if len(got) != want {
				t.Errorf("the body %s in %d pieces gave %v", body, pieces, got)
			}
			b.Release()
		}
	}
}

// FuzzFiles: the same files are found however the body is divided.
func FuzzFiles(f *testing.F) {
	f.Add("--b\r\nContent-Disposition: form-data; filename=x\r\n\r\nevil\r\n--b--\r\n", 3)
	f.Add("--b\r\nContent-Type: x\r\nContent-Transfer-Encoding: base64\r\n\r\nZXZp\r\nbA==\r\n--b--\r\n", 2)
	f.Add("\n--b\nContent-Type: x\n\n\n--bb\n--b \n\n", 1)
	f.Fuzz(func(t *testing.T, body string, size int) {
		size = max(1, size)
		read := func(size int) (n int, sums string) {
			var b content.Body
			b.Reset(content.Describe("multipart/form-data; boundary=b", ""), content.Limits{})
			defer b.Release()
			c := &Check{}
			x := c.newFiles(t.Context(), netip.Addr{}, &b)
			seen := &memory{m: map[[16]byte][]byte{}}
			c.memory, c.remember, c.scanners = seen, time.Hour, []*scanner{{}}
			c.scanners[0].away.Store(&outage{}) // it would fail if it were used
			for rest := body; rest != ""; {
				k := min(size, len(rest))
				x.parts.Write([]byte(rest[:k]))
				rest = rest[k:]
			}
			_, _ = x.end()
			return x.n, fmt.Sprint(x.name, x.err != nil)
		}
		n, sums := read(size)
		if m, other := read(len(body) + 1); m != n || sums != other {
			t.Errorf("%d files and %s in pieces, %d and %s at once", n, sums, m, other)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add("1: stream: OK\x00")
	f.Add("2: stream: Own.Marmots FOUND\x00")
	f.Add("INSTREAM size limit exceeded. ERROR\x00")
	f.Fuzz(func(t *testing.T, s string) {
		if name, err := parseReply(s); err == nil && name == "" && !strings.Contains(s, "OK") {
			t.Errorf("the reply %q counts as clean", s)
		}
	})
}
