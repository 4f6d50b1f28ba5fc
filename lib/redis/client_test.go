package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/redistest"
)

func TestManyCallersShareAConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := connect(t, at(s.Addr), redis.Options{})
	var work sync.WaitGroup
	for g := range 16 {
		work.Go(func() {
			var b redis.Batch
			for i := range 300 {
				b.Reset()
				key, want := fmt.Sprintf("k%d", g), strconv.Itoa(i)
				b.Add("SET", key, want)
				b.Add("GET", key)
				b.Add("LPUSH", key, "x") // refused: the others are executed
				b.Add("GET", key)
				if err := c.Do(t.Context(), &b); redis.Code(err) != "WRONGTYPE" {
					t.Errorf("command on a value of another type: got %v, want WRONGTYPE", err)
					return
				}
				if i, _ := b.Failed(); i != 2 {
					t.Errorf("command %d was refused first, want 2", i)
				}
				for _, at := range []int{1, 3} {
					if got, err := b.Reply(at).Text(); got != want || err != nil {
						t.Errorf("reply %d: got %q, %v; want %q", at, got, err, want)
					}
				}
			}
		})
	}
	work.Wait()
	if n := strings.Count(s.Do(t, "CLIENT", "LIST").String(), "name=shuultuur"); n != 2 { // the test has a separate one
		t.Errorf("%d connections named shuultuur, want 2", n)
	}
}

func TestACallerThatGivesUpDisturbsNobody(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := connect(t, at(s.Addr), redis.Options{})
	s.Pause(t)
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		var b redis.Batch
		b.Add("ECHO", "late")
		if err := c.Do(ctx, &b); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do with a paused server: got %v, want a deadline", err)
		}
		cancel()
	}
	s.Resume(t)
	for i := range 20 {
		if got, _ := do(t, c, "ECHO", strconv.Itoa(i)).Text(); got != strconv.Itoa(i) {
			t.Errorf("ECHO after late replies: got %q, want %d", got, i)
		}
	}
}

func TestASilentServerLosesItsConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := connect(t, at(s.Addr), redis.Options{})
	s.Pause(t)
	var b redis.Batch
	b.Add("PING")
	began := time.Now()
	err := c.Do(t.Context(), &b)
	if took := time.Since(began); err == nil || took > 5*time.Second {
		t.Errorf("%v after %v, want an error after 2 s", err, took)
	}
	s.Resume(t)
	waittest.Until(t, "it answers again", func() bool {
		var b redis.Batch
		b.Add("PING")
		return c.Do(t.Context(), &b) == nil
	})
}

func TestConnectsAgainAfterARestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := connect(t, at(s.Addr), redis.Options{})
	s.Stop()
	attempts := 0
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); attempts++ {
		var b redis.Batch
		b.Add("PING")
		if err := c.Do(t.Context(), &b); err == nil {
			t.Fatal("Do with a stopped server returned no error")
		}
	}
	s.Restart(t)
	waittest.Until(t, "it answers again", func() bool {
		var b redis.Batch
		b.Add("PING")
		return c.Do(t.Context(), &b) == nil
	})
}

// keys collects invalidated keys.
type keys struct {
	mu  sync.Mutex
	all []string
}

func (k *keys) add(key []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key == nil {
		k.all = append(k.all, "all")
	} else {
		k.all = append(k.all, string(key))
	}
}

func (k *keys) has(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.all, key)
}

func TestTrackedKeysAreReportedWhenTheyChange(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (redis.Config, *redistest.Server){
		"one server": func(t *testing.T) (redis.Config, *redistest.Server) {
			s := redistest.Start(t)
			return at(s.Addr), s
		},
		"a cluster": func(t *testing.T) (redis.Config, *redistest.Server) {
			all := redistest.StartCluster(t, 3)
			return redis.Config{Addresses: []string{all[0].Addr}, Cluster: true}, all[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, s := start(t)
			var changed keys
			c := connect(t, cfg, redis.Options{Invalid: changed.add})
			other := connect(t, cfg, redis.Options{})
			for _, k := range []string{"a", "b", "c", "d", "untracked"} {
				var b redis.Batch
				var then atomic.Int32
				b.Then = func(b *redis.Batch) { then.Add(1) }
				if k == "untracked" {
					b.Add("GET", k)
				} else {
					b.AddTracked("GET", k)
				}
				if err := c.Do(t.Context(), &b); err != nil || !b.Reply(0).Null() || then.Load() != 1 {
					t.Errorf("%s: got %v, %v, callback called %d times", k, b.Reply(0), err, then.Load())
				}
			}
			for _, k := range []string{"a", "b", "c", "untracked"} {
				do(t, other, "SET", k, "x")
			}
			for _, k := range []string{"a", "b", "c"} {
				waittest.Until(t, k+" is reported", func() bool { return changed.has(k) })
			}
			if changed.has("d") || changed.has("untracked") || changed.has("all") {
				t.Errorf("changes were reported for keys that are not tracked: %q", changed.all)
			}
			// A client that loses the connection must drop everything.
			s.Do(t, "CLIENT", "KILL", "TYPE", "normal")
			waittest.Until(t, "all are reported", func() bool { return changed.has("all") })
		})
	}
}

// listen subscribes until the test is over, and again after each error.
func listen(t *testing.T, c *redis.Client, s redis.Subscription) (ready chan struct{}) {
	t.Helper()
	ready = make(chan struct{}, 100)
	s.Ready = func() { ready <- struct{}{} }
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = c.Subscribe(ctx, s)
			time.Sleep(10 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return ready
}

func TestMessagesArriveInOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := connect(t, at(s.Addr), redis.Options{})
	got := make(chan string, 100)
	ready := listen(t, c, redis.Subscription{Channels: []string{"one", "two"}, Patterns: []string{"p*"}, Message: func(channel string, payload []byte) {
		got <- channel + " " + string(payload)
	}})
	<-ready
	for _, m := range []string{"one a\r\nb", "two ", "pat \x00", "three x", "one last"} {
		channel, payload, _ := strings.Cut(m, " ")
		do(t, c, "PUBLISH", channel, payload)
		if channel == "three" {
			continue
		}
		if m != <-got {
			t.Errorf("message %q did not arrive next", m)
		}
	}
	s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	<-ready
	do(t, c, "PUBLISH", "one", "again")
	if m := <-got; m != "one again" {
		t.Errorf("message after the reconnect: got %q, want one again", m)
	}
}

func TestARefusedSubscriptionSaysWhy(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "quiet", "on", ">secret", "~*", "resetchannels", "+@all")
	c := connect(t, redis.Config{Addresses: []string{s.Addr}, Username: "quiet", Password: "secret"}, redis.Options{})
	if err := c.Subscribe(t.Context(), redis.Subscription{Channels: []string{"x"}}); redis.Code(err) != "NOPERM" {
		t.Errorf("Subscribe without permission: got %v, want NOPERM", err)
	}
}

func TestKeysThatMoveAreFound(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	c := connect(t, redis.Config{Addresses: []string{nodes[2].Addr}, Cluster: true}, redis.Options{})
	const key = "{moving}"
	slot := s(t, nodes[0].Do(t, "CLUSTER", "KEYSLOT", key+"a"))
	var from, to *redistest.Server
	ids := map[*redistest.Server]string{}
	for _, n := range nodes {
		ids[n] = s(t, n.Do(t, "CLUSTER", "MYID"))
	}
	for i := range 20 {
		do(t, c, "SET", key+strconv.Itoa(i), strconv.Itoa(i))
	}
	for _, n := range nodes {
		if s(t, n.Do(t, "CLUSTER", "COUNTKEYSINSLOT", slot)) == "20" {
			from = n
		} else {
			to = n
		}
	}
	all := func(when string) {
		t.Helper()
		var b redis.Batch
		for i := range 20 {
			b.Add("GET", key+strconv.Itoa(i))
			b.Add("GET", "elsewhere"+strconv.Itoa(i))
		}
		if err := c.Do(t.Context(), &b); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		for i := range 20 {
			if got, err := b.Reply(2 * i).Text(); got != strconv.Itoa(i) || err != nil {
				t.Errorf("%s: key %d: got %q, %v", when, i, got, err)
			}
		}
		session := c.Session(t.Context(), 100)
		defer session.Close()
		if err := session.Strings(20, func(i int, b []byte) []byte { return append(b, key+strconv.Itoa(i)...) }, func(i int, v []byte) error {
			if string(v) != strconv.Itoa(i) {
				t.Errorf("%s: session: got %q for key %d", when, v, i)
			}
			return nil
		}); err != nil {
			t.Errorf("%s: session failed: %v", when, err)
		}
	}
	all("before")
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from])
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to])
	all("when it begins")
	_, port, _ := net.SplitHostPort(to.Addr)
	for i := range 10 {
		from.Do(t, "MIGRATE", "127.0.0.1", port, key+strconv.Itoa(i), "0", "5000")
	}
	all("in the middle")
	for i := range 10 {
		from.Do(t, "MIGRATE", "127.0.0.1", port, key+strconv.Itoa(10+i), "0", "5000")
	}
	for _, n := range []*redistest.Server{to, from} {
		n.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", ids[to])
	}
	all("afterwards")
	waittest.Until(t, "its new node is known", func() bool {
		before := s(t, from.Do(t, "INFO", "commandstats"))
		all("later")
		return rejected(before) == rejected(s(t, from.Do(t, "INFO", "commandstats")))
	})
}

// s returns the text of a reply.
func s(t testing.TB, r redis.Reply) string {
	t.Helper()
	text, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// rejected returns how many GETs a server has redirected, by its statistics.
func rejected(stats string) string {
	_, line, _ := strings.Cut(stats, "cmdstat_get:")
	_, line, _ = strings.Cut(line, "rejected_calls=")
	line, _, _ = strings.Cut(line, ",")
	return line
}

func TestTheNextMasterIsFound(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	host, port, _ := net.SplitHostPort(master.Addr)
	replica := redistest.Start(t, "--replicaof", host+" "+port)
	waittest.Until(t, "the replica has caught up", func() bool {
		return strings.Contains(s(t, replica.Do(t, "INFO", "replication")), "master_link_status:up")
	})
	watcher := redistest.StartSentinel(t, master, "fleet")
	waittest.Until(t, "the Sentinel knows the replica", func() bool {
		return strings.Contains(s(t, watcher.Do(t, "INFO", "sentinel")), "slaves=1")
	})
	c := connect(t, redis.Config{Addresses: []string{watcher.Addr}, Sentinel: "fleet"}, redis.Options{})
	do(t, c, "SET", "a", "1")
	waittest.Until(t, "the replica has it", func() bool { return s(t, replica.Do(t, "GET", "a")) == "1" })
	master.Pause(t) // it hangs, so that connections to it stay
	defer master.Resume(t)
	waittest.Until(t, "the replica is the master", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var b redis.Batch
		b.Add("SET", "a", "2")
		return c.Do(ctx, &b) == nil
	})
	if got := s(t, replica.Do(t, "GET", "a")); got != "2" {
		t.Errorf("the replica has %q, want 2", got)
	}
}

func TestClosedClientsLeaveNothing(t *testing.T) {
	server := redistest.Start(t)
	cluster := redistest.StartCluster(t, 3)
	sentinel := redistest.StartSentinel(t, redistest.Start(t), "fleet")
	server.Do(t, "PING")
	before := runtime.NumGoroutine()
	for range 3 {
		for _, cfg := range []redis.Config{at(server.Addr), {Addresses: []string{cluster[0].Addr}, Cluster: true}, {Addresses: []string{sentinel.Addr}, Sentinel: "fleet"}} {
			c, err := redis.Connect(t.Context(), cfg, redis.Options{Invalid: func([]byte) {}})
			if err != nil {
				t.Fatal(err)
			}
			do(t, c, "SET", "a", "b")
			c.Close()
			var b redis.Batch
			b.Add("PING")
			if err := c.Do(t.Context(), &b); err == nil {
				t.Error("Do on a closed client returned no error")
			}
		}
	}
	waittest.Until(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}
