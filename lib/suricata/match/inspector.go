// Package match finds what rules want in bytes.
//
// A [Prefilter] searches a buffer for the patterns of many rules at once, and notes in a [Sight]
// where they are. A [Compiler] makes of the matches on one buffer a [Group]. An [Inspector] tries
// the matches of a group from left to right, as Suricata does, within limits of work; it searches
// for no content of which a sight knows the places. What depends on more than bytes, such as
// datasets and scripts, is asked of its owner ([Outside]). A [Transform] changes a buffer before.
package match

import (
	"math"

	"shuultuur/lib/suricata/rule"
)

// Limits of the inspection of one rule on one message. Work is counted instead of time, so
// that results do not depend on the load of the machine. A unit of work takes about a
// nanosecond on a processor of 2020. A search for an expression in more than quickSubject
// bytes counts by its time, if that is less.
const (
	maxSteps       = 3000 // Suricata's inspection-recursion-limit
	RuleWork       = 1e6  // 1 ms
	stepWork       = 40
	searchBytes    = 8         // bytes that a search for a content passes over per unit
	expressionWork = 10        // for each byte that an expression examines
	maxSubject     = 256 << 10 // bytes that a search for an expression examines
	quickSubject   = 4 << 10
	SlowSearch     = 2e6 // ns; the message is charged the time of a slower search or transform
	maxBase64      = 64 << 10
)

// A result is the result of inspecting a list of matches.
type result int8

const (
	retry result = iota // no match from here; an earlier match may be tried further on
	holds
	never // no match, whatever earlier matches do
)

// An Inspector inspects one buffer with the matches of a rule. Its semantics are those of
// Suricata: matches are tried from left to right. If one that depends on the position of an
// earlier one fails, the nearest earlier one is tried at its next occurrence.
type Inspector struct {
	buf      []byte
	text     []byte // buf as Latin-1 in UTF-8, nil until an expression needs it
	ascii    bool   // text is buf
	wide     []int  // number of bytes over 0x7f before every stride-th position of buf, unless it is ASCII
	spare    []byte // room for text
	runes    []rune // characters of buf from position runesAt on
	runesAt  int
	reader   byteReader
	Vars     []uint64
	steps    int
	Work     int // of the rule so far
	Slow     int // ns of its slow searches, which are charged to the message
	Captures []Capture
	Regexps  int // number of expressions run
	Over     bool
	Left     int // fewest matches that were left
	outside  Outside
	known    Facts
	failures *failures // nil if the result depends on more than the position
	memory   *failures // of this inspector
}

// Begin prepares for the matches of another rule, which has a number of variables. outside
// tests what depends on more than bytes.
func (in *Inspector) Begin(variables int, outside Outside) {
	if len(in.Vars) < variables {
		in.Vars = make([]uint64, variables)
	}
	in.outside, in.Work, in.Slow, in.Over, in.Regexps = outside, 0, 0, false, 0
	in.Captures = in.Captures[:0]
}

// Holds reports whether the matches of a group hold in a buffer, about which something is known.
// It keeps the text if the buffer is the same as before.
func (in *Inspector) Holds(g *Group, buf []byte, known Facts) bool {
	in.start(buf)
	in.known = known
	if g.pure {
		if in.memory == nil {
			in.memory = new(failures)
		}
		in.remember(in.memory)
	}
	return in.inspect(g.Matches, 0) == holds
}

// Rewind forgets which match of a group failed before another is tried.
func (in *Inspector) Rewind() { in.Left = maxSteps }

// Failed returns the match of a group that failed farthest from its beginning. ok is false if
// none was tried.
func (in *Inspector) Failed(g *Group) (n int, ok bool) {
	n = len(g.Matches) - in.Left
	return n, n >= 0 && n < len(g.Matches)
}

// keptText limits the memory for text that is kept for the next message; a quarter of it
// limits that for characters. Most pages need less, and allocating it costs more than
// searching them.
const keptText = 2 << 20

// Release forgets the message, and keeps memory for the next one.
func (in *Inspector) Release() {
	in.buf, in.text, in.Captures, in.outside, in.known = nil, nil, nil, nil, Facts{}
	if cap(in.spare) > keptText {
		in.spare = nil
	}
	if cap(in.runes) > keptText/4 {
		in.runes = nil
	}
}

// rememberAfter is the number of steps after which failures of a rule on a buffer are
// remembered. Most rules take fewer.
const rememberAfter = 32

// failures are positions from which matches of a rule failed. Backtracking reaches the same
// position in many ways, always with the same result.
type failures struct {
	round uint64 // identifies the current buffer and rule
	at    [1 << 8]failure
}

// A failure is a position, the number of matches that were left, and the steps it took to
// fail.
type failure struct {
	round    uint64
	at, left int
	steps    int
}

// slot returns the entry for a position.
func (f *failures) slot(left, at int) *failure { return &f.at[uint(at*31+left)%uint(len(f.at))] }

// Outside tests the matches that depend on more than bytes.
type Outside interface {
	// Test tests a *rule.Dataset or a *rule.Lua on a buffer. work is what that took.
	Test(m rule.Match, buf []byte, cursor int) (ok bool, work int)
	// Measured takes the entropy of a buffer, whether it is one that a rule wants or not.
	Measured(entropy float64)
}

// A Capture is the text of a group of an expression.
type Capture struct {
	Scope, Name string
	Value       []byte
}

// start prepares the inspector for a buffer. It keeps the text if the buffer is the same as
// before.
func (in *Inspector) start(buf []byte) {
	if len(buf) != len(in.buf) || len(buf) > 0 && &buf[0] != &in.buf[0] {
		in.text, in.runes = nil, in.runes[:0]
	}
	in.buf, in.steps, in.Left, in.known, in.failures = buf, 0, maxSteps, Facts{}, nil
}

// remember starts remembering failures, in reused memory.
func (in *Inspector) remember(f *failures) {
	f.round++
	in.failures = f
}

// inspect tries the matches ms from position at on.
func (in *Inspector) inspect(ms []rule.Match, at int) result {
	in.Left = min(in.Left, len(ms))
	if len(ms) == 0 {
		return holds
	}
	in.steps++
	in.Work += stepWork
	if in.steps > maxSteps || in.Work > RuleWork {
		in.Over = true
		return never
	}
	if in.failures == nil || in.steps < rememberAfter {
		return in.first(ms, at)
	}
	kept := in.failures.slot(len(ms), at)
	if kept.round == in.failures.round && kept.at == at && kept.left == len(ms) {
		if in.steps += kept.steps; in.steps > maxSteps {
			in.Over = true
			return never
		}
		return retry
	}
	before := in.steps
	r := in.first(ms, at)
	if r == retry {
		*kept = failure{in.failures.round, at, len(ms), in.steps - before}
	}
	return r
}

// first tries the first of the matches ms, and then the others.
func (in *Inspector) first(ms []rule.Match, at int) result {
	next := ms[1:]
	switch m := ms[0].(type) {
	case *rule.Content:
		return in.content(m, next, at)
	case *Expression:
		return in.pcre(m, next, at)
	case *rule.DataAt:
		n := in.value(m.At)
		var there bool
		if m.Relative {
			there = at+n <= len(in.buf)
		} else {
			there = n < len(in.buf)
		}
		if there == m.Negated {
			return retry
		}
		return in.inspect(next, at)
	case *rule.ByteTest:
		if !in.byteTest(m, at) {
			return retry
		}
		return in.inspect(next, at)
	case *rule.ByteJump:
		to, ok := in.byteJump(m, at)
		if !ok {
			return retry
		}
		return in.inspect(next, to)
	case *rule.ByteExtract:
		if !in.byteExtract(m, at) {
			return retry
		}
		return in.inspect(next, at)
	case *rule.ByteMath:
		if !in.byteMath(m, at) {
			return retry
		}
		return in.inspect(next, at)
	}
	return in.testWhole(ms[0], next, at)
}

// testWhole tests matches on the buffer as a whole.
func (in *Inspector) testWhole(m rule.Match, next []rule.Match, at int) result {
	ok := false
	switch m := m.(type) {
	case *rule.Size:
		ok = m.Match(uint64(len(in.buf)))
	case *rule.Entropy:
		var e float64
		if e, ok = entropyFits(m, in.buf); (ok || e > 0) && in.outside != nil {
			in.outside.Measured(e)
		}
	case *rule.Dataset, *rule.Lua:
		if in.outside != nil {
			work := 0
			ok, work = in.outside.Test(m, in.buf, at)
			in.Work += work
		}
	case *rule.Base64:
		return in.base64(m, next, at)
	}
	if !ok {
		return never
	}
	return in.inspect(next, at)
}

func (in *Inspector) value(n rule.Number) int {
	if n.Var > 0 {
		return int(min(in.Vars[n.Var-1], math.MaxInt32))
	}
	return int(n.N)
}

func (in *Inspector) operand(n rule.Operand) uint64 {
	if n.Var > 0 {
		return in.Vars[n.Var-1]
	}
	return uint64(n.N)
}

// bounds returns where a content may begin and must end.
func (in *Inspector) bounds(c *rule.Content, at int) (from, to int) {
	to = len(in.buf)
	if !c.Relative() {
		if c.HasOffset {
			from = in.value(c.Offset)
		}
		if c.HasDepth {
			to = min(to, from+in.value(c.Depth))
		}
		return from, to
	}
	from = at
	distance := 0
	if c.HasDistance {
		distance = in.value(c.Distance)
		from = max(0, at+distance)
	}
	if c.HasWith {
		to = min(to, at+in.value(c.Within)+distance)
	}
	if c.HasDepth {
		to = min(to, at+in.value(c.Depth))
	}
	if c.HasOffset {
		from = max(from, in.value(c.Offset))
	}
	return from, to
}

// content tries a content from position at on.
func (in *Inspector) content(c *rule.Content, next []rule.Match, at int) result {
	from, to := in.bounds(c, at)
	failed := retry
	if !c.Relative() {
		failed = never // no earlier match can change this
	}
	for {
		i := -1
		switch {
		case from > to || to-from < len(c.Pattern):
		case c.Ends:
			start := len(in.buf) - len(c.Pattern)
			if start >= from && to == len(in.buf) && equalAt(in.buf[start:], c) {
				i = start
			}
		case c.Starts && !c.Relative():
			if equalAt(in.buf[from:], c) {
				i = from
			}
		default:
			i = in.find(c, from, to)
		}
		if c.Negated {
			if i >= 0 {
				return failed
			}
			return in.inspect(next, at)
		}
		if i < 0 {
			return failed
		}
		end := i + len(c.Pattern)
		r := in.inspect(next, end)
		if r != retry || !c.RelativeNext {
			if r == retry {
				return failed
			}
			return r
		}
		if c.Ends {
			return failed
		}
		from = i + 1
	}
}
