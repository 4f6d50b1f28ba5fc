package rule

import (
	"bytes"
	"strings"
	"testing"
)

// latin1 returns bytes as characters.
func latin1(data []byte) []rune {
	out := make([]rune, len(data))
	for i, c := range data {
		out[i] = rune(c)
	}
	return out
}

// first returns where the expression matches first, without the screen, or -1.
func (r *Regexp) first(data []byte) int {
	if r.looking != nil {
		if loc, ok := r.FindRunes(latin1(data), 0); ok && loc != nil {
			return loc[0]
		}
		return -1
	}
	for _, loc := range [][]int{r.Find([]byte(string(latin1(data))))} {
		if loc != nil {
			return len([]rune(string([]byte(string(latin1(data)))[:loc[0]])))
		}
	}
	return -1
}

// checkScreen fails if the screen rejects a position at which the expression matches.
func checkScreen(t *testing.T, m *PCRE, data []byte) {
	t.Helper()
	re, err := Compile(m)
	if err != nil {
		return
	}
	at := re.first(data)
	if at < 0 {
		return
	}
	if n := re.Skip(data); n < 0 || n > at {
		t.Errorf("/%s/%s matches %q at %d, but Skip returns %d", m.Expr, m.Flags, data, at, n)
	}
	if _, no := re.Refuses(data[at:]); no {
		t.Errorf("/%s/%s matches %q at %d, but the screen rejects it", m.Expr, m.Flags, data, at)
	}
	text, folded := re.Literal()
	if found := data[at:]; folded {
		if !bytes.Contains(bytes.ToLower(found), text) {
			t.Errorf("/%s/%s matches %q at %d, without %q in any case", m.Expr, m.Flags, data, at, text)
		}
	} else if !bytes.Contains(found, text) {
		t.Errorf("/%s/%s matches %q at %d, without %q", m.Expr, m.Flags, data, at, text)
	}
}

func TestALiteralIsInEveryMatch(t *testing.T) {
	for _, x := range []struct {
		expr, flags, want string
		folded            bool
	}{
		{`abc+d`, "", "ab", false},
		{`a(bcd)efg?`, "", "bcd", false},
		{`\\u0[a-d](\\u0|0)[a-d]/\\u0[a-d]`, "i", `/\u0`, true},
		{`ABCd`, "i", "abcd", true},
		{`a(?i:BCD)e`, "", "bcd", true},
		{`abc|abd`, "", "ab", false},
		{`abc|xyz`, "", "", false},
		{`(abcd)?e(fg)*h`, "", "e", false},
		{`(abc){2,}x`, "", "abc", false},
		{`(abc){0,2}xy`, "", "xy", false},
		{`ab\xe9cde`, "i", "cde", true},
		{`(?<!abc)de(?=fghi)`, "", "de", false},
		{`(?P<x>ab)c(?P=x)`, "", "abcab", false},
		{`(?P<x>[ab])c(?P=x)(?!d)de`, "", "de", false},
		{`[ab]c`, "", "c", false},
		{``, "", "", false},
	} {
		re, err := Compile(&PCRE{Expr: x.expr, Flags: x.flags})
		if err != nil {
			t.Fatal(err)
		}
		if text, folded := re.Literal(); string(text) != x.want || folded != x.folded {
			t.Errorf("/%s/%s: %q, folded %v, want %q, %v", x.expr, x.flags, text, folded, x.want, x.folded)
		}
	}
}

func TestScreensRejectNoMatches(t *testing.T) {
	for _, x := range []struct{ expr, flags, data string }{
		{`^(?P<sep>.{1,50})u(?P=sep)n(?P=sep)\s`, "", "ab-u" + "ab-n" + "ab- "},
		{`^(?=a)\w+(?!c)`, "", "abb"},
		{`(?i:(a))b\1`, "", "zzAbA"},
		{`(a)b\1`, "i", "xaBA"},
		{`a++b*+c?+d`, "", "zaabd"},
		{`a\++b`, "", "a+++b"},
		{`(?>a+)b`, "", "--aab"},
		{`(?<=x)y\b`, "", "axy z"},
		{`(["'])x\1|\d{3}$`, "", "=123\n"},
		{`^[^\]\[]+]`, "s", "abc]"},
		{`[][:alpha:]]+\x27`, "", "0]z'"},
		{`(.)(?<n>b)\k<n>\1`, "", "xabba"},
		{`\xfe\xff.`, "s", "a\xfe\xff\n"},
		{`^`, "m", "a\nb"},
		{`(?:)`, "", ""},
		{`^.{0,300}x`, "s", strings.Repeat("y", 300) + "x"},
		{`\bfoo`, "", "a foo"},
		{`(a|(b)\2)c`, "", "--bbc"},
		{`((?!</applet>).)+?["']aHR0`, "s", `x y"aHR0`},
	} {
		m := &PCRE{Expr: x.expr}
		for _, f := range x.flags {
			m.Flags += string(f)
		}
		if re, err := Compile(m); err != nil || re.first([]byte(x.data)) < 0 {
			t.Errorf("/%s/ does not match %q: %v", x.expr, x.data, err)
		}
		checkScreen(t, m, []byte(x.data))
	}
}

// TestScreensRejectSoon has positions that an expression need not examine.
func TestScreensRejectSoon(t *testing.T) {
	for _, x := range []struct {
		expr, data string
		at, most   int // what Skip returns, and how many bytes Refuses reads at most
	}{
		{`^\s*(?P<o>[\w\-]{1,20})\s*=\s*x(?P=o)`, "Timeout(" + strings.Repeat("x", 100), -1, 8},
		{`\\u0[a-d](\\u0|0)[a-d]/\\u0`, strings.Repeat(`\u002F`, 50), -1, 4},
		{`(?<=a)b(c)\1`, strings.Repeat("bd", 50) + "bcc", 100, 2},
	} {
		re, err := Compile(&PCRE{Expr: x.expr})
		if err != nil {
			t.Fatal(err)
		}
		if at := re.Skip([]byte(x.data)); at != x.at && !re.Anchored() {
			t.Errorf("/%s/ may match at %d, want %d", x.expr, at, x.at)
		}
		if n, no := re.Refuses([]byte(x.data)); !no || n > x.most {
			t.Errorf("/%s/: reads %d bytes and rejects: %v; want at most %d", x.expr, n, no, x.most)
		}
	}
}

// FuzzScreen compares screens with the expressions.
func FuzzScreen(f *testing.F) {
	f.Add(`^(?P<a>[b-d]{1,3})x(?P=a)+\s`, "i", []byte("bcxbc "))
	f.Add(`(a|b)(?!c)\1++d?`, "s", []byte("xaad"))
	f.Add(`[^\x00-\x20]{2,}(?i)=\d`, "m", []byte("\nab=1"))
	f.Fuzz(func(t *testing.T, expr, flags string, data []byte) {
		if len(expr) > 100 || len(data) > 200 {
			return
		}
		m := &PCRE{Expr: expr}
		for _, c := range flags {
			if strings.ContainsRune("ismG", c) {
				m.Flags += string(c)
			}
		}
		checkScreen(t, m, data)
	})
}
