// Package upstream sends requests to origins, through a parent proxy if there is one.
//
// [Transport.RoundTrip] takes a connection from the pool or dials one: it refuses forbidden
// addresses after resolving the name, and configures TLS like the client's own. It writes the
// head with the fields that a hop adds. A body that is not in memory follows in its own
// goroutine, because the origin may respond before it has read everything. The response is
// returned as sent. Its body is read from the connection, by the kernel if possible, and the
// connection returns to the pool with the last byte. HTTP/2 connections are shared (http2.go).
//
// A request of a client has the client's [Caller] in its context: it configures TLS, gets 1xx
// responses, and has the memory that makes a request on a kept connection cost no allocation.
package upstream

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/intercept"
	"shuultuur/lib/message"
	"shuultuur/lib/metric"
	"shuultuur/lib/setting"
)

// Config are the settings of a Transport. The zero value of each field means its default.
type Config struct {
	// Parent is a proxy for all requests: http://user:pass@host:port.
	Parent string `yaml:"parent" role:"owner" secret:"url"`
	// NoParent lists hosts that are reached without the parent: a domain includes everything
	// below it; an address or network is for requests that name an address.
	NoParent []string `yaml:"no-parent"`
	// Private lists networks that are not public (RFC 1918, unique local, shared, loopback,
	// link-local) but may be reached.
	Private setting.Networks `yaml:"private"`
	// OldTLS lists origins that only support TLS 1.0 or 1.1, or RSA key exchange, in the form
	// of NoParent. Once the origin's key is known, anyone on the path can read such
	// connections.
	OldTLS []string `yaml:"old-tls"`
	// Relaxed accepts responses that RFC 9112 calls invalid but whose meaning is clear: equal
	// Content-Length fields or one beside chunks, the coding "identity", chunks in HTTP/1.0,
	// control bytes in values, folded fields, ICY. Requests are never relaxed.
	Relaxed bool `yaml:"relaxed"`
	// Own lists our own addresses (listeners, admin), which requests must not reach. An
	// unspecified address means every address of this machine.
	Own []netip.AddrPort `yaml:"-"`
	// NAT64 is the prefix of a translator: an address below it is judged as the IPv4 address that
	// it stands for.
	NAT64 netip.Prefix `yaml:"-"`
	// Via is our name in Via fields: "1.1 name". "" adds none.
	Via string `yaml:"-"`

	Head   setting.Size     `yaml:"head"`   // bytes of a request or response head; default 64 KiB
	Dial   setting.Duration `yaml:"dial"`   // time to connect, including TLS; default 10s
	Answer setting.Duration `yaml:"answer"` // silence of an origin or of a client in the middle of a message; default 60s

	PerHost setting.Count    `yaml:"upstream-per-host"` // idle connections to one address; default 512
	Total   setting.Count    `yaml:"upstream-total"`    // idle connections; default 2048
	Idle    setting.Duration `yaml:"upstream-idle"`     // how long an idle connection is kept; default 30s
}

// Limits of heads, and defaults that others also need.
const (
	DefaultHead   = 64 << 10
	DefaultAnswer = 60 * time.Second
	defaultDial   = 10 * time.Second
	minHead       = 4 << 10
	maxHead       = 1 << 20
)

// A Transport sends requests. It is safe for concurrent use.
type Transport struct {
	guard    guard
	parent   *parent
	noParent []string
	oldTLS   []string
	relaxed  bool
	via      string
	mark     []byte // see Mark
	head     int
	dialTime time.Duration
	answer   time.Duration

	dialer   net.Dialer  // refuses forbidden addresses
	direct   net.Dialer  // for the parent, whose address the administrator set
	tls      *tls.Config // base configuration for origins
	verifier atomic.Pointer[intercept.Verifier]

	dead   dead
	pool   pool
	two    origins2
	budget message.Budget // of windows of HTTP/2, and of bodies on their way
	ports  ports
	heads  sync.Pool // of *[headSize]byte
	counters
}

// New returns a transport with the settings cfg.
func New(cfg Config) (*Transport, error) {
	t := &Transport{
		guard:    cfg.guard(),
		via:      cfg.Via,
		budget:   noBudget{},
		mark:     []byte(strings.ToLower(rand.Text())),
		head:     int(cfg.Head.Or(DefaultHead)),
		dialTime: cfg.Dial.Or(defaultDial),
		answer:   cfg.Answer.Or(DefaultAnswer),
		// The Verifier verifies certificates, because it reports all faults instead of only
		// the first.
		// An origin that asks for a client certificate on some paths alone renegotiates there, in TLS
		// 1.2; crypto/tls lets it have the same certificate only.
		tls: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, Renegotiation: tls.RenegotiateFreelyAsClient, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(1024), DynamicRecordSizingDisabled: true},
	}
	if t.head < minHead || t.head > maxHead {
		return nil, setting.At("head", fmt.Errorf("%v: must be between 4KiB and 1MiB", cfg.Head))
	}
	par, err := parseParent(cfg.Parent)
	if err != nil {
		return nil, setting.At("parent", err)
	}
	t.parent = par
	if t.noParent, err = hostList("no-parent", cfg.NoParent); err != nil {
		return nil, err
	}
	if t.oldTLS, err = hostList("old-tls", cfg.OldTLS); err != nil {
		return nil, err
	}
	t.relaxed = cfg.Relaxed
	names := SystemNames()
	t.dialer = net.Dialer{Timeout: t.dialTime, Control: t.guard.control, Resolver: names, KeepAliveConfig: KeepAlive}
	t.direct = net.Dialer{Timeout: t.dialTime, Resolver: names, KeepAliveConfig: KeepAlive}
	t.heads.New = func() any { return new([headSize]byte) }
	idle := cfg.Idle.Or(30 * time.Second)
	t.pool = pool{perHost: cfg.PerHost.Or(512), total: cfg.Total.Or(2048), idle: idle, byAddr: map[string][]*conn{}}
	t.two.init(t.head, idle, t.answer, t.dialTime)
	return t, nil
}

// Mark returns the mark that t adds to the field [message.LoopField] of requests to a parent. It
// is random at each start, so that it does not identify the gateway.
func (t *Transport) Mark() []byte { return t.mark }

// Verify makes v verify the certificates of origins from now on.
func (t *Transport) Verify(v *intercept.Verifier) { t.verifier.Store(v) }

// SetOwn sets the addresses of the gateway itself. Call it before the first request.
func (t *Transport) SetOwn(own []netip.AddrPort) { t.guard.own = own }

// Run closes unneeded connections until ctx ends; then all idle ones.
func (t *Transport) Run(ctx context.Context) error {
	tick := time.NewTicker(max(t.pool.idle/4, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			t.pool.sweep(time.Now().Add(24 * time.Hour))
			t.two.sweep(true)
			return nil
		case now := <-tick.C:
			t.pool.sweep(now)
			t.two.sweep(false)
		}
	}
}

// RoundTrip sends q and returns the head of the response.
//
// It uses these fields of q: Method, Scheme ("https" or http), Host, Port, Path, Fields,
// Length, Expect, Upgrade, Body and Dial. Fields are sent unchanged, except Host and the
// framing of the body, which are rewritten from Host, Port and Length. The caller removes
// hop-by-hop fields.
//
// One goroutine at a time reads the body until its end, or until the response is closed or
// RoundTrip fails; then it belongs to the caller again. It is closed only to interrupt a
// waiting Read. With Expect, Caller.Interim gets the origin's 100, and the body may wait for
// that. Its trailer is read once it is at its end.
//
// The response is as the origin sent it, including hop-by-hop fields. Its Body is never nil
// and must be closed; it need not be read to its end. The connection returns to the pool when
// the last byte has been read, before Close, and is closed if bytes are left. The Body of a
// response with status 101 implements [SwitchedBody]: the connection then belongs to the caller.
//
// The memory of the response belongs to the Caller: it is valid until the next RoundTrip for
// the same Caller, or without a Caller for an unlimited time.
//
// A request that the origin has not processed is sent again, and one that may be repeated (RFC 9110
// section 9.2.2) also if a kept connection turns out to be dead. Errors: *RefusedError for a forbidden address, *BodyError if q's body failed,
// *message.Error for an invalid response, *FaultError and *HandshakeError for TLS, errors of
// Caller.Faults and Caller.Interim, and those of package net.
func (t *Transport) RoundTrip(ctx context.Context, q *message.Request) (*message.Response, error) {
	c, r := begin(ctx, t, q)
	signIn := credentialsOf(q)
	one, fresh := signIn.sent, false // over HTTP/1.1, on a new connection
	for try := 1; ; try++ {
		d, err := t.destination(c, q, one)
		if err != nil {
			return nil, r.fail(err)
		}
		r.to, r.signs = d, signIn.sent
		l, err := t.connect(ctx, c, r, &signIn, fresh)
		if err != nil {
			c.refusedBy(err, d.toParent)
			return nil, r.fail(err)
		}
		c.sentTo(l.server(), d.toParent)
		if err := c.judge(l.faults); err != nil {
			l.putBack(t, c)
			return nil, r.fail(err)
		}
		r.prepare(&l)
		received, err := r.ask(ctx, &l, d.toParent && d.tls == nil)
		if err == nil {
			return &r.Response, nil
		}
		if received || try == mostTries || c.isAborted() || !r.repeats(&l, err) {
			return nil, r.fail(err)
		}
		kept, unsent := r.kept, r.unsent
		r.kept = nil
		if l.two != nil && wantsHTTP1(err) {
			t.two.refuse(string(c.key))
			one = true
		}
		// A connection that was closed between our check and our request is not the only one. Of
		// HTTP/2 connections, those that take no more streams are known.
		fresh = l.conn != nil || try > 1
		if err = r.fail(err); c.isAborted() || q.Body != nil && !unsent && (kept == nil || !kept.repeatable()) {
			kept.close()
			return nil, err
		}
		t.counters.add(retried)
		c, r = begin(ctx, t, q)
		r.kept = kept
	}
}

// Collect implements metric.Collector.
func (t *Transport) Collect(ch chan<- metric.Metric) {
	for i := range t.counters {
		ch <- metric.New(descs[i], metric.Count, float64(t.counters[i].Load()))
	}
	ch <- metric.New(descs[idle], metric.Gauge, float64(t.pool.size()))
}
