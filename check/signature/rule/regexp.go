package rule

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"regexp"
	"regexp/syntax"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// expressionTime limits one search of a backtracking expression.
const expressionTime = 20 * time.Millisecond

// A Regexp is a compiled expression on bytes. The subject must be Latin-1 in UTF-8, so that
// each byte is one character.
type Regexp struct {
	source  string                // of an expression that needs linear time
	compile func() *regexp.Regexp // compiles source when needed; most expressions of public rules never are
	looking *regexp2.Regexp       // for expressions with look-around, back references or atomic groups
	// first matches the beginning of any subject in which looking matches, nil if unknown. It
	// rejects quickly.
	first    *regexp.Regexp
	anchored bool // it only matches at the beginning
	longest  int  // most bytes that an anchored looking expression examines, 0 for no limit
	begins   beginnings
}

// beginnings are the possible first bytes of a match, for a few positions. They are computed
// when needed.
type beginnings struct {
	once   sync.Once
	places [][4]uint64 // sets of bytes
	free   bool        // whether a match begins does not depend on the bytes before
}

// digits matches \xH, with only one digit.
var digits = regexp.MustCompile(`\\x([0-9A-Fa-f])([^0-9A-Fa-f{]|$)`)

// Compile compiles an expression with the flags i, s, m, x, A, E and G.
func Compile(m *PCRE) (*Regexp, error) {
	flags := ""
	for _, f := range m.Flags {
		switch f {
		case 'i', 's', 'm':
			flags += string(f)
		case 'G':
			flags += "U"
		}
	}
	has := func(f string) bool { return strings.Contains(m.Flags, f) }
	expr := digits.ReplaceAllString(m.Expr, `\x0$1$2`)
	extended := has("x")
	rewritten := translate(expr, has("m"), has("E"), extended)
	if has("A") {
		rewritten = `\A(?:` + rewritten + `)`
	}
	head := ""
	if flags != "" {
		head = "(?" + flags + ")"
	}
	source := head + rewritten
	if tree, err := syntax.Parse(source, syntax.Perl); err == nil {
		return &Regexp{source: source, compile: sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(source) }), anchored: anchored(tree)}, nil
	}
	opts := regexp2.None
	if has("i") {
		opts |= regexp2.IgnoreCase
	}
	if has("s") {
		opts |= regexp2.Singleline
	}
	if has("m") {
		opts |= regexp2.Multiline
	}
	if extended {
		opts |= regexp2.IgnorePatternWhitespace
	}
	expr = forLooking(expr)
	if has("A") {
		expr = `\A(?:` + expr + `)`
	}
	re, err := regexp2.Compile(expr, opts)
	if err != nil {
		return nil, fmt.Errorf("/%s/: %w", m.Expr, err)
	}
	re.MatchTimeout = expressionTime
	out := &Regexp{looking: re, anchored: has("A") || strings.HasPrefix(m.Expr, "^") && !has("m") && !extended && !alternatives(m.Expr)}
	if out.anchored && !has("A") && !extended {
		out.first = beginning(head, m.Expr, has("E"))
		out.longest = longest(m.Expr)
	}
	return out, nil
}

// anchored reports whether an expression matches only at the beginning of a text.
func anchored(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginText:
		return true
	case syntax.OpCapture, syntax.OpConcat, syntax.OpPlus:
		return len(re.Sub) > 0 && anchored(re.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			if !anchored(sub) {
				return false
			}
		}
		return true
	}
	return false
}

// alternatives reports whether an expression has alternatives outside groups.
func alternatives(expr string) bool {
	for i := range parts(expr) {
		if expr[i] == '|' {
			return true
		}
	}
	return false
}

// Anchored reports whether the expression matches only at the beginning.
func (r *Regexp) Anchored() bool { return r.anchored }

// beginning returns the longest prefix of an expression, cut between two of its parts, that
// package regexp can compile; nil if there is none.
func beginning(head, expr string, dollarEnd bool) (best *regexp.Regexp) {
	var cuts []int
	for i := range parts(expr) {
		if i > 1 && !strings.ContainsRune("*+?{", rune(expr[i])) {
			cuts = append(cuts, i)
		}
	}
	// Prefixes that contain unknown syntax do not compile.
	sort.Search(len(cuts), func(i int) bool {
		re, err := regexp.Compile(head + translate(digits.ReplaceAllString(expr[:cuts[i]], `\x0$1$2`), false, dollarEnd, false))
		if err == nil {
			best = re
		}
		return err != nil
	})
	return best
}

// parts iterates over the positions in an expression at which a part outside groups begins: a
// character, a class, a group, a repetition or another sign.
func parts(expr string) iter.Seq[int] {
	return func(yield func(int) bool) {
		depth, class := 0, false
		for i := 0; i < len(expr); i++ {
			if depth == 0 && !class && !yield(i) {
				return
			}
			switch c := expr[i]; {
			case c == '\\':
				if i++; i < len(expr) && expr[i] == 'x' {
					i += 2
				}
			case class:
				class = c != ']'
			case c == '[':
				class = true
				if i+1 < len(expr) && expr[i+1] == '^' {
					i++
				}
				if i+1 < len(expr) && expr[i+1] == ']' {
					i++
				}
			case c == '(':
				depth++
			case c == ')':
				depth--
			case c == '{': // of a repetition
				for i < len(expr) && expr[i] != '}' {
					i++
				}
			}
		}
	}
}

// counts matches the repetitions in an expression.
var counts = regexp.MustCompile(`\{(\d+)(,(\d*))?\}`)

// longest returns the number of bytes that an expression examines at most, 0 if that is
// unknown or large.
func longest(expr string) int {
	const most = 16 << 10
	if strings.ContainsAny(expr, "*+") {
		return 0
	}
	n := 2 * len(expr) // each byte has at most two bytes in UTF-8
	for _, c := range counts.FindAllStringSubmatch(expr, -1) {
		times, err := strconv.Atoi(cmp.Or(c[3], c[1]))
		if err != nil || c[2] == "," || times > most {
			return 0
		}
		if n *= max(times, 1); n > most {
			return 0
		}
	}
	return n
}

// Looking reports whether the expression backtracks, so that its time is limited by a clock.
func (r *Regexp) Looking() bool { return r.looking != nil }

// Find returns the positions of the first match and its groups in a text, or nil. It must not
// be used for backtracking expressions.
func (r *Regexp) Find(text []byte) []int { return r.compile().FindSubmatchIndex(text) }

// Read is like Find on characters that are read as needed. It is for expressions that match
// only at the beginning.
func (r *Regexp) Read(from io.RuneReader) []int { return r.compile().FindReaderSubmatchIndex(from) }

// Rejects reports that a backtracking expression does not match at the beginning of from. It
// is fast.
func (r *Regexp) Rejects(from io.RuneReader) bool {
	return r.first != nil && !r.first.MatchReader(from)
}

// maxPlaces is the number of positions in beginnings.
const maxPlaces = 4

// Refuses reports that an expression that matches only at the beginning does not match in
// data. It examines a few bytes.
func (r *Regexp) Refuses(data []byte) bool {
	r.begins.once.Do(r.begin)
	return r.begins.refuses(data)
}

// Skip returns the first position in data at which a match of an expression that does not
// backtrack may begin, or -1.
func (r *Regexp) Skip(data []byte) int {
	b := &r.begins
	b.once.Do(r.begin)
	if !b.free || len(b.places) == 0 {
		return 0
	}
	for i := range data {
		if c := data[i]; b.places[0][c>>6]>>(c&63)&1 != 0 && !b.refuses(data[i:]) {
			return i
		}
	}
	return -1
}

// begin computes the beginnings of a match.
func (r *Regexp) begin() {
	if r.looking == nil {
		r.begins.places, r.begins.free = places(r.source)
	} else if r.first != nil {
		r.begins.places, _ = places(r.first.String())
	}
}

// refuses reports that no match begins at the beginning of data.
func (b *beginnings) refuses(data []byte) bool {
	for i := range b.places {
		if i >= len(data) || b.places[i][data[i]>>6]>>(data[i]&63)&1 == 0 {
			return true
		}
	}
	return false
}

// places returns the sets of bytes possible at the first positions of a match, as many as
// every match has. free means that the bytes before the match do not matter.
func places(expr string) (sets [][4]uint64, free bool) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, false
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, false
	}
	free = true
	next := []uint32{uint32(prog.Start)}
	for range maxPlaces {
		var set [4]uint64
		seen := make([]bool, len(prog.Inst))
		var after []uint32
		for len(next) > 0 {
			pc := next[len(next)-1]
			if next = next[:len(next)-1]; seen[pc] {
				continue
			}
			seen[pc] = true
			switch x := &prog.Inst[pc]; x.Op {
			case syntax.InstMatch:
				return sets, free
			case syntax.InstAlt, syntax.InstAltMatch:
				next = append(next, x.Out, x.Arg)
			case syntax.InstCapture, syntax.InstNop:
				next = append(next, x.Out)
			case syntax.InstEmptyWidth: // any context is possible
				free = free && len(sets) > 0
				next = append(next, x.Out)
			case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
				for c := range rune(256) {
					if x.MatchRune(c) {
						set[c>>6] |= 1 << (c & 63)
					}
				}
				after = append(after, x.Out)
			}
		}
		sets, next = append(sets, set), after
	}
	return sets, free
}

// Longest returns the number of bytes that the expression examines at most, 0 for no limit.
func (r *Regexp) Longest() int { return r.longest }

// FindRunes is Find for a backtracking expression, from a position on. Positions are those of
// runes.
func (r *Regexp) FindRunes(subject []rune, from int) (loc []int, ok bool) {
	m, err := r.looking.FindRunesMatchStartingAt(subject, from)
	return positions(m, err)
}

// positions returns the positions of a match and its groups.
func positions(m *regexp2.Match, err error) (loc []int, ok bool) {
	if err != nil || m == nil {
		return nil, err == nil
	}
	groups := m.Groups()
	loc = make([]int, 0, 2*len(groups))
	for i := range groups {
		if len(groups[i].Captures) == 0 {
			loc = append(loc, -1, -1)
			continue
		}
		loc = append(loc, groups[i].RuneIndex, groups[i].RuneIndex+groups[i].RuneLength)
	}
	return loc, true
}

// translate converts an expression of PCRE to one of package regexp, where they differ: $ also
// matches before a final line feed, \h, \R and escaped characters without a meaning.
func translate(e string, multi, dollarEnd, extended bool) string {
	var b strings.Builder
	class := false
	for i := 0; i < len(e); i++ {
		c := e[i]
		switch {
		case c == '\\' && i+1 < len(e):
			i++
			escape(&b, e[i], class)
		case class:
			if c == ']' {
				class = false
			}
			if c == '[' && i+1 < len(e) && e[i+1] != ':' {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		case c == '[':
			class = true
			b.WriteByte(c)
			if i+1 < len(e) && e[i+1] == '^' {
				i++
				b.WriteByte('^')
			}
			if i+1 < len(e) && e[i+1] == ']' { // an ordinary character at the beginning of a class
				i++
				b.WriteString(`\]`)
			}
		case c == '$' && !multi && !dollarEnd:
			b.WriteString(`(?:\n?\z)`)
		case c == '$' && !multi:
			b.WriteString(`\z`)
		case extended && (c == ' ' || c == '\t' || c == '\n'):
		case extended && c == '#':
			for i < len(e) && e[i] != '\n' {
				i++
			}
		default:
			writeByte(&b, c)
		}
	}
	return b.String()
}

// writeByte writes the character for a byte of an expression.
func writeByte(b *strings.Builder, c byte) {
	if c >= 0x80 {
		fmt.Fprintf(b, `\x{%x}`, c)
		return
	}
	b.WriteByte(c)
}

// escape writes the translation of a backslash and c.
func escape(b *strings.Builder, c byte, class bool) {
	switch {
	case c == 'h' && class:
		b.WriteString(` \t`)
	case c == 'h':
		b.WriteString(`[ \t]`)
	case c == 'R' && !class:
		b.WriteString(`(?:\r\n|\n|\r|\f|\v)`)
	case c == 'Z' && !class:
		b.WriteString(`(?:\n?\z)`)
	case c == 's' && class:
		b.WriteString(`\s\v`)
	case c == 's':
		b.WriteString(`[\s\v]`)
	case c == 'e':
		b.WriteString(`\x1b`)
	case strings.IndexByte("/ \"'#%&,:;<=>@_`~!-", c) >= 0 || c >= 0x80:
		if c == '-' && class {
			b.WriteString(`\-`)
			return
		}
		writeByte(b, c)
	default:
		b.WriteByte('\\')
		b.WriteByte(c)
	}
}

// forLooking writes an expression of PCRE as one of regexp2.
func forLooking(e string) string {
	e = strings.NewReplacer(`(?P<`, `(?<`, `\_`, `_`, `\/`, `/`, `\h`, `[ \t]`).Replace(e)
	for {
		i := strings.Index(e, `(?P=`)
		if i < 0 {
			break
		}
		end := strings.IndexByte(e[i:], ')')
		if end < 0 {
			break
		}
		e = e[:i] + `\k<` + e[i+4:i+end] + `>` + e[i+end+1:]
	}
	// A possessive repetition is taken as a greedy one, which matches more.
	var b strings.Builder
	for i := 0; i < len(e); i++ {
		c := e[i]
		if c == '+' && i > 1 && (e[i-1] == '+' || e[i-1] == '*' || e[i-1] == '?' || e[i-1] == '}') && e[i-2] != '\\' {
			continue
		}
		if c >= 0x80 {
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
