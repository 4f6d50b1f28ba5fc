package setting

import (
	"crypto/x509"
	"fmt"
	"os"
)

// Roots reads the certificates in a PEM file. Without a file it returns nil, which means the
// system's roots.
func (f File) Roots() (*x509.CertPool, error) {
	if f == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	return pool, f.AddRoots(pool)
}

// AddRoots adds the certificates in a PEM file to a pool.
func (f File) AddRoots(pool *x509.CertPool) error {
	pem, err := os.ReadFile(string(f))
	if err != nil {
		return err
	}
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%q contains no certificate in PEM form", string(f))
	}
	return nil
}
