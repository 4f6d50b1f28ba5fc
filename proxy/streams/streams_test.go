package streams

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"shuultuur/lib/message"
	"shuultuur/proxy/held"
)

// A client sends arbitrary frames to a Conn.
type client struct {
	t *testing.T
	*http2.Framer
	conn      *Conn
	memory    *held.Budget
	malformed atomic.Int64
	block     bytes.Buffer
	enc       *hpack.Encoder
	ended     chan struct{} // closed when Run returns
}

// connect starts a Conn whose streams are served by serve, and exchanges settings with it.
func connect(t *testing.T, cfg Config, serve func(*Stream), settings ...http2.Setting) *client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	f := &client{t: t, Framer: http2.NewFramer(near, near), memory: held.New(1<<20, 1<<20), ended: make(chan struct{})}
	f.enc = hpack.NewEncoder(&f.block)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	cfg.Memory, cfg.Malformed = f.memory, &f.malformed
	cfg.Serve = func(st *Stream) {
		defer st.End()
		serve(st)
	}
	if cfg.Head == 0 {
		cfg.Head = 16 << 10
	}
	f.conn = New(far, far, message.NewReader(far, 4<<10, cfg.Head), cfg)
	go func() {
		defer close(f.ended)
		f.conn.Run()
	}()
	t.Cleanup(func() {
		near.Close()
		<-f.ended
		if n := f.memory.Used(); n != 0 {
			t.Errorf("%d bytes of memory in use after the end", n)
		}
	})
	near.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(near, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f.WriteSettings(settings...)
	s, ok := f.read().(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("first frame: got %v, want SETTINGS", s)
	}
	if v, _ := s.Value(settingConnectProtocol); v != 1 {
		t.Errorf("SETTINGS do not offer WebSocket: %v", s)
	}
	f.WriteSettingsAck()
	return f
}

func (f *client) read() http2.Frame {
	f.t.Helper()
	fr, err := f.ReadFrame()
	if err != nil {
		f.t.Fatal(err)
	}
	return fr
}

// next returns the next frame of stream id.
func (f *client) next(id uint32) http2.Frame {
	f.t.Helper()
	for {
		if fr := f.read(); fr.Header().StreamID == id {
			return fr
		}
	}
}

// find returns the next frame of a type on stream id.
func find[T http2.Frame](f *client, id uint32) T {
	f.t.Helper()
	for {
		if fr, ok := f.next(id).(T); ok {
			return fr
		}
	}
}

// ask opens a stream; fields are names and values.
func (f *client) ask(id uint32, end bool, fields ...string) {
	f.t.Helper()
	f.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		f.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: end, EndHeaders: true, BlockFragment: f.block.Bytes()}); err != nil {
		f.t.Fatal(err)
	}
}

// answer returns the response on stream id: the blocks of fields, each in brackets, and the data.
func (f *client) answer(id uint32) string {
	f.t.Helper()
	var b strings.Builder
	for {
		ended := false
		switch fr := f.next(id).(type) {
		case *http2.MetaHeadersFrame:
			b.WriteString("[")
			for i, h := range fr.Fields {
				if i > 0 {
					b.WriteString(" ")
				}
				fmt.Fprintf(&b, "%s=%s", h.Name, h.Value)
			}
			b.WriteString("]")
			ended = fr.StreamEnded()
		case *http2.DataFrame:
			b.Write(fr.Data())
			ended = fr.StreamEnded()
		case *http2.RSTStreamFrame:
			return b.String() + " reset " + fr.ErrCode.String()
		}
		if ended {
			return b.String()
		}
	}
}

// rest reads the response on stream id, and waits until the stream is released.
func (f *client) rest(id uint32) {
	f.t.Helper()
	f.answer(id)
	for {
		f.conn.mu.Lock()
		open := len(f.conn.open)
		f.conn.mu.Unlock()
		if open == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

var get = []string{":method", "GET", ":scheme", "https", ":authority", "x.test", ":path", "/"}

func with(more ...string) []string { return append(slices.Clone(get), more...) }

// readHead reads a head as it was sent.
func readHead(r *bufio.Reader) string {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String()
		}
	}
}

const noContent = "HTTP/1.1 204 No Content\r\n\r\n"

func TestRequestsAreReadAsHTTP1(t *testing.T) {
	for name, tt := range map[string]struct {
		fields  []string
		data    []string // DATA frames
		trailer []string
		want    string
	}{
		"without a body": {fields: get, want: "GET / HTTP/1.1\r\nHost: x.test\r\n\r\n"},
		"fields in order": {
			fields: with("x-b", "1", "accept", "*/*", "x-a", "2", "x-b", "3"),
			want:   "GET / HTTP/1.1\r\nHost: x.test\r\nX-B: 1\r\nAccept: */*\r\nX-A: 2\r\nX-B: 3\r\n\r\n",
		},
		"cookies are one field": {
			fields: with("cookie", "a=1", "x", "y", "cookie", "b=2"),
			want:   "GET / HTTP/1.1\r\nHost: x.test\r\nCookie: a=1; b=2\r\nX: y\r\n\r\n",
		},
		"a host instead of an authority": {
			fields: append(slices.Clone(get[:4]), ":path", "/", "host", "y.test"),
			want:   "GET / HTTP/1.1\r\nHost: y.test\r\n\r\n",
		},
		"a body of known length": {
			fields: with("content-length", "10"), data: []string{"hello", "world"},
			want: "GET / HTTP/1.1\r\nHost: x.test\r\nContent-Length: 10\r\n\r\nhelloworld",
		},
		"a body of unknown length": {
			fields: get, data: []string{"hello", "", "you"},
			want: "GET / HTTP/1.1\r\nHost: x.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n",
		},
		"trailers": {
			fields: get, data: []string{"hello"}, trailer: []string{"x-end", "1", "connection", "close"},
			want: "GET / HTTP/1.1\r\nHost: x.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-end: 1\r\n\r\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan string, 1)
			f := connect(t, Config{}, func(st *Stream) {
				b, err := io.ReadAll(st)
				if err != nil {
					t.Error(err)
				}
				got <- string(b)
				io.WriteString(st, noContent)
			})
			bare := tt.data == nil && tt.trailer == nil
			f.ask(1, bare, tt.fields...)
			for i, d := range tt.data {
				f.WriteData(1, i == len(tt.data)-1 && tt.trailer == nil, []byte(d))
			}
			if tt.trailer != nil {
				f.ask(1, true, tt.trailer...)
			}
			if s := f.answer(1); s != "[:status=204]" {
				t.Errorf("answer: got %q", s)
			}
			if s := <-got; s != tt.want {
				t.Errorf("the server read %q, want %q", s, tt.want)
			}
		})
	}
}

func TestResponsesBecomeFrames(t *testing.T) {
	for name, tt := range map[string]struct{ method, answer, want string }{
		"a body":          {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Y: z\r\n\r\nhello", "[:status=200 content-length=5 x-y=z]hello"},
		"an empty body":   {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "[:status=200 content-length=0]"},
		"HEAD":            {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "[:status=200 content-length=5]"},
		"not modified":    {"GET", "HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 5\r\n\r\n", "[:status=304 etag=x content-length=5]"},
		"chunks":          {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n", "[:status=200]helloyou"},
		"trailers":        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-End: over\r\n\r\n", "[:status=200]hi[x-end=over]"},
		"early hints":     {"GET", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "[:status=103 link=</x>][:status=200 content-length=1]x"},
		"of neighbours":   {"GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nKeep-Alive: 1\r\nContent-Length: 0\r\n\r\n", "[:status=200 content-length=0]"},
		"bytes too many":  {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxyz", "[:status=200 content-length=1]x"},
		"bytes too few":   {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nxyz", "[:status=200 content-length=9]xyz reset INTERNAL_ERROR"},
		"not a response":  {"GET", "what\r\n\r\n", " reset INTERNAL_ERROR"},
		"a bad chunk":     {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "[:status=200] reset INTERNAL_ERROR"},
		"nothing":         {"GET", "", " reset INTERNAL_ERROR"},
		"a longest field": {"GET", "HTTP/1.1 200 OK\r\nX-L: " + strings.Repeat("y", 40_000) + "\r\nContent-Length: 0\r\n\r\n", "[:status=200 x-l=" + strings.Repeat("y", 40_000) + " content-length=0]"},
	} {
		for _, piece := range []int{1 << 20, 1, 7} {
			t.Run(fmt.Sprint(name, " by ", piece), func(t *testing.T) {
				f := connect(t, Config{}, func(st *Stream) {
					for b := []byte(tt.answer); len(b) > 0; {
						n := min(piece, len(b))
						if _, err := st.Write(b[:n]); err != nil {
							return
						}
						b = b[n:]
					}
				})
				f.SetMaxReadFrameSize(1 << 20)
				f.ReadMetaHeaders.SetMaxStringLength(1 << 20)
				f.MaxHeaderListSize = 1 << 20
				f.ask(1, true, append([]string{":method", tt.method}, get[2:]...)...)
				if got := f.answer(1); got != tt.want {
					t.Errorf("got %.200q, want %.200q", got, tt.want)
				}
			})
		}
	}
}

// h2spec tests conformance (../test); these are cases in which a server easily accepts too
// much.
func TestMalformedStreamsAreReset(t *testing.T) {
	f := connect(t, Config{}, func(*Stream) { t.Error("a malformed request was served") })
	cases := []struct {
		name   string
		fields []string
	}{
		{"a field between neighbours", with("connection", "close")},
		{"an upgrade", with("upgrade", "websocket")},
		{"TE", with("te", "gzip")},
		{"two lengths", with("content-length", "1", "content-length", "2")},
		{"a length that is no number", with("content-length", "x")},
		{"a body that does not come", with("content-length", "1")},
		{"no path", get[:6]},
		{"a space in the path", append(slices.Clone(get[:6]), ":path", "/a b")},
		{"a relative path", append(slices.Clone(get[:6]), ":path", "a")},
		{"no host", append(slices.Clone(get[:4]), ":path", "/")},
		{"CONNECT", []string{":method", "CONNECT", ":authority", "x.test"}},
		{"another protocol", []string{":method", "CONNECT", ":protocol", "connect-udp", ":scheme", "https", ":authority", "x.test", ":path", "/"}},
		{"a protocol without CONNECT", with(":protocol", "websocket")},
		{"an unknown pseudo field", append([]string{":other", "x"}, get...)},
	}
	for i, tt := range cases {
		id := uint32(2*i + 1)
		f.ask(id, tt.name != "another protocol", tt.fields...)
		if rst, ok := f.next(id).(*http2.RSTStreamFrame); !ok || rst.ErrCode != http2.ErrCodeProtocol {
			t.Errorf("%s: got %v, want a reset with PROTOCOL_ERROR", tt.name, rst)
		}
	}
	// x/net's framer finds the last one.
	if got := f.malformed.Load(); got != int64(len(cases)-1) {
		t.Errorf("%d requests counted as malformed, want %d", got, len(cases)-1)
	}
}

func TestAHeadThatIsTooLargeIsAnswered(t *testing.T) {
	f := connect(t, Config{Head: 2000}, func(*Stream) { t.Error("the request was served") })
	y := strings.Repeat("y", 600)
	f.ask(1, true, with("a", y, "b", y, "c", y, "d", y)...)
	if got := f.answer(1); got != "[:status=431]" {
		t.Errorf("got %q, want 431", got)
	}
}

func TestAWebSocketCarriesBytesBothWays(t *testing.T) {
	for name, tt := range map[string]struct {
		accept func(key string) string
		want   string
	}{
		"accepted":        {acceptKey, "[:status=200 sec-websocket-protocol=chat]"},
		"a wrong answer":  {func(string) string { return "x" }, " reset INTERNAL_ERROR"},
		"another answer":  {nil, "[:status=404 content-length=0]"},
		"without a proof": {func(string) string { return "" }, " reset INTERNAL_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan error, 1)
			f := connect(t, Config{}, func(st *Stream) {
				if !st.WebSocket() {
					t.Error("the stream does not know that it is a WebSocket")
				}
				r := bufio.NewReader(st)
				q, err := http.ReadRequest(r)
				if err != nil || q.Method != "GET" || q.Header.Get("Upgrade") != "websocket" {
					t.Errorf("the server read %+v, %v; want an upgrade", q, err)
					return
				}
				if tt.accept == nil {
					io.WriteString(st, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
					return
				}
				_, err = fmt.Fprintf(st, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: chat\r\n\r\n", tt.accept(q.Header.Get("Sec-WebSocket-Key")))
				if err != nil {
					return
				}
				_, err = io.Copy(struct{ io.Writer }{st}, r)
				over <- errors.Join(err, st.CloseWrite(), st.CloseWrite())
			})
			f.ask(1, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "x.test", ":path", "/chat")
			if name != "accepted" {
				if got := f.answer(1); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				return
			}
			if h := find[*http2.MetaHeadersFrame](f, 1); h.PseudoValue("status") != "200" || h.StreamEnded() || len(h.RegularFields()) != 1 {
				t.Fatalf("answer: got %v, want 200 with the protocol alone", h)
			}
			for _, s := range []string{"ping", "pong"} {
				f.WriteData(1, false, []byte(s))
				if d := find[*http2.DataFrame](f, 1); string(d.Data()) != s {
					t.Fatalf("echo of %q: got %v", s, d)
				}
			}
			f.WriteData(1, true, nil)
			if d := find[*http2.DataFrame](f, 1); !d.StreamEnded() {
				t.Errorf("after our end: got %v, want the end of the stream", d)
			}
			if err := <-over; err != nil {
				t.Errorf("the tunnel ended with %v", err)
			}
		})
	}
}

func TestCloseWriteIsForTunnels(t *testing.T) {
	got := make(chan error, 1)
	f := connect(t, Config{}, func(st *Stream) {
		got <- st.CloseWrite()
		io.WriteString(st, noContent)
	})
	f.ask(1, true, get...)
	f.answer(1)
	if err := <-got; !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CloseWrite of a request: got %v, want ErrUnsupported", err)
	}
}

func TestResponsesWaitForTheClientsWindow(t *testing.T) {
	body := strings.Repeat("0123456789", 1000)
	wrote := make(chan error, 1)
	f := connect(t, Config{}, func(st *Stream) {
		_, err := fmt.Fprintf(st, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		wrote <- err
	}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	f.ask(1, true, get...)
	find[*http2.MetaHeadersFrame](f, 1)
	got := ""
	for len(got) < len(body) {
		d := find[*http2.DataFrame](f, 1)
		got += string(d.Data())
		if len(d.Data()) > 500 {
			t.Fatalf("got %d bytes with a window of 500", len(d.Data()))
		}
		f.WriteWindowUpdate(1, 500)
	}
	if err := <-wrote; err != nil || got != body {
		t.Errorf("got %d bytes, error %v; want all", len(got), err)
	}
}

func TestAWriteToAClientThatDoesNotReadFailsAtItsDeadline(t *testing.T) {
	wrote := make(chan error, 1)
	f := connect(t, Config{}, func(st *Stream) {
		st.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		_, err := io.WriteString(st, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"+strings.Repeat("x", 1000))
		wrote <- err
	}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	f.ask(1, true, get...)
	if err := <-wrote; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want ErrDeadlineExceeded", err)
	}
	if got := f.answer(1); !strings.HasSuffix(got, "reset INTERNAL_ERROR") {
		t.Errorf("got %q, want a reset", got)
	}
}

func TestAReadFailsAtItsDeadline(t *testing.T) {
	read := make(chan error, 1)
	f := connect(t, Config{}, func(st *Stream) {
		readHead(bufio.NewReaderSize(st, 16<<10))
		st.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, err := st.Read(make([]byte, 1))
		read <- err
	})
	f.ask(1, false, get...)
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want ErrDeadlineExceeded", err)
	}
}

func TestBytesBeyondTheWindowAreRefused(t *testing.T) {
	free := make(chan struct{})
	f := connect(t, Config{}, func(*Stream) { <-free })
	defer close(free)
	f.ask(1, false, get...)
	for range streamWindow / maxFrame {
		f.WriteData(1, false, make([]byte, maxFrame))
	}
	f.WriteData(1, false, []byte("x"))
	if rst := find[*http2.RSTStreamFrame](f, 1); rst.ErrCode != http2.ErrCodeFlowControl {
		t.Errorf("got %v, want FLOW_CONTROL_ERROR", rst)
	}
}

func TestBytesThatWereReadOpenTheWindowAgain(t *testing.T) {
	const all = 4 * streamWindow
	n := make(chan int64, 1)
	f := connect(t, Config{}, func(st *Stream) {
		r := bufio.NewReader(st)
		readHead(r)
		k, _ := io.Copy(io.Discard, r)
		n <- k
		io.WriteString(st, noContent)
	})
	f.ask(1, false, with("content-length", fmt.Sprint(all))...)
	one, conn := firstWindow, 1<<16-1
	for sent := 0; sent < all; {
		for min(one, conn) < maxFrame {
			if w, ok := f.read().(*http2.WindowUpdateFrame); ok && w.StreamID == 0 {
				conn += int(w.Increment)
			} else if ok {
				one += int(w.Increment)
			}
		}
		sent += maxFrame
		one, conn = one-maxFrame, conn-maxFrame
		f.WriteData(1, sent == all, make([]byte, maxFrame))
	}
	if got := <-n; got != all {
		t.Errorf("the server read %d bytes, want %d", got, all)
	}
}

// An aborter is told when its stream is given up.
type aborter chan struct{}

func (a aborter) Abort() { close(a) }

func TestAStreamGivenUpAbortsItsServer(t *testing.T) {
	got := make(chan error, 1)
	f := connect(t, Config{}, func(st *Stream) {
		a := make(aborter)
		st.Begin(a)
		readHead(bufio.NewReaderSize(st, 16<<10))
		<-a
		_, err := st.Read(make([]byte, 1))
		_, failed := io.WriteString(st, noContent)
		if failed == nil {
			t.Error("a response was written to a stream that was given up")
		}
		got <- err
	})
	f.ask(1, false, get...)
	f.WriteRSTStream(1, http2.ErrCodeCancel)
	if err := <-got; err != errGaveUp {
		t.Errorf("Read: got %v, want errGaveUp", err)
	}
	f.WritePing(false, [8]byte{1})
	if p, ok := f.next(0).(*http2.PingFrame); ok && !p.IsAck() {
		t.Errorf("got %v, want the answer to our ping", p)
	}
}

func TestAClientThatResetsManyStreamsIsLeft(t *testing.T) {
	free := make(chan struct{})
	f := connect(t, Config{}, func(*Stream) { <-free })
	defer close(free)
	for i := range uint32(maxResets + 1) {
		f.ask(2*i+1, true, get...)
		f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}
	for {
		if g, ok := f.read().(*http2.GoAwayFrame); ok {
			if g.ErrCode != http2.ErrCodeEnhanceYourCalm {
				t.Errorf("got %v, want ENHANCE_YOUR_CALM", g)
			}
			return
		}
	}
}

func TestStreamsBeyondTheLimitAreRefused(t *testing.T) {
	free := make(chan struct{})
	f := connect(t, Config{}, func(st *Stream) {
		<-free
		io.WriteString(st, noContent)
	})
	for i := range uint32(maxStreams + 1) {
		f.ask(2*i+1, true, get...)
	}
	if rst := find[*http2.RSTStreamFrame](f, 2*maxStreams+1); rst.ErrCode != http2.ErrCodeRefusedStream {
		t.Errorf("got %v, want REFUSED_STREAM", rst)
	}
	close(free)
	for ended := 0; ended < maxStreams; {
		if h, ok := f.read().(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
			ended++
		}
	}
}

func TestFaultsOfTheConnectionEndIt(t *testing.T) {
	for name, tt := range map[string]struct {
		send func(f *client)
		want http2.ErrCode
	}{
		"an even stream":        {func(f *client) { f.ask(2, true, get...) }, http2.ErrCodeProtocol},
		"data of no stream":     {func(f *client) { f.WriteData(5, true, []byte("x")) }, http2.ErrCodeProtocol},
		"a window of no stream": {func(f *client) { f.WriteWindowUpdate(5, 1) }, http2.ErrCodeProtocol},
		"a reset of no stream":  {func(f *client) { f.WriteRSTStream(5, http2.ErrCodeCancel) }, http2.ErrCodeProtocol},
		"a promise": {func(f *client) {
			f.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true})
		}, http2.ErrCodeProtocol},
		"a window that is too large": {func(f *client) { f.WriteWindowUpdate(0, 1<<31-1) }, http2.ErrCodeFlowControl},
		"a setting that is invalid":  {func(f *client) { f.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 2}) }, http2.ErrCodeProtocol},
		"a frame that is too large": {func(f *client) {
			f.AllowIllegalWrites = true
			f.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, maxFrame+1))
		}, http2.ErrCodeFrameSize},
		"a second request on one stream":  {func(f *client) { f.ask(1, true, get...); f.rest(1); f.ask(1, true, get...) }, http2.ErrCodeStreamClosed},
		"a stream that was already there": {func(f *client) { f.ask(3, true, get...); f.rest(3); f.ask(1, true, get...) }, http2.ErrCodeStreamClosed},
	} {
		t.Run(name, func(t *testing.T) {
			f := connect(t, Config{}, func(st *Stream) { io.WriteString(st, noContent) })
			tt.send(f)
			for {
				if g, ok := f.read().(*http2.GoAwayFrame); ok {
					if g.ErrCode != tt.want {
						t.Errorf("got %v, want %v", g, tt.want)
					}
					break
				}
			}
			<-f.ended
		})
	}
}

// TestARequestThatCrossesGOAWAYMeetsNoReset: a client that has not read GOAWAY yet sends more.
// A connection that is closed meanwhile resets, and the client may lose GOAWAY, which tells it
// that the request can be sent again.
func TestARequestThatCrossesGOAWAYMeetsNoReset(t *testing.T) {
	served := make(chan struct{}, 8)
	f := connect(t, Config{}, func(st *Stream) {
		served <- struct{}{}
		io.WriteString(st, noContent)
	})
	f.ask(1, true, get...)
	f.answer(1)
	f.conn.Leave()
	for {
		g, ok := f.next(0).(*http2.GoAwayFrame)
		if !ok {
			continue
		}
		if g.LastStreamID != 1 || g.ErrCode != http2.ErrCodeNo {
			t.Errorf("got %v, want stream 1 as the last", g)
		}
		break
	}
	f.ask(3, true, get...)
	f.WritePing(false, [8]byte{1})
	for {
		fr := f.read()
		if p, ok := fr.(*http2.PingFrame); ok && p.IsAck() {
			break
		}
		if fr.Header().StreamID == 3 {
			t.Errorf("stream 3 got %v; want it ignored, as GOAWAY says", fr)
		}
	}
	if len(served) != 1 {
		t.Errorf("%d requests were served, want 1", len(served))
	}
}

func TestAnIdleConnectionLeaves(t *testing.T) {
	f := connect(t, Config{Idle: 20 * time.Millisecond}, func(st *Stream) { io.WriteString(st, noContent) })
	for {
		if g, ok := f.next(0).(*http2.GoAwayFrame); ok {
			if g.LastStreamID != 0 || g.ErrCode != http2.ErrCodeNo {
				t.Errorf("got %v, want no stream", g)
			}
			break
		}
	}
}
