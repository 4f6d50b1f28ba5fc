// Package batch reads and writes UDP datagrams in batches. On Linux, one
// recvmmsg(2) and one sendmmsg(2) transfer up to [Size] of them. Elsewhere, or
// if a sandbox forbids these calls, the same methods transfer one at a time.
//
// One goroutine owns a [Conn]: it calls Read, looks at each Datagram, passes
// replies to Reply and sends them with Flush. Nothing is allocated after
// Listen. Later replies are sent by a separate [Sender].
package batch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"shuultuur/lib/handover"
	"shuultuur/lib/platform"
)

const (
	Size     = 64   // datagrams in a batch
	InBytes  = 2048 // longest datagram that is read completely
	OutBytes = 4096 + 512
	// receiveBuffer is the kernel's buffer for bursts: some 1,300 queries, or 20 ms
	// at 60,000 per second. With a quarter of it, one in fifty is lost at 100,000
	// per second if upstreams must be asked.
	receiveBuffer = 1 << 20
)

// A Peer is the sender of a datagram, and the address where it arrived.
type Peer struct {
	Addr  netip.AddrPort // unmapped
	Local netip.Addr     // destination of the datagram; invalid if the system does not report it

	name    rawName           // Addr for the kernel
	nameLen uint32            // 0 if name is not set, because the datagram was read alone
	control [controlSize]byte // sets the source address of the reply
	ctlLen  int
}

// A Conn is one UDP socket.
type Conn struct {
	udp   *net.UDPConn
	bound netip.Addr  // invalid on a wildcard
	fast  *fastReader // nil if batches are not available
	stop  atomic.Bool
	alone atomic.Bool // the system refused to read in batches

	in    [Size][]byte
	peers [Size]Peer
	msgs  [Size][]byte
	out   *Sender
	bufs  [Size][]byte
}

// Listen opens n sockets on one address, among which the kernel distributes
// clients, or one if it cannot. Port 0 takes one free port for all. [::] is
// every IPv6 address, not IPv4.
func Listen(ctx context.Context, addr netip.AddrPort, n int) ([]*Conn, error) {
	// Linux may choose a port for a shared socket that another process of this user
	// shares. A socket that has its port already is shared afterwards.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return reusePort(c, n > 1 && addr.Port() != 0) }}
	var all []*Conn
	for range max(n, 1) {
		c, err := listen(ctx, &lc, addr)
		if err == nil && addr.Port() == 0 && n > 1 {
			var raw syscall.RawConn
			if raw, err = c.udp.SyscallConn(); err == nil {
				err = reusePort(raw, true)
			}
		}
		if len(all) > 0 && errors.Is(err, platform.EADDRINUSE) {
			break // a service manager opened the first one exclusively
		}
		if err != nil {
			for _, c := range all {
				c.Close()
			}
			return nil, fmt.Errorf("listen on udp %s: %w", addr, err)
		}
		all = append(all, c)
		addr = c.LocalAddr()
		if !canSpread {
			break
		}
	}
	return all, nil
}

func listen(ctx context.Context, lc *net.ListenConfig, addr netip.AddrPort) (*Conn, error) {
	network := "udp6" // IPv6 only, on the wildcard too
	if addr.Addr().Is4() {
		network = "udp4"
	}
	p, err := handover.ListenPacket(ctx, lc, network, addr.String())
	if err != nil {
		return nil, err
	}
	c := &Conn{udp: p.(*net.UDPConn)}
	if addr.Addr().IsUnspecified() {
		if err := askDestination(c.udp, addr.Addr().Is6()); err != nil {
			p.Close()
			return nil, fmt.Errorf("ask for the destination of datagrams: %w", err)
		}
	} else {
		c.bound = addr.Addr()
	}
	_ = c.udp.SetReadBuffer(receiveBuffer) // best effort: the system has its own limit
	whole := make([]byte, Size*(InBytes+OutBytes))
	for i := range Size {
		c.in[i], whole = whole[:InBytes:InBytes], whole[InBytes:]
		c.bufs[i], whole = whole[:0:OutBytes], whole[OutBytes:]
	}
	if c.fast, err = newFast(c); err != nil {
		p.Close()
		return nil, err
	}
	c.out = c.NewSender()
	return c, nil
}

// LocalAddr returns the address that the socket is bound to.
func (c *Conn) LocalAddr() netip.AddrPort {
	a := c.udp.LocalAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(a.Addr().Zone()), a.Port())
}

// Read waits for datagrams and returns their number. After Stop it returns
// net.ErrClosed. Other errors concern one datagram or are temporary: continue.
func (c *Conn) Read() (int, error) {
	for {
		n, err := c.read()
		if c.stop.Load() && (err != nil || n == 0) {
			return 0, net.ErrClosed // earlier datagrams are still answered
		}
		if c.fast != nil && (errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EPERM)) {
			c.fast = nil // a sandbox without these calls
			c.alone.Store(true)
			continue
		}
		return n, err
	}
}

// Alone reports whether the system, which has batches, refuses them, so that each datagram costs a
// call.
func (c *Conn) Alone() bool { return c.alone.Load() }

func (c *Conn) read() (int, error) {
	if c.fast != nil {
		return c.fast.read(c)
	}
	p := &c.peers[0]
	n, ctl, flags, from, err := c.udp.ReadMsgUDPAddrPort(c.in[0], p.control[:])
	if err != nil {
		return 0, err
	}
	p.Addr, p.nameLen = from, 0
	c.arrived(p, ctl)
	c.msgs[0] = c.in[0][:n]
	if flags&truncated != 0 {
		c.msgs[0] = nil
	}
	return 1, nil
}

// arrived turns the control message of a datagram into that of its reply.
func (c *Conn) arrived(p *Peer, ctl int) {
	if p.Local, p.ctlLen = c.bound, 0; !c.bound.IsValid() {
		p.Local, p.ctlLen = destination(p.control[:ctl])
	}
}

// Datagram returns the i-th datagram of the last Read, empty if it was longer
// than InBytes. Both results are valid until the next Read.
func (c *Conn) Datagram(i int) ([]byte, *Peer) { return c.msgs[i], &c.peers[i] }

// Buffer returns memory for the reply to the i-th datagram.
func (c *Conn) Buffer(i int) []byte { return c.bufs[i] }

// Reply queues msg for the next Flush. Until then, neither msg nor the
// datagram's peer may change. At most Size replies are queued.
func (c *Conn) Reply(i int, msg []byte) { c.out.Add(&c.peers[i], msg) }

// Flush sends the queued replies and returns how many could not be sent.
func (c *Conn) Flush() int { return c.out.Flush() }

// Stop makes Read return, now and later. Replies may be sent for another
// second.
func (c *Conn) Stop() {
	c.stop.Store(true)
	c.udp.SetReadDeadline(time.Unix(1, 0))
	c.udp.SetWriteDeadline(time.Now().Add(time.Second))
}

// Close closes the socket. Call it after Stop, when nothing is sent any more.
func (c *Conn) Close() error { return c.udp.Close() }

// A Sender sends replies over a Conn's socket. One goroutine may use it.
type Sender struct {
	c     *Conn
	fast  *fastSender
	peers [Size]*Peer
	msgs  [Size][]byte
	n     int
}

// NewSender makes a sender for a goroutine other than the reading one.
func (c *Conn) NewSender() *Sender {
	s := &Sender{c: c}
	if c.fast != nil {
		s.fast = newFastSender(c)
	}
	return s
}

// Full reports that no more replies fit before Flush.
func (s *Sender) Full() bool { return s.n == Size }

// Add queues a reply. Neither it nor its peer may change until Flush.
func (s *Sender) Add(to *Peer, msg []byte) {
	s.peers[s.n], s.msgs[s.n] = to, msg
	s.n++
}

// Flush sends all queued replies and returns how many could not be sent,
// because their network is gone or a firewall forbids it.
func (s *Sender) Flush() (lost int) {
	n := s.n
	s.n = 0
	done := 0
	for s.fast != nil && done < n && s.peers[done].nameLen > 0 {
		sent, err := s.fast.send(s, done, n)
		done += sent
		switch {
		case err == nil:
		case errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EPERM) && !s.fast.works: // a sandbox
			s.fast = nil
		case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
			return lost + n - done
		default: // skips the first of the rest
			done++
			lost++
		}
	}
	for ; done < n; done++ {
		p := s.peers[done]
		if _, _, err := s.c.udp.WriteMsgUDPAddrPort(s.msgs[done], p.control[:p.ctlLen], p.Addr); err != nil {
			lost++
		}
	}
	return lost
}
