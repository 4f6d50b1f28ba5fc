package ingest_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"shuultuur/lib/atomicfile/powercut"
	"shuultuur/lib/ingest"
	"shuultuur/lib/ingest/ingesttest"
)

var (
	cuts    = flag.Int("cuts", 5, "logs whose power fails")
	cutSeed = flag.Uint64("cutseed", 0, "replay the log of this seed alone")
)

// A told is what a log has told its clients about the batches that they gave.
type told struct {
	batches [][]string
	kept    map[string]bool // acknowledged
	done    map[string]bool // the reader is done with it
	erased  map[string]bool
	open    map[string]bool // an erasure or the end of a reading may have happened to it
}

func (s told) clone() told {
	return told{s.batches[:len(s.batches):len(s.batches)], maps.Clone(s.kept), maps.Clone(s.done), maps.Clone(s.erased), maps.Clone(s.open)}
}

// TestAPowerCutLosesNothingAcknowledged lets the power fail at a random moment of a log that appends,
// reads, erases and begins segments, four times in turn, also while it recovers. Of what was not synced
// any part may be left.
func TestAPowerCutLosesNothingAcknowledged(t *testing.T) {
	for range *cuts {
		seed := rand.Uint64()
		if *cutSeed != 0 {
			seed = *cutSeed
		}
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { losePower(t, seed) }) {
			t.Logf("to see it again: go test ./lib/ingest -run TestAPowerCut -cuts 1 -cutseed %d", seed)
			return
		}
	}
}

func losePower(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	root := t.TempDir()
	var mu sync.Mutex // guards known
	known := told{kept: map[string]bool{}, done: map[string]bool{}, erased: map[string]bool{}, open: map[string]bool{}}
	note := func(in map[string]bool, records []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range records {
			in[s] = true
		}
	}
	for life := range 5 {
		dir, next := filepath.Join(root, fmt.Sprint(life)), filepath.Join(root, fmt.Sprint(life+1))
		if life == 0 {
			// The folder of a log is made before it is followed.
			l, err := ingest.Open(ingest.Config{Folder: dir}, nil)
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
		d, unfollow := powercut.Follow(t, dir)
		var after told
		left, failed := r.IntN(60), false
		chance := rand.New(rand.NewPCG(seed, uint64(life)+2))
		d.Synced = func() {
			if left--; left != 0 {
				return
			}
			failed = true
			mu.Lock()
			after = known.clone()
			mu.Unlock()
			d.Cut(chance, next)
		}
		l, stop := ingesttest.Start(t, dir, opener(1500))
		reader, err := l.Reader("a")
		if err != nil {
			t.Fatal(err)
		}
		check(t, reader, &known, life)
		for n := 0; n < 40 && !failed && !t.Failed(); n++ {
			switch k := r.IntN(12); {
			case k < 8:
				var batch []string
				var records [][]byte
				for i := range 1 + r.IntN(4) {
					s := fmt.Sprintf("%d/%d/%d %s", life, n, i, strings.Repeat("x", r.IntN(600)))
					batch, records = append(batch, s), append(records, []byte(s))
				}
				mu.Lock()
				known.batches = append(known.batches, batch)
				mu.Unlock()
				if err := l.Append(context.Background(), records...); err != nil {
					t.Fatal(err)
				}
				note(known.kept, batch)
			case k < 10:
				got, at, err := reader.Next(context.Background(), 1+r.IntN(20), 0)
				if err != nil {
					t.Fatal(err)
				}
				read := texts(got)
				note(known.open, read)
				if err := reader.Done(at); err != nil {
					t.Fatal(err)
				}
				note(known.done, read)
			case k < 11:
				which := fmt.Sprintf("%d/%d/", r.IntN(life+1), r.IntN(n+1))
				var matched []string
				_, err := l.Erase(context.Background(), func(b []byte) bool {
					if !strings.HasPrefix(string(b), which) {
						return false
					}
					matched = append(matched, string(b))
					note(known.open, matched)
					return true
				}, false)
				if err != nil {
					t.Fatal(err)
				}
				note(known.erased, matched)
			default:
				if err := l.Rotate(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			d.Look()
		}
		if !failed {
			after = known.clone()
			d.Cut(chance, next)
			left = 0
		}
		stop()
		unfollow()
		if t.Failed() {
			return
		}
		known = after
	}
}

// check compares what a reader reads with what was told.
func check(t *testing.T, r *ingest.Reader, known *told, life int) {
	t.Helper()
	all, _ := ingesttest.All(t, r)
	r.Rewind()
	there := map[string]bool{}
	for _, s := range all {
		if there[s] {
			t.Errorf("life %d: %.12q is read twice", life, s)
		}
		there[s] = true
		if known.done[s] {
			t.Errorf("life %d: %.12q is read again", life, s)
		}
		if known.erased[s] {
			t.Errorf("life %d: %.12q was erased and is read", life, s)
		}
	}
	given := map[string]bool{}
	for _, b := range known.batches {
		n, open := 0, false
		for _, s := range b {
			given[s] = true
			open = open || known.open[s]
			if there[s] {
				n++
			} else if known.kept[s] && !known.open[s] {
				t.Errorf("life %d: %.12q was acknowledged and is gone", life, s)
			}
		}
		if n > 0 && n < len(b) && !open {
			t.Errorf("life %d: %d of %d records of a batch are there", life, n, len(b))
		}
	}
	for s := range there {
		if !given[s] {
			t.Errorf("life %d: %.40q is read, which nobody gave", life, s)
		}
	}
}

func texts(records [][]byte) (all []string) {
	for _, b := range records {
		all = append(all, string(b))
	}
	return all
}
