package certificate

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/setting"
)

// An account is what is remembered of the authority.
type account struct {
	Key []byte `json:"key,omitempty"` // of the account, PKCS #8
	For string `json:"for,omitempty"` // digest of the settings of the last order
	failure
}

// A failure is what is known about orders that failed, one after another.
type failure struct {
	Times int       `json:"failed,omitempty"`
	At    time.Time `json:"at,omitzero"`
	Next  time.Time `json:"next,omitzero"` // no order before
	Why   string    `json:"why,omitempty"`
}

// digest tells orders apart: what failed with other settings says nothing.
func (c *Config) digest() string { return setting.Digest(c) }

// files are the files in the data folder: the account, and the certificate with its key. The first line
// of each has the digest of the rest, since a wrong bit in a certificate would be found by browsers alone.
type files struct{ folder string }

func (f files) accountFile() string { return filepath.Join(f.folder, "certificate", "account.json") }
func (f files) pairFile() string    { return filepath.Join(f.folder, "certificate", "certificate.pem") }

// maxFile bounds what is read from a file of ours.
const maxFile = 1 << 20

var errDamaged = errors.New("its content is not what was written")

func read(file string) ([]byte, error) {
	r, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxFile))
	if err != nil {
		return nil, err
	}
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	if string(first) != headOf(rest) {
		return nil, errDamaged
	}
	return rest, nil
}

func write(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("making a folder for the certificate: %w", err)
	}
	return atomicfile.WriteBytes(file, 0o600, append([]byte(headOf(data)+"\n"), data...))
}

func headOf(data []byte) string { return fmt.Sprintf("# sha256 %x", sha256.Sum256(data)) }

// use reads a file of ours. One that is damaged is set aside: what was in it is asked for again.
func use(file string, log *slog.Logger, parse func([]byte) error) {
	data, err := read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = parse(data)
	}
	if err != nil {
		log.Error("a file of the certificate cannot be used and is set aside; the authority is asked again", "file", file, "error", errors.Join(err, atomicfile.SetAside(file)))
	}
}

// account reads what is remembered of the authority.
func (f files) account(log *slog.Logger) (a account) {
	use(f.accountFile(), log, func(data []byte) error {
		err := json.Unmarshal(data, &a)
		if err == nil && a.Key != nil {
			_, err = signer(a.Key)
		}
		if err != nil {
			a = account{}
		}
		return err
	})
	return a
}

func (f files) writeAccount(a *account) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return write(f.accountFile(), data)
}

// pair reads the certificate, nil if there is none.
func (f files) pair(log *slog.Logger) (pair *tls.Certificate) {
	use(f.pairFile(), log, func(data []byte) error {
		c, err := pairOf(data)
		pair = c
		return err
	})
	return pair
}

func (f files) writePair(text []byte) error { return write(f.pairFile(), text) }

// pairOf reads a certificate and its key from a PEM text with both.
func pairOf(text []byte) (*tls.Certificate, error) {
	c, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate and its key: %w", err)
	}
	return &c, nil
}

// textOf returns the PEM text of a chain and its key.
func textOf(chain [][]byte, key crypto.Signer) ([]byte, error) {
	var b bytes.Buffer
	for _, der := range chain {
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			return nil, err
		}
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err == nil {
		err = pem.Encode(&b, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	return b.Bytes(), err
}

// signer reads a key.
func signer(der []byte) (crypto.Signer, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("reading the key of the account: %w", err)
	}
	s, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key of the account cannot sign")
	}
	return s, nil
}

// newKey makes a key of a kind that the settings name.
func newKey(kind string) (crypto.Signer, error) {
	if kind == "rsa" {
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// ours names the issuer of certificates of our own making.
const ours = "Shuultuur, until its certificate arrives"

// provisional reports whether a certificate is of our own making.
func provisional(leaf *x509.Certificate) bool {
	return leaf.Issuer.CommonName == ours && bytes.Equal(leaf.RawIssuer, leaf.RawSubject)
}

// selfSigned makes a certificate that only says that it is ours.
func selfSigned(names []string, now time.Time) (*tls.Certificate, []byte, error) {
	key, err := newKey("")
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: ours}, NotBefore: now.AddDate(0, 0, -1), NotAfter: now.AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	text, err := textOf([][]byte{der}, key)
	if err != nil {
		return nil, nil, err
	}
	pair, err := pairOf(text)
	return pair, text, err
}
