//go:build !small

package nameserver

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/quic-go/quic-go/http3"

	"shuultuur/lib/dns"
)

// web is DNS over HTTP/3, for all QUIC listeners of HTTPS. It also has the
// callers of DNS over QUIC.
type web struct {
	s       *Server
	http3   *http3.Server
	callers sync.Pool

	ctx       context.Context // of connections of DNS over QUIC
	cancel    context.CancelFunc
	accepting sync.WaitGroup // goroutines of listeners, which wait for their connections
}

func (s *Server) newWeb() *web {
	w := &web{s: s}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.callers.New = func() any { return s.newCaller() }
	w.http3 = &http3.Server{Handler: w, MaxHeaderBytes: maxHead, IdleTimeout: s.limits.idle, Logger: slog.New(slog.DiscardHandler)}
	return w
}

// ServeHTTP implements http.Handler.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	x := w.callers.Get().(*caller)
	defer w.callers.Put(x)
	answer, j := x.request(rw, r)
	if j != nil {
		defer w.s.queue.release(j)
	}
	h := rw.Header()
	h.Set("Content-Type", answer.kind)
	h.Set("Content-Length", strconv.Itoa(len(answer.body)))
	switch answer.status {
	case http.StatusOK:
		h.Set("Cache-Control", "max-age="+strconv.FormatUint(uint64(answer.maxAge), 10))
	case http.StatusMethodNotAllowed:
		h.Set("Allow", "GET, HEAD, POST")
	}
	rw.WriteHeader(answer.status)
	if r.Method != http.MethodHead {
		_, _ = rw.Write(answer.body) // fails if the client has gone
	}
}

// request answers one request.
func (x *caller) request(rw http.ResponseWriter, r *http.Request) (webReply, *job) {
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return refusal(http.StatusInternalServerError), nil
	}
	req := webRequest{method: r.Method, target: r.URL.RequestURI(), kind: r.Header.Get("Content-Type")}
	if r.Method == http.MethodPost {
		req.body, err = io.ReadAll(http.MaxBytesReader(rw, r.Body, maxMessage))
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return refusal(http.StatusRequestEntityTooLarge), nil
		}
		if err != nil {
			return refusal(http.StatusBadRequest), nil
		}
	}
	var status int
	if x.msg, status = req.read(x.msg[:0], x.s.path, x.s.rules.Load().json); status != http.StatusOK {
		return refusal(status), nil
	}
	q := &x.q
	q.Client, q.Local = netip.AddrPortFrom(client.Addr().Unmap().WithZone(""), client.Port()), netip.Addr{}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if ap, err := netip.ParseAddrPort(a.String()); err == nil {
			q.Local = ap.Addr().Unmap()
		}
	}
	q.Transport, q.At = dns.HTTPS, time.Now()
	named := ""
	if r.TLS != nil {
		named = x.s.rules.Load().clientIDIn(r.TLS.ServerName)
	}
	q.ClientID = req.identify("", named)
	reply, j := x.reply()
	return req.answered(reply), j
}

// stop ends all connections.
func (w *web) stop() {
	w.cancel()
	w.http3.Close()
}
