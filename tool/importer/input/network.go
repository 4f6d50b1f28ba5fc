package input

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"shuultuur/policy"
)

// IsLabel reports whether s is a ClientID as encrypted DNS carries it: a label.
func IsLabel(s string) bool {
	if _, err := net.ParseMAC(s); err == nil {
		return false
	}
	return s != "" && len(s) <= 63 && !strings.HasPrefix(s, "-") && !strings.HasSuffix(s, "-") &&
		strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func IsURL(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// CutNote cuts a comment off a line of a list.
func CutNote(s []byte) []byte {
	if s[0] == '#' {
		return nil
	}
	if i := bytes.Index(s, []byte(" #")); i >= 0 {
		s = s[:i]
	} else if i := bytes.Index(s, []byte("\t#")); i >= 0 {
		s = s[:i]
	}
	return bytes.TrimSpace(s)
}

// Networks reads an address list of a configuration: an address, a network, an
// address with a mask, or a range.
func Networks(s string) (all []string, ok bool) {
	s = strings.TrimSpace(s)
	if from, to, isRange := strings.Cut(s, "-"); isRange {
		to, mask, masked := strings.Cut(strings.TrimSpace(to), "/")
		a, err1 := netip.ParseAddr(strings.TrimSpace(from))
		b, err2 := netip.ParseAddr(to)
		if masked && err1 == nil && err2 == nil { // a range of networks
			first, ok := Networks(a.String() + "/" + mask)
			last, _ := Networks(to + "/" + mask)
			if !ok || len(last) == 0 {
				return nil, false
			}
			a, b = netip.MustParsePrefix(first[0]).Addr(), lastOf(netip.MustParsePrefix(last[0]))
		}
		if err1 != nil || err2 != nil || a.BitLen() != b.BitLen() || b.Less(a) {
			return nil, false
		}
		for len(all) < 256 {
			bits := a.BitLen()
			for bits > 0 {
				p := netip.PrefixFrom(a, bits-1)
				if p.Masked().Addr() != a || b.Less(lastOf(p)) {
					break
				}
				bits--
			}
			p := netip.PrefixFrom(a, bits)
			all = append(all, p.String())
			last := lastOf(p)
			if last == b || !last.Next().IsValid() {
				break
			}
			a = last.Next()
		}
		return all, true
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return []string{a.Unmap().WithZone("").String()}, true
	}
	if base, mask, hasMask := strings.Cut(s, "/"); hasMask {
		m, err := netip.ParseAddr(mask)
		if err == nil && m.Is4() {
			v := m.As4()
			n := uint32(v[0])<<24 | uint32(v[1])<<16 | uint32(v[2])<<8 | uint32(v[3])
			bits := 0
			for ; n&(1<<31) != 0; n <<= 1 {
				bits++
			}
			if n != 0 {
				return nil, false
			}
			s = fmt.Sprintf("%s/%d", base, bits)
		}
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return nil, false
	}
	return []string{p.Masked().String()}, true
}

// lastOf returns the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Network reads a network, or an address as one.
func Network(s string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		s = p.Masked().String() // other programs accept bits after the mask
	}
	var n policy.Network
	err := n.UnmarshalText([]byte(s))
	return n.Prefix, err
}

// FirstParent calls is with a name and then with its parents, and returns the first for which it is
// true.
func FirstParent(name string, is func(string) bool) string {
	for at := 0; ; {
		if is(name[at:]) {
			return cmp.Or(name[at:], ".")
		}
		dot := strings.IndexByte(name[at:], '.')
		if dot < 0 {
			return ""
		}
		at += dot + 1
	}
}

// HasPort reports whether a port is in an acl's port or range of ports.
func HasPort(v string, port uint16) bool {
	from, to, isRange := strings.Cut(v, "-")
	if !isRange {
		to = from
	}
	a, err1 := strconv.ParseUint(from, 10, 16)
	b, err2 := strconv.ParseUint(to, 10, 16)
	return err1 == nil && err2 == nil && a <= uint64(port) && uint64(port) <= b
}

var Hours = regexp.MustCompile(`^(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)[\s,]*`)

// IsClock reports whether h:m is a time of day, or 24:00.
func IsClock(h, m string) bool {
	hour, err1 := strconv.Atoi(h)
	minute, err2 := strconv.Atoi(m)
	return err1 == nil && err2 == nil && (hour < 24 && minute < 60 || hour == 24 && minute == 0)
}

// Minute returns the minute of the day; h and m are digits.
func Minute(h, m string) int {
	hours, _ := strconv.Atoi(h)   // digits, by isClock
	minutes, _ := strconv.Atoi(m) // and these
	return hours*60 + minutes
}
