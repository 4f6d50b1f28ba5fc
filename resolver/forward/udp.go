package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/dns"
)

// Limits of a socket, so that a port is used for only a few questions.
const (
	socketQueries = 8
	socketAge     = 5 * time.Second
	mostForged    = 20 // unrelated datagrams before TCP is used
	foldedFor     = time.Hour
	plainFor      = 15 * time.Minute
	plainNames    = 4 // names in succession before a server counts as one without EDNS
)

var errSpoofed = errors.New("too many forged answers")

// udp queries over connected sockets, each for a few queries: an answer must come from the
// server's address to a random port, with a random ID and the question in the random case of
// the query. Failures are repeated over TCP.
//
// No goroutine waits per query: [udp.begin] sends a query on the current socket, and the
// goroutine that reads that socket reports the result. A socket is closed when all its queries
// are answered and it gets no more.
type udp struct {
	life  context.Context // of the forwarder
	where *locator
	stats *stats
	tcp   *stream

	mu      sync.Mutex
	current *socket // for the next query, nil for a new one
	open    map[*socket]struct{}
	closed  bool
	wg      sync.WaitGroup // readers, and repeated queries

	foldedUntil atomic.Int64 // Unix seconds: the server does not preserve case
	plain       plainMemory
}

// A plainMemory remembers that a server does not support EDNS. One odd answer does not say that:
// it may be about one name, or from something on the way. So several names in succession must
// have been answered only without.
type plainMemory struct {
	until atomic.Int64 // Unix seconds
	some  atomic.Bool  // names is not empty
	turn  atomic.Int64 // answers with EDNS

	mu    sync.Mutex
	names []string // answered only without EDNS since the last answer with it
}

// holds reports whether a query should be sent without EDNS. One for signatures never is: they
// come with EDNS alone.
func (m *plainMemory) holds(q *query, now int64) bool { return !q.opt.DO && m.until.Load() >= now }

// note notes a name that was answered only without EDNS. turn is what it was when the query was
// sent: after an answer with EDNS, those to older queries say nothing.
func (m *plainMemory) note(name []byte, turn int64, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if turn != m.turn.Load() {
		return
	}
	if !slices.Contains(m.names, string(name)) {
		m.names = append(m.names, string(name))
	}
	m.some.Store(true)
	if len(m.names) >= plainNames {
		m.until.Store(now.Add(plainFor).Unix())
		m.names = nil
		m.some.Store(false)
	}
}

// forget notes an answer with EDNS.
func (m *plainMemory) forget() {
	m.turn.Add(1)
	if !m.some.Load() && m.until.Load() == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names = nil
	m.some.Store(false)
	m.until.Store(0)
}

// A socket is one port. Callers add queries, and the reading goroutine removes them.
type socket struct {
	conn   *net.UDPConn
	to     netip.Addr
	till   time.Time
	forged int // of the reader

	mu      sync.Mutex
	left    int          // queries that may still be sent
	waiting []*sentQuery // the oldest first
	wakes   time.Time    // when the reader next looks for overdue queries
	err     error        // why it was closed
}

// A sentQuery is a query on a socket.
type sentQuery struct {
	q     *query
	f     form
	until time.Time
	done  func(answer, error)
}

// enter adds a query to a socket with room, with an unused ID.
func (s *socket) enter(p *sentQuery, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 || now.After(s.till) {
		return false
	}
	s.left--
	p.f.way = way{dns.UDP, s.conn}
	for p.f.id = uint16(rand.Uint32()); slices.ContainsFunc(s.waiting, func(o *sentQuery) bool { return o.f.id == p.f.id }); {
		p.f.id++
	}
	s.waiting = append(s.waiting, p)
	if s.wakes.IsZero() || p.until.Before(s.wakes) {
		s.wakes = p.until
		s.conn.SetReadDeadline(s.wakes)
	}
	return true
}

// fail closes a socket; its reader passes the reason to waiting queries.
func (s *socket) fail(err error) {
	s.mu.Lock()
	s.left = 0
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.conn.Close()
}

// begin sends one question. It calls done once, never with a lock held; done must not block.
func (u *udp) begin(q *query, until time.Time, done func(answer, error)) {
	now := time.Now().Unix()
	mixed, edns := u.foldedUntil.Load() < now, !u.plain.holds(q, now)
	turn := u.plain.turn.Load()
	u.send(q, until, mixed, edns, func(a answer, err error) {
		if err == nil && edns && a.edns && !a.withoutEDNS(edns) {
			u.plain.forget()
		}
		if err == nil && a.sameCase && !a.tc && !a.withoutEDNS(edns) || err != nil && !errors.Is(err, errSpoofed) && !errors.Is(err, errFormat) {
			done(a, err)
			return
		}
		u.spawn(func() {
			ctx, cancel := context.WithDeadline(u.life, until)
			defer cancel()
			done(u.retry(ctx, q, turn, mixed, edns, a, err))
		}, done)
	})
}

// spawn runs do in a goroutine that close waits for.
func (u *udp) spawn(do func(), done func(answer, error)) {
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		done(answer{}, errClosed)
		return
	}
	u.wg.Go(do)
	u.mu.Unlock()
}

// send sends one datagram. It calls done as begin does.
func (u *udp) send(q *query, until time.Time, mixed, edns bool, done func(answer, error)) {
	p := &sentQuery{q: q, f: form{edns: edns, name: q.name}, until: until, done: done}
	if mixed {
		p.f.name = mixCase(make([]byte, 0, len(q.name)), q.name)
	}
	to, ok := u.where.known(time.Now())
	if !ok {
		u.spawn(func() {
			ctx, cancel := context.WithDeadline(u.life, until)
			defer cancel()
			to, err := u.where.pick(ctx)
			if err != nil {
				done(answer{}, err)
				return
			}
			u.sendTo(p, to)
		}, done)
		return
	}
	u.sendTo(p, to)
}

func (u *udp) sendTo(p *sentQuery, to netip.AddrPort) {
	s, err := u.socket(p, to)
	if err != nil {
		p.done(answer{}, err)
		return
	}
	var buf [512]byte
	if _, err := s.conn.Write(p.q.append(buf[:0], p.f)); err != nil {
		s.fail(err)
	}
}

// socket returns a socket that p has entered.
func (u *udp) socket(p *sentQuery, to netip.AddrPort) (*socket, error) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, errClosed
	}
	if s := u.current; s != nil && s.enter(p, now) {
		return s, nil
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		u.where.failed(to.Addr())
		return nil, err
	}
	u.stats.dials.Add(1)
	s := &socket{conn: conn, to: to.Addr(), left: socketQueries, till: now.Add(socketAge)}
	s.enter(p, now)
	if u.current != nil {
		u.current.retire()
	}
	u.current = s
	u.open[s] = struct{}{}
	u.wg.Go(func() { u.read(s) })
	return s, nil
}

// retire ends a socket that gets no more queries, once all are answered.
func (s *socket) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left = 0; len(s.waiting) == 0 {
		s.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// read reads from a socket until it ends.
func (u *udp) read(s *socket) {
	buf := buffers.Get().(*[4096]byte)
	defer buffers.Put(buf)
	for more := true; more; {
		n, err := s.conn.Read(buf[:])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			more = u.endOverdue(s)
		case err != nil:
			s.fail(err)
			more = false
		default:
			more = u.dispatch(s, buf[:n])
		}
	}
	u.mu.Lock()
	delete(u.open, s)
	if u.current == s {
		u.current = nil
	}
	u.mu.Unlock()
	s.fail(errClosed)
	s.mu.Lock()
	err, left := s.err, s.waiting
	s.waiting = nil
	s.mu.Unlock()
	if len(left) > 0 && !errors.Is(err, errSpoofed) && !errors.Is(err, errClosed) {
		u.where.failed(s.to)
	}
	for _, p := range left {
		p.done(answer{}, err)
	}
}

// dispatch passes a datagram to the query that waits for it. It returns false when the socket is
// done.
func (u *udp) dispatch(s *socket, msg []byte) bool {
	var p *sentQuery
	if len(msg) >= headerSize {
		s.mu.Lock()
		for _, o := range s.waiting {
			if o.f.id == binary.BigEndian.Uint16(msg) {
				p = o
			}
		}
		s.mu.Unlock()
	}
	a, err := answer{}, errForged
	if p != nil {
		a, err = p.q.check(msg, p.f)
	}
	if err == errForged {
		u.stats.forged.Add(1)
		if s.forged++; s.forged == mostForged {
			s.fail(errSpoofed)
			return false
		}
		return true
	}
	if err != nil {
		u.stats.malformed.Add(1)
	} else {
		a.msg = append(make([]byte, 0, len(msg)), msg...)
		copy(a.msg[headerSize:], p.q.name)
	}
	s.mu.Lock()
	s.waiting = slices.DeleteFunc(s.waiting, func(o *sentQuery) bool { return o == p })
	more := s.left > 0 || len(s.waiting) > 0
	s.mu.Unlock()
	p.done(a, err)
	return more
}

// endOverdue ends queries whose time is up. A socket that has lost one gets no more, and a late
// answer finds no query. It returns false as heard does.
func (u *udp) endOverdue(s *socket) bool {
	now := time.Now()
	var late []*sentQuery
	s.mu.Lock()
	next := s.till
	s.waiting = slices.DeleteFunc(s.waiting, func(p *sentQuery) bool {
		if p.until.After(now) {
			return false
		}
		late = append(late, p)
		return true
	})
	if len(s.waiting) > 0 {
		next = s.waiting[0].until
	}
	if len(late) > 0 || !s.till.After(now) {
		s.left = 0
	}
	more := s.left > 0 || len(s.waiting) > 0
	s.wakes = next
	s.conn.SetReadDeadline(next)
	s.mu.Unlock()
	if len(late) > 0 {
		u.where.failed(s.to)
	}
	for _, p := range late {
		p.done(answer{}, context.DeadlineExceeded)
	}
	return more
}

func (u *udp) idle(now time.Time) { u.tcp.idle(now) } // sockets end by themselves

func (u *udp) close() {
	u.mu.Lock()
	u.closed = true
	for s := range u.open {
		s.fail(errClosed)
	}
	u.mu.Unlock()
	u.tcp.close()
	u.wg.Wait()
}

// exchange queries over UDP, and over TCP if needed.
func (u *udp) exchange(ctx context.Context, q *query) (answer, error) {
	return wait(ctx, func(until time.Time, done func(answer, error)) { u.begin(q, until, done) })
}

// ask sends one datagram and waits for its answer.
func (u *udp) ask(ctx context.Context, q *query, mixed, edns bool) (answer, error) {
	return wait(ctx, func(until time.Time, done func(answer, error)) { u.send(q, until, mixed, edns, done) })
}

// wait waits for the query that begin starts, until ctx ends, which has a deadline.
func wait(ctx context.Context, begin func(until time.Time, done func(answer, error))) (answer, error) {
	until, _ := ctx.Deadline()
	came := make(chan reply, 1)
	begin(until, func(a answer, err error) { came <- reply{a, err} })
	select {
	case r := <-came:
		return r.a, r.err
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// retry handles an unusable result of UDP: a, or err.
func (u *udp) retry(ctx context.Context, q *query, turn int64, mixed, edns bool, a answer, err error) (answer, error) {
	switch {
	case err != nil:
		return u.tcp.exchange(ctx, q)
	case a.withoutEDNS(edns):
		return u.withoutEDNS(ctx, q, turn, mixed, a)
	case !a.sameCase:
		return u.otherCase(ctx, q, edns)
	}
	u.stats.truncated.Add(1)
	return u.tcp.exchange(ctx, q)
}

// withoutEDNS reports whether the server seems not to support EDNS, which the query used.
func (a *answer) withoutEDNS(edns bool) bool {
	return edns && !a.edns && (a.rcode == dns.RcodeFormErr || a.rcode == dns.RcodeNotImp) || a.rcode == dns.RcodeBadVers
}

// withoutEDNS repeats a query to a server that seems not to support EDNS (RFC 6891 section 7),
// and notes it if that was so.
func (u *udp) withoutEDNS(ctx context.Context, q *query, turn int64, mixed bool, before answer) (answer, error) {
	u.stats.plain.Add(1)
	a, err := u.ask(ctx, q, mixed, false)
	if err != nil || a.rcode == dns.RcodeFormErr || a.rcode == dns.RcodeNotImp {
		return before, nil
	}
	u.plain.note(q.name, turn, time.Now())
	if a.tc || !a.sameCase {
		u.stats.truncated.Add(1)
		return u.tcp.exchange(ctx, q)
	}
	return a, nil
}

// otherCase handles an answer that matches except for the case of its question: a forgery with
// a lucky ID, or a server that does not preserve case. TCP, which cannot be forged from afar,
// decides.
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
