package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/net/http2"

	"shuultuur/lib/message"
)

// This file repeats requests that an origin has not processed (RFC 9113 section 8.7, RFC 9110
// section 9.2.2). What was read of a body is kept until the response begins, so that it can be
// sent again.

const (
	// mostTries is how often a request is sent.
	mostTries = 6
	// mostKept is what is kept of one body. An origin grants a stream that it does not process
	// its first window and no more, which is far less with the usual servers.
	mostKept = 4 << 20
	// leastKept is what a kept body takes at first, if its length is unknown.
	leastKept = 4 << 10
	// fetchSize is what is read at once while nothing has arrived. The rest of it need not be waited for.
	fetchSize = 4 << 10
)

// prepare keeps the body if the request may have to be sent again on another connection than l.
func (r *reply) prepare(l *link) {
	if r.q.Body == nil {
		return
	}
	if r.kept == nil && (l.two != nil || l.reused && idempotent(r.q.Method)) {
		r.kept = keep(r.q, r.t, r.c.Client)
	}
	if r.kept != nil {
		r.sent = r.kept.send()
	}
}

// repeats reports whether the request of r may be sent again after err on l.
func (r *reply) repeats(l *link, err error) bool {
	if l.two != nil && (notProcessed(err) || wantsHTTP1(err)) {
		return true
	}
	return l.reused && !errors.Is(err, os.ErrDeadlineExceeded) && (r.unsent || idempotent(r.q.Method))
}

// notProcessed reports whether an error of x/net says that the origin has not processed the
// stream. Not all of them are exported.
func notProcessed(err error) bool {
	if e, ok := errors.AsType[http2.StreamError](err); ok {
		return e.Code == http2.ErrCodeRefusedStream
	}
	switch err.Error() {
	case "http2: Transport received Server's graceful shutdown GOAWAY", // with an earlier stream as the last
		"http2: client conn not usable", "http2: client conn could not be established":
		return true
	}
	return false
}

// wantsHTTP1 reports whether an origin refuses a request over HTTP/2 (RFC 9113 section 7).
func wantsHTTP1(err error) bool {
	if e, ok := errors.AsType[http2.StreamError](err); ok {
		return e.Code == http2.ErrCodeHTTP11Required
	}
	if e, ok := errors.AsType[http2.GoAwayError](err); ok {
		return e.ErrCode == http2.ErrCodeHTTP11Required
	}
	return err.Error() == "http2: Transport received GOAWAY from server ErrCode:HTTP_1_1_REQUIRED"
}

// idempotent reports whether a request may be sent twice although the origin may have processed
// it (RFC 9110 section 9.2.2).
func idempotent(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	return false
}

// A keptBody is the body of a request that may be sent several times: what was read of it is
// kept until the response begins. Each time it is sent has its own [sending].
type keptBody struct {
	t      *Transport
	who    netip.Addr
	src    message.Body
	length int64 // as in Request.Length

	mu      sync.Mutex
	change  sync.Cond // of mu: a sending that waits must look again
	reading bool      // fetch reads src, without mu
	ended   bool      // src is at its end
	err     error     // of src
	size    int64     // bytes read
	bytes   []byte    // all of them, unless there was no room
	last    []byte    // the last of them, if fetch has read them
	parts   [][]byte
	begun   bool // the response has begun: the request is not sent again
	closed  bool
	now     *sending
}

// keep makes the body of q a kept one, for a client.
func keep(q *message.Request, t *Transport, who netip.Addr) *keptBody {
	k := &keptBody{t: t, who: who, src: q.Body, length: q.Length, ended: q.Body.AtEnd()}
	k.change.L = &k.mu
	return k
}

// send begins to send the body from its beginning. The sending before gets no more bytes.
func (k *keptBody) send() *sending {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now != nil {
		k.now.left = true
		k.change.Broadcast()
	}
	k.now = &sending{k: k}
	return k.now
}

// complete reports whether everything that was read is kept. k.mu must be held.
func (k *keptBody) complete() bool { return k.size == int64(len(k.bytes)) }

// repeatable reports whether the body can be sent again.
func (k *keptBody) repeatable() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.complete() && k.err == nil && !k.closed
}

// add records that p was read. k.mu must be held.
func (k *keptBody) add(p []byte) {
	complete := k.complete()
	k.size += int64(len(p))
	switch {
	case !complete:
	case k.begun, !k.grow(int(k.size)):
		k.give()
	default:
		k.bytes = append(k.bytes, p...)
	}
}

// fetch reads more, which may take as long as the client likes.
func (k *keptBody) fetch() {
	n, err := 0, error(nil)
	defer func() {
		if r := recover(); r != nil {
			k.t.counters.add(panics)
			err = fmt.Errorf("internal error: %v", r)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.reading, k.last = false, k.last[:n]
		k.add(k.last)
		if k.ended = k.src.AtEnd(); err != nil && !k.ended {
			k.err = err
		}
		k.change.Broadcast()
	}()
	n, err = k.src.Read(k.last[:cap(k.last)])
}

// grow makes room for n bytes. k.mu must be held.
func (k *keptBody) grow(n int) bool {
	have := cap(k.bytes)
	if n <= have {
		return true
	}
	want := max(n, 2*have, leastKept)
	if k.length > 0 {
		want = int(min(int64(max(want, message.LargeBlock)), k.length))
	}
	if want > mostKept || want < n || !k.t.budget.Acquire(k.who, int64(want)) {
		return false
	}
	grown := append(make([]byte, 0, want), k.bytes...)
	k.give()
	k.bytes = grown
	return true
}

// give gives the kept bytes back. k.mu must be held.
func (k *keptBody) give() {
	if n := cap(k.bytes); n > 0 {
		k.t.budget.Release(k.who, int64(n))
	}
	k.bytes = nil
}

// begin says that the response has begun.
func (k *keptBody) begin() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.begun = true; k.now == nil || k.now.at == k.size {
		k.give()
	}
}

// close ends all sendings. It interrupts one that reads the body, which is of no use to others
// then.
func (k *keptBody) close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.reading {
		k.mu.Unlock()
		k.src.Close()
		k.mu.Lock()
	}
	k.change.Broadcast()
	for k.reading {
		k.change.Wait()
	}
	k.give()
}

// A sending is a [message.Body] that gives a kept body from its beginning.
type sending struct {
	k    *keptBody
	at   int64
	left bool // the body is sent by another one; guarded by k.mu
}

var errLeft = errors.New("the request is not sent here any more")

// Read implements [message.Body].
func (s *sending) Read(p []byte) (n int, err error) {
	k := s.k
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		switch before := k.size - int64(len(k.last)); {
		case s.left || k.closed:
			return 0, errLeft
		case s.at < k.size && k.complete():
			n = copy(p, k.bytes[s.at:])
		case s.at < k.size && s.at >= before:
			n = copy(p, k.last[s.at-before:])
		case s.at < k.size:
			return 0, errors.New("the request's body is too large to be sent again")
		case k.err != nil:
			return 0, k.err
		case k.ended:
			return 0, io.EOF
		case !k.reading:
			n = k.read(p)
		}
		if n > 0 {
			if s.at += int64(n); k.begun && s.at == k.size {
				k.give()
			}
			return n, nil
		}
		k.change.Wait()
	}
}

// read reads what has arrived into p, or begins to fetch more. k.mu must be held.
func (k *keptBody) read(p []byte) (n int) {
	k.parts = k.src.Ready(k.parts[:0])
	for _, b := range k.parts {
		n += copy(p[n:], b)
	}
	clear(k.parts)
	if n > 0 {
		k.src.Skip(n)
		k.last = k.last[:0]
		k.add(p[:n])
		k.ended = k.src.AtEnd()
		return n
	}
	if k.last == nil {
		k.last = make([]byte, 0, fetchSize)
	}
	k.reading, k.last = true, k.last[:0]
	go k.fetch()
	return 0
}

// leave ends s. A Read that waits returns.
func (s *sending) leave() {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	s.left = true
	s.k.change.Broadcast()
}

// Copy implements [message.Body].
func (s *sending) Copy(w io.Writer, most int64) (int64, error) { return message.CopyRead(w, s, most) }

// Ready implements [message.Body]. Bytes that are not kept yet come by Read.
func (s *sending) Ready(dst [][]byte) [][]byte { return dst }

// Skip implements [message.Body].
func (s *sending) Skip(int) {}

// Remaining implements [message.Body].
func (s *sending) Remaining() int64 {
	switch {
	case s.AtEnd():
		return 0
	case s.k.length > 0:
		return s.k.length - s.at
	}
	return s.k.length
}

// AtEnd implements [message.Body].
func (s *sending) AtEnd() bool {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	return s.k.ended && s.at == s.k.size
}

// Trailer implements [message.Body].
func (s *sending) Trailer() message.Fields { return s.k.src.Trailer() }

// Close implements [message.Body].
func (s *sending) Close() error { s.k.close(); return nil }
