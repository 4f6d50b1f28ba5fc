//go:build small

package kerberos

import (
	"net/netip"

	"shuultuur/release"
)

// An Acceptor is what the small build does not have: there is never one.
type Acceptor struct{}

// New refuses.
func New(Config, *Replays) (*Acceptor, error) { return nil, release.Lacks("Kerberos") }

// Seen is that of the full build.
func (a *Acceptor) Seen() *Replays { return nil }

// Accept is that of the full build.
func (a *Acceptor) Accept(netip.Addr, []byte) (Login, error) {
	return Login{}, release.Lacks("Kerberos")
}
