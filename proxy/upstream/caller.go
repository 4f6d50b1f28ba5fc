package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// A Caller is one client connection for which requests are sent, one at a time. Its owner sets
// the fields before a request; they must not change during one. It is reused for the next
// client.
type Caller struct {
	// TLS configures TLS to origins; nil means as a browser does, for the host of the request.
	TLS *TLS
	// Interim gets each 1xx response except 101 before RoundTrip returns. The response is
	// valid during the call. If it is nil, they are dropped.
	Interim func(*message.Response) error
	// Faults is called before a request is sent on a connection whose origin has a faulty
	// certificate; RoundTrip returns its error. If it is nil, the error is a *FaultError.
	Faults func([]filter.Finding) error
	// Passed is the value of [message.LoopField] in the client's request. A parent proxy gets it
	// with our own mark appended.
	Passed []byte
	// Session keeps connections that belong to the client connection. If it is nil, they are
	// closed after each request.
	Session *Session
	// Client and User are who sends the request: what they sign in serves nobody else on the
	// same client connection.
	Client netip.Addr
	User   string
	// Note is information for the operator about the last request.
	Note string
	// Server is the address to which the last request was sent, or that did not accept a
	// connection; the zero Addr if there was none. Parent says that it belongs to the parent
	// proxy.
	Server netip.Addr
	Parent bool

	ctx   callerContext
	key   []byte // for the pool
	reply reply

	mu      sync.Mutex
	current io.Closer // closed by Abort
	aborted bool
}

// TLS configures the handshake with an origin.
type TLS struct {
	ServerName string // sent in the hello; "" for none
	Name       string // the name that the certificate must have
	HTTP2      bool   // offered to the origin; RoundTrip sets it for an origin that supports nothing else
}

// A FaultError has the faults of an origin's certificate.
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

// Context returns the context for c's requests, within parent. It ends with parent; Abort ends
// the current request.
func (c *Caller) Context(parent context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aborted, c.current = false, nil
	c.ctx = callerContext{parent, c}
	return &c.ctx
}

// Abort ends the current request and makes further ones fail, until Context is called again.
// It is safe for concurrent use.
func (c *Caller) Abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aborted = true
	if c.current != nil {
		c.current.Close()
	}
}

// Interrupt ends the current request: reading its response in another goroutine fails. Further
// requests are not affected.
func (c *Caller) Interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current.Close()
	}
}

// hold makes x the closer for Abort; nil for none.
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

// isAborted reports whether c was aborted.
func (c *Caller) isAborted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted
}

// sentTo records the address to which a request is sent.
func (c *Caller) sentTo(a net.Addr, toParent bool) {
	if t, ok := a.(*net.TCPAddr); ok {
		c.Server, c.Parent = t.AddrPort().Addr().Unmap(), toParent
	}
}

// refusedBy records the address that did not accept a connection.
func (c *Caller) refusedBy(err error, toParent bool) {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		c.sentTo(op.Addr, toParent)
	}
}

// judge returns an error if faults are not acceptable.
func (c *Caller) judge(faults []filter.Finding) error {
	switch {
	case len(faults) == 0:
		return nil
	case c.Faults == nil:
		return &FaultError{faults}
	}
	return c.Faults(faults)
}

// A closeFunc is a function as an io.Closer.
type closeFunc func()

func (f closeFunc) Close() error { f(); return nil }
