package nameserver

import (
	"context"
	"encoding/base64"
	"encoding/binary"
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

	"shuultuur/nameserver/wire"
)

// web is DNS over HTTPS (RFC 8484) for all HTTPS listeners.
type web struct {
	s     *Server
	http  *http.Server
	http3 *http3.Server
	lanes sync.Pool
}

// A request is what answering one needs, used again.
type request struct {
	lane
	waiter
	buf []byte
	msg []byte
}

// A waiter is a sink for a goroutine that has nothing else to do.
type waiter struct{ done chan *job }

func (w *waiter) deliver(j *job) { w.done <- j }

const mediaType = "application/dns-message"

func (s *Server) newWeb() *web {
	w := &web{s: s}
	w.lanes.New = func() any {
		return &request{lane: s.lane(), waiter: waiter{make(chan *job, 1)}, buf: make([]byte, 0, 2048)}
	}
	quiet := slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug)
	w.http = &http.Server{
		Handler: w, TLSConfig: s.tls.Clone(), ErrorLog: quiet, MaxHeaderBytes: 8 << 10,
		ReadHeaderTimeout: s.cfg.Idle, IdleTimeout: s.cfg.Idle, ReadTimeout: s.cfg.Idle, WriteTimeout: s.cfg.Idle + s.cfg.Wait,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: s.cfg.Pipeline},
	}
	w.http3 = &http3.Server{Handler: w, MaxHeaderBytes: 8 << 10, IdleTimeout: s.cfg.Idle, Logger: slog.New(slog.DiscardHandler)}
	return w
}

// admitting is a listener whose connections have been counted.
type admitting struct {
	net.Listener
	s *Server
}

func (a admitting) Accept() (net.Conn, error) {
	x, err := a.s.next(a.Listener)
	if err != nil {
		return nil, err
	}
	return x, nil
}

// serve answers until the listener is closed.
func (w *web) serve(ln listener) {
	if err := w.http.ServeTLS(admitting{ln.Listener, w.s}, "", ""); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		w.s.logger.Error("DNS over HTTPS", "err", err)
	}
}

// stop lets requests under way finish until ctx ends.
func (w *web) stop(ctx context.Context) {
	if w.http.Shutdown(ctx) != nil {
		w.http.Close()
	}
	w.http3.Close()
}

// ServeHTTP implements http.Handler.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path != w.s.cfg.Path {
		http.NotFound(rw, r)
		return
	}
	x := w.lanes.Get().(*request)
	defer w.lanes.Put(x)
	status := x.query(rw, r)
	if status != http.StatusOK {
		http.Error(rw, http.StatusText(status), status)
		return
	}
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		http.Error(rw, "no client address", http.StatusInternalServerError)
		return
	}
	q := &x.q
	q.Client, q.Local = netip.AddrPortFrom(client.Addr().Unmap().WithZone(""), client.Port()), netip.Addr{}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if ap, err := netip.ParseAddrPort(a.String()); err == nil {
			q.Local = ap.Addr().Unmap()
		}
	}
	q.Transport, q.At = wire.HTTPS, time.Now()
	reply, j := x.reply()
	if j != nil {
		defer w.s.queue.release(j)
	}
	if len(reply) == 0 { // denied, dropped, or the server stops
		http.Error(rw, "no answer", http.StatusServiceUnavailable)
		return
	}
	h := rw.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(reply)))
	h.Set("Cache-Control", "max-age="+strconv.FormatUint(uint64(leastTTL(reply)), 10))
	if r.ProtoMajor < 3 {
		if a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
			h.Set("Alt-Svc", `h3=":`+strconv.Itoa(a.Port)+`"; ma=86400`)
		}
	}
	_, _ = rw.Write(reply) // or the client has left
}

// query reads the query of a request into x.msg; the status is that to refuse
// it with, or 200.
func (x *request) query(rw http.ResponseWriter, r *http.Request) int {
	var err error
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		text := r.URL.Query().Get("dns")
		if text == "" || len(text) > base64.RawURLEncoding.EncodedLen(maxMessage) {
			return http.StatusBadRequest
		}
		x.msg, err = base64.RawURLEncoding.AppendDecode(x.msg[:0], []byte(text))
	case http.MethodPost:
		if r.Header.Get("Content-Type") != mediaType {
			return http.StatusUnsupportedMediaType
		}
		x.msg, err = appendAll(x.msg[:0], http.MaxBytesReader(rw, r.Body, maxMessage))
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return http.StatusRequestEntityTooLarge
		}
	default:
		rw.Header().Set("Allow", "GET, HEAD, POST")
		return http.StatusMethodNotAllowed
	}
	if err != nil || len(x.msg) < 12 || x.msg[2]&0x80 != 0 {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// appendAll reads to the end.
func appendAll(dst []byte, r io.Reader) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, make([]byte, max(512, len(dst)))...)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// reply answers x.msg, waiting if need be; the job, if any, is to be released
// when the reply has been used.
func (x *request) reply() (reply []byte, j *job) {
	defer x.s.caught(&x.lane)
	reply, o := x.answer(x.msg, x.buf[:0])
	if o == wire.Later {
		x.s.queue.put(&x.lane, &x.waiter, nil)
		j = <-x.done
		return j.msg, j
	}
	if cap(reply) > cap(x.buf) && cap(reply) <= keptBuffer {
		x.buf = reply[:0]
	}
	return reply, nil
}

// leastTTL is how long a reply may be kept, in seconds: the least TTL of its
// records, that of a negative answer its SOA's (RFC 8484 section 5.1).
func leastTTL(msg []byte) uint32 {
	off, err := wire.SkipQuestions(msg)
	if err != nil {
		return 0
	}
	least, n := uint32(0), 0
	counts := binary.BigEndian.Uint64(msg[4:])
	for range int(counts>>32&0xffff) + int(counts>>16&0xffff) + int(counts&0xffff) {
		x, err := wire.ReadRecord(msg, off)
		if err != nil {
			return 0
		}
		off = x.End
		if x.Type == typeOPT {
			continue
		}
		ttl := x.TTL
		if x.Type == 6 && x.End-x.Data >= 4 && counts>>32&0xffff == 0 {
			ttl = min(ttl, binary.BigEndian.Uint32(msg[x.End-4:]))
		}
		if n == 0 || ttl < least {
			least = ttl
		}
		n++
	}
	return least
}
