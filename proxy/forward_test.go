package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/proxy/upstream"
)

// rawOrigin serves each connection with f, one byte stream at a time.
func rawOrigin(t *testing.T, network string, f func(c net.Conn, br *bufio.Reader)) string {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "tcp6" {
		addr = "[::1]:0"
	}
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Skip("this machine has no loopback listener: ", err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c, bufio.NewReader(c))
			}()
		}
	}()
	return ln.Addr().String()
}

// readHead reads a head, including the empty line.
func readHead(br *bufio.Reader) string {
	var b strings.Builder
	for {
		line, err := br.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String()
		}
	}
}

// answers returns an origin that answers every head with s.
func answers(t *testing.T, s string) string {
	return rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		for readHead(br) != "" {
			if _, err := io.WriteString(c, s); err != nil {
				return
			}
			if !strings.Contains(s, "Content-Length") && !strings.Contains(s, "chunked") && !strings.Contains(s, " 204 ") && !strings.Contains(s, " 304 ") {
				return
			}
		}
	})
}

func TestResponsesAreFramedForTheClient(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Sum: 5\r\n\r\n"
	for _, tt := range []struct {
		name, request, response string
		held                    bool
		want                    []string // in order
		not                     string
	}{
		{"length", "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 Fine\r\nContent-Length: 3\r\nX-A: b\r\n\r\nabc", false, []string{"HTTP/1.1 200 Fine\r\n", "X-A: b\r\n", "Content-Length: 3\r\n", "\r\n\r\nabc"}, "chunked"},
		{"length held", "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 Fine\r\nContent-Length: 3\r\nX-A: b\r\n\r\nabc", true, []string{"HTTP/1.1 200 Fine\r\n", "X-A: b\r\n", "Content-Length: 3\r\n", "\r\n\r\nabc"}, "chunked"},
		{"empty", "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true, []string{"Content-Length: 0\r\n"}, "chunked"},
		{"chunked", "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", chunked, false, []string{"Trailer: X-Sum\r\n", "Transfer-Encoding: chunked\r\n", "\r\n\r\n", "abc", "0\r\nX-Sum: 5\r\n\r\n"}, "x=y"},
		{"chunked held", "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", chunked, true, []string{"Transfer-Encoding: chunked\r\n", "\r\n\r\n5\r\nabcde\r\n0\r\nX-Sum: 5\r\n\r\n"}, "x=y"},
		{"chunked to 1.0", "GET %s HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n", chunked, false, []string{"HTTP/1.1 200 OK\r\n", "Connection: close\r\n", "\r\n\r\nabcde"}, "chunked"},
		{"chunked held to 1.0", "GET %s HTTP/1.0\r\nHost: x\r\n\r\n", chunked, true, []string{"Connection: close\r\n", "\r\n\r\nabcde"}, "chunked"},
		{"length to 1.0", "GET %s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, []string{"Content-Length: 3\r\n", "Connection: keep-alive\r\n", "\r\n\r\nabc"}, "chunked"},
		{"until close", "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nabc", false, []string{"Via: 1.0 gate\r\n", "Transfer-Encoding: chunked\r\n", "abc", "\r\n0\r\n\r\n"}, "Connection: close"},
		{"until close held", "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nabc", true, []string{"Transfer-Encoding: chunked\r\n", "\r\n\r\n3\r\nabc\r\n0\r\n\r\n"}, "Connection: close"},
		{"until close to 1.0", "GET %s HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nabc", false, []string{"Connection: close\r\n", "\r\n\r\nabc"}, "chunked"},
		{"head", "HEAD %s HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", true, []string{"Content-Length: 99\r\n"}, "chunked"},
		{"204", "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n", true, []string{"HTTP/1.1 204 No Content\r\n"}, "Content-Length"},
		{"304", "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 7\r\n\r\n", true, []string{"ETag: \"a\"\r\n", "Content-Length: 7\r\n"}, "chunked"},
		{"1xx", "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", false, []string{"HTTP/1.1 103 Early Hints\r\n", "Link: </a>\r\n", "\r\n\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\na"}, "101"},
		{"no 1xx to 1.0", "GET %s HTTP/1.0\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", false, []string{"HTTP/1.1 200 OK\r\n", "\r\n\r\na"}, "103"},
		{"events pass one by one", "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; x\r\nContent-Length: 3\r\n\r\nabc", true, []string{"chunked", "abc"}, "Content-Length"},
		{"invalid response", "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", false, []string{"HTTP/1.1 502 Bad Gateway\r\n"}, "abcd"},
		{"body ends early held", "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-type: text/html\r\ncontent-length: 30\r\n\r\nabcd", true, []string{"HTTP/1.1 200 OK\r\n", "Content-Length: 30\r\n", "\r\n\r\nabcd"}, "502"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, Config{Via: "gate", ViaResponses: "gate"}, Engine{Decider: judge{wants: func(_ *filter.Transaction, s filter.Stage) bool { return tt.held && s == filter.ResponseBody }}})
			o := answers(t, tt.response)
			got := r.talk(fmt.Sprintf(tt.request, "http://"+o+"/"))
			rest := got
			for _, w := range tt.want {
				i := strings.Index(rest, w)
				if i < 0 {
					t.Fatalf("%q is missing, or not in order, in\n%s", w, got)
				}
				rest = rest[i+len(strings.TrimSuffix(w, "\r\n")):]
			}
			if strings.Contains(got, tt.not) {
				t.Errorf("unwanted %q in\n%s", tt.not, got)
			}
		})
	}
}

func TestBodiesGoThroughUnchanged(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 40_000) // 640,000 bytes
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Trailer", q.Trailer.Get("X-Sum"))
		if q.URL.Query().Get("te") == "" {
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		}
		w.Write(b)
	})
	for _, held := range []bool{false, true} {
		r := start(t, Config{}, Engine{Decider: judge{wants: func(*filter.Transaction, filter.Stage) bool { return held }}})
		c := r.client()
		for _, n := range []int{0, 1, 4096, 4097, 70_000, len(big)} {
			for _, path := range []string{"/", "/?te=1"} {
				for _, chunked := range []bool{false, true} {
					q, _ := http.NewRequest("POST", o.URL+path, bytes.NewReader(big[:n]))
					if chunked {
						q.ContentLength = -1
						q.Trailer = http.Header{"X-Sum": {"5"}}
					}
					name := fmt.Sprintf("held %v, %d bytes, %s, chunked %v", held, n, path, chunked)
					res, err := c.Do(q)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					b, err := io.ReadAll(res.Body)
					res.Body.Close()
					if err != nil || !bytes.Equal(b, big[:n]) {
						t.Fatalf("%s: got %d bytes, error %v, status %d", name, len(b), err, res.StatusCode)
					}
					if got := res.Header.Get("X-Trailer"); chunked && n > 0 && got != "5" {
						t.Errorf("%s: got trailer %q, want 5", name, got)
					}
				}
			}
		}
		for _, x := range r.wait(24) {
			if x.In != x.Out || x.Status != 200 || held && x.Out > 0 && x.Looked != x.Out {
				t.Errorf("record of an echoed body: got %+v", x)
			}
		}
		if got := r.Stats().UpstreamNew; got > 12 {
			t.Errorf("%d upstream connections for 24 consecutive requests, want at most 12", got)
		}
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { io.Copy(w, q.Body); fmt.Fprint(w, q.URL.Path) })
	r := start(t, Config{}, Engine{})
	var s strings.Builder
	for i := range 20 {
		fmt.Fprintf(&s, "POST %s/%d HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", o.URL, i)
	}
	c, br := r.raw()
	io.WriteString(c, s.String())
	for i := range 20 {
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		if want := fmt.Sprintf("body/%d", i); string(b) != want {
			t.Fatalf("response %d: got %q, want %q", i, b, want)
		}
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	reached := make(chan struct{}, 100)
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		if _, err := io.ReadAll(q.Body); err == nil {
			reached <- struct{}{}
		}
	})
	r := start(t, Config{Upstream: upstream.Config{Answer: setting.Duration(time.Second)}}, Engine{})
	n := 0
	for _, tt := range []struct {
		name, request string
		status        int
	}{
		{"both lengths", "POST U HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		{"two lengths", "POST U HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
		{"folded", "GET U HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400},
		{"blank before colon", "GET U HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", 400},
		{"bare CR", "GET U HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", 400},
		{"bare LF", "GET U HTTP/1.1\nHost: x\n\n", 400},
		{"two hosts", "GET U HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
		{"NUL", "GET U HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n", 400},
		{"odd coding", "POST U HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
		{"no host", "GET U HTTP/1.1\r\n\r\n", 400},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		{"large head", "GET U HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 70_000) + "\r\n\r\n", 431},
		{"bad chunk size", "POST U HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", 400},
		{"chunk too long", "POST U HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400},
		{"CONNECT with body", "CONNECT " + strings.TrimPrefix(o.URL, "http://") + " HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 400},
		{"other scheme", "GET ftp://x/ HTTP/1.1\r\nHost: x\r\n\r\n", 501},
		{"odd host", "GET http://a%62c/ HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"web request", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
	} {
		n++
		got := r.talk(strings.ReplaceAll(tt.request, "U ", o.URL+"/ ") + "GET http://smuggled/ HTTP/1.1\r\nHost: x\r\n\r\n")
		if want := fmt.Sprintf("HTTP/1.1 %d ", tt.status); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, want)
		}
		if strings.Count(got, "HTTP/1.1 ") > 1 && tt.status != 501 && tt.name != "web request" && tt.name != "odd host" {
			t.Errorf("%s: the connection continued after a malformed request:\n%s", tt.name, got)
		}
		if tt.name == "web request" && !strings.Contains(got, "proxy settings") {
			t.Errorf("the answer to a web request does not mention proxy settings:\n%s", got)
		}
	}
	if len(reached) > 0 {
		t.Errorf("%d malformed requests reached the origin", len(reached))
	}
	for _, x := range r.wait(n) {
		if x.Note == "" {
			t.Errorf("record of a refused request without a note: %+v", x)
		}
	}
}

// A witness records the heads that it has to judge.
type witness struct {
	judge
	seen chan string
}

func (w witness) SeeRefused(t *filter.Transaction, head []byte) {
	w.seen <- t.Client.Addr.String() + " " + string(head)
}

func TestMalformedRequestsAreShownToChecks(t *testing.T) {
	seen := make(chan string, 1)
	r := start(t, Config{}, Engine{Decider: witness{seen: seen}})
	const head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n"
	if got := r.talk(head + "abcd"); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("malformed request: got %q, want 400", got)
	}
	select {
	case got := <-seen:
		if got != "127.0.0.1 "+head {
			t.Errorf("the witness was shown %q", got)
		}
	default:
		t.Error("the request was answered before the witness judged its head")
	}
}

func TestExpectContinueIsForwarded(t *testing.T) {
	for _, held := range []bool{false, true} {
		o := origin(t, func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/no" {
				w.WriteHeader(413)
				return
			}
			if got := q.Header.Get("Expect"); (got == "") != held {
				t.Errorf("held %v: the origin got Expect %q", held, got)
			}
			io.Copy(w, q.Body)
		})
		r := start(t, Config{}, Engine{Decider: judge{wants: func(_ *filter.Transaction, s filter.Stage) bool { return held && s == filter.RequestBody }}})
		c, br := r.raw()
		fmt.Fprintf(c, "POST %s/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", o.URL)
		if got := readHead(br); !strings.HasPrefix(got, "HTTP/1.1 100 Continue\r\n") {
			t.Fatalf("held %v: got %q, want 100 Continue", held, got)
		}
		io.WriteString(c, "body")
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(res.Body); string(b) != "body" {
			t.Errorf("held %v: got %q, want the body", held, b)
		}
		if held {
			continue
		}
		c, br = r.raw() // the origin may answer before the upload counts as complete, which ends the connection
		fmt.Fprintf(c, "POST %s/no HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", o.URL)
		if res, err = http.ReadResponse(br, nil); err != nil || res.StatusCode != 413 || !res.Close {
			t.Errorf("refused upload: got %+v, %v; want 413 and the end of the connection", res, err)
		}
	}
}

func TestAnswerBeforeTheUploadIsCompletePasses(t *testing.T) {
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		readHead(br)
		io.WriteString(c, "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")
		io.Copy(io.Discard, br)
	})
	r := start(t, Config{}, Engine{})
	c, br := r.raw()
	fmt.Fprintf(c, "POST http://%s/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nsome", o)
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != 403 || !res.Close {
		t.Fatalf("response before the end of the upload: got %+v, %v; want 403 and the end of the connection", res, err)
	}
	if b, err := io.ReadAll(res.Body); string(b) != "no" || err != nil {
		t.Errorf("body of that response: got %q, %v, want no", b, err)
	}
}

func TestNetHTTPSeesEarlyHints(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(103)
		fmt.Fprint(w, "ok")
	})
	r := start(t, Config{}, Engine{})
	hints := 0
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { hints++; return nil }})
	q, _ := http.NewRequestWithContext(ctx, "GET", o.URL, nil)
	res, err := r.client().Do(q)
	if err != nil || hints != 1 || res.StatusCode != 200 {
		t.Errorf("got %d early hints, response %v, error %v; want 1 and 200", hints, res, err)
	}
}

func TestDeadIdleConnectionIsReplaced(t *testing.T) {
	var n atomic.Int32
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		readHead(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		if n.Add(1) == 1 {
			readHead(br) // the second request is read and not answered
		}
	})
	r := start(t, Config{}, Engine{})
	for range 3 {
		if res, b := get(t, r.client(), "http://"+o+"/"); res.StatusCode != 200 || b != "ok" {
			t.Errorf("request on a dead connection: got %d %q, want 200 from a new one", res.StatusCode, b)
		}
	}
	if s := r.Stats(); s.UpstreamRetried != 1 {
		t.Errorf("%d requests counted as repeated, want 1", s.UpstreamRetried)
	}
}

func TestUnaskedBytesOnAnIdleConnectionAreNobodysAnswer(t *testing.T) {
	wrote := make(chan struct{}, 2)
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		readHead(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		wrote <- struct{}{}
		br.ReadByte()
	})
	r := start(t, Config{}, Engine{})
	for range 2 {
		if _, b := get(t, r.client(), "http://"+o+"/"); b != "ok" {
			t.Errorf("response of the retried request: got %q, want ok", b)
		}
		<-wrote
	}
}

func TestUpstreamFailures(t *testing.T) {
	silent := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) { io.Copy(io.Discard, br) })
	closing := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) { readHead(br) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := ln.Addr().String()
	ln.Close()
	r := start(t, Config{Upstream: upstream.Config{Answer: setting.Duration(2 * time.Second)}}, Engine{})
	for _, tt := range []struct {
		host   string
		status int
	}{
		{silent, 504}, {closing, 502}, {nobody, 502}, {"10.9.8.7", 403}, {"0.0.0.0:" + strings.Split(nobody, ":")[1], 403},
		{"[::ffff:10.0.0.1]", 403}, {"169.254.169.254", 403}, {"[fe80::1]", 403}, {"[64:ff9b::a00:1]", 403}, {"224.0.0.1", 403},
	} {
		res, b := get(t, r.client(), "http://"+tt.host+"/")
		if res.StatusCode != tt.status || !strings.Contains(b, "Reference") {
			t.Errorf("%s: got %d, want %d:\n%s", tt.host, res.StatusCode, tt.status, b)
		}
	}
	for _, x := range r.wait(10) {
		if x.Note == "" || x.Status == 0 {
			t.Errorf("record without a note or a status: %+v", x)
		}
	}
}

func TestOwnAddressesAreOutOfReach(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "secret") })
	own := netip.MustParseAddrPort(strings.TrimPrefix(o.URL, "http://"))
	for _, tt := range []struct {
		own  netip.AddrPort
		host string
		want int
	}{
		{own, own.String(), 403},
		{own, fmt.Sprintf("localhost:%d", own.Port()), 403},
		{own, fmt.Sprintf("[::ffff:127.0.0.1]:%d", own.Port()), 403},
		{netip.AddrPortFrom(netip.IPv6Unspecified(), own.Port()), own.String(), 403},
		{netip.AddrPortFrom(own.Addr(), own.Port()^1), own.String(), 200},
	} {
		r := start(t, Config{Upstream: upstream.Config{Own: []netip.AddrPort{tt.own}}}, Engine{})
		if res, _ := get(t, r.client(), "http://"+tt.host+"/"); res.StatusCode != tt.want {
			t.Errorf("own %v: GET %s: got %d, want %d", tt.own, tt.host, res.StatusCode, tt.want)
		}
		got := r.talk("CONNECT " + tt.host + " HTTP/1.1\r\nHost: x\r\n\r\n")
		if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", tt.want)) {
			t.Errorf("own %v: CONNECT %s: got %q with the wrong status", tt.own, tt.host, got)
		}
	}
}

func TestLoopsThroughOtherProxiesAreFoundByName(t *testing.T) {
	o := origin(t, func(http.ResponseWriter, *http.Request) {})
	for _, tt := range []struct {
		via, came string
		want      int
	}{
		{"gate", "1.0 a, 1.1 Gate (x)", 508},
		{"gate", "1.0 a, 1.1 gates", 200},
		{"on", "1.1 shuultuur", 200}, // that may be another gateway
		{"off", "1.1 shuultuur", 200},
	} {
		r := start(t, Config{Via: tt.via}, Engine{})
		got := r.talk("GET " + o.URL + "/ HTTP/1.1\r\nHost: x\r\nVia: " + tt.came + "\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", tt.want)) {
			t.Errorf("via: %s, a request with Via: %s: got %q with the wrong status", tt.via, tt.came, got)
		}
		if n := r.Stats().Loops; n != int64(tt.want/508) {
			t.Errorf("%d loops counted, want 1 for a request with status 508", n)
		}
	}
}

func TestLoopsBetweenGatewaysAreFoundByAMark(t *testing.T) {
	for _, ask := range []string{"GET http://x.test/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "CONNECT x.test:443 HTTP/1.1\r\nHost: x\r\n\r\n"} {
		// a's parent is b, and b's is a.
		relay := func(to *atomic.Value) string {
			return rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
				u, err := net.Dial("tcp", to.Load().(string))
				if err != nil {
					return
				}
				defer u.Close()
				go func() { io.Copy(u, br) }()
				io.Copy(c, u)
			})
		}
		var addrA, addrB atomic.Value
		a := start(t, Config{Upstream: upstream.Config{Parent: "http://" + relay(&addrB)}}, Engine{})
		b := start(t, Config{Upstream: upstream.Config{Parent: "http://" + relay(&addrA)}}, Engine{})
		addrA.Store(a.addr)
		addrB.Store(b.addr)
		got := a.talk(ask)
		if !strings.HasPrefix(got, "HTTP/1.1 508 ") && !strings.HasPrefix(got, "HTTP/1.1 502 ") {
			t.Errorf("request %q: got %q, want 508 or 502", ask, got)
		}
		if n, m := a.Stats().Loops, b.Stats().Loops; n != 1 || m != 0 || a.Stats().Requests != 2 {
			t.Errorf("request %q: loops %d and %d, requests %d; want 1, 0 and 2", ask, n, m, a.Stats().Requests)
		}
	}
}

func TestStrangersLearnNothingOfTheGateway(t *testing.T) {
	heads := make(chan string, 1)
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		heads <- readHead(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	})
	for _, tt := range []struct{ via, responses, want, wantResponse string }{
		{"", "", "", ""},
		{"off", "off", "", ""},
		{"on", "off", "Via: 1.1 shuultuur\r\n", ""},
		{"off", "on", "", "Via: 1.1 shuultuur\r\n"},
		{"gate", "door", "Via: 1.1 gate\r\n", "Via: 1.1 door\r\n"},
	} {
		r := start(t, Config{Via: tt.via, ViaResponses: tt.responses}, Engine{})
		got := r.talk("GET http://" + o + "/ HTTP/1.1\r\nHost: " + o + "\r\nAccept: */*\r\nShuultuur-Passed: other\r\nConnection: close\r\n\r\n")
		if want := "GET / HTTP/1.1\r\nHost: " + o + "\r\nAccept: */*\r\n" + tt.want + "\r\n"; <-heads != want {
			t.Errorf("via %q: the head that the origin got is not %q", tt.via, want)
		}
		if want := "HTTP/1.1 200 OK\r\n" + tt.wantResponse + "Content-Length: 0\r\nConnection: close\r\n\r\n"; got != want {
			t.Errorf("via-responses %q: got %q, want %q", tt.responses, got, want)
		}
	}
}

func TestMaxForwards(t *testing.T) {
	var forwards string
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { forwards = q.Header.Get("Max-Forwards") })
	r := start(t, Config{}, Engine{})
	got := r.talk("TRACE " + o.URL + "/x HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\nCookie: secret\r\nX-A: b\r\n\r\n")
	if !strings.Contains(got, "message/http") || !strings.Contains(got, "X-A: b") || strings.Contains(got, "secret") {
		t.Errorf("TRACE with Max-Forwards 0: got %q", got)
	}
	if got := r.talk("OPTIONS " + o.URL + " HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n"); !strings.Contains(got, "Allow: ") {
		t.Errorf("OPTIONS with Max-Forwards 0: got %q, want an Allow field", got)
	}
	r.talk("OPTIONS " + o.URL + "/ HTTP/1.1\r\nHost: x\r\nMax-Forwards: 7\r\n\r\n")
	if forwards != "6" {
		t.Errorf("the origin got Max-Forwards %q, want 6", forwards)
	}
}

func TestIPv6(t *testing.T) {
	var head string
	o := rawOrigin(t, "tcp6", func(c net.Conn, br *bufio.Reader) {
		head = readHead(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	})
	r := start(t, Config{}, Engine{})
	if _, b := get(t, r.client(), "http://"+o+"/p"); b != "ok" || !strings.Contains(head, "\r\nHost: "+o+"\r\n") {
		t.Errorf("host in the target: got %q; the origin got %q", b, head)
	}
	if x := r.wait(1)[0]; x.Host != "::1" || x.URL != "http://"+o+"/p" {
		t.Errorf("record: got %+v, want host ::1", x)
	}
}

func TestVerdictsAreObeyed(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprint(w, "page of "+q.URL.RawQuery+q.Header.Get("X-Tenant"))
	})
	stageOf := func(s string) filter.Stage {
		return map[string]filter.Stage{"/name": filter.Name, "/request": filter.Request, "/upload": filter.RequestBody, "/response": filter.Response, "/body": filter.ResponseBody}[s]
	}
	r := start(t, Config{}, Engine{Decider: judge{
		wants: func(_ *filter.Transaction, s filter.Stage) bool { return true },
		decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
			path := strings.TrimPrefix(x.URL, o.URL)
			switch {
			case path == "/redirect":
				return filter.Verdict{Action: filter.Redirect, To: "http://elsewhere.test/"}
			case path == "/allow" && s > filter.Name:
				t.Errorf("the decider was called at stage %v after Allow", s)
			case path == "/allow":
				return filter.Verdict{Action: filter.Allow}
			case path == "/warn":
				return filter.Verdict{Action: filter.Warn, To: "to-ken", Reason: block("games").Reason}
			case strings.HasPrefix(path, "/edit"):
				return filter.Verdict{Edits: []filter.Edit{{Kind: filter.SetQuery, Name: "safe", Value: "a b"}, {Kind: filter.SetHeader, Name: "X-Tenant", Value: "t1"}}}
			case strings.HasPrefix(path, "/drop"):
				return filter.Verdict{Edits: []filter.Edit{{Kind: filter.DropQuery, Name: "utm_source"}}}
			case strings.HasPrefix(path, "/stand-in/"):
				v := block("ads")
				v.Reason.Finding.Modifier = "redirect=" + strings.TrimPrefix(path, "/stand-in/")
				return v
			case len(path) > 1 && stageOf(path) == s:
				return block("adult")
			}
			return filter.Verdict{}
		},
	}})
	c := r.client()
	for _, path := range []string{"/name", "/request", "/upload", "/response", "/body"} {
		res, err := c.Post(o.URL+path, "text/plain", strings.NewReader("upload"))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 403 || !strings.Contains(string(b), "adult") || strings.Contains(string(b), "page of") {
			t.Errorf("%s: got %d %q, want the block page", path, res.StatusCode, b)
		}
	}
	if res, _ := get(t, c, o.URL+"/redirect"); res.StatusCode != 302 || res.Header.Get("Location") != "http://elsewhere.test/" {
		t.Errorf("GET /redirect: got %v, want 302 to elsewhere.test", res)
	}
	if _, b := get(t, c, o.URL+"/allow"); !strings.HasPrefix(b, "page of") {
		t.Errorf("GET /allow: got %q, want the page", b)
	}
	if _, b := get(t, c, o.URL+"/edit?a=b&safe=off&c"); b != "page of a=b&c&safe=a+bt1" {
		t.Errorf("GET /edit: got %q, want the edited query at the origin", b)
	}
	for query, want := range map[string]string{"utm_source=x&a=%20b&utm_source&c": "a=%20b&c", "utm_source=1": "", "a=utm_source": "a=utm_source"} {
		if _, b := get(t, c, o.URL+"/drop?"+query); b != "page of "+want {
			t.Errorf("dropping parameters from %s: got %q", query, b)
		}
	}
	for name, want := range map[string]string{"noopjs:100": "200 text/javascript; charset=utf-8", "1x1.gif": "200 image/gif", "abp-resource:blank-css": "200 text/css; charset=utf-8", "chartbeat.js": "403 text/plain; charset=utf-8"} {
		res, _ := get(t, c, o.URL+"/stand-in/"+name)
		if got := fmt.Sprint(res.StatusCode, " ", res.Header.Get("Content-Type")); got != want {
			t.Errorf("stand-in %s: got %s, want %s", name, got, want)
		}
	}
	if res, b := get(t, c, o.URL+"/warn"); res.StatusCode != 403 || !strings.Contains(b, o.URL+"/warn?shuultuur-accept=to-ken") {
		t.Errorf("GET /warn: got %d %q, want a warn page with the link to continue", res.StatusCode, b)
	}
	if n := r.Stats().Connections; n != 1 {
		t.Errorf("%d connections, want 1: pages must not end the connection", n)
	}
}

func TestLastStageIsKnownBeforehand(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", q.URL.Query().Get("ct"))
		fmt.Fprint(w, "x")
	})
	var last []filter.Stage
	r := start(t, Config{}, Engine{Decider: judge{
		wants: func(x *filter.Transaction, s filter.Stage) bool {
			return string(x.Response.Get("Content-Type")) == "text/html"
		},
		decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
			if s == filter.Response {
				last = append(last, x.Last)
			} else if x.Last != filter.ResponseBody {
				t.Errorf("request decided at %v: the last stage is %v", s, x.Last)
			}
			return filter.Verdict{}
		},
	}})
	get(t, r.client(), o.URL+"/?ct=text/html")
	get(t, r.client(), o.URL+"/?ct=image/png")
	if len(last) != 2 || last[0] != filter.ResponseBody || last[1] != filter.Response {
		t.Errorf("last stages: got %v, want the response's body and the response", last)
	}
}

func TestAcceptedWarningBecomesACookie(t *testing.T) {
	var cookies []string
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { cookies = q.Header["Cookie"] })
	var asked []string
	r := start(t, Config{}, Engine{Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
		asked = append(asked, string(x.Request.Get("Cookie")))
		return filter.Verdict{}
	}}, Accept: func(_ context.Context, x *filter.Transaction, token string) (string, error) {
		if token != "click" || x.Host != "127.0.0.1" || !x.Client.Addr.IsLoopback() {
			return "", errors.New("no")
		}
		return "new-one", nil
	}})
	q, _ := http.NewRequest("GET", o.URL+"/p?a=b&shuultuur-accept=click&c=d", nil)
	q.Header.Set("Cookie", "x=y; shuultuur=t1.t2.t3.t4")
	res, err := r.client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	want := "shuultuur=new-one.t1.t2.t3; Path=/; HttpOnly; SameSite=Lax; Max-Age=86400"
	if res.StatusCode != 302 || res.Header.Get("Location") != o.URL+"/p?a=b&c=d" || res.Header.Get("Set-Cookie") != want {
		t.Errorf("request with a token: got %d %v, want a redirect with our cookie", res.StatusCode, res.Header)
	}
	q, _ = http.NewRequest("GET", o.URL+"/p", nil)
	q.Header.Set("Cookie", "shuultuur=new-one")
	if _, err := r.client().Do(q); err != nil {
		t.Fatal(err)
	}
	if len(asked) == 0 || asked[0] != "shuultuur=new-one" || len(cookies) != 0 {
		t.Errorf("cookies: the decider saw %q, the origin %q; want ours for the decider only", asked, cookies)
	}
	for _, bad := range []string{"a%0d%0aX:y", "", strings.Repeat("a", 600), "spent"} {
		res, _ := get(t, r.client(), o.URL+"/p?shuultuur-accept="+bad)
		if res.StatusCode != 302 || res.Header.Get("Set-Cookie") != "" || res.Header.Get("Location") != o.URL+"/p" {
			t.Errorf("invalid token %q: got %d %v, want a redirect without a cookie", bad, res.StatusCode, res.Header)
		}
	}
	if s := r.Stats(); s.Clicks != 1 || s.ClicksRefused != 4 {
		t.Errorf("%d clicks accepted and %d refused, want 1 and 4", s.Clicks, s.ClicksRefused)
	}
}

type loginError struct{}

func (loginError) Error() string        { return "no user" }
func (loginError) Challenges() []string { return []string{"Negotiate", `Basic realm="gate"`} }

type waitError struct{}

func (waitError) Error() string                    { return "too many wrong passwords" }
func (waitError) RetryAfter() (int, time.Duration) { return 429, 1500 * time.Millisecond }

func TestIdentity(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {})
	r := start(t, Config{Trusted: loopback}, Engine{Identify: func(_ context.Context, a netip.Addr, auth []byte) (filter.Client, error) {
		switch string(auth) {
		case "Basic eDp5":
			return filter.Client{Addr: a, User: "x"}, nil
		case "bad":
			return filter.Client{}, errors.New("directory is down")
		case "guess":
			return filter.Client{}, waitError{}
		}
		return filter.Client{}, loginError{}
	}})
	for _, tt := range []struct{ auth, forwarded, client, status string }{
		{"Basic eDp5", "", "127.0.0.1", "200"},
		{"Basic eDp5", "192.0.2.7", "192.0.2.7", "200"},
		{"Basic eDp5", "203.0.113.9, 192.0.2.7, 127.0.0.5", "192.0.2.7", "200"},
		{"Basic eDp5", "192.0.2.7:4711", "192.0.2.7", "200"},
		{"Basic eDp5", "[2001:db8::1]:4711, 127.0.0.5:80", "2001:db8::1", "200"},
		{"Basic eDp5", "[2001:db8::1]", "2001:db8::1", "200"},
		{"Basic eDp5", "\"[2001:db8::1]:4711\"", "2001:db8::1", "200"},
		{"Basic eDp5", "192.0.2.7:", "127.0.0.1", "200"},
		{"Basic eDp5", "junk", "127.0.0.1", "200"},
		{"", "", "127.0.0.1", "407"},
		{"bad", "", "127.0.0.1", "403"},
		{"guess", "", "127.0.0.1", "429"},
	} {
		s := "GET " + o.URL + " HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + tt.auth + "\r\n"
		if tt.forwarded != "" {
			s += "X-Forwarded-For: " + tt.forwarded + "\r\n"
		}
		got := r.talk(s + "\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 "+tt.status) {
			t.Errorf("%+v: got %q with the wrong status", tt, got)
		}
		if tt.status == "407" && !strings.Contains(got, "\r\nProxy-Authenticate: Basic realm=\"gate\"\r\n") {
			t.Errorf("no Proxy-Authenticate in %q", got)
		}
		if tt.status == "429" && !strings.Contains(got, "\r\nRetry-After: 2\r\n") {
			t.Errorf("no Retry-After in %q", got)
		}
	}
	for i, x := range r.wait(12) {
		want := [...]string{"127.0.0.1", "192.0.2.7", "192.0.2.7", "192.0.2.7", "2001:db8::1", "2001:db8::1", "2001:db8::1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"}[i]
		if x.Client.Addr.String() != want {
			t.Errorf("record %d: client %v, want %v", i, x.Client.Addr, want)
		}
		// A connection that was refused is on record as refused, not as passed.
		if refused := x.Action == filter.Block && x.Category == "refused"; refused != (x.Status != 200) {
			t.Errorf("record %d, status %d: got action %s, category %q", i, x.Status, x.Action, x.Category)
		}
	}
}

func TestForwardedForOfStrangersIsNotBelieved(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {})
	r := start(t, Config{}, Engine{})
	r.talk("GET " + o.URL + " HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n")
	if x := r.wait(1)[0]; !x.Client.Addr.IsLoopback() {
		t.Errorf("record has client %v, want a loopback address", x.Client.Addr)
	}
}
