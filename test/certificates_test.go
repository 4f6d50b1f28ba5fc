package test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"shuultuur/event"
	"shuultuur/intercept"
	"shuultuur/lib/wait/waittest"
)

// An issuer is the test's certificate authority, or one that it certified.
type issuer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// issue issues a certificate signed by i, or self-signed if i is nil; change
// may spoil it.
func (i *issuer) issue(t *testing.T, name string, change func(*x509.Certificate)) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return i.issueFor(t, key, name, change)
}

func (i *issuer) issueFor(t *testing.T, key crypto.Signer, name string, change func(*x509.Certificate)) *issuer {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(c)
	}
	signer := issuer{c, key}
	if i != nil {
		signer = *i
	}
	der, err := x509.CreateCertificate(rand.Reader, c, signer.cert, key.Public(), signer.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{cert, key}
}

func (i *issuer) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.cert.Raw}))
}

// present returns the certificate and chain that a server presents.
func (i *issuer) present(chain ...*issuer) *tls.Certificate {
	c := &tls.Certificate{Certificate: [][]byte{i.cert.Raw}, PrivateKey: i.key}
	for _, j := range chain {
		c.Certificate = append(c.Certificate, j.cert.Raw)
	}
	return c
}

func authority(c *x509.Certificate) { c.IsCA, c.ExtKeyUsage = true, nil }

// badCertificates returns by host certificates with a fault, and a good one for good.test.
// Hosts are named after the fault.
func badCertificates(t *testing.T) (root *issuer, by map[string]*tls.Certificate) {
	t.Helper()
	root = (*issuer)(nil).issue(t, "Root of the test", authority)
	middle := root.issue(t, "Middle of the test", authority)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	revoked := root.issue(t, "revoked.test", nil)
	stranger := (*issuer)(nil).issue(t, "Stranger", authority)
	by = map[string]*tls.Certificate{
		"good.test":                 root.issue(t, "good.test", nil).present(),
		"expired.test":              root.issue(t, "expired.test", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }).present(),
		"not-yet-valid.test":        root.issue(t, "not-yet-valid.test", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }).present(),
		"wrong-host.test":           root.issue(t, "else.test", nil).present(),
		"self-signed.test":          (*issuer)(nil).issue(t, "self-signed.test", nil).present(),
		"unknown-root.test":         stranger.issue(t, "unknown-root.test", nil).present(stranger),
		"weak-key.test":             root.issueFor(t, weak, "weak-key.test", nil).present(),
		"revoked.test":              revoked.present(),
		"missing-intermediate.test": middle.issue(t, "missing-intermediate.test", func(c *x509.Certificate) { c.IssuingCertificateURL = []string{"http://aia.invalid/middle"} }).present(),
	}
	by["revoked.test"].OCSPStaple, err = ocsp.CreateResponse(root.cert, root.cert, ocsp.Response{
		Status: ocsp.Revoked, SerialNumber: revoked.cert.SerialNumber, RevokedAt: time.Now().Add(-time.Hour),
		ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour), IssuerHash: crypto.SHA1,
	}, root.key)
	if err != nil {
		t.Fatal(err)
	}
	return root, by
}

const badSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
intercept: {root: root.pem, trust: [origin.pem]}
policies:
  - {name: readers, decrypt: true, rules: [RULES]}
events: {sqlite: events.db, every: 100ms}
proxy: {parent: "http://PARENT"}
`

func TestEveryFaultOfACertificateIsShownToTheUser(t *testing.T) {
	h := newHTTPSHouse(t, nil)
	dir := filepath.Dir(h.file)
	root, by := badCertificates(t)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "secret of ", r.Host) }))
	s.TLS = &tls.Config{GetCertificate: func(c *tls.ClientHelloInfo) (*tls.Certificate, error) { return by[c.ServerName], nil }}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	parent := connector(t, s.Listener.Addr().String(), s.Listener.Addr().String())
	settings := strings.NewReplacer("PARENT", parent).Replace(badSettings)
	h.write("origin.pem", root.pem())
	h.write("shuultuur.yaml", strings.Replace(settings, "RULES", "", 1))
	h.restart()
	text, err := os.ReadFile(filepath.Join(dir, "client-root.pem"))
	if err != nil {
		t.Fatal(err)
	}
	ours := x509.NewCertPool()
	ours.AppendCertsFromPEM(text)
	ask := func(host string) (status int, body string, issuer string) {
		t.Helper()
		proxy := &url.URL{Scheme: "http", Host: h.g.ProxyAddr()}
		seen := ""
		tr := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, VerifyConnection: func(c tls.ConnectionState) error {
				seen = c.PeerCertificates[0].Issuer.CommonName
				_, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: ours, DNSName: host})
				if err != nil && seen == intercept.DefaultName {
					t.Errorf("%s: verifying the certificate that the test made: %v", host, err)
				}
				return nil
			}}}
		defer tr.CloseIdleConnections()
		req, err := http.NewRequest("GET", "https://"+host+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html")
		var resp *http.Response
		waittest.Until(t, host+" answers", func() bool { // the first connections fail, so that a browser may take http
			resp, err = (&http.Client{Transport: tr, Timeout: time.Minute}).Do(req)
			return !errors.Is(err, io.EOF)
		})
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		return resp.StatusCode, string(b), seen
	}
	for host, says := range map[string]string{
		"good.test":                 "secret of good.test",
		"expired.test":              "The certificate of expired.test has expired",
		"not-yet-valid.test":        "The certificate of not-yet-valid.test is not valid yet",
		"wrong-host.test":           "has a certificate for other names than wrong-host.test",
		"self-signed.test":          "self-signed.test vouches only for itself",
		"unknown-root.test":         "unknown-root.test was issued by an authority that is not trusted here",
		"weak-key.test":             "weak-key.test is protected by cryptography that can be broken today",
		"revoked.test":              "revoked.test has been revoked",
		"missing-intermediate.test": "missing-intermediate.test does not send all that is needed",
	} {
		status, body, by := ask(host)
		fault := strings.TrimSuffix(host, ".test")
		if bad := fault != "good"; bad != (status == 403) || bad == strings.Contains(body, "secret") || !strings.Contains(body, says) || by != intercept.DefaultName {
			t.Errorf("%s: status %d, certificate of %s, wanted %q in the page: %s", host, status, by, says, body)
		}
		if fault == "good" {
			continue
		}
		row := h.recorded("host:"+host+" action:block", func(r event.Row) bool { return r.Status == 403 })
		if row.Category != fault || row.Rule != "certificate" {
			t.Errorf("%s: category %q, rule %q on record", host, row.Category, row.Rule)
		}
	}
	// A rule of the administrator decides before the rule for certificates.
	h.write("shuultuur.yaml", strings.Replace(settings, "RULES",
		"{name: late, action: warn, category: [expired]}, {name: own, action: allow, category: [self-signed]}", 1))
	h.restart()
	if status, body, by := ask("expired.test"); status != 403 || !strings.Contains(body, "has expired") || !strings.Contains(body, "class=\"button\"") || by != intercept.DefaultName {
		t.Errorf("an expired certificate with a rule that warns: status %d, certificate of %s, want 403 and a page with a button: %s", status, by, body)
	}
	if status, body, by := ask("self-signed.test"); status != 200 || body != "secret of self-signed.test" || by != "self-signed.test" {
		t.Errorf("a self-signed certificate with a rule that allows: status %d, certificate of %s, want the origin's page and certificate: %s", status, by, body)
	}
}
