package directory

import "shuultuur/lib/setting"

// LDAP sets where a directory is and how users and groups are found in it.
type LDAP struct {
	Servers  setting.OneOrMore[string] `yaml:"servers"`   // ldap://host or ldaps://host, tried in order
	StartTLS bool                      `yaml:"start-tls"` // use StartTLS on ldap://
	CA       setting.File              `yaml:"ca"`        // PEM file with roots; default the system's
	Base     string                    `yaml:"base"`      // where to search
	// Bind is the name of the service account; none: anonymous. With %s in it,
	// users bind as themselves.
	Bind     string `yaml:"bind"`
	Password string `yaml:"password" secret:"yes"` // of the service account
	// User finds a user: %s is the name that the client sent. The default finds
	// uid, sAMAccountName and userPrincipalName.
	User string `yaml:"user"`
	// ActiveDirectory asks for nested groups in one query, with a matching rule
	// that only Active Directory has.
	ActiveDirectory bool             `yaml:"active-directory"`
	Timeout         setting.Duration `yaml:"timeout"` // for each server; default 5s
}

// RADIUS sets which servers verify passwords (RFC 2865, PAP).
type RADIUS struct {
	Servers setting.OneOrMore[string] `yaml:"servers"`             // host or host:port, tried in order; default port 1812
	Secret  string                    `yaml:"secret" secret:"yes"` // shared with the servers
	Timeout setting.Duration          `yaml:"timeout"`             // for each server; default 5s
}
