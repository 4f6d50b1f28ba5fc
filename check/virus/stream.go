//go:build !small

package virus

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
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
	stop func() bool
	err  error // why it is not scanned
	over bool
	name string

	counted bool // err is in the metrics

	files *files // nil if the body is not a form
}

// stream sends to a scanner as much of a body as has arrived. At the end the stream has the
// verdict. It is nil if the beginning of the body was not kept for it.
func (c *Check) stream(ctx context.Context, b *content.Body, skipped bool) (*stream, error) {
	taker, end := b.FeedTaker(c, func() content.Taker {
		s := c.open(ctx, skipped)
		s.files = c.newFiles(ctx, b)
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
	answer, answered := errors.AsType[*answerError](s.err)
	return !unread && !(answered && answer.final())
}

// open starts a stream at the first reachable scanner, on a new connection: a kept one may be
// closed, which would be noticed too late. A body of a skipped type is only hashed.
func (c *Check) open(ctx context.Context, skipped bool) *stream {
	s := &stream{c: c, hash: sha256.New()}
	if len(c.scanners) == 0 || skipped {
		return s
	}
	if _, err := c.scan(ctx, func(at *scanner) (string, error) {
		l, err := at.dial(ctx)
		if err == nil {
			if err = l.begin(); err != nil {
				l.Close()
			}
		}
		if err == nil {
			s.at = l
		}
		return "", err
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
			_, err = s.at.end()
		}
		if err != nil {
			at := s.at.s
			if err = s.leave(err); !isVerdict(err) {
				s.c.watch(at, err)
			}
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
	if err = s.leave(err); err != nil {
		if !isVerdict(err) && ctx.Err() == nil {
			s.c.watch(at, err)
		}
		return "", err
	}
	s.c.learn(ctx, sum, name)
	return name, nil
}

// isVerdict reports whether err is an answer of a scanner.
func isVerdict(err error) bool {
	_, answered := errors.AsType[*answerError](err)
	return err == nil || answered
}

// leave returns the connection.
func (s *stream) leave(err error) error {
	s.stop()
	at := s.at
	s.at = nil
	return at.leave(err)
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
}

// finish stores the verdict.
func (s *stream) finish(name string, err error) {
	s.close()
	s.name, s.err, s.over = name, err, true
}

// Close implements [content.Taker].
func (s *stream) Close() { s.close() }
