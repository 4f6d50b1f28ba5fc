// Package proxy accepts HTTP: as a forward proxy for browsers configured to use it, and as a
// transparent one for connections that a firewall redirects.
//
// Data flows from the top of this list to the bottom; a file calls only those below it.
//
//   - listener.go accepts connections up to a limit, and ends them on stop.
//   - conn.go serves one client connection: PROXY protocol, TLS, one request after another.
//     transparent.go begins a redirected connection, connect.go a tunnel; decrypt.go decrypts
//     TLS if the policy says so. package streams turns HTTP/2 into one connection per stream.
//   - tunnels.go makes the connection a tunnel; package tunnel relays its bytes, in the kernel if
//     possible, and takes the goroutines from silent ones. http1.go writes responses.
//   - vigil.go ends requests whose client has gone while they wait.
//   - forward.go handles one request from its head to its response: it waits for its turn,
//     package exchange judges it, a [RoundTripper] sends it upstream, and the response
//     returns. Outcomes say how the connection continues.
//   - request.go has what a request is and holds; inside.go what is known of the decrypted
//     connection that it came on.
//
// The resources of a connection (reader, request, response, transaction, buffers) are reused
// for the next request and the next connection, so that a request on a kept-alive connection
// allocates next to nothing.
//
// Everything is limited: connections in total and per client, requests in progress and
// waiting, held bytes, bodies judged at a time, heads, and time. Requests beyond the limits
// get status 503 and are counted.
package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/fair"
	"shuultuur/lib/message"
	"shuultuur/lib/metric"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/held"
	"shuultuur/proxy/page"
	"shuultuur/proxy/tunnel"
	"shuultuur/proxy/upstream"
)

// A RoundTripper sends requests to their origins: an [upstream.Transport], or a cache in front
// of one. The contract is that of [upstream.Transport.RoundTrip]. A response may come from
// anywhere; its Body determines how its bytes reach the client (see [message.Body]).
//
// The context is that of the client. A request that must outlive it (one fetch for several
// clients, a refresh in the background) needs its own context, not derived from this one.
type RoundTripper interface {
	RoundTrip(ctx context.Context, q *message.Request) (*message.Response, error)
}

// An Engine decides. It never changes; new settings make a new one, and a request ends with
// the one it began with.
type Engine struct {
	Decider filter.Decider
	// Identify returns the client at an address with a Proxy-Authorization (nil if absent). If
	// the error has a method Challenges() []string, the client must log in: the strings are
	// values of Proxy-Authenticate. If it has RetryAfter() (status int, after time.Duration), the
	// client must try again later. Any other error refuses the request.
	Identify func(ctx context.Context, addr netip.Addr, authorization []byte) (filter.Client, error)
	// Identifier identifies clients by other means than their address and a field of the request;
	// nil for none.
	Identifier Identifier
	// Accept takes the token of a click on a warn page, and returns the token for the cookie
	// that lets the client pass, or an error. If it is nil, no token is accepted.
	Accept func(ctx context.Context, t *filter.Transaction, token string) (string, error)
	// Balance returns what a client has left of its quotas, and the name of their policy, ""
	// if none covers it. If it is nil, there are no quotas.
	Balance func(ctx context.Context, c *filter.Client, now time.Time) (policy string, left []filter.Balance)
	// Votes receives votes on blocked pages. If it is nil, there are none.
	Votes exchange.Votes
	Pages *page.Set // nil: the built-in ones
	// Portal has the pages on which clients sign in; nil for none. They reach it through the
	// proxy, too, before they have signed in, and as themselves.
	Portal Portal
	TLS    *tls.Config // for clients that speak TLS to the proxy; nil refuses them
	// Tickets says that clients sign in with tickets, which may be large.
	Tickets bool
	// JA4 says that the decider needs Transaction.JA4.
	JA4 bool
	// Handshakes says that the decider needs Transaction.TLS, and must decide again when an
	// origin has shown its certificate. JA4 is then set, too.
	Handshakes bool
	// Tunnels says that the decider needs Transaction.Opening.
	Tunnels bool
	// Intercept decrypts TLS connections; nil tunnels them all.
	Intercept *Interception
	// Origins sends requests; nil means the proxy's own transport.
	Origins RoundTripper

	judge exchange.Engine
}

// A Portal serves pages of the gateway.
type Portal interface {
	// Has reports whether a host and port are the portal's, and whether it speaks TLS there.
	// local is the address by which the client has reached the proxy.
	Has(host string, port uint16, local netip.Addr) (there, tls bool)
	// ServeHTTP answers a request, whose RemoteAddr is the client.
	http.Handler
	// ServeClient serves a client's connection over TLS until it ends.
	ServeClient(ctx context.Context, c net.Conn)
}

// An Identifier identifies clients.
type Identifier interface {
	// Forwarded returns the client that a trusted proxy at addr names; field returns the
	// values of a request field.
	ForwardedClient(ctx context.Context, addr netip.Addr, field func(name string) []string) (who filter.Client, note string, ok bool)
	// FieldNames are the fields that Forwarded reads. They are not forwarded.
	FieldNames() []string
	// Certified returns the client to whom a verified certificate belongs.
	CertifiedClient(ctx context.Context, addr netip.Addr, c *x509.Certificate) (filter.Client, bool)
	// IdentifyAgain returns the current state of a client that proved itself on its connection with an
	// earlier request; false if it must prove itself again.
	IdentifyAgain(ctx context.Context, was filter.Client) (filter.Client, bool)
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
	memory    *held.Budget // of inspector
	ids       filter.IDs
	turns     *fair.Semaphore // for requests to be worked on
	busyAt    atomic.Int64    // when the last request without a turn was recorded, in Unix nanoseconds
	clients
	pinned     pins // clients that refuse our certificate
	unreadable pins // connections that cannot be decrypted for other reasons
	fallbacks  fallbacks
	tunnels    tunnel.Config
	names      names
	counters
	conns    sync.Pool
	outs     sync.Pool     // of *[writeSize]byte
	refusing chan struct{} // a token for each connection that is being refused because the proxy is full
}

// New returns a proxy that decides with e and passes every transaction to done when it ends,
// including refused and failed ones. done is called by the goroutine that served the
// transaction, and must not keep it. log may be nil.
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
	cfg.Exchange.Log = log
	if p.inspector, err = exchange.NewInspector(cfg.Exchange); err != nil {
		return nil, err
	}
	p.memory = p.inspector.Memory()
	p.up.SetBudget(p.memory.Origins())
	p.tunnels = tunnel.Config{
		Silence: cfg.Tunnel.Or(10 * time.Minute), Answer: p.answer, Memory: p.memory, Still: tunnel.Stillness,
		Panicked: func(reason any) {
			p.counters.add(panics)
			log.Error("panic in a tunnel", "panic", reason)
		},
	}
	p.connections = limitFiles(p.connections, log)
	p.turns = fair.NewTurns(int64(p.requests), p.queue)
	p.clients.n = map[netip.Addr]int{}
	p.outs.New = func() any { return new([writeSize]byte) }
	p.conns.New = func() any { return newConn(p) }
	p.SetOwn(cfg.Upstream.Own)
	return p, p.Use(e)
}

// SetOwn sets the addresses of the gateway itself, which requests must not reach. Call it
// before the proxy serves.
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

// Upstream returns the transport to origins, for a cache in front of it.
func (p *Proxy) Upstream() *upstream.Transport { return p.up }

// Inspector returns the inspector that holds bodies, to share it with another server.
func (p *Proxy) Inspector() *exchange.Inspector { return p.inspector }

// Problems returns what is wrong with the judgement of bodies.
func (p *Proxy) Problems() []string { return p.inspector.Problems() }

// recordMessage records a message of a conversation.
func (p *Proxy) recordMessage(t *filter.Transaction) {
	t.ID = p.ids.Next(time.Now())
	p.done(t)
}

// Collect implements metric.Collector.
func (p *Proxy) Collect(ch chan<- metric.Metric) {
	for what, d := range descs {
		kind, v := metric.Gauge, int64(0)
		switch what {
		case requestsAllowed:
			v = p.turns.Size()
		case requestsQueued:
			v = p.turns.Waiting()
		default:
			if v = p.counters[what].Load(); what < connectionsOpen {
				kind = metric.Count
			}
		}
		ch <- metric.New(d, kind, float64(v))
	}
	p.inspector.Collect(ch)
	p.up.Collect(ch)
}

// Refusals lists the hosts whose connections could not be decrypted on this node within a day, those
// with most clients first: clients refused our certificate and have not accepted it since, or they do not
// speak what we can read, or the origin wants a certificate of the client.
func (p *Proxy) Refusals() []Refusal {
	list := p.pinned.refusals([]Refusal{}, "clients refuse our certificate",
		"install the root certificate there; if the application is pinned, give the host an allow rule")
	list = p.unreadable.refusals(list, "", "give the host an allow rule, or a block rule")
	slices.SortStableFunc(list, func(a, b Refusal) int {
		return cmp.Or(b.Clients-a.Clients, b.Times-a.Times, strings.Compare(a.Host, b.Host), strings.Compare(a.Why, b.Why))
	})
	return list
}
