package cache

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"shuultuur/cache/simulate"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
	"shuultuur/test/data"
)

// TestTheLiveCacheAgreesWithTheSimulator: the live cache answers as many requests of a trace
// as the simulator predicts.
func TestTheLiveCacheAgreesWithTheSimulator(t *testing.T) {
	text, err := os.ReadFile(data.Path(t, "traces", "adaptsize.trace.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range []string{"s3-fifo", "bloom"} {
		t.Run(policy, func(t *testing.T) {
			trace, err := simulate.Read(bytes.NewReader(text), t.TempDir(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer trace.Close()
			const size = 96 << 20
			report, err := simulate.Run(t.Context(), trace, simulate.Options{Sizes: []int64{size}, Policies: []string{policy}})
			if err != nil {
				t.Fatal(err)
			}
			want := report.Results[1]
			got, writes := liveHits(t, text, Config{Memory: 1, Disk: 1, Admission: policy}, want.Memory, size-want.Memory)
			t.Logf("the cache answered %.4f of the requests and wrote %d objects; the simulator predicts %.4f and %d", got, writes, want.Hits, want.Writes)
			if math.Abs(got-want.Hits) > 0.01 {
				t.Errorf("the cache answered %.4f of the requests; the simulator predicts %.4f", got, want.Hits)
			}
		})
	}
}

// liveHits sends a trace through a cache of these sizes and returns the share of requests that
// it answered, and the number of objects that it wrote.
func liveHits(t *testing.T, text []byte, cfg Config, memory, disk int64) (hits float64, writes int64) {
	cfg.Memory, cfg.Disk = setting.Size(memory), setting.Size(disk)
	c := open(t, cfg, Parts{Data: t.TempDir()})
	nothing := make([]byte, 64<<20)
	asked, misses, size := 0, 0, 0
	front := c.InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
		misses++
		m := new(message.MemoryBody)
		m.Set(nothing[:size])
		s := &message.Response{Status: 200, Reason: []byte("OK"), Proto: 11, Length: int64(size), Body: m}
		s.Fields.Add("Cache-Control", "max-age=86400")
		return s, nil
	}))
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		var at, id string
		if _, err := fmt.Sscan(lines.Text(), &at, &id, &size); err != nil || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		asked++
		s, err := front.RoundTrip(t.Context(), request("GET", "http://example.org/"+id))
		if err != nil {
			t.Fatal(err)
		}
		s.Body.Close()
		for waits := true; waits; { // like the simulator, which writes at once
			c.mu.RLock()
			waits = len(c.waiting) > 0
			c.mu.RUnlock()
			if waits {
				time.Sleep(10 * time.Microsecond)
			}
		}
	}
	return 1 - float64(misses)/float64(asked), c.disk.Writes.Load()
}
