package test

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"shuultuur/lib/postgres"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

// A receiver of events can be killed, and comes back at the same address.
type receiver struct {
	name        string
	kill, start func()
	has         func() map[string]bool // the paths in events that have arrived
}

var eventPath = regexp.MustCompile(`/page/\w+`)

// pages adds the paths in a text.
func pages(to map[string]bool, text []byte) {
	for _, p := range eventPath.FindAll(text, -1) {
		to[string(p)] = true
	}
}

// unzipped returns the text of all compressed members in b.
func unzipped(b []byte) (all []byte) {
	magic := []byte{0x1f, 0x8b, 8}
	for at := bytes.Index(b, magic); at >= 0; at = bytes.Index(b, magic) {
		if z, err := gzip.NewReader(bytes.NewReader(b[at:])); err == nil {
			z.Multistream(false)
			text, _ := io.ReadAll(z)
			all = append(all, text...)
		}
		b = b[at+len(magic):]
	}
	return all
}

// httpReceiver accepts posted and put bodies: it stands in for a collector and an object store.
func httpReceiver(t *testing.T, name, addr string) *receiver {
	var mu sync.Mutex
	got := map[string]bool{}
	var srv *http.Server
	r := &receiver{name: name}
	r.start = func() {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		srv = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			body, err := io.ReadAll(q.Body)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			pages(got, unzipped(body))
		})}
		go func() { _ = srv.Serve(ln) }()
	}
	r.kill = func() { srv.Close() }
	r.has = func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		all := map[string]bool{}
		for p := range got {
			all[p] = true
		}
		return all
	}
	return r
}

// rsyslog starts a log server that writes to a file.
func rsyslog(t *testing.T, port string) *receiver {
	peer.Program(t, "rsyslogd")
	dir := t.TempDir()
	conf, log := filepath.Join(dir, "rsyslog.conf"), filepath.Join(dir, "log")
	if err := os.WriteFile(conf, fmt.Appendf(nil, `global(workDirectory=%q)
module(load="imtcp")
input(type="imtcp" port="%s" address="127.0.0.1")
action(type="omfile" file=%q)
`, dir, port, log), 0o600); err != nil {
		t.Fatal(err)
	}
	var server *exec.Cmd
	r := &receiver{name: "syslog"}
	r.start = func() {
		_ = os.Remove(filepath.Join(dir, "pid"))
		server = peer.Command(t, "rsyslogd", "-n", "-f", conf, "-i", filepath.Join(dir, "pid"))
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		listens(t, "127.0.0.1:"+port)
	}
	r.kill = func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}
	r.has = func() map[string]bool {
		all := map[string]bool{}
		text, _ := os.ReadFile(log)
		pages(all, text)
		return all
	}
	return r
}

// brokers starts a Kafka cluster that keeps its topic in a folder.
func brokers(t *testing.T, port string) *receiver {
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var c *kfake.Cluster
	r := &receiver{name: "Kafka cluster"}
	r.start = func() {
		var err error
		if c, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(n), kfake.DataDir(dir), kfake.SeedTopics(3, "events")); err != nil {
			t.Fatal(err)
		}
	}
	r.kill = func() { c.Close() }
	r.start()
	var mu sync.Mutex
	got := map[string]bool{}
	consumer, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:"+port), kgo.ConsumeTopics("events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			f := consumer.PollFetches(context.Background())
			if f.IsClientClosed() {
				return
			}
			mu.Lock()
			f.EachRecord(func(r *kgo.Record) { pages(got, r.Value) })
			mu.Unlock()
		}
	})
	t.Cleanup(func() { consumer.Close(); reading.Wait() })
	r.has = func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(got)
	}
	return r
}

// listens waits until something listens at an address.
func listens(t *testing.T, addr string) {
	t.Helper()
	waittest.Until(t, addr+" listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// database starts PostgreSQL with a table of events.
func database(t *testing.T) (r *receiver, url string) {
	pg := peer.NewPostgres(t)
	url, err := pg.Database("events")
	if err != nil {
		t.Fatal(err)
	}
	db, err := postgres.Open(url, 5*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	r = &receiver{name: "postgres", kill: pg.Kill}
	r.start = func() {
		if err := pg.Start(); err != nil {
			t.Fatal(err)
		}
	}
	r.has = func() map[string]bool {
		all := map[string]bool{}
		rows, err := db.QueryContext(t.Context(), "SELECT line FROM event")
		if err != nil {
			return all
		}
		defer rows.Close()
		for rows.Next() {
			var line sql.RawBytes
			if rows.Scan(&line) == nil {
				pages(all, line)
			}
		}
		return all
	}
	return r, url
}

// TestReceiversOfEventsAreKilledUnderLoad kills each receiver while requests continue. No
// request waits for an absent receiver, which gets events again after its
// return, and all that it missed.
func TestReceiversOfEventsAreKilledUnderLoad(t *testing.T) {
	t.Parallel()
	const page = "a page of the origin"
	var served atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) }))
	defer origin.Close()
	collects, store, logs, cluster := "127.0.0.1:"+peer.Port(t), "127.0.0.1:"+peer.Port(t), peer.Port(t), peer.Port(t)
	db, url := database(t)
	others := []*receiver{rsyslog(t, logs), httpReceiver(t, "collector", collects), httpReceiver(t, "object store", store)}
	for _, r := range others {
		r.start()
		t.Cleanup(func() { r.kill() })
	}
	kafka := brokers(t, cluster)
	t.Cleanup(func() { kafka.kill() })
	others = append(others, kafka)
	g := runGateway(t, t.TempDir(), fmt.Sprintf(`
listen: {proxy: 127.0.0.1:0, admin: off}
data: data
policies: [{name: all, rules: []}]
proxy: {private: [127.0.0.0/8]}
events:
  every: 50ms
  postgres: %q
  syslog: {to: "tcp://127.0.0.1:%s"}
  kafka: {to: "127.0.0.1:%s", topic: events}
  otlp: {to: "http://%s"}
  parquet: {to: "s3://lake/events", every: 1s, endpoint: "http://%s", key: key, secret: secret}
`, url, logs, cluster, collects, store))

	// drive has some clients ask for pages, and returns which pages, and how long they took.
	drive := func(during string) (asked []string, s *traffic) {
		s = new(traffic)
		var work sync.WaitGroup
		end := time.Now().Add(time.Second)
		for range 4 {
			work.Go(func() {
				c := through(g.ProxyAddr())
				defer c.CloseIdleConnections()
				for n := 0; time.Now().Before(end) || n < 25; n++ { // enough for a pause of the machine not to count
					path := fmt.Sprintf("/page/%s%d", during, served.Add(1))
					begin := time.Now()
					status, body, err := get(c, origin.URL+path)
					took := time.Since(begin)
					s.mu.Lock()
					if asked, s.took = append(asked, path), append(s.took, took); err != nil || status != 200 || body != page {
						s.wrong = append(s.wrong, fmt.Sprintf("status %d, %v", status, err))
					}
					s.mu.Unlock()
				}
			})
		}
		work.Wait()
		return asked, s
	}
	missing := func(r *receiver, asked []string) []string {
		has := r.has()
		return slices.DeleteFunc(slices.Clone(asked), func(p string) bool { return has[p] })
	}
	before, calm := drive("calm")
	for _, r := range append(others, db) {
		waittest.Until(t, "the "+r.name+" has the first events", func() bool { return len(missing(r, before)) == 0 })
	}
	for _, r := range append(others, db) {
		r.kill()
		asked, during := drive("during")
		if len(during.wrong) > 0 {
			t.Errorf("while the %s was away, %d of %d requests failed; the first: %s", r.name, len(during.wrong), len(asked), during.wrong[0])
		}
		// The bound finds requests that wait for a time-out of the store.
		if was, is := calm.median(), during.median(); is > was+2*time.Second {
			t.Errorf("while the %s was away, half of the requests took %v or more; before %v", r.name, is, was)
		}
		r.start()
		back := time.Now()
		waittest.Until(t, "the "+r.name+" gets events again", func() bool { return len(missing(r, asked)) < len(asked) })
		took := time.Since(back)
		waittest.Until(t, "the "+r.name+" has got all events", func() bool { return len(missing(r, asked)) == 0 })
		t.Logf("%s: %d requests while it was away, median %v (before: %v); events again after %v, all after %v", r.name, len(asked), during.median(), calm.median(), took, time.Since(back))
	}
}
