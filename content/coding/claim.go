package coding

import (
	"errors"
	"io"

	"shuultuur/content/limit"
)

// This file decides whether a body has the codings that its fields name. A browser that gets
// a coding which is none shows an error; a server that gets a request takes such a body as it is.

const (
	leastTried = 16  // bytes with which it is decided
	mostTried  = 512 // bytes after which it is decided, whatever they are
	tryOutput  = 64 << 10
)

// A claim is what is known of the codings of a body that it may not have.
type claim uint8

const (
	believed  claim = iota // the codings count as named
	doubted                // it is not known whether the body has them
	confirmed              // it has
	refuted                // it has not
)

// Doubt says that the body may lack the codings that its fields name. If its first bytes show that it
// does, all passes read it as it is.
func (b *Pieces) Doubt() {
	if b.claim == believed {
		b.claim = doubted
	}
}

// Refuted reports whether the body lacks the codings that its fields name.
func (b *Pieces) Refuted() bool { return b.claim == refuted }

// Same returns empty pieces of the same body.
func (b *Pieces) Same() Pieces { return Pieces{Limits: b.Limits, claim: b.claim} }

// settle decides, if it can, whether the body has codings.
func (b *Pieces) settle(codings []Coding) {
	var head []byte
	for _, p := range b.pieces {
		if head = append(head, p[:min(len(p), mostTried-len(head))]...); len(head) == mostTried {
			break
		}
	}
	if len(head) < leastTried && !b.done {
		return
	}
	whole := b.done && int64(len(head)) == b.len
	out, err := try(head, codings, whole)
	text := isText(head)
	switch {
	case errors.Is(err, limit.ErrBomb), err == io.EOF, err == nil && out > 0, err == nil && !text:
		b.claim = confirmed
	case err == nil && len(head) < mostTried && !b.done: // neither text nor an error has come of it so far
	case err != nil && out > 0 && !text:
		b.claim = confirmed
	default:
		b.claim = refuted
	}
}

// try decodes the beginning of a body, and returns the length of what comes of it.
func try(head []byte, codings []Coding, whole bool) (out int, err error) {
	in := Pieces{Limits: limit.Limits{}.WithDefaults(), done: whole}
	in.Append(head)
	var s Stream
	s.Reset(&in, codings)
	defer s.Close()
	for out < tryOutput {
		p, err := s.Pull()
		if out += len(p); err != nil || p == nil {
			return out, err
		}
	}
	return out, nil
}

// isText reports whether bytes look like text behind their first ones, which may imitate a coding.
func isText(p []byte) bool {
	for _, c := range p[min(leastTried, len(p)/2):] {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' {
			return false
		}
	}
	return true
}
