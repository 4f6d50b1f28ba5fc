package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/message"
)

// connect answers CONNECT: the host is judged, and when the client begins with
// a TLS hello that names another one, that one too.
func (x *session) connect() (more bool) {
	t, p := &x.t, x.p
	if !p.anyPort && !p.ports[t.Port] {
		return x.fail(403, "Tunnels to port "+strconv.Itoa(int(t.Port))+" are not allowed.", "connect-ports")
	}
	if x.intercepts() {
		return x.decrypt()
	}
	if !x.decide(filter.Name) {
		return x.obey()
	}
	return x.openTunnel(t.Verdict.Action != filter.Allow)
}

const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// openTunnel connects, tells the client so and relays; hello as for tunnel.
func (x *session) openTunnel(hello bool) (more bool) {
	u, err := x.dialTunnel(x.t.Host)
	if err != nil {
		return x.upstreamError(err)
	}
	x.use(u)
	x.t.Status = 200
	if _, err := x.c.Write([]byte(established)); err != nil {
		return x.lostClient(err)
	}
	x.p.counters.tunnels.Add(1)
	x.tunnel(hello, nil)
	return false
}

// dialTunnel connects to host, through the parent if need be.
func (x *session) dialTunnel(host string) (*upstream, error) {
	judged := x.t.Host
	x.t.Host = host
	toParent, err := x.target()
	x.t.Host = judged
	if err != nil {
		return nil, err
	}
	u, err := x.p.up.dial(x.ctx, string(x.key), toParent)
	if err != nil || !toParent {
		return u, err
	}
	if err := x.throughParent(u, string(appendPort(appendHost(nil, host), x.t.Port))); err != nil {
		u.close()
		return nil, err
	}
	return u, nil
}

// throughParent asks the parent proxy for a tunnel to a host and port.
func (x *session) throughParent(u *upstream, to string) error {
	u.arm(time.Now(), x.p.cfg.Answer)
	b := append(x.out[:0], "CONNECT "...)
	b = append(append(b, to...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, to...), "\r\nVia: "...)
	b = append(append(b, x.p.via...), "\r\n"...)
	if auth := x.p.up.parent.auth; auth != "" {
		b = appendField(b, "Proxy-Authorization", []byte(auth))
	}
	x.out = append(b, "\r\n"...)
	_, err := u.c.Write(x.out)
	if err == nil {
		err = u.r.ReadResponse(&x.s, "CONNECT")
	}
	if err == nil && x.s.Status/100 != 2 {
		err = errors.New("the parent proxy answered CONNECT with " + strconv.Itoa(x.s.Status))
	}
	return err
}

// upgrade passes a 101 on and makes a tunnel of the connection.
func (x *session) upgrade() (more bool) {
	t := &x.t
	if !x.upgrading() || x.s.Upgrade == nil {
		return x.fail(502, "The server switched protocols without being asked.", "101 without Upgrade")
	}
	if !x.send.finished() {
		x.send.stop()
		return x.fail(502, "The server switched protocols before it had the request.", "101 during a request body")
	}
	x.responseHead(message.None, true, true)
	t.Status = 101
	if _, err := x.c.Write(x.out); err != nil {
		return x.lostClient(err)
	}
	x.p.counters.upgrades.Add(1)
	x.tunnel(false, nil)
	return false
}

// A way is one direction of a tunnel.
type way struct {
	dst, src net.Conn
	other    *way
	n        int64
	err      error
	limit    io.LimitedReader // here so that splicing allocates nothing
	quiet    atomic.Bool      // nothing came for a whole period
	over     atomic.Bool      // nothing will come any more
}

var errSilent = errors.New("tunnel silent")

// tunnel relays bytes between the client and x.up until both have finished, or
// nothing moves any more. hello says that the first bytes of the client are to
// be looked at; first are bytes of the client that were read already.
func (x *session) tunnel(hello bool, first []byte) {
	p, u, t := x.p, x.up, &x.t
	x.yield()
	p.counters.tunnelsOpen.Add(1)
	defer p.counters.tunnelsOpen.Add(-1)
	if x.deadline != nil && x.deadline.Stop() { // Config.Total is for requests
		x.deadline = nil
	}
	x.until, u.until = time.Time{}, time.Time{}
	x.c.SetDeadline(time.Time{})
	u.c.SetDeadline(time.Time{})

	down := &way{dst: x.c, src: u.c}
	up := &way{dst: u.c, src: x.c, other: down}
	down.other = up
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				p.counters.panics.Add(1)
				p.log.Error("panic in a tunnel", "panic", r)
				x.socket.Close()
				u.close()
			}
		}()
		down.run(p, u.r.Buffered())
	}()
	if hello && !x.hello(up) {
		u.close()
		x.c.Close()
	} else {
		if len(first) == 0 {
			first = x.r.Buffered()
		}
		up.run(p, first)
	}
	<-done
	t.BytesIn += up.n
	t.BytesOut += down.n
	for _, w := range [...]*way{up, down} {
		if w.err != nil && !errors.Is(w.err, net.ErrClosed) {
			x.note("tunnel: " + w.err.Error())
		}
	}
}

// run copies in one direction. Its end is passed on as the end of this
// direction only; a failure ends both.
func (w *way) run(p *Proxy, first []byte) {
	w.err = w.copy(p, first)
	w.over.Store(true)
	w.quiet.Store(true)
	if w.err == nil {
		if w.other.over.Load() {
			return // both connections are about to be closed
		}
		if c, ok := w.dst.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
			// Most have nothing more to say to who has left.
			w.dst.SetReadDeadline(time.Now().Add(p.cfg.Answer))
			return
		}
	}
	w.dst.Close()
	w.src.Close()
}

func (w *way) copy(p *Proxy, first []byte) error {
	idle := p.cfg.Tunnel
	if len(first) > 0 {
		w.dst.SetWriteDeadline(time.Now().Add(idle))
		n, err := w.dst.Write(first)
		w.n += int64(n)
		if err != nil {
			return err
		}
	}
	for {
		// Deadlines cost one call for each period, not for each read: when
		// one passes, what moved in the meantime decides.
		now := time.Now()
		w.src.SetReadDeadline(now.Add(idle))
		w.dst.SetWriteDeadline(now.Add(3 * idle))
		n, err := w.move(p)
		w.n += n
		if err == nil || err == io.EOF {
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		w.quiet.Store(n == 0)
		if n == 0 && w.other.quiet.Load() {
			return errSilent
		}
	}
}

// move copies until an error, nil for the end.
func (w *way) move(p *Proxy) (n int64, err error) {
	dst, ok1 := w.dst.(*net.TCPConn)
	src, ok2 := w.src.(*net.TCPConn)
	if ok1 && ok2 {
		return w.moveTCP(p, dst, src)
	}
	b := p.held.block(medium) // TLS never gives more at once
	defer p.held.release(b)
	for {
		m, err := w.src.Read(b[:cap(b)])
		if m > 0 {
			k, err := write(w.dst, b[:m])
			n += int64(k)
			if err != nil {
				return n, err
			}
		}
		if err != nil {
			return n, err
		}
	}
}

// write writes b. When the deadline passes, bytes are lost and that is the
// end, unlike a reader that has nothing to say.
func write(c net.Conn, b []byte) (int, error) {
	n, err := c.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent
	}
	return n, err
}

const (
	burst = 16 << 20    // bytes spliced between two looks at the clock
	pause = time.Second // of the sender, after which splicing ends
)

// moveTCP copies between two TCP connections. As long as little comes, a block
// is taken when something is there to read and given back at once. As soon as
// a read fills it, the kernel moves the bytes (splice, where it can); but that
// takes a pipe, two descriptors and memory of the kernel, of which each user
// has only so much, so a pause ends it.
func (w *way) moveTCP(p *Proxy, dst, src *net.TCPConn) (n int64, err error) {
	raw, err := src.SyscallConn()
	if err != nil {
		return 0, err
	}
	var block []byte
	var got int
	var failed error
	read := func(fd uintptr) bool {
		block = p.held.block(large)
		for {
			if got, failed = syscall.Read(int(fd), block[:cap(block)]); failed != syscall.EINTR {
				break
			}
		}
		if failed == syscall.EAGAIN {
			p.held.release(block)
			return false // wait until there is something
		}
		return true
	}
	for {
		if err := raw.Read(read); err != nil {
			return n, err
		}
		if failed != nil || got == 0 {
			p.held.release(block)
			return n, failed
		}
		k, err := write(dst, block[:got])
		p.held.release(block)
		n += int64(k)
		if err != nil {
			return n, err
		}
		if got < large {
			continue
		}
		m, err := w.splice(p, dst, src)
		return n + m, err
	}
}

// splice has the kernel copy until the sender pauses, which is
// os.ErrDeadlineExceeded, or ends, which is nil.
func (w *way) splice(p *Proxy, dst, src *net.TCPConn) (n int64, err error) {
	for {
		now := time.Now()
		src.SetReadDeadline(now.Add(pause))
		dst.SetWriteDeadline(now.Add(p.cfg.Tunnel))
		w.limit = io.LimitedReader{R: src, N: burst}
		m, err := dst.ReadFrom(&w.limit)
		n += m
		switch {
		case err == nil && w.limit.N > 0:
			return n, nil
		case err == nil:
			continue
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Since(now) >= p.cfg.Tunnel:
			return n, errSilent // it was the receiver: bytes are lost
		}
		return n, err
	}
}

// hello waits for the client's first bytes and has the host in them judged
// when they are a TLS hello. It says whether the tunnel may go on; what it has
// read is sent on then.
func (x *session) hello(up *way) bool {
	p := x.p
	for {
		x.c.SetReadDeadline(time.Now().Add(p.cfg.Tunnel))
		_, err := x.r.Peek(1)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err == io.EOF // the server may still have something to say
		}
		if up.other.quiet.Load() {
			x.note("tunnel: " + errSilent.Error())
			return false
		}
	}
	// Most hellos fit into a segment or two; memory for larger ones is only
	// taken when they come.
	block := p.held.block(medium)
	defer func() { p.held.release(block) }()
	x.c.SetReadDeadline(time.Now().Add(p.cfg.HeadTime))
	h, err := x.sniff(&block)
	switch {
	case err == nil:
		if !x.judgeHello(h) {
			x.c.Write(alert[:])
			return false
		}
	case errors.Is(err, intercept.ErrNotHello), err == io.EOF:
		if x.eng.JA4 && !x.judgeHello(nil) {
			return false
		}
	default:
		x.note("TLS hello: " + err.Error())
		x.c.Write(alert[:])
		return false
	}
	up.dst.SetWriteDeadline(time.Now().Add(p.cfg.Answer))
	n, err := up.dst.Write(block)
	up.n += int64(n)
	if err != nil {
		x.note("tunnel: " + err.Error())
	}
	return err == nil
}

// sniff reads the client's first bytes into block, which may be exchanged for
// a larger one, until they are a complete hello or cannot be one any more.
func (x *session) sniff(block *[]byte) (*intercept.Hello, error) {
	var s intercept.Sniffer
	held := x.p.held
	for b := *block; ; *block = b {
		if len(b) == cap(b) {
			if cap(b) >= 2*large {
				return nil, intercept.ErrTooLarge
			}
			more := held.block(large)
			if cap(b) >= large {
				more = make([]byte, 0, 2*large)
			}
			more = append(more, b...)
			held.release(b)
			b, *block = more, more
		}
		n, err := x.r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		*block = b
		done, wrong := s.Feed(b[len(b)-n:])
		switch {
		case done:
			return s.Hello()
		case wrong != nil:
			return nil, wrong
		case err != nil:
			return nil, err
		}
	}
}

// judgeHello has the tunnel judged again when the hello, nil for none, says
// something new: another host than CONNECT, a fingerprint somebody asks for.
func (x *session) judgeHello(h *intercept.Hello) bool {
	other := h != nil && h.Host != "" && h.Host != x.t.Host
	if !other && !x.eng.JA4 {
		return true
	}
	x.t.JA4 = filter.NoHello
	if h != nil {
		x.t.JA4 = h.JA4()
	}
	if other {
		x.note("TLS hello names another host than CONNECT")
		x.t.Host = h.Host
	}
	if !x.decide(filter.Name) {
		x.countVerdict()
		return false
	}
	return true
}

// alert is a fatal TLS alert, access_denied (RFC 8446, 6.2).
var alert = [...]byte{21, 3, 3, 0, 2, 2, 49}
