//go:build !small

package booth_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"shuultuur/lib/ingest"
	"shuultuur/lib/problem"
	"shuultuur/lib/redis"
	"shuultuur/lib/setting"
	"shuultuur/test/peer"
	"shuultuur/tool/load"
	"shuultuur/vote"
	"shuultuur/vote/booth"
)

// off returns the limit that permits any number of votes.
func off(t testing.TB) (l booth.Limit) {
	t.Helper()
	if err := l.UnmarshalText([]byte("off")); err != nil {
		t.Fatal(err)
	}
	return l
}

// start opens a booth and runs it until stop.
func start(t testing.TB, dir string, c booth.Config) (b *booth.Booth, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c.Limit = off(t)
	parts := booth.Parts{Data: dir, Key: []byte("the key of all nodes"), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Apply: func(context.Context, *vote.Decision) error { return nil }}
	b, err := booth.Open(ctx, c, parts)
	if err == nil {
		err = b.Listen(ctx)
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the booth ended with: %v", err)
		}
	})
	t.Cleanup(stop)
	return b, stop
}

func listen(at string) setting.OneOrMore[setting.Address] {
	return setting.OneOrMore[setting.Address]{setting.Address(at)}
}

// send sends votes, which must all be acknowledged, and returns their
// identifiers.
func send(t testing.TB, b *booth.Booth, n int64) []string {
	t.Helper()
	report, ids, err := load.Votes(context.Background(), load.VotesConfig{URL: "http://" + b.Addrs()[0].String(), Parallel: 16, Count: n})
	if err != nil || report.Acknowledged != n {
		t.Fatalf("sending votes gave %+v and the error %v, want %d acknowledged votes", report, err, n)
	}
	return ids
}

// total waits until a booth has counted so many votes.
func total(t testing.TB, b *booth.Booth, want int64) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		n, err := b.Desk().Store().Total(context.Background())
		if err == nil && n == want {
			return
		}
		if n > want || time.Now().After(end) {
			t.Fatalf("%d votes are counted, want %d: %v", n, want, err)
		}
	}
}

func counted(t testing.TB, s vote.Store, ids []string) {
	t.Helper()
	var missing atomic.Int64
	var asking sync.WaitGroup
	for part := range slices.Chunk(ids, len(ids)/8+1) {
		asking.Go(func() {
			for _, text := range part {
				id, err := vote.ParseID(text)
				if err != nil {
					t.Error(err)
					return
				}
				if st, err := s.State(context.Background(), id); err != nil || st.State != "counted" {
					missing.Add(1)
				}
			}
		})
	}
	asking.Wait()
	if n := missing.Load(); n > 0 {
		t.Errorf("%d of %d acknowledged votes are not counted", n, len(ids))
	}
}

// TestKilledUnderLoad kills a booth at random moments while clients send. Each
// acknowledged vote is counted, and none twice.
func TestKilledUnderLoad(t *testing.T) {
	if dir := os.Getenv("VOTES_KILLED"); dir != "" {
		start(t, dir, booth.Config{Listen: listen(os.Getenv("VOTES_AT"))})
		select {}
	}
	rounds := 8
	if n, err := strconv.Atoi(os.Getenv("VOTES_KILLS")); err == nil {
		rounds = n
	}
	if testing.Short() {
		rounds = 3
	}
	dir, at := t.TempDir(), "127.0.0.1:"+peer.Port(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type result struct {
		report *load.VotesReport
		ids    []string
	}
	done := make(chan result, 1)
	go func() {
		report, ids, _ := load.Votes(ctx, load.VotesConfig{URL: "http://" + at, Parallel: 32, Duration: time.Hour, Patience: time.Hour})
		done <- result{report, ids}
	}()
	for range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledUnderLoad$")
		cmd.Env = append(os.Environ(), "VOTES_KILLED="+dir, "VOTES_AT="+at)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
			c, err := net.Dial("tcp", at)
			if err == nil {
				c.Close()
				break
			}
			if time.Now().After(end) {
				t.Fatal("the booth does not listen after its limit")
			}
		}
		before := logged(dir)
		for end := time.Now().Add(time.Minute); logged(dir) == before && time.Now().Before(end); {
			time.Sleep(time.Millisecond) // clients come back at their own pace
		}
		time.Sleep(time.Duration(rand.IntN(80_000)) * time.Microsecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	cancel()
	r := <-done
	if len(r.ids) == 0 {
		t.Fatal("no vote was acknowledged: the test shows nothing")
	}
	b, _ := start(t, dir, booth.Config{})
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if n, err := b.Desk().Store().Total(context.Background()); err == nil && n >= r.report.Acknowledged && b.Pending() == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("votes still wait in the log after the limit")
		}
	}
	counted(t, b.Desk().Store(), r.ids)
	n, err := b.Desk().Store().Total(context.Background())
	if err != nil || n < r.report.Acknowledged || n > r.report.Sent {
		t.Errorf("%d votes are counted %v, want between %d acknowledged and %d sent", n, err, r.report.Acknowledged, r.report.Sent)
	}
	all, err := b.Desk().Store().Tallies(context.Background(), "host", "", 10)
	if err != nil || len(all) != 1 || all[0].N != n {
		t.Errorf("the tally is %+v %v, want %d", all, err, n)
	}
	t.Logf("%d kills: %d votes acknowledged, %d counted, %d sent", rounds, r.report.Acknowledged, n, r.report.Sent)
}

// logged is the size of the log of a booth.
func logged(dir string) (size int64) {
	files, _ := filepath.Glob(filepath.Join(dir, "votes", "*.log"))
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			size += info.Size()
		}
	}
	return size
}

func TestPostgresIsKilledAndReturns(t *testing.T) {
	p := peer.NewPostgres(t)
	place, err := p.Database("votes")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := start(t, t.TempDir(), booth.Config{Listen: listen("127.0.0.1:0"), Store: place})
	ids := send(t, b, 300)
	total(t, b, 300)
	p.Kill()
	ids = append(ids, send(t, b, 400)...) // acknowledged all the same
	for end := time.Now().Add(time.Minute); len(b.Problems()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing says that votes are not counted")
		}
	}
	if n := b.Pending(); n < 400 {
		t.Errorf("%d votes wait in the log, want 400", n)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	total(t, b, 700)
	counted(t, b.Desk().Store(), ids)
}

// TestThreeNodesAndOneStore: two nodes forward to a third. The one that counts is
// away for a while, and another one is lost for good.
func TestThreeNodesAndOneStore(t *testing.T) {
	const secret = "a secret of all three"
	at := "127.0.0.1:" + peer.Port(t)
	dir := t.TempDir()
	main := booth.Config{Listen: listen(at), Secret: secret}
	a, stopA := start(t, dir, main)
	forward := booth.Config{Listen: listen("127.0.0.1:0"), Forward: "http://" + at, Secret: secret}
	b, _ := start(t, t.TempDir(), forward)
	lost := t.TempDir()
	c, stopC := start(t, lost, forward)

	ids := append(send(t, a, 100), append(send(t, b, 100), send(t, c, 100)...)...)
	total(t, a, 300)
	// One vote at two nodes counts once.
	for _, n := range []*booth.Booth{a, b, c, c} {
		sendAgain(t, n, "018f0000-0000-7000-8000-000000000001")
	}
	total(t, a, 301)
	forwarded(t, b) // and not only counted: at another node a vote may have been counted first
	forwarded(t, c)

	stopA()
	ids = append(ids, send(t, b, 100)...)
	onDisk := send(t, c, 100)
	stopC() // for good
	a, _ = start(t, dir, main)
	total(t, a, 401)
	counted(t, a.Desk().Store(), ids)

	l, err := ingest.Open(ingest.Config{Folder: filepath.Join(lost, "votes")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := l.Reader("counter")
	if err != nil {
		t.Fatal(err)
	}
	records, _, err := r.Next(context.Background(), 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, b := range records {
		v, err := vote.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		left[v.ID.String()] = true
	}
	for _, id := range onDisk {
		if !left[id] {
			t.Errorf("vote %s was not forwarded and is not on the disk", id)
		}
	}
	if len(left) != len(onDisk) {
		t.Errorf("%d votes are on the disk of the lost node, want %d", len(left), len(onDisk))
	}
}

// forwarded waits until nothing waits in the log of a booth.
func forwarded(t testing.TB, b *booth.Booth) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); b.Pending() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d votes still wait to be forwarded after 60 s", b.Pending())
		}
	}
}

// sendAgain sends a vote with a given identifier.
func sendAgain(t testing.TB, b *booth.Booth, id string) {
	t.Helper()
	body := fmt.Sprintf(`{"id":%q,"vote":"dangerous","url":"bad.example"}`, id)
	c, err := net.Dial("tcp", b.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "POST /votes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	head := make([]byte, 12)
	if _, err := c.Read(head); err != nil || !strings.HasSuffix(string(head), " 202") {
		t.Fatalf("the vote got %q (%v), want status 202", head, err)
	}
}

func TestNodesAndARedisStream(t *testing.T) {
	port := peer.Port(t)
	server := []string{"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--appendonly", "yes", "--appendfsync", "always", "--save", ""}
	peer.Start(t, "redis-server", server...)
	cfg := &redis.Config{Addresses: []string{"127.0.0.1:" + port}, Prefix: "test:"}
	nodesAndAStream(t, booth.Config{Redis: cfg}, "redis")
}

// A vote must not leave its node's log for a Redis that may lose it.
func TestVotesWaitWhileRedisMayLoseThem(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"in memory only":       {[]string{"--appendonly", "no"}, "appendonly is no"},
		"a second behind":      {[]string{"--appendonly", "yes", "--appendfsync", "everysec"}, "appendfsync is everysec"},
		"that evicts all keys": {[]string{"--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "allkeys-lru"}, "maxmemory-policy is allkeys-lru"},
	} {
		t.Run(name, func(t *testing.T) {
			port := peer.Port(t)
			peer.Start(t, "redis-server", append(c.args, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "")...)
			b, _ := start(t, t.TempDir(), booth.Config{Listen: listen("127.0.0.1:0"), Forward: "redis", Redis: &redis.Config{Addresses: []string{"127.0.0.1:" + port}}})
			sendAgain(t, b, "018f0000-0000-7000-8000-000000000001")
			waits(t, b, c.want)
		})
	}
}

func TestVotesWaitWhileNATSMayLoseThem(t *testing.T) {
	port := peer.Port(t)
	peer.Start(t, "nats-server", "-a", "127.0.0.1", "-p", port, "-js", "-sd", t.TempDir())
	conn, err := nats.Connect("nats://127.0.0.1:"+port, nats.RetryOnFailedConnect(true), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(1000))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "votes", Subjects: []string{"votes"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage})
	}
	if err != nil {
		t.Fatal(err)
	}
	b, _ := start(t, t.TempDir(), booth.Config{Listen: listen("127.0.0.1:0"), Forward: "nats", NATS: "nats://127.0.0.1:" + port})
	sendAgain(t, b, "018f0000-0000-7000-8000-000000000001")
	waits(t, b, "it is in memory")
}

// waits waits until a booth reports why its vote is not forwarded.
func waits(t *testing.T, b *booth.Booth, why string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		p := strings.Join(problem.Texts(b.Problems()), " ")
		if strings.Contains(p, why) && strings.Contains(p, "1 by now") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the problems are %q, want 1 vote that waits because %q", p, why)
		}
	}
}

// The carrier of the votes is killed while clients send, and returns.
func TestCarriersAreKilledUnderLoad(t *testing.T) {
	for name, server := range map[string]func(port, dir string) (string, []string){
		"redis": func(port, dir string) (string, []string) {
			return "redis-server", []string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--appendonly", "yes", "--appendfsync", "always", "--save", ""}
		},
		"nats": func(port, dir string) (string, []string) {
			return "nats-server", []string{"-a", "127.0.0.1", "-p", port, "-js", "-sd", dir}
		},
	} {
		t.Run(name, func(t *testing.T) {
			port := peer.Port(t)
			program, args := server(port, t.TempDir())
			running := peer.Start(t, program, args...)
			c := booth.Config{Listen: listen("127.0.0.1:0"), NATS: "nats://127.0.0.1:" + port}
			if name == "redis" {
				c.NATS, c.Redis = "", &redis.Config{Addresses: []string{"127.0.0.1:" + port}}
			}
			counts, _ := start(t, t.TempDir(), c)
			c.Forward = name
			var all []string
			b, _ := start(t, t.TempDir(), c)
			d, _ := start(t, t.TempDir(), c)
			for range 3 {
				var sending sync.WaitGroup
				var mu sync.Mutex
				for _, from := range []*booth.Booth{b, d} {
					sending.Go(func() {
						ids := send(t, from, 400) // acknowledged all the same
						mu.Lock()
						all = append(all, ids...)
						mu.Unlock()
					})
				}
				time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
				_ = running.Process.Kill()
				_ = running.Wait()
				sending.Wait()
				running = peer.Start(t, program, args...)
			}
			total(t, counts, int64(len(all)))
			counted(t, counts.Desk().Store(), all)
		})
	}
}

func TestNodesAndANATSStream(t *testing.T) {
	port := peer.Port(t)
	peer.Start(t, "nats-server", "-a", "127.0.0.1", "-p", port, "-js", "-sd", t.TempDir())
	nodesAndAStream(t, booth.Config{NATS: "nats://127.0.0.1:" + port}, "nats")
}

// nodesAndAStream has two nodes send votes through a stream to a third.
func nodesAndAStream(t *testing.T, c booth.Config, forward string) {
	c.Listen = listen("127.0.0.1:0")
	a, _ := start(t, t.TempDir(), c)
	c.Forward = forward
	b, _ := start(t, t.TempDir(), c)
	d, _ := start(t, t.TempDir(), c)
	ids := append(send(t, a, 50), append(send(t, b, 700), send(t, d, 700)...)...)
	for _, n := range []*booth.Booth{a, b, d, b} {
		sendAgain(t, n, "018f0000-0000-7000-8000-000000000001")
	}
	total(t, a, 1451)
	counted(t, a.Desk().Store(), ids)
}

func TestAutomaticRules(t *testing.T) {
	rule := booth.Automatic{Vote: "wrong", Votes: 3, Groups: setting.OneOrMore[string]{"teachers"}}
	c := booth.Config{Automatic: []booth.Automatic{rule}}
	applied := make(chan vote.Decision, 10)
	var asked atomic.Int64 // of whom somebody is told
	ctx, cancel := context.WithCancel(context.Background())
	b, err := booth.Open(ctx, c, booth.Parts{Data: t.TempDir(), Key: []byte("key"),
		Apply: func(_ context.Context, d *vote.Decision) error { applied <- *d; return nil },
		Asked: func(v *vote.Vote) { asked.Add(1) }})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); <-ended })
	defer stop()
	cast := func(user, group string) {
		v := vote.Vote{Kind: vote.Wrong, At: time.Now(), Event: vote.Event{User: user, Groups: []string{group}, Host: "a.example", Check: "category", Category: "x", Entry: "list:1"}}
		copy(v.ID[:], user+group+"                ")
		if err := b.Log().Append(ctx, v.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 10 {
		cast(fmt.Sprint("pupil", n), "pupils")
	}
	cast("t1", "teachers")
	cast("t2", "teachers")
	for b.Pending() > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	select {
	case d := <-applied:
		t.Fatalf("two teachers and ten pupils caused the decision %+v, want none", d)
	default:
	}
	cast("t3", "teachers")
	d := <-applied
	if left := time.Until(d.Until); d.Site != "a.example" || d.Action != vote.Open || d.Who != "" || left < 23*time.Hour || left > 24*time.Hour {
		t.Errorf("the automatic decision is %+v", d)
	}
	stop()
	if n := asked.Load(); n != 12 {
		t.Errorf("somebody is told of %d requests, want 12: the rule has answered the last", n)
	}
}

func TestSettingsWithMistakes(t *testing.T) {
	for want, c := range map[string]booth.Config{
		"store":               {Store: "x.db", Forward: "http://a", Secret: strings.Repeat("x", 16)},
		"redis":               {Forward: "redis"},
		"forward":             {Forward: "ftp://a"},
		"secret":              {Forward: "http://a"},
		"keep":                {Keep: setting.Duration(time.Hour)},
		"automatic[0].votes":  {Automatic: []booth.Automatic{{}}},
		"automatic[0].vote":   {Automatic: []booth.Automatic{{Vote: "x", Votes: 1}}},
		"mail":                {Mail: &booth.Mail{}},
		"too few to be safe":  {Secret: "short"},
		"automatic[0].within": {Automatic: []booth.Automatic{{Votes: 1, Within: -1}}},
	} {
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check returned %v, want a mistake with %q", err, want)
		}
	}
}
