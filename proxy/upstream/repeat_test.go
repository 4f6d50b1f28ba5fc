package upstream

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"shuultuur/lib/message"
)

// A framedOrigin answers the streams of HTTP/2 and the requests of HTTP/1.1 with the protocol, and
// with number of bytes and trailer of their bodies, unless refuse refuses a stream. It is named
// example.com.
type framedOrigin struct {
	refuse func(c *framed, stream uint32) (refused bool)
	most   uint32 // streams at once, 0 for any number
	conns  atomic.Int64
	got    atomic.Int64 // bytes of bodies
}

// framed is a connection of HTTP/2.
type framed struct {
	net.Conn
	*http2.Framer
	n int64 // number of the connection, from 1
}

func (o *framedOrigin) start(t *testing.T, budget message.Budget) (up *Transport, addr string) {
	s, _ := serveTLS(t, false, nil, greet) // for its certificate
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go o.serve(c, o.conns.Add(1))
		}
	}()
	up = verified(t, s, Config{})
	up.SetBudget(budget)
	return up, ln.Addr().String()
}

func (o *framedOrigin) serve(c net.Conn, n int64) {
	defer c.Close()
	if c.(*tls.Conn).Handshake() != nil {
		return
	}
	r := bufio.NewReader(c)
	if c.(*tls.Conn).ConnectionState().NegotiatedProtocol != "h2" {
		for {
			q, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			b, err := io.ReadAll(q.Body)
			if err != nil {
				return
			}
			text := fmt.Sprintf("HTTP/1.1 %d %s", len(b), q.Trailer.Get("Digest"))
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		}
	}
	io.CopyN(io.Discard, r, int64(len(http2.ClientPreface)))
	f := &framed{Conn: c, Framer: http2.NewFramer(c, r), n: n}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	settings := []http2.Setting{}
	if o.most > 0 {
		settings = append(settings, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: o.most})
	}
	f.WriteSettings(settings...)
	bodies := map[uint32]int{}
	end := func(id uint32, digest string) {
		var head bytes.Buffer
		hpack.NewEncoder(&head).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, BlockFragment: head.Bytes()})
		f.WriteData(id, true, fmt.Appendf(nil, "HTTP/2.0 %d %s", bodies[id], digest))
		delete(bodies, id)
	}
	for {
		x, err := f.ReadFrame()
		if err != nil {
			return
		}
		id := x.Header().StreamID
		switch x := x.(type) {
		case *http2.SettingsFrame:
			if !x.IsAck() {
				f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			f.WritePing(true, x.Data)
		case *http2.MetaHeadersFrame:
			if _, known := bodies[id]; !known {
				bodies[id] = 0
				if o.refuse != nil && o.refuse(f, id) {
					delete(bodies, id)
					continue
				}
			}
			if x.StreamEnded() {
				digest := ""
				for _, h := range x.RegularFields() {
					if h.Name == "digest" {
						digest = h.Value
					}
				}
				end(id, digest)
			}
		case *http2.DataFrame:
			n := uint32(len(x.Data()))
			o.got.Add(int64(n))
			if _, open := bodies[id]; !open {
				continue
			}
			bodies[id] += int(n)
			if n > 0 {
				f.WriteWindowUpdate(0, n)
				f.WriteWindowUpdate(id, n)
			}
			if x.StreamEnded() {
				end(id, "")
			}
		}
	}
}

// Ways in which an origin does not process a stream (RFC 9113 section 8.7). They refuse the
// streams of the first connection.
var refusals = map[string]func(c *framed, stream uint32) bool{
	"GOAWAY below the stream": func(c *framed, stream uint32) bool {
		if c.n > 1 {
			return false
		}
		c.WriteGoAway(0, http2.ErrCodeNo, nil)
		return true
	},
	"GOAWAY after a stream": func(c *framed, stream uint32) bool {
		if c.n > 1 || stream == 1 {
			return false
		}
		c.WriteGoAway(1, http2.ErrCodeNo, nil)
		return true
	},
	"GOAWAY, then the end": func(c *framed, stream uint32) bool {
		if c.n > 1 || stream == 1 {
			return false
		}
		c.WriteGoAway(1, http2.ErrCodeNo, nil)
		c.Conn.(*tls.Conn).CloseWrite()
		return true
	},
	"GOAWAY with an error": func(c *framed, stream uint32) bool {
		if c.n > 1 || stream == 1 {
			return false
		}
		c.WriteGoAway(1, http2.ErrCodeEnhanceYourCalm, nil)
		return true
	},
	"REFUSED_STREAM": func(c *framed, stream uint32) bool {
		if c.n > 1 || stream == 1 {
			return false
		}
		c.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		return true
	},
	"REFUSED_STREAM of the first stream": func(c *framed, stream uint32) bool {
		if c.n > 1 {
			return false
		}
		c.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		return true
	},
	"HTTP_1_1_REQUIRED": func(c *framed, stream uint32) bool {
		if stream == 1 {
			return false
		}
		c.WriteRSTStream(stream, http2.ErrCodeHTTP11Required)
		return true
	},
	"HTTP_1_1_REQUIRED of the first stream": func(c *framed, stream uint32) bool {
		c.WriteRSTStream(stream, http2.ErrCodeHTTP11Required)
		return true
	},
	"HTTP_1_1_REQUIRED for the connection": func(c *framed, stream uint32) bool {
		c.WriteGoAway(0, http2.ErrCodeHTTP11Required, nil)
		return true
	},
}

// A request that the origin has not processed is sent again, whatever its method, with its body
// and trailer.
func TestWhatWasNotProcessedIsSentAgain(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 20_000)
	bodies := []struct {
		name, framing, body string
		length              int64
		want                string
	}{
		{"no body", "", "", message.None, "0 "},
		{"a short body", "Content-Length: 5\r\n", "hello", 5, "5 "},
		{"a long body", "Content-Length: 320000\r\n", long, 320_000, "320000 "},
		{"chunks", "Trailer: Digest\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nDigest: abc\r\n\r\n", message.Chunked, "5 abc"},
		{"many chunks", "Transfer-Encoding: chunked\r\n", strings.Repeat("10\r\n0123456789abcdef\r\n", 20_000) + "0\r\n\r\n", message.Chunked, "320000 "},
		{"no chunks", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n", message.Chunked, "0 "},
	}
	for name, refuse := range refusals {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH"} {
			for _, tt := range bodies {
				t.Run(name+", "+method+", "+tt.name, func(t *testing.T) {
					t.Parallel()
					b := &room{left: 64 << 20}
					o := framedOrigin{refuse: refuse}
					up, addr := o.start(t, b)
					want := "HTTP/2.0 "
					if strings.HasPrefix(name, "HTTP_1_1") {
						want = "HTTP/1.1 "
					}
					var last string
					for range 3 {
						q := posted(t, addr, "POST / HTTP/1.1\r\nHost: x\r\n"+tt.framing+"\r\n"+tt.body, tt.length)
						q.Method, q.Scheme, q.Dial, q.Host = method, "https", "127.0.0.1", []byte("example.com")
						var status int
						if status, last = trip(t, t.Context(), up, q); status != 200 || !strings.HasSuffix(last, " "+tt.want) {
							t.Fatalf("the answer is %d %q, want the body %q", status, last, tt.want)
						}
					}
					if last != want+tt.want {
						t.Errorf("the last answer is %q, want %q", last, want+tt.want)
					}
					if n := b.used(); n != 0 {
						t.Errorf("%d bytes of bodies are kept at the end", n)
					}
				})
			}
		}
	}
}

// The first sending reads the body while the client makes a pause. What it gets then is for the
// next one.
func TestABodyThatIsBeingReadIsSentAgain(t *testing.T) {
	t.Parallel()
	from, to := io.Pipe()
	o := framedOrigin{}
	o.refuse = func(c *framed, stream uint32) bool {
		if c.n > 1 {
			go io.WriteString(to, " world")
			return false
		}
		go func() {
			io.WriteString(to, "hello")
			c.WriteGoAway(0, http2.ErrCodeNo, nil)
		}()
		return true
	}
	b := &room{left: 64 << 20}
	up, addr := o.start(t, b)
	var in message.Request
	go io.WriteString(to, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n")
	if err := message.NewReader(from, 0, 8<<10).ReadRequest(&in); err != nil {
		t.Fatal(err)
	}
	q := askFor("https", "example.com", addr)
	q.Method, q.Length, q.Body = "POST", in.Length, in.Body
	if status, body := trip(t, t.Context(), up, q); status != 200 || body != "HTTP/2.0 11 " {
		t.Errorf("the answer is %d %q, want that to 11 bytes", status, body)
	}
	if n := b.used(); n != 0 {
		t.Errorf("%d bytes of bodies are kept at the end", n)
	}
}

// Without room for its body a request fails as before, and one whose body was not read yet does
// not need any.
func TestABodyWithoutRoomIsNotSentAgain(t *testing.T) {
	t.Parallel()
	o := framedOrigin{refuse: func(c *framed, stream uint32) bool { c.WriteRSTStream(stream, http2.ErrCodeRefusedStream); return true }}
	up, addr := o.start(t, &room{})
	q := posted(t, addr, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 320000\r\n\r\n"+strings.Repeat("x", 320_000), 320_000)
	q.Scheme, q.Dial, q.Host = "https", "127.0.0.1", []byte("example.com")
	_, err := up.RoundTrip(t.Context(), q)
	if _, ok := errors.AsType[http2.StreamError](err); !ok {
		t.Errorf("the error is %v, want that of the stream", err)
	}
}

// An origin that refuses everything is not asked forever.
func TestARequestIsNotSentAgainForever(t *testing.T) {
	t.Parallel()
	o := framedOrigin{refuse: func(c *framed, stream uint32) bool { c.WriteRSTStream(stream, http2.ErrCodeRefusedStream); return true }}
	b := &room{left: 64 << 20}
	up, addr := o.start(t, b)
	q := posted(t, addr, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 5)
	q.Scheme, q.Dial, q.Host = "https", "127.0.0.1", []byte("example.com")
	if _, err := up.RoundTrip(t.Context(), q); err == nil || o.conns.Load() > mostTries {
		t.Errorf("after %d connections the error is %v", o.conns.Load(), err)
	}
	if n := b.used(); n != 0 {
		t.Errorf("%d bytes of bodies are kept at the end", n)
	}
}

// What the origin may have processed is repeated only if that does no harm.
func TestWhatMayHaveBeenProcessedIsRepeatedIfItsMethodAllows(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]bool{"GET": true, "HEAD": true, "PUT": true, "DELETE": true, "OPTIONS": true, "POST": false, "PATCH": false} {
		for _, body := range []bool{false, true} {
			t.Run(fmt.Sprint(method, " ", body), func(t *testing.T) {
				t.Parallel()
				o := newOrigin(t, func(s *side) {
					for k := 0; ; k++ {
						r := s.request()
						if r == nil {
							return
						}
						io.Copy(io.Discard, r.Body)
						if s.n == 1 && k == 1 {
							return // as if it had failed while it worked
						}
						s.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					}
				})
				up := newTransport(t, Config{})
				b := &room{left: 64 << 20}
				up.SetBudget(b)
				trip(t, t.Context(), up, ask("GET", o.addr))
				q := ask(method, o.addr)
				if body {
					q = posted(t, o.addr, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 100_000), 100_000)
					q.Method = method
				}
				s, err := up.RoundTrip(t.Context(), q)
				if (err == nil) != want {
					t.Fatalf("the error is %v; want a second try %v", err, want)
				}
				if err == nil {
					finish(t, s)
				}
				if n := b.used(); n != 0 {
					t.Errorf("%d bytes of bodies are kept at the end", n)
				}
			})
		}
	}
}

// Streams beyond those that an origin takes at once go over other connections.
func TestAnOriginOfOneStreamAtOnceServesMany(t *testing.T) {
	t.Parallel()
	o := framedOrigin{most: 1}
	up, addr := o.start(t, &room{left: 64 << 20})
	failed := make(chan error)
	for range 20 {
		go func() {
			var err error
			for range 20 {
				q := posted(t, addr, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 5)
				q.Scheme, q.Dial, q.Host = "https", "127.0.0.1", []byte("example.com")
				var s *message.Response
				if s, err = up.RoundTrip(t.Context(), q); err != nil {
					break
				}
				finish(t, s)
			}
			failed <- err
		}()
	}
	for range 20 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
