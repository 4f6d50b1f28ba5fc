package oidc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// An issuer is a provider with configurable answers.
type issuer struct {
	*httptest.Server
	key    *ecdsa.PrivateKey
	kid    string
	claims map[string]any // of the next ID token, besides the usual ones
	info   map[string]any // of the user, asked for later; nil: refused
	asked  url.Values     // the last request for a token
	keys   atomic.Int64   // how often keys were fetched
	fail   string         // error of the token endpoint

	refresh string // token that renews, "" for none
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	p := &issuer{}
	p.rotate(t, "one")
	mux := http.NewServeMux()
	give := func(path string, what func(r *http.Request) (int, any)) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			status, v := what(r)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(v)
		})
	}
	give("/.well-known/openid-configuration", func(*http.Request) (int, any) {
		return 200, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/me", "id_token_signing_alg_values_supported": []string{"ES256"}}
	})
	give("/keys", func(*http.Request) (int, any) {
		p.keys.Add(1)
		return 200, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: p.kid, Algorithm: "ES256", Use: "sig"}}}
	})
	give("/me", func(*http.Request) (int, any) {
		if p.info == nil {
			return 403, map[string]any{"error": "insufficient_scope"}
		}
		return 200, p.info
	})
	give("/token", func(r *http.Request) (int, any) {
		_ = r.ParseForm()
		p.asked = r.PostForm
		if p.fail != "" {
			return 400, map[string]any{"error": p.fail, "error_description": "not so"}
		}
		answer := map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": p.token(t)}
		if p.refresh != "" {
			answer["refresh_token"] = p.refresh
		}
		return 200, answer
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// rotate makes a new key.
func (p *issuer) rotate(t *testing.T, kid string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p.key, p.kid = key, kid
}

func (p *issuer) token(t *testing.T) string {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: p.kid}}, nil)
	if err != nil {
		t.Error(err)
		return ""
	}
	claims := map[string]any{"iss": p.URL, "aud": "gate", "sub": "s-1", "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix()}
	maps.Copy(claims, p.claims)
	b, _ := json.Marshal(claims)
	signed, err := s.Sign(b)
	if err != nil {
		t.Error(err)
		return ""
	}
	text, _ := signed.CompactSerialize()
	return text
}

func newProvider(t *testing.T, p *issuer, change func(*Config)) *Provider {
	t.Helper()
	cfg := Config{Issuer: p.URL, ClientID: "gate", Secret: "secret"}
	if change != nil {
		change(&cfg)
	}
	o, err := New(cfg, []byte("a key of sixteen bytes"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

const callback = "https://gate.example/back"

// signIn signs in and returns the result. change may alter the query first.
func signIn(t *testing.T, o *Provider, p *issuer, change func(url.Values)) (*User, error) {
	t.Helper()
	to, l, err := o.Begin(t.Context(), callback, "/after", false)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if q.Get("redirect_uri") != callback || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("client_id") != "gate" || !strings.Contains(q.Get("scope"), "openid") {
		t.Errorf("the browser was sent to %s", to)
	}
	if p.claims == nil {
		p.claims = map[string]any{}
	}
	if _, ok := p.claims["nonce"]; !ok {
		p.claims["nonce"] = q.Get("nonce")
		defer delete(p.claims, "nonce")
	}
	sealed, err := o.Seal(l)
	if err != nil {
		t.Fatal(err)
	}
	if l, err = o.Open(sealed); err != nil || l.Data != "/after" {
		t.Fatalf("opening the sealed login: %+v, %v", l, err)
	}
	back := url.Values{"code": {"c"}, "state": {q.Get("state")}}
	if change != nil {
		change(back)
	}
	who, err := o.Finish(t.Context(), l, back)
	if err == nil && (p.asked.Get("code") != "c" || p.asked.Get("code_verifier") != l.Verifier || p.asked.Get("redirect_uri") != callback) {
		t.Errorf("the request for a token was %v", p.asked)
	}
	return who, err
}

func TestClaimsIdentifyTheUser(t *testing.T) {
	for name, tt := range map[string]struct {
		claims, info map[string]any
		change       func(*Config)
		want         User
	}{
		"all in the token":           {map[string]any{"preferred_username": "anna", "groups": []string{"staff", "choir"}}, nil, nil, User{User: "anna", Subject: "s-1", Groups: []string{"choir", "staff"}}},
		"asked for later":            {nil, map[string]any{"sub": "s-1", "preferred_username": "anna", "groups": []string{"/staff"}}, nil, User{User: "anna", Subject: "s-1", Groups: []string{"staff"}}},
		"of somebody else":           {nil, map[string]any{"sub": "s-2", "preferred_username": "eve", "groups": []string{"owners"}}, nil, User{User: "s-1", Subject: "s-1"}},
		"mail that is verified":      {map[string]any{"email": "a@x.example", "email_verified": true, "groups": "a, b"}, nil, nil, User{User: "a@x.example", Subject: "s-1", Groups: []string{"a", "b"}, Email: "a@x.example"}},
		"mail that anybody can name": {map[string]any{"email": "a@x.example", "email_verified": false, "groups": "a"}, nil, nil, User{User: "s-1", Subject: "s-1", Groups: []string{"a"}}},
		"a claim of the settings":    {map[string]any{"upn": "anna@x", "roles": []any{"r", 7, "r", "a\nb", ""}}, nil, func(c *Config) { c.User, c.Groups = []string{"upn"}, "roles" }, User{User: "anna@x", Subject: "s-1", Groups: []string{"r"}}},
		"a name with line breaks":    {map[string]any{"preferred_username": "a\r\nb", "groups": ""}, nil, nil, User{User: "s-1", Subject: "s-1"}},
		"more groups than are read":  {map[string]any{"preferred_username": "anna", "groups": numbers(maxGroups + 1)}, nil, nil, User{User: "anna", Subject: "s-1", Groups: numbers(maxGroups)}},
		"groups that are not a list": {map[string]any{"preferred_username": "anna", "groups": map[string]any{"a": 1}}, nil, nil, User{User: "anna", Subject: "s-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIssuer(t)
			p.claims, p.info = tt.claims, tt.info
			who, err := signIn(t, newProvider(t, p, tt.change), p, nil)
			if err != nil {
				t.Fatal(err)
			}
			if who.User != tt.want.User || who.Subject != tt.want.Subject || who.Email != tt.want.Email || !slices.Equal(who.Groups, tt.want.Groups) {
				t.Errorf("signing in gave %+v, want %+v", who, tt.want)
			}
		})
	}
}

func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("g%04d", i))
	}
	return all
}

// TestGroupsAreRenewed: with a refresh token or the access token. Groups stay if the provider's
// answer has none.
func TestGroupsAreRenewed(t *testing.T) {
	for name, tt := range map[string]struct {
		refresh string
		change  func(*issuer)
		want    []string // nil: an error
	}{
		"refreshed":            {"r-1", func(p *issuer) { p.claims["groups"] = []string{"staff"} }, []string{"staff"}},
		"refreshed, none left": {"r-1", func(p *issuer) { p.claims["groups"] = []string{} }, []string{}},
		"refused":              {"r-1", func(p *issuer) { p.fail = "invalid_grant" }, nil},
		"somebody else":        {"r-1", func(p *issuer) { p.claims["sub"] = "s-2" }, nil},
		"asked":                {"", func(p *issuer) { p.info = map[string]any{"sub": "s-1", "groups": "staff, choir"} }, []string{"choir", "staff"}},
		"asked, none said":     {"", func(p *issuer) { p.info = map[string]any{"sub": "s-1"} }, nil},
		"asked, another":       {"", func(p *issuer) { p.info = map[string]any{"sub": "s-2", "groups": "staff"} }, nil},
		"asked, over":          {"", func(p *issuer) { p.info = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIssuer(t)
			p.refresh, p.claims = tt.refresh, map[string]any{"preferred_username": "anna", "groups": []string{"pupils"}}
			who, err := signIn(t, newProvider(t, p, nil), p, nil)
			if err != nil || !slices.Equal(who.Groups, []string{"pupils"}) {
				t.Fatalf("signing in: %+v, %v", who, err)
			}
			tt.change(p)
			p.refresh = "" // the answers have no new refresh token
			for range 2 {
				next, err := who.Renew(t.Context())
				if err == nil != (tt.want != nil) || err == nil && (!slices.Equal(next.Groups, tt.want) || next.User != "anna") {
					t.Fatalf("Renew returned %+v, %v, want the groups %q", next, err, tt.want)
				}
				if err != nil {
					break
				}
				if tt.refresh != "" && p.asked.Get("refresh_token") != "r-1" {
					t.Errorf("the request that renews was %v", p.asked)
				}
				who = next
			}
		})
	}
}

func TestErrorsNameTheStepThatFailed(t *testing.T) {
	for want, tt := range map[string]struct {
		claims map[string]any
		query  func(url.Values)
		change func(*Config)
		fail   string
	}{
		"compare the state":                  {query: func(q url.Values) { q.Set("state", "other") }},
		"compare the state: ":                {query: func(q url.Values) { q.Del("state") }},
		"sign in at the provider":            {query: func(q url.Values) { q.Set("error", "access_denied") }},
		"compare the issuer":                 {query: func(q url.Values) { q.Set("iss", "https://evil.example") }},
		"exchange the code for a token":      {fail: "invalid_grant"},
		"compare the nonce":                  {claims: map[string]any{"nonce": "of another"}},
		"verify the token":                   {claims: map[string]any{"aud": "other"}},
		"verify the token: ":                 {claims: map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}},
		"verify the token: oidc":             {claims: map[string]any{"iss": "https://evil.example"}},
		"find the name of the user":          {claims: map[string]any{"groups": "a", "preferred_username": "x"}, change: func(c *Config) { c.User = []string{"upn"} }},
		"ask the provider for what it knows": {change: func(c *Config) { c.User = []string{"upn"} }},
	} {
		p := newIssuer(t)
		p.claims, p.fail = tt.claims, tt.fail
		if strings.HasPrefix(want, "find the name") {
			p.info = map[string]any{"sub": "s-1"}
		}
		who, err := signIn(t, newProvider(t, p, tt.change), p, tt.query)
		if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), want) || who != nil {
			t.Errorf("signing in returned %+v, %v; want an error with %q", who, err, want)
		}
	}
}

func TestKeysAreFetchedAgainWhenTheyAreChanged(t *testing.T) {
	p := newIssuer(t)
	p.claims = map[string]any{"preferred_username": "anna", "groups": "a"}
	o := newProvider(t, p, nil)
	for range 2 {
		if _, err := signIn(t, o, p, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.keys.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times, want once", n)
	}
	p.rotate(t, "two")
	if _, err := signIn(t, o, p, nil); err != nil || p.keys.Load() != 2 {
		t.Errorf("after a rotation of keys: %v, and %d fetches, want 2", err, p.keys.Load())
	}
}

func TestASignInIsForOneBrowserAndSomeMinutes(t *testing.T) {
	p := newIssuer(t)
	o := newProvider(t, p, nil)
	_, l, err := o.Begin(t.Context(), callback, "", false)
	if err != nil {
		t.Fatal(err)
	}
	l.Until = time.Now().Add(-time.Second)
	late, _ := o.Seal(l)
	other, err := New(Config{Issuer: p.URL, ClientID: "gate"}, []byte("another key of a gateway"))
	if err != nil {
		t.Fatal(err)
	}
	l.Until = time.Now().Add(time.Minute)
	foreign, _ := other.Seal(l)
	for sealed, want := range map[string]string{"": "no cookie", "x": "damaged", foreign: "not of this gateway", late: "more than"} {
		if _, err := o.Open(sealed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open returned %v, want an error with %q", err, want)
		}
	}
}

// TestAProviderThatIsAwayIsNamedAndReturns: errors name a provider that is away, before and
// after it first answered, and it is used again once it is back.
func TestAProviderThatIsAwayIsNamedAndReturns(t *testing.T) {
	p := newIssuer(t)
	p.claims = map[string]any{"preferred_username": "anna", "groups": "a"}
	o := newProvider(t, p, nil)
	away, at := p.Close, p.Listener.Addr().String()
	for range 2 {
		away()
		if _, err := signIn(t, o, p, nil); err == nil || !strings.Contains(err.Error(), at) {
			t.Errorf("signing in while the provider is away: %v", err)
		}
		ln, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		again := &http.Server{Handler: p.Config.Handler}
		ended := make(chan error, 1)
		go func() { ended <- again.Serve(ln) }()
		away = sync.OnceFunc(func() { again.Close(); <-ended })
		defer away()
		if _, err := signIn(t, o, p, nil); err != nil {
			t.Errorf("signing in after the provider's return: %v", err)
		}
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	for want, cfg := range map[string]Config{
		"issuer: ":             {ClientID: "x"},
		"has to speak https":   {Issuer: "http://login.example", ClientID: "x"},
		"issuer: \"https://x?": {Issuer: "https://x?y", ClientID: "x"},
		"client-id: ":          {Issuer: "https://login.example"},
		"ca: ":                 {Issuer: "https://login.example", ClientID: "x", CA: "/does/not/exist"},
	} {
		if _, err := New(cfg, []byte("a key of sixteen bytes")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New returned %v, want an error with %q", err, want)
		}
	}
}
