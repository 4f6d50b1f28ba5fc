// Package pattern has what conditions compare with: expressions, sets of hosts, and the
// canonical form of a URL.
//
// [Compile] makes a [Pattern], which runs its expression only where one of its words occurs.
// [Hosts] covers hosts with their subdomains. [AppendURL] makes the text on which expressions
// for URLs are matched. [Methods] are those of requests.
package pattern

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"

	"shuultuur/lib/setting"
)

// A Pattern is a regular expression (RE2), matched without regard to case on text in lower
// case. Go's engine takes tens of nanoseconds per byte, so it runs only when one of the words
// occurs that every match contains.
type Pattern struct {
	re    *regexp.Regexp
	words [][]byte // lower case; nil when there are none
}

type Patterns []Pattern

func (ps Patterns) Match(text []byte) bool {
	for i := range ps {
		if ps[i].Match(text) {
			return true
		}
	}
	return false
}

func (p *Pattern) Match(text []byte) bool {
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

// Compile compiles an expression of at most 4 KiB, which keeps Go's program small.
func Compile(s string) (Pattern, error) {
	if s == "" {
		return Pattern{}, fmt.Errorf("an empty pattern matches everything; remove it")
	}
	if len(s) > 4096 {
		return Pattern{}, fmt.Errorf("the pattern has %d bytes; at most 4096 are read", len(s))
	}
	re, err := regexp.Compile("(?i:" + s + ")")
	if err != nil {
		return Pattern{}, fmt.Errorf("%q is not a regular expression of RE2: %w", s, err)
	}
	p := Pattern{re: re}
	if tree, err := syntax.Parse(re.String(), syntax.Perl); err == nil {
		for _, w := range wordsOf(tree.Simplify()) {
			p.words = append(p.words, []byte(w))
		}
	}
	return p, nil
}

func CompileAll(list []string, key string) (Patterns, error) {
	var ps Patterns
	for i, s := range list {
		p, err := Compile(s)
		if err != nil {
			return nil, setting.At(fmt.Sprintf("%s[%d]", key, i), err)
		}
		ps = append(ps, p)
	}
	return ps, nil
}
