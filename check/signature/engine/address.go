package engine

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"shuultuur/arrange"
	"shuultuur/check/signature/rule"
	"shuultuur/setting"
)

// Clients is the address group of the gateway's clients: it matches the side that opened the
// connection, whatever its address.
const Clients = "clients"

// maxNesting limits nested groups and variables that refer to variables.
const maxNesting = 16

// An addresses is the set of addresses in a rule.
type addresses struct {
	any     bool
	client  bool            // the side that opened the connection
	ranges  [][2]netip.Addr // first and last; sorted and disjoint once packed
	lists   []*addresses
	without []*addresses
}

func (a *addresses) has(x netip.Addr, client bool) bool {
	for _, n := range a.without {
		if n.has(x, client) {
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
		if l.has(x, client) {
			return true
		}
	}
	return a.empty() && len(a.without) > 0
}

func (a *addresses) empty() bool {
	return !a.client && len(a.ranges) == 0 && len(a.lists) == 0
}

// plain reports whether the set consists of ranges alone.
func (a *addresses) plain() bool {
	return a != nil && !a.any && !a.client && len(a.ranges) > 0 && len(a.lists) == 0 && len(a.without) == 0
}

// pack sorts the ranges and joins overlapping ones. IPv4 addresses come before IPv6 addresses,
// so that no range contains both.
func (a *addresses) pack() *addresses {
	arrange.By(a.ranges, func(x, y [2]netip.Addr) int { return x[0].Compare(y[0]) })
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

// parseAddresses parses "any", an address, a network, a range, $NAME, !X and [X,Y].
func parseAddresses(s string, vars map[string]string, depth int) (*addresses, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("%.40q: variables and groups are nested too deeply", s)
	}
	a := &addresses{}
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
func (a *addresses) group(s string, vars map[string]string, depth int) error {
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

// A ports is the set of ports in a rule.
type ports struct {
	any     bool
	ranges  [][2]uint16
	lists   []*ports
	without []*ports
}

func (p *ports) has(n uint16) bool {
	for _, w := range p.without {
		if w.has(n) {
			return false
		}
	}
	if p.any {
		return true
	}
	for _, r := range p.ranges {
		if r[0] <= n && n <= r[1] {
			return true
		}
	}
	for _, l := range p.lists {
		if l.has(n) {
			return true
		}
	}
	return len(p.ranges) == 0 && len(p.lists) == 0 && len(p.without) > 0
}

// parsePorts parses "any", 80, 80:90, 1024:, $NAME, !X and [X,Y].
func parsePorts(s string, vars map[string]string, depth int) (*ports, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("%.40q: variables and groups are nested too deeply", s)
	}
	p := &ports{}
	s = strings.TrimSpace(s)
	switch {
	case s == "any":
		p.any = true
		return p, nil
	case strings.HasPrefix(s, "!"):
		n, err := parsePorts(s[1:], vars, depth+1)
		if err == nil && n.any && len(n.without) == 0 {
			err = fmt.Errorf("%q leaves no port", s)
		}
		if err != nil {
			return nil, err
		}
		p.without = append(p.without, n)
		return p, nil
	case strings.HasPrefix(s, "$"):
		v, ok := vars[s[1:]]
		if !ok {
			return nil, fmt.Errorf("the variable %s is not set; set it under vars", s)
		}
		return parsePorts(v, vars, depth+1)
	case strings.HasPrefix(s, "["):
		for _, part := range rule.SplitGroup(strings.TrimSuffix(s[1:], "]")) {
			x, err := parsePorts(part, vars, depth+1)
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(part, "!") {
				p.without = append(p.without, x.without...)
			} else {
				p.lists = append(p.lists, x)
			}
		}
		return p, nil
	}
	from, to, isRange := strings.Cut(s, ":")
	lo, hi := uint64(0), uint64(65535)
	var err error
	if from != "" || !isRange {
		if lo, err = strconv.ParseUint(from, 10, 16); err != nil {
			return nil, fmt.Errorf("%q is not a port, a range of ports, a group or a variable", s)
		}
	}
	if !isRange {
		hi = lo
	} else if to != "" {
		if hi, err = strconv.ParseUint(to, 10, 16); err != nil {
			return nil, fmt.Errorf("%q is not a port, a range of ports, a group or a variable", s)
		}
	}
	if hi < lo {
		return nil, fmt.Errorf("%q ends before it begins", s)
	}
	p.ranges = append(p.ranges, [2]uint16{uint16(lo), uint16(hi)})
	return p, nil
}

// CheckGroups finds mistakes in groups of addresses and of ports in the settings. vars and
// portVars have all groups, to which they may refer.
func CheckGroups(vars, portVars, addresses, ports map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(addresses)) {
		if _, err := parseAddresses(addresses[name], vars, 0); err != nil {
			return setting.At("vars."+name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ports)) {
		if _, err := parsePorts(ports[name], portVars, 0); err != nil {
			return setting.At("ports."+name, err)
		}
	}
	return nil
}
