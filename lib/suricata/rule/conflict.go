package rule

import (
	"errors"
	"fmt"
)

// conflicts returns an error if Suricata refuses a rule although each keyword is valid: for
// keywords that exclude each other, and contents that can never match.
func (r *Rule) conflicts() error {
	sides, filter, limit := Direction(0), false, false
	for _, c := range r.Conditions {
		switch c := c.(type) {
		case *Flow:
			sides |= c.Direction
		case *Threshold:
			filter = filter || c.Type == "detection_filter"
			limit = limit || c.Type != "detection_filter"
		}
	}
	if filter && limit {
		return errors.New("threshold and detection_filter exclude each other")
	}
	framed, ofMessage := Buffers, Buffers
	for _, g := range r.Groups {
		if g.Buffer.Framed() {
			framed = g.Buffer
		} else if g.Buffer.Info().Protocol != "" {
			ofMessage = g.Buffer
		}
		info := g.Buffer.Info()
		if info.Direction != Both {
			sides |= info.Direction
		}
		if sides == Both && !r.Exchange {
			return fmt.Errorf("%s belongs to one direction and the rule to the other; use => for rules on both", g.Buffer)
		}
		if p := info.Protocol; p != "" && !r.carries(p) {
			return fmt.Errorf("%s is not part of %s", g.Buffer, r.Proto)
		}
		if err := g.conflicts(); err != nil {
			return err
		}
	}
	if framed != Buffers && ofMessage != Buffers {
		return fmt.Errorf("the frame %s and %s exclude each other: a rule is tried on frames or on messages", framed, ofMessage)
	}
	return nil
}

// carries reports whether messages of the rule's protocol have buffers of another.
func (r *Rule) carries(protocol string) bool {
	switch r.Proto {
	case "http", "http2":
		return protocol == "http" || protocol == "http2"
	case "http1":
		return protocol == "http"
	case "tls", "ssl":
		return protocol == "tls"
	case "dns":
		return protocol == "dns"
	}
	return true
}

// conflicts returns an error for contradictory matches on one buffer.
func (g *Group) conflicts() error {
	longest := 0
	for _, m := range g.Matches {
		c, ok := m.(*Content)
		if !ok {
			continue
		}
		moved := c.Relative() || c.HasOffset || c.HasDepth
		switch {
		case c.Relative() && (c.HasOffset || c.HasDepth):
			return fmt.Errorf("content %q has offset or depth, which count from the beginning, together with distance or within, which count from the previous match", c.Pattern)
		case c.Negated && c.Fast && moved:
			return fmt.Errorf("content %q is negated: it can be the fast_pattern only without distance, within, offset and depth", c.Pattern)
		case c.FastOnly && (c.Negated || moved):
			return fmt.Errorf("content %q: fast_pattern:only is for contents without negation, distance, within, offset and depth", c.Pattern)
		case g.Buffer == Host && len(g.Transforms) == 0 && c.NoCase:
			return fmt.Errorf("content %q in %s has nocase: that buffer is in lower case, omit nocase", c.Pattern, g.Buffer)
		case !c.Negated:
			longest = max(longest, len(c.Pattern))
		}
	}
	for _, m := range g.Matches {
		if s, ok := m.(*Size); ok && longest > 0 && !s.allows(uint64(longest)) {
			return fmt.Errorf("a content of %d bytes in %s is longer than bsize allows", longest, g.Buffer)
		}
	}
	switch {
	case g.Absent && !g.OrElse && len(g.Matches) > 0:
		return fmt.Errorf("%s cannot be absent and also match; use absent:or_else", g.Buffer)
	case g.OrElse && len(g.Matches) == 0:
		return fmt.Errorf("absent:or_else needs matches on %s", g.Buffer)
	}
	return nil
}

// allows reports whether a buffer of at least n bytes may have the size.
func (s *Size) allows(n uint64) bool {
	switch s.Op {
	case "=", "<=":
		return n <= s.A
	case "<":
		return n < s.A
	case "<>":
		return n < s.B
	case "in":
		return n <= s.B
	}
	return true
}
