package proxy

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/proxy/upstream"
)

// A trickle is a body of n bytes, one in each interval.
type trickle struct {
	n     int
	every time.Duration
}

func (r *trickle) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	time.Sleep(r.every)
	r.n--
	p[0] = 'x'
	return 1, nil
}

func TestSlowButSteadyIsNotSilent(t *testing.T) {
	const silence, every, n = 800 * time.Millisecond, 60 * time.Millisecond, 20
	w := newWorld(t)
	serve := func(rw http.ResponseWriter, q *http.Request) {
		if q.Method == "POST" {
			b, err := io.ReadAll(q.Body)
			fmt.Fprintf(rw, "%d bytes, %v", len(b), err)
			return
		}
		if q.URL.Path == "/length" {
			rw.Header().Set("Content-Length", fmt.Sprint(n))
		}
		for b := (&trickle{n, every}); ; http.NewResponseController(rw).Flush() {
			if m, err := io.CopyN(rw, b, 1); m == 0 || err != nil {
				return
			}
		}
	}
	plain, one, two := origin(t, serve).URL, "https://"+w.origin2(t, false, serve), "https://"+w.origin2(t, true, serve)
	var all sync.WaitGroup
	for _, inspect := range []bool{false, true} {
		r := start(t, Config{Upstream: upstream.Config{Answer: setting.Duration(silence)}}, Engine{Intercept: w.in, Decider: judge{
			wants: func(_ *filter.Transaction, s filter.Stage) bool { return inspect && s == filter.ResponseBody },
		}})
		for _, c := range []*http.Client{r.browser(w), r.browser2(w)} {
			for _, o := range []string{plain, one, two} {
				for _, path := range []string{"/length", "/chunks"} {
					all.Go(func() {
						res, err := c.Get(o + path)
						if err != nil {
							t.Error(err)
							return
						}
						defer res.Body.Close()
						if b, err := io.ReadAll(res.Body); len(b) != n || err != nil {
							t.Errorf("%s%s, inspected: %v: got %d bytes, %v, want %d", o, path, inspect, len(b), err, n)
						}
					})
				}
				for _, length := range []int64{n, -1} {
					all.Go(func() {
						q, _ := http.NewRequest("POST", o, &trickle{n, every})
						q.ContentLength = length
						res, err := c.Do(q)
						if err != nil {
							t.Error(err)
							return
						}
						defer res.Body.Close()
						b, _ := io.ReadAll(res.Body)
						if want := fmt.Sprint(n, " bytes, <nil>"); string(b) != want {
							t.Errorf("%s, length %d: got %q, want %q", o, length, b, want)
						}
					})
				}
			}
		}
	}
	all.Wait()
}
