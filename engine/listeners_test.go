package engine

import (
	"net/netip"
	"testing"
)

// TestWhichAddressesAReloadOpens: the system refuses an address as long as one that overlaps it is in
// use; the same address is handed on.
func TestWhichAddressesAReloadOpens(t *testing.T) {
	of := func(all []string) (addrs []netip.AddrPort) {
		for _, s := range all {
			addrs = append(addrs, netip.MustParseAddrPort(s))
		}
		return addrs
	}
	for _, c := range []struct {
		was, is []string
		want    bool
	}{
		{nil, []string{"0.0.0.0:53"}, false},
		{[]string{"127.0.0.1:8080"}, nil, false},
		{[]string{"127.0.0.1:8080"}, []string{"127.0.0.1:8080", "192.168.1.20:8080"}, false},
		{[]string{"127.0.0.1:8080"}, []string{"0.0.0.0:8080"}, true},
		{[]string{"127.0.0.1:8080"}, []string{"[::]:8080"}, true},
		{[]string{"0.0.0.0:8080"}, []string{"192.168.1.20:8080"}, true},
		{[]string{"0.0.0.0:8080"}, []string{"0.0.0.0:8080", "192.168.1.20:8081"}, false},
		{[]string{"127.0.0.1:0"}, []string{"0.0.0.0:0"}, false},
	} {
		if got := overlap(of(c.was), of(c.is)); got != c.want {
			t.Errorf("from %v to %v: overlap %v, want %v", c.was, c.is, got, c.want)
		}
	}
}
