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
type burst struct {
	least     uint64 // resident bytes after the last return, or fewer if they shrank since
	allocated uint64 // at the last look
}

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
	if b.least == 0 || resident < b.least {
		b.least = resident
	}
	if calm && resident-b.least >= muchIdle {
		debug.FreeOSMemory()
		b.least, _ = memory()
	}
}

// memory returns the bytes that Go has from the system, and the bytes allocated so far.
func memory() (resident, allocated uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased, m.TotalAlloc
}
