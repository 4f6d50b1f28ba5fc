package address

import (
	"fmt"
	"strconv"
	"strings"

	"shuultuur/lib/suricata/rule"
)

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
