package oidc

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"shuultuur/identity/seal"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
)

func failed(step, advice string, err error) error { return &Error{step, advice, err} }

// A Provider signs people in. It is safe for concurrent use.
type Provider struct {
	cfg    Config
	client *http.Client
	box    *seal.Box

	mu    sync.Mutex
	known *metadata // nil until it was reached
}

// metadata is the description of the provider.
type metadata struct {
	provider *oidc.Provider
	tokens   *oidc.IDTokenVerifier // it keeps the keys
	device   bool
	since    time.Time
}

// New reads the settings and does not contact the provider. key is a secret of
// 16 bytes or more that seals logins. Nodes that share it can finish each
// other's logins.
func New(cfg Config, key []byte) (*Provider, error) {
	if release.Small {
		return nil, release.Lacks("OpenID")
	}
	u, err := url.Parse(cfg.Issuer)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, setting.At("issuer", fmt.Errorf("%.200q is not the URL of a provider, such as https://login.example/realms/school", cfg.Issuer))
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, setting.At("issuer", fmt.Errorf("%q: a provider on another machine has to speak https", cfg.Issuer))
	}
	if err := checkGroupsFrom(cfg.GroupsFrom); err != nil {
		return nil, setting.At("groups-from", err)
	}
	if cfg.ClientID == "" {
		return nil, setting.At("client-id", errors.New("the provider knows this gateway by an identifier; register it there, with the callback of the documentation"))
	}
	p := &Provider{cfg: cfg}
	if p.box, err = seal.New(key, "oidc login"); err != nil {
		return nil, err
	}
	roots, err := cfg.CA.Roots()
	if err != nil {
		return nil, setting.At("ca", err)
	}
	t := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	p.client = &http.Client{
		Timeout:       cfg.Timeout.Or(10 * time.Second),
		Transport:     boundedTransport{&http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: t, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("the provider redirects") },
	}
	return p, nil
}

// Public reports whether anybody can have an account at a provider.
func Public(issuer string) bool {
	u, err := url.Parse(issuer)
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Hostname()) {
	case "accounts.google.com":
		return true
	case "login.microsoftonline.com":
		tenant, _, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
		return slices.Contains([]string{"common", "organizations", "consumers", "9188040d-6c67-4c5b-b112-36a304b66dad"}, strings.ToLower(tenant))
	}
	return false
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// A boundedTransport limits the size of answers.
type boundedTransport struct{ http.RoundTripper }

func (b boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	s, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		s.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(s.Body, maxAnswer), s.Body}
	}
	return s, err
}

// Close closes the connections to the provider.
func (p *Provider) Close() { p.client.CloseIdleConnections() }

// Host returns the provider's host, which must be reachable before a sign-in.
func (p *Provider) Host() string {
	u, err := url.Parse(p.cfg.Issuer)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// fetchMetadata returns the metadata of the provider.
func (p *Provider) fetchMetadata(ctx context.Context) (*metadata, error) {
	p.mu.Lock()
	k := p.known
	p.mu.Unlock()
	if k != nil && time.Since(k.since) < refresh {
		return k, nil
	}
	// The fetcher of keys keeps the context.
	lasting := oidc.ClientContext(context.WithoutCancel(ctx), p.client)
	found, err := oidc.NewProvider(lasting, p.cfg.Issuer)
	if err != nil {
		if k != nil {
			return k, nil // use the earlier metadata
		}
		return nil, failed("ask the provider for its description", "open "+strings.TrimSuffix(p.cfg.Issuer, "/")+"/.well-known/openid-configuration from this machine and compare issuer", err)
	}
	k = &metadata{provider: found, tokens: found.VerifierContext(lasting, &oidc.Config{ClientID: p.cfg.ClientID}), device: found.Endpoint().DeviceAuthURL != "", since: time.Now()}
	p.mu.Lock()
	p.known = k
	p.mu.Unlock()
	return k, nil
}

func (p *Provider) oauth(k *metadata, callback string) *oauth2.Config {
	scopes := append([]string{oidc.ScopeOpenID}, p.cfg.Scopes.Or("profile", "email")...)
	return &oauth2.Config{ClientID: p.cfg.ClientID, ClientSecret: p.cfg.Secret, Endpoint: k.provider.Endpoint(), RedirectURL: callback, Scopes: scopes}
}

// Begin returns the address to send the browser to. callback is our address to
// which the provider sends the browser back, as registered there. data comes
// back with the login.
// With again, the provider asks for the password even if it knows the browser.
func (p *Provider) Begin(ctx context.Context, callback, data string, again bool) (to string, l Login, err error) {
	k, err := p.fetchMetadata(ctx)
	if err != nil {
		return "", l, err
	}
	l = Login{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Callback: callback, Data: data, Until: time.Now().Add(LoginTime)}
	options := []oauth2.AuthCodeOption{oidc.Nonce(l.Nonce), oauth2.S256ChallengeOption(l.Verifier)}
	if again {
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"))
	}
	return p.oauth(k, callback).AuthCodeURL(l.State, options...), l, nil
}

// SignOut returns the address at which a browser leaves the provider (OpenID Connect
// RP-Initiated Logout 1.0), "" if the provider offers none.
func (p *Provider) SignOut(ctx context.Context) string {
	k, err := p.fetchMetadata(ctx)
	if err != nil {
		return ""
	}
	var offers struct {
		End string `json:"end_session_endpoint"`
	}
	u, err := url.Parse("")
	if k.provider.Claims(&offers) == nil {
		u, err = url.Parse(offers.End)
	}
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return ""
	}
	q := u.Query()
	q.Set("client_id", p.cfg.ClientID)
	u.RawQuery = q.Encode()
	return u.String()
}

// Seal encrypts a login for a cookie, so that only this gateway can read or make
// it.
func (p *Provider) Seal(l Login) (string, error) { return p.box.Seal(l) }

// Open reads the result of Seal.
func (p *Provider) Open(sealed string) (l Login, err error) {
	const step, advice = "find the sign-in that this belongs to", "sign in again, in the browser in which it was begun, with cookies allowed"
	if sealed == "" {
		return l, failed(step, advice, errors.New("the browser has sent no cookie"))
	}
	if err := p.box.Open(sealed, &l); err != nil {
		return l, failed(step, advice, fmt.Errorf("the cookie of the browser: %w", err))
	}
	if time.Now().After(l.Until) {
		return l, failed(step, advice, fmt.Errorf("it was begun more than %v ago", LoginTime))
	}
	return l, nil
}

// Finish returns the person who has signed in. query is the one that the provider added to the
// callback address.
func (p *Provider) Finish(ctx context.Context, l Login, query url.Values) (*User, error) {
	if got := query.Get("state"); got == "" || got != l.State {
		return nil, failed("compare the state", "begin the sign-in again; the address was not made for this browser", errors.New("it is not that of the sign-in"))
	}
	if e := query.Get("error"); e != "" {
		err := fmt.Errorf("it says %.100q", e)
		if d := query.Get("error_description"); d != "" {
			err = fmt.Errorf("it says %.100q: %.300q", e, d)
		}
		return nil, failed("sign in at the provider", "", err)
	}
	if iss := query.Get("iss"); iss != "" && iss != p.cfg.Issuer { // RFC 9207
		return nil, failed("compare the issuer", "", fmt.Errorf("%.200q has answered, not %q", iss, p.cfg.Issuer))
	}
	k, err := p.fetchMetadata(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.oauth(k, l.Callback).Exchange(ctx, query.Get("code"), oauth2.VerifierOption(l.Verifier))
	if err != nil {
		return nil, failed("exchange the code for a token", "compare client-id, secret and the callback "+l.Callback+" with what is registered at the provider", trimmed(err))
	}
	return p.verify(ctx, k, token, l.Nonce)
}

// ErrWithdrawn says that the provider does not sign the person in any more.
var ErrWithdrawn = errors.New("the provider has withdrawn the sign-in")

// trimmed returns an error of the token endpoint without the body of its
// answer.
func trimmed(err error) error {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.ErrorCode != "" {
		return fmt.Errorf("%.100q: %.300q", e.ErrorCode, e.ErrorDescription)
	}
	return err
}

// verify verifies a token and returns its user.
func (p *Provider) verify(ctx context.Context, k *metadata, token *oauth2.Token, nonce string) (*User, error) {
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return nil, failed("read the token", "allow this client the scope openid", errors.New("the provider has sent no ID token"))
	}
	id, err := k.tokens.Verify(ctx, raw)
	if err != nil {
		return nil, failed("verify the token", "compare client-id and the clocks of both machines", err)
	}
	if nonce != "" && id.Nonce != nonce {
		return nil, failed("compare the nonce", "begin the sign-in again", errors.New("the token was made for another sign-in"))
	}
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return nil, failed("read the claims", "", err)
	}
	if _, ok := p.claimed(claims); !ok || p.user(claims, false) == "" {
		more, err := userInfo(ctx, k, token, id.Subject)
		if err != nil && p.user(claims, true) == "" {
			return nil, failed("ask the provider for what it knows of the user", "allow this client the scopes profile and email", err)
		}
		for name, v := range more {
			if _, ok := claims[name]; !ok {
				claims[name] = v
			}
		}
	}
	if err := p.ofDomain(claims); err != nil {
		return nil, err
	}
	claimed, there := p.claimed(claims)
	w := &User{Issuer: p.cfg.Issuer, Subject: id.Subject, User: p.user(claims, true), Groups: groups(claimed), member: member{p, token}}
	if !there && p.elsewhere(claims) {
		if w.Groups, err = p.fetchGroups(ctx, token); err != nil {
			return nil, err
		}
	}
	if w.User == "" {
		return nil, failed("find the name of the user", "name another claim under user", fmt.Errorf("none of %s is in the token", strings.Join(p.cfg.User.Or("preferred_username", "email", "sub"), ", ")))
	}
	if verified, present := emailVerified(claims); present && verified {
		w.Email, _ = claims["email"].(string)
	}
	return w, nil
}

// A sealedUser is what is kept of a person for the next start.
type sealedUser struct {
	Issuer, Subject, User string
	Groups                []string
	Token                 *oauth2.Token
}

// Seal encrypts what is needed to ask for changes after a restart, with the tokens.
func (w *User) Seal() (string, error) {
	if w.p == nil || w.token == nil {
		return "", errors.New("no token is known")
	}
	return w.p.box.Seal(sealedUser{w.Issuer, w.Subject, w.User, w.Groups, w.token})
}

// OpenUser reads the result of [User.Seal].
func (p *Provider) OpenUser(sealed string) (*User, error) {
	var k sealedUser
	if err := p.box.Open(sealed, &k); err != nil {
		return nil, err
	}
	if k.Issuer != p.cfg.Issuer {
		return nil, fmt.Errorf("the sign-in is one of %.200q", k.Issuer)
	}
	if k.Token == nil || k.Subject == "" {
		return nil, errors.New("no token is known")
	}
	return &User{Issuer: k.Issuer, Subject: k.Subject, User: k.User, Groups: k.Groups, member: member{p, k.Token}}, nil
}

// userInfo requests the claims of the user of a token.
func userInfo(ctx context.Context, k *metadata, token *oauth2.Token, subject string) (claims map[string]any, err error) {
	info, err := k.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, err
	}
	if info.Subject != subject {
		return nil, errors.New("it answers about somebody else")
	}
	err = info.Claims(&claims)
	return claims, err
}

// A member holds the tokens of a signed-in person.
type member struct {
	p     *Provider
	token *oauth2.Token
}

// Renew requests the groups of a signed-in person again: with the refresh
// token, if there is one (scope offline_access), otherwise while the access
// token is valid. An error means that the provider will not answer any more.
func (w *User) Renew(ctx context.Context) (*User, error) {
	p := w.p
	if p == nil || w.token == nil {
		return nil, errors.New("no token is known")
	}
	k, err := p.fetchMetadata(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	now := *w
	if w.token.RefreshToken != "" {
		if now.token, err = p.oauth(k, "").TokenSource(ctx, &oauth2.Token{RefreshToken: w.token.RefreshToken}).Token(); err != nil {
			if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.ErrorCode == "invalid_grant" {
				return nil, failed("renew the token", "", fmt.Errorf("%w: %w", ErrWithdrawn, trimmed(err)))
			}
			return nil, failed("renew the token", "", trimmed(err))
		}
		if _, ok := now.token.Extra("id_token").(string); ok {
			who, err := p.verify(ctx, k, now.token, "")
			if err == nil && who.Subject != w.Subject {
				err = failed("renew the token", "", errors.New("it belongs to another person"))
			}
			return who, err
		}
	}
	const step = "ask the provider for the groups of now"
	claims, err := userInfo(ctx, k, now.token, w.Subject)
	if err != nil {
		return nil, failed(step, "", err)
	}
	claimed, ok := p.claimed(claims)
	if !ok && p.cfg.GroupsFrom != "" {
		now.Groups, err = p.fetchGroups(ctx, now.token)
		return &now, err
	}
	if !ok {
		return nil, failed(step, "have the provider put the claim with the groups into userinfo too, or ask for the scope offline_access", errors.New("it says none"))
	}
	now.Groups = groups(claimed)
	return &now, nil
}

// user returns the user's name from the first claim that has one. Without
// resort, the claim sub is not used.
func (p *Provider) user(claims map[string]any, resort bool) string {
	for _, c := range p.cfg.User.Or("preferred_username", "email", "sub") {
		if c == "sub" && !resort && len(p.cfg.User) == 0 {
			continue
		}
		if verified, present := emailVerified(claims); c == "email" && present && !verified {
			continue // an unverified address could belong to anyone
		}
		if s, ok := claims[c].(string); ok && name(s) {
			return s
		}
	}
	return ""
}

// emailVerified reads whether the provider has verified the address. Some write it as text;
// what is neither true nor "true" is not verified.
func emailVerified(claims map[string]any) (verified, present bool) {
	v, present := claims["email_verified"]
	return v == true || v == "true", present
}

// claimed returns the claim with the groups. Its name may lead into objects, as in
// realm_access.roles.
func (p *Provider) claimed(claims map[string]any) (claim any, there bool) {
	name := cmp.Or(p.cfg.Groups, "groups")
	if claim, there = claims[name]; there {
		return claim, true
	}
	for {
		part, rest, more := strings.Cut(name, ".")
		if claim, there = claims[part]; !there || !more {
			return claim, there
		}
		if claims, there = claim.(map[string]any); !there {
			return nil, false
		}
		name = rest
	}
}

// ofDomain refuses people of other domains than those in the settings.
func (p *Provider) ofDomain(claims map[string]any) error {
	if len(p.cfg.Domains) == 0 {
		return nil
	}
	hosted, _ := claims["hd"].(string)
	email, _ := claims["email"].(string)
	_, mail, _ := strings.Cut(email, "@")
	verified, present := emailVerified(claims)
	for _, d := range p.cfg.Domains {
		if strings.EqualFold(d, hosted) || strings.EqualFold(d, mail) && present && verified {
			return nil
		}
	}
	return failed("compare the domain", "sign in with the account of your school or company", fmt.Errorf("%.100q is of none of %s", cmp.Or(hosted, email), strings.Join(p.cfg.Domains, ", ")))
}

// groups reads a claim: a list of names, names separated by commas, or an object whose keys are
// the names.
func groups(claim any) (all []string) {
	add := func(s string) {
		if s = strings.TrimPrefix(strings.TrimSpace(s), "/"); name(s) && len(all) < maxGroups {
			all = append(all, s)
		}
	}
	switch v := claim.(type) {
	case string:
		for s := range strings.SplitSeq(v, ",") {
			add(s)
		}
	case map[string]any:
		for k, x := range v {
			if _, object := x.(map[string]any); object { // the roles of Zitadel
				add(k)
			}
		}
	case []any:
		for _, x := range v {
			if s, ok := x.(string); ok {
				add(s)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func name(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// A clientTransport adds our name and secret to each request (RFC 6749, 2.3.1).
type clientTransport struct {
	http.RoundTripper
	name, secret string
}

func (a clientTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth(a.name, a.secret)
	return a.RoundTripper.RoundTrip(r)
}

// BeginDevice requests a code.
func (p *Provider) BeginDevice(ctx context.Context) (*Device, error) {
	k, err := p.fetchMetadata(ctx)
	if err != nil {
		return nil, err
	}
	if !k.device {
		return nil, failed("ask for a code for a device", "", errors.New("the provider signs in no devices (RFC 8628)"))
	}
	c, signed := p.oauth(k, ""), *p.client
	var options []oauth2.AuthCodeOption
	switch {
	case p.cfg.Secret == "":
	case c.Endpoint.AuthStyle == oauth2.AuthStyleInParams:
		options = append(options, oauth2.SetAuthURLParam("client_secret", p.cfg.Secret))
	default:
		signed.Transport = clientTransport{p.client.Transport, url.QueryEscape(p.cfg.ClientID), url.QueryEscape(p.cfg.Secret)}
	}
	a, err := c.DeviceAuth(oidc.ClientContext(ctx, &signed), options...)
	if err != nil {
		return nil, failed("ask for a code for a device", "allow this client the device flow", trimmed(err))
	}
	until := a.Expiry
	if most := time.Now().Add(15 * time.Minute); until.IsZero() || until.After(most) {
		until = most
	}
	return &Device{Code: a.UserCode, At: a.VerificationURI, Whole: a.VerificationURIComplete, Until: until, pending: a, k: k}, nil
}

// FinishDevice polls the provider until the code has been typed, and returns the
// person who typed it.
func (p *Provider) FinishDevice(ctx context.Context, d *Device) (*User, error) {
	ctx, stop := context.WithDeadline(ctx, d.Until)
	defer stop()
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.oauth(d.k, "").DeviceAccessToken(ctx, d.pending)
	if err != nil {
		return nil, failed("wait for the code to be typed", "begin again", trimmed(err))
	}
	return p.verify(ctx, d.k, token, "")
}

// A Device is the sign-in of a device that cannot show the provider's page.
type Device struct {
	Code    string    // to be typed on another device
	At      string    // the address where it is typed
	Whole   string    // the address including the code, or ""
	Until   time.Time // the code expires
	pending *oauth2.DeviceAuthResponse
	k       *metadata
}
