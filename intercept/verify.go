package intercept

import (
	"bytes"
	"context"
	"crypto/dsa" // nolint:staticcheck // to recognise keys of this weak kind
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/ocsp"
)

// A Kind is the word for a fault of a server's certificate.
type Kind string

// The kinds of fault, in the order in which they are listed.
const (
	Revoked             Kind = "revoked"
	SelfSigned          Kind = "self-signed"
	UnknownRoot         Kind = "unknown-root"
	MissingIntermediate Kind = "missing-intermediate"
	InvalidChain        Kind = "invalid-chain"
	WrongHost           Kind = "wrong-host"
	Expired             Kind = "expired"
	NotYetValid         Kind = "not-yet-valid"
	WeakKey             Kind = "weak-key"
)

// A Fault is one thing that is wrong with a server's certificate.
type Fault struct {
	Kind   Kind
	Detail string // for the operator: which certificate, and details
}

func (f Fault) String() string { return string(f.Kind) + ": " + f.Detail }

// Explain describes the fault to a visitor of host.
func (f Fault) Explain(host string) string {
	switch f.Kind {
	case Revoked:
		return fmt.Sprintf("The certificate of %s has been revoked by those who issued it, perhaps because its key was stolen. Whoever answers may not be %s.", host, host)
	case SelfSigned:
		return fmt.Sprintf("%s vouches only for itself: nobody else confirms that it is the real one.", host)
	case UnknownRoot:
		return fmt.Sprintf("The certificate of %s was issued by an authority that is not trusted here.", host)
	case MissingIntermediate:
		return fmt.Sprintf("%s does not send all that is needed to check its certificate, and the missing part could not be fetched. The server is set up wrongly.", host)
	case InvalidChain:
		return fmt.Sprintf("The certificate of %s was issued against the rules that its issuer is bound to.", host)
	case WrongHost:
		return fmt.Sprintf("The server that answered has a certificate for other names than %s.", host)
	case Expired:
		return fmt.Sprintf("The certificate of %s has expired, and nothing confirms any more that it is the real one.", host)
	case NotYetValid:
		return fmt.Sprintf("The certificate of %s is not valid yet. Its clock or ours is wrong.", host)
	case WeakKey:
		return fmt.Sprintf("The certificate of %s is protected by cryptography that can be broken today.", host)
	}
	return fmt.Sprintf("The certificate of %s could not be verified.", host)
}

// A Staple is the result of checking a server's stapled OCSP response (RFC 6066 section 8).
type Staple string

// Only a staple that is fresh and signed by the certificate's issuer counts.
const (
	NoStaple       Staple = ""
	GoodStaple     Staple = "good"
	RevokedStaple  Staple = "revoked"
	UnknownStaple  Staple = "unknown"    // the responder does not know the certificate
	StaleStaple    Staple = "stale"      // out of date
	UnusableStaple Staple = "unverified" // broken, or not signed by the issuer
)

// A Result is the result of a Verifier. It is shared: read only.
type Result struct {
	Faults []Fault
	// Chains lead from the leaf to a trusted root. There are none with self-signed,
	// unknown-root, missing-intermediate or invalid-chain.
	Chains [][]*x509.Certificate
	// Fetched are intermediates that the server should have sent.
	Fetched []*x509.Certificate
	Staple  Staple
}

// Has reports whether there is a fault of a kind.
func (r *Result) Has(k Kind) bool {
	return slices.ContainsFunc(r.Faults, func(f Fault) bool { return f.Kind == k })
}

// VerifierConfig sets the trusted roots of a Verifier and how it connects.
type VerifierConfig struct {
	Roots *x509.CertPool // the system's if nil
	// Dial connects to the source of a missing intermediate, an address in a stranger's
	// certificate. It must refuse addresses that are not public. nil: nothing is fetched.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

const (
	maxPresented = 16 // examined certificates of a server
	maxResults   = 1024
	resultTime   = 10 * time.Minute
	minRSABits   = 2048
	minCurveBits = 256
	maxDetail    = 500 // bytes
)

// A Verifier checks certificates of servers. It is safe for concurrent use.
type Verifier struct {
	roots   *x509.CertPool
	client  *http.Client // nil: nothing is fetched
	slots   chan struct{}
	issuers *cache[issuer]
	results *cache[*Result]
}

// NewVerifier uses the system's roots if cfg has none.
func NewVerifier(cfg VerifierConfig) (*Verifier, error) {
	v := &Verifier{
		roots: cfg.Roots, slots: make(chan struct{}, maxFetches),
		issuers: newCache[issuer](maxIssuers), results: newCache[*Result](maxResults),
	}
	if v.roots == nil {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's root certificates: %w", err)
		}
		v.roots = pool
	}
	if cfg.Dial != nil {
		v.client = issuerClient(cfg.Dial)
	}
	return v, nil
}

// Verify finds every fault in the certificate that a server presented for host, a domain name
// or an IP address. state is that of a handshake made with InsecureSkipVerify, which verifies
// only the possession of the key. Results are kept for a few minutes. Verify takes up to 5 s if
// it has to fetch an intermediate. Several callers may wait for one fetch, which continues when
// one of them gives up.
func (v *Verifier) Verify(ctx context.Context, host string, state tls.ConnectionState) *Result {
	h := sha256.New()
	for _, c := range state.PeerCertificates {
		h.Write(c.Raw) // DER includes its own length
	}
	fmt.Fprintf(h, "%q", host)
	h.Write(state.OCSPResponse)
	r, _ := v.results.get(string(h.Sum(nil)), func() (*Result, time.Time, error) {
		now := time.Now()
		r, passing := v.verify(ctx, host, state, now)
		if passing {
			return r, time.Time{}, nil
		}
		return r, now.Add(resultTime), nil
	})
	return r
}

// verify also reports whether the result depends on a temporary failure.
func (v *Verifier) verify(ctx context.Context, host string, state tls.ConnectionState, now time.Time) (r *Result, passing bool) {
	r = new(Result)
	if len(state.PeerCertificates) == 0 {
		r.add(InvalidChain, "the server presented no certificate")
		return r, false
	}
	certs := state.PeerCertificates[:min(len(state.PeerCertificates), maxPresented)]
	leaf := certs[0]

	passing = v.build(ctx, r, certs, now)
	r.staple(state.OCSPResponse, leaf, certs, now)
	if err := leaf.VerifyHostname(host); err != nil {
		r.add(WrongHost, "the certificate is for %s", names(leaf))
	}
	r.dates(leaf, now)
	r.strength(certs)
	slices.SortStableFunc(r.Faults, func(a, b Fault) int { return rank(a.Kind) - rank(b.Kind) })
	return r, passing
}

func rank(k Kind) int {
	return slices.Index([]Kind{Revoked, SelfSigned, UnknownRoot, MissingIntermediate, InvalidChain, WrongHost, Expired, NotYetValid, WeakKey}, k)
}

// add records the first fault of a kind. Text from strangers' certificates ends up in logs, so
// control characters are removed and the length is bounded.
func (r *Result) add(k Kind, format string, args ...any) {
	if r.Has(k) {
		return
	}
	detail := strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return -1
		}
		return c
	}, fmt.Sprintf(format, args...))
	if len(detail) > maxDetail {
		detail = strings.ToValidUTF8(detail[:maxDetail], "") + "…"
	}
	r.Faults = append(r.Faults, Fault{k, detail})
}

// names returns the first few names of a certificate.
func names(c *x509.Certificate) string {
	var list []string
	for _, n := range c.DNSNames[:min(len(c.DNSNames), 5)] {
		list = append(list, strconv.Quote(n))
	}
	for _, ip := range c.IPAddresses[:min(len(c.IPAddresses), 5)] {
		list = append(list, ip.String())
	}
	switch more := len(c.DNSNames) + len(c.IPAddresses) - len(list); {
	case len(list) == 0:
		return "no host at all"
	case more > 0:
		return fmt.Sprintf("%s and %d others", strings.Join(list, ", "), more)
	}
	return strings.Join(list, ", ")
}

func (r *Result) dates(c *x509.Certificate, now time.Time) {
	switch {
	case now.After(c.NotAfter):
		r.add(Expired, "certificate %q expired on %s", c.Subject, date(c.NotAfter))
	case now.Before(c.NotBefore):
		r.add(NotYetValid, "certificate %q is not valid before %s", c.Subject, date(c.NotBefore))
	}
}

// build finds chains to a trusted root, fetching missing certificates.
func (v *Verifier) build(ctx context.Context, r *Result, certs []*x509.Certificate, now time.Time) (passing bool) {
	leaf := certs[0]
	opts := x509.VerifyOptions{
		Roots:         v.roots,
		Intermediates: x509.NewCertPool(),
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	// Dates are judged separately. Chains are verified at the leaf's own time, since otherwise
	// an expired leaf would hide that it has no issuer.
	if now.After(leaf.NotAfter) {
		opts.CurrentTime = leaf.NotAfter
	} else if now.Before(leaf.NotBefore) {
		opts.CurrentTime = leaf.NotBefore
	}
	for _, c := range certs[1:] {
		opts.Intermediates.AddCert(c)
	}
	chains, err := leaf.Verify(opts)
	if !unknownAuthority(err) {
		r.chained(chains, err, now)
		return false
	}
	if selfIssued(leaf) {
		r.add(SelfSigned, "certificate %q is signed by itself", leaf.Subject)
		return false
	}
	deadline := now.Add(fetchTimeout)
	if weak := v.weakLink(ctx, leaf, certs[1:], opts, deadline); weak != nil {
		r.add(WeakKey, "certificate %q is signed with %v", weak.Subject, weak.SignatureAlgorithm)
		return false
	}
	top := summit(certs)
	for range maxFetchDepth {
		if selfIssued(top) {
			break
		}
		next, fetchErr := v.issuer(ctx, top, deadline)
		if errors.Is(fetchErr, errNoIssuer) && (top != leaf || !publiclyIssued(leaf)) {
			break
		}
		if fetchErr != nil {
			r.add(MissingIntermediate, "the server did not send the certificate of %q, which issued %q: %v", top.Issuer, top.Subject, fetchErr)
			return true
		}
		opts.Intermediates.AddCert(next)
		r.Fetched = append(r.Fetched, next)
		chains, err = leaf.Verify(opts)
		if !unknownAuthority(err) {
			r.chained(chains, err, now)
			return false
		}
		top = next
	}
	missing := ""
	if !selfIssued(top) {
		missing = " (if that is an intermediate certificate, the server has to send it too)"
	}
	r.add(UnknownRoot, "no trusted root vouches for %q, which issued %q: %v%s", top.Issuer, top.Subject, err, missing)
	return false
}

func unknownAuthority(err error) bool {
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &unknown)
}

// chained records the result of a search that did not end at an unknown root.
func (r *Result) chained(chains [][]*x509.Certificate, err error, now time.Time) {
	var invalid x509.CertificateInvalidError
	switch {
	case err == nil:
		r.Chains = chains
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		r.dates(invalid.Cert, now)
		if len(r.Faults) == 0 { // valid now, but not at the time of an expired leaf
			r.add(InvalidChain, "%v", err)
		}
	default:
		r.add(InvalidChain, "%v", err)
	}
}

// summit returns the last certificate on the path up from the leaf.
func summit(certs []*x509.Certificate) *x509.Certificate {
	top := certs[0]
	for range certs { // no more steps than certificates, because they may form a cycle
		if selfIssued(top) {
			break
		}
		i := slices.IndexFunc(certs, func(c *x509.Certificate) bool { return issued(c, top) })
		if i < 0 {
			break
		}
		top = certs[i]
	}
	return top
}

// issued reports whether c claims to be the issuer of child.
func issued(c, child *x509.Certificate) bool {
	return bytes.Equal(c.RawSubject, child.RawIssuer) &&
		(len(c.SubjectKeyId) == 0 || len(child.AuthorityKeyId) == 0 || bytes.Equal(c.SubjectKeyId, child.AuthorityKeyId))
}

func selfIssued(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, c.RawIssuer) }

// staple checks the stapled OCSP response. It can only add faults: most servers send none, and
// a stale one means nothing.
func (r *Result) staple(response []byte, leaf *x509.Certificate, certs []*x509.Certificate, now time.Time) {
	if len(response) == 0 {
		return
	}
	var by *x509.Certificate
	if len(r.Chains) > 0 && len(r.Chains[0]) > 1 {
		by = r.Chains[0][1]
	} else if i := slices.IndexFunc(certs, func(c *x509.Certificate) bool { return issued(c, leaf) }); i > 0 && leaf.CheckSignatureFrom(certs[i]) == nil {
		by = certs[i]
	}
	r.Staple = UnusableStaple
	if by == nil {
		return
	}
	o, err := ocsp.ParseResponseForCert(response, leaf, by)
	if err != nil {
		return
	}
	if d := o.Certificate; d != nil && !bytes.Equal(d.Raw, by.Raw) && !slices.Contains(d.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning) {
		return // signed by a customer of the issuer, not by its responder (RFC 6960 section 4.2.2.2)
	}
	switch {
	case o.ThisUpdate.After(now.Add(time.Hour)), !o.NextUpdate.IsZero() && now.After(o.NextUpdate):
		r.Staple = StaleStaple
	case o.Status == ocsp.Revoked:
		r.Staple = RevokedStaple
		r.add(Revoked, "certificate %q was revoked on %s, says its issuer %q", leaf.Subject, date(o.RevokedAt), by.Subject)
	case o.Status == ocsp.Good:
		r.Staple = GoodStaple
	default:
		r.Staple = UnknownStaple
	}
}

// strength finds weak keys and signatures in the presented certificates, or, if there
// are several chains, in the strongest of them. The signature of a root does not matter.
func (r *Result) strength(certs []*x509.Certificate) {
	weak := weakness(certs)
	for i, chain := range r.Chains {
		if w := weakness(chain); i == 0 || w == "" {
			weak = w
		}
	}
	if weak != "" {
		r.add(WeakKey, "%s", weak)
	}
}

func weakness(chain []*x509.Certificate) string {
	for i, c := range chain {
		if (i == 0 || !selfIssued(c)) && weakSignature(c.SignatureAlgorithm) {
			return fmt.Sprintf("certificate %q is signed with %v", c.Subject, c.SignatureAlgorithm)
		}
		switch key := c.PublicKey.(type) {
		case *rsa.PublicKey:
			if n := key.N.BitLen(); n < minRSABits {
				return fmt.Sprintf("certificate %q has an RSA key of %d bits", c.Subject, n)
			}
		case *ecdsa.PublicKey:
			if n := key.Curve.Params().BitSize; n < minCurveBits {
				return fmt.Sprintf("certificate %q has an elliptic key of %d bits", c.Subject, n)
			}
		case *dsa.PublicKey:
			return fmt.Sprintf("certificate %q has a DSA key", c.Subject)
		}
	}
	return ""
}

func weakSignature(a x509.SignatureAlgorithm) bool {
	switch a {
	case x509.MD2WithRSA, x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.DSAWithSHA256, x509.ECDSAWithSHA1:
		return true
	}
	return false
}
