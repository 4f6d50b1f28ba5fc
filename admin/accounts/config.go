package accounts

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/identity/oidc"
	"shuultuur/lib/setting"
)

// A Config sets who may use the admin address, and what they see.
type Config struct {
	// Names are the names by which browsers reach the admin address, besides
	// addresses and localhost. Passkeys require one.
	Names setting.OneOrMore[string] `yaml:"names"`
	// Idle and Total bound sessions; default 30m and 12h.
	Idle  setting.Duration `yaml:"idle"`
	Total setting.Duration `yaml:"total"`
	// URLs is the least role that sees whole URLs; default helper.
	URLs account.Role `yaml:"urls"`
	// TwoPeople requires a second person's agreement before anyone looks at one
	// person's browsing.
	TwoPeople bool `yaml:"two-people"`
	// SignIn lets people sign in at an OpenID provider.
	SignIn *SignIn `yaml:"sign-in"`
}

// SignIn sets which OpenID provider signs people in on the admin address, and
// which roles they get.
type SignIn struct {
	oidc.Config `yaml:",inline"`
	// Roles maps roles to groups of the provider (in its claim) whose members have them. The
	// highest role counts; people in none of the groups are refused.
	Roles map[account.Role][]string `yaml:"roles"`
}

// role returns the role of a user in groups.
func (s *SignIn) role(groups []string) (r account.Role) {
	for role, of := range s.Roles {
		if role > r && slices.ContainsFunc(of, func(g string) bool { return slices.Contains(groups, g) }) {
			r = role
		}
	}
	return r
}

// Rules are the checked settings of the admin address.
type Rules struct {
	Names   []string
	Session account.Rules
	Privacy web.Privacy
	SignIn  *SignIn        // nil: no provider signs people in
	OpenID  *oidc.Provider // of SignIn
}

const maxSession = 90 * 24 * time.Hour

var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*$`)

// Rules checks the settings. key seals sign-ins in progress, see [oidc.New].
func (c *Config) Rules(key []byte) (*Rules, error) {
	r := &Rules{Session: account.Rules{Idle: c.Idle.Or(account.DefaultRules.Idle), Total: c.Total.Or(account.DefaultRules.Total)}, Privacy: web.Privacy{URLs: c.URLs, TwoPeople: c.TwoPeople}}
	if c.URLs == account.None {
		r.Privacy.URLs = account.Helper
	}
	var errs []error
	for i, n := range c.Names {
		name := strings.ToLower(strings.TrimSuffix(n, "."))
		if !hostName.MatchString(name) || len(name) > 253 {
			errs = append(errs, setting.At(fmt.Sprintf("names[%d]", i), fmt.Errorf("%q is not the name of a host: write filter.example", n)))
		}
		r.Names = append(r.Names, name)
	}
	for key, d := range map[string]time.Duration{"idle": r.Session.Idle, "total": r.Session.Total} {
		if d < time.Minute || d > maxSession {
			errs = append(errs, setting.At(key, fmt.Errorf("%v: a session lasts from 1m to 90d", d)))
		}
	}
	if r.SignIn = c.SignIn; c.SignIn != nil {
		var err error
		if r.OpenID, err = oidc.New(c.SignIn.Config, key); err == nil && len(c.SignIn.Roles) == 0 {
			err = setting.At("roles", errors.New("nobody could sign in: name groups of the provider for a role, such as owner: [network-admins]"))
		}
		if err != nil {
			errs = append(errs, setting.At("sign-in", err))
		}
	}
	return r, errors.Join(errs...)
}
