package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"shuultuur/lib/setting"
)

// maxRevocations bounds a file with a list of revoked certificates, in bytes.
const maxRevocations = 64 << 20

// A revocations is a list of an authority's revoked certificates (CRL, RFC 5280).
type revocations struct {
	file    setting.File
	list    *x509.RevocationList
	serials map[string]bool // in decimal
}

// readRevocations reads the lists. Those of the roots in ca have to be signed by them; those of
// authorities below are compared when a client shows its chain.
func readRevocations(files []setting.File, ca setting.File) (all []*revocations, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	roots, err := certificatesIn(ca)
	if err != nil {
		return nil, err
	}
	for i, f := range files {
		r, err := readRevocation(f, roots)
		if err != nil {
			return nil, setting.At(fmt.Sprintf("crl[%d]", i), fmt.Errorf("%q: %w", f, err))
		}
		all = append(all, r)
	}
	return all, nil
}

func readRevocation(f setting.File, roots []*x509.Certificate) (*revocations, error) {
	if info, err := os.Stat(string(f)); err != nil {
		return nil, err
	} else if info.Size() > maxRevocations {
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", info.Size(), maxRevocations)
	}
	data, err := os.ReadFile(string(f))
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(data); block != nil {
		data = block.Bytes
	}
	list, err := x509.ParseRevocationList(data)
	if err != nil {
		return nil, fmt.Errorf("it is not a list of revoked certificates (CRL), in PEM or DER: %w", err)
	}
	for _, root := range roots {
		if bytes.Equal(root.RawSubject, list.RawIssuer) {
			if err = list.CheckSignatureFrom(root); err == nil {
				break
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("it is not signed by the authority that it names: %w", err)
	}
	r := &revocations{f, list, map[string]bool{}}
	for _, e := range list.RevokedCertificateEntries {
		r.serials[e.SerialNumber.String()] = true
	}
	return r, nil
}

// certificatesIn returns the certificates in a PEM file, which has been read as roots before.
func certificatesIn(f setting.File) (all []*x509.Certificate, err error) {
	data, err := os.ReadFile(string(f))
	if err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return all, nil
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c)
		}
	}
}

// lapsed says since when a newer list is due, the zero time if none is.
func (r *revocations) lapsed(now time.Time) time.Time {
	if r.list.NextUpdate.IsZero() || now.Before(r.list.NextUpdate) {
		return time.Time{}
	}
	return r.list.NextUpdate
}

// revoked reports whether a list names a certificate.
func (c *certificates) revoked(cert *x509.Certificate) bool {
	for _, r := range c.crl {
		if bytes.Equal(r.list.RawIssuer, cert.RawIssuer) && r.serials[cert.SerialNumber.String()] {
			return true
		}
	}
	return false
}

// revokedSince reports whether the certificate of an open connection does not count any more.
func (c *certificates) revokedSince(ctx context.Context, cert *x509.Certificate) bool {
	return c.revoked(cert) || c.ocsp != nil && !c.listed(cert) && c.ocsp.Recheck(ctx, cert) != nil
}

// listed reports whether a list that is in force says what the authority of a certificate has revoked.
func (c *certificates) listed(cert *x509.Certificate) bool {
	return slices.ContainsFunc(c.crl, func(r *revocations) bool {
		return bytes.Equal(r.list.RawIssuer, cert.RawIssuer) && r.lapsed(time.Now()).IsZero()
	})
}

// checkConnection refuses clients whose certificate is revoked, or of which nobody knows now
// whether it is: no list is there for its authority, or a newer one is due, and no responder says it.
func (c *certificates) checkConnection(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return nil // whether it needs one is decided elsewhere
	}
	err := errors.New("the certificate of the client is not verified")
	for _, chain := range s.VerifiedChains {
		if err = c.checkChain(chain, time.Now()); err == nil {
			return nil
		}
	}
	return err
}

func (c *certificates) checkChain(chain []*x509.Certificate, now time.Time) error {
	for i, cert := range chain[:len(chain)-1] {
		if c.revoked(cert) {
			return fmt.Errorf("the certificate of %q with the number %v is revoked", cert.Subject, cert.SerialNumber)
		}
		known := false
		var why error
		for _, r := range c.crl {
			if !bytes.Equal(r.list.RawIssuer, cert.RawIssuer) {
				continue
			}
			if due := r.lapsed(now); !due.IsZero() {
				why = fmt.Errorf("a newer list than %q of what %q has revoked is due since %s", r.file, cert.Issuer, due.Format(time.RFC3339))
			} else if err := r.list.CheckSignatureFrom(chain[i+1]); err != nil {
				why = fmt.Errorf("the list %q is not signed by %q: %w", r.file, cert.Issuer, err)
			} else {
				known = true
			}
		}
		switch {
		case known:
		case c.ocsp != nil && (i == 0 || c.ocsp.Asks(cert)):
			if err := c.ocsp.Check(context.Background(), cert, chain[i+1]); err != nil { // which has a limit
				return err
			}
		case why != nil:
			return why
		case i == 0:
			return fmt.Errorf("no list under crl says what %q has revoked", cert.Issuer)
		}
	}
	return nil
}

// problems returns which lists have lapsed, and whether responders are silent.
func (c *certificates) problems(now time.Time) (all []string) {
	for _, r := range c.crl {
		if due := r.lapsed(now); !due.IsZero() {
			what := "refused"
			if c.ocsp != nil {
				what = "asked about"
			}
			all = append(all, fmt.Sprintf("identity.certificates.crl: a newer list than %q is due since %s: certificates of %q are %s", r.file, due.Format(time.RFC3339), r.list.Issuer, what))
		}
	}
	if c.ocsp != nil {
		if p := c.ocsp.Problem(); p != "" {
			all = append(all, p)
		}
	}
	return all
}
