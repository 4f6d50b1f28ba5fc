package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
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

func TestAHeadThatComesByteByByteIsNotSilent(t *testing.T) {
	const silence = 800 * time.Millisecond
	const answer = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate"
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.Copy(c, io.MultiReader(strings.NewReader(answer[:8]), &spelled{text: answer[8:], every: silence / 16}))
				}
			}()
		}
	}()
	r := start(t, Config{Upstream: upstream.Config{Answer: setting.Duration(silence)}}, Engine{})
	res, err := r.browser(newWorld(t)).Get("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); res.StatusCode != 200 || string(b) != "late" {
		t.Errorf("status %d, %.40q; want 200 and the page", res.StatusCode, b)
	}
}

// spelled reads text byte by byte, one in each interval.
type spelled struct {
	text  string
	every time.Duration
}

func (r *spelled) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	time.Sleep(r.every)
	n := copy(p, r.text[:1])
	r.text = r.text[n:]
	return n, nil
}
