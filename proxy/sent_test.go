package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

func TestWhatClientsSendReachesTheOrigin(t *testing.T) {
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		for head := readHead(br); head != ""; head = readHead(br) {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(head), head)
		}
	})
	r := start(t, Config{}, Engine{})
	for _, tt := range []struct{ line, want string }{
		{"POST http://%s/ HTTP/1.1", "Content-Length: 0\r\n"},
		{"PUT http://%s/ HTTP/1.1", "Content-Length: 0\r\n"},
		{"PATCH http://%s/ HTTP/1.1", "Content-Length: 0\r\n"},
		{"GET http://name:word@%s/a#b HTTP/1.1", "GET /a HTTP/1.1\r\n"},
		{"GET http://%s/\u00e9 HTTP/1.2", "GET /%C3%A9 HTTP/1.1\r\n"},
	} {
		c, br := r.raw()
		fmt.Fprintf(c, tt.line+"\r\nHost: x\r\nConnection: close\r\n\r\n", o)
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatalf("%q: %v", tt.line, err)
		}
		b, _ := io.ReadAll(res.Body)
		if !strings.Contains(string(b), tt.want) || strings.Contains(string(b), "word") {
			t.Errorf("%q: the origin got %q, want %q", tt.line, b, tt.want)
		}
		if strings.HasPrefix(tt.line, "GET") && strings.Contains(string(b), "Content-Length") {
			t.Errorf("%q: the origin got a length: %q", tt.line, b)
		}
	}
}

func TestAHeadThatIsTooLargeIsAnsweredOverHTTP2(t *testing.T) {
	w := newWorld(t)
	host := w.origin2(t, true, func(rw http.ResponseWriter, q *http.Request) { io.WriteString(rw, "page") })
	r := start(t, Config{}, Engine{Intercept: w.in})
	f := r.frames(w, host)
	fields := []string{":method", "GET", ":scheme", "https", ":authority", host, ":path", "/"}
	for id, size := range []int{70_000, 1000, 150_000, 1000} {
		f.block.Reset()
		if err := f.WriteHeaders(f.headers(uint32(2*id+1), append(fields, "x-large", strings.Repeat("!", size))...)); err != nil {
			t.Fatal(err)
		}
		for f.block.Len() > 0 {
			part := f.block.Next(16 << 10)
			if err := f.WriteContinuation(uint32(2*id+1), f.block.Len() == 0, part); err != nil {
				t.Fatal(err)
			}
		}
		want := "200"
		if size > 64<<10 {
			want = "431"
		}
		if h, ok := f.next(uint32(2*id + 1)).(*http2.MetaHeadersFrame); !ok || h.PseudoValue("status") != want {
			t.Errorf("head of %d bytes: got %v, want %s", size, h, want)
		}
	}
}
