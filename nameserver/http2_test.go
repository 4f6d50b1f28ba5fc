package nameserver

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

// A framed is a client that writes raw frames.
type framed struct {
	*http2.Framer
	t     testing.TB
	c     net.Conn
	block bytes.Buffer
	enc   *hpack.Encoder
}

func dialHTTP2(t testing.TB, s *Server, cfg *tls.Config, settings ...http2.Setting) *framed {
	t.Helper()
	cfg = cfg.Clone()
	cfg.NextProtos = []string{"h2"}
	c, err := tls.Dial("tcp", s.at(dns.HTTPS), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	f := &framed{Framer: http2.NewFramer(c, c), t: t, c: c}
	f.enc = hpack.NewEncoder(&f.block)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(c, preface); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	return f
}

// head returns a header block.
func (f *framed) head(fields ...string) []byte {
	f.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		if err := f.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			f.t.Fatal(err)
		}
	}
	return f.block.Bytes()
}

// get requests a name on a stream.
func (f *framed) get(id uint32, name string, typ uint16) {
	f.t.Helper()
	b, err := padded(name, typ).Pack()
	if err != nil {
		f.t.Fatal(err)
	}
	err = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: true, BlockFragment: f.head(
		":method", "GET", ":scheme", "https", ":authority", "dns.test", ":path", "/dns-query?dns="+base64.RawURLEncoding.EncodeToString(b))})
	if err != nil {
		f.t.Fatal(err)
	}
}

// next returns the next frame that is not about settings or windows.
func (f *framed) next() http2.Frame {
	f.t.Helper()
	for {
		x, err := f.ReadFrame()
		if err != nil {
			f.t.Fatal(err)
		}
		switch x.(type) {
		case *http2.SettingsFrame, *http2.WindowUpdateFrame:
			continue
		}
		return x
	}
}

// status reads the head of a response.
func (f *framed) status(id uint32) string {
	f.t.Helper()
	x, ok := f.next().(*http2.MetaHeadersFrame)
	if !ok || x.StreamID != id {
		f.t.Fatalf("got %v, want the head of stream %d", x, id)
	}
	return x.PseudoValue("status")
}

func TestAResponseWaitsForTheClientsWindow(t *testing.T) {
	s, cfg := secure(t, Config{})
	for _, x := range []struct {
		name    string
		setting http2.Setting
		enlarge func(f *framed, n uint32) error
	}{
		{"by update", http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}, func(f *framed, n uint32) error { return f.WriteWindowUpdate(1, n) }},
		{"by settings", http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}, func(f *framed, n uint32) error {
			return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100 + n})
		}},
	} {
		f := dialHTTP2(t, s, cfg, x.setting)
		f.get(1, "big.test.", miekg.TypeTXT)
		if got := f.status(1); got != "200" {
			t.Errorf("%s: status on stream 1 is %s, want 200", x.name, got)
		}
		var body []byte
		part := f.next().(*http2.DataFrame)
		if body = append(body, part.Data()...); len(body) != 100 || part.StreamEnded() {
			t.Errorf("%s: %d bytes, ended %v, want the 100 of the window", x.name, len(body), part.StreamEnded())
		}
		f.get(3, "www.test.", miekg.TypeA) // has its own window
		if got := f.status(3); got != "200" {
			t.Errorf("%s: status on stream 3 is %s, want 200", x.name, got)
		}
		if got := f.next().(*http2.DataFrame); got.StreamID != 3 {
			t.Errorf("%s: got %v, want data on stream 3", x.name, got)
		}
		if err := x.enlarge(f, 60000); err != nil {
			t.Fatal(err)
		}
		for part = f.next().(*http2.DataFrame); ; part = f.next().(*http2.DataFrame) {
			if part.StreamID == 1 {
				if body = append(body, part.Data()...); part.StreamEnded() {
					break
				}
			}
		}
		m := new(miekg.Msg)
		if err := m.Unpack(body); err != nil || len(m.Answer) != 20 {
			t.Errorf("%s: reading the answer: %v in %d bytes", x.name, err, len(body))
		}
	}
}

// TestHTTP2IsLimited: whatever costs the server something has a limit, and a
// violation of the rules ends the stream or the connection.
func TestHTTP2IsLimited(t *testing.T) {
	z := &zone{gate: make(chan struct{})}
	s, cfg := secure(t, Config{Pipeline: 3}, z)
	open := []string{":method", "POST", ":scheme", "https", ":path", "/dns-query", "content-type", mediaType}
	post := func(f *framed, id uint32, end bool, fields ...string) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: end, BlockFragment: f.head(fields...)})
	}
	for name, x := range map[string]struct {
		send   func(f *framed) error
		stream uint32 // that is reset; 0 for the connection
		code   http2.ErrCode
	}{
		"pings": {func(f *framed) error {
			go func() { // replies may fill up the connection
				for f.WritePing(false, [8]byte{}) == nil {
				}
			}()
			return nil
		}, 0, http2.ErrCodeEnhanceYourCalm},
		"a header block without end": {func(f *framed) error {
			if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.head(open...)}); err != nil {
				return err
			}
			for f.WriteContinuation(1, false, bytes.Repeat([]byte{0x82}, 1000)) == nil {
			}
			return nil
		}, 0, http2.ErrCodeEnhanceYourCalm},
		"a block of another stream": {func(f *framed) error {
			return errors.Join(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.head(open...)}), f.WriteContinuation(3, true, nil))
		}, 0, http2.ErrCodeProtocol},
		"a bad index": {func(f *framed) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: []byte{0xff, 0xff, 0xff, 0x7f}})
		}, 0, http2.ErrCodeCompression},
		"an even stream":     {func(f *framed) error { return post(f, 2, false, open...) }, 0, http2.ErrCodeProtocol},
		"an uppercase field": {func(f *framed) error { return post(f, 1, true, append(open, "X-Y", "z")...) }, 1, http2.ErrCodeProtocol},
		"a field of HTTP/1":  {func(f *framed) error { return post(f, 1, true, append(open, "transfer-encoding", "chunked")...) }, 1, http2.ErrCodeProtocol},
		"no path":            {func(f *framed) error { return post(f, 1, true, ":method", "GET", ":scheme", "https") }, 1, http2.ErrCodeProtocol},
		"two methods":        {func(f *framed) error { return post(f, 1, true, append([]string{":method", "GET"}, open...)...) }, 1, http2.ErrCodeProtocol},
		"another length": {func(f *framed) error {
			return errors.Join(post(f, 1, false, append(open, "content-length", "5")...), f.WriteData(1, true, make([]byte, 4)))
		}, 1, http2.ErrCodeProtocol},
		"too many streams": {func(f *framed) error {
			return errors.Join(post(f, 1, false, open...), post(f, 3, false, open...), post(f, 5, false, open...), post(f, 7, false, open...))
		}, 7, http2.ErrCodeRefusedStream},
		"streams reset while workers have them": {func(f *framed) error {
			for id := uint32(1); id < 7; id += 2 {
				f.get(id, "later"+strconv.Itoa(int(id))+".test.", miekg.TypeA)
				if err := f.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
					return err
				}
			}
			f.get(7, "www.test.", miekg.TypeA)
			return nil
		}, 7, http2.ErrCodeRefusedStream},
		"more than our window": {func(f *framed) error {
			err := errors.Join(post(f, 1, false, open...), post(f, 3, false, open...))
			for i := range 5 {
				err = errors.Join(err, f.WriteData(uint32(1+2*(i%2)), false, make([]byte, maxFrame)))
			}
			return err
		}, 0, http2.ErrCodeFlowControl},
		"a window too large": {func(f *framed) error { return f.WriteWindowUpdate(0, maxWindow) }, 0, http2.ErrCodeFlowControl},
		"a closed stream": {func(f *framed) error {
			f.get(1, "www.test.", miekg.TypeA)
			return f.WriteData(1, true, nil)
		}, 1, http2.ErrCodeStreamClosed},
	} {
		t.Run(name, func(t *testing.T) {
			f := dialHTTP2(t, s, cfg)
			f.AllowIllegalWrites = true
			if err := x.send(f); err != nil {
				t.Fatal(err)
			}
			for {
				frame, err := f.ReadFrame()
				if err != nil {
					t.Fatal(err)
				}
				switch got := frame.(type) {
				case *http2.GoAwayFrame:
					if x.stream != 0 || got.ErrCode != x.code {
						t.Errorf("GOAWAY: got %v, want %v of stream %d", got.ErrCode, x.code, x.stream)
					}
					return
				case *http2.RSTStreamFrame:
					if got.StreamID != x.stream || got.ErrCode != x.code {
						t.Errorf("RST_STREAM: got %v, want %v of stream %d", got, x.code, x.stream)
					}
					return
				}
			}
		})
	}
	close(z.gate)
}

func TestHTTP2ConnectionsEndWhenTheyAreIdle(t *testing.T) {
	s, cfg := secure(t, Config{Idle: setting.Duration(2 * time.Second)})
	f := dialHTTP2(t, s, cfg)
	f.get(1, "www.test.", miekg.TypeA)
	go func() { // does not keep the connection open
		for f.WritePing(false, [8]byte{}) == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	for {
		x, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if away, ok := x.(*http2.GoAwayFrame); ok {
			if away.ErrCode != http2.ErrCodeNo || away.LastStreamID != 1 {
				t.Errorf("GOAWAY of an idle connection: got %v", away)
			}
			return
		}
	}
}

// A recording is a connection whose client has sent everything.
type recording struct {
	io.Reader
	out bytes.Buffer
}

func (r *recording) Write(b []byte) (int, error) { return r.out.Write(b) }
func (r *recording) Close() error                { return nil }
func (r *recording) LocalAddr() net.Addr         { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443} }
func (r *recording) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 4000}
}
func (r *recording) SetDeadline(time.Time) error      { return nil }
func (r *recording) SetReadDeadline(time.Time) error  { return nil }
func (r *recording) SetWriteDeadline(time.Time) error { return nil }

func FuzzHTTP2(f *testing.F) {
	var all bytes.Buffer
	all.WriteString(preface)
	fr := http2.NewFramer(&all, nil)
	c := &framed{Framer: fr, t: f}
	c.enc = hpack.NewEncoder(&c.block)
	q, _ := query("www.test.", miekg.TypeA).Pack()
	_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 50})
	c.get(1, "big.test.", miekg.TypeTXT)
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, EndHeaders: true, PadLength: 3, BlockFragment: c.head(
		":method", "POST", ":scheme", "https", ":path", "/dns-query", "content-type", mediaType, "content-length", strconv.Itoa(len(q)))})
	_ = fr.WriteData(3, true, q)
	_ = fr.WriteWindowUpdate(1, 70000)
	_ = fr.WritePing(false, [8]byte{1})
	_ = fr.WriteRSTStream(1, http2.ErrCodeCancel)
	_ = fr.WriteGoAway(0, 0, nil)
	f.Add(all.Bytes())
	f.Add([]byte(preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	l := handlerAt(f, Config{})
	f.Fuzz(func(t *testing.T, in []byte) {
		c := &recording{Reader: bytes.NewReader(in)}
		l.s.serveHTTP2(&conn{Conn: c, s: l.s}, c)
		fr := http2.NewFramer(nil, &c.out)
		fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		bodies, ok := map[uint32][]byte{}, map[uint32]bool{}
		for {
			x, err := fr.ReadFrame()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatalf("wrote % x: %v", c.out.Bytes(), err)
			}
			switch x := x.(type) {
			case *http2.MetaHeadersFrame:
				ok[x.StreamID] = x.PseudoValue("status") == "200"
			case *http2.DataFrame:
				bodies[x.StreamID] = append(bodies[x.StreamID], x.Data()...)
				m := new(miekg.Msg)
				if x.StreamEnded() && ok[x.StreamID] && (m.Unpack(bodies[x.StreamID]) != nil || !m.Response) {
					t.Fatalf("a complete response is not an answer: % x", bodies[x.StreamID])
				}
			}
		}
	})
}

func FuzzHTTP1(f *testing.F) {
	q, _ := query("www.test.", miekg.TypeA).Pack()
	f.Add("GET /dns-query?dns=" + base64.RawURLEncoding.EncodeToString(q) + " HTTP/1.1\r\nHost: dns.test\r\n\r\n")
	f.Add("POST /dns-query HTTP/1.1\r\nHost: x\r\nContent-Type: " + mediaType + "\r\nContent-Length: " + strconv.Itoa(len(q)) + "\r\n\r\n" + string(q) + "HEAD / HTTP/1.1\r\nHost: y\r\n\r\n")
	f.Add("POST /dns-query HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n")
	l := handlerAt(f, Config{})
	f.Fuzz(func(t *testing.T, in string) {
		c := &recording{Reader: strings.NewReader(in)}
		l.s.serveHTTP1(&conn{Conn: c, s: l.s}, c)
		r := bufio.NewReader(&c.out)
		for {
			if _, err := r.Peek(1); err != nil {
				return
			}
			method := "GET"
			if strings.Contains(in, "HEAD") {
				return // it is not known to which of the requests
			}
			res, err := http.ReadResponse(r, &http.Request{Method: method})
			if err != nil {
				t.Fatalf("wrote %q: %v", c.out.String(), err)
			}
			body, err := io.ReadAll(res.Body)
			m := new(miekg.Msg)
			if err != nil || res.StatusCode == 200 && (m.Unpack(body) != nil || !m.Response) {
				t.Fatalf("a complete response is not an answer: %q: %v", body, err)
			}
		}
	})
}
