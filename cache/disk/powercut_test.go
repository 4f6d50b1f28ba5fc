package disk

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"shuultuur/lib/atomicfile/powercut"
)

var (
	cuts    = flag.Int("cuts", 4, "stores whose power fails")
	cutSeed = flag.Uint64("cutseed", 0, "replay the store of this seed alone")
)

// An edition of an object; 0 is none.
type edition int

func (e edition) content(k int) (meta, body []byte) {
	return fmt.Appendf(nil, "object %d, edition %d", k, e), content(k+1000*int(e), 500+(k*7919+int(e)*104729)%60_000)
}

// TestAPowerCutServesNothingOld lets the power fail at a random moment of a store that is written to,
// emptied and opened again, four times in turn. What Sync had written is there, and of each object no edition is served
// that had been replaced or removed by then; no byte is wrong.
func TestAPowerCutServesNothingOld(t *testing.T) {
	for range *cuts {
		seed := rand.Uint64()
		if *cutSeed != 0 {
			seed = *cutSeed
		}
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { losePower(t, seed) }) {
			t.Logf("to see it again: go test ./cache/disk -run TestAPowerCut -cuts 1 -cutseed %d", seed)
			return
		}
	}
}

func losePower(t *testing.T, seed uint64) {
	const objects = 40
	r := rand.New(rand.NewPCG(seed, 1))
	root := t.TempDir()
	now := map[int]edition{}            // what the store was given
	synced := map[int]edition{}         // what it was given before the last Sync
	since := map[int]map[edition]bool{} // what each object was since then, too
	next := edition(1)
	for life := range 5 {
		dir := filepath.Join(root, fmt.Sprint(life))
		if life == 0 {
			open(t, dir, 8<<20).Close()
		}
		d, unfollow := powercut.Follow(t, dir)
		var oldSynced map[int]edition
		var oldSince map[int]map[edition]bool
		left, failed := 1+r.IntN(60), false
		chance := rand.New(rand.NewPCG(seed, uint64(life)+2))
		cut := func() {
			if left--; left != 0 {
				return
			}
			failed = true
			oldSynced, oldSince = maps.Clone(synced), map[int]map[edition]bool{}
			for k, all := range since {
				oldSince[k] = maps.Clone(all)
			}
			d.Cut(chance, filepath.Join(root, fmt.Sprint(life+1)))
		}
		d.Synced = cut
		s, err := Open(dir, 8<<20)
		if err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
		filled := !s.Unfilled()
		for k := range objects {
			got := editionOf(t, s, k)
			is, kept := synced[k], len(since[k]) == 0
			if got != is && !since[k][got] {
				t.Errorf("life %d: object %d has edition %d, want %d or one of %v", life, k, got, is, since[k])
			} else if kept && got != is && !filled {
				t.Errorf("life %d: object %d is gone, edition %d was synced", life, k, is)
			}
			now[k] = got
		}
		if t.Failed() {
			s.Close()
			return
		}
		synced, since = maps.Clone(now), map[int]map[edition]bool{}
		change := func(k int, e edition) {
			if since[k] == nil {
				since[k] = map[edition]bool{}
			}
			since[k][e], since[k][0] = true, true // a record that was lost is an object that is fetched again
			now[k] = e
		}
		for n := 0; n < 60 && !failed; n++ {
			k := r.IntN(objects)
			switch what := r.IntN(20); {
			case what < 12:
				change(k, next)
				meta, body := next.content(k)
				next++
				if err := s.Put(key(k), meta, [][]byte{body[:100], body[100:]}); err != nil {
					t.Fatal(err)
				}
			case what < 15:
				change(k, 0)
				if err := s.Remove(key(k)); err != nil {
					t.Fatal(err)
				}
			case what < 16 && r.IntN(4) == 0:
				for k := range objects {
					change(k, 0)
				}
				s.Clear()
			case what < 17:
				s.Close()
				if s, err = Open(dir, 8<<20); err != nil {
					t.Fatalf("life %d: %v", life, err)
				}
			default:
				before := maps.Clone(now)
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
				if !failed {
					synced, since = before, map[int]map[edition]bool{}
				}
			}
			d.Look()
			cut()
		}
		left = 1
		if !failed {
			cut()
		}
		left = -1
		s.Close()
		unfollow()
		synced, since = oldSynced, oldSince
	}
}

// editionOf returns which edition of an object is served. It fails the test if a byte is wrong.
func editionOf(t *testing.T, s *Store, k int) (e edition) {
	t.Helper()
	r, ok := s.Get(key(k))
	if !ok {
		return 0
	}
	defer r.Release()
	var of int
	_, err := fmt.Sscanf(string(r.Meta), "object %d, edition %d", &of, &e)
	meta, body := e.content(k)
	if err == nil && (of != k || !bytes.Equal(r.Meta, meta) || !bytes.Equal(r.Body, body)) {
		err = errors.New("the content is another")
	}
	if err != nil {
		t.Errorf("object %d is served as %.60q with %d bytes: %v", k, r.Meta, len(r.Body), err)
	}
	return e
}
