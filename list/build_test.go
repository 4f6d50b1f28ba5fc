package list

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
	"shuultuur/lib/setting"
)

// TestAgreesWithMap compares random small lists, whose names share suffixes and
// prefixes, with a map.
func TestAgreesWithMap(t *testing.T) {
	label := rapid.SampledFrom([]string{"a", "b", "aa", "www", "www1", "example", "xn--a", "_x", "a-b"})
	segment := rapid.SampledFrom([]string{"/", "/a", "/b", "/aa", "?a", "&b", "=1", "/..", "//", "%61", ".html"})
	url := func(t *rapid.T) (host, path string) {
		host = strings.Join(rapid.SliceOfN(label, 2, 4).Draw(t, "host"), ".")
		if rapid.Bool().Draw(t, "has path") {
			path = "/" + strings.Join(rapid.SliceOfN(segment, 0, 4).Draw(t, "path"), "")
		}
		return host, path
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var lines []string
		for range rapid.IntRange(0, 40).Draw(t, "lines") {
			host, path := url(t)
			lines = append(lines, host+path)
		}
		src, dst := filepath.Join(dir, "source"), filepath.Join(dir, "own.list")
		if err := os.WriteFile(src, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		os.Remove(dst)
		if _, err := Compile(context.Background(), "own", Config{Format: Domains, Path: setting.Source(src)}, dst); err != nil {
			t.Fatal(err)
		}
		f, err := Open(dst)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		names := map[string]bool{}
		for _, line := range lines {
			host, path, _ := strings.Cut(line, "/")
			if path != "" || strings.HasSuffix(line, "/") {
				var buf [maxKey + 1]byte
				path = strings.TrimSuffix(string(cleanPath(buf[:0], []byte("/"+path))), "/")
			}
			names[host+path] = false
		}
		if f.Len() != len(names) {
			t.Fatalf("got %d entries, want %d", f.Len(), len(names))
		}
		q := new(Query)
		for range 30 {
			host, path := url(t)
			q.SetURL(host, []byte(path))
			found, err := f.Lookup(q, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(found) > 0, inMap(names, host, path); got != want {
				t.Fatalf("%s%s: got %v, want %v", host, path, got, want)
			}
		}
	})
}

// TestManyEntriesAgreeWithMap looks up each of many generated entries, and as many names that
// are not in the list.
func TestManyEntriesAgreeWithMap(t *testing.T) {
	g := generated{seed: 7, n: 60_000}
	tree := filepath.Join(t.TempDir(), "tree")
	g.write(t, tree)
	f, rep := compilePath(t, Config{Path: setting.Source(tree)})
	if rep.Entries != g.n || rep.Bad+rep.Duplicates > 0 {
		t.Fatalf("got %d entries, %d bad, %d duplicates, want %d, 0, 0", rep.Entries, rep.Bad, rep.Duplicates, g.n)
	}
	names := make(map[string]bool, g.n)
	for i := range g.n {
		names[string(g.name(nil, i))] = false
	}
	q := new(Query)
	var found []Match
	for i := range g.n {
		var err error
		q.SetHost(string(g.name(nil, i)))
		if found, err = f.Lookup(q, found[:0]); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range found {
			if strings.HasPrefix(f.Evidence(m), `"`+q.host+`"`) {
				got = append(got, m.Category)
			}
		}
		var want []string
		for _, c := range g.categories(i) {
			want = append(want, fmt.Sprintf("category%02d", c))
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%s: got %q, want %q", q.host, got, want)
		}
		host := string(g.missing(nil, i))
		q.SetHost(host)
		if found, err = f.Lookup(q, found[:0]); err != nil {
			t.Fatal(err)
		}
		if got, want := len(found) > 0, inMap(names, host, ""); got != want {
			t.Fatalf("%s: got %v, want %v", host, got, want)
		}
	}
}

func TestUnchangedListIsNotMadeAgain(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "source"), filepath.Join(dir, "own.list")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	compile := func(cfg Config) Report {
		t.Helper()
		cfg.Path = setting.Source(src)
		rep, err := Compile(context.Background(), "own", cfg, dst)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	write("a.com\nb a d\n")
	first := compile(Config{})
	again := compile(Config{})
	if first.Reused || !again.Reused {
		t.Errorf("got reused %v and %v, want false and true", first.Reused, again.Reused)
	}
	if len(again.Problems) != 1 || again.Entries != 1 || again.Bytes == 0 {
		t.Errorf("report of the reused list: got %+v", again)
	}
	if compile(Config{Category: "x"}).Reused {
		t.Error("Compile reused the list although the settings changed")
	}
	write("a.com\nb.com\n")
	os.Chtimes(src, time.Time{}, time.Now().Add(time.Second))
	if rep := compile(Config{Category: "x"}); rep.Reused || rep.Entries != 2 {
		t.Errorf("after a change: got %+v", rep)
	}
}

func TestDamagedFileIsRefusedAndMadeAnew(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "source"), filepath.Join(dir, "own.list")
	if err := os.WriteFile(src, []byte("a.com\nb.com/x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	compile := func() Report {
		rep, err := Compile(context.Background(), "own", Config{Path: setting.Source(src)}, dst)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	compile()
	whole, err := os.ReadFile(dst)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at int) []byte {
		b := bytes.Clone(whole)
		b[at] ^= 0x10
		return b
	}
	for name, data := range map[string][]byte{
		"empty":      nil,
		"no header":  bytes.Repeat([]byte{0}, len(whole)), // the possible state of a file that was not synced before a crash
		"half":       whole[:len(whole)/2],
		"one short":  whole[:len(whole)-1],
		"one long":   append(bytes.Clone(whole), 0),
		"magic":      flip(0),
		"version":    flip(8),
		"seed":       flip(24),
		"names":      flip(bytes.Index(whole, []byte("\x03own"))),
		"other file": []byte(strings.Repeat("a.com\n", 200)),
	} {
		if err := os.WriteFile(dst, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if f, err := Open(dst); err == nil {
			f.Close()
			t.Errorf("Open accepted the damaged file %s", name)
		} else if !strings.HasPrefix(err.Error(), dst+": ") {
			t.Errorf("%s: got %v, want the file named", name, err)
		}
		if rep := compile(); rep.Reused || rep.Note == "" || rep.Entries != 2 {
			t.Errorf("%s: got %+v, want a note that it was made anew", name, rep)
		}
	}
	// Damage that Open does not look for is found by Verify.
	if err := os.WriteFile(dst, flip(bytes.Index(whole, []byte("a.com"))), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dst)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Verify(); err == nil {
		t.Error("Verify accepted a damaged file")
	}
	if rep := compile(); rep.Reused {
		t.Error("Compile reused a damaged file")
	}
}

// TestKilledCompileLeavesTheOldList represents a crash at any moment before the
// rename: there is a temporary file, in any state, and the old list.
func TestKilledCompileLeavesTheOldList(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "source"), filepath.Join(dir, "own [1].list")
	if err := os.WriteFile(src, []byte("a.com\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Compile(context.Background(), "own", Config{Path: setting.Source(src)}, dst); err != nil {
		t.Fatal(err)
	}
	young, old := dst+".123.tmp", dst+".456.tmp"
	for _, f := range []string{young, old} {
		if err := os.WriteFile(f, []byte("SHUULIST half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	os.Chtimes(old, time.Time{}, time.Now().Add(-2*time.Hour))
	f, err := Open(dst)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(ask(t, f, "a.com")) != 1 {
		t.Error("a.com is missing from the old list after a failed Compile")
	}
	if err := os.WriteFile(src, []byte("b.com\nc.com\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Compile(ctx, "own", Config{Path: setting.Source(src)}, dst); !errors.Is(err, context.Canceled) {
		t.Errorf("Compile with a canceled context: got %v, want canceled", err)
	}
	if now, err := Open(dst); err != nil || now.Len() != 1 {
		t.Errorf("after a Compile that was stopped: got %v, %v, want the old list", now, err)
	}
	if _, err := Compile(context.Background(), "own", Config{Path: setting.Source(src)}, dst); err != nil {
		t.Fatal(err)
	}
	if len(ask(t, f, "a.com")) != 1 {
		t.Error("a.com is missing from the old list, which is still open, after it was replaced")
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Error("Compile left a temporary file of two hours ago")
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("Compile removed a recent file that may belong to another process")
	}
}

// TestCraftedCollisions: entries crafted to share a bucket cause a new seed and no wrong
// answer.
func TestCraftedCollisions(t *testing.T) {
	// 70 names whose hashes fall into the first of 55 buckets, found by trying.
	var lines []string
	for i := 0; len(lines) < 70; i++ {
		name := fmt.Sprintf("x%d.example", i)
		if hashHost([]byte(name), defaultSeed)>>56 == 0 {
			lines = append(lines, name)
		}
	}
	rest := 0
	for i := 0; rest < 150; i++ {
		name := fmt.Sprintf("y%d.example", i)
		if hashHost([]byte(name), defaultSeed)>>56 != 0 {
			lines = append(lines, name)
			rest++
		}
	}
	f, rep := compileText(t, Config{Format: Domains}, strings.Join(lines, "\n"))
	if f.table.seed == defaultSeed {
		t.Error("the colliding list was compiled with the default seed")
	}
	if rep.Entries != len(lines) {
		t.Errorf("got %d entries, want %d", rep.Entries, len(lines))
	}
	for _, name := range lines {
		if len(ask(t, f, "www."+name)) != 1 {
			t.Errorf("www.%s is not found", name)
		}
	}
	// One query to files of two seeds.
	other, _ := compileText(t, Config{}, "example\n.example\n")
	q := new(Query)
	q.SetHost(lines[3])
	for _, file := range []*File{f, other, f, other} {
		if found, err := file.Lookup(q, nil); err != nil || len(found) != 1 {
			t.Errorf("Lookup in a list of another seed: got %v, %v, want one match", found, err)
		}
	}
}

// TestReplacedWhileAsked swaps a list under readers and sees the old mappings
// go.
func TestReplacedWhileAsked(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "source"), filepath.Join(dir, "own.list")
	load := func(i int) *File {
		if err := os.WriteFile(src, fmt.Appendf(nil, "always.com\nround%d.com\n", i), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Compile(context.Background(), "own", Config{Path: setting.Source(src)}, dst); err != nil {
			t.Fatal(err)
		}
		f, err := Open(dst)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	var current atomic.Pointer[File]
	current.Store(load(0))
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			q := new(Query)
			var found []Match
			for !stop.Load() {
				f := current.Load()
				q.SetHost("www.always.com")
				var err error
				if found, err = f.Lookup(q, found[:0]); err != nil || len(found) != 1 {
					t.Errorf("Lookup while the list is replaced: got %v, %v, want one match", found, err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	for i := range 100 {
		current.Store(load(i + 1))
		runtime.GC()
	}
	stop.Store(true)
	wg.Wait()
	if mapped := mappings(dst); mapped >= 0 {
		for deadline := time.Now().Add(time.Minute); mapped > 1 && time.Now().Before(deadline); mapped = mappings(dst) {
			runtime.GC()
		}
		if mapped > 1 {
			t.Errorf("%d mappings of the list are left, want 1", mapped)
		}
	}
	runtime.KeepAlive(&current)
}

// mappings counts the mappings of a path, including replaced files; -1 if the
// system does not report them.
func mappings(path string) int {
	data, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return -1
	}
	return strings.Count(string(data), path)
}

func TestLookupAllocatesNothing(t *testing.T) {
	f, _ := compileText(t, Config{}, "a.com\nwww.a.com\na.com/x\na.com/x/y\n")
	q := new(Query)
	found := make([]Match, 0, 8)
	for _, host := range []string{"www.a.com", "www.b.com", "10.1.2.3", "2001:db8::1"} {
		path := []byte("/x/y/%41?z=1")
		if n := testing.AllocsPerRun(100, func() {
			q.SetURL(host, path)
			found, _ = f.Lookup(q, found[:0])
		}); n != 0 {
			t.Errorf("%s: got %v allocations per lookup, want 0", host, n)
		}
	}
}

func TestClosedFileFindsNothing(t *testing.T) {
	f, _ := compileText(t, Config{}, "a.com\n")
	q := new(Query)
	q.SetHost("a.com")
	found, err := f.Lookup(q, nil)
	if err != nil || len(found) != 1 {
		t.Fatalf("Lookup before Close: got %v, %v, want one match", found, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if found, err := f.Lookup(q, nil); err != nil || len(found) != 0 {
		t.Errorf("Lookup after Close: got %v, %v, want nothing", found, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestDamagedBytesNeverPanic flips bytes of the parts that Open does not
// check.
func TestDamagedBytesNeverPanic(t *testing.T) {
	f, _ := compileText(t, Config{}, "a.com\nwww.a.com\nb.com/x\nc.com\n10.1.1.1\n")
	whole := bytes.Clone(f.data)
	r := rand.New(rand.NewPCG(1, 2))
	q := new(Query)
	for range 3000 {
		data := bytes.Clone(whole)
		for range 1 + r.IntN(4) {
			s := f.section[[]int{secRecords, secIndex, secBloom, secMore}[r.IntN(4)]]
			if s.Size > 0 {
				data[s.Offset+r.Uint64N(s.Size)] = byte(r.Uint32())
			}
		}
		d, err := open("damaged", data)
		if err != nil {
			t.Fatal(err)
		}
		exercise(d, q)
	}
}

// exercise queries f without checking the answers.
func exercise(f *File, q *Query) {
	for _, url := range []string{"www.a.com", "b.com/x/y", "10.1.1.1", "nothing.org/"} {
		host, path, _ := strings.Cut(url, "/")
		q.SetURL(host, []byte("/"+path))
		found, _ := f.Lookup(q, nil)
		for _, m := range found {
			f.Evidence(m)
		}
	}
	f.Report()
	f.Verify()
}

// TestCompilingAllocatesNothingForAnEntry: entries are allocated in blocks, so that small
// machines can compile millions of them.
func TestCompilingAllocatesNothingForAnEntry(t *testing.T) {
	const n = 50_000
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "host%d.example%d.com\n", i, i%1000)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "names")
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rep, err := Compile(t.Context(), "names", Config{Format: Domains, Path: setting.Source(path)}, filepath.Join(dir, "names.list"))
	runtime.ReadMemStats(&after)
	if err != nil || rep.Entries != n {
		t.Fatalf("Compile: got %d entries, error %v", rep.Entries, err)
	}
	if got := after.Mallocs - before.Mallocs; got > n/10 {
		t.Errorf("Compile made %d allocations for %d entries, want at most a tenth", got, n)
	}
}

// TestTextOfALargeListIsSpilledToDisk: a list has more text than Compile keeps in memory, and every
// entry is found.
func TestTextOfALargeListIsSpilledToDisk(t *testing.T) {
	const n = 450_000
	var text bytes.Buffer
	name := func(i int) string { return fmt.Sprintf("host-with-a-long-name-%07d.example%d.com", i, i%100) }
	for i := range n {
		fmt.Fprintln(&text, name(i*7919%n))
	}
	if text.Len() <= (heapChunks+2)*textChunk {
		t.Fatalf("the test's list of %d bytes fits in memory, so nothing is put aside", text.Len())
	}
	dir := t.TempDir()
	path, dst := filepath.Join(dir, "names"), filepath.Join(dir, "names.list")
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	rep, err := Compile(t.Context(), "names", Config{Format: Domains, Path: setting.Source(path)}, dst)
	if err != nil || rep.Entries != n {
		t.Fatalf("Compile: got %d entries, error %v", rep.Entries, err)
	}
	f, err := Open(dst)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range n {
		if i%97 == 0 && len(ask(t, f, "www."+name(i))) != 1 {
			t.Fatalf("www.%s is not found", name(i))
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("Compile left temporary files: %q, %v", left, err)
	}
}
