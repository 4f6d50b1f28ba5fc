package profile

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// top bounds the lines of a part of the reading.
const top = 12

// Reading turns profiles, by file name, into a page of text. It omits missing profiles
// and names unreadable ones.
func Reading(files map[string][]byte) string {
	var b strings.Builder
	for _, part := range []struct {
		file string
		read func(*strings.Builder, *profile.Profile)
	}{
		{"cpu.pprof", readCPU}, {"mutex.pprof", readMutex}, {"block.pprof", readBlock},
		{"allocs.pprof", readAllocations}, {"goroutine.pprof", readGoroutines}, {"heap.pprof", readHeap},
	} {
		data, ok := files[part.file]
		if !ok {
			continue
		}
		p, err := profile.ParseData(data)
		if err == nil && len(p.SampleType) == 0 {
			err = fmt.Errorf("it has no values")
		}
		if err != nil {
			fmt.Fprintf(&b, "%s cannot be read: %v\n\n", part.file, err)
			continue
		}
		part.read(&b, p)
		b.WriteByte('\n')
	}
	if data, ok := files["trace.out"]; ok {
		readTrace(&b, data)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// value returns the index of a sample's value by the name of its type, or the
// last index if there is no such name.
func value(p *profile.Profile, name string) int {
	for i, t := range p.SampleType {
		if t.Type == name {
			return i
		}
	}
	return len(p.SampleType) - 1
}

// frames calls f with each function of a sample, innermost first, until f
// returns false. Inlined functions are included.
func frames(s *profile.Sample, f func(name string) bool) {
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function != nil && !f(line.Function.Name) {
				return
			}
		}
	}
}

// leaf is the innermost function.
func leaf(s *profile.Sample) string {
	name := "?"
	frames(s, func(n string) bool { name = n; return false })
	return name
}

// module is the common prefix of the paths of the program's own packages.
var module = strings.TrimSuffix(reflect.TypeFor[entry]().PkgPath(), "tool/profile")

// place returns the innermost function of the program itself, with the function it called:
// the waiting function, and its operation. If the program is not on the stack, it is the
// innermost function outside the runtime.
func place(s *profile.Sample) string {
	who, in, before, other := "", "", "", ""
	frames(s, func(n string) bool {
		n, _, _ = strings.Cut(n, "[") // type parameters are long
		if strings.HasPrefix(n, module) || strings.HasPrefix(n, "main.") {
			who, in = n, before
			return false
		}
		if other == "" && !strings.HasPrefix(n, "runtime.") {
			other = n
		}
		before = n
		return true
	})
	switch {
	case who == "" && other == "":
		return "the runtime"
	case who == "":
		return other
	case in == "":
		return who
	}
	return who + " in " + in
}

// isProfiling reports whether a sample comes from taking profiles.
func isProfiling(s *profile.Sample) bool {
	found := false
	frames(s, func(n string) bool {
		found = strings.HasPrefix(n, module+"admin.") && (strings.Contains(n, "serveWhile") || strings.Contains(n, "serveNamed"))
		return !found
	})
	return found
}

type entry struct {
	name     string
	value, n int64
}

// group adds up values and counts of samples by name, largest value first.
func group(p *profile.Profile, value, count int, by func(*profile.Sample) string) (all []entry, sum, n int64) {
	at := map[string]int{}
	for _, s := range p.Sample {
		name := by(s)
		i, ok := at[name]
		if !ok {
			i = len(all)
			at[name] = i
			all = append(all, entry{name: name})
		}
		all[i].value += s.Value[value]
		all[i].n += s.Value[count]
		sum += s.Value[value]
		n += s.Value[count]
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name))
	})
	return all, sum, n
}

func first(all []entry) []entry { return all[:min(len(all), top)] }

func percent(part, whole int64) float64 { return 100 * float64(part) / float64(max(whole, 1)) }

// collecting reports whether a sample is the collector's work, in the background or as an
// assist.
func collecting(s *profile.Sample) bool {
	found := false
	frames(s, func(n string) bool {
		switch n {
		case "runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart", "runtime.gcMarkDone", "runtime.gcMarkTermination", "runtime.(*mcentral).uncacheSpan", "runtime.deductSweepCredit":
			found = true
		}
		return !found
	})
	return found
}

func readCPU(b *strings.Builder, p *profile.Profile) {
	v := value(p, "cpu")
	all, sum, _ := group(p, v, v, leaf)
	window := time.Duration(p.DurationNanos)
	fmt.Fprintf(b, "CPU: %.2f s in %.1f s, %.2f cores\n", time.Duration(sum).Seconds(), window.Seconds(), float64(sum)/float64(max(int64(window), 1)))
	gc := int64(0)
	for _, s := range p.Sample {
		if collecting(s) {
			gc += s.Value[v]
		}
	}
	fmt.Fprintf(b, "  %5.1f %%  garbage collection, allocation's share of it included\n", percent(gc, sum))
	if len(all) > 0 {
		b.WriteString("functions by their own CPU:\n")
	}
	for _, e := range first(all) {
		fmt.Fprintf(b, "  %5.1f %%  %s\n", percent(e.value, sum), e.name)
	}
}

func readWaits(b *strings.Builder, p *profile.Profile, title, none string) {
	p.Sample = slices.DeleteFunc(p.Sample, isProfiling)
	all, sum, n := group(p, value(p, "delay"), value(p, "contentions"), place)
	if len(all) == 0 {
		fmt.Fprintf(b, "%s: %s\n", title, none)
		return
	}
	fmt.Fprintf(b, "%s: %s in %d waits (sampled)\n", title, formatDuration(time.Duration(sum)), n)
	for _, e := range first(all) {
		fmt.Fprintf(b, "  %9s %8d  %s\n", formatDuration(time.Duration(e.value)), e.n, e.name)
	}
}

// readMutex: a mutex profile records the holder of the lock, on unlock.
func readMutex(b *strings.Builder, p *profile.Profile) {
	readWaits(b, p, "locks others waited for", "nobody waited for a lock")
}

func readBlock(b *strings.Builder, p *profile.Profile) {
	readWaits(b, p, "waits on channels and locks", "none of note")
}

func readGoroutines(b *strings.Builder, p *profile.Profile) {
	v := value(p, "goroutine")
	all, sum, _ := group(p, v, v, place)
	fmt.Fprintf(b, "goroutines: %d\n", sum)
	for _, e := range first(all) {
		fmt.Fprintf(b, "  %8d  %s\n", e.value, e.name)
	}
}

func readAllocations(b *strings.Builder, p *profile.Profile) {
	p.Sample = slices.DeleteFunc(p.Sample, isProfiling)
	all, sum, n := group(p, value(p, "alloc_space"), value(p, "alloc_objects"), place)
	seconds := max(time.Duration(p.DurationNanos).Seconds(), 1e-3)
	fmt.Fprintf(b, "allocated (sampled): %s/s in %.0f objects/s\n", bytesOf(float64(sum)/seconds), float64(n)/seconds)
	for _, e := range first(all) {
		if e.value > 0 {
			fmt.Fprintf(b, "  %7s/s  %s\n", bytesOf(float64(e.value)/seconds), e.name)
		}
	}
}

func readHeap(b *strings.Builder, p *profile.Profile) {
	all, sum, n := group(p, value(p, "inuse_space"), value(p, "inuse_objects"), place)
	fmt.Fprintf(b, "heap in use (sampled): %s in %d objects\n", bytesOf(float64(sum)), n)
	for _, e := range first(all) {
		if e.value > 0 {
			fmt.Fprintf(b, "  %9s  %s\n", bytesOf(float64(e.value)), e.name)
		}
	}
}

// formatDuration prints a duration with three digits.
func formatDuration(d time.Duration) string {
	s := d.Seconds()
	switch {
	case s >= 1:
		return fmt.Sprintf("%.3g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", s*1e3)
	case s > 0:
		return fmt.Sprintf("%.3g µs", s*1e6)
	}
	return "0"
}

func bytesOf(n float64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", n/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", n/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", n/(1<<10))
}
