package document

import (
	"slices"
	"strings"

	"shuultuur/content/limit"
	"shuultuur/content/prose"
	"shuultuur/lib/ascii"
	"shuultuur/lib/charset"
)

// This file handles Rich Text Format (RTF 1.9.1), in which control words do not separate words
// of the text.

// mostGroups is the depth up to which groups are distinguished.
const mostGroups = 64

// An rtfReader extracts the text from a document that arrives in pieces.
type rtfReader struct {
	source *Source
	f      *prose.Flow
	code   *[128]rune // characters of \'80 and above
	st     rtfState
	word   []byte // the control word
	num    int
	neg    bool
	given  bool // it has a number
	hex    rune
	skip   int // number of characters that replace the one before them
	bytes  int // number of bytes of \bin

	deep  int
	mute  int // depth of the outermost group that is not shown; 0 for none
	ucs   [mostGroups]uint8
	first bool // the next control word is the first in its group
	lost  bool // groups differ below the depth at which they are distinguished
}

type rtfState uint8

const (
	rtfText rtfState = iota
	rtfBackslash
	rtfWord
	rtfNumber
	rtfHex
	rtfHexSecond
)

// rtfMuted are destinations without visible text: tables, pictures, and private data of
// programs.
var rtfMuted = strings.Fields("fonttbl colortbl stylesheet pict objdata themedata colorschememapping datastore latentstyles listtable listoverridetable rsidtbl generator xmlnstbl fldinst")

// rtfBlank are control words that separate words.
var rtfBlank = strings.Fields("par line tab cell row sect page column emdash endash bullet lquote rquote ldblquote rdblquote emspace enspace nestcell nestrow softline")

func newRTFReader(s *Source) *rtfReader {
	r := &rtfReader{source: s, f: s.Out, code: charset.Windows1252.High()}
	for i := range r.ucs {
		r.ucs[i] = 1
	}
	return r
}

// Write implements [Reader].
func (r *rtfReader) Write(p []byte) {
	for _, c := range p {
		if r.bytes > 0 {
			r.bytes--
			continue
		}
		for !r.take(c) {
		}
	}
}

// Finish implements [Reader].
func (r *rtfReader) Finish() {
	if r.st == rtfWord || r.st == rtfNumber {
		r.control()
	}
	if r.lost {
		r.source.Outer.Stop(limit.Intricate)
	}
}

// Close implements [Reader].
func (r *rtfReader) Close() {}

// take reads one byte. It returns false if the byte ended a control word to which it does not
// belong, so that it must be read again.
func (r *rtfReader) take(c byte) bool {
	switch r.st {
	case rtfText:
		r.text(c)
	case rtfBackslash:
		r.symbol(c)
	case rtfWord:
		switch {
		case ascii.IsLetter(c):
			if len(r.word) < 32 {
				r.word = append(r.word, c)
			}
			return true
		case c >= '0' && c <= '9', c == '-':
			r.st, r.num, r.neg, r.given = rtfNumber, 0, c == '-', true
			return c == '-'
		}
		r.control()
		return c == ' '
	case rtfNumber:
		if c >= '0' && c <= '9' {
			r.num = min(r.num*10+int(c-'0'), 1<<30)
			return true
		}
		r.control()
		return c == ' '
	case rtfHex, rtfHexSecond:
		d := rune(ascii.Unhex(c))
		if d < 0 {
			r.st = rtfText
			return false
		}
		if r.hex = r.hex<<4 | d; r.st == rtfHex {
			r.st = rtfHexSecond
			return true
		}
		r.st = rtfText
		if r.hex >= 0x80 {
			r.hex = r.code[r.hex-0x80]
		}
		r.show(r.hex)
	}
	return true
}

func (r *rtfReader) text(c byte) {
	switch c {
	case '{':
		r.deep++
		r.first, r.skip = true, 0
		if r.deep < mostGroups && r.deep > 0 {
			r.ucs[r.deep] = r.ucs[r.deep-1]
		}
		return
	case '}':
		if r.mute >= r.deep {
			r.mute = 0
		}
		r.deep, r.skip = max(0, r.deep-1), 0
	case '\\':
		r.st = rtfBackslash
		return
	case '\r', '\n', 0:
	default:
		if c >= 0x80 {
			r.show(r.code[c-0x80])
		} else {
			r.show(rune(c))
		}
	}
	r.first = false
}

// symbol reads the byte after a backslash.
func (r *rtfReader) symbol(c byte) {
	r.st = rtfText
	switch {
	case ascii.IsLetter(c):
		r.st, r.word, r.given, r.neg = rtfWord, append(r.word[:0], c), false, false
		return
	case c == '\'':
		r.st, r.hex = rtfHex, 0
	case c == '*':
		return // of a destination that readers may not know: they then show none of it
	case c == '\\' || c == '{' || c == '}' || c == '~' || c == '_' || c == '\n' || c == '\r':
		r.show(' ')
	}
	r.first = false
}

// control executes a control word.
func (r *rtfReader) control() {
	r.st = rtfText
	n := r.num
	if r.neg {
		n = -n
	}
	switch w := string(r.word); {
	case w == "u" && r.given:
		r.skip = 0
		r.show(rune(uint16(n)))
		r.skip = int(r.ucs[min(r.deep, mostGroups-1)])
	case w == "uc" && r.given:
		r.lost = r.lost || r.deep >= mostGroups-1
		r.ucs[min(r.deep, mostGroups-1)] = uint8(max(0, min(n, 255)))
	case w == "bin" && r.given:
		r.bytes = max(0, n)
	case w == "ansicpg" && r.given:
		if e := codePages[n]; e != nil {
			r.code = e.High()
		}
	case r.mute == 0 && slices.Contains(rtfMuted, w) && r.first:
		r.f.Blank()
		r.mute = max(1, r.deep)
	case slices.Contains(rtfBlank, w):
		r.show(' ')
	}
	r.first = false
}

// show adds a character to the text.
func (r *rtfReader) show(c rune) {
	switch {
	case r.skip > 0:
		r.skip--
	case r.mute == 0:
		r.f.Rune(c)
	}
}

// codePages are the code pages of \ansicpg.
var codePages = map[int]*charset.Single{
	437: charset.IBM437, 850: charset.IBM850, 852: charset.IBM852, 866: charset.IBM866, 874: charset.Windows874,
	1250: charset.Windows1250, 1251: charset.Windows1251, 1252: charset.Windows1252, 1253: charset.Windows1253, 1254: charset.Windows1254,
	1255: charset.Windows1255, 1256: charset.Windows1256, 1257: charset.Windows1257, 1258: charset.Windows1258,
}
