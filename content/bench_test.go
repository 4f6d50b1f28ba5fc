//go:build unix

package content

import (
	"syscall"
	"testing"
	"time"
)

// processorTime returns the processor time used so far, because wall time means little on a busy
// machine.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkText(b *testing.B) {
	_, bodies := pages(b)
	for _, coding := range []string{"identity", "gzip", "br", "zstd"} {
		b.Run(coding, func(b *testing.B) {
			var wires [][]byte
			var size int64
			for _, p := range bodies {
				wires = append(wires, encode(b, coding, p))
				size += int64(len(p))
			}
			var body Body
			head := Describe("text/html; charset=utf-8", coding)
			b.SetBytes(size)
			b.ReportAllocs()
			from := processorTime()
			for b.Loop() {
				for _, w := range wires {
					body.Reset(head, Limits{})
					body.Append(w)
					body.Finish()
					if _, err := body.Text(); err != nil {
						b.Fatal(err)
					}
					body.Release()
				}
			}
			b.ReportMetric(float64(size)*float64(b.N)/1e6/(processorTime()-from).Seconds(), "cpu-MB/s")
		})
	}
}
