package identity

import (
	"crypto/rand"
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
	// because the provider's page needs them. The provider's own host always is. They are
	// reachable where a password or a ticket is asked for, too.
	Open setting.OneOrMore[string] `yaml:"open"`
}

// signIn is SignIn in the form in which it is used.
type signIn struct {
	provider *oidc.Provider // nil if there is none
	session  time.Duration
	page     string // the page to sign in on
}

func (id *Identity) signIns(cfg *SignIn, b *builder, parts Parts) (err error) {
	if cfg == nil {
		return nil
	}
	s := &signIn{page: parts.Portal + "/sign-in", session: cfg.Session.Or(session.DefaultTime)}
	if s.session < time.Minute || s.session > session.MaxTime {
		return setting.At("session", fmt.Errorf("%v: write 1m to %v", s.session, session.MaxTime))
	}
	if cfg.OIDC == nil && id.basic == nil {
		return errors.New("nobody can sign in: name a provider under oidc, or accounts under identity: basic")
	}
	if cfg.OIDC != nil {
		if oidc.Public(cfg.OIDC.Issuer) && len(cfg.OIDC.Domains) == 0 {
			return setting.At("oidc.domains", fmt.Errorf("anybody has an account at %s: name the domains whose people may sign in", cfg.OIDC.Issuer))
		}
		if s.provider, err = oidc.New(*cfg.OIDC, parts.Key); err != nil {
			return setting.At("oidc", err)
		}
		id.open[s.provider.Host()] = true
	}
	if err := id.open.add(cfg.Open); err != nil {
		return err
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

// SignInID returns the identifier of a new sign-in of a user: a random part, and the stamp of the
// password with which it began.
func (id *Identity) SignInID(user, source string) string {
	stamp := ""
	if a := id.accountOf(user, source); a != nil {
		stamp = a.stamp
	} else if source == "ldap" && id.members != nil {
		stamp = id.members.stampOf(user)
	}
	return rand.Text() + "." + stamp
}

// Stands reports whether a sign-in with this identifier still counts: the account is there, a directory has
// not disabled it, and its password is the same. A directory is asked every ten minutes.
func (id *Identity) Stands(user, source, signIn string) bool {
	_, stamp, stamped := strings.Cut(signIn, ".")
	switch {
	case source == "ldap":
		return id.members == nil || id.members.stands(user, stamp)
	case source != "basic":
		return true
	}
	a := id.accountOf(user, source)
	return a != nil && (!stamped || stamp == a.stamp)
}

// accountOf returns the account in the password file with which a user has signed in, or nil.
func (id *Identity) accountOf(user, source string) *account {
	if source != "basic" || id.basic == nil {
		return nil
	}
	return id.basic.accounts[user]
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

// HasTickets reports whether tickets are accepted.
func (id *Identity) HasTickets() bool { return id.kerberos != nil }

// SessionTime returns how long a sign-in on the page is valid.
func (id *Identity) SessionTime() time.Duration {
	if id.signIn == nil {
		return session.DefaultTime
	}
	return id.signIn.session
}

// openHosts are hosts that clients reach without signing in, with their subdomains.
type openHosts map[string]bool

// add adds the hosts of a setting.
func (o openHosts) add(hosts []string) error {
	for i, h := range hosts {
		h, alone := strings.CutPrefix(h, "=")
		h = strings.Trim(strings.ToLower(h), ".")
		if h == "" || strings.ContainsAny(h, "/*:= ") {
			return setting.At(fmt.Sprintf("open[%d]", i), fmt.Errorf("%q is not a host, such as login.example", hosts[i]))
		}
		if alone {
			h = "=" + h // without what is below it
		}
		o[h] = true
	}
	return nil
}

// has reports whether a host is reachable without a sign-in.
func (o openHosts) has(host string) bool {
	if len(o) > 0 && o["="+host] {
		return true
	}
	for len(o) > 0 {
		if o[host] {
			return true
		}
		_, rest, ok := strings.Cut(host, ".")
		if !ok {
			return false
		}
		host = rest
	}
	return false
}
