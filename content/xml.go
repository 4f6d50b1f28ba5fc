package content

import (
	"bytes"
	"strings"
)

// This file is about what XML has and HTML has not: entities of its own,
// processing instructions, and that browsers show a document that nothing
// styles as it is written, with names, attributes and comments.

// treeName shows the name of an element.
func (x *scanner) treeName(key, more uint64) {
	x.aside.blank()
	var name [16]byte
	n := 0
	for _, w := range [2]uint64{key, more} {
		for shift := 56; shift >= 0; shift -= 8 {
			if c := byte(w >> shift); c != 0 {
				name[n] = c
				n++
			}
		}
	}
	x.aside.write(name[:n], rawText)
	x.aside.flush()
	x.aside.blank()
}

// treeAttribute says what an attribute is wanted for. One that says that the
// document is HTML or SVG does so at once.
func (x *scanner) treeAttribute(name []byte) attrKind {
	if bytes.HasPrefix(name, []byte("xmlns")) {
		return attrSpace
	}
	return attrMore
}

// namespace ends the tree where v is that of a language that browsers render.
func (x *scanner) namespace(v []byte) {
	for _, s := range [...]string{"www.w3.org/1999/xhtml", "www.w3.org/2000/svg"} {
		if bytes.Contains(v, []byte(s)) {
			x.tree = false
		}
	}
}

// treeText shows a part of a comment.
func (x *scanner) treeText(p []byte) {
	if x.tree {
		x.aside.write(p, rawText)
		x.aside.flush()
		x.spill()
	}
}

// instruction reads a processing instruction: one that names a style sheet may
// hold it.
func (x *scanner) instruction(p []byte) {
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

// doctype reads a document type declaration up to its end: a > that is within
// no string, comment, or subset in brackets.
func (x *scanner) doctype(p []byte, i int) int {
	start := i
	for ; i < len(p); i++ {
		c := p[i]
		switch {
		case x.quote == '-': // a comment
			if c == '>' && x.recent&0xFFFF == '-'<<8|'-' {
				x.quote = 0
			}
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

// What the entities of a document may come to.
const (
	mostEntities  = 256
	mostDeep      = 8       // entities within one another
	mostExpansion = 1 << 20 // bytes of text, of all references together
)

// entities are those that a document declares.
type entities struct {
	values map[string]string
	left   int // bytes that references may still come to
}

// declare reads the entities of an internal subset.
func (x *scanner) declare(p []byte) {
	e := &entities{values: map[string]string{}, left: mostExpansion}
	params := map[string]string{}
	e.read(p, params, 0)
	if len(e.values) > 0 {
		x.out.entities, x.aside.entities = e, e
	}
}

func (e *entities) read(p []byte, params map[string]string, deep int) {
	for deep < mostDeep && len(e.values)+len(params) < mostEntities {
		i := bytes.IndexAny(p, "<%")
		if i < 0 {
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
			continue // elsewhere
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

// characters returns v with numeric references undone, as a declaration has
// them.
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

// text returns the text of an entity, markup left out, and whether there is
// one of that name.
func (e *entities) text(name string, deep int) (string, bool) {
	v, ok := e.values[name]
	if !ok || deep == mostDeep {
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
	return b.String(), true
}
