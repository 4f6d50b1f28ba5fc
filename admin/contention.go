//go:build !small

package admin

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"
	"sync"
)

// profileRoutes are the profiles of the process.
func profileRoutes() []route {
	return []route{
		{"GET", "/debug/pprof/", operator, pprof.Index},
		{"GET", "/debug/pprof/cmdline", operator, pprof.Cmdline},
		{"GET", "/debug/pprof/profile", operator, pprof.Profile},
		{"GET", "/debug/pprof/symbol", operator, pprof.Symbol},
		{"GET", "/debug/pprof/trace", operator, pprof.Trace},
		{"GET", "/debug/pprof/block", operator, blocks()},
		{"GET", "/debug/pprof/mutex", operator, mutexes()},
	}
}

const (
	// blockEvery samples waits of 10 µs and more, and of the shorter ones a
	// share: cheap enough for a gateway under load.
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

// mutexes is the profile of who holds the locks others wait for.
func mutexes() http.HandlerFunc {
	return sampling("mutex", func() func() {
		before := runtime.SetMutexProfileFraction(mutexOneIn)
		return func() { runtime.SetMutexProfileFraction(before) }
	})
}

// sampling answers ?seconds=N with what a profile grew by in that time, with
// sampling switched on for it. Two at once would switch it off for each other,
// so the second is refused. Without seconds it is what was sampled before.
func sampling(name string, on func() (off func())) http.HandlerFunc {
	var taken sync.Mutex
	profile := pprof.Handler(name)
	return func(w http.ResponseWriter, r *http.Request) {
		seconds := r.FormValue("seconds")
		if seconds == "" {
			profile.ServeHTTP(w, r)
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
		profile.ServeHTTP(w, r)
	}
}
