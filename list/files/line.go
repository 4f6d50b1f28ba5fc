// Package files reads the files that lists are made of, as others wrote them: compressed, in another
// charset, including others, or in a tree of folders.
//
// [Includes] finds the files of a list that names others, and [Walk] those of a folder; [Unpack] and
// [CharsetOf] say what is in one. What cannot be used is a [Problem] with its place, and not an error,
// because the rest of a list is worth having. Package list reads the lines.
package files

import (
	"bufio"
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"

	"shuultuur/lib/charset"
	"shuultuur/lib/dns"
)

// MaxLine is the longest line read, in bytes. A longer one is skipped and
// reported.
const MaxLine = 64 << 10

// marks are characters that nobody sees: marks of the byte order, where files were joined, and those that
// some editors leave at the end of a line.
const marks = "\ufeff\u200b\u200c\u200d\u200e\u200f\u2060"

// Trim cuts off white space and what nobody sees.
func Trim(line []byte) []byte {
	for s := bytes.TrimSpace(line); ; s = bytes.TrimSpace(line) {
		if len(s) == 0 || s[0] < utf8.RuneSelf && s[len(s)-1] < utf8.RuneSelf {
			return s
		}
		if line = bytes.Trim(s, marks); len(line) == len(s) {
			return s
		}
	}
}

// Broken is why a line that [HasBreak] is refused.
const Broken = "has a character within that ends a line elsewhere, or that text does not have; write each entry on a line of its own"

// HasBreak reports whether a line has within it a character that ends lines in other texts, one that
// controls a terminal, or a mark of the byte order.
func HasBreak(line []byte) bool {
	line = Trim(line)
	for i, c := range line {
		switch {
		case c < ' ' && c != '\t':
			return true
		case c >= utf8.RuneSelf:
			return bytes.ContainsFunc(line[i:], func(r rune) bool {
				return r < ' ' && r != '\t' || r == '\u0085' || r == '\u2028' || r == '\u2029' || r == '\ufeff'
			})
		}
	}
	return false
}

// Host appends a host of a list as it is compared, or says why it is none.
func Host(dst, text []byte) (name []byte, reason string) {
	name, reason = dns.Host(dst, text)
	if reason == "" && HasBreak(text) { // a mark of the byte order, which such names pass over
		reason = Broken
	}
	return name, reason
}

// CutComment cuts off a comment: "#" at the beginning or after white space, so that "#" inside
// a URL is kept.
func CutComment(s []byte) []byte {
	for i := 0; i < len(s); {
		j := bytes.IndexByte(s[i:], '#')
		if j < 0 {
			break
		}
		if i += j; i == 0 || s[i-1] == ' ' || s[i-1] == '\t' {
			return bytes.TrimSpace(s[:i])
		}
		i++
	}
	return s
}

// CharsetOf returns the encoding of a file that is not in UTF-8: of the charset
// it is said to have, of its byte order mark, or of the part of its name that
// is one. Nil is UTF-8.
func CharsetOf(declared, name string, r *bufio.Reader) encoding.Encoding {
	if mark, _ := r.Peek(2); string(mark) == "\xff\xfe" || string(mark) == "\xfe\xff" {
		if mark[0] == 0xfe {
			return charset.UTF16BE
		}
		return charset.UTF16LE
	}
	if declared == "" {
		name = strings.ToLower(name)
		for _, x := range [...][2]string{
			{"koi8-r", "koi8-r"}, {"koi8-u", "koi8-u"}, {"-1251", "windows-1251"}, {"gb2312", "gb18030"}, {"big5", "big5"},
			{"euc-jp", "euc-jp"}, {"euc-kr", "euc-kr"}, {"shift_jis", "shift_jis"}, {"iso-8859-1", "windows-1252"}, {"iso-8859-2", "iso-8859-2"},
		} {
			if strings.Contains(path.Base(name), x[0]) {
				declared = x[1]
			}
		}
	}
	if e := charset.Get(declared); e != unicode.UTF8 {
		return e
	}
	return nil
}

// A Problem is a line that an administrator should look at.
type Problem struct {
	File   string
	Line   int // from 1; 0 for the whole file
	Reason string
	Kept   bool // a remark: the entry is in the list nevertheless
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Reason
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Reason)
}

// Quote quotes a piece of input for a message, only the beginning if it is long.
func Quote[T string | []byte](s T) string {
	if len(s) > 80 {
		return fmt.Sprintf("%q…", s[:80])
	}
	return fmt.Sprintf("%q", s)
}
