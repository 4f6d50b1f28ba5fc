package intercept

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ocsp"
)

// A party is a certificate with its key.
type party struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newKey(tb testing.TB) crypto.Signer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// issue makes a certificate signed by p, or by itself if p is nil.
func (p *party) issue(tb testing.TB, name string, change func(c *x509.Certificate, key *crypto.Signer)) *party {
	tb.Helper()
	key := newKey(tb)
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-24 * time.Hour),
		NotAfter:              time.Now().Add(240 * time.Hour),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if change != nil {
		change(template, &key)
	}
	signer := party{template, key}
	if p != nil {
		signer = *p
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.cert, key.Public(), signer.key)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return &party{cert, key}
}

func authority(c *x509.Certificate, _ *crypto.Signer) { c.IsCA = true }

func host(names ...string) func(*x509.Certificate, *crypto.Signer) {
	return func(c *x509.Certificate, _ *crypto.Signer) { c.DNSNames = names }
}

func (p *party) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.cert)
	return pool
}

// present makes a handshake with a server that has this certificate, chain and staple, and
// returns the client's view.
func present(t *testing.T, leaf *party, staple []byte, chain ...*party) tls.ConnectionState {
	t.Helper()
	cert := tls.Certificate{Certificate: [][]byte{leaf.cert.Raw}, PrivateKey: leaf.key, OCSPStaple: staple}
	for _, c := range chain {
		cert.Certificate = append(cert.Certificate, c.cert.Raw)
	}
	return talk(t, &tls.Config{Certificates: []tls.Certificate{cert}}, &tls.Config{InsecureSkipVerify: true, ServerName: "www.example.test"})
}

func newVerifier(tb testing.TB, cfg VerifierConfig) *Verifier {
	tb.Helper()
	v, err := NewVerifier(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func kinds(r *Result) string {
	var words []string
	for _, f := range r.Faults {
		words = append(words, string(f.Kind))
	}
	return strings.Join(words, " ")
}

func TestEveryFaultIsNamed(t *testing.T) {
	root := (*party)(nil).issue(t, "Root", authority)
	middle := root.issue(t, "Middle", authority)
	stranger := (*party)(nil).issue(t, "Stranger", authority)
	good := middle.issue(t, "good", host("www.example.test", "*.wild.test"))
	from := func(start, end time.Duration) func(*x509.Certificate, *crypto.Signer) {
		return func(c *x509.Certificate, _ *crypto.Signer) {
			c.DNSNames = []string{"www.example.test"}
			c.NotBefore, c.NotAfter = time.Now().Add(start), time.Now().Add(end)
		}
	}
	rsaKey := func(bits int) func(*x509.Certificate, *crypto.Signer) {
		return func(c *x509.Certificate, key *crypto.Signer) {
			k, err := rsa.GenerateKey(rand.Reader, bits)
			if err != nil {
				t.Fatal(err)
			}
			*key, c.DNSNames = k, []string{"www.example.test"}
		}
	}
	rsaRoot := (*party)(nil).issue(t, "RSA root", func(c *x509.Certificate, key *crypto.Signer) { rsaKey(2048)(c, key); c.IsCA = true })
	rsaStranger := (*party)(nil).issue(t, "RSA stranger", func(c *x509.Certificate, key *crypto.Signer) { rsaKey(2048)(c, key); c.IsCA = true })
	sha1WithRSA := func(c *x509.Certificate, _ *crypto.Signer) {
		c.DNSNames, c.SignatureAlgorithm, c.AuthorityKeyId = []string{"www.example.test"}, x509.SHA1WithRSA, nil
	}
	sha1Middle := rsaRoot.issue(t, "SHA-1 middle", func(c *x509.Certificate, _ *crypto.Signer) {
		c.IsCA, c.SignatureAlgorithm = true, x509.SHA1WithRSA
	})
	oldMiddle := root.issue(t, "Old middle", func(c *x509.Certificate, k *crypto.Signer) { from(-48*time.Hour, -time.Hour)(c, k); c.IsCA = true })
	narrow := root.issue(t, "Narrow", func(c *x509.Certificate, _ *crypto.Signer) {
		c.IsCA, c.PermittedDNSDomains = true, []string{"elsewhere.test"}
	})
	noCA := root.issue(t, "No authority", nil)
	pool := root.pool()
	pool.AddCert(rsaRoot.cert)
	v := newVerifier(t, VerifierConfig{Roots: pool})

	for _, c := range []struct {
		name  string
		leaf  *party
		chain []*party
		host  string
		want  string
	}{
		{"good", good, []*party{middle}, "www.example.test", ""},
		{"good by wildcard", good, []*party{middle}, "a.wild.test", ""},
		{"good, with its root and in disorder", good, []*party{root, stranger, middle}, "www.example.test", ""},
		{"good by address", root.issue(t, "address", func(c *x509.Certificate, _ *crypto.Signer) { c.IPAddresses = []net.IP{net.ParseIP("2001:db8::1")} }), nil, "2001:db8::1", ""},
		{"expired", middle.issue(t, "expired", from(-48*time.Hour, -time.Hour)), []*party{middle}, "www.example.test", "expired"},
		{"not yet valid", middle.issue(t, "early", from(time.Hour, 2*time.Hour)), []*party{middle}, "www.example.test", "not-yet-valid"},
		{"expired intermediate", oldMiddle.issue(t, "x", host("www.example.test")), []*party{oldMiddle}, "www.example.test", "expired"},
		{"wrong host", good, []*party{middle}, "bank.example", "wrong-host"},
		{"no host", middle.issue(t, "www.example.test", nil), []*party{middle}, "www.example.test", "wrong-host"},
		{"self-signed", (*party)(nil).issue(t, "self", host("www.example.test")), nil, "www.example.test", "self-signed"},
		{"unknown root", stranger.issue(t, "x", host("www.example.test")), []*party{stranger}, "www.example.test", "unknown-root"},
		{"unknown root, not sent", stranger.issue(t, "x", host("www.example.test")), nil, "www.example.test", "unknown-root"},
		{"intermediate not sent, address not told", good, nil, "www.example.test", "unknown-root"},
		{"everything at once", (*party)(nil).issue(t, "self", func(c *x509.Certificate, k *crypto.Signer) {
			rsaKey(1024)(c, k)
			from(-48*time.Hour, -time.Hour)(c, k)
		}), nil, "bank.example", "self-signed wrong-host expired weak-key"},
		{"expired and unknown", stranger.issue(t, "x", from(-48*time.Hour, -time.Hour)), []*party{stranger}, "www.example.test", "unknown-root expired"},
		{"weak key", middle.issue(t, "weak", rsaKey(1024)), []*party{middle}, "www.example.test", "weak-key"},
		{"good RSA key", middle.issue(t, "rsa", rsaKey(2048)), []*party{middle}, "www.example.test", ""},
		{"SHA-1", rsaRoot.issue(t, "sha1", func(c *x509.Certificate, _ *crypto.Signer) {
			c.DNSNames, c.SignatureAlgorithm = []string{"www.example.test"}, x509.SHA1WithRSA
		}), []*party{rsaRoot}, "www.example.test", "weak-key"},
		{"SHA-1, root not sent", rsaRoot.issue(t, "sha1", sha1WithRSA), nil, "www.example.test", "weak-key"},
		{"SHA-1, with another's intermediate", rsaRoot.issue(t, "sha1", sha1WithRSA), []*party{stranger}, "www.example.test", "weak-key"},
		{"SHA-1, of an unknown root", rsaStranger.issue(t, "sha1", sha1WithRSA), []*party{rsaStranger}, "www.example.test", "unknown-root weak-key"},
		{"SHA-1, of an unknown root, not sent", rsaStranger.issue(t, "sha1", sha1WithRSA), nil, "www.example.test", "unknown-root weak-key"},
		{"intermediate with SHA-1", sha1Middle.issue(t, "x", host("www.example.test")), []*party{sha1Middle}, "www.example.test", "weak-key"},
		{"intermediate not sent, of a public authority", middle.issue(t, "x", func(c *x509.Certificate, k *crypto.Signer) {
			validated, err := x509.OIDFromInts([]uint64{2, 23, 140, 1, 2, 1})
			if err != nil {
				t.Fatal(err)
			}
			c.DNSNames, c.Policies = []string{"www.example.test"}, []x509.OID{validated}
		}), nil, "www.example.test", "missing-intermediate"},
		{"issuer not allowed this name", narrow.issue(t, "x", host("www.example.test")), []*party{narrow}, "www.example.test", "invalid-chain"},
		{"issued by no authority", noCA.issue(t, "x", host("www.example.test")), []*party{noCA}, "www.example.test", "unknown-root"},
		{"for clients only", root.issue(t, "x", func(c *x509.Certificate, _ *crypto.Signer) {
			c.DNSNames, c.ExtKeyUsage = []string{"www.example.test"}, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}), nil, "www.example.test", "invalid-chain"},
	} {
		r := v.Verify(t.Context(), c.host, present(t, c.leaf, nil, c.chain...))
		if got := kinds(r); got != c.want {
			t.Errorf("%s: the faults are %q, want %q: %v", c.name, got, c.want, r.Faults)
		}
		broken := slices.ContainsFunc(r.Faults, func(f Fault) bool {
			return f.Kind == SelfSigned || f.Kind == UnknownRoot || f.Kind == InvalidChain
		}) || c.name == "expired intermediate" || strings.Contains(c.name, "SHA-1") || strings.Contains(c.name, "not sent")
		if (len(r.Chains) == 0) != broken {
			t.Errorf("%s: %d chains with the faults %v", c.name, len(r.Chains), r.Faults)
		}
		for _, f := range r.Faults {
			if f.Detail == "" || !strings.Contains(f.Explain(c.host), c.host) {
				t.Errorf("%s: the fault has the detail %q and the explanation %q, which must name the host", c.name, f.Detail, f.Explain(c.host))
			}
		}
	}
	if r := v.Verify(t.Context(), "www.example.test", tls.ConnectionState{}); kinds(r) != "invalid-chain" {
		t.Errorf("no certificate: the faults are %v, want invalid-chain", r.Faults)
	}
}

func TestFaultsShowNothingOdd(t *testing.T) {
	leaf := (*party)(nil).issue(t, "x", func(c *x509.Certificate, _ *crypto.Signer) {
		c.Subject.CommonName = "a\nforged log line\x1b[2J" + strings.Repeat("é", 4000)
		for range 300 {
			c.DNSNames = append(c.DNSNames, strings.Repeat("n", 200)+".test")
		}
	})
	v := newVerifier(t, VerifierConfig{Roots: x509.NewCertPool()})
	for _, f := range v.Verify(t.Context(), "www.example.test", tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf.cert}}).Faults {
		if strings.ContainsAny(f.Detail, "\n\x1b") || len(f.Detail) > maxDetail+8 {
			t.Errorf("a detail of %d bytes, too long or with control characters: %q", len(f.Detail), f.Detail)
		}
	}
}

func TestStaples(t *testing.T) {
	root := (*party)(nil).issue(t, "Root", authority)
	stranger := (*party)(nil).issue(t, "Root", authority)
	leaf := root.issue(t, "leaf", host("www.example.test"))
	responder := root.issue(t, "responder", func(c *x509.Certificate, _ *crypto.Signer) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning}
	})
	customer := root.issue(t, "customer", host("other.test"))
	v := newVerifier(t, VerifierConfig{Roots: root.pool()})
	now := time.Now()
	for _, c := range []struct {
		name   string
		by     *party
		status int
		from   time.Duration
		to     time.Duration
		want   Staple
		faults string
	}{
		{"good", root, ocsp.Good, -time.Hour, time.Hour, GoodStaple, ""},
		{"revoked", root, ocsp.Revoked, -time.Hour, time.Hour, RevokedStaple, "revoked"},
		{"unknown", root, ocsp.Unknown, -time.Hour, time.Hour, UnknownStaple, ""},
		{"revoked, stale", root, ocsp.Revoked, -48 * time.Hour, -24 * time.Hour, StaleStaple, ""},
		{"revoked, from the future", root, ocsp.Revoked, 24 * time.Hour, 48 * time.Hour, StaleStaple, ""},
		{"revoked, by a stranger of the same name", stranger, ocsp.Revoked, -time.Hour, time.Hour, UnusableStaple, ""},
		{"revoked, by the issuer's responder", responder, ocsp.Revoked, -time.Hour, time.Hour, RevokedStaple, "revoked"},
		{"revoked, by another customer", customer, ocsp.Revoked, -time.Hour, time.Hour, UnusableStaple, ""},
	} {
		template := ocsp.Response{
			Status: c.status, SerialNumber: leaf.cert.SerialNumber, RevokedAt: now.Add(-2 * time.Hour),
			ThisUpdate: now.Add(c.from), NextUpdate: now.Add(c.to), IssuerHash: crypto.SHA1,
		}
		if c.by == responder || c.by == customer {
			template.Certificate = c.by.cert
		}
		staple, err := ocsp.CreateResponse(root.cert, c.by.cert, template, c.by.key)
		if err != nil {
			t.Fatal(err)
		}
		r := v.Verify(t.Context(), "www.example.test", present(t, leaf, staple))
		if r.Staple != c.want || kinds(r) != c.faults {
			t.Errorf("%s: staple %q, faults %v; want %q, %q", c.name, r.Staple, r.Faults, c.want, c.faults)
		}
	}
	if r := v.Verify(t.Context(), "www.example.test", present(t, leaf, []byte("junk"))); r.Staple != UnusableStaple || len(r.Faults) > 0 {
		t.Errorf("an unreadable staple: %q, %v", r.Staple, r.Faults)
	}
	// Revocation is reported even if the root is unknown.
	blind := newVerifier(t, VerifierConfig{Roots: x509.NewCertPool()})
	staple, err := ocsp.CreateResponse(root.cert, root.cert, ocsp.Response{Status: ocsp.Revoked, SerialNumber: leaf.cert.SerialNumber,
		ThisUpdate: now, NextUpdate: now.Add(time.Hour), IssuerHash: crypto.SHA1}, root.key)
	if err != nil {
		t.Fatal(err)
	}
	if r := blind.Verify(t.Context(), "www.example.test", present(t, leaf, staple, root)); kinds(r) != "revoked unknown-root" {
		t.Errorf("unknown root and revoked: the faults are %v", r.Faults)
	}
}

// library serves issuers' certificates under any name.
type library struct {
	*httptest.Server
	asked atomic.Int32
}

func newLibrary(t *testing.T, shelf map[string][]byte) *library {
	l := new(library)
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.asked.Add(1)
		if to, ok := strings.CutPrefix(r.URL.Path, "/to/"); ok {
			http.Redirect(w, r, "http://"+to, http.StatusFound)
			return
		}
		b, ok := shelf[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if _, err := w.Write(b); err != nil && len(b) < maxIssuerBytes { // a longer response is not read to its end
			t.Error(err)
		}
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *library) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !strings.HasPrefix(addr, "aia.test:") {
		return nil, errors.New("refused: " + addr + " is a private address")
	}
	return new(net.Dialer).DialContext(ctx, network, l.Listener.Addr().String())
}

func withIssuerURL(address string, change func(*x509.Certificate, *crypto.Signer)) func(*x509.Certificate, *crypto.Signer) {
	return func(c *x509.Certificate, k *crypto.Signer) {
		change(c, k)
		c.IssuingCertificateURL = []string{address}
	}
}

func TestMissingIntermediatesAreFetched(t *testing.T) {
	root := (*party)(nil).issue(t, "Root", authority)
	one := root.issue(t, "One", authority)
	two := one.issue(t, "Two", withIssuerURL("http://aia.test/one", authority))
	three := two.issue(t, "Three", withIssuerURL("http://aia.test:80/two", authority))
	four := three.issue(t, "Four", withIssuerURL("http://aia.test/three", authority))
	stranger := (*party)(nil).issue(t, "Stranger", authority)
	lib := newLibrary(t, map[string][]byte{
		"/one":      one.cert.Raw,
		"/two":      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: two.cert.Raw}),
		"/three":    three.cert.Raw,
		"/four":     four.cert.Raw,
		"/stranger": stranger.cert.Raw,
		"/junk":     []byte("junk"),
		"/huge":     append(bytes.Clone(one.cert.Raw), make([]byte, maxIssuerBytes)...),
	})
	v := newVerifier(t, VerifierConfig{Roots: root.pool(), Dial: lib.dial})
	www := host("www.example.test")
	for _, c := range []struct {
		name    string
		leaf    *party
		chain   []*party
		want    string
		detail  string
		fetched int
	}{
		{"one", one.issue(t, "x", withIssuerURL("http://aia.test/one", www)), nil, "", "", 1},
		{"by redirect", one.issue(t, "x", withIssuerURL("http://aia.test/to/aia.test/one", www)), nil, "", "", 1},
		{"two of them", two.issue(t, "x", withIssuerURL("http://aia.test/two", www)), nil, "", "", 2},
		{"above one that was sent", two.issue(t, "x", www), []*party{two}, "", "", 1},
		{"three", three.issue(t, "x", withIssuerURL("http://aia.test/three", www)), nil, "", "", 3},
		{"four are too many", four.issue(t, "x", withIssuerURL("http://aia.test/four", www)), nil, "unknown-root", "", 3},
		{"to an unknown root", stranger.issue(t, "x", withIssuerURL("http://aia.test/stranger", www)), nil, "unknown-root", "", 1},
		{"nothing says where", one.issue(t, "x", www), nil, "unknown-root", "has to send it too", 0},
		{"not there", one.issue(t, "x", withIssuerURL("http://aia.test/none", www)), nil, "missing-intermediate", "404", 0},
		{"not a certificate", one.issue(t, "x", withIssuerURL("http://aia.test/junk", www)), nil, "missing-intermediate", "x509", 0},
		{"too large", one.issue(t, "x", withIssuerURL("http://aia.test/huge", www)), nil, "missing-intermediate", "more than 65536 bytes", 0},
		{"another's", one.issue(t, "x", withIssuerURL("http://aia.test/stranger", www)), nil, "missing-intermediate", "did not sign it", 0},
		{"private address", one.issue(t, "x", withIssuerURL("http://192.168.1.1/one", www)), nil, "missing-intermediate", "refused", 0},
		{"redirect to a private address", one.issue(t, "x", withIssuerURL("http://aia.test/to/192.168.1.1/one", www)), nil, "missing-intermediate", "refused", 0},
		{"redirect to another port", one.issue(t, "x", withIssuerURL("http://aia.test/to/aia.test:22/one", www)), nil, "missing-intermediate", "port 80", 0},
		{"https", one.issue(t, "x", withIssuerURL("https://aia.test/one", www)), nil, "missing-intermediate", "port 80", 0},
		{"ldap", one.issue(t, "x", withIssuerURL("ldap://aia.test/one", www)), nil, "missing-intermediate", "port 80", 0},
		{"another port", one.issue(t, "x", withIssuerURL("http://aia.test:6379/one", www)), nil, "missing-intermediate", "port 80", 0},
	} {
		r := v.Verify(t.Context(), "www.example.test", present(t, c.leaf, nil, c.chain...))
		if kinds(r) != c.want || len(r.Fetched) != c.fetched || c.detail != "" && !strings.Contains(r.Faults[0].Detail, c.detail) {
			t.Errorf("%s: %v, fetched %d; want %q %q, %d", c.name, r.Faults, len(r.Fetched), c.want, c.detail, c.fetched)
		}
	}
	before := lib.asked.Load()
	for range 3 {
		v.Verify(t.Context(), "www.example.test", present(t, one.issue(t, "another", withIssuerURL("http://aia.test/one", www)), nil))
		v.Verify(t.Context(), "www.example.test", present(t, one.issue(t, "another", withIssuerURL("http://aia.test/none", www)), nil))
	}
	if n := lib.asked.Load() - before; n != 0 {
		t.Errorf("%d certificates were fetched again, want none", n)
	}
	off := newVerifier(t, VerifierConfig{Roots: root.pool()})
	if r := off.Verify(t.Context(), "www.example.test", present(t, one.issue(t, "x", withIssuerURL("http://aia.test/one", www)), nil)); kinds(r) != "missing-intermediate" {
		t.Errorf("without a way to fetch the intermediate: the faults are %v", r.Faults)
	}
}

func TestFetchingEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := (*party)(nil).issue(t, "Root", authority)
		leaf := root.issue(t, "One", authority).issue(t, "x", withIssuerURL("http://aia.test/never", host("www.example.test")))
		v := newVerifier(t, VerifierConfig{Roots: root.pool(), Dial: func(context.Context, string, string) (net.Conn, error) {
			a, b := net.Pipe()
			go func() { // a server that accepts everything and answers nothing
				for {
					if _, err := b.Read(make([]byte, 1024)); err != nil {
						return
					}
				}
			}()
			return a, nil
		}})
		start := time.Now()
		state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf.cert}}
		r := v.Verify(t.Context(), "www.example.test", state)
		if took := time.Since(start); took != fetchTimeout || !r.Has(MissingIntermediate) {
			t.Errorf("verifying took %v, want the time limit: %v", took, r.Faults)
		}
		start = time.Now()
		if v.Verify(t.Context(), "www.example.test", state); time.Since(start) > 0 {
			t.Error("a failed fetch is repeated at once")
		}
		time.Sleep(failureTime)
		start = time.Now()
		if v.Verify(t.Context(), "www.example.test", state); time.Since(start) == 0 {
			t.Error("a failed fetch is never repeated")
		}
	})
}

func TestResultsAreRememberedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := (*party)(nil).issue(t, "Root", authority)
		leaf := root.issue(t, "x", func(c *x509.Certificate, _ *crypto.Signer) {
			c.DNSNames, c.NotAfter = []string{"www.example.test"}, time.Now().Add(time.Minute)
		})
		v := newVerifier(t, VerifierConfig{Roots: root.pool()})
		state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf.cert}}
		first := v.Verify(t.Context(), "www.example.test", state)
		if len(first.Faults) > 0 || v.Verify(t.Context(), "www.example.test", state) != first {
			t.Errorf("the second verification does not use the first result: %v", first.Faults)
		}
		if r := v.Verify(t.Context(), "bank.example", state); !r.Has(WrongHost) {
			t.Errorf("the same certificate for another host: the faults are %v, want wrong-host", r.Faults)
		}
		time.Sleep(resultTime)
		if r := v.Verify(t.Context(), "www.example.test", state); !r.Has(Expired) {
			t.Errorf("after the certificate expired: the faults are %v, want expired", r.Faults)
		}
	})
}

// FuzzFaults checks that Verify returns a chain or a fault, whatever a server presents.
func FuzzFaults(f *testing.F) {
	root := (*party)(nil).issue(f, "Root", authority)
	middle := root.issue(f, "Middle", authority)
	leaf := middle.issue(f, "leaf", withIssuerURL("http://aia.test/x", host("www.example.test")))
	staple, err := ocsp.CreateResponse(middle.cert, middle.cert, ocsp.Response{Status: ocsp.Revoked, SerialNumber: leaf.cert.SerialNumber,
		ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour), IssuerHash: crypto.SHA1}, middle.key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(leaf.cert.Raw, middle.cert.Raw, staple, "www.example.test")
	f.Add(root.cert.Raw, root.cert.Raw, []byte{}, "192.0.2.1")
	f.Add(leaf.cert.Raw, leaf.cert.Raw, []byte{0x30}, "")
	// The test fetches nothing, because the goroutines of net/http make the fuzzer minimise
	// inputs whose coverage only seems new.
	v, err := NewVerifier(VerifierConfig{Roots: root.pool()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, second, staple []byte, host string) {
		var state tls.ConnectionState
		for _, der := range [][]byte{first, second} {
			if c, err := x509.ParseCertificate(der); err == nil {
				state.PeerCertificates = append(state.PeerCertificates, c)
			}
		}
		state.OCSPResponse = staple
		r, _ := v.verify(context.Background(), host, state, time.Now())
		if len(r.Chains) == 0 && len(r.Faults) == 0 {
			t.Fatal("Verify returns neither a chain nor a fault")
		}
		for _, f := range r.Faults {
			if len(f.Detail) > maxDetail+8 || rank(f.Kind) < 0 {
				t.Fatalf("Verify returns the invalid fault %v", f)
			}
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	root := (*party)(nil).issue(b, "Root", authority)
	middle := root.issue(b, "Middle", authority)
	leaf := middle.issue(b, "leaf", host("www.example.test"))
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf.cert, middle.cert}}
	v := newVerifier(b, VerifierConfig{Roots: root.pool()})
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v.verify(b.Context(), "www.example.test", state, time.Now())
		}
	})
	b.Run("again", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v.Verify(b.Context(), "www.example.test", state)
		}
	})
}
