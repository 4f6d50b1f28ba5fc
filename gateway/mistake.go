package gateway

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"shuultuur/filter"
)

// A Mistake is one thing wrong with the settings file.
type Mistake struct {
	File string
	Line int    // 0 when it has no place in the file
	Key  string // path to the setting, "policies[0].rules[1].action"
	Text string // what is wrong and what to write instead
}

func (m Mistake) String() string {
	s := m.File + ":"
	if m.Line > 0 {
		s += strconv.Itoa(m.Line) + ":"
	}
	if m.Key != "" {
		s += " " + m.Key + ":"
	}
	return s + " " + m.Text
}

// Mistakes are everything wrong with a settings file that could be found in
// one reading.
type Mistakes []Mistake

func (m Mistakes) Error() string {
	var b strings.Builder
	for i, x := range m {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(x.String())
	}
	return b.String()
}

// A place is where a setting stands in the file.
type place struct{ line, column int }

// A plan of a settings file: where each key path stands, and which path
// stands at a place.
type plan struct {
	lines map[string]int
	paths map[place]string
}

func newPlan(root *yaml.Node) plan {
	p := plan{map[string]int{}, map[place]string{}}
	p.walk(root, "", 0)
	return p
}

func (p plan) walk(n *yaml.Node, path string, depth int) {
	if n == nil || depth > 64 {
		return
	}
	at := place{n.Line, n.Column}
	if _, taken := p.paths[at]; !taken || n.Kind == yaml.ScalarNode {
		p.paths[at] = path
	}
	if _, taken := p.lines[path]; !taken {
		p.lines[path] = n.Line
	}
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			p.walk(c, path, depth+1)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			sub := join(path, key.Value)
			p.lines[sub] = key.Line
			p.paths[place{key.Line, key.Column}] = sub
			p.walk(n.Content[i+1], sub, depth+1)
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			p.walk(c, fmt.Sprintf("%s[%d]", path, i), depth+1)
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// line returns the line of the setting at path, or of the nearest one above
// it that is written down.
func (p plan) line(path string) int {
	for path != "" {
		if l, ok := p.lines[path]; ok {
			return l
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			break
		}
		path = path[:i]
	}
	return 0
}

// mistakes turns what the YAML reader says into mistakes with paths.
func (p plan) mistakes(file string, err error) Mistakes {
	var many *yaml.LoadErrors
	if errors.As(err, &many) {
		var m Mistakes
		for _, e := range many.Errors {
			m = append(m, p.mistake(file, e))
		}
		slices.SortStableFunc(m, func(a, b Mistake) int { return a.Line - b.Line })
		return m
	}
	var one *yaml.LoadError
	if errors.As(err, &one) {
		return Mistakes{p.mistake(file, one)}
	}
	return Mistakes{{File: file, Text: err.Error()}}
}

func (p plan) mistake(file string, e *yaml.LoadError) Mistake {
	m := Mistake{File: file, Line: e.Mark.Line, Text: e.Message}
	m.Key = p.paths[place{e.Mark.Line, e.Mark.Column}]
	if e.ContextMsg != "" && m.Key == "" {
		m.Text = e.ContextMsg + ": " + m.Text
	}
	if rest, ok := strings.CutPrefix(m.Text, "field "); ok {
		if name, _, ok := strings.Cut(rest, " not found in type "); ok {
			m.Text = fmt.Sprintf("there is no setting called %q here", name)
		}
	}
	if strings.HasPrefix(m.Text, "cannot construct !!") {
		m.Text = plainType(m.Text)
	}
	return m
}

// plainType says in words what the YAML reader says in Go types.
func plainType(s string) string {
	got, want, ok := strings.Cut(strings.TrimPrefix(s, "cannot construct !!"), " into ")
	if !ok {
		return s
	}
	kind, value, _ := strings.Cut(got, " ")
	kind = map[string]string{"str": "text", "seq": "a list", "map": "a group of settings", "int": "a number", "float": "a number", "bool": "true or false"}[kind]
	if kind == "" {
		kind = got
	}
	if value != "" {
		kind += " " + value
	}
	switch {
	case strings.HasPrefix(want, "int"), strings.HasPrefix(want, "*int"), strings.HasPrefix(want, "uint"):
		want = "a whole number"
	case strings.HasSuffix(want, "string") && !strings.HasPrefix(want, "["), strings.HasSuffix(want, "Duration"):
		want = "a single value"
	case strings.HasSuffix(want, "bool"):
		want = "true or false"
	case strings.HasPrefix(want, "["):
		want = "a list"
	default:
		want = "a group of settings"
	}
	return "this is " + kind + ", it should be " + want
}

// setting turns an error that names its key into a mistake with a line.
func (p plan) setting(file string, err error) Mistakes {
	// Several errors side by side are several mistakes; inside one mistake
	// they are one.
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint
		var m Mistakes
		for _, e := range many.Unwrap() {
			m = append(m, p.setting(file, e)...)
		}
		return m
	}
	var s *filter.SettingError
	if errors.As(err, &s) {
		return Mistakes{{File: file, Line: p.line(s.Key), Key: s.Key, Text: s.Err.Error()}}
	}
	return Mistakes{{File: file, Text: err.Error()}}
}
