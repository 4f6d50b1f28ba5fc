// Package proxy is the way in for HTTP: a forward proxy for browsers that are
// set up to use it, and a transparent one for connections that a firewall
// redirects here.
//
// Data moves so, from the top of this list to the bottom; a file calls only
// those below it.
//
//   - listener.go accepts connections, up to a limit, and ends them on stop.
//   - conn.go serves one client connection: PROXY protocol, TLS, one request
//     after another. transparent.go begins a redirected connection, connect.go
//     a tunnel; decrypt.go opens TLS where the policy wants that. streams.go
//     turns HTTP/2 into one connection for each stream.
//   - tunnel.go relays bytes, in the kernel where it can. http1.go writes
//     responses.
//   - request.go takes one request from its head to its response: it waits for
//     its turn, is judged by package exchange, goes upstream through a
//     [RoundTripper] and comes back. Outcomes say what becomes of the
//     connection.
//
// What a connection uses (reader, request, response, transaction, buffers) is
// used again for the next request and the next connection, so that a request
// on a kept-alive connection allocates next to nothing.
//
// Everything is bounded: connections in all and of one client, requests at
// work and waiting, held bytes, bodies judged at once, heads, and time. What
// does not fit is answered with 503 and counted.
package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/message"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/fair"
	"shuultuur/proxy/page"
	"shuultuur/proxy/upstream"
)

// A RoundTripper carries requests to their origins: an [upstream.Transport], or
// a cache in front of one. The contract is that of
// [upstream.Transport.RoundTrip]. A response may come from anywhere; its Body
// decides how its bytes reach the client (see [message.Body]).
//
// The context is the client's: a request that is to outlive it (one fetch for
// several clients, a refresh in the background) needs a context of its own, not
// one derived from it.
type RoundTripper interface {
	RoundTrip(ctx context.Context, q *message.Request) (*message.Response, error)
}

// An Engine is what decides. It never changes; new settings make a new one,
// and a request finishes with the one it began with.
type Engine struct {
	Decider filter.Decider
	// Identify returns the client at an address with a Proxy-Authorization (nil
	// when there is none). An error with a method Challenges() []string asks
	// the client to log in: the strings are values of Proxy-Authenticate. One with a method Later() (status int, after time.Duration) asks it to come
	// back. Any other error refuses the request.
	Identify func(ctx context.Context, addr netip.Addr, authorization []byte) (filter.Client, error)
	// Known says who clients are by other things than their address and a field
	// of the request. nil knows of nothing else.
	Known Known
	// Accept takes the token of a click on a warn page and returns the one for
	// the cookie that lets the client pass, or says why not. nil takes none.
	Accept func(ctx context.Context, t *filter.Transaction, token string) (string, error)
	// Balance says what a client has left of its quotas, and by which policy, ""
	// when none covers it. nil knows of no quotas.
	Balance func(ctx context.Context, c *filter.Client, now time.Time) (policy string, left []filter.Balance)
	// Votes takes votes on what is blocked. nil takes none.
	Votes exchange.Votes
	Pages *page.Set   // nil: the built-in ones
	TLS   *tls.Config // for clients that speak TLS to the proxy; nil refuses them
	// JA4 says that the decider wants to know Transaction.JA4.
	JA4 bool
	// Handshakes says that it wants to know Transaction.TLS, and is asked once
	// more when an origin has shown its certificate. JA4 is set as well.
	Handshakes bool
	// Intercept decrypts TLS connections; nil tunnels them all.
	Intercept *Interception
	// Origins carries requests; nil: the proxy's own transport.
	Origins RoundTripper

	judge exchange.Engine
}

// Known says who clients are.
type Known interface {
	// Forwarded says whom a trusted proxy names as its client at addr; field
	// returns the values of a field of the request.
	Forwarded(ctx context.Context, addr netip.Addr, field func(name string) []string) (filter.Client, bool)
	// FieldNames are the fields that Forwarded asks for. They go no further.
	FieldNames() []string
	// Certified says whose a certificate is that was verified.
	Certified(ctx context.Context, addr netip.Addr, c *x509.Certificate) (filter.Client, bool)
	// Again says who a client is by now that proved on its connection, with an
	// earlier request, that it is was; false where it has to prove it again.
	Again(ctx context.Context, was filter.Client) (filter.Client, bool)
}

// A Proxy serves clients. Make one with New.
type Proxy struct {
	limits
	via     viaField // of requests
	trusted []netip.Prefix
	own     []netip.AddrPort

	viaResponses            viaField
	connectPorts, safePorts *ports
	engine                  atomic.Pointer[Engine]
	done                    func(*filter.Transaction)
	log                     *slog.Logger

	up        *upstream.Transport
	inspector *exchange.Inspector
	ids       filter.IDs
	turns     *fair.Share  // for requests to be worked on
	busyAt    atomic.Int64 // when a request without a turn was last put on record, Unix nanoseconds
	clients
	pinned pins
	names  names
	counters
	conns    sync.Pool
	outs     sync.Pool     // of *[writeSize]byte
	refusing chan struct{} // a token for each connection that is refused because we are full
}

// New returns a proxy that decides with e and hands every transaction to done
// when it is over, refused and failed ones included. done is called by the
// goroutine that served the transaction and must not keep it; log may be nil.
func New(cfg Config, e *Engine, done func(*filter.Transaction), log *slog.Logger) (*Proxy, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if done == nil {
		done = func(*filter.Transaction) {}
	}
	p := &Proxy{
		limits: cfg.limits(), trusted: cfg.Trusted,
		done: done, log: log, refusing: make(chan struct{}, 64),
	}
	var err error
	if p.via, err = newVia("via", cfg.Via); err != nil {
		return nil, err
	}
	if p.viaResponses, err = newVia("via-responses", cfg.ViaResponses); err != nil {
		return nil, err
	}
	if p.connectPorts, err = newPorts("connect-ports", cfg.ConnectPorts, "443", "8443"); err != nil {
		return nil, err
	}
	if p.safePorts, err = newPorts("safe-ports", cfg.SafePorts, defaultSafePorts[:]...); err != nil {
		return nil, err
	}
	cfg.Upstream.Via = string(p.via[1])
	if p.up, err = upstream.New(cfg.Upstream); err != nil {
		return nil, err
	}
	if p.inspector, err = exchange.NewInspector(cfg.Exchange); err != nil {
		return nil, err
	}
	p.limitFiles()
	p.turns = fair.NewTurns(int64(p.requests), p.queue)
	p.clients.n = map[netip.Addr]int{}
	p.outs.New = func() any { return new([writeSize]byte) }
	p.conns.New = func() any { return newConn(p) }
	p.SetOwn(cfg.Upstream.Own)
	return p, p.Use(e)
}

// SetOwn names the addresses of the gateway itself, which no request may
// reach. It is called before the proxy serves.
func (p *Proxy) SetOwn(own []netip.AddrPort) {
	p.own = own
	p.up.SetOwn(own)
}

// Use makes e decide from the next request on.
func (p *Proxy) Use(e *Engine) error {
	if e == nil || e.Decider == nil || e.Identify == nil {
		return errors.New("proxy: an engine needs a Decider and Identify")
	}
	c := *e
	if c.Pages == nil {
		pages, err := page.New("", "")
		if err != nil {
			return err
		}
		c.Pages = pages
	}
	if c.Origins == nil {
		c.Origins = p.up
	}
	if c.Intercept != nil {
		p.up.Verify(c.Intercept.Verifier)
	}
	c.judge = exchange.Engine{Decider: c.Decider, Accept: c.Accept, Balance: c.Balance, Votes: c.Votes, Pages: c.Pages}
	p.engine.Store(&c)
	return nil
}

// Upstream returns what carries requests to origins, for a cache in front of it.
func (p *Proxy) Upstream() *upstream.Transport { return p.up }

// Inspector returns what bodies are held in, to share it with another server.
func (p *Proxy) Inspector() *exchange.Inspector { return p.inspector }

// recordMessage puts a message of a conversation on record.
func (p *Proxy) recordMessage(t *filter.Transaction) {
	t.ID = p.ids.Next(time.Now())
	p.done(t)
}
