package virus

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

const (
	chunk    = 64 << 10 // bytes sent at once
	maxReply = 4 << 10  // bytes
)

// A scanner is one clamd, and connections to it that nobody uses.
type scanner struct {
	network, address string
	timeout          time.Duration
	idle             chan *session
}

// A session is a connection on which one stream is scanned after another
// (IDSESSION).
type session struct {
	net.Conn
	r *bufio.Reader
}

// newScanner reads an address: /path/to/socket, unix:/path or host:port.
func newScanner(at string, timeout time.Duration, keep int) (*scanner, error) {
	s := &scanner{timeout: timeout, idle: make(chan *session, keep)}
	path, unix := strings.CutPrefix(at, "unix:")
	if unix || strings.HasPrefix(at, "/") {
		s.network, s.address = "unix", path
		return s, nil
	}
	s.network, s.address = "tcp", strings.TrimPrefix(at, "tcp:")
	if _, _, err := net.SplitHostPort(s.address); err != nil {
		return nil, fmt.Errorf(`%q is not where a scanner listens; write it like "/run/clamav/clamd.ctl" or "127.0.0.1:3310"`, at)
	}
	return s, nil
}

// scan returns the name of what clamd finds in a body, "" when it finds
// nothing. A connection that was kept and is closed by now is replaced once.
func (s *scanner) scan(ctx context.Context, body []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	select {
	case c := <-s.idle:
		name, err := s.try(ctx, c, body)
		if _, answered := errors.AsType[*answerError](err); err == nil || answered || ctx.Err() != nil {
			return name, err
		}
	default:
	}
	c, err := s.dial(ctx)
	if err != nil {
		return "", err
	}
	return s.try(ctx, c, body)
}

func (s *scanner) dial(ctx context.Context) (*session, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, s.network, s.address)
	if err != nil {
		return nil, fmt.Errorf("connect to clamd: %w; is it running?", err)
	}
	end, _ := ctx.Deadline()
	_ = c.SetDeadline(end) // the write says what is wrong
	if _, err := c.Write([]byte("zIDSESSION\x00")); err != nil {
		c.Close()
		return nil, fmt.Errorf("begin a session with clamd at %s: %w", s.address, err)
	}
	return &session{c, bufio.NewReaderSize(c, maxReply)}, nil
}

// An answerError is an error that clamd reports.
type answerError struct{ text string }

func (e *answerError) Error() string { return "clamd says: " + e.text }

// try scans a body on c, and keeps or closes c.
func (s *scanner) try(ctx context.Context, c *session, body []byte) (name string, err error) {
	end, _ := ctx.Deadline()
	_ = c.SetDeadline(end)
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	reply, err := c.stream(body)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return "", fmt.Errorf("have clamd at %s scan %d bytes: %w", s.address, len(body), err)
	}
	name, err = parseReply(reply)
	if err != nil { // such as a stream that is longer than StreamMaxLength: clamd ends the session
		c.Close()
		return "", err
	}
	select {
	case s.idle <- c:
	default:
		c.Close()
	}
	return name, nil
}

// stream sends a body and returns the reply.
func (c *session) stream(body []byte) (string, error) {
	if _, err := c.Write([]byte("zINSTREAM\x00")); err != nil {
		return "", err
	}
	var size [4]byte
	for len(body) > 0 {
		n := min(chunk, len(body))
		binary.BigEndian.PutUint32(size[:], uint32(n))
		parts := net.Buffers{size[:], body[:n]}
		if _, err := parts.WriteTo(c.Conn); err != nil {
			if c.r.Buffered() == 0 { // clamd may have said why
				_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			}
			if reply, e := c.r.ReadString(0); e == nil {
				return reply, nil
			}
			return "", err
		}
		body = body[n:]
	}
	if _, err := c.Write([]byte{0, 0, 0, 0}); err != nil {
		return "", err
	}
	reply, err := c.r.ReadSlice(0)
	return string(reply), err
}

// parseReply reads a reply such as "1: stream: Eicar-Test FOUND".
func parseReply(reply string) (name string, err error) {
	reply = strings.TrimRight(reply, "\x00\n")
	text := reply
	if id, rest, ok := strings.Cut(reply, ": "); ok && strings.Trim(id, "0123456789") == "" {
		text = rest
	}
	text = strings.TrimPrefix(text, "stream: ")
	switch {
	case text == "OK":
		return "", nil
	case strings.HasSuffix(text, " FOUND"):
		return strings.TrimSuffix(text, " FOUND"), nil
	}
	return "", &answerError{fmt.Sprintf("%.200q", text)}
}

func (s *scanner) close() {
	for {
		select {
		case c := <-s.idle:
			c.Close()
		default:
			return
		}
	}
}
