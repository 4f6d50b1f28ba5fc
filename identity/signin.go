package identity

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"shuultuur/identity/oidc"
	"shuultuur/identity/session"
	"shuultuur/lib/setting"
)

// SignIn makes people sign in on a page of the portal. Clients without a
// configured proxy cannot be asked for a password in another way.
type SignIn struct {
	// Networks are those whose clients must sign in; default all.
	Networks []string `yaml:"networks" names:"people"`
	// Session is how long a sign-in is valid, at most 7 days; default 12h.
	Session setting.Duration `yaml:"session"`
	// OIDC is the provider that signs people in. The same page accepts names and
	// passwords of identity.basic.
	OIDC *oidc.Config `yaml:"oidc"`
	// Open are hosts, with their subdomains, that are reachable without a sign-in
	// because the provider's page needs them. The provider's own host always is.
	Open setting.OneOrMore[string] `yaml:"open"`
}

// signIn is SignIn in the form in which it is used.
type signIn struct {
	provider *oidc.Provider // nil if there is none
	session  time.Duration
	open     map[string]bool
	page     string // the page to sign in on
}

func (id *Identity) signIns(cfg *SignIn, b *builder, parts Parts) (err error) {
	if cfg == nil {
		return nil
	}
	s := &signIn{page: parts.Portal + "/sign-in", session: cfg.Session.Or(session.DefaultTime), open: map[string]bool{}}
	if s.session < time.Minute || s.session > session.MaxTime {
		return setting.At("session", fmt.Errorf("%v: write 1m to %v", s.session, session.MaxTime))
	}
	if cfg.OIDC == nil && id.basic == nil {
		return errors.New("nobody can sign in: name a provider under oidc, or accounts under identity: basic")
	}
	if cfg.OIDC != nil {
		if s.provider, err = oidc.New(*cfg.OIDC, parts.Key); err != nil {
			return setting.At("oidc", err)
		}
		s.open[s.provider.Host()] = true
	}
	for i, h := range cfg.Open {
		h = strings.Trim(strings.ToLower(h), ".")
		if h == "" || strings.ContainsAny(h, "/*: ") {
			return setting.At(fmt.Sprintf("open[%d]", i), fmt.Errorf("%q is not a host, such as login.example", cfg.Open[i]))
		}
		s.open[h] = true
	}
	id.signIn = s
	id.nowhere.signIn = len(cfg.Networks) == 0
	for i, n := range cfg.Networks {
		p, err := parseNetwork(n)
		if err != nil {
			return setting.At(fmt.Sprintf("networks[%d]", i), err)
		}
		b.signIn[p] = true
	}
	return nil
}

// SignsIn reports whether people sign in on a page.
func (id *Identity) SignsIn() bool { return id.signIn != nil }

// Provider returns the OpenID provider, or nil.
func (id *Identity) Provider() *oidc.Provider {
	if id.signIn == nil {
		return nil
	}
	return id.signIn.provider
}

// HasPasswords reports whether names and passwords are accepted.
func (id *Identity) HasPasswords() bool { return id.basic != nil }

// SessionTime returns how long a sign-in on the page is valid.
func (id *Identity) SessionTime() time.Duration {
	if id.signIn == nil {
		return session.DefaultTime
	}
	return id.signIn.session
}

// OpenHost reports whether a host is reachable without a sign-in.
func (id *Identity) OpenHost(host string) bool {
	if id.signIn == nil {
		return false
	}
	for {
		if id.signIn.open[host] {
			return true
		}
		_, rest, ok := strings.Cut(host, ".")
		if !ok {
			return false
		}
		host = rest
	}
}
