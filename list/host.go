package list

import (
	"bytes"
	"net/netip"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// puny turns a name in Unicode into the one that is asked for. It is lenient
// where the DNS is: underscores are names too.
var puny = idna.New(idna.MapForLookup(), idna.StrictDomainName(false), idna.Transitional(false))

// hostByte says which bytes may stand in a host name as they are.
var hostByte = func() (ok [256]bool) {
	for c := 'a'; c <= 'z'; c++ {
		ok[c] = true
	}
	for c := '0'; c <= '9'; c++ {
		ok[c] = true
	}
	ok['-'], ok['_'], ok['.'] = true, true, true
	return ok
}()

// isNormal says whether s is a name of two labels or more in the form in which
// hosts are compared, as nearly all entries are. Where it says no, normalHost
// knows more.
func isNormal(s []byte) bool {
	if len(s) > maxHost {
		return false
	}
	label, letters := 0, false // of the last label: where it begins, and whether it is more than a number
	for i, c := range s {
		if !hostByte[c] {
			return false
		}
		if c != '.' {
			letters = letters || c > '9'
			continue
		}
		if i == label || i-label > 63 {
			return false
		}
		label, letters = i+1, false
	}
	return letters && label > 0 && len(s)-label <= 63
}

// normalHost appends the host s, a name or an address, to dst in the form in
// which hosts are compared: lower case, punycode, no final dot, no brackets.
// Where s is none, reason says why, as a piece of a sentence after s itself,
// and is "" otherwise.
func normalHost(dst, s []byte) (host []byte, reason string) {
	const notName = "is not a domain name"
	if n := len(s); n > 0 && s[n-1] == '.' {
		s = s[:n-1]
	}
	if len(s) == 0 {
		return dst, notName
	}
	if s[0] == '[' || bytes.IndexByte(s, ':') >= 0 {
		return normalIPv6(dst, s)
	}
	from := len(dst)
	label, digits := 0, true
	for _, c := range s {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if !hostByte[c] {
			if c < utf8.RuneSelf {
				return dst[:from], notName
			}
			return unicodeHost(dst[:from], s)
		}
		if c == '.' {
			if label == 0 || label > 63 {
				return dst[:from], notName
			}
			label, digits = 0, true
		} else {
			label++
			digits = digits && '0' <= c && c <= '9'
		}
		dst = append(dst, c)
	}
	switch {
	case label == 0 || label > 63:
		return dst[:from], notName
	case len(dst)-from > maxHost:
		return dst[:from], "is longer than a domain name can be"
	case digits: // no top-level domain is a number, so this must be an address
		if _, err := netip.ParseAddr(string(dst[from:])); err != nil {
			return dst[:from], "is neither a domain name nor an address"
		}
	}
	return dst, ""
}

func normalIPv6(dst, s []byte) ([]byte, string) {
	const notHost = "is neither a domain name nor an address"
	if s[0] == '[' {
		if s[len(s)-1] != ']' {
			return dst, notHost
		}
		s = s[1 : len(s)-1]
	}
	if len(s) > 64 {
		return dst, notHost
	}
	a, err := netip.ParseAddr(string(s))
	if err != nil || !a.Is6() || a.Zone() != "" {
		return dst, notHost
	}
	return a.Unmap().AppendTo(dst), ""
}

func unicodeHost(dst, s []byte) ([]byte, string) {
	if !utf8.Valid(s) {
		return dst, "is not UTF-8"
	}
	if len(s) > 4*maxHost {
		return dst, "is longer than a domain name can be"
	}
	name, err := puny.ToASCII(string(s))
	if err != nil {
		return dst, "is not an international domain name"
	}
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf { // cannot be, and must not go round in circles
			return dst, "is not an international domain name"
		}
	}
	return normalHost(dst, []byte(name))
}
