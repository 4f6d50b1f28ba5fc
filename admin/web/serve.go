package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"shuultuur/lib/shares"
)

// maxConnections bounds the connections to one address; no client holds all of them.
const maxConnections = 1024

// answerTime is how long a request may take when the address ends. One that has moved the address by a
// change of the settings is among them.
const answerTime = 5 * time.Second

// Serve answers on l until ctx ends, then lets running requests finish for a
// moment. On an address that other machines reach, it speaks TLS with t.
func Serve(ctx context.Context, l net.Listener, t *tls.Config, h http.Handler) error {
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		if t == nil {
			return fmt.Errorf("%v is reachable from other machines and has no certificate", l.Addr())
		}
		l = tls.NewListener(shares.Listen(l, maxConnections), t)
	} else {
		l = shares.Listen(l, maxConnections)
	}
	return serve(ctx, l, h)
}

// ServePlain answers without TLS, also where other machines are: the first steps have no certificate yet.
func ServePlain(ctx context.Context, l net.Listener, h http.Handler) error { return serve(ctx, l, h) }

func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	streams := make(chan struct{}) // closed when endless requests must end
	s := &http.Server{Handler: h, BaseContext: func(net.Listener) context.Context {
		return context.WithValue(context.Background(), closingKey{}, streams)
	}, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { close(streams) })
	defer stop()
	return shares.Serve(ctx, s, l, answerTime)
}

type closingKey struct{}

// Closing returns a channel that is closed when the server is about to stop, so
// that streams end before it waits for requests in flight.
func Closing(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(closingKey{}).(chan struct{})
	return c
}
