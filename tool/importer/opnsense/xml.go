package opnsense

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"shuultuur/lib/charset"
	"shuultuur/tool/importer/input"
)

// An xmlNode is an element with its contents.
type xmlNode struct {
	name  string
	id    string // the attribute uuid
	line  int    // line on which it ends
	text  string
	raw   []byte // the text while it is read
	nodes []*xmlNode
}

// readXML reads an XML file in any encoding. It bounds the depth of nesting.
func readXML(data []byte) (*xmlNode, error) {
	mark, n := charset.Mark(data)
	switch {
	case mark != nil:
	case bytes.HasPrefix(data, []byte("<\x00")):
		mark = charset.UTF16LE
	case bytes.HasPrefix(data, []byte("\x00<")):
		mark = charset.UTF16BE
	}
	if mark != nil {
		var err error
		if data, err = mark.NewDecoder().Bytes(data[n:]); err != nil {
			return nil, err
		}
	}
	d := xml.NewDecoder(bytes.NewReader(data))
	d.CharsetReader = func(label string, in io.Reader) (io.Reader, error) {
		if mark != nil {
			return in, nil // it is decoded, whatever it says of itself
		}
		e, err := charset.Find(label)
		if err != nil {
			return nil, err
		}
		return e.NewDecoder().Reader(in), nil
	}
	open := []*xmlNode{{}}
	for {
		t, err := d.Token()
		top := open[len(open)-1]
		switch {
		case errors.Is(err, io.EOF):
			return open[0], nil
		case err != nil:
			return nil, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			if len(open) > 2*input.MaxDepth {
				return nil, fmt.Errorf("elements are nested deeper than %d", 2*input.MaxDepth)
			}
			n := &xmlNode{name: t.Name.Local}
			for _, a := range t.Attr {
				if a.Name.Local == "uuid" {
					n.id = a.Value
				}
			}
			top.nodes = append(top.nodes, n)
			open = append(open, n)
		case xml.CharData:
			top.raw = append(top.raw, t...)
		case xml.EndElement:
			top.line, _ = d.InputPos()
			top.text, top.raw = string(bytes.TrimSpace(top.raw)), nil
			open = open[:len(open)-1]
		}
	}
}

// at returns the element at a path, or an empty one.
func (n *xmlNode) at(path ...string) *xmlNode {
	for _, name := range path {
		i := slices.IndexFunc(n.nodes, func(x *xmlNode) bool { return strings.EqualFold(x.name, name) })
		if i < 0 {
			return &xmlNode{}
		}
		n = n.nodes[i]
	}
	return n
}

// eachChild calls take with every element of a name.
func (n *xmlNode) eachChild(name string, take func(*xmlNode)) {
	for _, x := range n.nodes {
		if strings.EqualFold(x.name, name) {
			take(x)
		}
	}
}

// eachLeaf calls take with every element that has a text, and its path.
func (n *xmlNode) eachLeaf(path string, take func(path string, n *xmlNode)) {
	for _, x := range n.nodes {
		at := strings.TrimPrefix(path+"."+strings.ToLower(x.name), ".")
		if len(x.nodes) == 0 {
			take(at, x)
		}
		x.eachLeaf(at, take)
	}
}

// isBreak reports whether a character separates the values of a text.
func isBreak(r rune) bool { return r == ',' || r == '\n' }

// values returns the parts of a comma-separated text.
func (n *xmlNode) values() (all []string) {
	for v := range strings.FieldsFuncSeq(n.text, isBreak) {
		if v = strings.TrimSpace(v); v != "" {
			all = append(all, v)
		}
	}
	return all
}
