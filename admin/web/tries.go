package web

import (
	"net/netip"
	"time"

	"shuultuur/lib/tries"
)

const (
	maxTries     = 10          // wrong tokens within tryTime that bar a client
	tryTime      = time.Minute // counted from the first of them
	maxBarred    = 4096        // clients that are remembered
	clientBitsV6 = 64          // bits of an IPv6 address: a client may have all addresses with the same
)

// newTries returns the limit of wrong tokens and passwords by client.
func newTries() *tries.Limit[netip.Prefix] {
	return &tries.Limit[netip.Prefix]{Most: maxTries, Within: tryTime, Remember: maxBarred}
}

func clientOf(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = clientBitsV6
	}
	p, _ := a.Prefix(bits) // the zero Prefix for an unknown address
	return p
}
