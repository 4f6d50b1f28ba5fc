package markup

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"shuultuur/content/element"
	"shuultuur/content/media"
	"shuultuur/content/prose"
	"shuultuur/lib/ascii"
)

// This file handles the differences between XML and HTML: declarations, processing instructions,
// and documents without a style sheet, which browsers show as source, with names, attributes
// and comments.

// treeName writes a part of the name of an element.
func (x *page) treeName(p []byte, first, last bool) {
	if first {
		x.aside.Blank()
	}
	x.aside.Write(p, prose.RawText)
	if last {
		x.aside.Flush()
		x.aside.Blank()
		x.spill()
	}
}

// treeAttribute returns the use of an attribute of XML that has no meaning in HTML.
func (x *page) treeAttribute(name []byte) element.AttrKind {
	switch {
	case bytes.HasPrefix(name, []byte("xmlns")):
		x.space = len(name) == len("xmlns")
		return element.AttrSpace
	case x.transform && (ascii.EqualLower(name, "select") || ascii.EqualLower(name, "value-of")):
		return element.AttrXPath
	case x.tree:
		return element.AttrMore
	}
	_, local, prefixed := bytes.Cut(name, []byte(":"))
	if !prefixed {
		local = name
	}
	if x.office {
		return officeAttribute(x.key, x.more, local)
	}
	if prefixed {
		if k := element.Attribute(x.tag.Kind, local); k == element.AttrTitle || k == element.AttrURL {
			return max(k, element.AttrMore) // with the prefix of XLink, whatever its name
		}
	}
	return element.AttrNone
}

// namespace ends the tree if v is the namespace of a language that browsers render.
func (x *page) namespace(v []byte) {
	x.transform = x.transform || bytes.Contains(v, []byte(media.XSLT))
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
	x.aside.Blank()
	x.aside.Write(p, prose.ValueText)
	x.aside.Flush()
	x.aside.Blank()
	if text := []byte(plainValue(literals(unescape(p)))); x.prefixed && len(text) > 0 {
		x.literal = text
		x.aside.B = append(x.aside.B, bytes.TrimLeft(text, " ")...)
		x.aside.Blank()
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
		x.aside.Write(p, prose.RawText)
		x.aside.Flush()
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

// declare reads the entities in an internal subset.
func (x *page) declare(p []byte) {
	e := &entities{values: map[string]string{}, left: &x.source.Work.Expansion}
	params := map[string]string{}
	e.read(p, params, 0)
	x.lost = x.lost || e.over
	if len(e.values) > 0 {
		x.entities, x.out.Entities, x.aside.Entities = e, e, e
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

var xhtmlUTF8 = media.Describe("application/xhtml+xml; charset=utf-8", "")
