package list

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/test/race"
)

// TestOneLineInAHundredIsGarbage: usable lines are used, others are counted, and
// memory stays in proportion to the usable lines.
func TestOneLineInAHundredIsGarbage(t *testing.T) {
	race.Without(t)
	lines := 1_000_000
	if testing.Short() {
		lines = 100_000
	}
	path := filepath.Join(t.TempDir(), "garbage")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(4, 2))
	huge := bytes.Repeat([]byte{'h'}, 10<<20)
	w := bufio.NewWriter(f)
	g := generated{seed: 3}
	bad := 0
	var b []byte
	for i := range lines {
		if i%100 != 77 {
			b = append(g.name(b[:0], i), '\n')
			w.Write(b)
			continue
		}
		bad++
		switch kind := rnd.IntN(5); {
		case i%200_000 == 77: // ten megabytes without a line end
			w.Write(huge)
		case kind == 0: // bytes of any kind
			w.WriteByte(1)
			for range 1 + rnd.IntN(200) {
				if c := byte(rnd.Uint32()); c != '\n' && c != '#' {
					w.WriteByte(c)
				}
			}
			w.WriteByte('x')
		case kind == 1:
			fmt.Fprintf(w, "nul\x00%d.com", i)
		case kind == 2:
			fmt.Fprintf(w, "b\xe4d%d.com", i)
		case kind == 3:
			fmt.Fprintf(w, "two words%d.com", i)
		default:
			w.WriteString(strings.Repeat("a", 64) + ".com")
		}
		w.WriteByte('\n')
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	debug.FreeOSMemory()
	most := peak()
	rep, err := Compile(context.Background(), "garbage", Config{Format: Domains, Path: setting.Source(path)}, path+".list")
	if err != nil {
		t.Fatal(err)
	}
	used := most()
	t.Logf("%d entries, %d bad, %d problems kept, %d MB at most, %v", rep.Entries, rep.Bad, len(rep.Problems), used>>20, rep.Took)
	if rep.Lines != lines || rep.Bad != bad || rep.Entries != lines-bad || len(rep.Problems) != keptPerFile {
		t.Errorf("got %d lines, %d bad, %d entries, %d problems; want %d, %d, %d, %d", rep.Lines, rep.Bad, rep.Entries, len(rep.Problems), lines, bad, lines-bad, keptPerFile)
	}
	if limit := lines*70 + 64<<20; used > limit {
		t.Errorf("took %d bytes, want at most %d", used, limit)
	}
	list, err := Open(path + ".list")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	q := new(Query)
	var found []Match
	for i := range lines {
		if i%100 == 77 {
			continue
		}
		q.SetHost(string(g.name(b[:0], i)))
		if found, err = list.Lookup(q, found[:0]); err != nil || len(found) != 1 {
			t.Fatalf("entry %d: got %v, %v, want one match", i, found, err)
		}
	}
}

// TestTwoProcessesShareTheFile maps one list in two processes, which both read all of it, and
// measures how much memory each has for itself.
func TestTwoProcessesShareTheFile(t *testing.T) {
	if dst := os.Getenv("LIST_TEST_SHARE"); dst != "" {
		f, err := Open(dst)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Verify(); err != nil {
			t.Fatal(err)
		}
		fmt.Println("ready")
		bufio.NewReader(os.Stdin).ReadString('\n')
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc/PID/smaps, which Linux has")
	}
	dir := t.TempDir()
	generated{seed: 9, n: 200_000}.write(t, filepath.Join(dir, "tree"))
	dst := filepath.Join(dir, "shared.list")
	if _, err := Compile(context.Background(), "shared", Config{Path: setting.Source(filepath.Join(dir, "tree"))}, dst); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dst)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Verify(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestTwoProcessesShareTheFile$")
	cmd.Env = append(os.Environ(), "LIST_TEST_SHARE="+dst)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the other process printed %q, %v, want ready", line, err)
	}
	for _, pid := range []int{os.Getpid(), cmd.Process.Pid} {
		resident, private := mapped(t, pid, dst)
		t.Logf("process %d: %d KB resident, %d of them its own", pid, resident, private)
		if size := len(f.data) >> 10; resident < size/2 || private > 16 {
			t.Errorf("process %d has %d KB resident and %d KB private of a list of %d KB", pid, resident, private, size)
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// mapped returns how many KB of a file a process has in memory, and how many of
// these only it has.
func mapped(t testing.TB, pid int, path string) (resident, private int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		t.Skip(err)
	}
	mine := false
	for line := range strings.Lines(string(data)) {
		var kb int
		switch {
		case strings.Contains(line, "-") && strings.Contains(strings.Fields(line)[0], "-"):
			mine = strings.HasSuffix(strings.TrimSpace(line), path)
		case !mine:
		case strings.HasPrefix(line, "Rss:"):
			fmt.Sscanf(line, "Rss: %d", &kb)
			resident += kb
		case strings.HasPrefix(line, "Private_"):
			_, value, _ := strings.Cut(line, ":")
			fmt.Sscanf(value, "%d", &kb)
			private += kb
		}
	}
	return resident, private
}

// BenchmarkFiveMillion: run with -benchtime 1x. Peak is all the memory of the
// process that is not a file's.
func BenchmarkFiveMillion(b *testing.B) {
	g := generated{seed: 5, n: 5_000_000}
	tree := filepath.Join(b.TempDir(), "tree")
	g.write(b, tree)
	for b.Loop() {
		dst := filepath.Join(b.TempDir(), "five.list")
		debug.FreeOSMemory()
		most, before := peak(), cpu()
		rep, err := Compile(context.Background(), "five", Config{Path: setting.Source(tree)}, dst)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric((cpu() - before).Seconds(), "cpu-s/op")
		b.ReportMetric(float64(most())/float64(g.n), "peak-B/entry")
		b.ReportMetric(float64(rep.Bytes)/float64(g.n), "file-B/entry")
		if rep.Entries != g.n {
			b.Fatalf("got %d entries, want %d", rep.Entries, g.n)
		}
	}
}
