package state_test

import (
	"strconv"
	"testing"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/lib/wait/waittest"
	"shuultuur/state"
	"shuultuur/state/statetest"
	"shuultuur/test/redistest"
)

// asksRedis reports whether the store goes to Redis for an unknown verdict.
func asksRedis(t *testing.T, s state.Store, n *uint64) bool {
	before := s.Stats().Trips
	for range 10 {
		*n++
		if _, ok := s.Get(t.Context(), statetest.Key(*n)); ok {
			t.Fatalf("Get finds a verdict %d, which nobody has put", *n)
		}
	}
	return s.Stats().Trips-before > 1 // the filter may have false positives
}

func TestOnlyAnnouncedKeysAreQueried(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (state.Redis, []*redistest.Server){
		"one server": func(t *testing.T) (state.Redis, []*redistest.Server) {
			s := redistest.Start(t)
			return state.Redis{Config: redis.Config{Addresses: []string{s.Addr}, Prefix: "a*b:"}}, []*redistest.Server{s}
		},
		"a cluster": func(t *testing.T) (state.Redis, []*redistest.Server) {
			all := redistest.StartCluster(t, 3)
			return state.Redis{Config: redis.Config{Addresses: []string{all[0].Addr}, Cluster: true, Prefix: "a*b:"}}, all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const each = 3000
			at, servers := start(t)
			nobody := uint64(1 << 32)
			put := func(s state.Store, from uint64) {
				for i := range uint64(each) {
					s.Put(t.Context(), statetest.Key(from+i), []byte(strconv.FormatUint(from+i, 10)), time.Hour)
				}
			}
			keys := func() (n int64) {
				for _, s := range servers {
					m := s.Do(t, "DBSIZE")
					one, err := m.Int()
					if err != nil {
						t.Fatal(err)
					}
					n += one
				}
				return n
			}
			listeners := func() (n int64) {
				for _, s := range servers {
					m := s.Do(t, "PUBSUB", "NUMSUB", at.Prefix+"learned")
					pair, err := m.Texts() // name and number of subscribers of the channel
					if err != nil {
						t.Fatal(err)
					}
					one, err := strconv.ParseInt(pair[1], 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					n += one
				}
				return n
			}
			all := func(who string, s state.Store, from uint64) {
				t.Helper()
				for i := range uint64(each) {
					want := strconv.FormatUint(from+i, 10)
					if v, ok := s.Get(t.Context(), statetest.Key(from+i)); !ok || string(v) != want {
						t.Fatalf("%s gets %q, %v for verdict %s", who, v, ok, want)
					}
				}
			}
			a := node(t, at)
			waittest.Until(t, "a need not ask", func() bool { return !asksRedis(t, a, &nobody) })
			put(a, 0)
			waittest.Until(t, "all is in Redis", func() bool { return keys() > each })

			b := node(t, at)
			waittest.Until(t, "b need not ask", func() bool { return !asksRedis(t, b, &nobody) })
			all("b, who came later,", b, 0)
			put(b, each)
			last := statetest.Key(2*each - 1)
			waittest.Until(t, "a hears of what b has brought", func() bool { _, ok := a.Get(t.Context(), last); return ok })
			all("a", a, each)

			// A finds later the announcements that it missed while it did not listen.
			for _, s := range servers {
				s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
			}
			put(b, 2*each)
			waittest.Until(t, "the rest is in Redis", func() bool { return keys() > 3*each })
			waittest.Until(t, "both listen again", func() bool { return listeners() == 2 })
			waittest.Until(t, "a need not ask again", func() bool { return !asksRedis(t, a, &nobody) })
			all("a, back again,", a, 2*each)
			if d := a.Stats().Dropped + b.Stats().Dropped; d > 0 {
				t.Errorf("%d verdicts were dropped", d)
			}
		})
	}
}
