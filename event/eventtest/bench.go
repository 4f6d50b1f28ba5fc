package eventtest

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"shuultuur/event"
)

// Bench measures batches of 10,000 rows: wall clock and processor time.
func Bench(b *testing.B, open func(path string) (event.Store, error)) {
	st, err := open(filepath.Join(b.TempDir(), "events"))
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	rows := Rows(Start(), 10_000)
	b.ReportAllocs()
	n, start := 0, CPU()
	for b.Loop() {
		for i := range rows {
			rows[i].Time = rows[i].Time.Add(time.Second)
		}
		if err := st.Write(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
		n += len(rows)
	}
	b.ReportMetric(float64(CPU()-start)/float64(n), "cpu-ns/row")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/row")
}

// CPU returns the processor time that this process has used, 0 if that is not
// known.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
