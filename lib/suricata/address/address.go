// Package address has the sets of addresses and ports that rules name.
//
// A [Parser] reads the addresses and ports in the header of a rule, with the groups that settings
// define, and returns [Ends], with which a connection is compared. Rules that name the same share
// a set.
package address

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/lib/suricata/rule"
)

// maxNesting limits nested groups and variables that refer to variables.
const maxNesting = 16

// An Set is the set of addresses in a rule.
type Set struct {
	any     bool
	client  bool            // the side that opened the connection
	ranges  [][2]netip.Addr // first and last; sorted and disjoint once packed
	lists   []*Set
	without []*Set
}

func (a *Set) Has(x netip.Addr, client bool) bool {
	for _, n := range a.without {
		if n.Has(x, client) {
			return false
		}
	}
	if a.any || a.client && client {
		return true
	}
	lo, hi := 0, len(a.ranges) // the first range that ends at x or later
	for lo < hi {
		if m := (lo + hi) / 2; a.ranges[m][1].Less(x) {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo < len(a.ranges) && !x.Less(a.ranges[lo][0]) {
		return true
	}
	for _, l := range a.lists {
		if l.Has(x, client) {
			return true
		}
	}
	return a.empty() && len(a.without) > 0
}

func (a *Set) empty() bool {
	return !a.client && len(a.ranges) == 0 && len(a.lists) == 0
}

// plain reports whether the set consists of ranges alone.
func (a *Set) plain() bool {
	return a != nil && !a.any && !a.client && len(a.ranges) > 0 && len(a.lists) == 0 && len(a.without) == 0
}

// pack sorts the ranges and joins overlapping ones. IPv4 addresses come before IPv6 addresses,
// so that no range contains both.
func (a *Set) pack() *Set {
	slices.SortStableFunc(a.ranges, func(x, y [2]netip.Addr) int { return x[0].Compare(y[0]) })
	out := a.ranges[:0]
	for _, r := range a.ranges {
		if n := len(out); n > 0 && !out[n-1][1].Less(r[0]) {
			if out[n-1][1].Less(r[1]) {
				out[n-1][1] = r[1]
			}
			continue
		}
		out = append(out, r)
	}
	a.ranges = slices.Clip(out)
	for _, l := range a.lists {
		l.pack()
	}
	for _, l := range a.without {
		l.pack()
	}
	return a
}

// span returns the first and the last address of a network.
func span(p netip.Prefix) [2]netip.Addr {
	first := p.Masked().Addr()
	b := first.AsSlice()
	for i := range b {
		if left := p.Bits() - 8*i; left <= 0 {
			b[i] = 0xff
		} else if left < 8 {
			b[i] |= 0xff >> left
		}
	}
	last, _ := netip.AddrFromSlice(b)
	return [2]netip.Addr{first, last}
}

// Parse parses a set as a rule or a setting names it. vars are the groups.
func Parse(s string, vars map[string]string) (*Set, error) {
	a, err := parseAddresses(s, vars, 0)
	if err != nil {
		return nil, err
	}
	return a.pack(), nil
}

// parseAddresses parses "any", an address, a network, a range, $NAME, !X and [X,Y].
func parseAddresses(s string, vars map[string]string, depth int) (*Set, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("%.40q: variables and groups are nested too deeply", s)
	}
	a := &Set{}
	s = strings.TrimSpace(s)
	switch {
	case s == "any":
		a.any = true
		return a, nil
	case s == Clients:
		a.client = true
		return a, nil
	case strings.HasPrefix(s, "!"):
		n, err := parseAddresses(s[1:], vars, depth+1)
		if err == nil && n.any && len(n.without) == 0 {
			err = fmt.Errorf("%q leaves no address", s)
		}
		if err != nil {
			return nil, err
		}
		a.without = append(a.without, n)
		return a, nil
	case strings.HasPrefix(s, "$"):
		v, ok := vars[s[1:]]
		if !ok {
			return nil, fmt.Errorf("the variable %s is not set; set it under vars", s)
		}
		return parseAddresses(v, vars, depth+1)
	case strings.HasPrefix(s, "["):
		return a, a.group(strings.TrimSuffix(s[1:], "]"), vars, depth)
	}
	if from, to, ok := strings.Cut(s, "-"); ok {
		x, e1 := netip.ParseAddr(from)
		y, e2 := netip.ParseAddr(to)
		if e1 != nil || e2 != nil || x.Is4() != y.Is4() || y.Less(x) {
			return nil, fmt.Errorf("%q is not a range of addresses", s)
		}
		a.ranges = append(a.ranges, [2]netip.Addr{x, y})
		return a, nil
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		a.ranges = append(a.ranges, span(p))
		return a, nil
	}
	if addr, mask, ok := strings.Cut(s, "/"); ok { // 192.0.2.0/255.255.255.0
		x, e1 := netip.ParseAddr(addr)
		m, e2 := netip.ParseAddr(mask)
		if e1 == nil && e2 == nil && m.Is4() {
			ones := 0
			for _, b := range m.As4() {
				for ; b&0x80 != 0; b <<= 1 {
					ones++
				}
			}
			p, err := x.Prefix(ones)
			if err == nil {
				a.ranges = append(a.ranges, span(p))
				return a, nil
			}
		}
	}
	x, err := netip.ParseAddr(s)
	if err != nil {
		return nil, fmt.Errorf("%q is not an address, a network, a group or a variable", s)
	}
	a.ranges = append(a.ranges, [2]netip.Addr{x, x})
	return a, nil
}

// group parses the text between brackets.
func (a *Set) group(s string, vars map[string]string, depth int) error {
	for _, part := range rule.SplitGroup(s) {
		x, err := parseAddresses(part, vars, depth+1)
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(part, "!"):
			a.without = append(a.without, x.without...)
		case x.any:
			a.any = true
		case len(x.without) == 0 && len(x.lists) == 0 && !x.client:
			a.ranges = append(a.ranges, x.ranges...)
		default:
			a.lists = append(a.lists, x)
		}
	}
	return nil
}

// Prefixes returns the networks that make up a set. ok is false if it does not consist of
// networks alone, or of too many.
func (a *Set) Prefixes() (ps []netip.Prefix, ok bool) {
	if !a.plain() {
		return nil, false
	}
	for _, r := range a.ranges {
		for first := r[0]; ; {
			p := netip.PrefixFrom(first, first.BitLen())
			for p.Bits() > 0 { // the largest that begins here and ends in the range
				q := netip.PrefixFrom(first, p.Bits()-1)
				if q.Masked().Addr() != first || r[1].Less(span(q)[1]) {
					break
				}
				p = q
			}
			if ps = append(ps, p); len(ps) > maxPrefixes {
				return nil, false
			}
			last := span(p)[1]
			if !last.Less(r[1]) {
				break
			}
			first = last.Next()
		}
	}
	return ps, true
}

// maxPrefixes limits the prefixes under which one rule is filed.
const maxPrefixes = 4096
