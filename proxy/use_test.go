package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/filter"
)

// An usher lets requests go on until it says why not.
type usher struct {
	judge
	mu   sync.Mutex
	why  string
	ever bool // something has moved
	used filter.Use
}

func (u *usher) Follow(_ *filter.Transaction, used filter.Use, _ time.Time) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ever = u.ever || used.Moved
	u.used.Moved = used.Moved
	u.used.Bytes += used.Bytes
	return u.why
}

func (u *usher) say(why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.why = why
}

func (u *usher) seen() (ever bool, used filter.Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ever, u.used
}

// TestWhatGoesOnIsFollowed: what moves in a minute is counted then, and what may not go on is cut, also
// while nothing moves.
func TestWhatGoesOnIsFollowed(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, r *rig, w *world) io.Reader{
		"a tunnel": func(t *testing.T, r *rig, _ *world) io.Reader {
			c, br := r.tunnelTo(rawOrigin(t, "tcp", echo))
			io.WriteString(c, "\x00\x01\x02\x03\x04") // neither TLS nor a request
			return br
		},
		"a WebSocket": func(t *testing.T, r *rig, _ *world) io.Reader {
			o, _ := chat(t, "", func(_ byte, s string) string { return frame(0x81, false, s) })
			c, br := r.socketTo(o)
			io.WriteString(c, frame(0x81, true, "hello"))
			return br
		},
		"a long answer": func(t *testing.T, r *rig, _ *world) io.Reader {
			return answerOf(t, r.client(), silentAfterHello(t).URL)
		},
		"a stream of HTTP/2": func(t *testing.T, r *rig, w *world) io.Reader {
			o := w.origin2(t, true, silentHandler(t))
			return answerOf(t, r.browser2(w), "https://"+o)
		},
		"an upload": func(t *testing.T, r *rig, _ *world) io.Reader {
			arrived := make(chan struct{})
			o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
				br.ReadByte()
				close(arrived)
				io.Copy(io.Discard, br)
			})
			c, br := r.raw()
			fmt.Fprintf(c, "POST http://%s/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhello", o)
			<-arrived
			return br
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, u := newWorld(t), &usher{}
			r := start(t, Config{}, Engine{Decider: u, Intercept: w.in})
			from := begin(t, r, w)
			if name != "an upload" {
				if _, err := io.ReadFull(from, make([]byte, 5)); err != nil {
					t.Fatal(err)
				}
			}
			for begun := time.Now(); ; time.Sleep(time.Millisecond) { // until all that moved was counted
				r.l.follow(7, time.Now())
				ever, used := u.seen()
				if ever && !used.Moved && (used.Bytes >= 5 || name == "an upload") {
					break
				}
				if time.Since(begun) > 20*time.Second {
					t.Fatalf("counted %+v", used)
				}
			}
			u.say("it is bedtime")
			r.l.follow(8, time.Now())
			if n, err := io.Copy(io.Discard, from); n > 100 {
				t.Errorf("%d more bytes came, %v", n, err)
			}
			all := 1
			if strings.HasPrefix(name, "a stream") {
				all = 2 // with the tunnel
			}
			if x := endedOf(r.wait(all)); !strings.Contains(x.Note, "ended: it is bedtime") || !strings.HasPrefix(x.Minutes, "7,") || strings.HasPrefix(x.Minutes, "7,8,") {
				t.Errorf("recorded as %+v", x)
			}
		})
	}
}

// endedOf returns the record of a request that was ended.
func endedOf(all []record) (x record) {
	for _, x = range all {
		if strings.Contains(x.Note, "ended: ") {
			return x
		}
	}
	return x
}

func silentHandler(t *testing.T) http.HandlerFunc {
	over := make(chan struct{})
	t.Cleanup(sync.OnceFunc(func() { close(over) }))
	return func(rw http.ResponseWriter, q *http.Request) {
		io.WriteString(rw, "hello")
		rw.(http.Flusher).Flush()
		select {
		case <-over:
		case <-q.Context().Done():
		}
	}
}

// silentAfterHello is an origin whose answer does not end.
func silentAfterHello(t *testing.T) *httptest.Server {
	o := httptest.NewServer(silentHandler(t))
	t.Cleanup(func() { o.CloseClientConnections(); o.Close() })
	return o
}

func answerOf(t *testing.T, c *http.Client, url string) io.Reader {
	t.Helper()
	a, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	return a.Body
}
