package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/proxy/exchange"
)

// soon is far more than a request takes to notice that its client has gone, and far less than any
// other limit of these tests.
const soon = 15 * time.Second

// receive returns the next value of c.
func receive[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(soon):
		t.Fatalf("%s: nothing within %v", what, soon)
	}
	return v
}

func TestARequestWhoseClientHasGoneEnds(t *testing.T) {
	w := newWorld(t)
	entered, left := make(chan string, 99), make(chan string, 99)
	wait := func(rw http.ResponseWriter, q *http.Request) {
		rw.Header().Set("Content-Type", "text/plain")
		switch q.URL.Query().Get("after") {
		case "length":
			rw.Header().Set("Content-Length", "100")
			fallthrough
		case "chunk":
			io.WriteString(rw, "one piece")
			http.NewResponseController(rw).Flush()
		}
		entered <- q.URL.RawQuery
		<-q.Context().Done()
		left <- q.URL.RawQuery
	}
	plain := strings.TrimPrefix(origin(t, wait).URL, "http://")
	one, two := w.origin2(t, false, wait), w.origin2(t, true, wait)
	for _, inspect := range []bool{false, true} {
		r := start(t, Config{}, Engine{
			Intercept: &Interception{Wanted: func(x *filter.Transaction) bool { return x.Host == "localhost" }, Authority: w.in.Authority, Verifier: w.in.Verifier},
			Decider: judge{
				wants: func(_ *filter.Transaction, s filter.Stage) bool { return inspect && s == filter.ResponseBody },
			},
		})
		ways := map[string]func(path string) (leave func()){
			"plain": func(path string) func() {
				c, _ := r.raw()
				fmt.Fprintf(c, "GET http://%s%s HTTP/1.1\r\nHost: x\r\n\r\n", plain, path)
				return func() { c.Close() }
			},
			"plain, HTTP/1.0": func(path string) func() {
				c, _ := r.raw()
				fmt.Fprintf(c, "GET http://%s%s HTTP/1.0\r\n\r\n", plain, path)
				return func() { c.Close() }
			},
			"plain, with bytes nobody reads": func(path string) func() {
				c, _ := r.raw()
				fmt.Fprintf(c, "GET http://%s%s HTTP/1.1\r\nHost: x\r\n\r\nGET http://x/ HTTP/1.1\r\n", plain, path)
				return func() { c.Close() }
			},
			"decrypted": func(path string) func() {
				c, br := r.tunnelTo(one)
				tc := tls.Client(&buffered{c, br}, &tls.Config{ServerName: "localhost", RootCAs: w.ours})
				fmt.Fprintf(tc, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, one)
				return func() { tc.Close() }
			},
			"decrypted, without a farewell": func(path string) func() {
				c, br := r.tunnelTo(one)
				tc := tls.Client(&buffered{c, br}, &tls.Config{ServerName: "localhost", RootCAs: w.ours})
				fmt.Fprintf(tc, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, one)
				return func() { c.Close() }
			},
			"a stream": func(path string) func() {
				f := r.frames(w, two)
				f.ask(1, true, ":method", "GET", ":scheme", "https", ":authority", two, ":path", path)
				return func() { f.WriteRSTStream(1, http2.ErrCodeCancel) }
			},
			"a connection with a stream to HTTP/1": func(path string) func() {
				c, br := r.tunnelTo(one)
				f := &frames{t: r.t}
				tc := tls.Client(&buffered{c, br}, &tls.Config{ServerName: "localhost", RootCAs: w.ours, NextProtos: []string{"h2"}})
				f.open(tc)
				f.ask(1, true, ":method", "GET", ":scheme", "https", ":authority", one, ":path", path)
				return func() { c.Close() }
			},
		}
		var leave []func()
		waiting := map[string]bool{}
		for name, ask := range ways {
			for _, after := range []string{"nothing", "chunk", "length"} {
				query := url.Values{"after": {after}, "way": {name}}.Encode()
				waiting[query] = true
				leave = append(leave, ask("/?"+query))
			}
		}
		for range leave {
			receive(t, entered, "requests")
		}
		for _, f := range leave {
			f()
		}
		for range leave {
			select {
			case query := <-left:
				delete(waiting, query)
			case <-time.After(soon):
				t.Fatalf("inspected: %v; these origins do not learn that the client has gone: %v", inspect, slices.Collect(maps.Keys(waiting)))
			}
		}
		for end := time.Now().Add(soon); r.turns.Used() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("inspected: %v; %d turns are kept", inspect, r.turns.Used())
			}
		}
		r.stop()
	}
}

func TestAClientThatOnlyEndsItsSideGetsItsResponse(t *testing.T) {
	goOn := make(chan bool, 1)
	o := origin(t, func(rw http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		<-goOn
		fmt.Fprintf(rw, "%s %s", q.Method, b)
	})
	for _, inspect := range []bool{false, true} {
		r := start(t, Config{}, Engine{Decider: judge{
			wants: func(_ *filter.Transaction, s filter.Stage) bool {
				return inspect && (s == filter.ResponseBody || s == filter.RequestBody)
			},
		}})
		queries := []struct{ query, want string }{
			{"GET %s HTTP/1.1\r\nHost: x\r\n\r\n", "GET "},
			{"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "POST abc"},
			{"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "POST abc"},
		}
		var from []*bufio.Reader
		for _, tt := range queries {
			c, br := r.raw()
			fmt.Fprintf(c, tt.query, o.URL)
			c.(*net.TCPConn).CloseWrite()
			from = append(from, br)
		}
		for i, tt := range queries {
			if head := readHead(from[i]); head != processing {
				t.Fatalf("%q: got %q, want %q", tt.query, head, processing)
			}
		}
		for range queries {
			goOn <- true
		}
		for i, tt := range queries {
			res, err := http.ReadResponse(from[i], nil)
			if err != nil {
				t.Fatalf("%q: %v", tt.query, err)
			}
			if b, err := io.ReadAll(res.Body); string(b) != tt.want || err != nil {
				t.Errorf("%q: got %q, %v, want %q", tt.query, b, err, tt.want)
			}
		}
		r.stop()
	}
}

func TestWhoLeavesWhileWaitingForATurnIsNotWaitedFor(t *testing.T) {
	hold, entered, calls := make(chan struct{}), make(chan bool, 1), atomic.Int32{}
	r := start(t, Config{Requests: 1, Exchange: exchange.Config{QueueTime: setting.Duration(time.Minute)}}, Engine{
		Identify: func(_ context.Context, addr netip.Addr, _ []byte) (filter.Client, error) {
			if calls.Add(1) == 1 {
				entered <- true
				<-hold
			}
			return filter.Client{Addr: addr}, nil
		},
	})
	defer close(hold)
	go r.talk("GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	receive(t, entered, "first request")
	c, _ := r.raw()
	io.WriteString(c, "GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: x\r\n\r\n")
	for r.Stats().Queued == 0 {
		time.Sleep(time.Millisecond)
	}
	c.Close()
	if x := r.wait(1)[0]; x.Note != "client went away before its turn" || x.Status != 0 || r.Stats().Left != 1 {
		t.Errorf("record: got %+v, %d left, want a client that left before its turn", x, r.Stats().Left)
	}
}

func TestWhoLeavesWhileWaitingForAJudgeIsNotWaitedFor(t *testing.T) {
	hold, entered, calls := make(chan struct{}), make(chan bool, 9), atomic.Int32{}
	o := origin(t, func(rw http.ResponseWriter, q *http.Request) { io.WriteString(rw, "page") })
	r := start(t, Config{Exchange: exchange.Config{Judges: 1, QueueTime: setting.Duration(time.Minute)}}, Engine{Decider: judge{
		wants: func(_ *filter.Transaction, s filter.Stage) bool { return s == filter.ResponseBody },
		decide: func(x *filter.Transaction, s filter.Stage) (v filter.Verdict) {
			if s == filter.Response {
				entered <- true
			}
			if s == filter.ResponseBody && calls.Add(1) == 1 {
				<-hold
			}
			return v
		},
	}})
	defer close(hold)
	go r.talk("GET " + o.URL + "/first HTTP/1.1\r\nHost: x\r\n\r\n")
	receive(t, entered, "first response")
	for calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	c, _ := r.raw()
	fmt.Fprintf(c, "GET %s/second HTTP/1.1\r\nHost: x\r\n\r\n", o.URL)
	receive(t, entered, "second response")
	c.Close()
	if x := r.wait(1)[0]; !strings.HasSuffix(x.URL, "/second") {
		t.Errorf("record: got %+v, want that of the client that left", x)
	}
}

func TestALongPollKeepsNoTurn(t *testing.T) {
	w := newWorld(t)
	hold, entered := make(chan struct{}), make(chan bool, 9)
	wait := func(rw http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/poll":
			entered <- true
			<-hold
		case "/pieces":
			rw.Write(make([]byte, 100))
			http.NewResponseController(rw).Flush()
			entered <- true
			<-hold
		default:
			io.WriteString(rw, "page")
		}
	}
	o, two := origin(t, wait), w.origin2(t, true, wait)
	r := start(t, Config{Requests: 1, Exchange: exchange.Config{QueueTime: setting.Duration(time.Minute)}}, Engine{
		Intercept: w.in,
		Decider: judge{
			wants: func(_ *filter.Transaction, s filter.Stage) bool { return s == filter.ResponseBody },
			decide: func(*filter.Transaction, filter.Stage) filter.Verdict {
				return filter.Verdict{Patience: time.Millisecond}
			},
		},
	})
	defer close(hold)
	f := r.frames(w, two)
	for i, ask := range []func(){
		func() { go r.talk("GET " + o.URL + "/poll HTTP/1.1\r\nHost: x\r\n\r\n") },
		func() { go r.talk("GET " + o.URL + "/pieces HTTP/1.1\r\nHost: x\r\n\r\n") },
		func() { f.ask(1, true, ":method", "GET", ":scheme", "https", ":authority", two, ":path", "/poll") },
	} {
		ask()
		receive(t, entered, "long poll")
		if _, b := get(t, r.client(), o.URL+"/page"); b != "page" {
			t.Errorf("page beside %d long polls: got %q", i+1, b)
		}
	}
}
