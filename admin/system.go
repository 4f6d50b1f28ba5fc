package admin

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/release"
)

// System is what the admin address shows of the program and this machine.
type System struct {
	// Backup writes the settings and what belongs to them, and says what it
	// left out.
	Backup func(w io.Writer) (left []string, err error)
	// State are figures of what is remembered, by what they are of. What they
	// are is written as JSON.
	State func() map[string]any
}

//go:embed system.html
var systemPage string

// systemData is the page, and its form for programs.
type systemData struct {
	Version  string            `json:"version"`
	Go       string            `json:"go"`
	Platform string            `json:"platform"`
	Health   Health            `json:"health"`
	Live     runtimeFigures    `json:"runtime"`
	State    map[string]figure `json:"state"`
	Owner    bool              `json:"-"`
}

// figure are names and values.
type figure map[string]any

// runtimeFigures are what the garbage collector and the scheduler do.
type runtimeFigures struct {
	Processors int           `json:"processors"`
	Goroutines uint64        `json:"goroutines"`
	Heap       uint64        `json:"heap_bytes"` // in use
	Goal       uint64        `json:"goal_bytes"` // at which the collector begins
	Total      uint64        `json:"total_bytes"`
	Cycles     uint64        `json:"gc_cycles"`
	Pause      time.Duration `json:"gc_pause_p99"`
	Wait       time.Duration `json:"scheduler_wait_p99"` // until a goroutine that could run does
	GCShare    float64       `json:"gc_cpu_share"`       // of the processor time since the start
}

// systemRoutes returns what is about the program.
//
//	GET /system           versions, the collector and the scheduler, what is
//	                      remembered; HTML for browsers, else JSON
//	GET /system/backup    the backup, as a file
func (p *Parts) systemRoutes() []route {
	if p.System == nil {
		return nil
	}
	page := pageOf(systemPage, p.Pause.notice)
	return []route{
		{"GET", "/system", operator, func(w http.ResponseWriter, r *http.Request) {
			d := systemData{Version: programVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Health: p.Health(), Live: readRuntime(), State: map[string]figure{},
				Owner: asker(r).Role >= least[owner]}
			for name, v := range p.System.State() {
				d.State[name] = figures(v)
			}
			if isPage(r) {
				writePage(w, page, http.StatusOK, d)
				return
			}
			writeJSON(w, http.StatusOK, d)
		}},
		{"GET", "/system/backup", owner, func(w http.ResponseWriter, r *http.Request) {
			// Made as a whole first: half a backup is none.
			var b strings.Builder
			if _, err := p.System.Backup(&b); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			h := w.Header()
			h.Set("Content-Type", "application/gzip")
			h.Set("Content-Disposition", `attachment; filename="shuultuur-`+time.Now().Format("20060102")+`.tar.gz"`)
			h.Set("Cache-Control", "no-store")
			h.Set("X-Content-Type-Options", "nosniff")
			_, _ = io.WriteString(w, b.String()) // the client went away: nobody to tell
		}},
	}
}

// programVersion is the version of this program, with the revision it was built
// from where that is known.
func programVersion() string {
	v := release.Version()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return strings.TrimSuffix(v, "+dirty") + " (" + s.Value[:12] + ")"
			}
		}
	}
	return v
}

// figures are the fields of v, as JSON has them.
func figures(v any) figure {
	text, err := json.Marshal(v)
	f := figure{}
	if err != nil || json.Unmarshal(text, &f) != nil {
		return nil
	}
	return f
}

// shownFigure is one of them on the page.
type shownFigure struct{ Name, Value string }

func (f figure) shown() (all []shownFigure) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		var text string
		switch v := f[name].(type) {
		case float64:
			text = number(int64(v))
			if v != math.Trunc(v) {
				text = strconv.FormatFloat(v, 'g', 4, 64)
			}
		case string:
			if text = v; v == "" || strings.HasPrefix(v, "0001-01-01T") {
				continue
			}
		default:
			text = fmt.Sprint(v)
		}
		all = append(all, shownFigure{name, text})
	}
	return all
}

func readRuntime() runtimeFigures {
	names := []string{"/sched/goroutines:goroutines", "/gc/heap/live:bytes", "/gc/heap/goal:bytes", "/memory/classes/total:bytes", "/gc/cycles/total:gc-cycles",
		"/sched/pauses/total/gc:seconds", "/sched/latencies:seconds", "/cpu/classes/gc/total:cpu-seconds", "/cpu/classes/total:cpu-seconds"}
	s := make([]metrics.Sample, len(names))
	for i, n := range names {
		s[i].Name = n
	}
	metrics.Read(s)
	count := func(i int) uint64 {
		if s[i].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return s[i].Value.Uint64()
	}
	most := func(i int) time.Duration {
		if s[i].Value.Kind() != metrics.KindFloat64Histogram {
			return 0
		}
		return quantile(s[i].Value.Float64Histogram(), 0.99)
	}
	f := runtimeFigures{Processors: runtime.GOMAXPROCS(0), Goroutines: count(0), Heap: count(1), Goal: count(2), Total: count(3), Cycles: count(4), Pause: most(5), Wait: most(6)}
	if a, b := s[7].Value, s[8].Value; a.Kind() == metrics.KindFloat64 && b.Kind() == metrics.KindFloat64 && b.Float64() > 0 {
		f.GCShare = a.Float64() / b.Float64()
	}
	return f
}

// quantile is the upper bound of the bucket in which a share of the values ends.
func quantile(h *metrics.Float64Histogram, share float64) time.Duration {
	var all, sum uint64
	for _, n := range h.Counts {
		all += n
	}
	for i, n := range h.Counts {
		if sum += n; all > 0 && float64(sum) >= share*float64(all) {
			top := h.Buckets[i+1]
			if math.IsInf(top, 1) {
				top = h.Buckets[i]
			}
			return time.Duration(top * float64(time.Second))
		}
	}
	return 0
}
