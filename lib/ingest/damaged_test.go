package ingest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A reader whose position is damaged, or beyond the end of the log, reads everything again: what is
// handed over twice counts once, and what is skipped never.
func TestADamagedPositionReadsEverythingAgain(t *testing.T) {
	for name, text := range map[string]string{"emptied": "", "a letter": "1x\n", "zeros": "\x00\x00", "too large": "99999999999999999999999\n", "beyond the end": "900\n"} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			var end func()
			open := func() *Log {
				l, err := Open(Config{Folder: folder}, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ran := make(chan error)
				go func() { ran <- l.Run(ctx) }()
				end = func() {
					cancel()
					if err := errors.Join(<-ran, l.Close()); err != nil {
						t.Error(err)
					}
				}
				return l
			}
			read := func(l *Log) (n int) {
				r, err := l.Reader("counter")
				if err != nil {
					t.Fatal(err)
				}
				records, next, err := r.Next(t.Context(), 10, time.Millisecond)
				if err == nil {
					err = r.Done(next)
				}
				if err != nil {
					t.Fatal(err)
				}
				return len(records)
			}
			l := open()
			for range 3 {
				if err := l.Append(t.Context(), []byte("a vote")); err != nil {
					t.Fatal(err)
				}
			}
			if n := read(l); n != 3 {
				t.Fatalf("%d records, want 3", n)
			}
			end()
			file := filepath.Join(folder, "counter"+positionSuffix)
			if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
				t.Fatal(err)
			}
			l = open()
			defer end()
			if n := read(l); n != 3 {
				t.Errorf("%d records after the damage, want all 3", n)
			}
			if set, _ := filepath.Glob(file + ".damaged-*"); len(set) != 1 {
				t.Errorf("set aside: %q", set)
			}
		})
	}
}
