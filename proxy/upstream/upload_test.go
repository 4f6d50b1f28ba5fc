package upstream

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/message"
)

// A stalled is a body that never comes, until it is closed.
type stalled struct {
	message.MemoryBody
	closed chan bool
}

func newStalled() *stalled { return &stalled{closed: make(chan bool, 9)} }

func (s *stalled) Read([]byte) (int, error)             { <-s.closed; return 0, io.ErrUnexpectedEOF }
func (s *stalled) Copy(io.Writer, int64) (int64, error) { <-s.closed; return 0, io.ErrUnexpectedEOF }
func (s *stalled) Ready(dst [][]byte) [][]byte          { return dst }
func (s *stalled) AtEnd() bool                          { return false }
func (s *stalled) Close() error                         { s.closed <- true; return nil }

// received answers each request with what came of its body and trailer.
func received(s *side) {
	for r := s.request(); r != nil; r = s.request() {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + string(message.AppendChunk(nil, len(b))) + string(b) + "\r\n0\r\nX-Digest: " + r.Trailer.Get("Digest") + "\r\n\r\n")
	}
}

func TestBodiesArriveWithTheirFramingAndTrailer(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, received)
	up := newTransport(t, Config{})
	long := strings.Repeat("0123456789abcdef", 20_000)
	for _, tt := range []struct {
		name, raw string
		length    int64
		body      string
		digest    string
	}{
		{"short", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 5, "hello", ""},
		{"long", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 320000\r\n\r\n" + long, 320_000, long, ""},
		{"chunked", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", message.Chunked, "hello", ""},
		{"chunked and empty", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", message.Chunked, "", ""},
		{"with a trailer", "POST / HTTP/1.1\r\nHost: x\r\nTrailer: Digest\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nDigest: abc\r\n\r\n", message.Chunked, "hello", "abc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := up.RoundTrip(t.Context(), posted(t, o.addr, tt.raw, tt.length))
			if err != nil {
				t.Fatal(err)
			}
			if got := finish(t, s); got != tt.body {
				t.Errorf("%d bytes arrived, want %d", len(got), len(tt.body))
			}
			if got := string(s.Body.Trailer().Get("X-Digest")); got != tt.digest {
				t.Errorf("the trailer has the digest %q, want %q", got, tt.digest)
			}
		})
	}
}

func TestABodyInMemoryFollowsItsHead(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, received)
	up := newTransport(t, Config{})
	for _, parts := range [][]string{{"hel", "", "lo"}, {strings.Repeat("x", 100_000), "y"}} {
		var body message.MemoryBody
		var all [][]byte
		for _, p := range parts {
			all = append(all, []byte(p))
		}
		body.Set(all...)
		want := strings.Join(parts, "")
		q := ask("POST", o.addr)
		q.Body, q.Length = &body, int64(len(want))
		if _, got := trip(t, t.Context(), up, q); got != want {
			t.Errorf("%d bytes arrived, want %d", len(got), len(want))
		}
	}
	if n := o.conns.Load(); n != 1 {
		t.Errorf("%d connections, want one", n)
	}
}

// RFC 9110, 10.1.1: the body waits until the caller has got the 100.
func TestAnAnnouncedBodyComesAfterThe100(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(s *side) {
		r := s.request()
		if r.Header.Get("Expect") != "100-continue" {
			return
		}
		s.write("HTTP/1.1 100 Continue\r\n\r\n")
		b, _ := io.ReadAll(r.Body)
		s.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + string(b))
	})
	from, to := io.Pipe()
	c := &Caller{Interim: func(s *message.Response) error {
		if s.Status == 100 {
			go io.WriteString(to, "hello")
		}
		return nil
	}}
	var in message.Request
	go io.WriteString(to, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	if err := message.NewReader(from, 0, 8<<10).ReadRequest(&in); err != nil {
		t.Fatal(err)
	}
	q := ask("POST", o.addr)
	q.Expect, q.Length, q.Body = in.Expect, in.Length, in.Body
	if status, body := trip(t, c.Context(t.Context()), newTransport(t, Config{}), q); status != 200 || body != "hello" {
		t.Errorf("the answer is %d %q, want 200 hello", status, body)
	}
}

// RFC 9110, 15.5.14: an origin may refuse a body before it has read it.
func TestARefusalOfABodyArrivesBeforeItsEnd(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int64{"of known length": 1 << 30, "chunked": message.Chunked} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, answers("HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nlarge"))
			up := newTransport(t, Config{})
			body := newStalled()
			q := ask("POST", o.addr)
			q.Body, q.Length = body, length
			if status, text := trip(t, t.Context(), up, q); status != http.StatusRequestEntityTooLarge || text != "large" {
				t.Errorf("the answer is %d %q, want 413", status, text)
			}
			if n := up.pool.size(); n != 0 {
				t.Errorf("%d connections are kept in the middle of a request, want none", n)
			}
		})
	}
}

func TestABodyThatFailsIsTheFaultOfTheClient(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, received)
	up := newTransport(t, Config{})
	for name, tt := range map[string]struct {
		raw    string
		length int64
	}{
		"too short":       {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nhello", 100_000},
		"a wrong chunk":   {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nhello", message.Chunked},
		"an endless body": {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", message.Chunked},
	} {
		_, err := up.RoundTrip(t.Context(), posted(t, o.addr, tt.raw, tt.length))
		if _, ok := errors.AsType[*BodyError](err); !ok {
			t.Errorf("%s: the error is %v, want one of the body", name, err)
		}
	}
}

// A panicking is a body whose reader has a fault.
type panicking struct{ stalled }

func (*panicking) Copy(io.Writer, int64) (int64, error) { panic("a fault") }

func TestAPanicWhileSendingEndsOnlyItsRequest(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, answers(hello))
	up := newTransport(t, Config{})
	q := ask("POST", o.addr)
	q.Body, q.Length = &panicking{*newStalled()}, 9
	s, err := up.RoundTrip(t.Context(), q)
	if err == nil {
		s.Body.Close()
	}
	if got := counted(t, up, "shuultuur_upload_panics_total"); got != "1" {
		t.Errorf("%s panics are counted, want 1", got)
	}
	if status, _ := trip(t, t.Context(), up, ask("GET", o.addr)); status != 200 {
		t.Errorf("the next request gets %d, want 200", status)
	}
}

// [MS-NLMP] signs in a connection: whoever uses it is that person.
func TestWhoSignsInAConnectionKeepsItAlone(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(s *side) {
		user := "nobody"
		for r := s.request(); r != nil; r = s.request() {
			switch auth := r.Header.Get("Authorization"); auth {
			case "":
			case "NTLM TlRMTVNTUAABAAAA":
				s.write("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"a, NTLM b\", NTLM TlRMTVNTUAACAAAA\r\nContent-Length: 0\r\n\r\n")
				continue
			default:
				user = "anna"
			}
			s.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + string(message.AppendChunk(nil, len(user))) + user + "\r\n0\r\n\r\n")
		}
	})
	up := newTransport(t, Config{})
	for _, streams := range []bool{false, true} {
		anna := &Caller{Session: &Session{Streams: streams}, User: "anna"}
		other := &Caller{Session: &Session{Streams: streams}, User: "ben"}
		get := func(c *Caller, auth string) (int, string, bool) {
			t.Helper()
			q := ask("GET", o.addr)
			if auth != "" {
				q.Add("Authorization", auth)
			}
			s, err := up.RoundTrip(c.Context(t.Context()), q)
			if err != nil {
				t.Fatal(err)
			}
			personal := s.Personal
			return s.Status, finish(t, s), personal
		}
		if status, _, personal := get(anna, "NTLM TlRMTVNTUAABAAAA"); status != 401 || !personal {
			t.Errorf("the first step gets %d, personal %v; want 401", status, personal)
		}
		if _, user, personal := get(anna, "NTLM TlRMTVNTUAADAAAA"); user != "anna" || !personal {
			t.Errorf("the second step is answered as %s, personal %v; want anna", user, personal)
		}
		if _, user, _ := get(anna, ""); user != "anna" {
			t.Errorf("the next request of the same client is answered as %s, want anna", user)
		}
		if _, user, personal := get(other, ""); user != "nobody" || personal {
			t.Errorf("another client is answered as %s, personal %v; want nobody", user, personal)
		}
		anna.Session.Close()
		other.Session.Close()
		if _, user, _ := get(anna, ""); user != "nobody" {
			t.Errorf("after its session, the client is answered as %s, want nobody", user)
		}
	}
}

// One place signs in one stream at a time: a token does not say which challenge it answers.
func TestStreamsSignInOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s := &Session{Streams: true}
	defer s.Close()
	q := &message.Request{Method: "GET", Path: []byte("/")}
	first := &credentials{sent: true, step: firstStep, token: []byte("one")}
	g, err := s.begin(t.Context(), "key", q, first)
	if err != nil || g == nil {
		t.Fatalf("the first sign-in: %v, %v", g, err)
	}
	if again, err := s.begin(t.Context(), "key", q, &credentials{sent: true, step: laterStep}); again != g || err != nil {
		t.Errorf("its next step belongs to %p, %v; want %p", again, err, g)
	}
	if elsewhere, err := s.begin(t.Context(), "key", &message.Request{Method: "GET", Path: []byte("/b")}, first); elsewhere == g || err != nil {
		t.Errorf("a sign-in at another place belongs to the first: %v", err)
	}
	next := make(chan *signing)
	go func() {
		n, _ := s.begin(t.Context(), "key", q, &credentials{sent: true, step: firstStep, token: []byte("two")})
		next <- n
	}()
	select {
	case <-next:
		t.Error("a second sign-in begins during the first")
	case <-time.After(20 * time.Millisecond):
	}
	s.end(g)
	if n := <-next; n == nil || n == g {
		t.Errorf("the second sign-in is %p, want a new one", n)
	}
}
