//go:build small

package tap

import (
	"context"
	"net/netip"

	"shuultuur/lib/dns"
	"shuultuur/lib/release"
)

// A Tap of the small build does not exist.
type Tap struct{}

// New refuses to make one.
func New(string, string) (*Tap, error) { return nil, release.Lacks("dnstap") }

// The methods are those of the full build.

func (*Tap) Query(*dns.Query) {}

func (*Tap) Response(*dns.Query, []byte) {}

func (*Tap) Upstream(bool, dns.Transport, netip.AddrPort, netip.AddrPort, []byte) {}

func (*Tap) Counts() (sent, dropped uint64) { return 0, 0 }

func (*Tap) Problem() string { return "" }

func (*Tap) Run(context.Context) {}
