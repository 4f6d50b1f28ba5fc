package state_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/peertest"
	"shuultuur/state"
	"shuultuur/state/redistest"
	"shuultuur/state/statetest"
)

func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("15 s later it is still not so that %s", what)
		}
	}
}

func add(s state.Store, key uint64, n int64) state.Count {
	c := []state.Count{{Key: statetest.Key(key), Until: time.Now().Add(time.Hour), Add: n}}
	s.Count(context.Background(), c)
	return c[0]
}

// What happens to Redis, and how it is undone. forgets says that it comes
// back empty.
var troubles = map[string]struct {
	begin, end func(t *testing.T, r *redistest.Server)
	forgets    bool
}{
	"killed": {
		func(t *testing.T, r *redistest.Server) { r.Stop() },
		func(t *testing.T, r *redistest.Server) { r.Restart(t) }, true},
	"paused": {
		func(t *testing.T, r *redistest.Server) { r.Pause(t) },
		func(t *testing.T, r *redistest.Server) { r.Resume(t) }, false},
	"full": {
		func(t *testing.T, r *redistest.Server) { r.Do(t, "CONFIG", "SET", "maxmemory", "1") },
		func(t *testing.T, r *redistest.Server) { r.Do(t, "CONFIG", "SET", "maxmemory", "0") }, false},
}

func TestGoesOnWithoutRedisAndReconciles(t *testing.T) {
	t.Parallel()
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t)
			at := state.Redis{Addresses: []string{r.Addr}}
			a, b := node(t, at, nil), node(t, at, nil)
			add(a, 1, 10)
			add(b, 1, 5)
			a.Put(t.Context(), statetest.Key(1), []byte("before"), time.Hour)
			soon(t, "both know of 15", func() bool { return add(a, 1, 0).Sum == 15 && add(b, 1, 0).Sum == 15 })

			trouble.begin(t, r)
			// Traffic notices.
			soon(t, "both say that Redis is lost", func() bool {
				for i, s := range []state.Store{a, b} {
					add(s, uint64(100+i), 1)
					s.Put(t.Context(), statetest.Key(99), []byte("x"), time.Hour)
				}
				return a.Stats().Lost != "" && b.Stats().Lost != ""
			})
			if n := add(a, 1, 100); n.Known || n.Sum != 115 {
				t.Errorf("a: sum %d, known %v; want 115 by what it knew, and not known", n.Sum, n.Known)
			}
			add(b, 1, 1000)
			a.Put(t.Context(), statetest.Key(2), []byte("meanwhile"), time.Hour)
			if v, ok := a.Get(t.Context(), statetest.Key(2)); !ok || string(v) != "meanwhile" {
				t.Errorf("a has forgotten what it learned meanwhile: %q, %v", v, ok)
			}
			before := a.Stats().Trips
			start := time.Now()
			for i := range uint64(1000) {
				add(a, 1000+i, 1)
				a.Get(t.Context(), statetest.Key(1000+i))
			}
			if took, trips := time.Since(start), a.Stats().Trips-before; trips > 0 {
				t.Errorf("with Redis lost, %d of 1000 requests waited for it, %v in all", trips, took)
			}

			trouble.end(t, r)
			soon(t, "both have Redis again", func() bool { return a.Stats().Lost == "" && b.Stats().Lost == "" })
			soon(t, "both know of 1115", func() bool { return add(a, 1, 0).Sum == 1115 && add(b, 1, 0).Sum == 1115 })
			soon(t, "b knows what a learned meanwhile", func() bool {
				v, ok := b.Get(t.Context(), statetest.Key(2))
				return ok && string(v) == "meanwhile"
			})
			if n := a.Stats().Losses; n != 1 {
				t.Errorf("lost %d times, want once", n)
			}
		})
	}
}

func TestStartsWithoutRedis(t *testing.T) {
	at := state.Redis{Addresses: []string{"127.0.0.1:" + peertest.Port(t)}}
	s := node(t, at, nil)
	if lost := s.Stats().Lost; !strings.Contains(lost, "refused") {
		t.Errorf("lost: %q, want it to say why", lost)
	}
	if n := add(s, 1, 7); n.Known || n.Sum != 7 {
		t.Errorf("%+v, want 7 and not known", n)
	}
}

func TestWhatOnePublishesTheOthersHear(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	at := state.Redis{Addresses: []string{r.Addr}}
	var mu sync.Mutex
	heard := map[string][]string{}
	listen := func(who string) func(topic, version string) {
		return func(topic, version string) {
			mu.Lock()
			defer mu.Unlock()
			heard[who] = append(heard[who], topic+" "+version)
		}
	}
	got := func(who string) string { mu.Lock(); defer mu.Unlock(); return strings.Join(heard[who], ", ") }
	a, b := node(t, at, listen("a")), node(t, at, listen("b"))
	soon(t, "both listen", func() bool {
		m := r.Do(t, "PUBSUB", "NUMSUB", "shuultuur:changes")
		n, _ := m.ToArray()
		subscribed, _ := n[1].AsInt64()
		return subscribed == 2
	})
	if err := a.Publish(t.Context(), "list/ads", "v1"); err != nil {
		t.Fatal(err)
	}
	soon(t, "b hears it", func() bool { return got("b") == "list/ads v1" })
	if err := b.Publish(t.Context(), "list/ads", "v2"); err != nil {
		t.Fatal(err)
	}
	soon(t, "a hears the next", func() bool { return got("a") == "list/ads v2" })
	node(t, at, listen("late"))
	soon(t, "who comes late hears the last", func() bool { return got("late") == "list/ads v2" })

	// What is published while one is away is heard when it is back.
	r.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	if err := b.Publish(t.Context(), "list/ads", "v3"); err != nil {
		t.Fatal(err)
	}
	soon(t, "a hears it all the same", func() bool { return strings.HasSuffix(got("a"), "list/ads v3") })
	if err := a.Publish(t.Context(), "two words", "v"); err == nil {
		t.Error("a topic of two words was published")
	}
}

func TestLeavesNoGoroutines(t *testing.T) {
	r := redistest.Start(t)
	before := runtime.NumGoroutine()
	for range 3 {
		s, err := state.Open(state.Config{Redis: &state.Redis{Addresses: []string{r.Addr}}}, "", "", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		add(s, 1, 1)
		stop()
		<-done
		s.Close()
	}
	soon(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
	m := r.Do(t, "HVALS", "shuultuur:c:"+fmt.Sprintf("%x", statetest.Key(1)))
	if all, err := m.ToArray(); err != nil || len(all) != 3 {
		t.Error("what was counted last was not sent")
	}
}
