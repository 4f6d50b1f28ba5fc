//go:build !small

package icap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"shuultuur/content"
)

// A stream is a body that is sent to a scanner while it arrives. When it fails, another server can
// be asked only if the body is kept. It implements [content.Taker].
type stream struct {
	c     *Check
	who   netip.Addr
	s     *server
	x     *exchange
	end   context.CancelFunc
	reply *reply
	err   error
	over  bool // reply and err are final

	counted bool // err is in the metrics
}

// askStream sends to the server as much of the body as has arrived. The stream is nil if the
// beginning was not kept for it.
func (c *Check) askStream(ctx context.Context, m *message) (*stream, error) {
	taker, err := m.body.FeedTaker(c, func() content.Taker { return c.open(ctx, m) })
	switch {
	case errors.Is(err, content.ErrLate):
		return nil, &unreadError{err.Error()}
	case taker == nil:
		return nil, err
	}
	s := taker.(*stream)
	if !s.over && err != nil {
		switch {
		case err != io.EOF:
			s.finish(nil, &unreadError{err.Error()})
		case m.body.Unread() == content.TooLarge:
			s.finish(nil, &unreadError{"too large to be decoded"})
		default:
			s.finish(s.x.finish())
		}
	}
	if _, of, _ := m.body.Inspected(); !s.over && s.x.room < 0 && !m.body.Head().Coded() && of > c.largest {
		s.finish(nil, c.tooLarge()) // nor did the preview suffice
	}
	return s, nil
}

// open starts a query at the first reachable server.
func (c *Check) open(ctx context.Context, m *message) *stream {
	s := &stream{c: c}
	servers, err := c.order(m.method)
	if len(servers) == 0 && err == nil {
		err = errSkipped
	}
	for n, at := range servers {
		if n > 0 && err != errSkipped {
			c.counters[failovers].Add(1)
		}
		if err = c.openOne(ctx, s, at, m); err == nil {
			return s
		}
	}
	s.finish(nil, err)
	return s
}

// openOne starts a query on a new connection: a kept one may be closed, which would be noticed
// too late to retry.
func (c *Check) openOne(ctx context.Context, s *stream, at *server, m *message) error {
	o, err := at.service(ctx)
	switch {
	case err != nil:
		return err
	case !o.does(m.method), o.ignores(m.t.URL):
		return errSkipped
	}
	who := m.t.Client.Addr
	if !at.gate.Stream(who) { // slow bodies must leave connections for others
		return &failure{s: at, err: errors.New("all its connections for bodies that are still arriving are busy (checks.icap.connections)")}
	}
	wait, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := at.gate.Take(wait, who); err != nil {
		at.gate.EndStream(who)
		return &failure{s: at, err: fmt.Errorf("waiting for one of its connections: %w", err)}
	}
	if unused := at.takeIdle(); unused != nil { // the server counts it, too
		unused.Close()
	}
	l, err := at.dial(wait)
	if err != nil {
		at.gate.Give(who)
		at.gate.EndStream(who)
		return at.judge(ctx, err)
	}
	life, end := context.WithCancel(ctx)
	s.who, s.s, s.end, s.x = who, at, end, c.begin(life, at, l, o, m)
	return nil
}

// finish stores the reply and releases the connection.
func (s *stream) finish(r *reply, err error) {
	s.reply, s.err, s.over = r, err, true
	if s.x == nil {
		return
	}
	if err != nil {
		s.s.judge(s.x.ctx, err)
	}
	s.x.close()
	s.end()
	s.x = nil
	s.s.gate.Give(s.who)
	s.s.gate.EndStream(s.who)
}

// Take implements [content.Taker].
func (s *stream) Take(p []byte) {
	switch {
	case s.over:
		return
	case s.x.sent+int64(len(p)) > s.c.largest:
		s.finish(nil, s.c.tooLarge())
		return
	}
	if s.x.write(p); s.x.isOver() {
		s.finish(s.x.finish())
	}
}

// Close implements [content.Taker].
func (s *stream) Close() {
	if !s.over {
		s.finish(nil, errSkipped)
	}
}
