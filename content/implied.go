package content

import "slices"

// This file handles elements without an end tag: text that a style sheet adds after them must
// be inserted where they end.

// An impliedEnd says where open elements of a name end (HTML section 13.1.2.4, optional tags).
type impliedEnd struct {
	at []string // at tags with these names, in the same list or table
	in []string // at the end of these elements around them
}

// impliedEnds are for elements that contain text directly. A paragraph ends at
// every block.
var impliedEnds = map[string]impliedEnd{
	"p":      {},
	"li":     {at: []string{"li"}, in: []string{"ul", "ol", "menu", "dir"}},
	"dt":     {at: []string{"dt", "dd"}, in: []string{"dl"}},
	"dd":     {at: []string{"dt", "dd"}, in: []string{"dl"}},
	"td":     {at: []string{"td", "th", "tr", "thead", "tbody", "tfoot"}, in: []string{"table"}},
	"th":     {at: []string{"td", "th", "tr", "thead", "tbody", "tfoot"}, in: []string{"table"}},
	"tr":     {at: []string{"tr", "thead", "tbody", "tfoot"}, in: []string{"table"}},
	"option": {at: []string{"option", "optgroup"}, in: []string{"select", "datalist"}},
}

// endImplied removes the open elements that end before a block.
func (x *page) endImplied(t *tag) {
	for len(x.opened) > 0 {
		s := &x.opened[len(x.opened)-1]
		if s.effect&^(addsText|flows) != 0 {
			return
		}
		name := tags.find(s.key, s.more).name
		rule, ok := impliedEnds[name]
		if !ok || x.end && t.name == name {
			return
		}
		switch {
		case name == "p":
		case !x.end && slices.Contains(rule.in, t.name):
			s.within++
			return
		case x.end && slices.Contains(rule.in, t.name):
			if s.within > 0 {
				s.within, s.deep = s.within-1, 0
				return
			}
		case s.within > 0 || !slices.Contains(rule.at, t.name):
			return
		}
		x.endLast()
	}
}

// endLast removes the last open element, and adds the text that its style adds after it.
func (x *page) endLast() {
	i := len(x.opened) - 1
	s := x.opened[i]
	x.forget(i)
	if len(s.after) == 0 || s.effect&hides != 0 {
		return
	}
	w := [2]otherReading{x.out.breaks()}
	x.out.blank()
	x.out.goOnWith(w, s.after, s.turn)
}
