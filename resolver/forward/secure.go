package forward

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// tlsConfig returns the TLS settings for an upstream. A pin replaces verification by name and
// roots (RFC 7858 section 4.2).
func tlsConfig(a address, roots *x509.CertPool, protocols ...string) *tls.Config {
	cfg := &tls.Config{
		ServerName:         a.name,
		RootCAs:            roots,
		NextProtos:         protocols,
		MinVersion:         tls.VersionTLS12,
		ClientSessionCache: tls.NewLRUClientSessionCache(4),
	}
	if a.pin != nil {
		cfg.InsecureSkipVerify = true // VerifyConnection verifies instead
		cfg.VerifyConnection = func(s tls.ConnectionState) error { return checkPin(s, a.pin) }
	}
	return cfg
}

// checkPin looks for the pinned key among the server's certificates.
func checkPin(s tls.ConnectionState, pin []byte) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the server shows no certificate")
	}
	sum := sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo)
	if !bytes.Equal(sum[:], pin) {
		return fmt.Errorf("the server's key is %x, not the pinned one", sum)
	}
	return nil
}

// overTLS adds a TLS handshake to dial.
func overTLS(dial func(context.Context) (net.Conn, error), cfg *tls.Config) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		raw, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		c := tls.Client(raw, cfg)
		if err := c.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, err
		}
		return c, nil
	}
}
