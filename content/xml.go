package content

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// xsltSpace is the namespace of XSLT, without its scheme.
const xsltSpace = "www.w3.org/1999/XSL/Transform"

// This file handles the differences between XML and HTML: entities, processing instructions,
// and documents without a style sheet, which browsers show as source, with names, attributes
// and comments.

// treeName writes a part of the name of an element.
func (x *page) treeName(p []byte, first, last bool) {
	if first {
		x.aside.blank()
	}
	x.aside.write(p, rawText)
	if last {
		x.aside.flush()
		x.aside.blank()
		x.spill()
	}
}

// treeAttribute returns the use of an attribute of XML that has no meaning in HTML.
func (x *page) treeAttribute(name []byte) attrKind {
	switch {
	case bytes.HasPrefix(name, []byte("xmlns")):
		x.space = len(name) == len("xmlns")
		return attrSpace
	case x.transform && (equalLower(name, "select") || equalLower(name, "value-of")):
		return attrXPath
	case x.tree:
		return attrMore
	}
	_, local, prefixed := bytes.Cut(name, []byte(":"))
	if !prefixed {
		local = name
	}
	if x.office {
		return officeAttribute(x.key, x.more, local)
	}
	if prefixed {
		if k := attribute(x.tag.kind, local); k == attrTitle || k == attrURL {
			return max(k, attrMore) // with the prefix of XLink, whatever its name
		}
	}
	return attrNone
}

// namespace ends the tree if v is the namespace of a language that browsers render.
func (x *page) namespace(v []byte) {
	x.transform = x.transform || bytes.Contains(v, []byte(xsltSpace))
	for _, s := range [...]string{"www.w3.org/1999/xhtml", "www.w3.org/2000/svg"} {
		if bytes.Contains(v, []byte(s)) {
			x.tree = false
			return
		}
	}
	x.strange = x.strange || x.space && !bytes.Contains(v, []byte("www.w3.org/1998/Math/MathML"))
}

// expression reads an expression of a transformation. It joins its literals, as most functions
// with several arguments do.
func (x *page) expression(p []byte) {
	x.aside.blank()
	x.aside.write(p, valueText)
	x.aside.flush()
	x.aside.blank()
	if text := []byte(plainValue(literals(unescape(p)))); x.prefixed && len(text) > 0 {
		x.literal = text
		x.aside.b = append(x.aside.b, bytes.TrimLeft(text, " ")...)
		x.aside.blank()
	}
	x.spill()
}

// literals returns the strings in an expression, joined.
func literals(p []byte) (all []byte) {
	for {
		i := bytes.IndexAny(p, "\"'")
		if i < 0 {
			return all
		}
		one, rest, _ := bytes.Cut(p[i+1:], p[i:i+1])
		all, p = append(all, one...), rest
	}
}

// treeText writes a part of a comment.
func (x *page) treeText(p []byte) {
	if x.tree {
		x.aside.write(p, rawText)
		x.aside.flush()
		x.spill()
	}
}

// instruction reads a processing instruction. One that refers to a style sheet may contain it.
func (x *page) instruction(p []byte) {
	if !bytes.HasPrefix(p, []byte("xml-stylesheet")) {
		return
	}
	p = p[len("xml-stylesheet"):]
	for {
		var name, value []byte
		if name, value, p = headAttribute(p); name == nil {
			return
		}
		if string(name) == "href" {
			x.dataURL(unescape(value))
		}
	}
}

// doctype reads a document type declaration up to its end: a > outside strings, comments and
// brackets.
func (x *scanner) doctype(p []byte, i int) int {
	start := i
	for ; i < len(p); i++ {
		c := p[i]
		switch {
		case x.quote == '-': // a comment
			if c == '>' && x.recent&0xFFFF == '-'<<8|'-' {
				x.quote = 0
			}
		case x.quote == '?': // an instruction
			if c == '>' && x.recent&0xFF == '?' {
				x.quote = 0
			}
		case c == '?' && x.recent&0xFF == '<':
			x.quote, c = '?', 0
		case x.quote != 0:
			if c == x.quote {
				x.quote = 0
			}
		case c == '"' || c == '\'':
			x.quote = c
		case c == '[' || c == ']':
			x.subset = c == '['
		case c == '-' && x.recent == '<'<<16|'!'<<8|'-':
			x.quote, c = '-', 0
		case c == '>' && !x.subset:
			x.takeNote(p[start:i])
			x.declare(x.note)
			x.st = inData
			return i + 1
		}
		x.recent = (x.recent<<8 | uint32(c)) & 0xFFFFFF
	}
	x.takeNote(p[start:])
	return i
}

// Limits of the entities in a document.
const (
	mostEntities  = 256
	mostDeep      = 8       // nested entities
	mostExpansion = 1 << 20 // bytes of text, for all references together
)

// entities are the entities that a document declares.
type entities struct {
	values   map[string]string
	defaults [][]byte // default values of attributes
	left     int      // bytes left for references
	over     bool     // a limit was reached
}

// expand returns p with references to declared entities expanded, including their markup.
func (e *entities) expand(p []byte, deep int) []byte {
	if e == nil {
		return p
	}
	if deep == mostDeep {
		e.over = e.over || bytes.IndexByte(p, '&') >= 0
		return p
	}
	var out []byte
	for {
		i := bytes.IndexByte(p, '&')
		if i < 0 {
			return append(out, p...)
		}
		out, p = append(out, p[:i]...), p[i:]
		end := bytes.IndexByte(p, ';')
		if end < 0 {
			return append(out, p...)
		}
		v, known := e.values[string(p[1:end])]
		switch {
		case !known:
			out = append(out, p[:end+1]...)
		case e.left > len(v):
			e.left -= len(v) + 1
			out = append(out, e.expand([]byte(v), deep+1)...)
		default:
			e.over = true
		}
		p = p[end+1:]
	}
}

// declare reads the entities in an internal subset.
func (x *page) declare(p []byte) {
	e := &entities{values: map[string]string{}, left: mostExpansion}
	params := map[string]string{}
	e.read(p, params, 0)
	x.lost = x.lost || e.over
	if len(e.values) > 0 {
		x.out.entities, x.aside.entities = e, e
	}
	for _, name := range slices.Sorted(maps.Keys(e.values)) {
		if v := e.values[name]; strings.Contains(v, "<") { // its markup counts, too
			x.nest(xhtmlUTF8, e.expand([]byte(v), 0))
		}
	}
	for _, v := range e.defaults {
		x.dataURL(unescape(v))
		x.nest(htmlUTF8, unescape(v))
	}
}

var xhtmlUTF8 = Describe("application/xhtml+xml; charset=utf-8", "")

func (e *entities) read(p []byte, params map[string]string, deep int) {
	for {
		i := bytes.IndexAny(p, "<%")
		if i < 0 {
			return
		}
		if deep == mostDeep || len(e.values)+len(params) >= mostEntities {
			e.over = e.over || bytes.Contains(p, []byte("<!ENTITY"))
			return
		}
		if p[i] == '%' {
			name, rest, ok := bytes.Cut(p[i+1:], []byte(";"))
			if value := params[string(name)]; ok && value != "" && len(name) < 64 {
				p = rest
				e.read([]byte(value), params, deep+1)
				continue
			}
			p = p[i+1:]
			continue
		}
		p = p[i:]
		if list, ok := bytes.CutPrefix(p, []byte("<!ATTLIST")); ok {
			p = e.readDefaults(list)
			continue
		}
		const start = "<!ENTITY"
		if !bytes.HasPrefix(p, []byte(start)) {
			p = p[1:]
			continue
		}
		p = bytes.TrimLeft(p[len(start):], " \t\r\n")
		to := e.values
		if len(p) > 0 && p[0] == '%' {
			to = params
			p = bytes.TrimLeft(p[1:], " \t\r\n")
		}
		end := bytes.IndexAny(p, " \t\r\n")
		if end < 0 {
			return
		}
		name := string(p[:end])
		p = bytes.TrimLeft(p[end:], " \t\r\n")
		if len(p) == 0 || p[0] != '"' && p[0] != '\'' {
			continue // external
		}
		end = bytes.IndexByte(p[1:], p[0])
		if end < 0 {
			return
		}
		if _, known := to[name]; !known {
			to[name] = characters(p[1 : 1+end])
		}
		p = p[end+2:]
	}
}

// readDefaults reads the strings in the attribute declaration at the beginning of p, and
// returns the rest.
func (e *entities) readDefaults(p []byte) []byte {
	for {
		i := bytes.IndexAny(p, "'\">")
		if i < 0 {
			return nil
		}
		if p[i] == '>' {
			return p[i:]
		}
		end := bytes.IndexByte(p[i+1:], p[i])
		if end < 0 {
			return nil
		}
		if len(e.defaults) == mostEntities {
			e.over = true
			return nil
		}
		e.defaults = append(e.defaults, bytes.Clone(p[i+1:i+1+end]))
		p = p[i+end+2:]
	}
}

// characters returns v with numeric references decoded, as in a declaration.
func characters(v []byte) string {
	s := string(v)
	if !strings.Contains(s, "&#") {
		return s
	}
	var b strings.Builder
	for {
		i := strings.Index(s, "&#")
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		end := strings.IndexByte(s[i:], ';')
		if end < 0 {
			s = s[i:]
			break
		}
		b.Write(unescape([]byte(s[i : i+end+1])))
		s = s[i+end+1:]
	}
	b.WriteString(s)
	return b.String()
}

// text returns the text of an entity without markup, and whether the entity exists.
func (e *entities) text(name string, deep int) (string, bool) {
	v, ok := e.values[name]
	if !ok || deep == mostDeep {
		e.over = e.over || ok
		return "", ok
	}
	var b strings.Builder
	for len(v) > 0 && e.left > 0 {
		i := strings.IndexAny(v, "<&")
		if i < 0 {
			i = len(v)
		}
		e.left -= i + 1
		b.WriteString(v[:i])
		if v = v[i:]; v == "" {
			break
		}
		end := strings.IndexByte(v, map[byte]byte{'<': '>', '&': ';'}[v[0]])
		if end < 0 {
			break
		}
		if ref := v[:end+1]; ref[0] == '&' {
			if s, ok := e.text(ref[1:end], deep+1); ok {
				b.WriteString(s)
			} else {
				b.Write(unescape([]byte(ref)))
			}
		}
		v = v[end+1:]
	}
	e.over = e.over || e.left <= 0
	return b.String(), true
}
