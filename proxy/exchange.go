package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"shuultuur/filter"
	"shuultuur/message"
)

const (
	copyStep = 1 << 20  // bytes copied before deadlines are moved
	slowest  = 16 << 10 // bytes a second a client or origin must keep up, beside Config.Answer
)

// exchange sends the request upstream and the response back.
func (x *session) exchange() (more bool) {
	t := &x.t
	if x.requestBody() != nil && x.wants(filter.RequestBody) {
		if ok, more := x.judgeUpload(); !ok {
			return more
		}
	}
	if err := x.roundTrip(); err == errFaulty {
		return x.obey()
	} else if err != nil {
		return x.upstreamError(err)
	}
	t.Response = &x.s
	if x.s.Status == 407 {
		return x.fail(502, "The proxy behind this one refused our credentials.", "407 from upstream")
	}
	hold := x.responseBody() != nil && !x.endless() && x.wants(filter.ResponseBody)
	if !hold {
		t.Last = filter.Response
	}
	if t.Verdict.Action != filter.Allow && !x.decide(filter.Response) {
		return x.obey()
	}
	if x.s.Status == 101 {
		return x.upgrade()
	}
	if hold && t.Verdict.Action != filter.Allow {
		return x.judgeBody()
	}
	return x.deliver()
}

// endless says whether the response is a stream of parts that must not wait for
// each other.
func (x *session) endless() bool {
	ct := x.s.Get("Content-Type")
	for _, s := range [...]string{"text/event-stream", "multipart/x-mixed-replace", "application/grpc"} {
		if len(ct) >= len(s) && equalFold(ct[:len(s)], s) {
			return true
		}
	}
	return false
}

// target sets x.key to where to connect and says whether that is the parent.
func (x *session) target() (toParent bool, err error) {
	d := x.inside
	host, origin := x.t.Host, x.t.Host
	if d != nil {
		host, origin = d.dial, d.host
	}
	for _, e := range x.edits {
		if e.Kind == filter.DialHost && x.t.Host == origin {
			host = e.Value
		}
	}
	b := x.key[:0]
	if toParent = x.p.viaParent(host); toParent {
		// The name is resolved elsewhere, but an address can be judged here.
		if a, err := netip.ParseAddr(host); err == nil {
			if err := x.p.cfg.allowed(netip.AddrPortFrom(a, x.t.Port)); err != nil {
				x.p.counters.private.Add(1)
				return true, err
			}
		} else if host == "localhost" {
			x.p.counters.private.Add(1)
			return true, &refusedError{"localhost is the gateway itself"}
		}
		x.key = append(b, x.p.up.parent.addr...)
	} else {
		x.key = appendPort(appendHost(b, host), x.t.Port)
	}
	if d != nil && d.scheme == "https" {
		x.key = d.key(x.key)
	}
	return toParent, nil
}

// roundTrip sends the request and reads the head of the response, which it
// leaves in x.s, its connection in x.up.
func (x *session) roundTrip() error {
	if d := x.inside; d != nil && d.err != nil && !d.told.Swap(true) {
		return d.err
	}
	toParent, err := x.target()
	if err != nil {
		return err
	}
	pool := x.p.up
	for fresh := false; ; fresh = true {
		now := time.Now()
		var u *upstream
		if !fresh {
			u = pool.get(x.key, now)
		}
		reused := u != nil
		if u == nil {
			if u, err = x.dial(toParent, fresh); err != nil {
				return err
			}
		}
		reused = reused || u.shared
		x.use(u)
		if x.aborted.Load() { // before there was something to close
			return net.ErrClosed
		}
		if err := x.suspect(u); err != nil {
			return err
		}
		u.arm(now, x.p.cfg.Answer)
		received, err := x.ask(toParent && (x.inside == nil || x.inside.scheme != "https"))
		if err == nil {
			return nil
		}
		if !reused || received || x.aborted.Load() || !x.repeatable() || errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		// It died between our look at it and our request.
		x.dropUpstream()
		x.p.counters.retried.Add(1)
	}
}

// repeatable says whether the request may be sent twice (RFC 9110, 9.2.2).
func (x *session) repeatable() bool {
	switch x.q.Method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return x.q.Length == message.None
	}
	return false
}

// ask writes the request and reads the response's head.
func (x *session) ask(toParent bool) (received bool, err error) {
	u, q := x.up, &x.q
	x.requestHead(toParent, q.Length)
	body := x.requestBody()
	switch {
	case body == nil:
		_, err = u.c.Write(x.out)
	case q.Length > 0 && q.Length <= int64(len(x.r.Buffered())): // here already
		n := len(x.out)
		x.out = slices.Grow(x.out, int(q.Length))
		m, _ := body.Read(x.out[n : n+int(q.Length)])
		x.out = x.out[:n+m]
		x.t.BytesIn = int64(m)
		_, err = u.c.Write(x.out)
	case len(x.in.blocks) > 0: // held
		err = x.writePiece(u.c, q.Length, x.in.blocks, x.in.n, body.Done(), q.Trailer)
		x.in.free()
		if err == nil && !body.Done() {
			x.send.start(u)
		}
	default:
		if _, err = u.c.Write(x.out); err == nil {
			x.send.start(u)
		}
	}
	if err != nil && body == nil {
		return false, err
	}
	// A body that could not be sent may have an answer all the same (413).
	for n := range 32 {
		if err := u.r.ReadResponse(&x.s, q.Method); err != nil {
			e, _ := errors.AsType[*message.Error](err)
			return n > 0 || e != nil || len(u.r.Buffered()) > 0, err
		}
		if x.s.Status >= 200 || x.s.Status == 101 {
			return true, nil
		}
		if q.Proto == 10 {
			continue
		}
		x.responseHead(message.None, true, true)
		if _, err := x.c.Write(x.out); err != nil {
			return true, clientError{err}
		}
		if x.s.Status == 100 {
			x.continued = true
		}
	}
	return true, &message.Error{Status: 502, Reason: "too many 1xx responses"}
}

// A clientError is a failure of the client's connection, not of upstream's.
type clientError struct{ error }

// upstreamError answers when there is no response to pass on.
func (x *session) upstreamError(err error) (more bool) {
	if sendErr := x.send.stop(); sendErr != nil {
		if _, ok := errors.AsType[*message.Error](sendErr); ok {
			x.p.counters.bad.Add(1)
			return x.fail(400, "The body of the request is malformed.", "request body refused: "+sendErr.Error())
		}
		if _, ok := errors.AsType[clientError](sendErr); ok {
			x.note("client went away while sending")
			return false
		}
	}
	if _, ok := errors.AsType[clientError](err); ok {
		x.note("client went away")
		return false
	}
	if r := asRefused(err); r != nil {
		return x.fail(403, "This address cannot be reached through the proxy: "+r.why+".", "refused: "+r.why)
	}
	x.p.counters.upstreamFailed.Add(1)
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return x.fail(502, "There is no host of this name.", err.Error())
		}
		return x.fail(504, "The name of the host could not be looked up.", err.Error())
	}
	if e, ok := errors.AsType[*message.Error](err); ok {
		return x.fail(502, "The server sent an invalid response: "+e.Reason+".", "invalid response: "+e.Reason)
	}
	if _, ok := errors.AsType[*handshakeError](err); ok {
		return x.fail(502, "The server and the proxy could not agree on a secure connection.", err.Error())
	}
	var ne net.Error
	switch {
	case errors.As(err, &ne) && ne.Timeout():
		return x.fail(504, "The server did not answer in time.", err.Error())
	case errors.Is(err, syscall.ECONNREFUSED):
		return x.fail(502, "The server refused the connection.", err.Error())
	case errors.Is(err, io.ErrUnexpectedEOF):
		return x.fail(502, "The server closed the connection before its answer was complete.", err.Error())
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return x.fail(502, "The server closed the connection without an answer.", err.Error())
	}
	return x.fail(502, "The server cannot be reached.", err.Error())
}

// keep says whether the client's connection stays open after this response.
func (x *session) keep() bool {
	return !x.q.Close && !x.l.draining.Load() && x.send.settled()
}

// framing chooses how the body goes to the client: as it came, except that a
// body which ends with the connection goes in chunks, and that an HTTP/1.0
// client knows no chunks.
func (x *session) framing(keep bool) (int64, bool) {
	n := x.s.Length
	switch {
	case n >= 0:
		return n, keep
	case x.q.Proto == 10:
		return message.UntilClose, false
	}
	return message.Chunked, keep
}

// deliver passes the response on, unseen.
func (x *session) deliver() (more bool) {
	s, t := &x.s, &x.t
	framing, keep := x.framing(x.keep())
	body := x.responseBody()
	bare := body == nil && (x.q.Method == "HEAD" || s.Status == 204 || s.Status == 304)
	x.responseHead(framing, bare, keep)
	t.Status = s.Status
	x.started = true
	if body == nil {
		x.reuse()
		if _, err := x.c.Write(x.out); err != nil {
			return x.lostClient(err)
		}
		return keep
	}
	// What came together with the head leaves together with it.
	if n := len(x.up.r.Buffered()); n > 0 && framing != message.Chunked {
		n, err := body.Read(x.out[len(x.out):cap(x.out)])
		if err != nil && err != io.EOF {
			return x.cut(err)
		}
		x.out = x.out[:len(x.out)+n]
		t.BytesOut += int64(n)
	}
	if framing == message.Chunked {
		return x.deliverChunks(body, keep)
	}
	all := body.Done()
	x.reuse()
	if _, err := x.c.Write(x.out); err != nil {
		return x.lostClient(err)
	}
	if all {
		return keep
	}
	x.yield()
	return x.deliverRest(framing, body, keep)
}

// deliverRest copies the rest of a body whose head is out.
func (x *session) deliverRest(framing int64, body *message.Body, keep bool) (more bool) {
	if framing == message.Chunked {
		x.out = x.out[:0]
		return x.deliverChunks(body, keep)
	}
	for !body.Done() {
		now := time.Now()
		step := min(copyStep, body.Left())
		if step < 0 { // until close
			step = large
		}
		d := x.p.cfg.Answer + time.Duration(step/slowest)*time.Second
		x.up.arm(now, d)
		x.arm(now, d)
		n, err := body.Copy(x.c, step)
		x.t.BytesOut += n
		if err != nil {
			return x.cut(err)
		}
	}
	x.reuse()
	return keep
}

// deliverChunks copies the rest of a body in chunks, each as it comes.
func (x *session) deliverChunks(body *message.Body, keep bool) (more bool) {
	block := x.p.held.block(large)
	defer x.p.held.release(block)
	if len(x.up.r.Buffered()) == 0 && len(x.out) > 0 { // the first byte may take long
		if _, err := x.c.Write(x.out); err != nil {
			return x.lostClient(err)
		}
		x.out = x.out[:0]
		x.yield()
	}
	for last := false; !last; {
		x.up.arm(time.Now(), x.p.cfg.Answer)
		n, err := body.Read(block[:cap(block)])
		if err != nil && err != io.EOF {
			return x.cut(err)
		}
		last = body.Done()
		if n == 0 && !last {
			continue
		}
		x.reuse()
		x.vec = append(x.vec[:0], block[:n])
		if err := x.writePiece(x.c, message.Chunked, x.vec, int64(n), last, x.s.Trailer); err != nil {
			return x.lostClient(err)
		}
		x.t.BytesOut += int64(n)
	}
	x.reuse()
	return keep
}

// writePiece writes what is in x.out (a head, or nothing) and n bytes of body
// in one system call, as one chunk where framing says so; last ends the body.
func (x *session) writePiece(c net.Conn, framing int64, data [][]byte, n int64, last bool, trailer message.Fields) error {
	x.tail = x.tail[:0]
	if framing == message.Chunked {
		if n > 0 {
			x.out = append(strconv.AppendInt(x.out, n, 16), "\r\n"...)
			x.tail = append(x.tail, "\r\n"...)
		}
		if last {
			x.tail = message.AppendLastChunk(x.tail, trailer)
		}
	}
	parts := x.parts[:0]
	if len(x.out) > 0 {
		parts = append(parts, x.out)
	}
	if n > 0 {
		parts = append(parts, data...)
	}
	if len(x.tail) > 0 {
		parts = append(parts, x.tail)
	}
	x.parts = parts
	d := x.p.cfg.Answer + time.Duration(n/slowest)*time.Second
	if c == x.c {
		x.arm(time.Now(), d)
	} else {
		x.up.arm(time.Now(), d)
	}
	if _, ok := c.(*tls.Conn); ok && len(x.out)+int(n)+len(x.tail) <= large && len(parts) > 1 {
		// One record and one system call for what TLS would send apart.
		block := x.p.held.block(large)
		defer func() { x.p.held.release(block) }()
		for _, p := range parts {
			block = append(block, p...)
		}
		clear(x.parts)
		_, err := c.Write(block)
		x.out = x.out[:0]
		return err
	}
	x.bufs = net.Buffers(parts)
	_, err := x.bufs.WriteTo(c)
	clear(x.parts)
	x.out = x.out[:0]
	return err
}

// reuse gives the upstream connection back when its response is over. It is
// called before the last bytes go to the client, whose next request may come
// before we are back from writing. Trailers belong to the connection's reader
// until they are written.
func (x *session) reuse() {
	u, body := x.up, x.responseBody()
	if u == nil || x.s.Close || body != nil && !body.Done() || !x.send.finished() || x.send.err != nil {
		return // finish closes it
	}
	if len(x.s.Trailer) > 0 {
		x.s.Trailer = cloneFields(x.s.Trailer)
	}
	x.use(nil)
	x.s.Body = nil // it is its reader's
	x.p.up.put(u, time.Now())
}

// lostClient records that the client went away while we were writing.
func (x *session) lostClient(err error) bool {
	x.note("client went away: " + err.Error())
	return false
}

// cut ends the connection in the middle of a response, so that the client can
// tell that it did not get everything.
func (x *session) cut(err error) bool {
	if err != nil {
		x.note("response ended early: " + err.Error())
	}
	if c, ok := x.socket.(*net.TCPConn); ok {
		c.SetLinger(0)
	}
	x.socket.Close()
	return false
}

func cloneFields(fs message.Fields) message.Fields {
	c := make(message.Fields, len(fs))
	for i, f := range fs {
		c[i] = message.Field{Name: bytes.Clone(f.Name), Value: bytes.Clone(f.Value)}
	}
	return c
}
