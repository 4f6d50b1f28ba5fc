package pattern

import (
	"regexp/syntax"
	"strings"
)

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
