package exchange

import (
	"io"
	"time"

	"shuultuur/lib/message"
)

// This file makes an inspection a [message.Body] for its next reader.

// next ensures that some bytes are released, unless the body is over.
func (b *inspection) next() error {
	for b.ready.Remaining() == 0 {
		switch {
		case b.store.left(b.sent) > 0:
			return b.store.read(b.x.in, b.sent, &b.ready)
		case len(b.store.after) > 0:
			b.ready.Set(b.store.after...)
			b.store.after = b.store.after[:0]
			return nil
		case b.failed != nil:
			return b.failed
		case b.over:
			return nil
		}
		if err := b.advance(); err != nil {
			return err
		}
	}
	return nil
}

// Ready implements [message.Body].
func (b *inspection) Ready(dst [][]byte) [][]byte { return b.ready.Ready(dst) }

// Skip implements [message.Body].
func (b *inspection) Skip(n int) { b.ready.Skip(n) }

// Read implements [message.Body].
func (b *inspection) Read(p []byte) (int, error) {
	if err := b.next(); err != nil {
		return 0, err
	}
	return b.ready.Read(p)
}

// Copy implements [message.Body].
func (b *inspection) Copy(w io.Writer, max int64) (n int64, err error) {
	for n < max && !b.AtEnd() {
		if b.passesDirectly() {
			m, err := b.src.Copy(w, max-n)
			n += m
			b.mu.Lock()
			b.left, b.done = b.src.Remaining(), b.src.AtEnd()
			b.passed += m
			b.mu.Unlock()
			if b.src.AtEnd() {
				b.over = true
				b.end()
			}
			if err != nil || m == 0 {
				return n, err
			}
			continue
		}
		if err := b.next(); err != nil {
			return n, err
		}
		m, err := b.ready.Copy(w, max-n)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// passesDirectly reports whether the rest may go directly from the source to the reader: no check
// needs it, and all that was read has been taken.
func (b *inspection) passesDirectly() bool {
	return b.open && !b.over && b.failed == nil && !b.pumping && b.sent == b.hold.End && b.pending() == 0
}

// pending returns the number of bytes that are released and not yet read.
func (b *inspection) pending() int64 {
	n := b.ready.Remaining() + b.store.left(b.sent)
	for _, p := range b.store.after {
		n += int64(len(p))
	}
	return n
}

// Remaining implements [message.Body].
func (b *inspection) Remaining() int64 {
	if b.over {
		return b.pending()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < 0 {
		return b.left
	}
	return b.left + b.hold.End - b.sent + b.pending()
}

// AtEnd implements [message.Body].
func (b *inspection) AtEnd() bool { return b.over && b.failed == nil && b.pending() == 0 }

// Trailer implements [message.Body].
func (b *inspection) Trailer() message.Fields { return b.src.Trailer() }

// Close implements [message.Body]. If the source cannot be made to end its Read, because
// others use it too, End does the rest.
func (b *inspection) Close() error {
	if b.stop(b.interrupt(), time.Second/10) {
		return b.src.Close()
	}
	b.unclosed = true
	return nil
}

// VerdictIsFinal reports whether the rest of b, a body returned by an inspection, cannot change the
// verdict.
func VerdictIsFinal(b message.Body) bool {
	switch b := b.(type) {
	case *inspection:
		return b.over
	case *trickle:
		return b.direct() && b.in.over
	case *uncodedBody:
		return b.in.over
	}
	return true
}

// EndsWithNotice reports whether b, a body returned by an inspection that was cut, tells its reader so.
func EndsWithNotice(b message.Body) bool {
	switch b := b.(type) {
	case *inspection:
		return b.noticed
	case *trickle:
		return b.settled && b.in.noticed
	case *uncodedBody:
		return b.in.noticed
	case *editedBody:
		return EndsWithNotice(b.src)
	}
	return false
}
