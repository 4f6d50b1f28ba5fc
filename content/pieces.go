package content

import (
	"bytes"
	"encoding/base64"
	"unicode"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// This file is about text that a program makes of what a body holds: strings of
// JSON that it puts together, and base64 that it undoes. The one is what
// assistants send as an array or as lines, the other what interfaces to files
// answer with. As nobody says that it will be done, the result is said besides.

const (
	endLen      = 256     // of a long string, looked at from either end
	saidLen     = 4 << 10 // of base64, after which its text is said
	mostWaiting = 256     // of what is put together where nothing tells yet that it is text
	joints      = 8
)

// A jsonPieces reads JSON beside its text.
type jsonPieces struct {
	deep   int
	kind   [mostJSONDeep + 1]byte   // { or [, by depth
	place  [mostJSONDeep + 1]uint64 // of values, by depth
	name   bool                     // a string is a name here
	in     bool                     // a string
	escape bool                     // a backslash came last
	cur    []byte                   // of the string: its beginning, and all of it if it is short
	tail   []byte                   // and its end, if it is long
	long   bool
	at     int // bytes of it
	based  based
	joints [joints]joint
	clock  uint32
	codes  charCodes
	words  []byte // to be said
}

// A joint is a place at which strings stand that may belong together.
type joint struct {
	place uint64
	used  uint32
	prose bool   // one of them had a blank
	end   []byte // letters that the last one ended with
	wait  []byte // words put together while none had
}

// read reads on in p and returns how much of it: up to where there is something
// to say, or all.
func (j *jsonPieces) read(p []byte, t *text) (n int, say bool) {
	for i := 0; i < len(p); {
		if j.in {
			// What base64 holds is said at the same places however it comes.
			rest := p[i:]
			n := j.inside(rest[:min(len(rest), saidLen-j.at%saidLen)], t)
			i += n
			j.at += n
			if len(j.words) > 0 || len(j.based.text.b) > 1 && (!j.in || j.at%saidLen == 0) {
				return i, true
			}
			continue
		}
		switch c := p[i]; c {
		case '"':
			j.in, j.long, j.at, j.cur, j.tail = true, false, 0, j.cur[:0], j.tail[:0]
			if !j.name {
				j.codes.odd = true
			}
		case '{', '[':
			j.sayCodes()
			j.push(c)
		case '}', ']':
			j.sayCodes()
			if j.deep > 0 {
				j.deep--
			}
			j.name = false
		case ',':
			if j.codes.add(); len(j.codes.text) >= saidLen {
				j.sayCodes()
			}
			j.name = j.deep <= mostJSONDeep && j.kind[j.deep] == '{'
		case ':':
			j.name = false
		default:
			j.codes.digit(c)
		}
		i++
		if len(j.words) > 0 {
			return i, true
		}
	}
	return len(p), false
}

// charCodes are the numbers of an array or object, which may be those of
// characters.
type charCodes struct {
	n     rune
	has   bool
	odd   bool // there are other values, or other numbers
	text  []byte
	words int // letters and blanks in it
	all   int
}

// fewCodes is how many numbers may happen to be letters.
const fewCodes = 4

// digit takes a byte that may be one of a number.
func (k *charCodes) digit(c byte) {
	switch {
	case c >= '0' && c <= '9':
		k.n = min(k.n*10+rune(c-'0'), unicode.MaxRune+1)
		k.has = true
	case !isSpace(c):
		k.odd = true
	}
}

// add ends a number.
func (k *charCodes) add() {
	if !k.has || k.odd {
		return
	}
	if k.n < '\t' || k.n >= 0x7F && k.n < 0xA0 || k.n > unicode.MaxRune {
		k.odd = true
		return
	}
	if k.all++; unicode.IsLetter(k.n) || k.n == ' ' {
		k.words++
	}
	k.text = utf8.AppendRune(k.text, k.n)
	k.n, k.has = 0, false
}

// sayCodes ends an array or object, or a long part of one, and says the text whose
// characters it has the numbers of.
func (j *jsonPieces) sayCodes() {
	k := &j.codes
	k.add()
	text := k.text
	if !k.odd && k.all >= fewCodes && k.words*4 >= k.all*3 {
		j.words = append(append(j.words, text...), '\n')
	}
	*k = charCodes{text: text[:0]}
}

func (j *jsonPieces) push(kind byte) {
	if j.deep++; j.deep <= mostJSONDeep {
		j.kind[j.deep], j.place[j.deep] = kind, 1
	}
	j.name = kind == '{'
}

// inside reads on in a string.
func (j *jsonPieces) inside(p []byte, t *text) int {
	for n := 0; ; n++ {
		k := bytes.IndexByte(p[n:], '"')
		if k < 0 {
			j.escape = escapes(p, j.escape)
			j.keep(p, t)
			return len(p)
		}
		if n += k; !escapes(p[:n], j.escape) {
			j.escape = false
			j.keep(p[:n], t)
			j.end(t)
			return n + 1
		}
	}
}

// escapes says whether what follows p, within a string, is escaped; before says
// it of p's first byte.
func escapes(p []byte, before bool) bool {
	n := 0
	for n < len(p) && p[len(p)-1-n] == '\\' {
		n++
	}
	if n == len(p) && before {
		n++
	}
	return n&1 == 1
}

// keep keeps what is looked at of a string.
func (j *jsonPieces) keep(p []byte, t *text) {
	if room := 2*endLen - len(j.cur); !j.long {
		if len(p) <= room {
			j.cur = append(j.cur, p...)
			return
		}
		j.cur = append(j.cur, p[:room]...)
		p = p[room:]
		j.long = true
		j.tail = append(j.tail[:0], j.cur[endLen:]...)
		if coded := j.cur[dataPrefix(j.cur):]; !j.name && isBase64(coded) {
			j.based.open(t)
			j.based.write(coded, true)
		}
	}
	j.based.write(p, true)
	if len(p) >= endLen {
		j.tail = append(j.tail[:0], p[len(p)-endLen:]...)
		return
	}
	j.tail = append(j.tail, p...)
	if drop := len(j.tail) - endLen; drop > 0 {
		j.tail = j.tail[:copy(j.tail, j.tail[drop:])]
	}
}

// end ends a string.
func (j *jsonPieces) end(t *text) {
	j.in = false
	j.based.close(t)
	switch {
	case j.deep > mostJSONDeep:
		return
	case j.name:
		j.place[j.deep] = xxh3.Hash(j.cur)
		return
	}
	s := unescaped(j.cur)
	last := s
	switch {
	case j.long:
		last = unescaped(j.tail)
	case bytes.IndexByte(s, ' ') >= 0:
	case len(s) >= shortBase64:
		text := textOfBase64(s[dataPrefix(s):])
		if text != nil {
			if hasMarkup(text) {
				text = appendPage(nil, text)
			}
			j.words = append(append(j.words, text...), '\n')
			break
		}
		fallthrough
	default:
		if text := unpercented(s); len(text) < len(s) {
			j.words = append(append(j.words, text...), '\n')
		}
	}
	j.join(s, last)
}

// dataPrefix returns how many bytes of s stand before the base64 of a data: URL,
// 0 where it is none. Pictures are most of them, and hold no text.
func dataPrefix(s []byte) int {
	const mark = ";base64,"
	if !hasFold(s, "data:") || hasFold(s, "data:image/") && !hasFold(s, "data:image/svg") {
		return 0
	}
	if i := bytes.Index(s[:min(len(s), 128)], []byte(mark)); i >= 0 {
		return i + len(mark)
	}
	return 0
}

func unescaped(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	return unescapeJSON(s)
}

// join puts the letters that a string begins with to those that the one before it
// at its place ended with. Codes and tags are no text: one of the strings at a
// place has to have a blank. Nor is what begins with a capital the rest of a word.
func (j *jsonPieces) join(s, last []byte) {
	if len(s) == 0 {
		return
	}
	at := j.place[j.deep]
	for i := j.deep - 1; i > 0; i-- {
		at = at*31 + j.place[i]
	}
	j.clock++
	var to *joint
	oldest := &j.joints[0]
	for i := range j.joints {
		if x := &j.joints[i]; x.used > 0 && x.place == at {
			to = x
			break
		} else if x.used < oldest.used {
			oldest = x
		}
	}
	if to == nil {
		to = oldest
		*to = joint{place: at, end: to.end[:0], wait: to.wait[:0]}
	}
	to.used = j.clock
	to.prose = to.prose || bytes.IndexByte(s, ' ') >= 0 || bytes.IndexByte(last, ' ') >= 0
	if len(to.end) > 0 {
		head := lettersAhead(s)
		if first, _ := utf8.DecodeRune(head); len(head) > 0 && len(head)+len(to.end) <= longestPart && !unicode.IsUpper(first) {
			if len(to.wait) < mostWaiting {
				to.wait = append(append(append(to.wait, to.end...), head...), '\n')
			}
			if len(head) == len(s) { // the word goes on in the next, perhaps
				to.end = append(to.end, head...)
				last = nil
			}
		}
	}
	if last != nil {
		to.end = append(to.end[:0], lettersBehind(last)...)
	}
	if to.prose && len(to.wait) > 0 {
		j.words = append(j.words, to.wait...)
		to.wait = to.wait[:0]
	}
}

func (j *jsonPieces) reset() {
	*j = jsonPieces{cur: j.cur[:0], tail: j.tail[:0], words: j.words[:0], codes: charCodes{text: j.codes.text[:0]}, based: based{carry: j.based.carry, text: j.based.text}}
}

// say adds what was found to the text. What a body is written in, words of it are.
func (j *jsonPieces) say(f *flow) {
	if len(j.words) > 0 {
		f.blank()
		f.write(j.words, plainText)
		f.blank()
		j.words = j.words[:0]
	}
	j.based.say(f)
}

// A based undoes base64 while it comes, and reads it as a body of its own.
type based struct {
	within *part // nil where there is none
	text   flow  // its text
	carry  []byte
	escape bool
}

// isBase64 says whether p is the beginning of base64, with ends of lines or none.
func isBase64(p []byte) bool {
	letters := 0
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case isAlnum(c), c == '+', c == '/', c == '-', c == '_':
			letters++
		case c == '\n', c == '\r', c == '=':
		case c == '\\' && i+1 < len(p) && (p[i+1] == 'n' || p[i+1] == 'r' || p[i+1] == '/'):
			i++
		default:
			return false
		}
	}
	return letters >= shortBase64
}

func (b *based) open(t *text) {
	b.within, b.carry, b.escape = &part{}, b.carry[:0], false
	b.text.reset()
	if !b.within.open(&Head{}, t) { // it stands too deep
		b.within = nil
		return
	}
	b.within.out = &b.text
}

// write takes the next of it, in a string of JSON or not.
func (b *based) write(p []byte, json bool) {
	if b.within == nil {
		return
	}
	for _, c := range p {
		switch {
		case b.escape:
			if b.escape = false; c == '/' {
				b.carry = append(b.carry, c)
			}
		case c == '\\' && json:
			b.escape = true
		case c == '-':
			b.carry = append(b.carry, '+')
		case c == '_':
			b.carry = append(b.carry, '/')
		case isAlnum(c), c == '+', c == '/':
			b.carry = append(b.carry, c)
		}
	}
	whole := len(b.carry) &^ 3
	b.decode(b.carry[:whole])
	b.carry = b.carry[:copy(b.carry, b.carry[whole:])]
}

func (b *based) decode(p []byte) {
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(p)))
	n, _ := base64.RawStdEncoding.Decode(out, p) // letters of base64 only
	b.within.write(out[:n])
}

// close ends it.
func (b *based) close(t *text) {
	if b.within == nil {
		return
	}
	b.decode(b.carry)
	if why := b.within.close(); why != AllRead && why != UnsupportedType {
		t.body.Stop(why)
	}
	b.within = nil
}

// drop ends it where nobody reads on. Its text must not be said of the next body
// that has this room.
func (b *based) drop() {
	if b.within != nil {
		b.within.close()
		b.within = nil
	}
	b.text.b = b.text.b[:min(len(b.text.b), 1)]
}

// say adds its text.
func (b *based) say(f *flow) {
	if len(b.text.b) > 1 {
		f.blank()
		f.b = append(f.b, b.text.b[1:]...)
		f.blank()
		b.text.b = b.text.b[:1]
	}
}
