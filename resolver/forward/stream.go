package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"shuultuur/lib/dns"
)

// Limits of streams.
const (
	streamConns   = 4   // to one server
	streamQueries = 200 // waiting on one connection before another is opened
	streamIdle    = 10 * time.Second
	writeTime     = 2 * time.Second
)

// errStale is for a connection that answered earlier queries and was closed when this one was
// sent.
var errStale = errors.New("the server closed a connection that was kept")

// stream queries over TCP or TLS: queries are pipelined, and answers come in any order (RFC
// 7766 section 6.2.1.1).
type stream struct {
	life  context.Context // of the forwarder
	stats *stats
	dial  func(ctx context.Context) (net.Conn, error)
	wait  time.Duration // longest time to connect
	pad   bool

	mu     sync.Mutex
	conns  []*lane
	closed bool
	wg     sync.WaitGroup // readers
}

// A lane is one connection.
type lane struct {
	ready chan struct{} // closed when conn or err is set
	conn  net.Conn

	write sync.Mutex

	pulse

	mu      sync.Mutex
	waiting map[uint16]*waiter
	served  int // answers received
	used    time.Time
	err     error // why it has ended
}

type waiter struct {
	q     *query
	f     form
	sent  time.Time
	reply chan reply // holds one
}

type reply struct {
	a   answer
	err error
}

// exchange sends q on an existing or a new connection, and on another one when that is silent.
func (s *stream) exchange(ctx context.Context, q *query) (answer, error) {
	for range 2 {
		a, err := s.hedge(ctx, q)
		if !errors.Is(err, errStale) {
			return a, err
		}
	}
	return s.hedge(ctx, q)
}

func (s *stream) hedge(ctx context.Context, q *query) (answer, error) {
	began := time.Now()
	l, err := s.lane()
	if err != nil {
		return answer{}, err
	}
	suspect := func() bool {
		if !l.silentSince(began) {
			return false
		}
		l.giveUp(s.stats)
		return true
	}
	a, err := hedged(ctx, patienceWith(s.wait), suspect,
		func(ctx context.Context) (answer, error) { return s.try(ctx, l, q) },
		func(ctx context.Context) (answer, error) {
			other, err := s.lane()
			if err != nil {
				return answer{}, err
			}
			a, err := s.try(ctx, other, q)
			if err == nil && l.silentSince(began) {
				s.drop(l)
				l.fail(errStale) // what waits on it is sent again
			}
			return a, err
		})
	if errors.Is(err, errStale) {
		l.giveUp(s.stats)
	}
	return a, err
}

// try sends q on a connection.
func (s *stream) try(ctx context.Context, l *lane, q *query) (answer, error) {
	select {
	case <-l.ready:
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	w, err := l.enter(q, s.pad)
	if err != nil {
		s.drop(l)
		return answer{}, err
	}
	if err := l.send(w); err != nil {
		l.fail(err)
	}
	select {
	case r := <-w.reply:
		if r.err != nil {
			s.drop(l)
		}
		return r.a, r.err
	case <-ctx.Done():
		if l.leave(w) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.drop(l)
			l.fail(context.DeadlineExceeded)
		}
		return answer{}, ctx.Err()
	}
}

// lane returns the connection with the fewest waiting queries, or begins a new one. Those that
// may be dead get no more.
func (s *stream) lane() (*lane, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	var best *lane
	fewest := 0
	suspects := 0
	for _, l := range s.conns {
		if l.suspect.Load() {
			suspects++
			continue
		}
		if n := l.load(); best == nil || n < fewest {
			best, fewest = l, n
		}
	}
	if best != nil && (fewest < streamQueries || len(s.conns)-suspects >= streamConns) {
		s.stats.reused.Add(1)
		return best, nil
	}
	l := &lane{ready: make(chan struct{}), waiting: map[uint16]*waiter{}, used: time.Now()}
	s.conns = append(s.conns, l)
	s.stats.dials.Add(1)
	s.wg.Add(1)
	go s.run(l)
	return l, nil
}

// run connects and reads until the connection ends.
func (s *stream) run(l *lane) {
	defer s.wg.Done()
	ctx, cancel := context.WithTimeout(s.life, s.wait)
	conn, err := s.dial(ctx)
	cancel()
	l.mu.Lock()
	if l.err != nil && err == nil { // closed in the meantime
		conn.Close()
		err = l.err
	}
	l.conn, l.err = conn, err
	l.mu.Unlock()
	close(l.ready)
	if err != nil {
		s.drop(l)
		return
	}
	err = l.read(s.stats)
	s.drop(l)
	l.fail(err)
}

func (s *stream) drop(l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, x := range s.conns {
		if x == l {
			s.conns = append(s.conns[:i:i], s.conns[i+1:]...)
			return
		}
	}
}

func (s *stream) idle(now time.Time) {
	s.mu.Lock()
	conns := s.conns
	s.mu.Unlock()
	for _, l := range conns {
		if l.quiet(now) {
			s.drop(l)
			l.fail(errStale)
		}
	}
}

func (s *stream) close() {
	s.mu.Lock()
	s.closed = true
	conns := s.conns
	s.mu.Unlock()
	for _, l := range conns {
		l.fail(errClosed)
	}
	s.wg.Wait()
}

func (l *lane) load() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// quiet reports whether the connection was idle for a while.
func (l *lane) quiet(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) == 0 && now.Sub(l.used) > streamIdle
}

// enter gives q an ID on the connection.
func (l *lane) enter(q *query, pad bool) (*waiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		if l.served > 0 {
			return nil, errStale
		}
		return nil, l.err
	}
	id := uint16(rand.Uint32())
	for l.waiting[id] != nil {
		id++
	}
	by := way{dns.TCP, l.conn}
	if pad {
		by.transport = dns.TLS
	}
	w := &waiter{q: q, f: form{id: id, edns: true, pad: pad, name: q.name, way: by}, reply: make(chan reply, 1)}
	l.waiting[id] = w
	w.sent = time.Now()
	l.used = w.sent
	return w, nil
}

func (l *lane) send(w *waiter) error {
	buf := w.q.append(make([]byte, 2, 512), w.f)
	binary.BigEndian.PutUint16(buf, uint16(len(buf)-2))
	l.write.Lock()
	defer l.write.Unlock()
	l.conn.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := l.conn.Write(buf)
	return err
}

// leave stops waiting when the time of a query is up. dead is true when nothing was received
// since it was sent: the connection should be dropped.
func (l *lane) leave(w *waiter) (dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, w.f.id)
	return l.silentSince(w.sent)
}

// read passes answers to the waiting queries, until the connection ends.
func (l *lane) read(st *stats) error {
	var size [2]byte
	for {
		if _, err := io.ReadFull(l.conn, size[:]); err != nil {
			return err
		}
		msg := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(l.conn, msg); err != nil {
			return err
		}
		if len(msg) < headerSize {
			st.malformed.Add(1)
			return errFormat
		}
		l.mu.Lock()
		l.beat()
		w := l.waiting[binary.BigEndian.Uint16(msg)]
		l.mu.Unlock()
		if w == nil {
			continue // the query was abandoned
		}
		a, err := w.q.check(msg, w.f)
		if err == errForged {
			// Only the server can write here, so it has confused queries.
			st.forged.Add(1)
			return fmt.Errorf("over TCP: %w", err)
		}
		if err != nil {
			st.malformed.Add(1)
		}
		copy(msg[headerSize:], w.q.name)
		l.deliver(w, a, err)
	}
}

func (l *lane) deliver(w *waiter, a answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[w.f.id] != w {
		return
	}
	delete(l.waiting, w.f.id)
	l.served++
	w.reply <- reply{a, err}
}

// fail ends the connection and every query waiting on it.
func (l *lane) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	if l.conn != nil {
		l.conn.Close()
	}
	if l.served > 0 {
		err = fmt.Errorf("%w: %w", errStale, err)
	}
	for id, w := range l.waiting {
		delete(l.waiting, id)
		w.reply <- reply{err: err}
	}
}
