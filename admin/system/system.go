// Package system has the page of the machine and the process, the backup, and the profiles.
package system

import (
	"context"
	"io"
	"math"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"shuultuur/admin/backup"
	"shuultuur/admin/web"
	"shuultuur/lib/problem"
	"shuultuur/lib/release"
	"shuultuur/text"
)

// System provides the admin address with data about the program and this
// machine.
type System struct {
	// Backup writes the settings and the files that belong to them, and returns
	// the names of those it omitted.
	Backup func(w io.Writer) (left []string, err error)
	// Restore checks a backup, keeps it, and has the gateway start again with it. does says what it
	// does. nil: the backup cannot be restored from here.
	Restore func(ctx context.Context, backup io.Reader, passphrase, address string) (does []string, err error)
	// Check finds out whether a gateway could start with a backup, and says what is in it; nil: it is
	// restored at once.
	Check func(ctx context.Context, backup io.Reader, passphrase, address string) (says []string, err error)
	// Kept are the backups on this machine; "": none is kept.
	Kept backup.Folder
	// State returns figures of the remembered state by subject, which are written
	// as JSON.
	State func() map[string]any
	// Health returns the state of the gateway.
	Health func() Health
}

// systemData is the content of the page, and its form for programs.
type systemData struct {
	Version  string                `json:"version"`
	Go       string                `json:"go"`
	Platform string                `json:"platform"`
	Health   Health                `json:"health"`
	Live     runtimeFigures        `json:"runtime"`
	State    map[string]web.Figure `json:"state"`
	Owner    bool                  `json:"-"`
	Since    time.Time             `json:"-"` // Health.Started

	Problems []web.Task `json:"-"`
	Well     []well     `json:"-"`

	Does    []string       `json:"-"` // of a backup that is restored
	Error   string         `json:"-"`
	Backups []backup.Entry `json:"-"` // that are kept here
	Waits   *waiting       `json:"-"` // a backup that was checked

	Memory                 web.Graph      `json:"-"` // in the last samples
	Pauses, Delays, Shares []runtimeShare `json:"-"`
}

// Remembered is the title of the figures of the state.
const Remembered = "What is remembered"

// A runtimeShare is a row of a small chart.
type runtimeShare struct {
	Name  string
	N     int64
	Width float64 // in percent
}

// runtimeFigures are figures of the garbage collector and the scheduler.
type runtimeFigures struct {
	Processors int           `json:"processors"`
	Goroutines uint64        `json:"goroutines"`
	Heap       uint64        `json:"heap_bytes"`    // in use after the last collection
	Objects    uint64        `json:"objects_bytes"` // including garbage
	Goal       uint64        `json:"goal_bytes"`    // heap size at which the collector begins
	Total      uint64        `json:"total_bytes"`
	Cycles     uint64        `json:"gc_cycles"`
	Pause      time.Duration `json:"gc_pause_p99"`
	Wait       time.Duration `json:"scheduler_wait_p99"` // until a goroutine that could run does
	GCShare    float64       `json:"gc_cpu_share"`       // of the processor time since the start

	pauses, waits *metrics.Float64Histogram
	idle, program float64 // shares of the processor time
}

// A sampler records how much memory objects took while a page was open.
type sampler struct {
	mu   sync.Mutex
	last time.Time
	seen []web.GraphRow
}

// Samples are taken at most once a second. They begin again after a time without any.
const (
	maxSamples = 60
	sampleTick = time.Second
	sampleRest = 10 * time.Second
)

// add notes a sample, of memory in use and of the memory at which the collector begins, and
// returns the last ones.
func (s *sampler) add(now time.Time, objects, goal uint64) []web.GraphRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch since := now.Sub(s.last); {
	case since > sampleRest:
		s.seen = nil
		fallthrough
	case since >= sampleTick:
		s.last = now
		mib := func(n uint64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) }
		s.seen = append(s.seen, web.GraphRow{At: now.Local().Format(time.TimeOnly), Values: []string{mib(objects), mib(goal)}})
		s.seen = s.seen[max(0, len(s.seen)-maxSamples):]
	}
	return slices.Clone(s.seen)
}

// charts fills in the graphs of the page.
func (d *systemData) charts(samples []web.GraphRow) {
	d.Memory = web.Graph{Name: "memory", Kind: "lines", Title: text.Mark("Memory while this page is open"),
		Columns: []web.GraphColumn{{Name: text.Mark("in use"), Colour: "pass", Unit: "MiB"}, {Name: text.Mark("collected at"), Colour: "warn", Unit: "MiB"}}, Rows: samples}
	d.Pauses, d.Delays = spread(d.Live.pauses), spread(d.Live.waits)
	if d.Live.program > 0 {
		d.Shares = []runtimeShare{{Name: text.Mark("program"), Width: 100 * d.Live.program}, {Name: text.Mark("garbage collector"), Width: 100 * d.Live.GCShare}, {Name: text.Mark("unused"), Width: 100 * d.Live.idle}}
	}
}

// spread counts the values of a histogram by decades of time.
func spread(h *metrics.Float64Histogram) (all []runtimeShare) {
	if h == nil {
		return nil
	}
	limits := []time.Duration{10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, math.MaxInt64}
	counts := make([]int64, len(limits))
	var sum int64
	for i, n := range h.Counts {
		if n > 0 {
			low := time.Duration(max(h.Buckets[i], 0) * float64(time.Second))
			counts[slices.IndexFunc(limits, func(l time.Duration) bool { return low < l })] += int64(n)
			sum += int64(n)
		}
	}
	for i, n := range counts {
		if sum == 0 {
			break
		}
		name := "< " + web.BriefTime(limits[i])
		if i == len(limits)-1 {
			name = "≥ " + web.BriefTime(limits[i-1])
		}
		all = append(all, runtimeShare{name, n, 100 * float64(n) / float64(sum)})
	}
	return all
}

// Routes returns the routes of the program.
//
//	GET /system           versions, the collector and the scheduler, what is
//	                      remembered; HTML for browsers, else JSON
//	GET /system/backup    the backup, as a file
//	POST /system/restore  a backup, which replaces what is here; a browser is
//	                      asked first
//	POST /system/backups  makes one and keeps it; /system/backups/{name} has it
//	POST /system/backups/remove  name
func (s *System) Routes(site *web.Site) []web.Route {
	page := site.Page("system.html")
	site.TaskSources = append(site.TaskSources, web.TaskSource{Page: "/system", Tasks: s.needSomebody})
	var memory sampler
	show := func(w http.ResponseWriter, r *http.Request, status int, now pageState) {
		d := systemData{Version: programVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Health: s.Health(), Live: readRuntime(), State: map[string]web.Figure{},
			Owner: web.UserOf(r).Role >= web.Least[web.Owner], Does: now.does, Waits: now.waits}
		if now.err != nil {
			d.Error = now.err.Error()
		}
		if d.Owner && s.Kept != "" {
			d.Backups, _ = s.Kept.All() // without them, the page has the rest
		}
		for name, v := range s.State() {
			d.State[name] = web.Figures(v)
		}
		if web.IsPage(r) {
			d.Problems = TasksOf(&d.Health, web.TextsOf(w), func(path string) bool { return path != "/system" && site.May(w, path) })
			d.Well = wellOf(&d.Health)
			d.Since, _ = time.Parse(time.RFC3339, d.Health.Started) // otherwise the page leaves it out
			d.charts(memory.add(time.Now(), d.Live.Objects, d.Live.Goal))
			web.WritePage(w, page, status, d)
			return
		}
		web.WriteJSON(w, status, d)
	}
	return append(s.backupRoutes(show), []web.Route{
		{Method: "GET", Path: "/system", Role: web.Operator,
			Link: web.LinkIn(web.System, text.Mark("Health")),
			Does: "versions, garbage collector, scheduler, and what is remembered", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { show(w, r, http.StatusOK, pageState{}) }},
		{Method: "GET", Path: "/system/backup", Role: web.Owner,
			Does: "settings, accounts, versions and keys in one file", Gives: "application/gzip",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				// The backup is made as a whole first, because half a backup is useless.
				var b strings.Builder
				if _, err := s.Backup(&b); err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
				h := w.Header()
				h.Set("Content-Type", "application/gzip")
				h.Set("Content-Disposition", `attachment; filename="shuultuur-`+time.Now().Format("20060102")+`.tar.gz"`)
				h.Set("Cache-Control", "no-store")
				h.Set("X-Content-Type-Options", "nosniff")
				_, _ = io.WriteString(w, b.String()) // it fails if the client has gone away
			}},
		{Method: "POST", Path: "/system/restore", Role: web.Owner,
			Does: "put back a backup: it is checked, then the gateway starts again with it", Gives: web.PageOrJSON,
			Query:  []web.Field{web.Optional("address", "address of this machine, in place of that of the other one")},
			Body:   "application/gzip multipart/form-data",
			Effect: "the gateway becomes another one; a backup that it could not start with is refused",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				does, waits, err := s.restore(site, w, r)
				switch {
				case web.IsPage(r):
					status := http.StatusOK
					if err != nil {
						status = statusOf(err)
					}
					show(w, r, status, pageState{does, waits, err})
				case err != nil:
					http.Error(w, err.Error(), statusOf(err))
				default:
					web.WriteJSON(w, http.StatusOK, Restored{does})
				}
			}},
	}...)
}

// A pageState is what the page says besides the figures.
type pageState struct {
	does  []string
	waits *waiting
	err   error
}

type showFunc func(w http.ResponseWriter, r *http.Request, status int, now pageState)

// Restored says what is done with a backup.
type Restored struct {
	Does []string `json:"does"`
}

// maxBackup bounds a backup that is sent here, and maxInMemory the part of a form that is not on the
// disk meanwhile.
const (
	maxBackup   = 256 << 20
	maxInMemory = 1 << 20
)

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

func readRuntime() runtimeFigures {
	names := []string{"/sched/goroutines:goroutines", "/gc/heap/live:bytes", "/gc/heap/goal:bytes", "/memory/classes/total:bytes", "/gc/cycles/total:gc-cycles",
		"/sched/pauses/total/gc:seconds", "/sched/latencies:seconds", "/cpu/classes/gc/total:cpu-seconds", "/cpu/classes/total:cpu-seconds",
		"/memory/classes/heap/objects:bytes", "/cpu/classes/idle:cpu-seconds", "/cpu/classes/user:cpu-seconds"}
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
	histogram := func(i int) *metrics.Float64Histogram {
		if s[i].Value.Kind() != metrics.KindFloat64Histogram {
			return nil
		}
		return s[i].Value.Float64Histogram()
	}
	share := func(i int) float64 {
		if a, b := s[i].Value, s[8].Value; a.Kind() == metrics.KindFloat64 && b.Kind() == metrics.KindFloat64 && b.Float64() > 0 {
			return a.Float64() / b.Float64()
		}
		return 0
	}
	f := runtimeFigures{Processors: runtime.GOMAXPROCS(0), Goroutines: count(0), Heap: count(1), Goal: count(2), Total: count(3), Cycles: count(4), Objects: count(9), GCShare: share(7), idle: share(10), program: share(11),
		pauses: histogram(5), waits: histogram(6)}
	f.Pause, f.Wait = quantile(f.pauses, 0.99), quantile(f.waits, 0.99)
	return f
}

// quantile returns the upper bound of the bucket that contains a quantile.
func quantile(h *metrics.Float64Histogram, share float64) time.Duration {
	if h == nil {
		return 0
	}
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

// Health is the state of a gateway for load balancers and operators. Problems need attention
// but do not stop the gateway.
type Health struct {
	Ready    bool     `json:"ready"` // accepting work: started, not draining
	Started  string   `json:"started"`
	Settings string   `json:"settings"`         // file the running engine was built from
	Revision string   `json:"revision"`         // revision of the running settings and lists
	State    string   `json:"state"`            // alone, shared with a fleet, or degraded: the fleet's state cannot be reached
	Update   string   `json:"update,omitempty"` // a newer version of the program than this one; "" if none is known
	Problems []string `json:"problems"`
	// Kinds are the kinds of the problems, in their order: their texts may change with a version.
	Kinds []problem.Kind `json:"kinds"`
}

// Say has the health say what is wrong.
func (h *Health) Say(all []problem.Problem) {
	h.Problems, h.Kinds = append([]string{}, problem.Texts(all)...), append([]problem.Kind{}, problem.Kinds(all)...) // JSON then has [], not null
}

// All returns the problems with their kinds, of which a gateway of an older version says none.
func (h *Health) All() (all []problem.Problem) {
	for i, said := range h.Problems {
		p := problem.Problem{Text: said}
		if i < len(h.Kinds) {
			p.Kind = h.Kinds[i]
		}
		all = append(all, p)
	}
	return all
}
