//go:build !small

package icap

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"time"

	httpmessage "shuultuur/lib/message"
)

// An exchange is one ICAP request and its response. Writing and reading run concurrently,
// because a server may respond, or start to send the message back, before it has received all
// of it.
type exchange struct {
	c       *Check
	ctx     context.Context
	s       *server
	l       *link
	m       *message
	head    []byte // not yet sent
	preview []byte // of the body, not yet sent
	room    int    // bytes left for the preview; -1 after the preview
	sent    int64  // bytes of the body
	sum     maphash.Hash

	answers chan answer // from the reading goroutine
	ended   chan struct{}
	stop    func() bool
	reply   *reply
	err     error
	whole   bool // the whole message was sent
	parts   net.Buffers
}

// An answer is a message from the server: a request for the rest of the body, or its reply.
type answer struct {
	more  bool
	reply *reply
	err   error
}

// begin starts an exchange on l.
func (c *Check) begin(ctx context.Context, s *server, l *link, o *options, m *message) *exchange {
	x := &exchange{c: c, ctx: ctx, s: s, l: l, m: m, answers: make(chan answer, 2), ended: make(chan struct{}), room: -1}
	if m.body != nil {
		x.room = o.previewOf(m.t.URL)
	}
	x.head = appendHead(nil, s, o, m, x.room, c.clients)
	x.sum.SetSeed(c.seed)
	_ = l.SetDeadline(time.Time{}) // without a deadline until a read or write sets one
	x.stop = context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })
	go x.read()
	c.counters[asked].Add(1)
	return x
}

// read reads the server's answers.
func (x *exchange) read() {
	defer close(x.ended)
	// A page that does not end delays its verdict only this long.
	var page *time.Timer
	late := func() { page = time.AfterFunc(pageWait, func() { _ = x.l.SetReadDeadline(time.Unix(1, 0)) }) }
	defer func() {
		if page != nil && !page.Stop() {
			x.l.Close()
		}
	}()
	for {
		r, err := readReply(x.l.r, x.c, late)
		if err == nil && r.status == 100 && len(r.verdict) == 0 {
			x.l.stale = false
			x.answers <- answer{more: true}
			if r, err = readReply(x.l.r, x.c, late); err == nil && r.status == 100 && len(r.verdict) == 0 {
				err = fmt.Errorf("the server sent %q twice", r.line)
			}
		}
		x.answers <- answer{reply: r, err: err}
		return
	}
}

// deadline returns the deadline for the next wait.
func (x *exchange) deadline() time.Time {
	end := time.Now().Add(x.c.timeout)
	if d, ok := x.ctx.Deadline(); ok && d.Before(end) {
		end = d
	}
	return end
}

// isOver reports whether the rest of the body need not be sent.
func (x *exchange) isOver() bool {
	if x.reply == nil && x.err == nil && x.room < 0 {
		select {
		case a := <-x.answers:
			x.take(a)
		default:
		}
	}
	return x.reply != nil || x.err != nil
}

func (x *exchange) take(a answer) {
	if a.more {
		if x.whole {
			x.err = errors.New("the server asks for more after the end of the body")
		}
		return
	}
	x.reply, x.err = a.reply, a.err
}

// write sends the next bytes of the body. Bytes for the preview are buffered until it is
// complete and more follows.
func (x *exchange) write(p []byte) {
	x.sent += int64(len(p))
	_, _ = x.sum.Write(p)
	if x.isOver() {
		return
	}
	if x.room >= 0 {
		n := min(len(p), x.room)
		x.preview = append(x.preview, p[:n]...)
		x.room -= n
		if p = p[n:]; len(p) == 0 {
			return
		}
		x.endPreview("0\r\n\r\n")
		if x.isOver() {
			return
		}
	}
	x.chunk(p)
}

// chunk sends a chunk, after anything still unsent. It does not copy the bytes.
func (x *exchange) chunk(p []byte) {
	x.head = httpmessage.AppendChunk(x.head, len(p))
	x.send(x.head, p, crlf)
	x.head = x.head[:0]
}

var crlf = []byte("\r\n")

// endPreview sends the preview and waits for the answer to it.
func (x *exchange) endPreview(end string) {
	if len(x.preview) > 0 {
		x.head = httpmessage.AppendChunk(x.head, len(x.preview))
		x.head = append(append(x.head, x.preview...), crlf...)
	}
	x.room = -1
	x.whole = end != "0\r\n\r\n"
	x.send(append(x.head, end...))
	x.head, x.preview = x.head[:0], nil
	if !x.whole {
		x.await()
		x.whole = x.reply != nil // after a reply to its preview, the client sends nothing more
	}
}

// send writes parts, and sets x.err if that fails.
func (x *exchange) send(parts ...[]byte) {
	if x.err != nil || x.reply != nil {
		return
	}
	_ = x.l.SetWriteDeadline(x.deadline())
	x.parts = append(x.parts[:0], parts...)
	all := x.parts
	if _, err := all.WriteTo(x.l.Conn); err != nil {
		// The server may have answered before it closed.
		_ = x.l.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		x.take(<-x.answers)
		if x.err != nil || x.reply == nil {
			x.err, x.reply = err, nil
		}
	}
}

// await waits for the next answer. No answer follows a reply or an error.
func (x *exchange) await() {
	if x.reply != nil || x.err != nil {
		return
	}
	_ = x.l.SetReadDeadline(x.deadline())
	if x.ctx.Err() != nil { // canceled before the deadline was set
		_ = x.l.SetDeadline(time.Unix(1, 0))
	}
	x.take(<-x.answers)
	_ = x.l.SetReadDeadline(time.Time{})
}

// finish ends the body and returns the server's reply.
func (x *exchange) finish() (*reply, error) {
	switch {
	case x.isOver():
	case x.room >= 0:
		x.endPreview("0; ieof\r\n\r\n")
	case x.m.body == nil:
		x.whole = true
		x.send(x.head)
	default:
		x.send(append(x.head, "0\r\n\r\n"...))
		x.whole = x.err == nil && x.reply == nil
	}
	for x.reply == nil && x.err == nil {
		x.await()
	}
	r, err := x.reply, x.err
	if err == nil {
		x.l.stale = false
		err = r.fault()
	}
	if err != nil {
		return nil, &failure{s: x.s, err: fmt.Errorf("%s: %w", x.m.method, err), stale: x.l.stale}
	}
	x.s.refreshOptions(r.fields["istag"])
	r.by, r.asked.length, r.asked.sum = x.s.url, x.sent, x.sum.Sum64()
	return r, nil
}

// close keeps the connection if it can be reused. The caller must call it.
func (x *exchange) close() {
	clean := x.reply != nil && x.err == nil && x.whole && !x.reply.close
	if !x.stop() || !clean {
		x.l.Close()
		<-x.ended
		return
	}
	<-x.ended
	x.s.putIdle(x.l)
}
