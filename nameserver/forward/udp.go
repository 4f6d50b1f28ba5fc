package forward

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a socket, so that its port is a secret of a few questions.
const (
	socketQueries = 8
	socketAge     = 5 * time.Second
	mostForged    = 20 // datagrams that answer nothing, until TCP is asked
	foldedFor     = time.Hour
	plainFor      = 15 * time.Minute
)

var errSpoofed = errors.New("too many forged answers")

// udp asks over connected sockets, each with one query at a time: an answer
// has to come from the server's address to a random port, with a random ID and
// the question in the random case it was sent in. What fails there is asked
// over TCP.
type udp struct {
	where *locator
	stats *stats
	tcp   *stream

	mu   sync.Mutex
	free []socket

	foldedUntil atomic.Int64 // Unix seconds: the server does not keep case
	plainUntil  atomic.Int64 // the server does not know EDNS
}

type socket struct {
	conn net.Conn
	left int
	till time.Time
}

// take returns a socket for one query.
func (u *udp) take(ctx context.Context) (socket, error) {
	now := time.Now()
	u.mu.Lock()
	for len(u.free) > 0 {
		s := u.free[len(u.free)-1]
		u.free = u.free[:len(u.free)-1]
		if s.till.After(now) {
			u.mu.Unlock()
			return s, nil
		}
		s.conn.Close()
	}
	u.mu.Unlock()
	to, err := u.where.pick(ctx)
	if err != nil {
		return socket{}, err
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		u.where.failed(to.Addr())
		return socket{}, err
	}
	u.stats.dials.Add(1)
	return socket{conn, socketQueries, now.Add(socketAge)}, nil
}

// give returns a socket that no late answer can come to.
func (u *udp) give(s socket) {
	if s.left--; s.left <= 0 || time.Now().After(s.till) {
		s.conn.Close()
		return
	}
	u.mu.Lock()
	u.free = append(u.free, s)
	u.mu.Unlock()
}

func (u *udp) idle(now time.Time) {
	u.mu.Lock()
	kept := u.free[:0]
	for _, s := range u.free {
		if s.till.After(now) {
			kept = append(kept, s)
			continue
		}
		s.conn.Close()
	}
	clear(u.free[len(kept):])
	u.free = kept
	u.mu.Unlock()
	u.tcp.idle(now)
}

func (u *udp) close() {
	u.mu.Lock()
	for _, s := range u.free {
		s.conn.Close()
	}
	u.free = nil
	u.mu.Unlock()
	u.tcp.close()
}

// exchange asks over UDP, and what UDP cannot answer over TCP.
func (u *udp) exchange(ctx context.Context, q *query) (answer, error) {
	now := time.Now().Unix()
	mixed := u.foldedUntil.Load() < now
	edns := u.plainUntil.Load() < now
	a, err := u.ask(ctx, q, mixed, edns)
	switch {
	case errors.Is(err, errSpoofed) || errors.Is(err, errFormat):
		return u.tcp.exchange(ctx, q)
	case err != nil:
		return a, err
	}
	if edns && !a.edns && (a.rcode == rcodeFormErr || a.rcode == rcodeNotImp) || a.rcode == rcodeBadVers {
		return u.withoutEDNS(ctx, q, mixed, a)
	}
	if !a.sameCase {
		return u.otherCase(ctx, q, edns)
	}
	if a.tc {
		u.stats.truncated.Add(1)
		return u.tcp.exchange(ctx, q)
	}
	return a, nil
}

// withoutEDNS asks a server again that seems not to know EDNS (RFC 6891
// section 7), and remembers if that was so.
func (u *udp) withoutEDNS(ctx context.Context, q *query, mixed bool, before answer) (answer, error) {
	u.stats.plain.Add(1)
	a, err := u.ask(ctx, q, mixed, false)
	if err != nil || a.rcode == rcodeFormErr || a.rcode == rcodeNotImp {
		return before, nil
	}
	u.plainUntil.Store(time.Now().Add(plainFor).Unix())
	if a.tc || !a.sameCase {
		u.stats.truncated.Add(1)
		return u.tcp.exchange(ctx, q)
	}
	return a, nil
}

// otherCase is for an answer that fits but for the case of its question: a
// forgery that was lucky with the ID, or a server that does not keep case.
// TCP, which cannot be forged from afar, tells which.
func (u *udp) otherCase(ctx context.Context, q *query, edns bool) (answer, error) {
	u.stats.caseless.Add(1)
	mixed := *q
	mixed.name = mixCase(nil, q.name)
	a, err := u.tcp.exchange(ctx, &mixed)
	if err == nil {
		if !a.sameCase {
			u.foldedUntil.Store(time.Now().Add(foldedFor).Unix())
		}
		return a, nil
	}
	if ctx.Err() != nil {
		return a, err
	}
	u.foldedUntil.Store(time.Now().Add(foldedFor).Unix())
	a, err = u.ask(ctx, q, false, edns)
	if err == nil && a.tc {
		return a, fmt.Errorf("the answer is truncated and TCP does not work")
	}
	return a, err
}

var buffers = sync.Pool{New: func() any { return new([4096]byte) }}

// ask sends one datagram and waits for its answer.
func (u *udp) ask(ctx context.Context, q *query, mixed, edns bool) (answer, error) {
	s, err := u.take(ctx)
	if err != nil {
		return answer{}, err
	}
	buf := buffers.Get().(*[4096]byte)
	defer buffers.Put(buf)

	f := form{id: uint16(rand.Uint32()), edns: edns, name: q.name}
	if mixed {
		var name [255]byte
		f.name = mixCase(name[:], q.name)
	}
	deadline, _ := ctx.Deadline()
	s.conn.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { s.conn.SetDeadline(time.Unix(1, 0)) })
	a, err := u.talk(s.conn, q, f, buf[:])
	if !stop() || err != nil {
		s.conn.Close() // a late answer finds nobody
	} else {
		u.give(s)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil && !errors.Is(err, errFormat) && !errors.Is(err, errSpoofed) && !errors.Is(err, context.Canceled) {
		u.where.failed(addrOf(s.conn))
	}
	return a, err
}

// talk is ask on a socket.
func (u *udp) talk(conn net.Conn, q *query, f form, buf []byte) (answer, error) {
	if _, err := conn.Write(q.append(buf[:0], f)); err != nil {
		return answer{}, err
	}
	for range mostForged {
		n, err := conn.Read(buf)
		if err != nil {
			return answer{}, err
		}
		a, err := q.check(buf[:n], f)
		if err == errForged {
			u.stats.forged.Add(1)
			continue
		}
		if err != nil {
			u.stats.malformed.Add(1)
			return a, err
		}
		a.msg = append(make([]byte, 0, n), buf[:n]...)
		copy(a.msg[headerSize:], q.name)
		return a, nil
	}
	return answer{}, errSpoofed
}

func addrOf(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.UDPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
