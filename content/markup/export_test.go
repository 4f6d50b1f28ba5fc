package markup

import (
	"bytes"

	"shuultuur/content/element"
)

// PeerRaw returns the text in the content of an element without markup.
func PeerRaw(source *Source, e *element.Tag, which string, content []byte) string {
	var x Scanner
	x.Reset(source, false)
	x.page.nWhich = copy(x.page.which[:], which)
	x.page.rawBegin(e)
	x.page.rawPart(content)
	x.page.rawEnd()
	x.page.line()
	return string(x.page.out.B)
}

// PeerValue returns the text in the value of an attribute that holds a URL, a style or a document.
func PeerValue(source *Source, tag string, k element.AttrKind, u []byte) []byte {
	if !mayCount(k, u) {
		return nil
	}
	var x Scanner
	x.Reset(source, false)
	x.page.tag = element.Named(tag)
	switch k {
	case element.AttrSrcdoc:
		x.page.nest(htmlUTF8, u)
	case element.AttrURL:
		x.page.url(u)
	case element.AttrSheet:
		x.page.declarations(u)
	case element.AttrSet:
		for f := range bytes.FieldsSeq(u) {
			x.page.dataURL(f)
		}
	}
	x.page.line()
	return x.page.out.B
}
