package forward

import (
	"net"
	"net/netip"

	"shuultuur/lib/dns"
)

// A Watch gets each query that goes to an upstream, and what comes back. The addresses are ours and
// theirs, invalid where HTTPS hides them. It must not wait, and keeps no message.
type Watch func(response bool, over dns.Transport, from, to netip.AddrPort, msg []byte)

// SetWatch shows w all messages of later questions; nil ends that.
func (f *Forwarder) SetWatch(w Watch) { f.watch.Store(&w) }

// watching returns who sees the messages of a question, nil for nobody.
func (f *Forwarder) watching() Watch {
	if w := f.watch.Load(); w != nil {
		return *w
	}
	return nil
}

// A way is what carries a query.
type way struct {
	transport dns.Transport
	conn      ends // nil: it is hidden
}

// ends are the two addresses of a connection.
type ends interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// show shows a message of q, if somebody wants to see it.
func (q *query) show(w way, response bool, msg []byte) {
	if q.watch == nil {
		return
	}
	var from, to netip.AddrPort
	if w.conn != nil {
		from, to = addrPort(w.conn.LocalAddr()), addrPort(w.conn.RemoteAddr())
	}
	q.watch(response, w.transport, from, to, msg)
}

func addrPort(a net.Addr) netip.AddrPort {
	x, ok := a.(interface{ AddrPort() netip.AddrPort })
	if !ok {
		return netip.AddrPort{}
	}
	ap := x.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
