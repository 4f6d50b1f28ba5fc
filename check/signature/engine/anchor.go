package engine

import "shuultuur/check/signature/rule"

// An anchor is a short pattern that a rule wants at one of a few places, such as
// a file's first bytes. It is compared there; a search for it would stop all the
// time.
type anchor struct {
	pattern  []byte // folded
	from, to int    // where it may begin, both included
	owner    int32
}

// Bounds of what is an anchor.
const (
	anchorLength = gram // longer patterns are searched for
	anchorPlaces = 32
)

// anchor returns the rule's fast pattern as an anchor. ok is false when it is
// too long, or may be anywhere.
func (c *compiled) anchor() (a anchor, ok bool) {
	x := c.text
	if len(c.pattern()) > anchorLength || x.FastLen > 0 {
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
		// The first match of a group begins where the buffer does.
		if !x.HasWith || x.HasOffset || x.HasDepth || c.groups[c.fast].matches[0] != rule.Match(x) {
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
	return anchor{pattern: fold(x.Pattern), from: from, to: from + room - len(x.Pattern)}, true
}

// anchored adds the rules whose anchor is in its place.
func (w *work) anchored(t *table, data []byte) {
	for i := range t.anchors {
		a := &t.anchors[i]
		for p := a.from; p <= a.to && p+len(a.pattern) <= len(data); p++ {
			if at(data[p:], a.pattern) {
				w.hits = append(w.hits, a.owner)
				break
			}
		}
	}
}
