package squid

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"shuultuur/lib/ascii"
	"shuultuur/lib/literal"
)

// fromPOSIX converts an expression of regcomp(3), to which a letter behind a backslash is the letter,
// but for a few.
func fromPOSIX(v string) string {
	v = literal.FromPOSIX(v)
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' || i+1 == len(v) {
			b.WriteByte(v[i])
			continue
		}
		if i++; !ascii.IsLetter(v[i]) || strings.IndexByte("bBwWsS", v[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(v[i])
	}
	return b.String()
}

// fullURL converts an expression of regcomp(3) to one on the whole URL. Squid compares it with the
// URL, with what follows the host, or with the host alone, by the kind of the acl; with case, unless
// -i is in front.
func fullURL(a *acl, v string) (string, error) {
	x, err := parse(a, v)
	if err != nil {
		return "", err
	}
	text := x.String()
	x = ends(x.Simplify())
	switch a.kind {
	case "urlpath_regex":
		first := slashFirst(beginning(x, true))
		if mayBeEmpty(notEnding(beginning(x, true))) {
			first = slash
		}
		text = "^[a-z_]+://[^/]*(?:" + first.String() + "|/.*" + group(beginning(x, false)) + ")"
	case "dstdom_regex", "ssl::server_name_regex":
		host := hostOf(x)
		text = "^[a-z_]+://" + host + "|^" + host + "[^/]*$" // the URL of a tunnel is its host and port
	}
	_, err = regexp.Compile(text)
	return "(?:" + text + ")", err
}

// hostExpression converts an expression of regcomp(3) on a host to one on host and path, for a list.
func hostExpression(a *acl, v string) (string, error) {
	x, err := parse(a, v)
	if err != nil {
		return "", err
	}
	text := "^(?-i:" + hostOf(ends(x.Simplify())) + ")"
	_, err = regexp.Compile(text)
	return text, err
}

// parse parses an expression of an acl.
func parse(a *acl, v string) (*syntax.Regexp, error) {
	flags := syntax.Perl
	if a.fold[v] {
		flags |= syntax.FoldCase
	}
	x, err := syntax.Parse(fromPOSIX(v), flags)
	if err != nil {
		return nil, err
	}
	if y := x.Simplify(); a.kind != "url_regex" && (anchored(y, syntax.OpBeginText, 0) || anchored(y, syntax.OpEndText, 0)) {
		return nil, errors.New("^ or $ stands where it may, or may not, be at the beginning or end")
	}
	return x, nil
}

// hostOf returns an expression for the beginning of a text up to where x matches within its host.
func hostOf(x *syntax.Regexp) string {
	return "(?:" + inHost(beginning(x, true)).String() + "|[^/:]*" + group(inHost(beginning(x, false))) + ")"
}

func group(x *syntax.Regexp) string { return "(?:" + x.String() + ")" }

var (
	empty   = &syntax.Regexp{Op: syntax.OpEmptyMatch}
	noMatch = &syntax.Regexp{Op: syntax.OpNoMatch}
	slash   = &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune{'/'}}
)

// each returns an expression with its parts replaced.
func each(x *syntax.Regexp, to func(*syntax.Regexp) *syntax.Regexp) *syntax.Regexp {
	y := *x
	y.Sub, y.Sub0 = nil, [1]*syntax.Regexp{}
	for _, s := range x.Sub {
		y.Sub = append(y.Sub, to(s))
	}
	return &y
}

// anchored reports whether an anchor stands behind what may be empty, or is repeated, so that whether
// it holds depends on the text. beside counts what is beside x: 0 for nothing, 1 for something, 2 for
// what may be nothing.
func anchored(x *syntax.Regexp, anchor syntax.Op, beside int) bool {
	switch x.Op {
	case anchor:
		return beside == 2
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		if x.Op == syntax.OpQuest {
			return anchored(x.Sub[0], anchor, beside)
		}
		return anchored(x.Sub[0], anchor, 2)
	case syntax.OpConcat:
		subs := slices.Clone(x.Sub)
		if anchor == syntax.OpEndText {
			slices.Reverse(subs)
		}
		for _, s := range subs {
			if anchored(s, anchor, beside) {
				return true
			}
			switch {
			case !mayBeEmpty(s):
				beside = 1
			case beside == 0 && s.Op != syntax.OpEmptyMatch:
				beside = 2 // also another anchor: what is in two of them is left to the administrator
			}
		}
		return false
	}
	return slices.ContainsFunc(x.Sub, func(s *syntax.Regexp) bool { return anchored(s, anchor, beside) })
}

// beginning returns an expression for a part of a text that begins with the text, or after it.
func beginning(x *syntax.Regexp, first bool) *syntax.Regexp {
	switch {
	case x.Op == syntax.OpBeginText && first:
		return empty
	case x.Op == syntax.OpBeginText:
		return noMatch
	}
	return each(x, func(s *syntax.Regexp) *syntax.Regexp {
		y := beginning(s, first)
		first = first && (x.Op != syntax.OpConcat || mayBeEmpty(s))
		return y
	})
}

// inHost returns an expression that matches within a host alone, whose end is that of the URL, or
// before its port or path.
func inHost(x *syntax.Regexp) *syntax.Regexp {
	switch x.Op {
	case syntax.OpEndText:
		end, err := syntax.Parse("(?:[:/]|$)", syntax.Perl)
		if err != nil {
			return noMatch
		}
		return end
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return &syntax.Regexp{Op: syntax.OpCharClass, Rune: []rune{0, '.', '0', '9', ';', '\U0010ffff'}}
	case syntax.OpLiteral:
		if slices.Contains(x.Rune, '/') || slices.Contains(x.Rune, ':') {
			return noMatch
		}
	case syntax.OpCharClass:
		y := *x
		y.Rune = without(without(x.Rune, '/'), ':')
		if len(y.Rune) == 0 {
			return noMatch
		}
		return &y
	}
	return each(x, inHost)
}

// ends returns an expression without ends that something follows.
func ends(x *syntax.Regexp) *syntax.Regexp {
	y, end := each(x, ends), true
	for i := len(x.Sub) - 1; i >= 0 && x.Op == syntax.OpConcat; i-- {
		if !end {
			y.Sub[i] = notEnding(y.Sub[i])
		}
		end = end && mayBeEmpty(x.Sub[i])
	}
	return y
}

// notEnding returns an expression for what is not at the end.
func notEnding(x *syntax.Regexp) *syntax.Regexp {
	if x.Op == syntax.OpEndText {
		return noMatch
	}
	return each(x, notEnding)
}

// without returns the spans of a class without a character.
func without(spans []rune, c rune) (all []rune) {
	for i := 0; i+1 < len(spans); i += 2 {
		from, to := spans[i], spans[i+1]
		if c < from || c > to {
			all = append(all, from, to)
			continue
		}
		if from < c {
			all = append(all, from, c-1)
		}
		if c < to {
			all = append(all, c+1, to)
		}
	}
	return all
}

// slashFirst returns an expression for those texts that begin with a slash.
func slashFirst(x *syntax.Regexp) *syntax.Regexp {
	switch x.Op {
	case syntax.OpLiteral:
		if x.Rune[0] == '/' {
			return x
		}
	case syntax.OpCharClass:
		if len(without(x.Rune, '/')) != len(x.Rune) || slices.Contains(x.Rune, '/') {
			return slash
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return slash
	case syntax.OpCapture, syntax.OpQuest:
		return slashFirst(x.Sub[0])
	case syntax.OpStar, syntax.OpPlus:
		star := &syntax.Regexp{Op: syntax.OpStar, Sub: x.Sub}
		return concat(slashFirst(x.Sub[0]), star)
	case syntax.OpAlternate:
		return each(x, slashFirst)
	case syntax.OpConcat:
		all := &syntax.Regexp{Op: syntax.OpAlternate}
		for i, s := range x.Sub {
			all.Sub = append(all.Sub, concat(slashFirst(s), x.Sub[i+1:]...))
			if !mayBeEmpty(s) {
				break
			}
		}
		if len(all.Sub) == 1 {
			return all.Sub[0]
		}
		return all
	}
	return noMatch
}

func concat(first *syntax.Regexp, rest ...*syntax.Regexp) *syntax.Regexp {
	if first.Op == syntax.OpNoMatch {
		return noMatch
	}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: append([]*syntax.Regexp{first}, rest...)}
}

func mayBeEmpty(x *syntax.Regexp) bool {
	switch x.Op {
	case syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpNoMatch:
		return false
	case syntax.OpCapture, syntax.OpPlus:
		return mayBeEmpty(x.Sub[0])
	case syntax.OpConcat:
		return !slices.ContainsFunc(x.Sub, func(s *syntax.Regexp) bool { return !mayBeEmpty(s) })
	case syntax.OpAlternate:
		return slices.ContainsFunc(x.Sub, mayBeEmpty)
	}
	return true
}
