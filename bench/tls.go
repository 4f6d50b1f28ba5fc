package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"shuultuur/intercept"
)

// certificates are for runs with TLS: an authority with which every peer decrypts connections,
// and an origin that all of them trust.
type certificates struct {
	root      string // file: the authority's key and certificate, as used by Shuultuur
	ca, key   string // files: the same, separately
	leafKey   string // file: an RSA key for the leaf certificates of peers that make none
	origin    string // file: certificate of the origin
	originKey string
	roots     *x509.CertPool // the roots that clients trust
}

// certify makes the certificates, in the temporary folder.
func (r *rig) certify() (*certificates, error) {
	in := func(name string) string { return filepath.Join(r.dir, name) }
	c := &certificates{root: in("root.pem"), ca: in("ca.pem"), key: in("ca.key"), leafKey: in("leaf.key"), origin: in("origin.pem"), originKey: in("origin.key"), roots: x509.NewCertPool()}
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err != nil {
		return nil, err
	}
	c.roots.AddCert(root.Certificate)
	if err := root.Write(c.root, false); err != nil {
		return nil, err
	}
	both, err := os.ReadFile(c.root)
	if err != nil {
		return nil, err
	}
	key, rest := pem.Decode(both)
	if key == nil {
		return nil, fmt.Errorf("no key in %q", c.root)
	}
	origin, originKey, err := newOrigin()
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(origin.Bytes)
	if err != nil {
		return nil, err
	}
	c.roots.AddCert(parsed)
	// The peers change to other users before they read some of these.
	errs := []error{os.WriteFile(c.key, pem.EncodeToMemory(key), 0o644), os.WriteFile(c.ca, rest, 0o644)}
	errs = append(errs, os.WriteFile(c.origin, pem.EncodeToMemory(origin), 0o644), os.WriteFile(c.originKey, pem.EncodeToMemory(originKey), 0o644))
	leaf, err := newKey()
	if err != nil {
		return nil, err
	}
	errs = append(errs, os.WriteFile(c.leafKey, pem.EncodeToMemory(leaf.block), 0o644))
	return c, errors.Join(errs...)
}

// together writes the origin's certificate and key into one file, and returns its name.
func (c *certificates) together(dir string) (string, error) {
	cert, err := os.ReadFile(c.origin)
	if err != nil {
		return "", err
	}
	key, err := os.ReadFile(c.originKey)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "origin-both.pem")
	return file, os.WriteFile(file, append(cert, key...), 0o644)
}

type newlyMade struct {
	*ecdsa.PrivateKey
	block *pem.Block
}

func newKey() (newlyMade, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return newlyMade{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return newlyMade{key, &pem.Block{Type: "PRIVATE KEY", Bytes: der}}, err
}

// newOrigin makes the origin's certificate, which is its own root.
func newOrigin() (cert, key *pem.Block, err error) {
	k, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k.PrivateKey)
	return &pem.Block{Type: "CERTIFICATE", Bytes: der}, k.block, err
}

// bump returns the settings with which squid decrypts TLS. Its helper stores certificates in a
// folder.
func (r *rig) bump(dir string) (port, lines string, err error) {
	const helper = "/usr/lib/squid/security_file_certgen"
	if _, err := os.Stat(helper); err != nil {
		return "", "", fmt.Errorf("%w, no squid-openssl: %w", errMissing, err)
	}
	store := filepath.Join(dir, "store")
	if out, err := exec.CommandContext(r.ctx, helper, "-c", "-s", store, "-M", "16MB").CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("%w, its store cannot be made: %w: %s", errMissing, err, out)
	}
	err = filepath.WalkDir(store, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(p, 0o777)
	})
	return " ssl-bump generate-host-certificates=on dynamic_cert_mem_cache_size=16MB tls-cert=" + r.certs.root, expand(`
sslcrtd_program HELPER -s STORE -M 16MB
sslcrtd_children 2 startup=2
acl first at_step SslBump1
ssl_bump peek first
ssl_bump bump all
tls_outgoing_options cafile=ORIGIN
`, "HELPER", helper, "STORE", store, "ORIGIN", r.certs.origin), err
}
