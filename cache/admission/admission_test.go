package admission

import (
	"math"
	"math/rand/v2"
	"testing"
)

func key(id uint64) Key { return Key{Lo: id * 0x9E3779B97F4A7C15, Hi: id * 0xC2B2AE3D27D4EB4F} }

// zipf returns a trace whose share of objects requested once resembles that of a content
// delivery network.
func zipf(requests, objects int) (ids []uint64) {
	r := rand.New(rand.NewPCG(1, 2))
	const alpha = 0.9
	for range requests {
		u := r.Float64()
		ids = append(ids, uint64(math.Pow(u*(math.Pow(float64(objects), 1-alpha)-1)+1, 1/(1-alpha))))
	}
	return ids
}

// TestModelWritesLittle: every policy writes less than is requested, and the default less than
// a quarter of the misses.
func TestModelWritesLittle(t *testing.T) {
	ids := zipf(100_000, 130_000)
	for _, name := range Names() {
		p, err := New(name, 1300)
		if err != nil {
			t.Fatal(err)
		}
		m := NewModel(Sizes{Memory: 100 << 10, Disk: 230 << 10}, p, 1300)
		for _, id := range ids {
			m.Request(key(id), 500)
		}
		share := float64(m.Writes) / float64(m.Misses)
		t.Logf("%-8s hit ratio %.3f; it wrote %.3f of the misses to the disk", name, float64(m.Hits)/float64(len(ids)), share)
		if want := map[string]float64{"s3-fifo": 0.25, "bloom": 0.6, "always": 1.3}[name]; share > want {
			t.Errorf("%s writes %.2f of the misses to the disk, want at most %.2f", name, share, want)
		}
		if m.disk.bytes > m.disk.size {
			t.Errorf("%s: the disk holds %d bytes, want at most its size of %d", name, m.disk.bytes, m.disk.size)
		}
	}
}

func TestWhileTheDiskHasRoomEverythingIsWritten(t *testing.T) {
	p, _ := New("", 100)
	m := NewModel(Sizes{Memory: 1000, Disk: 10_000, Segment: 1000}, p, 100)
	for i := range 10 {
		m.Request(key(uint64(i)), 1000)
	}
	if m.Writes != 10 {
		t.Errorf("%d objects were written to a disk with room for all, want 10", m.Writes)
	}
	m.Request(key(100), 1000)
	if m.Writes != 10 {
		t.Error("an object that was requested once was written to a full disk")
	}
}
