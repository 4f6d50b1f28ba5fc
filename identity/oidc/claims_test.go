package oidc

import (
	"encoding/json"
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

// TestMoreGroupsThanATokenHolds: such a user is not one without groups.
func TestMoreGroupsThanATokenHolds(t *testing.T) {
	for _, claims := range []map[string]any{
		{"preferred_username": "anna", "_claim_names": map[string]any{"groups": "src1"}, "_claim_sources": map[string]any{"src1": map[string]any{"endpoint": "https://graph.example/me"}}},
		{"preferred_username": "anna", "hasgroups": true},
		{"preferred_username": "anna", "hasgroups": "true"},
	} {
		p := newIssuer(t)
		p.claims = claims
		if who, err := signIn(t, newProvider(t, p, nil), p, nil); err == nil || !strings.Contains(err.Error(), "more groups than") {
			t.Errorf("%v signed in as %+v, %v", claims, who, err)
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
