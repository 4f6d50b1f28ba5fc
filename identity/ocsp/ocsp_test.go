package ocsp

import (
	"bufio"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"shuultuur/lib/setting"
)

// A pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue makes a certificate that by signs, or itself.
func issue(t *testing.T, by *pair, name string, serial int64, change func(*x509.Certificate)) *pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true}
	if by == nil {
		c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	}
	if change != nil {
		change(c)
	}
	if by == nil {
		by = &pair{c, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by.cert, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &pair{c, key}
}

func signing(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning} }

// A responder answers as the test says.
type responder struct {
	url    string
	asked  atomic.Int32
	answer atomic.Pointer[func() []byte] // nil: none
}

func newResponder(t *testing.T) *responder {
	r := new(responder)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.asked.Add(1)
		text, _ := io.ReadAll(q.Body)
		if _, err := ocsp.ParseRequest(text); err != nil {
			t.Errorf("the question: %v", err)
		}
		if f := r.answer.Load(); f != nil {
			_, _ = w.Write((*f)())
			return
		}
		<-q.Context().Done()
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	r.url = s.URL
	return r
}

func (r *responder) says(f func() []byte) { r.answer.Store(&f) }

// said is an answer that by signs in the name of an authority.
func said(t *testing.T, authority, by *pair, change func(*ocsp.Response)) func() []byte {
	return func() []byte {
		res := ocsp.Response{Status: ocsp.Good, SerialNumber: big.NewInt(10), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(10 * time.Hour), IssuerHash: crypto.SHA1}
		if by != authority {
			res.Certificate = by.cert
		}
		if change != nil {
			change(&res)
		}
		text, err := ocsp.CreateResponse(authority.cert, by.cert, res, by.key)
		if err != nil {
			t.Error(err)
		}
		return text
	}
}

func newClient(t *testing.T, cfg Config, old *Client) *Client {
	t.Helper()
	c, err := New(cfg, old)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// expect compares a verdict with a part of its text, "" for none.
func expect(t *testing.T, what string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// TestOnlyTheAuthorityOfACertificateSaysWhatItHasRevoked, or whom it lets speak for it, and not for
// longer than it says.
func TestOnlyTheAuthorityOfACertificateSaysWhatItHasRevoked(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "root", 1, nil)
	twin := issue(t, nil, "root", 1, nil)
	anna := issue(t, root, "anna", 10, nil)
	delegate := issue(t, root, "responder", 2, signing)
	obsolete := issue(t, root, "responder", 3, func(c *x509.Certificate) { signing(c); c.NotAfter = time.Now().Add(-time.Minute) })
	foreign := issue(t, twin, "responder", 4, signing)
	mallory := issue(t, root, "mallory", 11, nil) // a client of the same authority
	below := issue(t, root, "below", 5, func(c *x509.Certificate) {
		c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	})
	status := func(s int) func(*ocsp.Response) { return func(r *ocsp.Response) { r.Status = s } }
	for name, tt := range map[string]struct {
		issuer *pair // default root
		answer func() []byte
		want   string
		silent bool // it is as if there were no answer
	}{
		"good":                           {answer: said(t, root, root, nil)},
		"good, by a delegate":            {answer: said(t, root, delegate, nil)},
		"good, without an end":           {answer: said(t, root, root, func(r *ocsp.Response) { r.NextUpdate = time.Time{} })},
		"good, with the issuer in it":    {issuer: below, answer: said(t, below, below, func(r *ocsp.Response) { r.Certificate = below.cert })},
		"revoked":                        {answer: said(t, root, root, status(ocsp.Revoked)), want: "is revoked since"},
		"revoked, by a delegate":         {answer: said(t, root, delegate, status(ocsp.Revoked)), want: "is revoked since"},
		"unknown":                        {answer: said(t, root, root, status(ocsp.Unknown)), want: "does not know"},
		"good, by a client":              {answer: said(t, root, mallory, nil), want: "may not sign", silent: true},
		"good, by the client itself":     {answer: said(t, root, anna, nil), want: "may not sign", silent: true},
		"good, by an ended delegate":     {answer: said(t, root, obsolete, nil), want: "not valid now", silent: true},
		"good, by another's delegate":    {answer: said(t, root, foreign, nil), want: "not signed for", silent: true},
		"good, by one of the same name":  {answer: said(t, twin, twin, nil), want: "not signed for", silent: true},
		"good, but obsolete":             {answer: said(t, root, root, func(r *ocsp.Response) { r.NextUpdate = time.Now().Add(-time.Second) }), want: "obsolete", silent: true},
		"good, but not yet":              {answer: said(t, root, root, func(r *ocsp.Response) { r.ThisUpdate = time.Now().Add(time.Hour) }), want: "clocks", silent: true},
		"good, of another certificate":   {answer: said(t, root, root, func(r *ocsp.Response) { r.SerialNumber = big.NewInt(11) }), want: "no response matching", silent: true},
		"try later":                      {answer: func() []byte { return ocsp.TryLaterErrorResponse }, want: "try later", silent: true},
		"unauthorised":                   {answer: func() []byte { return ocsp.UnauthorizedErrorResponse }, want: "unauthorized", silent: true},
		"a page":                         {answer: func() []byte { return []byte("<html>sign in</html>") }, want: "nobody says", silent: true},
		"nothing":                        {answer: func() []byte { return nil }, want: "nobody says", silent: true},
		"half of one":                    {answer: func() []byte { b := said(t, root, root, nil)(); return b[:len(b)/2] }, want: "nobody says", silent: true},
		"good, and an endless remainder": {answer: func() []byte { return append(said(t, root, root, nil)(), make([]byte, 2*maxAnswer)...) }, want: "trailing data", silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer, cert := root, anna
			if tt.issuer != nil {
				issuer = tt.issuer
				cert = issue(t, issuer, "carl", 10, nil)
			}
			r := newResponder(t)
			r.says(tt.answer)
			c := newClient(t, Config{Servers: []string{r.url}}, nil)
			expect(t, "a client", c.Check(t.Context(), cert.cert, issuer.cert), tt.want)
			if p := c.Problem(); tt.silent != (p != "") || tt.silent && !strings.Contains(p, "are refused") {
				t.Errorf("the problem is %q", p)
			}
			expect(t, "the same again", c.Check(t.Context(), cert.cert, issuer.cert), tt.want)
			expect(t, "on an open connection", c.Recheck(t.Context(), cert.cert), tt.want)
			if n := r.asked.Load(); n != 1 {
				t.Errorf("the responder was asked %d times, want once", n)
			}
			want := tt.want
			if tt.silent {
				want = ""
			}
			c = newClient(t, Config{Servers: []string{r.url}, Silent: "accept"}, nil)
			expect(t, "if silence is accepted", c.Check(t.Context(), cert.cert, issuer.cert), want)
		})
	}
}

// TestWhoIsAsked: the responder of the settings before that of the certificate, and each in turn.
func TestWhoIsAsked(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "root", 1, nil)
	good, silent, wrong := newResponder(t), newResponder(t), newResponder(t)
	good.says(said(t, root, root, nil))
	wrong.says(said(t, root, root, func(r *ocsp.Response) { r.Status = ocsp.Revoked }))
	with := func(urls ...string) *x509.Certificate {
		return issue(t, root, "anna", 10, func(c *x509.Certificate) { c.OCSPServer = urls }).cert
	}
	for name, tt := range map[string]struct {
		servers []string
		cert    *x509.Certificate
		accept  bool
		want    string
	}{
		"that of the certificate":           {nil, with(good.url), false, ""},
		"the second of the certificate":     {nil, with("ldap://x.example", good.url), false, ""},
		"that of the settings":              {[]string{good.url}, with(wrong.url), false, ""},
		"after a silent one":                {[]string{silent.url, good.url}, with(), false, ""},
		"only a silent one":                 {[]string{silent.url}, with(), false, "nobody says"},
		"only a silent one, accepted":       {[]string{silent.url}, with(), true, ""},
		"nobody":                            {nil, with(), false, "names no responder"},
		"nobody, accepted":                  {nil, with(), true, ""},
		"revoked, where silence would do":   {[]string{wrong.url}, with(), true, "is revoked"},
		"a closed port, and then an answer": {[]string{"http://127.0.0.1:1", good.url}, with(), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Servers: tt.servers, Timeout: setting.Duration(time.Second)}
			if tt.accept {
				cfg.Silent = "accept"
			}
			begun := time.Now()
			expect(t, name, newClient(t, cfg, nil).Check(t.Context(), tt.cert, root.cert), tt.want)
			if took := time.Since(begun); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestAnAnswerCountsUntilItsEnd, also over a reload and while the responder is away.
func TestAnAnswerCountsUntilItsEnd(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "root", 1, nil)
	anna := issue(t, root, "anna", 10, nil)
	r := newResponder(t)
	r.says(said(t, root, root, func(r *ocsp.Response) { r.NextUpdate = time.Now().Add(4 * time.Second) }))
	cfg := Config{Servers: []string{r.url}, Timeout: setting.Duration(500 * time.Millisecond)}
	first := newClient(t, cfg, nil)
	expect(t, "first", first.Check(t.Context(), anna.cert, root.cert), "")
	r.answer.Store(nil)
	second := newClient(t, cfg, first)
	begun := time.Now()
	expect(t, "after a reload, the responder is silent", second.Check(t.Context(), anna.cert, root.cert), "")
	if took := time.Since(begun); took > 400*time.Millisecond {
		t.Errorf("it waited %v for a silent responder", took)
	}
	for second.Recheck(t.Context(), anna.cert) == nil {
		if time.Since(begun) > time.Minute {
			t.Fatal("the answer has no end")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(begun); took < 2*time.Second { // seconds are cut off in an answer
		t.Errorf("it ended after %v", took)
	}
}

// TestManyConnectionsAskOnce: those that come while the question is under way wait for its answer.
func TestManyConnectionsAskOnce(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "root", 1, nil)
	anna := issue(t, root, "anna", 10, nil)
	r := newResponder(t)
	gate := make(chan struct{})
	r.says(func() []byte { <-gate; return said(t, root, root, nil)() })
	c := newClient(t, Config{Servers: []string{r.url}}, nil)
	gone, leave := context.WithCancel(t.Context())
	got := make(chan error, 20)
	for i := range cap(got) {
		ctx := t.Context()
		if i == 0 {
			ctx = gone
		}
		go func() { got <- c.Check(ctx, anna.cert, root.cert) }()
	}
	leave()
	expect(t, "one that goes", <-got, "canceled")
	close(gate)
	for range cap(got) - 1 {
		expect(t, "one that waits", <-got, "")
	}
	if n := r.asked.Load(); n != 1 {
		t.Errorf("%d questions, want 1", n)
	}
}

// TestAnswersAreBounded: more clients than are remembered are asked about again.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	c := newClient(t, Config{}, nil)
	for i := range maxAnswers + 100 {
		c.makeRoom(time.Now())
		c.answers[key{byte(i), byte(i >> 8), byte(i >> 16)}] = &answer{until: time.Now().Add(time.Hour)}
	}
	if n := len(c.answers); n > maxAnswers {
		t.Errorf("%d answers are kept", n)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"servers[1]": {Servers: []string{"http://ocsp.example", "ldap://ocsp.example"}},
		"servers[0]": {Servers: []string{"ocsp.example"}},
		"silent":     {Silent: "ignore"},
		"timeout":    {Timeout: setting.Duration(-1)},
	} {
		_, err := New(cfg, nil)
		expect(t, "settings", err, want)
	}
}

// An authority is a responder of OpenSSL with its files.
type authority struct {
	dir  string
	port string
	stop func()
}

// index writes which certificates are there: V for valid ones, R for revoked ones.
func (a *authority) index(t *testing.T, state map[int64]string) {
	t.Helper()
	var b strings.Builder
	for serial, s := range state {
		revoked := ""
		if s == "R" {
			revoked = time.Now().Add(-time.Minute).UTC().Format("060102150405Z")
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%04X\tunknown\t/CN=client %d\n", s, time.Now().Add(time.Hour).UTC().Format("060102150405Z"), revoked, serial, serial)
	}
	if err := os.WriteFile(filepath.Join(a.dir, "index.txt"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start starts the responder, at the port before if it had one.
func (a *authority) start(t *testing.T) {
	t.Helper()
	port := a.port
	if port == "" {
		port = "0"
	}
	cmd := exec.Command("openssl", "ocsp", "-port", port, "-index", "index.txt", "-CA", "ca.pem", "-rsigner", "signer.pem", "-rkey", "signer.key", "-nmin", "1", "-ignore_err")
	cmd.Dir = a.dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a.stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(func() { a.stop() })
	accept := regexp.MustCompile(`ACCEPT .*:(\d+)`)
	var lines []string
	for in := bufio.NewScanner(out); in.Scan(); {
		lines = append(lines, in.Text())
		if m := accept.FindStringSubmatch(in.Text()); m != nil {
			a.port = m[1]
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	t.Fatalf("openssl ocsp does not listen: %q", lines)
}

// TestAResponderOfOpenSSLIsKilledAndReturns: its delegate signs; good, revoked and unknown certificates
// are told apart; while it is away, what it said counts, and what it did not say is refused.
func TestAResponderOfOpenSSLIsKilledAndReturns(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	root := issue(t, nil, "root", 1, nil)
	signer := issue(t, root, "responder", 2, signing)
	a := &authority{dir: t.TempDir()}
	key, err := x509.MarshalPKCS8PrivateKey(signer.key)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*pem.Block{"ca.pem": {Type: "CERTIFICATE", Bytes: root.cert.Raw}, "signer.pem": {Type: "CERTIFICATE", Bytes: signer.cert.Raw}, "signer.key": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a.index(t, map[int64]string{10: "V", 11: "R", 13: "V"})
	a.start(t)
	named := func(c *x509.Certificate) { c.OCSPServer = []string{"http://127.0.0.1:" + a.port} }
	anna, ben, carl, dora := issue(t, root, "anna", 10, named), issue(t, root, "ben", 11, named), issue(t, root, "carl", 12, named), issue(t, root, "dora", 13, named)
	c := newClient(t, Config{}, nil)
	check := func(of *pair) error { return c.Check(t.Context(), of.cert, root.cert) }
	expect(t, "good", check(anna), "")
	expect(t, "revoked", check(ben), "is revoked since")
	expect(t, "unknown", check(carl), "does not know")
	a.stop()
	expect(t, "good before, while it is away", check(anna), "")
	expect(t, "revoked before, while it is away", check(ben), "is revoked since")
	expect(t, "never asked about, while it is away", check(dora), "nobody says")
	if c.Problem() == "" {
		t.Error("nothing says that the responder is away")
	}
	a.start(t)
	c = newClient(t, Config{}, c)
	expect(t, "when it is back", check(dora), "")
	if p := c.Problem(); p != "" {
		t.Errorf("when it is back: %s", p)
	}
}
