package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"shuultuur/lib/ingest"
	"shuultuur/lib/ingest/ingesttest"
	"shuultuur/lib/setting"
)

// holds returns the files of a folder that contain a text.
func holds(t testing.TB, dir, text string) (files []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(text)) {
			files = append(files, filepath.Base(name))
		}
	}
	return files
}

// TestErasedRecordsAreInNoFile erases read and unread records, in full segments
// and in the current one, while others are appended.
func TestErasedRecordsAreInNoFile(t *testing.T) {
	for _, segment := range []setting.Size{1, 2000, setting.Size(0)} {
		t.Run(fmt.Sprint("segments of ", segment), func(t *testing.T) {
			dir := t.TempDir()
			l, stop := ingesttest.Start(t, dir, opener(segment))
			r, err := l.Reader("a")
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			add := func(n int) {
				t.Helper()
				who := []string{"anna", "ben"}[n%2]
				records := [][]byte{fmt.Appendf(nil, "%s %d", who, n), nil, fmt.Appendf(nil, "ben %d", n)}
				if err := l.Append(context.Background(), records...); err != nil {
					t.Fatal(err)
				}
				for _, b := range records {
					if !bytes.HasPrefix(b, []byte("anna")) {
						want = append(want, string(b))
					}
				}
			}
			for n := range 20 {
				add(n)
			}
			first, next, err := r.Next(context.Background(), 30, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Done(next); err != nil {
				t.Fatal(err)
			}
			for n := range 20 {
				add(20 + n)
			}
			kept := slices.Clone(want)
			var others sync.WaitGroup
			others.Go(func() {
				for n := range 50 {
					if err := l.Append(context.Background(), fmt.Appendf(nil, "other %d", n)); err != nil {
						t.Error(err)
					}
				}
			})
			n, err := l.Erase(context.Background(), func(b []byte) bool { return bytes.HasPrefix(b, []byte("anna")) }, false)
			if err != nil || n == 0 {
				t.Fatalf("erased %d records: %v", n, err)
			}
			others.Wait()
			if files := holds(t, dir, "anna"); len(files) > 0 {
				t.Errorf("after the erasure %q still contain the name", files)
			}
			check := func(when string, first []string, r *ingest.Reader) {
				t.Helper()
				all, _ := ingesttest.All(t, r)
				got := slices.DeleteFunc(append(slices.Clone(first), all...), func(s string) bool {
					return strings.HasPrefix(s, "anna") || strings.HasPrefix(s, "other")
				})
				if !slices.Equal(got, kept) || len(all) < 50 {
					t.Errorf("%s: %d records of others remain, want %d", when, len(got), len(kept))
				}
			}
			var before []string
			for _, b := range first {
				before = append(before, string(b))
			}
			check("running", before, r)
			if n, err := l.Erase(context.Background(), func(b []byte) bool { return bytes.HasPrefix(b, []byte("anna")) }, false); err != nil || n != 0 {
				t.Errorf("erasing again removed %d records: %v; want none", n, err)
			}
			stop()
			l, _ = ingesttest.Start(t, dir, opener(segment))
			if r, err = l.Reader("a"); err != nil {
				t.Fatal(err)
			}
			check("after a restart", before, r)
		})
	}
}

func TestErasingOverwritesWhatIsDamaged(t *testing.T) {
	name, data, last := written(t)
	data[last-3] ^= 1 // the damage is in the third of four batches
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
	l, _ := ingesttest.Start(t, dir, opener(0))
	if n, err := l.Erase(context.Background(), func(b []byte) bool { return string(b) == "and 0" }, false); n != 1 || err != nil {
		t.Fatalf("erasing one record: got %d, %v, want 1", n, err)
	}
	if files := holds(t, dir, "record 2"); len(files) > 0 {
		t.Errorf("after the erasure %q still contain the damaged record", files)
	}
	r, err := l.Reader("a")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := ingesttest.All(t, r)
	if want := "record 0,record 1,and 1,record 3,and 3"; strings.Join(got, ",") != want {
		t.Errorf("the reader got %q", got)
	}
}

func TestRotateDeletesWhatHasBeenRead(t *testing.T) {
	dir := t.TempDir()
	l, stop := ingesttest.Start(t, dir, opener(0))
	r, err := l.Reader("a")
	if err != nil {
		t.Fatal(err)
	}
	rotate := func() {
		t.Helper()
		if err := l.Rotate(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	rotate() // of nothing
	if err := l.Append(context.Background(), []byte("one")); err != nil {
		t.Fatal(err)
	}
	rotate()
	if files := holds(t, dir, "one"); len(files) != 1 {
		t.Errorf("%q contain a record that nobody has read, want one file", files)
	}
	got, next := ingesttest.All(t, r)
	if len(got) != 1 {
		t.Fatalf("reading the log: got %q, want one record", got)
	}
	if err := r.Done(next); err != nil {
		t.Fatal(err)
	}
	rotate()
	if err := l.Append(context.Background(), []byte("two")); err != nil {
		t.Fatal(err)
	}
	rotate()
	if files := holds(t, dir, "one"); len(files) > 0 {
		t.Errorf("%q still contain a record that every reader has passed", files)
	}
	if err := l.Append(context.Background(), make([]byte, 10)); err == nil {
		t.Error("Append accepts a record of zeros, which looks erased")
	}
	stop()
	l, _ = ingesttest.Start(t, dir, opener(0))
	if r, err = l.Reader("a"); err != nil {
		t.Fatal(err)
	}
	if got, _ := ingesttest.All(t, r); !slices.Equal(got, []string{"two"}) {
		t.Errorf("the reader got %q, want two", got)
	}
}
