package state_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/lib/wait/waittest"
	"shuultuur/state"
	"shuultuur/state/statetest"
	"shuultuur/test/peer"
	"shuultuur/test/redistest"
)

func add(s state.Store, key uint64, n int64) state.Count {
	c := []state.Count{{Key: statetest.Key(key), Until: time.Now().Add(time.Hour), Add: n}}
	s.Count(context.Background(), c)
	return c[0]
}

// troubles are faults of Redis, and their repairs. forgets says that Redis comes back empty.
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
			at := state.Redis{Config: redis.Config{Addresses: []string{r.Addr}}}
			a, b := node(t, at), node(t, at)
			add(a, 1, 10)
			add(b, 1, 5)
			a.Put(t.Context(), statetest.Key(1), []byte("before"), time.Hour)
			waittest.Until(t, "both know of 15", func() bool { return add(a, 1, 0).Sum == 15 && add(b, 1, 0).Sum == 15 })

			trouble.begin(t, r)
			// Traffic notices.
			waittest.Until(t, "both say that Redis is lost", func() bool {
				for i, s := range []state.Store{a, b} {
					add(s, uint64(100+i), 1)
					s.Put(t.Context(), statetest.Key(99), []byte("x"), time.Hour)
				}
				return a.Stats().Lost != "" && b.Stats().Lost != ""
			})
			if n := add(a, 1, 100); n.Known || n.Sum != 115 {
				t.Errorf("a counts %d, known %v; want 115 from its memory, and not known", n.Sum, n.Known)
			}
			add(b, 1, 1000)
			a.Put(t.Context(), statetest.Key(2), []byte("meanwhile"), time.Hour)
			if v, ok := a.Get(t.Context(), statetest.Key(2)); !ok || string(v) != "meanwhile" {
				t.Errorf("a has forgotten what it learned while Redis was away: %q, %v", v, ok)
			}
			before := a.Stats().Trips
			start := time.Now()
			for i := range uint64(1000) {
				add(a, 1000+i, 1)
				a.Get(t.Context(), statetest.Key(1000+i))
			}
			if took, trips := time.Since(start), a.Stats().Trips-before; trips > 0 {
				t.Errorf("while Redis was lost, %d of 1000 requests waited for it, %v in all", trips, took)
			}

			trouble.end(t, r)
			waittest.Until(t, "both have Redis again", func() bool { return a.Stats().Lost == "" && b.Stats().Lost == "" })
			waittest.Until(t, "both know of 1115", func() bool { return add(a, 1, 0).Sum == 1115 && add(b, 1, 0).Sum == 1115 })
			waittest.Until(t, "b knows what a learned meanwhile", func() bool {
				v, ok := b.Get(t.Context(), statetest.Key(2))
				return ok && string(v) == "meanwhile"
			})
			if n := a.Stats().Losses; n < 1 { // on a busy machine it may be lost once more
				t.Errorf("Redis counts as lost %d times, want once", n)
			}
		})
	}
}

func TestStartsWithoutRedis(t *testing.T) {
	at := state.Redis{Config: redis.Config{Addresses: []string{"127.0.0.1:" + peer.Port(t)}}}
	s := node(t, at)
	if lost := s.Stats().Lost; !strings.Contains(lost, "refused") {
		t.Errorf("the reason of the loss is %q", lost)
	}
	if n := add(s, 1, 7); n.Known || n.Sum != 7 {
		t.Errorf("the count is %+v, want 7 and not known", n)
	}
}

func TestLeavesNoGoroutines(t *testing.T) {
	r := redistest.Start(t)
	before := runtime.NumGoroutine()
	for range 3 {
		s, err := state.Open(state.Config{Redis: &state.Redis{Config: redis.Config{Addresses: []string{r.Addr}}}}, "", nil)
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
	waittest.Until(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
	m := r.Do(t, "HVALS", "shuultuur:c:"+fmt.Sprintf("%x", statetest.Key(1)))
	if all, err := m.Texts(); err != nil || len(all) != 3 {
		t.Error("the last counts were not sent to Redis")
	}
}

func key(n uint64) [16]byte { return statetest.Key(n) }

// limited counts one more against a limit, and reports whether the limit is used up.
func limited(s state.Store, k uint64, most int64) bool {
	c := []state.Count{{Key: key(k), Until: time.Now().Add(time.Hour), Add: 1, Most: most}}
	s.Count(context.Background(), c)
	return c[0].Over
}

func TestRefusalsOfAnyKindCountAsALoss(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s := node(t, at(r))
	add(s, 1, 1)
	r.Do(t, "ACL", "SETUSER", "default", "-hset")
	waittest.Until(t, "it is lost", func() bool { return !add(s, 2, 1).Known && s.Stats().Lost != "" })
	if lost := s.Stats().Lost; !strings.Contains(lost, "NOPERM") {
		t.Errorf("the reason of the loss is %q", lost)
	}
}
