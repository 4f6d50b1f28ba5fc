package proxy

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"shuultuur/filter"
)

// eavesdropper blocks messages and bodies whose text contains the word "bad".
type eavesdropper struct{ replace bool }

func (eavesdropper) Wants(t *filter.Transaction, s filter.Stage) bool {
	return s == filter.RequestBody || s == filter.ResponseBody
}

func (l eavesdropper) Decide(_ context.Context, t *filter.Transaction, s filter.Stage) {
	t.Verdict = filter.Verdict{}
	b := t.Body
	if s == filter.RequestBody {
		b = t.Upload
	} else if s != filter.ResponseBody {
		return
	}
	if text, _ := b.Text(); bytes.Contains(text, []byte(" bad ")) {
		t.Verdict = block("words")
		t.Verdict.Replace = l.replace
	}
}

// frame is a WebSocket frame.
func frame(first byte, masked bool, payload string) string {
	b := []byte{first}
	m := byte(0)
	if masked {
		m = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		b = append(b, m|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, m|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, m|127), uint64(n))
	}
	if masked {
		key := [4]byte{1, 2, 3, 4}
		b = append(b, key[:]...)
		for i, c := range []byte(payload) {
			b = append(b, c^key[i&3])
		}
		return string(b)
	}
	return string(b) + payload
}

// deflated is the payload of a compressed message (RFC 7692, 7.2.1).
func deflated(s string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 6)
	io.WriteString(w, s)
	w.Flush()
	return strings.TrimSuffix(b.String(), "\x00\x00\xff\xff")
}

// readFrame reads one frame and removes its mask.
func readFrame(br *bufio.Reader) (first byte, payload string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(br, head[:]); err != nil {
		return 0, "", err
	}
	n := uint64(head[1] & 0x7F)
	switch n {
	case 126:
		var size [2]byte
		io.ReadFull(br, size[:])
		n = uint64(binary.BigEndian.Uint16(size[:]))
	case 127:
		var size [8]byte
		io.ReadFull(br, size[:])
		n = binary.BigEndian.Uint64(size[:])
	}
	var key [4]byte
	if head[1]&0x80 != 0 {
		io.ReadFull(br, key[:])
	}
	b := make([]byte, n)
	_, err = io.ReadFull(br, b)
	for i := range b {
		b[i] ^= key[i&3]
	}
	return head[0], string(b), err
}

// chat is an origin that answers each message with another one, and reports the messages it
// received.
func chat(t *testing.T, extensions string, answer func(first byte, s string) string) (addr string, got func() []string) {
	var mu sync.Mutex
	var list []string
	addr = rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		head := readHead(br)
		mu.Lock()
		list = append(list, head)
		mu.Unlock()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: z\r\n"+extensions+"\r\n")
		for {
			first, s, err := readFrame(br)
			if err != nil {
				return
			}
			mu.Lock()
			list = append(list, s)
			mu.Unlock()
			io.WriteString(c, answer(first, s))
		}
	})
	return addr, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

func TestWebSocketMessagesAreJudged(t *testing.T) {
	for name, tt := range map[string]struct {
		send, answer string
		replace      bool
		want         []string // payloads of the frames that come back
		origin       string   // of the last frame that it gets
	}{
		"clean":            {frame(0x81, true, "hello"), frame(0x81, false, "hi"), false, []string{"hi"}, "hello"},
		"from the client":  {frame(0x81, true, "a bad one"), "", false, []string{"\x03\xf0blocked by the policy of this network: words"}, "\x03\xf0blocked"},
		"from the origin":  {frame(0x81, true, "hello"), frame(0x81, false, "ok then") + frame(0x81, false, "a bad one"), false, []string{"ok then", "\x03\xf0blocked"}, "\x03\xf0blocked"},
		"replaced":         {frame(0x81, true, "hello"), frame(0x81, false, "a bad one") + frame(0x81, false, "more"), true, []string{"[blocked", "more"}, "hello"},
		"replaced upwards": {frame(0x81, true, "a bad one"), frame(0x81, false, "more"), true, []string{"more"}, "[blocked"},
		"in fragments":     {frame(0x81, true, "hello"), frame(0x01, false, "a b") + frame(0x89, false, "ping") + frame(0x80, false, "ad one"), false, []string{"\x03\xf0blocked"}, "\x03\xf0"},
		"JSON by pieces":   {frame(0x81, true, "hello"), frame(0x81, false, `{"t":"a b"}`) + frame(0x81, false, `{"t":"ad"}`) + frame(0x81, false, `{"t":" one"}`), false, []string{`{"t":"a b"}`, "\x03\xf0blocked"}, "\x03\xf0"},
		"binary JSON":      {frame(0x81, true, "hello"), frame(0x82, false, `{"t":"a bad one"}`), false, []string{"\x03\xf0blocked"}, "\x03\xf0"},
		"protobuf":         {frame(0x81, true, "hello"), frame(0x82, false, "\x08\x01\x12\x09a bad one"), false, []string{"\x03\xf0blocked"}, "\x03\xf0"},
		"no such frame":    {frame(0x81, true, "hello"), frame(0xF3, false, "x"), false, []string{"\x03\xeamalformed"}, "\x03\xea"},
		"long":             {frame(0x81, true, "hello"), frame(0x81, false, strings.Repeat("good ", 60_000)+" bad "), false, []string{"\x03\xf0blocked"}, "\x03\xf0"},
		"long and clean":   {frame(0x81, true, "hello"), frame(0x81, false, strings.Repeat("good ", 60_000)), false, []string{"good good"}, "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			o, got := chat(t, "", func(byte, string) string { return tt.answer })
			r := start(t, Config{}, Engine{Decider: eavesdropper{tt.replace}})
			c, br := r.raw()
			fmt.Fprintf(c, "GET http://%s/ws HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Extensions: x-unknown\r\n%s\r\n%s", o, websocket, tt.send)
			if head := readHead(br); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
				t.Fatalf("upgrade: got %q, want 101", head)
			}
			for _, want := range tt.want {
				if _, s, err := readFrame(br); err != nil || !strings.HasPrefix(s, want) {
					t.Fatalf("got %.60q, %v, want %q", s, err, want)
				}
			}
			last := tt.want[len(tt.want)-1]
			c.Close()
			refused := strings.HasPrefix(last, "\x03")
			n := 1
			if refused || tt.replace { // and the message
				n++
			}
			if name == "no such frame" {
				n = 1
			}
			x := r.wait(n)[n-1]
			if refused != (x.Action == filter.Block) {
				t.Errorf("record of the WebSocket: got %+v", x)
			}
			for g := got(); ; g = got() {
				if strings.HasPrefix(g[len(g)-1], tt.origin) || len(g) == 1 && tt.origin == "" {
					if strings.Contains(g[0], "x-unknown") {
						t.Errorf("the origin was offered an extension that we cannot read: %q", g[0])
					}
					break
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
}

func TestCompressedWebSocketMessagesAreJudged(t *testing.T) {
	for _, extension := range []string{
		"permessage-deflate; server_no_context_takeover",
		"permessage-deflate; server_no_context_takeover; client_no_context_takeover",
		"permessage-deflate",
	} {
		o, got := chat(t, "Sec-WebSocket-Extensions: "+extension+"\r\n", func(first byte, s string) string {
			return frame(0xC1, false, deflated("an answer")) + frame(0xC1, false, deflated("a bad one"))
		})
		r := start(t, Config{}, Engine{Decider: eavesdropper{}})
		c, br := r.raw()
		fmt.Fprintf(c, "GET http://%s/ws HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n%s\r\n%s", o, websocket, frame(0xC1, true, deflated("hello")))
		if head := readHead(br); !strings.Contains(head, "client_no_context_takeover") {
			t.Errorf("the answer to the client lacks client_no_context_takeover: %q", head)
		}
		if _, s, err := readFrame(br); err != nil || s != deflated("an answer") {
			t.Errorf("%s: first message: got %q, %v", extension, s, err)
		}
		if _, s, err := readFrame(br); err != nil || !strings.HasPrefix(s, "\x03\xf0blocked") {
			t.Errorf("%s: blocked message: got %q, %v, want a Close frame", extension, s, err)
		}
		c.Close()
		r.wait(1)
		if head := got()[0]; !strings.Contains(head, "server_no_context_takeover") {
			t.Errorf("the offer to the origin lacks server_no_context_takeover: %q", head)
		}
	}
}

func TestWebSocketMessagesOverHTTP2AreJudged(t *testing.T) {
	w := newWorld(t)
	host := w.origin2(t, false, func(rw http.ResponseWriter, q *http.Request) {
		c, buf, _ := rw.(http.Hijacker).Hijack()
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptKey(q.Header.Get("Sec-Websocket-Key")))
		for {
			_, s, err := readFrame(buf.Reader)
			if err != nil {
				return
			}
			io.WriteString(c, frame(0x81, false, s))
		}
	})
	r := start(t, Config{}, Engine{Intercept: w.in, Decider: eavesdropper{}})
	f := r.frames(w, host)
	f.ask(1, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", host, ":path", "/chat", "sec-websocket-version", "13")
	if h, ok := f.next(1).(*http2.MetaHeadersFrame); !ok || h.PseudoValue("status") != "200" {
		t.Fatalf("answer to the extended CONNECT: got %v, want 200", h)
	}
	for send, want := range map[string]string{"good": "good"} {
		f.WriteData(1, false, []byte(frame(0x81, true, send)))
		if d, ok := f.next(1).(*http2.DataFrame); !ok || !strings.Contains(string(d.Data()), want) {
			t.Fatalf("answer to %q: got %v", send, d)
		}
	}
	f.WriteData(1, false, []byte(frame(0x81, true, "a bad one")))
	if d, ok := f.next(1).(*http2.DataFrame); !ok || !strings.Contains(string(d.Data()), "\x03\xf0blocked") {
		t.Errorf("blocked message: got %v, want a Close frame", d)
	}
}

func TestEventsAreJudged(t *testing.T) {
	next := make(chan string)
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		var out io.Writer = w
		flush := func() { w.(http.Flusher).Flush() }
		if q.URL.Query().Has("gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			out, flush = z, func() { z.Flush(); w.(http.Flusher).Flush() }
		}
		flush()
		for s := range next {
			io.WriteString(out, s)
			flush()
			if s == "" {
				return
			}
		}
	})
	for _, tt := range []struct {
		query   string
		replace bool
		want    string
	}{
		{"", false, "event: blocked\ndata: blocked by the policy"},
		{"?gzip", false, "event: blocked\ndata: blocked by the policy"},
		{"", true, "data: [blocked by the policy"},
	} {
		r := start(t, Config{}, Engine{Decider: eavesdropper{tt.replace}})
		q, _ := http.NewRequest("GET", o.URL+tt.query, nil)
		q.Header.Set("Accept-Encoding", "gzip")
		res, err := r.client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		br := bufio.NewReader(res.Body)
		line := func() string {
			s, _ := br.ReadString('\n')
			if s == "\n" {
				s, _ = br.ReadString('\n')
			}
			return s
		}
		for _, s := range []string{"data: {\"d\":\"a b\"}\n\n", ": comment\nevent: x\ndata: good\n\n"} {
			next <- s
			for want := range strings.SplitAfterSeq(strings.TrimSuffix(s, "\n"), "\n") {
				if want == "" {
					continue
				}
				if got := line(); got != want {
					t.Fatalf("query %q: got line %q, want %q", tt.query, got, want)
				}
			}
		}
		next <- "data: {\"d\":\"a bad\ndata:  one\"}\n\n"
		next <- ""
		rest, _ := io.ReadAll(br)
		if !strings.HasPrefix(strings.TrimSpace(string(rest)), tt.want) || strings.Contains(string(rest), "bad") {
			t.Errorf("query %q: the stream continued with %q", tt.query, rest)
		}
		res.Body.Close()
		records := r.wait(2)
		message, whole := records[0], records[1]
		if message.Action != filter.Block || (whole.Action == filter.Block) == tt.replace {
			t.Errorf("query %q: records of message %+v and of stream %+v", tt.query, message, whole)
		}
	}
}

// grpcMessage is a message that is not compressed.
func grpcMessage(s string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(s)))) + s
}

func TestGRPCMessagesAreJudged(t *testing.T) {
	message := func(s string) string { return grpcMessage("\x0a" + string(rune(len(s))) + s) }
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", q.Header.Get("Content-Type"))
		b, _ := io.ReadAll(q.Body)
		io.WriteString(w, message("a good one"))
		w.Write(b)
		io.WriteString(w, message("more"))
	})
	r := start(t, Config{}, Engine{Decider: eavesdropper{}})
	var head http.Header
	post := func(ctype, body string) (int, string, http.Header) {
		res, err := r.client().Post(o.URL, ctype, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Errorf("%s: %v", ctype, err)
		}
		head = res.Header
		return res.StatusCode, string(b), res.Trailer
	}
	if _, b, _ := post("application/grpc-web+proto", message("hello")); b != message("a good one")+message("hello")+message("more") {
		t.Errorf("stream without bad messages: got %q", b)
	}
	if status, b, _ := post("application/grpc+proto", message("a bad one")); status != 200 || b != "" || head.Get("Content-Type") != "application/grpc" || head.Get("Grpc-Status") != "7" || !strings.Contains(head.Get("Grpc-Message"), "127.0.0.1 is not available here") {
		t.Errorf("blocked message to the server: got %d %q, fields %v, want the status permission denied with a message", status, b, head)
	}
	o2 := origin(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", q.Header.Get("Content-Type"))
		io.Copy(io.Discard, q.Body)
		io.WriteString(w, message("a good one")+message("a bad one")+message("more"))
	})
	o.URL = o2.URL
	if _, b, _ := post("application/grpc-web+proto", message("hello")); !strings.HasPrefix(b, message("a good one")+"\x80") || !strings.Contains(b, "grpc-status: 7\r\n") {
		t.Errorf("blocked message in gRPC-Web: got %q, want the trailer with status 7", b)
	}
	if _, b, trailer := post("application/grpc", message("hello")); b != message("a good one") || trailer.Get("Grpc-Status") != "7" {
		t.Errorf("blocked message from the server: got %q, trailer %v", b, trailer)
	}
}
