package intercept

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	defaultLeaves   = 10_000
	defaultLeafDays = 90
	maxLeafDays     = 398 // longest validity that browsers accept, in days
	// day is how long a leaf is used, a leaf key signs new leaves, and a ticket key makes new
	// tickets.
	day = 24 * time.Hour
	// ticketKeys is the number of ticket keys kept: a ticket is valid for a week.
	ticketKeys = 8
)

// ErrNotPermitted says that the root's name constraints exclude a name.
var ErrNotPermitted = errors.New("the root certificate does not permit this name")

// Config has the settings of an Authority.
type Config struct {
	// Root is the file that "shuultuur ca init" made.
	Root string `yaml:"root"`
	// LeafDays is the validity of a minted certificate in days, 3 to 398, two
	// of which lie in the past; default 90.
	LeafDays int `yaml:"leaf_days"`
	// Certificates is how many minted certificates are kept, of some 1.5 KiB each;
	// default 10,000.
	Certificates int `yaml:"certificates"`
}

// An Authority mints leaf certificates for hosts. It is safe for concurrent use.
type Authority struct {
	root     *Root
	validity time.Duration
	leaves   *cache[*tls.Certificate]

	usual, old leafKey // for clients that verify ECDSA, and for those that verify RSA alone

	mu   sync.Mutex
	base *tls.Config // template for Config; immutable, replaced under mu
	born time.Time   // time of the newest ticket key in base; guarded by mu
	keys [][32]byte  // ticket keys, newest first; guarded by mu
}

// A leafKey is used for all hosts of a day, so that minting costs one signature.
type leafKey struct {
	generate func() (crypto.Signer, error)

	mu   sync.Mutex // held during generate, which takes long for RSA
	key  crypto.Signer
	id   []byte
	born time.Time
}

// now returns the key of the day, and its identifier.
func (k *leafKey) now(now time.Time) (key crypto.Signer, id []byte, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key == nil || now.Sub(k.born) >= day {
		key, err := k.generate()
		if err != nil {
			return nil, nil, fmt.Errorf("make a leaf key: %w", err)
		}
		k.key, k.id, k.born = key, keyID(key.Public()), now
	}
	return k.key, k.id, nil
}

// New reads the root and prepares minting.
func New(cfg Config) (*Authority, error) {
	root, err := ReadRoot(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("root: %w", err)
	}
	return NewAuthority(root, cfg)
}

// NewAuthority is New for a root in memory; cfg.Root is ignored.
func NewAuthority(root *Root, cfg Config) (*Authority, error) {
	days, leaves := cfg.LeafDays, cfg.Certificates
	if days == 0 {
		days = defaultLeafDays
	}
	if days < 3 || days > maxLeafDays {
		return nil, fmt.Errorf("leaf_days %d: must be from 3 to %d: browsers refuse more", days, maxLeafDays)
	}
	if leaves == 0 {
		leaves = defaultLeaves
	}
	if leaves < 1 {
		return nil, fmt.Errorf("leaves %d: must be 1 or more", leaves)
	}
	a := &Authority{
		root:     root,
		validity: time.Duration(days) * day,
		leaves:   newCache[*tls.Certificate](leaves),
		base:     &tls.Config{MinVersion: tls.VersionTLS12},
	}
	a.usual.generate = func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }
	a.old.generate = func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) }
	// A root that has yet to begin, or has expired, does not keep the rest from its work: the clock may
	// be wrong. See Problem.
	return a, nil
}

// Problem returns why nothing can be decrypted now, "" if it can.
func (a *Authority) Problem() string {
	if err := a.checkValid(time.Now()); err != nil {
		return "no HTTPS connection is decrypted, and those that have to be are refused: " + err.Error()
	}
	return ""
}

// Equal reports whether b mints as a does, so that each can continue with the other's leaves
// and tickets.
func (a *Authority) Equal(b *Authority) bool {
	same := func(x, y *x509.Certificate) bool { return x.Equal(y) }
	return a.root.Certificate.Equal(b.root.Certificate) && slices.EqualFunc(a.root.Crosses, b.root.Crosses, same) &&
		a.validity == b.validity && a.leaves.most == b.leaves.most
}

// LogKeys writes the keys of all later connections with clients to w, in NSS key log format.
// They decrypt these connections: use it only for debugging.
func (a *Authority) LogKeys(w io.Writer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.base = a.base.Clone()
	a.base.KeyLogWriter = w
}

// String keeps keys out of logs.
func (a *Authority) String() string { return "authority of " + a.root.String() }

// Root returns the root that signs.
func (a *Authority) Root() *Root { return a.root }

// Config returns a configuration for tls.Server over one connection, with a
// certificate for host and these ALPN protocols, best first. host is a domain
// name, or an IP address where the client named none. Sessions are resumed
// with tickets whose keys change daily and are shared by all connections.
func (a *Authority) Config(host string, protocols ...string) (*tls.Config, error) {
	return a.config(host, &a.usual, protocols)
}

// ConfigFor is Config for the client that sent hello: one that cannot verify ECDSA gets a certificate
// with an RSA key. It verifies the root's signature alike, so the root needs an RSA key, too, unless the
// client only lacks cipher suites.
func (a *Authority) ConfigFor(hello *Hello, host string, protocols ...string) (*tls.Config, error) {
	if slices.Contains(hello.Protocols, "http/1.0") {
		protocols = append(protocols, "http/1.0")
	}
	if !hello.NeedsRSA() {
		return a.config(host, &a.usual, protocols)
	}
	c, err := a.config(host, &a.old, protocols)
	if err == nil {
		for _, s := range tls.CipherSuites() {
			c.CipherSuites = append(c.CipherSuites, s.ID)
		}
		c.CipherSuites = append(c.CipherSuites, oldSuites...)
	}
	return c, err
}

func (a *Authority) config(host string, key *leafKey, protocols []string) (*tls.Config, error) {
	cert, err := a.certificate(host, key)
	if err != nil {
		return nil, err
	}
	c := a.shared(time.Now()).Clone()
	c.Certificates = []tls.Certificate{*cert}
	c.NextProtos = protocols
	return c, nil
}

// shared returns the configuration common to all connections.
func (a *Authority) shared(now time.Time) *tls.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.keys) > 0 && now.Sub(a.born) < day {
		return a.base
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	a.keys = append([][32]byte{key}, a.keys[:min(len(a.keys), ticketKeys-1)]...)
	a.born = now
	a.base = a.base.Clone()
	a.base.SetSessionTicketKeys(a.keys)
	return a.base
}

// Certificate returns a certificate for exactly host with its chain, minting it if needed. It
// must not be changed. host is a domain name or an IP address; case, a final dot and the
// brackets of an IPv6 address do not matter. The error wraps ErrNotPermitted if the root's
// name constraints exclude the name.
func (a *Authority) Certificate(host string) (*tls.Certificate, error) {
	return a.certificate(host, &a.usual)
}

func (a *Authority) certificate(host string, key *leafKey) (*tls.Certificate, error) {
	name, addr, err := cleanHost(host)
	if err != nil {
		return nil, err
	}
	if err := a.root.permits(name, addr); err != nil {
		return nil, err
	}
	kept := name
	if key == &a.old {
		kept += " RSA" // no name has a blank
	}
	return a.leaves.get(kept, func() (*tls.Certificate, time.Time, error) {
		return a.mint(name, addr, key, time.Now())
	})
}

func cleanHost(host string) (string, netip.Addr, error) {
	bare := host
	if strings.HasPrefix(bare, "[") && strings.HasSuffix(bare, "]") {
		bare = bare[1 : len(bare)-1]
	}
	if addr, err := netip.ParseAddr(bare); err == nil {
		addr = addr.WithZone("").Unmap()
		return addr.String(), addr, nil
	}
	clean, ok := appendName(nil, []byte(host))
	if !ok || !dnsName(string(clean)) {
		return "", netip.Addr{}, fmt.Errorf("%q is neither a domain name nor an IP address", host)
	}
	return string(clean), netip.Addr{}, nil
}

// dnsName validates the labels of a name whose characters are valid.
func dnsName(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if len(label) == 0 || len(label) > 63 {
			return false
		}
	}
	return true
}

// mint signs a leaf. It is used for a day, so that clients never see it near its expiry.
func (a *Authority) mint(name string, addr netip.Addr, of *leafKey, now time.Time) (*tls.Certificate, time.Time, error) {
	if err := a.checkValid(now); err != nil {
		return nil, time.Time{}, err
	}
	key, id, err := of.now(now)
	if err != nil {
		return nil, time.Time{}, err
	}
	issuer := a.root.Certificate
	start := now.Add(-backdated).Truncate(time.Second)
	leaf := &x509.Certificate{
		SerialNumber:          serial(),
		NotBefore:             later(start, issuer.NotBefore),
		NotAfter:              earlier(start.Add(a.validity), issuer.NotAfter),
		SubjectKeyId:          id,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if _, old := key.(*rsa.PrivateKey); old { // the client may send its secret encrypted with the key
		leaf.KeyUsage |= x509.KeyUsageKeyEncipherment
	}
	if len(name) <= 64 { // a common name is limited to 64 bytes, and optional
		leaf.Subject = pkix.Name{CommonName: name}
	}
	if addr.IsValid() {
		leaf.IPAddresses = []net.IP{addr.AsSlice()}
	} else {
		leaf.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, issuer, key.Public(), a.root.key)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("mint a certificate for %q: %w", name, err)
	}
	cert := &tls.Certificate{Certificate: append([][]byte{der}, a.chain(now)...), PrivateKey: key}
	return cert, earlier(now.Add(day), leaf.NotAfter), nil
}

// chain returns the certificates to send after a leaf: all except the root.
func (a *Authority) chain(now time.Time) (chain [][]byte) {
	if c := a.root.Certificate; string(c.RawIssuer) != string(c.RawSubject) {
		chain = append(chain, c.Raw)
	}
	for _, c := range a.root.Crosses {
		if now.After(c.NotAfter) {
			break // the following certificates are not needed
		}
		chain = append(chain, c.Raw)
	}
	return chain
}

// checkValid returns why the root cannot sign now, or nil if it can.
func (a *Authority) checkValid(now time.Time) error {
	c := a.root.Certificate
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("the root certificate %q expired on %s: make a new one with \"shuultuur ca init -force\"", c.Subject.CommonName, date(c.NotAfter))
	case now.Before(c.NotBefore):
		return fmt.Errorf("the root certificate %q begins on %s, and the clock shows less: set it right; then it goes on by itself", c.Subject.CommonName, date(c.NotBefore))
	}
	return nil
}

// keyID returns the key identifier of RFC 7093, 2, method 1.
func keyID(key crypto.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil // it cannot fail for a key that we made
	}
	sum := sha256.Sum256(der)
	return sum[:20]
}
