//go:build !small

// Package icap is the check that sends messages to external scanners by ICAP (RFC 3507): virus
// scanners, data loss prevention, URL filters.
//
// [Check.Find] selects a server for the method of the stage (server.go): REQMOD for requests,
// RESPMOD for responses. It sends the heads of the message (head.go) and the decoded body on a
// kept connection (exchange.go). A complete body is sent from memory, and again to the next
// server if one fails. A body that is still arriving is forwarded piece by piece (stream.go).
// The scanner's reply (reply.go) becomes findings.
//
// A message that no server could inspect is an error, which the policy turns into the finding
// icap-error: rules decide whether the message passes.
package icap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"shuultuur/check/build"
	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/setting"
)

// Categories that the check reports.
const (
	virus     = "virus"     // the scanner reports an infection
	violation = "violation" // the scanner reports violations of its policy
	blocked   = "blocked"   // the scanner answers with its own page
	modified  = "modified"  // the scanner would change the message
)

// A Check queries ICAP servers. It is safe for concurrent use.
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

// lasts is how long a verdict counts, because scanners learn new signatures.
const lasts = time.Hour

// Contextual implements [filter.Contextual]: a verdict may depend on the request and the
// client.
func (*Check) Contextual() {}

// Lifetime implements [filter.Changing].
func (*Check) Lifetime() (time.Duration, bool) { return lasts, true }

// Build implements [build.Setting].
func (c *Config) Build(build.Parts) (filter.Check, error) { return New(*c) }

// New makes the check. It does not connect to the servers.
func New(cfg Config) (*Check, error) {
	c := &Check{requests: cfg.Requests, clients: cfg.Clients, skip: cfg.Skip, largest: cfg.Largest.Or(25 << 20), timeout: cfg.Timeout.Or(30 * time.Second), seed: maphash.MakeSeed()}
	connect := cfg.Connect.Or(2 * time.Second)
	switch {
	case len(cfg.Servers) == 0:
		return nil, setting.At("servers", errors.New(`no server is named; write one like "icap://127.0.0.1:1344/avscan"`))
	case c.timeout == 0:
		return nil, setting.At("timeout", errors.New("off: a scanner that hangs would hold its messages forever"))
	case connect == 0:
		return nil, setting.At("connect", errors.New("off: a server that does not answer would hold its messages forever"))
	case cfg.Connections.Off():
		return nil, setting.At("connections", errors.New("off: no scanner could be asked"))
	case c.largest == 0:
		return nil, setting.At("largest", errors.New("off: bodies of any size would go to the scanner; give the largest size that it accepts"))
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

// Close closes unused connections and stops the probes of failed servers.
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

// method returns the ICAP method for a stage, "" if the check does not examine it.
func (c *Check) method(s filter.Stage) string {
	switch {
	case s == filter.RequestBody, s == filter.Request && c.requests:
		return reqmod
	case s == filter.ResponseBody:
		return respmod
	}
	return ""
}

// Wants implements [filter.Check]: bodies that a server may scan, and request heads if the settings say
// so. Those of skipped types are wanted for their first bytes, which say whether they are what they are
// called.
func (c *Check) Wants(t *filter.Transaction, s filter.Stage) bool {
	method := c.method(s)
	if method == "" || !c.scans(method, t.URL) {
		return false
	}
	return s != filter.Request || t.Proto == filter.HTTP
}

// scans reports whether a server may want messages of a method about a URL.
func (c *Check) scans(method, at string) bool {
	for _, s := range c.servers {
		if o := s.options.Load(); o == nil || o.does(method) && !o.ignores(at) {
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
		if b.Is(c.skip) && !content.HasTaker(b, c) {
			return dst, nil
		}
	default:
		return dst, nil
	}
	m := &message{t: t, method: c.method(s), body: b}
	r, err := c.ask(ctx, m)
	early := false
	if r == nil && err == nil { // the rest of the body is missing
		b.Wait.AwaitEnd()
		why := b.Wait.Unkept()
		if why == content.AllRead {
			return dst, nil
		}
		early = true
		err = &unreadError{why.String() + " to be held until its end"}
	}
	switch {
	case errors.Is(err, errSkipped):
		return dst, nil
	case errors.Is(err, errUnread):
		f := filter.Finding{Check: "icap", Category: filter.Unread, Evidence: "not scanned: " + err.Error()}
		if early && !slices.Contains(dst, f) {
			c.count(err)
		}
		return append(dst, f), nil
	case err != nil:
		return dst, err
	}
	return c.report(m, r, dst), nil
}

// A message is an HTTP message to send to a scanner.
type message struct {
	t      *filter.Transaction
	method string
	body   *content.Body // nil for a request without one
	target string        // the URL as sent
}

var (
	errSkipped = errors.New("the scanner does not want this message")
	errUnread  = errors.New("")
)

// An unreadError says why a message was not sent, or only in part.
type unreadError struct{ why string }

func (e *unreadError) Error() string     { return e.why }
func (e *unreadError) Is(err error) bool { return err == errUnread }

func (c *Check) tooLarge() error {
	return &unreadError{fmt.Sprintf("more than %d bytes (checks.icap.largest)", c.largest)}
}

// ask returns a server's reply about a message; nil while more of the body must arrive. A body
// whose server fails while it arrives is sent to the next when it is complete, if it is kept.
func (c *Check) ask(ctx context.Context, m *message) (*reply, error) {
	b := m.body
	if b != nil && b.Len() == 0 {
		return nil, errSkipped
	}
	if b != nil && (!b.Available() || content.HasTaker(b, c)) {
		s, err := c.askStream(ctx, m)
		failed := s != nil && errors.As(s.err, new(*failure))
		switch {
		case s == nil:
			c.count(err)
			return nil, err
		case failed && b.Wait.Kept() && !b.Complete():
			return nil, nil
		case failed && b.Available():
			c.counters[failovers].Add(1)
		default:
			if s.over && !s.counted {
				s.counted = true
				c.count(s.err)
			}
			return s.reply, s.err
		}
	}
	r, err := c.askHeld(ctx, m)
	c.count(err)
	return r, err
}

// count counts a failed query by its reason.
func (c *Check) count(err error) {
	switch {
	case err == nil, errors.Is(err, errSkipped):
	case errors.Is(err, errUnread):
		c.counters[unread].Add(1)
	default:
		c.counters[failed].Add(1)
	}
}

// askHeld queries one server after another until one replies. While all that are there are busy, it
// asks them again.
func (c *Check) askHeld(ctx context.Context, m *message) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		r, busy, err := c.askAll(ctx, m)
		if !busy {
			return r, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// The pauses before busy servers are asked again.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// askAll queries each server once, until one replies. busy reports that one may reply later.
func (c *Check) askAll(ctx context.Context, m *message) (_ *reply, busy bool, _ error) {
	servers, last := c.order(m.method)
	for n, s := range servers {
		if n > 0 && last != nil {
			c.counters[failovers].Add(1)
		}
		r, err := c.askOne(ctx, s, m)
		var f *failure
		if !errors.As(err, &f) {
			return r, false, err
		}
		busy = busy || isBusy(err)
		if last = err; ctx.Err() != nil {
			break
		}
	}
	if last == nil {
		return nil, false, errSkipped // no server supports the method
	}
	return nil, busy, last
}

// Problems returns which servers are not used, and why.
func (c *Check) Problems() (all []string) {
	for _, s := range c.servers {
		if f := s.down.Load(); f != nil {
			all = append(all, "checks.icap: "+f.Error()+"; it is not used until it answers")
		}
	}
	return all
}

// order returns the servers for method, those with a free connection first, and the reason why
// one is missing. Servers that failed are not used until they answer a probe. If none is left,
// the message does not wait.
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
		case s.gate.Full():
			busy = append(busy, s)
		default:
			all = append(all, s)
		}
	}
	return append(all, busy...), why
}

// askOne queries one server about a complete message. If a kept connection turns out to be
// closed, it retries once on another.
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
	who := m.t.Client.Addr
	if err := s.gate.Take(ctx, who); err != nil {
		return nil, &failure{s: s, err: fmt.Errorf("waiting for one of its connections: %w", err)}
	}
	defer s.gate.Give(who)
	l := s.takeIdle()
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

// try queries on one connection, and then keeps or closes it.
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
			if x.write(p); x.isOver() {
				break
			}
		}
		if why := m.body.Unread(); why == content.TooLarge {
			return nil, &unreadError{"too large to be decoded"}
		}
	}
	return x.finish()
}
