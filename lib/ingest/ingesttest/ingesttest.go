// Package ingesttest is the conformance suite of durable logs: each reader
// reads every acknowledged record, once and in order, even after the log was
// closed and opened again.
//
// [Run] takes a function that opens a log in a folder, so that one suite covers
// logs with small segments, slow disks and disks that fail now and then.
package ingesttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/lib/ingest"
)

// Open opens a log in a folder.
type Open func(dir string) (*ingest.Log, error)

// Start opens a log and runs it until stop is called or the test ends.
func Start(t testing.TB, dir string, open Open) (l *ingest.Log, stop func()) {
	t.Helper()
	l, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the log ended with: %v", err)
		}
	})
	t.Cleanup(stop)
	return l, stop
}

// All reads all records that a reader has not read yet.
func All(t testing.TB, r *ingest.Reader) (all []string, next uint64) {
	t.Helper()
	for {
		records, n, err := r.Next(context.Background(), 1000, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(records) == 0 {
			return all, n
		}
		next = n
		for _, b := range records {
			all = append(all, string(b))
		}
	}
}

func reader(t testing.TB, l *ingest.Log, name string) *ingest.Reader {
	t.Helper()
	r, err := l.Reader(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func add(t testing.TB, l *ingest.Log, records ...string) {
	t.Helper()
	all := make([][]byte, len(records))
	for n, s := range records {
		all[n] = []byte(s)
	}
	for {
		err := l.Append(context.Background(), all...)
		var u *ingest.Unavailable
		if errors.As(err, &u) {
			time.Sleep(u.Retry / 100)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
}

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, Open){
		"what is acknowledged is read in order":  order,
		"many clients at once":                   crowd,
		"a log continues after a restart":        restart,
		"readers are independent":                independent,
		"segments that all have read go":         trim,
		"records that do not fit are refused":    limits,
		"a reader waits for records":             wait,
		"a log that is closed refuses":           closed,
		"only one process may write to a folder": locked,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

func want(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %d records %.200q, want %d %.200q", len(got), got, len(want), want)
	}
}

func order(t *testing.T, open Open) {
	l, _ := Start(t, t.TempDir(), open)
	var given []string
	for n := range 50 {
		s := fmt.Sprint(n, strings.Repeat("x", n*n))
		add(t, l, s, "")
		given = append(given, s, "")
	}
	got, next := All(t, reader(t, l, "a"))
	want(t, got, given)
	if next < 100 {
		t.Errorf("the reader is at %d, want at least 100", next)
	}
}

func crowd(t *testing.T, open Open) {
	l, _ := Start(t, t.TempDir(), open)
	const clients, each = 64, 20
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for n := range each {
				add(t, l, fmt.Sprintf("%03d/%03d", c, n))
			}
		})
	}
	wg.Wait()
	got, _ := All(t, reader(t, l, "a"))
	last := map[string]string{}
	seen := map[string]int{}
	for _, s := range got {
		if c := s[:3]; last[c] > s {
			t.Fatalf("%s after %s", s, last[c])
		}
		last[s[:3]] = s
		seen[s]++
	}
	for s, n := range seen {
		if n != 1 {
			t.Errorf("%s is there %d times", s, n)
		}
	}
	if len(seen) != clients*each {
		t.Errorf("got %d records, want %d", len(seen), clients*each)
	}
	if syncs, records := l.Syncs(); records < 2*syncs {
		t.Errorf("%d records needed %d syncs: they are not gathered", records, syncs)
	}
}

func restart(t *testing.T, open Open) {
	dir := t.TempDir()
	var given []string
	for n := range 5 {
		l, stop := Start(t, dir, open)
		for i := range 10 {
			s := fmt.Sprint(n, "/", i)
			add(t, l, s)
			given = append(given, s)
		}
		stop()
	}
	l, stop := Start(t, dir, open)
	r := reader(t, l, "a")
	got, next := All(t, r)
	want(t, got, given)
	if err := r.Done(next); err != nil {
		t.Fatal(err)
	}
	stop()
	l, _ = Start(t, dir, open)
	r = reader(t, l, "a")
	got, _ = All(t, r)
	want(t, got, nil)
	add(t, l, "after")
	got, _ = All(t, r)
	want(t, got, []string{"after"})
}

func independent(t *testing.T, open Open) {
	l, _ := Start(t, t.TempDir(), open)
	a, b := reader(t, l, "a"), reader(t, l, "b")
	add(t, l, "1")
	add(t, l, "2")
	got, next := All(t, a)
	want(t, got, []string{"1", "2"})
	if err := a.Done(next); err != nil {
		t.Fatal(err)
	}
	a.Rewind()
	got, _ = All(t, a)
	want(t, got, nil)
	got, _ = All(t, b)
	want(t, got, []string{"1", "2"})
	b.Rewind()
	got, _ = All(t, b)
	want(t, got, []string{"1", "2"})
	if n := l.Pending(b); n < 2 {
		t.Errorf("%d records are pending, want 2", n)
	}
}

func trim(t *testing.T, open Open) {
	l, _ := Start(t, t.TempDir(), open)
	a, b := reader(t, l, "a"), reader(t, l, "b")
	for n := range 30 {
		add(t, l, fmt.Sprint(n, strings.Repeat("x", 1000)))
	}
	for _, r := range []*ingest.Reader{a, b} {
		got, next := All(t, r)
		if len(got) != 30 {
			t.Fatalf("got %d records, want 30", len(got))
		}
		if err := r.Done(next); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 30 {
		add(t, l, fmt.Sprint("more ", n, strings.Repeat("x", 1000)))
	}
	if got, _ := All(t, a); len(got) != 30 {
		t.Errorf("got %d records after segments have gone, want 30", len(got))
	}
}

func limits(t *testing.T, open Open) {
	l, _ := Start(t, t.TempDir(), open)
	ctx := context.Background()
	if err := l.Append(ctx); err == nil {
		t.Error("nothing was taken for a record")
	}
	if err := l.Append(ctx, make([]byte, ingest.MaxRecord+1)); err == nil {
		t.Error("a record that is too large was taken")
	}
	add(t, l, strings.Repeat("x", ingest.MaxRecord))
	if got, _ := All(t, reader(t, l, "a")); len(got) != 1 || len(got[0]) != ingest.MaxRecord {
		t.Error("the largest record did not come back")
	}
}

func wait(t *testing.T, open Open) {
	l, _ := Start(t, t.TempDir(), open)
	r := reader(t, l, "a")
	got := make(chan string, 1)
	go func() {
		records, _, err := r.Next(context.Background(), 1, time.Minute)
		if err != nil || len(records) != 1 {
			got <- fmt.Sprint(records, err)
			return
		}
		got <- string(records[0])
	}()
	add(t, l, "late")
	if s := <-got; s != "late" {
		t.Errorf("got %q", s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := r.Next(ctx, 1, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader that is not needed any more: %v", err)
	}
}

func closed(t *testing.T, open Open) {
	l, stop := Start(t, t.TempDir(), open)
	add(t, l, "1")
	stop()
	var u *ingest.Unavailable
	if err := l.Append(context.Background(), []byte("2")); !errors.As(err, &u) {
		t.Errorf("got %v, want Unavailable", err)
	}
}

func locked(t *testing.T, open Open) {
	dir := t.TempDir()
	Start(t, dir, open)
	if _, err := open(dir); err == nil {
		t.Error("a second log was opened in the same folder")
	}
}
