// Package tunnel relays bytes between a client and an origin. Each direction of a [Tunnel] has a
// goroutine while something arrives. A direction in which nothing arrives for a moment is parked
// (parking.go): what is left is its socket and its state. Bytes that a policy judges pass through
// a [exchange.Talk]; others are copied, in the kernel if it can.
package tunnel

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/message"
	"shuultuur/lib/platform"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/held"
)

// A Config has what the tunnels of a server share.
type Config struct {
	Silence time.Duration // after which a tunnel ends; 0: never
	Answer  time.Duration // for the rest, after one side has ended
	Memory  *held.Budget
	// Still is how long nothing arrives in a direction before it is parked; [Stillness].
	Still time.Duration
	// Panicked is called for a panic in a goroutine of the package.
	Panicked func(reason any)
}

// An Owner is the client's connection.
type Owner interface {
	// Relay calls [Tunnel.Relay] again: something has happened to a direction that was parked.
	Relay()
	// Aborted reports whether the connection was cut.
	Aborted() bool
}

// A Tunnel relays bytes between a client and an origin. Its owner sets Near and Far, calls
// [Tunnel.Begin], has [Tunnel.Relay] relay the client's bytes, and calls [Tunnel.End] at last.
type Tunnel struct {
	Near, Far net.Conn   // client, origin
	Client    netip.Addr // whose share the bytes on their way are
	Up, Down  Direction

	cfg     *Config
	held    *gate // until the owner has admitted what the origin says; nil: it passes
	parking *Parking
	owner   Owner
	ctx     context.Context
	done    chan struct{} // closed when the origin sends nothing more
	moved   atomic.Int64  // bytes in both directions
	stirred atomic.Int64  // how often bytes moved
}

// A Direction is one half of a tunnel.
type Direction struct {
	First []byte         // bytes already read from the source
	Talk  *exchange.Talk // judges the bytes; nil for none
	N     int64          // bytes relayed
	Err   error          // why it ended; nil: its source ended

	t        *Tunnel
	gate     *gate // before what it carries; nil for none
	dst, src net.Conn
	passage  message.Passage
	quiet    atomic.Bool                   // nothing came for a whole period
	over     atomic.Bool                   // nothing more will come
	left     atomic.Bool                   // dst stays open, because it is used for something else
	ended    atomic.Bool                   // by a verdict: further bytes are dropped
	parked   bool                          // guarded by Parking.mu
	silent   bool                          // nothing came in either direction until the end of its time
	fd       int32                         // of socket, while parked
	socket   *net.TCPConn                  // below src; nil if it cannot be parked
	still    time.Duration                 // how long nothing arrives before it is parked
	since    int64                         // when it was parked: Unix nanoseconds
	until    int64                         // end of its time while parked, unless something arrives
	mu       sync.Mutex                    // guards Talk, and writes to dst, if it is judged
	why      atomic.Pointer[exchange.Talk] // the conversation with that verdict, until the receiver is informed
}

// opposite returns the other direction of the tunnel.
func (d *Direction) opposite() *Direction {
	if d == &d.t.Up {
		return &d.t.Down
	}
	return &d.t.Up
}

// ErrSilent is the error of a tunnel that ended because nothing arrived.
var ErrSilent = errors.New("tunnel silent")

// Begin prepares t, and starts relaying bytes from the origin.
func (t *Tunnel) Begin(ctx context.Context, cfg *Config, k *Parking, by Owner) {
	t.cfg, t.parking, t.owner, t.ctx = cfg, k, by, ctx
	t.Near.SetDeadline(time.Time{})
	t.Far.SetDeadline(time.Time{})
	t.Up.t, t.Up.dst, t.Up.src = t, t.Far, t.Near
	t.Down.t, t.Down.dst, t.Down.src, t.Down.gate = t, t.Near, t.Far, t.held
	if t.Up.still, t.Down.still = cfg.Still, cfg.Still; cfg.Silence == 0 || cfg.Silence > cfg.Still {
		t.Up.socket, t.Down.socket = message.TCP(t.Near), message.TCP(t.Far)
	}
	if cfg.Memory != nil {
		t.Up.passage = message.Passage{Budget: cfg.Memory.Origins(), Client: t.Client}
		t.Down.passage = t.Up.passage
	}
	t.done = make(chan struct{})
	go t.relayDown()
}

// Relay relays bytes from the client until both ends have finished or nothing moves any more. If
// it reports parked, the owner is asked to call it again.
//
// A tunnel that cannot be parked waits in Relay and relayDown for most of its life. The garbage
// collector shrinks a stack of 8 KiB while less than 2 KiB of it are in use, including 800 bytes
// for the runtime: so frames down to the read must be small.
func (t *Tunnel) Relay() (parked bool) { return t.Up.run() }

// relayDown relays bytes from the origin until they end or do not arrive.
func (t *Tunnel) relayDown() {
	parked := false
	defer func() {
		if r := recover(); r != nil {
			t.cfg.Panicked(r)
			t.Close()
		}
		if !parked {
			close(t.done)
		}
	}()
	parked = t.Down.run()
}

// Close closes both connections.
func (t *Tunnel) Close() {
	t.Up.over.Store(true)
	t.Down.over.Store(true)
	t.Near.Close()
	t.Far.Close()
	t.Wake()
}

// Wake continues what is parked.
func (t *Tunnel) Wake() {
	t.parking.wake(&t.Up)
	t.parking.wake(&t.Down)
}

// Moved returns how many bytes have moved in both directions, and a number that changes whenever some do.
func (t *Tunnel) Moved() (bytes, stirred int64) { return t.moved.Load(), t.stirred.Load() }

// count counts bytes that have moved.
func (t *Tunnel) count(n int64) {
	if n > 0 {
		t.moved.Add(n)
		t.stirred.Add(1)
	}
}

// Send relays first bytes of the client, which were judged, before Relay.
func (t *Tunnel) Send(b []byte) error {
	t.Far.SetWriteDeadline(deadlineIn(t.cfg.Answer))
	n, err := t.Far.Write(b)
	t.Up.N += int64(n)
	t.count(int64(n))
	return err
}

// HoldBack makes the tunnel hold what the origin says until [Tunnel.Admit]. It is called before Begin.
func (t *Tunnel) HoldBack() { t.held = &gate{admitted: make(chan bool, 1)} }

// Listen returns what the origin has said first, and is held back; nil for nothing. While on is true,
// reading the client ends when the origin says something.
func (t *Tunnel) Listen(on bool) []byte {
	g := t.held
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listening = on
	return g.said
}

// Admit lets what was held back pass, or drops it and ends the direction.
func (t *Tunnel) Admit(pass bool) {
	if t.held != nil {
		t.held.admitted <- pass
		t.held = nil
	}
}

// A gate holds back what an origin says.
type gate struct {
	admitted chan bool

	mu        sync.Mutex
	said      []byte
	listening bool // the owner waits for its client
}

// wait holds b back, wakes the owner, and returns its decision.
func (g *gate) wait(b []byte, near net.Conn) bool {
	g.mu.Lock()
	g.said = bytes.Clone(b[:min(len(b), mostHeard)])
	if g.listening {
		near.SetReadDeadline(time.Unix(1, 0))
	}
	g.mu.Unlock()
	return <-g.admitted
}

// mostHeard is how much of what an origin says first is judged.
const mostHeard = 1 << 10

// Quiet reports whether nothing came from the origin for a whole period.
func (t *Tunnel) Quiet() bool { return t.Down.quiet.Load() }

// Release keeps the client's connection open when the origin ends: it is used for something else.
func (t *Tunnel) Release() { t.Down.left.Store(true) }

// Abandon ends a tunnel for which Relay was not called yet, unless released with the client's
// connection.
func (t *Tunnel) Abandon() {
	t.Up.over.Store(true)
	t.Far.Close()
	if !t.Down.left.Load() {
		t.Near.Close()
	}
	t.Wake()
}

// resume continues a direction that was parked.
func (d *Direction) resume() {
	if d == &d.t.Up {
		d.t.owner.Relay()
	} else {
		d.t.relayDown()
	}
}

// End waits for the end of the bytes from the origin.
func (t *Tunnel) End() {
	<-t.done
	t.Far.Close()
}

// run copies in one direction, until it ends or is parked. It passes on the end of its source as
// the end of this direction only; a failure ends both.
func (d *Direction) run() (parked bool) {
	err, parked := d.copy()
	if parked {
		return true // d belongs to another goroutine
	}
	d.Err = err
	other := d.opposite()
	d.over.Store(true)
	d.quiet.Store(true)
	defer d.t.parking.wake(other) // it notices what happens here
	if d.left.Load() {
		d.src.Close()
		return false
	}
	if d.Err == nil {
		if other.over.Load() {
			return false // both connections are about to be closed
		}
		if c, ok := d.dst.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
			// Most have nothing more to send to a client that has gone.
			d.dst.SetReadDeadline(deadlineIn(d.t.cfg.Answer))
			return false
		}
	}
	d.dst.Close()
	d.src.Close()
	return false
}

func (d *Direction) copy() (err error, parked bool) {
	first := d.First
	d.First = nil
	if d.silent {
		return ErrSilent, false
	}
	idle := d.t.cfg.Silence
	if len(first) > 0 {
		d.dst.SetWriteDeadline(deadlineIn(idle))
		n, err := d.write(first)
		d.N += int64(n)
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
			wait, last, mayPark = d.t.cfg.Answer, true, false
		case mayPark:
			wait = d.still
		}
		// Deadlines cost one call per period instead of one per read: when one passes, the
		// bytes moved in the meantime decide.
		d.src.SetReadDeadline(deadlineIn(wait))
		d.dst.SetWriteDeadline(deadlineIn(3 * idle))
		n, err := d.move()
		d.N += n
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
			if d.t.parking.park(d) {
				return nil, true
			}
			mayPark = false
		default:
			d.quiet.Store(true)
			if d.opposite().quiet.Load() {
				return ErrSilent, false
			}
		}
	}
}

// move copies until an error; nil means the end.
func (d *Direction) move() (n int64, err error) {
	dst, ok1 := d.dst.(*net.TCPConn)
	src, ok2 := d.src.(*net.TCPConn)
	if ok1 && ok2 {
		return d.moveTCP(dst, src)
	}
	// A block is taken when more than a few bytes arrive, and released when fewer do, because
	// most tunnels are idle most of the time.
	few := make([]byte, 512)
	b := few
	defer d.passage.Free()
	for {
		m, err := d.src.Read(b)
		if m > 0 {
			k, err := d.write(b[:m])
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
			b = d.passage.Take(message.MediumBlock) // TLS never returns more at once
		case m < len(few) && len(b) > len(few):
			d.passage.Free()
			b = few
		case len(b) > len(few) && d.passage.Scarce():
			d.passage.Free()
			if err := d.awaitRoom(); err != nil {
				return n, err
			}
			b = d.passage.Take(message.MediumBlock)
		}
	}
}

// write forwards b, or if it is judged, the part that may pass.
func (d *Direction) write(b []byte) (n int, err error) {
	defer func() { d.t.count(int64(n)) }()
	if d.gate != nil {
		if !d.gate.wait(b, d.dst) {
			return 0, net.ErrClosed
		}
		d.gate = nil
	}
	if d.Talk == nil {
		return writeAll(d.dst, b, d.t.cfg.Silence)
	}
	defer d.sayWhy()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended.Load() {
		return 0, nil
	}
	block := d.t.cfg.Memory.Block(int64(len(b)))
	defer d.t.cfg.Memory.Free(block)
	out, over := d.Talk.Pass(d.t.ctx, block, b)
	if len(out) > 0 {
		if _, err := writeAll(d.dst, out, d.t.cfg.Silence); err != nil {
			return 0, err
		}
	}
	if over {
		for _, x := range [...]*Direction{&d.t.Up, &d.t.Down} {
			x.ended.Store(true)
			x.why.Store(d.Talk)
		}
		d.opposite().sayWhy()
	}
	return len(b), nil
}

// sayWhy sends the reason to the receiver when a verdict has ended the conversation: once, and
// as soon as nothing else is being written. Further bytes from the other side are dropped, so
// that no reset overtakes the reason.
func (d *Direction) sayWhy() {
	for d.why.Load() != nil && d.mu.TryLock() {
		if why := d.why.Swap(nil); why != nil {
			d.dst.SetWriteDeadline(time.Now().Add(time.Second))
			d.dst.Write(d.Talk.AppendEnd(nil, why)) // best effort
			if half, ok := d.dst.(interface{ CloseWrite() error }); ok {
				half.CloseWrite()
			}
			d.dst.SetReadDeadline(time.Now().Add(time.Second))
			d.t.parking.wake(d.opposite())
		}
		d.mu.Unlock()
	}
}

// writeAll writes b. A passed deadline means that bytes were lost, which ends the tunnel,
// unlike a silent reader.
func writeAll(c net.Conn, b []byte, silence time.Duration) (int, error) {
	n, err := message.WriteOn(c, b, func() { c.SetWriteDeadline(deadlineIn(silence)) })
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = ErrSilent
	}
	return n, err
}

const (
	burst = 16 << 20    // bytes spliced at once
	pause = time.Second // of the sender, after which splicing ends
)

// moveTCP copies between two TCP connections. While little arrives, it takes a block when
// there are bytes to read and releases it at once. When a read fills the block, the kernel
// moves the bytes (splice, if possible). That takes a pipe, two descriptors and kernel memory,
// which are limited per user, so a pause ends it.
func (d *Direction) moveTCP(dst, src *net.TCPConn) (n int64, err error) {
	raw, err := src.SyscallConn()
	if err != nil {
		return 0, err
	}
	var block []byte
	var got int
	var failed error
	read := func(fd uintptr) bool {
		block = d.passage.Take(message.LargeBlock)
		if got, failed = platform.Read(fd, block); failed == platform.ErrWait {
			d.passage.Free()
			return false // wait until there is something
		}
		return true
	}
	for {
		if d.passage.Scarce() {
			if err := d.awaitRoom(); err != nil {
				return n, err
			}
		}
		if err := raw.Read(read); err != nil {
			return n, err
		}
		if failed != nil || got == 0 {
			d.passage.Free()
			return n, failed
		}
		k, err := d.write(block[:got])
		d.passage.Free()
		n += int64(k)
		if err != nil {
			return n, err
		}
		if got < message.LargeBlock || d.Talk != nil {
			continue
		}
		m, err := d.splice(dst, src)
		return n + m, err
	}
}

// awaitRoom waits until the receiver takes more.
func (d *Direction) awaitRoom() error {
	err := message.AwaitRoom(d.dst, func() {
		d.t.stirred.Add(1) // it may take minutes
		d.dst.SetWriteDeadline(deadlineIn(d.t.cfg.Silence))
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrSilent
	}
	d.dst.SetWriteDeadline(deadlineIn(3 * d.t.cfg.Silence)) // the sender may be silent before the next write
	return err
}

// splice has the kernel copy until the sender pauses (os.ErrDeadlineExceeded) or ends (nil).
func (d *Direction) splice(dst, src *net.TCPConn) (n int64, err error) {
	reading := func() { src.SetReadDeadline(time.Now().Add(pause)) }
	writing := func() {
		d.t.stirred.Add(1) // a burst may take minutes
		dst.SetWriteDeadline(deadlineIn(d.t.cfg.Silence))
	}
	for {
		taken, moved, err := message.Splice(dst, src, burst, reading, writing)
		n += moved
		d.t.count(moved)
		switch {
		case err == errors.ErrUnsupported:
			return n, os.ErrDeadlineExceeded // it goes on in blocks
		case taken > moved && errors.Is(err, os.ErrDeadlineExceeded):
			return n, ErrSilent // the receiver failed: bytes are lost
		case err != nil || taken < burst:
			return n, err
		}
	}
}

// deadlineIn returns the time d from now; the zero time, which means never, if d is 0.
func deadlineIn(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}
