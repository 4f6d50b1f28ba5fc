package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A measure is the subject of a target.
type measure int

const (
	perCore     measure = iota // fetches per second of the proxy's processor time relative to a peer, at least
	cpuPerFetch                // processor time per fetch relative to a peer, at most
	noErrors                   // errors, timeouts and changed pages: none
	residentMB                 // peak: at most
	p99                        // milliseconds in the slowest round, at most
)

// target is a goal for Shuultuur. It is reported, not enforced.
type target struct {
	against string
	what    measure
	value   float64
}

// table collects windows and prints them as Markdown.
type table struct {
	s     scenario
	opt   options
	peers []*peer
	rows  map[string][]window
	notes []string
}

func newTable(s scenario, opt options, all []*peer) *table {
	return &table{s: s, opt: opt, peers: all, rows: map[string][]window{}}
}

func (t *table) add(p *peer, w window) { t.rows[p.name] = append(t.rows[p.name], w) }

// median returns the median of one figure over a peer's rounds.
func (t *table) median(name string, of func(window) float64) float64 {
	return middle(t.values(name, of))
}

func (t *table) values(name string, of func(window) float64) []float64 {
	var v []float64
	for _, w := range t.rows[name] {
		v = append(v, of(w))
	}
	slices.Sort(v)
	return v
}

// middle returns the median of sorted values.
func middle(v []float64) float64 {
	n := len(v)
	if n == 0 {
		return math.NaN()
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

func (t *table) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", t.s.about)
	fmt.Fprintf(&b, "%s. %s\n", time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"))
	fmt.Fprintf(&b, "`go run -C bench . %s -rounds %d -seconds %g -peers %s`, %d connections, medians; load and nginx on core %s, proxy on core %s.\n\n",
		t.s.name, t.opt.rounds, t.s.seconds(t.opt), t.opt.peers, t.s.connections, loadCore, proxyCore)
	t.figures(&b)
	t.ratios(&b)
	t.verdicts(&b)
	for _, n := range t.notes {
		fmt.Fprintf(&b, "* %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *table) figures(b *strings.Builder) {
	fmt.Fprintf(b, "| peer | version | %s/s | min–max | body MB/s | first byte p50 ms | p50 ms | p99 ms | CPU µs/fetch | fetch/s per full core* | RSS MB peak | errors | changed |\n", t.s.unit)
	b.WriteString("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, p := range t.peers {
		rates := t.values(p.name, window.rate)
		fmt.Fprintf(b, "| %s | %s | %s | %s–%s | %s | %.2f | %.2f | %.1f |", p.name, p.about,
			figure(middle(rates)), figure(rates[0]), figure(rates[len(rates)-1]),
			figure(t.median(p.name, func(w window) float64 { return float64(w.report.Bytes) / w.report.Seconds / 1e6 })),
			t.median(p.name, func(w window) float64 { return w.report.FirstByte.P50 }),
			t.median(p.name, func(w window) float64 { return w.report.Total.P50 }),
			t.median(p.name, func(w window) float64 { return w.report.Total.P99 }))
		if p.proc == nil {
			b.WriteString(" - | - | - |")
		} else {
			cpu := t.median(p.name, window.perFetch)
			fmt.Fprintf(b, " %s | %s | %.0f |", figure(cpu), figure(1e6/cpu), t.peak(p.name))
		}
		errors, changed := t.errors(p.name)
		fmt.Fprintf(b, " %s | %d |\n", errors, changed)
	}
	b.WriteString("\n\\* 10^6 / CPU µs per fetch: what the proxy would do if core 0 were never the limit.\n\n")
}

func (t *table) peak(name string) float64 {
	v := t.values(name, func(w window) float64 { return w.peakMB })
	return v[len(v)-1]
}

// errors adds up the errors of all rounds, in words.
func (t *table) errors(name string) (string, int64) {
	sum, changed, cut := map[string]int64{}, int64(0), int64(0)
	for _, w := range t.rows[name] {
		for class, n := range w.report.Errors {
			if class != "changed body" {
				sum[class] += n
			}
		}
		changed += w.report.BadBodies
		cut += w.report.Unfinished
		if t.s.queues { // time ends the round, with a fetch in progress on each connection
			cut -= min(w.report.Unfinished, int64(t.s.connections))
		}
	}
	var words []string
	for class, n := range sum {
		words = append(words, fmt.Sprintf("%d %s", n, class))
	}
	slices.Sort(words)
	if cut > 0 {
		words = append(words, fmt.Sprintf("%d unfinished", cut))
	}
	if len(words) == 0 {
		return "0", changed
	}
	return strings.Join(words, ", "), changed
}

const subject = "shuultuur"

// ratios compares the subject with each peer: medians, and in brackets the range over the
// rounds, each compared with the adjacent round of the peer.
func (t *table) ratios(b *strings.Builder) {
	if len(t.rows[subject]) == 0 {
		return
	}
	fmt.Fprintf(b, "| %s against | %s/s | per full core | CPU/fetch | RSS |\n|---|--:|--:|--:|--:|\n", subject, t.s.unit)
	for _, p := range t.peers {
		if p.name == subject || p.proc == nil {
			continue
		}
		cpu := t.median(subject, window.perFetch) / t.median(p.name, window.perFetch)
		rates, costs := t.compare(p.name, window.rate), t.compare(p.name, window.perFetch)
		fmt.Fprintf(b, "| %s | %.2f×%s | %.2f× | %.3f×%s | %.2f× |\n", p.name,
			t.median(subject, window.rate)/t.median(p.name, window.rate), spread(rates, 2), 1/cpu, cpu, spread(costs, 3), t.peak(subject)/t.peak(p.name))
	}
	b.WriteString("\n")
}

// compare returns one figure of the subject relative to that of a peer in each round,
// ascending.
func (t *table) compare(name string, of func(window) float64) []float64 {
	var v []float64
	for i, w := range t.rows[name] {
		if i < len(t.rows[subject]) {
			v = append(v, of(t.rows[subject][i])/of(w))
		}
	}
	slices.Sort(v)
	return v
}

// spread formats the range of sorted values for use after a median.
func spread(v []float64, digits int) string {
	if len(v) < 2 {
		return ""
	}
	return fmt.Sprintf(" (%.*f–%.*f)", digits, v[0], digits, v[len(v)-1])
}

// verdicts reports which targets are reached.
func (t *table) verdicts(b *strings.Builder) {
	if len(t.rows[subject]) == 0 {
		fmt.Fprintf(b, "%s was not measured: no target is judged.\n\n", subject)
		return
	}
	for _, g := range t.s.targets {
		if g.against != "" && len(t.rows[g.against]) == 0 {
			fmt.Fprintf(b, "* target against %s: not judged, it was not measured\n", g.against)
			continue
		}
		reached, text := t.judge(g)
		fmt.Fprintf(b, "* %s: **%s**\n", text, verdict(reached))
	}
}

func (t *table) judge(g target) (bool, string) {
	cpu := func(name string) float64 { return t.median(name, window.perFetch) }
	switch g.what {
	case perCore:
		got := cpu(g.against) / cpu(subject)
		wall := t.median(subject, window.rate) / t.median(g.against, window.rate)
		return got >= g.value, fmt.Sprintf("target ≥ %g × %s's %s/s per core: %.2f× (by the clock %.2f×)", g.value, g.against, t.s.unit, got, wall)
	case cpuPerFetch:
		got := cpu(subject) / cpu(g.against)
		return got <= g.value, fmt.Sprintf("target ≤ %g × %s's CPU per fetch: %.3f×", g.value, g.against, got)
	case p99:
		all := t.values(subject, func(w window) float64 { return w.report.Total.P99 })
		got := all[len(all)-1]
		return got <= g.value, fmt.Sprintf("target p99 ≤ %g ms in each round: %.0f ms", g.value, got)
	case noErrors:
		errors, changed := t.errors(subject)
		return errors == "0" && changed == 0, fmt.Sprintf("target no error, time-out or changed page: %s errors, %d changed", errors, changed)
	}
	got := t.peak(subject)
	return got < g.value, fmt.Sprintf("target < %g MB resident: %.0f MB", g.value, got)
}

// figure formats a number with about three digits.
func figure(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// processor returns the model of the machine's processor.
func processor() string {
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				return strings.TrimSpace(v)
			}
		}
	}
	return "unknown processor"
}

// machine describes the machine, and how busy it is at that moment.
func machine(when string) string {
	kernel := "unknown kernel"
	if out, err := exec.Command("uname", "-sr").Output(); err == nil {
		kernel = strings.TrimSpace(string(out))
	}
	busy := "unknown"
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		busy, _, _ = strings.Cut(string(text), " ")
	}
	return fmt.Sprintf("%s, %d cores, %s, %s, load average %s %s.", processor(), runtime.NumCPU(), kernel, runtime.Version(), when, busy)
}

// median returns the median of one figure over several rounds.
func median[T any](all []T, of func(T) float64) float64 {
	var v []float64
	for _, x := range all {
		v = append(v, of(x))
	}
	slices.Sort(v)
	return middle(v)
}
