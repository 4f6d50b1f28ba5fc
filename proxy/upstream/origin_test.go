package upstream

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"shuultuur/lib/message"
	"shuultuur/lib/metric"
)

// newTransport returns a Transport that may reach loopback.
func newTransport(t *testing.T, cfg Config) *Transport {
	t.Helper()
	cfg.Private = append(cfg.Private, netip.MustParsePrefix("127.0.0.0/8"))
	up, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, end := context.WithCancel(context.Background())
		end()
		if err := up.Run(ended); err != nil {
			t.Error(err)
		}
	})
	return up
}

// An origin is a server of raw bytes.
type origin struct {
	addr  string
	conns atomic.Int64 // accepted so far
}

// A side is the origin's side of a connection. It reads with net/http, which shares nothing with
// package message.
type side struct {
	net.Conn
	*bufio.Reader
	n int64 // number of the connection, from 1
}

func (s *side) Read(p []byte) (int, error) { return s.Reader.Read(p) }

// request reads the head of a request; nil at the end of the connection.
func (s *side) request() *http.Request {
	r, err := http.ReadRequest(s.Reader)
	if err != nil {
		return nil
	}
	return r
}

func (s *side) write(text string) { _, _ = io.WriteString(s.Conn, text) }

// newOrigin starts an origin. serve gets each connection, which is closed when it returns.
func newOrigin(t *testing.T, serve func(s *side)) *origin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{addr: l.Addr().String()}
	var (
		mu   sync.Mutex
		open []net.Conn
		work sync.WaitGroup
	)
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			n := o.conns.Add(1)
			work.Go(func() {
				defer c.Close()
				serve(&side{Conn: c, Reader: bufio.NewReader(c), n: n})
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	return o
}

// answers serves each request of a connection with the same bytes.
func answers(text string) func(*side) {
	return func(s *side) {
		for s.request() != nil {
			s.write(text)
		}
	}
}

// ask returns a request to an address, without a body.
func ask(method, address string) *message.Request {
	host, number, _ := net.SplitHostPort(address)
	port, _ := strconv.ParseUint(number, 10, 16)
	return &message.Request{Method: method, Scheme: "http", Host: []byte(host), Port: uint16(port), Path: []byte("/path?a=b"), Proto: 11}
}

// askFor returns a request for a name, which is at address.
func askFor(scheme, name, address string) *message.Request {
	q := ask("GET", address)
	q.Scheme, q.Dial, q.Host = scheme, string(q.Host), []byte(name)
	return q
}

// posted returns a request whose body is read from a message, as a client sends it.
func posted(t *testing.T, address, raw string, length int64) *message.Request {
	t.Helper()
	var in message.Request
	if err := message.NewReader(strings.NewReader(raw), 0, 8<<10).ReadRequest(&in); err != nil {
		t.Fatal(err)
	}
	q := ask("POST", address)
	q.Fields, q.Length, q.Body, q.Expect = in.Fields, length, in.Body, in.Expect
	return q
}

// finish reads a response to its end and closes it.
func finish(t *testing.T, s *message.Response) string {
	t.Helper()
	b, err := io.ReadAll(s.Body)
	if err != nil {
		t.Errorf("reading the body: %v", err)
	}
	if err := s.Body.Close(); err != nil {
		t.Errorf("closing the body: %v", err)
	}
	return string(b)
}

// trip sends q and returns status and body of the response.
func trip(t *testing.T, ctx context.Context, up *Transport, q *message.Request) (int, string) {
	t.Helper()
	s, err := up.RoundTrip(ctx, q)
	if err != nil {
		t.Fatalf("%s to %s: %v", q.Method, q.Host, err)
	}
	return s.Status, finish(t, s)
}

// counted returns the value of a metric.
func counted(t *testing.T, up *Transport, name string) string {
	t.Helper()
	var b strings.Builder
	if err := metric.Write(&b, up); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "none"
}
