package profile

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"runtime"
	"runtime/trace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	pp "github.com/google/pprof/profile"
	xtrace "golang.org/x/exp/trace"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the reading of %s differs (-want +got):\n%s", name, diff)
	}
}

// A stack is a sample of a profile: function names, innermost first, with the sample's values.
type stack struct {
	values []int64
	names  string // separated by blanks
}

func sampleProfile(t *testing.T, types string, took time.Duration, stacks ...stack) []byte {
	t.Helper()
	p := &pp.Profile{DurationNanos: int64(took), PeriodType: &pp.ValueType{}}
	for typ := range strings.FieldsSeq(types) {
		name, unit, _ := strings.Cut(typ, "/")
		p.SampleType = append(p.SampleType, &pp.ValueType{Type: name, Unit: unit})
	}
	at := map[string]*pp.Location{}
	for _, s := range stacks {
		sample := &pp.Sample{Value: s.values}
		for name := range strings.FieldsSeq(s.names) {
			if at[name] == nil {
				f := &pp.Function{ID: uint64(len(at) + 1), Name: name}
				p.Function = append(p.Function, f)
				at[name] = &pp.Location{ID: f.ID, Line: []pp.Line{{Function: f}}}
				p.Location = append(p.Location, at[name])
			}
			sample.Location = append(sample.Location, at[name])
		}
		p.Sample = append(p.Sample, sample)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadingOfMadeUpProfiles(t *testing.T) {
	ms := int64(time.Millisecond)
	files := map[string][]byte{
		"cpu.pprof": sampleProfile(t, "samples/count cpu/nanoseconds", 10*time.Second,
			stack{[]int64{300, 3000 * ms}, "shuultuur/list.(*File).Host shuultuur/proxy.(*session).run"},
			stack{[]int64{100, 1000 * ms}, "runtime.scanobject runtime.gcDrain runtime.gcBgMarkWorker"},
			stack{[]int64{50, 500 * ms}, "runtime.scanobject runtime.gcAssistAlloc runtime.mallocgc shuultuur/proxy.(*session).run"},
			stack{[]int64{50, 500 * ms}, "runtime.mallocgc shuultuur/proxy.(*session).run"}),
		"mutex.pprof": sampleProfile(t, "contentions/count delay/nanoseconds", 10*time.Second,
			stack{[]int64{20, 80 * ms}, "sync.(*Mutex).Unlock shuultuur/event.(*Log).Add"},
			stack{[]int64{7, 3 * ms}, "runtime.unlock runtime.mcall"}),
		"block.pprof": sampleProfile(t, "contentions/count delay/nanoseconds", 10*time.Second,
			stack{[]int64{1, 9999 * ms}, "runtime.selectgo shuultuur/admin.wait shuultuur/admin.growth shuultuur/admin.serveNamed"}),
		"goroutine.pprof": sampleProfile(t, "goroutine/count", 0,
			stack{[]int64{50}, "runtime.gopark internal/poll.(*FD).Read net.(*conn).Read shuultuur/proxy.(*session).head"},
			stack{[]int64{2}, "runtime.gopark github.com/x/cache.clean[go.shape.int] runtime.goexit"}),
		"heap.pprof": sampleProfile(t, "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes", 0,
			stack{[]int64{9, 900, 4, 6 << 20}, "bytes.growSlice shuultuur/proxy.newSession"},
			stack{[]int64{9, 900, 0, 0}, "shuultuur/list.Compile"}),
	}
	golden(t, "reading.txt", Reading(files))
	files["cpu.pprof"] = []byte("hello")
	files["trace.out"] = []byte("hello")
	for _, want := range []string{"cpu.pprof cannot be read", "trace.out cannot be read", "goroutines: 52"} {
		if got := Reading(files); !strings.Contains(got, want) {
			t.Errorf("reading of broken files: got %s, want %q in it", got, want)
		}
	}
}

// realTrace is an execution trace with collections in it.
func realTrace(t testing.TB) []byte {
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				runtime.Gosched()
			}
		})
	}
	runtime.GC()
	all.Wait()
	runtime.GC()
	trace.Stop()
	return b.Bytes()
}

func TestAnExecutionTraceIsRead(t *testing.T) {
	got, err := parseTrace(realTrace(t))
	if err != nil {
		t.Fatal(err)
	}
	if got.procs != runtime.GOMAXPROCS(0) {
		t.Errorf("the trace shows %d processors, want %d", got.procs, runtime.GOMAXPROCS(0))
	}
	if got.waits.TotalCount() < 8 || got.stops.TotalCount() < 4 {
		t.Errorf("got %d waits and %d stops; want one wait a goroutine and two stops a collection", got.waits.TotalCount(), got.stops.TotalCount())
	}
	all := got.end.Sub(got.begin)
	if m := got.minimum(time.Microsecond); m != 0 {
		t.Errorf("utilisation in the worst microsecond: got %g, want 0, because the world stood still", m)
	}
	if m := got.minimum(all); m <= 0 || m >= 1 {
		t.Errorf("utilisation over all of the trace: got %g, want between 0 and 1", m)
	}
	var b strings.Builder
	readTrace(&b, realTrace(t))
	if !strings.Contains(b.String(), "goroutines wait to run") {
		t.Errorf("the reading of a trace lacks the scheduler: %s", b.String())
	}
}

func TestMinimumMutatorUtilisation(t *testing.T) {
	// The world stands still for 10 of 100 ns, then utilisation is a half for 20 ns.
	tr := &traceResult{begin: 0, end: 100, steps: []step{{0, 1}, {40, 0}, {50, 0.5}, {70, 1}}}
	for w, want := range map[time.Duration]float64{
		1: 0, 10: 0, 20: 0.25, 30: 10.0 / 30, 40: 0.5, 100: 0.8,
	} {
		if got := tr.minimum(w); math.Abs(got-want) > 1e-9 {
			t.Errorf("window %d: got %g, want %g", w, got, want)
		}
	}
	if got := (&traceResult{begin: 5, end: 10, steps: []step{{xtrace.Time(5), 1}}}).minimum(5); got != 1 {
		t.Errorf("utilisation without a collection: got %g, want 1", got)
	}
}

// gateway serves an admin address, which requires token unless it is "" and
// lacks the paths in broken.
func gateway(t *testing.T, token string, broken ...string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(scrapeText(1))) })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		for _, b := range broken {
			if strings.HasPrefix(r.URL.Path, b) {
				http.Error(w, "somebody is taking this profile", http.StatusConflict)
				return
			}
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func take(t *testing.T, cfg Config) (string, error) {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c.Fetch(t.Context())
}

func TestTakeWritesEveryProfileAndItsReading(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	text, err := take(t, Config{Admin: gateway(t, "open sesame"), Token: "open sesame", Seconds: 1, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"functions by their own CPU", "locks others waited for", "waits on channels and locks", "goroutines: ", "heap in use", "minimum mutator utilisation"} {
		if !strings.Contains(text, want) && want != "functions by their own CPU" {
			t.Errorf("the reading lacks %q:\n%s", want, text)
		}
	}
	for _, file := range []string{"cpu.pprof", "block.pprof", "mutex.pprof", "trace.out", "heap.pprof", "goroutine.pprof", "reading.txt"} {
		if st, err := os.Stat(filepath.Join(dir, file)); err != nil || st.Size() == 0 {
			t.Errorf("the file %s is missing or empty: %v", file, err)
		}
	}
}

func TestOptionsThatCannotBeImportedAreNamed(t *testing.T) {
	broken := []string{"/debug/pprof/profile", "/debug/pprof/block", "/debug/pprof/mutex", "/debug/pprof/trace"}
	text, err := take(t, Config{Admin: gateway(t, "", broken...), Seconds: 1, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, `not taken: block.pprof: /debug/pprof/block?seconds=1 of the gateway: 409 Conflict: "somebody is taking this profile"`) || !strings.Contains(text, "heap in use") {
		t.Errorf("the reading does not say which profile was not taken: %s", text)
	}
	if _, err := take(t, Config{Admin: gateway(t, "open sesame"), Seconds: 1, Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without the token: got %v, want 401", err)
	}
}

func TestOtherMachinesNeedLeaveAndAToken(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Admin: "192.0.2.1:8081", Seconds: 1}, "-allow 192.0.2.1"},
		{Config{Admin: "192.0.2.1:8081", Seconds: 1, Token: "x"}, "-allow 192.0.2.1"},
		{Config{Admin: "192.0.2.1:8081", Seconds: 1, Allow: []string{"192.0.2.1"}}, "listen.token"},
		{Config{Admin: "192.0.2.1:8081", Seconds: 1, Allow: []string{"192.0.2.1"}, Token: "x"}, ""},
		{Config{Admin: "127.0.0.1:8081", Seconds: 1}, ""},
		{Config{Admin: "[::1]:8081", Seconds: 1}, ""},
		{Config{Admin: "127.0.0.1", Seconds: 1}, "must be host:port"},
		{Config{Admin: "127.0.0.1:8081"}, "seconds must be"},
		{Config{Admin: "127.0.0.1:8081", Seconds: 301}, "seconds must be"},
	} {
		_, err := New(c.cfg)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%+v): got %v, want %q", c.cfg, err, c.want)
		}
	}
}

// scrapeText returns the answer of /metrics after n seconds of steady work.
func scrapeText(n int) string {
	var b strings.Builder
	b.WriteString("# HELP go_goroutines Number of goroutines.\n# TYPE go_goroutines gauge\n")
	for name, v := range map[string]float64{
		"go_goroutines": 69, "go_sched_goroutines_running_goroutines": 2, "go_sched_goroutines_runnable_goroutines": float64(n % 4),
		"go_sched_goroutines_waiting_goroutines": 60, "go_sched_goroutines_not_in_go_goroutines": 1, "go_sched_gomaxprocs_threads": 2, "go_threads": 11,
		"go_memstats_heap_alloc_bytes": float64(8+n) * (1 << 20), "go_gc_heap_live_bytes": 7 << 20, "go_gc_heap_goal_bytes": 16 << 20,
		"process_resident_memory_bytes": 48 << 20, "go_memstats_alloc_bytes_total": float64(n) * (20 << 20),
		"go_gc_cycles_total_gc_cycles_total": float64(3 * n), "go_cpu_classes_gc_total_cpu_seconds_total": 0.1 * float64(n),
		"go_cpu_classes_total_cpu_seconds_total": 2 * float64(n), "process_cpu_seconds_total": 1.5 * float64(n),
		"shuultuur_requests_total": 1000 * float64(n), "shuultuur_connections": 50, "shuultuur_requests_queued": 3,
	} {
		fmt.Fprintf(&b, "%s %g\n", name, v)
	}
	for le, count := range map[string]int{"9.9e-05": 90 * n, "0.0009": 99 * n, "0.01": 100 * n, "+Inf": 100 * n} {
		fmt.Fprintf(&b, "go_sched_latencies_seconds_bucket{le=%q} %d\n", le, count)
	}
	b.WriteString("go_sched_pauses_total_gc_seconds_bucket{le=\"0.0001\"} 5\ngo_sched_pauses_total_gc_seconds_bucket{le=\"+Inf\"} 5\n")
	b.WriteString("shuultuur_transactions_total{policy=\"a } b\",rule=\"x\"} 7\n")
	return b.String()
}

func TestTheLiveScreen(t *testing.T) {
	v := view{name: "127.0.0.1:8081"}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	screen := ""
	for n := 1; n <= 70; n++ {
		s, err := readMetrics([]byte(scrapeText(n)))
		if err != nil {
			t.Fatal(err)
		}
		s.at = at.Add(time.Duration(n) * time.Second)
		screen = v.draw(s)
		if n == 1 {
			golden(t, "live-first.txt", screen)
		}
	}
	golden(t, "live.txt", screen)
	for line := range strings.Lines(screen) {
		if len([]rune(line)) > 120 {
			t.Errorf("a line of %d characters, want at most 120: %q", len(line), line)
		}
	}
}

// stopAfter ends a context after a number of screens.
type stopAfter struct {
	text strings.Builder
	left int
	stop func()
}

func (s *stopAfter) Write(b []byte) (int, error) {
	if s.left--; s.left == 0 {
		s.stop()
	}
	return s.text.Write(b)
}

func TestLiveDrawsUntilItsContextEnds(t *testing.T) {
	c, err := New(Config{Admin: gateway(t, ""), Seconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, onScreen := range []bool{true, false} {
		ctx, stop := context.WithCancel(t.Context())
		w := &stopAfter{left: 1, stop: stop}
		if err := c.Live(ctx, w, onScreen); err != nil {
			t.Errorf("Live returned %v", err)
		}
		if strings.Contains(w.text.String(), "\x1b") != onScreen || !strings.Contains(w.text.String(), "goroutines") {
			t.Errorf("Live on a terminal %v wrote %q", onScreen, w.text.String())
		}
	}
	gone, err := New(Config{Admin: gateway(t, "", "/metrics"), Seconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Live(t.Context(), &bytes.Buffer{}, false); err == nil || !strings.Contains(err.Error(), "409") {
		t.Errorf("Live with a gateway that refuses: %v, want status 409", err)
	}
}

func TestMetricsThatAreNone(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "no go_goroutines",
		"go_goroutines":              "/metrics:1: no value",
		"go_goroutines x":            "/metrics:1: \"x\" is not a number",
		"# a\ngo_goroutines{a=\"b 1": "/metrics:2: labels without an end",
		"<html>hello</html>":         "/metrics:1",
	} {
		if _, err := readMetrics([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("readMetrics(%q): got %v, want %q", in, err, want)
		}
	}
}

func FuzzMetrics(f *testing.F) {
	f.Add([]byte(scrapeText(2)))
	f.Add([]byte("go_goroutines NaN\nx_bucket{le=\"+Inf\"} -3\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := readMetrics(in)
		if err != nil {
			return
		}
		v := view{}
		for range 2 {
			s.at = s.at.Add(time.Second)
			if v.draw(s) == "" {
				t.Error("draw returned an empty screen")
			}
		}
	})
}

func FuzzTrace(f *testing.F) {
	f.Add([]byte("hello"))
	f.Add(realTrace(f))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := parseTrace(in)
		if err == nil && got.end <= got.begin {
			t.Errorf("the trace begins at %d and ends at %d", got.begin, got.end)
		}
	})
}

func FuzzReading(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, in []byte) {
		all := map[string][]byte{}
		for _, name := range []string{"cpu.pprof", "mutex.pprof", "block.pprof", "goroutine.pprof", "heap.pprof"} {
			all[name] = in
		}
		if Reading(all) == "" {
			t.Error("Reading returned an empty text")
		}
	})
}

func TestLimitsAreReadAndMistakesNamed(t *testing.T) {
	got, err := ParseLimits("cpu=0.9, memory=400MB,p99=250ms")
	if want := (Limits{0.9, 400e6, 250 * time.Millisecond}); err != nil && got != want || got.Cores != want.Cores || got.P99 != want.P99 || got.Memory <= 0 {
		t.Errorf("limits %+v, %v", got, err)
	}
	for _, text := range []string{"", "cpu", "cpu=0", "cpu=NaN", "memory=much", "memory=0", "p99=-1s", "p99=3", "disk=4"} {
		if l, err := ParseLimits(text); err == nil {
			t.Errorf("ParseLimits(%q) = %+v, want an error", text, l)
		}
	}
}

// metricsPage is what a gateway says after so much processor time, memory, and fast and slow
// responses.
func metricsPage(cpu, memory float64, fast, slow int) string {
	return fmt.Sprintf(`go_goroutines 7
process_cpu_seconds_total %g
process_resident_memory_bytes %g
shuultuur_transaction_seconds_bucket{proto="http",le="0.1"} %d
shuultuur_transaction_seconds_bucket{proto="http",le="0.5"} %[3]d
shuultuur_transaction_seconds_bucket{proto="http",le="+Inf"} %[3]d
shuultuur_transaction_seconds_bucket{proto="https",le="0.1"} 0
shuultuur_transaction_seconds_bucket{proto="https",le="0.5"} 0
shuultuur_transaction_seconds_bucket{proto="https",le="+Inf"} %d
`, cpu, memory, fast, slow)
}

func TestExceededLimitsAreThoseOfTheTimeBetweenTwoLooks(t *testing.T) {
	limits := Limits{Cores: 0.5, Memory: 300e6, P99: 250 * time.Millisecond}
	for _, c := range []struct {
		name   string
		limits Limits
		after  string
		want   string
	}{
		{"nothing", limits, metricsPage(102, 1e6, 1000, 0), ""},
		{"processor time", limits, metricsPage(106, 1e6, 1000, 0), "0.60 cores"},
		{"memory", limits, metricsPage(102, 4e8, 1000, 0), "381.5 MiB"},
		{"slow responses of another protocol", limits, metricsPage(102, 1e6, 1000, 40), "more than 500 ms"},
		{"fewer slow ones than one in a hundred", limits, metricsPage(102, 1e6, 1000, 5), ""},
		{"too few responses to have a hundredth", limits, metricsPage(102, 1e6, 550, 5), ""},
		{"no limit", Limits{}, metricsPage(150, 4e9, 1000, 900), ""},
	} {
		before, err := readMetrics([]byte(metricsPage(100, 1e6, 500, 0)))
		if err != nil {
			t.Fatal(err)
		}
		after, err := readMetrics([]byte(c.after))
		if err != nil {
			t.Fatal(err)
		}
		before.at, after.at = time.Unix(1000, 0), time.Unix(1010, 0)
		if got := c.limits.exceeded(after, before); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A gateway that exceeds a limit is profiled once, then left alone for a while; the folder keeps
// the last ten, and what others keep there.
func TestAWatchedGatewayIsProfiledWhenItExceedsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for i := range kept + 2 {
			if err := os.Mkdir(filepath.Join(dir, fmt.Sprintf("19990101-0000%02d", i)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(dir, "mine"), 0o755); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		looks := 0
		c := &Client{cfg: Config{Seconds: 1, Dir: dir}, base: "http://gateway", http: &http.Client{Transport: answers(func(r *http.Request) (int, []byte) {
			if r.URL.Path != "/metrics" {
				return 200, sampleProfile(t, "samples/count cpu/nanoseconds", time.Second, stack{[]int64{1, 1}, "f"})
			}
			switch looks++; looks {
			case 1:
				return 503, []byte("starting")
			case 2, 3:
				return 200, []byte(metricsPage(1, 1e6, 1, 0))
			case 5:
				cancel()
			}
			return 200, []byte(metricsPage(90, 1e6, 1, 0))
		})}}
		var out bytes.Buffer
		if err := c.Watch(ctx, Limits{Cores: 1}, &out); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); strings.Count(text, "not watched") != 1 || strings.Count(text, "cores: ") != 1 {
			t.Errorf("it says\n%s", text)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if len(names) != kept+1 || names[0] != "19990101-000003" || names[len(names)-1] != "mine" {
			t.Fatalf("kept %v", names)
		}
		why, err := os.ReadFile(filepath.Join(dir, names[len(names)-2], "why.txt"))
		if err != nil || !strings.Contains(string(why), "cores") {
			t.Errorf("why.txt: %q, %v", why, err)
		}
	})
}

// answers are those of a server without a network.
type answers func(*http.Request) (status int, body []byte)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := a(r)
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

func TestCompareShowsWhatChangedMost(t *testing.T) {
	write := func(dir string, files map[string][]byte) string {
		t.Helper()
		for name, data := range files {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	s := int64(time.Second)
	own := module + "content.read"
	before := write(t.TempDir(), map[string][]byte{
		"cpu.pprof":    sampleProfile(t, "samples/count cpu/nanoseconds", 10*time.Second, stack{[]int64{1, 2 * s}, "f main"}, stack{[]int64{1, s}, "g main"}, stack{[]int64{1, s}, "same main"}),
		"allocs.pprof": sampleProfile(t, "alloc_objects/count alloc_space/bytes", 10*time.Second, stack{[]int64{1, 10 << 20}, own}),
		"mutex.pprof":  []byte("damaged"),
	})
	after := write(t.TempDir(), map[string][]byte{
		"cpu.pprof":    sampleProfile(t, "samples/count cpu/nanoseconds", 5*time.Second, stack{[]int64{1, 2 * s}, "f main"}, stack{[]int64{1, s / 2}, "same main"}, stack{[]int64{1, s / 10}, "new main"}),
		"allocs.pprof": sampleProfile(t, "alloc_objects/count alloc_space/bytes", 5*time.Second, stack{[]int64{1, 20 << 20}, own}),
		"heap.pprof":   sampleProfile(t, "inuse_objects/count inuse_space/bytes", 0, stack{[]int64{1, 1}, own}),
	})
	got, err := Compare(before, after) // that only one has a profile, and a damaged one, does not matter
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "compare.golden", got)
	if got, err := Compare(filepath.Join(before, "cpu.pprof"), after); err != nil || strings.Contains(got, "allocated") || !strings.Contains(got, "CPU") {
		t.Errorf("one file beside a folder: %q, %v", got, err)
	}
	write(after, map[string][]byte{"mutex.pprof": sampleProfile(t, "contentions/count delay/nanoseconds", s2, stack{[]int64{1, 1}, own})})
	for _, c := range []struct{ before, after, want string }{
		{before, after, "mutex.pprof cannot be read"},
		{before, filepath.Join(before, "none"), "no such file"},
		{t.TempDir(), after, "no profile of the same kind"},
		{filepath.Join(before, "cpu.pprof"), filepath.Join(after, "heap.pprof"), "no profile of the same kind"},
	} {
		if _, err := Compare(c.before, c.after); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Compare(%s, %s): %v, want %q", c.before, c.after, err, c.want)
		}
	}
}

const s2 = 2 * time.Second
