package sqlite

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/lib/platform"
)

// BenchmarkIndexCost measures the index's share in the cost of a row. It writes batches with
// and without an index into two databases, alternating.
func BenchmarkIndexCost(b *testing.B) {
	const batch = 10_000
	with, alone := costStore(b, "with.db"), costStore(b, "alone.db")
	now := time.Now().UTC().Truncate(time.Microsecond)
	var spent [2]time.Duration
	var ratios []float64
	var at [2]time.Duration
	n := 0
	for b.Loop() {
		rows := eventtest.Rows(now.Add(time.Duration(n)*batch*50*time.Microsecond), batch)
		before := platform.CPU()
		if err := with.Write(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
		middle := platform.CPU()
		last, err := alone.w.write(alone.last, alone.limit, rows, func(int64, *event.Row) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		alone.last = last
		after := platform.CPU()
		spent[0] += middle - before
		spent[1] += after - middle
		n++
		if n%20 == 0 {
			ratios = append(ratios, float64(spent[0]-at[0])/float64(spent[1]-at[1]))
			at = spent
		}
	}
	rows := float64(n) * batch
	b.ReportMetric(float64(spent[0].Nanoseconds())/rows, "cpu-ns/row")
	b.ReportMetric(float64(spent[1].Nanoseconds())/rows, "cpu-ns/row-alone")
	b.ReportMetric(float64(spent[0])/float64(spent[1]), "ratio")
	if len(ratios) > 0 {
		b.ReportMetric(slices.Min(ratios), "least")
		b.ReportMetric(slices.Max(ratios), "most")
	}
}

func costStore(b *testing.B, name string) *Store {
	b.Helper()
	s, err := Open(filepath.Join(b.TempDir(), name), year)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}
