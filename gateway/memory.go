package gateway

import (
	"runtime"
	"runtime/debug"
)

// muchGarbage is how many bytes a build allocates before what it leaves behind is worth a run
// of the collector.
const muchGarbage = 64 << 20

// allocated returns how many bytes the program has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// returnMemory gives the memory that reading rules and lists took back to the system, if much
// was allocated since before. The engine that was replaced goes with it.
func returnMemory(before uint64) {
	if allocated()-before >= muchGarbage {
		debug.FreeOSMemory()
	}
}
