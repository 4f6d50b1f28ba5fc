package content

import (
	"bytes"
	"encoding/base64"
	"unicode"
	"unicode/utf8"

	"github.com/zeebo/xxh3"

	"shuultuur/content/data"
	"shuultuur/content/limit"
	"shuultuur/content/markup"
	"shuultuur/content/prose"
	"shuultuur/lib/ascii"
)

// This file handles text that programs make from parts of a body: strings in JSON that they
// join, because assistants send their answers as arrays or lines of pieces, and base64 that
// they decode, because interfaces to files answer with it. Nothing says whether a program will
// do so, so the result is written in addition.

const (
	endLen      = 256     // of a long string, examined at either end
	saidLen     = 4 << 10 // of base64, after which its text is written
	mostWaiting = 256     // bytes of joined words that wait until it is known whether they are text
	joints      = 8
)

// A jsonPieces reads JSON in parallel with its text.
type jsonPieces struct {
	deep   int
	kind   [data.MostDeep + 1]byte   // { or [, by depth
	place  [data.MostDeep + 1]uint64 // of values, by depth
	name   bool                      // the current string is a name
	in     bool                      // inside a string
	escape bool                      // the last byte was a backslash
	cur    []byte                    // beginning of the string, all of it if it is short
	tail   []byte                    // end of the string, if it is long
	long   bool
	at     int // its length in bytes so far
	based  base64Reader
	joints [joints]jsonPlace
	clock  uint32
	codes  charCodes
	words  []byte // to be written
}

// A jsonPlace is a place in JSON whose strings may belong together.
type jsonPlace struct {
	place uint64
	used  uint32
	prose bool   // one of them contained a blank
	end   []byte // letters at the end of the last one
	wait  []byte // joined words, while none contained a blank
}

// read reads p and returns the number of bytes used: up to where there are words to write, or
// all.
func (j *jsonPieces) read(p []byte, t *text) (n int, say bool) {
	for i := 0; i < len(p); {
		if j.in {
			// Text in base64 is written at the same positions however the base64 is divided.
			rest := p[i:]
			n := j.inside(rest[:min(len(rest), saidLen-j.at%saidLen)], t)
			i += n
			j.at += n
			if len(j.words) > 0 || len(j.based.text.B) > 1 && (!j.in || j.at%saidLen == 0) {
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
			j.name = j.deep <= data.MostDeep && j.kind[j.deep] == '{'
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

// charCodes are the numbers in an array or object, which may be character codes.
type charCodes struct {
	n     rune
	has   bool
	odd   bool // there are other values, or numbers that are not characters
	text  []byte
	words int // letters and blanks among the characters
	all   int
}

// fewCodes is the number of numbers that may be letters by chance.
const fewCodes = 4

// digit reads a byte that may belong to a number.
func (k *charCodes) digit(c byte) {
	switch {
	case c >= '0' && c <= '9':
		k.n = min(k.n*10+rune(c-'0'), unicode.MaxRune+1)
		k.has = true
	case !ascii.IsSpace(c):
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

// sayCodes ends an array or object, or a long part of one, and writes the text whose character
// codes it contains.
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
	if j.deep++; j.deep <= data.MostDeep {
		j.kind[j.deep], j.place[j.deep] = kind, 1
	}
	j.name = kind == '{'
}

// inside reads a part of a string.
func (j *jsonPieces) inside(p []byte, t *text) int {
	for n := 0; ; n++ {
		k := bytes.IndexByte(p[n:], '"')
		if k < 0 {
			j.escape = escapes(p, j.escape)
			j.keepEnds(p, t)
			return len(p)
		}
		if n += k; !escapes(p[:n], j.escape) {
			j.escape = false
			j.keepEnds(p[:n], t)
			j.end(t)
			return n + 1
		}
	}
}

// escapes reports whether the byte after p, within a string, is escaped; before reports the
// same for p's first byte.
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

// keepEnds keeps the beginning and end of a string.
func (j *jsonPieces) keepEnds(p []byte, t *text) {
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
	case j.deep > data.MostDeep:
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
	case len(s) >= data.ShortBase64:
		text := data.TextOfBase64(s[dataPrefix(s):])
		if text != nil {
			if markup.HasMarkup(text) {
				text = AppendPage(nil, text)
			}
			j.words = append(append(j.words, text...), '\n')
			break
		}
		fallthrough
	default:
		if text := data.Unpercent(s); len(text) < len(s) {
			j.words = append(append(j.words, text...), '\n')
		}
	}
	j.join(s, last)
}

// dataPrefix returns the number of bytes of s before the base64 in a data: URL, 0 if it is not
// one. Most are pictures, which have no text.
func dataPrefix(s []byte) int {
	const mark = ";base64,"
	if !ascii.HasPrefixLower(s, "data:") || ascii.HasPrefixLower(s, "data:image/") && !ascii.HasPrefixLower(s, "data:image/svg") {
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
	return data.UnescapeJSON(s)
}

// join joins the letters at the beginning of a string to those at the end of the previous one
// at its place. Codes and tags are not text: one of the strings at a place must contain a
// blank. A string that begins with a capital does not continue a word.
func (j *jsonPieces) join(s, last []byte) {
	if len(s) == 0 {
		return
	}
	at := j.place[j.deep]
	for i := j.deep - 1; i > 0; i-- {
		at = at*31 + j.place[i]
	}
	j.clock++
	var to *jsonPlace
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
		*to = jsonPlace{place: at, end: to.end[:0], wait: to.wait[:0]}
	}
	to.used = j.clock
	to.prose = to.prose || bytes.IndexByte(s, ' ') >= 0 || bytes.IndexByte(last, ' ') >= 0
	if len(to.end) > 0 {
		head := data.LettersAhead(s)
		if first, _ := utf8.DecodeRune(head); len(head) > 0 && len(head)+len(to.end) <= data.LongestPart && !unicode.IsUpper(first) {
			if len(to.wait) < mostWaiting {
				to.wait = append(append(append(to.wait, to.end...), head...), '\n')
			}
			if len(head) == len(s) { // the word may continue in the next string
				to.end = append(to.end, head...)
				last = nil
			}
		}
	}
	if last != nil {
		to.end = append(to.end[:0], data.LettersBehind(last)...)
	}
	if to.prose && len(to.wait) > 0 {
		j.words = append(j.words, to.wait...)
		to.wait = to.wait[:0]
	}
}

func (j *jsonPieces) reset() {
	*j = jsonPieces{cur: j.cur[:0], tail: j.tail[:0], words: j.words[:0], codes: charCodes{text: j.codes.text[:0]}, based: base64Reader{carry: j.based.carry, text: j.based.text}}
}

// addText adds the words found to the text, in the charset of the body.
func (j *jsonPieces) addText(f *prose.Flow) {
	if len(j.words) > 0 {
		f.Blank()
		f.Write(j.words, prose.PlainText)
		f.Blank()
		j.words = j.words[:0]
	}
	j.based.addText(f)
}

// A base64Reader decodes base64 as it arrives, and reads the result as a separate body.
type base64Reader struct {
	within *part      // nil if there is none
	text   prose.Flow // its text
	carry  []byte
	escape bool
}

// isBase64 reports whether p is the beginning of base64, with or without line ends.
func isBase64(p []byte) bool {
	letters := 0
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case ascii.IsAlnum(c), c == '+', c == '/', c == '-', c == '_':
			letters++
		case c == '\n', c == '\r', c == '=':
		case c == '\\' && i+1 < len(p) && (p[i+1] == 'n' || p[i+1] == 'r' || p[i+1] == '/'):
			i++
		default:
			return false
		}
	}
	return letters >= data.ShortBase64
}

func (b *base64Reader) open(t *text) {
	b.carry, b.escape = b.carry[:0], false
	b.text.Reset()
	b.within = t.body.open(&Head{}, &b.text) // nil if it is nested too deeply
}

// write reads the next part; json says that it is in a string of JSON.
func (b *base64Reader) write(p []byte, json bool) {
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
		case ascii.IsAlnum(c), c == '+', c == '/':
			b.carry = append(b.carry, c)
		}
	}
	whole := len(b.carry) &^ 3
	b.decode(b.carry[:whole])
	b.carry = b.carry[:copy(b.carry, b.carry[whole:])]
}

func (b *base64Reader) decode(p []byte) {
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(p)))
	n, _ := base64.RawStdEncoding.Decode(out, p) // p contains only letters of base64
	b.within.Write(out[:n])
}

// close ends it.
func (b *base64Reader) close(t *text) {
	if b.within == nil {
		return
	}
	b.decode(b.carry)
	if why := b.within.Close(); why != limit.AllRead && why != limit.UnsupportedType {
		t.body.Stop(why)
	}
	b.within = nil
}

// drop ends it if reading stops. Its text must not appear in the next body that reuses its
// memory.
func (b *base64Reader) drop() {
	if b.within != nil {
		b.within.Drop()
		b.within = nil
	}
	b.text.B = b.text.B[:min(len(b.text.B), 1)]
}

// addText adds its text.
func (b *base64Reader) addText(f *prose.Flow) {
	if len(b.text.B) > 1 {
		f.Blank()
		f.B = append(f.B, b.text.B[1:]...)
		f.Blank()
		b.text.B = b.text.B[:1]
	}
}
