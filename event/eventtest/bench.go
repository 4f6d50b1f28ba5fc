package eventtest

import (
	"path/filepath"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/lib/platform"
)

// Bench measures writing batches of 10,000 rows, in wall-clock and processor time.
func Bench(b *testing.B, open func(path string) (event.Store, error)) {
	st, err := open(filepath.Join(b.TempDir(), "events"))
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	rows := Rows(Start(), 10_000)
	b.ReportAllocs()
	n, start := 0, platform.CPU()
	for b.Loop() {
		for i := range rows {
			rows[i].Time = rows[i].Time.Add(time.Second)
		}
		if err := st.Write(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
		n += len(rows)
	}
	b.ReportMetric(float64(platform.CPU()-start)/float64(n), "cpu-ns/row")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/row")
}
