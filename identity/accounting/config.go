package accounting

import (
	"shuultuur/identity/session"
	"shuultuur/lib/setting"
)

// Config sets whose packets count.
type Config struct {
	// Clients are the addresses or networks of access points and similar devices,
	// with the secret that each shares with us. The narrowest matching network
	// applies.
	Clients map[string]string `yaml:"clients" names:"people"`
	// Groups are the attributes whose values are groups of the user: filter-id, class, or
	// class-ou for what has the form "OU=name" in Class. Default filter-id: servers write
	// anything into Class.
	Groups setting.OneOrMore[string] `yaml:"groups"`
	// Expire ends a session after this time without a packet; default 24h.
	Expire setting.Duration `yaml:"expire"`
	// Unsigned accepts packets without a Message-Authenticator; their Request
	// Authenticator is verified in any case. Default true, because few clients send
	// one with accounting.
	Unsigned *bool `yaml:"unsigned"`
}

// Sessions receives the changes.
type Sessions interface {
	// Change makes changes with one write to disk and returns the error of each.
	Change(all ...*session.Change) []error
}
