package icap

import (
	"bytes"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/message"
	"shuultuur/proxy/exchange"
)

// This file writes the answers about messages.

// pass forwards a request. If no body is sent back, the answer is still to be flushed.
func (c *conn) pass(x *transaction, changed bool) error {
	b := x.Q.Body
	switch {
	case !changed && c.mayBe204(b):
		c.unmodified()
		return nil
	case changed:
		c.heads = appendRequest(c.heads[:0], x)
	default:
		c.heads = append(c.heads[:0], x.Q.Raw()...)
	}
	if b == nil {
		c.begin200("req-hdr=0, null-body=", len(c.heads))
		c.s.add(modified)
		return nil
	}
	if c.h.allow.partial && b == message.Body(&c.body) {
		c.s.add(partial)
		c.beginStatus(206, "req-hdr=0, req-body=", len(c.heads))
		c.out = append(c.out, "0; use-original-body=0\r\n\r\n"...)
		return nil
	}
	c.s.add(modified)
	if err := c.requestRestUnlessDone(); err != nil {
		return err
	}
	c.begin200("req-hdr=0, req-body=", len(c.heads))
	n, err := c.copyBody(b)
	x.T.BytesIn = max(x.T.BytesIn, n)
	return err
}

// passResponse forwards a response.
func (c *conn) passResponse(x *transaction) error {
	s := &x.res
	x.T.Status = s.Status
	b := s.Body
	if n, err := strconv.ParseInt(string(s.Get("Content-Length")), 10, 63); err == nil && b != nil {
		x.T.BytesOut = n
	} else if b != nil && b.Remaining() > 0 {
		x.T.BytesOut = b.Remaining()
	}
	defer func() { x.T.Duration = time.Since(x.T.Start) }()
	if c.mayBe204(b) {
		c.unmodified()
		return c.flush()
	}
	c.s.add(modified)
	c.heads = append(c.heads[:0], s.Raw()...)
	if b == nil {
		c.begin200("res-hdr=0, null-body=", len(c.heads))
		return c.flush()
	}
	if err := c.requestRestUnlessDone(); err != nil {
		return err
	}
	c.heads = appendLength(c.heads, s, b)
	c.begin200("res-hdr=0, res-body=", len(c.heads))
	announced := x.T.BytesOut
	n, err := c.copyBody(b)
	x.T.BytesOut = n
	if err != nil {
		x.Note(err.Error())
	}
	if err == exchange.ErrCut && (exchange.EndsWithNotice(b) || n < announced && s.Get("Content-Length") != nil) {
		// The reader sees that the rest is missing, so this answer can end in order: a proxy counts
		// one that breaks off as a failure of ours, and soon asks no more.
		c.out = message.AppendLastChunk(c.out, nil)
		return c.flush()
	}
	return err
}

// appendLength adds the length of a complete body to a head without one. Squid
// sometimes ends a body without a length before its last chunk (its bug 5550),
// which clients take for an incomplete one.
func appendLength(head []byte, s *message.Response, b message.Body) []byte {
	if !exchange.VerdictIsFinal(b) || b.Remaining() < 0 || s.Get("Content-Length") != nil || s.Get("Transfer-Encoding") != nil || !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		return head
	}
	head = append(head[:len(head)-2], "Content-Length: "...)
	return append(strconv.AppendInt(head, b.Remaining(), 10), "\r\n\r\n"...)
}

// mayBe204 reports whether 204 may be the answer: the client has allowed it, or
// waits for an answer to its preview (RFC 3507, 4.6).
func (c *conn) mayBe204(b message.Body) bool {
	switch {
	case b != nil && !exchange.VerdictIsFinal(b):
		return false // a part of the body is not judged yet
	case c.h.allow.no:
		return true
	}
	return c.h.preview >= 0 && !c.body.continued // this answers the preview
}

func (c *conn) unmodified() {
	c.s.add(unmodified)
	c.out = c.status(c.out, 204)
	c.out = append(c.out, "Encapsulated: null-body=0\r\n\r\n"...)
}

// requestRestUnlessDone requests the rest of a body that is sent back.
func (c *conn) requestRestUnlessDone() error {
	if c.body.continued {
		return nil
	}
	return c.requestRest()
}

// answer sends our response instead of the message.
func (c *conn) answer(x *transaction, s *message.Response) error {
	c.s.add(answered)
	x.T.Status, x.T.BytesOut = s.Status, s.Length
	defer func() { x.T.Duration = time.Since(x.T.Start) }()
	c.heads = append(c.heads[:0], "HTTP/1.1 "...)
	c.heads = strconv.AppendInt(c.heads, int64(s.Status), 10)
	c.heads = append(append(append(c.heads, ' '), s.Reason...), "\r\n"...)
	c.heads = appendFields(c.heads, s.Fields)
	c.heads = append(c.heads, "\r\n"...)
	if x.Q.Method == "HEAD" || s.Length == 0 {
		x.T.BytesOut = 0
		c.begin200("res-hdr=0, null-body=", len(c.heads))
		return c.flush()
	}
	c.begin200("res-hdr=0, res-body=", len(c.heads))
	_, err := c.copyBody(s.Body)
	return err
}

func (c *conn) begin200(encapsulated string, n int) { c.beginStatus(200, encapsulated, n) }

// beginStatus begins a response with the HTTP head in c.heads.
func (c *conn) beginStatus(status int, encapsulated string, n int) {
	c.out = c.status(c.out, status)
	c.out = append(append(c.out, "Encapsulated: "...), encapsulated...)
	c.out = strconv.AppendInt(c.out, int64(n), 10)
	c.out = append(c.out, "\r\n\r\n"...)
	c.out = append(c.out, c.heads...)
}

// copyBody sends a body in chunks, and ends the message.
func (c *conn) copyBody(b message.Body) (n int64, err error) {
	for !b.AtEnd() {
		c.parts = b.Ready(c.parts[:0])
		k := 0
		for _, p := range c.parts {
			k += len(p)
		}
		if k > 0 {
			c.out = message.AppendChunk(c.out, k)
			if len(c.out)+k <= writeSize {
				for _, p := range c.parts {
					c.out = append(c.out, p...)
				}
			} else if err := c.writeParts(); err != nil {
				return n, err
			}
			b.Skip(k)
		} else {
			if len(c.out) > 0 && !b.AtEnd() { // the rest may take a while to arrive
				if err := c.flush(); err != nil {
					return n, err
				}
			}
			if c.buf == nil {
				c.buf = make([]byte, writeSize)
			}
			k, err = b.Read(c.buf)
			if k > 0 {
				c.out = message.AppendChunk(c.out, k)
				c.out = append(c.out, c.buf[:k]...)
			}
			switch {
			case err == io.EOF && k == 0:
				c.out = message.AppendLastChunk(c.out, nil)
				return n, c.flush()
			case err != nil && err != io.EOF:
				return n, err
			case k == 0:
				continue
			}
		}
		n += int64(k)
		c.out = append(c.out, "\r\n"...)
	}
	c.out = message.AppendLastChunk(c.out, nil)
	return n, c.flush()
}

// writeParts sends the bytes written so far and c.parts after them.
func (c *conn) writeParts() error {
	c.bufs = append(append(c.bufs[:0], c.out), c.parts...)
	c.net.armWrite()
	all := c.bufs
	_, err := all.WriteTo(c.net.Conn)
	clear(c.bufs)
	c.out = c.out[:0]
	return err
}

func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.net.Write(c.out)
	c.out = c.out[:0]
	return err
}

// appendRequest appends the head of the forwarded request.
func appendRequest(dst []byte, x *transaction) []byte {
	q := &x.out
	dst = append(append(dst, q.Method...), ' ')
	if x.Q.Form == message.Absolute {
		dst = appendURL(dst, scheme(&x.T), &x.T, q.Path)
		if user := ftpUser(x.Q.Target); user != nil {
			dst = slices.Insert(dst, bytes.Index(dst, []byte("://"))+3, user...)
		}
	} else {
		dst = append(dst, q.Path...)
	}
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	host := net.JoinHostPort(x.T.Host, strconv.Itoa(int(x.T.Port)))
	if x.T.Port == defaultPort(scheme(&x.T)) {
		host = strings.TrimSuffix(host, ":"+strconv.Itoa(int(x.T.Port)))
	}
	dst = append(append(dst, host...), "\r\n"...)
	return append(appendFields(dst, q.Fields), "\r\n"...)
}

// ftpUser returns the user in an address, with the sign behind it, nil if there is none. Servers of FTP
// give each user other files.
func ftpUser(target []byte) []byte {
	rest, ok := bytes.CutPrefix(target, []byte("ftp://"))
	if !ok {
		return nil
	}
	if i := bytes.IndexAny(rest, "/?"); i >= 0 {
		rest = rest[:i]
	}
	return rest[:bytes.IndexByte(rest, '@')+1]
}

// appendFields appends field lines. It leaves out values that would end a line.
func appendFields(dst []byte, fields message.Fields) []byte {
	for _, f := range fields {
		if len(f.Name) == 0 || bytes.ContainsAny(f.Name, "\r\n: ") || bytes.ContainsAny(f.Value, "\r\n\x00") {
			continue
		}
		dst = append(append(append(append(dst, f.Name...), ": "...), f.Value...), "\r\n"...)
	}
	return dst
}
