package setting

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// An Input is a key of the settings as a form asks for it: one that has a value, or a part that has
// a form of its own in the file.
type Input struct {
	Key
	Kind    string   // one of the kinds below
	Choices []string // of a choice
	Number  bool     // the lines are numbers
}

// Kinds of inputs. Written is what has parts that the administrator names: lists and maps of
// groups, and values with several forms.
const (
	Switch       = "switch"
	Number       = "number"
	LengthOfTime = "time"
	NumberOfByte = "size"
	CountOrOff   = "count"
	OneOf        = "choice"
	Line         = "line"
	Lines        = "lines"
	Written      = "yaml"
)

// Inputs lists the keys of the settings v that a form asks for, in order. Groups with fixed keys are
// taken apart.
func Inputs(v any) (all []Input) {
	var walk func(t reflect.Type, above Key)
	walk = func(t reflect.Type, above Key) {
		for _, f := range fieldsOf(t) {
			tag, of := f.of.Tag, bare(f.of.Type)
			k := Key{Path: join(above.Path, f.name), People: tag.Get("names") == "people", Role: cmp.Or(tag.Get("role"), above.Role), Secret: cmp.Or(tag.Get("secret"), above.Secret), Two: tag.Get("two") == "people" || above.Two}
			if of.Kind() == reflect.Struct && !isText(of) && !readsItself(of) && len(fieldsOf(of)) > 0 {
				walk(of, k)
				continue
			}
			all = append(all, inputOf(k, of))
		}
	}
	walk(bare(reflect.TypeOf(v)), Key{})
	return all
}

func readsItself(t reflect.Type) bool {
	_, own := reflect.PointerTo(t).MethodByName("UnmarshalYAML")
	return own
}

func inputOf(k Key, t reflect.Type) Input {
	in := Input{Key: k, Kind: single(t)}
	switch {
	case in.Kind == OneOf:
		c, _ := reflect.Zero(t).Interface().(choice)
		in.Choices = c.Choices()
	case in.Kind != "":
	case t.Kind() == reflect.Slice && (!readsItself(t) || t.Implements(mayBeOffType)) && single(bare(t.Elem())) != "":
		in.Kind, in.Number = Lines, single(bare(t.Elem())) == Number
	default:
		in.Kind = Written
	}
	return in
}

// single returns the kind of a type with single values, "" for others.
func single(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Duration](), reflect.TypeFor[time.Duration]():
		return LengthOfTime
	case reflect.TypeFor[Size]():
		return NumberOfByte
	case reflect.TypeFor[Count]():
		return CountOrOff
	}
	switch k := t.Kind(); {
	case isText(t):
		return Line
	case readsItself(t):
		return ""
	case k == reflect.Bool:
		return Switch
	case k >= reflect.Int && k <= reflect.Float64:
		return Number
	case k == reflect.String:
		if _, ok := reflect.Zero(t).Interface().(choice); ok {
			return OneOf
		}
		return Line
	}
	return ""
}

// A Copy is a text of settings as it is written, which may have mistakes in what it says.
type Copy struct{ text Text }

// CopyOf reads the form of a text alone. A text that is no YAML is a mistake.
func CopyOf(file string, data []byte) (*Copy, error) {
	c := &Copy{Text{File: file, data: data, lines: map[string]int{}, paths: map[place]string{}}}
	if len(bytes.TrimSpace(data)) > 0 {
		if err := yaml.Load(data, &c.text.root); err != nil {
			return nil, c.text.unreadable(err)
		}
	}
	c.text.walk(&c.text.root, "", 0)
	return c, nil
}

// Line returns the line of a key, 0 if it is not in the text.
func (c *Copy) Line(path string) int {
	if !c.text.Has(path) {
		return 0
	}
	return c.text.Line(path)
}

// Has reports whether a key is in the text.
func (c *Copy) Has(path string) bool { return c.text.Has(path) }

// Values returns the values of a key as they are written: one, or those of a list. Plain reports
// whether they are all; a mapping, or a list of others, has none.
func (c *Copy) Values(path string) (values []string, plain bool) {
	n := c.node(path)
	if n == nil {
		return nil, true
	}
	if n.Kind == yaml.ScalarNode {
		if n.Tag == "!!null" {
			return nil, true
		}
		return []string{n.Value}, true
	}
	if n.Kind != yaml.SequenceNode || slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return c.Kind != yaml.ScalarNode }) {
		return nil, false
	}
	for _, item := range n.Content {
		values = append(values, item.Value)
	}
	return values, true
}

// Part returns a key's value as YAML with its comments, "" if it is not in the text.
func (c *Copy) Part(path string) Snippet {
	if !c.text.Has(path) {
		return ""
	}
	s, _ := c.text.Part(steps(path)...) // it is there
	return s
}

func (c *Copy) node(path string) *yaml.Node {
	if c.text.root.Kind == 0 {
		return nil
	}
	n := c.text.root.Content[0]
	for key := range strings.SplitSeq(path, ".") {
		var next *yaml.Node
		for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				next = n.Content[i+1]
			}
		}
		if next == nil {
			return nil
		}
		n = next
	}
	return n
}

func steps(path string) (all []any) {
	for key := range strings.SplitSeq(path, ".") {
		all = append(all, key)
	}
	return all
}
