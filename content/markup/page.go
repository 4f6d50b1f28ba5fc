package markup

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"shuultuur/content/element"
	"shuultuur/content/media"
	"shuultuur/content/prose"
	"shuultuur/lib/language"
)

// A page converts the tokens of a document to text.
//
// Text of attributes is shown elsewhere, so it first goes to aside and joins the text at the
// next line, so that phrases stay whole. So does text in style sheets, data for scripts, and
// nested documents.
type page struct {
	out   prose.Flow
	aside prose.Flow
	xml   bool
	openTag

	depth   int    // open svg and math elements
	inHTML  bool   // HTML rules apply within them
	outside uint64 // inHTML of the elements around, one bit each
	mute    bool   // within style or script in svg

	tagContext
	nestedState
}

// An openTag is the tag that is being read.
type openTag struct {
	key, more uint64
	n         int // letters of the name
	end       bool
	slash     bool // the last byte was /, so > makes it self-closing
	prefixed  bool // its name has the prefix of a namespace
	real      bool // it ends an open element without markup
	tag       *element.Tag
	seen      uint32 // attributes that were read, one bit per kind
	gaps      uint8  // bits of noGaps
	maybe     int    // where in aside an attrMaybe begins, -1 if none
	maybeEnd  int
	asideAt   int // length of aside when the tag began
	which     [24]byte
	nWhich    int
	effect              // the effect of its style
	adds      [4]uint16 // texts that its style adds, as in nameStyle
	nAdds     int
	own       *declarations // of its style attribute
	values    []shownValue  // of attributes that a style sheet shows
	showing   int           // the current attribute: one more than the index in quotes.attrs
	valueAt   int           // in aside, where its value begins

	attr  [24]byte // the attribute's name, or the part of it that has arrived
	nAttr int      // 24: too long to matter
	kind  element.AttrKind
}

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

// noGaps says that both attributes of a table that part its cells are 0.
const noGaps = 3

// A nestedState is the state of a page for nested documents and texts.
type nestedState struct {
	source *Source // what the page is part of
	note   []byte  // raw bytes, UTF-8, that are read once they are complete
	noted  bool    // bytes are being added to note
	lost   bool    // some exceeded a limit
	how    rawKind
	css    quotes

	entities *entities // declared by an XML document

	lang   language.Tag // in the first attribute lang
	office bool         // part of an office document, in which paragraphs separate words
	tree   bool         // XML is shown as source

	space     bool   // the current attribute declares a default namespace
	transform bool   // the tree contains elements of XSLT
	literal   []byte // text that such an element adds
	strange   bool   // a default namespace unknown to browsers was declared
	sheet     []byte // of a style sheet or script in XML, in which references are decoded

	word   [prose.LongestWord]byte // word of the text that is interrupted by an element which shows nothing there
	nWord  int
	hidden string // name of that element
	turns  int    // open elements that turn their text, or are inside one

	sheets styles
	added  adder
	opened []styledElement // open elements with a style, at most mostOpen
	chain  chain
}

// A rawKind is the kind of content of a raw text element.
type rawKind uint8

const (
	rawNothing rawKind = iota
	rawMarkup
	rawStyle
	rawScript
)

// A styledElement is an open element with a style.
type styledElement struct {
	key, more uint64
	deep      int // number of open elements of its name in it
	within    int // number of open lists or tables in it, if its end tag is optional
	effect
	after []string         // text that its style adds after it, as returned by shownBy
	turn  int              // which of several texts is used
	start int              // where its text begins, counted from the beginning of all text
	words [2]prose.Reading // the words that it interrupts, in both readings
	host  *slotHost        // if it has a shadow root that has ended
}

// A chain is the word that a style sheet made of elements without text of their own.
type chain struct {
	to   int // where the last of them ended, counted from the beginning of all text
	word prose.Reading
}

var (
	htmlUTF8  = media.Describe("text/html; charset=utf-8", "")
	sheetUTF8 = media.Describe("text/css; charset=utf-8", "")
)

func (x *page) foreign() bool { return x.xml || x.depth > 0 && !x.inHTML }

// line ends the line, where text set aside may be added.
func (x *page) line() {
	x.out.TurnBack()
	x.out.Blank()
	if len(x.aside.B) > 1 {
		x.aside.TurnBack()
		x.aside.Blank()
		x.out.B = append(x.out.B, x.aside.B[1:]...)
		x.aside.Empty()
	}
	if x.turns > 0 {
		x.out.BeginReversed()
	}
}

// spill adds excessive text in aside to the text. When it does so does not depend on how the
// pieces were divided.
func (x *page) spill() {
	for len(x.aside.B) > maxAside {
		n := bytes.LastIndexByte(x.aside.B[:maxAside], ' ') + 1
		if n <= 1 {
			n = maxAside
			for x.aside.B[n]&0xC0 == 0x80 {
				n--
			}
		}
		x.out.Blank()
		x.out.B = append(x.out.B, x.aside.B[1:n]...)
		x.aside.B = x.aside.B[:1+copy(x.aside.B[1:], x.aside.B[n:])]
		x.aside.OnRemoved(n - 1)
		x.asideAt = max(1, x.asideAt-n+1)
		x.css.at = max(0, x.css.at-n+1)
		x.maybe = -1 // too long for a description
	}
}

// startNote starts keeping raw bytes, if they are wanted.
func (x *page) startNote(wanted bool) {
	x.note, x.noted = x.note[:0], wanted
}

func (x *page) takeNote(p []byte) {
	if !x.noted {
		return
	}
	if room := maxNote - len(x.note); len(p) > room {
		x.lost = x.lost || x.how == rawMarkup || !isPicture(x.note)
		p = p[:room]
	}
	if x.out.Multi {
		x.note = append(x.note, p...)
		return
	}
	for _, c := range p {
		if c < utf8.RuneSelf {
			x.note = append(x.note, c)
		} else {
			x.note = utf8.AppendRune(x.note, x.out.High[c-0x80])
		}
	}
}

// nest adds the text of a nested document to aside.
func (x *page) nest(h *media.Head, p []byte) {
	if x.source.Outer.Document(&x.aside, h, p, x.source.Scripts) {
		x.lost = true
	}
	x.spill()
}

// between splits a word at an element with its own place in the line: a picture, a field, a
// film. The element may be invisible, such as a picture without a source, so another reading
// continues the word after it.
func (x *page) between() {
	f := &x.out
	f.Settle()
	if f.Continued() && !prose.InWord(&x.out) {
		return // it is already continued, and nothing has come since
	}
	if x.end {
		var w prose.Reading
		if f.Continued() {
			w = f.Begun(0)
		}
		if f.Split(); w.N > 0 {
			f.GoOn(0, w)
		}
		return
	}
	w := f.Breaks()
	f.Blank()
	if w.N > 0 {
		w.Say = false // blank has written it
		f.GoOn(0, w)
	}
}

// skipAside begins or ends an element that shows nothing at its place. People read a word that
// it interrupts as one word, so the beginning of the word is repeated after the element.
func (x *page) skipAside() {
	switch f := &x.out; {
	case !x.end && x.hidden == "":
		f.Flush()
		switch x.nWord = 0; {
		case f.Continued():
			w := f.Begun(0)
			x.nWord = copy(x.word[:], w.Text())
		case !f.Joins:
			x.nWord = copy(x.word[:], prose.LastWord(f.B))
		}
		x.hidden = x.tag.Name
		f.Blank()
	case x.end && x.hidden == x.tag.Name:
		f.Flush()
		f.Blank()
		f.B = append(f.B, x.word[:x.nWord]...)
		x.hidden, x.nWord = "", 0
	case x.end:
		f.Split()
	default:
		f.Blank()
	}
}

// override begins or ends an element that may turn its text.
func (x *page) override() {
	x.out.Flush()
	switch {
	case x.end && x.turns > 0:
		if x.turns--; x.turns == 0 {
			x.out.TurnBack()
		}
	case !x.end && (x.turns > 0 || string(x.which[:x.nWhich]) == "rtl"):
		if x.turns++; x.turns == 1 {
			x.out.BeginReversed()
		}
	}
}

// addNamed records that the current element gets the added text with this number.
func (x *page) addNamed(added uint16) {
	if added == 0 || slices.Contains(x.adds[:x.nAdds], added) {
		return
	}
	if x.nAdds == len(x.adds) {
		x.lost = true
		return
	}
	x.adds[x.nAdds] = added
	x.nAdds++
}

// forget drops an open element.
func (x *page) forget(i int) {
	s := x.opened[i]
	if s.effect&turns != 0 {
		x.turns = max(0, x.turns-1)
	}
	x.opened = append(x.opened[:i], x.opened[i+1:]...)
	if s.host != nil {
		x.closeHost(s.host)
	}
}

// closeHost ends an element with a shadow root.
func (x *page) closeHost(h *slotHost) {
	if text, ok := x.slots.close(&x.out, h); ok {
		x.aside.Blank()
		x.aside.B = append(x.aside.B, bytes.Join(bytes.Fields([]byte(text)), []byte{' '})...)
		x.aside.Blank()
		x.spill()
	}
}
