package system_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/admin/admintest"
)

func TestWaitsAreSampledForAWhileOnly(t *testing.T) {
	h := admintest.Handler(true)
	get := func(path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
		r.RemoteAddr = "127.0.0.1:5000"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, bad := range []string{"0", "-1", "x", "301"} {
		if w := get("/debug/pprof/block?seconds=" + bad); w.Code != http.StatusBadRequest {
			t.Errorf("seconds=%s: got %d, want 400", bad, w.Code)
		}
	}
	// A goroutine waits while the profile is taken.
	stop := make(chan struct{})
	var waiter sync.WaitGroup
	waiter.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	})
	first := make(chan *httptest.ResponseRecorder)
	for range 2 {
		go func() { first <- get("/debug/pprof/block?seconds=1") }()
	}
	a, b := <-first, <-first
	close(stop)
	waiter.Wait()
	if a.Code != http.StatusConflict || b.Code != http.StatusOK {
		t.Errorf("two profiles at once: status %d and %d, want 409 and 200", a.Code, b.Code)
	}
	if before := runtime.SetMutexProfileFraction(-1); before != 0 {
		t.Errorf("after the profile mutex sampling is %d, want 0", before)
	}
	if z, err := gzip.NewReader(b.Body); err != nil {
		t.Errorf("the profile is not gzip: %v", err)
	} else if data, err := io.ReadAll(z); err != nil || !bytes.Contains(data, []byte("TestWaitsAreSampled")) {
		t.Errorf("the profile lacks the function that waited: %v", err)
	}
}

// TestProfilesAreThoseThatToolsAskFor uses the paths and parameters of net/http/pprof.
func TestProfilesAreThoseThatToolsAskFor(t *testing.T) {
	h := admintest.Handler(true)
	for path, want := range map[string]struct {
		status int
		begins string
	}{
		"/debug/pprof/heap?gc=1":                {200, "\x1f\x8b"},
		"/debug/pprof/goroutine?debug=2":        {200, "goroutine "},
		"/debug/pprof/allocs?seconds=0.05":      {200, "\x1f\x8b"},
		"/debug/pprof/profile?seconds=0.05":     {200, "\x1f\x8b"},
		"/debug/pprof/trace?seconds=0.05":       {200, "go 1."},
		"/debug/pprof/nothing":                  {404, "there is no profile \"nothing\""},
		"/debug/pprof/heap?seconds=many":        {400, "seconds=\"many\" is not a number"},
		"/debug/pprof/profile?seconds=NaN":      {400, "seconds=\"NaN\" is not a number"},
		"/debug/pprof/goroutine?seconds=100000": {400, "seconds=\"100000\" is not a number"},
	} {
		r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
		r.RemoteAddr = "127.0.0.1:5000"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want.status || !strings.HasPrefix(w.Body.String(), want.begins) {
			t.Errorf("%s: status %d, %.60q; want %d and the beginning %q", path, w.Code, w.Body, want.status, want.begins)
		}
	}
}
