package keyspace_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/lib/redis/keyspace"
	"shuultuur/test/redistest"
)

// connect makes a client such as the gateway has.
func connect(t *testing.T, cfg redis.Config) *redis.Client {
	t.Helper()
	c, err := redis.Connect(t.Context(), cfg, redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func set(t *testing.T, c *redis.Client, key string) {
	t.Helper()
	var b redis.Batch
	b.Add("SET", key, "v")
	if err := c.Do(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
}

type watcher struct {
	keys      chan string
	listening chan bool
	lost      chan error
}

func watch(t *testing.T, client *redis.Client, db int, patterns ...string) watcher {
	t.Helper()
	w := watcher{make(chan string, 100), make(chan bool, 100), make(chan error, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	go func() {
		keyspace.Watch(ctx, client, keyspace.Watcher{
			DB: db, Patterns: patterns,
			Changed:   func(k string) { w.keys <- k },
			Listening: func() { w.listening <- true },
			Lost:      func(err error) { w.lost <- err },
		})
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func next[T any](t *testing.T, c chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing was reported within 20 s")
		panic("not reached")
	}
}

func TestKeysThatAreWrittenAreSeen(t *testing.T) {
	s := redistest.Start(t)
	client := connect(t, redis.Config{Addresses: []string{s.Addr}})
	if err := keyspace.Enable(t.Context(), client, true); err != nil {
		t.Fatal(err)
	}
	w := watch(t, client, 0, keyspace.Escape("a[1]*:")+"*")
	next(t, w.listening)
	s.Do(t, "SET", "a1x:other", "1")
	s.Do(t, "HSET", "a[1]*:h", "f", "v")
	s.Do(t, "SET", "a[1]*:s", "v")
	s.Do(t, "SADD", "a[1]*:set", "v")
	s.Do(t, "DEL", "a[1]*:s")
	for _, want := range []string{"a[1]*:h", "a[1]*:s", "a[1]*:set", "a[1]*:s"} {
		if got := next(t, w.keys); got != want {
			t.Errorf("reported key: got %q, want %q", got, want)
		}
	}
}

func TestKeysOfOtherDatabasesAreNotSeen(t *testing.T) {
	s := redistest.Start(t, "--notify-keyspace-events", "KA")
	write := func(db int, key string) {
		c := connect(t, redis.Config{Addresses: []string{s.Addr}, DB: db})
		set(t, c, key)
	}
	w := watch(t, connect(t, redis.Config{Addresses: []string{s.Addr}, DB: 1}), 1, "*")
	next(t, w.listening)
	for _, db := range []int{0, 1, 11, 2, 1} {
		write(db, fmt.Sprintf("of%d", db))
	}
	for range 2 {
		if got := next(t, w.keys); got != "of1" {
			t.Errorf("reported key: got %q, want of1", got)
		}
	}
}

func TestAnInterruptionIsReported(t *testing.T) {
	s := redistest.Start(t, "--notify-keyspace-events", "KA")
	w := watch(t, connect(t, redis.Config{Addresses: []string{s.Addr}}), 0, "*")
	next(t, w.listening)
	s.Stop()
	next(t, w.lost)
	s.Restart(t)
	next(t, w.listening)
	s.Do(t, "SET", "back", "1")
	if got := next(t, w.keys); got != "back" {
		t.Errorf("reported key after the reconnect: got %q, want back", got)
	}
}

func TestEveryNodeOfAClusterIsHeard(t *testing.T) {
	nodes := redistest.StartCluster(t, 3)
	client := connect(t, redis.Config{Addresses: []string{nodes[0].Addr}, Cluster: true})
	if err := keyspace.Enable(t.Context(), client, true); err != nil {
		t.Fatal(err)
	}
	w := watch(t, client, 0, "k*")
	for range 3 {
		next(t, w.listening)
	}
	want := map[string]bool{}
	for _, k := range []string{"k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"} {
		want[k] = true
		set(t, client, k)
	}
	for len(want) > 0 {
		delete(want, next(t, w.keys))
	}
}

func TestNotificationsAreAskedFor(t *testing.T) {
	s := redistest.Start(t, "--notify-keyspace-events", "Ez")
	client := connect(t, redis.Config{Addresses: []string{s.Addr}})
	err := keyspace.Enable(t.Context(), client, false)
	if err == nil || !strings.Contains(err.Error(), "CONFIG SET") {
		t.Errorf("Enable without permission to set: got %v, want advice", err)
	}
	if err := keyspace.Enable(t.Context(), client, true); err != nil {
		t.Fatal(err)
	}
	if err := keyspace.Enable(t.Context(), client, false); err != nil {
		t.Errorf("once set: %v", err)
	}
	if got := s.Do(t, "CONFIG", "GET", "notify-keyspace-events").String(); !strings.Contains(got, "E") || !strings.Contains(got, "z") {
		t.Errorf("Enable removed classes that were set: %s", got)
	}
	s.Do(t, "ACL", "SETUSER", "reader", "on", ">secret", "~*", "&*", "+@read", "+@connection", "+psubscribe")
	bound := connect(t, redis.Config{Addresses: []string{s.Addr}, Username: "reader", Password: "secret"})
	if err := keyspace.Enable(t.Context(), bound, true); err == nil || !strings.Contains(err.Error(), "reload") {
		t.Errorf("Enable as a user that may not read the setting: got %v", err)
	}
}
