package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"shuultuur/lib/message"
)

// A reply is the current response and its body.
type reply struct {
	message.Response
	t       *Transport
	c       *Caller
	q       *message.Request
	conn    *conn        // nil once it was returned
	body    message.Body // of conn's reader or of an HTTP/2 stream; nil if nothing is left to read
	upload  upload
	sent    message.Body // that of q as it is sent: a sending of kept if there is one
	kept    *keptBody    // nil if it is not sent again
	unsent  bool         // nothing of the request has left
	trailer message.Fields
	unwatch func() // ends the watch over a context that is not the caller's own
	patient bool   // the end of the upload was waited for
	to      destination
	signs   bool     // the request signs in its connection
	signing *signing // and belongs to this sign-in of concurrent requests
}

// SwitchedBody is implemented by the Body of a response with status 101.
type SwitchedBody interface {
	// Conn returns the connection and the bytes already read from it. The caller then owns it;
	// Caller.Abort closes it until the next request.
	Conn() (c net.Conn, first []byte)
}

// begin prepares r for the response to q.
func (r *reply) begin(t *Transport, c *Caller, q *message.Request) {
	*r = reply{Response: r.Response, t: t, c: c, q: q, sent: q.Body, upload: r.upload}
	r.upload.begin(r)
}

// fail ends r, and returns err or its cause.
func (r *reply) fail(err error) error {
	failed := r.upload.stop()
	r.end()
	r.c.Session.end(r.signing)
	if e, ok := errors.AsType[*BodyError](failed); ok {
		return e
	}
	return err
}

// ask sends the request on l and reads the head of the response. received reports whether any
// of it arrived.
func (r *reply) ask(ctx context.Context, l *link, toParent bool) (received bool, err error) {
	if l.two != nil {
		if received, err = r.askTwo(ctx, l.two); err == nil {
			r.kept.begin()
			r.Personal = r.signs
			r.c.Session.end(r.signing)
			r.Body = r
			r.release()
		}
		return received, err
	}
	r.conn = l.conn
	if err := r.c.hold(r.conn); err != nil {
		return false, err
	}
	r.conn.arm(time.Now(), r.t.answer)
	if err := r.send(toParent); err != nil && (r.q.Body == nil || r.unsent) {
		return false, r.conn.explain(err)
	}
	// There may be a response although the body could not be sent (413).
	if received, err = r.receive(); err != nil {
		return received, r.conn.explain(err)
	}
	r.claim()
	r.kept.begin()
	if r.Body != nil {
		r.body = r.Body
	}
	r.Body = r
	if r.Status != 101 {
		r.release()
	} else if !r.upload.finished() {
		return true, &message.Error{Status: 502, Reason: "the origin switches protocols before it has read the request"}
	}
	return true, nil
}

// send writes the head, and the body if it is in memory.
func (r *reply) send(toParent bool) error {
	block := r.t.heads.Get().(*[headSize]byte)
	defer r.t.heads.Put(block)
	q := r.q
	out := r.t.appendHead(block[:0], q, toParent, r.c.Passed)
	if q.Body == nil {
		return r.write(out)
	}
	parts := r.sent.Ready(r.upload.parts[:0])
	r.upload.parts = parts
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if q.Length > 0 && int64(n) >= q.Length && len(out)+n <= len(block) {
		for _, p := range parts {
			out = append(out, p...)
		}
		err := r.write(out)
		if !r.unsent {
			r.sent.Skip(n)
		}
		clear(parts)
		return err
	}
	clear(parts)
	err := r.write(out)
	if err == nil {
		r.conn.unlimited()
		r.upload.start(r)
	}
	return err
}

// write writes the first bytes of the request.
func (r *reply) write(b []byte) error {
	n, err := r.conn.c.Write(b)
	r.unsent = n == 0 && err != nil
	return err
}

// mostInterim is how many 1xx responses may come before a response: some origins send one each
// second while they work.
const mostInterim = 1000

// receive reads the head of the response, and forwards 1xx responses before it.
func (r *reply) receive() (received bool, err error) {
	in := r.conn.r
	for n := range mostInterim {
		if err := in.ReadResponse(&r.Response, r.q.Method); err != nil {
			e, _ := errors.AsType[*message.Error](err)
			return n > 0 || e != nil || len(in.Buffered()) > 0, err
		}
		if r.Status >= 200 || r.Status == 101 {
			return true, nil
		}
		if r.c.Interim != nil {
			if err := r.c.Interim(&r.Response); err != nil {
				return true, err
			}
		}
	}
	return true, &message.Error{Status: 502, Reason: "too many 1xx responses"}
}

// claim makes the connection the client's own if the client signs in on it.
func (r *reply) claim() {
	u := r.conn
	offered, step := challenges(&r.Response)
	if u.own == "" && (r.signs || offered || u.asked) { // asked perhaps during the request
		u.own = r.c.ownKey(r.q, &r.to)
	}
	r.Personal = u.own != ""
	if u.signing = nil; step {
		u.signing = r.signing
	}
	if u.signing == nil {
		r.c.Session.end(r.signing)
	}
}

// release returns the connection as soon as it has no more bytes of this response. That is
// before the last bytes are written to the client, whose next request may arrive before that
// write returns.
func (r *reply) release() {
	if r.body != nil && !r.body.AtEnd() {
		return
	}
	if r.body != nil {
		// The trailer belongs to the reader, which the next request may use.
		for _, f := range r.body.Trailer() {
			r.trailer = append(r.trailer, message.Field{Name: bytes.Clone(f.Name), Value: bytes.Clone(f.Value)})
		}
		r.body.Close()
		r.body = nil
	}
	if r.conn == nil || r.Response.Close || r.Status == 101 {
		return
	}
	if r.conn.own != "" && !r.patient {
		// The client's next request needs this connection, and may come before Close.
		r.patient = true
		r.upload.await(uploadTime)
	}
	if !r.upload.finished() || r.upload.err != nil {
		return
	}
	u := r.conn
	r.conn = nil
	_ = r.c.hold(nil) // cannot fail without a closer
	r.t.keep(r.c, u)
}

// end closes a connection that was not returned.
func (r *reply) end() {
	if r.unwatch != nil {
		r.unwatch()
		r.unwatch = nil
	}
	if r.body != nil {
		r.body.Close()
		r.body = nil
	}
	if r.conn != nil {
		r.conn.Close()
		r.conn = nil
	}
	r.kept.close()
	_ = r.c.hold(nil) // cannot fail without a closer
}

// Close implements [message.Body].
func (r *reply) Close() error {
	if r.c == nil {
		return nil
	}
	if failed := r.upload.stop(); r.body == nil && failed == nil {
		r.release() // the request's body may have ended meanwhile
	}
	r.end()
	return nil
}

// Conn implements [SwitchedBody].
func (r *reply) Conn() (net.Conn, []byte) {
	u := r.conn
	r.conn = nil
	_ = r.c.hold(u.c) // if it was aborted, reading fails
	u.unlimited()
	u.c.SetDeadline(time.Time{})
	return u.c, u.r.Detach()
}

// Read implements [message.Body].
func (r *reply) Read(p []byte) (int, error) {
	if r.body == nil {
		return 0, io.EOF
	}
	n, err := r.body.Read(p)
	r.release()
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// ReadArrived implements [message.ArrivedReader].
func (r *reply) ReadArrived(p []byte) (n int) {
	if b, ok := r.body.(message.ArrivedReader); ok {
		n = b.ReadArrived(p)
		r.release()
	}
	return n
}

// Ready implements [message.Body].
func (r *reply) Ready(dst [][]byte) [][]byte {
	if r.body == nil {
		return dst
	}
	return r.body.Ready(dst)
}

// Skip implements [message.Body].
func (r *reply) Skip(n int) {
	if n > 0 {
		r.body.Skip(n)
		r.release()
	}
}

// Copy implements [message.Body].
func (r *reply) Copy(w io.Writer, max int64) (int64, error) {
	if r.body == nil {
		return 0, nil
	}
	n, err := r.body.Copy(w, max)
	r.release()
	return n, err
}

// Remaining implements [message.Body].
func (r *reply) Remaining() int64 {
	if r.body == nil {
		return 0
	}
	return r.body.Remaining()
}

// AtEnd implements [message.Body].
func (r *reply) AtEnd() bool { return r.body == nil || r.body.AtEnd() }

// Trailer implements [message.Body].
func (r *reply) Trailer() message.Fields { return r.trailer }

// begin returns the Caller of ctx, or a new one, and its reply to q.
func begin(ctx context.Context, t *Transport, q *message.Request) (*Caller, *reply) {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	watched := c != nil && ctx == context.Context(&c.ctx)
	if c == nil {
		c = new(Caller)
	}
	c.Note, c.Server, c.Parent = "", netip.Addr{}, false
	r := &c.reply
	r.begin(t, c, q)
	if !watched {
		over := make(chan struct{})
		stop := context.AfterFunc(ctx, func() { defer close(over); c.Abort() })
		r.unwatch = func() {
			if !stop() {
				<-over // else it would abort the caller's next request
			}
		}
	}
	return c, r
}
