package match

import (
	"strings"

	"shuultuur/lib/suricata/rule"
)

// A Group is all matches on one buffer.
type Group struct {
	*rule.Group
	Chain   int // of the transforms, 0 for none
	Dir     rule.Direction
	Matches []rule.Match
	AtEnd   bool         // can only be decided once the buffer is complete
	pure    bool         // the result of the matches from a position on depends on nothing else
	Sought  *[2][]Sought // by direction: contents that the prefilter of bodies searches for
}

// A Compiler compiles groups. Their values lie next to one another in memory.
type Compiler struct {
	groups rule.Slab[Group]
	lists  rule.Slab[rule.Match]
}

// Groups returns room for n groups.
func (c *Compiler) Groups(n int) []Group { return c.groups.Slice(n)[:0] }

// Group compiles the matches on one buffer, after a chain of transforms. prepare is called for
// each *rule.Dataset and *rule.Lua.
func (c *Compiler) Group(g *rule.Group, chain int, prepare func(rule.Match) error) (k Group, err error) {
	k = Group{Group: g, Dir: g.Buffer.Info().Direction, Chain: chain}
	if k.Matches, err = c.matches(g.Matches, prepare); err != nil {
		return k, err
	}
	k.AtEnd = k.Chain != 0 || g.Absent || waits(k.Matches)
	k.pure = pure(k.Matches)
	return k, nil
}

// matches copies matches and compiles expressions. It folds patterns in place: a copy would
// double their memory.
func (c *Compiler) matches(ms []rule.Match, prepare func(rule.Match) error) ([]rule.Match, error) {
	out := c.lists.Slice(len(ms))[:0]
	for _, m := range ms {
		switch x := m.(type) {
		case *rule.PCRE:
			re, err := rule.Compile(x)
			if err != nil {
				return nil, err
			}
			m = &Expression{x, re}
		case *rule.Content:
			if x.NoCase {
				for i, c := range x.Pattern {
					if lower[c] != c { // another engine may be reading it
						x.Pattern[i] = lower[c]
					}
				}
			}
		case *rule.Base64:
			y := *x
			var err error
			if y.Inner, err = c.matches(x.Inner, prepare); err != nil {
				return nil, err
			}
			m = &y
		case *rule.Dataset, *rule.Lua:
			if err := prepare(m); err != nil {
				return nil, err
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// waits reports whether more bytes could change the result from true to false.
func waits(ms []rule.Match) bool {
	for _, m := range ms {
		switch m := m.(type) {
		case *rule.Content:
			if m.Negated || m.Ends {
				return true
			}
		case *Expression:
			if m.Negated || strings.Contains(m.Expr, "$") || strings.Contains(m.Expr, `\z`) {
				return true
			}
		case *rule.DataAt:
			if m.Negated {
				return true
			}
		case *rule.ByteJump:
			if m.End {
				return true
			}
		case *rule.Size, *rule.Entropy, *rule.Dataset, *rule.Lua:
			return true
		}
	}
	return false
}

// pure reports whether matches only compare bytes: none stores or changes anything.
func pure(ms []rule.Match) bool {
	for _, m := range ms {
		switch m := m.(type) {
		case *rule.Content, *rule.DataAt, *rule.ByteTest, *rule.ByteJump, *rule.Size:
		case *Expression:
			if len(m.Captures) > 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// Required returns a content without which a match cannot hold, nil if there is none.
func Required(m rule.Match) *rule.Content {
	switch m := m.(type) {
	case *rule.Content:
		if !m.Negated && len(m.Pattern) > 0 {
			return m
		}
	case *Expression:
		if text, folded := m.Re.Literal(); !m.Negated && len(text) >= Gram-1 {
			return &rule.Content{Pattern: text, NoCase: folded}
		}
	}
	return nil
}
