// Package kerberos verifies the tokens that browsers send with "Negotiate" (RFC
// 4559): a Kerberos ticket for our service, wrapped in SPNEGO (RFC 4178).
//
// Data moves as follows: [New] reads a keytab. [Acceptor.Accept] unwraps a token
// (token.go), decrypts its ticket with a key of the keytab, compares times,
// names and addresses, refuses replays (replay.go), and reads the groups in the
// ticket's PAC (pac.go) if Active Directory issued it. It asks no server.
package kerberos

import (
	"errors"
	"time"

	"shuultuur/lib/setting"
)

// Config sets the keys that decrypt tickets.
type Config struct {
	// Keytab has the keys of the service, as written by ktpass, "net ads keytab" or
	// kadmin.
	Keytab setting.File `yaml:"keytab"`
	// Service is the only name that tickets may be for, such as HTTP/proxy.example;
	// default any name in the keytab.
	Service string           `yaml:"service"`
	Skew    setting.Duration `yaml:"skew"` // accepted difference of clocks; default 5m
}

// A Login is the identity that a token proves.
type Login struct {
	User  string   // without the realm if that is the service's
	Realm string   // of the user
	SIDs  []string // groups, as the PAC has them: S-1-5-21-…
	Until time.Time
	// Answer is the token that proves our identity to the client; nil if the client
	// does not require one.
	Answer []byte
}

// ErrClock reports that the clocks of the client and of this machine differ by more than the skew.
var ErrClock = errors.New("the clocks differ")

// ErrNTLM reports that a client sent NTLM. It is not supported: an eavesdropper
// can compute the password from it.
var ErrNTLM = errors.New("the client sent NTLM and not Kerberos: enter the proxy by its full name and not by its address, register that name for the account of the keytab (setspn -S HTTP/proxy.example ACCOUNT), and sign in to the domain on the client")

// A clockError is an ErrClock that says by how much.
type clockError string

func (e clockError) Error() string { return string(e) }

// Is makes a clockError match ErrClock.
func (clockError) Is(err error) bool { return err == ErrClock }
