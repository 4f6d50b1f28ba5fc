package lua

import (
	"math"
	"strings"

	"shuultuur/lib/ascii"

	lua "github.com/yuin/gopher-lua"
)

// The interpreter knows Lua 5.1. Operators of Lua 5.4 (&, |, ~, <<, >>, //) are translated to
// calls of functions with names that scripts are unlikely to use.

// A token is a word, number, text or sign of a script, with the space and comments before it.
type token struct{ space, text string }

// isWord reports whether the token is a name or a keyword.
func (t *token) isWord() bool { return t.text != "" && isNameByte(t.text[0]) && !isDigit(t.text[0]) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isNameByte(c byte) bool {
	return c == '_' || ascii.IsAlnum(c)
}

// signs are the signs of several bytes, longer ones first.
var signs = []string{"...", "..", "==", "~=", "<=", ">=", "<<", ">>", "//", "::"}

// longBracket returns the length of a long text [[...]] or [==[...]==] at the beginning of s.
func longBracket(s string) int {
	if len(s) < 2 || s[0] != '[' {
		return 0
	}
	n := 1
	for n < len(s) && s[n] == '=' {
		n++
	}
	if n >= len(s) || s[n] != '[' {
		return 0
	}
	end := strings.Index(s[n:], "]"+s[1:n]+"]")
	if end < 0 {
		return 0
	}
	return n + end + n + 1
}

// tokens splits a script.
func tokens(s string) (all []token) {
	for s != "" {
		n := 0
		for n < len(s) {
			if strings.IndexByte(" \t\r\n\f\v", s[n]) >= 0 {
				n++
				continue
			}
			if !strings.HasPrefix(s[n:], "--") {
				break
			}
			if long := longBracket(s[n+2:]); long > 0 {
				n += 2 + long
				continue
			}
			if i := strings.IndexByte(s[n:], '\n'); i >= 0 {
				n += i
				continue
			}
			n = len(s)
		}
		t := token{space: s[:n]}
		s = s[n:]
		if s == "" {
			return append(all, t)
		}
		n = 1
		switch c := s[0]; {
		case c == '"' || c == '\'':
			for n < len(s) && s[n] != c {
				if s[n] == '\\' {
					n++
				}
				n++
			}
			n = min(n+1, len(s))
		case isDigit(c) || c == '.' && len(s) > 1 && isDigit(s[1]):
			for n < len(s) && (isNameByte(s[n]) || s[n] == '.' || strings.IndexByte("+-", s[n]) >= 0 && strings.IndexByte("eEpP", s[n-1]) >= 0 && !strings.HasPrefix(s, "0x")) {
				n++
			}
		case isNameByte(c):
			for n < len(s) && isNameByte(s[n]) {
				n++
			}
		case longBracket(s) > 0:
			n = longBracket(s)
		default:
			for _, sign := range signs {
				if strings.HasPrefix(s, sign) {
					n = len(sign)
					break
				}
			}
		}
		t.text, s = s[:n], s[n:]
		all = append(all, t)
	}
	return all
}

// A binary operator binds its sides with a strength. Those with a function are not in Lua 5.1.
type operator struct {
	left, right int
	function    string
}

var operators = map[string]operator{
	"or": {1, 1, ""}, "and": {2, 2, ""}, "<": {3, 3, ""}, ">": {3, 3, ""}, "<=": {3, 3, ""}, ">=": {3, 3, ""}, "~=": {3, 3, ""}, "==": {3, 3, ""},
	"|": {4, 4, "__or54"}, "~": {5, 5, "__xor54"}, "&": {6, 6, "__and54"}, "<<": {7, 7, "__left54"}, ">>": {7, 7, "__right54"},
	"..": {9, 8, ""}, "+": {10, 10, ""}, "-": {10, 10, ""}, "*": {11, 11, ""}, "/": {11, 11, ""}, "//": {11, 11, "__div54"}, "%": {11, 11, ""},
	"^": {14, 13, ""},
}

const unary = 12 // strength of not, -, # and ~

// A translator translates the operators of a script.
type translator struct {
	all []token
	at  int
}

// translate returns a script with the operators of Lua 5.4 as calls.
func translate(script string) string {
	t := &translator{all: tokens(script)}
	return t.until("")
}

func (t *translator) peek() string {
	if t.at < len(t.all) {
		return t.all[t.at].text
	}
	return ""
}

// next returns the next token with its space.
func (t *translator) next() string {
	x := t.all[t.at]
	t.at++
	return x.space + x.text
}

// until translates up to and including the bracket or end that closes what was opened.
func (t *translator) until(closing string) string {
	var out strings.Builder
	for t.at < len(t.all) {
		if t.peek() == closing && closing != "" {
			out.WriteString(t.next())
			return out.String()
		}
		switch word := t.peek(); {
		case word == "<" && t.attribute(): // of a local variable
			out.WriteString(strings.Repeat("\n", strings.Count(t.next()+t.next()+t.next(), "\n")))
		case closing == "end" && (word == "do" || word == "if" || word == "repeat"):
			out.WriteString(t.next())
			if word == "repeat" {
				out.WriteString(t.until("until"))
			} else {
				out.WriteString(t.until("end"))
			}
		case t.starts():
			out.WriteString(t.expression(0))
		default:
			out.WriteString(t.next())
		}
	}
	return out.String()
}

// attribute reports whether <const> or <close> follows.
func (t *translator) attribute() bool {
	if t.at+2 >= len(t.all) || t.all[t.at+2].text != ">" {
		return false
	}
	word := t.all[t.at+1].text
	return word == "const" || word == "close"
}

// starts reports whether an expression, or a statement that begins like one, follows.
func (t *translator) starts() bool {
	x := &t.all[t.at]
	switch x.text {
	case "(", "{", "-", "#", "~", "not", "function", "nil", "true", "false", "...":
		return true
	case "":
		return false
	case "and", "break", "do", "else", "elseif", "end", "for", "goto", "if", "in", "local", "or", "repeat", "return", "then", "until", "while":
		return false
	}
	return x.isWord() || isDigit(x.text[0]) || x.text[0] == '"' || x.text[0] == '\'' || x.text[0] == '[' && len(x.text) > 1 || x.text[0] == '.' && len(x.text) > 2
}

// expression translates an expression whose operators bind more strongly than least.
func (t *translator) expression(least int) string {
	var left string
	switch t.peek() {
	case "-", "#", "not":
		left = t.next()
		left += t.expression(unary)
	case "~":
		space := t.all[t.at].space
		t.at++
		left = space + "__not54(" + t.expression(unary) + ")"
	default:
		left = t.operand()
	}
	for t.at < len(t.all) {
		op, ok := operators[t.peek()]
		if !ok || op.left <= least || t.peek() == "<" && t.attribute() {
			break
		}
		sign := t.next()
		right := t.expression(op.right)
		if op.function == "" {
			left += sign + right
			continue
		}
		trimmed := strings.TrimLeft(left, " \t\r\n\f\v")
		left = left[:len(left)-len(trimmed)] + op.function + "(" + trimmed + "," + right + ")"
	}
	return left
}

// operand translates a value with the calls and indices behind it.
func (t *translator) operand() string {
	if t.at >= len(t.all) {
		return ""
	}
	var out strings.Builder
	word := t.peek()
	out.WriteString(t.next())
	switch word {
	case "(":
		out.WriteString(t.until(")"))
	case "{":
		out.WriteString(t.until("}"))
	case "function":
		out.WriteString(t.until("end"))
		return out.String()
	}
	for t.at < len(t.all) {
		x := &t.all[t.at]
		switch {
		case x.text == "." || x.text == ":":
			out.WriteString(t.next())
			if t.at < len(t.all) {
				out.WriteString(t.next())
			}
		case x.text == "(":
			out.WriteString(t.next() + t.until(")"))
		case x.text == "[":
			out.WriteString(t.next() + t.until("]"))
		case x.text == "{":
			out.WriteString(t.next() + t.until("}"))
		case x.text != "" && (x.text[0] == '"' || x.text[0] == '\'' || x.text[0] == '[') && word != "" && (isNameByte(word[0]) && !isDigit(word[0]) || word == "("):
			out.WriteString(t.next()) // a call with a text
		default:
			return out.String()
		}
	}
	return out.String()
}

// whole returns an argument as an integer of 64 bits.
func whole(l *lua.LState, n int) int64 {
	v := float64(l.CheckNumber(n))
	if v != math.Trunc(v) || math.IsInf(v, 0) || math.IsNaN(v) {
		l.RaiseError("number has no integer representation")
	}
	if v >= 1<<63 {
		return int64(uint64(v))
	}
	return int64(v)
}

// operators adds the functions of translated operators and what Lua 5.4 has in math and table.
func (st *interpreter) operators() {
	l := st.l
	two := func(f func(a, b int64) int64) lua.LGFunction {
		return func(l *lua.LState) int {
			l.Push(lua.LNumber(f(whole(l, 1), whole(l, 2))))
			return 1
		}
	}
	left := func(a, b int64) int64 {
		switch {
		case b >= 64 || b <= -64:
			return 0
		case b < 0:
			return int64(uint64(a) >> uint(-b))
		}
		return int64(uint64(a) << uint(b))
	}
	for name, f := range map[string]lua.LGFunction{
		"__and54": two(func(a, b int64) int64 { return a & b }), "__or54": two(func(a, b int64) int64 { return a | b }),
		"__xor54": two(func(a, b int64) int64 { return a ^ b }), "__left54": two(left),
		"__right54": two(func(a, b int64) int64 { return left(a, -b) }),
		"__not54":   func(l *lua.LState) int { l.Push(lua.LNumber(^whole(l, 1))); return 1 },
		"__div54": func(l *lua.LState) int {
			l.Push(lua.LNumber(math.Floor(float64(l.CheckNumber(1)) / float64(l.CheckNumber(2)))))
			return 1
		},
		"rawlen": func(l *lua.LState) int {
			switch v := l.Get(1).(type) {
			case *lua.LTable:
				l.Push(lua.LNumber(v.Len()))
			case lua.LString:
				l.Push(lua.LNumber(len(v)))
			default:
				l.RaiseError("table or string expected")
			}
			return 1
		},
	} {
		l.SetGlobal(name, l.NewFunction(f))
	}
	l.SetFuncs(l.GetGlobal("math").(*lua.LTable), map[string]lua.LGFunction{
		"type": func(l *lua.LState) int {
			n, ok := l.Get(1).(lua.LNumber)
			switch {
			case !ok:
				l.Push(lua.LNil)
			case float64(n) == math.Trunc(float64(n)):
				l.Push(lua.LString("integer"))
			default:
				l.Push(lua.LString("float"))
			}
			return 1
		},
		"tointeger": func(l *lua.LState) int {
			n, ok := l.Get(1).(lua.LNumber)
			if !ok || float64(n) != math.Trunc(float64(n)) {
				l.Push(lua.LNil)
				return 1
			}
			l.Push(n)
			return 1
		},
		"ult": func(l *lua.LState) int { l.Push(lua.LBool(uint64(whole(l, 1)) < uint64(whole(l, 2)))); return 1 },
	})
	m := l.GetGlobal("math").(*lua.LTable)
	m.RawSetString("maxinteger", lua.LNumber(math.MaxInt64))
	m.RawSetString("mininteger", lua.LNumber(math.MinInt64))
	table := l.GetGlobal("table").(*lua.LTable)
	table.RawSetString("unpack", l.GetGlobal("unpack"))
	l.SetFuncs(table, map[string]lua.LGFunction{
		"pack": func(l *lua.LState) int {
			t := l.NewTable()
			for i := 1; i <= l.GetTop(); i++ {
				t.RawSetInt(i, l.Get(i))
			}
			t.RawSetString("n", lua.LNumber(l.GetTop()))
			l.Push(t)
			return 1
		},
		"move": func(l *lua.LState) int {
			from, first, last, at := l.CheckTable(1), l.CheckInt(2), l.CheckInt(3), l.CheckInt(4)
			to := l.OptTable(5, from)
			st.budget.step(l, max(0, last-first+1))
			if at > first && to == from {
				for i := last; i >= first; i-- {
					to.RawSetInt(at+i-first, from.RawGetInt(i))
				}
			} else {
				for i := first; i <= last; i++ {
					to.RawSetInt(at+i-first, from.RawGetInt(i))
				}
			}
			l.Push(to)
			return 1
		},
	})
}
