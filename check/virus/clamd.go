//go:build !small

package virus

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/content"
	"shuultuur/lib/places"
)

const (
	chunk    = 64 << 10 // bytes sent at once
	maxReply = 4 << 10  // bytes
	// sessionLife is how long a session is kept: clamd may wait for its end before it reloads its
	// signatures (ConcurrentDatabaseReload no).
	sessionLife = 5 * time.Second
	// connectTime is the time for a scanner to accept a connection.
	connectTime = 2 * time.Second
)

// A scanner is one clamd and its unused connections.
type scanner struct {
	network, address string
	timeout          time.Duration
	idle             chan *session
	gate             places.Gate

	away   atomic.Pointer[outage] // nil while it works
	sick   atomic.Pointer[outage] // it answered that it has no memory, no disk or the like
	probed bool                   // guarded by Check.mu
}

// A session is a connection on which streams are scanned one after another (IDSESSION).
type session struct {
	net.Conn
	s          *scanner
	since      time.Time // it began
	r          *bufio.Reader
	earlyReply string // a reply that came before the end of the body
	sent       int64
	size       [4]byte
	parts      net.Buffers
}

// newScanner parses an address: /path/to/socket, unix:/path or host:port.
func newScanner(at string, timeout time.Duration, most, keep int) (*scanner, error) {
	s := &scanner{timeout: timeout, idle: make(chan *session, keep)}
	s.gate.Limit(most)
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

// scan returns the name of the virus that clamd finds in a complete body, "" if it finds none.
// If a kept connection turns out to be closed, it retries once on another.
func (s *scanner) scan(ctx context.Context, b *content.Body) (string, error) {
	select {
	case c := <-s.idle:
		name, err := s.try(ctx, c, b)
		if _, answered := errors.AsType[*answerError](err); err == nil || answered || ctx.Err() != nil {
			return name, err
		}
	default:
	}
	c, err := s.dial(ctx)
	if err != nil {
		return "", err
	}
	return s.try(ctx, c, b)
}

func (s *scanner) dial(ctx context.Context) (*session, error) {
	dialCtx, cancel := context.WithTimeout(ctx, min(connectTime, s.timeout))
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(dialCtx, s.network, s.address)
	if err != nil {
		return nil, unreached(err)
	}
	_ = c.SetDeadline(time.Now().Add(s.timeout)) // the write reports an error
	if _, err := c.Write([]byte("zIDSESSION\x00")); err != nil {
		c.Close()
		return nil, fmt.Errorf("starting a session with clamd at %s: %w", s.address, err)
	}
	return &session{Conn: c, s: s, since: time.Now(), r: bufio.NewReaderSize(c, maxReply)}, nil
}

// unreached is the error of a connection to clamd that could not be made.
func unreached(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("connecting to clamd: %w; add the user of the gateway to the group of the socket", err)
	}
	return fmt.Errorf("connecting to clamd: %w; is it running?", err)
}

// An answerError is an error reported by clamd.
type answerError struct{ text string }

// tooLarge reports whether the body is larger than this clamd takes. Another may take more.
func (e *answerError) tooLarge() bool { return strings.Contains(e.text, "size limit exceeded") }

// sick reports whether clamd says that it lacks something, rather than that the body is odd.
func (e *answerError) sick() bool {
	text := strings.ToLower(e.text)
	for _, lack := range [...]string{"memory", "temporary", "no space", "can't create", "can't write", "can't open", "too many open", "database", "cl_emem", "cl_etmp", "cl_ewrite", "cl_ecreat", "cl_eopen", "cl_emalfdb"} {
		if strings.Contains(text, lack) {
			return true
		}
	}
	return false
}

func (e *answerError) Error() string {
	if e.tooLarge() {
		return "clamd says: " + e.text + "; raise StreamMaxLength in clamd.conf"
	}
	return "clamd says: " + e.text
}

// try scans a body on c, and then keeps or closes c.
func (s *scanner) try(ctx context.Context, c *session, b *content.Body) (name string, err error) {
	end, _ := ctx.Deadline()
	_ = c.SetDeadline(end)
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err = c.begin()
	for p, broken := range b.Blocks() {
		if err != nil || c.earlyReply != "" {
			break
		}
		if broken != nil {
			stop()
			c.Close()
			return "", &unreadError{broken}
		}
		err = c.chunk(p)
	}
	if err == nil {
		name, err = c.end()
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	return name, c.leave(err)
}

// begin starts the stream of a body.
func (c *session) begin() error {
	c.sent, c.earlyReply = 0, ""
	_, err := c.Write([]byte("zINSTREAM\x00"))
	return err
}

// chunk sends the next bytes of a body. It does not copy them.
func (c *session) chunk(p []byte) error {
	for len(p) > 0 {
		n := min(chunk, len(p))
		binary.BigEndian.PutUint32(c.size[:], uint32(n))
		c.parts = append(c.parts[:0], c.size[:], p[:n])
		all := c.parts
		if _, err := all.WriteTo(c.Conn); err != nil {
			_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // clamd may have reported why
			if c.earlyReply, _ = c.r.ReadString(0); c.earlyReply != "" {
				return nil
			}
			return err
		}
		c.sent += int64(n)
		p = p[n:]
	}
	return nil
}

// end ends the stream and returns the name of the virus found in it.
func (c *session) end() (string, error) {
	reply := c.earlyReply
	if reply == "" {
		if _, err := c.Write([]byte{0, 0, 0, 0}); err != nil {
			return "", err
		}
		p, err := c.r.ReadSlice(0)
		if err != nil {
			return "", err
		}
		reply = string(p)
	}
	name, err := parseReply(reply)
	if err == nil && c.earlyReply != "" {
		if c.since = (time.Time{}); name == "" { // it cannot be kept in the middle of a stream
			err = errors.New("it answered before the end of the body")
		}
	}
	return name, err
}

// leave keeps or closes c after a body, and adds details to err.
func (c *session) leave(err error) error {
	if err != nil { // a stream longer than StreamMaxLength also ends the session
		c.Close()
		if _, answered := errors.AsType[*answerError](err); answered {
			return err
		}
		return fmt.Errorf("scanning %d bytes with clamd at %s: %w", c.sent, c.s.address, err)
	}
	c.s.keep(c)
	return nil
}

// keep keeps a session for the next body, until its life is over.
func (s *scanner) keep(c *session) {
	rest := sessionLife - time.Since(c.since)
	if rest > 0 {
		select {
		case s.idle <- c:
			time.AfterFunc(rest, s.closeOld)
			return
		default:
		}
	}
	c.Close()
}

// closeOld closes the kept sessions whose life is over.
func (s *scanner) closeOld() {
	for range len(s.idle) {
		select {
		case c := <-s.idle:
			if time.Since(c.since) < sessionLife {
				select {
				case s.idle <- c:
					continue
				default:
				}
			}
			c.Close()
		default:
			return
		}
	}
}

// parseReply parses a reply such as "1: stream: Eicar-Test FOUND".
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
