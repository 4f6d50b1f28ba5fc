package ingest_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shuultuur/lib/ingest"
	"shuultuur/lib/ingest/ingesttest"
	"shuultuur/lib/setting"
)

func opener(segment setting.Size) ingesttest.Open {
	return func(dir string) (*ingest.Log, error) {
		return ingest.Open(ingest.Config{Folder: dir, Segment: segment}, nil)
	}
}

func TestConformance(t *testing.T) {
	t.Run("large segments", func(t *testing.T) { ingesttest.Run(t, opener(0)) })
	t.Run("small segments", func(t *testing.T) { ingesttest.Run(t, opener(2000)) })
	t.Run("a segment for each batch", func(t *testing.T) { ingesttest.Run(t, opener(1)) })
	t.Run("a disk that fails now and then", func(t *testing.T) {
		ingesttest.Run(t, func(dir string) (*ingest.Log, error) {
			return ingest.OpenFaulty(ingest.Config{Folder: dir}, &ingest.Faults{Every: 7})
		})
	})
}

// TestKilled kills a process that appends, at random moments, and looks for every record that
// it had acknowledged.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("INGEST_KILLED"); dir != "" {
		appendUntilKilled(dir, os.Getenv("INGEST_ROUND"))
		return
	}
	dir := t.TempDir()
	rounds := 50
	if testing.Short() {
		rounds = 8
	}
	acknowledged := map[string]bool{}
	for n := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), "INGEST_KILLED="+dir, fmt.Sprint("INGEST_ROUND=", n))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if lines.Scan() {
			time.AfterFunc(time.Duration(rand.IntN(20_000))*time.Microsecond, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
		}
		for ok := true; ok; ok = lines.Scan() {
			acknowledged[lines.Text()] = true
		}
		_ = cmd.Wait()
	}
	l, _ := ingesttest.Start(t, dir, opener(0))
	r, err := l.Reader("a")
	if err != nil {
		t.Fatal(err)
	}
	all, _ := ingesttest.All(t, r)
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s] {
			t.Fatalf("the record %q appears twice", s)
		}
		seen[s] = true
	}
	for s := range acknowledged {
		if strings.HasPrefix(s, "r") && !seen[s] {
			t.Errorf("the record %q was acknowledged and is missing", s)
		}
	}
	if len(acknowledged) < rounds {
		t.Errorf("only %d records were acknowledged in %d rounds: the test shows nothing", len(acknowledged), rounds)
	}
}

func appendUntilKilled(dir, round string) {
	l, err := ingest.Open(ingest.Config{Folder: dir, Segment: 10_000}, nil)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	go func() { _ = l.Run(context.Background()) }()
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				s := fmt.Sprintf("r%s-%d-%d", round, c, n)
				if l.Append(context.Background(), []byte(s)) != nil {
					return
				}
				_, _ = os.Stdout.WriteString(s + "\n") // prints with one system call
			}
		})
	}
	wg.Wait()
}

// written makes a log of some batches and returns the bytes of its only segment,
// and where its last batch begins.
func written(t testing.TB) (name string, data []byte, last int) {
	t.Helper()
	dir := t.TempDir()
	l, stop := ingesttest.Start(t, dir, opener(0))
	for n := range 4 {
		if n == 3 {
			last = ingest.Written(l)
		}
		if err := l.Append(context.Background(), fmt.Appendf(nil, "record %d", n), fmt.Appendf(nil, "and %d", n)); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(names) != 1 {
		t.Fatalf("files of the log: got %q, %v, want one", names, err)
	}
	name = filepath.Base(names[0])
	data, err = os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	return name, data, last
}

func TestATornWriteAtEveryByteLosesNothingAcknowledged(t *testing.T) {
	name, data, last := written(t)
	for what, torn := range map[string]func(at int) []byte{
		"cut off":       func(at int) []byte { return data[:at] },
		"zeros instead": func(at int) []byte { return append(bytes.Clone(data[:at]), make([]byte, len(data)-at)...) },
		"a wrong byte":  func(at int) []byte { b := bytes.Clone(data); b[at] ^= 0x55; return b },
	} {
		for at := last; at < len(data); at++ {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, name), torn(at), 0o600); err != nil {
				t.Fatal(err)
			}
			l, stop := ingesttest.Start(t, dir, opener(0))
			if err := l.Append(context.Background(), []byte("after")); err != nil {
				t.Fatal(err)
			}
			r, err := l.Reader("a")
			if err != nil {
				t.Fatal(err)
			}
			got, _ := ingesttest.All(t, r)
			if want := "record 0,and 0,record 1,and 1,record 2,and 2,after"; strings.Join(got, ",") != want {
				t.Errorf("%s at %d: the reader got %q", what, at-last, got)
			}
			stop()
		}
	}
}

func TestDamageInTheMiddleCostsOneBatch(t *testing.T) {
	name, data, last := written(t)
	data[last-3] ^= 1 // the damage is in the third of four batches
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
	l, _ := ingesttest.Start(t, dir, opener(0))
	r, err := l.Reader("a")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := ingesttest.All(t, r)
	if want := "record 0,and 0,record 1,and 1,record 3,and 3"; strings.Join(got, ",") != want {
		t.Errorf("the reader got %q", got)
	}
}

// TestADiskThatFailsRefusesAndRecovers makes writes and syncs fail. Every acknowledged record
// must be there, and a refused one can be sent again.
func TestADiskThatFailsRefusesAndRecovers(t *testing.T) {
	for name, f := range map[string]*ingest.Faults{
		"a full disk":                        {Write: syscall.ENOSPC},
		"a full disk after half a batch":     {Write: syscall.ENOSPC, Half: true},
		"a sync that fails":                  {Sync: syscall.EIO},
		"a sync that fails, and no cutting":  {Sync: syscall.EIO, Truncate: syscall.EIO},
		"half a batch that cannot be cut":    {Write: syscall.ENOSPC, Half: true, Truncate: syscall.EIO},
		"a segment that cannot be begun":     {Open: syscall.ENOSPC, Sync: syscall.EIO},
		"a segment whose head cannot be put": {Write: syscall.ENOSPC, Half: true, Segment: 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open := func(dir string) (*ingest.Log, error) {
				return ingest.OpenFaulty(ingest.Config{Folder: dir, Segment: setting.Size(f.Segment)}, f)
			}
			l, stop := ingesttest.Start(t, dir, open)
			var kept []string
			for round := range 4 {
				f.On.Store(round%2 == 1)
				for n := range 3 {
					s := fmt.Sprint(round, "/", n)
					ingest.TryNow(l)
					err := l.Append(context.Background(), []byte(s))
					var u *ingest.Unavailable
					if bad := round%2 == 1; bad != errors.As(err, &u) {
						t.Fatalf("round %d: Append returned %v, want an error in odd rounds only", round, err)
					}
					if bad := len(l.Problems()) > 0; bad != (round%2 == 1) {
						t.Errorf("round %d: the problems are %q, want some in odd rounds only", round, l.Problems())
					}
					if err == nil {
						kept = append(kept, s)
					}
				}
			}
			f.On.Store(false)
			check := func(when string) {
				t.Helper()
				r, err := l.Reader("reader")
				if err != nil {
					t.Fatal(err)
				}
				r.Rewind()
				all, _ := ingesttest.All(t, r)
				seen := map[string]int{}
				for _, s := range all {
					seen[s]++
				}
				for _, s := range kept {
					if seen[s] != 1 {
						t.Errorf("%s, the record %q is there %d times, want once", when, s, seen[s])
					}
				}
			}
			check("running")
			stop()
			l, _ = ingesttest.Start(t, dir, open)
			check("after a restart")
		})
	}
}

func FuzzRecover(f *testing.F) {
	name, data, last := written(f)
	f.Add(data)
	f.Add(data[:last+5])
	f.Add(data[:28])
	f.Add([]byte("SHULOG1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := ingest.Open(ingest.Config{Folder: dir, Gather: time.Microsecond}, nil)
		if err != nil {
			return
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		if err := l.Append(ctx, []byte("after")); err != nil {
			t.Fatal(err)
		}
		r, err := l.Reader("a")
		if err != nil {
			t.Fatal(err)
		}
		if all, _ := ingesttest.All(t, r); len(all) == 0 || all[len(all)-1] != "after" {
			t.Errorf("the record after recovery is missing: %q", all)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestARecordWithoutOthersIsNotHeld: the gathering time is for bursts. Records that keep coming
// share a batch, a single record is written at once.
func TestARecordWithoutOthersIsNotHeld(t *testing.T) {
	t.Parallel()
	const (
		gather  = 20 * time.Second
		records = 6
	)
	l, err := ingest.Open(ingest.Config{Folder: t.TempDir(), Gather: gather}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	begin := time.Now()
	var all sync.WaitGroup
	for n := range records { // four within each interval whose silence ends a batch
		all.Go(func() {
			time.Sleep(time.Duration(n) * gather / 80)
			if err := l.Append(ctx, []byte("a record")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if took := time.Since(begin); took > gather/2 {
		t.Errorf("a single record was acknowledged after %v; the gathering time is %v", took, gather)
	}
	if syncs, n := l.Syncs(); syncs != 1 || n != records {
		t.Errorf("%d syncs for %d records, want one for %d", syncs, n, records)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestRoomIsNotTakenForATornBatch: a killed process leaves zeros after its last batch. One that
// ends normally does not.
func TestRoomIsNotTakenForATornBatch(t *testing.T) {
	dir := t.TempDir()
	l, stop := ingesttest.Start(t, dir, opener(0))
	for _, s := range []string{"one", "two"} {
		if err := l.Append(context.Background(), []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(names) != 1 {
		t.Fatalf("files of the log: got %q, %v, want one", names, err)
	}
	killed, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	whole := ingest.Written(l)
	stop()
	if info, err := os.Stat(names[0]); err != nil || info.Size() != int64(whole) {
		t.Errorf("the file has %d bytes after its log was closed, want the %d that were written", info.Size(), whole)
	}
	if len(killed) <= whole {
		t.Fatal("there are no zeros after the last batch: the test shows nothing")
	}
	for torn, data := range map[int64][]byte{0: killed, 1: append(bytes.Clone(killed[:whole]), "half a batch"...)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(names[0])), data, 0o600); err != nil {
			t.Fatal(err)
		}
		l, _ := ingesttest.Start(t, dir, opener(0))
		if got := ingest.Torn(l); got != torn {
			t.Errorf("opening removed %d torn batches, want %d", got, torn)
		}
		if err := l.Append(context.Background(), []byte("three")); err != nil {
			t.Fatal(err)
		}
		r, err := l.Reader("a")
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := ingesttest.All(t, r); strings.Join(got, ",") != "one,two,three" {
			t.Errorf("the reader got %q, want one, two, three", got)
		}
	}
}
