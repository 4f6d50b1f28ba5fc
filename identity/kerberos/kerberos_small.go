//go:build small

package kerberos

import (
	"net/netip"

	"shuultuur/release"
)

// An Acceptor is never made in the small build.
type Acceptor struct{}

// New refuses.
func New(Config, *Replays) (*Acceptor, error) { return nil, release.Lacks("Kerberos") }

// SeenTokens mirrors the full build.
func (a *Acceptor) SeenTokens() *Replays { return nil }

// Accept mirrors the full build.
func (a *Acceptor) Accept(netip.Addr, []byte) (Login, error) {
	return Login{}, release.Lacks("Kerberos")
}
