package index

import (
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

// An anchor is a short pattern that can only be at a few positions, such as the first bytes of
// a file. It is compared there, because a search for it would find too many candidates.
type anchor struct {
	pattern  []byte // folded
	from, to int    // first and last position where it may begin
	owner    int32
}

// Limits of anchors.
const (
	anchorLength = match.Gram // longer patterns are searched for
	anchorPlaces = 32
)

// anchor returns the rule's fast pattern as an anchor. ok is false if it is too long or may be
// anywhere.
func (c *Entry) anchor() (a anchor, ok bool) {
	x := c.text
	if len(c.Pattern()) > anchorLength || x.FastLen > 0 {
		return a, false
	}
	fixed := func(has bool, n rule.Number) (int, bool) {
		if !has {
			return 0, true
		}
		return int(n.N), n.Var == 0
	}
	var from, room int
	var ok1, ok2 bool
	switch {
	case x.Starts && !x.Relative():
		room, ok1, ok2 = len(x.Pattern), true, true
	case x.Relative():
		// The first match of a group is relative to the beginning of the buffer.
		if !x.HasWith || x.HasOffset || x.HasDepth || c.Groups[c.Fast].Matches[0] != rule.Match(x) {
			return a, false
		}
		from, ok1 = fixed(x.HasDistance, x.Distance)
		room, ok2 = fixed(true, x.Within)
	case x.HasDepth:
		from, ok1 = fixed(x.HasOffset, x.Offset)
		room, ok2 = fixed(true, x.Depth)
	}
	if !ok1 || !ok2 || from < 0 || room < len(x.Pattern) || room-len(x.Pattern) > anchorPlaces {
		return a, false
	}
	return anchor{pattern: match.Fold(x.Pattern), from: from, to: from + room - len(x.Pattern)}, true
}
