//go:build !small

package system

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"shuultuur/admin/web"
	"shuultuur/lib/wait"
)

var seconds = []web.Field{web.Optional("seconds", "how long to look, in seconds")}

// ProfileRoutes returns the routes of the process's profiles, with the paths
// and parameters of net/http/pprof, which "go tool pprof" requests. That
// package is not used, because it contains a second parser of profiles.
func ProfileRoutes() []web.Route {
	return []web.Route{
		{Method: "GET", Path: "/debug/pprof", Role: web.Operator,
			Does: "profiles", Gives: "text/html",
			Handler: serveProfile},
		{Method: "GET", Path: "/debug/pprof/{name...}", Role: web.Operator,
			Does: "profiles", Gives: "text/html " + web.AnyBytes,
			Handler: serveProfile},
		{Method: "GET", Path: "/debug/pprof/cmdline", Role: web.Operator,
			Does: "the command line of the gateway", Gives: web.AnyText,
			Handler: serveCommandLine},
		{Method: "GET", Path: "/debug/pprof/profile", Role: web.Operator,
			Does: "a profile of processor time", Query: seconds, Gives: web.AnyBytes,
			Handler: serveWhile("profile", 30*time.Second, pprof.StartCPUProfile, pprof.StopCPUProfile)},
		{Method: "GET", Path: "/debug/pprof/trace", Role: web.Operator,
			Does: "an execution trace", Query: seconds, Gives: web.AnyBytes,
			Handler: serveWhile("trace", time.Second, trace.Start, trace.Stop)},
		{Method: "GET", Path: "/debug/pprof/block", Role: web.Operator,
			Does: "waits for others, sampled for some seconds", Query: seconds, Gives: web.AnyBytes,
			Handler: blocks()},
		{Method: "GET", Path: "/debug/pprof/mutex", Role: web.Operator,
			Does: "waits for locks, sampled for some seconds", Query: seconds, Gives: web.AnyBytes,
			Handler: mutexes()},
	}
}

func serveCommandLine(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, strings.Join(os.Args, "\x00"))
}

// secondsOf reads the parameter seconds, which may have a fraction.
func secondsOf(r *http.Request, standard time.Duration) (time.Duration, error) {
	text := r.FormValue("seconds")
	if text == "" {
		return standard, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0 && n <= maxSampling) {
		return 0, fmt.Errorf("seconds=%q is not a number above 0 and up to %d", text, maxSampling)
	}
	return time.Duration(n * float64(time.Second)), nil
}

// serveWhile serves the profile that is recorded between start and stop.
func serveWhile(name string, standard time.Duration, start func(w io.Writer) error, stop func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d, err := secondsOf(r, standard)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		if err := start(w); err != nil {
			w.Header().Del("Content-Disposition")
			http.Error(w, "recording a "+name+": "+err.Error(), http.StatusConflict)
			return
		}
		defer stop()
		_ = wait.For(r.Context(), d)
	}
}

// serveProfile serves the profile named at the end of the path, or a list of
// all profiles.
func serveProfile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name != "" {
		serveNamed(w, r, name)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, "<!doctype html><title>/debug/pprof</title><h1>Profiles</h1><ul>")
	for _, p := range pprof.Profiles() {
		fmt.Fprintf(w, `<li><a href="/debug/pprof/%[1]s?debug=1">%[1]s</a> %d</li>`, p.Name(), p.Count())
	}
	fmt.Fprint(w, `<li><a href="/debug/pprof/profile?seconds=10">profile</a></li><li><a href="/debug/pprof/trace?seconds=1">trace</a></li></ul>`)
}

// serveNamed serves a profile, or with ?seconds=N its growth in that time.
func serveNamed(w http.ResponseWriter, r *http.Request, name string) {
	p := pprof.Lookup(name)
	if p == nil {
		http.Error(w, fmt.Sprintf("there is no profile %q", name), http.StatusNotFound)
		return
	}
	debug, _ := strconv.Atoi(r.FormValue("debug"))
	if r.FormValue("gc") != "" && name == "heap" {
		runtime.GC()
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if debug > 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	}
	if r.FormValue("seconds") == "" {
		_ = p.WriteTo(w, debug) // the client is gone
		return
	}
	grown, err := growth(r, p)
	if err != nil {
		w.Header().Del("Content-Disposition")
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = grown.Write(w) // the client is gone
}

// growth returns the growth of a profile while the client waits.
func growth(r *http.Request, p *pprof.Profile) (*profile.Profile, error) {
	d, err := secondsOf(r, 0)
	if err != nil {
		return nil, err
	}
	before, err := snapshot(p)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if wait.For(r.Context(), d) != nil {
		return nil, r.Context().Err()
	}
	after, err := snapshot(p)
	if err != nil {
		return nil, err
	}
	before.Scale(-1)
	grown, err := profile.Merge([]*profile.Profile{before, after})
	if err != nil {
		return nil, fmt.Errorf("subtracting profiles: %w", err)
	}
	grown.TimeNanos, grown.DurationNanos = began.UnixNano(), int64(time.Since(began))
	return grown, nil
}

func snapshot(p *pprof.Profile) (*profile.Profile, error) {
	var b bytes.Buffer
	if err := p.WriteTo(&b, 0); err != nil {
		return nil, fmt.Errorf("taking the profile %s: %w", p.Name(), err)
	}
	return profile.Parse(&b)
}

const (
	// blockEvery samples all waits of at least 10 µs and a share of the shorter ones: cheap
	// enough for a gateway under load.
	blockEvery = 10_000
	// mutexOneIn samples one in ten waits for a lock.
	mutexOneIn = 10

	maxSampling = 300 // seconds
)

// blocks is the profile of waits on channels, locks and the like.
func blocks() http.HandlerFunc {
	return sampling("block", func() func() {
		runtime.SetBlockProfileRate(blockEvery)
		return func() { runtime.SetBlockProfileRate(0) }
	})
}

// mutexes serves the profile of the holders of contended locks.
func mutexes() http.HandlerFunc {
	return sampling("mutex", func() func() {
		before := runtime.SetMutexProfileFraction(mutexOneIn)
		return func() { runtime.SetMutexProfileFraction(before) }
	})
}

// sampling answers ?seconds=N with the growth of a profile in that time, during
// which sampling is enabled. A second concurrent request is refused, because
// one would disable sampling for the other. Without seconds it serves earlier
// samples.
func sampling(name string, on func() (off func())) http.HandlerFunc {
	var taken sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) {
		seconds := r.FormValue("seconds")
		if seconds == "" {
			serveNamed(w, r, name)
			return
		}
		if n, err := strconv.Atoi(seconds); err != nil || n < 1 || n > maxSampling {
			http.Error(w, "seconds must be between 1 and "+strconv.Itoa(maxSampling), http.StatusBadRequest)
			return
		}
		if !taken.TryLock() {
			http.Error(w, "somebody is taking this profile; try again when it is done", http.StatusConflict)
			return
		}
		defer taken.Unlock()
		defer on()()
		serveNamed(w, r, name)
	}
}
