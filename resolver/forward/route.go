package forward

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"shuultuur/lib/dns"
)

// routeNames returns the domains in wire form for a key of Config.Routes: a domain, "." or ""
// for everything, or a network, which means the names of its addresses (in-addr.arpa,
// ip6.arpa).
func routeNames(key string) ([][]byte, error) {
	if p, err := netip.ParsePrefix(key); err == nil {
		return reverseNames(p.Masked())
	}
	n, err := dns.Name(strings.TrimPrefix(key, "*."))
	return [][]byte{n}, err
}

// reverseNames returns the reverse domains of a network: one, or several if its length is not
// at a label boundary.
func reverseNames(p netip.Prefix) ([][]byte, error) {
	step, suffix := 8, "in-addr.arpa"
	if p.Addr().Is6() {
		step, suffix = 4, "ip6.arpa"
	}
	if p.Bits() == 0 {
		return nil, fmt.Errorf("network %s is everything: name %s", p, suffix)
	}
	labels := (p.Bits() + step - 1) / step
	digits := make([]int, 0, 32)
	for _, b := range p.Addr().AsSlice() {
		if step == 8 {
			digits = append(digits, int(b))
		} else {
			digits = append(digits, int(b>>4), int(b&15))
		}
	}
	base := 10
	if step == 4 {
		base = 16
	}
	var names [][]byte
	for i := range 1 << (labels*step - p.Bits()) {
		name := suffix
		for j, d := range digits[:labels] {
			if j == labels-1 {
				d += i
			}
			name = strconv.FormatInt(int64(d), base) + "." + name
		}
		n, err := dns.Name(name)
		if err != nil {
			return nil, err
		}
		names = append(names, n)
	}
	return names, nil
}
