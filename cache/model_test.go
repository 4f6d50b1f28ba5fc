package cache

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/message"
)

// A past is one response that the origin gave, as a model remembers it: all of
// them, for ever, so that each answer can be held against all that was said.
type past struct {
	url, body, language string
	at                  time.Time // when it was sent, or confirmed by a 304
	maxAge, stale       time.Duration
	forbidden           bool // no-store or private
	always              bool // no-cache
	varies              bool
}

// allows says whether RFC 9111 lets an answer with this body be used now for a
// request that nobody asked the origin about.
func (p *past) allows(url, body, language string, now, changed time.Time) bool {
	return p.url == url && p.body == body && !p.forbidden && !p.always && (!p.varies || p.language == language) &&
		p.at.After(changed) && now.Sub(p.at) < p.maxAge+p.stale
}

// The cache against a model that is slow and simple, over random origins and
// requests: every answer that did not come from the origin must be one that the
// model allows, and what the origin sent must arrive.
func TestAnswersAreThoseOfASimpleModel(t *testing.T) {
	hits := 0
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { hits += modelRun(t, seed) })
	}
	if hits < 500 {
		t.Errorf("only %d answers came from the cache: the test looks at nothing", hits)
	}
}

func modelRun(t *testing.T, seed uint64) (hits int) {
	r := rand.New(rand.NewPCG(seed, 1))
	var history []*past
	changed := map[string]time.Time{} // by an unsafe method
	asked, version := 0, 0
	var mu sync.Mutex // a refresh in the background asks beside the client
	origin := answerer(func(q *message.Request) (*message.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		url := string(q.Path)
		if q.Method == "POST" {
			return respond(204, ""), nil
		}
		if tag := q.Get("If-None-Match"); tag != nil && r.IntN(2) == 0 {
			for i := len(history) - 1; i >= 0; i-- {
				if p := history[i]; p.url == url && fmt.Sprintf("%q", p.body) == string(tag) {
					again := *p
					again.at = time.Now()
					history = append(history, &again)
					s := respond(304, "", "ETag", string(tag))
					s.Fields.Del("Content-Length")
					return s, nil
				}
			}
		}
		version++
		p := &past{url: url, body: fmt.Sprint(url, " version ", version), at: time.Now(), language: string(q.Get("Accept-Language"))}
		control := []string{}
		if r.IntN(4) > 0 {
			p.maxAge = time.Duration(r.IntN(30)) * time.Second
			control = append(control, fmt.Sprintf("max-age=%d", p.maxAge/time.Second))
		}
		for _, x := range []struct {
			one  string
			does func()
		}{{"no-store", func() { p.forbidden = true }}, {"private", func() { p.forbidden = true }}, {"no-cache", func() { p.always = true }},
			{"must-revalidate", func() { p.stale = -1 }}, {"stale-while-revalidate=10", func() {
				if p.stale == 0 {
					p.stale = 10 * time.Second
				}
			}}} {
			if r.IntN(8) == 0 {
				x.does()
				control = append(control, x.one)
			}
		}
		p.stale = max(p.stale, 0)
		fields := []string{"Cache-Control", strings.Join(control, ", ")}
		if r.IntN(2) == 0 {
			fields = append(fields, "ETag", fmt.Sprintf("%q", p.body))
		}
		if r.IntN(3) == 0 {
			p.varies = true
			fields = append(fields, "Vary", "Accept-Language")
		}
		history = append(history, p)
		return respond(200, p.body, fields...), nil
	})
	c, stop := running(t)
	defer stop()
	front := c.Over(origin)
	for range 120 {
		synctest.Wait()
		url := fmt.Sprint("/", r.IntN(4))
		if r.IntN(12) == 0 {
			send(t, front, t.Context(), request("POST", "http://example.org"+url))
			changed[url] = time.Now()
			time.Sleep(time.Millisecond)
			continue
		}
		language := []string{"en", "mn"}[r.IntN(2)]
		before, now := asked, time.Now()
		known := len(history)
		s, err := front.RoundTrip(t.Context(), request("GET", "http://example.org"+url, "Accept-Language", language))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(s.Body)
		s.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		fromOrigin := asked > before
		ok := false
		if fromOrigin && len(history) > known { // the newest is what the origin said, sent or confirmed
			ok = history[len(history)-1].body == string(text)
		}
		for _, p := range history[:known] {
			ok = ok || p.allows(url, string(text), language, now, changed[url])
		}
		if !ok {
			t.Errorf("seed %d: %s in %s at %v got %q, which nothing allows", seed, url, language, now, text)
		}
		if !fromOrigin {
			hits++
		}
		mu.Unlock()
		time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
	}
	return hits
}
