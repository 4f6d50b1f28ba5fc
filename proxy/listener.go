package proxy

import (
	"context"
	"errors"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/handover"
	"shuultuur/lib/message"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/streams"
	"shuultuur/proxy/tunnel"
	"shuultuur/proxy/upstream"
)

// A listener is one listening address with its connections.
type listener struct {
	p        *Proxy
	ctx      context.Context // of its connections; it continues during the drain
	n        atomic.Int64    // connections
	draining atomic.Bool     // each response is the last of its connection
	ending   atomic.Bool     // no further request is awaited
	// A firewall redirects connections to a transparent listener. A name server sends clients
	// to a sinkhole if they asked for a refused name.
	transparent, sinkhole bool
	port                  uint16 // of a transparent one
	wg                    sync.WaitGroup

	mu   sync.Mutex
	open map[*conn]struct{}

	parking tunnel.Parking
}

// Serve accepts clients on ln until ctx ends. Then it stops accepting, closes idle
// connections, lets requests in flight finish within Config.Drain, and closes the rest. If
// another process has taken over the sockets ([handover.HandedOver]), clients may first send another
// request on their connections. Several listeners can be served concurrently; Serve closes ln.
func (p *Proxy) Serve(ctx context.Context, ln net.Listener) error {
	return p.serve(ctx, ln, &listener{})
}

func (p *Proxy) serve(ctx context.Context, ln net.Listener, l *listener) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	l.p, l.ctx, l.open = p, base, map[*conn]struct{}{}
	if a, ok := ln.Addr().(*net.TCPAddr); ok {
		l.port = uint16(a.Port)
	}
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()

	var janitor sync.WaitGroup
	janitor.Go(func() { _ = p.up.Run(base) }) // ends with base, without an error
	janitor.Go(func() { l.watch(base.Done()) })

	err := l.accept(ctx, ln)
	ln.Close()
	l.leave(ctx)
	l.end(p.drain, cancel)
	l.parking.Close()
	janitor.Wait()
	return err
}

func (l *listener) accept(ctx context.Context, ln net.Listener) error {
	var pause time.Duration
	for {
		c, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				l.admit(c) // its client must not notice that we end
			}
			return nil
		}
		if err != nil {
			// Out of descriptors, or the client is already gone: both are temporary.
			if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Temporary() { //nolint:staticcheck // there is no other way to ask
				return err
			}
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			l.p.log.Warn("accept", "error", err, "pause", pause)
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

// admit serves a connection, or refuses it if there is no room.
func (l *listener) admit(c net.Conn) {
	p := l.p
	p.counters.add(connections)
	if l.n.Load() >= int64(p.connections) {
		p.counters.add(connectionsFull)
		p.counters.add(overload)
		select {
		case p.refusing <- struct{}{}:
			l.wg.Go(func() {
				refuse(c)
				<-p.refusing
			})
		default: // too many even for a response
			c.Close()
		}
		return
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(upstream.KeepAlive) // it fails if the client has gone, which reading notices
	}
	l.n.Add(1)
	p.counters[connectionsOpen].Add(1)
	l.wg.Go(func() { l.serve(c) })
}

// refuse answers a client that there is no room.
func refuse(c net.Conn) {
	c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.Write([]byte(full)); err == nil {
		message.Linger(c)
	}
	c.Close()
}

const full = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: " + exchange.RetryAfter + "\r\nContent-Type: text/plain\r\nContent-Length: 60\r\nConnection: close\r\n\r\n" +
	"The proxy has too many connections. Try again in a moment.\r\n"

// serve serves a connection until it ends.
func (l *listener) serve(c net.Conn) {
	p := l.p
	x := p.conns.Get().(*conn)
	x.open(l, c, new(upstream.Session))
	l.mu.Lock()
	l.open[x] = struct{}{}
	l.mu.Unlock()

	defer func() {
		if r := recover(); r != nil || x.tunnel.Load() == nil {
			l.served(x, r)
			return
		}
		// A tunnel may last for hours: it continues without the stack that the request needed.
		l.wg.Add(1)
		go l.relay(x)
	}()
	x.run()
}

// relay continues a connection that has become a tunnel, until it ends or is parked.
func (l *listener) relay(x *conn) {
	parked := false
	defer func() {
		if r := recover(); r != nil || !parked {
			l.served(x, r)
			l.wg.Done()
		}
	}()
	parked = x.endRelaying()
}

// served releases a connection that has ended; r is the panic that ended it, nil for none.
func (l *listener) served(x *conn, r any) {
	p := l.p
	if r != nil {
		p.counters.add(panics)
		p.log.Error("panic in a connection", "client", x.x.addr, "panic", r, "stack", string(debug.Stack()))
	}
	l.mu.Lock()
	delete(l.open, x)
	l.mu.Unlock()
	x.close()
	if r == nil {
		p.conns.Put(x) // the state is unknown after a panic
	}
	l.n.Add(-1)
	p.counters[connectionsOpen].Add(-1)
}

// leaves is how long existing connections may continue after another process took over: most
// of them are tunnels.
const leaves = time.Hour

// leave waits for the end of the connections, while another process accepts.
func (l *listener) leave(ctx context.Context) {
	hurry, ok := handover.HurryFrom(ctx)
	if !ok {
		return
	}
	l.draining.Store(true)
	l.mu.Lock()
	for x := range l.open {
		x.leave()
	}
	l.mu.Unlock()
	handover.Wait(&l.wg, hurry, leaves)
}

// abandonTime is how long connections that were cut may take to end. What is still judged then
// does not end.
const abandonTime = 2 * time.Second

// end waits at most wait for the end of the connections, and then ends them by cancelling their
// context and cutting them. It abandons those that do not notice.
func (l *listener) end(wait time.Duration, cancel func()) {
	defer cancel()
	l.draining.Store(true)
	l.ending.Store(true)
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
	cancel()
	l.mu.Lock()
	for x := range l.open {
		x.Abort()
	}
	l.mu.Unlock()
	timer.Reset(abandonTime)
	select {
	case <-done:
	case <-timer.C:
		l.p.log.Error("connections do not end, and are abandoned", "connections", l.n.Load())
	}
}

// ServeTransparent is Serve for connections that a firewall redirects to ln, whose clients
// believe to speak to web servers. Make ln with Listen.
func (p *Proxy) ServeTransparent(ctx context.Context, ln net.Listener) error {
	p.up.RememberPorts()
	return p.serve(ctx, ln, &listener{transparent: true})
}

// ServeSinkhole is Serve for clients that a name server sends here because they asked for a
// refused name. They believe to speak to a web server, and get a page that explains the
// refusal. The host is judged as usual, so that a user who accepts a warning can continue to
// it.
func (p *Proxy) ServeSinkhole(ctx context.Context, ln net.Listener) error {
	return p.serve(ctx, ln, &listener{transparent: true, sinkhole: true})
}

// Listen listens on addr. tproxy means that a firewall delivers connections without changing
// their destination (Linux: TPROXY), for which the socket needs CAP_NET_ADMIN.
func Listen(ctx context.Context, addr string, tproxy bool) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: -1} // admit does it, for sockets of a predecessor as well
	if tproxy {
		lc.Control = anyAddress
	}
	return handover.Listen(ctx, &lc, "tcp", addr)
}

// follow looks at all that goes on when a minute is over.
func (l *listener) follow(minute int64, now time.Time) {
	var all []*conn
	l.mu.Lock()
	for c := range l.open {
		if m := c.streams.Load(); m != nil {
			m.Each(func(s streams.Server) { all = append(all, s.(*conn)) })
			continue
		}
		all = append(all, c)
	}
	l.mu.Unlock()
	by, _ := l.p.engine.Load().Decider.(filter.Follower)
	for _, c := range all {
		c.use.follow(minute, now, by, func() {
			l.p.counters.add(requestsEnded)
			c.Abort()
		})
	}
}
