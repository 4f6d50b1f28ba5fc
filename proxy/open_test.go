package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"shuultuur/filter"
)

// An openError asks for a password, except at localhost and localhost.
type openError struct{ loginError }

func (openError) OpenHost(host string) bool { return host == "localhost" }

func askAll(_ context.Context, a netip.Addr, _ []byte) (filter.Client, error) {
	return filter.Client{Addr: a}, openError{}
}

// TestOpenHostsNeedNoPassword: updates reach their hosts where a password is asked for, and
// nothing else: not by another host inside of the tunnel to an open one either.
func TestOpenHostsNeedNoPassword(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "at ", q.Host) })
	r := start(t, Config{}, Engine{Identify: askAll})
	_, port, _ := strings.Cut(strings.TrimPrefix(o.URL, "http://"), ":")
	for host, want := range map[string]string{"localhost": "200", "127.0.0.1": "407"} {
		if got := r.talk("GET http://" + host + ":" + port + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 "+want) {
			t.Errorf("GET at %s: %.60q, want %s", host, got, want)
		}
	}
	within := func(connect, host string) string {
		c, br := r.raw()
		fmt.Fprintf(c, "CONNECT %s:%s HTTP/1.1\r\nHost: %s\r\n\r\n", connect, port, connect)
		res, err := http.ReadResponse(br, &http.Request{Method: "CONNECT"})
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 200 {
			return fmt.Sprint(res.StatusCode)
		}
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n\r\n", host, port)
		if res, err = http.ReadResponse(br, nil); err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return fmt.Sprint(res.StatusCode, " ", string(b))
	}
	if got, want := within("localhost", "localhost"), "200 at localhost"; !strings.HasPrefix(got, want) {
		t.Errorf("within the tunnel to an open host: %q, want %q", got, want)
	}
	if got := within("localhost", "127.0.0.1"); !strings.HasPrefix(got, "403 ") || strings.Contains(got, "at 127.0.0.1") {
		t.Errorf("another host within the tunnel to an open one: %q, want 403", got)
	}
	if got := within("127.0.0.1", "localhost"); got != "407" {
		t.Errorf("CONNECT to another host: %q, want 407", got)
	}
}

// TestOpenHostsWithinDecryptedTunnels: the names in the hello and in the requests count, too.
func TestOpenHostsWithinDecryptedTunnels(t *testing.T) {
	w := newWorld(t)
	_, at := w.origin(t, w.leaf(t, nil), func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "at ", q.Host) })
	r := start(t, Config{}, Engine{Identify: askAll, Intercept: w.in})
	r.resolve("other.test", "127.0.0.1")
	c := r.browser(w)
	visit := func(sni, host string) string {
		tr := c.Transport.(*http.Transport).Clone()
		tr.TLSClientConfig = &tls.Config{RootCAs: w.ours, ServerName: sni}
		defer tr.CloseIdleConnections()
		q, _ := http.NewRequest("GET", "https://"+at+"/", nil)
		q.Host = host
		res, err := (&http.Client{Transport: tr}).Do(q)
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return fmt.Sprint(res.StatusCode, " ", string(b))
	}
	for _, tt := range []struct{ sni, host, want string }{
		{"localhost", "localhost", "200 at localhost"},
		{"localhost", "other.test", "403"},
		{"other.test", "other.test", "403"},
		{"other.test", "localhost", ""},
	} {
		if got := visit(tt.sni, tt.host); !strings.HasPrefix(got, tt.want) || tt.want == "" && strings.HasPrefix(got, "200") {
			t.Errorf("hello for %s, request for %s: %.80q, want %q", tt.sni, tt.host, got, tt.want)
		}
	}
}
