//go:build small

package forward

// newQUIC is never called: parsing refuses addresses with h3 or quic.
func (f *Forwarder) newQUIC(address, *locator, *stats) transport { return nil }
