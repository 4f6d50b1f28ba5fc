package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// TestAClientThatTakesNothingEndsItsAnswer: the handler of an answer that nobody reads ends, with TLS and
// without, for a download and for a stream, while one that is read slowly, or has nothing to say for
// longer than that, goes on.
func TestAClientThatTakesNothingEndsItsAnswer(t *testing.T) {
	t.Parallel()
	const silence = 300 * time.Millisecond
	for _, secure := range []bool{false, true} {
		ended := make(chan string, 8)
		say := make(chan struct{}) // lets the quiet stream say something
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ended, out := ended, http.NewResponseController(w)
			switch r.URL.Path {
			case "/large":
				for err := error(nil); err == nil; {
					_, err = w.Write(make([]byte, 64<<10))
				}
			case "/stream":
				for err := error(nil); err == nil; err = out.Flush() {
					_, err = io.WriteString(w, ": "+strings.Repeat("x", 4000)+"\n\n")
				}
			case "/quiet":
				_ = out.Flush()
				<-say
				_, _ = io.WriteString(w, "late")
				return
			case "/slow":
				_, _ = w.Write(make([]byte, 4<<20))
				return
			case "/body":
				_, err := io.Copy(io.Discard, r.Body)
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("a body of which nothing comes: %v", err)
				}
			case "/left":
				http.Error(w, "too large", http.StatusRequestEntityTooLarge)
				return
			}
			ended <- r.URL.Path
		})
		dial, end := serveSilently(t, secure, h, silence)
		request := func(head string) net.Conn {
			c := dial()
			_, _ = io.WriteString(c, head+"\r\n\r\n")
			return c
		}
		quiet := request("GET /quiet HTTP/1.1\r\nHost: x\r\nConnection: close")
		want := map[string]bool{"/large": true, "/stream": true, "/body": true}
		for path := range want {
			if path == "/body" {
				request("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 10")
			} else {
				request("GET " + path + " HTTP/1.1\r\nHost: x")
			}
		}
		left := request("POST /left HTTP/1.1\r\nHost: x\r\nContent-Length: 10")
		if _, err := io.ReadAll(left); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("TLS %v: a request whose body nobody reads and nobody sends: %v, want the end of the connection", secure, err)
		}
		for range len(want) {
			select {
			case path := <-ended:
				delete(want, path)
			case <-time.After(20 * time.Second):
				t.Fatalf("TLS %v: these wait for a client that does nothing: %v", secure, want)
			}
		}
		slow, n := request("GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close"), int64(0)
		for begun := time.Now(); time.Since(begun) < 3*silence; time.Sleep(silence / 10) {
			m, err := io.CopyN(io.Discard, slow, 64<<10)
			if n += m; err != nil {
				t.Fatalf("TLS %v: a client that reads slowly has %d bytes: %v", secure, n, err)
			}
		}
		m, err := io.Copy(io.Discard, slow)
		if n += m; err != nil || n < 4<<20 {
			t.Errorf("TLS %v: a client that reads slowly has %d bytes at the end: %v", secure, n, err)
		}
		close(say) // it has been silent for longer than all that
		res, err := http.ReadResponse(bufio.NewReader(quiet), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(res.Body); string(got) != "late" || err != nil {
			t.Errorf("TLS %v: a stream that says nothing for long has %q, %v", secure, got, err)
		}
		end()
	}
}

// serveSilently serves h, and returns what connects to it and what ends it.
func serveSilently(t *testing.T, secure bool, h http.Handler, silence time.Duration) (dial func() net.Conn, end func()) {
	t.Helper()
	below, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var l net.Listener = &unread{below, silence}
	made := httptest.NewUnstartedServer(nil)
	if secure {
		made.StartTLS()
		l = tls.NewListener(l, &tls.Config{Certificates: made.TLS.Certificates})
	}
	t.Cleanup(made.Close)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, l, h, silence) }()
	dial = func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", below.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.(*net.TCPConn).SetReadBuffer(32 << 10)
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if secure {
			return tls.Client(c, &tls.Config{InsecureSkipVerify: true})
		}
		return c
	}
	return dial, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
