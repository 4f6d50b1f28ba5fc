package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/lib/message/proxyprotocol"
	"shuultuur/lib/setting"
)

// TestNoRequestPassesATunnelUnread: what a lenient server would read as a request does not reach it
// through a tunnel unless the proxy has read it too.
func TestNoRequestPassesATunnelUnread(t *testing.T) {
	reached := make(chan string, 100)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 1000)
				if n, _ := c.Read(b); n > 0 {
					reached <- string(b[:n])
				}
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	r := start(t, Config{ConnectPorts: []string{port}}, Engine{})
	for _, first := range []string{"  GET /bad HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET /bad HTTP/1.1\r\nHost: x\r\n\r\n", proxyprotocol.V2 + "\x21\x11\x00\x00GET /bad HTTP/1.1\r\nHost: x\r\n\r\n"} {
		c, br := r.raw()
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", ln.Addr())
		if res, err := http.ReadResponse(br, &http.Request{Method: "CONNECT"}); err != nil || res.StatusCode != 200 {
			t.Fatalf("CONNECT: %v, %v", res, err)
		}
		_, _ = io.WriteString(c, first)
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		answer, _ := io.ReadAll(br)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 4") && !strings.HasPrefix(string(answer), "HTTP/1.1 5") {
			t.Errorf("%q is answered with %q, want a refusal", first, answer)
		}
		c.Close()
	}
	select {
	case got := <-reached:
		t.Errorf("the server got %q", got)
	default:
	}
}

// TestTunnelsAreRefusedByWhatIsSaidFirst: a rule about what is said first refuses the tunnel before a byte
// has left, whether it comes in one piece or byte by byte, and whether client or server speaks first.
func TestTunnelsAreRefusedByWhatIsSaidFirst(t *testing.T) {
	for _, tt := range []struct {
		name, client, server string // what each says first; the client waits for a server that speaks
		kind                 string // found
		pass                 bool
	}{
		{"SSH", "SSH-2.0-x\r\n", "", "ssh", false},
		{"OpenVPN", "\x00\x0e\x38" + strings.Repeat("\x01", 13), "", "vpn", false},
		{"WireGuard", "\x01\x00\x00\x00" + strings.Repeat("x", 144), "", "vpn", false},
		{"RDP", "\x03\x00\x00\x13\x0e\xe0\x00", "", "unknown", false},
		{"random bytes", "\xd3\x91\x02\x44\x90", "", "unknown", false},
		{"a TLS hello of a server", "\x16\x03\x01\x02\x00\x02", "", "unknown", false},
		{"a mail server", "", "220 mail.example ESMTP\r\n", "unknown", false},
		{"an SSH server", "", "SSH-2.0-x\r\n", "ssh", false},
		{"nothing at all", "", "", "unknown", false},
		{"what no rule refuses", "PERMITTED.\n", "", "unknown", true},
		{"a server that no rule refuses", "", "PERMITTED.\n", "unknown", true},
	} {
		for _, piece := range []int{1 << 20, 1} {
			reached := make(chan string, 10)
			o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
				_, _ = io.WriteString(c, tt.server)
				b, _ := io.ReadAll(br)
				reached <- string(b)
			})
			r := start(t, Config{}, Engine{Tunnels: true, Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
				if x.Opening.Kind == "" || x.Opening.Kind == "tls" || x.Opening.Kind == "http" || strings.Contains(x.Opening.Says, "50 45 52 4d") {
					return filter.Verdict{}
				}
				v := block("tunnel")
				v.Reason.Finding.Category = x.Opening.Kind
				return v
			}}})
			c, br := r.tunnelTo(o)
			for rest := tt.client; rest != ""; {
				n := min(piece, len(rest))
				if _, err := io.WriteString(c, rest[:n]); err != nil {
					break // it has been refused
				}
				rest = rest[n:]
			}
			if tt.server == "" {
				_ = c.(*net.TCPConn).CloseWrite()
			}
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			answer := ""
			if tt.pass && tt.server != "" {
				answer, _ = br.ReadString('\n')
				c.Close()
			} else {
				b, _ := io.ReadAll(br)
				answer = string(b)
			}
			if want := tt.server; tt.pass && answer != want || !tt.pass && answer != "" {
				t.Errorf("%s in pieces of %d: the client got %q", tt.name, piece, answer)
			}
			x := r.wait(1)[0]
			if refused := x.Action == filter.Block; refused == tt.pass || refused && x.Category != tt.kind {
				t.Errorf("%s in pieces of %d: recorded as %v by %q (%s), want %s", tt.name, piece, x.Action, x.Category, x.Note, tt.kind)
			}
			if got := <-reached; tt.pass && got != tt.client || !tt.pass && got != "" {
				t.Errorf("%s in pieces of %d: the server got %q", tt.name, piece, got)
			}
		}
	}
}

// TestARequestInATunnelThatARuleRefusesGetsAPage: where rules refuse requests without TLS in tunnels, the
// client is told so, and behind an exception for the host the tunnel passes.
func TestARequestInATunnelThatARuleRefusesGetsAPage(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "secret") })
	host := strings.TrimPrefix(o.URL, "http://")
	ask := func(r *rig, request string) string {
		c, br := r.tunnelTo(host)
		defer c.Close()
		_, _ = io.WriteString(c, request)
		b, _ := io.ReadAll(br)
		return string(b)
	}
	request := "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
	r := start(t, Config{}, Engine{Tunnels: true, Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
		if x.Opening.Kind == "http" {
			return block("http")
		}
		return filter.Verdict{}
	}}})
	if got := ask(r, request); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("a refused request in a tunnel: %q, want the block page", got)
	}
	r = start(t, Config{}, Engine{Tunnels: true, Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
		if x.Proto == filter.TLS && x.Opening.Kind == "http" {
			return filter.Verdict{Action: filter.Allow}
		}
		if x.Proto == filter.HTTP {
			return block("judged one by one")
		}
		return filter.Verdict{}
	}}})
	if got := ask(r, request); !strings.Contains(got, "secret") {
		t.Errorf("a request in a tunnel that is allowed: %q, want it to pass", got)
	}
}

// TestWhatMayStillBecomeARequestDoesNotPass: a client that stops in the middle of a request's first words
// until the time for it is over gets nothing through.
func TestWhatMayStillBecomeARequestDoesNotPass(t *testing.T) {
	reached := make(chan string, 10)
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		b, _ := io.ReadAll(br)
		reached <- string(b)
	})
	r := start(t, Config{HeadTime: setting.Duration(50 * time.Millisecond)}, Engine{})
	c, br := r.tunnelTo(o)
	_, _ = io.WriteString(c, "G")
	_, _ = io.ReadAll(br)
	if got := <-reached; got != "" {
		t.Errorf("the server got %q", got)
	}
}

// TestTorIsToldByItsNames: a hello for a made-up name that is not that of the address is one of Tor.
func TestTorIsToldByItsNames(t *testing.T) {
	r := start(t, Config{}, Engine{Tunnels: true})
	r.resolve("www.abcdefghijk.com", "192.0.2.1")
	r.names.mu.Lock()
	r.names.of["www.zzzzzzzzzz234.com"] = addresses{none: true, until: time.Now().Add(time.Hour)}
	r.names.of["www.away567away.com"] = addresses{until: time.Now().Add(time.Hour)}
	r.names.mu.Unlock()
	x := &request{p: r.Proxy, ctx: t.Context()}
	for _, tt := range []struct {
		name, to, protocol string
		want               bool
	}{
		{"www.zzzzzzzzzz234.com", "192.0.2.9", "", true}, {"www.abcdefghijk.com", "192.0.2.9", "", true},
		{"www.abcdefghijk.com", "192.0.2.1", "", false}, {"www.abcdefghijk.com", "www.abcdefghijk.com", "", false}, {"www.abcdefghijk.com", "192.0.2.9", "h2", false},
		{"www.away567away.com", "192.0.2.9", "", false}, {"www.example.org", "192.0.2.9", "", false}, {"", "192.0.2.9", "", false},
	} {
		h := &intercept.Hello{Host: tt.name}
		if tt.protocol != "" {
			h.Protocols = []string{tt.protocol}
		}
		if got := x.isTor(h, tt.to); got != tt.want {
			t.Errorf("a hello for %q to %s with %q is one of Tor: %v, want %v", tt.name, tt.to, tt.protocol, got, tt.want)
		}
	}
}
