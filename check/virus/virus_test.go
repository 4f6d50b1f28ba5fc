package virus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/setting"
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

// find has a body checked, as a download or an upload.
func find(t *testing.T, c *Check, s filter.Stage, body string) ([]filter.Finding, error) {
	t.Helper()
	var b content.Body
	b.Reset(&content.Head{}, content.Limits{})
	defer b.Release()
	b.Append([]byte(body))
	b.Finish()
	x := &filter.Transaction{Body: &b}
	if s == filter.RequestBody {
		x = &filter.Transaction{Upload: &b}
	}
	return c.Find(t.Context(), x, s, nil)
}

// clamd starts a clamd with one signature of our own: the words "forty marmots".
func clamd(t *testing.T) (socket, port string) {
	t.Helper()
	peer.Program(t, "clamd")
	dir := t.TempDir()
	db := filepath.Join(dir, "db")
	if err := os.Mkdir(db, 0o755); err != nil {
		t.Fatal(err)
	}
	port = peer.Port(t)
	socket = filepath.Join(dir, "c.sock")
	for file, text := range map[string]string{
		filepath.Join(db, "own.ndb"):     "Own.Marmots:0:*:" + hex.EncodeToString([]byte("forty marmots")) + "\n",
		filepath.Join(dir, "clamd.conf"): fmt.Sprintf("Foreground yes\nDatabaseDirectory %s\nLocalSocket %s\nTCPSocket %s\nTCPAddr 127.0.0.1\nStreamMaxLength 1M\nMaxThreads 4\n", db, socket, port),
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	peer.Start(t, "clamd", "--config-file="+filepath.Join(dir, "clamd.conf"))
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			return socket, port
		}
		if time.Now().After(end) {
			t.Skip("clamd does not start here")
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
			for n := range 3 { // the first by a new connection, the second by a kept one, the third is remembered
				got, err := find(t, c, s, fmt.Sprint("there are forty marmots ", n%2, s))
				if err != nil || len(got) != 1 || got[0].Category != "virus" || !strings.Contains(got[0].Evidence, "Own.Marmots") {
					t.Fatalf("%s, %v: got %v, %v", at, s, got, err)
				}
			}
			if got, err := find(t, c, s, "there are three marmots"); err != nil || len(got) > 0 {
				t.Errorf("%s, %v, clean: got %v, %v", at, s, got, err)
			}
		}
		if n := c.counters[remembered].Load(); n != 3 { // one each, and what was clean as a download was so as an upload
			t.Errorf("%s: %d verdicts were remembered, want 3", at, n)
		}
		if _, err := find(t, c, filter.ResponseBody, strings.Repeat("long ", 1<<19)); err == nil {
			t.Errorf("%s: a body longer than StreamMaxLength is no error", at)
		}
		if got, err := find(t, c, filter.ResponseBody, "again forty marmots"); err != nil || len(got) != 1 {
			t.Errorf("%s, after an error: got %v, %v", at, got, err)
		}
	}
}

func TestNoScannerIsAnError(t *testing.T) {
	c, err := New(Config{Clamd: setting.OneOrMore[string]{"127.0.0.1:1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := find(t, c, filter.ResponseBody, "x"); err == nil || !strings.Contains(err.Error(), "connect to clamd") {
		t.Errorf("got %v", err)
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
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := find(t, c, filter.ResponseBody, "good"); err != nil || len(got) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func FuzzReply(f *testing.F) {
	f.Add("1: stream: OK\x00")
	f.Add("2: stream: Own.Marmots FOUND\x00")
	f.Add("INSTREAM size limit exceeded. ERROR\x00")
	f.Fuzz(func(t *testing.T, s string) {
		if name, err := parseReply(s); err == nil && name == "" && !strings.Contains(s, "OK") {
			t.Errorf("%q counts as clean", s)
		}
	})
}
