package clickhouse

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/event/jsonl"
	"shuultuur/test/peer"
)

const year = 365 * 24 * time.Hour

// server starts ClickHouse's engine and returns its address and its folder.
func server(t *testing.T) (*url.URL, string) {
	t.Helper()
	dir, port := t.TempDir(), peer.Port(t)
	start(t, dir, port)
	return &url.URL{Scheme: "http", Host: "127.0.0.1:" + port, User: url.UserPassword("gateway", "se'cret")}, dir
}

// start starts the engine, and returns a function that kills it.
func start(t *testing.T, dir, port string) (kill func()) {
	t.Helper()
	cmd := peer.Command(t, peer.Python(t, "chdb"), "testdata/server.py", dir, port)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the engine does not start: %v", err)
	}
	return kill
}

// at returns the address of the database for a path in the tests of stores.
func at(server *url.URL, path string) string {
	h := fnv.New64a()
	h.Write([]byte(path))
	u := *server
	u.Path = "/d" + strconv.FormatUint(h.Sum64(), 36)
	return u.String()
}

func open(t *testing.T, address string) *Store {
	t.Helper()
	s, err := Open(address, year, jsonl.Codec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func write(t *testing.T, s *Store, rows []event.Row) {
	t.Helper()
	if err := s.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
}

func TestClickHouse(t *testing.T) {
	server, dir := server(t)
	stores := func(path string) (event.Store, error) {
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return nil, fmt.Errorf("the folder of %s: %w", path, err)
		}
		return Open(at(server, path), year, jsonl.Codec)
	}
	t.Run("store", func(t *testing.T) { eventtest.Run(t, stores) })
	t.Run("old rows forget who was behind them", func(t *testing.T) { eventtest.Anonymous(t, stores, false) })
	t.Run("a wrong clock forgets nothing", func(t *testing.T) {
		eventtest.Clock(t, true, func(path string, keep time.Duration) (event.Store, error) {
			return Open(at(server, path), keep, jsonl.Codec)
		})
	})
	t.Run("old days are dropped", func(t *testing.T) { testSweep(t, server) })
	t.Run("a batch whose acknowledgement is lost counts once", func(t *testing.T) { testLost(t, server) })
	t.Run("two gateways write to one table", func(t *testing.T) { testTwo(t, server) })
	t.Run("a person is erased", func(t *testing.T) { testErase(t, server, dir) })
	t.Run("mistakes are named", func(t *testing.T) { testMistakes(t, server) })
}

func testSweep(t *testing.T, server *url.URL) {
	s := open(t, at(server, t.Name()))
	rows := eventtest.Rows(time.Now().UTC().AddDate(0, 0, -40), 30)
	write(t, s, rows[:10])
	for i := range rows[10:20] {
		rows[10+i].Time = time.Now().UTC().AddDate(0, 0, -2)
	}
	for i := range rows[20:] {
		rows[20+i].Time = time.Now().UTC()
	}
	write(t, s, rows[10:])
	s.keep, s.nextSweep = 30*24*time.Hour, time.Time{}
	write(t, s, nil)
	days, err := s.days(t.Context(), "")
	if err != nil || len(days) != 2 {
		t.Errorf("after old days were dropped: days %v, %v; want two", days, err)
	}
}

// testLost loses the acknowledgement of a batch that the server has stored.
func testLost(t *testing.T, server *url.URL) {
	real := *server
	real.User = nil
	forward := httputil.NewSingleHostReverseProxy(&real)
	loseReply := true
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if loseReply && strings.Contains(r.URL.RawQuery, "INSERT") {
			loseReply = false
			forward.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}))
	defer between.Close()
	u, err := url.Parse(between.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = server.User
	s := open(t, at(u, t.Name()))
	rows := eventtest.Rows(eventtest.Start(), 500)
	rows[100].Time = rows[100].Time.AddDate(0, 0, -3) // a batch of two days
	if err := s.Write(t.Context(), rows); err == nil {
		t.Fatal("Write returns no error although the connection broke")
	}
	write(t, s, rows)
	got, err := s.Count(t.Context(), event.Question{})
	if err != nil || got[0][0].Events != len(rows) {
		t.Errorf("after the batch was written again: rows %v, %v; want %d", got, err, len(rows))
	}
}

func testTwo(t *testing.T, server *url.URL) {
	a, b := open(t, at(server, t.Name())), open(t, at(server, t.Name()))
	rows := eventtest.Rows(eventtest.Start(), 400)
	failed := make(chan error)
	for i, s := range []*Store{a, b} {
		go func() {
			var err error
			for k := range 10 {
				err = errors.Join(err, s.Write(context.Background(), rows[(i*10+k)*20:][:20]))
			}
			failed <- err
		}()
	}
	if err := errors.Join(<-failed, <-failed); err != nil {
		t.Fatal(err)
	}
	seen, last := map[int64]bool{}, int64(0)
	for r, err := range a.Query(t.Context(), event.Filter{}, event.Page{}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[r.Seq] || r.Seq <= last {
			t.Fatalf("the place %d follows %d", r.Seq, last)
		}
		seen[r.Seq], last = true, r.Seq
	}
	if len(seen) != len(rows) {
		t.Errorf("%d rows have distinct places, want %d", len(seen), len(rows))
	}
}

func testErase(t *testing.T, server *url.URL, dir string) {
	s := open(t, at(server, t.Name()))
	const name, device = "zz-quilliam-78", "10.77.66.56"
	rows := eventtest.Rows(eventtest.Start(), 2000)
	for i := range rows {
		switch i % 100 {
		case 7:
			rows[i].User = name
		case 8:
			rows[i].Client = netip.MustParseAddr(device)
		case 9:
			rows[i].Note = "paused for " + name
		case 11:
			rows[i].Note, rows[i].URL = "paused for "+name, "http://forum.example/"+name
		}
	}
	write(t, s, rows)
	n, err := s.Erase(t.Context(), event.Person{Users: []string{name}, Clients: []netip.Addr{netip.MustParseAddr(device)}}, false)
	if err != nil || n != 40 {
		t.Fatalf("erased %d rows, want 40: %v", n, err)
	}
	left := 0
	for r, err := range s.Query(t.Context(), event.Filter{}, event.Page{}) {
		if err != nil {
			t.Fatal(err)
		}
		if left++; r.User == name || r.Note != "" || r.Client.String() == device {
			t.Errorf("after the erasure a row names the person: %+v", r)
		}
	}
	if left != len(rows)-40 {
		t.Errorf("after the erasure %d rows are left, want %d", left, len(rows)-40)
	}
	// The server removes the old parts within seconds.
	holds := func() (where string) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil // removed meanwhile
			}
			if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(device)) {
				where = path
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return where
	}
	where := holds()
	for end := time.Now().Add(time.Minute); where != "" && time.Now().Before(end); where = holds() {
		time.Sleep(100 * time.Millisecond)
	}
	if where != "" {
		t.Errorf("after the erasure %s still contains %s", where, device)
	}
}

// TestTheServerIsKilledAndReturns writes to a log while the server is away.
func TestTheServerIsKilledAndReturns(t *testing.T) {
	dir, port := t.TempDir(), peer.Port(t)
	kill := start(t, dir, port)
	u := &url.URL{Scheme: "http", Host: "127.0.0.1:" + port, User: url.UserPassword("gateway", "se'cret")}
	address := at(u, t.Name())
	s, err := Open(address, year, jsonl.Codec)
	if err != nil {
		t.Fatal(err)
	}
	log, err := event.New(event.Config{Every: 10 * time.Millisecond}, slog.New(slog.DiscardHandler), s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- log.Run(ctx) }()
	rows := eventtest.Rows(eventtest.Start(), 6000)
	until := func(what string, ok func(event.Stats) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(log.Stats()[0]); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", what, log.Stats()[0])
			}
		}
	}
	add := func(rows []event.Row) {
		for i := range rows {
			log.Add(rows[i])
		}
	}
	add(rows[:2000])
	until("before", func(s event.Stats) bool { return s.Written == 2000 })
	add(rows[2000:3000])
	kill() // perhaps while it takes these
	add(rows[3000:4000])
	until("while the server is away", func(s event.Stats) bool { return s.Err != nil })
	start(t, dir, port)
	returned := time.Now()
	add(rows[4000:])
	until("when it is back", func(s event.Stats) bool { return s.Written == uint64(len(rows)) && s.Err == nil })
	t.Logf("all rows were written %v after the server returned", time.Since(returned))
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	got, err := open(t, address).Count(t.Context(), event.Question{})
	if err != nil || got[0][0].Events != len(rows) || log.Stats()[0].Dropped != 0 {
		t.Errorf("counted %v, %v; want %d rows; counters %+v", got, err, len(rows), log.Stats()[0])
	}
}

func testMistakes(t *testing.T, server *url.URL) {
	for address, want := range map[string]string{
		"clickhouse.example:8123/d":          "clickhouse",
		"ftp://clickhouse.example/d":         "is not an address: write http://USER:PASSWORD@HOST:8123/DATABASE",
		"http://a:secret@clickhouse.example": "names no database",
		"http://a:secret@h/d;DROP":           "names no database",
	} {
		s, err := Open(address, year, jsonl.Codec)
		if err == nil {
			s.Close()
			t.Errorf("Open(%q) returns no error", address)
		} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q) = %q, want %q", address, err, want)
		}
	}
	wrong := *server
	wrong.User = url.UserPassword("gateway", "wrong")
	s := open(t, at(&wrong, t.Name()))
	err := s.Write(t.Context(), eventtest.Rows(eventtest.Start(), 1))
	if err == nil || !strings.Contains(err.Error(), "Authentication failed") {
		t.Errorf("connecting with a wrong password: %v, want Authentication failed", err)
	}
}

func FuzzAnswersAreReadWithoutHarm(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x03abc"))
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		d := decoder{rest: answer}
		for rows := 0; len(d.rest) > 0 && d.err == nil; rows++ {
			_, _ = d.int64(), d.text()
			if rows > len(answer) {
				t.Fatal(fmt.Errorf("decoding yields more rows than the answer has bytes"))
			}
		}
	})
}
