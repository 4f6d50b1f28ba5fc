// Package shares shares the connections of a listener among its clients. A client with many of
// them takes none of the last quarter, so that others get in, however long one holds its own.
package shares

import (
	"errors"
	"net"
	"net/netip"
	"sync"
)

// A client that has more than one in few of all connections takes none of the last quarter.
const (
	few  = 32
	kept = 4
)

// clientBits is how much of an IPv6 address belongs to one client, which may have all addresses
// with the same.
const clientBits = 64

// Listen returns a listener that has at most so many connections of l open. It closes those for
// which there is no room.
func Listen(l net.Listener, most int) net.Listener {
	return &listener{Listener: l, most: most, of: map[netip.Addr]int{}}
}

type listener struct {
	net.Listener
	most int

	mu   sync.Mutex
	open int
	of   map[netip.Addr]int
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		who := clientOf(c.RemoteAddr())
		if l.enter(who) {
			return &conn{Conn: c, leave: sync.OnceFunc(func() { l.leave(who) })}, nil
		}
		c.Close()
	}
}

func (l *listener) enter(who netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.most || l.of[who] >= max(1, l.most/few) && l.open >= l.most-l.most/kept {
		return false
	}
	l.open++
	l.of[who]++
	return true
}

func (l *listener) leave(who netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.of[who]--; l.of[who] <= 0 {
		delete(l.of, who)
	}
}

// A conn leaves its listener when it is closed.
type conn struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// SetWriteBuffer sets the size of what the system holds of writes, where the connection has that.
func (c *conn) SetWriteBuffer(size int) error {
	if b, ok := c.Conn.(interface{ SetWriteBuffer(int) error }); ok {
		return b.SetWriteBuffer(size)
	}
	return errors.ErrUnsupported
}

// clientOf returns the address that stands for a client.
func clientOf(a net.Addr) netip.Addr {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{} // they share one place
	}
	who := at.Addr().Unmap().WithZone("")
	if who.Is6() {
		p, _ := who.Prefix(clientBits) // fails for no IPv6 address
		return p.Addr()
	}
	return who
}
