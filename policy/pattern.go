package policy

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"shuultuur/message"
)

// A pattern is a regular expression (RE2), matched without regard to case on text in lower
// case. Go's engine takes tens of nanoseconds per byte, so it runs only when one of the words
// occurs that every match contains.
type pattern struct {
	re    *regexp.Regexp
	words [][]byte // lower case; nil when there are none
}

type patterns []pattern

func (ps patterns) match(text []byte) bool {
	for i := range ps {
		if ps[i].match(text) {
			return true
		}
	}
	return false
}

func (p *pattern) match(text []byte) bool {
	if p.words == nil {
		return p.re.Match(text)
	}
	for _, w := range p.words {
		if bytes.Contains(text, w) {
			return p.re.Match(text)
		}
	}
	return false
}

type headerPattern struct {
	name string // lower case
	pattern
}

// match tests every field of that name.
func (h *headerPattern) match(w *walk, fields message.Fields) bool {
	for i := range fields {
		if equalFold(fields[i].Name, h.name) && h.pattern.match(w.folded(fields[i].Value)) {
			return true
		}
	}
	return false
}

// compilePattern compiles an expression of at most 4 KiB, which keeps Go's program small.
func compilePattern(s string) (pattern, error) {
	if s == "" {
		return pattern{}, fmt.Errorf("an empty pattern matches everything; remove it")
	}
	if len(s) > 4096 {
		return pattern{}, fmt.Errorf("the pattern has %d bytes; at most 4096 are read", len(s))
	}
	re, err := regexp.Compile("(?i:" + s + ")")
	if err != nil {
		return pattern{}, fmt.Errorf("%q is not a regular expression of RE2: %w", s, err)
	}
	p := pattern{re: re}
	if tree, err := syntax.Parse(re.String(), syntax.Perl); err == nil {
		for _, w := range wordsOf(tree.Simplify()) {
			p.words = append(p.words, []byte(w))
		}
	}
	return p, nil
}

// wordsOf returns words of which every match of re contains at least one, or nil. Only ASCII
// counts: beyond it, a letter and its other case may differ in length.
func wordsOf(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		if len(re.Rune) < 3 {
			return nil
		}
		for _, r := range re.Rune {
			// k and s have a third form beyond ASCII (the Kelvin sign, the
			// long s), which lower case in ASCII does not reach.
			if r >= 0x80 || r|0x20 == 'k' || r|0x20 == 's' {
				return longestASCII(re.Rune)
			}
		}
		return []string{strings.ToLower(string(re.Rune))}
	case syntax.OpCapture, syntax.OpPlus:
		return wordsOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return wordsOf(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if ws := wordsOf(sub); better(ws, best) {
				best = ws
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			ws := wordsOf(sub)
			if ws == nil || len(all) > 16 {
				return nil
			}
			all = append(all, ws...)
		}
		return all
	}
	return nil
}

// longestASCII returns the longest run of runes that have no other form.
func longestASCII(rs []rune) []string {
	best, start := "", 0
	for i := 0; i <= len(rs); i++ {
		if i < len(rs) && rs[i] < 0x80 && rs[i]|0x20 != 'k' && rs[i]|0x20 != 's' {
			continue
		}
		if i-start > len(best) {
			best = strings.ToLower(string(rs[start:i]))
		}
		start = i + 1
	}
	if len(best) < 3 {
		return nil
	}
	return []string{best}
}

// better prefers fewer words, then longer ones.
func better(a, b []string) bool {
	if a == nil || b == nil {
		return a != nil
	}
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return shortest(a) > shortest(b)
}

func shortest(ws []string) int {
	n := len(ws[0])
	for _, w := range ws {
		n = min(n, len(w))
	}
	return n
}
