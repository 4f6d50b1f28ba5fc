package forward

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/release"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// Codes of DNS over QUIC, RFC 9250 section 4.3.
const (
	doqNoError          = 0
	doqRequestCancelled = 3
)

// newQUIC makes the transport for QUIC or HTTP/3.
func (f *Forwarder) newQUIC(a address, where *locator, st *stats) transport {
	if release.Small {
		return nil // parsing refuses addresses with h3 or quic
	}
	to := quicDialler(where, f.limits.timeout)
	if a.scheme == "h3" {
		return newHTTP3(a.url, tlsConfig(a, f.roots, "h3"), st, f.limits.timeout, func(ctx context.Context, cfg *tls.Config) (*quic.Conn, error) {
			st.dials.Add(1)
			return to(ctx, cfg)
		})
	}
	cfg := tlsConfig(a, f.roots, "doq")
	dial := func(ctx context.Context) (*quic.Conn, error) { return to(ctx, cfg) }
	return &doq{life: f.life, stats: st, dial: dial, wait: f.limits.timeout}
}

// newHTTP3 makes the transport for HTTP/3.
func newHTTP3(url string, cfg *tls.Config, st *stats, wait time.Duration, dial func(context.Context, *tls.Config) (*quic.Conn, error)) *https {
	return &https{stats: st, url: url, wait: wait, carry: func() *carrier {
		rt := &http3.Transport{
			TLSClientConfig:        cfg.Clone(),
			MaxResponseHeaderBytes: 64 << 10,
			Dial: func(ctx context.Context, _ string, cfg *tls.Config, _ *quic.Config) (*quic.Conn, error) {
				return dial(ctx, cfg)
			},
		}
		return &carrier{rt: rt, end: func() { rt.Close() }}
	}}
}

// doq queries over QUIC, each query on its own stream (RFC 9250).
type doq struct {
	life  context.Context
	stats *stats
	dial  func(ctx context.Context) (*quic.Conn, error)
	wait  time.Duration

	mu     sync.Mutex
	now    *doqConn
	closed bool
	wg     sync.WaitGroup // diallers
}

// A doqConn is a connection, possibly not yet established.
type doqConn struct {
	ready chan struct{} // closed when conn or err is set
	conn  *quic.Conn
	err   error
	pulse
}

func (d *doq) exchange(ctx context.Context, q *query) (answer, error) {
	began := time.Now()
	var on atomic.Pointer[doqConn] // where the query waits
	suspect := func() bool {
		c := on.Load()
		if c == nil || !c.silentSince(began) {
			return false
		}
		c.giveUp(d.stats)
		return true
	}
	return hedged(ctx, patienceWith(d.wait), suspect,
		func(ctx context.Context) (answer, error) { return d.try(ctx, q, &on) },
		func(ctx context.Context) (answer, error) {
			a, err := d.try(ctx, q, nil)
			if c := on.Load(); err == nil && c.silentSince(began) {
				d.end(c) // what waits on it is sent again
			}
			return a, err
		})
}

// try sends q on the connection, which it notes in on, and again on the next when that ends.
func (d *doq) try(ctx context.Context, q *query, on *atomic.Pointer[doqConn]) (answer, error) {
	for {
		c, fresh, err := d.connect()
		if err != nil {
			return answer{}, err
		}
		if on != nil {
			on.Store(c)
		}
		select {
		case <-c.ready:
		case <-ctx.Done():
			return answer{}, ctx.Err()
		}
		if c.err != nil {
			return answer{}, c.err
		}
		sent := time.Now()
		a, err := d.ask(ctx, c.conn, q)
		if err == nil {
			c.beat()
			return a, nil
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && c.silentSince(sent) {
			d.end(c) // no response at all: the server may have lost the connection
		}
		if ctx.Err() != nil || c.conn.Context().Err() == nil {
			return a, err
		}
		d.drop(c)
		if fresh {
			return a, err
		}
		c.giveUp(d.stats)
	}
}

// end closes a connection, if it is established.
func (d *doq) end(c *doqConn) {
	d.drop(c)
	select {
	case <-c.ready:
		if c.err == nil {
			_ = c.conn.CloseWithError(doqNoError, "")
		}
	default: // it is still being established
	}
}

// connect returns the connection; fresh says that it was not used before.
func (d *doq) connect() (c *doqConn, fresh bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, false, errClosed
	}
	if c = d.now; c == nil || c.suspect.Load() || c.hasEnded() {
		c, fresh = &doqConn{ready: make(chan struct{})}, true
		d.now = c
		d.stats.dials.Add(1)
		begun := c
		d.wg.Go(func() { d.run(begun) })
	} else {
		d.stats.reused.Add(1)
	}
	return c, fresh, nil
}

// hasEnded reports whether the connection has ended.
func (c *doqConn) hasEnded() bool {
	select {
	case <-c.ready:
		return c.err != nil || c.conn.Context().Err() != nil
	default:
		return false
	}
}

func (d *doq) run(c *doqConn) {
	ctx, cancel := context.WithTimeout(d.life, d.wait)
	defer cancel()
	c.conn, c.err = d.dial(ctx)
	close(c.ready)
}

func (d *doq) drop(c *doqConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == c {
		d.now = nil
	}
}

// ask sends one query and reads its answer.
func (d *doq) ask(ctx context.Context, conn *quic.Conn, q *query) (answer, error) {
	s, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return answer{}, err
	}
	stop := context.AfterFunc(ctx, func() {
		s.CancelRead(doqRequestCancelled)
		s.CancelWrite(doqRequestCancelled)
	})
	defer stop()
	f := form{edns: true, pad: true, name: q.name, way: way{dns.QUIC, conn}} // ID 0: RFC 9250 section 4.2.1
	buf := q.append(make([]byte, 2, 512), f)
	binary.BigEndian.PutUint16(buf, uint16(len(buf)-2))
	if _, err := s.Write(buf); err != nil {
		return answer{}, err
	}
	if err := s.Close(); err != nil {
		return answer{}, err
	}
	var size [2]byte
	if _, err := io.ReadFull(s, size[:]); err != nil {
		return answer{}, err
	}
	msg := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(s, msg); err != nil {
		return answer{}, err
	}
	s.CancelRead(doqNoError)
	return finish(q, f, msg, d.stats)
}

func (d *doq) idle(time.Time) {} // QUIC has its own idle time-out

func (d *doq) close() {
	d.mu.Lock()
	d.closed = true
	c := d.now
	d.mu.Unlock()
	d.wg.Wait()
	if c != nil && c.err == nil {
		_ = c.conn.CloseWithError(doqNoError, "")
	}
}

// ownSessions gives each connection a copy of the session that it resumes, which the library changes.
type ownSessions struct{ tls.ClientSessionCache }

// Get implements [tls.ClientSessionCache].
func (s ownSessions) Get(key string) (*tls.ClientSessionState, bool) {
	shared, ok := s.ClientSessionCache.Get(key)
	if !ok || shared == nil {
		return shared, ok
	}
	ticket, state, err := shared.ResumptionState()
	if err != nil || state == nil {
		return nil, false
	}
	b, err := state.Bytes()
	if err != nil {
		return nil, false
	}
	if state, err = tls.ParseSessionState(b); err != nil {
		return nil, false
	}
	own, err := tls.NewResumptionState(ticket, state)
	return own, err == nil
}

// quicDialler returns a function that connects to an upstream.
func quicDialler(where *locator, wait time.Duration) func(context.Context, *tls.Config) (*quic.Conn, error) {
	return func(ctx context.Context, cfg *tls.Config) (*quic.Conn, error) {
		cfg = cfg.Clone() // the library changes it, while another connection uses it
		if cfg.ClientSessionCache != nil {
			cfg.ClientSessionCache = ownSessions{cfg.ClientSessionCache}
		}
		to, err := where.pick(ctx)
		if err != nil {
			return nil, err
		}
		c, err := quic.DialAddr(ctx, to.String(), cfg, &quic.Config{
			HandshakeIdleTimeout: wait,
			MaxIdleTimeout:       15 * time.Second,
			MaxIncomingStreams:   -1,
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			where.failed(to.Addr())
		}
		return c, err
	}
}
