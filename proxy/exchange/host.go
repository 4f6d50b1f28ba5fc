package exchange

import "shuultuur/lib/dns"

// CleanHost returns a host in the form of a Transaction: lower case, no final dot. It rewrites
// an IPv4 address in another form (0x7f.1, 2130706433) in the usual one, as browsers do before
// they connect. ok is false if b is not a host.
func CleanHost(b []byte) (host string, ok bool) {
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
	return dns.Canonical(string(low)), true
}
