//go:build unix

package content_test

import (
	"testing"

	"shuultuur/content"
	"shuultuur/test/reading"
	"shuultuur/test/webpage"
)

func BenchmarkText(b *testing.B) {
	_, bodies := webpage.Pages(b)
	for _, coding := range []string{"identity", "gzip", "br", "zstd"} {
		b.Run(coding, func(b *testing.B) {
			var wires [][]byte
			var size int64
			for _, p := range bodies {
				wires = append(wires, webpage.Encode(b, coding, p))
				size += int64(len(p))
			}
			var body content.Body
			head := content.Describe("text/html; charset=utf-8", coding)
			b.SetBytes(size)
			b.ReportAllocs()
			from := reading.ProcessorTime()
			for b.Loop() {
				for _, w := range wires {
					body.Reset(head, content.Limits{})
					body.Append(w)
					body.Finish()
					if _, err := body.Text(); err != nil {
						b.Fatal(err)
					}
					body.Release()
				}
			}
			b.ReportMetric(float64(size)*float64(b.N)/1e6/(reading.ProcessorTime()-from).Seconds(), "cpu-MB/s")
		})
	}
}
