package test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
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

// A storehouse is the installed program with a cache on disk, and an origin whose objects
// describe themselves: a client notices damage, and bytes of another object or version.
type storehouse struct {
	t      *testing.T
	dir    string // of the settings
	store  string // of the cache
	addr   string // of the proxy
	admin  string // address of the pages
	origin *httptest.Server
	cmd    *exec.Cmd
	ended  chan struct{}
	client *http.Client

	version atomic.Int64
	fetched atomic.Int64
	objects [storedObjects]storedObject
	hits    atomic.Int64
	asked   atomic.Int64
}

const storedObjects = 120

// A storedObject is not deleted while clients read it. So the lowest permitted version is
// always known.
type storedObject struct {
	mu    sync.RWMutex
	least int64 // the newest version at the last deletion
}

const storehouseSettings = `
listen: {proxy: "%s", admin: "%s"}
data: data
cache: {memory: 2MiB, disk: 64MiB, folder: "%s", admission: always}
proxy: {private: [127.0.0.0/8]}
policies: [{name: all}]
`

func newStorehouse(t *testing.T, store string) *storehouse {
	t.Helper()
	h := &storehouse{t: t, dir: t.TempDir(), store: store}
	h.origin = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.origin.Close)
	h.addr = "127.0.0.1:" + peer.Port(t)
	h.admin = "127.0.0.1:" + peer.Port(t)
	text := fmt.Sprintf(storehouseSettings, h.addr, h.admin, store)
	if err := os.WriteFile(filepath.Join(h.dir, "shuultuur.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.kill)
	return h
}

// serve answers /N with its newest version: a line with number, version and checksum, then data
// whose size depends on number and version.
func (h *storehouse) serve(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	v := h.version.Add(1)
	if r.Method == http.MethodDelete {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h.fetched.Add(1)
	b := storedBody(n, v)
	w.Header().Set("Cache-Control", "max-age=86400")
	w.Header().Set("Etag", fmt.Sprintf(`"%d-%d"`, n, v))
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(b)
}

func storedBody(n int, v int64) []byte {
	r := rand.New(rand.NewPCG(uint64(n), uint64(v)))
	size := 1 + r.IntN(2000)
	if n%5 == 0 {
		size *= 60
	}
	text := make([]byte, size)
	for i := range text {
		text[i] = byte(r.Uint32())
	}
	return append(fmt.Appendf(nil, "%d %d %x\n", n, v, sha256.Sum256(text)), text...)
}

// start starts the program and waits until it takes connections.
func (h *storehouse) start() {
	h.t.Helper()
	h.cmd = peer.Command(h.t, filepath.Join(bin, "shuultuur"), "run", filepath.Join(h.dir, "shuultuur.yaml"))
	h.cmd.Dir = h.dir
	log, err := os.OpenFile(filepath.Join(h.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	h.cmd.Stdout, h.cmd.Stderr = log, log
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.ended = make(chan struct{})
	go func() {
		_ = h.cmd.Wait() // it is killed
		close(h.ended)
	}()
	h.client = through(h.addr)
	for end := time.Now().Add(time.Minute); ; time.Sleep(3 * time.Millisecond) {
		if c, err := net.Dial("tcp", h.addr); err == nil {
			c.Close()
			return
		}
		select {
		case <-h.ended:
		default:
			if time.Now().Before(end) {
				continue
			}
		}
		text, _ := os.ReadFile(filepath.Join(h.dir, "log"))
		h.t.Fatalf("the program does not start:\n%s", text[max(0, len(text)-4000):])
	}
}

// kill ends the program with SIGKILL, the nearest that a process has to a power cut.
func (h *storehouse) kill() {
	if h.cmd != nil {
		_ = h.cmd.Process.Kill()
		<-h.ended
		h.cmd = nil
		h.client.CloseIdleConnections()
	}
}

// ask requests an object and checks every byte. Errors are those of the
// connection, for example because the program was killed.
func (h *storehouse) ask(n int) error {
	o := &h.objects[n]
	o.mu.RLock()
	defer o.mu.RUnlock()
	r, err := h.client.Get(fmt.Sprintf("%s/%d", h.origin.URL, n))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.StatusCode != 200 {
		return fmt.Errorf("GET object %d: status %d, want 200", n, r.StatusCode)
	}
	head, text, _ := bytes.Cut(b, []byte("\n"))
	var number int
	var version int64
	var sum string
	_, err = fmt.Sscanf(string(head), "%d %d %s", &number, &version, &sum)
	if err != nil || number != n || sum != fmt.Sprintf("%x", sha256.Sum256(text)) || r.Header.Get("Etag") != fmt.Sprintf(`"%d-%d"`, n, version) {
		h.t.Errorf("object %d does not match its description: first line %q, ETag %s, %d bytes", n, head, r.Header.Get("Etag"), len(text))
	}
	if version <= o.least {
		h.t.Errorf("object %d has the deleted version %d, want one above %d", n, version, o.least)
	}
	h.asked.Add(1)
	if strings.Contains(r.Header.Get("Cache-Status"), "; hit") {
		h.hits.Add(1)
	}
	return nil
}

// remove deletes an object at the origin, through the cache.
func (h *storehouse) remove(n int) error {
	o := &h.objects[n]
	o.mu.Lock()
	defer o.mu.Unlock()
	q, err := http.NewRequest(http.MethodDelete, fmt.Sprintf("%s/%d", h.origin.URL, n), nil)
	if err != nil {
		return err
	}
	r, err := h.client.Do(q)
	if err != nil {
		return err
	}
	r.Body.Close()
	if r.StatusCode == http.StatusNoContent {
		o.least = h.version.Load()
	}
	return nil
}

// load starts clients that ask for objects until the program is gone, or until each has sent
// its number of requests.
func (h *storehouse) load(clients, times int, seed uint64) *sync.WaitGroup {
	var work sync.WaitGroup
	for c := range clients {
		r := rand.New(rand.NewPCG(seed, uint64(c)))
		work.Go(func() {
			for range times {
				n := r.IntN(storedObjects)
				do := h.ask
				if r.IntN(15) == 0 {
					do = h.remove
				}
				if do(n) != nil {
					return
				}
			}
		})
	}
	return &work
}

// all asks for every object once and returns how many came from the cache.
func (h *storehouse) all() int64 {
	h.t.Helper()
	before := h.hits.Load()
	for n := range storedObjects {
		if err := h.ask(n); err != nil {
			h.t.Fatalf("object %d: %v", n, err)
		}
	}
	return h.hits.Load() - before
}

// kills returns how often to kill the program: 200 times unless
// SHUULTUUR_TEST_KILLS is set, and less in short tests.
func kills(t *testing.T) int {
	if v := os.Getenv("SHUULTUUR_TEST_KILLS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if testing.Short() {
		return 20
	}
	return 200
}

// The program is killed at random moments under load. The state on disk at the
// next start is complete, and no deleted object returns.
func TestNoWrongByteAfterTheProgramWasKilled(t *testing.T) {
	t.Parallel()
	h := newStorehouse(t, filepath.Join(t.TempDir(), "store"))
	r := rand.New(rand.NewPCG(16, 1))
	for round := range kills(t) {
		h.start()
		work := h.load(4, 1<<30, uint64(round))
		time.Sleep(time.Duration(r.IntN(150_000)) * time.Microsecond)
		h.kill()
		work.Wait()
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	h.start()
	hits := h.all()
	t.Logf("%d answers were checked, %d of them from the cache; after the last kill %d of %d objects were still cached", h.asked.Load(), h.hits.Load(), hits, storedObjects)
	if hits < storedObjects/3 {
		t.Errorf("%d of %d objects are cached after the last kill: the program does not use the disk", hits, storedObjects)
	}
}

// end stops the program as an administrator does.
func (h *storehouse) end() {
	h.t.Helper()
	_ = h.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-h.ended:
	case <-time.After(time.Minute):
		h.t.Error("the program does not end")
	}
	h.kill()
}

// metric returns a figure of the running program.
func (h *storehouse) metric(name string) float64 {
	h.t.Helper()
	_, text, err := get(http.DefaultClient, "http://"+h.admin+"/metrics")
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			if err != nil {
				h.t.Fatal(err)
			}
			return f
		}
	}
	h.t.Fatalf("there is no metric %s", name)
	return 0
}

// A bit is flipped in each kind of block: heads of segments and records,
// metadata of objects, bodies, lists, and the note of purged objects.
func TestNoWrongByteAfterABitFlipped(t *testing.T) {
	h := newStorehouse(t, filepath.Join(t.TempDir(), "store"))
	h.start()
	h.load(4, 200, 1).Wait()
	h.all()
	const purged = 7
	r, err := http.PostForm("http://"+h.admin+"/cache/purge", url.Values{"kind": {"url"}, "value": {fmt.Sprintf("%s/%d", h.origin.URL, purged)}})
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode >= 400 {
		t.Fatalf("purging: %s", r.Status)
	}
	h.objects[purged].least = h.version.Load()
	h.end()
	bodies := map[string][]byte{}
	files, err := filepath.Glob(filepath.Join(h.store, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if bodies[f], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(16, 2))
	magic := []byte{0xa9, 0x51, 0x3e, 0x7c} // of a record
	for _, clean := range []bool{true, false} {
		for _, kind := range []string{"segment head", "record head", "fields", "body", "list", "purged"} {
			for round := range 3 {
				if !clean && kind == "list" {
					continue
				}
				// Objects that an earlier round has fetched again must not stand
				// in for those that this one damages.
				removeOthers(t, h.store, bodies)
				flipped := false
				for _, f := range files {
					b := bytes.Clone(bodies[f])
					ext := filepath.Ext(f)
					at := -1
					switch {
					case flipped, ext == ".list" && !clean:
					case ext == ".list" && kind == "list", filepath.Base(f) == "purged" && kind == "purged":
						at = random.IntN(len(b))
					case ext == ".segment":
						at = place(random, b, magic, kind, purged)
					}
					if at >= 0 {
						flipped = true
						b[at] ^= 1 << random.IntN(8)
					}
					err := os.WriteFile(f, b, 0o600)
					if ext == ".list" && !clean {
						err = os.Remove(f)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if !flipped {
					t.Fatalf("there is no %s to damage", kind)
				}
				h.start()
				hits := h.all()
				damaged := h.metric("shuultuur_cache_disk_damaged_total")
				t.Logf("clean stop %v, damaged %s, round %d: %d of %d objects came from the disk, %v counted as damaged", clean, kind, round, hits, storedObjects, damaged)
				if kind == "body" && damaged == 0 {
					t.Error("a damaged body is not counted")
				}
				h.kill()
			}
		}
	}
}

// removeOthers removes the files of a folder that are not kept.
func removeOthers(t *testing.T, folder string, keep map[string][]byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, ok := keep[f]; ok {
			continue
		}
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
}

// place chooses a byte of a kind in a segment, or -1. It skips records of the
// purged object, because they are never read.
func place(r *rand.Rand, b, magic []byte, kind string, purged int) int {
	if kind == "segment head" {
		return r.IntN(128)
	}
	var records []int
	for at := 0; ; {
		i := bytes.Index(b[at:], magic)
		if i < 0 {
			break
		}
		at += i
		body := at + 40 + int(binary.LittleEndian.Uint32(b[at+24:]))
		if !bytes.HasPrefix(b[body:], fmt.Appendf(nil, "%d ", purged)) {
			records = append(records, at)
		}
		at++
	}
	if len(records) == 0 {
		return -1
	}
	at := records[r.IntN(len(records))]
	meta := int(binary.LittleEndian.Uint32(b[at+24:]))
	body := int(binary.LittleEndian.Uint32(b[at+28:]))
	switch kind {
	case "record head":
		return at + r.IntN(40)
	case "fields":
		return at + 40 + r.IntN(meta)
	case "body":
		return at + 40 + meta + r.IntN(body)
	}
	return -1
}
