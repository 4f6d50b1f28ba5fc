// Package kerberos verifies the tokens that browsers send with "Negotiate"
// (RFC 4559): a Kerberos ticket for our service, wrapped in SPNEGO (RFC 4178).
//
// Data moves as follows: [New] reads a keytab. [Acceptor.Accept] unwraps a token
// (token.go), decrypts its ticket with a key of the keytab, compares times,
// names and addresses, refuses what it has seen before (replay.go), and takes
// the groups from the ticket's PAC (pac.go) where an Active Directory wrote
// one. No server is asked.
package kerberos

import (
	"errors"
	"time"

	"shuultuur/setting"
)

// Config sets with which keys tickets are decrypted.
type Config struct {
	// Keytab holds the keys of the service, as ktpass, "net ads keytab" or kadmin
	// write it.
	Keytab setting.File `yaml:"keytab"`
	// Service is the one name that tickets may be for, such as
	// HTTP/proxy.example; default any that the keytab has.
	Service string           `yaml:"service"`
	Skew    setting.Duration `yaml:"skew"` // difference of clocks that is borne; default 5m
}

// A Login is what a token proves.
type Login struct {
	User  string   // without the realm where it is that of the service
	Realm string   // of the user
	SIDs  []string // groups, as the PAC has them: S-1-5-21-…
	Until time.Time
	// Answer is the token that proves us to the client; nil where it does not want
	// one.
	Answer []byte
}

// ErrNTLM reports that a client sent NTLM, which is a password that everybody on
// the way can work out, and which we do not speak.
var ErrNTLM = errors.New("the client sent NTLM and not Kerberos: enter the proxy by its full name and not by its address, register that name for the account of the keytab (setspn -S HTTP/proxy.example ACCOUNT), and sign in to the domain on the client")
