// Package proxy is the way in for HTTP: a forward proxy for browsers that were
// told about us, and a transparent one for those whose connections a firewall
// sends here.
//
// Data moves so. [Proxy.Serve] accepts connections, each of which is served by
// one goroutine, a session. A session reads a request head with package
// message, fills in its [filter.Transaction] and asks the [filter.Decider] of
// the engine at every stage it reaches. When the answer is to go on, the head
// is written to a connection taken from the pool of upstream connections, the
// response head is read and judged, and the body is copied, in the kernel
// where nobody wants to see it. A body that somebody wants is held in pooled
// blocks until it is complete and judged, then leaves with its head in one
// system call. CONNECT and Upgrade end in a tunnel, two goroutines that splice.
//
// Where the policy wants to look into TLS, CONNECT and redirected hellos end in
// a handshake instead (decrypt.go), and the session goes on with the requests
// inside. HTTP/2 is turned into HTTP/1.1 over a pipe in memory, one session for
// each stream (streams.go), and back on its way to origins that speak it
// (upstream2.go).
//
// What a session uses (reader, request, response, transaction, buffers) is
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
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/filter"
)

// Config is what an administrator may set. The zero value of each field
// means its default.
type Config struct {
	// Via is our name in Via fields; it has to differ between gateways in a
	// chain, because a request that carries it already is a loop. Default
	// "shuultuur-" and eight letters made up at the start.
	Via string `yaml:"via"`
	// Parent is a proxy all requests go through: http://user:pass@host:port.
	Parent string `yaml:"parent"`
	// NoParent names hosts that are reached without the parent: a domain
	// stands for itself and everything below, an address or network for
	// requests that name an address.
	NoParent []string `yaml:"no-parent"`
	// Private lists networks that are not public (RFC 1918, unique local,
	// shared, loopback, link-local) and may be reached all the same.
	Private []netip.Prefix `yaml:"private"`
	// Trusted lists networks whose PROXY protocol header and X-Forwarded-For
	// are believed.
	Trusted []netip.Prefix `yaml:"trusted"`
	// Own lists our own addresses (listeners, admin); no request may reach
	// them. An unspecified address stands for every address of this machine.
	Own []netip.AddrPort `yaml:"-"`
	// ConnectPorts are the ports CONNECT may ask for, or "any". Default 443
	// and 8443.
	ConnectPorts []string `yaml:"connect-ports"`

	Connections int `yaml:"connections"` // at once, per listener; default 4096
	PerClient   int `yaml:"per-client"`  // connections of one address at once; default 256
	Requests    int `yaml:"requests"`    // requests at work at once, until their answer begins, fewer when processors do not keep up; default 2048
	Queue       int `yaml:"queue"`       // requests that wait for their turn; default Connections
	Head        int `yaml:"head"`        // bytes of a request or response head; default 64 KiB

	QueueTime time.Duration `yaml:"queue-time"` // longest wait for a turn or for memory; default 5s
	Idle      time.Duration `yaml:"idle"`       // client connection between requests; default 60s
	HeadTime  time.Duration `yaml:"head-time"`  // from a request's first byte to the end of its head; default 15s
	Total     time.Duration `yaml:"total"`      // a whole request; default none
	Dial      time.Duration `yaml:"dial"`       // connecting upstream; default 10s
	Answer    time.Duration `yaml:"answer"`     // silence of an origin or of a client in the middle of a message; default 60s
	Tunnel    time.Duration `yaml:"tunnel"`     // silence of a tunnel; default 10m
	Drain     time.Duration `yaml:"drain"`      // what requests in flight get on stop; default 30s

	Held      int64 `yaml:"held"`       // bytes of one body held for the checks; default 2 MiB
	HeldTotal int64 `yaml:"held-total"` // held bytes of all bodies; default 64 MiB
	Judges    int   `yaml:"judges"`     // bodies judged at once; default 2 × GOMAXPROCS

	UpstreamPerHost int           `yaml:"upstream-per-host"` // idle upstream connections to one address; default 512
	UpstreamTotal   int           `yaml:"upstream-total"`    // idle upstream connections; default 2048
	UpstreamIdle    time.Duration `yaml:"upstream-idle"`     // how long one is kept; default 30s
}

func orInt[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// defaults fills in what was not set and says what cannot be.
func (c *Config) defaults() error {
	for _, n := range []struct {
		key string
		v   int64
	}{
		{"connections", int64(c.Connections)}, {"per-client", int64(c.PerClient)},
		{"requests", int64(c.Requests)}, {"queue", int64(c.Queue)}, {"head", int64(c.Head)},
		{"queue-time", int64(c.QueueTime)}, {"idle", int64(c.Idle)}, {"head-time", int64(c.HeadTime)},
		{"total", int64(c.Total)}, {"dial", int64(c.Dial)}, {"answer", int64(c.Answer)},
		{"tunnel", int64(c.Tunnel)}, {"drain", int64(c.Drain)}, {"held", c.Held},
		{"held-total", c.HeldTotal}, {"judges", int64(c.Judges)},
		{"upstream-per-host", int64(c.UpstreamPerHost)}, {"upstream-total", int64(c.UpstreamTotal)},
		{"upstream-idle", int64(c.UpstreamIdle)},
	} {
		if n.v < 0 {
			return filter.Setting(n.key, errors.New("must not be negative"))
		}
	}
	orInt(&c.Connections, 4096)
	orInt(&c.PerClient, 256)
	orInt(&c.Requests, 2048)
	orInt(&c.Queue, c.Connections) // their memory is spent anyway
	orInt(&c.Head, 64<<10)
	orInt(&c.QueueTime, 5*time.Second)
	orInt(&c.Idle, 60*time.Second)
	orInt(&c.HeadTime, 15*time.Second)
	orInt(&c.Dial, 10*time.Second)
	orInt(&c.Answer, 60*time.Second)
	orInt(&c.Tunnel, 10*time.Minute)
	orInt(&c.Drain, 30*time.Second)
	orInt(&c.Held, 2<<20)
	orInt(&c.HeldTotal, 64<<20)
	orInt(&c.Judges, 2*runtime.GOMAXPROCS(0))
	orInt(&c.UpstreamPerHost, 512)
	orInt(&c.UpstreamTotal, 2048)
	orInt(&c.UpstreamIdle, 30*time.Second)
	if c.Head < 4<<10 || c.Head > 1<<20 {
		return filter.Setting("head", fmt.Errorf("%d bytes: must be between 4096 and 1048576", c.Head))
	}
	if c.Held > c.HeldTotal {
		return filter.Setting("held", fmt.Errorf("%d bytes of one body do not fit into held-total, %d bytes", c.Held, c.HeldTotal))
	}
	if c.Via == "" {
		c.Via = "shuultuur-" + pseudonym()
	}
	if strings.ContainsFunc(c.Via, func(r rune) bool { return !isTokenByte(r) }) {
		return filter.Setting("via", fmt.Errorf("%q: letters, digits, - and . only", c.Via))
	}
	return nil
}

func isTokenByte(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_'
}

// An Engine is what decides. It never changes; new settings make a new one,
// and a request finishes with the one it began with.
type Engine struct {
	Decider filter.Decider
	// Identify says who asks from where with which Proxy-Authorization (nil
	// when there is none). An error with a method Challenge() string asks the
	// client to log in: the string is the value of Proxy-Authenticate. One
	// with a method Later() (status int, after time.Duration) asks it to come
	// back. Any other error refuses the request.
	Identify func(ctx context.Context, addr netip.Addr, authorization []byte) (filter.Client, error)
	// Accept takes the token of a click on a warn page and returns the one for
	// the cookie that lets the client pass, or says why not. nil takes none.
	Accept func(ctx context.Context, t *filter.Transaction, token string) (string, error)
	// Balance says what a client has left of its quotas, and by which policy, ""
	// when none covers it. nil knows of no quotas.
	Balance func(ctx context.Context, c *filter.Client, now time.Time) (policy string, left []filter.Balance)
	Pages   *Pages      // nil: the built-in ones
	TLS     *tls.Config // for clients that speak TLS to the proxy; nil refuses them
	// JA4 says that the decider wants to know Transaction.JA4.
	JA4 bool
	// Intercept looks into TLS connections; nil tunnels them all.
	Intercept *Interception
}

// A Proxy serves clients. Make one with New.
type Proxy struct {
	cfg      Config
	via      string // "1.1 name"
	ports    map[uint16]bool
	anyPort  bool
	noParent []string
	engine   atomic.Pointer[Engine]
	done     func(*filter.Transaction)
	log      *slog.Logger

	up     *pool
	ids    filter.IDs
	held   *budget
	judges *share       // turns for bodies to be judged
	active *share       // turns for requests to be worked on
	told   atomic.Int64 // when a request without one was last put on record, Unix nanoseconds
	clients
	pinned pins
	names  names
	counters
	sessions sync.Pool
	outs     sync.Pool     // of *[writeSize]byte
	refusing chan struct{} // a token for each connection being told that we are full
}

// New returns a proxy that decides with e and hands every transaction to done
// when it is over, refused and failed ones included. done is called by the
// goroutine that served the transaction and must not keep it; log may be nil.
func New(cfg Config, e *Engine, done func(*filter.Transaction), log *slog.Logger) (*Proxy, error) {
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if done == nil {
		done = func(*filter.Transaction) {}
	}
	p := &Proxy{
		cfg:      cfg,
		via:      "1.1 " + cfg.Via,
		done:     done,
		log:      log,
		held:     newBudget(max(cfg.HeldTotal, (cfg.Held+large-1)/large*large)), // a body that may be held fits
		judges:   newShare(int64(cfg.Judges), 0),
		active:   newTurns(int64(cfg.Requests), cfg.Queue),
		refusing: make(chan struct{}, 64),
	}
	p.clients.n = map[netip.Addr]int{}
	p.outs.New = func() any { return new([writeSize]byte) }
	p.sessions.New = func() any { return newSession(p) }
	if err := p.connectPorts(cfg.ConnectPorts); err != nil {
		return nil, err
	}
	par, err := parseParent(cfg.Parent)
	if err != nil {
		return nil, filter.Setting("parent", err)
	}
	for _, h := range cfg.NoParent {
		p.noParent = append(p.noParent, strings.ToLower(strings.TrimPrefix(h, ".")))
	}
	p.up = newPool(&p.cfg, par, &p.counters)
	if err := p.Use(e); err != nil {
		return nil, err
	}
	return p, nil
}

// Use makes e decide from the next request on.
func (p *Proxy) Use(e *Engine) error {
	if e == nil || e.Decider == nil || e.Identify == nil {
		return errors.New("proxy: an engine needs a Decider and Identify")
	}
	c := *e
	if c.Pages == nil {
		pages, err := NewPages("", "")
		if err != nil {
			return err
		}
		c.Pages = pages
	}
	p.engine.Store(&c)
	return nil
}

func (p *Proxy) connectPorts(list []string) error {
	if len(list) == 0 {
		list = []string{"443", "8443"}
	}
	p.ports = map[uint16]bool{}
	for i, s := range list {
		if s == "any" {
			p.anyPort = true
			continue
		}
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil || n == 0 {
			return filter.Setting("connect-ports["+strconv.Itoa(i)+"]", fmt.Errorf("%q is neither a port nor \"any\"", s))
		}
		p.ports[uint16(n)] = true
	}
	return nil
}

// viaParent says whether host is to be reached through the parent proxy.
func (p *Proxy) viaParent(host string) bool {
	if p.up.parent == nil {
		return false
	}
	if len(p.noParent) == 0 {
		return true
	}
	addr, addrErr := netip.ParseAddr(host)
	return !slices.ContainsFunc(p.noParent, func(no string) bool {
		if addrErr == nil {
			if pre, err := netip.ParsePrefix(no); err == nil {
				return pre.Contains(addr.Unmap())
			}
			return no == host
		}
		return no == host || strings.HasSuffix(host, no) && host[len(host)-len(no)-1] == '.'
	})
}

// A parent is a proxy that stands between us and the origins.
type parent struct {
	addr string // host:port
	auth string // value of Proxy-Authorization, "" for none
}

func parseParent(s string) (*parent, error) {
	if s == "" {
		return nil, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Path != "" && u.Path != "/" {
		return nil, errors.New("must look like http://user:password@host:port")
	}
	port := u.Port()
	if port == "" {
		port = "3128"
	}
	par := &parent{addr: net.JoinHostPort(u.Hostname(), port)}
	if u.User != nil {
		pass, _ := u.User.Password()
		par.auth = basic(u.User.Username(), pass)
	}
	return par, nil
}
