package prose

import (
	"html"
	"strings"
	"unicode/utf8"

	"shuultuur/lib/ascii"
	"shuultuur/lib/charset"
)

// A reference is an incomplete character reference: &name; &#99; &#x63; in markup, \u0063 in
// JSON, %63 in a form.
type reference struct {
	state refState
	value bool     // within an attribute's value
	name  [32]byte // the longest name of the HTML standard has 31 letters
	n     int
	num   rune
	high  rune // JSON: the first half of a surrogate pair
	twice bool // JSON: after several backslashes, so that it may not be an escape
	inner bool // JSON: a string with a quotation mark in it was read
}

type refState uint8

const (
	refNone    refState = iota
	refAmp              // after &
	refName             // within a name
	refHash             // after &#
	refHex              // after &#x
	refDecimal          // within the digits
	refHexDigits
	refBackslash   // after \ in JSON
	refBackslashes // after several, in a string of JSON within JSON
	refUnicode     // within the four digits of \u
	refPercent     // within the two digits of %
)

func (r *reference) begin(c byte, value bool) {
	r.n, r.num, r.value, r.twice = 0, 0, value, false
	switch c {
	case '\\':
		r.state = refBackslash
	case '%':
		r.state = refPercent
	default:
		r.state = refAmp
	}
}

// reference reads more of a character reference and returns how many bytes of p it used.
func (f *Flow) reference(p []byte) int {
	r := &f.ref
	for i, c := range p {
		switch r.state {
		case refAmp:
			switch {
			case c == '#':
				r.state = refHash
			case ascii.IsAlnum(c) || f.Entities != nil && (c == '_' || c >= 0x80):
				r.state = refName
				r.name[0], r.n = c, 1
			default:
				return i + f.endReference(c)
			}
		case refName:
			if !ascii.IsAlnum(c) && (f.Entities == nil || c != '-' && c != '_' && c != '.' && c < 0x80) || r.n == len(r.name) {
				f.resolveNamed(c)
				if c == ';' {
					i++
				}
				return i
			}
			r.name[r.n] = c
			r.n++
		case refHash:
			switch {
			case c|0x20 == 'x':
				r.state = refHex
			case c >= '0' && c <= '9':
				r.state = refDecimal
				r.num = rune(c - '0')
			default:
				return i + f.endReference(c)
			}
		case refHex, refHexDigits:
			d := rune(ascii.Unhex(c))
			if d < 0 {
				return i + f.endReference(c)
			}
			r.state = refHexDigits
			r.num = min(r.num<<4|d, 0x110000)
		case refDecimal:
			if c < '0' || c > '9' {
				return i + f.endReference(c)
			}
			r.num = min(r.num*10+rune(c-'0'), 0x110000)
		case refBackslash:
			if c != 'u' && (c != '\\' || !r.inner) {
				return i + f.escaped(c)
			}
			if r.state = refUnicode; c == '\\' {
				r.state = refBackslashes
			}
		case refBackslashes:
			switch c {
			case '\\':
			case 'u':
				r.state, r.twice = refUnicode, true
			case 'n', 'r', 't', '"', '/':
				return i + f.escaped(c)
			default:
				r.state = refNone
				f.Blank()
				return i
			}
		case refUnicode, refPercent:
			d := rune(ascii.Unhex(c))
			if d < 0 {
				return i + f.endReference(c)
			}
			r.num = r.num<<4 | d
			if r.n++; r.n == 4 || r.n == 2 && r.state == refPercent {
				f.endReference(c)
				return i + 1
			}
		}
	}
	return len(p)
}

// escaped reads the letter after a JSON backslash, which means white space or punctuation.
func (f *Flow) escaped(c byte) int {
	f.ref.state, f.ref.high = refNone, 0
	f.ref.inner = f.ref.inner || c == '"'
	f.Blank()
	return 1
}

// endReference ends the reference before the byte c (0 at the end) and returns 1 if c belongs
// to it.
func (f *Flow) endReference(c byte) int {
	r := &f.ref
	state := r.state
	r.state = refNone
	switch state {
	case refName:
		f.resolveNamed(c)
	case refDecimal, refHexDigits:
		if n := Numeric(r.num); !f.broken.inText || !f.written(n) {
			f.Rune(n)
		}
		if c == ';' {
			return 1
		}
	case refUnicode:
		f.unit(r)
	case refPercent:
		if r.n == 2 {
			f.byte(byte(r.num))
			break
		}
		f.Blank()
		if r.n == 1 {
			f.Rune(rune("0123456789abcdef"[r.num]))
		}
	default: // & alone, &# alone, \ at the end
		f.Blank()
		if state == refHex {
			f.Rune('x')
		}
	}
	return 0
}

// unit reads a UTF-16 code unit of JSON.
func (f *Flow) unit(r *reference) {
	u, high := r.num, r.high
	r.high = 0
	switch {
	case r.n < 4:
		f.Blank()
		if r.twice { // a word after a backslash
			f.Rune('u')
			for k := r.n - 1; k >= 0; k-- {
				f.Rune(rune("0123456789abcdef"[u>>(4*k)&15]))
			}
		}
	case u >= 0xD800 && u < 0xDC00:
		r.high = u
	case u >= 0xDC00 && u < 0xE000:
		if high == 0 {
			f.Blank()
			return
		}
		f.Rune((high-0xD800)<<10 + u - 0xDC00 + 0x10000)
	case f.written(u):
	default:
		f.Rune(u)
	}
}

// byte reads one byte that was written as an escape.
func (f *Flow) byte(c byte) {
	one := [1]byte{c}
	if f.nPart > 0 && f.completePart(one[:]) == 1 {
		return
	}
	if c >= 0x80 {
		f.nonASCII(one[:], 0)
		return
	}
	f.Rune(rune(c))
}

// Numeric returns the character for a numeric reference (HTML standard, "numeric character
// reference end state").
func Numeric(n rune) rune {
	if n >= 0x80 && n < 0xA0 {
		return charset.Windows1252.High()[n-0x80]
	}
	if n == 0 || !utf8.ValidRune(n) {
		return utf8.RuneError
	}
	return n
}

// resolveNamed resolves a named reference that ended before c. In an attribute's value, a name
// without semicolon counts only if neither "=" nor a letter or digit follows.
func (f *Flow) resolveNamed(c byte) {
	r := &f.ref
	r.state = refNone
	name := r.name[:r.n]
	if f.Entities != nil && c == ';' {
		if s, ok := f.Entities.Text(string(name)); ok {
			f.WriteUTF8(s)
			return
		}
	}
	if f.broken.inText && len(name) <= 3 {
		if mark, ok := markup[string(name)]; ok && f.written(mark) {
			return
		}
	}
	if c == ';' {
		switch string(name) {
		case "nbsp", "amp", "quot", "lt", "gt", "apos", "copy", "raquo", "laquo", "mdash", "ndash", "bull", "middot", "hellip", "rsquo", "lsquo", "rdquo", "ldquo":
			f.Blank()
			return
		}
		if one, ok := f.folds.names[string(name)]; ok {
			f.Rune(one)
			return
		}
	}
	f.WriteUTF8(r.unescape(name, c))
}

// markup are the names of characters that make markup.
var markup = map[string]rune{"lt": '<', "gt": '>', "amp": '&'}

// WriteUTF8 adds text in UTF-8, whatever the charset of the page.
func (f *Flow) WriteUTF8(s string) {
	for _, r := range s {
		f.Rune(r)
	}
}

// unescape returns the text of a name in the rare case: any name of the standard, or a prefix that is
// one.
func (r *reference) unescape(name []byte, c byte) string {
	src := "&" + string(name)
	if c == ';' {
		src += ";"
	}
	s := html.UnescapeString(src)
	whole := s != src && (c == ';' && (!strings.HasSuffix(s, ";") || s == ";") || c != ';' && utf8.RuneCountInString(s) == 1)
	if r.value && (!whole || c == '=') {
		return src
	}
	return s
}

// entityNames returns the letters of HTML 4, which pages in French or Greek may use
// everywhere.
func entityNames() map[string]rune {
	m := make(map[string]rune)
	for i, n := range strings.Fields(`
		Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml
		ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig
		agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml
		eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml`) {
		m[n] = 0xC0 + rune(i)
	}
	for i, n := range strings.Fields(`alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi
		omicron pi rho sigmaf sigma tau upsilon phi chi psi omega`) {
		m[n] = 0x3B1 + rune(i)
		if n != "sigmaf" {
			m[strings.ToUpper(n[:1])+n[1:]] = 0x391 + rune(i)
		}
	}
	m["shy"], m["zwj"], m["zwnj"] = 0xAD, 0x200D, 0x200C
	return m
}
