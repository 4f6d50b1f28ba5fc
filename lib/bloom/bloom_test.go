package bloom

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"shuultuur/test/race"
)

// urls returns n different URLs of a usual length.
func urls(prefix string, n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("https://%s%d.example.org/assets/%x/image-%d.webp", prefix, i%9973, r.Uint64(), i)
	}
	return list
}

// TestFilterKeepsItsLimits: a full filter has at most 9.65 bits per key and 1 % false
// positives.
func TestFilterKeepsItsLimits(t *testing.T) {
	race.Without(t)
	for _, n := range []int{1000, 100_000, 435_000, 1_000_000} {
		f := New(n)
		if got := float64(f.Bits()) / float64(n); got > 9.65 {
			t.Errorf("%d keys: %.3f bits a key, want at most 9.65", n, got)
		}
		r := rand.New(rand.NewPCG(uint64(n), 0))
		keys := make([]Key, n)
		for i := range keys {
			keys[i] = Sum(fmt.Sprint("http://example.org/", i, "/", r.Uint32()))
			f.Add(keys[i])
		}
		for _, k := range keys {
			if !f.Has(k) {
				t.Fatalf("%d keys: one that was added is not found", n)
			}
		}
		if got := float64(f.Added()) / float64(n); got < 0.97 || got > 1.02 {
			t.Errorf("%d keys: %.3f of them are counted", n, got)
		}
		const others = 1_000_000
		wrong := 0
		for i := range others {
			if f.Has(Sum(fmt.Sprint("http://other.example/", i))) {
				wrong++
			}
		}
		// Small filters vary more.
		limit := 0.0100
		if n < 100_000 {
			limit = 0.013
		}
		if got := float64(wrong) / others; got > limit {
			t.Errorf("%d keys: %.3f %% false positives, want at most %.1f %%", n, got*100, limit*100)
		}
	}
}

func TestPairIsAWindow(t *testing.T) {
	const window = 10_000
	p := NewPair(window)
	if got := float64(p.Bits()) / window; got > 27.6 {
		t.Errorf("the pair takes %.2f bits per key of its window, want at most 27.6", got)
	}
	all := urls("w", 10*window)
	wrong := 0
	for i, u := range all {
		if p.Seen(Sum(u)) {
			wrong++
		}
		if i >= window && i%97 == 0 && !p.Has(Sum(all[i-window+window/100])) {
			t.Fatalf("key %d is forgotten after %d others", i-window+window/100, window)
		}
	}
	if got := float64(wrong) / float64(len(all)); got > 0.003 {
		t.Errorf("%.3f %% of new keys are taken for old ones, want at most 0.3 %%", got*100)
	}
	if p.Has(Sum(all[0])) && p.Has(Sum(all[1])) && p.Has(Sum(all[2])) {
		t.Error("the first keys are still remembered after 10 windows")
	}
}

func TestManyGoroutines(t *testing.T) {
	const n = 5_000
	f := New(4 * n)
	p := NewPair(n)
	list := urls("g", 4*n)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for _, u := range list[g*n : (g+1)*n] {
				f.Add(Sum(u))
				p.Seen(Sum(u))
			}
		})
	}
	wg.Wait()
	for _, u := range list {
		if !f.Has(Sum(u)) {
			t.Fatalf("%s was added and is not found", u)
		}
	}
}

func BenchmarkAdd(b *testing.B)  { bench(b, func(f *Filter, k string) { f.Add(Sum(k)) }, "a") }
func BenchmarkHit(b *testing.B)  { bench(b, func(f *Filter, k string) { f.Has(Sum(k)) }, "a") }
func BenchmarkMiss(b *testing.B) { bench(b, func(f *Filter, k string) { f.Has(Sum(k)) }, "m") }

func bench(b *testing.B, do func(*Filter, string), prefix string) {
	const n = 1_000_000
	f := New(n)
	for _, u := range urls("a", n) {
		f.Add(Sum(u))
	}
	list := urls(prefix, n)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		do(f, list[i%n])
	}
}
