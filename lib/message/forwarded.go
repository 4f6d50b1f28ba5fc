package message

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ForwardedFor returns the client that a list of X-Forwarded-For names to those who trust from,
// who has sent it: the last address that is not a trusted proxy, because anything before it is
// unverified. ours reports whether it was reached; if not, a list in an earlier field goes on.
func ForwardedFor(list string, from netip.Addr, trusted []netip.Prefix) (client netip.Addr, ours bool, err error) {
	for len(list) > 0 {
		last := list
		if i := strings.LastIndexByte(list, ','); i >= 0 {
			list, last = list[:i], list[i+1:]
		} else {
			list = ""
		}
		a, err := forwardedAddr(last)
		if err != nil {
			return from, true, fmt.Errorf("the field X-Forwarded-For names no client: %.60q is not an address", last)
		}
		from = a
		if !slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return a, true, nil
		}
	}
	return from, false, nil
}

// forwardedAddr reads an address in X-Forwarded-For. Some proxies write its port behind it, or
// brackets and quotation marks around it.
func forwardedAddr(text string) (netip.Addr, error) {
	text = strings.Trim(text, " \t\"")
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone(""), nil
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return a.Unmap().WithZone(""), err
}
