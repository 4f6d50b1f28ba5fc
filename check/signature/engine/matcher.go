package engine

import "shuultuur/check/signature/rule"

// A Matcher searches for patterns as the prefilter does, for measurements.
type Matcher struct {
	pf   *prefilter
	seen sight
}

// A Pattern is a pattern of a matcher. It is folded unless case matters.
type Pattern struct {
	Text  string
	Exact bool
}

// Matcher returns a matcher for at most n patterns that rules search for in a buffer as one
// side sent it, and these patterns. There must be such rules.
func (e *Engine) Matcher(dir rule.Direction, b rule.Buffer, n int) (*Matcher, []Pattern) {
	for _, t := range e.tables[dir>>1] {
		if t.buffer != b || t.chain != 0 {
			continue
		}
		list := t.pf.pats[:min(n, len(t.pf.pats))]
		var all []Pattern
		for _, p := range list {
			all = append(all, Pattern{p.text, p.exact})
		}
		return &Matcher{pf: newPrefilter(list)}, all
	}
	return nil, nil
}

// Count returns how many of the patterns occur in data.
func (m *Matcher) Count(data []byte) (found int) {
	m.seen.reset(m.pf.n)
	m.pf.scan(data, &m.seen, func(int32) { found++ })
	return found
}
