package capture

// checksum reports whether the checksum of a TCP segment is right.
func (p *packet) checksum() bool {
	var sum uint32
	add := func(b []byte) {
		for ; len(b) >= 2; b = b[2:] {
			sum += uint32(b[0])<<8 | uint32(b[1])
		}
		if len(b) == 1 {
			sum += uint32(b[0]) << 8
		}
	}
	add(p.src.Addr().AsSlice())
	add(p.dst.Addr().AsSlice())
	sum += uint32(p.proto) + uint32(len(p.transport))
	add(p.transport)
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return sum == 0xffff
}
