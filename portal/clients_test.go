package portal

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/cert"
)

// TestASessionIsThatOfTheClientBehindATrustedProxy: not the proxy's, and nobody's if the proxy
// names no address.
func TestASessionIsThatOfTheClientBehindATrustedProxy(t *testing.T) {
	for _, tt := range []struct {
		from  string
		lists []string
		want  string // "" for none
	}{
		{"192.0.2.1", nil, "192.0.2.1"},
		{"192.0.2.1", []string{"10.0.0.7"}, "10.0.0.7"},
		{"192.0.2.1", []string{"10.0.0.7, 192.0.2.9"}, "10.0.0.7"},
		{"192.0.2.1", []string{"10.0.0.7", "192.0.2.9"}, "10.0.0.7"},
		{"192.0.2.1", []string{"198.51.100.1, 10.0.0.7"}, "10.0.0.7"},
		{"192.0.2.1", []string{"198.51.100.1", "10.0.0.7"}, "10.0.0.7"},
		{"192.0.2.1", []string{`"[2001:db8::1]:80"`}, "2001:db8::1"},
		{"192.0.2.1", []string{"unknown"}, ""},
		{"192.0.2.1", []string{"10.0.0.7, unknown"}, ""},
		{"10.0.0.8", []string{"10.0.0.7"}, "10.0.0.8"},
	} {
		g := newGate(t, Config{}, place, func(e *Engine) { e.Trusted = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} })
		r := httptest.NewRequest("POST", "/sign-in", strings.NewReader(url.Values{"name": {"anna"}, "password": {"secret"}}.Encode()))
		r.RemoteAddr = tt.from + ":1234"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for _, l := range tt.lists {
			r.Header.Add("X-Forwarded-For", l)
		}
		g.ServeHTTP(httptest.NewRecorder(), r)
		got := ""
		if len(g.begun) == 1 && g.begun[0].Addr.IsValid() {
			got = g.begun[0].Addr.String()
		}
		if got != tt.want {
			t.Errorf("from %s for %q: a session of %q, want %q", tt.from, tt.lists, got, tt.want)
		}
	}
}

// served starts the portal on a loopback port.
func served(t *testing.T, serve func(context.Context, net.Listener) error) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l) }()
	t.Cleanup(func() { stop(); <-ended })
	return l.Addr().String()
}

const form = "name=anna&password=secret"

var post = fmt.Sprintf("POST /sign-in HTTP/1.1\r\nHost: gate.example\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(form), form)

// TestAPROXYHeaderNamesTheClient: of a trusted proxy, before TLS as well; another one's is no
// request.
func TestAPROXYHeaderNamesTheClient(t *testing.T) {
	certFile, keyFile := cert.Files(t, t.TempDir(), "gate.example")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	v2 := "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x0a\x00\x00\x07\x7f\x00\x00\x01\x04\xd2\x00\x50"
	for _, tt := range []struct {
		header, trusted, want string
	}{
		{"", "127.0.0.0/8", "127.0.0.1"},
		{"PROXY TCP4 10.0.0.7 127.0.0.1 1234 80\r\n", "127.0.0.0/8", "10.0.0.7"},
		{"PROXY UNKNOWN\r\n", "127.0.0.0/8", "127.0.0.1"},
		{v2, "127.0.0.0/8", "10.0.0.7"},
		{"PROXY nonsense\r\n", "127.0.0.0/8", ""},
		{"PROXY TCP4 10.0.0.7 127.0.0.1 1234 80\r\n", "192.0.2.0/24", ""},
	} {
		for _, secure := range []bool{false, true} {
			g := newGate(t, Config{}, place, func(e *Engine) {
				e.Trusted, e.TLS = []netip.Prefix{netip.MustParsePrefix(tt.trusted)}, &tls.Config{Certificates: []tls.Certificate{pair}}
			})
			serve := g.Serve
			if secure {
				serve = g.ServeTLS
			}
			c, err := net.Dial("tcp", served(t, serve))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(c, tt.header)
			if secure {
				c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
			}
			_, _ = io.WriteString(c, post)
			answer, _ := io.ReadAll(c)
			c.Close()
			got := ""
			if len(g.begun) == 1 {
				got = g.begun[0].Addr.String()
			}
			if got != tt.want {
				t.Errorf("%q, trusted %s, TLS %v: a session of %q, want %q: %.80q", tt.header, tt.trusted, secure, got, tt.want, answer)
			}
			if strings.Contains(string(answer), "Set-Cookie") && strings.Contains(string(answer), "; Secure") != secure {
				t.Errorf("TLS %v: cookies are wrong: %s", secure, answer)
			}
		}
	}
}

// TestASilentProxyHoldsNobodyUp: a connection whose header does not come delays no other.
func TestASilentProxyHoldsNobodyUp(t *testing.T) {
	g := newGate(t, Config{}, place, func(e *Engine) { e.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	addr := served(t, g.Serve)
	for range 3 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "PROXY TC")
	}
	r, err := http.Get("http://" + addr + "/wpad.dat")
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("beside silent connections: %v, %v", r, err)
	}
	r.Body.Close()
}

// TestTheProxyHandsConnectionsOver: a client's connection to the portal through the proxy is the
// client's, and ServeClient returns when it ends.
func TestTheProxyHandsConnectionsOver(t *testing.T) {
	certFile, keyFile := cert.Files(t, t.TempDir(), "gate.example")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t, Config{}, place, func(e *Engine) { e.TLS = &tls.Config{Certificates: []tls.Certificate{pair}} })
	near, far := net.Pipe()
	over := make(chan bool)
	go func() { g.ServeClient(t.Context(), &from{near, "10.0.0.7:1"}); close(over) }()
	c := tls.Client(far, &tls.Config{InsecureSkipVerify: true})
	_, _ = io.WriteString(c, post)
	if answer, _ := io.ReadAll(c); !strings.HasPrefix(string(answer), "HTTP/1.1 303") {
		t.Errorf("signing in gets %.80q", answer)
	}
	far.Close()
	waittest.Until(t, "the end of the connection", func() bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	})
	if len(g.begun) != 1 || g.begun[0].Addr.String() != "10.0.0.7" {
		t.Errorf("sessions %v, want one of 10.0.0.7", g.begun)
	}
}

// A from is a connection from another address.
type from struct {
	net.Conn
	addr string
}

func (c *from) RemoteAddr() net.Addr { a, _ := net.ResolveTCPAddr("tcp", c.addr); return a }

// TestWhatIsThePortal: its name and addresses, at its ports.
func TestWhatIsThePortal(t *testing.T) {
	at := place
	at.Name = "gate.example"
	for _, a := range []string{"0.0.0.0:80", "10.0.0.1:8088"} {
		at.Plain = append(at.Plain, address(t, a))
	}
	at.TLS = append(at.TLS, address(t, "[::]:443"))
	g := newGate(t, Config{}, at, nil)
	local := netip.MustParseAddr("192.0.2.1")
	for _, tt := range []struct {
		host       string
		port       uint16
		there, tls bool
	}{
		{"gate.example", 80, true, false}, {"GATE.example", 443, true, true}, {"gate.example", 8088, true, false}, {"gate.example", 8080, false, false},
		{"192.0.2.1", 80, true, false}, {"192.0.2.1", 443, true, true}, {"192.0.2.1", 8088, false, false}, {"10.0.0.1", 8088, true, false},
		{"10.0.0.2", 80, false, false}, {"other.example", 80, false, false}, {"agate.example", 80, false, false}, {"", 80, false, false},
	} {
		if there, tls := g.Has(tt.host, tt.port, local); there != tt.there || tls != tt.tls {
			t.Errorf("%s port %d: %v, TLS %v; want %v, %v", tt.host, tt.port, there, tls, tt.there, tt.tls)
		}
	}
}

func address(t *testing.T, s string) setting.Address {
	t.Helper()
	a := setting.Address(s)
	if !a.AddrPort().IsValid() {
		t.Fatalf("%q is not an address", s)
	}
	return a
}
