package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	responders "shuultuur/identity/ocsp"
	"shuultuur/lib/setting"
)

// An issuer signs certificates and lists.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	by   *issuer // nil for a root
}

func (by *issuer) issue(t *testing.T, name string, serial int64, ca bool) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, IsCA: ca, BasicConstraintsValid: true, SubjectKeyId: []byte(name),
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if ca {
		c.KeyUsage |= x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	}
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	c, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{c, key, by}
}

// chain returns the certificate as a client shows it.
func (by *issuer) chain() tls.Certificate {
	c := tls.Certificate{Certificate: [][]byte{by.cert.Raw}, PrivateKey: by.key}
	for up := by.by; up != nil && up.by != nil; up = up.by {
		c.Certificate = append(c.Certificate, up.cert.Raw)
	}
	return c
}

// list writes a list of revoked serial numbers, for so long.
func (by *issuer) list(t *testing.T, long time.Duration, der bool, serials ...int64) setting.File {
	t.Helper()
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-2 * time.Hour), NextUpdate: time.Now().Add(long)}
	for _, s := range serials {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: big.NewInt(s), RevocationTime: time.Now()})
	}
	b, err := x509.CreateRevocationList(rand.Reader, l, by.cert, by.key)
	if err != nil {
		t.Fatal(err)
	}
	if !der {
		b = pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: b})
	}
	return written(t, b)
}

func written(t *testing.T, b []byte) setting.File {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return setting.File(file)
}

func TestRevokedCertificatesAreRefused(t *testing.T) {
	var none *issuer
	root := none.issue(t, "root", 1, true)
	twin := none.issue(t, "root", 1, true) // of the same name
	below := root.issue(t, "below", 2, true)
	anna, ben, carl := root.issue(t, "anna", 10, false), root.issue(t, "ben", 11, false), below.issue(t, "carl", 10, false)
	ca := written(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.cert.Raw}))
	server := none.issue(t, "gate", 3, false)
	for _, tt := range []struct {
		name   string
		lists  []setting.File
		client *issuer
		why    string // "" if it is accepted
	}{
		{"without lists", nil, anna, ""},
		{"on none", []setting.File{root.list(t, time.Hour, false, 11)}, anna, ""},
		{"revoked", []setting.File{root.list(t, time.Hour, false, 11)}, ben, "is revoked"},
		{"revoked, in DER", []setting.File{root.list(t, time.Hour, true, 11)}, ben, "is revoked"},
		{"on an old list", []setting.File{root.list(t, -time.Hour, false, 11)}, ben, "is revoked"},
		{"a list is due", []setting.File{root.list(t, -time.Hour, false)}, anna, "is due since"},
		{"a list is due, and there is a newer one", []setting.File{root.list(t, -time.Hour, false), root.list(t, time.Hour, false)}, anna, ""},
		{"no list of the authority below", []setting.File{root.list(t, time.Hour, false)}, carl, "no list under crl"},
		{"the number of another authority", []setting.File{root.list(t, time.Hour, false, 10), below.list(t, time.Hour, false)}, carl, ""},
		{"the authority below is revoked", []setting.File{root.list(t, time.Hour, false, 2), below.list(t, time.Hour, false)}, carl, "is revoked"},
		{"revoked below", []setting.File{below.list(t, time.Hour, false, 10)}, carl, "is revoked"},
		{"no certificate", []setting.File{root.list(t, time.Hour, false, 11)}, nil, ""},
	} {
		id, err := New(Config{Certificates: &Certificates{CA: ca, CRL: tt.lists}}, Parts{})
		if err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		conf := &tls.Config{InsecureSkipVerify: true}
		if tt.client != nil {
			conf.Certificates = []tls.Certificate{tt.client.chain()}
		}
		go func() {
			c := tls.Client(far, conf)
			_ = c.Handshake()
			_, _ = c.Read(make([]byte, 1)) // the refusal of TLS 1.3
			far.Close()
		}()
		c := tls.Server(near, id.TLS(&tls.Config{Certificates: []tls.Certificate{server.chain()}}))
		err = c.Handshake()
		near.Close()
		if tt.why == "" && err != nil || tt.why != "" && (err == nil || !strings.Contains(err.Error(), tt.why)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.why)
		}
		if tt.client == nil {
			continue
		}
		if _, ok := id.CertifiedClient(t.Context(), netip.MustParseAddr("192.0.2.1"), tt.client.cert); ok != (tt.why != "is revoked" || tt.name == "the authority below is revoked") {
			t.Errorf("%s: on an open connection the certificate counts: %v", tt.name, ok)
		}
		if due := len(id.Problems()) > 0; due != strings.Contains(tt.name, "is due") && tt.name != "on an old list" {
			t.Errorf("%s: the problems are %q", tt.name, id.Problems())
		}
	}
	for name, f := range map[string]setting.File{"another authority's": twin.list(t, time.Hour, false), "junk": written(t, []byte("junk"))} {
		if _, err := New(Config{Certificates: &Certificates{CA: ca, CRL: []setting.File{f}}}, Parts{}); err == nil || !strings.Contains(err.Error(), "crl[0]") {
			t.Errorf("%s list: %v, want a mistake", name, err)
		}
	}
}

// TestRespondersAreAskedWhereNoListSaysIt: a list in force needs no question, a revoked certificate of
// one place is refused whatever the other says, and a certificate that is revoked while its connection
// is open counts no more.
func TestRespondersAreAskedWhereNoListSaysIt(t *testing.T) {
	var none *issuer
	root := none.issue(t, "root", 1, true)
	anna := root.issue(t, "anna", 10, false)
	ca := written(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.cert.Raw}))
	server := none.issue(t, "gate", 3, false)
	for _, tt := range []struct {
		name   string
		lists  []setting.File
		status int // of the responder; -1: it fails
		silent string
		why    string // "" if it is accepted
		asked  bool
	}{
		{"good", nil, ocsp.Good, "", "", true},
		{"revoked", nil, ocsp.Revoked, "", "is revoked", true},
		{"unknown", nil, ocsp.Unknown, "accept", "does not know", true},
		{"silent", nil, -1, "", "nobody says", true},
		{"silent, and that is accepted", nil, -1, "accept", "", true},
		{"a list in force has it not", []setting.File{root.list(t, time.Hour, false)}, ocsp.Revoked, "", "", false},
		{"a list in force has it", []setting.File{root.list(t, time.Hour, false, 10)}, ocsp.Good, "", "is revoked", false},
		{"a list is due", []setting.File{root.list(t, -time.Hour, false)}, ocsp.Good, "", "", true},
		{"an old list has it", []setting.File{root.list(t, -time.Hour, false, 10)}, ocsp.Good, "", "is revoked", false},
	} {
		var asked atomic.Int32
		var status atomic.Int32
		status.Store(int32(tt.status))
		responder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			if status.Load() < 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			b, err := ocsp.CreateResponse(root.cert, root.cert, ocsp.Response{Status: int(status.Load()), SerialNumber: anna.cert.SerialNumber, ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(3 * time.Second)}, root.key)
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(b)
		}))
		id, err := New(Config{Certificates: &Certificates{CA: ca, CRL: tt.lists, OCSP: &responders.Config{Servers: []string{responder.URL}, Silent: tt.silent}}}, Parts{})
		if err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		go func() {
			c := tls.Client(far, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{anna.chain()}})
			_ = c.Handshake()
			_, _ = c.Read(make([]byte, 1)) // the refusal of TLS 1.3
			far.Close()
		}()
		c := tls.Server(near, id.TLS(&tls.Config{Certificates: []tls.Certificate{server.chain()}}))
		err = c.Handshake()
		near.Close()
		if tt.why == "" && err != nil || tt.why != "" && (err == nil || !strings.Contains(err.Error(), tt.why)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.why)
		}
		if (asked.Load() > 0) != tt.asked {
			t.Errorf("%s: the responder was asked: %v", tt.name, asked.Load() > 0)
		}
		counts := func() bool {
			_, ok := id.CertifiedClient(t.Context(), netip.MustParseAddr("192.0.2.1"), anna.cert)
			return ok
		}
		if counts() != (tt.why == "") {
			t.Errorf("%s: on an open connection the certificate counts: %v", tt.name, tt.why != "")
		}
		if tt.name == "good" {
			status.Store(ocsp.Revoked)
			for end := time.Now().Add(time.Minute); counts(); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("a certificate that is revoked meanwhile counts on")
				}
			}
		}
		if says := strings.Contains(fmt.Sprint(id.Problems()), "identity.certificates.ocsp: no answer"); says != (tt.status < 0) {
			t.Errorf("%s: the problems are %q", tt.name, id.Problems())
		}
		id.Close()
		responder.Close()
	}
}
