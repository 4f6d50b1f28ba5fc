package engine

import (
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

// Patterns returns at most n of the patterns that rules search for in a buffer as one side sent
// it.
func (e *Engine) Patterns(dir rule.Direction, b rule.Buffer, n int) []match.Pattern {
	for _, t := range e.index[dir>>1].Messages {
		if t.Buffer == b && t.Chain == 0 {
			return t.Patterns()[:min(n, len(t.Patterns()))]
		}
	}
	return nil
}
