package load

import (
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"strings"
)

// words collects a flag that may be repeated.
type words []string

func (w *words) String() string { return strings.Join(*w, " ") }

func (w *words) Set(s string) error { *w = append(*w, s); return nil }

func toFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := write(file); err != nil {
		file.Close()
		return fmt.Errorf("write report %q: %w", name, err)
	}
	return file.Close()
}

// readRoots reads the certificates in a PEM file. Without a file it returns nil, which means
// the system's roots.
func readRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading certificates: no PEM certificate in %q", file)
	}
	return pool, nil
}
