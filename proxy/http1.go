package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"shuultuur/lib/message"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/streams"
)

const (
	copyStep  = 1 << 20  // bytes copied between updates of deadlines
	blockSize = 64 << 10 // bytes written at once
	leastFile = 1 << 20  // bytes of a body from which on the kernel sends it from its file; for fewer, copying is cheaper, because sending wakes the client more often
)

// interim forwards a 1xx response other than 101.
func (c *conn) interim(s *message.Response) error {
	c.takeOut()
	c.head(s, message.None, true, true, false)
	c.c.SetWriteDeadline(deadlineIn(c.p.answer)) // the one for reading is that of the request's body
	_, err := c.c.Write(c.out)
	return err
}

// respond sends a response; ours says that it does not come from upstream.
func (c *conn) respond(s *message.Response, ours bool) outcome {
	x := &c.x
	if x.started {
		c.cut()
		return closing
	}
	if c.vigil.gone.Load() {
		return x.lostClient(net.ErrClosed)
	}
	c.vigil.speak()
	keep := c.staysOpen(ours)
	framing := s.Length
	switch {
	case framing >= 0:
	case x.q.Proto == 10: // HTTP/1.0 has no chunks
		framing, keep = message.UntilClose, false
	default:
		framing = message.Chunked
	}
	bodiless := x.q.Method == "HEAD" || s.Status == 204 || s.Status == 304
	c.takeOut()
	c.head(s, framing, bodiless, keep, ours)
	x.started = true
	x.t.Status = s.Status
	var err error
	switch {
	case bodiless:
		c.parts = append(c.parts[:0], c.out)
		err = c.write()
	case framing == message.Chunked:
		err = c.sendChunks(x, s)
	default:
		err = c.sendBytes(x, s)
	}
	switch e, ok := err.(clientError); {
	case ok:
		return x.lostClient(e.error)
	case err == nil && keep:
		return another
	case err == nil:
		return closing
	case err == exchange.ErrCut && x.q.Proto != 10:
		if st, ok := c.c.(*streams.Stream); ok && exchange.EndsWithNotice(s.Body) {
			_ = st.EndEarly() // a reset would make browsers discard the notice
		}
		c.lost = true // its framing shows that the body is incomplete
		return closing
	case c.vigil.gone.Load():
		return x.lostClient(err)
	case err != exchange.ErrCut && err != exchange.ErrGone:
		x.ex.Note("response ended early: " + err.Error())
	}
	c.cut()
	return closing
}

// staysOpen reports whether the connection stays open after the response.
func (c *conn) staysOpen(ours bool) bool {
	q, b := c.x.q, c.body.FramedBody
	if ours && !c.x.ex.StopUpload() { // the client may still be sending, and would not read the answer after a reset
		c.lost = true
		return false
	}
	if q.Close || c.l.draining.Load() {
		c.lost = c.lost || ours && b != nil && !b.AtEnd()
		return false
	}
	if !ours {
		return c.body.isComplete()
	}
	// While the body goes upstream, nothing else is sent. The rest of the body is read here,
	// so that the next request can follow.
	if c.body.broken.Load() {
		return false
	}
	if b == nil || b.AtEnd() {
		return true
	}
	if q.Expect && !c.x.continued && len(c.r.Buffered()) == 0 {
		return false // it is unknown whether the body will follow
	}
	if b.Discard(256<<10) != nil {
		c.lost = true
		return false
	}
	return true
}

// sendBytes sends the head and a body of known length, or one that ends with the connection.
func (c *conn) sendBytes(x *request, s *message.Response) error {
	body := s.Body
	if left := body.Remaining(); c.tcp != nil && left >= leastFile {
		if f, ok := body.(message.FileBody); ok {
			if file, off := f.File(); file != nil {
				return sendFromFile(c, x, body, file, off)
			}
		}
	}
	c.ready = body.Ready(c.ready[:0])
	n := size(c.ready)
	copied := n <= cap(c.out)-len(c.out)
	if body.Remaining() == int64(n) {
		x.yield() // a slow client blocks no other
	}
	if copied { // for most short responses, the origin's connection is free before they are sent
		for _, p := range c.ready {
			c.out = append(c.out, p...)
		}
		body.Skip(n)
		c.ready = c.ready[:0]
	}
	c.parts = append(append(c.parts[:0], c.out), c.ready...)
	if err := c.write(); err != nil {
		return clientError{err}
	}
	if !copied {
		body.Skip(n)
	}
	x.sent(int64(n))
	x.yield()
	return copyBytes(c, x, body)
}

// copyBytes sends the rest of a body that is not chunked.
func copyBytes(c *conn, x *request, body message.Body) error {
	c.to.Conn, c.passage.Client = c.c, x.addr
	for !body.AtEnd() {
		step := min(copyStep, body.Remaining())
		if step < 0 { // until close
			step = blockSize
		}
		c.slim()
		n, err := body.Copy(&c.to, step)
		x.sent(n)
		if err != nil {
			return err
		}
	}
	return nil
}

// sendFromFile sends the head and a body in a file, from off on.
func sendFromFile(c *conn, x *request, body message.Body, file *os.File, off int64) error {
	x.yield()
	end := off + body.Remaining()
	head := c.out
	c.out = c.out[:0]
	for off < end {
		step := min(copyStep, end-off)
		c.arm(time.Now(), c.p.answer)
		n, rest, err := sendFile(c.tcp, head, file, off, step)
		moved := n > 0 || len(rest) < len(head)
		off += n
		head = rest
		x.sent(n)
		switch {
		case moved && errors.Is(err, os.ErrDeadlineExceeded): // slow, not silent
		case err == errFile: // the file system does not support it; the body is also in memory
			return copyBytes(c, x, body)
		case err != nil && n < step && errors.Is(err, syscall.EIO):
			return err
		case err != nil:
			return clientError{err}
		}
		body.Skip(int(n))
	}
	return nil
}

// sendChunks sends the head and a body in chunks as they arrive.
func (c *conn) sendChunks(x *request, s *message.Response) error {
	body := s.Body
	c.ready = body.Ready(c.ready[:0])
	n := size(c.ready)
	if body.Remaining() == int64(n) {
		x.yield()
		err := c.chunk(c.ready, n, true, body.Trailer())
		if err != nil {
			return clientError{err}
		}
		body.Skip(n)
		x.sent(int64(n))
		return nil
	}
	if n == 0 { // the first byte may take long
		if err := c.chunk(nil, 0, false, nil); err != nil {
			return clientError{err}
		}
	}
	c.passage.Client = x.addr
	defer c.passage.Free()
	for last := false; !last; {
		block, err := c.passage.Next(&c.to)
		if err != nil {
			return clientError{err}
		}
		data := message.ChunkRoom(block)
		n, err := body.Read(data)
		if err != nil && err != io.EOF {
			return err
		}
		if last = body.AtEnd(); n == 0 && !last {
			continue
		}
		if len(c.out) > 0 { // the head
			c.ready = append(c.ready[:0], data[:n])
			err = c.chunk(c.ready, n, last, body.Trailer())
		} else {
			_, err = c.to.Write(message.FrameChunk(block, n, last, body.Trailer()))
		}
		if err != nil {
			return clientError{err}
		}
		x.sent(int64(n))
		x.yield()
		if !last {
			c.slim()
		}
	}
	return nil
}

// chunk writes c.out (a head, or nothing) and n bytes as one chunk; last ends the body.
func (c *conn) chunk(data [][]byte, n int, last bool, trailer message.Fields) error {
	c.tail = c.tail[:0]
	if n > 0 {
		c.out = message.AppendChunk(c.out, n)
		c.tail = append(c.tail, "\r\n"...)
	}
	if last {
		c.tail = message.AppendLastChunk(c.tail, trailer)
	}
	c.parts = append(append(append(c.parts[:0], c.out), data...), c.tail)
	return c.write()
}

// write writes c.parts, the first of which is c.out, in one system call.
func (c *conn) write() error {
	n := size(c.parts)
	c.to.Conn = c.c
	defer func() {
		clear(c.parts)
		c.out = c.out[:0]
	}()
	if len(c.parts) == 1 {
		_, err := c.to.Write(c.parts[0])
		return err
	}
	if c.tcp == nil && n <= blockSize {
		// One record and one system call for parts that TLS would send separately.
		block := c.p.memory.Block(int64(n))
		defer func() { c.p.memory.Free(block) }()
		for _, p := range c.parts {
			block = append(block, p...)
		}
		_, err := c.to.Write(block)
		return err
	}
	c.bufs = net.Buffers(c.parts)
	return c.to.WriteBuffers(&c.bufs)
}

func size(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}

// head makes the head of a response. framing is the length of the body to be written. A
// bodiless response has none, although its head may contain a length (HEAD, 304).
func (c *conn) head(s *message.Response, framing int64, bodiless, keep, ours bool) {
	b := append(c.out[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(s.Status), 10)
	b = append(append(append(b, ' '), s.Reason...), "\r\n"...)
	list := s.Fields.ConnectionNames()
	for _, f := range s.Fields {
		if !ours && (list != nil && message.NameIn(list, f.Name) || message.HopByHop(f.Name)) {
			continue
		}
		switch n := len(f.Name); {
		case n == 14 && message.EqualName(f.Name, "content-length"): // rewritten, unless it is the length of a body that is not sent
			if !bodiless || s.Status == 204 {
				continue
			}
		case n == 7 && framing != message.Chunked && message.EqualName(f.Name, "trailer"):
			continue
		case n == 7 && message.EqualName(f.Name, "alt-svc"): // HTTP/3 would bypass the proxy
			continue
		}
		b = append(append(append(b, f.Name...), ": "...), f.Value...)
		b = append(b, "\r\n"...)
	}
	if via := c.p.viaResponses[s.Proto%10]; !ours && via != nil {
		b = append(append(append(b, "Via: "...), via...), "\r\n"...)
	}
	switch {
	case bodiless || s.Status < 200:
	case framing >= 0:
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, framing, 10), "\r\n"...)
	case framing == message.Chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	if s.Status >= 200 {
		b = c.x.proof.append(b)
	}
	switch {
	case s.Status == 101:
		b = append(append(append(b, "Connection: Upgrade\r\nUpgrade: "...), s.Upgrade...), "\r\n"...)
	case s.Status < 200:
	case !keep:
		b = append(b, "Connection: close\r\n"...)
	case c.x.q.Proto == 10:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	c.out = append(b, "\r\n"...)
	c.x.t.HeadOut += int64(len(c.out))
}
