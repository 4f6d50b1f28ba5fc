package lua

import (
	"bytes"

	lua "github.com/yuin/gopher-lua"
)

// Limits of patterns.
const (
	maxCaptures = 32
	maxDepth    = 180
)

// A finder matches Lua patterns (Lua 5.1 manual, section 5.4.1) and charges each step to the
// budget of the script.
type finder struct {
	st    *interpreter
	l     *lua.LState
	s, p  string
	caps  [maxCaptures]struct{ from, n int } // n -1: not closed, -2: a position
	level int
	depth int
}

// match matches the pattern from p on at position s, and returns where the match ends, or -1.
// Long because each item of a pattern continues with the rest of it.
func (f *finder) match(s, p int) int {
	f.depth++
	defer func() { f.depth-- }()
	if f.depth > maxDepth {
		f.l.RaiseError("pattern too complex")
	}
	for {
		f.st.budget.step(f.l, 1)
		if p == len(f.p) {
			return s
		}
		switch f.p[p] {
		case '(':
			n, next := -1, p+1
			if next < len(f.p) && f.p[next] == ')' {
				n, next = -2, next+1
			}
			if f.level == maxCaptures {
				f.l.RaiseError("too many captures")
			}
			f.caps[f.level].from, f.caps[f.level].n = s, n
			f.level++
			e := f.match(s, next)
			if e < 0 {
				f.level--
			}
			return e
		case ')':
			i := f.level - 1
			for i >= 0 && f.caps[i].n != -1 {
				i--
			}
			if i < 0 {
				f.l.RaiseError("invalid pattern capture")
			}
			f.caps[i].n = s - f.caps[i].from
			e := f.match(s, p+1)
			if e < 0 {
				f.caps[i].n = -1
			}
			return e
		case '$':
			if p+1 == len(f.p) {
				if s == len(f.s) {
					return s
				}
				return -1
			}
		case '%':
			if p+1 < len(f.p) {
				switch c := f.p[p+1]; {
				case c == 'b':
					if s = f.balanced(s, p+2); s < 0 {
						return -1
					}
					p += 4
					continue
				case c >= '0' && c <= '9':
					i := int(c - '1')
					if i < 0 || i >= f.level || f.caps[i].n < 0 {
						f.l.RaiseError("invalid capture index")
					}
					text := f.s[f.caps[i].from : f.caps[i].from+f.caps[i].n]
					if len(f.s)-s < len(text) || f.s[s:s+len(text)] != text {
						return -1
					}
					s += len(text)
					p += 2
					continue
				}
			}
		}
		end := f.classEnd(p)
		suffix := byte(0)
		if end < len(f.p) {
			suffix = f.p[end]
		}
		switch suffix {
		case '?':
			if s < len(f.s) && f.single(f.s[s], p, end) {
				if e := f.match(s+1, end+1); e >= 0 {
					return e
				}
			}
			p = end + 1
		case '*', '+', '-':
			return f.repeat(s, p, end, suffix)
		default:
			if s >= len(f.s) || !f.single(f.s[s], p, end) {
				return -1
			}
			s, p = s+1, end
		}
	}
}

// repeat matches a repeated class.
func (f *finder) repeat(s, p, end int, suffix byte) int {
	if suffix == '-' {
		for {
			if e := f.match(s, end+1); e >= 0 {
				return e
			}
			f.st.budget.step(f.l, 1)
			if s >= len(f.s) || !f.single(f.s[s], p, end) {
				return -1
			}
			s++
		}
	}
	n := 0
	for s+n < len(f.s) && f.single(f.s[s+n], p, end) {
		n++
	}
	f.st.budget.step(f.l, n/8+1)
	least := 0
	if suffix == '+' {
		least = 1
	}
	for ; n >= least; n-- {
		if e := f.match(s+n, end+1); e >= 0 {
			return e
		}
	}
	return -1
}

// classEnd returns where the class that begins at p ends.
func (f *finder) classEnd(p int) int {
	c := f.p[p]
	p++
	switch c {
	case '%':
		if p == len(f.p) {
			f.l.RaiseError("malformed pattern (ends with '%%')")
		}
		return p + 1
	case '[':
		if p < len(f.p) && f.p[p] == '^' {
			p++
		}
		for first := true; ; first = false {
			if p >= len(f.p) {
				f.l.RaiseError("malformed pattern (missing ']')")
			}
			c := f.p[p]
			p++
			if c == ']' && !first {
				return p
			}
			if c == '%' {
				p++
			}
		}
	}
	return p
}

// single reports whether c is in the class f.p[p:end].
func (f *finder) single(c byte, p, end int) bool {
	switch f.p[p] {
	case '.':
		return true
	case '%':
		return inClass(c, f.p[p+1])
	case '[':
		return f.set(c, p+1, end-1)
	}
	return f.p[p] == c
}

func (f *finder) set(c byte, p, end int) bool {
	in := true
	if p < end && f.p[p] == '^' {
		in = false
		p++
	}
	for ; p < end; p++ {
		switch {
		case f.p[p] == '%' && p+1 < end:
			p++
			if inClass(c, f.p[p]) {
				return in
			}
		case p+2 < end && f.p[p+1] == '-':
			if f.p[p] <= c && c <= f.p[p+2] {
				return in
			}
			p += 2
		case f.p[p] == c:
			return in
		}
	}
	return !in
}

func inClass(c, class byte) bool {
	letter := c|0x20 >= 'a' && c|0x20 <= 'z'
	digit := c >= '0' && c <= '9'
	var in bool
	switch class | 0x20 {
	case 'a':
		in = letter
	case 'd':
		in = digit
	case 'l':
		in = c >= 'a' && c <= 'z'
	case 'u':
		in = c >= 'A' && c <= 'Z'
	case 's':
		in = c == ' ' || c >= '\t' && c <= '\r'
	case 'w':
		in = letter || digit
	case 'x':
		in = digit || c|0x20 >= 'a' && c|0x20 <= 'f'
	case 'p':
		in = c > ' ' && c < 0x7f && !letter && !digit
	case 'c':
		in = c < ' ' || c == 0x7f
	case 'g':
		in = c > ' ' && c < 0x7f
	case 'z':
		in = c == 0
	default:
		return class == c
	}
	if class >= 'A' && class <= 'Z' {
		return !in
	}
	return in
}

func (f *finder) balanced(s, p int) int {
	if p+1 >= len(f.p) {
		f.l.RaiseError("unbalanced pattern")
	}
	if s >= len(f.s) || f.s[s] != f.p[p] {
		return -1
	}
	depth := 1
	for i := s + 1; i < len(f.s); i++ {
		f.st.budget.step(f.l, 1)
		switch f.s[i] {
		case f.p[p+1]:
			if depth--; depth == 0 {
				return i + 1
			}
		case f.p[p]:
			depth++
		}
	}
	return -1
}

// find searches for the pattern from position from on.
func (f *finder) find(from int) (start, end int) {
	anchor := 0
	if len(f.p) > 0 && f.p[0] == '^' {
		anchor = 1
	}
	for s := from; s <= len(f.s); s++ {
		f.level = 0
		if e := f.match(s, anchor); e >= 0 {
			return s, e
		}
		if anchor == 1 {
			break
		}
	}
	return -1, -1
}

// capture returns capture i, or the whole match if there are no captures.
func (f *finder) capture(i, start, end int) lua.LValue {
	if i >= f.level {
		return lua.LString(f.s[start:end])
	}
	c := f.caps[i]
	switch c.n {
	case -2:
		return lua.LNumber(c.from + 1)
	case -1:
		f.l.RaiseError("unfinished capture")
	}
	return lua.LString(f.s[c.from : c.from+c.n])
}

func (f *finder) push(start, end int, whole bool) int {
	n := f.level
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		f.l.Push(f.capture(i, start, end))
	}
	return n
}

// strings replaces the functions of the library string that could take long.
func (st *interpreter) strings(t *lua.LTable) {
	l := st.l
	set := func(name string, f lua.LGFunction) { t.RawSetString(name, l.NewFunction(f)) }
	find := func(whole bool) lua.LGFunction {
		return func(l *lua.LState) int {
			s, p, init := l.CheckString(1), l.CheckString(2), l.OptInt(3, 1)
			if init < 0 {
				init = max(1, len(s)+init+1)
			}
			init = max(1, init)
			if init > len(s)+1 {
				l.Push(lua.LNil)
				return 1
			}
			if whole && l.ToBool(4) {
				st.budget.step(l, len(s)/16+1)
				i := bytes.Index([]byte(s[init-1:]), []byte(p))
				if i < 0 {
					l.Push(lua.LNil)
					return 1
				}
				l.Push(lua.LNumber(init + i))
				l.Push(lua.LNumber(init + i + len(p) - 1))
				return 2
			}
			f := &finder{st: st, l: l, s: s, p: p}
			start, end := f.find(init - 1)
			if start < 0 {
				l.Push(lua.LNil)
				return 1
			}
			if !whole {
				return f.push(start, end, true)
			}
			l.Push(lua.LNumber(start + 1))
			l.Push(lua.LNumber(end))
			return 2 + f.push(start, end, false)
		}
	}
	st.letters(t)
	set("find", find(true))
	set("match", find(false))
	gmatch := func(l *lua.LState) int {
		f := &finder{st: st, s: l.CheckString(1), p: l.CheckString(2)}
		at := 0
		l.Push(l.NewFunction(func(l *lua.LState) int {
			f.l = l
			if at > len(f.s) {
				return 0
			}
			start, end := f.find(at)
			if start < 0 {
				at = len(f.s) + 1
				return 0
			}
			at = end
			if end == start {
				at++
			}
			return f.push(start, end, true)
		}))
		return 1
	}
	set("gmatch", gmatch)
	set("gfind", gmatch)
	set("gsub", st.gsub)
	set("rep", func(l *lua.LState) int {
		s, n := l.CheckString(1), max(0, l.CheckInt(2))
		if len(s) > 0 && n > st.budget.limits.Bytes/len(s) {
			st.budget.take(l, st.budget.limits.Bytes+1)
		}
		st.budget.take(l, len(s)*n)
		l.Push(lua.LString(bytes.Repeat([]byte(s), n)))
		return 1
	})
}

// letters limits the functions of the library string that copy or split a string.
func (st *interpreter) letters(t *lua.LTable) {
	for _, name := range []string{"upper", "lower", "reverse"} {
		st.charge(t, name, func(l *lua.LState) (int, int) {
			n := len(l.CheckString(1))
			return n/8 + 1, n
		})
	}
	st.charge(t, "byte", func(l *lua.LState) (int, int) {
		n, from := len(l.CheckString(1)), l.OptInt(2, 1)
		return values(from, l.OptInt(3, from), n), 0
	})
	st.charge(t, "format", func(l *lua.LState) (int, int) {
		n := 0
		for i := 1; i <= l.GetTop(); i++ {
			n += len(l.Get(i).String())
		}
		return n/8 + 1, n
	})
}

func (st *interpreter) gsub(l *lua.LState) int {
	f := &finder{st: st, l: l, s: l.CheckString(1), p: l.CheckString(2)}
	with, most := l.CheckAny(3), l.OptInt(4, 1<<30)
	var out []byte
	n, at := 0, 0
	for n < most && at <= len(f.s) {
		start, end := f.find(at)
		if start < 0 {
			break
		}
		n++
		out = append(out, f.s[at:start]...)
		size := len(out)
		out = append(out, st.replacement(l, f, with, start, end)...)
		st.budget.take(l, len(out)-size)
		at = end
		if end == start {
			if start < len(f.s) {
				out = append(out, f.s[start])
			}
			at++
		}
		if len(f.p) > 0 && f.p[0] == '^' {
			break
		}
	}
	if at < len(f.s) {
		out = append(out, f.s[at:]...)
	}
	st.budget.take(l, len(out))
	l.Push(lua.LString(out))
	l.Push(lua.LNumber(n))
	return 2
}

// replacement returns the string with which gsub replaces a match.
func (st *interpreter) replacement(l *lua.LState, f *finder, with lua.LValue, start, end int) []byte {
	var v lua.LValue
	switch x := with.(type) {
	case lua.LString, lua.LNumber:
		text, out := x.String(), []byte(nil)
		for i := 0; i < len(text); i++ {
			if text[i] != '%' || i+1 == len(text) {
				out = append(out, text[i])
				continue
			}
			i++
			switch c := text[i]; {
			case c == '0':
				out = append(out, f.s[start:end]...)
			case c >= '1' && c <= '9':
				out = append(out, f.capture(int(c-'1'), start, end).String()...)
			default:
				out = append(out, c)
			}
		}
		return out
	case *lua.LTable:
		v = l.GetTable(x, f.capture(0, start, end))
	case *lua.LFunction:
		saved := *f
		l.Push(x)
		n := f.push(start, end, true)
		l.Call(n, 1)
		v = l.Get(-1)
		l.Pop(1)
		*f = saved
	}
	if v == nil || v == lua.LNil || v == lua.LFalse {
		return []byte(f.s[start:end])
	}
	return []byte(v.String())
}
