// Package data finds the texts in data that programs exchange: JSON, CBOR, protobuf with an unknown
// schema, base64, and runs of letters in formats that nobody knows.
//
// A walker gets complete data and visits its strings, each with its place. The same place in the
// next message has the same number, so that a reader can join texts that arrive in pieces. A walker
// reports whether the data has its format at all; what is encoded in a string is walked as well.
package data

import (
	"unicode/utf8"

	"github.com/zeebo/xxh3"

	"shuultuur/content/media"
	"shuultuur/lib/ascii"
)

// Names is the place of the names of members.
const Names = 4

// MostDeep is the depth up to which JSON is read.
const MostDeep = 32

// VisitWithin visits text encoded in a place, which names of members do not have.
func VisitWithin(place uint64, visit func(uint64, []byte)) func(uint64, []byte) {
	return func(inner uint64, s []byte) {
		if inner != Names {
			inner += place * 31
		}
		visit(inner, s)
	}
}

// WalkJSON visits the strings in a series of JSON texts with their places, and reports whether
// there was any JSON.
func WalkJSON(p []byte, visit func(place uint64, s []byte)) bool {
	j := jsonWalker{p: p, visit: visit}
	for n := 0; ; n++ {
		j.space()
		at := j.i
		if at == len(p) || !j.value(1, 0) {
			return n > 0 && at == len(p)
		}
	}
}

type jsonWalker struct {
	p     []byte
	i     int
	visit func(place uint64, s []byte)
}

func (j *jsonWalker) space() {
	for j.i < len(j.p) && (ascii.IsSpace(j.p[j.i]) || j.p[j.i] == 0x1E) {
		j.i++
	}
}

// value reads one value, and returns false if there is none.
func (j *jsonWalker) value(place uint64, deep int) bool {
	j.space()
	if j.i == len(j.p) || deep > MostDeep {
		return false
	}
	switch c := j.p[j.i]; c {
	case '"':
		s, ok := j.str()
		if !ok {
			return false
		}
		if at := media.JSONStart(s); at != 0 || !WalkJSON(s, VisitWithin(place, j.visit)) {
			j.visit(place, s)
		}
		return true
	case '{', '[':
		return j.members(place, deep, c)
	}
	start := j.i
	for j.i < len(j.p) && (ascii.IsAlnum(j.p[j.i]) || j.p[j.i] == '-' || j.p[j.i] == '+' || j.p[j.i] == '.') {
		j.i++
	}
	return j.i > start
}

func (j *jsonWalker) members(place uint64, deep int, open byte) bool {
	j.i++
	var codes charCodes
	for {
		j.space()
		if j.i == len(j.p) {
			return false
		}
		switch c := j.p[j.i]; c {
		case '}', ']':
			if text := codes.end(); text != nil {
				j.visit(place*31, text)
			}
			j.i++
			return c == open+2
		case ',':
			j.i++
			continue
		}
		at := place * 31
		if open == '{' {
			key, ok := j.str()
			if j.space(); !ok || j.i == len(j.p) || j.p[j.i] != ':' {
				return false
			}
			j.i++
			j.visit(Names, key)
			at += xxh3.Hash(key)
		}
		from := j.i
		if !j.value(at, deep+1) {
			return false
		}
		codes.add(j.p[from:j.i])
	}
}

// charCodes are the values in an array or object, which may be the codes of characters.
type charCodes struct {
	text    []byte
	n, said int // values, and those that are codes of text
}

// fewCodes is the number of numbers that may be letters by chance.
const fewCodes = 4

// add adds a value. Nothing is kept once it is certain that they are no codes.
func (k *charCodes) add(value []byte) {
	if k.n++; k.n > 8 && k.said*2 < k.n {
		k.text = nil
		return
	}
	r := rune(0)
	for _, c := range value {
		if c < '0' || c > '9' || r > utf8.MaxRune {
			return
		}
		r = r*10 + rune(c-'0')
	}
	if r >= ' ' && r != 0x7F && utf8.ValidRune(r) {
		k.text = utf8.AppendRune(k.text, r)
		k.said++
	}
}

// end returns the text of the codes, nil if they are none.
func (k *charCodes) end() []byte {
	if k.n < fewCodes || k.said*4 < k.n*3 || len(k.text) == 0 {
		return nil
	}
	letters := 0
	for _, c := range k.text {
		if ascii.IsLetter(c) || c == ' ' || c >= utf8.RuneSelf {
			letters++
		}
	}
	if letters*4 < len(k.text)*3 {
		return nil
	}
	return k.text
}

// str reads a string and decodes its escapes.
func (j *jsonWalker) str() ([]byte, bool) {
	if j.p[j.i] != '"' {
		return nil, false
	}
	j.i++
	start, escaped := j.i, false
	for ; j.i < len(j.p); j.i++ {
		switch j.p[j.i] {
		case '"':
			s := j.p[start:j.i]
			j.i++
			if escaped {
				s = UnescapeJSON(s)
			}
			return s, true
		case '\\':
			escaped = true
			j.i++
		}
	}
	return nil, false
}

func UnescapeJSON(s []byte) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out = append(out, s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'n', 'r', 't', 'b', 'f':
			out = append(out, ' ')
		case 'u':
			r, n := jsonRune(s[i+1:])
			out = utf8.AppendRune(out, r)
			i += n
		default:
			out = append(out, c)
		}
	}
	return out
}

// jsonRune reads the digits after \u, and those of the second half of a surrogate pair.
func jsonRune(p []byte) (r rune, n int) {
	unit := func(p []byte) rune {
		if len(p) < 4 {
			return -1
		}
		u := rune(0)
		for _, c := range p[:4] {
			d := rune(ascii.Unhex(c))
			if d < 0 {
				return -1
			}
			u = u<<4 | d
		}
		return u
	}
	r = unit(p)
	switch {
	case r < 0:
		return utf8.RuneError, 0
	case r >= 0xD800 && r < 0xDC00 && len(p) >= 10 && p[4] == '\\' && p[5] == 'u':
		if low := unit(p[6:]); low >= 0xDC00 && low < 0xE000 {
			return (r-0xD800)<<10 + low - 0xDC00 + 0x10000, 10
		}
	}
	return r, 4
}
