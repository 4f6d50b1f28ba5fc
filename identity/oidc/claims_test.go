package oidc

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func claimsOf(t *testing.T, text string) map[string]any {
	t.Helper()
	claims := map[string]any{}
	if err := json.Unmarshal([]byte(text), &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestGroupsAreWhereProvidersPutThem(t *testing.T) {
	for name, tt := range map[string]struct{ claim, claims, want string }{
		"list":               {"groups", `{"groups": ["b", "a"]}`, "a b"},
		"none":               {"groups", `{}`, "-"},
		"empty":              {"groups", `{"groups": []}`, ""},
		"Keycloak":           {"realm_access.roles", `{"realm_access": {"roles": ["pupil"]}}`, "pupil"},
		"Keycloak's clients": {"resource_access.gate.roles", `{"resource_access": {"gate": {"roles": ["pupil"]}}}`, "pupil"},
		"a name with dots":   {"a.b", `{"a.b": ["pupil"], "a": {"b": ["other"]}}`, "pupil"},
		"not an object":      {"realm_access.roles", `{"realm_access": "x"}`, "-"},
		"half of the way":    {"realm_access.roles", `{"realm_access": {}}`, "-"},
		"Zitadel":            {"urn:zitadel:iam:org:project:roles", `{"urn:zitadel:iam:org:project:roles": {"pupil": {"1": "x.example"}, "choir": {"1": "x.example"}}}`, "choir pupil"},
		"numbers":            {"groups", `{"groups": {"a": 1}}`, ""},
	} {
		p := &Provider{cfg: Config{Groups: tt.claim}}
		claim, there := p.claimed(claimsOf(t, tt.claims))
		got := strings.Join(groups(claim), " ")
		if !there {
			got = "-"
		}
		if got != tt.want {
			t.Errorf("%s: the groups are %q, want %q", name, got, tt.want)
		}
	}
}

func TestAddressesAreVerifiedStrictly(t *testing.T) {
	for text, want := range map[string][2]bool{
		`{}`: {false, false}, `{"email_verified": true}`: {true, true}, `{"email_verified": "true"}`: {true, true},
		`{"email_verified": false}`: {false, true}, `{"email_verified": "false"}`: {false, true}, `{"email_verified": "no"}`: {false, true},
		`{"email_verified": 1}`: {false, true}, `{"email_verified": null}`: {false, true}, `{"email_verified": "True"}`: {false, true},
	} {
		if verified, present := emailVerified(claimsOf(t, text)); verified != want[0] || present != want[1] {
			t.Errorf("%s: verified %v, present %v; want %v", text, verified, present, want)
		}
	}
}

// TestMoreGroupsThanATokenHolds: such a user is not one without groups. Where the settings say who
// knows them, that is asked with the user's token, at the sign-in and when the groups of later are
// wanted.
func TestMoreGroupsThanATokenHolds(t *testing.T) {
	said := map[string]any{"groups": "src1"}
	sources := map[string]any{"src1": map[string]any{"endpoint": "https://graph.example/me"}}
	for name, tt := range map[string]struct {
		claims  map[string]any
		config  func(*Config)
		status  int
		answer  string
		want    string // the groups, or what the error says
		refused bool
	}{
		"nobody knows":     {claims: map[string]any{"_claim_names": said}, want: "more groups than", refused: true},
		"only that":        {claims: map[string]any{"hasgroups": true}, want: "more groups than", refused: true},
		"as text":          {claims: map[string]any{"hasgroups": "true"}, want: "more groups than", refused: true},
		"of another claim": {claims: map[string]any{"hasgroups": true}, config: func(c *Config) { c.Groups = "roles" }, want: ""},
		"that claim":       {claims: map[string]any{"_claim_names": map[string]any{"roles": "src1"}}, config: func(c *Config) { c.Groups = "roles" }, want: "more groups than", refused: true},
		"asked":            {claims: map[string]any{"_claim_names": said}, status: 200, answer: `{"value": ["g-2", "g-1"]}`, want: "g-1 g-2"},
		"asked, none":      {claims: map[string]any{"_claim_names": said}, status: 200, answer: `{"value": []}`, want: ""},
		"no permission":    {claims: map[string]any{"_claim_names": said}, status: 403, answer: `{"error": {"code": "Authorization_RequestDenied"}}`, want: "Authorization_RequestDenied", refused: true},
		"half an answer":   {claims: map[string]any{"_claim_names": said}, status: 200, answer: `{"value": ["g-2", "g-`, want: "EOF", refused: true},
		"no list":          {claims: map[string]any{"_claim_names": said}, status: 200, answer: `{}`, want: "no list", refused: true},
		"a page of many":   {claims: map[string]any{"_claim_names": said}, status: 200, answer: `{"value": ["g-1"], "@odata.nextLink": "https://x.example"}`, want: "more than", refused: true},
		"groups are there": {claims: map[string]any{"groups": []string{"own"}}, status: 500, want: "own"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIssuer(t)
			p.claims = tt.claims
			p.claims["preferred_username"] = "anna"
			if p.claims["_claim_names"] != nil {
				p.claims["_claim_sources"] = sources
			}
			graph := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer x" {
					t.Errorf("%s with %q", r.Method, r.Header.Get("Authorization"))
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.answer)
			}))
			defer graph.Close()
			o := newProvider(t, p, func(c *Config) {
				if tt.config != nil {
					tt.config(c)
				}
				if tt.status > 0 {
					c.GroupsFrom = graph.URL
				}
			})
			who, err := signIn(t, o, p, nil)
			if (err != nil) != tt.refused || tt.refused && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("signed in as %+v, %v; want %q", who, err, tt.want)
			}
			if err != nil {
				return
			}
			if got := strings.Join(who.Groups, " "); got != tt.want {
				t.Errorf("the groups are %q, want %q", got, tt.want)
			}
			if tt.status != 200 {
				return
			}
			p.info, tt.answer = map[string]any{"sub": "s-1"}, `{"value": ["g-9"]}`
			if now, err := who.Renew(t.Context()); err != nil || strings.Join(now.Groups, " ") != "g-9" {
				t.Errorf("later the groups are %+v, %v", now, err)
			}
		})
	}
	for _, at := range []string{"graph.example", "http://graph.example/me", "https://a:b@graph.example/", "ftp://graph.example/"} {
		if _, err := New(Config{Issuer: "https://login.example", ClientID: "gate", GroupsFrom: at}, []byte("a key of sixteen bytes")); err == nil || !strings.Contains(err.Error(), "groups-from") {
			t.Errorf("%s gets tokens: %v", at, err)
		}
	}
}

func TestOnlyPeopleOfTheDomainsSignIn(t *testing.T) {
	for text, want := range map[string]bool{
		`{"hd": "school.example"}`:                                   true,
		`{"hd": "SCHOOL.example"}`:                                   true,
		`{"hd": "other.example", "email": "a@other.example"}`:        false,
		`{"email": "a@school.example", "email_verified": true}`:      true,
		`{"email": "a@school.example", "email_verified": "false"}`:   false,
		`{"email": "a@school.example"}`:                              false,
		`{"email": "a@school.example.evil", "email_verified": true}`: false,
		`{"email": "school.example", "email_verified": true}`:        false,
		`{}`: false,
	} {
		p := &Provider{cfg: Config{Domains: []string{"school.example"}}}
		if err := p.ofDomain(claimsOf(t, text)); (err == nil) != want {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
		if err := (&Provider{}).ofDomain(claimsOf(t, text)); err != nil {
			t.Errorf("%s, without domains: %v", text, err)
		}
	}
	for issuer, want := range map[string]bool{
		"https://accounts.google.com": true, "https://login.microsoftonline.com/common/v2.0": true, "https://login.microsoftonline.com/organizations/v2.0": true,
		"https://login.microsoftonline.com/4f6c/v2.0": false, "https://login.school.example": false,
	} {
		if got := Public(issuer); got != want {
			t.Errorf("%s is public: %v, want %v", issuer, got, want)
		}
	}
}
