package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/filter"
)

// impatient blocks bodies that contain "bad", and holds none for longer than a moment.
func impatient() judge {
	return judge{
		wants: func(_ *filter.Transaction, s filter.Stage) bool {
			return s == filter.RequestBody || s == filter.ResponseBody
		},
		decide: func(t *filter.Transaction, s filter.Stage) filter.Verdict {
			body := t.Body
			if s == filter.RequestBody {
				body = t.Upload
			}
			if body != nil && (s == filter.RequestBody || s == filter.ResponseBody) {
				if b, _ := body.Decoded(); bytes.Contains(b, []byte("bad")) {
					return block("words")
				}
			}
			return filter.Verdict{Patience: 20 * time.Millisecond}
		},
	}
}

// TestBothSidesTalkAtOnce: a client that sends the rest of its body only after a part of the answer gets
// that part, whatever checks read both bodies, and what is bad does not reach the origin.
func TestBothSidesTalkAtOnce(t *testing.T) {
	var heard sync.Map // what the origin heard, a channel for each test
	h := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var all strings.Builder
		defer func() {
			to, _ := heard.Load(q.Header.Get("Test"))
			to.(chan string) <- all.String()
		}()
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex() // HTTP/2 is so already
		w.Header().Set("Content-Type", "application/octet-stream")
		if q.URL.Path == "/hello" {
			fmt.Fprintln(w, "hello")
			c.Flush()
		}
		for in := bufio.NewReader(q.Body); ; c.Flush() {
			line, err := in.ReadString('\n')
			all.WriteString(line)
			if err == io.EOF {
				all.WriteString("END")
			}
			if err != nil {
				return
			}
			fmt.Fprint(w, "got ", line)
		}
	})
	plain := origin(t, h)
	w := newWorld(t)
	_, host := w.origin(t, w.leaf(t, nil), h.ServeHTTP)
	over := map[string]func(t *testing.T) (*http.Client, string){
		"plain": func(t *testing.T) (*http.Client, string) {
			return start(t, Config{}, Engine{Decider: impatient()}).client(), plain.URL
		},
		"inside TLS": func(t *testing.T) (*http.Client, string) {
			r := start(t, Config{}, Engine{Intercept: w.in, Decider: impatient()})
			return r.browser(w), "https://" + host
		},
		"over HTTP/2": func(t *testing.T) (*http.Client, string) {
			r := start(t, Config{}, Engine{Intercept: w.in, Decider: impatient()})
			c := r.browser(w)
			c.Transport.(*http.Transport).ForceAttemptHTTP2 = true
			return c, "https://" + host
		},
	}
	for way, open := range over {
		for _, ctype := range []string{"", "audio/l16", "application/json", "text/plain"} {
			t.Run(way+"/"+ctype, func(t *testing.T) {
				t.Parallel()
				c, url := open(t)
				told := make(chan string, 2)
				heard.Store(t.Name(), told)
				for _, path := range []string{"/", "/hello"} {
					from, to := io.Pipe()
					q, _ := http.NewRequest("POST", url+path, from)
					q.ContentLength = -1
					q.Header.Set("Test", t.Name())
					if ctype != "" {
						q.Header.Set("Content-Type", ctype)
					}
					if path == "/" { // an origin that does not speak first
						go fmt.Fprintln(to, "line 0")
					}
					res, err := c.Do(q)
					if err != nil {
						t.Fatal(err)
					}
					if res.StatusCode != 200 {
						t.Fatal(res.Status)
					}
					answer := bufio.NewReader(res.Body)
					if path == "/" {
						expect(t, answer, "got line 0\n")
					} else {
						expect(t, answer, "hello\n")
					}
					fmt.Fprintln(to, "line 1")
					expect(t, answer, "got line 1\n")
					if path == "/" {
						to.Close()
						if _, err := answer.ReadByte(); err != io.EOF {
							t.Errorf("after the end: %v", err)
						}
						if all := <-told; all != "line 0\nline 1\nEND" {
							t.Errorf("the origin heard %q", all)
						}
					} else {
						fmt.Fprintln(to, "something bad")
						if rest, _ := io.ReadAll(answer); len(rest) > 0 {
							t.Errorf("after a bad line the client got %q", rest)
						}
						if all := <-told; strings.Contains(all, "bad") || strings.Contains(all, "END") {
							t.Errorf("the origin heard %q", all)
						}
						to.Close()
					}
					res.Body.Close()
				}
			})
		}
	}
}

func expect(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	if got, err := r.ReadString('\n'); got != want || err != nil {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

// TestAnEarlyAnswerEndsAnUploadThatGoesOn: an origin may answer before it has the whole body.
func TestAnEarlyAnswerEndsAnUploadThatGoesOn(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.ReadFull(q.Body, make([]byte, 5))
		w.WriteHeader(413)
	})
	r := start(t, Config{}, Engine{Decider: impatient()})
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST %s/ HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n", o.URL, o.Listener.Addr())
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != 413 {
		t.Fatalf("%v, %v; want 413", res, err)
	}
	if got := r.wait(1)[0]; got.Status != 413 {
		t.Errorf("recorded status %d", got.Status)
	}
}
