package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"shuultuur/lib/message"
)

// An upload sends a request body in its own goroutine: the origin may respond before it has
// read everything, and a body announced with Expect only comes after the origin's 100 was
// forwarded.
type upload struct {
	t       *Transport
	length  int64 // as in Request.Length
	body    message.Body
	conn    *conn
	to      message.Steady // conn, for writing
	passage message.Passage
	running bool
	done    chan error // result of the running one
	err     error      // result of the last one
	parts   [][]byte
}

// A BodyError is a failure of the request's body: of the client, not of the origin.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return "reading the request's body: " + e.Err.Error() }
func (e *BodyError) Unwrap() error { return e.Err }

// begin prepares s for the request of r.
func (s *upload) begin(r *reply) {
	s.t, s.running, s.err = r.t, false, nil
}

// start starts sending the body, after the head.
func (s *upload) start(r *reply) {
	if s.done == nil {
		s.done = make(chan error, 1)
	}
	s.passage.Budget, s.passage.Client = r.t.budget, r.c.Client
	s.length, s.body, s.conn, s.running = r.q.Length, r.sent, r.conn, true
	go func() {
		err := s.copySafely()
		s.done <- err
		if _, ok := errors.AsType[*BodyError](err); ok {
			s.conn.Close() // unblocks readers of the response, which cannot come
		}
	}()
}

// copySafely is copy, whose panic ends only this request.
func (s *upload) copySafely() (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.t.counters.add(panics)
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	return s.copy()
}

// finished reports whether no upload is in progress.
func (s *upload) finished() bool {
	if !s.running {
		return true
	}
	select {
	case s.err = <-s.done:
		s.running = false
		return true
	default:
		return false
	}
}

// await waits at most d for an upload that is about to end, and reports whether it has ended.
func (s *upload) await(d time.Duration) bool {
	if s.finished() {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case s.err = <-s.done:
		s.running = false
		return true
	case <-timer.C:
		return false
	}
}

// stop ends an upload in progress, which makes connection and body unusable, and returns its
// error. It waits a moment for one that is about to end: the response often arrives before the
// upload returns from writing the last bytes.
func (s *upload) stop() error {
	if s.await(10 * time.Millisecond) {
		return s.err
	}
	s.body.Close()
	s.conn.Close()
	<-s.done
	s.running, s.err = false, net.ErrClosed
	return nil
}

// copy sends the body. It shares the connection with the reader of the response, but uses
// neither its reader nor the stored deadline.
func (s *upload) copy() error {
	body, c := s.body, s.conn.c
	var armed time.Time
	s.to = message.Steady{Conn: c, Passage: &s.passage, Arm: func() {
		if now := time.Now(); s.t.answer > 0 && now.Sub(armed) > s.t.answer/8 {
			armed = now
			c.SetDeadline(now.Add(s.t.answer)) // the response may take as long after the body
		}
	}}
	defer s.passage.Free()
	// An empty chunked body may be at its end already: its last chunk must be sent, too.
	for last := s.length != message.Chunked && body.AtEnd(); !last; {
		if s.length != message.Chunked {
			if _, err := body.Copy(&s.to, message.LargeBlock); err != nil {
				return blame(err)
			}
			last = body.AtEnd()
			continue
		}
		block, err := s.passage.Next(&s.to)
		if err != nil {
			return err
		}
		n, err := body.Read(message.ChunkRoom(block))
		if err != nil && err != io.EOF {
			return blame(err)
		}
		last = body.AtEnd()
		if _, err := s.to.Write(message.FrameChunk(block, n, last, body.Trailer())); err != nil {
			return err
		}
	}
	return nil
}

// blame attributes a failure to the body or to the origin.
func blame(err error) error {
	if _, ok := errors.AsType[*message.Error](err); ok {
		return &BodyError{err}
	}
	if e, ok := errors.AsType[interface {
		error
		OfBody()
	}](err); ok {
		return &BodyError{e}
	}
	op, ok := errors.AsType[*net.OpError](err)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded) || ok && op.Op == "read" {
		return &BodyError{err}
	}
	return err
}
