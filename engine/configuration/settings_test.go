package configuration

import (
	"net/netip"
	"testing"
)

// The proxy refuses what a translator would reach for it.
func TestTheProxyKnowsThePrefixOfTheNameServer(t *testing.T) {
	for dns64, ok := range map[string]bool{"2001:db8:64::/96": false, "true": true} {
		s, err := Parse("shuultuur.yaml", []byte("dns: {dns64: '"+dns64+"'}\n"))
		if dns64 == "true" {
			s, err = Parse("shuultuur.yaml", []byte("dns: {dns64: true}\n"))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Proxy.Upstream.Reachable(netip.MustParseAddrPort("[2001:db8:64::10.77.0.8]:80")); (err == nil) != ok {
			t.Errorf("with dns64 %s: %v, want allowed %v", dns64, err, ok)
		}
	}
}
