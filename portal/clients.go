package portal

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/message"
	"shuultuur/lib/message/proxyprotocol"
	"shuultuur/lib/setting"
)

// This file finds out whose requests come: they may come through a proxy in front of the portal,
// or through the proxy of this gateway.

// headTime bounds how long the first bytes of a connection and the head of a request take.
const headTime = 10 * time.Second

// trusts reports whether an address is that of a proxy in front of the gateway.
func (e *Engine) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(e.Trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}

// fromClient returns the request with the address of the client that a trusted proxy names. If
// it names something else, nobody knows whose the request is.
func (e *Engine) fromClient(r *http.Request) *http.Request {
	from := remote(r)
	lists := r.Header.Values("X-Forwarded-For")
	if len(lists) == 0 || !e.trusts(from) {
		return r
	}
	var err error
	for _, list := range slices.Backward(lists) {
		var ours bool
		if from, ours, err = message.ForwardedFor(list, from, e.Trusted); ours {
			break
		}
	}
	own := *r
	if own.RemoteAddr = ""; err == nil {
		own.RemoteAddr = netip.AddrPortFrom(from, 0).String()
	}
	return &own
}

// A listener accepts connections, whose clients a trusted proxy may name by a PROXY header.
type listener struct {
	net.Listener
	s *Server
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if e := l.s.engine.Load(); err != nil || e == nil || !e.trusts(from.Addr().Unmap().WithZone("")) {
		return c, nil
	}
	n := &namedConn{Conn: c, r: bufio.NewReaderSize(c, proxyprotocol.Max)}
	n.name = sync.OnceFunc(n.readHeader)
	return n, nil
}

// A namedConn is a connection of a trusted proxy.
type namedConn struct {
	net.Conn
	r    *bufio.Reader
	name func() // reads the header, once
	from net.Addr
	err  error
}

// readHeader reads the PROXY header, if there is one.
func (n *namedConn) readHeader() {
	n.from = n.Conn.RemoteAddr()
	_ = n.Conn.SetReadDeadline(time.Now().Add(headTime)) // if it fails, so does reading
	defer n.Conn.SetReadDeadline(time.Time{})
	for size := 1; ; {
		b, err := n.r.Peek(size)
		if err != nil {
			n.err = err
			return
		}
		b, _ = n.r.Peek(n.r.Buffered()) // they are there
		from, length, err := proxyprotocol.Parse(b)
		if err != nil {
			n.err = err
			return
		}
		if length == 0 {
			size = len(b) + 1
			continue
		}
		if length > 0 {
			_, n.err = n.r.Discard(length)
		}
		if from.IsValid() {
			n.from = net.TCPAddrFromAddrPort(from)
		}
		return
	}
}

// RemoteAddr returns the address of the client.
func (n *namedConn) RemoteAddr() net.Addr { n.name(); return n.from }

// Read implements [net.Conn].
func (n *namedConn) Read(b []byte) (int, error) {
	if n.name(); n.err != nil {
		return 0, n.err
	}
	return n.r.Read(b)
}

// Has reports whether a host and port are the portal's, and whether it speaks TLS there. local is
// the address of this machine by which the client has come.
func (s *Server) Has(host string, port uint16, local netip.Addr) (there, tls bool) {
	e := s.engine.Load()
	if e == nil {
		return false, false
	}
	at := &e.Pages.place
	has := func(doors []setting.Address) bool {
		return slices.ContainsFunc(doors, func(door setting.Address) bool {
			own := door.AddrPort()
			if own.Port() != port {
				return false
			}
			if strings.EqualFold(host, at.Name) {
				return true
			}
			a, err := netip.ParseAddr(host)
			return err == nil && (a == own.Addr().Unmap() || own.Addr().IsUnspecified() && a == local)
		})
	}
	return has(at.Plain) || has(at.TLS), has(at.TLS)
}

// ServeClient serves a request on a connection over TLS that a client has opened through the
// proxy.
func (s *Server) ServeClient(ctx context.Context, c net.Conn) {
	one := &oneConn{c: make(chan net.Conn, 1), over: make(chan struct{}), addr: c.LocalAddr()}
	one.c <- &lastConn{Conn: c, over: sync.OnceFunc(func() { close(one.over) })}
	h := s.server(ctx)
	h.SetKeepAlivesEnabled(false)              // the proxy does not see when it is idle, and would wait for it at its end
	_ = h.Serve(tls.NewListener(one, s.tls())) // it ends with the connection
}

// A oneConn is a listener of one connection.
type oneConn struct {
	c    chan net.Conn
	over chan struct{}
	addr net.Addr
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.c:
		return c, nil
	case <-l.over:
		return nil, errors.New("the connection is over")
	}
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.addr }

// A lastConn ends its listener when it is closed.
type lastConn struct {
	net.Conn
	over func()
}

func (c *lastConn) Close() error {
	defer c.over()
	return c.Conn.Close()
}
