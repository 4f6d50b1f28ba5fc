package markup

import (
	"shuultuur/content/element"
	"shuultuur/content/prose"
)

// block begins or ends an element that is a block: it begins a line.
func (x *page) block(t *element.Tag) {
	ignored := x.end && t.Name != "p" && t.Name != "br"
	switch t.Place {
	case element.OnlyOnce:
		ignored = true
	case element.InTables:
		ignored = ignored || x.tables == 0
	case element.InNoForm:
		ignored = ignored || x.inForm
		x.inForm = !x.end
	case element.ItsTable:
		if !x.end {
			x.tables++
			x.tight <<= 1
			if x.gaps == noGaps {
				x.tight |= 1
			}
		} else if x.tables > 0 {
			x.tables--
			x.tight >>= 1
		}
	}
	if ignored && !x.xml {
		x.partLine()
		return
	}
	x.out.Unsplit()
	x.line()
}

// partLine ends the line, and the word, which another reading continues.
func (x *page) partLine() {
	p := x.out.Parts()
	x.line()
	x.out.SplitAt(p)
}

// unmarked begins or ends an element whose content is text without markup.
func (x *page) unmarked(t *element.Tag) {
	switch {
	case x.breaksWord(t):
		x.skipAside()
	case x.end && !x.real && x.depth == 0:
		x.partLine()
	default:
		x.line()
	}
}

// breaksWord reports whether an element that shows nothing at its place, such as a title,
// begins within a word, or ends after that.
func (x *page) breaksWord(t *element.Tag) bool {
	if x.end {
		return x.hidden == t.Name
	}
	f := &x.out
	return x.hidden == "" && (prose.InWord(f) || f.Continued()) && (t.Name == "title" || t.Name == "desc" || x.effect&hides != 0)
}
