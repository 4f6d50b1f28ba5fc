package intercept

import (
	"crypto/x509"
	"strings"
	"testing"
)

// TestAFinalRootVouchesForNoOther: what an authority below it has signed is not trusted, what it has signed
// itself is, and it cannot be rotated; one that is rotated may be followed by a final one.
func TestAFinalRootVouchesForNoOther(t *testing.T) {
	final, err := NewRoot(RootConfig{Name: "Final", Final: true})
	if err != nil {
		t.Fatal(err)
	}
	usual, err := NewRoot(RootConfig{Name: "Usual"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := final.Rotate(RootConfig{}); err == nil || !strings.Contains(err.Error(), "-final") {
		t.Errorf("rotating a final root: %v", err)
	}
	next, err := usual.Rotate(RootConfig{Final: true})
	if err != nil || !next.Certificate.MaxPathLenZero {
		t.Fatalf("rotating to a final root: %v", err)
	}
	for name, tt := range map[string]struct {
		root *Root
		ok   bool
	}{"final": {final, false}, "usual": {usual, true}} {
		below, err := NewRoot(RootConfig{Name: "Below"})
		if err != nil {
			t.Fatal(err)
		}
		middle := *below.Certificate
		middle.SerialNumber, middle.SignatureAlgorithm = serial(), 0
		crossed, err := sign(&middle, tt.root.Certificate, below.key.Public(), tt.root.key)
		if err != nil {
			t.Fatal(err)
		}
		leaf := &x509.Certificate{SerialNumber: serial(), NotBefore: middle.NotBefore, NotAfter: middle.NotAfter, DNSNames: []string{"site.example"}, KeyUsage: x509.KeyUsageDigitalSignature}
		own, err := sign(leaf, tt.root.Certificate, below.key.Public(), tt.root.key)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := sign(leaf, crossed, below.key.Public(), below.key)
		if err != nil {
			t.Fatal(err)
		}
		roots, middles := x509.NewCertPool(), x509.NewCertPool()
		roots.AddCert(tt.root.Certificate)
		middles.AddCert(crossed)
		opts := x509.VerifyOptions{Roots: roots, Intermediates: middles, DNSName: "site.example"}
		if _, err := own.Verify(opts); err != nil {
			t.Errorf("%s: its own certificate is refused: %v", name, err)
		}
		if _, err := theirs.Verify(opts); (err == nil) != tt.ok {
			t.Errorf("%s: the certificate of an authority below it: %v, want trusted: %v", name, err, tt.ok)
		}
	}
}
