package content

// This file handles tags that may or may not separate words: browsers ignore an end tag of an
// element that is not open, and a start tag where its element is not allowed. The open
// elements are not tracked here, so a word that contains such a tag without blanks is read
// both in parts and as a whole.

// A place is where browsers accept the start tag of an element.
type place uint8

const (
	anywhere place = iota
	onlyOnce       // html, head, body and frames: ignored in the text of a page
	inTables
	inNoForm
	itsTable // the table itself
)

var places = map[string]place{
	"html": onlyOnce, "head": onlyOnce, "body": onlyOnce, "frame": onlyOnce, "frameset": onlyOnce,
	"caption": inTables, "colgroup": inTables, "tbody": inTables, "thead": inTables, "tfoot": inTables, "tr": inTables, "td": inTables, "th": inTables,
	"form": inNoForm, "table": itsTable,
}

// noGaps says that both attributes of a table that part its cells are 0.
const noGaps = 3

// A tagContext is the state of the elements around a tag.
type tagContext struct {
	slots   slots
	starts  [8]started // the last start tags without an end tag
	nStarts uint       // the last of them
	linked  []byte     // URL of a style sheet in the current tag
	tables  int        // open ones
	tight   uint64     // whether nothing parts their cells, one bit each, the innermost lowest
	inForm  bool
}

// A started is the start tag of an element.
type started struct {
	key, more uint64
	at        int // where its text begins, counted from the beginning of all text
}

// A splitWord is where a tag that may not count split a word.
type splitWord struct {
	to   int // length of the text after the split, 0 if there was none
	word int // where the first part ends
}

// block begins or ends an element that is a block: it begins a line.
func (x *page) block(t *tag) {
	ignored := x.end && t.name != "p" && t.name != "br"
	switch t.place {
	case onlyOnce:
		ignored = true
	case inTables:
		ignored = ignored || x.tables == 0
	case inNoForm:
		ignored = ignored || x.inForm
		x.inForm = !x.end
	case itsTable:
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
		partLine(x)
		return
	}
	x.out.parting.to = 0
	x.line()
}

// partLine ends the line, and the word, which another reading continues.
func partLine(x *page) {
	p := x.out.parts()
	x.line()
	if p.to > 0 {
		p.to = len(x.out.b)
		x.out.parting = p
	}
}

// parts ends the current word, and returns where it was split.
func (f *flow) parts() splitWord {
	p := f.parting
	again := p.to == len(f.b)
	if !again && !inWord(f) && !f.has {
		f.blank()
		return splitWord{}
	}
	f.blank()
	if !again {
		p.word = len(f.b) - 1
	}
	p.to = len(f.b)
	return p
}

// rejoin continues the split word with the following text, which begins with c.
func (f *flow) rejoin(c byte) {
	p := f.parting
	f.parting.to = 0
	if p.to != len(f.b) || isSpace(c) || f.has && f.further[0].at == len(f.b) {
		return
	}
	var w otherReading
	if w.n = copy(w.word[:], lastWord(f.b[:p.word])); w.n > 0 {
		f.goOn(2, w)
	}
}

// shadow begins or ends a declarative shadow root (HTML section 4.12.3): its text is shown in
// place of other text of the element around it.
func shadow(x *page) {
	if !x.end {
		openHost(x)
		return
	}
	f := &x.out
	f.settle()
	host := closeRoot(x)
	s := styledElement{key: host.key[0], more: host.key[1], effect: hides, host: host}
	s.words = [2]otherReading{f.begun(&f.further[0]), f.begun(&f.further[1])}
	f.parting = f.parts()
	s.start = f.gone + len(f.b)
	x.slots.from = s.start
	if len(x.opened) == mostOpen {
		x.forget(0)
	}
	x.opened = append(x.opened, s)
}

// mostHosts is the limit of nested shadow roots.
const mostHosts = 16

// isShadow reports whether the current template begins or ends a shadow root.
func isShadow(x *page) bool {
	if x.end {
		return len(x.slots.hosts) > 0 && x.hidden == ""
	}
	which := string(x.which[:x.nWhich])
	if which != "open" && which != "closed" || x.hidden != "" {
		return false
	}
	x.lost = x.lost || len(x.slots.hosts) == mostHosts
	return len(x.slots.hosts) < mostHosts
}

// unmarked begins or ends an element whose content is text without markup.
func unmarked(x *page, t *tag) {
	switch {
	case breaksWord(x, t):
		x.skipAside()
	case x.end && !x.real && x.depth == 0:
		partLine(x)
	default:
		x.line()
	}
}

// breaksWord reports whether an element that shows nothing at its place, such as a title,
// begins within a word, or ends after that.
func breaksWord(x *page, t *tag) bool {
	if x.end {
		return x.hidden == t.name
	}
	f := &x.out
	return x.hidden == "" && (inWord(f) || f.has && f.further[0].at == len(f.b)) && (t.name == "title" || t.name == "desc" || x.effect&hides != 0)
}
