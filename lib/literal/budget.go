package literal

import (
	"errors"
	"fmt"
	"regexp/syntax"
)

// Bounds of a list of expressions, in instructions: what an expression costs to compile, and for each
// letter of a subject to try.
const (
	mostOfOne = 10_000    // and one for each letter of an expression
	mostTried = 40_000    // of those that are tried on each subject
	mostOfAll = 2_000_000 // of all, those left out too, which have been looked at
	ofUnknown = 2_000     // of an expression of another engine, which bounds its time
)

// A Budget bounds what the expressions of a list may cost together.
type Budget struct{ tried, all int }

// Spend takes the cost of an expression that compiles out of the budget. The error says why there is no
// room for it: it is dear by itself, or together with those before it.
func (b *Budget) Spend(pattern string) error {
	cost := ofUnknown
	re, unknown := syntax.Parse(pattern, syntax.Perl)
	if unknown == nil {
		cost = costOf(re)
	}
	if most := mostOfOne + len(pattern); cost > most {
		return fmt.Errorf("costs %d steps, more than the %d that one expression may; make its repetitions smaller", cost, most)
	}
	if b.all += cost; b.all > mostOfAll {
		return fmt.Errorf("is left out: the expressions of this list cost more than %d steps", mostOfAll)
	}
	if unknown == nil && len(Required(pattern)) > 0 {
		return nil
	}
	if b.tried+cost > mostTried {
		return errors.New("is left out: this list has too many dear expressions that are tried on every URL; give it a text of three letters that a URL must have")
	}
	b.tried += cost
	return nil
}

// costOf returns about how many instructions an expression has when it is compiled.
func costOf(re *syntax.Regexp) (n int) {
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpConcat, syntax.OpRepeat:
	default:
		n = max(1, len(re.Sub)-1)
	}
	for _, sub := range re.Sub {
		n += costOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		n = n*max(re.Min, re.Max, 1) + max(1, re.Max-re.Min)
	}
	return n
}
