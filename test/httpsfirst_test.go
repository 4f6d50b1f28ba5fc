package test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/test/peer"
)

// TestABrowserThatTriesHTTPSFirstReachesSitesThatOnlyHaveHTTP: Chromium asks for https first
// where a link says http, and takes http when that fails. A gateway that explains the failure by a
// page of its own makes https succeed.
func TestABrowserThatTriesHTTPSFirstReachesSitesThatOnlyHaveHTTP(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	chromium := peer.Program(t, "chromium")
	n.writeTo(filepath.Join("/etc/netns", n.gate, "hosts"), "10.77.2.2 reset.example.com other.example.com self.example.com good.example.com\n10.77.2.3 old.example.com\n127.0.0.1 localhost\n")
	root := (*issuer)(nil).issue(t, "Root of the test", authority)
	n.writeTo(filepath.Join(n.dir, "origin.pem"), root.pem())
	good := root.issue(t, "good.example.com", func(c *x509.Certificate) { c.DNSNames = []string{"good.example.com"} }).present()
	self := (*issuer)(nil).issue(t, "self.example.com", func(c *x509.Certificate) { c.DNSNames = []string{"self.example.com"} }).present()
	plain := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "<p>secure %v, %s</p>", r.TLS != nil, r.Host)
	})}
	defer plain.Close()
	s := &http.Server{Handler: plain.Handler} // one server cannot serve both with HTTP/2
	s.TLSConfig = &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		switch h.ServerName {
		case "reset.example.com":
			return nil, h.Conn.(*net.TCPConn).SetLinger(0)
		case "self.example.com":
			return self, nil
		}
		return good, nil
	}}
	defer s.Close()
	for _, addr := range []string{"10.77.2.2:80", "10.77.2.3:80"} {
		go plain.Serve(n.listen(n.origin, addr))
	}
	go s.ServeTLS(n.listen(n.origin, "10.77.2.2:443"), "", "")
	n.gateway()
	home := newHome(t, n.clientRoot)
	for _, tt := range []struct{ url, want string }{
		{"http://old.example.com/", "secure false, old.example.com"},
		{"http://reset.example.com/", "secure false, reset.example.com"},
		{"http://other.example.com/", "secure false, other.example.com"},
		{"http://self.example.com/", "secure false, self.example.com"},
		{"http://good.example.com/", "secure true, good.example.com"},
		{"https://good.example.com/", "secure true, good.example.com"},
	} {
		begun := time.Now()
		cmd := peer.Command(t, "ip", "netns", "exec", n.client, "env", "HOME="+home, chromium,
			"--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
			"--disable-dev-shm-usage", "--enable-features=HttpsUpgrades", "--proxy-server=http://10.77.1.1:8080",
			"--user-data-dir="+t.TempDir(), "--dump-dom", tt.url)
		page, err := cmd.Output()
		if err != nil || !strings.Contains(string(page), tt.want) {
			t.Errorf("%s: got %q, %v after %v, want %q", tt.url, page[max(0, len(page)-1500):], err, time.Since(begun), tt.want)
		}
	}
	if t.Failed() {
		b, _ := os.ReadFile(filepath.Join(n.dir, "events.jsonl"))
		t.Logf("events: %s", b)
	}
}
