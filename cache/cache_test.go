package cache

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/cache/protocol"
	"shuultuur/filter"
	"shuultuur/lib/message"
)

// An answerer is a function as an origin.
type answerer func(q *message.Request) (*message.Response, error)

func (f answerer) RoundTrip(_ context.Context, q *message.Request) (*message.Response, error) {
	return f(q)
}

// respond makes a response; fields are names and values.
func respond(status int, body string, fields ...string) *message.Response {
	m := new(message.MemoryBody)
	m.Set([]byte(body))
	s := &message.Response{Status: status, Reason: []byte("X"), Proto: 11, Length: int64(len(body)), Body: m}
	s.Fields.Add("Content-Length", strconv.Itoa(len(body)))
	for i := 0; i < len(fields); i += 2 {
		s.Fields.Add(fields[i], fields[i+1])
	}
	return s
}

func request(method, url string, fields ...string) *message.Request {
	scheme, rest, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, "/")
	q := &message.Request{Method: method, Form: message.Absolute, Scheme: scheme, Host: []byte(host), Path: []byte("/" + path), Proto: 11}
	for i := 0; i < len(fields); i += 2 {
		q.Fields.Add(fields[i], fields[i+1])
	}
	return q
}

// send sends a request and returns the body and Cache-Status.
func send(t testing.TB, r *RoundTripper, ctx context.Context, q *message.Request) (status int, body, note string) {
	t.Helper()
	s, err := r.RoundTrip(ctx, q)
	if err != nil {
		return 0, err.Error(), ""
	}
	defer s.Body.Close()
	b, err := io.ReadAll(s.Body)
	if err != nil {
		t.Errorf("reading the response to %s: %v", q.Path, err)
	}
	return s.Status, string(b), string(s.Get("Cache-Status"))
}

func open(t testing.TB, cfg Config, p Parts) *Cache {
	t.Helper()
	c, err := New(cfg, p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended; c.Close() })
	return c
}

func TestDecryptedContentIsStoredOnlyWherePolicyAllows(t *testing.T) {
	for _, c := range []struct {
		name    string
		allowed bool
		q, s    []string
		stored  bool
	}{
		{"over a connection on which a client signs in", true, nil, []string{"Personal", ""}, false},
		{"over such a connection, public", true, nil, []string{"Cache-Control", "public, max-age=60", "Personal", ""}, true},
		{"refused", false, nil, nil, false},
		{"allowed", true, nil, nil, true},
		{"with Set-Cookie", true, nil, []string{"Set-Cookie", "a=b"}, false},
		{"with Cookie", true, []string{"Cookie", "a=b"}, nil, false},
		{"with Cookie, public", true, []string{"Cookie", "a=b"}, []string{"Cache-Control", "public, max-age=60"}, true},
		{"with Authorization", true, []string{"Authorization", "x"}, []string{"Cache-Control", "s-maxage=60"}, false},
		{"with Authorization, public", true, []string{"Authorization", "x"}, []string{"Cache-Control", "public, max-age=60"}, true},
		{"private", true, nil, []string{"Cache-Control", "private, max-age=60"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			front := open(t, Config{}, Parts{Stores: func(*filter.Transaction) bool { return c.allowed }}).InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
				asked++
				fields := c.s
				if len(fields) == 0 || fields[0] != "Cache-Control" {
					fields = append([]string{"Cache-Control", "max-age=60"}, fields...)
				}
				answer := respond(200, "x", fields...)
				answer.Personal = answer.Has("Personal")
				answer.Del("Personal")
				return answer, nil
			}))
			ctx := filter.With(context.Background(), &filter.Transaction{})
			for range 2 {
				send(t, front, ctx, request("GET", "https://example.org/", c.q...))
			}
			if stored := asked == 1; stored != c.stored {
				t.Errorf("the response was stored: %v, want %v", stored, c.stored)
			}
		})
	}
}

// TestCookiesOfA304AreNotStored: fields that a 304 sets for one client are not sent to
// others.
func TestCookiesOfA304AreNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, method := range []string{"GET", "HEAD"} {
			asked := 0
			front := open(t, Config{}, Parts{Stores: func(*filter.Transaction) bool { return true }}).InFrontOf(answerer(func(q *message.Request) (*message.Response, error) {
				asked++
				fields := []string{"Cache-Control", "max-age=10", "ETag", `"a"`}
				if asked == 2 {
					fields = append(fields, "Set-Cookie", "session=1")
				}
				if q.Method == "GET" && q.Has("If-None-Match") {
					return respond(304, "", fields...), nil
				}
				return respond(200, "x", fields...), nil
			}))
			ctx := filter.With(t.Context(), &filter.Transaction{})
			cookies := func(method string) int {
				s, err := front.RoundTrip(ctx, request(method, "https://example.org/"))
				if err != nil {
					t.Fatal(err)
				}
				s.Body.Close()
				return len(s.Get("Set-Cookie"))
			}
			cookies("GET")
			time.Sleep(20 * time.Second)
			if cookies(method) == 0 {
				t.Errorf("%s: the requesting client did not get the cookie", method)
			}
			if cookies("GET") > 0 || cookies("HEAD") > 0 {
				t.Errorf("%s: another client got the cookie", method)
			}
		}
	})
}

// TestA304CanForbidStoring: an origin can withdraw its permission to store an object in a
// 304, or in the response to HEAD.
func TestA304CanForbidStoring(t *testing.T) {
	for _, c := range []struct {
		method, control string
		asked           int
	}{
		{"GET", "max-age=10", 2}, {"GET", "no-store", 3}, {"GET", "private", 3}, {"GET", `private="X-User", max-age=10`, 2},
		{"HEAD", "max-age=10", 2}, {"HEAD", "no-store", 3}, {"HEAD", "private, max-age=10", 3},
	} {
		t.Run(c.method+" "+c.control, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, control := 0, "max-age=10"
				front := open(t, Config{}, Parts{}).InFrontOf(answerer(func(q *message.Request) (*message.Response, error) {
					asked++
					status := 200
					if q.Has("If-None-Match") {
						status = 304
					}
					return respond(status, "x", "Cache-Control", control, "ETag", `"a"`), nil
				}))
				get := func(method string) {
					if status, _, _ := send(t, front, t.Context(), request(method, "http://example.org/")); status != 200 {
						t.Errorf("%s got status %d, want 200", method, status)
					}
				}
				get("GET")
				time.Sleep(20 * time.Second)
				control = c.control
				get(c.method)
				get("GET")
				if asked != c.asked {
					t.Errorf("the origin was asked %d times, want %d", asked, c.asked)
				}
			})
		})
	}
}

func TestRequestsForOneObjectShareOneFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		front := open(t, Config{}, Parts{}).InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
			asked.Add(1)
			time.Sleep(time.Second)
			r, w := io.Pipe()
			go func() {
				for range 10 {
					w.Write(bytes.Repeat([]byte("x"), 100_000))
					time.Sleep(100 * time.Millisecond)
				}
				w.Close()
			}()
			s := respond(200, "", "Cache-Control", "max-age=60")
			s.Fields.Del("Content-Length")
			s.Length, s.Body = message.Chunked, &streamed{r: r}
			return s, nil
		}))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, body, _ := send(t, front, t.Context(), request("GET", "http://example.org/big")); len(body) != 1_000_000 {
					t.Errorf("got a body of %d bytes, want 1000000", len(body))
				}
			})
		}
		wg.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("the origin was asked %d times, want once", n)
		}
	})
}

func TestWaitingForAnotherFetchHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		front := open(t, Config{}, Parts{}).InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
			if asked.Add(1) == 1 {
				time.Sleep(time.Minute)
			}
			return respond(200, "x", "Cache-Control", "max-age=60"), nil
		}))
		go send(t, front, t.Context(), request("GET", "http://example.org/"))
		time.Sleep(time.Second)
		start := time.Now()
		send(t, front, t.Context(), request("GET", "http://example.org/"))
		if d := time.Since(start); d > defaultWait {
			t.Errorf("the request waited %v for the fetch in progress, want at most %v", d, defaultWait)
		}
		time.Sleep(2 * time.Minute)
	})
}

// The first client leaves; the others still get everything.
func TestOtherReadersGetTheRestWhenTheFirstLeaves(t *testing.T) {
	front := open(t, Config{}, Parts{}).InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
		s := respond(200, "", "Cache-Control", "max-age=60")
		s.Length, s.Body = 500_000, &streamed{r: io.NopCloser(bytes.NewReader(make([]byte, 500_000))), left: 500_000}
		return s, nil
	}))
	s, err := front.RoundTrip(t.Context(), request("GET", "http://example.org/"))
	if err != nil {
		t.Fatal(err)
	}
	g := s.Body.(*bodyReader).g
	other := g.reader()
	s.Body.Close()
	if b, err := io.ReadAll(other); err != nil || len(b) != 500_000 {
		t.Errorf("the remaining reader got %d bytes and the error %v, want 500000 bytes", len(b), err)
	}
	if _, _, note := send(t, front, t.Context(), request("GET", "http://example.org/")); !strings.Contains(note, "; hit") {
		t.Errorf("the next request was answered with Cache-Status %q, want a hit", note)
	}
}

// streamed is a body that arrives slowly. left is -1 if its length is unknown.
type streamed struct {
	r    io.ReadCloser
	left int64
	done bool
}

func (s *streamed) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if s.left > 0 {
		s.left -= int64(n)
		s.done = s.left == 0
	}
	if err == io.EOF {
		s.done = true
	}
	return n, err
}
func (s *streamed) Close() error                             { return s.r.Close() }
func (s *streamed) Ready(dst [][]byte) [][]byte              { return dst }
func (s *streamed) Skip(int)                                 {}
func (s *streamed) Copy(w io.Writer, n int64) (int64, error) { return io.CopyN(w, s, n) }
func (s *streamed) AtEnd() bool                              { return s.done }
func (s *streamed) Trailer() message.Fields                  { return nil }
func (s *streamed) Remaining() int64 {
	switch {
	case s.done:
		return 0
	case s.left > 0:
		return s.left
	}
	return message.Chunked
}

func TestPurge(t *testing.T) {
	for _, p := range [][2]string{{"url", "http://www.example.org/a"}, {"prefix", "http://www.example.org/"}, {"host", "example.org"}, {"tag", "news"}, {"category", "games"}} {
		t.Run(p[0], func(t *testing.T) {
			asked := 0
			c := open(t, Config{}, Parts{})
			front := c.InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
				asked++
				return respond(200, "x", "Cache-Control", "max-age=600", "Cache-Tag", "sport, news"), nil
			}))
			ctx := filter.With(context.Background(), &filter.Transaction{Findings: []filter.Finding{{Check: "category", Category: "games"}}})
			get := func() { send(t, front, ctx, request("GET", "http://www.example.org/a")) }
			get()
			get()
			if err := c.Purge(p[0], p[1]); err != nil {
				t.Fatal(err)
			}
			get()
			get()
			if asked != 2 {
				t.Errorf("the origin was asked %d times, want 2", asked)
			}
		})
	}
	if err := open(t, Config{}, Parts{}).Purge("colour", "red"); err == nil {
		t.Error("purging by an unknown kind succeeded")
	}
}

func TestOfflineServesStaleAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := false
		asked := 0
		front := open(t, Config{}, Parts{}).InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
			asked++
			if down {
				return nil, io.ErrUnexpectedEOF
			}
			return respond(200, "x", "Cache-Control", "max-age=10"), nil
		}))
		get := func(path string) (int, string) {
			status, _, note := send(t, front, t.Context(), request("GET", "http://example.org/"+path))
			return status, note
		}
		for i := range 10 {
			get(strconv.Itoa(i))
		}
		down = true
		time.Sleep(time.Minute)
		asked = 0
		for i := range 10 {
			status, note := get(strconv.Itoa(i))
			if status != 200 || !strings.Contains(note, "detail=") {
				t.Errorf("request %d while the uplink is down: status %d, Cache-Status %q; want 200 with a detail", i, status, note)
			}
		}
		if asked > downAfter {
			t.Errorf("the origin was asked %d times while the uplink was down, want at most %d", asked, downAfter)
		}
		time.Sleep(2 * time.Hour)
		if status, _ := get("1"); status != 0 {
			t.Error("an object was served although it had been stale for longer than Offline allows")
		}
		down = false
		time.Sleep(tryEvery)
		if _, note := get("1"); !strings.Contains(note, "fwd") || strings.Contains(note, "offline") {
			t.Errorf("after the uplink returned Cache-Status is %q, want fwd without offline", note)
		}
	})
}

func TestIgnoredParametersAndRules(t *testing.T) {
	no := false
	c := open(t, Config{IgnoreQuery: []string{"utm_*"}, Rules: []Rule{
		{Host: []string{"bank.example"}, Store: &no},
		{Type: []string{"image/*"}, Min: 3600 * 1e9},
	}}, Parts{})
	front := c.InFrontOf(answerer(func(q *message.Request) (*message.Response, error) {
		if strings.HasPrefix(string(q.Path), "/img") {
			return respond(200, "x", "Content-Type", "image/png"), nil
		}
		return respond(200, "x", "Cache-Control", "max-age=60"), nil
	}))
	for _, c := range []struct {
		first, second string
		hit           bool
	}{
		{"http://a.example/?q=1&utm_source=x", "http://a.example/?utm_medium=y&q=1", true},
		{"http://a.example/?q=2", "http://a.example/?q=3", false},
		{"http://www.bank.example/", "http://www.bank.example/", false},
		{"http://a.example/img", "http://a.example/img", true},
		{"http://a.example/x%41", "http://A.EXAMPLE/x%41", true},
	} {
		send(t, front, t.Context(), request("GET", c.first))
		if _, _, note := send(t, front, t.Context(), request("GET", c.second)); strings.Contains(note, "; hit") != c.hit {
			t.Errorf("%s after %s: Cache-Status %q, want a hit: %v", c.second, c.first, note, c.hit)
		}
	}
}

// TestObjectsOutliveARestart: after a restart, objects are read from the disk, with their
// variants and without purged or invalidated ones.
func TestObjectsOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	asked := 0
	origin := answerer(func(q *message.Request) (*message.Response, error) {
		asked++
		fields := []string{"Cache-Control", "max-age=600", "ETag", `"1"`}
		if strings.HasPrefix(string(q.Path), "/vary") {
			fields = append(fields, "Vary", "Accept-Language")
		}
		return respond(200, "body of "+string(q.Path)+string(q.Get("Accept-Language")), fields...), nil
	})
	cfg := Config{Disk: 64 << 20, Memory: 1 << 20}
	run := func(f func(front *RoundTripper, c *Cache)) {
		c, err := New(cfg, Parts{Data: dir})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		f(c.InFrontOf(origin), c)
		stop()
		<-ended
		c.Close()
	}
	get := func(front *RoundTripper, path, language string) string {
		_, body, note := send(t, front, t.Context(), request("GET", "http://example.org/"+path, "Accept-Language", language))
		if want := "body of /" + path + language; body != want {
			t.Errorf("the body of %s is %q, want %q", path, body, want)
		}
		return note
	}
	run(func(front *RoundTripper, c *Cache) {
		for i := range 50 {
			get(front, fmt.Sprint("p", i), "en")
		}
		get(front, "vary", "en")
		get(front, "vary", "mn")
	})
	asked = 0
	run(func(front *RoundTripper, c *Cache) {
		for i := range 50 {
			if note := get(front, fmt.Sprint("p", i), "en"); !strings.Contains(note, "; hit") {
				t.Errorf("p%d after a restart: Cache-Status %q, want a hit", i, note)
			}
		}
		get(front, "vary", "en")
		get(front, "vary", "mn")
		if asked != 0 {
			t.Errorf("the origin was asked %d times after a restart, want never", asked)
		}
		send(t, front, t.Context(), request("DELETE", "http://example.org/p1"))
		if err := c.Purge("url", "http://example.org/p2"); err != nil {
			t.Fatal(err)
		}
	})
	asked = 0
	run(func(front *RoundTripper, c *Cache) {
		get(front, "p1", "en")
		get(front, "p2", "en")
		get(front, "p3", "en")
		if asked != 2 {
			t.Errorf("the origin was asked %d times, want 2: for the invalidated object and the purged one", asked)
		}
	})
}

// only-if-cached alone does not permit sending a stale response (RFC 9111 section 4.2.4): only
// with max-stale, or while the origin is unreachable.
func TestOnlyIfCachedIsNotServedStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := false
		front := open(t, Config{}, Parts{}).InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
			if down {
				return nil, io.ErrUnexpectedEOF
			}
			return respond(200, "x", "Cache-Control", "max-age=10"), nil
		}))
		ask := func(control string) int {
			status, _, _ := send(t, front, t.Context(), request("GET", "http://example.org/", "Cache-Control", control))
			return status
		}
		ask("")
		time.Sleep(time.Minute)
		if got := ask("only-if-cached"); got != 504 {
			t.Errorf("only-if-cached with a stale object: status %d, want 504", got)
		}
		if got := ask("only-if-cached, max-stale=100"); got != 200 {
			t.Errorf("only-if-cached with a stale object and max-stale: status %d, want 200", got)
		}
		down = true
		for range downAfter {
			send(t, front, t.Context(), request("GET", "http://example.org/other"))
		}
		if got := ask("only-if-cached"); got != 200 {
			t.Errorf("only-if-cached with a stale object while the uplink is down: status %d, want 200", got)
		}
	})
}

// parts returns an origin that answers range requests for a text.
func parts(text string, asked *int, more ...string) answerer {
	return func(q *message.Request) (*message.Response, error) {
		*asked++
		first, last, _ := protocol.Range(q.Get("Range"), int64(len(text)))
		fields := append([]string{"ETag", `"x"`, "Cache-Control", "max-age=60"}, more...)
		if !q.Has("Range") {
			return respond(200, text, fields...), nil
		}
		return respond(206, text[first:last+1], append(fields, "Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(text)))...), nil
	}
}

func TestPartsAreCombined(t *testing.T) {
	for _, c := range []struct {
		name   string
		ranges []string
		more   []string
		asked  int // after the ranges, the text is requested
	}{
		{"one behind the other", []string{"0-3", "4-9"}, nil, 2},
		{"one before the other", []string{"4-9", "0-3"}, nil, 2},
		{"overlapping", []string{"0-5", "3-9"}, nil, 2},
		{"a part of the parts", []string{"0-3", "4-6", "2-5"}, nil, 3}, // and the rest
		{"one is missing in between", []string{"0-1", "8-9"}, nil, 3},
		{"without a strong tag", []string{"0-3", "4-9"}, []string{"ETag", `W/"x"`}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			text := "0123456789"
			origin := parts(text, &asked)
			if c.more != nil {
				strong := origin
				origin = func(q *message.Request) (*message.Response, error) {
					s, err := strong(q)
					s.Fields.Set(c.more[0], c.more[1])
					return s, err
				}
			}
			front := open(t, Config{}, Parts{}).InFrontOf(origin)
			for _, r := range c.ranges {
				var first, last int
				fmt.Sscanf(r, "%d-%d", &first, &last)
				if status, body, _ := send(t, front, t.Context(), request("GET", "http://example.org/", "Range", "bytes="+r)); status != 206 || body != text[first:last+1] {
					t.Errorf("range %s: status %d, body %q; want 206 and the requested part", r, status, body)
				}
			}
			status, body, note := send(t, front, t.Context(), request("GET", "http://example.org/"))
			if status != 200 || body != text || asked != c.asked {
				t.Errorf("got status %d and body %q after %d fetches, want %d fetches; Cache-Status %q", status, body, asked, c.asked, note)
			}
		})
	}
}

func TestTheRestOfAPartIsStoredAsItsOriginSays(t *testing.T) {
	for _, control := range []string{"no-store", "private", "max-age=0"} {
		asked := 0
		origin := parts("0123456789", &asked)
		front := open(t, Config{}, Parts{}).InFrontOf(answerer(func(q *message.Request) (*message.Response, error) {
			s, err := origin(q)
			if asked > 1 {
				s.Fields.Set("Cache-Control", control)
			}
			return s, err
		}))
		send(t, front, t.Context(), request("GET", "http://example.org/", "Range", "bytes=0-3"))
		for range 2 {
			send(t, front, t.Context(), request("GET", "http://example.org/"))
		}
		if asked != 3 {
			t.Errorf("%s: the origin was asked %d times, want 3", control, asked)
		}
	}
}

func TestCacheStatusSaysWhyARequestWentOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front := open(t, Config{}, Parts{}).InFrontOf(answerer(func(q *message.Request) (*message.Response, error) {
			if q.Has("If-None-Match") {
				return respond(304, "", "ETag", `"x"`, "Cache-Control", "max-age=60"), nil
			}
			return respond(200, "x", "ETag", `"x"`, "Cache-Control", "max-age=60", "Vary", "X"), nil
		}))
		for _, c := range []struct {
			after time.Duration
			field [2]string
			want  string
		}{
			{0, [2]string{"X", "1"}, "shuultuur; fwd=uri-miss; stored"},
			{0, [2]string{"X", "1"}, "shuultuur; hit; ttl=60"},
			{0, [2]string{"X", "2"}, "shuultuur; fwd=vary-miss; stored"},
			{0, [2]string{"Cache-Control", "no-cache"}, "shuultuur; fwd=vary-miss; stored"},
			{0, [2]string{"Cache-Control", "no-cache"}, "shuultuur; fwd=request; fwd-status=304"},
			{2 * time.Minute, [2]string{"X", "1"}, "shuultuur; fwd=stale; fwd-status=304"},
		} {
			time.Sleep(c.after)
			if _, _, note := send(t, front, t.Context(), request("GET", "http://example.org/", c.field[0], c.field[1])); note != c.want {
				t.Errorf("%s: Cache-Status %q, want %q", c.field, note, c.want)
			}
		}
	})
}

func TestMaxStaleIsNoMoreThanItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		front := open(t, Config{}, Parts{}).InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
			asked++
			return respond(200, "x", "Cache-Control", "max-age=1000"), nil
		}))
		send(t, front, t.Context(), request("GET", "http://example.org/"))
		time.Sleep(100 * time.Second)
		for control, want := range map[string]int{"max-age=90, max-stale=20": 1, "max-age=100": 1, "max-age=10, max-stale": 1} {
			if send(t, front, t.Context(), request("GET", "http://example.org/", "Cache-Control", control)); asked != want {
				t.Errorf("%s: the origin was asked %d times, want %d", control, asked, want)
			}
		}
		if send(t, front, t.Context(), request("GET", "http://example.org/", "Cache-Control", "max-age=10, max-stale=20")); asked != 2 {
			t.Error("with max-age=10 and max-stale=20 a response of age 100 s was used")
		}
	})
}

func TestPurgingAURLRemovesAllItsSpellings(t *testing.T) {
	c := open(t, Config{IgnoreQuery: []string{"utm_*"}}, Parts{})
	asked := 0
	front := c.InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
		asked++
		return respond(200, "x", "Cache-Control", "max-age=600"), nil
	}))
	stored := []string{"http://xn--bcher-kva.example/a?utm_source=1&b=2", "http://example.org/"}
	for i, purge := range []string{"http://BÜCHER.example:80/a?b=2&utm_medium=3", "http://example.org"} {
		asked = 0
		send(t, front, t.Context(), request("GET", stored[i]))
		if err := c.Purge("url", purge); err != nil {
			t.Fatal(err)
		}
		if send(t, front, t.Context(), request("GET", stored[i])); asked != 2 {
			t.Errorf("%s is still stored after a purge of %s", stored[i], purge)
		}
	}
	if err := c.Purge("url", "example.org"); err == nil {
		t.Error("purging by URL accepts a host name")
	}
}

func TestPurgingAPrefixRemovesURLsThatBeginWithIt(t *testing.T) {
	const pictures, picture, other, alike, page = "http://example.org/pictures/", "http://example.org/pictures/a.png", "http://example.org/picture", "http://example.org.example/pictures/a.png", "http://example.org/list?page=2"
	for prefix, want := range map[string][]string{
		pictures:                           {pictures, picture},
		pictures + "*":                     {pictures, picture},
		"http://EXAMPLE.org:80/pictures/a": {picture},
		"http://example.org":               {pictures, picture, other, page},
		"http://example.org/list?page=":    {page},
		"http://example.org/absent":        nil,
		"https://example.org/":             nil,
	} {
		dir, asked := t.TempDir(), []string(nil)
		origin := answerer(func(q *message.Request) (*message.Response, error) {
			asked = append(asked, "http://"+string(q.Host)+string(q.Path))
			return respond(200, "x", "Cache-Control", "max-age=600"), nil
		})
		c := open(t, Config{Disk: 64 << 20}, Parts{Data: dir})
		all := []string{pictures, picture, other, alike, page}
		for _, u := range all {
			send(t, c.InFrontOf(origin), t.Context(), request("GET", u))
		}
		if err := c.Purge("prefix", prefix); err != nil {
			t.Fatal(err)
		}
		asked = nil
		for _, u := range all {
			send(t, c.InFrontOf(origin), t.Context(), request("GET", u))
		}
		if !slices.Equal(asked, want) {
			t.Errorf("after a purge of %s the origin was asked for %q, want %q", prefix, asked, want)
		}
		if noted, err := readPurged(c.notes); err != nil || len(newPurged(noted).prefixes) != 1 {
			t.Errorf("the file of purges has %v (%v), want one prefix", noted, err)
		}
	}
	c := open(t, Config{}, Parts{})
	for _, bad := range []string{"", "*", "example.org/", "ftp://example.org/"} {
		if err := c.Purge("prefix", bad); err == nil {
			t.Errorf("purging by prefix accepts %q", bad)
		}
	}
}

func TestPurgesNeverEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Config{}, Parts{})
		asked := 0
		front := c.InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
			asked++
			return respond(200, "x", "Cache-Control", "max-age=600000"), nil
		}))
		get := func(url string) { send(t, front, t.Context(), request("GET", url)) }
		get("http://old.example/")
		full := map[string]uint64{}
		for i := range maxPurged {
			full["tag "+strconv.Itoa(i)] = uint64(i) + 1
		}
		c.purged.Store(newPurged(full))
		for i := range 10 {
			time.Sleep(time.Millisecond)
			if err := c.Purge("host", strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(c.purged.Load().numbers); n > maxPurged {
			t.Errorf("the cache remembers %d purges, want at most %d", n, maxPurged)
		}
		time.Sleep(time.Second)
		get("http://new.example/")
		get("http://new.example/")
		if asked != 2 {
			t.Errorf("the origin was asked %d times, want 2: an object stored after the purges was fetched again", asked)
		}
		if get("http://old.example/"); asked != 3 {
			t.Error("an object stored before the forgotten purges was served")
		}
	})
}

// A verdict on a body follows from the fields of the response too, such as its type.
func TestVerdictsEndWhenTheirFieldsChange(t *testing.T) {
	for name, c := range map[string]struct {
		fields []string // of the 304
		kept   bool
	}{
		"the same":          {[]string{"Content-Type", "text/plain", "ETag", `"a"`}, true},
		"only what it says": {[]string{"ETag", `"a"`, "Expires", at(time.Hour)}, true},
		"another type":      {[]string{"Content-Type", "text/html", "ETag", `"a"`}, false},
		"a language":        {[]string{"Content-Language", "mn", "ETag", `"a"`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				c1, stop := running(t)
				defer stop()
				front := c1.InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
					if asked++; asked == 1 {
						return respond(200, "text", "Cache-Control", "max-age=5", "ETag", `"a"`, "Content-Type", "text/plain", "Date", at(0)), nil
					}
					s := respond(304, "", append(c.fields, "Cache-Control", "max-age=60")...)
					s.Fields.Del("Content-Length")
					s.Length, s.Body = message.None, new(message.MemoryBody)
					return s, nil
				}))
				judged := func() bool {
					s, err := front.RoundTrip(t.Context(), request("GET", "http://example.org/"))
					if err != nil {
						t.Fatal(err)
					}
					defer s.Body.Close()
					stored := filter.StoredOf(s.Body)
					if was := stored.HasVerdicts(); was {
						return true
					}
					stored.KeepVerdict([16]byte{1}, []byte("clean"))
					return false
				}
				judged()
				if !judged() {
					t.Fatal("the verdict was not stored")
				}
				time.Sleep(time.Minute)
				if got := judged(); got != c.kept {
					t.Errorf("the verdict outlived the 304: %v, want %v", got, c.kept)
				}
			})
		})
	}
}
