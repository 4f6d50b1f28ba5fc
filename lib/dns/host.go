package dns

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"shuultuur/lib/ascii"
)

// maxHost is the greatest length of a name as text without the final dot, RFC
// 1035 section 2.3.4.
const maxHost = 253

// puny converts a name in Unicode into the one that is looked up. It is as
// lenient as the DNS: underscores are permitted.
var puny = idna.New(idna.MapForLookup(), idna.StrictDomainName(false), idna.Transitional(false))

// international returns a name in Unicode as punycode. The name has no escapes.
func international(name string) (string, error) {
	if !utf8.ValidString(name) || len(name) > 4*maxHost || strings.IndexByte(name, '\\') >= 0 {
		return "", errors.New("not a name in Unicode")
	}
	out, err := puny.ToASCII(name)
	if err != nil {
		return "", err
	}
	for i := range len(out) {
		if out[i] >= utf8.RuneSelf {
			return "", errors.New("not a name in Unicode")
		}
	}
	return out, nil
}

// hostByte has the bytes that need no conversion in a host name.
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

// IsHost reports whether Host would return s unchanged and s has two labels or
// more, which is true for nearly all entries of lists.
func IsHost(s []byte) bool {
	if len(s) > maxHost {
		return false
	}
	label, letters := 0, false // of the last label: its start, and whether it is more than a number
	for i, c := range s {
		if !hostByte[c] {
			return false
		}
		if c != '.' {
			letters = letters || c > '9'
			continue
		}
		if i == label || i-label > maxLabel {
			return false
		}
		label, letters = i+1, false
	}
	return letters && label > 0 && len(s)-label <= maxLabel && (s[label] < '0' || s[label] > '9')
}

// Host appends the host s, a name or an address, to dst in the form in which
// hosts are compared: a name in lower case and punycode without the final dot,
// an address as read by [Address], without brackets. If s is not a host, reason
// says why, in words that continue a sentence after s; otherwise it is "".
func Host(dst, s []byte) (host []byte, reason string) {
	const notName = "is not a domain name"
	if n := len(s); n > 0 && s[n-1] == '.' {
		s = s[:n-1]
	}
	if len(s) == 0 {
		return dst, notName
	}
	if s[0] == '[' || bytes.IndexByte(s, ':') >= 0 {
		return hostIPv6(dst, s)
	}
	from, label := len(dst), 0
	for _, c := range s {
		c = lower[c]
		if !hostByte[c] {
			if c < utf8.RuneSelf {
				return dst[:from], notName
			}
			return unicodeHost(dst[:from], s)
		}
		if c == '.' {
			if label == 0 || label > maxLabel {
				return dst[:from], notName
			}
			label = 0
		} else {
			label++
		}
		dst = append(dst, c)
	}
	switch {
	case label == 0 || label > maxLabel:
		return dst[:from], notName
	case len(dst)-from > maxHost:
		return dst[:from], "is longer than a domain name can be"
	}
	if name := string(dst[from:]); number(name[strings.LastIndexByte(name, '.')+1:]) {
		a, ok := Address(name)
		if dots := strings.Count(name, "."); !ok || 0 < dots && dots < 3 && strings.Trim(name, "0123456789.") == "" {
			// No top-level domain is a number, and 192.0.2
			// is an address that lacks a part.
			return dst[:from], "is neither a domain name nor an address"
		}
		dst = a.AppendTo(dst[:from])
	}
	return dst, ""
}

func hostIPv6(dst, s []byte) ([]byte, string) {
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
	return EmbeddedIPv4(a).AppendTo(dst), ""
}

func unicodeHost(dst, s []byte) ([]byte, string) {
	if !utf8.Valid(s) {
		return dst, "is not UTF-8"
	}
	if len(s) > 4*maxHost {
		return dst, "is longer than a domain name can be"
	}
	name, err := international(string(s))
	if err != nil {
		return dst, "is not an international domain name"
	}
	return Host(dst, []byte(name))
}

// Address parses a host that is an address, in any form that browsers or
// systems accept: an IPv4 address of one to four parts, each decimal, octal (a
// leading 0) or hexadecimal (a leading 0x), where the last part fills the rest
// (the URL standard of WHATWG, section 3.5, as inet_aton does); or an IPv6
// address without brackets. An IPv6 address that stands for an IPv4 address is
// converted, see [EmbeddedIPv4].
func Address(host string) (netip.Addr, bool) {
	last := strings.LastIndexByte(host, '.') + 1
	if last == len(host) { // nearly all hosts end in a letter, and in no number
		return netip.Addr{}, false
	}
	if strings.IndexByte(host, ':') >= 0 {
		a, err := netip.ParseAddr(host)
		return EmbeddedIPv4(a.WithZone("")), err == nil
	}
	if host[last] < '0' || host[last] > '9' {
		return netip.Addr{}, false
	}
	return address4(host)
}

func address4(host string) (netip.Addr, bool) {
	var sum uint64
	for part := range 4 {
		text, rest, more := strings.Cut(host, ".")
		v, ok := part4(text)
		switch {
		case !ok:
			return netip.Addr{}, false
		case !more:
			if v >= 1<<(8*(4-part)) {
				return netip.Addr{}, false
			}
			sum |= v
			return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), true
		case v > 255:
			return netip.Addr{}, false
		}
		sum |= v << (8 * (3 - part))
		host = rest
	}
	return netip.Addr{}, false
}

// part4 reads one part of an IPv4 address.
func part4(s string) (v uint64, ok bool) {
	base := uint64(10)
	switch {
	case s == "":
		return 0, false
	case len(s) > 1 && s[0] == '0' && s[1]|0x20 == 'x':
		base, s = 16, s[2:]
	case len(s) > 1 && s[0] == '0':
		base, s = 8, s[1:]
	}
	for i := range len(s) {
		d := uint64(ascii.Unhex(s[i]))
		if d >= base {
			return 0, false
		}
		if v = v*base + d; v >= 1<<32 {
			return 0, false
		}
	}
	return v, true
}

// number reports whether a label is a number. The last label of a name is none.
func number(label string) bool {
	if digits(label) {
		return true
	}
	if len(label) < 2 || label[0] != '0' || label[1]|0x20 != 'x' {
		return false
	}
	for i := 2; i < len(label); i++ {
		if ascii.Unhex(label[i]) < 0 {
			return false
		}
	}
	return true
}

// Canonical returns a host, in lower case, as lists and rules have it: an
// address in another form, or one that stands for an IPv4 address, becomes the
// result of [Address]. Any other host is unchanged.
func Canonical(host string) string {
	a, ok := Address(host)
	if !ok {
		return host
	}
	var buf [48]byte
	if b := a.AppendTo(buf[:0]); string(b) != host {
		return string(b)
	}
	return host
}

// nat64 is the prefix of RFC 6052 for reaching IPv4 addresses over IPv6.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// EmbeddedIPv4 returns the IPv4 address that an address stands for, by mapping
// (::ffff:192.0.2.1) or by NAT64 (64:ff9b::192.0.2.1). It returns any other
// address unchanged.
func EmbeddedIPv4(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is6() && nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}
