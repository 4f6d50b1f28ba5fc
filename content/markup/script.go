package markup

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"shuultuur/content/coding"
	"shuultuur/content/prose"
)

// This file handles strings that a script assembles, as far as that is visible without running
// it: pieces that are added, concatenated, joined or part of a template, characters by their
// numbers, and strings in Base64 or with URL escapes. Variables are not followed.

// A joiner tracks the code between the strings of a script.
type joiner struct {
	gap  []byte // code since the last string, without blanks and comments; only the end if it is long
	long bool   // it was longer

	list    []byte // the strings of an array, each followed by a zero
	listing bool
	over    bool                     // some are missing because of a limit
	lost    bool                     // and they were needed
	then    func(list []byte) []byte // the text that the current string separates, nil for none
	empty   bool                     // the current string is empty
	decode  func(p []byte) []byte    // decodes the current string, nil if it needs no decoding

	braces []int // open braces in each template, outermost first
	code   rune  // of a character
	nCode  int
	hex    bool
}

const (
	mostGap       = 32
	mostList      = 64 << 10 // bytes of the strings of an array
	mostTemplates = 64       // nested
)

// between reads a byte between strings and reports whether character codes follow.
func (j *joiner) between(c byte) bool {
	if len(j.gap) == mostGap {
		j.gap = j.gap[:copy(j.gap, j.gap[mostGap/2:])]
		j.long = true
	}
	j.gap = append(j.gap, c)
	return c == '(' && (j.endsWith("fromCharCode(") || j.endsWith("fromCodePoint("))
}

func (j *joiner) endsWith(s string) bool { return strings.HasSuffix(string(j.gap), s) }

// adds reports whether the next string is added to the one before.
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

// begin is called at the beginning of a string, and reports whether it continues the one
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
		j.then = removeBlanks
	case j.listing && (gap == "].reverse().join(" || gap == ",].reverse().join("):
		j.then = backwards
	case gap == ".split(":
		j.list, j.listing, j.over = append(append(j.list[:0], before[:prose.CharFrom(before, mostList)]...), 0), false, len(before) > mostList
		j.then = func([]byte) []byte { return nil }
	case gap == ").reverse().join(":
		j.then = backward
	default:
		j.listing = false
	}
	switch {
	case j.endsWith("atob("):
		j.decode = coding.Unbase64
	case j.endsWith("unescape("), j.endsWith("decodeURIComponent("), j.endsWith("decodeURI("):
		j.decode = func(p []byte) []byte { return coding.AppendUnpercented(nil, p) }
	}
	j.gap, j.long = j.gap[:0], false
	return adds
}

// end gets a complete string, and returns the text that it makes from others.
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

func removeBlanks(list []byte) []byte { return bytes.ReplaceAll(list, []byte{0}, nil) }

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
