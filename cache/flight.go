package cache

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"shuultuur/cache/protocol"
	"shuultuur/filter"
	"shuultuur/lib/message"
)

// flights are the fetches that other requests may wait for.
type flights struct {
	mu    sync.Mutex
	under map[Key]*flight
	// alone are names whose last response could not be shared: requests for them do not wait.
	alone [4096]uint32
}

// A flight is one fetch.
type flight struct {
	landed chan struct{} // closed when the head of the response is known
	since  uint64        // the latest change when it began
	o      *object       // the growing object, nil if nothing is shared
	g      *growingBody
	fields message.Fields // fields of the request by which o varies
}

// growFrom sets the source of o.
func (f *flight) growFrom(o *object, g *growingBody, fields message.Fields) {
	f.o, f.g, f.fields = o, g, fields
}

// shares reports whether others may wait for this request's response.
func (a *exchange) shares() bool {
	q := a.q
	return q.Method == "GET" && !a.asked.NoStore && !a.asked.NoCache && !q.Has("Range") && !q.Has("Authorization") &&
		!q.Has("If-None-Match") && !q.Has("If-Modified-Since")
}

// fetchOnce makes one fetch for concurrent requests.
func (a *exchange) fetchOnce(o *object) (*message.Response, error) {
	fl, k := &a.c.fetching, hash(a.name)
	at, mine := &fl.alone[k.Hi%uint64(len(fl.alone))], uint32(k.Lo)|1
	fl.mu.Lock()
	f := fl.under[k]
	switch {
	case f == nil || a.c.changes.since(a.name, f.since): // a request after a change must see it
		f = &flight{landed: make(chan struct{}), since: a.c.changes.now()}
		fl.under[k] = f
		fl.mu.Unlock()
		defer func() {
			fl.mu.Lock()
			if fl.under[k] == f {
				delete(fl.under, k)
			}
			if f.o == nil && f.g == nil {
				*at = mine
			} else if *at == mine {
				*at = 0
			}
			fl.mu.Unlock()
			close(f.landed)
		}()
		return a.fetch(o, f)
	case *at == mine:
		fl.mu.Unlock()
		return a.fetch(o, nil)
	}
	fl.mu.Unlock()
	if !a.await(f) {
		return a.fetch(o, nil)
	}
	if s := a.follow(f); s != nil {
		return s, nil
	}
	again, _ := a.c.find(a.name, a.q)
	if s, err := a.fromStore(again); s != nil || err != nil {
		return s, err
	}
	return a.fetch(again, nil)
}

// await waits for another request's fetch, for a limited time.
func (a *exchange) await(f *flight) bool {
	timer := time.NewTimer(a.c.wait)
	defer timer.Stop()
	select {
	case <-f.landed:
		return true
	case <-timer.C:
		a.c.count(tiredOfWaiting)
	case <-a.ctx.Done():
	}
	return false
}

// follow reads along with another request's fetch, if its response matches.
func (a *exchange) follow(f *flight) *message.Response {
	o := f.o
	if o == nil || f.g == nil || o.facts.Judge(&a.asked, time.Now()) != protocol.Fresh || o.res.Status == 206 {
		return nil
	}
	if names := protocol.Vary(o.res.Fields); len(names) > 0 &&
		string(protocol.Variant(nil, names, f.fields, "")) != string(protocol.Variant(nil, names, a.q.Fields, "")) {
		return nil
	}
	r := f.g.reader()
	if r == nil {
		return nil
	}
	s := &message.Response{Status: o.res.Status, Reason: o.res.Reason, Proto: o.res.Proto, Length: f.g.total, Body: r}
	age := strconv.AppendInt(nil, int64(max(0, o.facts.AgeAt(time.Now()))/time.Second), 10)
	s.Fields = append(slices.Clip(o.res.Fields), message.Field{Name: ageName, Value: age})
	annotate(s, noteShared)
	a.note("shared", nil)
	return s
}

// refresh validates an object in the background, unless that is already in progress.
func (c *Cache) refresh(r *RoundTripper, q *message.Request, t *filter.Transaction, o *object) {
	own := &message.Request{Method: "GET", Form: q.Form, Scheme: strings.Clone(q.Scheme), Host: slices.Clone(q.Host), Port: q.Port,
		Path: slices.Clone(q.Path), Proto: 11, Dial: q.Dial}
	for _, f := range q.Fields {
		if !protocol.Conditional(f.Name) && !message.EqualName(f.Name, "range") {
			own.Fields = append(own.Fields, message.Field{Name: slices.Clone(f.Name), Value: slices.Clone(f.Value)})
		}
	}
	name := []byte(c.appendName(nil, q, t))
	k := hash(name)
	var about *filter.Transaction // for the rules; t belongs to the client
	if t != nil {
		about = &filter.Transaction{Findings: slices.Clone(t.Findings)}
	}
	fl := &c.fetching
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.under[k] != nil {
		return
	}
	f := &flight{landed: make(chan struct{}), since: c.changes.now()}
	end := func() {
		fl.mu.Lock()
		if fl.under[k] == f {
			delete(fl.under, k)
		}
		fl.mu.Unlock()
		close(f.landed)
	}
	select {
	case c.refreshes <- func(ctx context.Context) {
		defer end()
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		a := &exchange{RoundTripper: r, ctx: ctx, q: own, now: time.Now(), name: name, t: about, personal: own.Scheme == "https"}
		a.asked = protocol.Control(nil)
		s, err := a.fetch(o, nil)
		if err != nil {
			return
		}
		_, _ = s.Body.Copy(discard{}, 1<<62)
		s.Body.Close()
	}:
		fl.under[k] = f
	default:
		c.count(refreshesDropped)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
