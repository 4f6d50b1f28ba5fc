package sqlite

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"shuultuur/event/eventtest"
)

func BenchmarkStore(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "events.db"), 1000*24*time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	rows := eventtest.Rows(10_000)
	b.ReportAllocs()
	n := 0
	start := cpu()
	for b.Loop() {
		for i := range rows {
			rows[i].Time = rows[i].Time.Add(time.Second)
		}
		if err := s.Write(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
		n += len(rows)
	}
	b.ReportMetric(float64(cpu()-start)/float64(n), "cpu-ns/row")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/row")
}

// cpu returns the processor time this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
