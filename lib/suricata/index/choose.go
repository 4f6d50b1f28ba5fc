package index

import (
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

// rare is the rareness from which on a pattern is in few pages only.
const rare = 48

// guarding is the rareness from which on a second pattern is worth a search. Beside a common
// pattern it has to be rarer by less.
const (
	guarding = 36
	rarer    = 5
)

// rarest returns the content that is rarest in pages among those that the rule needs beside its
// fast pattern in the same bytes, and its group. It returns nil if there is none, if the fast
// pattern is rare itself or has a fixed place, and for other bytes than bodies and content
// outside any buffer.
func (c *Entry) rarest() (best int, text *rule.Content) {
	in := &c.Groups[c.Fast]
	if _, fixed := c.anchor(); fixed || match.Rareness(c.Pattern()) >= rare || !inBody(in, 0) && !inBody(in, 1) && !outside(in) {
		return 0, nil
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		if g.Absent || g.Buffer != in.Buffer || g.Chain != in.Chain || g.Dir != in.Dir {
			continue
		}
		for _, m := range g.Matches {
			if x := match.Required(m); x != nil && x != c.text && (text == nil || match.Rareness(x.Pattern) > match.Rareness(text.Pattern)) {
				best, text = i, x
			}
		}
	}
	return best, text
}

// best returns the best content for which fits returns true.
func (c *Entry) best(fits func(*match.Group, *rule.Content) bool) (best int, text *rule.Content) {
	best = -1
	bestLen, bestStrength, bestPriority := 0, 0, 0
	for i := range c.Groups {
		g := &c.Groups[i]
		if g.Absent || g.Buffer == rule.OtherBuffer || g.Buffer.Info().Packet {
			continue
		}
		for _, m := range g.Matches {
			x, ok := m.(*rule.Content)
			if !ok || x.Negated || !fits(g, x) {
				continue
			}
			if x.Fast {
				return i, x
			}
			p, n, s := g.Buffer.Info().Priority, len(x.Pattern), match.Strength(x.Pattern)
			if best < 0 || p < bestPriority || p == bestPriority && (n > bestLen || n == bestLen && s > bestStrength) {
				best, bestLen, bestStrength, bestPriority, text = i, n, s, p, x
			}
		}
	}
	return best, text
}

// Choose selects the fast pattern as Suricata does: the one that the rule marks, or else the
// longest in the buffer of best priority, and of those the strongest. If it has at most four
// bytes, Choose prefers a rarer text that the rule needs in the same bytes, which may be part of
// an expression. If it has less, Choose prefers a longer pattern that is not in every page. Short
// patterns occur everywhere, and the choice changes no alert.
func (c *Entry) Choose() {
	if c.Fast, c.text = c.best(func(*match.Group, *rule.Content) bool { return true }); c.Fast < 0 || len(c.Pattern()) > match.Gram {
		return
	}
	in := &c.Groups[c.Fast]
	if g, text := c.rarest(); text != nil && len(text.Pattern) >= match.Gram && match.Rareness(text.Pattern) >= match.Rareness(c.Pattern())+rarer {
		c.Fast, c.text = g, text
	}
	if len(c.Pattern()) >= match.Gram {
		return
	}
	fast, text := c.best(func(g *match.Group, x *rule.Content) bool {
		return len(x.Pattern) >= match.Gram && (len(c.Pattern()) < match.Gram-1 || !match.Everyday(match.Fold(x.Pattern))) && (x.FastLen == 0 || x.FastLen >= match.Gram) && g.Dir&c.Dirs == in.Dir&c.Dirs && (g.Buffer != rule.Payload || in.Buffer == rule.Payload)
	})
	if fast >= 0 {
		c.Fast, c.text = fast, text
	}
}
