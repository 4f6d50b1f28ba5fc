//go:build small

package forward

// newQUIC is not called: an address with h3 or quic is refused when it is read.
func (f *Forwarder) newQUIC(address, *locator, *stats) transport { return nil }
