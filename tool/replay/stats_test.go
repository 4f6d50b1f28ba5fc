package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"shuultuur/whatif"
)

// zipfLog yields n requests for URLs by Zipf's law. Equal seeds give equal logs.
func zipfLog(n int, seed uint64) iter.Seq2[whatif.Entry, error] {
	return func(yield func(whatif.Entry, error) bool) {
		r := rand.New(rand.NewPCG(seed, 1))
		z := rand.NewZipf(r, 1.2, 2, 1<<30)
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range n {
			u := z.Uint64()
			host := fmt.Sprintf("www%d.example", u%1000)
			at = at.Add(time.Duration(r.IntN(20)) * time.Millisecond)
			e := whatif.Entry{Start: at, Method: "GET", Host: host, Port: 80, URL: fmt.Sprintf("http://%s/%x", host, u), Bytes: int64(r.IntN(1000))}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestCountsOnDiskAreThoseOfAMap(t *testing.T) {
	const n = 50_000
	dir := t.TempDir()
	tl := newTally(dir, 16*recordSize*8) // room for 128 keys: some 1000 runs, merged in two steps
	want := map[string]uint64{}
	for e := range zipfLog(n, 7) {
		want[e.URL]++
		if err := tl.add(e.URL); err != nil {
			t.Fatal(err)
		}
	}
	if len(tl.runs) < 2*fanIn {
		t.Fatalf("%d runs only: the merge in steps is not tried", len(tl.runs))
	}
	got, ofWant := map[uint64]int{}, map[uint64]int{}
	for _, n := range want {
		ofWant[n]++
	}
	if err := tl.counts(t.Context(), func(n uint64) { got[n]++ }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ofWant, got); diff != "" {
		t.Errorf("URLs by count (-want +got):\n%s", diff)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("after counting %d files are left in the folder (%v), want none", len(left), err)
	}
}

func TestTallyHasEveryCountWhateverItsRoom(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOf(rapid.StringMatching(`[a-f]{0,3}`)).Draw(t, "keys")
		tl := newTally(dir, rapid.IntRange(16, 40).Draw(t, "room")*recordSize)
		want := map[string]uint64{}
		for _, k := range keys {
			want[k]++
			if err := tl.add(k); err != nil {
				t.Fatal(err)
			}
		}
		sum, distinct := uint64(0), 0
		if err := tl.counts(context.Background(), func(n uint64) { sum += n; distinct++ }); err != nil {
			t.Fatal(err)
		}
		if sum != uint64(len(keys)) || distinct != len(want) {
			t.Errorf("%d keys of %d requests, want %d of %d", distinct, sum, len(want), len(keys))
		}
	})
}

func TestInterruptedCountLeavesNoFiles(t *testing.T) {
	tmp := t.TempDir()
	c, err := NewCounter(MinMemory, tmp)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Count(ctx, zipfLog(100_000, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) != 0 {
		t.Errorf("after an interruption %d files are left in the folder (%v), want none", len(left), err)
	}
}

func TestCountsOfNamesAreTooLowByAtMostTheirError(t *testing.T) {
	exact := map[string]int64{}
	c := newNames(200 * (perName + 20))
	for e := range zipfLog(100_000, 3) {
		exact[e.Host]++
		c.add(e.Host)
	}
	if c.lost == 0 {
		t.Fatal("all names fitted into memory, so the test tries nothing")
	}
	if c.used > c.room {
		t.Errorf("the names take %d bytes, want at most %d", c.used, c.room)
	}
	for i, h := range c.top(10) {
		if want := exact[h.Host]; h.Requests > want || h.Requests < want-c.lost {
			t.Errorf("place %d: %s has %d, want %d to %d", i, h.Host, h.Requests, want-c.lost, want)
		}
	}
	for name, n := range exact {
		if _, ok := c.counts[name]; !ok && n > c.lost {
			t.Errorf("%s with %d requests is gone, though only %d may be lost", name, n, c.lost)
		}
	}
}

func TestZipfExponentIsFound(t *testing.T) {
	of := map[uint64]int64{}
	for rank := 1; rank <= 1000; rank++ {
		of[uint64(math.Round(1e9*math.Pow(float64(rank), -0.8)))]++
	}
	urls, s, r2 := fitZipf(of)
	if urls != 1000 || math.Abs(s-0.8) > 1e-4 || r2 < 0.9999 {
		t.Errorf("fitZipf: %d URLs, exponent %g, R² %g; want 1000, 0.8, 1", urls, s, r2)
	}
	if _, s, r2 = fitZipf(map[uint64]int64{3: 50}); s != 0 || r2 != 0 {
		t.Errorf("URLs requested equally often have exponent %g and R² %g, want 0 and 0", s, r2)
	}
}

func TestStatsReport(t *testing.T) {
	c, err := NewCounter(MinMemory, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Count(t.Context(), zipfLog(100_000, 1))
	if err != nil {
		t.Fatal(err)
	}
	if s.Runs == 0 {
		t.Error("nothing was written to disk, so the test does not try that")
	}
	s.Input = whatif.Input{Files: []string{"access.log"}, Lines: 100_002, Requests: 100_000, Other: 1, Broken: 1, Examples: []string{"access.log:7: \"x\" is not a time in seconds"}}
	golden(t, "stats.txt", s.Text)
	golden(t, "stats.json", s.JSON)
	golden(t, "nothing.txt", (&Stats{Input: whatif.Input{Files: []string{"-"}}}).Text)
}

func TestProgressBar(t *testing.T) {
	for _, c := range []struct {
		m    Meter
		want string
	}{
		{Meter{0, 100, "0 sent"}, "[                    ]   0 %  0 sent"},
		{Meter{50, 100, "9 sent"}, "[##########          ]  50 %  9 sent  11s left"},
		{Meter{100, 100, "18 sent"}, "[####################] 100 %  18 sent"},
		{Meter{50, 0, "9 sent"}, "9 sent"},
	} {
		if got := bar(c.m, 10*time.Second); got != c.want {
			t.Errorf("bar(%+v) = %q, want %q", c.m, got, c.want)
		}
	}
	var b strings.Builder
	stop := make(chan struct{})
	close(stop)
	watch(&b, true, stop, func() Meter { return Meter{1, 2, "x"} })
	if !strings.HasSuffix(b.String(), "\n") {
		t.Errorf("the bar %q does not end its line", b.String())
	}
}

func BenchmarkCount(b *testing.B) {
	var text strings.Builder
	n := 0
	for e := range zipfLog(100_000, 1) {
		fmt.Fprintf(&text, "%d.000 1 10.1.2.3 TCP_MISS/200 %d GET %s - HIER_NONE/- text/html\n", e.Start.Unix(), e.Bytes, e.URL)
		n++
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		c, err := NewCounter(8<<20, b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		s := &whatif.Source{Files: []string{"-"}, Stdin: io.NewSectionReader(strings.NewReader(text.String()), 0, int64(text.Len()))}
		if _, err := c.Count(b.Context(), s.Entries(b.Context())); err != nil {
			b.Fatal(err)
		}
	}
}
