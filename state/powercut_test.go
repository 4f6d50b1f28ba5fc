package state

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/atomicfile/powercut"
)

var cutSeed = flag.Uint64("cutseed", 0, "replay the power failures of this seed alone")

// TestAPowerCutKeepsInstructions lets the power fail at random moments while instructions are given,
// replaced, withdrawn and erased. Whatever was given and acknowledged is in force, or else what was given
// after it; what was erased is gone.
func TestAPowerCutKeepsInstructions(t *testing.T) {
	for range 8 {
		seed := rand.Uint64()
		if *cutSeed != 0 {
			seed = *cutSeed
		}
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { loseInstructions(t, seed) }) {
			t.Logf("to see it again: go test ./state -run TestAPowerCut -cutseed %d", seed)
			return
		}
	}
}

func loseInstructions(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	root := t.TempDir()
	now := map[string]string{}               // what is in force, "" for nothing
	going := map[string]string{}             // what is being given
	open := func(dir string) *Instructions { // in a folder that is there
		s, err := openInstructions(filepath.Join(dir, "instructions"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	next := filepath.Join(root, "0")
	if err := os.Mkdir(next, 0o750); err != nil {
		t.Fatal(err)
	}
	for life := range 8 {
		dir := next
		next = filepath.Join(root, fmt.Sprint(life+1))
		d, unfollow := powercut.Follow(t, dir)
		left := 1 + r.IntN(40)
		var wasNow, wasGoing map[string]string
		d.Synced = func() {
			if left--; left == 0 {
				wasNow, wasGoing = maps.Clone(now), maps.Clone(going)
				d.Cut(r, next)
			}
		}
		s := open(dir)
		found := map[string]string{}
		for _, i := range s.InForce("t") {
			found[i.Key] = i.Value
		}
		for k := range 12 {
			key := fmt.Sprint("key", k)
			given, onItsWay := going[key]
			if found[key] != now[key] && !(onItsWay && found[key] == given) {
				t.Errorf("life %d: %s is %.20q, want %.20q or %.20q (%v)", life, key, found[key], now[key], given, onItsWay)
			}
		}
		now = found
		for n := 0; left > 0; n++ {
			going = map[string]string{}
			switch what := r.IntN(12); {
			case what < 10:
				var all []Instruction
				for range 1 + r.IntN(3) {
					key, value := fmt.Sprint("key", r.IntN(12)), ""
					if r.IntN(4) > 0 {
						value = fmt.Sprintf("%d/%d %s", life, n, strings.Repeat("v", r.IntN(2000)))
					}
					if _, twice := going[key]; twice {
						continue
					}
					going[key] = value
					all = append(all, Instruction{Topic: "t", Key: key, Value: value})
				}
				if err := s.Issue(all...); err != nil {
					t.Fatal(err)
				}
				maps.Copy(now, going)
			case what < 11:
				key := fmt.Sprint("key", r.IntN(12))
				going[key] = ""
				if _, err := s.Erase(func(i *Instruction) bool { return i.Key == key }, false); err != nil {
					t.Fatal(err)
				}
				now[key] = ""
			default:
				if err := s.close(); err != nil {
					t.Fatal(err)
				}
				s = open(dir)
			}
			d.Look()
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
		unfollow()
		now, going = wasNow, wasGoing
		if t.Failed() {
			return
		}
	}
}
