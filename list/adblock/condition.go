package adblock

import (
	"bytes"
	"errors"
	"strings"
)

// Conditions follow the blocks of a list that are for some programs only:
//
//	!#if env_chromium && !ext_devbuild
//	!#else
//	!#endif
//
// Their words name browsers and extensions. The gateway is none of them, so each is false, and so is a
// condition that cannot be read.
type Conditions struct {
	open []branch // from the outside to the inside
}

// A branch is what is known of a block.
type branch struct{ holds, other bool }

// Read reads a line. ours reports whether it is one about blocks, or names another list; err says what
// is wrong with it.
func (c *Conditions) Read(line []byte) (ours bool, err error) {
	if !bytes.HasPrefix(line, []byte("!#")) {
		return false, nil
	}
	word, rest, _ := strings.Cut(string(line), " ")
	_, isInclude := Included(line)
	switch {
	case word == "!#if":
		holds, ok := evaluate(rest)
		if c.open = append(c.open, branch{holds: holds}); !ok {
			return true, errors.New("is a condition that cannot be read, so it does not hold")
		}
	case word == "!#else" && len(c.open) > 0 && !c.open[len(c.open)-1].other:
		last := &c.open[len(c.open)-1]
		last.holds, last.other = !last.holds, true
	case word == "!#endif" && len(c.open) > 0:
		c.open = c.open[:len(c.open)-1]
	case word == "!#else", word == "!#endif":
		return true, errors.New("belongs to no !#if")
	case isInclude && c.Hold():
		return true, errors.New("names another list, which is not included: one that is fetched includes what its own server has, without a checksum or signature of the list, and 100 lists at most; add its address to the settings as a list of its own")
	default:
		return false, nil
	}
	return true, nil
}

// Included returns the list that a line names, to be read in the place of the line.
func Included(line []byte) (name string, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte("!#include"))
	if !ok || len(rest) > 0 && rest[0] != ' ' && rest[0] != '\t' {
		return "", false
	}
	return string(bytes.TrimSpace(rest)), true
}

// Hold reports whether the next line is for us.
func (c *Conditions) Hold() bool {
	for _, b := range c.open {
		if !b.holds {
			return false
		}
	}
	return true
}

// Open reports whether a block has no end so far.
func (c *Conditions) Open() bool { return len(c.open) > 0 }

// evaluate returns the value of a condition: words, !, &&, || and parentheses. Without parentheses,
// && binds more than ||.
func evaluate(text string) (holds, ok bool) {
	e := condition{rest: []byte(text)}
	holds = e.any()
	return holds && !e.bad && e.peek() == "", !e.bad && e.peek() == ""
}

// maxNesting bounds the parentheses of a condition.
const maxNesting = 32

type condition struct {
	rest  []byte
	depth int
	bad   bool
}

// peek returns the next part, "" at the end.
func (e *condition) peek() string {
	e.rest = bytes.TrimLeft(e.rest, " \t")
	switch {
	case len(e.rest) == 0:
		return ""
	case bytes.HasPrefix(e.rest, []byte("&&")), bytes.HasPrefix(e.rest, []byte("||")):
		return string(e.rest[:2])
	}
	n := 0
	for n < len(e.rest) && (e.rest[n] == '_' || '0' <= e.rest[n] && e.rest[n] <= '9' || 'a' <= e.rest[n]|0x20 && e.rest[n]|0x20 <= 'z') {
		n++
	}
	return string(e.rest[:max(n, 1)])
}

// next takes a part if it is the next one.
func (e *condition) next(part string) bool {
	if e.peek() != part {
		return false
	}
	e.rest = e.rest[len(part):]
	return true
}

func (e *condition) any() bool {
	holds := e.all()
	for e.next("||") {
		holds = e.all() || holds
	}
	return holds
}

func (e *condition) all() bool {
	holds := e.one()
	for e.next("&&") {
		holds = e.one() && holds
	}
	return holds
}

func (e *condition) one() bool {
	if e.depth++; e.depth > maxNesting {
		e.bad = true
		return false
	}
	defer func() { e.depth-- }()
	switch word := e.peek(); {
	case e.next("!"):
		return !e.one()
	case e.next("("):
		holds := e.any()
		if !e.next(")") {
			e.bad = true
		}
		return holds
	case word == "" || len(word) == 1 && strings.ContainsAny(word, "&|)") || word == "&&" || word == "||":
		e.bad = true
		return false
	default:
		first := word[0] | 0x20
		e.bad = e.bad || word[0] != '_' && (first < 'a' || first > 'z')
		e.rest = e.rest[len(word):]
		return word == "true"
	}
}
