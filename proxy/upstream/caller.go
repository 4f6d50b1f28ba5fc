package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"

	"shuultuur/filter"
	"shuultuur/message"
)

// A Caller is one client connection on whose behalf requests are sent, one at a
// time. Its owner sets the fields before a request; none may be changed while
// one is under way. It is used again for the next client.
type Caller struct {
	// TLS says how TLS to origins is to look; nil: as a browser's, for the
	// host of the request.
	TLS *TLS
	// Interim is given each 1xx response but 101 before RoundTrip returns. The
	// response is valid during the call. nil drops them.
	Interim func(*message.Response) error
	// Faults is asked before a request is sent on a connection whose origin
	// showed a certificate with faults; what it returns is what RoundTrip
	// returns. nil refuses with a *FaultError.
	Faults func([]filter.Finding) error
	// Passed is the value of [message.Passed] in the client's request. A parent proxy
	// gets it with our own mark behind.
	Passed []byte
	// Note is what an operator should know of how the last request went.
	Note string
	// Server is the address that the last request was sent to, or that did not
	// accept a connection; the zero Addr when there was none. Parent says that
	// it is the parent proxy's.
	Server netip.Addr
	Parent bool

	ctx   callerContext
	key   []byte // of the pool
	reply reply

	mu      sync.Mutex
	current io.Closer // what Abort closes
	aborted bool
}

// TLS is how a connection to an origin begins.
type TLS struct {
	ServerName string // sent in the hello; "" sends none
	Name       string // what the certificate has to be for
	HTTP2      bool   // offered to the origin; RoundTrip sets it for an origin that speaks nothing else
}

// A FaultError says what is wrong with an origin's certificate.
type FaultError struct{ Faults []filter.Finding }

func (e *FaultError) Error() string {
	s := "the certificate of the origin cannot be trusted"
	for _, f := range e.Faults {
		s += "; " + f.Category + ": " + f.Evidence
	}
	return s
}

type (
	callerKey     struct{}
	callerContext struct {
		context.Context
		c *Caller
	}
)

func (c *callerContext) Value(key any) any {
	if key == (callerKey{}) {
		return c.c
	}
	return c.Context.Value(key)
}

// Context returns the context for c's requests, within parent. It ends with
// parent; Abort ends the request under way.
func (c *Caller) Context(parent context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aborted, c.current = false, nil
	c.ctx = callerContext{parent, c}
	return &c.ctx
}

// Abort ends the request under way and makes those that follow fail, until
// Context is called again. Any goroutine may call it.
func (c *Caller) Abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aborted = true
	if c.current != nil {
		c.current.Close()
	}
}

// Interrupt ends the request under way: reading its response in another
// goroutine fails. Those that follow are not affected.
func (c *Caller) Interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current.Close()
	}
}

// hold makes x what Abort closes; nil for nothing.
func (c *Caller) hold(x io.Closer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = x
	if c.aborted && x != nil {
		x.Close()
		return net.ErrClosed
	}
	return nil
}

// over says whether c has been aborted.
func (c *Caller) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted
}

// sentTo notes where a request goes.
func (c *Caller) sentTo(a net.Addr, toParent bool) {
	if t, ok := a.(*net.TCPAddr); ok {
		c.Server, c.Parent = t.AddrPort().Addr().Unmap(), toParent
	}
}

// refusedBy notes which address did not accept a connection.
func (c *Caller) refusedBy(err error, toParent bool) {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		c.sentTo(op.Addr, toParent)
	}
}

// judge asks whether faults are acceptable.
func (c *Caller) judge(faults []filter.Finding) error {
	switch {
	case len(faults) == 0:
		return nil
	case c.Faults == nil:
		return &FaultError{faults}
	}
	return c.Faults(faults)
}

// A closeFunc is an io.Closer.
type closeFunc func()

func (f closeFunc) Close() error { f(); return nil }
