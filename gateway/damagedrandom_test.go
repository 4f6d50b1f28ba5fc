package gateway

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/test/race"
)

var (
	damagesMade = flag.Int("damages", 25, "files of the data folder that are damaged at random, one for each start")
	damagesFrom = flag.Uint64("damages-from", 1, "seed of the first damage")
)

// anyDamage damages a file at a random place, for a random length.
func anyDamage(r *rand.Rand, b []byte) (how string, damaged []byte) {
	b = bytes.Clone(b)
	at := r.IntN(len(b))
	n := 1 + r.IntN(len(b)-at)
	if r.IntN(2) == 0 {
		n = min(n, 16) // most faults of disks and programs are small, or a sector
	}
	part := b[at : at+n]
	switch r.IntN(6) {
	case 0:
		return fmt.Sprintf("cut at %d", at), b[:at]
	case 1:
		clear(part)
		return fmt.Sprintf("zeros at %d for %d", at, n), b
	case 2:
		for i := range part {
			part[i] = byte(r.Uint32())
		}
		return fmt.Sprintf("rubbish at %d for %d", at, n), b
	case 3:
		part[0] ^= 1 << r.IntN(8)
		return fmt.Sprintf("a bit at %d", at), b
	case 4:
		return fmt.Sprintf("without %d at %d", n, at), slices.Delete(b, at, at+n)
	}
	return fmt.Sprintf("%d twice at %d", n, at), slices.Insert(b, at, bytes.Clone(part)...)
}

// TestNoDamageOpensTheFilter damages a file of the data folder at a random place, for a random length,
// and starts the gateway. It starts, and what a list blocks is blocked. Of files without which nothing
// else can be trusted, it may refuse the start.
func TestNoDamageOpensTheFilter(t *testing.T) {
	race.Without(t)
	dir, snapshot := remembering(t), t.TempDir()
	putBack(t, dir, snapshot)
	var all []string
	err := filepath.WalkDir(filepath.Join(snapshot, "data"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, strings.TrimPrefix(path, snapshot+string(filepath.Separator)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	started, refused := 0, 0
	for seed := *damagesFrom; seed < *damagesFrom+uint64(*damagesMade); seed++ {
		r := rand.New(rand.NewPCG(seed, 47))
		name := all[r.IntN(len(all))]
		content, err := os.ReadFile(filepath.Join(snapshot, name))
		if err != nil {
			t.Fatal(err)
		}
		if len(content) == 0 {
			continue
		}
		putBack(t, snapshot, dir)
		how, damaged := anyDamage(r, content)
		if err := os.WriteFile(filepath.Join(dir, name), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		g, err := New(ctx, filepath.Join(dir, "shuultuur.yaml"), slog.New(slog.DiscardHandler))
		switch base := filepath.Base(name); {
		case err == nil:
			started++
			for _, host := range []string{"own.example", "tea.example"} {
				if hits, err := g.engine.Load().Lists.Search(host); err != nil || len(hits) == 0 {
					t.Errorf("-damages-from %d: %s, %s: %s is open: %v", seed, name, how, host, err)
				}
			}
			if err := g.close(); err != nil {
				t.Errorf("-damages-from %d: %s, %s: the end: %v", seed, name, how, err)
			}
		case base == "format.json" || base == "secret.key":
			refused++
		default:
			t.Errorf("-damages-from %d: %s, %s: the start is refused: %v", seed, name, how, err)
		}
		stop()
	}
	t.Logf("%d starts beside damaged files, %d refused", started, refused)
}
