package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/ingest"
	"shuultuur/lib/ingest/ingesttest"
)

// threeSegments makes a log of three segments with two batches each. It returns their files, in order.
func threeSegments(t *testing.T) (dir string, files []string, data [][]byte) {
	t.Helper()
	dir = t.TempDir()
	l, stop := ingesttest.Start(t, dir, opener(200))
	for n := range 6 {
		if err := l.Append(context.Background(), []byte(strings.Repeat(fmt.Sprint(n), 80))); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(files) != 3 {
		t.Fatalf("files of the log: got %q, %v, want three", files, err)
	}
	slices.Sort(files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, b)
	}
	return dir, files, data
}

// TestADamagedHeadCostsNothing damages the head of each of three segments, or the whole segment. The log
// opens, the damage is set aside, and every record of other segments and of whole batches is read.
func TestADamagedHeadCostsNothing(t *testing.T) {
	const head = 28
	flip := func(at int) func(b, other []byte) []byte {
		return func(b, _ []byte) []byte { b[at] ^= 0x10; return b }
	}
	damages := map[string]func(b, other []byte) []byte{
		"the head of another":       func(b, other []byte) []byte { copy(b, other[:head]); return b },
		"zeros for a head":          func(b, _ []byte) []byte { clear(b[:head]); return b },
		"! the bytes of another":    func(_, other []byte) []byte { return other },
		"! emptied":                 func(_, _ []byte) []byte { return nil },
		"! half a head":             func(b, _ []byte) []byte { return b[:head/2] },
		"! nothing but a head":      func(b, _ []byte) []byte { return b[:head] },
		"! a head of another alone": func(_, other []byte) []byte { return other[:head] },
		"! rubbish":                 func(b, _ []byte) []byte { return bytes.Repeat([]byte{0xa5}, len(b)) },
		"! gone":                    nil,
	}
	for at := 0; at < head; at += 3 {
		damages[fmt.Sprintf("a bit of byte %d", at)] = flip(at)
	}
	for what, damage := range damages {
		for at := range 3 {
			t.Run(fmt.Sprintf("%s in segment %d", what, at), func(t *testing.T) {
				dir, files, data := threeSegments(t)
				var err error
				if damage == nil {
					err = os.Remove(files[at])
				} else {
					err = os.WriteFile(files[at], damage(bytes.Clone(data[at]), data[(at+1)%3]), 0o640)
				}
				if err != nil {
					t.Fatal(err)
				}
				var want []string
				for n := range 6 {
					if !strings.HasPrefix(what, "!") || n/2 != at {
						want = append(want, fmt.Sprint(n))
					}
				}
				for round := range 2 {
					l, stop := ingesttest.Start(t, dir, opener(200))
					r, err := l.Reader(fmt.Sprint("reader", round))
					if err != nil {
						t.Fatal(err)
					}
					if err := l.Append(context.Background(), fmt.Appendf(nil, "%d after", round)); err != nil {
						t.Fatal(err)
					}
					got, _ := ingesttest.All(t, r)
					for i := range got {
						if !strings.HasSuffix(got[i], "after") {
							got[i] = got[i][:1]
						}
					}
					want = append(want, fmt.Sprint(round, " after"))
					if !slices.Equal(got, want) {
						t.Errorf("start %d: the reader got %q, want %q", round, got, want)
					}
					if n := ingest.Damaged(l); round == 0 && n == 0 && at == 1 || round == 1 && n > 0 && !strings.HasPrefix(what, "!") {
						t.Errorf("start %d: %d damages were counted", round, n)
					}
					stop()
				}
				aside, _ := filepath.Glob(filepath.Join(dir, "*.damaged-*"))
				if !strings.HasPrefix(what, "!") && len(aside) != 1 {
					t.Errorf("set aside: %q, want the damaged head", aside)
				}
			})
		}
	}
}
