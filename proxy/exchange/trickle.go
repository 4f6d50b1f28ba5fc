package exchange

import (
	"context"
	"io"
	"slices"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// This file sends the client of a response that waits for its verdict a byte now and then, where the
// policy says so (trickle): some programs give up when nothing comes. A goroutine judges the body
// meanwhile, on a copy of the transaction.

// maxTrickled is the most bytes that are sent so: a file of which no more arrives starts nothing.
// tail is held back of what has arrived, so that nothing of a small file is sent.
const maxTrickled = 1 << 10

// A trickle is the body of a response that is judged in a goroutine until its verdict is there, and
// the inspection's from then on. It implements [message.Body]. Its reader owns all fields but those
// that say otherwise.
type trickle struct {
	in      *inspection // the goroutine's until settled
	every   time.Duration
	cancel  context.CancelFunc
	verdict chan error // of the goroutine
	over    chan struct{}
	settled bool
	err     error
	started bool               // the head of the response was given to the client
	first   []byte             // the beginning of the body
	sent    int                // of first
	ready   message.MemoryBody // released and not yet read
}

// mayTrickle reports whether the client of a response may be sent bytes before the verdict: a page
// shows that it was refused.
func mayTrickle(t *filter.Transaction) bool {
	switch t.Content().Type() {
	case "text/html", "application/xhtml+xml":
		return false
	}
	return t.Verdict.Trickle > 0
}

// trickle judges the body of s as [holdResponse] does, but returns after the policy's interval although
// there is no verdict, if a check waits for another server or for the end of the body. cancel ends the
// judgement.
func (b *inspection) trickle(s *message.Response, cancel context.CancelFunc) error {
	x := b.x
	w := &trickle{in: b, every: x.T.Verdict.Trickle, cancel: cancel, verdict: make(chan error, 1), over: make(chan struct{})}
	b.own = x.T
	b.own.Findings = append([]filter.Finding(nil), x.T.Findings...)
	b.own.Monitored = append([]filter.Reason(nil), x.T.Monitored...)
	b.own.Signatures = append([]uint32(nil), x.T.Signatures...)
	answer := *s // the client's changes while the goroutine reads this one
	answer.Fields = slices.Clone(s.Fields)
	b.own.Response = &answer
	b.t, b.trickles = &b.own, true
	x.trickling = w
	full := false
	go func() {
		defer close(w.over)
		var err error
		full, err = b.untilReleased()
		w.verdict <- err
	}()
	timer := time.NewTimer(w.every)
	defer timer.Stop()
	for !w.settled {
		select {
		case err := <-w.verdict:
			if w.settle(err); err != nil {
				return err
			}
			b.afterHold(s, full)
			return nil
		case <-timer.C:
			// A program may wait for the head of a body that has not begun.
			if end, _, _, _ := b.state(); w.take() || end == 0 {
				w.started, s.Body = true, w
				return nil
			}
			timer.Reset(w.every)
		}
	}
	return w.err
}

// take makes the next byte of the beginning ready, if one may be sent.
func (w *trickle) take() bool {
	b := w.in
	if !b.waits.Load() && !b.limit.IsWaiting() {
		return false
	}
	b.mu.Lock()
	w.first = b.keepFirst(w.first)
	b.mu.Unlock()
	if w.sent == len(w.first) {
		return false
	}
	w.ready.Set(w.first[w.sent : w.sent+1])
	w.sent++
	return true
}

// keepFirst appends to first what may be sent of the beginning of the body. The caller has b.mu.
func (b *inspection) keepFirst(first []byte) []byte {
	if b.hold.Base > 0 {
		return append(first, b.first[min(len(first), len(b.first)):]...)
	}
	if most := min(b.hold.End-tail, maxTrickled); int64(len(first)) < most {
		for _, p := range b.hold.Slices(nil, int64(len(first)), most) {
			first = append(first, p...)
		}
	}
	return first
}

// settle takes the verdict over from the goroutine.
func (w *trickle) settle(err error) {
	b, x := w.in, w.in.x
	<-w.over
	w.settled, b.trickles = true, false
	t := &x.T
	t.Verdict, t.Findings, t.Monitored, t.Signatures = b.own.Verdict, b.own.Findings, b.own.Monitored, b.own.Signatures
	t.Looked, t.Length, t.Unread, t.Picture = b.own.Looked, b.own.Length, b.own.Unread, b.own.Picture
	b.t, b.own = t, filter.Transaction{}
	if w.started {
		x.Note(b.notes)
		if err == ErrRefused {
			b.sent = int64(w.sent) // the head was sent, so that no page can be
			err = b.cut()
		}
	}
	w.err = err
}

// next makes bytes ready, unless the body is over.
func (w *trickle) next() error {
	timer := time.NewTimer(w.every)
	defer timer.Stop()
	for !w.settled && w.ready.Remaining() == 0 {
		select {
		case err := <-w.verdict:
			w.settle(err)
			return w.skipSent()
		case <-timer.C:
			w.take()
			timer.Reset(w.every)
		}
	}
	return w.err
}

// skipSent leaves out what was sent before the verdict.
func (w *trickle) skipSent() error {
	for left := w.sent; left > 0 && w.err == nil && !w.in.AtEnd(); {
		if w.err = w.in.next(); w.err == nil {
			n := min(int64(left), w.in.ready.Remaining())
			w.in.ready.Skip(int(n))
			left -= int(n)
		}
	}
	return w.err
}

// direct reports whether the rest comes from the inspection.
func (w *trickle) direct() bool { return w.settled && w.err == nil && w.ready.Remaining() == 0 }

// Ready implements [message.Body].
func (w *trickle) Ready(dst [][]byte) [][]byte {
	if w.direct() {
		return w.in.Ready(dst)
	}
	return w.ready.Ready(dst)
}

// Skip implements [message.Body].
func (w *trickle) Skip(n int) {
	if w.direct() {
		w.in.Skip(n)
		return
	}
	w.ready.Skip(n)
}

// Read implements [message.Body].
func (w *trickle) Read(p []byte) (int, error) {
	for {
		switch {
		case w.ready.Remaining() > 0:
			return w.ready.Read(p)
		case w.err != nil:
			return 0, w.err
		case w.settled:
			return w.in.Read(p)
		}
		if err := w.next(); err != nil {
			return 0, err
		}
	}
}

// Copy implements [message.Body].
func (w *trickle) Copy(to io.Writer, most int64) (n int64, err error) {
	for n < most && !w.AtEnd() {
		var m int64
		switch {
		case w.direct():
			m, err = w.in.Copy(to, most-n)
			return n + m, err
		case w.ready.Remaining() > 0:
			m, err = w.ready.Copy(to, most-n)
		default:
			err = w.next()
		}
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// Remaining implements [message.Body].
func (w *trickle) Remaining() int64 {
	if w.direct() {
		return w.in.Remaining()
	}
	b := w.in
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < 0 {
		return b.left
	}
	return b.left + b.hold.End - int64(w.sent) + w.ready.Remaining()
}

// AtEnd implements [message.Body].
func (w *trickle) AtEnd() bool { return w.direct() && w.in.AtEnd() }

// Trailer implements [message.Body].
func (w *trickle) Trailer() message.Fields {
	if !w.settled {
		return nil
	}
	return w.in.Trailer()
}

// Close implements [message.Body].
func (w *trickle) Close() error {
	w.stop()
	return w.in.Close()
}

// stop ends the goroutine.
func (w *trickle) stop() {
	w.cancel()
	if w.settled {
		return
	}
	interrupt(w.in.x, w.in.src)()
	w.settle(<-w.verdict)
	if w.err == nil {
		w.err = ErrGone
	}
}
