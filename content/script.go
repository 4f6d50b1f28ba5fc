package content

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// This file is about strings that a script puts together, as far as that can be
// read without running it: pieces that are added, concatenated, joined or stand
// in a template, characters given by their numbers, strings in Base64 or with
// escapes of URLs. Names are not followed.

// A joiner knows what stands between the strings of a script.
type joiner struct {
	gap  []byte // since the last string, without blanks and comments; the end of it
	long bool   // it was longer

	list    []byte // the strings of an array, each with a zero behind it
	listing bool
	over    bool                     // some of them are not there
	lost    bool                     // and were wanted
	then    func(list []byte) []byte // what the string at hand is the separator for, nil when for nothing
	empty   bool                     // the string at hand has nothing in it
	decode  func(p []byte) []byte    // for the string at hand, nil when it is as it stands

	braces []int // open within each template around, outermost first
	code   rune  // a character's number
	nCode  int
	hex    bool
}

const (
	mostGap       = 32
	mostList      = 64 << 10 // bytes of the strings of an array
	mostTemplates = 64       // within one another
)

// between takes a byte that stands between strings and says whether the codes of
// characters follow.
func (j *joiner) between(c byte) bool {
	if len(j.gap) == mostGap {
		j.gap = j.gap[:copy(j.gap, j.gap[mostGap/2:])]
		j.long = true
	}
	j.gap = append(j.gap, c)
	return c == '(' && (j.endsWith("fromCharCode(") || j.endsWith("fromCodePoint("))
}

func (j *joiner) endsWith(s string) bool { return strings.HasSuffix(string(j.gap), s) }

// adds says whether what follows is added to the string before.
func (j *joiner) adds() bool {
	if j.long {
		return false
	}
	gap := string(j.gap)
	for _, call := range [...]string{"String.fromCharCode(", "String.fromCodePoint(", "atob(", "window.atob(", "unescape(", "decodeURIComponent(", "decodeURI("} {
		if rest, ok := strings.CutSuffix(gap, call); ok {
			gap = rest
			break
		}
	}
	switch strings.TrimLeft(strings.TrimRight(gap, "("), ")") {
	case "+", ".concat":
		return true
	}
	return false
}

// begin is called where a string begins, and says whether it goes on with the one
// before.
func (j *joiner) begin(before []byte) (adds bool) {
	adds = j.adds()
	j.then, j.decode, j.empty = nil, nil, false
	switch gap := string(j.gap); {
	case adds:
	case j.endsWith("["):
		j.list, j.listing, j.over = j.list[:0], true, false
	case j.long:
		j.listing = false
	case gap == ",":
	case j.listing && (gap == "].join(" || gap == ",].join("):
		j.then = together
	case j.listing && (gap == "].reverse().join(" || gap == ",].reverse().join("):
		j.then = backwards
	case gap == ".split(":
		j.list, j.listing, j.over = append(append(j.list[:0], before[:min(len(before), mostList)]...), 0), false, len(before) > mostList
		j.then = func([]byte) []byte { return nil }
	case gap == ").reverse().join(":
		j.then = backward
	default:
		j.listing = false
	}
	switch {
	case j.endsWith("atob("):
		j.decode = unbase64
	case j.endsWith("unescape("), j.endsWith("decodeURIComponent("), j.endsWith("decodeURI("):
		j.decode = func(p []byte) []byte { return appendUnpercented(nil, p) }
	}
	j.gap, j.long = j.gap[:0], false
	return adds
}

// end takes a whole string, and returns what it makes of others.
func (j *joiner) end(s []byte) []byte {
	switch then := j.then; {
	case then != nil:
		if j.then = nil; j.empty {
			j.lost = j.lost || j.over
			return then(j.list)
		}
	case j.listing && len(j.list)+len(s) < mostList:
		j.list = append(append(j.list, s...), 0)
	case j.listing:
		j.over = true
	}
	return nil
}

func together(list []byte) []byte { return bytes.ReplaceAll(list, []byte{0}, nil) }

func backwards(list []byte) []byte {
	items := bytes.Split(bytes.TrimSuffix(list, []byte{0}), []byte{0})
	slices.Reverse(items)
	return bytes.Join(items, nil)
}

func backward(list []byte) (out []byte) {
	for p := bytes.TrimSuffix(list, []byte{0}); len(p) > 0; {
		r, n := utf8.DecodeLastRune(p)
		out = utf8.AppendRune(out, r)
		p = p[:len(p)-n]
	}
	return out
}

// between reads what stands between the strings of a script, up to where one or a
// comment begins.
func (q *quotes) between(f *flow, p []byte, i int) int {
	for ; i < len(p); i++ {
		switch c := p[i]; c {
		case '"', '\'', '`':
			q.begin(f, c)
			return i + 1
		case '/':
			q.st = quoteSlash
			return i + 1
		case '{', '}':
			if n := len(q.join.braces); n > 0 {
				open := &q.join.braces[n-1]
				switch {
				case c == '{':
					*open++
				case *open > 0:
					*open--
				default:
					q.join.braces = q.join.braces[:n-1]
					if len(q.join.gap) > 0 {
						f.flush()
						f.blank()
					}
					q.st, q.quote, q.join.decode = quoteIn, '`', nil
					return i + 1
				}
			}
			q.join.between(c)
		default:
			if c <= ' ' || !q.join.between(c) {
				continue
			}
			if !q.join.adds() {
				f.flush()
				f.blank()
				q.at = len(f.b)
			}
			q.st, q.join.nCode, q.join.code, q.join.hex = quoteCodes, 0, 0, false
			return i + 1
		}
	}
	return i
}

// begin begins a string of a script.
func (q *quotes) begin(f *flow, quote byte) {
	if !q.join.begin(bytes.TrimSpace(f.b[min(q.at, len(f.b)):])) {
		f.flush()
		f.blank()
		q.at = len(f.b)
	}
	q.st, q.quote, q.nHead = quoteHead, quote, 0
	if q.join.decode != nil {
		q.st, q.data = quoteData, q.data[:0]
	}
}

// ended ends a string of a script.
func (q *quotes) ended(f *flow) {
	q.st = quoteOutside
	f.flush()
	if q.join.decode != nil {
		f.write(q.join.decode(q.data), jsonText)
		f.flush()
	}
	all := q.join.end(bytes.TrimSpace(f.b[min(q.at, len(f.b)):]))
	if q.lost = q.lost || q.join.lost; len(all) > 0 {
		f.blank()
		q.at = len(f.b)
		f.b = append(f.b, all...)
	}
}

// substitute begins what a template has in ${ }.
func (q *quotes) substitute(f *flow, p []byte, i int) int {
	if q.st = quoteIn; p[i] != '{' || len(q.join.braces) == mostTemplates {
		q.lost = q.lost || p[i] == '{'
		f.flush()
		f.blank()
		return i
	}
	q.join.braces = append(q.join.braces, 0)
	q.join.gap, q.join.long = append(q.join.gap[:0], '+'), false
	q.st = quoteOutside
	return i + 1
}

// codes reads the numbers of characters.
func (q *quotes) codes(f *flow, p []byte, i int) int {
	j := &q.join
	for ; i < len(p); i++ {
		c := p[i]
		switch d := unhex(c); {
		case j.hex && d >= 0:
			j.code = min(j.code<<4|d, utf8.MaxRune+1)
			j.nCode++
		case c >= '0' && c <= '9':
			j.code = min(j.code*10+d, utf8.MaxRune+1)
			j.nCode++
		case c|0x20 == 'x' && j.nCode == 1 && j.code == 0:
			j.hex = true
		case c <= ' ', c == '.', c == '[', c == ']':
		case c == ',', c == ')':
			if j.nCode > 0 {
				f.rune(numeric(j.code))
			}
			j.nCode, j.code, j.hex = 0, 0, false
			if c == ')' {
				q.st, j.gap, j.long = quoteOutside, j.gap[:0], false
				return i + 1
			}
		default:
			q.st = quoteOutside
			return i
		}
	}
	return i
}
