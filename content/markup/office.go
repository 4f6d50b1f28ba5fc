package markup

import (
	"strings"

	"shuultuur/content/element"
)

// officeBreak are the elements of office documents that separate words; runs of text do not.
var officeBreak = elements("p br cr tab h line-break s c si row tr tc table-cell table-row list-item title subject description keywords creator")

// officeNamed are elements whose names are shown: on tabs and above columns.
var officeNamed = elements("sheet table tablecolumn definedname cachefield datafield page")

// officeAttribute returns the use of an attribute in an office document.
func officeAttribute(key, more uint64, name []byte) element.AttrKind {
	switch string(name) {
	case "name":
		if !officeNamed[[2]uint64{key, more}] {
			return element.AttrNone
		}
		return element.AttrMore
	case "descr", "title", "tooltip", "screentip", "caption", "display", "prompt", "promptTitle":
		return element.AttrMore
	}
	return element.AttrNone
}

func elements(names string) map[[2]uint64]bool {
	m := map[[2]uint64]bool{}
	for _, name := range strings.Fields(names) {
		key, more := element.Letters(name)
		m[[2]uint64{key, more}] = true
	}
	return m
}
