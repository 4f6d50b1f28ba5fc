//go:build !small

package virus

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/netip"
	"time"

	"shuultuur/content"
)

// A stream is a body that is sent to clamd, and hashed, while it arrives. If this clamd fails,
// another one is asked only if the server keeps the body. It implements [content.Taker].
type stream struct {
	c    *Check
	hash hash.Hash
	n    int64
	at   *session // nil without a scanner
	who  netip.Addr
	held *scanner // whose place it has, nil for none
	stop func() bool
	err  error // why it is not scanned
	over bool
	name string

	counted bool // err is in the metrics

	files *files // nil if the body is not a form
}

// stream sends to a scanner as much of a body as has arrived. At the end the stream has the
// verdict. It is nil if the beginning of the body was not kept for it.
func (c *Check) stream(ctx context.Context, who netip.Addr, b *content.Body, skipped bool) (*stream, error) {
	taker, end := b.FeedTaker(c, func() content.Taker {
		s := c.open(ctx, who, skipped, false)
		s.files = c.newFiles(ctx, who, b)
		return s
	})
	if errors.Is(end, content.ErrLate) {
		return nil, &unreadError{end}
	}
	s := taker.(*stream)
	long := c.tooLong(b)
	switch {
	case s.over:
	case long != nil && !skipped:
		s.finish("", long)
	case s.files != nil && s.files.name != "":
		s.finish(s.files.name, nil)
	case end == nil: // more will arrive
	case end != io.EOF:
		s.finish("", &unreadError{end})
	case b.Unread() == content.TooLarge:
		s.finish("", errTooLarge)
	default:
		name, err := s.verdict(ctx)
		if s.files != nil && name == "" {
			part, failure := s.files.end()
			if name = part; err == nil {
				err = failure
			}
		}
		s.finish(name, err)
	}
	return s, nil
}

// failed reports whether the scanner, rather than the body, is the reason why there is no verdict.
func (s *stream) failed() bool {
	if s.err == nil {
		return false
	}
	_, unread := errors.AsType[*unreadError](s.err)
	return !unread
}

// open starts a stream at the first reachable scanner, on a new connection: a kept one may be
// closed, which would be noticed too late. A body of a skipped type is only hashed. A body that is
// part of another uses the place of that one, so that forms do not wait for each other.
func (c *Check) open(ctx context.Context, who netip.Addr, skipped, part bool) *stream {
	s := &stream{c: c, hash: sha256.New(), who: who}
	if len(c.scanners) == 0 || skipped {
		return s
	}
	if _, err := c.scan(ctx, func(at *scanner) (string, error) {
		if !part && !s.enter(ctx, at) {
			return "", &noPlaceError{at, " for bodies that are still arriving"}
		}
		l, err := at.dial(ctx)
		if err == nil {
			if err = l.begin(); err != nil {
				l.Close()
			}
		}
		if err != nil {
			s.exit()
			return "", err
		}
		s.at = l
		return "", nil
	}); err != nil {
		s.finish("", err)
		return s
	}
	at := s.at
	s.stop = context.AfterFunc(ctx, func() { _ = at.SetDeadline(time.Unix(1, 0)) })
	return s
}

// Take implements [content.Taker].
func (s *stream) Take(p []byte) {
	s.n += int64(len(p))
	_, _ = s.hash.Write(p)
	if s.files != nil && !s.over {
		s.files.parts.Write(p)
	}
	if s.at == nil || s.over {
		return
	}
	err := s.c.tooLarge(s.n)
	if err == nil {
		_ = s.at.SetDeadline(time.Now().Add(s.at.s.timeout))
		if err = s.at.chunk(p); err == nil && s.at.earlyReply != "" {
			var name string
			if name, err = s.at.end(); name != "" {
				s.finish(name, nil)
				return
			}
		}
		if err != nil {
			err = s.leave(err, false)
		}
	}
	if err != nil { // the lists may still contain it
		s.close()
		s.err = err
	}
}

// verdict returns the virus in the complete body, "" for none.
func (s *stream) verdict(ctx context.Context) (string, error) {
	sum := [sha256.Size]byte(s.hash.Sum(nil))
	name, ok := s.c.knownHash(ctx, sum)
	switch {
	case ok:
		return name, nil
	case s.at == nil:
		return "", s.err
	}
	_ = s.at.SetDeadline(time.Now().Add(s.at.s.timeout))
	if ctx.Err() != nil {
		return "", fmt.Errorf("scanning %d bytes with clamd: %w", s.n, ctx.Err())
	}
	at := s.at.s
	late := time.AfterFunc(slow, func() { s.c.watch(at, nil) })
	name, err := s.at.end()
	late.Stop()
	if !s.stop() && err == nil {
		err = ctx.Err()
	}
	if err = s.leave(err, ctx.Err() != nil); err != nil {
		return "", err
	}
	s.c.learn(ctx, sum, name)
	return name, nil
}

// leave returns the connection, and notes what an error says of the scanner, unless nobody needs the
// verdict any more.
func (s *stream) leave(err error, canceled bool) error {
	s.stop()
	at := s.at
	s.at = nil
	err = at.leave(err)
	s.exit()
	answer, answered := errors.AsType[*answerError](err)
	switch {
	case answered && answer.sick():
		at.s.noteSick(answer)
	case err != nil && !answered && !canceled:
		s.c.watch(at.s, err)
	}
	return err
}

// close closes the connection in the middle of a body.
func (s *stream) close() {
	if s.files != nil {
		s.files.close()
	}
	if s.at != nil {
		if s.stop != nil {
			s.stop()
		}
		s.at.Close()
		s.at = nil
	}
	s.exit()
}

// enter takes a place for a body that is still arriving, and reports whether there is one.
func (s *stream) enter(ctx context.Context, at *scanner) bool {
	if !at.gate.Stream(s.who) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, at.timeout)
	defer cancel()
	if err := at.gate.Take(ctx, s.who); err != nil {
		at.gate.EndStream(s.who)
		return false
	}
	s.held = at
	return true
}

// exit gives the place back.
func (s *stream) exit() {
	if s.held == nil {
		return
	}
	s.held.gate.Give(s.who)
	s.held.gate.EndStream(s.who)
	s.held = nil
}

// finish stores the verdict.
func (s *stream) finish(name string, err error) {
	s.close()
	s.name, s.err, s.over = name, err, true
}

// Close implements [content.Taker].
func (s *stream) Close() { s.close() }
