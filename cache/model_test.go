package cache

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/lib/message"
)

// A pastResponse is one response of the origin, as remembered by the model: it keeps all of them, so
// that each answer can be compared with everything that the origin sent.
type pastResponse struct {
	url, body, language string
	fields              []string
	at                  time.Time     // when it was sent, or confirmed
	age                 time.Duration // its age then
	maxAge, stale       time.Duration
	private             bool // no-store, private, or for one client
	forbidden           bool // the same, or requested with no-store
	always              bool // no-cache
	strict              bool // never stale
	varies              bool
}

// A modelRequest has the properties of a request besides its URL.
type modelRequest struct {
	method, language, control string
	seconds                   time.Duration // of control
	first, last               int           // of the range; last is 0 without one
}

// allows reports whether RFC 9111 permits a stored response with this body now, for a request
// that did not reach the origin.
func (p *pastResponse) allows(url string, w *modelRequest, now, changed time.Time) bool {
	if p.url != url || p.forbidden || p.always || p.varies && p.language != w.language || !p.at.After(changed) {
		return false
	}
	age, stale := p.ageAt(now), p.stale
	switch w.control {
	case "no-cache", "no-store":
		return false
	case "max-age":
		if age > w.seconds {
			return false
		}
	case "min-fresh":
		return p.maxAge-age >= w.seconds
	case "max-stale":
		if !p.strict {
			stale = max(stale, w.seconds+1)
		}
	}
	return age < p.maxAge+stale
}

func (p *pastResponse) ageAt(now time.Time) time.Duration { return p.age + now.Sub(p.at) }

// reads reports whether an answer with this status and text is the response, or the requested
// part of it.
func (p *pastResponse) reads(w *modelRequest, s *message.Response, text string) bool {
	want := p.body
	switch {
	case string(s.Get("Version")) != p.body:
		return false
	case w.method == "HEAD":
		want = ""
	case s.Status == 206:
		want = p.body[w.first : w.last+1]
		if w.last == 0 || string(s.Get("Content-Range")) != fmt.Sprintf("bytes %d-%d/%d", w.first, w.last, len(p.body)) {
			return false
		}
	}
	return (s.Status == 200 || s.Status == 206) && text == want
}

// A modelOrigin answers at random and remembers its responses.
type modelOrigin struct {
	mu             sync.Mutex // a refresh in the background may be concurrent
	r              *rand.Rand
	history        []*pastResponse
	asked, version int
}

// revalidate finds the newest response that fits, and records that it is still valid.
func (o *modelOrigin) revalidate(q *message.Request, fits func(*pastResponse) bool) *pastResponse {
	for i := len(o.history) - 1; i >= 0; i-- {
		if p := o.history[i]; p.url == string(q.Path) && fits(p) {
			p := *p
			p.at, p.age = time.Now(), 0
			p.forbidden = p.private || q.HasToken("Cache-Control", "no-store")
			o.history = append(o.history, &p)
			return &p
		}
	}
	return nil
}

func (o *modelOrigin) answer(q *message.Request) (*message.Response, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	if q.Method == "POST" {
		return respond(204, ""), nil
	}
	if tag := q.Get("If-None-Match"); tag != nil && o.r.IntN(2) == 0 {
		if p := o.revalidate(q, func(p *pastResponse) bool { return fmt.Sprintf("%q", p.body) == string(tag) }); p != nil {
			s := respond(304, "", p.fields...)
			s.Fields.Del("Content-Length")
			return s, nil
		}
	}
	if q.Method == "HEAD" {
		if p := o.revalidate(q, func(p *pastResponse) bool { return p.language == string(q.Get("Accept-Language")) }); p != nil {
			s := respond(200, p.body, p.fields...)
			s.Length, s.Body = message.None, new(message.MemoryBody)
			return s, nil
		}
		return respond(404, "", "Cache-Control", "no-store"), nil
	}
	p := o.next(q)
	o.history = append(o.history, p)
	fields := p.fields
	if p.age > 0 {
		fields = append(slices.Clone(fields), "Age", fmt.Sprint(int(p.age/time.Second)))
	}
	return respond(200, p.body, fields...), nil
}

// next makes the next version of the requested object. No two have the same length.
func (o *modelOrigin) next(q *message.Request) *pastResponse {
	r := o.r
	o.version++
	p := &pastResponse{url: string(q.Path), at: time.Now(), language: string(q.Get("Accept-Language"))}
	p.body = fmt.Sprint(p.url, " version ", o.version, strings.Repeat(".", 3*o.version))
	var control []string
	seconds := func(name string) {
		p.maxAge = time.Duration(r.IntN(30)) * time.Second
		control = append(control, fmt.Sprintf("%s=%d", name, p.maxAge/time.Second))
	}
	if r.IntN(4) > 0 {
		seconds("max-age")
	}
	open := false // for requests with Authorization
	for _, x := range []struct {
		one  string
		does func()
	}{{"no-store", func() { p.private = true }}, {"private", func() { p.private = true }}, {"no-cache", func() { p.always = true }},
		{"must-revalidate", func() { p.strict, open = true, true }}, {"public", func() { open = true }},
		{"s-maxage", func() { p.strict, open = true, true }}, {"stale-while-revalidate=10", func() { p.stale = 10 * time.Second }}} {
		switch {
		case r.IntN(8) > 0:
			continue
		case x.one == "s-maxage":
			seconds(x.one)
		default:
			control = append(control, x.one)
		}
		x.does()
	}
	if p.strict {
		p.stale = 0
	}
	p.private = p.private || q.Has("Authorization") && !open
	p.forbidden = p.private || q.HasToken("Cache-Control", "no-store")
	p.fields = []string{"Version", p.body, "Cache-Control", strings.Join(control, ", ")}
	if r.IntN(2) == 0 {
		p.fields = append(p.fields, "ETag", fmt.Sprintf("%q", p.body))
	}
	if r.IntN(3) == 0 {
		p.varies = true
		p.fields = append(p.fields, "Vary", "Accept-Language")
	}
	if r.IntN(4) == 0 {
		p.age = time.Duration(1+r.IntN(5)) * time.Second
	}
	return p
}

// TestAnswersAreThoseOfASimpleModel compares the cache with a slow and simple model, for
// random origins and requests: every answer from the store must be permitted by the model and
// have the right age, and responses of the origin must arrive.
func TestAnswersAreThoseOfASimpleModel(t *testing.T) {
	hits := map[string]int{}
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) { modelRun(t, seed, hits) })
	}
	for _, kind := range []string{"GET", "HEAD", "range", "authorized", "only-if-cached", "max-age", "min-fresh", "max-stale"} {
		if hits[kind] < 40 {
			t.Errorf("%s: only %d answers came from the cache, too few to test anything", kind, hits[kind])
		}
	}
}

// ask makes a random request.
func (w *modelRequest) ask(r *rand.Rand, url string) *message.Request {
	*w = modelRequest{method: "GET", language: []string{"en", "mn"}[r.IntN(2)]}
	fields := []string{"Accept-Language", w.language}
	if r.IntN(3) == 0 {
		w.control = []string{"no-cache", "no-store", "max-age", "min-fresh", "max-stale", "only-if-cached"}[r.IntN(6)]
		text := w.control
		if strings.HasPrefix(text, "m") {
			w.seconds = time.Duration(r.IntN(15)) * time.Second
			text = fmt.Sprintf("%s=%d", text, w.seconds/time.Second)
		}
		fields = append(fields, "Cache-Control", text)
	}
	if r.IntN(6) == 0 {
		fields = append(fields, "Authorization", "Basic eA==")
	}
	switch r.IntN(6) {
	case 0:
		w.method = "HEAD"
	case 1:
		w.first = r.IntN(6)
		w.last = w.first + 1 + r.IntN(6)
		fields = append(fields, "Range", fmt.Sprintf("bytes=%d-%d", w.first, w.last))
	}
	return request(w.method, "http://example.org"+url, fields...)
}

func modelRun(t *testing.T, seed uint64, hits map[string]int) {
	r := rand.New(rand.NewPCG(seed, 1))
	changed := map[string]time.Time{} // by an unsafe method
	o := &modelOrigin{r: r}
	c, stop := running(t)
	defer stop()
	front := c.InFrontOf(answerer(o.answer))
	for range 120 {
		synctest.Wait()
		url := fmt.Sprint("/", r.IntN(4))
		if r.IntN(12) == 0 {
			send(t, front, t.Context(), request("POST", "http://example.org"+url))
			changed[url] = time.Now()
			time.Sleep(time.Millisecond)
			continue
		}
		var w modelRequest
		q := w.ask(r, url)
		before, known, now := o.asked, len(o.history), time.Now()
		s, err := front.RoundTrip(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(s.Body)
		s.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		fromOrigin := o.asked > before
		ok := false
		switch {
		case s.Status == 504 && w.control == "only-if-cached", s.Status == 404 && w.method == "HEAD":
			ok = !fromOrigin == (s.Status == 504)
		case fromOrigin && len(o.history) > known: // the newest is the origin's response, sent or confirmed
			ok = o.history[len(o.history)-1].reads(&w, s, string(text)) && w.control != "only-if-cached"
		}
		for _, p := range o.history[:known] {
			ok = ok || p.reads(&w, s, string(text)) && p.allows(url, &w, now, changed[url]) &&
				string(s.Get("Age")) == fmt.Sprint(int(p.ageAt(now)/time.Second))
		}
		if !ok {
			t.Errorf("seed %d: %s %s (%s) at %v got %d, %s, %q, which the model does not permit", seed, w.method, url, q.Fields, now, s.Status, s.Fields, text)
		}
		if !fromOrigin && s.Status < 300 {
			w.count(hits, q)
		}
		time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
	}
}

// count counts an answer from the cache by the kind of request.
func (w *modelRequest) count(hits map[string]int, q *message.Request) {
	hits[w.method]++
	hits[w.control]++
	if w.last > 0 {
		hits["range"]++
	}
	if q.Has("Authorization") {
		hits["authorized"]++
	}
}
