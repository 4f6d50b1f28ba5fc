package setting

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A Naming has the keys of settings under which something is named: as the key of a mapping, or as a
// value. Keys are as in [Key].
type Naming struct {
	Keys   []string // a mapping whose keys are names
	Values []string // a name, a list of them, or a mapping of lists of them
}

// Changes returns the changes of a text that give what is named another name, first values, then keys.
// Upper and lower case are one.
func (n *Naming) Changes(text []byte, from, to string) (all []Change, err error) {
	var root yaml.Node
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	if err := yaml.Load(text, &root); err != nil {
		return nil, err
	}
	var keys []Change
	// path leads to the node, and at has its keys that nobody chose: those of the settings.
	var walk func(node *yaml.Node, path []any, names []string)
	walk = func(node *yaml.Node, path []any, names []string) {
		switch node.Kind {
		case yaml.ScalarNode:
			if strings.EqualFold(node.Value, from) && slices.ContainsFunc(n.Values, func(key string) bool { return leads(names, key) }) {
				all = append(all, Change{Path: path, Value: to})
			}
		case yaml.SequenceNode:
			for i, c := range node.Content {
				walk(c, append(slices.Clip(path), i), names)
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(node.Content); i += 2 {
				key := node.Content[i].Value
				below := append(slices.Clip(path), key)
				if strings.EqualFold(key, from) && slices.Contains(n.Keys, strings.Join(names, ".")) {
					keys = append(keys, Change{Path: below, Key: to})
				}
				walk(node.Content[i+1], below, append(slices.Clip(names), key))
			}
		}
	}
	for _, c := range root.Content {
		walk(c, nil, nil)
	}
	return append(all, keys...), nil
}

// leads reports whether names lead to a key, or to a value of the mapping there.
func leads(names []string, key string) bool {
	parts := strings.Split(key, ".")
	return len(names) >= len(parts) && len(names) <= len(parts)+1 && slices.Equal(names[:len(parts)], parts)
}
