package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// A changingOrigin is an origin with a page whose version a POST changes. It takes a second until
// the head of a response to GET, and another until the body.
type changingOrigin struct {
	version, asked atomic.Int32
	fields         []string
}

func (c *changingOrigin) answer(q *message.Request) (*message.Response, error) {
	switch {
	case q.Method == "POST" && q.Has("Refuse"):
		return respond(403, "no"), nil
	case q.Method == "POST":
		c.version.Add(1)
		return respond(200, "done", "Location", string(q.Fields.Get("Where"))), nil
	}
	c.asked.Add(1)
	text := fmt.Sprint(c.version.Load())
	fields := append([]string{"Cache-Control", "max-age=10", "ETag", `"` + text + `"`}, c.fields...)
	time.Sleep(time.Second)
	if string(q.Fields.Get("If-None-Match")) == `"`+text+`"` {
		return respond(304, "", fields...), nil
	}
	s := respond(200, text, fields...)
	r, w := io.Pipe()
	go func() {
		time.Sleep(time.Second)
		_, _ = io.WriteString(w, text)
		w.Close()
	}()
	s.Body = &streamed{r: r, left: int64(len(text))}
	return s, nil
}

// TestAChangeWithoutAnAnswerCounts: a request whose connection breaks may have changed
// something. One that was never sent has not, and the stored object is then the best answer.
func TestAChangeWithoutAnAnswerCounts(t *testing.T) {
	for _, c := range []struct {
		method string
		err    error
		kept   bool
	}{
		{"POST", io.ErrUnexpectedEOF, false},
		{"DELETE", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, false},
		{"PUT", context.Canceled, false},
		{"POST", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{"POST", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, true},
		{"POST", errors.New("the address is not public"), true},
		{"OPTIONS", io.ErrUnexpectedEOF, true},
	} {
		t.Run(fmt.Sprint(c.method, " ", c.err), func(t *testing.T) {
			asked := 0
			front := open(t, Config{}, Parts{}).InFrontOf(answerer(func(q *message.Request) (*message.Response, error) {
				if q.Method != "GET" {
					return nil, c.err
				}
				asked++
				return respond(200, "x", "Cache-Control", "max-age=60"), nil
			}))
			for _, method := range []string{"GET", c.method, "GET"} {
				send(t, front, t.Context(), request(method, "http://example.org/page"))
			}
			if kept := asked == 1; kept != c.kept {
				t.Errorf("the object stayed in the cache: %v, want %v", kept, c.kept)
			}
		})
	}
}

// TestAResponseOlderThanAChangeIsNotStored: a response requested before a change that arrives after
// it goes only to the client that requested it.
func TestAResponseOlderThanAChangeIsNotStored(t *testing.T) {
	const url = "http://example.org/page"
	for _, c := range []struct {
		name    string
		stale   bool // an object is stored, and stale when requested again
		fields  []string
		after   time.Duration // time between the request and the change
		purge   bool
		target  string   // of the POST
		posting []string // fields of the POST
		kept    bool
	}{
		{name: "a POST that is refused", target: url, posting: []string{"Refuse", "yes"}, kept: true},
		{name: "a POST elsewhere", target: "http://example.org/other", kept: true},
		{name: "a POST before the head", target: url},
		{name: "a POST between head and body", target: url, after: time.Second},
		{name: "a POST that names it", target: "http://example.org/other", posting: []string{"Where", "/page"}},
		{name: "a POST, where responses vary", target: url, fields: []string{"Vary", "Accept-Language"}},
		{name: "a POST before a 304", target: url, stale: true},
		{name: "a POST during a refresh", target: url, stale: true, fields: []string{"Cache-Control", "stale-while-revalidate=600"}},
		{name: "a purge", purge: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				origin := &changingOrigin{fields: c.fields}
				cache := open(t, Config{}, Parts{})
				front := cache.InFrontOf(answerer(origin.answer))
				get := func() string {
					_, body, _ := send(t, front, t.Context(), request("GET", url))
					return body
				}
				if c.stale {
					get()
					time.Sleep(20 * time.Second)
				}
				first := make(chan string)
				go func() { first <- get() }()
				time.Sleep(c.after + time.Second/2)
				if c.purge {
					origin.version.Add(1)
					if err := cache.Purge("host", "example.org"); err != nil {
						t.Fatal(err)
					}
				} else {
					send(t, front, t.Context(), request("POST", c.target, c.posting...))
				}
				asked, second := origin.asked.Load(), make(chan string)
				go func() { second <- get() }() // does not share the fetch in progress
				<-first
				got := []string{<-second}
				time.Sleep(3 * time.Second)
				got = append(got, get())
				if c.kept && origin.asked.Load() != asked {
					t.Error("the response was not stored or not shared, although its URL did not change")
				}
				for i, body := range got {
					if want := fmt.Sprint(origin.version.Load()); !c.kept && body != want {
						t.Errorf("request %d after the change got version %s, want %s", i+1, body, want)
					}
				}
			})
		})
	}
}

// TestAChangeIsOneForAllPolicies: a change by a client of one policy applies to those of all
// policies.
func TestAChangeIsOneForAllPolicies(t *testing.T) {
	const url = "http://example.org/page"
	for _, policies := range []int{2, mostEditions + 20} {
		t.Run(fmt.Sprint(policies, " policies"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				origin := &changingOrigin{}
				cache := open(t, Config{}, Parts{})
				front := cache.InFrontOf(answerer(origin.answer))
				as := func(policy int) context.Context {
					edit := filter.Edit{Kind: filter.SetHeader, Name: "Safe-Search", Value: fmt.Sprint(policy)}
					return filter.With(t.Context(), &filter.Transaction{Edits: []filter.Edit{edit}})
				}
				get := func(policy int) string {
					_, body, _ := send(t, front, as(policy), request("GET", url))
					return body
				}
				for p := range policies {
					get(p)
				}
				if asked := origin.asked.Load(); get(policies-1) != "0" || origin.asked.Load() != asked {
					t.Fatal("the page was not stored")
				}
				send(t, front, as(0), request("POST", url))
				for p := policies - 1; p >= 0; p-- { // the object stored last is still fresh
					if got := get(p); got != "1" {
						t.Errorf("policy %d got version %s after the change, want 1", p, got)
					}
				}
			})
		})
	}
}

func TestReferencesOfTheSameOrigin(t *testing.T) {
	c := open(t, Config{IgnoreQuery: []string{"utm_*"}}, Parts{})
	for _, x := range [][3]string{ // name, reference, and the name that this invalidates
		{"http://a.example/d/p?x", "/q", "http://a.example/q"},
		{"http://a.example/d/p?x", "q?y", "http://a.example/d/q?y"},
		{"http://a.example/d/p?x", "?y", "http://a.example/d/p?y"},
		{"http://a.example/d/p", "../q", "http://a.example/q"},
		{"http://a.example/d/p", "./q/..", "http://a.example/d/"},
		{"http://a.example/d/p", "/../../q/./r/", "http://a.example/q/r/"},
		{"http://a.example/d/p", "HTTP://A.example:80/q#f", "http://a.example/q"},
		{"https://a.example/d/p", "https://a.example:443?q", "https://a.example/?q"},
		{"http://a.example:8080/", "//a.example:8080/q", "http://a.example:8080/q"},
		{"http://a.example/", "/to?u=http://b.example/", "http://a.example/to?u=http://b.example/"},
		{"http://a.example/", "/q?a=b&utm_x=1", "http://a.example/q?a=b"},
		{"http://a.example/p\nset X: y", "/q", "http://a.example/q\nset X: y"},
		{"http://a.example/", "http://b.example/q", ""},
		{"http://a.example/", "https://a.example/q", ""},
		{"http://a.example/", "http://a.example:8080/q", ""},
		{"http://a.example/", "//a.example@b.example/q", ""},
		{"http://a.example/", "mailto:x", ""},
		{"http://a.example/", "http:", ""},
		{"http://a.example/", "#f", ""},
	} {
		if got, _ := c.sameOrigin([]byte(x[0]), []byte(x[1])); string(got) != x[2] {
			t.Errorf("sameOrigin(%q, %q) = %q, want %q", x[0], x[1], got, x[2])
		}
	}
}
