// Package upstream carries requests to origins, through a parent proxy where
// there is one.
//
// Data moves so. [Transport.RoundTrip] takes a connection from the pool, or
// dials one: addresses that nobody may reach are refused after the name has
// been resolved, and TLS looks like the client's own. The head is written with
// what a hop adds, and a body that is not at hand follows in a goroutine of its
// own, because the origin may answer before it has read everything. The
// response comes back as it was sent; its body is read from the connection, by
// the kernel where the platform can, and the connection returns to the pool
// with the last byte. HTTP/2 connections are shared (http2.go).
//
// A request that a client waits for carries the client's [Caller] in its
// context: how TLS is to look, where 1xx responses go, and the storage that
// makes a request on a kept connection cost no allocation.
package upstream

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/intercept"
	"shuultuur/message"
	"shuultuur/metric"
	"shuultuur/setting"
)

// Config has the settings of a Transport. The zero value of each field means
// its default.
type Config struct {
	// Parent is a proxy that all requests go through:
	// http://user:pass@host:port.
	Parent string `yaml:"parent"`
	// NoParent names hosts that are reached without the parent: a domain
	// stands for itself and everything below, an address or network for
	// requests that name an address.
	NoParent []string `yaml:"no-parent"`
	// Private lists networks that are not public (RFC 1918, unique local,
	// shared, loopback, link-local) and may be reached all the same.
	Private setting.Networks `yaml:"private"`
	// OldTLS names origins that speak TLS 1.0 or 1.1, or exchange keys with RSA
	// alone, in the form of NoParent. Anybody on the way can read what such
	// connections carry once the origin's key is known.
	OldTLS []string `yaml:"old-tls"`
	// Relaxed accepts responses that RFC 9112 calls invalid but whose meaning is
	// plain: equal Content-Length fields, lines that end with LF alone, folded
	// fields. Requests are never relaxed.
	Relaxed bool `yaml:"relaxed"`
	// Own lists our own addresses (listeners, admin); no request may reach
	// them. An unspecified address stands for every address of this machine.
	Own []netip.AddrPort `yaml:"-"`
	// Via is what we are called in Via fields: "1.1 name". "" adds none.
	Via string `yaml:"-"`

	Head   setting.Size     `yaml:"head"`   // bytes of a request or response head; default 64 KiB
	Dial   setting.Duration `yaml:"dial"`   // connecting, TLS included; default 10s
	Answer setting.Duration `yaml:"answer"` // silence of an origin or of a client in the middle of a message; default 60s

	PerHost setting.Count    `yaml:"upstream-per-host"` // idle connections to one address; default 512
	Total   setting.Count    `yaml:"upstream-total"`    // idle connections; default 2048
	Idle    setting.Duration `yaml:"upstream-idle"`     // how long one is kept; default 30s
}

// Limits of heads, and the defaults that others need as well.
const (
	DefaultHead   = 64 << 10
	DefaultAnswer = 60 * time.Second
	defaultDial   = 10 * time.Second
	minHead       = 4 << 10
	maxHead       = 1 << 20
)

// A Transport carries requests. Many goroutines may use it.
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

	dialer   net.Dialer  // refuses addresses that may not be reached
	direct   net.Dialer  // for the parent, which the administrator named
	tls      *tls.Config // what connections to origins begin with
	verifier atomic.Pointer[intercept.Verifier]

	pool  pool
	two   origins2
	ports ports
	heads sync.Pool // of *[headSize]byte
	counters
}

// New returns a transport that reaches what cfg permits.
func New(cfg Config) (*Transport, error) {
	t := &Transport{
		guard:    guard{private: cfg.Private, own: cfg.Own},
		via:      cfg.Via,
		mark:     []byte(strings.ToLower(rand.Text())),
		head:     int(cfg.Head.Or(DefaultHead)),
		dialTime: cfg.Dial.Or(defaultDial),
		answer:   cfg.Answer.Or(DefaultAnswer),
		// Certificates are looked at by the Verifier, which says all that is
		// wrong with one, not only the first.
		tls: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(1024), DynamicRecordSizingDisabled: true},
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
	names := &net.Resolver{PreferGo: true} // the C library's takes a thread for each name
	t.dialer = net.Dialer{Timeout: t.dialTime, Control: t.guard.control, Resolver: names}
	t.direct = net.Dialer{Timeout: t.dialTime, Resolver: names}
	t.heads.New = func() any { return new([headSize]byte) }
	idle := cfg.Idle.Or(30 * time.Second)
	t.pool = pool{perHost: cfg.PerHost.Or(512), total: cfg.Total.Or(2048), idle: idle, byAddr: map[string][]*conn{}}
	t.two.init(t.head, idle, t.answer, t.dialTime)
	return t, nil
}

// Mark is what t adds to the field [message.Passed] of requests to a parent. It is random and new at each start, so it
// tells nobody which gateway this is.
func (t *Transport) Mark() []byte { return t.mark }

// Verify makes v look at the certificates of origins from now on.
func (t *Transport) Verify(v *intercept.Verifier) { t.verifier.Store(v) }

// SetOwn names the addresses of the gateway itself. It is called before the
// first request.
func (t *Transport) SetOwn(own []netip.AddrPort) { t.guard.own = own }

// Run closes connections that nobody needs, until ctx ends; then all idle ones.
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

// RoundTrip sends q and returns the head of the response to it.
//
// Of q it uses Method, Scheme ("https" or http), Host, Port, Path, Fields,
// Length, Expect, Upgrade, Body and Dial. Fields go as they are, less
// Host and those that say how long the body is: these are written anew from
// Host, Port and Length. The fields of one hop are for the caller to take out.
//
// The body is read until its end, or until the response is closed or RoundTrip
// fails, by one goroutine at a time; afterwards it belongs to the caller again.
// It is closed only to break off a Read that waits. With Expect the origin's
// 100 comes to Caller.Interim, and the body may wait for that. Its trailer
// is asked for when it is Done.
//
// The response is as the origin sent it, fields of one hop included. Its Body
// is never nil and has to be closed; it may be read to its end or not. The
// connection returns to the pool when the last byte has been read, before
// Close, and is closed where bytes are left. A response with status 101 has a
// Body that implements [Switched]: the connection is the caller's from then on.
//
// The storage of the response is the Caller's: it is valid until the next
// RoundTrip for the same Caller, without a Caller for as long as one likes.
//
// A request that may be repeated (RFC 9110, 9.2.2) is sent again where a kept
// connection turns out to be dead. Errors: *Refused for an address that may not
// be reached, *BodyError where q's body failed, *message.Error for a response
// that is none, *FaultError and *HandshakeError for TLS, what Caller.Faults and
// Caller.Interim return, and those of package net.
func (t *Transport) RoundTrip(ctx context.Context, q *message.Request) (*message.Response, error) {
	c, r := begin(ctx, t, q)
	d, err := t.destination(c, q)
	if err != nil {
		return nil, r.fail(err)
	}
	for fresh := false; ; fresh = true {
		l, err := t.connect(ctx, c, &d, fresh)
		if err != nil {
			c.refusedBy(err, d.toParent)
			return nil, r.fail(err)
		}
		c.sentTo(l.server(), d.toParent)
		if err := c.judge(l.faults); err != nil {
			l.putBack(t)
			return nil, r.fail(err)
		}
		received, err := r.ask(ctx, &l, d.toParent && d.tls == nil)
		if err == nil {
			return &r.Response, nil
		}
		again := l.reused && !received && !c.over() && repeatable(q) && !errors.Is(err, os.ErrDeadlineExceeded)
		if err = r.fail(err); !again {
			return nil, err
		}
		// It died between our look at it and our request.
		t.counters.add(retried)
		c, r = begin(ctx, t, q)
	}
}

// repeatable says whether a request may be sent twice (RFC 9110, 9.2.2).
func repeatable(q *message.Request) bool {
	switch q.Method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return q.Length == message.None
	}
	return false
}

// Collect implements metric.Collector.
func (t *Transport) Collect(ch chan<- metric.Metric) {
	for i := range t.counters {
		ch <- metric.New(descs[i], metric.Count, float64(t.counters[i].Load()))
	}
	ch <- metric.New(descs[idle], metric.Gauge, float64(t.pool.size()))
}
