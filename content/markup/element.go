package markup

import (
	"bytes"
	"slices"

	"shuultuur/content/element"
	"shuultuur/content/prose"
)

// This file handles words whose visible letters differ from the source because of style:
// elements within a word that show nothing, blocks that begin no line, text that a style sheet
// adds or turns. The meaning of a class may be in an external sheet, and which rule of a sheet
// applies depends on all of them. So further readings of such a word are written after it: one
// without the text that is certainly hidden, one without all that may be hidden.
//
// Elements may have no end tag. Text that a style sheet adds after one is inserted where it ends.

// styled applies a tag together with its style, if it has one, and reports whether it did.
func (x *page) styled(t *element.Tag) bool {
	switch {
	case x.transform && x.prefixed: // an element of XSLT separates nothing
		x.effect |= flows
	case x.effect == 0 && x.nAdds == 0 && len(x.opened) == 0 && x.tight&1 == 0 && !x.sheets.mayMatch(t), x.tree, t.Kind >= element.Meta && t.Kind != element.Input:
		return false
	}
	if t.Kind == element.Block && !x.xml {
		x.endImplied(t)
	}
	if x.end {
		return x.leave(t)
	}
	if n := len(x.opened); n > 0 && x.opened[n-1].key == x.key && x.opened[n-1].more == x.more && !element.IsVoid(t) {
		x.opened[n-1].deep++
	}
	e := x.styleOf(t)
	if e == 0 {
		return false
	}
	f := &x.out
	f.Settle()
	broken := f.InAnyWord()
	if !broken && e&^(hides|mayHide) == 0 && t.Kind == element.Block {
		return false
	}
	s := styledElement{key: x.key, more: x.more, effect: e}
	if broken {
		s.words = [2]prose.Reading{f.Begun(0), f.Begun(1)}
	}
	if e&flows != 0 {
		f.DropReadings()
	}
	x.plain(t)
	s.start = f.Position()
	if element.IsVoid(t) && !x.xml {
		if e&(hides|mayHide|flows) != 0 {
			x.showNothing(&s)
		}
		return true
	}
	chained := x.chain.to == s.start
	before, turn := x.shownBy(&s)
	if e&flows != 0 && broken || len(before) > 0 {
		var w [2]prose.Reading
		switch {
		case broken && (e&flows != 0 || t.Kind != element.Block):
			w = s.words
		case chained:
			w[0] = x.chain.word
		}
		f.GoOnWith(w, before, turn)
	}
	if x.slash && x.foreign() {
		return true
	}
	if e&turns != 0 {
		if x.turns++; x.turns == 1 {
			f.BeginReversed()
		}
	}
	if len(x.opened) == mostOpen {
		x.forget(0)
	}
	x.opened = append(x.opened, s)
	return true
}

// styleOf returns the effect of style on the element of a start tag.
func (x *page) styleOf(t *element.Tag) (e effect) {
	e = x.effect
	if x.sheets.n > 0 {
		e |= x.sheets.any
		s := x.sheets.find(x.sheets.element(t, x.key, x.more))
		e |= s.effect
		x.addNamed(s.added)
		x.addNamed(x.sheets.all)
	}
	if x.nAdds > 0 {
		e |= addsText
	}
	if x.tight&1 != 0 && (t.Name == "td" || t.Name == "th") {
		e |= flows
	}
	inline := t.Kind == element.Inline || t.Kind == element.Turned || t.Kind == element.Unknown
	if n := len(x.opened); n > 0 && x.opened[n-1].effect&lays != 0 && t.Kind == element.Block {
		e |= flows
	}
	if !inline && e&flows == 0 {
		e &^= rightTo
	}
	if inline && !x.xml {
		e &^= flows
	}
	if e&rightTo != 0 {
		e |= turns
	}
	if e&hides != 0 {
		e |= mayHide
	}
	return e &^ rightTo
}

// leave applies an end tag if it ends an element with a style, and reports whether it did.
func (x *page) leave(t *element.Tag) bool {
	i := len(x.opened) - 1
	for ; i >= 0; i-- {
		if s := &x.opened[i]; s.key == x.key && s.more == x.more {
			break
		}
	}
	if i < 0 {
		return false
	}
	if x.opened[i].deep > 0 {
		x.opened[i].deep--
		return false
	}
	s := x.opened[i]
	x.forget(i)
	f := &x.out
	f.Settle()
	if s.effect&turns != 0 && x.turns == 0 {
		f.TurnBack()
	}
	w := [2]prose.Reading{x.out.Breaks()}
	if len(s.after) > 1 {
		w[1] = f.Begun(1)
	}
	added := s.effect&addsText != 0 && s.start == f.Position()
	if added && w[0].N == 0 && x.chain.to == s.start {
		w[0] = x.chain.word
	}
	x.plain(t)
	if s.effect&(hides|mayHide) != 0 {
		x.showNothing(&s)
	}
	if len(s.after) > 0 || s.effect&(flows|hides) == flows && w[0].N > 0 {
		f.GoOnWith(w, s.after, s.turn)
		if t.Kind == element.Block && s.effect&flows == 0 {
			f.Blank() // the following text is on another line
		}
	}
	if added {
		x.chainAfter(w[0], s.after)
	}
	return true
}

// endImplied removes the open elements that end before a block.
func (x *page) endImplied(t *element.Tag) {
	for len(x.opened) > 0 {
		s := &x.opened[len(x.opened)-1]
		if s.effect&^(addsText|flows) != 0 {
			return
		}
		name := element.Find(s.key, s.more).Name
		rule, ok := impliedEnds[name]
		if !ok || x.end && t.Name == name {
			return
		}
		switch {
		case name == "p":
		case !x.end && slices.Contains(rule.in, t.Name):
			s.within++
			return
		case x.end && slices.Contains(rule.in, t.Name):
			if s.within > 0 {
				s.within, s.deep = s.within-1, 0
				return
			}
		case s.within > 0 || !slices.Contains(rule.at, t.Name):
			return
		}
		x.endLast()
	}
}

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

// endLast removes the last open element, and adds the text that its style adds after it.
func (x *page) endLast() {
	i := len(x.opened) - 1
	s := x.opened[i]
	x.forget(i)
	if len(s.after) == 0 || s.effect&hides != 0 {
		return
	}
	w := [2]prose.Reading{x.out.Breaks()}
	x.out.Blank()
	x.out.GoOnWith(w, s.after, s.turn)
}

// plain applies a tag regardless of its style.
func (x *page) plain(t *element.Tag) {
	switch t.Kind {
	case element.Unknown:
		if x.xml {
			x.line()
		}
		return
	case element.Inline, element.Hidden, element.Meta:
	case element.Aside:
		if t.Name == "template" && x.isShadow() {
			x.shadow()
		} else if x.skipAside(); t.Name == "template" {
			x.slots.from = x.out.Position() // after the beginning of a word that is repeated
		}
	case element.Turned:
		x.override()
	case element.Input:
		if string(x.which[:x.nWhich]) != "hidden" && !x.end {
			x.out.Blank()
		}
	case element.Word:
		x.between()
	case element.Block:
		if x.end || t.Place != element.Anywhere {
			x.block(t)
		} else {
			x.out.Unsplit()
			x.line()
		}
	default: // has its own rules
		return
	}
	if t.Out && x.depth > 0 && !x.inHTML && (!x.end || t.Name == "p" || t.Name == "br") {
		x.rawEnd()
		x.depth = 0
	}
}

// shownBy returns the texts that style sheets add before the current element, and the turn
// among them. It stores the texts added after it in s.
func (x *page) shownBy(s *styledElement) (before []string, turn int) {
	x.added.element(x.sheets.named, x.css.attrs, x.values, x.source.Work)
	for _, i := range x.adds[:x.nAdds] {
		a := &x.sheets.added[i-1]
		before = x.evaluate(before, a.before)
		s.after = x.evaluate(s.after, a.after)
		turn = max(turn, a.turn)
		a.turn++
	}
	if x.own != nil {
		before = x.evaluate(before, x.own.own.before)
		s.after = x.evaluate(s.after, x.own.own.after)
	}
	if len(x.literal) > 0 {
		before = append(before, string(x.literal))
	}
	s.turn = turn
	return before, turn
}

// evaluate appends the texts of values for the current element.
func (x *page) evaluate(to []string, values []addedValue) []string {
	if !x.added.mayAdd(len(values)) {
		return to
	}
	for _, v := range values {
		if !v.varies {
			to = append(to, v.text)
			continue
		}
		for _, text := range x.added.textsOf(nil, []byte(v.text), 0) {
			text := plainValue([]byte(text))
			if text == "" {
				continue
			}
			to = append(to, text)
			if !slices.ContainsFunc(x.values, func(v shownValue) bool { return v.text == text }) {
				x.aside.Blank()
				x.aside.B = append(x.aside.B, bytes.TrimLeft([]byte(text), " ")...)
				x.aside.Blank()
				x.spill()
			}
		}
	}
	if len(to) > mostValues {
		x.lost = true
		to = to[:mostValues]
	}
	return to
}

// chainAfter keeps the word of an element that has no text but what a style sheet adds: the
// text that one adds to the next element may continue it, if a style in a later or an external
// sheet sets them side by side.
func (x *page) chainAfter(w prose.Reading, after []string) {
	if len(after) > 0 {
		w.Add([]byte(after[len(after)-1]))
	}
	w.Say = true
	x.chain = chain{to: x.out.Position(), word: w}
}

// showNothing continues the word that an element interrupts after it.
func (x *page) showNothing(s *styledElement) {
	f := &x.out
	at := f.Index(s.start)
	glued := at > 0 && at < len(f.B) && f.B[at] != ' ' && f.B[at-1] != ' '
	if s.effect&hides == 0 && !(glued && prose.InWord(&x.out)) {
		return // without the sheet, people read several words
	}
	for i, w := range s.words {
		if s.effect&hides == 0 && (i == 0 || w.N == 0) {
			continue
		}
		w.Say = w.Say || glued && w.N > 0
		f.GoOn(i, w)
	}
}
