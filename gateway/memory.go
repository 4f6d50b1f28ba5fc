package gateway

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

// muchGarbage is the number of bytes that a build must allocate to make a run of the
// collector worthwhile.
const muchGarbage = 64 << 20

// allocated returns how many bytes the program has allocated so far.
func allocated() uint64 {
	_, n := memory()
	return n
}

// returnMemory returns to the system the memory that reading rules and lists took, if much was
// allocated since before. It also frees the replaced engine.
func returnMemory(before uint64) {
	if allocated()-before >= muchGarbage {
		debug.FreeOSMemory()
	}
}

const (
	// lookAtMemory is the interval between two looks at memory.
	lookAtMemory = 5 * time.Second
	// muchIdle is the growth of memory, in bytes, from which it is returned.
	muchIdle = 16 << 20
)

// A burst records the memory that bursts of work leave behind. The collector lets the heap grow
// to twice of what is in use, and hardly runs when nothing is allocated. After thousands of
// connections were opened and became silent, most of the memory is garbage.
//
// Memory that is in use at a return may be garbage soon after it: kept connections end after a minute,
// and caches drop what they hold. So while there is more than at the start, the gateway returns memory
// again, less and less often.
type burst struct {
	first     uint64 // the fewest resident bytes so far
	least     uint64 // resident bytes after the last return, or fewer if they shrank since
	allocated uint64 // at the last look
	looks     int    // since the last return
	again     int    // looks from one return to the next, if nothing was taken meanwhile
}

const (
	soon = 2  // looks, which are 10 seconds
	late = 64 // looks, which are 5 minutes
)

// returnAfterBursts looks at the memory until ctx ends.
func returnAfterBursts(ctx context.Context) {
	var b burst
	b.returnMemory()
	tick := time.NewTicker(lookAtMemory)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			b.returnMemory()
		}
	}
}

// returnMemory returns memory to the system if much was taken since the last time, and little is
// allocated now.
func (b *burst) returnMemory() {
	resident, allocated := memory()
	calm := allocated-b.allocated < resident/24
	b.allocated = allocated
	if b.least == 0 {
		b.first, b.least, b.again = resident, resident, soon
	}
	b.first, b.least = min(b.first, resident), min(b.least, resident)
	b.looks++
	burst := resident-b.least >= muchIdle
	if burst {
		b.again = soon
	}
	if calm && (burst || b.looks >= b.again && resident-b.first >= muchIdle) {
		debug.FreeOSMemory()
		b.least, b.allocated = memory()
		b.looks = 0
		if !burst {
			b.again = min(2*b.again, late)
		}
	}
}

// memory returns the bytes that Go has from the system, and the bytes allocated so far.
func memory() (resident, allocated uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased, m.TotalAlloc
}
