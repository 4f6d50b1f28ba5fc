package content

import (
	"errors"
	"io"
	"iter"

	"shuultuur/content/coding"
	"shuultuur/content/limit"
)

// A Taker processes a body for one check while it arrives. The bytes are not kept.
type Taker interface {
	// Take processes the next decoded bytes. They are valid during the call.
	Take(p []byte)
	// Close ends the Taker, because the body is released.
	Close()
}

// A takerPass is a pass over the body for one Taker.
type takerPass struct {
	owner  any
	taker  Taker
	in     *coding.Pieces
	stream coding.Stream
}

// ErrLate reports that the beginning of a body was discarded before it was needed.
var ErrLate = errors.New("the beginning of the body has already passed")

// advance passes on everything that has arrived.
func (t *takerPass) advance() error {
	for {
		p, err := t.stream.Pull()
		if len(p) > 0 {
			t.taker.Take(p)
		}
		switch {
		case err == io.EOF:
			return err
		case err != nil:
			t.in.Stop(t.stream.Reason())
			return err
		case p == nil:
			return nil
		}
	}
}

// A Wait is what server and checks tell each other about the end of a body.
type Wait struct {
	kept    iter.Seq2[[]byte, error]
	unkept  limit.Reason
	awaited bool
}

// Keep says that the server keeps the body, and passes none of it on, as long as a check awaits
// its end. pieces returns the bytes that were appended, from the first.
func (w *Wait) Keep(pieces iter.Seq2[[]byte, error]) { w.kept, w.unkept = pieces, limit.AllRead }

// PassOn says that the server passes the body on before its end. why says that it cannot keep
// it although a check may await the end; otherwise it is AllRead.
func (w *Wait) PassOn(why limit.Reason) { w.kept, w.unkept = nil, why }

// Kept reports whether the server keeps the body.
func (w *Wait) Kept() bool { return w.kept != nil }

// Unkept returns why the server cannot keep the body, AllRead if there is no reason.
func (w *Wait) Unkept() limit.Reason { return w.unkept }

// AwaitEnd says that a check reports something only when it knows all of the body.
func (w *Wait) AwaitEnd() { w.awaited = true }

// Awaited reports whether a check has called AwaitEnd since the last call of Awaited.
func (w *Wait) Awaited() bool {
	was := w.awaited
	w.awaited = false
	return was
}
