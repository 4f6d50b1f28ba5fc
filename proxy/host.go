package proxy

// cleanHost returns a host name as a Transaction wants it: lower case, no
// final dot. It says whether it can be one at all.
func cleanHost(b []byte) (string, bool) {
	if n := len(b); n > 0 && b[n-1] == '.' {
		b = b[:n-1]
	}
	if len(b) == 0 || len(b) > 253 {
		return "", false
	}
	low := make([]byte, len(b))
	for i, c := range b {
		switch {
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '.', c == '_':
		default:
			return "", false
		}
		low[i] = c
	}
	return string(low), true
}
