package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"shuultuur/cache/protocol"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/platform"
)

// A RoundTripper answers requests from a cache if possible, and from an origin otherwise.
type RoundTripper struct {
	c      *Cache
	origin Origin
}

// InFrontOf returns a RoundTripper with the cache in front of origin.
func (c *Cache) InFrontOf(origin Origin) *RoundTripper { return &RoundTripper{c, origin} }

// An exchange is one request on its way through the cache, with its response.
type exchange struct {
	*RoundTripper
	ctx      context.Context
	q        *message.Request
	t        *filter.Transaction // nil if unknown
	asked    protocol.Directives
	name     []byte
	mark     *mark // the mark under the name, nil if there is none
	personal bool
	peer     bool // it comes from another node, which has applied its own policy
	now      time.Time
	since    uint64    // the latest change when the request was sent to the origin
	room     [256]byte // buffer for name
	vec      [4][]byte // buffer for available pieces of a body
}

// RoundTrip answers q. Cache-Status in the response says where it comes from (RFC 9211). The
// Body of a stored response is a [filter.Stored].
func (r *RoundTripper) RoundTrip(ctx context.Context, q *message.Request) (*message.Response, error) {
	return r.answer(ctx, q, filter.Of(ctx), false)
}

func (r *RoundTripper) answer(ctx context.Context, q *message.Request, t *filter.Transaction, fromPeer bool) (*message.Response, error) {
	a := &exchange{RoundTripper: r, ctx: ctx, q: q, t: t, now: time.Now(), personal: q.Scheme == "https", peer: fromPeer}
	c := r.c
	switch {
	case q.Upgrade != nil, q.Host == nil:
		return r.origin.RoundTrip(ctx, q)
	case q.Method == "PURGE" && len(c.purgers) > 0:
		return a.purge(), nil
	case q.Method != "GET" && q.Method != "HEAD":
		return a.change()
	case q.Length != message.None, q.Has("If-Match"), q.Has("If-Unmodified-Since"):
		return a.pass(noteBypass)
	case !a.mayStore(), c.neverStores(q, a.t):
		return a.pass(noteBypass)
	}
	a.asked = protocol.Control(q.Fields)
	if !a.asked.Given && q.HasToken("Pragma", "no-cache") {
		a.asked.NoCache = true
	}
	a.name = c.appendName(a.room[:0], q, a.t)
	c.editions.note(a.name)
	if s, err := a.fromPeer(); s != nil || err != nil {
		return s, err
	}
	o, m := c.find(a.name, q)
	a.mark = m
	if s, err := a.fromStore(o); s != nil || err != nil {
		return s, err
	}
	if a.asked.OnlyIfCached {
		return onlyStored(a.now), nil
	}
	if q.Method == "HEAD" {
		return a.head(o, m)
	}
	if a.shares() {
		return a.fetchOnce(o)
	}
	return a.fetch(o, nil)
}

// mayStore reports whether the policy permits storing the response.
func (a *exchange) mayStore() bool {
	return !a.personal || a.peer || a.t != nil && a.c.stores(a.t)
}

// fromStore answers with o if the rules permit that without asking the origin.
func (a *exchange) fromStore(o *object) (*message.Response, error) {
	if o == nil {
		return nil, nil
	}
	c := a.c
	use := o.facts.Judge(&a.asked, a.now)
	switch {
	case use == protocol.Fresh:
	case use == protocol.Refresh:
		c.refresh(a.RoundTripper, a.q, a.t, o)
	case a.asked.OnlyIfCached && c.uplink.failed.Load() >= downAfter && o.facts.MayServeStale(&a.asked, a.now, c.offline):
	case c.offline > 0 && o.facts.MayServeStale(&a.asked, a.now, c.offline) && c.uplink.isDown(a.now):
		if s, ok := o.answer(a.q, a.now, noteOffline); ok {
			a.note("offline", o)
			return &s.Response, nil
		}
	default:
		return nil, nil
	}
	s, ok := o.answer(a.q, a.now, a.hitNote(o))
	if !ok {
		return nil, nil
	}
	if use == protocol.Fresh && o.facts.FreshFor(a.now) > 0 {
		a.note("hit", o)
	} else {
		a.note("stale", o)
	}
	return &s.Response, nil
}

// hitNote returns Cache-Status for a stored response.
func (a *exchange) hitNote(o *object) []byte {
	b := make([]byte, 0, 40)
	b = append(b, "shuultuur; hit; ttl="...)
	return strconv.AppendInt(b, int64(o.facts.FreshFor(a.now)/time.Second), 10)
}

// note counts the response and records its source.
func (a *exchange) note(what string, o *object) {
	if a.t != nil {
		a.t.Cache = what
	}
	length := int64(0)
	if o != nil && a.q.Method == "GET" {
		length = o.length
	}
	a.c.countResponse(what, a.t, length)
}

// Values of Cache-Status.
var (
	noteBypass  = []byte("shuultuur; fwd=bypass")
	noteMethod  = []byte("shuultuur; fwd=method")
	noteMiss    = []byte("shuultuur; fwd=uri-miss")
	noteKept    = []byte("shuultuur; fwd=uri-miss; stored")
	noteVary    = []byte("shuultuur; fwd=vary-miss")
	noteAsked   = []byte("shuultuur; fwd=request")
	notePart    = []byte("shuultuur; fwd=partial")
	noteStale   = []byte("shuultuur; fwd=stale")
	noteValid   = []byte("shuultuur; fwd=stale; fwd-status=304")
	noteSame    = []byte("shuultuur; fwd=request; fwd-status=304")
	noteShared  = []byte("shuultuur; fwd=uri-miss; collapsed")
	noteError   = []byte(`shuultuur; fwd=stale; detail="stale: the origin cannot be reached"`)
	noteOffline = []byte(`shuultuur; hit; detail="offline: the uplink is down"`)
	notePeer    = []byte("shuultuur; fwd=uri-miss; detail=peer")
	notePurged  = []byte("shuultuur; detail=purged")
	noteAbsent  = []byte(`shuultuur; detail="nothing to purge"`)
	noteNoPurge = []byte(`shuultuur; detail="purge refused: cache.purge"`)
	noteNothing = []byte(`shuultuur; detail="only-if-cached"`)
)

var reasonOK = []byte("OK")

// storedToo adds to Cache-Status that the response is stored.
func storedToo(note []byte) []byte {
	if string(note) == string(noteMiss) {
		return noteKept
	}
	return append(slices.Clip(note), "; stored"...)
}

// cacheStatus returns Cache-Status for a request that goes to the origin although o, the object that
// fits it, is stored; m leads to it (RFC 9211 section 2.2).
func (a *exchange) cacheStatus(o *object, m *mark) []byte {
	switch {
	case o == nil && m != nil:
		return noteVary
	case o == nil:
		return noteMiss
	case !o.isComplete():
		return notePart
	case o.facts.FreshFor(a.now) > 0 && !o.facts.Control.NoCache:
		return noteAsked
	}
	return noteStale
}

// annotate adds Cache-Status to a response from the origin.
func annotate(s *message.Response, note []byte) {
	s.Fields = append(s.Fields, message.Field{Name: statusName, Value: note})
}

// pass forwards the request as if there were no cache.
func (a *exchange) pass(note []byte) (*message.Response, error) {
	s, err := a.origin.RoundTrip(a.ctx, a.q)
	if err == nil {
		annotate(s, note)
	}
	a.c.count(bypassed)
	return s, err
}

// onlyStored returns the response to only-if-cached when nothing is stored (RFC 9111 section
// 5.2.1.7).
func onlyStored(now time.Time) *message.Response {
	s := &message.Response{Status: 504, Reason: []byte("Gateway Timeout"), Proto: 11, Body: new(message.MemoryBody)}
	s.Fields.Add("Date", now.UTC().Format(http.TimeFormat))
	s.Fields.Add("Cache-Control", "no-store")
	annotate(s, noteNothing)
	return s
}

// change forwards a request that may change something, and removes the objects that it
// invalidates (RFC 9111 section 4.4).
func (a *exchange) change() (*message.Response, error) {
	q, c := a.q, a.c
	// Method and fields belong to the connection, and are invalid after the response.
	sent, since := time.Now(), c.changes.now()
	s, err := a.origin.RoundTrip(a.ctx, q)
	if err != nil {
		if !message.Safe(q.Method) && arrived(err) {
			c.removeAll(a.ctx, a.mayStore(), [][]byte{c.appendName(a.room[:0], q, a.t)})
		}
		return nil, err
	}
	defer annotate(s, noteMethod)
	c.count(bypassed)
	if message.Safe(q.Method) || s.Status < 200 || s.Status >= 400 {
		return s, nil
	}
	a.name = c.appendName(a.room[:0], q, a.t)
	names := [][]byte{a.name}
	for _, v := range protocol.Invalidates(s) {
		if name, ok := c.sameOrigin(a.name, v); ok {
			names = append(names, name)
		}
	}
	overtaken := c.changes.since(a.name, since)
	c.removeAll(a.ctx, a.mayStore(), names)
	if a.since = c.changes.now(); overtaken || q.Method != "POST" || s.Status != 200 || a.personal {
		return s, nil
	}
	// The response to a POST may be declared to be that of a GET (RFC 9110 section 9.3.3).
	if name, ok := c.sameOrigin(a.name, s.Get("Content-Location")); ok && string(name) == string(a.name) {
		a.asked = protocol.Control(q.Fields)
		return a.store(s, sent, nil, nil, noteMethod), nil
	}
	return s, nil
}

// sameOrigin returns the name for a reference in the response to the request called name, if
// it has the same origin.
func (c *Cache) sameOrigin(name, ref []byte) ([]byte, bool) {
	u, rest := name, []byte(nil)
	if end := bytes.IndexByte(name, '\n'); end >= 0 {
		u, rest = name[:end], name[end:]
	}
	scheme, after, _ := bytes.Cut(u, []byte("://"))
	slash := bytes.IndexByte(after, '/')
	ref, _, _ = bytes.Cut(ref, []byte("#"))
	if slash < 0 || len(ref) == 0 {
		return nil, false
	}
	host, path := after[:slash], after[slash:]
	if i := bytes.IndexAny(ref, ":/?"); i >= 0 && ref[i] == ':' {
		if !bytes.EqualFold(ref[:i], scheme) {
			return nil, false
		}
		ref = ref[i+1:]
	}
	if authority, ok := bytes.CutPrefix(ref, []byte("//")); ok {
		end := bytes.IndexAny(authority, "/?")
		if end < 0 {
			end = len(authority)
		}
		if !bytes.EqualFold(usualHost(scheme, authority[:end]), host) {
			return nil, false
		}
		if ref = authority[end:]; len(ref) == 0 || ref[0] == '?' {
			ref = append([]byte("/"), ref...)
		}
	}
	if len(ref) == 0 {
		return nil, false
	}
	if path, _, _ = bytes.Cut(path, []byte("?")); ref[0] == '?' {
		ref = append(slices.Clone(path), ref...)
	} else if ref[0] != '/' {
		ref = append(slices.Clone(path[:bytes.LastIndexByte(path, '/')+1]), ref...)
	}
	out := append(slices.Clone(u[:len(u)-len(after)]), host...)
	return append(appendPath(out, withoutDots(ref), c.ignored), rest...), true
}

// usualHost returns an authority as in names: without the default port of the scheme, and
// without the final dot.
func usualHost(scheme, authority []byte) []byte {
	port := ":80"
	if string(scheme) == "https" {
		port = ":443"
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(authority, []byte(port)), []byte("."))
}

// withoutDots returns a path and query with "." and ".." resolved (RFC 3986 section 5.2.4).
func withoutDots(p []byte) []byte {
	path, query := p, []byte(nil)
	if i := bytes.IndexByte(p, '?'); i >= 0 {
		path, query = p[:i], p[i:]
	}
	if !bytes.Contains(path, []byte("/.")) {
		return p
	}
	segments := bytes.Split(path[1:], []byte("/"))
	var kept [][]byte
	for i, s := range segments {
		last := i == len(segments)-1
		switch string(s) {
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		case ".":
		default:
			kept = append(kept, s)
			continue
		}
		if last {
			kept = append(kept, nil)
		}
	}
	out := append([]byte("/"), bytes.Join(kept, []byte("/"))...)
	return append(out, query...)
}

// head forwards a HEAD, and updates stored objects (RFC 9111 section 4.3.5).
func (a *exchange) head(o *object, m *mark) (*message.Response, error) {
	sent := time.Now()
	a.since = a.c.changes.now()
	s, err := a.origin.RoundTrip(a.ctx, a.q)
	if err != nil {
		return a.answerStale(o, err)
	}
	if r := a.better(o, s); r != nil {
		return r, nil
	}
	a.note("miss", nil)
	if o != nil {
		name := []byte(o.name)
		switch {
		case s.Status == 304: // it concerns the client's own copy
		case protocol.SameBody(&o.res, o.size, s):
			a.c.renew(o, s, sent, time.Now(), a)
		case s.Status < 500:
			a.c.remove(name)
		}
	}
	annotate(s, a.cacheStatus(o, m))
	return s, nil
}

// renew replaces o by an object with the fields of a 304, or of a response to HEAD, in
// addition to its own.
func (c *Cache) renew(o *object, s *message.Response, sent, received time.Time, a *exchange) *object {
	n := &object{name: o.name, url: o.url, host: o.host, body: o.body, length: o.length, offset: o.offset, size: o.size, labels: o.labels, verdicts: o.verdicts, parent: o.parent}
	n.res = message.Response{Status: o.res.Status, Reason: o.res.Reason, Proto: o.res.Proto, Length: o.res.Length}
	n.res.Fields = protocol.Freshen(o.res.Fields, s)
	if !s.Has("Date") {
		n.res.Fields.Set("Date", received.UTC().Format(http.TimeFormat))
	}
	if !sameContent(o.res.Fields, n.res.Fields) {
		n.verdicts = &verdicts{}
	}
	n.facts = protocol.Describe(&n.res, sent, received)
	n.facts.Age = protocol.Describe(s, sent, received).Age // no Age is stored
	rule := c.rule(a.q, a.t, &n.res, n.length)
	n.bound(rule)
	if o.record != nil { // its body is not in separate memory
		n.body = [][]byte{bytes.Join(o.body, nil)}
	}
	switch why := a.refuses(&n.res, &n.facts, rule, n.length); {
	case why != "" && ofOne(why):
		// Nothing of a response for one client is stored: o stays unchanged.
	case why != "":
		// The origin has withdrawn its permission, also for the stored object.
		c.remove([]byte(o.name))
	case !slices.Equal(protocol.Vary(n.res.Fields), protocol.Vary(o.res.Fields)):
		c.remove([]byte(o.name))
		c.put(a.name, a.q.Fields, n, a.since)
	case !c.changes.since([]byte(o.name), a.since):
		c.replaceFields(o, n)
		if c.changes.since([]byte(o.name), a.since) { // meanwhile
			c.remove([]byte(o.name))
		}
	}
	return n
}

// sameContent reports whether two responses with the same body have the same fields, but
// for those of time and validation: the other fields also determine the meaning of a
// body.
func sameContent(a, b message.Fields) bool {
	other := func(list message.Fields) message.Fields {
		list = slices.DeleteFunc(slices.Clone(list), func(f message.Field) bool {
			return contains([]string{"date", "age", "expires", "cache-control", "etag", "last-modified"}, string(f.Name))
		})
		slices.SortStableFunc(list, func(a, b message.Field) int { return bytes.Compare(bytes.ToLower(a.Name), bytes.ToLower(b.Name)) })
		return list
	}
	return slices.EqualFunc(other(a), other(b), func(a, b message.Field) bool {
		return bytes.EqualFold(a.Name, b.Name) && bytes.Equal(a.Value, b.Value)
	})
}

// ofOne reports whether why, the obstacle to storing, concerns the client rather than the
// object.
func ofOne(why string) bool {
	switch why {
	case "set-cookie", "cookie", "authorization", "request-no-store", "rule":
		return true
	}
	return false
}

// bound limits the lifetime of an object as in a rule, which may be nil.
func (o *object) bound(r *Rule) {
	if r != nil {
		o.facts.Bound(r.Min.Or(0), r.Max.Or(0))
	}
}

// fetch asks the origin, with conditions if o can be validated. f is the flight of the
// request, nil if others do not share it.
func (a *exchange) fetch(o *object, f *flight) (*message.Response, error) {
	q := a.q
	validating := o != nil && o.isComplete() && o.verifiable()
	completing := o != nil && !o.isComplete() && o.offset == 0 && o.facts.FreshFor(a.now) > 0 && !q.Has("Range") && !a.asked.NoCache && !a.asked.NoStore
	saved := q.Fields
	switch {
	case validating:
		q.Fields = protocol.Conditions(make(message.Fields, 0, len(saved)+2), saved, &o.res)
	case completing:
		q.Fields = o.restOf(saved)
	}
	sent := time.Now()
	a.since = a.c.changes.now()
	s, err := a.origin.RoundTrip(a.ctx, q)
	q.Fields = saved
	if a.c.offline > 0 {
		a.c.uplink.recordFetch(err, a.now)
	}
	received := time.Now()
	if err != nil {
		return a.answerStale(o, err)
	}
	if r := a.better(o, s); r != nil {
		return r, nil
	}
	switch {
	case validating && s.Status == 304:
		if r, err := a.answerValidated(o, s, sent, received); r != nil || err != nil {
			return r, err
		}
		a.c.remove([]byte(o.name))
		return a.fetch(nil, f)
	case completing && s.Status == 206:
		if r := a.complete(o, s, sent, received); r != nil {
			return r, nil
		}
		s.Body.Close()
		return a.fetch(nil, f)
	}
	a.note("miss", nil)
	return a.store(s, sent, o, f, a.cacheStatus(o, a.mark)), nil
}

// better answers with o instead of s if s is a failure of the origin and o may then be used
// stale. Otherwise it returns nil.
func (a *exchange) better(o *object, s *message.Response) *message.Response {
	if o == nil || !protocol.Failed(s.Status) || !o.facts.MayServeStale(&a.asked, a.now, 0) {
		return nil
	}
	r, ok := o.answer(a.q, a.now, noteError)
	if !ok {
		return nil
	}
	s.Body.Close()
	a.note("stale", o)
	return &r.Response
}

// verifiable reports whether the object can be validated.
func (o *object) verifiable() bool {
	return o.facts.Tag != nil || o.res.Has("Last-Modified")
}

// answerValidated answers after a 304. It returns nil if that concerns another object than the
// stored one.
func (a *exchange) answerValidated(o *object, s *message.Response, sent, received time.Time) (*message.Response, error) {
	if !protocol.Validated(&o.res, s) {
		s.Body.Close()
		return nil, nil
	}
	note := noteValid
	if o.facts.FreshFor(a.now) > 0 && !o.facts.Control.NoCache {
		note = noteSame
	}
	n := a.c.renew(o, s, sent, received, a)
	s.Body.Close()
	a.now = received
	r, ok := n.answer(a.q, received, note)
	if !ok {
		return nil, nil
	}
	a.note("revalidated", n)
	return &r.Response, nil
}

// answerStale answers a request whose fetch has failed: with the stored object if it may be used
// stale, or with the failure.
func (a *exchange) answerStale(o *object, err error) (*message.Response, error) {
	if o == nil || !unreachable(err) {
		return nil, err
	}
	if !o.facts.MayServeStale(&a.asked, a.now, a.c.offline) {
		return nil, err
	}
	note := noteError
	if a.c.offline > 0 && a.c.uplink.failed.Load() >= downAfter {
		note = noteOffline
	}
	s, ok := o.answer(a.q, a.now, note)
	if !ok {
		return nil, err
	}
	a.note("stale", o)
	return &s.Response, nil
}

// unreachable reports whether err means that the origin was unreachable or broke off, rather
// than that the request was refused.
func unreachable(err error) bool {
	var e net.Error
	return errors.As(err, &e) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, platform.ECONNREFUSED) || errors.Is(err, platform.ECONNRESET) || errors.Is(err, platform.ENETUNREACH) ||
		errors.Is(err, platform.EHOSTUNREACH) || errors.Is(err, platform.EPIPE)
}

// arrived reports whether a request that failed with err may have reached the origin, which
// may have executed it.
func arrived(err error) bool {
	var op *net.OpError
	var name *net.DNSError
	if errors.As(err, &name) || errors.As(err, &op) && op.Op == "dial" {
		return false
	}
	return unreachable(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// restOf returns fields that request the rest after the object.
func (o *object) restOf(q message.Fields) message.Fields {
	f := append(make(message.Fields, 0, len(q)+2), q...)
	f.Add("Range", "bytes="+strconv.FormatInt(o.length, 10)+"-")
	if protocol.IsStrong(o.facts.Tag) {
		f.Add("If-Range", string(o.facts.Tag))
	}
	return f
}

// complete answers with a stored part and the rest after it, nil if they cannot be combined.
func (a *exchange) complete(o *object, s *message.Response, sent, received time.Time) *message.Response {
	first, last, size, ok := protocol.ContentRange(s.Get("Content-Range"))
	if !ok || first != o.length || size < 0 || last != size-1 || size > a.c.object || !a.c.budget.take(size) {
		return nil
	}
	defer a.c.budget.give(size)
	rest, err := io.ReadAll(io.LimitReader(s.Body, last-first+1))
	if err != nil || int64(len(rest)) != last-first+1 {
		return nil
	}
	part := a.describe(s, sent, received)
	a.storeHead(part, s)
	part.offset, part.size, part.body, part.length = first, size, [][]byte{rest}, int64(len(rest))
	n := a.c.combine(o, part)
	if n == nil {
		return nil
	}
	s.Body.Close()
	rule := a.c.rule(a.q, a.t, &n.res, size)
	n.bound(rule)
	note := notePart
	if a.refuses(s, &part.facts, rule, size) == "" {
		note = storedToo(note)
		a.c.put(a.name, a.q.Fields, n, a.since)
	} else {
		a.c.remove([]byte(o.name))
	}
	r, ok := n.answer(a.q, a.now, note)
	if !ok {
		return nil
	}
	a.note("miss", nil)
	return &r.Response
}

// combine joins the stored part o and a newer one (RFC 9111 section 3.4). It returns nil if
// they are not adjacent, or if no strong tag proves that they belong to the same
// representation. Parts that together are the whole become a whole object.
func (c *Cache) combine(o, part *object) *object {
	first, end := min(o.offset, part.offset), max(o.offset+o.length, part.offset+part.length)
	if !sameTag(&o.facts, &part.facts) || o.size != part.size || end-first > c.object ||
		o.offset > part.offset+part.length || part.offset > o.offset+o.length || o.marks != nil {
		return nil
	}
	n := &object{url: part.url, host: part.host, labels: part.labels, verdicts: &verdicts{}, offset: first, length: end - first, size: part.size}
	body := make([]byte, end-first)
	for _, p := range [...]*object{o, part} {
		at := p.offset - first
		for _, b := range p.body {
			at += int64(copy(body[at:], b))
		}
	}
	n.body = [][]byte{body}
	n.res = message.Response{Status: 206, Reason: part.res.Reason, Proto: part.res.Proto, Length: n.length}
	n.res.Fields = protocol.Freshen(o.res.Fields, &part.res)
	n.res.Fields.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, end-1, n.size))
	n.res.Fields.Set("Content-Length", strconv.FormatInt(n.length, 10))
	n.completed()
	n.facts = protocol.Describe(&n.res, part.facts.Received, part.facts.Received)
	n.facts.Age = part.facts.Age
	return n
}

// completed makes a response of the whole if its parts are complete (RFC 9111 section 3.4).
func (o *object) completed() {
	if o.res.Status == 206 && o.isComplete() {
		o.res.Status, o.res.Reason, o.facts.Status = 200, reasonOK, 200
		o.res.Fields.Del("Content-Range")
	}
}

// store stores the response, if permitted, while it goes to the client. note is Cache-Status
// if it is not stored.
func (a *exchange) store(s *message.Response, sent time.Time, old *object, f *flight, note []byte) *message.Response {
	c := a.c
	o := a.describe(s, sent, time.Now())
	length := s.Body.Remaining()
	rule := c.rule(a.q, a.t, s, length)
	why := a.refuses(s, &o.facts, rule, length)
	if why == "" && s.Status == 206 && !o.partOf(s, length) {
		why = "part"
	}
	if why != "" {
		// It was replaced by something that is not stored, unless that says nothing about the
		// whole.
		if old != nil && s.Status < 500 && why != "no-store" && why != "request-no-store" && why != "status" && why != "part" {
			c.remove([]byte(old.name))
		}
		annotate(s, note)
		return s
	}
	a.storeHead(o, s)
	o.bound(rule)
	annotate(s, storedToo(note))
	return a.grow(s, o, rule, f)
}

// refuses returns why a response is not stored, "" if it is. length is that of its body,
// negative if unknown.
func (a *exchange) refuses(s *message.Response, facts *protocol.Facts, rule *Rule, length int64) (why string) {
	if rule != nil && rule.Store != nil && !*rule.Store || length > a.c.object || s.Status == 101 {
		return "rule"
	}
	why = protocol.Storable(a.q, s, facts, &a.asked, a.personal)
	if rule != nil && rule.Min > 0 && (why == "stale" || why == "not-cacheable") {
		return ""
	}
	return why
}

// describe makes an object for a response, without fields and body.
func (a *exchange) describe(s *message.Response, sent, received time.Time) *object {
	o := &object{verdicts: &verdicts{}, size: -1, facts: protocol.Describe(s, sent, received)}
	o.res = message.Response{Status: s.Status, Proto: s.Proto}
	return o
}

// storeHead copies the stored fields of a response's head to the object.
func (a *exchange) storeHead(o *object, s *message.Response) {
	var room [256]byte
	o.url = string(appendURL(room[:0], a.q, nil))
	o.host = hostOf(o.url)
	o.labels = labels{tags: tagsOf(s.Fields), categories: categoriesOf(a.t)}
	if o.res.Reason = reasonOK; string(s.Reason) != string(reasonOK) {
		o.res.Reason = bytes.Clone(s.Reason)
	}
	o.res.Fields = protocol.AppendStored(make(message.Fields, 0, len(s.Fields)+1), s, o.facts.Control.Fields)
	if !s.Has("Date") {
		o.res.Fields.Add("Date", o.facts.Received.UTC().Format(http.TimeFormat))
	}
	if o.facts.Tag = o.res.Get("ETag"); o.facts.Control.Fields != nil { // fields that are not kept have no effect
		age := o.facts.Age
		o.facts = protocol.Describe(&o.res, o.facts.Received, o.facts.Received)
		o.facts.Age = age
	}
}

// grow fills o with the body of s, now if it is available, or as it arrives.
func (a *exchange) grow(s *message.Response, o *object, rule *Rule, f *flight) *message.Response {
	c, name, since := a.c, a.name, a.since
	var fields message.Fields
	if names := protocol.Vary(o.res.Fields); len(names) > 0 {
		fields = cloneFields(a.q.Fields, names)
	}
	done := func(b *blocks) {
		if b == nil {
			return
		}
		o.body, o.length = b.list, 0
		if b.hold() {
			o.blocks = b
		}
		for _, p := range b.list {
			o.length += int64(len(p))
		}
		o.res.Length = o.length
		if o.size < 0 {
			o.size = o.length
		}
		all := o
		o.completed()
		if o.res.Status == 206 {
			if was, _ := c.find(name, &message.Request{Fields: fields}); was != nil {
				if both := c.combine(was, o); both != nil {
					both.bound(rule)
					all = both
				}
			}
		}
		c.put(name, fields, all, since)
	}
	parts, n := s.Body.Ready(a.vec[:0]), 0
	for _, p := range parts {
		n += len(p)
	}
	if s.Body.AtEnd() || s.Body.Remaining() == int64(n) {
		body := slices.Grow([]byte(nil), n) // its capacity is the memory that it takes
		for _, p := range parts {
			body = append(body, p...)
		}
		if n > 0 {
			s.Body.Skip(n)
		}
		s.Body.Close()
		done(&blocks{list: [][]byte{body}})
		own := &objectBody{o: o, end: o.length}
		own.Set(body)
		s.Body, s.Length = own, o.length
		return s
	}
	g := newGrowing(s.Body, c.object, &c.budget, done)
	r := g.reader()
	r.owner = true
	s.Body = r
	if f != nil {
		f.growFrom(o, g, fields)
	}
	return s
}

// partOf makes o a part of a representation, as the response says. It returns false if the
// length is unknown.
func (o *object) partOf(s *message.Response, length int64) bool {
	first, last, size, ok := protocol.ContentRange(s.Get("Content-Range"))
	if !ok || size < 0 || length <= 0 {
		return false
	}
	if length != last-first+1 {
		// The origin did not send all of the announced range. Without validators nothing can
		// ever be combined with it, so this is all there is.
		if length > last-first || last != size-1 || s.Has("ETag") || s.Has("Last-Modified") {
			return false
		}
		size = first + length
	}
	o.offset, o.size = first, size
	return true
}

// cloneFields copies the fields called names.
func cloneFields(fields message.Fields, names []string) (out message.Fields) {
	for _, f := range fields {
		if contains(names, string(f.Name)) {
			out = append(out, message.Field{Name: bytes.Clone(f.Name), Value: bytes.Clone(f.Value)})
		}
	}
	return out
}

// categoriesOf returns the categories of the requested host.
func categoriesOf(t *filter.Transaction) (list []string) {
	if t == nil {
		return nil
	}
	for i := range t.Findings {
		if f := &t.Findings[i]; f.Check == "category" && !f.Wrapped && f.Score == 0 && len(list) < maxLabels && !slices.Contains(list, f.Category) {
			list = append(list, f.Category)
		}
	}
	return list
}
