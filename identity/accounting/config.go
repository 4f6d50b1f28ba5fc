package accounting

import (
	"shuultuur/identity/session"
	"shuultuur/setting"
)

// Config sets whose packets count.
type Config struct {
	// Clients are the addresses or networks of access points and the like, with
	// the secret that each shares with us. The narrowest network counts.
	Clients map[string]string `yaml:"clients"`
	// Groups are the attributes whose values are groups of the user: class,
	// filter-id. Default both.
	Groups setting.OneOrMore[string] `yaml:"groups"`
	// Expire ends a session of which nothing was heard for this long; default 24h.
	Expire setting.Duration `yaml:"expire"`
	// Unsigned lets packets through that have no Message-Authenticator; their
	// Request Authenticator is verified in any case. Default true, as few clients
	// send one with accounting.
	Unsigned *bool `yaml:"unsigned"`
}

// Sessions is where changes go.
type Sessions interface {
	// Change makes changes with one write to the disk and returns the error of each.
	Change(all ...*session.Change) []error
}
