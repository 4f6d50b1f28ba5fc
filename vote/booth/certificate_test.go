package booth

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"shuultuur/lib/setting"
	"shuultuur/test/cert"
)

// A renewed certificate is presented without a restart.
func TestTheCertificateOfTheAPIFollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	c, k := cert.Files(t, dir, "first.example")
	cfg, err := certificate(&KeyPair{Cert: setting.File(c), Key: setting.File(k)})
	if err != nil {
		t.Fatal(err)
	}
	presents := func(want string) {
		t.Helper()
		pair, err := cfg.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil || leaf.DNSNames[0] != want {
			t.Errorf("the certificate is for %v (%v), want %s", leaf.DNSNames, err, want)
		}
	}
	presents("first.example")
	cert.Files(t, dir, "second.example")
	presents("second.example")
	if err := os.WriteFile(filepath.Join(dir, "key.pem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	presents("second.example")
}

func TestAMissingCertificateIsAMistake(t *testing.T) {
	c := Config{TLS: &KeyPair{Cert: "none.pem", Key: "none.pem"}}
	if err := c.Check(); err == nil {
		t.Error("Check accepts a certificate that a start refuses")
	}
}
