package proxy

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/upstream"
)

// browser2 is a browser that speaks HTTP/2.
func (r *rig) browser2(w *world) *http.Client {
	c := r.browser(w)
	c.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	return c
}

// origin2 is an origin that speaks HTTP/2 if h2.
func (w *world) origin2(t *testing.T, h2 bool, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = h2
	s.TLS = &tls.Config{Certificates: []tls.Certificate{w.leaf(t, nil)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return strings.Replace(strings.TrimPrefix(s.URL, "https://"), "127.0.0.1", "localhost", 1)
}

func TestHTTP2IsJudgedAndPassedOnLikeHTTP1(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprint("origin h2 ", h2), func(t *testing.T) {
			w := newWorld(t)
			host := w.origin2(t, h2, func(rw http.ResponseWriter, q *http.Request) {
				if (q.ProtoMajor == 2) != h2 {
					t.Errorf("the origin got a request in %s", q.Proto)
				}
				b, _ := io.ReadAll(q.Body)
				rw.Header().Set("X-Saw", fmt.Sprint(q.Method, " ", q.URL, " ", len(b)))
				rw.Header().Set("Trailer", "X-End")
				if q.URL.Path == "/large" {
					rw.Write(make([]byte, 3_000_000))
				}
				fmt.Fprint(rw, "hello ", q.Host)
				rw.Header().Set("X-End", "over")
			})
			r := start(t, Config{}, Engine{Intercept: w.in, Decider: judge{
				wants: func(x *filter.Transaction, s filter.Stage) bool { return s == filter.ResponseBody },
				decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
					if strings.Contains(x.URL, "/bad") && s == filter.Request {
						return block("adult")
					}
					return filter.Verdict{}
				}}})
			c := r.browser2(w)
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					path, size := fmt.Sprint("/n", i), 0
					var body io.Reader
					method := "GET"
					switch i % 4 {
					case 1:
						method, size, body = "POST", 200_000, strings.NewReader(strings.Repeat("x", 200_000))
					case 2:
						path = "/bad"
					case 3:
						path = "/large"
					}
					q, _ := http.NewRequest(method, "https://"+host+path, body)
					res, err := c.Do(q)
					if err != nil {
						t.Errorf("%s: %v", path, err)
						return
					}
					defer res.Body.Close()
					b, err := io.ReadAll(res.Body)
					switch {
					case err != nil || res.ProtoMajor != 2:
						t.Errorf("%s: got %s, %v, want HTTP/2", path, res.Proto, err)
					case path == "/bad":
						if res.StatusCode != 403 || !strings.Contains(string(b), "adult") {
							t.Errorf("%s: got %d %q, want the block page", path, res.StatusCode, b)
						}
					case !strings.HasSuffix(string(b), "hello "+host) || res.Header.Get("X-Saw") != fmt.Sprint(method, " ", path, " ", size) || res.Trailer.Get("X-End") != "over":
						t.Errorf("%s: got %d %q, fields %v, trailer %v", path, res.StatusCode, b[:min(len(b), 99)], res.Header, res.Trailer)
					}
				})
			}
			all.Wait()
			if s := r.Stats(); s.Decrypted == 0 || s.Panics != 0 {
				t.Errorf("counters: got %+v, want decrypted connections and no panic", s)
			}
		})
	}
}

func TestStreamsOfMessagesPassBothWaysAtOnce(t *testing.T) {
	w := newWorld(t)
	host := w.origin2(t, true, func(rw http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Te") != "trailers" {
			t.Errorf("the origin got TE %q, want trailers", q.Header.Get("Te"))
		}
		rw.Header().Set("Content-Type", "application/grpc")
		rw.WriteHeader(200)
		rw.(http.Flusher).Flush()
		in := bufio.NewReader(q.Body)
		for {
			s, err := in.ReadString('\n')
			if err != nil {
				break
			}
			io.WriteString(rw, grpcMessage("got "+s[5:]))
			rw.(http.Flusher).Flush()
		}
		rw.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	r := start(t, Config{}, Engine{Intercept: w.in, Decider: judge{wants: func(x *filter.Transaction, s filter.Stage) bool { return s == filter.ResponseBody }}})
	pr, pw := io.Pipe()
	q, _ := http.NewRequest("POST", "https://"+host+"/s.S/M", pr)
	q.Header.Set("Content-Type", "application/grpc")
	q.Header.Set("TE", "trailers")
	res, err := r.browser2(w).Do(q)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(res.Body)
	for _, s := range []string{"one\n", "two\n"} {
		io.WriteString(pw, grpcMessage(s))
		if got, err := out.ReadString('\n'); got != grpcMessage("got "+s) {
			t.Fatalf("gRPC answer: got %q, %v", got, err)
		}
	}
	pw.Close()
	io.ReadAll(out)
	if got := res.Trailer.Get("Grpc-Status"); got != "0" {
		t.Errorf("trailers of the gRPC answer: got %v, want grpc-status 0", res.Trailer)
	}
}

func TestAStreamGivenUpFreesWhatItHeld(t *testing.T) {
	w := newWorld(t)
	waiting, gone := make(chan struct{}, 1), make(chan struct{})
	host := w.origin2(t, true, func(rw http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/ok" {
			return
		}
		waiting <- struct{}{}
		<-q.Context().Done()
		close(gone)
	})
	r := start(t, Config{}, Engine{Intercept: w.in})
	c := r.browser2(w)
	ctx, cancel := context.WithCancel(t.Context())
	q, _ := http.NewRequestWithContext(ctx, "GET", "https://"+host+"/wait", nil)
	go func() { <-waiting; cancel() }()
	if _, err := c.Do(q); err == nil {
		t.Error("the request succeeded, want an error from the reset")
	}
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("the origin did not notice within a minute that the client reset the stream")
	}
	if res, _ := get(t, c, "https://"+host+"/ok"); res.StatusCode != 200 {
		t.Errorf("request after the reset: got %d, want 200", res.StatusCode)
	}
}

// doomed is a connection that fails after a number of written bytes.
type doomed struct {
	net.Conn
	left int
}

func (d *doomed) Write(p []byte) (int, error) {
	if d.left -= len(p); d.left > 0 {
		return d.Conn.Write(p)
	}
	if n := len(p) + d.left; n > 0 {
		d.Conn.Write(p[:n])
	}
	d.Close()
	return 0, net.ErrClosed
}

func TestAbortedTLSConnectionsLeaveNothing(t *testing.T) {
	w := newWorld(t)
	host := w.origin2(t, true, func(rw http.ResponseWriter, q *http.Request) {
		io.Copy(io.Discard, q.Body)
		rw.Write(make([]byte, 200_000))
	})
	total := 1500
	if testing.Short() {
		total = 400
	}
	before := runtime.NumGoroutine()
	r := start(t, Config{PerClient: 1000, HeadTime: setting.Duration(2 * time.Second), Drain: setting.Duration(5 * time.Second), Upstream: upstream.Config{Answer: setting.Duration(2 * time.Second)}, Exchange: exchange.Config{Held: 100_000, HeldTotal: 4 << 20}},
		Engine{Intercept: w.in, Decider: judge{wants: func(x *filter.Transaction, s filter.Stage) bool { return s == filter.ResponseBody }}})
	var all sync.WaitGroup
	for worker := range 20 {
		all.Go(func() {
			for i := worker; i < total; i += 20 {
				tr := &http.Transport{
					ForceAttemptHTTP2: i%2 == 0, TLSClientConfig: &tls.Config{RootCAs: w.ours},
					Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: r.addr}),
					DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
						c, err := new(net.Dialer).DialContext(ctx, network, addr)
						return &doomed{c, 20 + i*7919%6000}, err
					},
				}
				c := &http.Client{Transport: tr, Timeout: time.Minute}
				if res, err := c.Post("https://"+host+"/", "text/plain", strings.NewReader(strings.Repeat("x", i%4000))); err == nil {
					io.CopyN(io.Discard, res.Body, int64(i%100_000))
					res.Body.Close()
				}
				tr.CloseIdleConnections()
			}
		})
	}
	all.Wait()
	r.stop()
	s := r.Stats()
	if s.Held != 0 || s.ConnectionsOpen != 0 || s.TunnelsOpen != 0 || s.Queued != 0 || s.UpstreamIdle != 0 || s.Panics != 0 || s.Decrypted == 0 {
		t.Errorf("counters after the load: %+v; want nothing in use", s)
	}
	if r.turns.Used() != 0 || r.Stats().Judging != 0 || len(r.clients.n) != 0 {
		t.Errorf("%d requests, %d judgements and %d clients are still counted at the end", r.turns.Used(), r.Stats().Judging, len(r.clients.n))
	}
	if int(s.Requests) != len(r.records) {
		t.Errorf("%d requests, but %d records", s.Requests, len(r.records))
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before+2 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before+2 {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines before the load, %d after it\n%.8000s", before, n, buf[:runtime.Stack(buf, true)])
	}
}

// TestACutPageShowsItsNoticeOverHTTP2: a browser discards what it has of a stream that is reset, so a
// page ends in order. What has no notice does not.
func TestACutPageShowsItsNoticeOverHTTP2(t *testing.T) {
	w := newWorld(t)
	text := strings.Repeat("<p>0123456789", 50_000)
	host := w.origin2(t, true, func(rw http.ResponseWriter, q *http.Request) {
		rw.Header().Set("Content-Type", q.URL.Query().Get("type"))
		body := text + "bad" + text
		if coding := q.URL.Query().Get("coding"); coding != "" {
			rw.Header().Set("Content-Encoding", coding)
			body = zipped(text + fmt.Sprint(rand.Perm(40_000)) + "bad" + text)
		}
		io.WriteString(rw, body)
	})
	r := start(t, Config{Exchange: exchange.Config{Held: 100_000}}, Engine{Intercept: w.in, Decider: &scanner{}})
	c := r.browser2(w)
	for query, notice := range map[string]bool{
		"type=text/html": true, "type=text/html&coding=gzip": true, "type=text/plain": false, "type=image/svg%2Bxml": false,
	} {
		q, _ := http.NewRequest("GET", "https://"+host+"/?"+query, nil)
		q.Header.Set("Accept-Encoding", "gzip")
		res, err := c.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		body := io.Reader(res.Body)
		if res.Header.Get("Content-Encoding") == "gzip" {
			if body, err = gzip.NewReader(body); err != nil {
				t.Fatal(err)
			}
		}
		b, err := io.ReadAll(body)
		res.Body.Close()
		if shown := strings.Contains(string(b), "The rest of this page is blocked"); res.ProtoMajor != 2 || shown != notice || (err == nil) != notice {
			t.Errorf("%s: got %s, %d bytes, error %v, with the notice %v; want it: %v", query, res.Proto, len(b), err, shown, notice)
		}
	}
}
