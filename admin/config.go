package admin

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/setting"
)

// A Config says who may use the admin address, and what they see.
type Config struct {
	// Names are those by which browsers ask for the admin address, besides
	// addresses and localhost. Passkeys need one.
	Names setting.OneOrMore[string] `yaml:"names"`
	// Idle and Total bound sessions; default 30m and 12h.
	Idle  setting.Duration `yaml:"idle"`
	Total setting.Duration `yaml:"total"`
	// URLs is the least role that sees whole URLs; default helper.
	URLs account.Role `yaml:"urls"`
	// TwoPeople has a second person agree before somebody looks into one
	// person's browsing.
	TwoPeople bool `yaml:"two-people"`
}

// Rules are what the settings say of the admin address, in use.
type Rules struct {
	Names   []string
	Session account.Rules
	Privacy Privacy
}

const maxSession = 90 * 24 * time.Hour

var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*$`)

// Rules checks the settings.
func (c *Config) Rules() (*Rules, error) {
	r := &Rules{Session: account.Rules{Idle: c.Idle.Or(account.DefaultRules.Idle), Total: c.Total.Or(account.DefaultRules.Total)}, Privacy: Privacy{URLs: c.URLs, TwoPeople: c.TwoPeople}}
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
	return r, errors.Join(errs...)
}
