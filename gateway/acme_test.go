//go:build !small

package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/certificate"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

// acmeGate runs a gateway that an authority gives a certificate by one challenge.
type acmeGate struct {
	*Gateway
	stop func()
}

func startAcme(t *testing.T, file string) acmeGate {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g, err := New(ctx, file, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return acmeGate{g, stop}
}

// TestListenersGetACertificateFromAnAuthority: by each challenge, for the portal and for DNS over TLS; it
// stays over a reload and a restart, and the zone is left as it was.
func TestListenersGetACertificateFromAnAuthority(t *testing.T) {
	for _, challenge := range []string{"http-01", "tls-alpn-01", "dns-01"} {
		t.Run(challenge, func(t *testing.T) {
			t.Parallel()
			names, dot := "127.0.0.1:"+peer.Port(t), "127.0.0.1:"+peer.Port(t)
			p := peer.Pebble{HTTP: peer.Port(t), TLS: peer.Port(t), DNS: names}
			p.Start(t)
			settings := fmt.Sprintf(`
listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0", portal: "127.0.0.1:%s", portal-tls: "127.0.0.1:%s"}
data: ./data
policies: [{name: all}]
acme: {names: [gate.own.example], directory: %q, root: %q, accept-terms: true, challenge: %s}
dns:
  listen: [%q]
  tls: [%q]
  zones: {files: [{path: own.example.zone}]}
`, p.HTTP, p.TLS, p.Directory, p.Root, challenge, names, dot)
			const zone = "$TTL 300\n@ SOA ns1 hostmaster 7 3600 600 86400 300\n  NS ns1\nns1 A 127.0.0.1\ngate A 127.0.0.1 ; ours\n"
			file := folder(t, map[string]string{"shuultuur.yaml": settings, "own.example.zone": zone})
			show := func(at string) *x509.Certificate {
				t.Helper()
				c, err := tls.Dial("tcp", at, &tls.Config{ServerName: "gate.own.example", InsecureSkipVerify: true})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				return c.ConnectionState().PeerCertificates[0]
			}
			g := startAcme(t, file)
			waittest.Until(t, "the certificate arrives", func() bool {
				s := g.engine.Load().Ordered.Status()
				return !s.Until.IsZero() || s.Failed > 0
			})
			if s := g.engine.Load().Ordered.Status(); s.Failed > 0 || len(g.health().Problems) > 0 {
				t.Fatalf("the order failed: %+v, problems %q", s, g.health().Problems)
			}
			serial := show("127.0.0.1:" + p.TLS).SerialNumber
			for _, at := range []string{"127.0.0.1:" + p.TLS, dot} {
				c, err := tls.Dial("tcp", at, &tls.Config{ServerName: "gate.own.example", RootCAs: p.Roots(t)})
				if err != nil {
					t.Errorf("%s: %v", at, err)
					continue
				}
				c.Close()
			}
			if text, err := os.ReadFile(filepath.Join(filepath.Dir(file), "own.example.zone")); err != nil || strings.Contains(string(text), "_acme") || !strings.Contains(string(text), "; ours") {
				t.Errorf("the zone is left as %s, %v", text, err)
			}
			res, err := http.Get("http://127.0.0.1:" + p.HTTP + "/.well-known/acme-challenge/none")
			if err != nil || res.StatusCode != http.StatusNotFound {
				t.Errorf("a challenge that is not open: %v, %v", res, err)
			}
			if res != nil {
				res.Body.Close()
			}
			if err := os.WriteFile(file, []byte(strings.Replace(settings, "accept-terms: true", "accept-terms: true, contact: olga@own.example", 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := g.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := show(dot).SerialNumber; got.Cmp(serial) != 0 {
				t.Error("a reload changes the certificate")
			}
			g.stop()
			g = startAcme(t, file)
			if got := show(dot).SerialNumber; got.Cmp(serial) != 0 {
				t.Error("a restart changes the certificate")
			}
		})
	}
}

// TestNoListenerWaitsForItsAuthority: one that is away is a problem, and no reason not to start.
func TestNoListenerWaitsForItsAuthority(t *testing.T) {
	portal, dot := "127.0.0.1:"+peer.Port(t), "127.0.0.1:"+peer.Port(t)
	file := folder(t, map[string]string{"shuultuur.yaml": fmt.Sprintf(`
listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0", portal-tls: %q}
data: ./data
policies: [{name: all}]
acme: {names: [gate.own.example], directory: "https://127.0.0.1:1/dir", challenge: http-01}
dns: {tls: [%q], forward: {upstreams: ["127.0.0.1:1"]}}
`, portal, dot)})
	g := startAcme(t, file)
	waittest.Until(t, "the failure is a problem", func() bool { return strings.Contains(strings.Join(g.health().Problems, "\n"), "gate.own.example") })
	for _, at := range []string{portal, dot} {
		c, err := tls.Dial("tcp", at, &tls.Config{ServerName: "gate.own.example", InsecureSkipVerify: true})
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		if leaf := c.ConnectionState().PeerCertificates[0]; leaf.VerifyHostname("gate.own.example") != nil {
			t.Errorf("%s shows a certificate for %q", at, leaf.DNSNames)
		}
		c.Close()
	}
	if s := g.engine.Load().Ordered.Status(); s.Failed == 0 || s.Next.IsZero() || !s.Until.IsZero() {
		t.Errorf("the certificate is %+v", s)
	}
	if info, err := os.Stat(certificate.File(filepath.Join(filepath.Dir(file), "data"))); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the certificate of our own: %v, %v", info, err)
	}
}
