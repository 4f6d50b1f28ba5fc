package rule

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"regexp"
	"regexp/syntax"
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
	source   string                // for package regexp; loose if looking is set, "" if unknown
	compile  func() *regexp.Regexp // compiles source when needed; most expressions of public rules never are
	looking  *regexp2.Regexp       // for expressions with look-around, back references or atomic groups
	anchored bool                  // it only matches at the beginning
	longest  int                   // most bytes that an anchored looking expression examines, 0 for no limit
	once     sync.Once
	screen   *screen // made when needed; nil if every position passes
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
	if loose, ahead := loosen(digits.ReplaceAllString(m.Expr, `\x0$1$2`)); loose != "" && !extended {
		out.source = head + translate(loose, has("m"), has("E"), false)
		if n := longest(out.source) + ahead + 1; out.anchored && n < noLimit {
			out.longest = n // and a byte for conditions such as \b
		}
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

// Looking reports whether the expression backtracks, so that its time is limited by a clock.
func (r *Regexp) Looking() bool { return r.looking != nil }

// Find returns the positions of the first match and its groups in a text, or nil. It must not
// be used for backtracking expressions.
func (r *Regexp) Find(text []byte) []int { return r.compile().FindSubmatchIndex(text) }

// Read is like Find on characters that are read as needed. It is for expressions that match
// only at the beginning.
func (r *Regexp) Read(from io.RuneReader) []int { return r.compile().FindReaderSubmatchIndex(from) }

// Refuses reports that an expression that matches only at the beginning does not match in
// data. It mostly reads a few bytes, and returns how many.
func (r *Regexp) Refuses(data []byte) (read int, no bool) {
	if r.once.Do(r.begin); r.screen == nil {
		return 0, false
	}
	return r.screen.rejects(data)
}

// Skip returns the first position in data at which a match may begin, or -1.
func (r *Regexp) Skip(data []byte) int {
	if r.once.Do(r.begin); r.screen == nil {
		return 0
	}
	n := r.screen.skip(data)
	if n >= 0 && !r.screen.free && r.looking == nil {
		return 0 // package regexp has to know the bytes before
	}
	return n
}

// begin makes the screen.
func (r *Regexp) begin() {
	if r.source != "" {
		r.screen = newScreen(r.source)
	}
}

// Literal returns a text that is in every match, the longest one: folded if its case does not
// matter. It returns nil if there is none.
func (r *Regexp) Literal() (text []byte, folded bool) {
	if tree, err := syntax.Parse(r.source, syntax.Perl); err == nil {
		text, folded = literal(tree.Simplify())
	}
	return text, folded
}

func literal(re *syntax.Regexp) (text []byte, folded bool) {
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return literal(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if t, f := literal(sub); len(t) > len(text) {
				text, folded = t, f
			}
		}
	case syntax.OpLiteral:
		for begin, end := 0, 0; begin < len(re.Rune); begin = end + 1 {
			for end = begin; end < len(re.Rune) && re.Rune[end] < 0x80; end++ { // others have two forms in other ways
				continue
			}
			if end-begin > len(text) {
				text, folded = []byte(string(re.Rune[begin:end])), re.Flags&syntax.FoldCase != 0
			}
		}
	}
	if folded {
		text = bytes.ToLower(text)
	}
	return text, folded
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
