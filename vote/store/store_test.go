package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"shuultuur/test/peer"
	"shuultuur/vote"
	"shuultuur/vote/store"
	"shuultuur/vote/storetest"
)

func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) vote.Store { return open(t, filepath.Join(t.TempDir(), "votes?.db")) })
}

func open(t testing.TB, place string) vote.Store {
	t.Helper()
	s, err := store.Open(context.Background(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestPostgres(t *testing.T) {
	p := peer.NewPostgres(t)
	n := 0
	storetest.Run(t, func(t *testing.T) vote.Store {
		n++
		place, err := p.Database(fmt.Sprint("votes", n))
		if err != nil {
			t.Fatal(err)
		}
		return open(t, place)
	})
}

// BenchmarkCount counts batches of 10,000 votes of as many clients.
func BenchmarkCount(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "votes.db"))
	n := 0
	for b.Loop() {
		if _, err := s.Count(context.Background(), storetest.Votes(n, n+10_000)); err != nil {
			b.Fatal(err)
		}
		n += 10_000
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "votes/s")
}
