package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A chunked body may be empty, with and without a trailer, whoever sends it and whoever gets it.
func TestEmptyChunkedBodiesEnd(t *testing.T) {
	w := newWorld(t)
	h := http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		fmt.Fprintf(rw, "%s %d %s %v", q.Method, len(b), q.Trailer.Get("Digest"), err)
	})
	plain := httptest.NewServer(h)
	t.Cleanup(plain.Close)
	r := start(t, Config{}, Engine{Intercept: w.in})
	for name, host := range map[string]string{
		"plain": strings.TrimPrefix(plain.URL, "http://"), "HTTP/1.1 origin": w.origin2(t, false, h), "HTTP/2 origin": w.origin2(t, true, h),
	} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			for trailer, want := range map[string]string{"": "", "Digest: abc\r\n": "abc"} {
				c, err := net.Dial("tcp", r.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(10 * time.Second))
				target := "http://" + host + "/"
				if name != "plain" {
					fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", host, host)
					if s, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "CONNECT"}); err != nil || s.StatusCode != 200 {
						t.Fatalf("CONNECT: %v, %v", s, err)
					}
					tc := tls.Client(c, &tls.Config{RootCAs: w.ours, ServerName: "localhost"})
					c, target = tc, "/"
				}
				fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nTrailer: Digest\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n%s\r\n", method, target, host, trailer)
				s, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Errorf("%s to %s, trailer %q: %v", method, name, trailer, err)
					continue
				}
				b, _ := io.ReadAll(s.Body)
				if want := fmt.Sprintf("%s 0 %s <nil>", method, want); s.StatusCode != 200 || string(b) != want {
					t.Errorf("%s to %s, trailer %q: got %d %.80q, want %q", method, name, trailer, s.StatusCode, b, want)
				}
			}
		}
	}
	c := r.browser2(w)
	for name, host := range map[string]string{"HTTP/1.1": w.origin2(t, false, h), "HTTP/2": w.origin2(t, true, h)} {
		q, _ := http.NewRequest("PUT", "https://"+host+"/", io.MultiReader(strings.NewReader("")))
		s, err := c.Do(q)
		if err != nil {
			t.Errorf("HTTP/2 client, %s origin: %v", name, err)
			continue
		}
		if b, _ := io.ReadAll(s.Body); string(b) != "PUT 0  <nil>" {
			t.Errorf("HTTP/2 client, %s origin: got %q", name, b)
		}
		s.Body.Close()
	}
}
