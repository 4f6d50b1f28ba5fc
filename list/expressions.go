package list

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"regexp"
	"regexp/syntax"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"shuultuur/lib/literal"
	"shuultuur/list/files"
	"shuultuur/list/width"
)

// Bounds of a list's expressions.
const (
	maxExpressions = 200_000
	maxExpression  = 32 << 10 // bytes of one
)

// An expression is a regular expression in one category.
type expression struct {
	text    string // as written
	dialect uint8
	cat     uint16
	line    uint32
}

// Dialects of expressions.
const (
	posix = iota // extended regular expressions as of regcomp(3): squidGuard
	perl         // e2guardian, as far as RE2 supports it
	look         // with look-around or backreferences: the bounded engine
)

// pattern returns the expression in the syntax of its engine. URLs are matched in lower case,
// so case must not matter.
func (e *expression) pattern() string {
	if e.dialect == posix {
		return "(?i)" + literal.FromPOSIX(e.text)
	}
	return "(?i)" + e.text
}

// plain is an expression of RE2: linear time, no errors.
type plain struct{ re *regexp.Regexp }

func (p plain) MatchString(s string) (bool, error) { return p.re.MatchString(s), nil }

func (e *expression) compile() (matcher, error) {
	if e.dialect != look {
		re, err := regexp.Compile(e.pattern())
		return plain{re}, err
	}
	return compileLook(e.pattern())
}

// posixLine reads a line that is a POSIX expression. Those of a file "very_restrictive_…" are
// only counted.
func (p *parser) posixLine(s []byte) {
	switch {
	case !isExpression(s):
	case strings.HasPrefix(path.Base(p.src.Path), "very_restrictive"):
		p.src.Ignored++
	default:
		p.expression(s, posix)
	}
}

// restrictive reports the expressions that are not used.
func (p *parser) restrictive() {
	p.note(0, fmt.Sprintf("%d expressions are marked very restrictive and are not used", p.src.Ignored))
}

// perlLine reads a line that is an expression in Perl's syntax, as e2guardian reads all its
// lists: "/banners/" matches "/banners".
func (p *parser) perlLine(s []byte) {
	if !isExpression(s) {
		return
	}
	if !bytes.HasSuffix(s, []byte(`\/`)) {
		s = bytes.TrimRight(s, "/")
	}
	p.expression(s, perl)
}

func isExpression(s []byte) bool {
	return len(s) > 0 && s[0] != '#' && !bytes.HasPrefix(s, []byte(".Include<"))
}

// expression adds an expression.
func (p *parser) expression(s []byte, dialect uint8) {
	e := expression{text: string(s), dialect: dialect, cat: p.cat, line: p.line()}
	switch {
	case len(s) > maxExpression:
		p.refuse(s, fmt.Sprintf("is an expression longer than %d bytes", maxExpression))
		return
	case len(p.b.exprs) >= maxExpressions:
		p.refuse(s, fmt.Sprintf("exceeds the %d expressions of a list", maxExpressions))
		return
	}
	m, err := e.compile()
	if err != nil && e.dialect == perl && looksAround(err) {
		e.dialect = look
		if m, err = e.compile(); err == nil {
			p.remark(s, "has look-around, which is slow; it is given up on a URL that takes too long")
		}
	}
	if err != nil {
		p.refuse(s, "does not compile: "+reason(err))
		return
	}
	if err := p.b.budget.Spend(e.pattern()); err != nil {
		p.refuse(s, err.Error())
		return
	}
	if width.Matches(s, literal.Required(e.pattern()), func(s string) bool { yes, err := m.MatchString(s); return yes && err == nil }) && p.refuseWide(s) {
		return
	}
	if !p.format.likely(s) {
		p.b.report.Odd++
	}
	p.b.exprs = append(p.b.exprs, e)
}

// isLikelyExpression reports whether a text is like an expression for hosts or URLs, and not like a
// sentence or a line of a program: every word is an expression too.
func isLikelyExpression(s []byte) bool {
	if bytes.IndexAny(s, "\"<>`\t;{=") < 0 && bytes.IndexByte(s, ' ') < 0 {
		return true
	}
	s, conditions, _ := bytes.Cut(s, []byte(";")) // of Pi-hole
	for i, c := range s {
		switch c {
		case '"', '`', '\t', ' ':
			return false
		case '<', '>': // ends of words, and groups with a name or look-around
			if i == 0 || s[i-1] != '\\' && s[i-1] != '?' && !bytes.Contains(s[:i], []byte("(?")) {
				return false
			}
		}
	}
	return len(s) > 0 && bytes.IndexByte(conditions, ' ') < 0 && s[len(s)-1] != '{' && (bytes.IndexByte(s, '{') < 0 || bytes.IndexByte(s, '}') > 0)
}

// looksAround reports whether RE2 refuses an expression because it needs backtracking.
func looksAround(err error) bool {
	var e *syntax.Error
	return errors.As(err, &e) &&
		(e.Code == syntax.ErrInvalidPerlOp || e.Code == syntax.ErrInvalidNamedCapture && (strings.HasPrefix(e.Expr, "(?<!") || strings.HasPrefix(e.Expr, "(?<=")) || e.Code == syntax.ErrInvalidEscape && len(e.Expr) == 2 && '1' <= e.Expr[1] && e.Expr[1] <= '9')
}

// reason shortens an engine's error about an expression.
func reason(err error) string {
	var e *syntax.Error
	if errors.As(err, &e) {
		return fmt.Sprintf("%s: %s", e.Code, files.Quote(e.Expr))
	}
	return err.Error()
}

// expressionTable: number of expressions, then for each its category, line,
// dialect and text.
func (b *builder) expressionTable() []byte {
	if len(b.exprs) == 0 {
		return nil
	}
	t := binary.AppendUvarint(nil, uint64(len(b.exprs)))
	for i := range b.exprs {
		e := &b.exprs[i]
		t = binary.AppendUvarint(t, uint64(e.cat))
		t = binary.AppendUvarint(t, uint64(e.line))
		t = binary.AppendUvarint(t, uint64(e.dialect))
		t = appendString(t, e.text)
		b.report.Categories[b.categories.names[e.cat]]++
	}
	b.report.Exprs = len(b.exprs)
	return t
}

// An expressionSet is the expressions of a file. They are read on first use, and each is
// compiled when a URL first contains the text that it requires, so that opening a file costs
// nothing.
type expressionSet struct {
	once   sync.Once
	all    []compiledExpression
	always []uint32 // those without a required text
	index  *literal.Index
	err    error
}

type compiledExpression struct {
	expression
	once    sync.Once
	matcher matcher
	err     error
}

// read reads the table and makes the index of required texts.
func (x *expressionSet) read(data []byte, names int, damaged error) {
	r := tableReader{data}
	x.all = make([]compiledExpression, min(r.number(maxExpressions), uint64(len(data))))
	for i := range x.all {
		e := &x.all[i].expression
		e.cat, e.line, e.dialect, e.text = uint16(r.number(1<<16-1)), uint32(r.number(1<<32-1)), uint8(r.number(look)), r.string()
		if r.b == nil || int(e.cat) >= names {
			x.all, x.err = nil, damaged
			return
		}
	}
	b := literal.NewIndex()
	for i := range x.all {
		if !b.Add(literal.Required(x.all[i].pattern()), uint32(i)) {
			x.always = append(x.always, uint32(i))
		}
	}
	x.index = b
}

// Prepare reads the expressions and compiles those that are tried on every URL, so that the first request
// does not wait for that.
func (f *File) Prepare() {
	defer runtime.KeepAlive(f)
	if !f.HasExpressions() || f.data == nil {
		return
	}
	x := &f.exprs
	x.once.Do(func() { x.read(f.bytes(secExpressions), len(f.names), f.damaged) })
	for _, i := range x.always {
		x.all[i].prepare()
	}
}

func (e *compiledExpression) prepare() { e.once.Do(func() { e.matcher, e.err = e.compile() }) }

// HasExpressions reports whether Search has expressions to try.
func (f *File) HasExpressions() bool { return f.section[secExpressions].Size > 0 }

// Search appends to dst every regular expression of f that matches the host and path of q, as
// one text without scheme and port, decoded and in lower case. It tries only expressions whose
// required text occurs. The error is about a damaged file or an expression that took too long;
// the others have been tried all the same.
func (f *File) Search(q *Query, dst []Match) ([]Match, error) {
	defer runtime.KeepAlive(f)
	if !f.HasExpressions() || q.host == "" || f.data == nil {
		return dst, nil
	}
	x := &f.exprs
	x.once.Do(func() { x.read(f.bytes(secExpressions), len(f.names), f.damaged) })
	if x.err != nil {
		return dst, x.err
	}
	text := append(append(q.text[:0], q.host...), q.path...)
	// The engines need a string; the bytes belong to q and stay unchanged until the last of them
	// is done.
	s := asString(text)
	q.tried = q.tried[:0]
	var err error
	for _, i := range x.always {
		dst, err = x.try(f, i, s, dst, err)
	}
	for at := 0; at+literal.Size <= len(s); at++ {
		for _, l := range x.index.At(s[at:]) {
			if begin := at - int(l.Skip); begin >= 0 && strings.HasPrefix(s[begin:], l.Text) && !slices.Contains(q.tried, l.ID) {
				q.tried = append(q.tried, l.ID)
				dst, err = x.try(f, l.ID, s, dst, err)
			}
		}
	}
	return dst, err
}

// try appends a Match if expression i matches s. It returns the first error.
func (x *expressionSet) try(f *File, i uint32, s string, dst []Match, before error) ([]Match, error) {
	e := &x.all[i]
	e.prepare()
	err := e.err
	if err == nil {
		var yes bool
		if yes, err = e.matcher.MatchString(s); yes {
			for _, name := range f.names[e.cat] {
				dst = append(dst, Match{List: f, Category: name, URL: true, record: i, kind: expressionKind})
			}
		}
	}
	switch {
	case before != nil:
		return dst, before
	case err != nil:
		return dst, fmt.Errorf("trying expression %s: %w", files.Quote(e.text), err)
	}
	return dst, nil
}

func (x *expressionSet) written(m Match) (text string, line uint64, ok bool) {
	if uint64(m.record) >= uint64(len(x.all)) {
		return "", 0, false
	}
	e := &x.all[m.record]
	return e.text, uint64(e.line), true
}

// asString returns b as a string without copying. The bytes must not change while it is in
// use.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
