package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/proxy/upstream"
)

// A frames is an HTTP/2 client that sends arbitrary frames.
type frames struct {
	t *testing.T
	*http2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
}

// frames opens a connection through the proxy to host.
func (r *rig) frames(w *world, host string) *frames {
	r.t.Helper()
	c, br := r.tunnelTo(host)
	tc := tls.Client(&buffered{c, br}, &tls.Config{ServerName: "localhost", RootCAs: w.ours, NextProtos: []string{"h2"}})
	f := &frames{t: r.t}
	f.open(tc)
	return f
}

// open begins the connection tc.
func (f *frames) open(tc net.Conn) {
	f.t.Helper()
	f.Framer = http2.NewFramer(tc, tc)
	f.enc = hpack.NewEncoder(&f.block)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(tc, http2.ClientPreface); err != nil {
		f.t.Fatal(err)
	}
	f.WriteSettings()
	f.WriteSettingsAck()
}

// ask opens a stream; fields are names and values.
func (f *frames) ask(id uint32, end bool, fields ...string) {
	f.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		f.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: end, EndHeaders: true, BlockFragment: f.block.Bytes()}); err != nil {
		f.t.Fatal(err)
	}
}

// headers encodes the fields of a request without a body, and returns its first frame; the rest
// is in block.
func (f *frames) headers(id uint32, fields ...string) http2.HeadersFrameParam {
	for i := 0; i < len(fields); i += 2 {
		f.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	first := f.block.Next(16 << 10)
	return http2.HeadersFrameParam{StreamID: id, EndStream: true, EndHeaders: f.block.Len() == 0, BlockFragment: first}
}

// next returns the next frame of stream id.
func (f *frames) next(id uint32) http2.Frame {
	f.t.Helper()
	for {
		fr, err := f.ReadFrame()
		if err != nil {
			f.t.Fatal(err)
		}
		if fr.Header().StreamID == id {
			return fr
		}
	}
}

// acceptKey returns a server's answer to a WebSocket key (RFC 6455 section 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func TestWebSocketOverHTTP2(t *testing.T) {
	w := newWorld(t)
	wrong := false
	host := w.origin2(t, false, func(rw http.ResponseWriter, q *http.Request) {
		if q.Method != "GET" || q.Header.Get("Upgrade") != "websocket" || q.Header.Get("Sec-Websocket-Version") != "13" || q.Host == "" {
			t.Errorf("the origin got %s with %v", q.Method, q.Header)
		}
		c, buf, _ := rw.(http.Hijacker).Hijack()
		defer c.Close()
		key := q.Header.Get("Sec-Websocket-Key")
		if wrong {
			key = "x"
		}
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: chat\r\n\r\n", acceptKey(key))
		io.Copy(c, buf)
	})
	r := start(t, Config{}, Engine{Intercept: w.in, Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
		if s == filter.Request && strings.HasSuffix(x.URL, "/bad") {
			return block("chat")
		}
		return filter.Verdict{}
	}}})
	f := r.frames(w, host)
	open := []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", host, ":path", "/chat", "sec-websocket-version", "13"}
	f.ask(1, false, open...)
	h, ok := f.next(1).(*http2.MetaHeadersFrame)
	if !ok || h.PseudoValue("status") != "200" || h.StreamEnded() {
		t.Fatalf("answer to the extended CONNECT: got %v, want 200", h)
	}
	var names []string
	for _, hf := range h.RegularFields() {
		names = append(names, hf.Name)
	}
	if !slices.Contains(names, "sec-websocket-protocol") || slices.Contains(names, "sec-websocket-accept") || slices.Contains(names, "upgrade") {
		t.Errorf("wrong fields in the answer: %q", names)
	}
	for _, s := range []string{"ping", "pong"} {
		f.WriteData(1, false, []byte(s))
		if d, ok := f.next(1).(*http2.DataFrame); !ok || string(d.Data()) != s {
			t.Fatalf("echo of %q: got %v", s, d)
		}
	}
	f.WriteData(1, true, nil)
	if d, ok := f.next(1).(*http2.DataFrame); !ok || !d.StreamEnded() {
		t.Errorf("after our end: got %v, want the end of the stream", d)
	}
	bad := slices.Clone(open)
	bad[9] = "/bad"
	f.ask(3, false, bad...)
	if h, ok := f.next(3).(*http2.MetaHeadersFrame); !ok || h.PseudoValue("status") != "403" {
		t.Errorf("blocked WebSocket: got %v, want 403", h)
	}
	wrong = true
	f.ask(5, false, open...)
	if rst, ok := f.next(5).(*http2.RSTStreamFrame); !ok {
		t.Errorf("origin that does not speak WebSocket: got %v, want RST_STREAM", rst)
	}
	if got := r.wait(2)[1]; got.Status != 101 || got.In != 8 || got.Out != 8 {
		t.Errorf("record of the WebSocket: got %+v", got)
	}
}

func TestFieldsKeepTheirOrderThroughHTTP2(t *testing.T) {
	w := newWorld(t)
	heads := make(chan string, 1)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{w.leaf(t, nil)}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if head := readHead(bufio.NewReader(c)); head != "" {
					heads <- head
					io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Z: 1\r\nContent-Length: 0\r\nX-A: 2\r\n\r\n")
				}
			}()
		}
	}()
	host := strings.Replace(l.Addr().String(), "127.0.0.1", "localhost", 1)
	r := start(t, Config{}, Engine{Intercept: w.in})
	f := r.frames(w, host)
	f.ask(1, true, ":method", "GET", ":scheme", "https", ":authority", host, ":path", "/", "x-z", "1", "cookie", "a=1", "x-a", "2", "cookie", "b=2", "accept", "*/*")
	h, ok := f.next(1).(*http2.MetaHeadersFrame)
	if !ok {
		t.Fatalf("response: got %v, want a head", h)
	}
	var back []string
	for _, hf := range h.RegularFields() {
		back = append(back, hf.Name)
	}
	if got := strings.Join(back, " "); !strings.HasPrefix(got, "x-z") || strings.Index(got, "x-z") > strings.Index(got, "x-a") {
		t.Errorf("fields of the answer are out of order: %s", got)
	}
	head := <-heads
	at := -1
	for _, s := range []string{"X-Z: 1\r\n", "Cookie: a=1; b=2\r\n", "X-A: 2\r\n", "Accept: */*\r\n"} {
		if i := strings.Index(head, s); i < at || i < 0 {
			t.Errorf("%q is missing or out of order in %q", s, head)
		} else {
			at = i
		}
	}
}

func TestEarlyHintsAndEventsAreNotHeldBack(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		for _, client2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("origin h2 %v, client h2 %v", h2, client2), func(t *testing.T) {
				w := newWorld(t)
				seen := make(chan struct{}, 1)
				host := w.origin2(t, h2, func(rw http.ResponseWriter, q *http.Request) {
					rw.Header().Set("Link", "</a.css>; rel=preload")
					rw.WriteHeader(103)
					rw.Header().Set("Content-Type", "text/event-stream")
					for range 2 {
						io.WriteString(rw, "data: tick\n\n")
						rw.(http.Flusher).Flush()
						select {
						case <-seen: // the client has it
						case <-time.After(time.Minute):
							t.Error("the first event of a stream did not arrive within a minute")
						}
					}
				})
				r := start(t, Config{}, Engine{Intercept: w.in, Decider: judge{wants: func(x *filter.Transaction, s filter.Stage) bool { return s == filter.ResponseBody }}})
				c := r.browser(w)
				if client2 {
					c = r.browser2(w)
				}
				var mu sync.Mutex
				var early []string
				ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					mu.Lock()
					defer mu.Unlock()
					early = append(early, fmt.Sprint(code, " ", h.Get("Link")))
					return nil
				}})
				q, _ := http.NewRequestWithContext(ctx, "GET", "https://"+host+"/", nil)
				res, err := c.Do(q)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				br := bufio.NewReader(res.Body)
				for range 2 {
					if s, err := br.ReadString('\n'); s != "data: tick\n" {
						t.Fatalf("event of the stream: got %q, %v", s, err)
					}
					br.ReadString('\n')
					seen <- struct{}{}
				}
				mu.Lock()
				defer mu.Unlock()
				// An HTTP/1.1 client's origin is asked with HTTP/1.1.
				if want := []string{"103 </a.css>; rel=preload"}; !slices.Equal(early, want) {
					t.Errorf("early hints %q, want %q", early, want)
				}
			})
		}
	}
}

func TestAnOriginThatSpeaksHTTP2AloneServesOldClients(t *testing.T) {
	w := newWorld(t)
	alone := &tls.Config{Certificates: []tls.Certificate{w.leaf(t, nil)}, NextProtos: []string{"h2"}}
	alone.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(h.SupportedProtos, "h2") {
			return nil, nil
		}
		other := alone.Clone() // crypto/tls is lenient with HTTP/1.1, others are not
		other.NextProtos = []string{"other"}
		return other, nil
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", alone)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if c.(*tls.Conn).Handshake() != nil {
					return
				}
				new(http2.Server).ServeConn(c, &http2.ServeConnOpts{Handler: http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
					b, _ := io.ReadAll(q.Body)
					fmt.Fprint(rw, q.Proto, " ", len(b))
				})})
			}()
		}
	}()
	host := strings.Replace(l.Addr().String(), "127.0.0.1", "localhost", 1)
	r := start(t, Config{}, Engine{Intercept: w.in})
	c := r.browser(w)
	for range 2 {
		res, err := c.Post("https://"+host+"/", "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.ProtoMajor != 1 || string(b) != "HTTP/2.0 5" {
			t.Errorf("got %s %d %q, want HTTP/1.1 from the proxy and HTTP/2 at the origin", res.Proto, res.StatusCode, b)
		}
	}
}

// FuzzStreams sends arbitrary frames.
func FuzzStreams(f *testing.F) {
	var b, fields bytes.Buffer
	enc := hpack.NewEncoder(&fields)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "good.test"}, {":path", "/"}, {"cookie", "a=b"}} {
		enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	fr := http2.NewFramer(&b, nil)
	fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: fields.Bytes()})
	fr.WriteData(1, false, []byte("hello"))
	fr.WriteWindowUpdate(1, 100)
	fr.WriteData(1, true, []byte("world"))
	fr.WritePing(false, [8]byte{1})
	f.Add(b.Bytes())
	fr.WriteRSTStream(1, http2.ErrCodeCancel)
	fr.WritePriority(3, http2.PriorityParam{StreamDep: 3})
	fr.WriteGoAway(1, http2.ErrCodeNo, nil)
	f.Add(b.Bytes())
	p, err := New(Config{Via: "fuzz", HeadTime: setting.Duration(time.Second), Idle: setting.Duration(time.Second), Upstream: upstream.Config{Answer: setting.Duration(time.Second)}}, &Engine{Identify: anybody, Decider: judge{decide: func(x *filter.Transaction, _ filter.Stage) filter.Verdict {
		return block("all")
	}}}, nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := net.Pipe()
		c := p.conns.Get().(*conn)
		c.open(&listener{p: p, ctx: t.Context()}, far, new(upstream.Session))
		c.x.inside = &tlsState{scheme: "https", dial: "good.test", host: "good.test", tls: upstream.TLS{ServerName: "good.test", Name: "good.test", HTTP2: true}, port: 443, streams: true}
		go func() {
			io.WriteString(near, http2.ClientPreface)
			near.Write(b)
			near.Close()
		}()
		go io.Copy(io.Discard, near)
		c.serveStreams()
		c.close()
		if s := p.Stats(); s.Panics != 0 || s.Held != 0 || p.turns.Used() != 0 {
			t.Fatalf("counters after the input: %+v; want no panic, no held bytes, no turn in use", s)
		}
	})
}
