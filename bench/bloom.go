package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/bloom"
)

const bloomAbout = "A million URLs in a Bloom filter, beside bits-and-blooms"

// bloomKeys is the number of keys that are added and looked up, and also of absent
// keys that are looked up.
const bloomKeys = 1_000_000

// A bloomTimes is the result of one round: nanoseconds of processor time per key, and
// properties of the filter.
type bloomTimes struct {
	Add, Hit, Miss float64
	Bits           float64 // per key
	False          float64 // share of other keys that were found
}

// bloomLoop is a program that measures a filter and the peer's in turn, in one process with
// the same loops, so that both have the same keys and memory.
const bloomLoop = `package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"

	peer "github.com/bits-and-blooms/bloom/v3"
	"shuultuur/lib/bloom"
)

const keys = 1_000_000

func url(kind string, i int) string {
	return fmt.Sprintf("https://%s%d.example.org/assets/%x/image-%d.webp", kind, i%9973, uint64(i+1)*0x9e3779b97f4a7c15, i)
}

func cpu() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

func main() {
	runtime.GOMAXPROCS(1)
	own, other := make([]string, keys), make([]string, keys)
	for i := range own { // the keys of a list lie one behind the other
		own[i] = url("a", i)
	}
	for i := range other {
		other[i] = url("m", i)
	}
	runtime.GC()
	f := bloom.New(keys)
	t := []float64{cpu()}
	for _, k := range own {
		f.Add(bloom.Sum(k))
	}
	t = append(t, cpu())
	hits, wrong := 0, 0
	for _, k := range own {
		if f.Has(bloom.Sum(k)) {
			hits++
		}
	}
	t = append(t, cpu())
	for _, k := range other {
		if f.Has(bloom.Sum(k)) {
			wrong++
		}
	}
	t = append(t, cpu())
	all := []any{result(t, hits, wrong, f.Bits())}
	f = nil
	runtime.GC()
	p := peer.NewWithEstimates(keys, 0.01)
	t = []float64{cpu()}
	for _, k := range own {
		p.AddString(k)
	}
	t = append(t, cpu())
	hits, wrong = 0, 0
	for _, k := range own {
		if p.TestString(k) {
			hits++
		}
	}
	t = append(t, cpu())
	for _, k := range other {
		if p.TestString(k) {
			wrong++
		}
	}
	t = append(t, cpu())
	_ = json.NewEncoder(os.Stdout).Encode(append(all, result(t, hits, wrong, int(p.Cap()))))
}

func result(t []float64, hits, wrong, bits int) any {
	if hits != keys {
		panic("a key was lost")
	}
	return map[string]float64{
		"Add": (t[1] - t[0]) / keys, "Hit": (t[2] - t[1]) / keys, "Miss": (t[3] - t[2]) / keys,
		"Bits": float64(bits) / keys, "False": float64(wrong) / keys,
	}
}
`

// bloomFilters runs the benchmark.
func bloomFilters(ctx context.Context, opt options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "bench-bloom-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := repository()
	if err != nil {
		return err
	}
	mod := "module bench\n\ngo 1.26\n\nrequire shuultuur v0.0.0\n\nreplace shuultuur => " + root + "\n"
	for name, text := range map[string]string{"go.mod": mod, "main.go": bloomLoop} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"get", "github.com/bits-and-blooms/bloom/v3@v3.7.1"}, {"build", "-o", "loop", "."}} {
		c := exec.CommandContext(ctx, "go", args...)
		c.Dir, c.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		if output, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w: %.200s", args[0], err, output)
		}
	}
	own, other := make([]string, bloomKeys), make([]string, bloomKeys)
	url := func(kind string, i int) string {
		return fmt.Sprintf("https://%s%d.example.org/assets/%x/image-%d.webp", kind, i%9973, uint64(i+1)*0x9e3779b97f4a7c15, i)
	}
	for i := range own { // keys of a list are contiguous
		own[i] = url("a", i)
	}
	for i := range other {
		other[i] = url("m", i)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	names := []string{"one filter", "two that take turns", "map[string]struct{}", "bits-and-blooms v3.7.1", "hashing alone"}
	all := map[string][]bloomTimes{}
	for range opt.rounds {
		output, err := exec.CommandContext(ctx, filepath.Join(dir, "loop")).Output()
		if err != nil {
			return fmt.Errorf("running the filters: %w", err)
		}
		var both [2]bloomTimes
		if err := json.Unmarshal(output, &both); err != nil {
			return fmt.Errorf("running the filters: %w", err)
		}
		all[names[0]] = append(all[names[0]], both[0])
		all[names[3]] = append(all[names[3]], both[1])
		p, m := bloom.NewPair(bloomKeys), map[string]struct{}{}
		// The pair is fullest just before the second filter is emptied.
		for i := range int(float64(bloomKeys) * 0.99) {
			p.Seen(bloom.Sum(url("before", i)))
		}
		all[names[1]] = append(all[names[1]], timeBloom(own, other, float64(p.Bits()),
			func(k string) { p.Seen(bloom.Sum(k)) }, func(k string) bool { return p.Has(bloom.Sum(k)) }))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		t := timeBloom(own, other, 0, func(k string) { m[k] = struct{}{} }, func(k string) bool { _, ok := m[k]; return ok })
		runtime.GC()
		runtime.ReadMemStats(&after)
		t.Bits = float64(after.HeapAlloc-before.HeapAlloc) * 8 / bloomKeys
		runtime.KeepAlive(m)
		all[names[2]] = append(all[names[2]], t)
		all[names[4]] = append(all[names[4]], timeHashing(own, other))
	}
	return printBloom(opt, names, all, out)
}

// timeHashing measures reading and hashing the keys, the least time for any filter.
func timeHashing(own, other []string) bloomTimes {
	at := []time.Duration{processorTime()}
	sum := bloom.Key(0)
	for _, list := range [][]string{own, own, other} {
		for _, k := range list {
			sum ^= bloom.Sum(k)
		}
		at = append(at, processorTime())
	}
	runtime.KeepAlive(sum)
	return timesOf(at, 0, 0)
}

// timesOf converts the times between four moments to times per key.
func timesOf(at []time.Duration, bits float64, wrong int) bloomTimes {
	each := func(i int) float64 { return float64(at[i+1]-at[i]) / bloomKeys }
	return bloomTimes{Add: each(0), Hit: each(1), Miss: each(2), Bits: bits / bloomKeys, False: float64(wrong) / bloomKeys}
}

// timeBloom adds own to a filter and tests own and other.
func timeBloom(own, other []string, bits float64, add func(string), has func(string) bool) bloomTimes {
	runtime.GC()
	at := []time.Duration{processorTime()}
	for _, k := range own {
		add(k)
	}
	at = append(at, processorTime())
	for _, k := range own {
		if !has(k) {
			panic("a key was lost")
		}
	}
	at = append(at, processorTime())
	wrong := 0
	for _, k := range other {
		if has(k) {
			wrong++
		}
	}
	at = append(at, processorTime())
	return timesOf(at, bits, wrong)
}

// printBloom writes the table.
func printBloom(opt options, names []string, all map[string][]bloomTimes, out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . bloom -rounds %d`: %d URLs of some 60 bytes are added, asked for, and as many others asked for; ns of processor time for each, hashing included, by turns, medians. Hashing alone is the same loops without a filter. The two that take turns hold as many as they ever do; their window is a million.\n\n",
		bloomAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, bloomKeys)
	b.WriteString("| | add ns | hit ns | miss ns | bits a key | false positives |\n|---|--:|--:|--:|--:|--:|\n")
	mid := func(name string, of func(bloomTimes) float64) float64 {
		var v []float64
		for _, t := range all[name] {
			v = append(v, of(t))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	for _, n := range names {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %.2f | %.3f %% |\n", n, mid(n, func(t bloomTimes) float64 { return t.Add }),
			mid(n, func(t bloomTimes) float64 { return t.Hit }), mid(n, func(t bloomTimes) float64 { return t.Miss }),
			mid(n, func(t bloomTimes) float64 { return t.Bits }), 100*mid(n, func(t bloomTimes) float64 { return t.False }))
	}
	b.WriteString("\n")
	own, peer := all[names[0]], all[names[3]]
	for _, w := range []struct {
		what string
		of   func(bloomTimes) float64
	}{{"to add", func(t bloomTimes) float64 { return t.Add }}, {"to find", func(t bloomTimes) float64 { return t.Hit }}, {"to miss", func(t bloomTimes) float64 { return t.Miss }},
		{"to add and look up", func(t bloomTimes) float64 { return t.Add + t.Hit + t.Miss }}} {
		var ratios []float64
		for i := range own {
			ratios = append(ratios, w.of(own[i])/w.of(peer[i]))
		}
		slices.Sort(ratios)
		fmt.Fprintf(&b, "* target ≤ 0.35 × bits-and-blooms' time %s: %.2f× (%.2f–%.2f): **%s**\n", w.what, ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1], verdict(ratios[len(ratios)/2] <= 0.35))
	}
	bits, wrong := mid(names[0], func(t bloomTimes) float64 { return t.Bits }), mid(names[0], func(t bloomTimes) float64 { return t.False })
	fmt.Fprintf(&b, "* target ≤ 9.65 bits a key at ≤ 1.0 %% false positives: %.2f bits, %.3f %%: **%s**\n\n", bits, 100*wrong, verdict(bits <= 9.65 && wrong <= 0.0100))
	_, err := io.WriteString(out, b.String())
	return err
}
