package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/message"
	"shuultuur/lib/setting"
)

const hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

func TestAKeptConnectionServesTheNextRequest(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, answers(hello))
	up := newTransport(t, Config{})
	for range 3 {
		if status, body := trip(t, t.Context(), up, ask("GET", o.addr)); status != 200 || body != "hello" {
			t.Errorf("the answer is %d %q, want 200 hello", status, body)
		}
	}
	if n := o.conns.Load(); n != 1 {
		t.Errorf("%d connections for three requests, want one", n)
	}
	for name, want := range map[string]string{"shuultuur_upstream_reused_total": "2", "shuultuur_upstream_connections_total": "1", "shuultuur_upstream_idle": "1", "shuultuur_upstream_retried_total": "0"} {
		if got := counted(t, up, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// RFC 9112, 9.3 and 9.6: whether a connection can be used again depends on the response.
func TestResponsesAfterWhichAConnectionEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer string
		read         int // bytes, -1 for all
		body         string
		kept         bool
	}{
		{"read to its end", hello, -1, "hello", true},
		{"not read", hello, 0, "", false},
		{"read in part", hello, 2, "he", false},
		{"without a body", "HTTP/1.1 204 No Content\r\n\r\n", 0, "", true},
		{"an empty body", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0, "", true},
		{"Connection: close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", -1, "hello", false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", -1, "hello", false},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", -1, "hello", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, answers(tt.answer))
			up := newTransport(t, Config{})
			s, err := up.RoundTrip(t.Context(), ask("GET", o.addr))
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, max(tt.read, 0))
			if _, err = io.ReadFull(s.Body, got); tt.read < 0 {
				got, err = io.ReadAll(s.Body)
			}
			if err != nil || string(got) != tt.body {
				t.Errorf("the body is %q, %v, want %q", got, err, tt.body)
			}
			s.Body.Close()
			if n := up.pool.size(); n == 1 != tt.kept {
				t.Errorf("%d connections are kept, want kept %v", n, tt.kept)
			}
		})
	}
}

func TestABodyUntilTheConnectionCloses(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(s *side) {
		s.request()
		s.write("HTTP/1.1 200 OK\r\n\r\nuntil the end")
	})
	s, err := newTransport(t, Config{}).RoundTrip(t.Context(), ask("GET", o.addr))
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Body.Remaining(); n != message.UntilClose {
		t.Errorf("%d bytes remain, want an unknown number", n)
	}
	var b strings.Builder
	if n, err := s.Body.Copy(&b, 6); n != 6 || err != nil || b.String() != "until " {
		t.Errorf("Copy of six bytes: %d, %v, %q", n, err, b.String())
	}
	if rest := finish(t, s); rest != "the end" || !s.Body.AtEnd() {
		t.Errorf("the rest is %q, at its end %v", rest, s.Body.AtEnd())
	}
}

func TestAnswersThatAreCutOrWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer string
		inBody       bool // the head is right
		invalid      bool // a *message.Error, else the end of the connection
	}{
		{"nothing", "", false, false},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-", false, false},
		{"no HTTP", "220 mail.test ESMTP\r\n\r\n", false, true},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", false, true},
		{"a body that ends too early", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", true, false},
		{"chunks that end too early", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", true, false},
		{"chunks without a size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n", true, true},
		{"protocols switched in the middle", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 1 x\r\n\r\n", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, func(s *side) { s.request(); s.write(tt.answer) })
			up := newTransport(t, Config{})
			s, err := up.RoundTrip(t.Context(), ask("GET", o.addr))
			if (err == nil) != tt.inBody {
				t.Fatalf("RoundTrip: %v, want a response %v", err, tt.inBody)
			}
			if err == nil {
				_, err = io.ReadAll(s.Body)
				s.Body.Close()
			}
			bad, _ := errors.AsType[*message.Error](err)
			switch {
			case err == nil:
				t.Error("it is read without an error")
			case tt.invalid && (bad == nil || bad.Status != 502):
				t.Errorf("the error is %v, want one of status 502", err)
			case !tt.invalid && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
				t.Errorf("the error is %v, want the end of the connection", err)
			}
			if n := o.conns.Load(); n != 1 {
				t.Errorf("the request was sent %d times, want once: the connection was new", n)
			}
			if n := up.pool.size(); n != 0 {
				t.Errorf("%d connections are kept, want none", n)
			}
		})
	}
}

// RFC 9110, 9.2.2: a request is sent again only if that changes nothing.
func TestARequestThatMetAClosingConnection(t *testing.T) {
	t.Parallel()
	for method, again := range map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true, "TRACE": true, "PUT": true, "DELETE": true, "POST": false, "PATCH": false, "M-SEARCH": false} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, func(s *side) {
				s.request()
				s.write("HTTP/1.1 204 No Content\r\n\r\n")
				s.request()
				if s.n > 1 {
					s.write("HTTP/1.1 204 No Content\r\n\r\n")
				}
			})
			up := newTransport(t, Config{})
			trip(t, t.Context(), up, ask("GET", o.addr))
			s, err := up.RoundTrip(t.Context(), ask(method, o.addr))
			if (err == nil) != again {
				t.Errorf("the second request: %v, want an answer %v", err, again)
			}
			if err == nil {
				s.Body.Close()
			}
			if got := counted(t, up, "shuultuur_upstream_retried_total"); got == "1" != again {
				t.Errorf("%s requests were repeated, want repeated %v", got, again)
			}
		})
	}
}

// A connection that was closed, or on which bytes came that nobody asked for, is not used: the
// next request would take them for its answer.
func TestAnIdleConnectionThatIsNotQuietIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]string{"closed": "", "an answer to nothing": "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended, goOn := make(chan bool, 2), make(chan bool, 2)
			o := newOrigin(t, func(s *side) {
				s.request()
				s.write(hello)
				if s.n > 1 {
					return
				}
				<-goOn
				s.write(late)
				s.Close()
				ended <- true
			})
			up := newTransport(t, Config{})
			trip(t, t.Context(), up, ask("POST", o.addr))
			goOn <- true
			<-ended
			if status, body := trip(t, t.Context(), up, ask("POST", o.addr)); status != 200 || body != "hello" {
				t.Errorf("the second answer is %d %q, want 200 hello", status, body)
			}
			if n := o.conns.Load(); n != 2 {
				t.Errorf("%d connections, want two", n)
			}
		})
	}
}

func TestThePoolKeepsNoMoreThanItsSettings(t *testing.T) {
	t.Parallel()
	var up *Transport
	closed := make(chan int64, 4)
	o := newOrigin(t, func(s *side) { answers(hello)(s); closed <- s.n })
	up = newTransport(t, Config{PerHost: 1, Idle: setting.Duration(time.Hour)})
	first, err := up.RoundTrip(t.Context(), ask("GET", o.addr))
	if err != nil {
		t.Fatal(err)
	}
	trip(t, t.Context(), up, ask("GET", o.addr)) // needs a second connection, which is kept
	finish(t, first)
	if n := <-closed; n != 1 {
		t.Errorf("connection %d was closed, want the first: there is one idle already", n)
	}
	if n := up.pool.size(); n != 1 {
		t.Errorf("%d connections are kept, want one", n)
	}
	up.pool.sweep(time.Now().Add(59 * time.Minute))
	if n := up.pool.size(); n != 1 {
		t.Errorf("%d connections are kept before their time is over, want one", n)
	}
	up.pool.sweep(time.Now().Add(61 * time.Minute))
	if n := <-closed; n != 2 || up.pool.size() != 0 {
		t.Errorf("connection %d was closed, %d are kept; want the second, none", n, up.pool.size())
	}
}

// RFC 9110, 15.2: any number of 1xx responses may come before the final one.
func TestInformationalResponsesComeInOrder(t *testing.T) {
	t.Parallel()
	const hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n"
	o := newOrigin(t, answers(hints+hello))
	up := newTransport(t, Config{})
	var got []string
	c := &Caller{Interim: func(s *message.Response) error {
		got = append(got, fmt.Sprintf("%d %s", s.Status, s.Get("Link")))
		return nil
	}}
	if status, body := trip(t, c.Context(t.Context()), up, ask("GET", o.addr)); status != 200 || body != "hello" {
		t.Errorf("the answer is %d %q, want 200 hello", status, body)
	}
	if want := "103 </a>|102 |103 </b>"; strings.Join(got, "|") != want {
		t.Errorf("the caller got %q, want %q", got, want)
	}
	c.Interim = nil
	if status, _ := trip(t, c.Context(t.Context()), up, ask("GET", o.addr)); status != 200 {
		t.Errorf("without Interim the status is %d, want 200", status)
	}
	gone := errors.New("the client has gone")
	c.Interim = func(*message.Response) error { return gone }
	if _, err := up.RoundTrip(c.Context(t.Context()), ask("GET", o.addr)); !errors.Is(err, gone) {
		t.Errorf("the error is %v, want that of Interim", err)
	}
}

func TestEndlessInformationalResponsesEndTheRequest(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, answers(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 2000)+hello))
	_, err := newTransport(t, Config{}).RoundTrip(t.Context(), ask("GET", o.addr))
	if e, ok := errors.AsType[*message.Error](err); !ok || e.Status != 502 {
		t.Errorf("the error is %v, want one of status 502", err)
	}
}

// RFC 9112, 7.1.2. The connection belongs to the next request when the body is at its end, the
// trailer still to this response.
func TestTrailersOutliveTheirConnection(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(s *side) {
		s.request()
		s.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Digest\r\n\r\n5\r\nhello\r\n0\r\nDigest: abc\r\nDigest: def\r\n\r\n")
		s.request()
		s.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nOther: xyz\r\nOthers: uvw\r\n\r\n")
	})
	up := newTransport(t, Config{})
	first, err := up.RoundTrip(t.Context(), ask("GET", o.addr))
	if err != nil {
		t.Fatal(err)
	}
	if body := finish(t, first); body != "hello" {
		t.Errorf("the body is %q, want hello", body)
	}
	trip(t, t.Context(), up, ask("GET", o.addr))
	if n := o.conns.Load(); n != 1 {
		t.Errorf("%d connections, want one", n)
	}
	trailer := first.Body.Trailer()
	if len(trailer) != 2 || string(trailer.Get("Digest")) != "abc" || string(trailer[1].Value) != "def" {
		t.Errorf("the trailer is %q, want two Digest fields", trailer)
	}
}

func TestWhoSwitchesProtocolsGetsTheConnection(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(s *side) {
		r := s.request()
		if r.Header.Get("Upgrade") != "echo" || r.Header.Get("Connection") != "Upgrade" {
			s.write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
			return
		}
		s.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nfirst")
		_, _ = io.Copy(s.Conn, s)
	})
	up := newTransport(t, Config{Answer: setting.Duration(time.Minute)})
	q := ask("GET", o.addr)
	q.Upgrade = []byte("echo")
	var caller Caller
	s, err := up.RoundTrip(caller.Context(t.Context()), q)
	if err != nil || s.Status != 101 {
		t.Fatalf("RoundTrip: %+v, %v", s, err)
	}
	body, ok := s.Body.(SwitchedBody)
	if !ok {
		t.Fatal("the body of a 101 has no connection")
	}
	c, first := body.Conn()
	defer s.Body.Close()
	in := io.MultiReader(strings.NewReader(string(first)), c)
	if _, err := io.WriteString(c, " second"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("first second"))
	if _, err := io.ReadFull(in, got); err != nil || string(got) != "first second" {
		t.Errorf("the connection gives %q, %v", got, err)
	}
	caller.Abort()
	if n, err := c.Read(got); err == nil {
		t.Errorf("after Abort, %d bytes can be read", n)
	}
	if n := up.pool.size(); n != 0 {
		t.Errorf("%d connections are kept, want none", n)
	}
}

func TestAnOriginThatIsSilentIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{"before the head": "", "in the head": "HTTP/1.1 200", "in the body": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, func(s *side) { s.request(); s.write(answer); s.request() })
			s, err := newTransport(t, Config{Answer: setting.Duration(100 * time.Millisecond)}).RoundTrip(t.Context(), ask("GET", o.addr))
			if err == nil {
				_, err = io.ReadAll(s.Body)
				s.Body.Close()
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the error is %v, want that of a deadline", err)
			}
			if n := o.conns.Load(); n != 1 {
				t.Errorf("the request was sent %d times, want once", n)
			}
		})
	}
}

func TestWhatEndsARequest(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *Caller, cancel func()){
		"Abort":               func(c *Caller, _ func()) { c.Abort() },
		"Interrupt":           func(c *Caller, _ func()) { c.Interrupt() },
		"the context's end":   func(_ *Caller, cancel func()) { cancel() },
		"Abort and Interrupt": func(c *Caller, _ func()) { c.Interrupt(); c.Abort() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan bool)
			o := newOrigin(t, func(s *side) {
				if s.n == 1 {
					s.request()
					arrived <- true
				}
				answers(hello)(s)
			})
			up := newTransport(t, Config{})
			var c Caller
			ctx, cancel := context.WithCancel(c.Context(t.Context()))
			defer cancel()
			failed := make(chan error)
			go func() { _, err := up.RoundTrip(ctx, ask("GET", o.addr)); failed <- err }()
			<-arrived
			end(&c, cancel)
			if err := <-failed; err == nil {
				t.Error("the request has no error")
			}
			_, err := up.RoundTrip(ctx, ask("GET", o.addr))
			if name == "Interrupt" != (err == nil) {
				t.Errorf("the next request: %v", err)
			}
			if status, _ := trip(t, c.Context(t.Context()), up, ask("GET", o.addr)); status != 200 {
				t.Errorf("with a new context the status is %d, want 200", status)
			}
		})
	}
}

func TestAddressesThatAreRefusedAreNotDialed(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, answers(hello))
	port := netip.MustParseAddrPort(o.addr).Port()
	for _, tt := range []struct {
		name string
		cfg  Config
		host string
	}{
		{"loopback is not public", Config{}, "127.0.0.1"},
		{"loopback by name", Config{}, "localhost"},
		{"loopback as one number", Config{}, "2130706433"},
		{"the gateway's own address", Config{Private: setting.Networks{netip.MustParsePrefix("127.0.0.0/8")}, Own: []netip.AddrPort{netip.MustParseAddrPort(o.addr)}}, "127.0.0.1"},
		{"a listener on all addresses", Config{Private: setting.Networks{netip.MustParsePrefix("127.0.0.0/8")}, Own: []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), port)}}, "127.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up, err := New(tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			q := ask("GET", o.addr)
			q.Host = []byte(tt.host)
			_, err = up.RoundTrip(t.Context(), q)
			if _, ok := errors.AsType[*RefusedError](err); !ok {
				t.Errorf("the request: %v, want a refusal", err)
			}
			_, _, err = up.Tunnel(t.Context(), tt.host, port)
			if _, ok := errors.AsType[*RefusedError](err); !ok {
				t.Errorf("the tunnel: %v, want a refusal", err)
			}
			if got := counted(t, up, "shuultuur_private_refused_total"); got == "0" {
				t.Error("the refusals are not counted")
			}
			if n := o.conns.Load(); n != 0 {
				t.Errorf("%d connections were made, want none", n)
			}
		})
	}
	if err := (&Config{}).Reachable(netip.MustParseAddrPort(o.addr)); err == nil {
		t.Error("Reachable permits loopback")
	}
	if c, err := (&Config{}).DialPublic(t.Context(), "tcp", o.addr); err == nil {
		c.Close()
		t.Error("DialPublic reaches loopback")
	}
}

func TestAPortWhereNobodyListensIsNamed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	up := newTransport(t, Config{})
	var c Caller
	if _, err = up.RoundTrip(c.Context(t.Context()), ask("GET", l.Addr().String())); err == nil {
		t.Fatal("the request succeeds")
	}
	if c.Server != netip.MustParseAddr("127.0.0.1") || c.Parent {
		t.Errorf("the address that refused is %v, of the parent %v; want 127.0.0.1", c.Server, c.Parent)
	}
	if got := counted(t, up, "shuultuur_upstream_dial_failed_total"); got != "1" {
		t.Errorf("%s failures are counted, want 1", got)
	}
}

func TestOwnConnectionsAreKnownByTheirPort(t *testing.T) {
	t.Parallel()
	from := make(chan string, 2)
	o := newOrigin(t, func(s *side) { from <- s.RemoteAddr().String(); answers(hello)(s) })
	for _, remembers := range []bool{true, false} {
		up := newTransport(t, Config{})
		if remembers {
			up.RememberPorts()
		}
		trip(t, t.Context(), up, ask("GET", o.addr))
		a := netip.MustParseAddrPort(<-from)
		mapped := netip.AddrPortFrom(netip.AddrFrom16(a.Addr().As16()), a.Port())
		if up.Dialed(a) != remembers || up.Dialed(mapped) != remembers {
			t.Errorf("Dialed(%v) is %v, Dialed(%v) is %v; want %v", a, up.Dialed(a), mapped, up.Dialed(mapped), remembers)
		}
		if up.Dialed(netip.AddrPortFrom(a.Addr(), a.Port()^1)) {
			t.Error("another port is held for our own")
		}
	}
}
