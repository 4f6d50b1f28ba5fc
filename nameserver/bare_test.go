package nameserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"
	"golang.org/x/net/http2"

	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

// bareAddr is the address of DNS over HTTPS without TLS.
func (s *Server) bareAddr(t testing.TB) string {
	t.Helper()
	for _, ln := range s.listeners {
		if ln.bare {
			return ln.Addr().String()
		}
	}
	t.Fatal("there is no address without TLS")
	return ""
}

// askWeb sends a query by POST and returns the response code, or the status of a refusal.
func askWeb(t testing.TB, c *http.Client, url string, m *miekg.Msg, forwarded ...string) string {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", mediaType)
	r.Header["X-Forwarded-For"] = forwarded
	w, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	if w.StatusCode != http.StatusOK {
		return w.Status
	}
	if w.Header.Get("Alt-Svc") != "" {
		t.Errorf("Alt-Svc %q leads clients past the proxy", w.Header.Get("Alt-Svc"))
	}
	body, err := io.ReadAll(w.Body)
	var answer miekg.Msg
	if err == nil {
		err = answer.Unpack(body)
	}
	if err != nil {
		t.Fatal(err)
	}
	return miekg.RcodeToString[answer.Rcode]
}

func webClients() map[string]*http.Client {
	return map[string]*http.Client{
		"HTTP/1.1": {Timeout: time.Minute},
		"HTTP/2": {Timeout: time.Minute, Transport: &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		}}},
	}
}

// TestAProxyInFrontNamesTheClient: only clients of a network may ask, which a trusted proxy names.
func TestAProxyInFrontNamesTheClient(t *testing.T) {
	client := []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	for _, trusts := range []bool{true, false} {
		trusted := netip.MustParsePrefix("127.0.0.0/8")
		if !trusts {
			trusted = netip.MustParsePrefix("192.0.2.53/32")
		}
		s := start(t, Config{HTTP: []string{"127.0.0.1:0"}, Allow: client, Trusted: []netip.Prefix{trusted, netip.MustParsePrefix("10.0.0.0/8")}, PerClient: 1}, nil)
		url := "http://" + s.bareAddr(t) + "/dns-query"
		for version, c := range webClients() {
			for _, tt := range []struct {
				name      string
				forwarded []string
				want      string
			}{
				{"a client that may", []string{"198.51.100.7"}, "NOERROR"},
				{"one that may not, on the same connection", []string{"203.0.113.7"}, "REFUSED"},
				{"IPv6", []string{"2001:db8::7"}, "NOERROR"},
				{"with a port", []string{"198.51.100.7:1234"}, "NOERROR"},
				{"a client that writes a list of its own", []string{"198.51.100.7, 203.0.113.7"}, "REFUSED"},
				{"two trusted proxies", []string{"203.0.113.7, 198.51.100.7, 10.1.1.1"}, "NOERROR"},
				{"two fields", []string{"203.0.113.7", "198.51.100.7"}, "NOERROR"},
				{"two fields, the other way round", []string{"198.51.100.7", "203.0.113.7"}, "REFUSED"},
				{"no field", nil, "REFUSED"},
				{"no address", []string{"unknown"}, "400 Bad Request"},
			} {
				want := tt.want
				if !trusts {
					want = "REFUSED"
				}
				if got := askWeb(t, c, url, query("www.test.", miekg.TypeA), tt.forwarded...); got != want {
					t.Errorf("trusted %v, %s, %s: got %s, want %s", trusts, version, tt.name, got, want)
				}
			}
			c.CloseIdleConnections()
			waittest.Until(t, "the connection is closed", func() bool { return s.conns.count() == 0 })
		}
	}
}

func TestDNSWithoutTLSIsNotAnnouncedAndNeedsATrustedProxy(t *testing.T) {
	if _, err := New(Config{HTTP: []string{"127.0.0.1:0"}}, nil, nil); err == nil || !strings.Contains(err.Error(), "trusted") {
		t.Errorf("without trusted: %v", err)
	}
	s := start(t, Config{HTTP: []string{"127.0.0.1:0"}, Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, JSON: true}, nil)
	if offers := s.offers(); len(offers) > 0 {
		t.Errorf("it is announced: %v", offers)
	}
	url := "http://" + s.bareAddr(t)
	for path, want := range map[string]int{"/dns-query?name=www.test": 200, "/dns-query": 400, "/other": 404, "/dns-query/alices-phone?name=www.test": 200} {
		r, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, r.StatusCode, want)
		}
	}
}

// TestHAProxyInFront: with its PROXY header or with X-Forwarded-For, by HTTP/1.1 and HTTP/2.
func TestHAProxyInFront(t *testing.T) {
	s := start(t, Config{HTTP: []string{"127.0.0.1:0"}, Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.7/32")}}, nil)
	for name, server := range map[string]string{"X-Forwarded-For": "", "X-Forwarded-For, HTTP/2": "proto h2", "PROXY": "send-proxy", "PROXY 2, HTTP/2": "send-proxy-v2 proto h2"} {
		t.Run(name, func(t *testing.T) {
			port, conf := peer.Port(t), filepath.Join(t.TempDir(), "haproxy.cfg")
			forward := ""
			if strings.HasPrefix(name, "X-") {
				forward = "option forwardfor"
			}
			if err := os.WriteFile(conf, fmt.Appendf(nil, "defaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\nlisten dns\n bind 127.0.0.1:%s\n %s\n server us %s %s\n", port, forward, s.bareAddr(t), server), 0o600); err != nil {
				t.Fatal(err)
			}
			peer.Start(t, "haproxy", "-f", conf)
			waittest.Until(t, "haproxy listens", func() bool {
				c, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err == nil {
					c.Close()
				}
				return err == nil
			})
			for from, want := range map[string]string{"127.0.0.7": "NOERROR", "127.0.0.8": "REFUSED"} {
				d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
				c := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: d.DialContext}}
				if got := askWeb(t, c, "http://127.0.0.1:"+port+"/dns-query", query("www.test.", miekg.TypeA)); got != want {
					t.Errorf("a client at %s: got %s, want %s", from, got, want)
				}
				c.CloseIdleConnections()
			}
		})
	}
}

// TestNginxInFront: nginx adds the client to the list that the client sent, and keeps its connections
// to us, which carry the requests of many clients. Its grpc_pass speaks HTTP/2.
func TestNginxInFront(t *testing.T) {
	s := start(t, Config{HTTP: []string{"127.0.0.1:0"}, Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.7/32")}}, nil)
	for name, pass := range map[string]string{
		"HTTP/1.0":         "proxy_pass http://us; proxy_set_header",
		"HTTP/1.1":         `proxy_pass http://us; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header`,
		"HTTP/1.1, chunks": `proxy_pass http://us; proxy_http_version 1.1; proxy_request_buffering off; proxy_set_header Connection ""; proxy_set_header`,
		"HTTP/2":           "grpc_pass grpc://us; grpc_set_header",
	} {
		t.Run(name, func(t *testing.T) {
			port, dir := peer.Port(t), t.TempDir()
			conf := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events {}
http {
  access_log off; client_body_temp_path %[1]s/1; proxy_temp_path %[1]s/2; fastcgi_temp_path %[1]s/3; uwsgi_temp_path %[1]s/4; scgi_temp_path %[1]s/5;
  upstream us { server %[2]s; keepalive 1; }
  server { listen 127.0.0.1:%[3]s; location / { %[4]s X-Forwarded-For $proxy_add_x_forwarded_for; } }
}
`, dir, s.bareAddr(t), port, pass)
			if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600); err != nil {
				t.Fatal(err)
			}
			peer.Start(t, "nginx", "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
			waittest.Until(t, "nginx listens", func() bool {
				c, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err == nil {
					c.Close()
				}
				return err == nil
			})
			url := "http://127.0.0.1:" + port + "/dns-query"
			for from, want := range map[string]string{"127.0.0.7": "NOERROR", "127.0.0.8": "REFUSED"} {
				d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
				c := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: d.DialContext}}
				for what, forwarded := range map[string][]string{"": nil, "that claims to be another": {"127.0.0.7"}, "that claims to be a trusted one": {"127.0.0.7, 127.0.0.1"}, "that sends nonsense": {"unknown"}} {
					if got := askWeb(t, c, url, query("www.test.", miekg.TypeA), forwarded...); got != want {
						t.Errorf("a client at %s %s: got %s, want %s", from, what, got, want)
					}
				}
				b, _ := query("www.test.", miekg.TypeA).Pack()
				r, err := c.Get(url + "?dns=" + base64.RawURLEncoding.EncodeToString(b))
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(r.Body)
				r.Body.Close()
				var answer miekg.Msg
				if err == nil {
					err = answer.Unpack(body)
				}
				if err != nil || miekg.RcodeToString[answer.Rcode] != want {
					t.Errorf("GET by a client at %s: %s, %v, want %s", from, r.Status, err, want)
				}
				c.CloseIdleConnections()
			}
		})
	}
}
