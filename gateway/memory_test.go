package gateway

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"shuultuur/test/race"
)

// Memory used for reading rules is not kept until the next run of the collector, which on a
// quiet gateway comes minutes later.
func TestMemoryThatABuildTookIsReturned(t *testing.T) {
	race.Without(t)
	var rules strings.Builder
	for i := range 12_000 {
		fmt.Fprintf(&rules, "alert http any any -> any any (msg:\"rule %d\"; http.uri; content:\"/path%d/\"; content:\"q%d=\"; pcre:\"/q%d=[a-z]{%d}/\"; classtype:trojan-activity; sid:%d; rev:1;)\n", i, i, i, i, 3+i%9, i+1)
	}
	file := folder(t, map[string]string{
		"local.rules":    rules.String(),
		"shuultuur.yaml": "listen: {proxy: 127.0.0.1:0, admin: \"off\"}\nchecks: {signature: {rules: [local.rules]}}\npolicies: [{name: everyone}]\n",
	})
	before := allocated()
	serving(t, file)
	if n := allocated() - before; n < muchGarbage {
		t.Fatalf("building allocated only %d MiB", n>>20)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	resident := m.HeapSys - m.HeapReleased
	runtime.GC()
	runtime.ReadMemStats(&m)
	if resident > m.HeapAlloc*5/4+(4<<20) {
		t.Errorf("the heap has %d MiB, of which %d MiB are in use", resident>>20, m.HeapAlloc>>20)
	}
}

var kept [][]byte

// Memory that a burst of work leaves behind is returned when little is allocated any more, and
// only once.
func TestMemoryAfterABurstIsReturned(t *testing.T) {
	race.Without(t)
	runs := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	var b burst
	b.returnMemory()
	for range 200 {
		kept = append(kept, bytes.Repeat([]byte{1}, 1<<20))
	}
	kept = nil
	before := runs()
	b.returnMemory()
	if runs() != before {
		t.Error("memory was returned while much was being allocated")
	}
	most, _ := memory()
	b.returnMemory()
	if now, _ := memory(); most < now+100<<20 {
		t.Errorf("the heap had %d MiB before the return and %d MiB after it", most>>20, now>>20)
	}
	before = runs()
	b.returnMemory()
	if runs() != before {
		t.Error("the collector ran again although nothing was allocated")
	}
}

// Memory that is in use at a return may be garbage later: kept connections end, and caches drop what they hold.
func TestMemoryThatIsFreeLaterIsReturned(t *testing.T) {
	race.Without(t)
	var b burst
	b.returnMemory()
	for range 200 {
		kept = append(kept, bytes.Repeat([]byte{1}, 1<<20))
	}
	b.returnMemory()
	b.returnMemory() // in use
	kept = nil
	most, _ := memory()
	for range late {
		b.returnMemory()
	}
	now, _ := memory()
	if most < now+100<<20 {
		t.Errorf("the heap had %d MiB while they were in use, and %d MiB long after", most>>20, now>>20)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.NumForcedGC
	for range 4 * late {
		b.returnMemory()
	}
	if runtime.ReadMemStats(&m); m.NumForcedGC > before+4 {
		t.Errorf("the collector ran %d times for nothing", m.NumForcedGC-before)
	}
}
