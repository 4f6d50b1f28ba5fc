package shares

import (
	"errors"
	"net"
	"testing"
)

// listed is a listener whose connections come from the given addresses.
type listed struct {
	net.Listener
	from []string
}

type from struct {
	net.Conn
	addr   net.Addr
	closed *int
}

func (c *from) RemoteAddr() net.Addr { return c.addr }

func (c *from) Close() error { *c.closed++; return nil }

func (l *listed) accept(closed *int) (net.Conn, error) {
	if len(l.from) == 0 {
		return nil, errors.New("no more")
	}
	a, err := net.ResolveTCPAddr("tcp", l.from[0])
	l.from = l.from[1:]
	return &from{addr: a, closed: closed}, err
}

// counted is listed with a count of refused connections.
type counted struct {
	*listed
	closed *int
}

func (c counted) Accept() (net.Conn, error) { return c.accept(c.closed) }

// TestOneClientDoesNotHoldAllConnections: thousands of slow connections of one address, or one /64,
// leave room for others, and what is closed is free again.
func TestOneClientDoesNotHoldAllConnections(t *testing.T) {
	const most = 64
	for _, greedy := range []string{"10.0.0.1:1", "[2001:db8::%d]:1"} {
		closed := 0
		in := counted{&listed{}, &closed}
		l := Listen(in, most)
		for i := range 9000 {
			addr := greedy
			if greedy[0] == '[' {
				addr = net.JoinHostPort(net.IP{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte(i >> 8), byte(i)}.String(), "1")
			}
			in.from = append(in.from, addr)
		}
		var all []net.Conn
		take := func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				all = append(all, c)
			}
		}
		take()
		if len(all) != most-most/kept || closed != 9000-len(all) {
			t.Errorf("%s has %d connections, and %d were refused; want %d", greedy, len(all), closed, most-most/kept)
		}
		for i := range most / kept {
			in.from = append(in.from, net.JoinHostPort(net.IPv4(10, 1, 0, byte(i)).String(), "1"))
		}
		take()
		if len(all) != most {
			t.Errorf("%d connections with others, want %d", len(all), most)
		}
		for _, c := range all {
			c.Close()
			c.Close() // again
		}
		if n := l.(*listener); n.open != 0 || len(n.of) != 0 {
			t.Errorf("%d connections of %d clients are counted after all were closed", n.open, len(n.of))
		}
	}
}
