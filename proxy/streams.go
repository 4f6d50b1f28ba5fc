package proxy

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"

	"shuultuur/message"
)

// HTTP/2 towards the client. Each stream is served by a session of its own, as
// if it were a connection with one HTTP/1.1 request: a pipe in memory lies
// between the two, so that what is judged, held and written is the same for
// both versions.

const (
	maxStreams = 128 // of one connection at once
	protocolH2 = "h2"
)

// serveStreams serves the client's HTTP/2 connection until it ends.
func (x *session) serveStreams() {
	p := x.p
	x.c.SetDeadline(time.Time{})
	server := &http.Server{MaxHeaderBytes: p.cfg.Head, ErrorLog: log.New(io.Discard, "", 0)}
	streams := &http2.Server{MaxConcurrentStreams: maxStreams, IdleTimeout: p.cfg.Idle}
	if err := http2.ConfigureServer(server, streams); err != nil {
		x.p.log.Error("HTTP/2", "err", err)
		return
	}
	goAway := func() { _ = server.Shutdown(x.ctx) } // it has no listeners: this only tells the client
	x.goAway.Store(&goAway)
	defer x.goAway.Store(nil)
	if x.l.draining.Load() {
		goAway()
	}
	// ServeConn does not wait for its handlers, and may even begin one when it
	// has returned; they use x, which is about to serve somebody else.
	var open admitted
	d := x.inside
	streams.ServeConn(x.c, &http2.ServeConnOpts{
		Context: x.ctx, BaseConfig: server,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if open.enter() {
				defer open.Done()
				x.stream(d, w, r)
			}
		}),
	})
	open.end()
}

// admitted are the streams under way.
type admitted struct {
	sync.WaitGroup
	mu    sync.Mutex
	ended bool
}

func (a *admitted) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.Add(1)
	}
	return !a.ended
}

// end lets none in any more and waits for those who are.
func (a *admitted) end() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.Wait()
}

// stream serves one request of the connection.
func (x *session) stream(d *decrypted, w http.ResponseWriter, r *http.Request) {
	p := x.p
	head, ok := streamHead(r)
	if !ok {
		p.counters.bad.Add(1)
		http.Error(w, "The request is malformed.", http.StatusBadRequest)
		return
	}
	own := *d // its own copy: sessions write to it
	near, far := net.Pipe()
	y := p.sessions.Get().(*session)
	y.open(x.l, far)
	y.client, y.trusted, y.inside = x.client, false, &own

	done, aborted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				p.counters.panics.Add(1)
				p.log.Error("panic in a stream", "client", y.client, "panic", r)
			}
			far.Close()
		}()
		if y.await() {
			y.request()
		}
	}()
	stop := context.AfterFunc(r.Context(), func() {
		defer close(aborted)
		y.abort()
	})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		sendStream(near, head, r)
	}()
	err := answerStream(w, r, near)
	if err != nil {
		y.abort()
	}
	near.Close()
	<-done
	if !stop() {
		<-aborted
	}
	r.Body.Close() // wakes up who sends
	<-sent
	y.close()
	p.sessions.Put(y)
	if err != nil {
		panic(http.ErrAbortHandler) // the client is told that this is not all
	}
}

// streamHead writes a stream's head as HTTP/1.1 would have it. It says whether
// that is possible.
func streamHead(r *http.Request) ([]byte, bool) {
	target := r.RequestURI
	if !plain(target) || !plain(r.Host) || r.Method == http.MethodConnect {
		return nil, false
	}
	b := append(append(append([]byte(nil), r.Method...), ' '), target...)
	b = appendField(append(b, " HTTP/1.1\r\n"...), "Host", []byte(r.Host))
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch name {
		case "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Content-Length", "Host", "Te", "Trailer":
			continue
		}
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, false
		}
		for _, v := range r.Header[name] {
			if !httpguts.ValidHeaderFieldValue(v) {
				return nil, false
			}
			b = appendField(b, name, []byte(v))
		}
	}
	switch {
	case r.ContentLength > 0:
		b = appendField(b, "Content-Length", strconv.AppendInt(nil, r.ContentLength, 10))
	case r.ContentLength < 0:
		for name := range r.Trailer {
			b = appendField(b, "Trailer", []byte(name))
		}
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	return append(b, "\r\n"...), true
}

// plain says whether s can stand in a head without ending something there.
func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// sendStream writes a request to c. A failure ends c, which the session sees.
func sendStream(c net.Conn, head []byte, r *http.Request) {
	_, err := c.Write(head)
	if err == nil && r.ContentLength != 0 {
		_, err = copyFramed(c, r.Body, r.ContentLength < 0, func() http.Header { return r.Trailer })
	}
	if err != nil {
		c.Close()
	}
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

// answerStream passes a session's answer on to the stream.
func answerStream(w http.ResponseWriter, r *http.Request, c net.Conn) error {
	br := bufio.NewReaderSize(c, small)
	for {
		res, err := http.ReadResponse(br, r)
		if err != nil {
			return err
		}
		h := w.Header()
		clear(h)
		for name, values := range res.Header {
			switch name {
			case "Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade":
			default:
				h[name] = values
			}
		}
		if res.StatusCode < 200 {
			if res.StatusCode != 100 && res.StatusCode != 101 { // those are between neighbours
				w.WriteHeader(res.StatusCode)
			}
			continue
		}
		defer res.Body.Close()
		w.WriteHeader(res.StatusCode)
		return answerBody(w, res, br)
	}
}

func answerBody(w http.ResponseWriter, res *http.Response, br *bufio.Reader) error {
	flush := w.(http.Flusher)
	buf := make([]byte, medium)
	if br.Buffered() == 0 {
		flush.Flush()
	}
	for {
		n, err := res.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if br.Buffered() == 0 && err == nil {
				flush.Flush() // more may take a while
			}
		}
		if err == io.EOF {
			for name, values := range res.Trailer {
				w.Header()[http.TrailerPrefix+name] = values
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}
