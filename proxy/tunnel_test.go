package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message/proxyprotocol"
	"shuultuur/lib/setting"
	"shuultuur/proxy/upstream"
)

// tunnelTo opens a tunnel through the proxy.
func (r *rig) tunnelTo(host string) (net.Conn, *bufio.Reader) {
	r.t.Helper()
	c, br := r.raw()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", host, host)
	if head := readHead(br); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
		r.t.Fatalf("CONNECT %s: got %q, want 200", host, head)
	}
	return c, br
}

// echo returns everything, and ends when the other side does.
func echo(c net.Conn, br *bufio.Reader) {
	// Hidden behind plain interfaces, so that no pipes are used here.
	io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{br})
}

func TestTunnelCarriesBytesBothWaysAndHalfCloses(t *testing.T) {
	o := rawOrigin(t, "tcp", echo)
	r := start(t, Config{}, Engine{})
	data := bytes.Repeat([]byte("some bytes "), 300_000)
	c, br := r.tunnelTo(o)
	go func() {
		c.Write(data)
		c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(br)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("echo: got %d of %d bytes, error %v", len(got), len(data), err)
	}
	x := r.wait(1)[0]
	if x.In != int64(len(data)) || x.Out != int64(len(data)) || x.Status != 200 || x.Proto != filter.TLS || x.URL != o {
		t.Errorf("record of the tunnel: got %+v", x)
	}
}

func TestServerMaySpeakFirstInATunnel(t *testing.T) {
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		io.WriteString(c, "220 hello\r\n")
		echo(c, br)
	})
	r := start(t, Config{}, Engine{})
	c, br := r.tunnelTo(o)
	if s, _ := br.ReadString('\n'); s != "220 hello\r\n" {
		t.Fatalf("greeting through the tunnel: got %q, want 220 hello", s)
	}
	io.WriteString(c, "QUIT\r\n")
	if s, _ := br.ReadString('\n'); s != "QUIT\r\n" {
		t.Errorf("the server got %q, want QUIT", s)
	}
}

func TestTunnelIsJudgedByHostAndByHello(t *testing.T) {
	o := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "secret") }))
	o.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer o.Close()
	host := strings.TrimPrefix(o.URL, "https://")
	var asked atomic.Int32
	r := start(t, Config{}, Engine{Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
		asked.Add(1)
		if x.Last != filter.Name || s != filter.Name || x.Proto != filter.TLS {
			t.Errorf("decider called at %v, last stage %v, protocol %v", s, x.Last, x.Proto)
		}
		switch x.Host {
		case "bad.test", "blocked.test":
			return block("adult")
		case "localhost":
			return filter.Verdict{Action: filter.Allow}
		}
		return filter.Verdict{}
	}}})
	tlsTo := func(connect, sni string) (string, error) {
		c, br := r.tunnelTo(connect)
		defer c.Close()
		tc := tls.Client(&buffered{c, br}, &tls.Config{ServerName: sni, InsecureSkipVerify: true})
		if err := tc.Handshake(); err != nil {
			return "", err
		}
		fmt.Fprintf(tc, "GET / HTTP/1.0\r\n\r\n")
		b, _ := io.ReadAll(tc)
		return string(b), nil
	}
	if got, err := tlsTo(host, "good.test"); err != nil || !strings.Contains(got, "secret") {
		t.Errorf("hello for good.test: got %q, %v", got, err)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("decider called %d times, want 2: for CONNECT and for the hello", n)
	}
	if got, err := tlsTo(host, "Bad.Test"); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("hello for Bad.Test: got %q, %v, want access denied", got, err)
	}
	if got, err := tlsTo(strings.Replace(host, "127.0.0.1", "localhost", 1), "bad.test"); err == nil {
		t.Errorf("allowed at CONNECT, hello for bad.test: got %q, want a refusal", got)
	}
	got := r.talk("CONNECT blocked.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, "adult") {
		t.Errorf("blocked CONNECT: got %q, want the block page", got)
	}
	fronted := 0
	for _, x := range r.wait(4) {
		if x.Host == "bad.test" && x.Action == filter.Block && x.Note != "" {
			fronted++
		}
	}
	if fronted != 2 {
		t.Errorf("%d records of the blocked hello, want 2", fronted)
	}
}

// buffered is a connection whose first bytes were already read by a reader.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

func TestConnectPorts(t *testing.T) {
	o := rawOrigin(t, "tcp", echo)
	r := start(t, Config{ConnectPorts: []string{"443"}}, Engine{})
	if got := r.talk("CONNECT " + o + " HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("CONNECT to a forbidden port: got %q, want 403", got)
	}
	if got := r.talk("CONNECT 10.1.2.3:443 HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, "private") {
		t.Errorf("CONNECT to a private address: got %q, want 403 with the reason", got)
	}
}

func TestSilentTunnelEnds(t *testing.T) {
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		for range 5 {
			io.WriteString(c, "x")
			time.Sleep(20 * time.Millisecond) // an origin's pace, not a guess about ours
		}
		br.ReadByte()
	})
	var r *rig
	for tries := 1; ; tries++ { // a busy machine may keep the origin from its pace
		r = start(t, Config{Tunnel: setting.Duration(50 * time.Millisecond)}, Engine{})
		_, br := r.tunnelTo(o)
		b, _ := io.ReadAll(br)
		if string(b) == "xxxxx" {
			break
		}
		if tries == 5 {
			t.Fatalf("bytes through the silent tunnel: got %q, want xxxxx", b)
		}
	}
	x := r.wait(1)[0]
	if n := r.Stats().TunnelsOpen; x.Out != 5 || n != 0 || !strings.Contains(x.Note, "silent") {
		t.Errorf("silent tunnel: %d open, record %+v", n, x)
	}
}

const websocket = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"

func TestUpgradeIsPassedByRule(t *testing.T) {
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		if head := readHead(br); !strings.Contains(head, "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n") {
			io.WriteString(c, "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n")
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: z\r\n\r\nfirst")
		echo(c, br)
	})
	r := start(t, Config{}, Engine{Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
		if strings.HasSuffix(x.URL, "/no") && x.Request.Upgrade != nil {
			return block("websocket")
		}
		return filter.Verdict{}
	}}})
	c, br := r.raw()
	fmt.Fprintf(c, "GET http://%s/ws HTTP/1.1\r\nHost: x\r\n%s\r\nsecond", o, websocket)
	head := readHead(br)
	if !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, "Sec-WebSocket-Accept: z\r\n") || !strings.Contains(head, "Connection: Upgrade\r\nUpgrade: websocket\r\n") {
		t.Fatalf("WebSocket: got %q, want 101", head)
	}
	c.(*net.TCPConn).CloseWrite()
	if b, _ := io.ReadAll(br); string(b) != "firstsecond" {
		t.Errorf("bytes after the upgrade: got %q, want firstsecond", b)
	}
	if x := r.wait(1)[0]; x.Status != 101 || x.In != 6 || x.Out != 11 {
		t.Errorf("record of the WebSocket: got %+v", x)
	}
	if got := r.talk(fmt.Sprintf("GET http://%s/no HTTP/1.1\r\nHost: x\r\n%s\r\n", o, websocket)); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("WebSocket that a rule blocks: got %q, want 403", got)
	}
	if got := r.talk(fmt.Sprintf("GET http://%s/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n", o)); !strings.HasPrefix(got, "HTTP/1.1 426 ") {
		t.Errorf("upgrade to h2c: got %q, want 426", got)
	}
}

func TestParentProxy(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "via ", q.Header.Get("Via")) })
	up := start(t, Config{Via: "up"}, Engine{})
	echoes := rawOrigin(t, "tcp", echo)
	var heads = make(chan string, 10)
	p := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) { // looks at the bytes and forwards them to up
		u, err := net.Dial("tcp", up.addr)
		if err != nil {
			return
		}
		defer u.Close()
		head := readHead(br)
		heads <- head
		io.WriteString(u, head)
		go func() {
			io.Copy(u, br)
			u.(*net.TCPConn).CloseWrite()
		}()
		io.Copy(c, u)
	})
	r := start(t, Config{Via: "down", Upstream: upstream.Config{Parent: "http://us:pw@" + p, NoParent: []string{"localhost", "10.0.0.0/8"}}}, Engine{})
	if _, b := get(t, r.client(), o.URL+"/x?y"); b != "via 1.1 down, 1.1 up" && b != "via 1.1 down" {
		t.Errorf("plain request through the parent: got %q", b)
	}
	head := <-heads
	if !strings.HasPrefix(head, "GET "+o.URL+"/x?y HTTP/1.1\r\n") || !strings.Contains(head, "\r\nProxy-Authorization: Basic dXM6cHc=\r\n") {
		t.Errorf("plain request: the parent got %q", head)
	}
	c, br := r.tunnelTo(echoes)
	io.WriteString(c, "ping\n")
	if s, _ := br.ReadString('\n'); s != "ping\n" {
		t.Errorf("tunnel through the parent: got %q, want ping", s)
	}
	c.Close()
	if head = <-heads; !strings.HasPrefix(head, "CONNECT "+echoes+" HTTP/1.1\r\n") || !strings.Contains(head, "\r\nProxy-Authorization: Basic dXM6cHc=\r\n") {
		t.Errorf("tunnel: the parent got %q", head)
	}
	if _, b := get(t, r.client(), strings.Replace(o.URL, "127.0.0.1", "localhost", 1)); b != "via 1.1 down" {
		t.Errorf("host in no-parent: got %q, want a direct request", b)
	}
	if len(heads) != 0 {
		t.Errorf("host in no-parent: the parent got %q", <-heads)
	}
	if res, _ := get(t, r.client(), "http://192.168.1.1/"); res.StatusCode != 403 {
		t.Errorf("private address through the parent: got %d, want 403", res.StatusCode)
	}
}

func TestHTTPSProxyOnTheSamePort(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { io.Copy(w, q.Body); fmt.Fprint(w, "hello") })
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	defer cert.Close()
	echoes := rawOrigin(t, "tcp", echo)
	r := start(t, Config{}, Engine{TLS: &tls.Config{Certificates: cert.TLS.Certificates}})
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "https", Host: r.addr}), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr, Timeout: time.Minute}
	for range 2 {
		if _, b := get(t, c, o.URL); b != "hello" {
			t.Errorf("request through an HTTPS proxy: got %q, want hello", b)
		}
	}
	if _, b := get(t, r.client(), o.URL); b != "hello" {
		t.Errorf("plain HTTP on the TLS port: got %q", b)
	}
	tc, err := tls.Dial("tcp", r.addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tc.Close()
	fmt.Fprintf(tc, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", echoes)
	br := bufio.NewReader(tc)
	readHead(br)
	data := bytes.Repeat([]byte("x"), 200_000)
	go func() {
		tc.Write(data)
		tc.CloseWrite()
	}()
	if b, err := io.ReadAll(br); len(b) != len(data) || err != nil {
		t.Errorf("tunnel in TLS: got %d bytes, error %v", len(b), err)
	}
	r2 := start(t, Config{}, Engine{})
	if _, err := tls.Dial("tcp", r2.addr, &tls.Config{InsecureSkipVerify: true}); err == nil || r2.Stats().NoTLS != 1 {
		t.Errorf("TLS to a proxy without certificate: got error %v, or it was not counted", err)
	}
}

// longPROXY is a header of version 2 with so many bytes of addresses and TLVs.
func longPROXY(n int) string {
	return proxyprotocol.V2 + "\x21\x11" + string([]byte{byte(n >> 8), byte(n)}) + "\xc0\x00\x02\x07\x7f\x00\x00\x01\x04\xd2\x1f\x90" + strings.Repeat("\x00", n-12)
}

func TestPROXYProtocolOfTrustedOnly(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {})
	request := "GET " + o.URL + " HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.5\r\n\r\n"
	v2 := proxyprotocol.V2 + "\x21\x11\x00\x0c\xc0\x00\x02\x07\x7f\x00\x00\x01\x04\xd2\x1f\x90"
	for _, tt := range []struct {
		trusted []netip.Prefix
		header  string
		client  string // "" when refused
	}{
		{loopback, "PROXY TCP4 192.0.2.7 127.0.0.1 1234 8080\r\n", "192.0.2.7"},
		{loopback, v2, "192.0.2.7"},
		{loopback, longPROXY(12 + 728), "192.0.2.7"},
		{loopback, longPROXY(4080), "192.0.2.7"}, // as long as the buffer
		{loopback, longPROXY(4081), "192.0.2.7"},
		{loopback, longPROXY(12 + 4096), "192.0.2.7"},
		{loopback, longPROXY(60_000), ""},
		{loopback, "PROXY UNKNOWN\r\n", "203.0.113.5"},
		{loopback, "", "203.0.113.5"},
		{loopback, "PROXY TCP4 what\r\n", ""},
		{nil, "PROXY TCP4 192.0.2.7 127.0.0.1 1234 8080\r\n", ""},
	} {
		r := start(t, Config{Trusted: tt.trusted}, Engine{})
		got := r.talk(tt.header + request)
		if tt.client == "" {
			if strings.HasPrefix(got, "HTTP/1.1 200") {
				t.Errorf("PROXY header %q with trusted %v: passed, want a refusal", tt.header, tt.trusted)
			}
			continue
		}
		if x := r.wait(1)[0]; x.Client.Addr.String() != tt.client || x.Status != 200 {
			t.Errorf("PROXY header %q: record %+v, want client %s", tt.header, x, tt.client)
		}
	}
}

func TestIdleTunnelsHoldTwoSocketsOnly(t *testing.T) {
	if descriptors() < 0 {
		t.Skip("no /proc/self/fd")
	}
	o := rawOrigin(t, "tcp", echo)
	r := start(t, Config{}, Engine{})
	data := bytes.Repeat([]byte("x"), 1<<20)
	before := descriptors()
	const n = 20
	for range n {
		c, br := r.tunnelTo(o)
		go c.Write(data)
		if _, err := io.ReadFull(br, make([]byte, len(data))); err != nil {
			t.Fatal(err)
		}
	}
	// Four per tunnel: the client's, our two, the origin's. The garbage collector closes pipes.
	deadline := time.Now().Add(time.Minute)
	for descriptors() > before+4*n+2 && time.Now().Before(deadline) {
		runtime.GC()
		time.Sleep(50 * time.Millisecond)
	}
	if got := descriptors() - before; got > 4*n+2 {
		t.Errorf("%d idle tunnels hold %d descriptors, want at most %d", n, got, 4*n)
	}
	if n := r.Stats().Held; n != 0 {
		t.Errorf("idle tunnels hold %d bytes, want none", n)
	}
}

func TestRequestsWithoutTLSInATunnelAreJudged(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "secret of ", q.Host, q.URL) })
	host := strings.TrimPrefix(o.URL, "http://")
	allowed := strings.Replace(host, "127.0.0.1", "localhost", 1)
	r := start(t, Config{}, Engine{Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
		switch {
		case x.Host == "localhost":
			return filter.Verdict{Action: filter.Allow}
		case strings.Contains(x.URL, "/bad"), x.Host == "bad.test":
			return block("adult")
		}
		return filter.Verdict{}
	}}})
	ask := func(to, request string) string {
		c, br := r.tunnelTo(to)
		defer c.Close()
		for _, part := range []string{request[:2], request[2:7], request[7:]} {
			io.WriteString(c, part)
			time.Sleep(time.Millisecond) // usually separate segments
		}
		b, _ := io.ReadAll(br)
		return string(b)
	}
	for _, c := range []struct{ to, request, want string }{
		{host, "GET /good HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n", "secret of " + host + "/good"},
		{host, "GET /good HTTP/1.0\r\n\r\n", "secret of " + host + "/good"},
		{host, "GET /bad HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n", "403 "},
		{host, "GET /good HTTP/1.1\r\nHost: bad.test\r\nConnection: close\r\n\r\n", "403 "},
		{host, "GET /good HTTP/1.1\r\nHost: " + host + "\r\n\r\nGET /bad HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n", "403 "},
		{allowed, "GET /bad HTTP/1.1\r\nHost: " + allowed + "\r\nConnection: close\r\n\r\n", "secret of " + allowed + "/bad"},
	} {
		if got := ask(c.to, c.request); !strings.Contains(got, c.want) {
			t.Errorf("tunnel to %s, %q: got %q, want %q", c.to, c.request, got, c.want)
		}
	}
}
