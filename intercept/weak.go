package intercept

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha1" // nolint:gosec // to tell a weak signature from an invalid one
	"crypto/x509"
	"encoding/asn1"
	"slices"
	"strings"
	"time"
)

// weakLink returns the certificate on the path from c to a trusted root that is signed with
// SHA-1, if that is the only fault of the chain; otherwise nil. Package x509 reports such a
// signature as an unknown authority. others are further certificates from the server.
func (v *Verifier) weakLink(ctx context.Context, c *x509.Certificate, others []*x509.Certificate, opts x509.VerifyOptions, deadline time.Time) *x509.Certificate {
	for range others {
		if weakSHA1(c.SignatureAlgorithm) {
			break
		}
		i := slices.IndexFunc(others, func(o *x509.Certificate) bool { return issued(o, c) && c.CheckSignatureFrom(o) == nil })
		if i < 0 {
			return nil
		}
		c = others[i]
	}
	if !weakSHA1(c.SignatureAlgorithm) || selfIssued(c) {
		return nil
	}
	parents := others
	if !slices.ContainsFunc(others, func(o *x509.Certificate) bool { return issued(o, c) }) {
		// It is signed by a root, which servers do not send, or its issuer must be fetched.
		// Package x509 does not list its roots; it only reports that there is one of that name
		// whose signature it did not verify.
		probe := opts
		probe.Intermediates = x509.NewCertPool() // the server sent no root
		if _, err := c.Verify(probe); err != nil && strings.Contains(err.Error(), "insecure algorithm") {
			return c
		}
		if o, err := v.issuer(ctx, c, deadline); err == nil {
			parents = append(slices.Clone(others), o)
		}
	}
	for _, o := range parents {
		if !issued(o, c) || !o.BasicConstraintsValid || !o.IsCA || !signedSHA1(c, o) {
			continue
		}
		if _, err := o.Verify(opts); err == nil {
			return c
		}
	}
	return nil
}

func weakSHA1(a x509.SignatureAlgorithm) bool {
	return a == x509.SHA1WithRSA || a == x509.ECDSAWithSHA1
}

// signedSHA1 verifies a SHA-1 signature, which package x509 no longer does.
func signedSHA1(c, parent *x509.Certificate) bool {
	sum := sha1.Sum(c.RawTBSCertificate) //nolint:gosec // see above
	switch key := parent.PublicKey.(type) {
	case *rsa.PublicKey:
		return c.SignatureAlgorithm == x509.SHA1WithRSA && rsa.VerifyPKCS1v15(key, crypto.SHA1, sum[:], c.Signature) == nil
	case *ecdsa.PublicKey:
		return c.SignatureAlgorithm == x509.ECDSAWithSHA1 && ecdsa.VerifyASN1(key, sum[:], c.Signature)
	}
	return false
}

var (
	sctList      = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2} // RFC 6962, 3.3
	webPolicyArc = asn1.ObjectIdentifier{2, 23, 140, 1}                    // policies of the CA/Browser Forum
)

// publiclyIssued reports whether a certificate looks like one of a public authority. These
// never sign a server's certificate with a root, so its issuer is an intermediate certificate.
func publiclyIssued(c *x509.Certificate) bool {
	if len(c.IssuingCertificateURL) > 0 {
		return true
	}
	for _, e := range c.Extensions {
		if e.Id.Equal(sctList) {
			return true
		}
	}
	return slices.ContainsFunc(c.PolicyIdentifiers, func(id asn1.ObjectIdentifier) bool {
		return len(id) > len(webPolicyArc) && id[:len(webPolicyArc)].Equal(webPolicyArc)
	})
}
