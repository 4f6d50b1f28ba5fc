package test

import (
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aead.dev/minisign"

	"shuultuur/admin/clients"
	"shuultuur/gateway"
	"shuultuur/lib/postgres"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
	"shuultuur/test/redistest"
	"shuultuur/tool/load"
)

const (
	fiveNodes = 5
	playBytes = 400 // of each page that a quota counts
)

// A five is the nodes of a fleet with one server for each thing that they share: a PostgreSQL for the
// record and the votes, a Redis Cluster for the state, NATS for votes on their way, an S3 server
// for bundles.
type five struct {
	t      *testing.T
	origin *httptest.Server
	pages  atomic.Int64 // pages asked for
	played atomic.Int64 // of them those that the quota counts
	votes  atomic.Int64 // acknowledged
	nodes  []*gateway.Gateway
	desk   string   // folder of the first node's settings
	booths []string // where the nodes take votes
	record *sql.DB
	ballot *sql.DB
}

// A killable is a server that is killed and comes back.
type killable struct {
	name        string
	kill, start func()
}

// program starts a server that is killed and returns at its address.
func program(t *testing.T, name, addr string, args ...string) killable {
	var running *exec.Cmd
	s := killable{name: name}
	s.start = func() {
		running = peer.Start(t, name, args...)
		listens(t, addr)
	}
	s.kill = func() {
		_ = running.Process.Kill()
		_ = running.Wait()
	}
	s.start()
	return s
}

// bucket starts an S3 server with an empty bucket.
func bucket(t *testing.T) (s killable, endpoint string) {
	at, dir := "127.0.0.1:"+peer.Port(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "fleet"), 0o755); err != nil {
		t.Fatal(err)
	}
	return program(t, peer.Built(t, "versitygw"), at, "--access", "key", "--secret", "secret", "--port", at, "--quiet", "posix", "--sidecar", t.TempDir(), dir), "http://" + at
}

const fiveSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
state: {redis: {addresses: [%q], cluster: true, wait: 500ms}}
lists:
  ads: {path: lists/ads.txt, format: domains, category: ads}
  play: {path: lists/play.txt, format: domains, category: games}
checks: {category: {lists: [ads, play]}}
policies:
  - name: all
    quotas: [{category: games, bytes: 1GB}]
    rules: [{name: ads, action: block, category: [ads]}]
proxy: {private: [127.0.0.0/8], parent: "http://%s"}
events: {every: 50ms, postgres: %q}
`

func newFive(t *testing.T) (f *five, servers []killable) {
	t.Helper()
	f = &five{t: t}
	f.origin = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", playBytes)) }))
	t.Cleanup(f.origin.Close)

	pg := peer.NewPostgres(t)
	open := func(name string) (*sql.DB, string) {
		url, err := pg.Database(name)
		if err != nil {
			t.Fatal(err)
		}
		db, err := postgres.Open(url, 5*time.Second, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db, url
	}
	var record, ballot string
	f.record, record = open("events")
	f.ballot, ballot = open("votes")
	cluster := redistest.StartCluster(t, 3, "--appendonly", "yes", "--appendfsync", "always")
	news := "127.0.0.1:" + peer.Port(t)
	_, port, _ := net.SplitHostPort(news)
	nats := program(t, "nats-server", news, "-a", "127.0.0.1", "-p", port, "-js", "-sd", t.TempDir())
	store, endpoint := bucket(t)

	public, key, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := key.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for n := range fiveNodes {
		dir := t.TempDir()
		booth := "127.0.0.1:" + peer.Port(t)
		settings := fmt.Sprintf(fiveSettings, cluster[n%3].Addr, f.origin.Listener.Addr(), record)
		at := fmt.Sprintf("endpoint: %q, access: key, secret: secret", endpoint)
		if n == 0 {
			f.desk = dir
			settings += fmt.Sprintf("votes: {listen: %q, limit: off, store: %q, nats: \"nats://%s\"}\nfleet: {name: desk, desk: {to: \"s3://fleet/bundles\", key: desk.key, wait: 1s, %s}}\n", booth, ballot, news, at)
		} else {
			settings += fmt.Sprintf("votes: {listen: %q, limit: off, forward: nats, nats: \"nats://%s\"}\nfleet: {name: node%d, bundles: {from: \"s3://fleet/bundles\", key: %q, every: 1s, %s}}\n", booth, news, n, public, at)
		}
		err := errors.Join(os.MkdirAll(filepath.Join(dir, "lists"), 0o755),
			os.WriteFile(filepath.Join(dir, "lists", "ads.txt"), []byte("ads.example\n"), 0o600),
			os.WriteFile(filepath.Join(dir, "lists", "play.txt"), []byte("play.example\n"), 0o600),
			os.WriteFile(filepath.Join(dir, "desk.key"), secret, 0o600))
		if err != nil {
			t.Fatal(err)
		}
		f.nodes, f.booths = append(f.nodes, runGateway(t, dir, settings)), append(f.booths, booth)
	}
	servers = []killable{{"PostgreSQL", pg.Kill, func() {
		if err := pg.Start(); err != nil {
			t.Fatal(err)
		}
	}}, nats, store, {"a third of the Redis Cluster", cluster[1].Stop, func() { cluster[1].Restart(t) }}}
	return f, servers
}

// use asks every node for pages and gives it votes, for a while. All have to be answered.
func (f *five) use(during string) {
	f.t.Helper()
	var work sync.WaitGroup
	end := time.Now().Add(400 * time.Millisecond)
	for n, g := range f.nodes {
		work.Go(func() {
			c := through(g.ProxyAddr())
			defer c.CloseIdleConnections()
			for i := 0; time.Now().Before(end) || i < 20; i++ {
				host, want := "play.example", 200
				switch i % 4 {
				case 1:
					host = "calm.example"
				case 3:
					host, want = "ads.example", 403
				}
				status, _, err := get(c, fmt.Sprintf("http://%s/page/%d", host, f.pages.Add(1)))
				if err != nil || status != want {
					f.t.Errorf("%s: %s from node %d: status %d, want %d: %v", during, host, n, status, want, err)
				}
				if host == "play.example" {
					f.played.Add(1)
				}
			}
		})
		work.Go(func() {
			report, _, err := load.Votes(f.t.Context(), load.VotesConfig{URL: "http://" + f.booths[n], Parallel: 4, Count: 40})
			if err != nil || report.Acknowledged != 40 {
				f.t.Errorf("%s: node %d acknowledged %d votes of 40: %v", during, n, report.Acknowledged, err)
			}
			f.votes.Add(report.Acknowledged)
		})
	}
	work.Wait()
}

// offer adds a name to a list of the desk, which offers it then.
func (f *five) offer(name string) {
	f.t.Helper()
	file := filepath.Join(f.desk, "lists", "ads.txt")
	old, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(old, name+"\n"...), 0o600)
	}
	if err == nil {
		err = f.nodes[0].Reload(f.t.Context())
	}
	if err != nil {
		f.t.Fatal(err)
	}
	waittest.Until(f.t, "the desk offers "+name, func() bool {
		res, err := http.PostForm("http://"+f.nodes[0].AdminAddr()+"/fleet/offer", url.Values{"version": {name}, "all": {"yes"}})
		if err != nil {
			f.t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode >= 400 {
			f.t.Logf("offering %s: %s: %s", name, res.Status, text)
		}
		return res.StatusCode < 400
	})
}

// blocks waits until all nodes block a name.
func (f *five) blocks(name, when string) {
	f.t.Helper()
	for n, g := range f.nodes {
		c := through(g.ProxyAddr())
		waittest.Until(f.t, fmt.Sprintf("%s: node %d blocks %s", when, n, name), func() bool {
			status, _, err := get(c, "http://"+name+"/") // not a page of the record below
			return err == nil && status == 403
		})
		c.CloseIdleConnections()
	}
}

// settled waits until everything that was answered is where it belongs, once.
func (f *five) settled(when string) {
	f.t.Helper()
	type counts struct{ rows, pages, votes, bytes int64 }
	want := counts{f.pages.Load(), f.pages.Load(), f.votes.Load(), playBytes * f.played.Load()}
	var got counts
	for end := time.Now().Add(time.Minute); got != want; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("%s: rows of the record, different pages, votes and bytes of the quota are %d, want %d", when, got, want)
		}
		err := errors.Join(
			f.record.QueryRowContext(f.t.Context(), "SELECT count(*), count(DISTINCT substring(line from '/page/[0-9]+')) FROM event WHERE line LIKE '%/page/%'").Scan(&got.rows, &got.pages),
			f.ballot.QueryRowContext(f.t.Context(), "SELECT count(*) FROM vote").Scan(&got.votes))
		var q clients.Quotas
		_, text, asked := get(http.DefaultClient, "http://"+f.nodes[1].AdminAddr()+"/quotas?client=127.0.0.1")
		if err = errors.Join(err, asked, json.Unmarshal([]byte(text), &q)); err != nil || len(q.Quotas) != 1 {
			continue // not yet
		}
		got.bytes = q.Quotas[0].Used
	}
}

// TestFiveNodesLoseNothingWhileTheirServersAreKilled kills each server in turn under load, in the
// midst of it, and starts it again. Everything is answered, and counted once: pages in the record,
// votes, bytes of a quota. A bundle offered before or after reaches all nodes.
func TestFiveNodesLoseNothingWhileTheirServersAreKilled(t *testing.T) {
	t.Parallel()
	f, servers := newFive(t)
	f.use("before")
	f.offer("bad0.example")
	f.blocks("bad0.example", "before")
	f.settled("before")
	for i, s := range servers {
		var killed sync.WaitGroup
		killed.Go(func() {
			time.Sleep(100 * time.Millisecond) // in the midst of the load
			s.kill()
		})
		f.use("while " + s.name + " is killed")
		killed.Wait()
		s.start()
		f.use("with " + s.name + " again")
		f.settled("with " + s.name + " again")
		name := fmt.Sprintf("bad%d.example", i+1)
		f.offer(name)
		f.blocks(name, "with "+s.name+" again")
	}
	t.Logf("%d pages, %d votes", f.pages.Load(), f.votes.Load())
}
