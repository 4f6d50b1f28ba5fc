package judging

import (
	"runtime"
	"sync/atomic"
	"testing"

	"shuultuur/filter"
)

// TestALongPageLeavesTheProcessor: readers ask after each part of their work, and who waits for the processor
// runs then. With many processors others run anyway.
func TestALongPageLeavesTheProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var l Limit
	l.Prepare(t.Context(), nil, &filter.Transaction{}, nil)
	var ran atomic.Int64
	for n := range int64(50) {
		go ran.Add(1)
		for range 20 {
			if l.Over() {
				t.Fatal("a limit that was not reached is over")
			}
		}
		if ran.Load() <= n {
			t.Fatalf("after %d parts, %d of %d others have run", 20*(n+1), ran.Load(), n+1)
		}
	}
}
