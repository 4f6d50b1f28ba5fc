package list

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"shuultuur/lib/setting"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const millions = 2_100_000

// bigTree returns the path of the large generated list, which is made on first
// use.
var bigTree = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "list-bench")
	if err != nil {
		panic(err)
	}
	return dir
})

func TestMain(m *testing.M) {
	code := m.Run()
	if benchmarked.Load() {
		os.RemoveAll(bigTree())
	}
	os.Exit(code)
}

var benchmarked atomic.Bool

// bigSource writes the large generated list once for all benchmarks.
func bigSource(b *testing.B) (g generated, tree string) {
	b.Helper()
	g, tree = generated{seed: 1, n: millions}, filepath.Join(bigTree(), "tree")
	if !benchmarked.Swap(true) {
		g.write(b, tree)
	}
	return g, tree
}

// bigList compiles it.
func bigList(b *testing.B) (generated, string) {
	b.Helper()
	g, tree := bigSource(b)
	dst := filepath.Join(bigTree(), "big.list")
	if _, err := Compile(context.Background(), "big", Config{Path: setting.Source(tree)}, dst); err != nil {
		b.Fatal(err)
	}
	return g, dst
}

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// status reads a line of /proc/self/status, in bytes; 0 if it does not exist.
func status(name string) int {
	data, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kb << 10
		}
	}
	return 0
}

// peak begins a measurement and returns the function that ends it: it returns
// by how much the process's anonymous memory increased at most.
func peak() (end func() int) {
	base, most := status("RssAnon"), 0
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			most = max(most, status("RssAnon"))
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	return func() int { close(stop); <-done; return most - base }
}

// BenchmarkCompile: run with -benchtime 1x. Time is the processor's.
func BenchmarkCompile(b *testing.B) {
	g, tree := bigSource(b)
	for b.Loop() {
		dst := filepath.Join(b.TempDir(), "big.list")
		debug.FreeOSMemory()
		most, before := peak(), cpu()
		rep, err := Compile(context.Background(), "big", Config{Path: setting.Source(tree)}, dst)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric((cpu() - before).Seconds(), "cpu-s/op")
		b.ReportMetric(float64(most())/float64(g.n), "peak-B/entry")
		b.ReportMetric(float64(rep.Bytes)/float64(rep.Entries), "file-B/entry")
		text := 0
		for i := range g.n {
			text += len(g.name(nil, i))
		}
		b.ReportMetric(float64(text)/float64(g.n), "text-B/entry")
		if rep.Entries != g.n {
			b.Fatalf("got %d entries, want %d", rep.Entries, g.n)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	_, dst := bigList(b)
	b.ReportAllocs()
	for b.Loop() {
		f, err := Open(dst)
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

func BenchmarkVerify(b *testing.B) {
	_, dst := bigList(b)
	f, err := Open(dst)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		if err := f.Verify(); err != nil {
			b.Fatal(err)
		}
	}
}

// lookups measures lookups of 200,000 different hosts in turn.
func lookups(b *testing.B, host func(g generated, i int) string, want bool) {
	g, dst := bigList(b)
	f, err := Open(dst)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	hosts := make([]string, 200_000)
	for i := range hosts {
		hosts[i] = host(g, i)
	}
	q := new(Query)
	var found []Match
	ask := func(i int) {
		q.SetHost(hosts[i%len(hosts)])
		if found, err = f.Lookup(q, found[:0]); err != nil || len(found) > 0 != want {
			b.Fatalf("%s: got %v, %v", hosts[i%len(hosts)], found, err)
		}
	}
	for i := range hosts { // the file's pages into memory
		ask(i)
	}
	b.ReportAllocs()
	i, before := 0, cpu()
	for b.Loop() {
		ask(i)
		i++
	}
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op") // other programs may keep the machine busy
}

func BenchmarkMiss(b *testing.B) {
	lookups(b, func(g generated, i int) string { return string(g.missing(nil, i)) }, false)
}

func BenchmarkHit(b *testing.B) {
	lookups(b, func(g generated, i int) string {
		var sub []byte
		if i%3 > 0 {
			sub = []byte("www.cdn."[4*(i%3-1):])
		}
		return string(g.name(sub, i*10))
	}, true)
}

// BenchmarkTwentyLists: one host that none of twenty lists has.
func BenchmarkTwentyLists(b *testing.B) {
	g, dst := bigList(b)
	var files [20]*File
	for i := range files {
		f, err := Open(dst)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	host := string(g.missing(nil, 7))
	q := new(Query)
	var found []Match
	b.ReportAllocs()
	for b.Loop() {
		q.SetHost(host)
		for _, f := range files {
			found, _ = f.Lookup(q, found[:0])
		}
	}
}

// BenchmarkURL: a URL of eight parts on a host that is not listed, and on one
// that has URLs in the list but not this one.
func BenchmarkURL(b *testing.B) {
	var text strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&text, "host%d.com/some/path/%d\n", i/4, i)
	}
	f, _ := compileText(b, Config{Format: Domains}, text.String())
	for _, host := range []string{"www.nowhere.com", "www.host77.com"} {
		b.Run(host, func(b *testing.B) {
			q := new(Query)
			var found []Match
			path := []byte("/some/path/to/a/page.html?with=an&argument=2")
			b.ReportAllocs()
			for b.Loop() {
				q.SetURL(host, path)
				if found, _ = f.Lookup(q, found[:0]); len(found) > 0 {
					b.Fatalf("a URL that is in no list was found: %v", found)
				}
			}
		})
	}
}
