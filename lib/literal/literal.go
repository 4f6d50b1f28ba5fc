// Package literal extracts texts that every match of a regular expression contains, and finds
// the expressions that a subject may match by them. So most of a list of expressions need not
// be tried on most URLs.
//
// [Required] extracts the texts of an expression, [Index.Add] indexes them, and at each place
// of a subject [Index.At] returns the texts that may be there.
package literal

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTexts bounds the texts of one expression: beyond it, the product of alternatives is not
// expanded.
const maxTexts = 4096

// Required returns texts in lower case such that every match of an expression contains at
// least one of them, or nil when there are none of useful length. An expression that RE2 does
// not understand has none.
func Required(pattern string) []string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	a := analysis{mostWork + 32*len(pattern)}
	n := a.analyse(re.Simplify())
	if n.exact != nil {
		n.consider(n.exact)
	}
	if len(n.some) > mostRequired+len(pattern)/4 {
		return nil
	}
	return n.some
}

// mostRequired is how many texts a short expression may require: with more, most of them are made and
// not written, and looking for them costs more than they save.
const mostRequired = 256

// requirement describes an expression: all the texts it matches, if they are few; or texts of which
// one must occur.
type requirement struct {
	exact []string
	some  []string
}

// consider takes texts as the required ones if they are more selective than the previous.
func (n *requirement) consider(texts []string) {
	if shortest(texts) >= Size && shortest(texts) > shortest(n.some) {
		n.some = texts
	}
}

// shortest returns the length of the least selective text, in bytes. A scheme counts as
// nothing, because every URL has one.
func shortest(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	least := maxTexts
	for _, t := range texts {
		if rest, ok := strings.CutPrefix(t, "http"); ok {
			t = strings.TrimPrefix(strings.TrimPrefix(rest, "s"), "://")
		}
		least = min(least, len(t))
	}
	return least
}

// An analysis bounds how much text is made of an expression.
type analysis struct{ left int }

// mostWork is the bytes of text that are made of a short expression. What is found after that is as if
// nothing were known.
const mostWork = 256 << 10

// affords takes n texts of some length out of what is left.
func (a *analysis) affords(n, length int) bool {
	a.left -= n * (length + 16) // each text has a header
	return a.left > 0
}

func (a *analysis) analyse(re *syntax.Regexp) (n requirement) {
	if !a.affords(1, 0) {
		return n
	}
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		n.exact = []string{""}
	case syntax.OpLiteral:
		return literal(re)
	case syntax.OpCharClass:
		n.exact = a.class(re)
	case syntax.OpCapture:
		return a.analyse(re.Sub[0])
	case syntax.OpConcat:
		return a.concat(re.Sub)
	case syntax.OpAlternate:
		return a.alternate(re.Sub)
	case syntax.OpQuest:
		if sub := a.analyse(re.Sub[0]); sub.exact != nil && len(sub.exact) < maxTexts {
			n.exact = append(slices.Clone(sub.exact), "")
		}
	case syntax.OpPlus:
		sub := a.analyse(re.Sub[0])
		n.consider(sub.exact)
		n.consider(sub.some)
	case syntax.OpRepeat:
		if re.Min > 0 {
			sub := a.analyse(re.Sub[0])
			n.consider(sub.exact)
			n.consider(sub.some)
		}
	}
	return n
}

// literal: subjects have ASCII letters in lower case and other letters unchanged, so only the
// parts between non-ASCII letters can be searched for.
func literal(re *syntax.Regexp) (n requirement) {
	part := ""
	whole := true
	for _, r := range re.Rune {
		if r >= utf8.RuneSelf {
			n.consider([]string{part})
			part, whole = "", false
			continue
		}
		part += string(unicode.ToLower(r))
	}
	if whole {
		return requirement{exact: []string{part}}
	}
	n.consider([]string{part})
	return n
}

// class returns the letters of a small ASCII class.
func (a *analysis) class(re *syntax.Regexp) []string {
	var texts []string
	for i := 0; i < len(re.Rune); i += 2 {
		for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
			if r == '\u017f' || r == '\u212a' {
				continue // folds to s or k; the ASCII letter represents it
			}
			if r >= utf8.RuneSelf || len(texts) > 30 {
				return nil
			}
			if s := strings.ToLower(string(r)); !slices.Contains(texts, s) {
				texts = append(texts, s)
			}
			if !a.affords(1, 1) {
				return nil
			}
		}
	}
	return texts
}

func (a *analysis) concat(subs []*syntax.Regexp) (n requirement) {
	now := []string{""}
	broken := false
	for _, re := range subs {
		sub := a.analyse(re)
		switch {
		case sub.exact != nil && len(now)*len(sub.exact) <= maxTexts && a.affords(len(now)*len(sub.exact), longest(now)+longest(sub.exact)):
			now = cross(now, sub.exact)
		case sub.exact != nil:
			n.consider(now)
			now, broken = sub.exact, true
		default:
			n.consider(now)
			n.consider(sub.some)
			now, broken = []string{""}, true
		}
	}
	if broken {
		n.consider(now)
		return n
	}
	return requirement{exact: now}
}

func cross(a, b []string) []string {
	if len(b) == 1 && b[0] == "" {
		return a
	}
	texts := make([]string, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			texts = append(texts, x+y)
		}
	}
	return texts
}

// longest returns the length of the longest text.
func longest(texts []string) (n int) {
	for _, t := range texts {
		n = max(n, len(t))
	}
	return n
}

func (a *analysis) alternate(subs []*syntax.Regexp) (n requirement) {
	exact, all := true, []string(nil)
	for _, re := range subs {
		sub := a.analyse(re)
		texts := sub.exact
		if texts == nil {
			exact, texts = false, sub.some
		}
		if texts == nil {
			return requirement{}
		}
		if !a.affords(len(texts), longest(texts)) {
			return requirement{}
		}
		all = append(all, texts...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if exact && len(all) <= maxTexts {
		return requirement{exact: all}
	}
	n.consider(all)
	return n
}

// Size is the number of bytes by which a text is indexed, and its minimum length.
const Size = 3

// An Index holds texts by three bytes of each, the least common ones. A text is looked up at a
// place of a subject only where the bit for the three bytes is set, which is rare.
type Index struct {
	bits  []uint64
	texts map[uint32][]Text
}

// A Text is one of the texts required by the expression ID.
type Text struct {
	Text string
	Skip uint16 // offset of the three bytes in Text
	ID   uint32
}

const gramBits = 1 << 16

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{make([]uint64, gramBits/64), map[uint32][]Text{}}
}

func gram(s string) uint32 { return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 }

func gramBit(g uint32) uint32 { return g * 0x9e3779b1 >> 16 }

// Add adds texts of which id requires one. It returns false when there are none.
func (x *Index) Add(texts []string, id uint32) bool {
	for _, t := range texts {
		if len(t) > 64 { // the beginning is selective enough
			t = t[:64]
		}
		best := 0
		for i := 1; i+Size <= len(t); i++ {
			if len(x.texts[gram(t[i:])]) < len(x.texts[gram(t[best:])]) {
				best = i
			}
		}
		g := gram(t[best:])
		x.texts[g] = append(x.texts[g], Text{t, uint16(best), id})
		b := gramBit(g)
		x.bits[b/64] |= 1 << (b % 64)
	}
	return len(texts) > 0
}

// At returns the texts whose three bytes begin s.
func (x *Index) At(s string) []Text {
	g := gram(s)
	if b := gramBit(g); x.bits[b/64]>>(b%64)&1 == 0 {
		return nil
	}
	return x.texts[g]
}
