// Package addresses reads networks and ranges of addresses as lists have them.
package addresses

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// Parse reads an address, a prefix, or an IPv4 address with a mask.
func Parse(s string) (netip.Prefix, bool) {
	if n, err := netip.ParsePrefix(s); err == nil {
		return Unmap(n)
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	addr, mask, _ := bytes.Cut([]byte(s), []byte("/"))
	a, err := netip.ParseAddr(string(addr))
	m, err2 := netip.ParseAddr(string(mask))
	if err != nil || err2 != nil || !a.Is4() || !m.Is4() {
		return netip.Prefix{}, false
	}
	four := m.As4()
	ones := ^binary.BigEndian.Uint32(four[:])
	if ones&(ones+1) != 0 { // a mask with holes
		return netip.Prefix{}, false
	}
	bits := 32
	for ; ones > 0; ones >>= 1 {
		bits--
	}
	return netip.PrefixFrom(a, bits), true
}

// Unmap converts ::ffff:10.0.0.0/104 to IPv4.
func Unmap(n netip.Prefix) (netip.Prefix, bool) {
	if !n.Addr().Is4In6() {
		return n, true
	}
	if n.Bits() < 96 {
		return n, false
	}
	return netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96), true
}

// CutRange reads "a-b", blanks or not.
func CutRange(s string) (from, to netip.Addr, ok bool) {
	a, b, found := bytes.Cut([]byte(s), []byte("-"))
	if !found {
		return from, to, false
	}
	from, err := netip.ParseAddr(string(bytes.TrimSpace(a)))
	to, err2 := netip.ParseAddr(string(bytes.TrimSpace(b)))
	from, to = from.Unmap(), to.Unmap()
	ok = err == nil && err2 == nil && from.Is4() == to.Is4() && from.Zone() == "" && to.Zone() == "" && !to.Less(from)
	return from, to, ok
}

// First returns the widest prefix that begins at from and ends at or before to, and the
// address after it, which is invalid at the end of the range.
func First(from, to netip.Addr) (n netip.Prefix, next netip.Addr) {
	bits := from.BitLen()
	for bits > 0 {
		wider := netip.PrefixFrom(from, bits-1)
		if wider.Masked().Addr() != from || to.Less(last(wider)) {
			break
		}
		bits--
	}
	n = netip.PrefixFrom(from, bits)
	end := last(n)
	if end == to {
		return n, netip.Addr{}
	}
	return n, end.Next()
}

func last(n netip.Prefix) netip.Addr {
	b := n.Addr().As16()
	for i := n.Bits() + 128 - n.Addr().BitLen(); i < 128; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a := netip.AddrFrom16(b)
	if n.Addr().Is4() {
		a = a.Unmap()
	}
	return a
}
