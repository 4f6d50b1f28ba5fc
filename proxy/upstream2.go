package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http2"

	"shuultuur/filter"
	"shuultuur/message"
)

// HTTP/2 towards the origin, for clients that speak it too. A session writes
// HTTP/1.1 into a pipe in memory; at its other end a goroutine makes a stream
// of it on a connection that many share.

// An origin2 is an HTTP/2 connection to an origin.
type origin2 struct {
	cc     *http2.ClientConn
	faults []filter.Finding
}

// origins2 are the connections by the key they would have in the pool.
type origins2 struct {
	transport *http2.Transport
	mu        sync.Mutex
	byKey     map[string][]*origin2
}

func newOrigins2(cfg *Config) *origins2 {
	return &origins2{
		transport: &http2.Transport{
			DisableCompression: true, MaxHeaderListSize: uint32(cfg.Head),
			IdleConnTimeout: cfg.UpstreamIdle, ReadIdleTimeout: cfg.Answer, PingTimeout: cfg.Dial,
		},
		byKey: map[string][]*origin2{},
	}
}

// get returns a connection with room for one more stream, or nil.
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
		if list[i].cc.CanTakeNewRequest() {
			s.byKey[key] = list
			return list[i]
		}
		i++
	}
	s.byKey[key] = list
	if len(list) == 0 {
		delete(s.byKey, key)
	}
	return nil
}

func (s *origins2) put(key string, tc *tls.Conn, faults []filter.Finding) (*origin2, error) {
	cc, err := s.transport.NewClientConn(tc)
	if err != nil {
		return nil, err
	}
	o := &origin2{cc, faults}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byKey[key] = append(s.byKey[key], o)
	return o, nil
}

// sweep forgets connections that have ended; their own timer ends idle ones.
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

// A streamConn is the session's end of the pipe.
type streamConn struct {
	net.Conn
	cancel context.CancelFunc
}

func (c *streamConn) Close() error {
	c.cancel()
	return c.Conn.Close()
}

// open makes an upstream of one stream of o, which is good for one request.
func (o *origin2) open(ctx context.Context, key string, head int, shared bool) *upstream {
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	u := &upstream{c: &streamConn{near, cancel}, key: key, faults: o.faults, once: true, shared: shared}
	u.r = message.NewReader(near, small, head)
	go func() {
		defer cancel()
		defer far.Close()
		o.serve(ctx, far)
	}()
	return u
}

// serve makes a stream of the request that comes on c. What goes wrong ends c.
func (o *origin2) serve(ctx context.Context, c net.Conn) {
	q, err := http.ReadRequest(bufio.NewReaderSize(c, small))
	if err != nil {
		return
	}
	q = q.WithContext(ctx)
	q.URL.Scheme, q.URL.Host, q.RequestURI = "https", q.Host, ""
	q.Header.Del("Connection")
	if strings.HasPrefix(q.Header.Get("Content-Type"), "application/grpc") {
		q.Header.Set("Te", "trailers")
	}
	if q.ContentLength == 0 {
		q.Body = nil
	}
	if q.Header.Get("User-Agent") == "" {
		q.Header["User-Agent"] = nil // none of its own
	}
	h := hints{c: c, heads: make(chan []byte, 8), over: make(chan struct{})}
	q = q.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: h.got}))
	res, err := o.cc.RoundTrip(q)
	h.end()
	if err != nil {
		return
	}
	defer res.Body.Close()
	bare := q.Method == "HEAD" || res.StatusCode == 204 || res.StatusCode == 304
	chunked := !bare && (res.ContentLength < 0 || len(res.Trailer) > 0)
	b := append([]byte("HTTP/1.1 "), strconv.Itoa(res.StatusCode)...)
	b = append(append(append(b, ' '), http.StatusText(res.StatusCode)...), "\r\n"...)
	for name, values := range res.Header {
		switch name {
		case "Connection", "Transfer-Encoding", "Keep-Alive", "Upgrade":
			continue
		case "Content-Length":
			if chunked {
				continue
			}
		}
		for _, v := range values {
			b = appendField(b, name, []byte(v))
		}
	}
	switch {
	case chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case !bare && res.Header.Get("Content-Length") == "":
		b = appendField(b, "Content-Length", strconv.AppendInt(nil, res.ContentLength, 10))
	}
	if _, err := c.Write(append(b, "\r\n"...)); err != nil || bare {
		return
	}
	copyFramed(c, res.Body, chunked, func() http.Header { return res.Trailer })
}

// hints are the 1xx responses to a request, on their way to its session. The
// connection's reader, which gets them, must not wait for one session.
type hints struct {
	c     io.Writer
	heads chan []byte
	begin sync.Once
	over  chan struct{}
	wg    sync.WaitGroup
}

// got passes one on, unless too many wait already.
func (h *hints) got(code int, header textproto.MIMEHeader) error {
	b := append([]byte("HTTP/1.1 "), strconv.Itoa(code)...)
	b = append(append(append(b, ' '), http.StatusText(code)...), "\r\n"...)
	for name, values := range header {
		for _, v := range values {
			b = appendField(b, name, []byte(v))
		}
	}
	h.begin.Do(func() { h.wg.Go(h.write) })
	select {
	case h.heads <- append(b, "\r\n"...):
	default:
	}
	return nil
}

func (h *hints) write() {
	for {
		select {
		case b := <-h.heads:
			if _, err := h.c.Write(b); err != nil {
				return
			}
		case <-h.over:
			select {
			case b := <-h.heads:
				if _, err := h.c.Write(b); err != nil {
					return
				}
			default:
				return
			}
		}
	}
}

// end waits until all are written.
func (h *hints) end() {
	close(h.over)
	h.begin.Do(func() {}) // none begins any more
	h.wg.Wait()
}

// copyFramed copies a body, in chunks where its length is not known, each as it
// comes. trailer is asked at the end.
func copyFramed(c io.Writer, body io.Reader, chunked bool, trailer func() http.Header) (n int64, err error) {
	buf := make([]byte, medium)
	var line []byte
	for {
		m, err := body.Read(buf)
		n += int64(m)
		if m > 0 {
			out := buf[:m]
			if chunked {
				line = message.AppendChunk(line[:0], m)
				line = append(append(line, out...), "\r\n"...)
				out = line
			}
			if _, err := c.Write(out); err != nil {
				return n, err
			}
		}
		switch {
		case err == nil:
			continue
		case err != io.EOF:
			return n, err
		case !chunked:
			return n, nil
		}
		var fields message.Fields
		for name, values := range trailer() {
			for _, v := range values {
				fields.Add(name, v)
			}
		}
		_, err = c.Write(message.AppendLastChunk(nil, fields))
		return n, err
	}
}
