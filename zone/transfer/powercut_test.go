package transfer_test

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"shuultuur/lib/atomicfile/powercut"
	"shuultuur/lib/setting"
	"shuultuur/zone/sign"
	"shuultuur/zone/transfer"
)

var cutSeed = flag.Uint64("cutseed", 0, "replay the power failures of this seed")

// TestAPowerCutLeavesAWholeJournal lets the power fail at random moments while a signed zone changes and
// its state is saved. What is left can always be read, and is what was saved last, or newer.
func TestAPowerCutLeavesAWholeJournal(t *testing.T) {
	seed := rand.Uint64()
	if *cutSeed != 0 {
		seed = *cutSeed
	}
	defer func() {
		if t.Failed() {
			t.Logf("to see it again: go test ./zone/transfer -run TestAPowerCut -cutseed %d", seed)
		}
	}()
	r := rand.New(rand.NewPCG(seed, 1))
	c := signing(t, sign.NSEC)
	root := t.TempDir()
	var saved uint32 // the serial that Save had saved
	hosts := 10
	for life := range 12 {
		dir, next := filepath.Join(root, fmt.Sprint(life)), filepath.Join(root, fmt.Sprint(life+1))
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		c.Folder = setting.Folder(dir)
		d, unfollow := powercut.Follow(t, dir)
		left, after := 1+r.IntN(24), uint32(0)
		d.Synced = func() {
			if left--; left == 0 {
				after = saved
				d.Cut(r, next)
			}
		}
		var log bytes.Buffer
		k := newKept()
		s, err := transfer.New(c, k, nil, nil, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		for left > 0 {
			if err := s.Replace(zoneOf(t, 1, hosts)); err != nil {
				t.Fatal(err)
			}
			if serial := k.serial(); int32(serial-saved) < 0 {
				t.Errorf("life %d: serial %d is older than %d, which was saved", life, serial, saved)
			}
			d.Look()
			if !s.Save() {
				t.Error("Save failed")
			}
			saved = k.serial()
			hosts++
		}
		unfollow()
		saved = after
		if log.Len() > 0 {
			t.Errorf("life %d: %s", life, log.String())
		}
		if _, err := os.Stat(filepath.Join(next, "example.com.journal")); saved > 0 && err != nil {
			t.Errorf("life %d: what was saved is gone: %v", life, err)
		}
	}
}
