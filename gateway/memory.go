package gateway

import (
	"runtime"
	"runtime/debug"
)

// muchGarbage is the number of bytes that a build must allocate to make a run of the
// collector worthwhile.
const muchGarbage = 64 << 20

// allocated returns how many bytes the program has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// returnMemory returns to the system the memory that reading rules and lists took, if much
// was allocated since before. This frees the replaced engine, too.
func returnMemory(before uint64) {
	if allocated()-before >= muchGarbage {
		debug.FreeOSMemory()
	}
}
