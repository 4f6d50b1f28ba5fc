package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"shuultuur/message"
)

// An upload is a request body on its way upstream, in a goroutine of its own:
// the origin may answer before it has read everything, and a body announced
// with Expect only comes when the origin's 100 has been passed on.
type upload struct {
	x       *session
	u       *upstream
	running bool
	done    chan error
	err     error
	n       int64
	line    []byte
}

func (s *upload) init(x *session) {
	s.x = x
	s.done = make(chan error, 1)
}

// start begins to send the body of x.q to u, whose head is out.
func (s *upload) start(u *upstream) {
	s.u, s.running, s.err, s.n = u, true, nil, 0
	go func() {
		var err error
		defer func() {
			if r := recover(); r != nil {
				s.x.p.counters.panics.Add(1)
				s.x.p.log.Error("panic in an upload", "panic", r)
				err = errors.New("internal error")
			}
			s.done <- err
			if _, ok := errors.AsType[*message.Error](err); ok || errors.As(err, new(clientError)) {
				u.close() // wakes up who waits for the response, which cannot come
			}
		}()
		err = s.copy()
	}()
}

// finished says whether no upload is under way.
func (s *upload) finished() bool {
	if !s.running {
		return true
	}
	select {
	case s.err = <-s.done:
		s.running = false
		s.x.t.BytesIn += s.n
		return true
	default:
		return false
	}
}

// settled says whether no upload is under way, waiting a moment for one that
// is about to end: the response often comes before we are back from writing
// the last bytes of the request.
func (s *upload) settled() bool {
	if s.finished() {
		return true
	}
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case s.err = <-s.done:
		s.running = false
		s.x.t.BytesIn += s.n
		return true
	case <-timer.C:
		return false
	}
}

// stop ends an upload that is still under way, which costs both connections,
// and returns how it went.
func (s *upload) stop() error {
	if s.finished() {
		return s.err
	}
	x := s.x
	x.c.SetReadDeadline(time.Unix(1, 0))
	s.u.close()
	<-s.done
	s.running = false
	x.t.BytesIn += s.n
	x.until = time.Time{} // the deadline has to be set anew
	x.arm(time.Now(), x.p.cfg.Answer)
	x.q.Close, x.lost = true, true
	return nil
}

// copy sends the body. It shares the connections with the session's own
// goroutine, but neither their readers nor their remembered deadlines.
func (s *upload) copy() error {
	x, u, body := s.x, s.u, s.x.q.Body.(*message.Body)
	block := x.p.held.block(large)
	defer x.p.held.release(block)
	var vec [3][]byte
	var armed time.Time
	for last := body.Done(); !last; {
		if now := time.Now(); now.Sub(armed) > x.p.cfg.Answer/8 {
			armed = now
			x.c.SetReadDeadline(now.Add(x.p.cfg.Answer))
			u.c.SetDeadline(now.Add(x.p.cfg.Answer)) // the answer may take as long after the body
		}
		var n int64
		var err error
		if x.q.Length != message.Chunked {
			n, err = body.Copy(u.c, large)
			last = body.Done()
			s.n += n
			if err != nil {
				return s.blame(err)
			}
			continue
		}
		m, err := body.Read(block[:cap(block)])
		if err != nil && err != io.EOF {
			return s.blame(err)
		}
		last = body.Done()
		bufs := net.Buffers(vec[:0])
		s.line = s.line[:0]
		if m > 0 {
			s.line = append(strconv.AppendInt(s.line, int64(m), 16), "\r\n"...)
			bufs = append(bufs, s.line, block[:m])
		}
		k := len(s.line)
		if m > 0 {
			s.line = append(s.line, "\r\n"...)
		}
		if last {
			s.line = message.AppendLastChunk(s.line, x.q.Trailer)
		}
		bufs = append(bufs, s.line[k:])
		if m > 0 {
			bufs[0] = s.line[:k] // it may have moved
		}
		s.n += int64(m)
		if _, err := bufs.WriteTo(u.c); err != nil {
			return err
		}
	}
	return nil
}

// blame tells a failure of the client from one of the origin.
func (s *upload) blame(err error) error {
	if _, ok := errors.AsType[*message.Error](err); ok {
		return err
	}
	op, ok := errors.AsType[*net.OpError](err)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded) || ok && op.Op == "read" {
		return clientError{err}
	}
	return err
}
