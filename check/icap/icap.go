//go:build !small

// Package icap is the check that asks scanners of others by ICAP (RFC 3507):
// virus scanners, data loss prevention, URL filters.
//
// Data moves so. [Check.Find] picks a server that does what the stage needs
// (server.go): REQMOD for requests, RESPMOD for responses. The heads of the
// message (head.go) and its decoded body go there on a connection that is used
// again (exchange.go). A body that is at hand is read where it lies, and again
// for the next server when one fails; a body that is still coming is sent on
// piece by piece as it comes (stream.go). What the scanner answers (reply.go)
// becomes findings.
//
// A message that no server could look at is an error, which the policy turns
// into the finding icap-error: rules decide whether it passes.
package icap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/setting"
)

// Categories that the check reports.
const (
	virus     = "virus"     // the scanner names an infection
	violation = "violation" // the scanner names violations of its policy
	blocked   = "blocked"   // the scanner answers with a page of its own instead
	modified  = "modified"  // the scanner would let a changed message pass
)

// Check asks scanners. It is safe for many goroutines.
type Check struct {
	servers  []*server
	skip     []string
	requests bool
	clients  bool
	page     bool
	largest  int64
	timeout  time.Duration
	seed     maphash.Seed
	keeper   *keeper
	counters [counted]atomic.Int64
}

// New returns the check of cfg. It connects to nothing.
func New(cfg Config) (*Check, error) {
	c := &Check{requests: cfg.Requests, clients: cfg.Clients, skip: cfg.Skip, largest: cfg.Largest.Or(25 << 20), timeout: cfg.Timeout.Or(30 * time.Second), seed: maphash.MakeSeed()}
	connect := cfg.Connect.Or(2 * time.Second)
	switch {
	case len(cfg.Servers) == 0:
		return nil, setting.At("servers", errors.New(`no server is named; write one like "icap://127.0.0.1:1344/avscan"`))
	case c.timeout == 0:
		return nil, setting.At("timeout", errors.New("off: a scanner that hangs would hold its messages for ever"))
	case connect == 0:
		return nil, setting.At("connect", errors.New("off: a server that does not answer would hold its messages for ever"))
	case cfg.Connections.Off():
		return nil, setting.At("connections", errors.New("off: no scanner could be asked"))
	case c.largest == 0:
		return nil, setting.At("largest", errors.New("off: bodies of any size would go to the scanner; say how much it takes"))
	}
	switch cfg.Page {
	case "", "own":
	case "scanner":
		c.page = true
	default:
		return nil, setting.At("page", fmt.Errorf("%q is neither own nor scanner", cfg.Page))
	}
	for i, t := range c.skip {
		var err error
		if c.skip[i], err = filter.MediaType(t); err != nil {
			return nil, setting.At(fmt.Sprintf("skip[%d]", i), err)
		}
	}
	roots, err := cfg.CA.Roots()
	if err != nil {
		return nil, setting.At("ca", err)
	}
	c.keeper = newKeeper()
	for i, at := range cfg.Servers {
		s, err := newServer(at, cfg.Connections.Or(32), connect)
		if err != nil {
			return nil, setting.At(fmt.Sprintf("servers[%d]", i), err)
		}
		if s.secure {
			s.tls = &tls.Config{RootCAs: roots, ServerName: s.host, MinVersion: tls.VersionTLS12}
		}
		s.keeper = c.keeper
		c.servers = append(c.servers, s)
	}
	return c, nil
}

// Close closes the connections that nobody uses, and ends what looks after
// servers that failed.
func (c *Check) Close() {
	c.keeper.end()
	for _, s := range c.servers {
		s.close()
	}
}

// Name implements [filter.Check].
func (c *Check) Name() string { return "icap" }

// Cost implements [filter.Check].
func (c *Check) Cost() filter.Cost { return filter.Heavy }

// Categories implements [filter.Check].
func (c *Check) Categories() []filter.Category {
	return []filter.Category{{Name: virus}, {Name: violation}, {Name: blocked}, {Name: modified}, {Name: filter.Unread}}
}

// method is that with which a stage is asked about, "" for none.
func (c *Check) method(s filter.Stage) string {
	switch {
	case s == filter.RequestBody, s == filter.Request && c.requests:
		return reqmod
	case s == filter.ResponseBody:
		return respmod
	}
	return ""
}

// Wants implements [filter.Check]: bodies that a server may scan, but for the
// types that are skipped, and heads of requests where the settings say so.
func (c *Check) Wants(t *filter.Transaction, s filter.Stage) bool {
	method := c.method(s)
	if method == "" || !c.does(method) {
		return false
	}
	switch s {
	case filter.Request:
		return t.Proto == filter.HTTP
	case filter.ResponseBody:
		if t.Response == nil {
			return true
		}
		typ := t.Content().Type()
		for _, skip := range c.skip {
			if major, all := strings.CutSuffix(skip, "*"); typ == skip || all && strings.HasPrefix(typ, major) {
				return false
			}
		}
	}
	return true
}

// does says whether a server does method, or may.
func (c *Check) does(method string) bool {
	for _, s := range c.servers {
		if o := s.options.Load(); o == nil || o.does(method) {
			return true
		}
	}
	return false
}

// Find implements [filter.Check].
func (c *Check) Find(ctx context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	var b *content.Body
	switch s {
	case filter.Request:
		if !c.requests || t.Proto != filter.HTTP {
			return dst, nil
		}
	case filter.RequestBody:
		if b = t.Upload; b == nil {
			return dst, nil
		}
	case filter.ResponseBody:
		if b = t.Body; b == nil {
			return dst, nil
		}
	default:
		return dst, nil
	}
	m := &message{t: t, method: c.method(s), body: b}
	r, err := c.ask(ctx, m)
	switch {
	case errors.Is(err, errSkipped):
		return dst, nil
	case errors.Is(err, errUnread):
		return append(dst, filter.Finding{Check: "icap", Category: filter.Unread, Evidence: "not scanned: " + err.Error()}), nil
	case err != nil:
		return dst, err
	case r == nil: // more has to come
		return dst, nil
	}
	return c.report(m, r, dst), nil
}

// A message is what a scanner is asked about.
type message struct {
	t      *filter.Transaction
	method string
	body   *content.Body // nil for a request without one
	target string        // the URL as it was sent
}

var (
	errSkipped = errors.New("the scanner does not want it")
	errUnread  = errors.New("")
)

// An unreadError is a message that is not sent, or not whole.
type unreadError struct{ why string }

func (e *unreadError) Error() string     { return e.why }
func (e *unreadError) Is(err error) bool { return err == errUnread }

func (c *Check) tooLarge() error {
	return &unreadError{fmt.Sprintf("more than %d bytes (checks.icap.largest)", c.largest)}
}

// ask returns what a server says about a message; nil when more of the body has
// to come.
func (c *Check) ask(ctx context.Context, m *message) (*reply, error) {
	if m.body != nil && m.body.Len() == 0 {
		return nil, errSkipped
	}
	if m.body != nil && !m.body.Held() {
		return c.askStream(ctx, m)
	}
	r, err := c.askHeld(ctx, m)
	c.count(err)
	return r, err
}

// count counts how asking about a message has failed.
func (c *Check) count(err error) {
	switch {
	case err == nil, errors.Is(err, errSkipped):
	case errors.Is(err, errUnread):
		c.counters[unread].Add(1)
	default:
		c.counters[failed].Add(1)
	}
}

// askHeld asks one server after another, until one answers.
func (c *Check) askHeld(ctx context.Context, m *message) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	servers, last := c.order(m.method)
	for n, s := range servers {
		if n > 0 && last != nil {
			c.counters[failovers].Add(1)
		}
		r, err := c.askOne(ctx, s, m)
		var f *failure
		if !errors.As(err, &f) {
			return r, err
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	if last == nil {
		return nil, errSkipped // no server does this
	}
	return nil, last
}

// order returns the servers for method, those with a free connection first, and
// why one is left out. Those that failed are left out until they are back: with
// none left, nobody waits.
func (c *Check) order(method string) (all []*server, why error) {
	var busy []*server
	for _, s := range c.servers {
		if o := s.options.Load(); o != nil && !o.does(method) {
			continue
		}
		f := s.down.Load()
		switch {
		case f != nil:
			why = f
		case s.gate.full():
			busy = append(busy, s)
		default:
			all = append(all, s)
		}
	}
	return append(all, busy...), why
}

// askOne asks one server about a message that is at hand. A connection that was
// kept and is closed by now is replaced once.
func (c *Check) askOne(ctx context.Context, s *server, m *message) (*reply, error) {
	o, err := s.service(ctx)
	if err != nil {
		return nil, err
	}
	if !o.does(m.method) {
		return nil, errSkipped
	}
	if o.ignores(m.t.URL) {
		return nil, errSkipped
	}
	if err := s.gate.take(ctx); err != nil {
		return nil, &failure{s: s, err: fmt.Errorf("wait for one of its connections: %w", err)}
	}
	defer s.gate.give()
	l := s.kept()
	if l != nil {
		r, err := c.try(ctx, s, l, o, m)
		var f *failure
		if !errors.As(err, &f) || !f.stale || ctx.Err() != nil {
			return r, s.judge(ctx, err)
		}
	}
	if l, err = s.dial(ctx); err != nil {
		return nil, s.judge(ctx, err)
	}
	r, err := c.try(ctx, s, l, o, m)
	return r, s.judge(ctx, err)
}

// try asks on one connection, which is kept or closed.
func (c *Check) try(ctx context.Context, s *server, l *link, o *options, m *message) (*reply, error) {
	x := c.begin(ctx, s, l, o, m)
	defer x.close()
	if m.body != nil {
		for p, err := range m.body.Blocks() {
			if err != nil {
				return nil, &unreadError{err.Error()}
			}
			if x.sent+int64(len(p)) > c.largest {
				return nil, c.tooLarge()
			}
			if x.write(p); x.over() {
				break
			}
		}
		if why := m.body.Unread(); why == content.TooLarge {
			return nil, &unreadError{"too large to be decoded"}
		}
	}
	return x.finish()
}
