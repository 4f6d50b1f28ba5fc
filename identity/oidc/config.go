// Package oidc has an OpenID provider say who somebody is: in a browser, with a
// code and PKCE (OpenID Connect Core 1.0, RFC 7636), or with a code that is typed
// on another device (RFC 8628).
//
// Data moves as follows. [Provider.Begin] makes the address that the browser is sent to,
// and a [Login] that the caller keeps where nobody but that browser can bring it
// back ([Provider.Seal]). The provider sends the browser back with a code;
// [Provider.Finish] exchanges it, verifies the token and returns [Who]. Every
// error is an [Error] and names the step that failed and what to do.
//
// What the provider says of itself, and its keys, are fetched when they are
// first needed, kept, and fetched again when a token is signed with a key that is
// not known.
package oidc

import (
	"time"

	"shuultuur/setting"
)

// Config sets which provider is asked, and as whom.
type Config struct {
	Issuer   string `yaml:"issuer"`    // URL of the provider, as its tokens have it
	ClientID string `yaml:"client-id"` // as which it knows us
	Secret   string `yaml:"secret"`    // that it has given us; "" for a public client
	// CA is a PEM file with the roots of the provider's certificate, default the
	// system's.
	CA setting.File `yaml:"ca"`
	// Scopes are asked for besides openid; default profile and email.
	Scopes setting.OneOrMore[string] `yaml:"scopes"`
	// User are the claims that may name the user; the first that is there counts.
	// Default preferred_username, email, sub.
	User    setting.OneOrMore[string] `yaml:"user"`
	Groups  string                    `yaml:"groups"`  // claim with the groups; default groups
	Timeout setting.Duration          `yaml:"timeout"` // longest wait for the provider; default 10s
}

// Limits of a sign-in.
const (
	LoginTime = 10 * time.Minute // from the address to the code
	maxAnswer = 1 << 20          // bytes of an answer of the provider
	refresh   = time.Hour        // what the provider says of itself is fetched again
	maxGroups = 4096
	maxName   = 256
)

// An Error says which step of a sign-in failed.
type Error struct {
	Step   string // what was being done: "ask the provider for its description"
	Advice string // what the administrator may do
	Err    error
}

func (e *Error) Error() string {
	s := "OpenID: " + e.Step + ": " + e.Err.Error()
	if e.Advice != "" {
		s += "; " + e.Advice
	}
	return s
}

// Unwrap returns what went wrong.
func (e *Error) Unwrap() error { return e.Err }

// Who is whom the provider has signed in.
type Who struct {
	User    string
	Subject string // by which the provider knows the user, for ever
	Groups  []string
	Email   string // "" unless the provider has verified it

	member // by which the provider tells of changes
}

// A Login is a sign-in under way, for one browser.
type Login struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"` // of PKCE
	Callback string    `json:"c"`
	Data     string    `json:"d"` // the caller's: where to go afterwards
	Until    time.Time `json:"u"`
}
