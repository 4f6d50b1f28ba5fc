package setting

import (
	"errors"
	"fmt"
	"net/netip"
)

// A Use is an address that a server of the settings listens on.
type Use struct {
	Key   string // host of the address
	At    netip.AddrPort
	Proto string // TCP or UDP
	Dual  bool   // an unspecified address includes both families
}

// conflicts reports whether the two servers cannot both listen.
func (u Use) conflicts(with Use) bool {
	a, b := u.At.Addr(), with.At.Addr()
	if u.Proto != with.Proto || u.At.Port() != with.At.Port() || u.At.Port() == 0 {
		return false
	}
	one := a.Is4() == b.Is4()
	return a == b || a.IsUnspecified() && (one || u.Dual) || b.IsUnspecified() && (one || with.Dual)
}

// Distinct reports servers with the same address.
func Distinct(all []Use) error {
	var errs []error
	for i, u := range all {
		for _, before := range all[:i] {
			if u.conflicts(before) {
				errs = append(errs, At(u.Key, fmt.Errorf("%s of %v is taken by %s: give each its own address or port", u.Proto, u.At, before.Key)))
				break
			}
		}
	}
	return errors.Join(errs...)
}
