package certificate

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/acme"

	"shuultuur/lib/release"
)

// Protocol is what an authority asks for in the handshakes of tls-alpn-01. Listeners on port 443 name it
// among their protocols.
const Protocol = acme.ALPNProto

// An order is one attempt to get a certificate.
type order struct {
	*Keeper
	client *acme.Client
	asked  *asked
}

// order gets a certificate from the authority.
func (k *Keeper) order(ctx context.Context) (*tls.Certificate, []byte, error) {
	o := order{Keeper: k}
	client, asked := bounded(k.parts.Client, len(k.cfg.Names))
	o.asked = asked
	key, err := k.accountKey()
	if err != nil {
		return nil, nil, err
	}
	o.client = &acme.Client{Key: key, DirectoryURL: k.cfg.Directory, HTTPClient: client, UserAgent: "shuultuur/" + release.Version(), RetryBackoff: backoff}
	if _, err := o.client.Discover(ctx); err != nil {
		return nil, nil, fmt.Errorf("asking %s what it offers: %w", k.cfg.Directory, err)
	}
	if err := o.agree(k.parts.Now()); err != nil {
		return nil, nil, err
	}
	if err := o.register(ctx); err != nil {
		return nil, nil, err
	}
	return o.get(ctx)
}

// accountKey returns the key of the account, which it makes if there is none, and keeps.
func (k *Keeper) accountKey() (crypto.Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.account.Key != nil {
		return signer(k.account.Key)
	}
	key, err := newKey("")
	if err != nil {
		return nil, err
	}
	if k.account.Key, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		return nil, err
	}
	if k.unsaved = k.files.writeAccount(&k.account); k.unsaved != nil {
		k.account.Key = nil
		return nil, fmt.Errorf("keeping the key of the account: %w", k.unsaved) // or each start would make an account
	}
	return key, nil
}

// clocksApart is how far our clock and the authority's may be apart: Let's Encrypt dates its certificates
// back by an hour for clocks that are wrong.
const clocksApart = time.Hour

// agree compares our clock with that of the authority: by a wrong one each certificate has ended, or
// none has begun.
func (o *order) agree(now time.Time) error {
	there := o.asked.date()
	if there.IsZero() || there.Sub(now).Abs() <= clocksApart {
		return nil
	}
	return fmt.Errorf("the clock of this machine shows %s and that of %s shows %s: nothing is ordered before both agree", now.UTC().Format(time.RFC3339), o.cfg.authority(), there.UTC().Format(time.RFC3339))
}

// register makes an account, or finds the one that the key has.
func (o *order) register(ctx context.Context) error {
	a := &acme.Account{}
	for _, to := range o.cfg.Contact {
		a.Contact = append(a.Contact, "mailto:"+to)
	}
	if b := o.cfg.Binding; b != nil {
		key, err := b.bytes()
		if err != nil {
			return err
		}
		a.ExternalAccountBinding = &acme.ExternalAccountBinding{KID: b.ID, Key: key}
	}
	terms := ""
	_, err := o.client.Register(ctx, a, func(url string) bool {
		terms = url
		return o.cfg.AcceptTerms
	})
	if terms != "" && !o.cfg.AcceptTerms {
		return fmt.Errorf("%s gives certificates to those who accept its terms: read them at %q and write acme: accept-terms: true", o.cfg.authority(), terms)
	}
	if errors.Is(err, acme.ErrAccountAlreadyExists) {
		if _, err = o.client.UpdateReg(ctx, &acme.Account{Contact: a.Contact}); len(a.Contact) == 0 {
			return nil // there was nothing to update
		}
	}
	if err != nil {
		return fmt.Errorf("registering at %s: %w", o.cfg.authority(), err)
	}
	return nil
}

// bytes returns the key of a binding.
func (b *Binding) bytes() ([]byte, error) {
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(b.Key, "="))
	if err != nil || len(key) == 0 {
		return nil, errors.New("it is not in base64url, as authorities show it")
	}
	return key, nil
}

// get proves that the names are ours, and fetches the certificate.
func (o *order) get(ctx context.Context) (*tls.Certificate, []byte, error) {
	var ids []acme.AuthzID
	for _, name := range o.cfg.Names {
		if _, err := netip.ParseAddr(name); err == nil {
			ids = append(ids, acme.IPIDs(name)...)
		} else {
			ids = append(ids, acme.DomainIDs(name)...)
		}
	}
	var options []acme.OrderOption
	if o.cfg.Profile != "" {
		options = append(options, acme.WithOrderIssuanceProfile(acme.ProfileName(o.cfg.Profile)))
	}
	at, err := o.client.AuthorizeOrder(ctx, ids, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("ordering: %w", err)
	}
	if len(at.AuthzURLs) > len(ids) {
		return nil, nil, fmt.Errorf("%s wants proof of %d names, and %d were ordered", o.cfg.authority(), len(at.AuthzURLs), len(ids))
	}
	if err := o.proveAll(ctx, at.AuthzURLs); err != nil {
		return nil, nil, err
	}
	if at, err = o.client.WaitOrder(ctx, at.URI); err != nil {
		return nil, nil, fmt.Errorf("waiting for the order: %w", err)
	}
	key, err := newKey(o.cfg.Key)
	if err != nil {
		return nil, nil, err
	}
	return o.fetch(ctx, at, key)
}

// fetch gets the certificate of an order that is proven.
func (o *order) fetch(ctx context.Context, at *acme.Order, key crypto.Signer) (*tls.Certificate, []byte, error) {
	request := &x509.CertificateRequest{}
	for _, name := range o.cfg.Names {
		if ip := net.ParseIP(name); ip != nil {
			request.IPAddresses = append(request.IPAddresses, ip)
		} else {
			request.DNSNames = append(request.DNSNames, name)
		}
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, request, key)
	if err != nil {
		return nil, nil, err
	}
	chain, _, err := o.client.CreateCertFromOrder(ctx, at, csr, true)
	if err != nil {
		return nil, nil, fmt.Errorf("fetching the certificate: %w", err)
	}
	text, err := textOf(chain, key)
	if err != nil {
		return nil, nil, err
	}
	pair, err := pairOf(text)
	if err != nil {
		return nil, nil, err
	}
	if leaf := pair.Leaf; !covers(leaf, o.cfg.Names) || !leaf.NotAfter.After(o.parts.Now()) || !leaf.NotAfter.After(leaf.NotBefore) {
		return nil, nil, fmt.Errorf("%s sent a certificate for %q from %s to %s, which is not what was ordered", o.cfg.authority(), leaf.DNSNames, leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339))
	}
	return pair, text, nil
}

// A proof is the answer to a challenge that is in its place.
type proof struct {
	name, kind string
	authz      string // URL
	challenge  *acme.Challenge
}

// proveAll proves that each name is ours. All answers are in their places before the authority looks
// for the first, since it may remember for a while what it did not find.
func (o *order) proveAll(ctx context.Context, urls []string) error {
	var all []proof
	for _, url := range urls {
		p, undo, err := o.prepare(ctx, url)
		defer undo()
		if err != nil {
			return err
		}
		if p != nil {
			all = append(all, *p)
		}
	}
	for _, p := range all {
		if _, err := o.client.Accept(ctx, p.challenge); err != nil {
			return fmt.Errorf("asking for the proof of %s by %s: %w", p.name, p.kind, err)
		}
	}
	for _, p := range all {
		if _, err := o.client.WaitAuthorization(ctx, p.authz); err != nil {
			return fmt.Errorf("proving %s by %s: %w", p.name, p.kind, err)
		}
	}
	return nil
}

// kinds returns the challenges that can prove a name, in the order in which they are tried.
func (k *Keeper) kinds(name string) (all []string, err error) {
	if k.cfg.Challenge != "" {
		return []string{k.cfg.Challenge}, nil
	}
	_, notAddress := netip.ParseAddr(name)
	wild := strings.HasPrefix(name, "*.")
	if k.parts.HTTP && !wild {
		all = append(all, byHTTP)
	}
	if k.parts.TLS && !wild && notAddress != nil {
		all = append(all, byTLS)
	}
	if z := k.zones(); z != nil && z.Publishes(challengeName(name)) {
		all = append(all, byDNS)
	}
	if len(all) > 0 {
		return all, nil
	}
	if wild {
		return nil, fmt.Errorf("%s can be proven by dns-01 alone, which needs a zone of ours that has the name", name)
	}
	return nil, fmt.Errorf("nothing here can prove that %s is ours: that needs listen: portal on port 80, or portal-tls, admin or dns: https on port 443, or a zone of ours that has the name; or, behind a router that forwards these ports, challenge: http-01 or tls-alpn-01", name)
}

func (k *Keeper) zones() Zones {
	if k.parts.Zones == nil {
		return nil
	}
	return k.parts.Zones()
}

func challengeName(name string) string { return "_acme-challenge." + strings.TrimPrefix(name, "*.") }

// prepare puts the answer for a name into its place. p is nil if the name is proven already; undo takes
// the answer away.
func (o *order) prepare(ctx context.Context, url string) (p *proof, undo func(), err error) {
	undo = func() {}
	a, err := o.client.GetAuthorization(ctx, url)
	if err != nil {
		return nil, undo, fmt.Errorf("asking for the challenges: %w", err)
	}
	name := a.Identifier.Value
	if a.Wildcard {
		name = "*." + name
	}
	if !slices.Contains(o.cfg.Names, name) {
		return nil, undo, fmt.Errorf("%s wants a proof of %q, which was not ordered", o.cfg.authority(), name)
	}
	if a.Status == acme.StatusValid {
		return nil, undo, nil
	}
	kinds, err := o.kinds(name)
	if err != nil {
		return nil, undo, err
	}
	o.mu.Lock()
	failed := o.account.Times
	o.mu.Unlock()
	for i := range kinds { // after a failure another kind is tried first
		kind := kinds[(i+failed)%len(kinds)]
		j := slices.IndexFunc(a.Challenges, func(c *acme.Challenge) bool { return c.Type == kind })
		if j < 0 {
			continue
		}
		p = &proof{name: name, kind: kind, authz: url, challenge: a.Challenges[j]}
		undo, err = o.place(ctx, p)
		return p, undo, err
	}
	return nil, undo, fmt.Errorf("%s offers no challenge for %s that can be answered here (%s)", o.cfg.authority(), name, strings.Join(kinds, ", "))
}

// place puts an answer where the authority will look.
func (o *order) place(ctx context.Context, p *proof) (undo func(), err error) {
	undo = func() {}
	token := p.challenge.Token
	switch p.kind {
	case byHTTP:
		answer, err := o.client.HTTP01ChallengeResponse(token)
		if err != nil {
			return undo, err
		}
		return put(o.Keeper, o.inFlight, o.client.HTTP01ChallengePath(token), answer), nil
	case byTLS:
		c, err := o.client.TLSALPN01ChallengeCert(token, p.name)
		if err != nil {
			return undo, err
		}
		return put(o.Keeper, o.inHello, p.name, &c), nil
	}
	z := o.zones()
	if z == nil {
		return undo, fmt.Errorf("dns-01 needs a zone of ours that has %s, and there is none", p.name)
	}
	text, err := o.client.DNS01ChallengeRecord(token)
	if err != nil {
		return undo, err
	}
	remove, err := z.Publish(ctx, challengeName(p.name), text)
	if err != nil {
		return undo, fmt.Errorf("answering dns-01 in the zone of %s: %w", p.name, err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := remove(ctx); err != nil {
			o.parts.Log.Warn("the answer to a challenge could not be taken out of its zone", "name", challengeName(p.name), "error", err)
		}
	}, nil
}

// put adds an answer to a map of the keeper, and returns what takes it away.
func put[T any](k *Keeper, m map[string]T, at string, answer T) (undo func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m[at] = answer
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(m, at)
	}
}

// retryAfter returns how long the authority asks to wait.
func retryAfter(err error, now time.Time) time.Duration {
	var e *acme.Error
	if !errors.As(err, &e) || e.Header == nil {
		return 0
	}
	v := e.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := time.Parse(time.RFC1123, v); err == nil {
		return at.Sub(now)
	}
	return 0
}

// words returns what an authority said, short and without what terminals and pages would obey.
func words(err error) string {
	var parts []string
	var o *acme.OrderError
	var a *acme.AuthorizationError
	switch {
	case errors.As(err, &o) && o.Problem != nil:
		err = fmt.Errorf("the order failed: %w", o.Problem)
	case errors.As(err, &a):
		for _, e := range a.Errors {
			parts = append(parts, e.Error())
		}
	}
	text := err.Error()
	if a != nil && len(parts) > 0 {
		before, _, _ := strings.Cut(text, a.Error())
		text = before + strings.Join(parts, "; ")
	}
	clean := strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, " "))
	const most = 600
	if len(clean) > most {
		clean = strings.ToValidUTF8(clean[:most], "") + "…"
	}
	return cmp.Or(strings.Join(strings.Fields(clean), " "), "it does not say why")
}
