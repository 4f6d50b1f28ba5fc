package content

// This file is about tags that may part a word or not: browsers ignore an end tag
// of what is not open, and a start tag where its element cannot stand. Which
// elements are open is not known here, so a word that such a tag breaks, with no
// blank on either side, is read in parts and as a whole.

// A place is where browsers take the start tag of an element.
type place uint8

const (
	anywhere place = iota
	onlyOnce       // html, head, body and frames: ignored within a page's text
	inTables
	inNoForm
	itsTable // the table itself
)

var places = map[string]place{
	"html": onlyOnce, "head": onlyOnce, "body": onlyOnce, "frame": onlyOnce, "frameset": onlyOnce,
	"caption": inTables, "colgroup": inTables, "tbody": inTables, "thead": inTables, "tfoot": inTables, "tr": inTables, "td": inTables, "th": inTables,
	"form": inNoForm, "table": itsTable,
}

// An around is what is known of the elements around a tag.
type around struct {
	hosts  [][2]uint64 // names of those with an open shadow root
	host   [2]uint64   // of the last start tag
	tables int         // open ones
	inForm bool
}

// A parting is where a word was parted by a tag that may not count.
type parting struct {
	to   int // length of the text after that, 0 if it was not
	word int // where the word ends
}

// block begins a line for an element that is no part of a line, or its end.
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
		} else if x.tables > 0 {
			x.tables--
		}
	}
	if ignored && !x.xml {
		partLine(x)
		return
	}
	x.out.parting.to = 0
	x.line()
}

// partLine ends the line, and with it a word that may go on.
func partLine(x *page) {
	p := x.out.parts()
	x.line()
	if p.to > 0 {
		p.to = len(x.out.b)
		x.out.parting = p
	}
}

// parts ends the word at hand, and returns where it was parted.
func (f *flow) parts() parting {
	p := f.parting
	again := p.to == len(f.b)
	if !again && !f.inWord() && !f.has {
		f.blank()
		return parting{}
	}
	f.blank()
	if !again {
		p.word = len(f.b) - 1
	}
	p.to = len(f.b)
	return p
}

// rejoin has the word that was parted go on with what follows, which begins with c.
func (f *flow) rejoin(c byte) {
	p := f.parting
	f.parting.to = 0
	if p.to != len(f.b) || isSpace(c) || f.has && f.further[0].at == len(f.b) {
		return
	}
	var w further
	if w.n = copy(w.word[:], lastWord(f.b[:p.word])); w.n > 0 {
		f.goOn(2, w)
	}
}

// shadow begins or ends a declarative shadow root (HTML, 4.12.3): its text stands
// where the element around it does, whose other text may not be shown.
func shadow(x *page) {
	if !x.end {
		x.between()
		x.hosts = append(x.hosts, x.host)
		return
	}
	host := x.hosts[len(x.hosts)-1]
	x.hosts = x.hosts[:len(x.hosts)-1]
	f := &x.out
	f.settle()
	s := styledElement{key: host[0], more: host[1], effect: hides}
	s.words = [2]further{f.begun(&f.further[0]), f.begun(&f.further[1])}
	f.parting = f.parts()
	s.start = f.gone + len(f.b)
	if len(x.opened) == mostOpen {
		x.forget(0)
	}
	x.opened = append(x.opened, s)
}

// mostHosts is how many shadow roots stand in one another.
const mostHosts = 16

// isShadow says whether the template at hand begins or ends a shadow root.
func isShadow(x *page) bool {
	if x.end {
		return len(x.hosts) > 0 && x.hidden == ""
	}
	which := string(x.which[:x.nWhich])
	if which != "open" && which != "closed" || x.hidden != "" {
		return false
	}
	x.lost = x.lost || len(x.hosts) == mostHosts
	return len(x.hosts) < mostHosts
}

// unmarked begins or ends an element whose content is text without markup.
func unmarked(x *page, t *tag) {
	switch {
	case breaksWord(x, t):
		x.sideways()
	case x.end && !x.real && x.depth == 0:
		partLine(x)
	default:
		x.line()
	}
}

// breaksWord says whether an element that shows nothing where it stands, as a title
// does, begins within a word, or ends having done so.
func breaksWord(x *page, t *tag) bool {
	if x.end {
		return x.hidden == t.name
	}
	f := &x.out
	return x.hidden == "" && (f.inWord() || f.has && f.further[0].at == len(f.b)) && (t.name == "title" || t.name == "desc" || x.effect&hides != 0)
}
