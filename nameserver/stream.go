package nameserver

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"shuultuur/lib/dns"
)

// accept serves the connections of a listener until it is closed.
func (s *Server) accept(ln listener) {
	for {
		x, err := s.next(ln)
		if err != nil {
			return
		}
		if ln.bare {
			s.streams.Go(func() { s.serveBare(x) })
		} else if ln.transport == dns.HTTPS {
			s.streams.Go(func() { s.serveHTTPS(x) })
		} else {
			s.streams.Go(func() { s.serveStream(x, ln.transport) })
		}
	}
}

// next returns the next connection within the limits.
func (s *Server) next(ln net.Listener) (*conn, error) {
	var pause time.Duration
	for {
		nc, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		if err != nil { // out of descriptors, or the client has gone: a temporary error
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.logger.Warn("accept", "error", err, "pause", pause)
			time.Sleep(pause)
			continue
		}
		pause = 0
		if x, ok := s.admit(nc); ok {
			return x, nil
		}
	}
}

// A stream is one connection over TCP or TLS (RFC 7766, 7858). Queries are
// answered in order, except those that must wait. All replies that are ready go
// out in one write.
type stream struct {
	handler
	raw *conn
	c   net.Conn
	r   *bufio.Reader
	msg []byte // the query
	buf []byte // its reply
	out []byte // replies to be written, with their lengths

	slots chan struct{} // queries in progress on workers
	mu    sync.Mutex    // of writing
}

func (s *Server) serveStream(x *conn, t dns.Transport) {
	defer x.Close()
	st := &stream{handler: s.newHandler(), raw: x, c: x, slots: make(chan struct{}, s.rules.Load().pipeline)}
	if t == dns.TLS {
		c, ok := s.handshake(x, s.tls.tls)
		if !ok {
			return
		}
		st.c, st.q.ClientID = c, x.named
	} else if x.once.Do(x.header); x.err != nil {
		return
	}
	st.r = bufio.NewReaderSize(st.c, readSize)
	st.buf = make([]byte, 0, 2048)
	st.send = st.frame
	x.flush = func() {
		if !st.flush() {
			x.Conn.Close() // the next read fails
		}
	}
	st.q.Client, st.q.Local, st.q.Transport = x.client, x.local(), t
	st.serve()
	for range cap(st.slots) { // until queries in progress have been delivered
		st.slots <- struct{}{}
	}
	if s.stopping.Load() && st.flush() && x.writeGathered() == nil {
		x.linger(st.c) // the next query may be on its way, and a reset would take the replies along
	}
	st.c.Close()
}

// serve answers queries until the client sends no more, is silent, or breaks
// the framing.
func (st *stream) serve() {
	for {
		msg, err := st.read()
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				st.drop(badFrame)
			}
			return
		}
		st.q.At = time.Now()
		if !st.answerOne(msg) {
			return
		}
	}
}

// answerOne answers one query; false ends the connection.
func (st *stream) answerOne(msg []byte) bool {
	defer st.s.recovered(&st.handler)
	reply, o := st.answer(msg, st.buf[:0])
	switch o {
	case dns.Later:
		select {
		case st.slots <- struct{}{}:
		default: // a ready reply does not wait for a slot
			if !st.flush() || st.raw.writeGathered() != nil {
				return false
			}
			st.slots <- struct{}{}
		}
		st.s.queue.put(&st.handler, st, nil)
	case dns.Answered:
		if len(reply) == 0 {
			break // a transfer, which was sent already
		}
		if cap(reply) > cap(st.buf) && cap(reply) <= keptBuffer {
			st.buf = reply[:0]
		}
		st.out = binary.BigEndian.AppendUint16(st.out, uint16(len(reply)))
		st.out = append(st.out, reply...)
	}
	return len(st.out) < writeAt || st.flush()
}

// hasQuery reports whether another complete query has been read already.
func (st *stream) hasQuery() bool {
	n := st.r.Buffered()
	if n < frameBytes {
		return false
	}
	head, err := st.r.Peek(frameBytes)
	return err == nil && n >= frameBytes+int(binary.BigEndian.Uint16(head))
}

// read returns the next query. A connection without queries in progress may be
// silent for the idle time; once a query has begun, it must be complete within
// that time.
func (st *stream) read() ([]byte, error) {
	for {
		if !st.hasQuery() {
			st.raw.Conn.SetReadDeadline(time.Now().Add(st.s.rules.Load().idle))
			if st.s.stopping.Load() {
				return nil, net.ErrClosed
			}
		}
		if _, err := st.r.Peek(1); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) && len(st.slots) > 0 && !st.s.stopping.Load() {
				continue // it waits for us
			}
			return nil, err
		}
		break
	}
	head, err := st.r.Peek(frameBytes)
	if err != nil {
		return nil, unexpected(err)
	}
	n := int(binary.BigEndian.Uint16(head))
	st.r.Discard(frameBytes)
	if n > cap(st.msg) {
		st.msg = make([]byte, max(n, 512))
	}
	st.msg = st.msg[:n]
	_, err = io.ReadFull(st.r, st.msg)
	return st.msg, unexpected(err)
}

// unexpected is an end in the middle of a query.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// flush writes the collected replies; false if the client does not read them.
func (st *stream) flush() bool {
	if len(st.out) == 0 {
		return true
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.raw.Conn.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := st.c.Write(st.out)
	if st.out = st.out[:0]; cap(st.out) > 4*writeAt {
		st.out = nil
	}
	return err == nil
}

// frame writes one message at once: of a transfer.
func (st *stream) frame(msg []byte) error {
	if !st.flush() {
		return net.ErrClosed
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.write(msg)
}

func (st *stream) write(msg []byte) error {
	st.raw.Conn.SetWriteDeadline(time.Now().Add(writeTime))
	b := binary.BigEndian.AppendUint16(make([]byte, 0, frameBytes+len(msg)), uint16(len(msg)))
	_, err := st.c.Write(append(b, msg...)) // one segment, one record
	return err
}

// deliver implements sink.
func (st *stream) deliver(j *job) {
	if len(j.msg) > 0 {
		st.mu.Lock()
		if errors.Join(st.write(j.msg), st.raw.writeGathered()) != nil {
			st.raw.Conn.Close() // the reader notices and ends
		}
		st.mu.Unlock()
	}
	st.s.queue.release(j)
	<-st.slots
}
