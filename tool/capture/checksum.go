package capture

// checksum reports whether the checksum of a TCP segment, a datagram or a message of ICMPv6 is right.
func (p *packet) checksum() bool {
	n := uint16(len(p.transport))
	return sum(p.src.Addr().AsSlice(), p.dst.Addr().AsSlice(), []byte{0, p.proto, byte(n >> 8), byte(n)}, p.transport) == 0xffff
}

// sum returns the sum of 16-bit words that a checksum covers: 0xffff if it is right.
func sum(parts ...[]byte) uint32 {
	var n uint32
	for _, b := range parts {
		for ; len(b) >= 2; b = b[2:] {
			n += uint32(b[0])<<8 | uint32(b[1])
		}
		if len(b) == 1 {
			n += uint32(b[0]) << 8
		}
	}
	for n>>16 != 0 {
		n = n&0xffff + n>>16
	}
	return n
}

// sumOf reports whether a checksum is right. ok is false if the packet has none of that kind.
func (p *packet) sumOf(keyword string) (valid, ok bool) {
	of := map[string]struct {
		proto uint8
		v6    bool
	}{"tcpv4-csum": {6, false}, "tcpv6-csum": {6, true}, "udpv4-csum": {17, false}, "udpv6-csum": {17, true}, "icmpv4-csum": {1, false}, "icmpv6-csum": {58, true}}
	x, transport := of[keyword]
	switch {
	case keyword == "ipv4-csum":
		head := int(p.ip[0]&15) * 4
		return sum(p.ip[:min(head, len(p.ip))]) == 0xffff, !p.v6
	case !transport || p.proto != x.proto || p.v6 != x.v6 || p.fragment:
		return false, false
	case p.proto == 17 && (len(p.transport) < 8 || p.transport[6] == 0 && p.transport[7] == 0): // none
		return false, false
	case p.proto == 1:
		return sum(p.transport) == 0xffff, true
	}
	return p.checksum(), true
}
