package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"shuultuur/lib/message"
	"shuultuur/lib/shares"
)

// maxConnections bounds the connections to one address; no client holds all of them.
const maxConnections = 1024

// answerTime is how long a request may take when the address ends. One that has moved the address by a
// change of the settings is among them.
const answerTime = 5 * time.Second

// silence is how long a client may take nothing of its answer, or send nothing of its request. Streams,
// copies of the record and backups last as long as somebody reads.
const silence = time.Minute

// unsent is what the kernel holds of an answer. It says that there is room when a third of it is free, so
// a client that reads slowly is seen to read.
const unsent = 128 << 10

// Serve answers on l until ctx ends, then lets running requests finish for a
// moment. On an address that other machines reach, it speaks TLS with t.
func Serve(ctx context.Context, l net.Listener, t *tls.Config, h http.Handler) error {
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		if t == nil {
			return fmt.Errorf("%v is reachable from other machines and has no certificate", l.Addr())
		}
		return serve(ctx, tls.NewListener(&unread{shares.Listen(l, maxConnections), silence}, t), h, silence)
	}
	return serve(ctx, &unread{shares.Listen(l, maxConnections), silence}, h, silence)
}

// ServePlain answers without TLS, also where other machines are: the first steps have no certificate yet.
func ServePlain(ctx context.Context, l net.Listener, h http.Handler) error {
	return serve(ctx, &unread{l, silence}, h, silence)
}

func serve(ctx context.Context, l net.Listener, h http.Handler, silence time.Duration) error {
	streams := make(chan struct{}) // closed when endless requests must end
	s := &http.Server{Handler: untilSilent(h, silence), BaseContext: func(net.Listener) context.Context {
		return context.WithValue(context.Background(), closingKey{}, streams)
	}, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { close(streams) })
	defer stop()
	return shares.Serve(ctx, s, l, answerTime)
}

// untilSilent lets h wait for at most so long for a part of a request's body.
func untilSilent(h http.Handler, silence time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			h.ServeHTTP(w, r)
			return
		}
		c := http.NewResponseController(w)
		r.Body = &slowBody{r.Body, c, silence}
		h.ServeHTTP(w, r)
		_ = c.SetReadDeadline(time.Now().Add(silence)) // the server reads some of what h has left
	})
}

// A slowBody is the body of a request. A read that waits too long fails.
type slowBody struct {
	io.ReadCloser
	c       *http.ResponseController
	silence time.Duration
}

// Read implements [io.Reader].
func (b *slowBody) Read(p []byte) (int, error) {
	_ = b.c.SetReadDeadline(time.Now().Add(b.silence)) // fails if the connection is closed, and then so does the read
	n, err := b.ReadCloser.Read(p)
	_ = b.c.SetReadDeadline(time.Time{}) // as above; the server waits for the end of the connection
	return n, err
}

// An unread listener has connections that fail when the client takes nothing for so long.
type unread struct {
	net.Listener
	silence time.Duration
}

// Accept implements [net.Listener].
func (l *unread) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if b, ok := c.(interface{ SetWriteBuffer(int) error }); ok {
		_ = b.SetWriteBuffer(unsent) // else the system's size holds
	}
	return &unreadConn{Conn: c, silence: l.silence}, nil
}

// An unreadConn is below TLS, whose writes cannot continue after a deadline.
type unreadConn struct {
	net.Conn
	silence time.Duration
	until   atomic.Pointer[time.Time] // the deadline that the server has set for writes
}

// Write implements [io.Writer].
func (c *unreadConn) Write(p []byte) (int, error) {
	arm := func() {
		until := time.Now().Add(c.silence)
		if set := c.until.Load(); set != nil && set.Before(until) {
			until = *set
		}
		_ = c.Conn.SetWriteDeadline(until) // fails if the connection is closed, and then so does the write
	}
	arm()
	return message.WriteOn(c.Conn, p, arm)
}

// SetWriteDeadline implements [net.Conn].
func (c *unreadConn) SetWriteDeadline(t time.Time) error {
	if c.until.Store(&t); t.IsZero() {
		c.until.Store(nil)
		t = time.Now().Add(c.silence) // of a write that waits now
	}
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *unreadConn) SetDeadline(t time.Time) error {
	if err := c.Conn.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

type closingKey struct{}

// Closing returns a channel that is closed when the server is about to stop, so
// that streams end before it waits for requests in flight.
func Closing(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(closingKey{}).(chan struct{})
	return c
}
