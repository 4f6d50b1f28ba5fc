package state_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/state"
	"shuultuur/state/statetest"
	"shuultuur/test/redistest"
)

// BenchmarkFleet measures the cost of a request on this node: for an unknown verdict, asked for
// the first time and again; for one that another node has learned; for storing one; for a
// limit.
func BenchmarkFleet(b *testing.B) {
	r := state.Redis{Config: redis.Config{Addresses: []string{redistest.Start(b).Addr}}}
	s, err := state.Open(state.Config{Redis: &r}, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	defer func() { stop(); <-done; s.Close() }()
	n := uint64(1 << 32)
	b.Run("verdict nobody has", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n++
			s.Get(ctx, statetest.Key(n))
		}
	})
	b.Run("the same again", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Get(ctx, statetest.Key(n))
		}
	})
	b.Run("put", func(b *testing.B) {
		b.ReportAllocs()
		v := binary.BigEndian.AppendUint64(nil, 1)
		for b.Loop() {
			n++
			s.Put(ctx, statetest.Key(n), v, time.Hour)
		}
	})
	b.Run("limit", func(b *testing.B) {
		b.ReportAllocs()
		counts := []state.Count{{Key: statetest.Key(1), Window: time.Minute, Add: 1, Most: 1 << 40}}
		for b.Loop() {
			s.Count(ctx, counts)
		}
	})
}
