package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zeebo/xxh3"
	"golang.org/x/net/http2"

	"shuultuur/lib/ascii"
	"shuultuur/lib/platform"
)

// class is the kind of failure of a fetch; ok if it succeeded.
type class uint8

const (
	ok       class = iota
	refused        // the connection was refused
	reset          // the connection was reset
	closed         // the connection was closed before a complete head came
	timeout        // no byte for cfg.Timeout
	short          // the body ended early
	changed        // the body differs from the first one
	status         // a response with a code of 400 or more
	tlsError       // the handshake failed
	proxied        // the proxy refused the tunnel
	protocol       // not HTTP, or more bytes than announced
	local          // this machine has no port, file or memory left for the connection
	other
	classes
)

var classNames = [classes]string{"ok", "refused", "reset", "closed", "timeout", "short body", "changed body", "status", "tls", "tunnel refused", "protocol", "local limit", "other"}

// sample is the measurements of one fetch. Inapplicable times are -1.
type sample struct {
	connect, tls, first time.Duration
	total               time.Duration // from the beginning of the fetch
	intended            time.Duration // from the intended time of sending
	bytes               int64         // of body
	code                int
	class               class
	fresh, retried      bool
	changed             bool // the body differs from the first one
	extra               bool // bytes came after the body
	err                 error
}

// A response head must fit the buffer; bodies are consumed in pieces of it.
const (
	bufferSize = 64 << 10
	// With many connections memory matters more than system calls.
	crowdedBuffer = 16 << 10
	crowd         = 1000
)

// errClosed is the end of a stream between two responses.
var errClosed = errors.New("connection closed without an answer")

var errExtra = errors.New("bytes after the body")

// failure is an error with its class.
type failure struct {
	class class
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(c class, format string, args ...any) error {
	return &failure{c, fmt.Errorf(format, args...)}
}

// classify returns the class of a connection error.
func classify(err error) class {
	var f *failure
	var alert tls.AlertError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &f):
		return f.class
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return timeout
	case errors.Is(err, platform.ECONNREFUSED):
		return refused
	case errors.Is(err, platform.ECONNRESET), errors.Is(err, platform.EPIPE), errors.As(err, &http2.StreamError{}):
		return reset
	case errors.Is(err, platform.EADDRNOTAVAIL), errors.Is(err, platform.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, platform.ENOBUFS):
		return local
	case errors.Is(err, errClosed):
		return closed
	case errors.Is(err, io.ErrUnexpectedEOF):
		return short
	case errors.As(err, &alert), errors.As(err, &cert):
		return tlsError
	}
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return timeout
	}
	return other
}

// worker fetches one URL at a time on at most one connection, which is kept while the next URL
// has the same endpoint.
type worker struct {
	g     *Generator
	ctx   context.Context
	tally *tally
	done  func() bool

	mu sync.Mutex // guards nc against the goroutine that ends the run
	nc net.Conn

	end      endpoint
	h2       *http2.ClientConn
	deadline time.Time
	buf      []byte
	r, w     int // buf[r:w] has been read and not consumed
	sum      *xxh3.Hasher

	// Of the current response.
	begun, firstByte time.Time
	count            int64
}

func newWorker(ctx context.Context, g *Generator, id int) *worker {
	w := &worker{g: g, ctx: ctx, tally: g.tallies[id%len(g.tallies)]}
	size := bufferSize
	if max(g.cfg.Parallel, g.cfg.InFlight) > crowd {
		size = crowdedBuffer
	}
	w.buf = make([]byte, size)
	if g.cfg.Checksum {
		w.sum = xxh3.New()
	}
	// A blocked read or write does not notice ctx: closing the connection ends it.
	w.done = context.AfterFunc(ctx, w.hangUp)
	return w
}

func (w *worker) stop() {
	w.done()
	w.hangUp()
}

func (w *worker) hangUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nc != nil {
		w.nc.Close()
	}
}

// drop closes the connection.
func (w *worker) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nc != nil {
		w.nc.Close()
	}
	w.nc, w.h2, w.deadline, w.r, w.w = nil, nil, time.Time{}, 0, 0
}

// do makes the n-th fetch and adds it to the tally. intended is zero in the closed loop. It
// returns false if the end of the run interrupted the fetch.
func (w *worker) do(n uint64, intended time.Time) bool {
	g := w.g
	t := g.targets[g.choose.pick(n)]
	g.started.Add(1)
	in := g.inFlight.Add(1)
	for most := g.most.Load(); in > most && !g.most.CompareAndSwap(most, in); most = g.most.Load() {
	}
	s := w.fetch(t, intended)
	g.inFlight.Add(-1)
	if w.over() {
		// The end of the run interrupted it, which is not an error of the server. Fetches
		// completed after the end do not count either: otherwise a run whose connections close
		// slowly would have had more time than reported.
		g.dropped.Add(1)
		return false
	}
	w.tally.add(&s)
	return true
}

// over reports whether the run has ended. The dialer checks the deadline of ctx itself, and
// may be ahead of the timer that ends ctx.
func (w *worker) over() bool {
	end, has := w.ctx.Deadline()
	return w.ctx.Err() != nil || has && !time.Now().Before(end)
}

func (w *worker) fetch(t *target, intended time.Time) sample {
	s := sample{connect: -1, tls: -1, first: -1}
	start := time.Now()
	if intended.IsZero() {
		intended = start
	}
	err := w.exchange(t, &s, start)
	if errors.Is(err, errClosed) && !s.fresh {
		// The server may close a kept-alive connection between two requests (RFC 9112 section
		// 9.3.1): retry once.
		w.drop()
		s.retried = true
		err = w.exchange(t, &s, start)
	}
	end := time.Now()
	s.total, s.intended = end.Sub(start), end.Sub(intended)
	s.bytes = w.count
	if err != nil {
		s.class, s.err = classify(err), err
		w.drop()
		return s
	}
	if !w.g.cfg.KeepAlive {
		w.drop()
	}
	w.judge(t, &s)
	return s
}

// exchange sends the request and reads the whole response.
func (w *worker) exchange(t *target, s *sample, start time.Time) error {
	w.count, w.firstByte, w.begun = 0, time.Time{}, start
	if w.nc == nil || w.end != t.end {
		w.drop()
		s.fresh = true
		if err := w.dial(t.end, s); err != nil {
			return err
		}
		w.begun = time.Now()
	}
	if w.sum != nil {
		w.sum.Reset()
	}
	var err error
	if w.h2 != nil {
		err = w.roundTrip2(t, s)
	} else {
		err = w.roundTrip1(t, s)
	}
	if !w.firstByte.IsZero() {
		s.first = w.firstByte.Sub(w.begun)
	}
	return err
}

// judge evaluates a complete response.
func (w *worker) judge(t *target, s *sample) {
	if s.extra {
		s.class, s.err = protocol, errExtra
	}
	if s.code >= 400 {
		s.class = status
	}
	var sum uint64
	if w.sum != nil {
		sum = w.sum.Sum64()
	}
	first := t.body.Load()
	if first == nil {
		if s.class != ok {
			return
		}
		// Of several first responses one is stored, and the others are compared with it.
		t.body.CompareAndSwap(nil, &body{s.bytes, sum})
		first = t.body.Load()
	}
	if *first == (body{s.bytes, sum}) {
		return
	}
	s.changed = true
	if s.class == ok || s.extra {
		s.class, s.err = changed, nil
	}
	const most = 20
	if out := w.g.cfg.Complaints; out != nil && w.g.grumbles.Add(1) <= most {
		what := "byte count"
		if w.sum != nil {
			what = "checksum"
		}
		fmt.Fprintf(out, "%s: %s wrong\n", t.url, what)
	}
}

func (w *worker) dial(end endpoint, s *sample) error {
	d := net.Dialer{Timeout: w.g.cfg.Timeout}
	if src := w.g.cfg.Sources; len(src) > 0 {
		from := src[(w.g.turn.Add(1)-1)%uint64(len(src))]
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	start := time.Now()
	nc, err := d.DialContext(w.ctx, "tcp", end.addr)
	if err != nil {
		return err
	}
	connected := time.Now()
	s.connect = connected.Sub(start)
	w.keep(nc)
	w.end = end
	w.extend(connected)
	if end.connect != "" {
		if err := w.tunnel(end.connect); err != nil {
			return err
		}
	}
	if end.tls != "" {
		begin := time.Now()
		if err := w.handshake(end.tls); err != nil {
			return err
		}
		s.tls = time.Since(begin)
	}
	if !w.g.cfg.HTTP2 {
		return nil
	}
	return w.open2()
}

// keep stores the connection so that the end of the run can close it.
func (w *worker) keep(nc net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nc = nc
	if w.ctx.Err() != nil {
		nc.Close()
	}
}

// tunnel requests a tunnel from the proxy; afterwards nc leads to the target.
func (w *worker) tunnel(connect string) error {
	if _, err := io.WriteString(w.nc, connect); err != nil {
		return err
	}
	// The head is read manually into w.buf; bytes after it in the same segment would belong to
	// the tunnel, but servers wait for the client.
	buf := make([]byte, 8<<10)
	n := 0
	for {
		m, err := w.nc.Read(buf[n:])
		n += m
		if i := bytes.Index(buf[:n], []byte("\r\n\r\n")); i >= 0 {
			code, ok := statusCode(buf[:n])
			if !ok {
				return fail(protocol, "answer to CONNECT is not HTTP")
			}
			if code/100 != 2 {
				return fail(proxied, "proxy answered CONNECT with %d", code)
			}
			if i+4 < n {
				return fail(protocol, "bytes after the answer to CONNECT")
			}
			return nil
		}
		if err != nil {
			if err == io.EOF {
				err = errClosed
			}
			return err
		}
		if n == len(buf) {
			return fail(protocol, "answer to CONNECT has no end within %d bytes", n)
		}
	}
}

func (w *worker) handshake(name string) error {
	cfg := &tls.Config{ServerName: name, RootCAs: w.g.cfg.Roots, CipherSuites: w.g.cfg.Ciphers, CurvePreferences: w.g.cfg.Groups}
	if w.g.cfg.Ciphers != nil {
		cfg.MaxVersion = tls.VersionTLS12
	}
	if w.g.cfg.HTTP2 {
		cfg.NextProtos = []string{"h2"}
	}
	tc := tls.Client(w.nc, cfg)
	if err := tc.HandshakeContext(w.ctx); err != nil {
		if c := classify(err); c != other && c != closed {
			return err
		}
		return fail(tlsError, "handshake with %q: %w", name, err)
	}
	if w.g.cfg.HTTP2 && tc.ConnectionState().NegotiatedProtocol != "h2" {
		return fail(protocol, "%q does not speak HTTP/2", name)
	}
	w.keep(tc)
	return nil
}

// extend updates the deadline when an eighth of the timeout has passed since the last update:
// setting a timer for each request would cost as much as the parser. So the timeout is between
// 1 and 9/8 of the configured one.
func (w *worker) extend(now time.Time) {
	to := w.g.cfg.Timeout
	if now.Sub(w.deadline) < -to {
		return
	}
	w.deadline = now.Add(to + to/8)
	// An error here means a closed connection, which the next read reports.
	_ = w.nc.SetDeadline(w.deadline)
}

// roundTrip1 uses HTTP/1.1 (RFC 9112).
func (w *worker) roundTrip1(t *target, s *sample) error {
	w.extend(w.begun)
	if _, err := w.nc.Write(t.request); err != nil && !errors.Is(err, platform.EPIPE) && !errors.Is(err, platform.ECONNRESET) {
		return err
	}
	// After a failed write there may still be a response to read (431, 503). If not, the read
	// distinguishes reset from closed.
	for {
		h, err := w.readHead()
		if err != nil {
			return err
		}
		if h.code/100 == 1 {
			continue
		}
		s.code = h.code
		if err := w.readBody(&h); err != nil {
			return err
		}
		s.extra = w.w > w.r
		if h.close || s.extra {
			w.drop()
		}
		return nil
	}
}

// fill reads more bytes after buf[r:w].
func (w *worker) fill() error {
	if w.r == w.w {
		w.r, w.w = 0, 0
	} else if w.w == len(w.buf) {
		copy(w.buf, w.buf[w.r:w.w])
		w.w -= w.r
		w.r = 0
	}
	if w.w == len(w.buf) {
		return fail(protocol, "head or line longer than %d bytes", len(w.buf))
	}
	room := w.buf[w.w:]
	if rate := w.g.cfg.Throttle; rate > 0 {
		// Read as much as is permitted in a tenth of a second, and wait for that time to pass.
		room = room[:min(len(room), max(1, rate/10))]
	}
	n, err := w.nc.Read(room)
	if n == 0 {
		return err
	}
	w.w += n
	now := time.Now()
	if w.firstByte.IsZero() {
		w.firstByte = now
	}
	w.extend(now)
	if rate := w.g.cfg.Throttle; rate > 0 {
		sleepUntil(w.ctx, now.Add(time.Duration(n)*time.Second/time.Duration(rate)))
	}
	return nil
}

// head is the relevant part of a response head.
type head struct {
	code    int
	length  int64 // -1: until the connection closes
	chunked bool
	close   bool
}

var headEnd = []byte("\r\n\r\n")

func (w *worker) readHead() (head, error) {
	from := w.r
	for {
		if i := bytes.Index(w.buf[from:w.w], headEnd); i >= 0 {
			end := from + i + 2 // including the CRLF of the last line
			h, err := parseHead(w.buf[w.r:end])
			w.r = end + 2
			return h, err
		}
		if w.w-w.r >= 4 && !bytes.HasPrefix(w.buf[w.r:w.w], []byte("HTTP")) {
			return head{}, fail(protocol, "answer %.20q is not HTTP", w.buf[w.r:w.w])
		}
		old := w.w - w.r
		if err := w.fill(); err != nil {
			if err == io.EOF {
				err = errClosed
			}
			return head{}, err
		}
		from = w.r + max(0, old-3)
	}
}

// statusCode parses "HTTP/1.x NNN".
func statusCode(b []byte) (int, bool) {
	if len(b) < 12 || string(b[:7]) != "HTTP/1." || b[8] != ' ' {
		return 0, false
	}
	code := 0
	for _, c := range b[9:12] {
		if c < '0' || c > '9' {
			return 0, false
		}
		code = code*10 + int(c-'0')
	}
	return code, code >= 100
}

// parseHead parses a response head, each line with its CRLF.
func parseHead(b []byte) (head, error) {
	h := head{length: -1}
	code, ok := statusCode(b)
	if !ok {
		return h, fail(protocol, "status line %.20q is not HTTP/1", b)
	}
	h.code = code
	h.close = b[7] == '0'
	b = b[bytes.IndexByte(b, '\n')+1:]
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return h, fail(protocol, "header line without an end")
		}
		line := b[:end]
		b = b[end+1:]
		colon := bytes.IndexByte(line, ':')
		// First distinguish the three relevant fields by length.
		switch {
		case colon == 14 && fold(line[:14], "content-length"):
			n, err := number(bytes.TrimSpace(line[15:]))
			if err != nil {
				return h, err
			}
			h.length = n
		case colon == 17 && fold(line[:17], "transfer-encoding"):
			h.chunked = true
		case colon == 10 && fold(line[:10], "connection"):
			v := bytes.TrimSpace(line[11:])
			if fold(v, "close") {
				h.close = true
			} else if fold(v, "keep-alive") {
				h.close = false
			}
		}
	}
	if h.code == 204 || h.code == 304 {
		h.length, h.chunked = 0, false
	}
	return h, nil
}

// fold compares ASCII without case; lower is lower case.
func fold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func number(b []byte) (int64, error) {
	if len(b) == 0 || len(b) > 18 {
		return 0, fail(protocol, "%.20q is not a length", b)
	}
	n := int64(0)
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, fail(protocol, "%.20q is not a length", b)
		}
		n = n*10 + int64(c-'0')
	}
	return n, nil
}

func (w *worker) readBody(h *head) error {
	switch {
	case h.chunked:
		return w.chunks()
	case h.length >= 0:
		return w.consume(h.length)
	}
	h.close = true
	for {
		w.take(w.w - w.r)
		if err := w.fill(); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

// take counts n buffered bytes as body.
func (w *worker) take(n int) {
	if w.sum != nil {
		// A hash cannot fail to write.
		_, _ = w.sum.Write(w.buf[w.r : w.r+n])
	}
	w.r += n
	w.count += int64(n)
}

// consume reads exactly n bytes of body.
func (w *worker) consume(n int64) error {
	for {
		have := int64(w.w - w.r)
		if have >= n {
			w.take(int(n))
			return nil
		}
		w.take(int(have))
		n -= have
		if err := w.fill(); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
}

// chunks reads a chunked body (RFC 9112 section 7.1) with its trailers.
func (w *worker) chunks() error {
	for {
		line, err := w.line()
		if err != nil {
			return err
		}
		size, err := chunkSize(line)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		if err := w.consume(size); err != nil {
			return err
		}
		if line, err := w.line(); err != nil {
			return err
		} else if len(line) != 0 {
			return fail(protocol, "%.20q where a chunk should end", line)
		}
	}
	for {
		if line, err := w.line(); err != nil || len(line) == 0 {
			return err
		}
	}
}

func chunkSize(line []byte) (int64, error) {
	digits := line
	if i := bytes.IndexAny(line, "; \t"); i >= 0 {
		digits = line[:i]
	}
	if len(digits) == 0 || len(digits) > 15 {
		return 0, fail(protocol, "%.20q is not a chunk size", line)
	}
	n := int64(0)
	for _, c := range digits {
		d := ascii.Unhex(c)
		if d < 0 {
			return 0, fail(protocol, "%.20q is not a chunk size", line)
		}
		n = n<<4 | int64(d)
	}
	return n, nil
}

// line reads up to the next CRLF and returns the line without it.
func (w *worker) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(w.buf[w.r:w.w], '\n'); i >= 0 {
			line := bytes.TrimSuffix(w.buf[w.r:w.r+i], []byte("\r"))
			w.r += i + 1
			return line, nil
		}
		if err := w.fill(); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// Generator is a validated Config with resolved targets. It can run once.
type Generator struct {
	cfg     Config
	targets []*target
	choose  chooser

	next     atomic.Uint64 // number of the next fetch
	inFlight atomic.Int64
	most     atomic.Int64 // maximum of inFlight
	started  atomic.Int64
	dropped  atomic.Int64 // in flight when the run ended
	unsent   atomic.Int64 // due by the schedule but not sent
	grumbles atomic.Int64
	turn     atomic.Uint64 // index of the next of cfg.Sources

	tallies []*tally
}
