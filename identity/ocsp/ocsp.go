// Package ocsp asks authorities whether they have revoked a client's certificate (RFC 6960). [New] reads
// the settings. [Client.Check] asks the responder that the settings or the certificate name, within a
// time limit, verifies that the authority has signed the answer, and keeps it for as long as it is in
// force. An answer is renewed before it ends, while it still counts: a responder that is away for a
// while is not noticed. What holds when nobody knows is a setting.
package ocsp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/crypto/ocsp"

	"shuultuur/lib/setting"
)

const (
	maxAnswer  = 256 << 10
	maxAnswers = 10_000           // that are kept
	atOnce     = 16               // questions
	renewed    = time.Hour        // age at which an answer is renewed at the latest
	undated    = time.Minute      // how long an answer counts that does not say it
	failureFor = 10 * time.Second // until a responder that has failed is asked again for a certificate
	slow       = 5 * time.Minute  // by which clocks may differ
)

// Config sets who is asked.
type Config struct {
	// Servers are URLs of responders, tried in order; default the ones that a certificate names.
	Servers setting.OneOrMore[string] `yaml:"servers"`
	// Silent says what becomes of a certificate while no responder says whether it is revoked: refuse
	// (default) or accept.
	Silent  string           `yaml:"silent"`
	Timeout setting.Duration `yaml:"timeout"` // longest wait for all responders together; default 5s
}

// A Client asks responders. It is safe for concurrent use.
type Client struct {
	servers []string
	accept  bool
	timeout time.Duration
	http    *http.Client
	turns   chan struct{}

	mu      sync.Mutex
	answers map[key]*answer
	silent  silence
}

// A key is the digest of a certificate.
type key [sha256.Size]byte

// An answer is what is known of a certificate; all but the certificates is guarded by Client.mu.
type answer struct {
	cert, issuer *x509.Certificate
	verdict      error     // nil: the certificate is not revoked
	until        time.Time // end of the verdict; zero: there is none
	again        time.Time // earliest time of the next question
	failed       error     // of the last question; nil if it was answered
	asking       chan struct{}
}

// A silence is that of responders which do not answer.
type silence struct {
	since, last time.Time // zero: there is none
	err         error
}

// New reads the settings. It keeps the answers of a client before, if there is one.
func New(cfg Config, old *Client) (*Client, error) {
	for i, s := range cfg.Servers {
		if u, err := url.Parse(s); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, setting.At(fmt.Sprintf("servers[%d]", i), fmt.Errorf("%.200q is not the address of a responder, such as http://ocsp.school.example", s))
		}
	}
	c := &Client{servers: cfg.Servers, timeout: cfg.Timeout.Or(5 * time.Second), turns: make(chan struct{}, atOnce), answers: map[key]*answer{},
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if c.timeout == 0 {
		return nil, setting.At("timeout", errors.New("off: a client would wait forever"))
	}
	switch cfg.Silent {
	case "", "refuse":
	case "accept":
		c.accept = true
	default:
		return nil, setting.At("silent", fmt.Errorf("%q says nothing of certificates whose responder is silent: write refuse or accept", cfg.Silent))
	}
	if old != nil {
		old.mu.Lock()
		defer old.mu.Unlock()
		for k, a := range old.answers {
			if !a.until.IsZero() {
				c.answers[k] = &answer{cert: a.cert, issuer: a.issuer, verdict: a.verdict, until: a.until, again: a.again}
			}
		}
	}
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Asks reports whether there is a responder to ask about a certificate.
func (c *Client) Asks(cert *x509.Certificate) bool {
	return len(c.servers) > 0 || len(cert.OCSPServer) > 0
}

// Check returns an error if a certificate of an issuer must not be accepted: it is revoked, its
// authority does not know it, or nobody knows and the settings refuse that.
func (c *Client) Check(ctx context.Context, cert, issuer *x509.Certificate) error {
	c.mu.Lock()
	k := key(sha256.Sum256(cert.Raw))
	a := c.answers[k]
	if a == nil || !a.issuer.Equal(issuer) {
		c.makeRoom(time.Now())
		a = &answer{cert: cert, issuer: issuer}
		c.answers[k] = a
	}
	c.mu.Unlock()
	return c.check(ctx, a)
}

// Recheck is Check for a certificate that was accepted before, which may have been revoked since.
func (c *Client) Recheck(ctx context.Context, cert *x509.Certificate) error {
	c.mu.Lock()
	a := c.answers[sha256.Sum256(cert.Raw)]
	c.mu.Unlock()
	if a == nil {
		return c.unknown(cert, errors.New("what was known of it is forgotten; the client has to connect again"))
	}
	return c.check(ctx, a)
}

func (c *Client) check(ctx context.Context, a *answer) error {
	c.mu.Lock()
	now := time.Now()
	if now.Before(a.until) {
		if !now.Before(a.again) {
			c.ask(a)
		}
		defer c.mu.Unlock()
		return a.verdict
	}
	if a.failed == nil || !now.Before(a.again) {
		c.ask(a)
	}
	asking := a.asking
	c.mu.Unlock()
	if asking != nil {
		select {
		case <-asking:
		case <-ctx.Done():
			return c.unknown(a.cert, ctx.Err())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.failed != nil {
		return c.unknown(a.cert, a.failed)
	}
	return a.verdict
}

// unknown is the verdict on a certificate of which nobody knows whether it is revoked.
func (c *Client) unknown(cert *x509.Certificate, why error) error {
	if c.accept {
		return nil
	}
	return fmt.Errorf("nobody says whether the certificate of %q with the number %v is revoked: %w", cert.Subject, cert.SerialNumber, why)
}

// makeRoom forgets answers if there are too many: those that have ended, else any. mu is held.
func (c *Client) makeRoom(now time.Time) {
	if len(c.answers) < maxAnswers {
		return
	}
	for k, a := range c.answers {
		if a.asking == nil && now.After(a.until) && now.After(a.again) {
			delete(c.answers, k)
		}
	}
	for k := range c.answers {
		if len(c.answers) < maxAnswers {
			return
		}
		delete(c.answers, k)
	}
}

// ask asks about a certificate, unless that is being done. mu is held. The question does not end with
// the client that is the cause of it, because others wait for the answer.
func (c *Client) ask(a *answer) {
	if a.asking != nil {
		return
	}
	a.asking = make(chan struct{})
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
		defer cancel()
		res, err := c.fetch(ctx, a.cert, a.issuer)
		c.mu.Lock()
		defer c.mu.Unlock()
		now := time.Now()
		if a.failed = err; err == nil {
			a.verdict, a.until = verdict(a.cert, res), res.NextUpdate
			if a.until.IsZero() {
				a.until = now.Add(undated)
			}
			a.again = now.Add(min(renewed, a.until.Sub(now)/2))
			c.silent = silence{}
		} else {
			a.again = now.Add(failureFor)
			if !errors.Is(err, errNobody) {
				if c.silent.since.IsZero() {
					c.silent.since = now
				}
				c.silent.last, c.silent.err = now, err
			}
		}
		close(a.asking)
		a.asking = nil
	}()
}

// verdict is what an answer says of a certificate.
func verdict(cert *x509.Certificate, res *ocsp.Response) error {
	switch res.Status {
	case ocsp.Good:
		return nil
	case ocsp.Revoked:
		return fmt.Errorf("the certificate of %q with the number %v is revoked since %s", cert.Subject, cert.SerialNumber, res.RevokedAt.Format(time.RFC3339))
	}
	return fmt.Errorf("its authority does not know the certificate of %q with the number %v", cert.Subject, cert.SerialNumber)
}

var errNobody = errors.New("the certificate names no responder (OCSP), and identity.certificates.ocsp.servers names none")

// fetch asks the responders in order.
func (c *Client) fetch(ctx context.Context, cert, issuer *x509.Certificate) (*ocsp.Response, error) {
	servers := c.servers
	if len(servers) == 0 {
		servers = cert.OCSPServer
	}
	if len(servers) == 0 {
		return nil, errNobody
	}
	question, err := ocsp.CreateRequest(cert, issuer, nil)
	if err != nil {
		return nil, fmt.Errorf("write the question about %q: %w", cert.Subject, err)
	}
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for %d other questions: %w", atOnce, ctx.Err())
	}
	var errs []error
	for i, s := range servers {
		// A silent responder leaves time for those after it.
		end, _ := ctx.Deadline()
		one, cancel := context.WithTimeout(ctx, time.Until(end)/time.Duration(len(servers)-i))
		res, err := c.fetchFrom(one, s, question, cert, issuer)
		cancel()
		if err == nil {
			return res, nil
		}
		errs = append(errs, fmt.Errorf("responder %.200s: %w", s, err))
	}
	return nil, errors.Join(errs...)
}

func (c *Client) fetchFrom(ctx context.Context, server string, question []byte, cert, issuer *x509.Certificate) (*ocsp.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, server, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/ocsp-request")
	q.Header.Set("Accept", "application/ocsp-response")
	res, err := c.http.Do(q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, errors.New(res.Status)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	return read(text, cert, issuer, time.Now())
}

// read verifies an answer about a certificate.
func read(text []byte, cert, issuer *x509.Certificate, now time.Time) (*ocsp.Response, error) {
	// The issuer's signature is verified below: ParseResponseForCert accepts any certificate of the
	// issuer as a signer, also that of a client.
	res, err := ocsp.ParseResponseForCert(text, cert, nil)
	if err != nil {
		return nil, err
	}
	if by := res.Certificate; by == nil || by.Equal(issuer) {
		err = res.CheckSignatureFrom(issuer)
	} else {
		err = checkDelegate(by, issuer, now)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("its answer is not signed for %q: %w", issuer.Subject, err)
	case res.ThisUpdate.After(now.Add(slow)):
		return nil, fmt.Errorf("its answer counts only from %s on: compare the clocks", res.ThisUpdate.Format(time.RFC3339))
	case !res.NextUpdate.IsZero() && !now.Before(res.NextUpdate):
		return nil, fmt.Errorf("its answer is obsolete since %s", res.NextUpdate.Format(time.RFC3339))
	}
	return res, nil
}

// checkDelegate returns an error unless an issuer lets a certificate sign answers (RFC 6960 section
// 4.2.2.2).
func checkDelegate(by, issuer *x509.Certificate, now time.Time) error {
	if err := by.CheckSignatureFrom(issuer); err != nil {
		return err
	}
	if now.Before(by.NotBefore) || now.After(by.NotAfter) {
		return fmt.Errorf("the certificate of %q is not valid now", by.Subject)
	}
	for _, use := range by.ExtKeyUsage {
		if use == x509.ExtKeyUsageOCSPSigning {
			return nil
		}
	}
	return fmt.Errorf("%q may not sign for it", by.Subject)
}

// Problem says that responders are silent, and what that means; "" if they are not, or if nobody has
// had to ask for long.
func (c *Client) Problem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent.since.IsZero() || time.Since(c.silent.last) > renewed {
		return ""
	}
	what := "refused"
	if c.accept {
		what = "accepted"
	}
	return fmt.Sprintf("identity.certificates.ocsp: no answer since %s: %v. Certificates of which nobody knows whether they are revoked are %s", c.silent.since.Format(time.RFC3339), c.silent.err, what)
}
