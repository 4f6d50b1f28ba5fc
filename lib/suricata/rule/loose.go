package rule

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// A loosener rewrites an expression of PCRE so that package regexp may compile it and that it
// matches at least the same: look-around always holds, repetitions may give bytes back, and a
// back reference matches whatever its group can match.
type loosener struct {
	out    strings.Builder
	groups []looseGroup // those that capture
	open   []openGroup
	fixed  bool // flags do not change within the expression
	ahead  int  // bytes that look-ahead examines at most, noLimit for no limit
}

// A looseGroup is a group that captures. text is "" until the group is closed.
type looseGroup struct{ name, text string }

// An openGroup is where a group begins in the output, and its number, -1 if it does not
// capture.
type openGroup struct{ at, number int }

// inlineFlags matches a change of flags within an expression.
var inlineFlags = regexp.MustCompile(`\(\?[a-zA-Z-]+[):]`)

// maxLoose limits the length of a loose expression.
const maxLoose = 4 << 10

// loosen returns a loose form of an expression, "" if there is none, and how many bytes the
// expression's look-ahead examines at most. What package regexp does not know may be left in
// the loose form.
func loosen(e string) (loose string, ahead int) {
	l := &loosener{fixed: !inlineFlags.MatchString(e)}
	for i := 0; i < len(e); {
		n := l.part(e[i:], i > 0 && repeats(e[:i]))
		if n == 0 || l.out.Len() > maxLoose {
			return "", noLimit
		}
		i += n
	}
	return l.out.String(), l.ahead
}

// repeats reports whether an expression ends with a repetition.
func repeats(e string) bool {
	last := len(e) - 1
	escapes := last - len(strings.TrimRight(e[:last], `\`))
	return strings.IndexByte("+*?}", e[last]) >= 0 && escapes%2 == 0
}

// part rewrites the first part of rest, and returns its length, 0 if that is unknown. repeated
// means that a repetition precedes it.
func (l *loosener) part(rest string, repeated bool) (n int) {
	for prefix, end := range map[string]string{`\k<`: ">", `(?P=`: ")"} {
		if name, ok := strings.CutPrefix(rest, prefix); ok {
			if name, _, ok = strings.Cut(name, end); !ok {
				return 0
			}
			l.refer(func(i int) bool { return l.groups[i].name == name })
			return len(prefix) + len(name) + len(end)
		}
	}
	for _, prefix := range []string{"(?=", "(?!", "(?<=", "(?<!"} {
		if strings.HasPrefix(rest, prefix) {
			l.out.WriteString("(?:)")
			n = groupEnd(rest)
			inner, ahead := loosen(rest[len(prefix):max(len(prefix), n-1)])
			l.ahead = min(noLimit, l.ahead+longest(inner)+ahead)
			return n
		}
	}
	for _, prefix := range []string{"(?P<", "(?<"} {
		if name, ok := strings.CutPrefix(rest, prefix); ok {
			if name, _, ok = strings.Cut(name, ">"); !ok {
				return 0
			}
			l.begin(name)
			return len(prefix) + len(name) + len(">")
		}
	}
	switch c := rest[0]; {
	case c == '\\' && (len(rest) < 2 || strings.IndexByte("Qgk", rest[1]) >= 0):
		return 0
	case c == '\\' && rest[1] >= '1' && rest[1] <= '9':
		if len(rest) > 2 && rest[2] >= '0' && rest[2] <= '9' {
			return 0 // perhaps an octal number
		}
		l.refer(func(i int) bool { return i == int(rest[1]-'1') })
		return 2
	case c == '\\':
		l.out.WriteString(rest[:2])
		return 2
	case c == '[':
		n = classEnd(rest)
		l.out.WriteString(rest[:n])
		return n
	case strings.HasPrefix(rest, "(?>"):
		l.open = append(l.open, openGroup{l.out.Len(), -1})
		l.out.WriteString("(?:")
		return len("(?>")
	case strings.HasPrefix(rest, "(?"):
		n = strings.IndexAny(rest, ":)") + 1
		if n > 0 && rest[n-1] == ':' {
			l.open = append(l.open, openGroup{l.out.Len(), -1})
		}
		l.out.WriteString(rest[:n])
		return n
	case c == '(':
		l.begin("")
	case c == ')':
		l.end()
	case c == '+' && repeated: // possessive
	default:
		l.out.WriteByte(c)
	}
	return 1
}

// begin opens a group that captures.
func (l *loosener) begin(name string) {
	l.open = append(l.open, openGroup{l.out.Len(), len(l.groups)})
	l.groups = append(l.groups, looseGroup{name: name})
	l.out.WriteString("(?:")
}

// end closes a group.
func (l *loosener) end() {
	l.out.WriteByte(')')
	if last := len(l.open) - 1; last >= 0 {
		if g := l.open[last]; g.number >= 0 {
			l.groups[g.number].text = l.out.String()[g.at:]
		}
		l.open = l.open[:last]
	}
}

// refer writes what a back reference to the group that is chosen may match.
func (l *loosener) refer(chosen func(int) bool) {
	text := ""
	for i := range l.groups {
		if chosen(i) && l.fixed && text == "" {
			text = l.groups[i].text
		}
	}
	if text == "" {
		text = `(?s:.*)`
	}
	l.out.WriteString(text)
}

// classEnd returns the length of the class of bytes at the beginning of rest.
func classEnd(rest string) int {
	i := len("[")
	if strings.HasPrefix(rest[i:], "^") {
		i++
	}
	if strings.HasPrefix(rest[i:], "]") {
		i++
	}
	for ; i < len(rest) && rest[i] != ']'; i++ {
		if rest[i] == '\\' {
			i++
		} else if strings.HasPrefix(rest[i:], "[:") {
			i += max(0, strings.Index(rest[i:], ":]")+1)
		}
	}
	return min(i+1, len(rest))
}

// groupEnd returns the length of the group at the beginning of rest.
func groupEnd(rest string) int {
	depth := 0
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '[':
			i += classEnd(rest[i:]) - 1
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(rest)
}

// noLimit is the length of matches that may have any length.
const noLimit = 16 << 10

// longest returns the length of the longest match of an expression, at most noLimit.
func longest(expr string) int {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil || expr == "" {
		return noLimit
	}
	return maxLength(re)
}

func maxLength(re *syntax.Regexp) (n int) {
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		n = 1
	case syntax.OpConcat, syntax.OpCapture, syntax.OpQuest:
		for _, sub := range re.Sub {
			n += maxLength(sub)
		}
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			n = max(n, maxLength(sub))
		}
	case syntax.OpRepeat:
		if n = noLimit; re.Max >= 0 {
			n = re.Max * maxLength(re.Sub[0])
		}
	case syntax.OpStar, syntax.OpPlus:
		n = noLimit
	}
	return min(n, noLimit)
}
