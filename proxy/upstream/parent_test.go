package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"shuultuur/lib/message"
)

// newParent starts a parent proxy. It answers requests with what it got, and joins CONNECT to
// an address, or refuses it if that is "".
func newParent(t *testing.T, to string) *origin {
	t.Helper()
	return newOrigin(t, func(s *side) {
		for r := s.request(); r != nil; r = s.request() {
			if r.Method != http.MethodConnect {
				text := fmt.Sprintf("%s %s|%s|%s|%s", r.Method, r.RequestURI, r.Host, r.Header.Get("Proxy-Authorization"), r.Header.Get(message.LoopField))
				s.write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
				continue
			}
			if to == "" {
				s.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			c, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer c.Close()
			s.write("HTTP/1.1 200 OK\r\nVia: " + r.Header.Get("Via") + "\r\n\r\n")
			go func() { defer c.Close(); _, _ = io.Copy(c, s) }()
			_, _ = io.Copy(s.Conn, c)
			return
		}
	})
}

// RFC 9112, 3.2.2: a proxy gets the whole URL.
func TestAParentGetsTheWholeURLWithOurMark(t *testing.T) {
	t.Parallel()
	o := newParent(t, "")
	up := newTransport(t, Config{Parent: "http://gate:p%40ss@" + o.addr})
	c := &Caller{Passed: []byte("before")}
	for _, host := range []string{"www.example.test", "other.example.test"} {
		q := &message.Request{Method: "GET", Scheme: "http", Host: []byte(host), Path: []byte("/a?b"), Proto: 11}
		want := "GET http://" + host + "/a?b|" + host + "|Basic Z2F0ZTpwQHNz|before, " + string(up.Mark())
		if _, got := trip(t, c.Context(t.Context()), up, q); got != want {
			t.Errorf("the parent got %s, want %s", got, want)
		}
		if !c.Parent || c.Server.String() != "127.0.0.1" {
			t.Errorf("the request was sent to %v, of the parent %v", c.Server, c.Parent)
		}
	}
	if n := o.conns.Load(); n != 1 {
		t.Errorf("%d connections to the parent for two hosts, want one", n)
	}
}

func TestHostsOfNoParentAreReachedDirectly(t *testing.T) {
	t.Parallel()
	p, o := newParent(t, ""), newOrigin(t, answers(hello))
	up := newTransport(t, Config{Parent: "http://" + p.addr, NoParent: []string{"127.0.0.0/8", ".intranet.test"}})
	if _, body := trip(t, t.Context(), up, ask("GET", o.addr)); body != "hello" {
		t.Errorf("the answer is %q, want that of the origin", body)
	}
	for host, want := range map[string]bool{"intranet.test": false, "a.intranet.test": false, "notintranet.test": true, "127.3.2.1": false, "128.0.0.1": true, "": true} {
		if got := up.viaParent(host); got != want {
			t.Errorf("%q goes through the parent: %v, want %v", host, got, want)
		}
	}
}

func TestAParentIsNotAskedForWhatIsRefusedHere(t *testing.T) {
	t.Parallel()
	p := newParent(t, "")
	up, err := New(Config{Parent: "http://" + p.addr})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "a.LOCALHOST.", "10.1.2.3", "::1", "[::ffff:127.0.0.1]"} {
		q := &message.Request{Method: "GET", Scheme: "http", Host: []byte(strings.Trim(host, "[]")), Path: []byte("/")}
		_, err := up.RoundTrip(t.Context(), q)
		if _, ok := errors.AsType[*RefusedError](err); !ok {
			t.Errorf("%s through the parent: %v, want a refusal", host, err)
		}
	}
	if n := p.conns.Load(); n != 0 {
		t.Errorf("%d connections to the parent, want none", n)
	}
}

func TestTunnelsThroughAParentAndWithout(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(s *side) { s.write("220 ready\r\n"); _, _ = io.Copy(s.Conn, s) })
	p := newParent(t, o.addr)
	host, port := "mail.example.test", uint16(25)
	direct := ask("GET", o.addr)
	for _, tt := range []struct {
		name string
		cfg  Config
		host string
		port uint16
	}{
		{"direct", Config{}, string(direct.Host), direct.Port},
		{"through the parent", Config{Parent: "http://" + p.addr, Via: "1.1 gate"}, host, port},
	} {
		up := newTransport(t, tt.cfg)
		var caller Caller
		c, first, err := up.Tunnel(caller.Context(t.Context()), tt.host, tt.port)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		in := bufio.NewReader(io.MultiReader(strings.NewReader(string(first)), c))
		if line, err := in.ReadString('\n'); line != "220 ready\r\n" || err != nil {
			t.Errorf("%s: the tunnel begins with %q, %v", tt.name, line, err)
		}
		if _, err := io.WriteString(c, "QUIT\r\n"); err != nil {
			t.Error(err)
		}
		if line, err := in.ReadString('\n'); line != "QUIT\r\n" || err != nil {
			t.Errorf("%s: the tunnel gives back %q, %v", tt.name, line, err)
		}
		caller.Abort()
		if _, err := in.ReadString('\n'); err == nil {
			t.Errorf("%s: the tunnel can be read after Abort", tt.name)
		}
		c.Close()
	}
	if _, _, err := newTransport(t, Config{Parent: "http://" + newParent(t, "").addr}).Tunnel(t.Context(), host, port); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a parent that refuses the tunnel: %v, want its status", err)
	}
}

func TestWrongSettingsAreNamedByTheirKey(t *testing.T) {
	for key, cfg := range map[string]Config{
		"parent":      {Parent: "https://proxy.test:3128"},
		"no-parent":   {NoParent: []string{"intranet.test", "*.test"}},
		"old-tls":     {OldTLS: []string{""}},
		"head":        {Head: 100},
		"parent: ":    {Parent: "http://"},
		"no-parent[1": {NoParent: []string{"a.test", "http://b.test"}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(key, ": ")) {
			t.Errorf("%+v: %v, want an error that names %s", cfg, err, key)
		}
	}
	if p, err := parseParent("http://proxy.test"); err != nil || p.addr != "proxy.test:3128" || p.auth != "" {
		t.Errorf("a parent without a port: %+v, %v", p, err)
	}
}
