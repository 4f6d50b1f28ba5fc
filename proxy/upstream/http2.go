package upstream

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// This file handles HTTP/2 to origins, for clients that use it too: requests are streams of
// shared connections.

// An origin2 is an HTTP/2 connection to an origin.
type origin2 struct {
	cc       *http2.ClientConn
	taken    atomic.Int64 // streams that are used, or about to be
	pacer    *pacer
	asked    bool        // the origin requested a client certificate
	answered atomic.Bool // it has answered a request
	server   net.Addr
	faults   []filter.Finding
	peer     peer
}

// origins2 are the connections by the key that they would have in the pool.
type origins2 struct {
	transport *http2.Transport
	mu        sync.Mutex
	byKey     map[string][]*origin2
	refusing  map[string]time.Time // origins that want HTTP/1.1, by the key without the protocol
}

const (
	// refuseTime is how long an origin is spoken to in HTTP/1.1 that has required it: each request
	// for what requires it would go there twice, and a long one could not be repeated.
	refuseTime  = 10 * time.Minute
	maxRefusing = 1024
)

// refuse records that an origin wants HTTP/1.1.
func (s *origins2) refuse(key string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusing == nil {
		s.refusing = map[string]time.Time{}
	}
	for k, t := range s.refusing {
		if now.Sub(t) > refuseTime || len(s.refusing) >= maxRefusing {
			delete(s.refusing, k)
		}
	}
	s.refusing[strings.TrimSuffix(key, keyH2)] = now
}

// refuses reports whether an origin wants HTTP/1.1.
func (s *origins2) refuses(key []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.refusing[string(key)]
	return ok && time.Since(at) < refuseTime
}

func (s *origins2) init(head int, idle, answer, dial time.Duration) {
	s.byKey = map[string][]*origin2{}
	s.transport = &http2.Transport{
		DisableCompression: true, MaxHeaderListSize: uint32(head),
		IdleConnTimeout: idle, ReadIdleTimeout: answer, PingTimeout: dial,
	}
}

// get returns a connection with room for one more stream, or nil. The stream is taken: x/net would
// let it wait for another one to end, whatever its client does.
func (s *origins2) get(key string) *origin2 {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.byKey[key]
	for i := 0; i < len(list); {
		st := list[i].cc.State()
		if st.Closed || st.Closing {
			list = append(list[:i], list[i+1:]...)
			continue
		}
		if o := list[i]; o.cc.CanTakeNewRequest() && o.taken.Load() < int64(st.MaxConcurrentStreams) {
			s.byKey[key] = list
			o.taken.Add(1)
			return o
		}
		i++
	}
	s.byKey[key] = list
	if len(list) == 0 {
		delete(s.byKey, key)
	}
	return nil
}

func (s *origins2) put(key string, tc *tls.Conn, u *conn) (*origin2, error) {
	u.unlimited() // its pings find that the peer is gone
	p := newPacer(tc)
	cc, err := s.transport.NewClientConn(p)
	if err != nil {
		return nil, err
	}
	o := &origin2{cc: cc, pacer: p, asked: u.asked, server: tc.RemoteAddr(), faults: u.faults, peer: u.peer}
	o.taken.Store(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byKey[key] = append(s.byKey[key], o)
	return o, nil
}

// sweep removes connections that have ended; their own timer ends idle ones.
func (s *origins2) sweep(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, list := range s.byKey {
		live := list[:0]
		for _, o := range list {
			if all {
				o.cc.Close()
			}
			if st := o.cc.State(); !st.Closed {
				live = append(live, o)
			}
		}
		if s.byKey[key] = live; len(live) == 0 {
			delete(s.byKey, key)
		}
	}
}

// askTwo sends the request as a stream of o and stores the head of the response.
func (r *reply) askTwo(ctx context.Context, o *origin2) (received bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	b := &body2{r: r, o: o, cancel: cancel, answer: r.t.answer, window: window{p: o.pacer, budget: r.t.budget, who: r.c.Client}}
	r.body = b
	if r.t.answer > 0 {
		b.silence = time.AfterFunc(r.t.answer, b.isSilent)
		b.waits.Store(true)
	}
	if err := r.c.hold(closeFunc(cancel)); err != nil {
		return false, err
	}
	h := hints{r: r, heads: make(chan *message.Response, 8), over: make(chan struct{})}
	req, err := b.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: h.forward, WroteHeaders: b.window.opened}))
	if err != nil {
		return false, err
	}
	res, err := o.cc.RoundTrip(req)
	if failed := h.end(); err == nil && failed != nil {
		err = failed
		res.Body.Close()
	}
	if err != nil {
		if o.asked && !o.answered.Load() && o.cc.State().Closed && b.explain(err) == err {
			// The refusal may end the connection before the request has a stream; x/net then
			// does not return the alert.
			return h.any, &HandshakeError{Err: err, WantsClientCert: true}
		}
		return h.any, explainAsked(b.explain(err), o.asked)
	}
	o.answered.Store(true)
	b.waits.Store(false)
	b.res = res
	r.takeOver(res)
	return true, nil
}

// takeOver makes the head of r from an HTTP/2 response.
func (r *reply) takeOver(res *http.Response) {
	s := &r.Response
	*s = message.Response{Status: res.StatusCode, Reason: []byte(http.StatusText(res.StatusCode)), Proto: 20, Fields: s.Fields[:0]}
	for name, values := range res.Header {
		switch name {
		case "Connection", "Transfer-Encoding", "Keep-Alive", "Upgrade":
			continue
		}
		for _, v := range values {
			s.Add(name, v)
		}
	}
	b := r.body.(*body2)
	switch {
	case r.q.Method == http.MethodHead || s.Status == http.StatusNoContent || s.Status == http.StatusNotModified:
		b.left = 0
	case res.ContentLength < 0 || len(res.Trailer) > 0:
		b.left = message.Chunked
		s.Del("Content-Length")
	default:
		b.left = res.ContentLength
	}
	s.Length = b.left
}

// A body2 is the body of an HTTP/2 response, with the state of its request.
type body2 struct {
	r       *reply
	o       *origin2
	cancel  context.CancelFunc
	answer  time.Duration // how long silence may be
	res     *http.Response
	left    int64 // as in Response.Length
	trailer message.Fields
	window  window

	silence *time.Timer // ends the stream; nil for never
	waits   atomic.Bool // for the origin; meanwhile the timer counts
	silent  atomic.Bool // the timer has ended the stream

	failed atomic.Pointer[BodyError]
}

// explain returns the meaning of an error of x/net.
func (b *body2) explain(err error) error {
	failed := b.failed.Load()
	switch {
	case failed != nil:
		return failed
	case b.silent.Load():
		return os.ErrDeadlineExceeded
	}
	return err
}

// isSilent ends the stream, unless it is the client that takes its time.
func (b *body2) isSilent() {
	if b.waits.Load() {
		b.silent.Store(true)
		b.cancel()
	}
}

// moved restarts the timer of silence.
func (b *body2) moved() {
	if b.silence != nil {
		b.silence.Reset(b.answer)
	}
}

// request converts the request of r for x/net.
func (b *body2) request(ctx context.Context) (*http.Request, error) {
	r, q := b.r, b.r.q
	host := string(appendHost(nil, q.Host))
	if port, usual := portOf(q); port != usual || q.PortNamed {
		host += ":" + strconv.Itoa(int(port))
	}
	u := &url.URL{Scheme: "https", Host: host, Opaque: string(q.Path)}
	if strings.HasPrefix(u.Opaque, "//") { // Opaque would be read as a host
		var err error
		if u, err = url.ParseRequestURI(u.Opaque); err != nil {
			return nil, err
		}
		u.Scheme, u.Host = "https", host
	}
	req := (&http.Request{Method: q.Method, URL: u, Host: host, Header: make(http.Header, len(q.Fields)+1)}).WithContext(ctx)
	for _, f := range q.Fields {
		switch name := textproto.CanonicalMIMEHeaderKey(string(f.Name)); name {
		case "Content-Length", "Host", "Transfer-Encoding", "Connection":
		default:
			req.Header[name] = append(req.Header[name], string(f.Value))
		}
	}
	if strings.HasPrefix(req.Header.Get("Content-Type"), "application/grpc") {
		req.Header.Set("Te", "trailers")
	}
	if q.Expect {
		req.Header.Set("Expect", "100-continue")
	}
	if req.Header["User-Agent"] == nil {
		req.Header["User-Agent"] = nil // suppress its own
	}
	if q.Body == nil {
		return req, nil
	}
	req.Trailer = http.Header{}
	for _, list := range req.Header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			req.Trailer[textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))] = nil
		}
	}
	req.Header.Del("Trailer") // x/net makes one
	req.Body, req.ContentLength = &sentBody2{b, r.kept.now, req.Trailer}, q.Length
	return req, nil
}

// A sentBody2 is the body of the request for x/net, which may read it after the response has
// arrived, and after r has begun to send it elsewhere.
type sentBody2 struct {
	b       *body2
	body    *sending
	trailer http.Header
}

func (s *sentBody2) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	s.b.moved()
	switch {
	case s.body.AtEnd():
		for _, f := range s.body.Trailer() {
			name := textproto.CanonicalMIMEHeaderKey(string(f.Name))
			if _, announced := s.trailer[name]; announced {
				s.trailer[name] = append(s.trailer[name], string(f.Value))
			}
		}
	case err != nil && err != errLeft:
		s.b.failed.Store(&BodyError{err})
	}
	return n, err
}

// Close is called when the rest is not needed.
func (s *sentBody2) Close() error { s.body.leave(); return nil }

// Read implements [message.Body].
func (b *body2) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	since := b.window.begin()
	b.moved()
	b.waits.Store(true)
	n, err := b.res.Body.Read(p)
	b.waits.Store(false)
	if b.left > 0 {
		b.left -= int64(n)
	}
	if err == nil {
		b.window.end(since, n, b.left)
	}
	if err == io.EOF {
		if b.left > 0 {
			return n, io.ErrUnexpectedEOF
		}
		b.left = 0
		for name, values := range b.res.Trailer {
			for _, v := range values {
				b.trailer.Add(name, v)
			}
		}
	} else if err != nil {
		err = b.explain(err)
	}
	return n, err
}

// Ready implements [message.Body]: x/net has the available bytes.
func (b *body2) Ready(dst [][]byte) [][]byte { return dst }

// Skip implements [message.Body].
func (b *body2) Skip(int) {}

// Copy implements [message.Body].
func (b *body2) Copy(w io.Writer, most int64) (int64, error) { return message.CopyRead(w, b, most) }

// Remaining implements [message.Body].
func (b *body2) Remaining() int64 { return b.left }

// AtEnd implements [message.Body].
func (b *body2) AtEnd() bool { return b.left == 0 }

// Trailer implements [message.Body].
func (b *body2) Trailer() message.Fields { return b.trailer }

// Close implements [message.Body].
func (b *body2) Close() error {
	if b.silence != nil {
		b.silence.Stop()
	}
	b.cancel()
	b.window.close()
	if b.res != nil {
		b.res.Body.Close()
	}
	b.o.taken.Add(-1)
	return nil
}

// hints are the 1xx responses to a request for its caller. The connection's reader, which gets
// them, must not wait for one caller.
type hints struct {
	r      *reply
	heads  chan *message.Response
	begin  sync.Once
	over   chan struct{}
	any    bool
	failed error
	wg     sync.WaitGroup
}

// forward forwards one, unless too many wait.
func (h *hints) forward(code int, header textproto.MIMEHeader) error {
	s := &message.Response{Status: code, Reason: []byte(http.StatusText(code)), Proto: 20}
	for name, values := range header {
		for _, v := range values {
			s.Add(name, v)
		}
	}
	h.begin.Do(func() { h.any = true; h.wg.Go(h.pass) })
	select {
	case h.heads <- s:
	default:
	}
	return nil
}

func (h *hints) pass() {
	for {
		var s *message.Response
		select {
		case s = <-h.heads:
		case <-h.over:
			select {
			case s = <-h.heads:
			default:
				return
			}
		}
		if h.r.c.Interim != nil && h.failed == nil {
			h.failed = h.r.c.Interim(s)
		}
	}
}

// end waits until all were forwarded.
func (h *hints) end() error {
	close(h.over)
	h.begin.Do(func() {}) // none starts any more
	h.wg.Wait()
	return h.failed
}
