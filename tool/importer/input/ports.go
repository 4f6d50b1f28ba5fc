package input

import (
	"strconv"
	"strings"
)

// A PortSet is a set of TCP ports.
type PortSet [1 << 16]bool

// PortsOf returns the ports that words name: ports, ranges, of which an end may be missing, and "any".
func PortsOf(words []string) *PortSet {
	s := &PortSet{}
	for _, w := range words {
		from, to, isRange := strings.Cut(w, "-")
		switch {
		case w == "any":
			from, to = "0", "65535"
		case !isRange:
			to = from
		case from == "" && to != "":
			from = "1"
		case to == "" && from != "":
			to = "65535"
		}
		a, err1 := strconv.ParseUint(from, 10, 16)
		b, err2 := strconv.ParseUint(to, 10, 16)
		for p := a; err1 == nil && err2 == nil && p <= b; p++ {
			s[p] = true
		}
	}
	return s
}

// Words returns the ports as ports and ranges.
func (s *PortSet) Words() (all []string) {
	for p := 1; p < len(s); p++ {
		if !s[p] {
			continue
		}
		from := p
		for p+1 < len(s) && s[p+1] {
			p++
		}
		if w := strconv.Itoa(from); p > from {
			all = append(all, w+"-"+strconv.Itoa(p))
		} else {
			all = append(all, w)
		}
	}
	return all
}

// OtherPorts returns the ports that words do not name, as ports and ranges.
func OtherPorts(words []string) []string {
	s := PortsOf(words)
	for p := range s {
		s[p] = !s[p]
	}
	return s.Words()
}
