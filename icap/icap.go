// Package icap serves other proxies over ICAP (RFC 3507): proxies such as Squid send
// each request and response here before they forward it.
//
// Data moves as follows. [Server.Serve] accepts connections from permitted networks. A
// connection (conn.go) reads ICAP heads (head.go), the HTTP heads that they
// encapsulate, with package message, and bodies in chunks (body.go). Package exchange
// judges REQMOD and RESPMOD (service.go) as it judges requests of the proxy. If a
// message passes, the answer is 204, the edited head (200 or 206), or the body as the
// checks release it. Otherwise it is the page that the proxy would send.
//
// A request that passed waits for its response (pending.go), because both are one
// transaction with one event. If no response comes, the request is recorded alone.
package icap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/handover"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
	"shuultuur/proxy/exchange"
)

// maxPreview is the largest preview, in bytes.
const maxPreview = 64 << 10

// A Server answers ICAP clients. Use [New] to make one.
type Server struct {
	cfg       Config
	clients   []netip.Prefix
	names     *nameFields
	preview   int
	idle      time.Duration
	most      int64
	engine    atomic.Pointer[Engine]
	inspector *exchange.Inspector
	done      func(*filter.Transaction)
	log       *slog.Logger
	ids       filter.IDs
	pool      sync.Pool // of *transaction
	pending   pending
	open      atomic.Int64
	counters
}

// New returns a server that decides with the engine given to [Server.Use],
// holds bodies in i, and passes each completed transaction to done. done must
// not keep it.
func New(cfg Config, i *exchange.Inspector, done func(*filter.Transaction), log *slog.Logger) (*Server, error) {
	if release.Small {
		return nil, release.Lacks("the ICAP server")
	}
	if done == nil {
		done = func(*filter.Transaction) {}
	}
	s := &Server{cfg: cfg, inspector: i, done: done, log: log, idle: cfg.Idle.Or(5 * time.Minute), most: int64(cfg.Connections.Or(1024))}
	if s.most == 0 {
		s.most = math.MaxInt64
	}
	preview := cfg.Preview.Or(4 << 10)
	if preview > maxPreview {
		return nil, setting.At("preview", fmt.Errorf("%d bytes are more than %d", preview, maxPreview))
	}
	s.preview = int(preview)
	var err error
	if s.names, err = readNameFields(&cfg); err != nil {
		return nil, err
	}
	for _, n := range cfg.Clients {
		s.clients = append(s.clients, n.Prefix)
	}
	if len(s.clients) == 0 {
		for _, n := range []string{"127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fe80::/10"} {
			s.clients = append(s.clients, netip.MustParsePrefix(n))
		}
	}
	s.pending.init(cfg.Pending.Or(4096), cfg.Wait.Or(time.Minute))
	s.pool.New = func() any {
		x := new(transaction)
		i.Exchange(&x.Exchange)
		x.T.Flow = &x.flow
		return x
	}
	return s, nil
}

// Use lets e decide about later requests.
func (s *Server) Use(e *Engine) error {
	if e == nil || e.Decider == nil || e.Identify == nil || e.Named == nil || e.Pages == nil {
		return errors.New("icap: an engine needs Decider, Pages, Identify and Named")
	}
	c := *e
	c.judge = exchange.Engine{Decider: c.Decider, Accept: c.Accept, Balance: c.Balance, Pages: c.Pages}
	s.engine.Store(&c)
	return nil
}

// Serve answers clients on ln until ctx ends. Then it stops accepting, closes idle connections,
// gives transactions in progress Config.Drain to finish, and closes the others. It may be
// called for several listeners. It closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	l := &listener{s: s, open: map[*conn]struct{}{}}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	l.ctx = base
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var janitor sync.WaitGroup
	janitor.Go(func() { s.expire(base) })
	err := l.accept(ctx, ln)
	ln.Close()
	l.waitForConns(ctx)
	l.end(s.cfg.Drain.Or(10*time.Second), cancel)
	janitor.Wait()
	s.record(s.pending.take(time.Time{}))
	return err
}

// ServeTLS is Serve for clients that speak TLS (ICAPS).
func (s *Server) ServeTLS(ctx context.Context, ln net.Listener, conf *tls.Config) error {
	return s.Serve(ctx, tls.NewListener(ln, conf))
}

// expire records requests whose response does not come.
func (s *Server) expire(ctx context.Context) {
	tick := time.NewTicker(max(s.pending.wait/4, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.record(s.pending.take(now))
		}
	}
}

func (s *Server) record(list []*transaction) {
	for _, x := range list {
		s.finish(x)
	}
}

// finish records a transaction and releases its storage.
func (s *Server) finish(x *transaction) {
	x.End()
	s.done(&x.T)
	x.flow.Reset()
	x.T.Reset()
	x.credentials = ""
	s.pool.Put(x)
}

// A listener is an address to accept on, with its connections.
type listener struct {
	s        *Server
	ctx      context.Context
	draining atomic.Bool // each connection ends after its next answer
	ending   atomic.Bool // connections do not wait for another request
	wg       sync.WaitGroup
	mu       sync.Mutex
	open     map[*conn]struct{}
}

func (l *listener) accept(ctx context.Context, ln net.Listener) error {
	var pause time.Duration
	for {
		c, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				l.wg.Go(func() { l.serve(c) }) // a client should not notice that we stop
			}
			return nil
		case err != nil:
			// Too few descriptors, or the client has gone. Either is a temporary error.
			if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Temporary() { //nolint:staticcheck // there is no other way to ask
				return err
			}
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			l.s.log.Warn("accept an ICAP connection", "error", err, "pause", pause)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			continue
		}
		pause = 0
		l.wg.Go(func() { l.serve(c) })
	}
}

// serve serves a connection.
func (l *listener) serve(nc net.Conn) {
	s := l.s
	s.add(connections)
	defer nc.Close()
	defer s.open.Add(-1)
	c := newConn(s, l, nc)
	switch n := s.open.Add(1); {
	case !s.allowed(c.peer):
		s.add(clientsRefused)
		s.log.Warn("an ICAP client is in none of the networks of icap.clients", "client", c.peer)
		c.refuse(403, "this address may not ask; add it to icap.clients")
		return
	case n > s.most:
		s.add(connectionsFull)
		c.refuse(503, "too many connections")
		return
	}
	l.mu.Lock()
	l.open[c] = struct{}{}
	l.mu.Unlock()
	defer func() {
		if r := recover(); r != nil {
			s.add(panics)
			s.log.Error("panic in an ICAP connection", "client", c.peer, "panic", r, "stack", string(debug.Stack()))
			if !c.net.wrote {
				c.refuse(500, "internal error")
			}
		}
		l.mu.Lock()
		delete(l.open, c)
		l.mu.Unlock()
	}()
	c.run()
}

func (s *Server) allowed(a netip.Addr) bool {
	for _, p := range s.clients {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// departureTime is how long connections continue after another process has taken over the sockets. A
// proxy would otherwise keep them for as long as it can.
const departureTime = time.Minute

// waitForConns waits for the connections to end while another process accepts new
// ones.
func (l *listener) waitForConns(ctx context.Context) {
	hurry, ok := handover.HurryFrom(ctx)
	if !ok {
		return
	}
	l.draining.Store(true)
	handover.Wait(&l.wg, hurry, departureTime)
}

// each calls f for each connection.
func (l *listener) each(f func(*timedConn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		f(c.net)
	}
}

// abandonTime is how long connections that were closed may take to end.
const abandonTime = 2 * time.Second

// end waits at most wait for the connections and then closes them, and cancels their context. It
// abandons those whose judgement does not end.
func (l *listener) end(wait time.Duration, cancel func()) {
	defer cancel()
	l.draining.Store(true)
	l.ending.Store(true)
	l.mu.Lock()
	for c := range l.open {
		if c.idle.Load() {
			c.net.wake()
		}
	}
	l.mu.Unlock()
	late := time.AfterFunc(wait, func() {
		cancel()
		l.each((*timedConn).stop) // what is not answered yet is answered with 503
	})
	defer late.Stop()
	last := time.AfterFunc(wait+abandonTime/2, func() { l.each(func(c *timedConn) { c.Close() }) })
	defer last.Stop()
	handover.Wait(&l.wg, nil, wait+abandonTime)
}
