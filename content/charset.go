package content

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// Charset returns the encoding that label means in HTML (WHATWG Encoding
// Standard: "latin1" is windows-1252, "gb2312" is gbk).
func Charset(label string) (encoding.Encoding, error) {
	e, err := htmlindex.Get(strings.TrimSpace(label))
	if err != nil {
		return nil, fmt.Errorf("charset %q is not known", label)
	}
	return e, nil
}

// ToUTF8 returns p, which is written in the charset called label, as UTF-8. A
// byte order mark is dropped and counts more than label. What the charset does
// not define becomes U+FFFD. p itself is returned where nothing changes.
func ToUTF8(p []byte, label string) ([]byte, error) {
	e, n := mark(p)
	if e == nil {
		var err error
		if e, err = Charset(label); err != nil {
			return nil, err
		}
	}
	p = p[n:]
	if e == unicode.UTF8 {
		return bytes.ToValidUTF8(p, []byte("\uFFFD")), nil
	}
	q, err := e.NewDecoder().Bytes(p)
	if err != nil {
		return nil, fmt.Errorf("reading text as %s: %w", label, err)
	}
	return q, nil
}

// mark returns the encoding that a byte order mark tells and its length.
func mark(p []byte) (encoding.Encoding, int) {
	switch {
	case bytes.HasPrefix(p, []byte("\xEF\xBB\xBF")):
		return unicode.UTF8, 3
	case bytes.HasPrefix(p, []byte("\xFE\xFF")):
		return utf16BE, 2
	case bytes.HasPrefix(p, []byte("\xFF\xFE")):
		return utf16LE, 2
	}
	return nil, 0
}

var (
	utf16BE = unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	utf16LE = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
)

// isUTF16 says whether e is one that a meta element cannot be written in.
func isUTF16(e encoding.Encoding) bool {
	name, _ := htmlindex.Name(e)
	return strings.HasPrefix(name, "utf-16")
}

// charsetOf tells the encoding of a text by the standard's order: byte order
// mark, what Content-Type says, what a meta element (or XML declaration) in
// the first 1024 bytes says. nil means that nothing tells: bytes that are
// UTF-8 are read so, others as windows-1252. n is the length of the mark.
func charsetOf(head []byte, contentType []byte, markup bool) (e encoding.Encoding, n int) {
	if e, n = mark(head); e != nil {
		return e, n
	}
	if label := parameter(contentType, "charset"); label != nil {
		if e := lookup(label); e != nil {
			return e, 0
		}
	}
	if !markup {
		return nil, 0
	}
	if label := prescan(head); label != nil {
		e := lookup(label)
		if e != nil && e != unicode.UTF8 && isUTF16(e) {
			e = unicode.UTF8
		}
		return e, 0
	}
	return nil, 0
}

// lookup is Charset without an allocation for what most pages are written in;
// nil when the label is not known.
func lookup(label []byte) encoding.Encoding {
	if equalLower(label, "utf-8") {
		return unicode.UTF8
	}
	e, err := Charset(string(label))
	if err != nil {
		return nil
	}
	return e
}

// parameter returns the value of a media type's parameter, nil if none.
func parameter(v []byte, name string) []byte {
	for {
		semi := bytes.IndexByte(v, ';')
		if semi < 0 {
			return nil
		}
		v = bytes.TrimLeft(v[semi+1:], " \t")
		if len(v) <= len(name) || !equalLower(v[:len(name)], name) {
			continue
		}
		rest := bytes.TrimLeft(v[len(name):], " \t")
		if len(rest) == 0 || rest[0] != '=' {
			continue
		}
		return label(rest[1:])
	}
}

// label cuts a charset's name, which may be quoted, off the beginning of v.
func label(v []byte) []byte {
	v = bytes.TrimLeft(v, " \t\n\f\r")
	if len(v) > 0 && (v[0] == '"' || v[0] == '\'') {
		end := bytes.IndexByte(v[1:], v[0])
		if end < 0 {
			return nil
		}
		return v[1 : 1+end]
	}
	end := bytes.IndexAny(v, "; \t\n\f\r")
	if end < 0 {
		end = len(v)
	}
	return v[:end]
}

// prescan looks for the charset that the beginning of a document declares
// (HTML standard, 13.2.3.2, "prescan a byte stream"; before it XML's own
// encoding declaration).
func prescan(p []byte) []byte {
	if bytes.HasPrefix(p, []byte("<?xml")) {
		end := bytes.IndexByte(p, '>')
		if at := bytes.Index(p[:max(end, 0)], []byte("encoding")); at >= 0 {
			v := bytes.TrimLeft(p[at+len("encoding"):end], " \t\n\f\r")
			if len(v) > 0 && v[0] == '=' {
				return label(v[1:])
			}
		}
	}
	for {
		i := bytes.IndexByte(p, '<')
		if i < 0 || i+1 >= len(p) {
			return nil
		}
		p = p[i+1:]
		switch {
		case bytes.HasPrefix(p, []byte("!--")):
			end := bytes.Index(p[1:], []byte("-->"))
			if end < 0 {
				return nil
			}
			p = p[1+end+3:]
		case len(p) > 4 && equalLower(p[:4], "meta") && (isSpace(p[4]) || p[4] == '/'):
			found, rest := metaCharset(p[4:])
			if found != nil {
				return found
			}
			p = rest
		case isLetter(p[0]) || p[0] == '/' && len(p) > 1 && isLetter(p[1]):
			for len(p) > 0 && nameByte[p[0]] != 0 || len(p) > 0 && p[0] == '/' {
				p = p[1:]
			}
			for name := p[:0]; name != nil; {
				name, _, p = headAttribute(p)
			}
		case p[0] == '!' || p[0] == '/' || p[0] == '?':
			end := bytes.IndexByte(p, '>')
			if end < 0 {
				return nil
			}
			p = p[end:]
		}
	}
}

// metaCharset reads the attributes of a meta element.
func metaCharset(p []byte) (found, rest []byte) {
	pragma, needPragma := false, false
	for {
		var name, value []byte
		if name, value, p = headAttribute(p); name == nil {
			break
		}
		switch {
		case equalLower(name, "http-equiv"):
			pragma = pragma || equalLower(value, "content-type")
		case equalLower(name, "charset"):
			found, needPragma = value, false
		case equalLower(name, "content") && found == nil:
			if found = charsetWithin(value); found != nil {
				needPragma = true
			}
		}
	}
	if needPragma && !pragma {
		found = nil
	}
	return found, p
}

// charsetWithin finds charset=x in the content of a meta element.
func charsetWithin(v []byte) []byte {
	for i := 0; i+7 < len(v); i++ {
		if !equalLower(v[i:i+7], "charset") {
			continue
		}
		rest := bytes.TrimLeft(v[i+7:], " \t\n\f\r")
		if len(rest) > 0 && rest[0] == '=' {
			return label(rest[1:])
		}
	}
	return nil
}

// headAttribute reads one attribute; name is nil at the end of the tag.
func headAttribute(p []byte) (name, value, rest []byte) {
	for len(p) > 0 && (isSpace(p[0]) || p[0] == '/') {
		p = p[1:]
	}
	if len(p) == 0 || p[0] == '>' {
		return nil, nil, p
	}
	i := 1
	for i < len(p) && attrByte[p[i]] != 0 {
		i++
	}
	name, p = p[:i], bytes.TrimLeft(p[i:], " \t\n\f\r")
	if len(p) == 0 || p[0] != '=' {
		return name, nil, p
	}
	p = bytes.TrimLeft(p[1:], " \t\n\f\r")
	if len(p) > 0 && (p[0] == '"' || p[0] == '\'') {
		end := bytes.IndexByte(p[1:], p[0])
		if end < 0 {
			return nil, nil, nil
		}
		return name, p[1 : 1+end], p[end+2:]
	}
	i = 0
	for i < len(p) && p[i] != '>' && !isSpace(p[i]) {
		i++
	}
	return name, p[:i], p[i:]
}

// singleByte fills t with what the bytes from 0x80 mean in e and returns true
// if e is ASCII with one byte for each other character.
func singleByte(t *[128]rune, e encoding.Encoding) bool {
	m, ok := e.(*charmap.Charmap)
	if !ok || m.DecodeByte('a') != 'a' {
		return false
	}
	for i := range t {
		t[i] = m.DecodeByte(byte(0x80 + i))
	}
	return true
}

// windows1252 is what bytes from 0x80 mean where nothing tells. The five that
// it leaves undefined are control characters.
var windows1252 = func() (t [128]rune) {
	for i := range t {
		if t[i] = charmap.Windows1252.DecodeByte(byte(0x80 + i)); t[i] == utf8.RuneError {
			t[i] = rune(0x80 + i)
		}
	}
	return t
}()
