package intercept

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"software.sslmate.com/src/go-pkcs12"
)

func newRoot(tb testing.TB, cfg RootConfig) *Root {
	tb.Helper()
	r, err := NewRoot(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func newAuthority(tb testing.TB, r *Root, cfg Config) *Authority {
	tb.Helper()
	a, err := NewAuthority(r, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// accepts returns what a client that trusts these roots says of a certificate.
func accepts(tb testing.TB, cert *tls.Certificate, host string, roots ...*x509.Certificate) error {
	tb.Helper()
	leaf, chain := parseChain(tb, cert)
	opts := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), DNSName: host}
	for _, r := range roots {
		opts.Roots.AddCert(r)
	}
	for _, c := range chain {
		opts.Intermediates.AddCert(c)
	}
	_, err := leaf.Verify(opts)
	return err
}

func parseChain(tb testing.TB, cert *tls.Certificate) (*x509.Certificate, []*x509.Certificate) {
	tb.Helper()
	var all []*x509.Certificate
	for _, der := range cert.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, c)
	}
	return all[0], all[1:]
}

func TestMintedLeafIsForItsHostAlone(t *testing.T) {
	root := newRoot(t, RootConfig{})
	a := newAuthority(t, root, Config{})
	long := strings.Repeat("a", 60) + ".example.test"
	for _, c := range []struct{ asked, host, other string }{
		{"www.example.test", "www.example.test", "example.test"},
		{"WWW.Upper.test.", "www.upper.test", "sub.www.upper.test"},
		{"under_score.test", "under_score.test", "x.test"},
		{"localhost", "localhost", "localhost.test"},
		{long, long, "example.test"},
		{"192.0.2.7", "192.0.2.7", "192.0.2.8"},
		{"::ffff:192.0.2.9", "192.0.2.9", "www.example.test"},
		{"2001:db8::1", "2001:db8::1", "2001:db8::2"},
		{"[2001:db8::3]", "2001:db8::3", "2001:db8::1"},
	} {
		cert, err := a.Certificate(c.asked)
		if err != nil {
			t.Errorf("minting for %s: %v", c.asked, err)
			continue
		}
		if err := accepts(t, cert, c.host, root.Certificate); err != nil {
			t.Errorf("verifying the certificate for %s: %v", c.asked, err)
		}
		var wrong x509.HostnameError
		if err := accepts(t, cert, c.other, root.Certificate); !errors.As(err, &wrong) {
			t.Errorf("the certificate for %s is valid for %s: %v", c.asked, c.other, err)
		}
		if err := accepts(t, cert, c.host, newRoot(t, RootConfig{}).Certificate); err == nil {
			t.Errorf("the certificate for %s is valid for a client with another root", c.asked)
		}
	}
	for _, host := range []string{"", ".", "*.example.test", "a b", "a..b", "ex\x00.test", strings.Repeat("a", 64) + ".test", strings.Repeat("a.", 130) + "test", "münchen.example"} {
		if _, err := a.Certificate(host); err == nil {
			t.Errorf("a certificate was minted for the invalid host %q", host)
		}
	}
}

func TestMintedLeafIsWhatBrowsersWant(t *testing.T) {
	root := newRoot(t, RootConfig{})
	now := time.Now()
	for _, days := range []int{3, 0, 398} {
		cert, err := newAuthority(t, root, Config{LeafDays: days}).Certificate("www.example.test")
		if err != nil {
			t.Fatal(err)
		}
		leaf, _ := parseChain(t, cert)
		want := days
		if days == 0 {
			want = 90
		}
		if got := leaf.NotAfter.Sub(leaf.NotBefore); got > time.Duration(want)*24*time.Hour || got < time.Duration(want)*24*time.Hour-5*time.Second {
			t.Errorf("with LeafDays %d, a leaf is valid for %v", days, got)
		}
		if leaf.NotBefore.After(now.Add(-47*time.Hour)) || leaf.NotBefore.Before(root.Certificate.NotBefore) {
			t.Errorf("the leaf is valid from %v, the root from %v; want the leaf from two days ago, but not before the root", leaf.NotBefore, root.Certificate.NotBefore)
		}
		if leaf.Subject.CommonName != "www.example.test" || len(leaf.DNSNames) != 1 || leaf.IsCA {
			t.Errorf("the leaf has the subject %v, names %v, CA %v", leaf.Subject, leaf.DNSNames, leaf.IsCA)
		}
		if !bytes.Equal(leaf.AuthorityKeyId, root.Certificate.SubjectKeyId) || len(leaf.SubjectKeyId) != 20 {
			t.Errorf("key identifiers: authority %x, want %x; subject %x", leaf.AuthorityKeyId, root.Certificate.SubjectKeyId, leaf.SubjectKeyId)
		}
		if n := leaf.SerialNumber.BitLen(); n < 96 || n > 128 {
			t.Errorf("the serial number has %d bits, want 96 to 128", n)
		}
		if len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth || leaf.KeyUsage != x509.KeyUsageDigitalSignature {
			t.Errorf("the leaf has the key usage %v, %v", leaf.KeyUsage, leaf.ExtKeyUsage)
		}
	}
	for _, days := range []int{-1, 2, 399} {
		if _, err := NewAuthority(root, Config{LeafDays: days}); err == nil {
			t.Errorf("NewAuthority accepts LeafDays %d", days)
		}
	}
}

func TestRootLimitedToDomains(t *testing.T) {
	first := newRoot(t, RootConfig{Domains: []string{"School.example", "school.test"}, Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.7")}})
	rotated, err := first.Rotate(RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for name, root := range map[string]*Root{"a root": first, "the next one": rotated} {
		t.Run(name, func(t *testing.T) { limited(t, root) })
	}
	if a := newAuthority(t, newRoot(t, RootConfig{Domains: []string{"school.example"}}), Config{}); !errors.Is(second(a.Certificate("192.0.2.7")), ErrNotPermitted) {
		t.Error("a root that is limited to domains signs for an address")
	}
	for _, d := range []string{"", "*.a.test", "a b", ".a.test"} {
		if _, err := NewRoot(RootConfig{Domains: []string{d}}); err == nil {
			t.Errorf("NewRoot accepts the domain %q", d)
		}
	}
}

func second(_ any, err error) error { return err }

// limited tries a root that is limited to domains and an address, and its key without the limit.
func limited(t *testing.T, root *Root) {
	a := newAuthority(t, root, Config{})
	for _, host := range []string{"school.example", "www.school.example", "a.b.school.test", "192.0.2.7"} {
		cert, err := a.Certificate(host)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := accepts(t, cert, host, root.Certificate); err != nil {
			t.Errorf("verifying the certificate for the permitted %s: %v", host, err)
		}
	}
	unlimited := *root.Certificate // as a thief of the key would use it
	unlimited.PermittedDNSDomains = nil
	free := newAuthority(t, &Root{Certificate: &unlimited, key: root.key}, Config{})
	for _, host := range []string{"bank.example", "myschool.example", "192.0.2.1", "2001:db8::1"} {
		if _, err := a.Certificate(host); !errors.Is(err, ErrNotPermitted) {
			t.Errorf("minting for %s, outside the root's domains: %v, want ErrNotPermitted", host, err)
		}
		// A stolen key would not help: clients refuse certificates signed by it.
		cert, err := free.Certificate(host)
		if err != nil {
			t.Fatal(err)
		}
		if err := accepts(t, cert, host, root.Certificate); err == nil {
			t.Errorf("a client accepts a certificate for %s, outside the root's domains", host)
		}
	}
}

func TestRootRefusesOddWishes(t *testing.T) {
	for _, cfg := range []RootConfig{
		{Name: "a\nb"}, {Name: strings.Repeat("x", 65)}, {Organization: "\xff"},
		{Validity: time.Hour}, {Validity: -time.Hour}, {Validity: 31 * 365 * 24 * time.Hour},
	} {
		if _, err := NewRoot(cfg); err == nil {
			t.Errorf("NewRoot accepts %+v", cfg)
		}
	}
}

func TestRotatedRootServesOldAndNewClients(t *testing.T) {
	first := newRoot(t, RootConfig{Organization: "The School"})
	second, err := first.Rotate(RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	third, err := second.Rotate(RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if got := third.Certificate.Subject.String(); got != "CN=Shuultuur root R3,O=The School" {
		t.Errorf("the third root has the subject %s", got)
	}
	one, two, three := first.Certificate, second.Certificate, third.Certificate
	for _, c := range []struct {
		name  string
		by    *Root
		roots []*x509.Certificate
	}{
		{"second, old client", second, []*x509.Certificate{one}},
		{"second, new client", second, []*x509.Certificate{two}},
		{"second, both", second, []*x509.Certificate{one, two}},
		{"third, oldest client", third, []*x509.Certificate{one}},
		{"third, older client", third, []*x509.Certificate{two}},
		{"third, new client", third, []*x509.Certificate{three}},
		{"third, all", third, []*x509.Certificate{three, one, two}},
	} {
		cert, err := newAuthority(t, c.by, Config{}).Certificate("www.example.test")
		if err != nil {
			t.Fatal(err)
		}
		if err := accepts(t, cert, "www.example.test", c.roots...); err != nil {
			t.Errorf("%s: the client refuses the certificate: %v", c.name, err)
		}
		opensslAccepts(t, cert, "www.example.test", c.roots...)
	}
	fourth, err := third.Rotate(RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := newAuthority(t, fourth, Config{}).Certificate("www.example.test")
	if err != nil {
		t.Fatal(err)
	}
	if err := accepts(t, cert, "www.example.test", one); err != nil {
		t.Errorf("a client that has only the first root refuses the fourth root's certificate: %v", err)
	}
	opensslAccepts(t, cert, "www.example.test", one)
	if _, err := fourth.Rotate(RootConfig{}); err == nil {
		t.Error("Rotate does not bound the chain of roots")
	}
	if _, err := first.Rotate(RootConfig{Name: DefaultName}); err == nil {
		t.Error("Rotate makes a second root of the same name")
	}
	limited, err := newRoot(t, RootConfig{Domains: []string{"school.test"}}).Rotate(RootConfig{})
	if err != nil || len(limited.Certificate.PermittedDNSDomains) != 1 {
		t.Errorf("Rotate drops the root's domains: %v", err)
	}
}

// opensslAccepts asks openssl if it is installed.
func opensslAccepts(t *testing.T, cert *tls.Certificate, host string, roots ...*x509.Certificate) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		return
	}
	dir := t.TempDir()
	leaf, chain := parseChain(t, cert)
	write := func(name string, certs ...*x509.Certificate) string {
		var text []byte
		for _, c := range certs {
			text = append(text, pemCertificate(c)...)
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	args := []string{"verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", write("roots.pem", roots...), "-no-CApath"}
	if len(chain) > 0 {
		args = append(args, "-untrusted", write("chain.pem", chain...))
	}
	if net.ParseIP(host) != nil {
		args = append(args, "-verify_ip", host)
	} else {
		args = append(args, "-verify_hostname", host)
	}
	if out, err := exec.Command("openssl", append(args, write("leaf.pem", leaf))...).CombinedOutput(); err != nil {
		t.Errorf("openssl refuses the certificate: %v\n%s", err, out)
	}
}

func TestOpensslAcceptsLeaves(t *testing.T) {
	root := newRoot(t, RootConfig{})
	limited := newRoot(t, RootConfig{Domains: []string{"example.test"}})
	for _, host := range []string{"www.example.test", strings.Repeat("a", 60) + ".example.test", "192.0.2.1", "2001:db8::1"} {
		for _, r := range []*Root{root, limited} {
			cert, err := newAuthority(t, r, Config{}).Certificate(host)
			if errors.Is(err, ErrNotPermitted) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			opensslAccepts(t, cert, host, r.Certificate)
		}
	}
}

func TestLeavesAndKeysRollOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := newRoot(t, RootConfig{Validity: 400 * 24 * time.Hour})
		time.Sleep(24 * time.Hour)
		next, err := root.Rotate(RootConfig{})
		if err != nil {
			t.Fatal(err)
		}
		a := newAuthority(t, next, Config{})
		mint := func() (*x509.Certificate, []*x509.Certificate) {
			t.Helper()
			cert, err := a.Certificate("www.example.test")
			if err != nil {
				t.Fatal(err)
			}
			return parseChain(t, cert)
		}
		leaf, _ := mint()
		time.Sleep(23 * time.Hour)
		if again, _ := mint(); !again.Equal(leaf) {
			t.Error("another leaf was minted within a day")
		}
		time.Sleep(2 * time.Hour)
		later, chain := mint()
		if later.Equal(leaf) || later.PublicKey.(*ecdsa.PublicKey).Equal(leaf.PublicKey) {
			t.Error("the same leaf or key is used after a day")
		}
		if len(chain) != 1 {
			t.Errorf("the chain has %d certificates, want 1", len(chain))
		}
		// When the old root expires, no client needs the cross certificate any more.
		time.Sleep(time.Until(root.Certificate.NotAfter.Add(time.Second)))
		late, chain := mint()
		if len(chain) != 0 {
			t.Error("the chain has an expired cross certificate")
		}
		if !late.NotAfter.After(time.Now()) || late.NotAfter.After(next.Certificate.NotAfter) {
			t.Errorf("the leaf ends at %v, the root at %v; want the leaf to end first, and later than now", late.NotAfter, next.Certificate.NotAfter)
		}
		if third, err := next.Rotate(RootConfig{}); err != nil || len(third.Earlier) != 1 || len(third.Crosses) != 1 {
			t.Errorf("Rotate keeps an expired root: %v", err)
		}
		time.Sleep(time.Until(next.Certificate.NotAfter.Add(time.Second)))
		if _, err := a.Certificate("www.example.test"); err == nil || !strings.Contains(err.Error(), "expired on") {
			t.Errorf("minting with an expired root: %v, want an error", err)
		}
		if _, err := next.Rotate(RootConfig{}); err == nil {
			t.Error("Rotate lets an expired root sign another")
		}
		if late, err := NewAuthority(next, Config{}); err != nil || !strings.Contains(late.Problem(), "expired on") {
			t.Errorf("an expired root keeps the gateway from starting, or is not told: %v", err)
		}
	})
}

// TestARootThatHasYetToBeginIsWaitedFor: a machine without a clock starts in 1970, and its clock is set later.
func TestARootThatHasYetToBeginIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := newRoot(t, RootConfig{})
		early := *root.Certificate
		early.NotBefore = time.Now().Add(time.Hour)
		root.Certificate = &early
		a, err := NewAuthority(root, Config{})
		if err != nil {
			t.Fatalf("the gateway would not start: %v", err)
		}
		if _, err := a.Certificate("www.example.test"); err == nil || !strings.Contains(a.Problem(), "the clock shows less") {
			t.Errorf("before it begins it signs (%v); the problem is %q", err, a.Problem())
		}
		time.Sleep(2 * time.Hour)
		if _, err := a.Certificate("www.example.test"); err != nil || a.Problem() != "" {
			t.Errorf("once it has begun: %v, %q", err, a.Problem())
		}
	})
}

// TestLeavesOfAWrongClockAreNotUsedOnceItIsRight: clients would refuse one that begins in a year.
func TestLeavesOfAWrongClockAreNotUsedOnceItIsRight(t *testing.T) {
	a := newAuthority(t, newRoot(t, RootConfig{}), Config{})
	var moved time.Duration
	a.leaves.reading = func(now time.Time) reading { r := read(now); r.wall = r.wall.Add(moved); return r }
	leaf := func() *tls.Certificate {
		c, err := a.Certificate("www.example.test")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, step := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour, time.Hour} {
		moved = step
		wrong := leaf()
		if leaf() != wrong {
			t.Errorf("%v: a leaf is minted for each connection", step)
		}
		moved = 0
		if leaf() == wrong {
			t.Errorf("%v: the leaf of the wrong clock is used once it is right", step)
		}
	}
}

func TestNoRootIsMadeByAClockThatIsCertainlyWrong(t *testing.T) {
	built := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for now, want := range map[time.Time]bool{time.Unix(0, 0): false, built.AddDate(0, 0, -2): false, built.Add(-time.Hour): true, built: true, built.AddDate(20, 0, 0): true} {
		if err := checkClock(now, built); (err == nil) != want {
			t.Errorf("at %v: %v", now, err)
		}
	}
}

func TestOneMintForManyCallers(t *testing.T) {
	a := newAuthority(t, newRoot(t, RootConfig{}), Config{Certificates: 16})
	var wg sync.WaitGroup
	got := make([]*tls.Certificate, 32)
	for i := range got {
		wg.Go(func() {
			cert, err := a.Certificate("www.example.test")
			if err != nil {
				t.Error(err)
			}
			got[i] = cert
		})
	}
	wg.Wait()
	for _, c := range got {
		if c != got[0] {
			t.Fatal("concurrent callers minted more than one certificate")
		}
	}
	for i := range 200 {
		if _, err := a.Certificate("h" + strconv.Itoa(i) + ".test"); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.leaves.cached.Len(); n > 16 {
		t.Errorf("%d leaves are cached, want at most 16", n)
	}
}

// talk makes a TLS connection between a client and the authority over a pipe.
func talk(t testing.TB, server *tls.Config, client *tls.Config) tls.ConnectionState {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		s := tls.Server(b, server)
		err := s.HandshakeContext(ctx)
		if err == nil {
			_, err = s.Write([]byte("x")) // brings the ticket to the client
		}
		ended <- err
	}()
	c := tls.Client(a, client)
	if err := c.HandshakeContext(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return c.ConnectionState()
}

func trusting(host string, root *Root) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(root.Certificate)
	return &tls.Config{ServerName: host, RootCAs: pool, NextProtos: []string{"h2", "http/1.1"}}
}

func TestHandshakeWithMintedLeaf(t *testing.T) {
	var log bytes.Buffer
	root := newRoot(t, RootConfig{})
	next, err := root.Rotate(RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	logging := newAuthority(t, next, Config{})
	logging.LogKeys(&log)
	for _, c := range []struct {
		name   string
		a      *Authority
		max    uint16
		protos []string
		want   string
		log    bool
	}{
		{"TLS 1.3", newAuthority(t, next, Config{}), 0, []string{"h2", "http/1.1"}, "h2", false},
		{"TLS 1.2", newAuthority(t, next, Config{}), tls.VersionTLS12, []string{"http/1.1"}, "http/1.1", false},
		{"no ALPN", newAuthority(t, next, Config{}), 0, nil, "", false},
		{"key log", logging, 0, nil, "", true},
	} {
		server, err := c.a.Config("www.example.test", c.protos...)
		if err != nil {
			t.Fatal(err)
		}
		log.Reset()
		client := trusting("www.example.test", root)
		client.MaxVersion = c.max
		state := talk(t, server, client)
		if state.NegotiatedProtocol != c.want || (log.Len() > 0) != c.log {
			t.Errorf("%s: protocol %q, the key log has %d bytes", c.name, state.NegotiatedProtocol, log.Len())
		}
		if c.max == 0 && state.CurveID != tls.X25519MLKEM768 {
			t.Errorf("%s: key exchange %v, want X25519MLKEM768", c.name, state.CurveID)
		}
	}
}

func TestSessionsAreResumed(t *testing.T) {
	root := newRoot(t, RootConfig{})
	a := newAuthority(t, root, Config{})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client := trusting("www.example.test", root)
		client.MaxVersion = version
		client.ClientSessionCache = tls.NewLRUClientSessionCache(8)
		for i, want := range []bool{false, true, true} {
			if i == 2 { // after a day the ticket key is another one, and the old one is still known
				a.mu.Lock()
				a.born = a.born.Add(-25 * time.Hour)
				a.mu.Unlock()
			}
			server, err := a.Config("www.example.test")
			if err != nil {
				t.Fatal(err)
			}
			if state := talk(t, server, client); state.DidResume != want {
				t.Errorf("TLS version %x, connection %d: session resumed %v, want the opposite", version, i, state.DidResume)
			}
		}
	}
	for range 2 * ticketKeys {
		a.born = a.born.Add(-25 * time.Hour)
		a.shared(time.Now())
	}
	if len(a.keys) != ticketKeys {
		t.Errorf("%d ticket keys are kept, want %d", len(a.keys), ticketKeys)
	}
}

func TestRootFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "root.pem")
	first := newRoot(t, RootConfig{})
	root, err := first.Rotate(RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Write(file, false); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the root's file has the mode %v, %v; want 0600", info.Mode(), err)
	}
	if err := first.Write(file, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("writing over an existing file: %v, want fs.ErrExist", err)
	}
	a, err := New(Config{Root: file})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Certificate("www.example.test")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Root{first, root} {
		if err := accepts(t, cert, "www.example.test", r.Certificate); err != nil {
			t.Error(err)
		}
	}
	if got := a.Root(); len(got.Earlier) != 1 || !got.Earlier[0].Equal(first.Certificate) {
		t.Error("after Rotate the earlier root is missing")
	}
	for _, mode := range []fs.FileMode{0o604, 0o640, 0o602} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRoot(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("reading a root of mode %v: %v, want advice to chmod 600", mode, err)
		}
	}
	if err := first.Write(file, true); err != nil {
		t.Fatal(err)
	}
	if r, err := ReadRoot(file); err != nil || !r.Certificate.Equal(first.Certificate) {
		t.Errorf("after a refused write, ReadRoot returns another root: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*.tmp")); len(left) > 0 {
		t.Errorf("temporary files remain: %v", left)
	}
}

func TestRootFileWithMistakes(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if err := newRoot(t, RootConfig{}).Write(good, false); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	key, cert, _ := bytes.Cut(text, []byte("-----BEGIN CERTIFICATE"))
	cert = append([]byte("-----BEGIN CERTIFICATE"), cert...)
	other := pemCertificate(newRoot(t, RootConfig{}).Certificate)
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "need a PRIVATE KEY and its CERTIFICATE"},
		{"key alone", string(key), "need a PRIVATE KEY and its CERTIFICATE"},
		{"certificate alone", string(cert), "need a PRIVATE KEY and its CERTIFICATE"},
		{"another's certificate", string(key) + string(other), "does not belong"},
		{"two keys", string(key) + string(text), "exactly one key"},
		{"odd block", "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n", "openssl pkcs8"},
		{"broken", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "read a certificate"},
		{"huge", strings.Repeat("x", maxRootFile+1), "not a root"},
	} {
		file := filepath.Join(dir, "bad")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRoot(file); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("reading a root, %s: %v", c.name, err)
		}
	}
	if _, err := ReadRoot(dir); err == nil {
		t.Error("ReadRoot accepts a folder")
	}
}

func TestExportedFormsHoldTheCertificate(t *testing.T) {
	root := newRoot(t, RootConfig{Name: "A & B's <root>"})
	for _, format := range Formats() {
		b, err := root.Export(format, "secret")
		if err != nil {
			t.Fatal(err)
		}
		var der []byte
		switch format {
		case "pem":
			if !bytes.HasPrefix(b, []byte("-----BEGIN CERTIFICATE-----\n")) {
				t.Errorf("the pem export is %s", b)
			}
			continue
		case "der":
			der = b
		case "p12":
			certs, err := pkcs12.DecodeTrustStore(b, "secret")
			if err != nil || len(certs) != 1 {
				t.Fatalf("the p12 export has %d certificates, %v", len(certs), err)
			}
			der = certs[0].Raw
			opensslReads(t, b)
		case "mobileconfig":
			if err := xml.Unmarshal(b, new(struct{})); err != nil {
				t.Errorf("the mobileconfig export is not valid XML: %v", err)
			}
			if !bytes.Contains(b, []byte("<string>A &amp; B&#39;s &lt;root&gt;</string>")) {
				t.Error("the mobileconfig export lacks the name, or does not escape it")
			}
			data := regexp.MustCompile(`<data>(.*)</data>`).FindSubmatch(b)
			if der, err = base64.StdEncoding.DecodeString(string(data[1])); err != nil {
				t.Fatal(err)
			}
			if again, _ := root.Export(format, ""); !bytes.Equal(again, b) {
				t.Error("the mobileconfig export differs each time, so that installing it again would not replace it")
			}
		}
		if !bytes.Equal(der, root.Certificate.Raw) {
			t.Errorf("the %s export has another certificate", format)
		}
	}
	if _, err := root.Export("gif", ""); err == nil {
		t.Error("Export accepts the format gif")
	}
}

func opensslReads(t *testing.T, p12 []byte) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		return
	}
	cmd := exec.Command("openssl", "pkcs12", "-nokeys", "-passin", "pass:secret")
	cmd.Stdin = bytes.NewReader(p12)
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("BEGIN CERTIFICATE")) {
		t.Errorf("openssl pkcs12: %v\n%s", err, out)
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	root := newRoot(t, RootConfig{})
	a := newAuthority(t, root, Config{})
	if _, err := a.Config("www.example.test"); err != nil {
		t.Fatal(err)
	}
	want := `root "CN=Shuultuur root R1" until ` + date(root.Certificate.NotAfter)
	for _, format := range []string{"%v", "%+v", "%s"} {
		if got := fmt.Sprintf(format, root); got != want {
			t.Errorf("a root formatted with %s is %s", format, got)
		}
		if got := fmt.Sprintf(format, a); got != "authority of "+want {
			t.Errorf("an authority formatted with %s is %s", format, got)
		}
	}
}

func TestInstallNamesFormatsThatExist(t *testing.T) {
	root := newRoot(t, RootConfig{})
	for _, s := range Install() {
		if _, err := root.Export(s.Format, "x"); err != nil {
			t.Errorf("exporting for %s: %v", s.System, err)
		}
		if !strings.Contains(strings.Join(s.Steps, " "), s.File) {
			t.Errorf("the steps for %s never name %s", s.System, s.File)
		}
	}
}

func BenchmarkMint(b *testing.B) {
	a := newAuthority(b, newRoot(b, RootConfig{}), Config{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := a.Certificate("host" + strconv.Itoa(i) + ".test"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkConfigOfKnownHost(b *testing.B) {
	a := newAuthority(b, newRoot(b, RootConfig{}), Config{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Config("www.example.test", "h2", "http/1.1"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHandshakeWithNewName measures both sides of a TLS 1.3 connection with
// X25519MLKEM768, to a host for which no certificate was minted yet.
func BenchmarkHandshakeWithNewName(b *testing.B) {
	root := newRoot(b, RootConfig{})
	a := newAuthority(b, root, Config{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		server, err := a.Config("host"+strconv.Itoa(i)+".test", "http/1.1")
		if err != nil {
			b.Fatal(err)
		}
		talk(b, server, trusting("host"+strconv.Itoa(i)+".test", root))
	}
}

// FuzzRoot checks that a root that ReadRoot accepts has the key of its certificate.
func FuzzRoot(f *testing.F) {
	file := filepath.Join(f.TempDir(), "root.pem")
	if err := newRoot(f, RootConfig{}).Write(file, false); err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRoot(text)
		if err == nil && (r.key == nil || r.Certificate == nil || !r.Certificate.IsCA) {
			t.Fatalf("ReadRoot accepts %+v", r)
		}
	})
}

// TestAPKCS12FileThatAsksForTooManyIterationsIsRefused: the file itself says how often its
// password is hashed.
func TestAPKCS12FileThatAsksForTooManyIterationsIsRefused(t *testing.T) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	file, err := pkcs12.Modern2023.WithIterations(0x010000).Encode(secret, cert, nil, "secret")
	if err != nil {
		t.Fatal(err)
	}
	if certs, key, err := FromPKCS12(file, "secret", time.Hour); err != nil || len(certs) == 0 || len(key) == 0 {
		t.Errorf("the file with 65,536 iterations: %v", err)
	}
	// The last element of the file is the number of iterations of its checksum.
	copy(file[len(file)-3:], "\x7f\xff\xff")
	if _, _, err := FromPKCS12(file, "secret", time.Hour); err == nil || !strings.Contains(err.Error(), "too many iterations") {
		t.Errorf("the file with 8,388,607 iterations: %v, want a refusal", err)
	}
	// The same number for a key, which is encrypted with it: 65,536 in the file as 02 03 01 00 00.
	inner := bytes.Replace(file, []byte("\x02\x03\x01\x00\x00"), []byte("\x02\x03\x7f\xff\xff"), 1)
	copy(inner[len(inner)-3:], "\x01\x00\x00")
	if _, _, err := FromPKCS12(inner, "secret", time.Hour); err == nil || !strings.Contains(err.Error(), "too many iterations") {
		t.Errorf("the file with 8,388,607 iterations for one part: %v, want a refusal", err)
	}
}
