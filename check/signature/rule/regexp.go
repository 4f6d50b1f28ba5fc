package rule

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// expressionTime bounds one search of an expression that backtracks.
const expressionTime = 20 * time.Millisecond

// A Regexp is a compiled expression on bytes. The subject must be given as
// Latin-1 in UTF-8: each byte is one character.
type Regexp struct {
	linear  *regexp.Regexp  // in time linear to the subject
	looking *regexp2.Regexp // for look-around, back references and atomic groups
}

// digits finds \xH, with one digit only.
var digits = regexp.MustCompile(`\\x([0-9A-Fa-f])([^0-9A-Fa-f{]|$)`)

// Compile makes an expression of the flags i, s, m, x, A, E and G.
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
	if re, err := regexp.Compile(head + rewritten); err == nil {
		return &Regexp{linear: re}, nil
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
	return &Regexp{looking: re}, nil
}

// Looking says whether the expression backtracks, so that its time is bounded
// by a clock.
func (r *Regexp) Looking() bool { return r.looking != nil }

// Find returns the positions of the first match and its groups in s, from byte
// from on, or nil. ok is false when the search took too long and was given up.
func (r *Regexp) Find(s string, from int) (loc []int, ok bool) {
	if r.linear != nil {
		loc = r.linear.FindStringSubmatchIndex(s[from:])
		for i := range loc {
			if loc[i] >= 0 {
				loc[i] += from
			}
		}
		return loc, true
	}
	m, err := r.looking.FindStringMatchStartingAt(s, from)
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
		at, n := groups[i].ByteRange()
		loc = append(loc, at, at+n)
	}
	return loc, true
}

// translate writes an expression of PCRE as one of package regexp, as far as
// they differ: $ also matches before a final line feed, \h, \R and escaped
// characters without a meaning.
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
			if i+1 < len(e) && e[i+1] == ']' { // first in a class it is itself
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

// writeByte writes a byte of an expression as the character it stands for.
func writeByte(b *strings.Builder, c byte) {
	if c >= 0x80 {
		fmt.Fprintf(b, `\x{%x}`, c)
		return
	}
	b.WriteByte(c)
}

// escape writes what follows a backslash.
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
