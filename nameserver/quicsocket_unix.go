//go:build (darwin || freebsd || linux) && !small

package nameserver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/net/ipv4"

	"shuultuur/lib/handover"
)

// markSize is how many bytes of a connection's identifier say whose connection it is. Clients choose
// the first identifier of a connection at random, and must not meet a mark by chance.
const markSize = 4

type mark [markSize]byte

// A quicSocket is the UDP socket of a QUIC listener. The servers before this one, in other processes or
// in this one, still answer their connections and have the same socket, but only the newest server
// reads it. It passes on the datagrams of earlier servers, which are known by the mark in the
// identifiers of their connections.
type quicSocket struct {
	*net.UDPConn
	batch   *ipv4.PacketConn
	own     mark
	inbox   *net.UnixConn            // where later servers put our datagrams; nil if there is no way to have one
	earlier map[mark]syscall.RawConn // the inboxes of earlier servers; for the goroutine that reads
	handed  atomic.Bool              // a later server reads the socket
	frame   []byte                   // for the goroutine that reads
}

// newQUICSocket returns the socket of the listener with this name.
func newQUICSocket(ctx context.Context, name string, udp *net.UDPConn) *quicSocket {
	s := &quicSocket{UDPConn: udp, batch: ipv4.NewPacketConn(udp), earlier: map[mark]syscall.RawConn{}, frame: make([]byte, 4<<10)}
	_, _ = rand.Read(s.own[:])
	name = "quic " + name + " "
	for rest, inbox := range handover.Earlier(ctx, name) {
		var m mark
		if n, err := hex.Decode(m[:], []byte(rest)); err == nil && n == markSize {
			if raw, err := inbox.SyscallConn(); err == nil {
				s.earlier[m] = raw
			}
		}
	}
	s.inbox, _ = handover.Inbox(ctx, name+hex.EncodeToString(s.own[:])) // without it, clients connect again
	return s
}

// prepare lets tr mark the connections.
func (s *quicSocket) prepare(tr *quic.Transport) { tr.Conn, tr.ConnectionIDGenerator = s, s.own }

// GenerateConnectionID implements the generator of identifiers in quic-go.
func (m mark) GenerateConnectionID() (quic.ConnectionID, error) {
	b := make([]byte, m.ConnectionIDLen())
	copy(b, m[:])
	_, _ = rand.Read(b[markSize:])
	return quic.ConnectionIDFromBytes(b), nil
}

// ConnectionIDLen implements the generator of identifiers in quic-go.
func (mark) ConnectionIDLen() int { return markSize + 8 }

// markOf returns the mark in the identifier of a datagram's connection (RFC 8999, section 5).
func markOf(b []byte) (m mark) {
	size := m.ConnectionIDLen()
	switch {
	case len(b) < 6+size:
	case b[0]&0x80 == 0:
		copy(m[:], b[1:])
	case int(b[5]) == size:
		copy(m[:], b[6:])
	}
	return m
}

// handOver leaves the socket to a later server. This one goes on with its inbox. It reports false if
// it has none.
func (s *quicSocket) handOver() bool {
	s.handed.Store(true)
	_ = s.UDPConn.SetReadDeadline(time.Now())
	return s.inbox != nil
}

// ReadBatch reads datagrams of our connections, and of new ones.
func (s *quicSocket) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	for {
		if s.handed.Load() && s.inbox != nil {
			return s.readInbox(ms)
		}
		n, err := s.batch.ReadBatch(ms, flags)
		if err != nil {
			if s.handed.Load() && s.inbox != nil && errors.Is(err, os.ErrDeadlineExceeded) {
				continue
			}
			return n, err
		}
		if len(s.earlier) > 0 {
			n = s.passOn(ms[:n])
		}
		if n > 0 {
			return n, nil
		}
	}
}

// passOn gives the datagrams of earlier servers to them, and returns how many others there are, at the
// beginning of ms. It copies them there: the buffers of a message stay its own.
func (s *quicSocket) passOn(ms []ipv4.Message) (others int) {
	for i := range ms {
		m := &ms[i]
		b := m.Buffers[0][:m.N]
		of := markOf(b)
		if inbox, ok := s.earlier[of]; ok {
			if !s.deliver(inbox, m.Addr, m.OOB[:m.NN], b) {
				delete(s.earlier, of)
			}
			continue
		}
		if to := &ms[others]; to != m {
			to.N, to.NN, to.Flags, to.Addr = copy(to.Buffers[0], b), copy(to.OOB, m.OOB[:m.NN]), m.Flags, m.Addr
		}
		others++
	}
	return others
}

// deliver puts a datagram into an inbox: its sender, what the system said of it, and itself. It drops
// the datagram if the inbox is full, as the socket would. It reports false if nobody reads the inbox.
func (s *quicSocket) deliver(inbox syscall.RawConn, from net.Addr, oob, b []byte) bool {
	udp, ok := from.(*net.UDPAddr)
	if !ok {
		return true
	}
	addr, err := udp.AddrPort().MarshalBinary()
	if err != nil || len(addr) > 255 || len(oob) > 255 {
		return true
	}
	f := append(append(s.frame[:0], byte(len(addr)), byte(len(oob))), addr...)
	f = append(append(f, oob...), b...)
	var sent error
	err = inbox.Write(func(fd uintptr) bool {
		_, sent = syscall.Write(int(fd), f)
		return true
	})
	return err == nil && (sent == nil || errors.Is(sent, syscall.EAGAIN) || errors.Is(sent, syscall.ENOBUFS))
}

// readInbox reads one datagram that a later server has passed on.
func (s *quicSocket) readInbox(ms []ipv4.Message) (int, error) {
	for {
		n, err := s.inbox.Read(s.frame)
		if err != nil {
			return 0, err
		}
		f := s.frame[:n]
		if n < 2 || n < 2+int(f[0])+int(f[1]) {
			continue
		}
		sizes, rest := [2]int{int(f[0]), int(f[1])}, f[2:]
		addr, oob, b := rest[:sizes[0]], rest[sizes[0]:][:sizes[1]], rest[sizes[0]+sizes[1]:]
		var from netip.AddrPort
		m := &ms[0]
		if from.UnmarshalBinary(addr) != nil || len(b) > len(m.Buffers[0]) || len(oob) > len(m.OOB) {
			continue
		}
		m.N, m.NN, m.Flags, m.Addr = copy(m.Buffers[0], b), copy(m.OOB, oob), 0, net.UDPAddrFromAddrPort(from)
		return 1, nil
	}
}

// SetReadDeadline limits the reads of both.
func (s *quicSocket) SetReadDeadline(t time.Time) error {
	if s.inbox != nil {
		_ = s.inbox.SetReadDeadline(t)
	}
	return s.UDPConn.SetReadDeadline(t)
}

// Close closes the socket.
func (s *quicSocket) Close() error {
	if s.inbox != nil {
		s.inbox.Close()
	}
	return s.UDPConn.Close()
}
