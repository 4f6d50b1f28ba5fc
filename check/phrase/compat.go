package phrase

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"shuultuur/lib/ascii"
)

// A dialect is how one of the older programs prepares a page: which bytes become blanks, and
// whether phrases are mapped in the same way.
type dialect struct {
	blank      [256]bool
	mapPhrases bool

	smart  table // for text between tags
	markup table // for a page with its markup
	alone  table // the same, where it is the only view of a page
	head   table // for titles and meta elements
}

// A table maps bytes, without and with folding. 0 marks a byte that needs special treatment.
type table [2][256]byte

// newDialect returns the dialect of a value of the setting compat.
func newDialect(compat string) *dialect {
	d := new(dialect)
	set := func(chars string) {
		for _, c := range []byte(chars) {
			d.blank[c] = true
		}
	}
	set(" \r\n\t")
	below := func(end byte) {
		for c := range end {
			d.blank[c] = true
		}
	}
	alone, head := "<>", ""
	switch compat {
	case "dansguardian":
	case "e2guardian-5.3":
		below('.')
		set(":;?[\\]^_`")
		alone, head = "<>=@", ".="
	case "e2guardian-5.5":
		below('/')
		set(":;=?@[\\]^_`")
		d.mapPhrases = true
	}
	d.smart = d.table("")
	d.markup, d.alone, d.head = d.table("<>"), d.table(alone), d.table(head)
	for i := range d.smart {
		d.smart[i]['<'], d.smart[i]['>'] = 0, 0
		d.head[i]['<'] = 0
	}
	return d
}

// table returns the table in which the characters of also are blanks, too.
func (d *dialect) table(also string) (t table) {
	for c := range 256 {
		switch {
		case d.blank[c] || strings.IndexByte(also, byte(c)) >= 0:
			t[0][c], t[1][c] = ' ', ' '
		default:
			t[0][c] = byte(c)
			if c < utf8.RuneSelf {
				t[1][c] = ascii.Lower(byte(c))
			}
		}
	}
	return t
}

// phrase returns p in the form that the dialect searches for.
func (d *dialect) phrase(p []byte) []byte {
	if !d.mapPhrases {
		return p
	}
	return d.mapped(p)
}

// alive returns nil if p can match, or else a phrase that would. A phrase that is not mapped
// may contain a character that is a blank on every page.
func (d *dialect) alive(p []byte) []byte {
	for _, c := range p {
		if c != ' ' && d.blank[c] {
			return d.mapped(p)
		}
	}
	return nil
}

// mapped returns p with blanks where a page would have them.
func (d *dialect) mapped(p []byte) []byte {
	q := make([]byte, 0, len(p))
	for _, c := range p {
		if d.blank[c] {
			c = ' '
		}
		if c == ' ' && len(q) > 0 && q[len(q)-1] == ' ' {
			continue
		}
		q = append(q, c)
	}
	return q
}

// foldChar appends the first character of src in lower case to dst, and returns its length in
// src.
//
// The older programs add 32 to A-Z and to every byte of a page from 0xC0 to 0xDD. That is
// right for Latin-1 and windows-1251 but destroys UTF-8: no phrase with such a byte can match,
// so all Greek and most Cyrillic phrases are dead. We do not copy this fault: well-formed
// UTF-8 is folded as such.
func foldChar(dst, src []byte) ([]byte, int) {
	c := src[0]
	if c < utf8.RuneSelf {
		return append(dst, ascii.Lower(c)), 1
	}
	if r, n := utf8.DecodeRune(src); n > 1 {
		return utf8.AppendRune(dst, unicode.ToLower(r)), n
	}
	if 0xC0 <= c && c <= 0xDD {
		c += 32
	}
	return append(dst, c), 1
}

// foldBytes returns src in lower case, as by foldChar.
func foldBytes(src []byte) []byte {
	dst := make([]byte, 0, len(src)+8)
	for i := 0; i < len(src); {
		var n int
		dst, n = foldChar(dst, src[i:])
		i += n
	}
	return dst
}

// A pass is one search of a page, in one view.
type pass struct {
	fold  bool // in lower case
	smart bool // without markup and with single blanks
	alone bool // with markup, and no other pass searches the page without it
	head  bool // only titles and meta elements
}

// passes returns the passes for phrasefiltermode and preservecase, in order. No pass follows
// one that led to a verdict. e2guardian searches both cases only with the markup: modes 1 and
// 3 always fold.
func passes(filterMode, preserveCase int) []pass {
	folded := preserveCase != 1
	var ps []pass
	switch filterMode {
	case 0:
		ps = []pass{{fold: folded, alone: true}}
	case 1:
		return []pass{{fold: folded, smart: true}}
	case 2:
		ps = []pass{{fold: folded, smart: true}, {fold: folded}}
	case 3:
		return []pass{{fold: folded, smart: true, head: true}}
	}
	if preserveCase == 2 {
		for _, p := range ps {
			p.fold = false
			ps = append(ps, p)
		}
	}
	return ps
}

// A view is a page as one pass searches it, produced piece by piece.
type view struct {
	pass
	table *table
	src   []byte
	whole bool // no more of the page comes
	begun bool
	inTag bool
	last  byte // last byte produced
}

// view returns the view of a page for a pass.
func (d *dialect) view(p pass, page []byte) view {
	v := view{pass: p, table: &d.markup, src: page, whole: true}
	switch {
	case p.head:
		v.table = &d.head
	case p.smart:
		v.table = &d.smart
	case p.alone:
		v.table = &d.alone
	}
	return v
}

// next appends the next piece of the view to dst, up to its capacity. At the end it returns
// dst unchanged.
//
// The smart view begins with a blank, so that "< word" matches the first word. Every tag is a
// blank in it, and blanks are not repeated. The raw view is the page with "<" and ">" as
// blanks.
func (v *view) next(dst []byte) []byte {
	if v.smart && !v.begun {
		dst = append(dst, ' ')
		v.last = ' '
	}
	v.begun = true
	room := cap(dst) - utf8.UTFMax
	for len(v.src) > 0 && len(dst) < room {
		if v.inTag {
			end := bytes.IndexByte(v.src, '>')
			if end < 0 {
				v.src = nil
				break
			}
			v.inTag, v.src = false, v.src[end:]
		}
		dst = v.run(dst, room)
		if len(v.src) == 0 || len(dst) >= room {
			break
		}
		n := 1
		switch c := v.src[0]; {
		case v.head && c == '<': // the end of a title or meta element
			dst = append(dst, ' ')
			v.last = ' '
		case v.smart && c == '<':
			v.inTag = true
		case v.smart && c == '>':
			if v.last != ' ' {
				dst = append(dst, ' ')
				v.last = ' '
			}
		case v.fold && !v.whole && !utf8.FullRune(v.src):
			return dst // the rest of the character comes
		case v.fold:
			dst, n = foldChar(dst, v.src)
			v.last = dst[len(dst)-1]
		default: // a byte of 0 that is not a blank
			dst = append(dst, c)
			v.last = c
		}
		v.src = v.src[n:]
	}
	return dst
}

// run appends bytes of v.src up to the next one that needs special treatment, or up to room.
func (v *view) run(dst []byte, room int) []byte {
	fold := 0
	if v.fold {
		fold = 1
	}
	n := len(dst)
	if !v.smart {
		src := v.src[:min(len(v.src), room-n)]
		out, plain := dst[n:][:len(src)], &v.table[fold]
		i := 0
		for ; i < len(src); i++ {
			c := plain[src[i]]
			if c == 0 {
				break
			}
			out[i] = c
		}
		v.src = v.src[i:]
		return dst[:n+i]
	}
	src, out, plain := v.src, dst[:room], &v.table[fold]
	i, last := 0, v.last
	for ; i < len(src) && n < len(out); i++ {
		c := plain[src[i]]
		if c == 0 {
			break
		}
		out[n] = c
		next := n + 1
		if (c^' ')|(last^' ') == 0 { // both are blanks; this compiles without a branch
			next = n
		}
		n, last = next, c
	}
	v.src, v.last = src[i:], last
	return dst[:n]
}

// appendHead appends to dst the titles and meta tags in the head of the page: before "</head",
// or else before "<body". As in e2guardian, each begins one character after the name of the
// tag and ends at the next "<" or ">". A "<" in dst ends each: it is a blank there even after
// another blank.
func appendHead(dst, page []byte) []byte {
	end := indexFold(page, "</head")
	if end < 0 {
		end = indexFold(page, "<body")
	}
	if end >= 0 {
		page = page[:end]
	}
	for {
		var found bool
		if _, page, found = bytes.Cut(page, []byte("<")); !found {
			return dst
		}
		n := 0
		switch {
		case hasPrefixFold(page, "title"):
			n = len("title")
		case hasPrefixFold(page, "meta"):
			n = len("meta")
		default:
			continue
		}
		page = page[min(n+1, len(page)):]
		if n = bytes.IndexAny(page, "<>"); n < 0 {
			n = len(page)
		}
		dst = append(append(dst, page[:n]...), '<')
		page = page[min(n+1, len(page)):]
	}
}

// hasPrefixFold reports whether p begins with prefix, which is lower case ASCII.
func hasPrefixFold(p []byte, prefix string) bool {
	return len(p) >= len(prefix) && bytes.EqualFold(p[:len(prefix)], []byte(prefix))
}

// indexFold returns the first index of s, which is lower case ASCII, in p, or -1.
func indexFold(p []byte, s string) int {
	lower, upper := s[0], s[0]
	if 'a' <= lower && lower <= 'z' {
		upper -= 'a' - 'A'
	}
	for i := 0; i+len(s) <= len(p); i++ {
		if (p[i] == lower || p[i] == upper) && hasPrefixFold(p[i:], s) {
			return i
		}
	}
	return -1
}

// appendUnhexed appends src[from:] to dst with every %XX decoded, except in the last three bytes,
// which e2guardian does not decode. It returns where it ended: before the last three bytes, unless
// src is whole.
func appendUnhexed(dst, src []byte, from int, whole bool) ([]byte, int) {
	for {
		i := bytes.IndexByte(src[from:], '%')
		if i < 0 || from+i+3 >= len(src) {
			to := len(src)
			if i >= 0 && !whole {
				to = from + i
			}
			return append(dst, src[from:to]...), to
		}
		dst = append(dst, src[from:from+i]...)
		from += i
		a, b := ascii.Unhex(src[from+1]), ascii.Unhex(src[from+2])
		if a >= 0 && b >= 0 {
			dst = append(dst, byte(a<<4|b))
			from += 3
			continue
		}
		dst = append(dst, '%')
		from++
	}
}
