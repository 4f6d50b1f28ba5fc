package intercept

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/platform"
	"shuultuur/lib/release"
)

const (
	// DefaultName is the default common name of a root.
	DefaultName = "Shuultuur root R1"
	// DefaultValidity is the default validity of a root.
	DefaultValidity = 5 * 365 * 24 * time.Hour

	longestValidity = 30 * 365 * 24 * time.Hour
	// backdated allows for clients whose clocks are slow.
	backdated = 48 * time.Hour
	// maxEarlier bounds the cross certificates in a chain, all of which are
	// sent in each handshake. It is also the path length of a root.
	maxEarlier  = 3
	maxRootFile = 256 << 10
)

// RootConfig describes a new root.
type RootConfig struct {
	Name         string        // common name, at most 64 bytes; default DefaultName
	Organization string        // none if empty
	Validity     time.Duration // from a day to 30 years; default DefaultValidity
	// Domains limits the root to these names and their subdomains, and to Addrs: clients refuse other
	// certificates of it (RFC 5280 section 4.2.1.10). None means no limit.
	Domains []string
	Addrs   []netip.Addr
	// Final has the root sign no other authority (a path length of 0, RFC 5280 section 4.2.1.9): whoever
	// steals its key cannot make one. It cannot be rotated.
	Final bool
}

// A Root is the certificate that clients trust, with its key. It is immutable.
type Root struct {
	Certificate *x509.Certificate
	// Crosses have the key of each root signed by the root before it. With them, clients that
	// have only an earlier root accept later ones. Newest first.
	Crosses []*x509.Certificate
	// Earlier are the roots that came before and that clients may still have.
	Earlier []*x509.Certificate

	key crypto.Signer
}

// String keeps the key out of logs.
func (r *Root) String() string {
	return fmt.Sprintf("root %q until %s", r.Certificate.Subject, date(r.Certificate.NotAfter))
}

// MakeRoot is NewRoot for a root that people will install: it makes none while the clock is certainly wrong,
// because the root would not be valid once the clock is right.
func MakeRoot(cfg RootConfig) (*Root, error) {
	if err := checkClock(time.Now(), release.Built()); err != nil {
		return nil, err
	}
	return NewRoot(cfg)
}

// checkClock reports whether now may be, for a program that was built at a time by another clock.
func checkClock(now, built time.Time) error {
	if now.Before(built.Add(-24 * time.Hour)) {
		return fmt.Errorf("the clock shows %s, but this program was built on %s: set the clock right, and make the root then; one of a wrong day would be refused by browsers", date(now), date(built))
	}
	return nil
}

// NewRoot makes a root with a new ECDSA P-256 key.
func NewRoot(cfg RootConfig) (*Root, error) {
	template, err := cfg.template(time.Now())
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	template.SerialNumber = serial()
	template.SubjectKeyId = keyID(&key.PublicKey)
	cert, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &Root{Certificate: cert, key: key}, nil
}

// Check returns what is wrong with the description of a root.
func (cfg RootConfig) Check() error {
	_, err := cfg.template(time.Now())
	return err
}

func (cfg RootConfig) template(now time.Time) (*x509.Certificate, error) {
	name, validity := cfg.Name, cfg.Validity
	if name == "" {
		name = DefaultName
	}
	if validity == 0 {
		validity = DefaultValidity
	}
	for what, s := range map[string]string{"name": name, "organization": cfg.Organization} {
		if len(s) > 64 || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
			return nil, fmt.Errorf("%s %q: must be printable text of at most 64 bytes", what, s)
		}
	}
	if validity < 24*time.Hour || validity > longestValidity {
		return nil, fmt.Errorf("validity of %v: must be from a day to 30 years", validity)
	}
	t := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-backdated).Truncate(time.Second),
		NotAfter:              now.Add(validity).Truncate(time.Second),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLen:            maxEarlier,
	}
	if cfg.Final {
		t.MaxPathLen, t.MaxPathLenZero = 0, true
	}
	if cfg.Organization != "" {
		t.Subject.Organization = []string{cfg.Organization}
	}
	for _, d := range cfg.Domains {
		clean, ok := appendName(nil, []byte(d))
		if !ok || !dnsName(string(clean)) {
			return nil, fmt.Errorf("domain %q: must be a domain name like school.example, which also covers the names below it", d)
		}
		t.PermittedDNSDomains = append(t.PermittedDNSDomains, string(clean))
	}
	if len(cfg.Domains) > 0 {
		// Otherwise names of other kinds would have no limit.
		t.PermittedDNSDomainsCritical = true
		for _, a := range cfg.Addrs {
			t.PermittedIPRanges = append(t.PermittedIPRanges, &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())})
		}
		if len(cfg.Addrs) == 0 {
			t.ExcludedIPRanges = []*net.IPNet{
				{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
				{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
			}
		}
	}
	return t, nil
}

// Rotate makes the root that follows r: a new key, signed by r until r ends. Clients that have
// r continue without a change; those that get the new root no longer need r. Empty fields of
// cfg are copied from r, and the number at the end of the name is incremented. r's key is not
// kept: certificates that it has signed remain valid, but it cannot sign more.
func (r *Root) Rotate(cfg RootConfig) (*Root, error) {
	now := time.Now()
	old := r.Certificate
	if !bytes.Equal(old.RawIssuer, old.RawSubject) {
		return nil, fmt.Errorf("certificate %q was issued by %q: ask there for a new one", old.Subject, old.Issuer)
	}
	if now.After(old.NotAfter) {
		return nil, fmt.Errorf("root %q expired on %s: make a new one with init", old.Subject.CommonName, date(old.NotAfter))
	}
	if old.MaxPathLenZero {
		return nil, fmt.Errorf("root %q was made with -final and vouches for no other one: make a new one with init -force, and give it to the clients", old.Subject.CommonName)
	}
	if cfg.Name == "" {
		cfg.Name = nextName(old.Subject.CommonName)
	}
	if cfg.Name == old.Subject.CommonName {
		return nil, fmt.Errorf("name %q: must differ from the name of the previous root, so that people can tell them apart", cfg.Name)
	}
	if cfg.Organization == "" && len(old.Subject.Organization) > 0 {
		cfg.Organization = old.Subject.Organization[0]
	}
	if cfg.Domains == nil {
		cfg.Domains = old.PermittedDNSDomains
		for _, n := range old.PermittedIPRanges {
			if a, ok := netip.AddrFromSlice(n.IP); ok {
				cfg.Addrs = append(cfg.Addrs, a)
			}
		}
	}
	next, err := NewRoot(cfg)
	if err != nil {
		return nil, err
	}
	cross := *next.Certificate
	cross.SerialNumber = serial()
	cross.SignatureAlgorithm = 0 // 0 means the one that suits the signing key
	cross.NotBefore = later(cross.NotBefore, old.NotBefore)
	cross.NotAfter = earlier(cross.NotAfter, old.NotAfter)
	crossed, err := sign(&cross, old, next.key.Public(), r.key)
	if err != nil {
		return nil, err
	}
	ended := func(c *x509.Certificate) bool { return now.After(c.NotAfter) }
	next.Crosses = slices.DeleteFunc(append([]*x509.Certificate{crossed}, r.Crosses...), ended)
	next.Earlier = slices.DeleteFunc(append([]*x509.Certificate{old}, r.Earlier...), ended)
	if len(next.Crosses) > maxEarlier {
		return nil, fmt.Errorf("%d earlier roots are still valid, the oldest until %s: every handshake would carry a certificate for each", len(next.Crosses), date(r.Earlier[len(r.Earlier)-1].NotAfter))
	}
	return next, nil
}

// nextName increments the number at the end of a name: "Root R1", "Root R2".
func nextName(name string) string {
	if i := strings.LastIndex(name, " R"); i >= 0 {
		if n, err := strconv.Atoi(name[i+2:]); err == nil && n > 0 {
			return name[:i+2] + strconv.Itoa(n+1)
		}
	}
	return name + " R2"
}

// ReadRoot reads a root from its file: PEM, a PRIVATE KEY (PKCS#8) and its CERTIFICATE, then
// the cross certificates and earlier roots. The key may be in a separate file, see KeyFile.
// ReadRoot refuses a key that anyone but its owner may read. The root may also be an
// intermediate authority, issued by another one: the certificates of its issuers are sent
// along.
func ReadRoot(file string) (*Root, error) {
	text, mode, err := readRootFile(file)
	if err != nil {
		return nil, err
	}
	secret := file
	var r *Root
	if bytes.Contains(text, []byte("PRIVATE KEY")) {
		r, err = parseRoot(text)
	} else if r, mode, err = withKey(file, text); err == nil || mode != 0 {
		secret = KeyFile(file)
	}
	if platform.Open(mode) {
		return nil, fmt.Errorf("%s: mode %v: others than its owner may use the key in it: chmod 600, and make a new root if somebody may have read it", secret, mode)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// KeyFile returns the file with the key of the root in file, unless the key is in file itself:
// root-key.pem for root.pem.
func KeyFile(file string) string {
	base, _ := strings.CutSuffix(file, ".pem")
	return base + "-key.pem"
}

// readRootFile reads a file with a root or its key.
func readRootFile(file string) (text []byte, mode fs.FileMode, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: mode %v: not a file", file, info.Mode())
	}
	if text, err = io.ReadAll(io.LimitReader(f, maxRootFile+1)); err != nil {
		return nil, 0, err
	}
	if len(text) > maxRootFile {
		return nil, 0, fmt.Errorf("%s: more than %d bytes: not a root", file, maxRootFile)
	}
	return text, info.Mode(), nil
}

// withKey reads a root whose key is in a separate file. While a root is being replaced, that
// file has two keys, one of which belongs to the certificate.
func withKey(file string, certificates []byte) (r *Root, mode fs.FileMode, err error) {
	keys, mode, err := readRootFile(KeyFile(file))
	if err != nil {
		_, wrong := parseRoot(certificates) // it may lack a key, but nothing else
		return nil, 0, fmt.Errorf("%w; there is no key in it or beside it: %w", wrong, err)
	}
	err = fmt.Errorf("there is no PRIVATE KEY in %s", KeyFile(file))
	for range 2 {
		block, rest := pem.Decode(keys)
		if block == nil {
			break
		}
		if r, err = parseRoot(slices.Concat(pem.EncodeToMemory(block), certificates)); err == nil {
			return r, mode, nil
		}
		keys = rest
	}
	return nil, mode, err
}

func parseRoot(text []byte) (*Root, error) {
	r := new(Root)
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		switch block.Type {
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("read the key: %w", err)
			}
			signer, ok := key.(crypto.Signer)
			if !ok || r.key != nil {
				return nil, errors.New("need exactly one key that can sign")
			}
			r.key = signer
		case "CERTIFICATE":
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("read a certificate: %w", err)
			}
			switch {
			case r.Certificate == nil:
				r.Certificate = c
			case bytes.Equal(c.RawIssuer, c.RawSubject):
				r.Earlier = append(r.Earlier, c)
			default:
				r.Crosses = append(r.Crosses, c)
			}
		default:
			return nil, fmt.Errorf("block %q: need PRIVATE KEY and CERTIFICATE; \"openssl pkcs8 -topk8 -nocrypt\" converts other keys", block.Type)
		}
	}
	if r.key == nil || r.Certificate == nil {
		return nil, errors.New("need a PRIVATE KEY and its CERTIFICATE in PEM")
	}
	public, ok := r.key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(r.Certificate.PublicKey) {
		return nil, errors.New("the key does not belong to the first certificate")
	}
	if !r.Certificate.IsCA {
		return nil, fmt.Errorf("certificate %q is not a certificate authority", r.Certificate.Subject)
	}
	return r, nil
}

// Write writes the root to a file that only its owner may read. The file appears whole or not
// at all. Write replaces an existing file only if replace is set.
func (r *Root) Write(file string, replace bool) error {
	key, err := x509.MarshalPKCS8PrivateKey(r.key)
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	for _, c := range slices.Concat([]*x509.Certificate{r.Certificate}, r.Crosses, r.Earlier) {
		text = append(text, pemCertificate(c)...)
	}
	if replace {
		return atomicfile.WriteBytes(file, 0o600, text)
	}
	err = atomicfile.CreateBytes(file, 0o600, text)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w: clients may trust the root in it", file, fs.ErrExist)
	}
	return err
}

// WriteApart writes the root to a file that everybody may read, and its key to the one that
// KeyFile names, which only its owner may read. It replaces existing files only if replace is
// set. If it is interrupted at any time, there is a root with its key.
func (r *Root) WriteApart(file string, replace bool) error {
	der, err := x509.MarshalPKCS8PrivateKey(r.key)
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	var text []byte
	for _, c := range slices.Concat([]*x509.Certificate{r.Certificate}, r.Crosses, r.Earlier) {
		text = append(text, pemCertificate(c)...)
	}
	for _, name := range []string{file, KeyFile(file)} {
		if _, err := os.Lstat(name); err == nil && !replace {
			return fmt.Errorf("%s: %w: clients may trust the root in it", name, fs.ErrExist)
		}
	}
	both := key
	if old, _, err := readRootFile(KeyFile(file)); err == nil {
		if block, _ := pem.Decode(old); block != nil {
			both = append(slices.Clone(key), pem.EncodeToMemory(block)...)
		}
	}
	if err := atomicfile.WriteBytes(KeyFile(file), 0o600, both); err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(file, 0o644, text); err != nil {
		return err
	}
	if len(both) == len(key) {
		return nil
	}
	return atomicfile.WriteBytes(KeyFile(file), 0o600, key)
}

func pemCertificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// permits returns why the root's own limits forbid a leaf for host, or nil if they do not.
func (r *Root) permits(host string, addr netip.Addr) error {
	domains := r.Certificate.PermittedDNSDomains
	if len(domains) == 0 {
		return nil
	}
	for _, n := range r.Certificate.PermittedIPRanges {
		if addr.IsValid() && n.Contains(addr.AsSlice()) {
			return nil
		}
	}
	for _, d := range domains {
		if !addr.IsValid() && (host == d || strings.HasSuffix(host, "."+d)) {
			return nil
		}
	}
	return fmt.Errorf("%q: %w: it is limited to %s", host, ErrNotPermitted, strings.Join(domains, ", "))
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for %q: %w", template.Subject, err)
	}
	return x509.ParseCertificate(der)
}

// serial returns 128 random bits.
func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[15] |= 1             // nor may it be zero
	return new(big.Int).SetBytes(b[:])
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02") }
