package setting

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"sync"
	"time"
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
	text, err := os.ReadFile(string(f))
	if err != nil {
		return err
	}
	if pool.AppendCertsFromPEM(text) {
		return nil
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("%q contains a certificate that is not valid: %w; make another one", string(f), err)
		}
	}
	return fmt.Errorf("%q contains no certificate in PEM form", string(f))
}

// A Renewed is a value built from files, and again when they have changed. Several goroutines
// may use it.
type Renewed[T any] struct {
	files []File
	make  func() (T, error)

	mu    sync.Mutex
	stamp string // guarded by mu: of the files, when they were last read
	value T      // guarded by mu
}

// Renew makes the first value of files. The error is that of make.
func Renew[T any](make func() (T, error), files ...File) (*Renewed[T], error) {
	r := &Renewed[T]{files: files, make: make, stamp: stamps(files)}
	var err error
	r.value, err = make()
	return r, err
}

// Current returns the value for the current contents of the files. While they are unusable, it
// returns the previous value: the watcher of the files reports the fault.
func (r *Renewed[T]) Current() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := stamps(r.files); now != r.stamp {
		r.stamp = now
		if v, err := r.make(); err == nil {
			r.value = v
		}
	}
	return r.value
}

func stamps(files []File) string {
	all := ""
	for _, f := range files {
		if f != "" {
			all += Stamp(string(f), time.Time{}) + "\n"
		}
	}
	return all
}
