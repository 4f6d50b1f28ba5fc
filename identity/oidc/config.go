// Package oidc signs people in at an OpenID provider: in a browser, with a code and PKCE
// (OpenID Connect Core 1.0, RFC 7636), or with a code that is typed on another device
// (RFC 8628).
//
// Data moves as follows. [Provider.Begin] returns the address to send the browser to,
// and a [Login], which the caller stores so that only that browser can return it
// ([Provider.Seal]). The provider sends the browser back with a code. [Provider.Finish]
// exchanges the code, verifies the token and returns [User]. Every error is an [Error],
// which names the failed step and the remedy.
//
// The provider's metadata and keys are fetched when first needed and cached. They are
// fetched again when a token is signed with an unknown key.
package oidc

import (
	"time"

	"shuultuur/lib/setting"
)

// Config sets the provider and our account there.
type Config struct {
	Issuer   string `yaml:"issuer"`              // URL of the provider, as in its tokens
	ClientID string `yaml:"client-id"`           // our name at the provider
	Secret   string `yaml:"secret" secret:"yes"` // our secret at the provider; "" for a public client
	// CA is a PEM file with the roots of the provider's certificate; default the
	// system's.
	CA setting.File `yaml:"ca"`
	// Scopes are requested besides openid; default profile and email.
	Scopes setting.OneOrMore[string] `yaml:"scopes"`
	// User are claims that may name the user; the first one present is used.
	// Default preferred_username, email, sub.
	User   setting.OneOrMore[string] `yaml:"user"`
	Groups string                    `yaml:"groups"` // claim with the groups; default groups
	// GroupsFrom is asked with the person's token when a token has no room for the groups; default
	// none: then the sign-in is refused.
	GroupsFrom string `yaml:"groups-from"`
	// Domains are those whose people may sign in, by the claim hd or a verified email address;
	// default all. A provider at which anybody has an account needs them.
	Domains setting.OneOrMore[string] `yaml:"domains"`
	Timeout setting.Duration          `yaml:"timeout"` // longest wait for the provider; default 10s
}

// Limits of a sign-in.
const (
	LoginTime = 10 * time.Minute // from Begin to the code
	maxAnswer = 1 << 20          // bytes of an answer
	refresh   = time.Hour        // when metadata are fetched again
	maxGroups = 4096
	maxName   = 256
)

// An Error names the failed step of a sign-in.
type Error struct {
	Step   string // such as "ask the provider for its description"
	Advice string // the administrator's remedy
	Err    error
}

func (e *Error) Error() string {
	s := "OpenID: " + e.Step + ": " + e.Err.Error()
	if e.Advice != "" {
		s += "; " + e.Advice
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// A User is a person whom the provider has authenticated.
type User struct {
	User    string
	Issuer  string // the provider
	Subject string // its permanent identifier of the user: the name may become another person's
	Groups  []string
	Email   string // "" if the provider has not verified it

	member // tokens with which changes can be requested
}

// A Login is a sign-in in progress, for one browser.
type Login struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"` // of PKCE
	Callback string    `json:"c"`
	Data     string    `json:"d"` // belongs to the caller: where to go afterwards
	Until    time.Time `json:"u"`
}
