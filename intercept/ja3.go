package intercept

import "strconv"

// JA3 returns the text that Salesforce's "JA3" hashes: the legacy version, ciphers,
// extensions, groups and point formats as decimal numbers, without GREASE, in the client's
// order.
func (h *Hello) JA3() string {
	b := strconv.AppendUint(nil, uint64(h.Legacy), 10)
	for _, list := range [][]uint16{h.Ciphers, h.Extensions, h.Groups} {
		b = append(b, ',')
		b = appendDashed(b, list)
	}
	return string(appendDashed(append(b, ','), h.Points))
}

func appendDashed[T uint8 | uint16](b []byte, list []T) []byte {
	for i, v := range list {
		if i > 0 {
			b = append(b, '-')
		}
		b = strconv.AppendUint(b, uint64(v), 10)
	}
	return b
}
