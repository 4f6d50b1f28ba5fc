package state_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/lib/setting"
	"shuultuur/state"
	"shuultuur/state/statetest"
	"shuultuur/test/redistest"
)

func TestMemory(t *testing.T) {
	statetest.Run(t, func(t *testing.T, test func(*testing.T, statetest.Store)) {
		synctest.Test(t, func(t *testing.T) {
			m, err := state.New(state.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			test(t, m)
		})
	})
}

// node opens a store at a Redis and runs it until the test ends.
func node(t *testing.T, r state.Redis) state.Store {
	return nodeIn(t, r, "")
}

// nodeIn is node with a data folder.
func nodeIn(t *testing.T, r state.Redis, data string) state.Store {
	t.Helper()
	r.Wait = setting.Duration(time.Second) // the machine may be busy with other work
	s, err := state.Open(state.Config{Redis: &r}, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestFleet(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) state.Redis{
		"one server": func(t *testing.T) state.Redis {
			return state.Redis{Config: redis.Config{Addresses: []string{redistest.Start(t).Addr}}}
		},
		"Valkey": func(t *testing.T) state.Redis {
			return state.Redis{Config: redis.Config{Addresses: []string{redistest.StartValkey(t).Addr}}}
		},
		"a cluster": func(t *testing.T) state.Redis {
			return state.Redis{Config: redis.Config{Addresses: []string{redistest.StartCluster(t, 3)[0].Addr}, Cluster: true}}
		},
		"a Sentinel": func(t *testing.T) state.Redis {
			return state.Redis{Config: redis.Config{Addresses: []string{redistest.StartSentinel(t, redistest.Start(t), "fleet").Addr}, Sentinel: "fleet"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := start(t)
			var n atomic.Int64
			fresh := func() state.Redis { // so that no test sees the writes of another
				r := at
				r.Prefix = fmt.Sprintf("t%d:", n.Add(1))
				return r
			}
			if name != "a Sentinel" { // the client takes every address that answers for one server
				statetest.Run(t, func(t *testing.T, test func(*testing.T, statetest.Store)) {
					t.Parallel()
					test(t, node(t, fresh()))
				})
			}
			statetest.RunNodes(t, func(t *testing.T, test func(*testing.T, statetest.Store, statetest.Store)) {
				t.Parallel()
				r := fresh()
				test(t, node(t, r), node(t, r))
			})
		})
	}
}
