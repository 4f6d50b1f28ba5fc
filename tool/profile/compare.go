package profile

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// measures are what [Compare] sets side by side. Values that grow with the time of a profile are
// compared for each second of it.
var measures = []struct {
	file, title, value string
	by                 func(*profile.Sample) string
	each               bool // second
	show               func(float64) string
}{
	{"cpu.pprof", "CPU by the functions' own, of a core", "cpu", leaf, true, func(x float64) string { return fmt.Sprintf("%.1f %%", x/1e7) }},
	{"allocs.pprof", "allocated in a second", "alloc_space", place, true, bytesOf},
	{"mutex.pprof", "waits for locks in a second, by their holders", "delay", place, true, nanoseconds},
	{"block.pprof", "waits on channels and locks in a second", "delay", place, true, nanoseconds},
	{"heap.pprof", "heap in use", "inuse_space", place, false, bytesOf},
	{"goroutine.pprof", "goroutines", "goroutine", place, false, func(x float64) string { return fmt.Sprintf("%.0f", x) }},
}

func nanoseconds(x float64) string { return formatDuration(time.Duration(x)) }

// Compare sets two folders that Fetch has written side by side: for each profile that both
// have, its sum and the functions that changed most. Names of two profiles of one kind will do
// as well: FOLDER/cpu.pprof.
func Compare(before, after string) (string, error) {
	for _, place := range []string{before, after} {
		if _, err := os.Stat(place); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	found := false
	for _, m := range measures {
		files := [2]string{fileOf(before, m.file), fileOf(after, m.file)}
		if files[0] == "" || files[1] == "" {
			continue
		}
		found = true
		var sides [2]map[string]float64
		for i, file := range files {
			p, seconds, err := taken(file)
			if err != nil {
				return "", err
			}
			if !m.each {
				seconds = 1
			}
			p.Sample = slices.DeleteFunc(p.Sample, isProfiling)
			v := value(p, m.value)
			all, _, _ := group(p, v, v, m.by)
			sides[i] = map[string]float64{}
			for _, e := range all {
				sides[i][e.name] = float64(e.value) / seconds
			}
		}
		compareSides(&b, m.title, sides[0], sides[1], m.show)
	}
	if !found {
		return "", fmt.Errorf("%s and %s have no profile of the same kind; name two folders that \"profile\" wrote, or two of their files", before, after)
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// fileOf returns the name of a profile in a folder, or the place itself if that is its file, or
// "" if there is none.
func fileOf(place, file string) string {
	if info, err := os.Stat(place); err == nil && info.IsDir() {
		place = filepath.Join(place, file)
	}
	if _, err := os.Stat(place); err != nil || filepath.Base(place) != file {
		return ""
	}
	return place
}

// taken reads a profile, and for how long it was taken.
func taken(file string) (p *profile.Profile, seconds float64, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, 0, err
	}
	p, err = profile.ParseData(data)
	if err == nil && len(p.SampleType) == 0 {
		err = fmt.Errorf("it has no values")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s cannot be read: %w", file, err)
	}
	return p, max(time.Duration(p.DurationNanos).Seconds(), 1e-3), nil
}

// compareSides prints the sums and the functions of which the values differ most.
func compareSides(b *strings.Builder, title string, before, after map[string]float64, show func(float64) string) {
	var names []string
	var sums [2]float64
	for name, v := range before {
		names = append(names, name)
		sums[0] += v
	}
	for name, v := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
		sums[1] += v
	}
	change := func(name string) float64 { return after[name] - before[name] }
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(max(change(y), -change(y)), max(change(x), -change(x))), cmp.Compare(x, y))
	})
	fmt.Fprintf(b, "%s: %s before, %s after%s\n", title, show(sums[0]), show(sums[1]), times(sums[0], sums[1]))
	for _, name := range names[:min(len(names), top)] {
		if change(name) == 0 {
			break
		}
		sign := "+"
		if change(name) < 0 {
			sign = "−"
		}
		fmt.Fprintf(b, "  %12s  (%s, then %s)  %s\n", sign+show(max(change(name), -change(name))), show(before[name]), show(after[name]), name)
	}
	b.WriteByte('\n')
}

// times says how many times as much it is.
func times(before, after float64) string {
	if before <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%.2f ×)", after/before)
}
