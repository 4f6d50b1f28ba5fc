package setting

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A Change is a change of a text of settings. Its path leads from the outermost level to a
// value: keys as string, indexes of lists as int.
type Change struct {
	Path []any
	// Value is written at the path; an index past the end of a list appends. [Snippet] is YAML.
	// Remove and Move take precedence.
	Value  any
	Remove bool // remove the value and its key
	Move   bool // move the item of the list to index To
	To     int
	Key    string // the value keeps its place under this key, "" for the same
}

// A Snippet is a value as YAML.
type Snippet string

// ErrHand reports that the form of a text is such that only its author should change it.
var ErrHand = errors.New("this place of the file is written in a way that a page cannot change: change it in the editor")

// Edit applies changes to a text of settings, one after the other. Unaffected lines keep their
// comments and order: Edit rewrites the smallest changed part that has its own lines. It
// parses the result and compares it with the intended one.
func Edit(text []byte, changes ...Change) ([]byte, error) {
	for _, c := range changes {
		e := edit{lines: strings.SplitAfter(string(text), "\n")}
		if n := len(e.lines); n > 0 && e.lines[n-1] != "" && !strings.HasSuffix(e.lines[n-1], "\n") {
			e.lines[n-1] += "\n"
		}
		if len(bytes.TrimSpace(text)) > 0 {
			if err := yaml.Load(text, &e.root); err != nil {
				return nil, err
			}
		}
		if e.root.Kind == 0 {
			e.root = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode, Tag: "!!map"}}}
		}
		if err := e.make(&c); err != nil {
			return nil, err
		}
		text = []byte(strings.Join(e.lines, ""))
		if err := e.verify(text); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// An edit is a change in progress.
type edit struct {
	lines []string // each with its end
	root  yaml.Node
	above []level // from the outermost collection to the changed one
}

// A level is a collection on the path to the change, and the index of the next entry on that
// path. Entries of mappings are counted in pairs.
type level struct {
	node  *yaml.Node
	entry int
	ends  int // the line after the collection, from 0
}

func (l *level) count() int {
	if l.node.Kind == yaml.MappingNode {
		return len(l.node.Content) / 2
	}
	return len(l.node.Content)
}

// at returns the node where an entry begins.
func (l *level) at(i int) *yaml.Node {
	if l.node.Kind == yaml.MappingNode {
		return l.node.Content[2*i]
	}
	return l.node.Content[i]
}

func (l *level) block() bool { return l.node.Style&yaml.FlowStyle == 0 && l.count() > 0 }

// make applies a change to the tree and the lines.
func (e *edit) make(c *Change) error {
	if len(c.Path) == 0 || len(e.root.Content) == 0 {
		return ErrHand
	}
	n, ends := e.root.Content[0], len(e.lines)
	for i, step := range c.Path {
		l := level{node: n, entry: -1, ends: ends}
		switch key := step.(type) {
		case string:
			if n.Kind == yaml.ScalarNode && n.Tag == "!!null" || n.Kind == 0 {
				*n = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line, Column: n.Column}
			}
			if n.Kind != yaml.MappingNode {
				return fmt.Errorf("%v: %w", c.Path[:i+1], ErrHand)
			}
			for k := 0; k < len(n.Content); k += 2 {
				if n.Content[k].Value == key {
					l.entry = k / 2
				}
			}
		case int:
			if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
				*n = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: n.Line, Column: n.Column}
			}
			if n.Kind != yaml.SequenceNode || key < 0 || key > len(n.Content) && i < len(c.Path)-1 {
				return fmt.Errorf("%v: %w", c.Path[:i+1], ErrHand)
			}
			if key < len(n.Content) {
				l.entry = key
			}
		}
		last := i == len(c.Path)-1
		if l.entry < 0 && (c.Remove || c.Move || c.Key != "") {
			return fmt.Errorf("the settings have no %v", c.Path[:i+1])
		}
		e.above = append(e.above, l)
		if last {
			return e.change(c)
		}
		if l.entry < 0 { // the rest of the path is new
			value, err := wrapped(c.Path[i+1:], c.Value)
			if err != nil {
				return err
			}
			return e.insert(step, value)
		}
		_, ends = e.region(&l, l.entry)
		if n.Kind == yaml.MappingNode {
			n = n.Content[2*l.entry+1]
		} else {
			n = n.Content[l.entry]
		}
	}
	return nil
}

// wrapped nests a value in the keys that lead to it.
func wrapped(path []any, value any) (*yaml.Node, error) {
	if s, ok := value.(Snippet); ok && len(path) == 0 {
		var doc yaml.Node
		if err := yaml.Load([]byte(s), &doc); err != nil {
			return nil, err
		}
		if doc.Kind == 0 {
			return scalar(nil)
		}
		return doc.Content[0], nil
	}
	if len(path) == 0 {
		return nodeOf(reflect.ValueOf(value))
	}
	n, err := wrapped(path[1:], value)
	if err != nil {
		return nil, err
	}
	if key, ok := path[0].(string); ok {
		k, err := scalar(key)
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{k, n}}, err
	}
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{n}}, nil
}

func (e *edit) change(c *Change) error {
	l := &e.above[len(e.above)-1]
	switch {
	case c.Move:
		return e.move(l, c.To)
	case c.Remove:
		return e.remove(l)
	case c.Key != "":
		return e.rename(l, c.Key)
	}
	value, err := wrapped(nil, c.Value)
	if err != nil {
		return err
	}
	if l.entry < 0 {
		return e.insert(c.Path[len(c.Path)-1], value)
	}
	if l.node.Kind == yaml.MappingNode {
		old := l.node.Content[2*l.entry+1]
		value.LineComment = old.LineComment
		l.node.Content[2*l.entry+1] = value
	} else {
		value.Line, value.Column = l.node.Content[l.entry].Line, l.node.Content[l.entry].Column
		l.node.Content[l.entry] = value
	}
	return e.rewrite(len(e.above) - 1)
}

// rename gives an entry of a mapping another key.
func (e *edit) rename(l *level, to string) error {
	if l.node.Kind != yaml.MappingNode {
		return ErrHand
	}
	key, err := scalar(to)
	if err != nil {
		return err
	}
	old := l.node.Content[2*l.entry]
	key.Line, key.Column, key.LineComment, key.HeadComment, key.FootComment = old.Line, old.Column, old.LineComment, old.HeadComment, old.FootComment
	l.node.Content[2*l.entry] = key
	return e.rewrite(len(e.above) - 1)
}

// region returns the lines of an entry of a collection in block style, from 0 and exclusive.
// Comments and empty lines after the entry belong to the next one.
func (e *edit) region(l *level, i int) (from, to int) {
	if !l.block() {
		return 0, l.ends
	}
	from, to = l.at(i).Line-1, l.ends
	if i+1 < l.count() {
		to = l.at(i+1).Line - 1
	}
	for to > from+1 {
		if t := strings.TrimSpace(e.lines[to-1]); t != "" && t[0] != '#' {
			break
		}
		to--
	}
	return from, to
}

// column returns where an entry begins in its line: its key, or the dash of an item.
func (e *edit) column(l *level, i int) int {
	n := l.at(i)
	col := n.Column - 1
	if l.node.Kind == yaml.SequenceNode {
		return strings.LastIndexByte(e.lines[n.Line-1][:col], '-')
	}
	return col
}

// hasOwnLines reports whether an entry has its own lines.
func (e *edit) hasOwnLines(l *level, i int) bool {
	if !l.block() {
		return false
	}
	n := l.at(i)
	if n.Line < 1 || n.Line > len(e.lines) || n.Column-1 > len(e.lines[n.Line-1]) {
		return false
	}
	col := e.column(l, i)
	return col >= 0 && (i > 0 || strings.TrimSpace(strings.ReplaceAll(e.lines[n.Line-1][:col], "-", "")) == "")
}

// written returns an entry as YAML, indented for its column except the first line.
func written(l *level, i, col int) (string, error) {
	one := &yaml.Node{Kind: l.node.Kind, Tag: l.node.Tag}
	if l.node.Kind == yaml.MappingNode {
		key := *l.node.Content[2*i]
		key.HeadComment, key.FootComment = "", ""
		one.Content = []*yaml.Node{&key, l.node.Content[2*i+1]}
	} else {
		item := *l.node.Content[i]
		item.HeadComment, item.FootComment = "", ""
		if item.Kind == yaml.MappingNode && len(item.Content) > 0 {
			first := *item.Content[0]
			first.HeadComment = ""
			item.Content = append([]*yaml.Node{&first}, item.Content[1:]...)
		}
		one.Content = []*yaml.Node{&item}
	}
	out, err := yaml.Dump(one, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return "", err
	}
	rows := strings.SplitAfter(string(out), "\n")
	for k := 1; k < len(rows); k++ {
		if strings.TrimSpace(rows[k]) != "" {
			rows[k] = strings.Repeat(" ", col) + rows[k]
		}
	}
	return strings.Join(rows, ""), nil
}

// rewrite rewrites the entry of a level, or of the nearest outer level that has its own
// lines.
func (e *edit) rewrite(depth int) error {
	for ; depth >= 0; depth-- {
		l := &e.above[depth]
		if l.entry < 0 || !e.hasOwnLines(l, l.entry) || l.at(l.entry).Line == 0 {
			continue
		}
		from, to := e.region(l, l.entry)
		col := e.column(l, l.entry)
		text, err := written(l, l.entry, col)
		if err != nil {
			return err
		}
		e.lines = slices.Replace(e.lines, from, to, e.lines[from][:col]+text)
		return nil
	}
	return ErrHand
}

// insert adds an entry after the last one.
func (e *edit) insert(step any, value *yaml.Node) error {
	depth := len(e.above) - 1
	l := &e.above[depth]
	last := l.count() - 1
	own := last >= 0 && e.hasOwnLines(l, last)
	to, col := 0, 0
	if own {
		_, to = e.region(l, last)
		col = e.column(l, last)
	}
	if l.node.Kind == yaml.MappingNode {
		key, err := scalar(step)
		if err != nil {
			return err
		}
		l.node.Content = append(l.node.Content, key, value)
	} else {
		l.node.Content = append(l.node.Content, value)
	}
	if !own && depth > 0 {
		if last < 0 {
			l.node.Style &^= yaml.FlowStyle
		}
		return e.rewrite(depth - 1)
	}
	if !own {
		if last >= 0 {
			return ErrHand
		}
		to = len(e.lines)
	}
	text, err := written(l, l.count()-1, col)
	if err != nil {
		return err
	}
	e.lines = slices.Insert(e.lines, to, strings.Repeat(" ", col)+text)
	return nil
}

func (e *edit) remove(l *level) error {
	own := e.hasOwnLines(l, l.entry) && l.count() > 1 && (len(e.above) == 1 || strings.TrimSpace(e.lines[l.at(l.entry).Line-1][:e.column(l, l.entry)]) == "")
	from, to := e.chunk(l, l.entry)
	if l.node.Kind == yaml.MappingNode {
		l.node.Content = slices.Delete(l.node.Content, 2*l.entry, 2*l.entry+2)
	} else {
		l.node.Content = slices.Delete(l.node.Content, l.entry, l.entry+1)
	}
	if own {
		e.lines = slices.Delete(e.lines, from, to)
		return nil
	}
	if len(l.node.Content) == 0 {
		l.node.Style |= yaml.FlowStyle
	}
	return e.rewrite(len(e.above) - 2)
}

// chunk is region, including the comments directly above the entry.
func (e *edit) chunk(l *level, i int) (from, to int) {
	from, to = e.region(l, i)
	for from > 0 && l.block() && strings.HasPrefix(strings.TrimSpace(e.lines[from-1]), "#") {
		from--
	}
	return from, to
}

func (e *edit) move(l *level, to int) error {
	if l.node.Kind != yaml.SequenceNode || to < 0 || to >= l.count() {
		return fmt.Errorf("there is no place %d to move to", to)
	}
	was := l.entry
	if was == to {
		return nil
	}
	own := true
	var chunks, gaps []string // gaps are empty lines and detached comments, which stay
	first, end := 0, 0
	for i := range l.count() {
		own = own && e.hasOwnLines(l, i) && strings.TrimSpace(e.lines[l.at(i).Line-1][:e.column(l, i)]) == ""
		if !own {
			break
		}
		from, to := e.chunk(l, i)
		if i == 0 {
			first = from
		} else {
			gaps = append(gaps, strings.Join(e.lines[end:from], ""))
		}
		end = to
		chunks = append(chunks, strings.Join(e.lines[from:to], ""))
	}
	item := l.node.Content[was]
	l.node.Content = slices.Insert(slices.Delete(l.node.Content, was, was+1), to, item)
	if !own {
		return e.rewrite(len(e.above) - 2)
	}
	moved := chunks[was]
	chunks = slices.Insert(slices.Delete(chunks, was, was+1), to, moved)
	text := chunks[0]
	for i, gap := range gaps {
		text += gap + chunks[i+1]
	}
	e.lines = slices.Replace(e.lines, first, end, text)
	return nil
}

// verify compares the lines with the tree.
func (e *edit) verify(text []byte) error {
	var want, got any
	if err := e.root.Content[0].Load(&want, yaml.WithUniqueKeys(false)); err != nil {
		return fmt.Errorf("%w (%v)", ErrHand, err)
	}
	if err := LoadYAML(text, &got); err != nil {
		return fmt.Errorf("%w (%v)", ErrHand, err)
	}
	if !reflect.DeepEqual(want, got) {
		return ErrHand
	}
	return nil
}

// Part returns the part of the settings at a path, as YAML with comments.
func (t *Text) Part(path ...any) (Snippet, error) {
	if t.root.Kind == 0 {
		return "", nil
	}
	n := t.root.Content[0]
	for i, step := range path {
		var next *yaml.Node
		switch key := step.(type) {
		case string:
			for k := 0; n.Kind == yaml.MappingNode && k < len(n.Content); k += 2 {
				if n.Content[k].Value == key {
					next = n.Content[k+1]
				}
			}
		case int:
			if n.Kind == yaml.SequenceNode && key >= 0 && key < len(n.Content) {
				next = n.Content[key]
			}
		}
		if next == nil {
			return "", fmt.Errorf("the settings have no %v", path[:i+1])
		}
		n = next
	}
	one := *n
	one.HeadComment, one.FootComment = "", ""
	if one.Kind == yaml.MappingNode {
		one.Style &^= yaml.FlowStyle
	}
	out, err := yaml.Dump(&one, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	return Snippet(out), err
}

// Walk calls f for each key, each single value and each comment of a text of settings, with
// the keys that lead to it and its line.
func Walk(text []byte, f func(path []string, line int, value string, comment bool)) error {
	var root yaml.Node
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	if err := yaml.Load(text, &root); err != nil {
		return err
	}
	walk(&root, nil, f)
	return nil
}

func walk(n *yaml.Node, path []string, f func(path []string, line int, value string, comment bool)) {
	if comment := strings.TrimSpace(n.HeadComment + "\n" + n.LineComment + "\n" + n.FootComment); comment != "" {
		f(path, n.Line, comment, true)
	}
	if n.Kind == yaml.ScalarNode {
		f(path, n.Line, n.Value, false)
	}
	for i, below := range n.Content {
		if n.Kind != yaml.MappingNode {
			walk(below, path, f)
			continue
		}
		walk(below, append(slices.Clip(path), n.Content[i&^1].Value), f) // a key, and then its value
	}
}
