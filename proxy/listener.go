package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// A listener is one address we accept on and the sessions that came from it.
type listener struct {
	p        *Proxy
	ctx      context.Context // of its sessions; lives through the drain
	n        atomic.Int64    // sessions
	draining atomic.Bool
	// transparent says that a firewall brings connections here, port where.
	// sinkhole says that a name server sends clients here that asked for a
	// name they may not have.
	transparent, sinkhole bool
	port                  uint16
	wg                    sync.WaitGroup

	mu   sync.Mutex
	open map[*session]struct{}
}

// Serve accepts clients on ln until ctx ends. Then it stops accepting, closes
// idle connections, lets requests in flight finish for Config.Drain, and
// closes what is left. It may be called for several listeners; it closes ln.
func (p *Proxy) Serve(ctx context.Context, ln net.Listener) error {
	return p.serve(ctx, ln, &listener{})
}

func (p *Proxy) serve(ctx context.Context, ln net.Listener, l *listener) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	l.p, l.ctx, l.open = p, base, map[*session]struct{}{}
	if a, ok := ln.Addr().(*net.TCPAddr); ok {
		l.port = uint16(a.Port)
	}
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()

	var janitor sync.WaitGroup
	janitor.Go(func() { p.sweep(base) })

	err := l.accept(ctx, ln)
	ln.Close()
	l.drain(p.cfg.Drain)
	cancel()
	janitor.Wait()
	return err
}

// sweep closes upstream connections that nobody needs, until ctx ends.
func (p *Proxy) sweep(ctx context.Context) {
	tick := time.NewTicker(max(p.cfg.UpstreamIdle/4, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			p.up.flush()
			return
		case now := <-tick.C:
			p.up.sweep(now)
		}
	}
}

func (l *listener) accept(ctx context.Context, ln net.Listener) error {
	var pause time.Duration
	for {
		c, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		if err != nil {
			// Out of descriptors, or the client is gone already: that passes.
			if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Temporary() { //nolint:staticcheck // there is no other way to ask
				return err
			}
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			l.p.log.Warn("accept", "err", err, "pause", pause)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			continue
		}
		pause = 0
		l.admit(c)
	}
}

// admit serves a connection or tells it that there is no room.
func (l *listener) admit(c net.Conn) {
	p := l.p
	p.counters.connections.Add(1)
	if l.n.Load() >= int64(p.cfg.Connections) {
		p.counters.refused.Add(1)
		p.counters.overload.Add(1)
		select {
		case p.refusing <- struct{}{}:
			l.wg.Go(func() {
				refuse(c)
				<-p.refusing
			})
		default: // too many even for that
			c.Close()
		}
		return
	}
	l.n.Add(1)
	p.counters.open.Add(1)
	l.wg.Go(func() { l.serve(c) })
}

// refuse tells a client that we are full.
func refuse(c net.Conn) {
	c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.Write([]byte(full)); err == nil {
		linger(c)
	}
	c.Close()
}

const (
	retryAfter = "5" // seconds
	full       = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: " + retryAfter + "\r\nContent-Type: text/plain\r\nContent-Length: 51\r\nConnection: close\r\n\r\n" +
		"The proxy has too many connections. Try again soon."
)

// linger ends our side and reads on for a moment: a connection closed with
// unread bytes is reset, and a reset takes the answer with it (RFC 9112 section
// 9.6). The time is the only bound: who sends fast has to see the answer too,
// before the first reset.
func linger(c net.Conn) {
	hc, ok := c.(interface{ CloseWrite() error })
	if !ok || hc.CloseWrite() != nil {
		return
	}
	c.SetReadDeadline(time.Now().Add(time.Second))
	var b [4 << 10]byte
	for {
		if _, err := c.Read(b[:]); err != nil {
			return
		}
	}
}

// serve is a connection's life.
func (l *listener) serve(c net.Conn) {
	p := l.p
	x := p.sessions.Get().(*session)
	x.open(l, c)
	l.mu.Lock()
	l.open[x] = struct{}{}
	l.mu.Unlock()

	defer func() {
		r := recover()
		if r != nil {
			p.counters.panics.Add(1)
			p.log.Error("panic in a connection", "client", x.client, "panic", r, "stack", string(debug.Stack()))
		}
		l.mu.Lock()
		delete(l.open, x)
		l.mu.Unlock()
		x.close()
		if r == nil {
			p.sessions.Put(x) // one that panicked is in no known state
		}
		l.n.Add(-1)
		p.counters.open.Add(-1)
	}()
	x.run()
}

// drain waits until the sessions are done, at most for wait, and ends them.
func (l *listener) drain(wait time.Duration) {
	l.draining.Store(true)
	l.mu.Lock()
	for x := range l.open {
		x.stopIdle()
	}
	l.mu.Unlock()

	done := make(chan struct{})
	go func() {
		l.wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-timer.C:
	}
	l.mu.Lock()
	for x := range l.open {
		x.abort()
	}
	l.mu.Unlock()
	<-done
}

// peerAddr returns the address of a connection's other end.
func peerAddr(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.IPv6Unspecified()
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
