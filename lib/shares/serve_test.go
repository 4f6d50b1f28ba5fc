package shares

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestAServerThatEndsAnswersWhatItAccepted: a request that arrives when the server ends already, on a
// connection that it has accepted, is answered; an idle connection is closed; nothing waits for a client
// that says nothing beyond the grace.
func TestAServerThatEndsAnswersWhatItAccepted(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const grace = 3 * time.Second
	done := make(chan error, 1)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") }), ReadHeaderTimeout: time.Minute}
	go func() { done <- Serve(ctx, s, l, grace) }()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		return c
	}
	ask := func(c net.Conn) (answer string, closes bool) {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err.Error(), true
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return string(text), res.Close
	}
	late, silent, idle := dial(), dial(), dial()
	if got, closes := ask(idle); got != "yes" || closes { // those before it are accepted now, too
		t.Fatalf("an answer: %q, the connection ends: %v", got, closes)
	}
	cancel()
	if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection: %v, want its end", err)
	}
	if got, closes := ask(late); got != "yes" || !closes {
		t.Errorf("a request at the end: %q, the connection ends: %v", got, closes)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("a connection without a request is open after the end")
	}
}
