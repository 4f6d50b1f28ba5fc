package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/platform"
	"shuultuur/proxy/exchange"
)

// A tunnel relays bytes between a client and an origin. Each direction has a goroutine while
// something arrives, and is parked otherwise.
type tunnel struct {
	c         *conn
	l         *listener
	ctx       context.Context
	near, far net.Conn // client, origin
	nearFirst []byte   // bytes already read from near
	farFirst  []byte
	up, down  direction
	done      chan struct{} // closed when the origin sends nothing more
}

// A direction is one half of a tunnel.
type direction struct {
	t        *tunnel
	dst, src net.Conn
	n        int64
	err      error
	quiet    atomic.Bool                   // nothing came for a whole period
	over     atomic.Bool                   // nothing more will come
	left     atomic.Bool                   // dst stays open, because it is used for something else
	ended    atomic.Bool                   // by a verdict: further bytes are dropped
	parked   bool                          // guarded by parking.mu
	silent   bool                          // nothing came in either direction until the end of its time
	fd       int32                         // of socket, while parked
	socket   *net.TCPConn                  // below src; nil if it cannot be parked
	still    time.Duration                 // how long nothing arrives before it is parked
	since    int64                         // when it was parked: Unix nanoseconds
	until    int64                         // end of its time while parked, unless something arrives
	talk     *exchange.Talk                // judges the bytes; nil for none
	mu       sync.Mutex                    // guards talk, and writes to dst, if it is judged
	why      atomic.Pointer[exchange.Talk] // the conversation with that verdict, until the receiver is informed
}

// opposite returns the other direction of the tunnel.
func (d *direction) opposite() *direction {
	if d == &d.t.up {
		return &d.t.down
	}
	return &d.t.up
}

var errSilent = errors.New("tunnel silent")

// relay makes the connection the tunnel t. endRelaying does the rest.
func (t *tunnel) relay(c *conn) outcome {
	t.begin(c)
	return relaying
}

// begin makes t the tunnel of c, and starts relaying bytes from the origin.
func (t *tunnel) begin(c *conn) {
	p, x := c.p, &c.x
	t.c, t.l, t.ctx = c, c.l, x.ctx
	c.tunnel.Store(t)
	x.yield()
	x.removeLimit()
	exchange.Shrink(&x.Exchange) // before a talk reads the state of the request
	p.counters[tunnelsOpen].Add(1)
	t.near.SetDeadline(time.Time{})
	t.far.SetDeadline(time.Time{})
	t.up.t, t.up.dst, t.up.src = t, t.far, t.near
	t.down.t, t.down.dst, t.down.src = t, t.near, t.far
	if t.up.still, t.down.still = p.still, p.still; p.tunnel == 0 || p.tunnel > p.still {
		t.up.socket, t.down.socket = socketOf(t.near), socketOf(t.far)
	}
	t.done = make(chan struct{})
	go t.relayDown(t.farFirst)
	t.farFirst = nil
}

// relayDown relays bytes from the origin until they end or do not arrive.
func (t *tunnel) relayDown(first []byte) {
	p, parked := t.c.p, false
	defer func() {
		if r := recover(); r != nil {
			p.counters.add(panics)
			p.log.Error("panic in a tunnel", "panic", r)
			t.close()
		}
		if !parked {
			close(t.done)
		}
	}()
	parked = t.down.run(p, first)
}

// close closes both connections.
func (t *tunnel) close() {
	t.up.over.Store(true)
	t.down.over.Store(true)
	t.near.Close()
	t.far.Close()
	t.wake()
}

// wake continues what is parked.
func (t *tunnel) wake() {
	t.l.parking.wake(&t.up)
	t.l.parking.wake(&t.down)
}

// endRelaying relays bytes from the client until both ends have finished or nothing moves any
// more, and ends the request that opened the tunnel. If it reports parked, another goroutine
// will call it again.
//
// A tunnel that cannot be parked waits in endRelaying and relayDown for most of its life. The
// garbage collector shrinks a stack of 8 KiB while less than 2 KiB of it are in use, including
// 800 bytes for the runtime: so frames down to the read must be small.
func (t *tunnel) endRelaying(c *conn) (parked bool) {
	o := closing
	defer c.x.finish(&o)
	first := t.nearFirst
	t.nearFirst = nil
	c.putOut()
	first = append(first, c.r.Detach()...)
	if t.up.run(c.p, first) {
		o = relaying
		return true
	}
	t.end(c)
	return false
}

// resume continues a direction that was parked.
func (d *direction) resume() {
	if d == &d.t.up {
		d.t.l.relay(d.t.c)
	} else {
		d.t.relayDown(nil)
	}
}

// end waits for the end of the bytes from the origin, and records the tunnel.
func (t *tunnel) end(c *conn) {
	x := &c.x
	<-t.done
	t.far.Close()
	x.relayed += t.up.n
	x.T.BytesOut += t.down.n
	for _, d := range [...]*direction{&t.up, &t.down} {
		if d.talk != nil {
			d.talk.Close()
			x.Conclude(d.talk)
		}
	}
	for _, d := range [...]*direction{&t.up, &t.down} {
		if d.err != nil && !errors.Is(d.err, net.ErrClosed) {
			x.Note("tunnel: " + d.err.Error())
		}
	}
	t.leave(c)
}

// leave makes c forget the tunnel.
func (t *tunnel) leave(c *conn) {
	c.tunnel.Store(nil)
	c.p.counters[tunnelsOpen].Add(-1)
}

// run copies in one direction, until it ends or is parked. It passes on the end of its source as
// the end of this direction only; a failure ends both.
func (d *direction) run(p *Proxy, first []byte) (parked bool) {
	err, parked := d.copy(p, first)
	if parked {
		return true // d belongs to another goroutine
	}
	d.err = err
	other := d.opposite()
	d.over.Store(true)
	d.quiet.Store(true)
	defer d.t.l.parking.wake(other) // it notices what happens here
	if d.left.Load() {
		d.src.Close()
		return false
	}
	if d.err == nil {
		if other.over.Load() {
			return false // both connections are about to be closed
		}
		if c, ok := d.dst.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
			// Most have nothing more to send to a client that has gone.
			d.dst.SetReadDeadline(deadlineIn(p.answer))
			return false
		}
	}
	d.dst.Close()
	d.src.Close()
	return false
}

func (d *direction) copy(p *Proxy, first []byte) (err error, parked bool) {
	if d.silent {
		return errSilent, false
	}
	idle := p.tunnel
	if len(first) > 0 {
		d.dst.SetWriteDeadline(deadlineIn(idle))
		n, err := d.write(p, first)
		d.n += int64(n)
		if err != nil {
			return err, false
		}
	}
	mayPark, last := d.socket != nil, false
	for {
		wait := idle
		switch {
		case d.ended.Load():
			wait = time.Second
		case d.opposite().over.Load() && !last:
			wait, last, mayPark = p.answer, true, false
		case mayPark:
			wait = d.still
		}
		// Deadlines cost one call per period instead of one per read: when one passes, the
		// bytes moved in the meantime decide.
		d.src.SetReadDeadline(deadlineIn(wait))
		d.dst.SetWriteDeadline(deadlineIn(3 * idle))
		n, err := d.move(p)
		d.n += n
		if err == nil || err == io.EOF {
			return nil, false
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err, false
		}
		if d.ended.Load() {
			return nil, false
		}
		switch {
		case n > 0:
			d.quiet.Store(false)
		case mayPark:
			if d.t.l.parking.park(d) {
				return nil, true
			}
			mayPark = false
		default:
			d.quiet.Store(true)
			if d.opposite().quiet.Load() {
				return errSilent, false
			}
		}
	}
}

// move copies until an error; nil means the end.
func (d *direction) move(p *Proxy) (n int64, err error) {
	dst, ok1 := d.dst.(*net.TCPConn)
	src, ok2 := d.src.(*net.TCPConn)
	if ok1 && ok2 {
		return d.moveTCP(p, dst, src)
	}
	// A block is taken when more than a few bytes arrive, and released when fewer do, because
	// most tunnels are idle most of the time.
	few := make([]byte, 512)
	b := few
	defer func() {
		if len(b) > len(few) {
			p.inspector.Release(b)
		}
	}()
	for {
		m, err := d.src.Read(b)
		if m > 0 {
			k, err := d.write(p, b[:m])
			n += int64(k)
			if err != nil {
				return n, err
			}
		}
		if err != nil {
			return n, err
		}
		switch {
		case m == len(few) && len(b) == len(few):
			b = p.inspector.Block(16 << 10) // TLS never returns more at once
			b = b[:cap(b)]
		case m < len(few) && len(b) > len(few):
			p.inspector.Release(b)
			b = few
		}
	}
}

// write forwards b, or if it is judged, the part that may pass.
func (d *direction) write(p *Proxy, b []byte) (int, error) {
	if d.talk == nil {
		return writeAll(d.dst, b)
	}
	defer d.sayWhy()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended.Load() {
		return 0, nil
	}
	block := p.inspector.Block(blockSize)
	defer p.inspector.Release(block)
	out, over := d.talk.Pass(d.t.ctx, block, b)
	if len(out) > 0 {
		if _, err := writeAll(d.dst, out); err != nil {
			return 0, err
		}
	}
	if over {
		for _, x := range [...]*direction{&d.t.up, &d.t.down} {
			x.ended.Store(true)
			x.why.Store(d.talk)
		}
		d.opposite().sayWhy()
	}
	return len(b), nil
}

// sayWhy sends the reason to the receiver when a verdict has ended the conversation: once, and
// as soon as nothing else is being written. Further bytes from the other side are dropped, so
// that no reset overtakes the reason.
func (d *direction) sayWhy() {
	for d.why.Load() != nil && d.mu.TryLock() {
		if why := d.why.Swap(nil); why != nil {
			d.dst.SetWriteDeadline(time.Now().Add(time.Second))
			d.dst.Write(d.talk.AppendEnd(nil, why)) // best effort
			if half, ok := d.dst.(interface{ CloseWrite() error }); ok {
				half.CloseWrite()
			}
			d.dst.SetReadDeadline(time.Now().Add(time.Second))
			d.t.l.parking.wake(d.opposite())
		}
		d.mu.Unlock()
	}
}

// writeAll writes b. A passed deadline means that bytes were lost, which ends the tunnel,
// unlike a silent reader.
func writeAll(c net.Conn, b []byte) (int, error) {
	n, err := c.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent
	}
	return n, err
}

const (
	burst = 16 << 20    // bytes spliced between two checks of the time
	pause = time.Second // of the sender, after which splicing ends
)

// moveTCP copies between two TCP connections. While little arrives, it takes a block when
// there are bytes to read and releases it at once. When a read fills the block, the kernel
// moves the bytes (splice, if possible). That takes a pipe, two descriptors and kernel memory,
// which are limited per user, so a pause ends it.
func (d *direction) moveTCP(p *Proxy, dst, src *net.TCPConn) (n int64, err error) {
	raw, err := src.SyscallConn()
	if err != nil {
		return 0, err
	}
	var block []byte
	var got int
	var failed error
	read := func(fd uintptr) bool {
		block = p.inspector.Block(blockSize)
		if got, failed = platform.Read(fd, block[:cap(block)]); failed == platform.ErrWait {
			p.inspector.Release(block)
			return false // wait until there is something
		}
		return true
	}
	for {
		if err := raw.Read(read); err != nil {
			return n, err
		}
		if failed != nil || got == 0 {
			p.inspector.Release(block)
			return n, failed
		}
		k, err := d.write(p, block[:got])
		p.inspector.Release(block)
		n += int64(k)
		if err != nil {
			return n, err
		}
		if got < blockSize || d.talk != nil {
			continue
		}
		m, err := d.splice(p, dst, src)
		return n + m, err
	}
}

// splice has the kernel copy until the sender pauses (os.ErrDeadlineExceeded) or ends (nil).
func (d *direction) splice(p *Proxy, dst, src *net.TCPConn) (n int64, err error) {
	var limit io.LimitedReader
	for {
		now := time.Now()
		src.SetReadDeadline(now.Add(pause))
		dst.SetWriteDeadline(deadlineIn(p.tunnel))
		limit = io.LimitedReader{R: src, N: burst}
		m, err := dst.ReadFrom(&limit)
		n += m
		switch {
		case err == nil && limit.N > 0:
			return n, nil
		case err == nil:
			continue
		case errors.Is(err, os.ErrDeadlineExceeded) && p.tunnel > 0 && time.Since(now) >= p.tunnel:
			return n, errSilent // the receiver failed: bytes are lost
		}
		return n, err
	}
}
