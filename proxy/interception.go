package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/lib/setting"
)

// An Interception has everything needed to decrypt TLS connections.
type Interception struct {
	Authority *intercept.Authority
	Verifier  *intercept.Verifier
	// Wanted reports whether to decrypt connections of this client.
	Wanted func(*filter.Transaction) bool
	// ExceptAfter is the number of refusals of our certificate by a client within a day after
	// which connections to that host are tunnelled for it; 0 for never.
	ExceptAfter int
	// Memory counts refusals on all nodes; nil counts them on this one only.
	Memory Memory
}

// InterceptConfig are the settings for decrypting TLS connections. Policies decide whose
// connections are decrypted (decrypt).
type InterceptConfig struct {
	Root         setting.File `yaml:"root" role:"owner"` // file made by "shuultuur ca init"
	LeafDays     int          `yaml:"leaf-days"`         // validity of a generated certificate, 3 to 398; default 90
	Certificates int          `yaml:"certificates"`      // limit of generated certificates that are kept; default 10,000
	// Trust are PEM files with roots that origins may use in addition to those of the system,
	// such as a company's own.
	Trust []setting.File `yaml:"trust" role:"owner"`
	// ExceptAfter is the number of refusals of our certificate by a client within a day after
	// which connections to that host are tunnelled for it. 0, the default: never.
	ExceptAfter int `yaml:"except-after"`
}

// InterceptParts are the dependencies of decryption.
type InterceptParts struct {
	// Dial connects to addresses in unknown certificates. It must only reach public ones.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Wanted func(*filter.Transaction) bool // as in [Interception]
	Memory Memory                         // as in [Interception]
	// Previous is the Interception to replace; nil for none. If the root is the same, its
	// certificates and tickets are taken over, so that clients can resume sessions.
	Previous *Interception
}

// NewInterception makes an Interception.
func NewInterception(c InterceptConfig, parts InterceptParts) (*Interception, error) {
	if c.ExceptAfter < 0 {
		return nil, setting.At("except-after", errors.New("must not be negative"))
	}
	a, err := intercept.New(intercept.Config{Root: string(c.Root), LeafDays: c.LeafDays, Certificates: c.Certificates})
	if err != nil {
		return nil, err
	}
	roots, err := trusted(c.Trust)
	if err != nil {
		return nil, err
	}
	v, err := intercept.NewVerifier(intercept.VerifierConfig{Roots: roots, Dial: parts.Dial})
	if err != nil {
		return nil, err
	}
	if p := parts.Previous; p != nil && a.Equal(p.Authority) {
		a = p.Authority
	}
	return &Interception{Authority: a, Verifier: v, Wanted: parts.Wanted, ExceptAfter: c.ExceptAfter, Memory: parts.Memory}, nil
}

// Problems returns why nothing can be decrypted, for the operator.
func (in *Interception) Problems() []string {
	if p := in.Authority.Problem(); p != "" {
		return []string{p}
	}
	return nil
}

// trusted returns the system's roots and those in files, or nil for only the system's.
func trusted(files []setting.File) (*x509.CertPool, error) {
	if len(files) == 0 {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's root certificates: %w", err)
	}
	for i, f := range files {
		if err := f.AddRoots(pool); err != nil {
			return nil, setting.At(fmt.Sprintf("trust[%d]", i), err)
		}
	}
	return pool, nil
}
