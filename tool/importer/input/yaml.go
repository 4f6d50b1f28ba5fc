package input

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"shuultuur/lib/setting"
	"shuultuur/tool/importer/report"
)

// Plain writes a value for people; for a list it writes the values.
func Plain(v any) string {
	if l, ok := v.([]any); ok {
		var all []string
		for _, x := range l {
			all = append(all, fmt.Sprint(x))
		}
		return strings.Join(all, " ")
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// Leaves puts the settings below v into all, each list as one value.
func Leaves(v any, path string, all map[string]any) {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		all[path] = v
		return
	}
	for k, x := range m {
		Leaves(x, strings.TrimPrefix(path+"."+k, "."), all)
	}
}

// Strings returns the texts in a YAML list.
func Strings(v any) (all []string) {
	list, _ := v.([]any)
	for _, x := range list {
		if s, ok := x.(string); ok {
			all = append(all, strings.TrimSpace(s))
		}
	}
	return all
}

// A Tree knows on which lines the values of a YAML or JSON file are.
type Tree struct {
	Path  string
	lines map[string]int
}

// At returns the place of a value by its path.
func (f Tree) At(path string) report.Place { return report.Place{File: f.Path, Line: f.lines[path]} }

// ValueAt returns the place of the i-th value of a list.
func (f Tree) ValueAt(path string, i int) report.Place { return f.At(fmt.Sprintf("%s.%d", path, i)) }

// mostLines bounds the number of values of a YAML file whose lines are recorded.
const mostLines = 1 << 18

// NewTree finds the places of the values in a file, by path: a.b for keys,
// a.0 for values of a list.
func NewTree(path string, data []byte) Tree {
	lines := map[string]int{}
	f := Tree{path, lines}
	var root yaml.Node
	if setting.LoadYAML(data, &root) != nil {
		return f // the reader of the file reports the error
	}
	var walk func(n *yaml.Node, path string)
	walk = func(n *yaml.Node, path string) {
		if len(lines) >= mostLines {
			return
		}
		below := strings.TrimPrefix(path+".", ".")
		switch n.Kind {
		case yaml.DocumentNode:
			for _, c := range n.Content {
				walk(c, path)
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				lines[below+n.Content[i].Value] = n.Content[i].Line
				walk(n.Content[i+1], below+n.Content[i].Value)
			}
		case yaml.SequenceNode:
			for i, c := range n.Content {
				lines[fmt.Sprint(below, i)] = c.Line
				walk(c, fmt.Sprint(below, i))
			}
		}
	}
	walk(&root, "")
	return f
}

// Flatten calls take with every value below v, its path and its exact path. In paths, keys and
// the values of a list read a.b, and groups in a list a.0.b. In exact paths, values of a list
// read a.0.
func Flatten(v any, path, exact string, take func(path, exact, value string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			Flatten(v[k], strings.TrimPrefix(path+"."+k, "."), strings.TrimPrefix(exact+"."+k, "."), take)
		}
	case []any:
		for i, x := range v {
			at := fmt.Sprintf("%s.%d", exact, i)
			if _, group := x.(map[string]any); group {
				Flatten(x, fmt.Sprintf("%s.%d", path, i), at, take)
			} else {
				Flatten(x, path, at, take)
			}
		}
	default:
		take(path, exact, fmt.Sprint(v))
	}
}
