package engine

import (
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

// order compares rules by the order in which Suricata runs them: by action, then rules that
// set bits and numbers before those that test them, then by priority.
func order(a, b *compiledRule) int {
	if d := int(a.Action) - int(b.Action); d != 0 {
		return d
	}
	if d := a.rank() - b.rank(); d != 0 {
		return d
	}
	return a.priority - b.priority
}

// rank returns 0 for rules that only set bits and numbers, 1 for those that set and test them,
// 2 for rules without either, 3 for those that only test them.
func (c *compiledRule) rank() int {
	sets, asks := false, false
	for _, x := range c.Conditions {
		switch x := x.(type) {
		case *rule.Bit:
			sets, asks = sets || x.Sets(), asks || !x.Sets()
		case *rule.Int:
			sets, asks = sets || x.Sets(), asks || !x.Sets()
		case *rule.Var:
			asks = true
		}
	}
	for _, g := range c.Groups {
		for _, m := range g.Matches {
			if p, ok := m.(*match.Expression); ok && len(p.Captures) > 0 {
				sets = true
			}
		}
	}
	switch {
	case sets && !asks:
		return 0
	case sets:
		return 1
	case asks:
		return 3
	}
	return 2
}
