package setting

import (
	"slices"

	"go.yaml.in/yaml/v4"
)

// Values returns the single values in a text of settings that are under one of some keys, or below
// it, in their order. What an alias stands for is left out.
func Values(text []byte, keys ...string) (all []string, err error) {
	var root yaml.Node
	if err := yaml.Load(text, &root); err != nil {
		return nil, err
	}
	var walk func(n *yaml.Node, path string, in bool)
	walk = func(n *yaml.Node, path string, in bool) {
		switch n.Kind {
		case yaml.ScalarNode:
			if in {
				all = append(all, n.Value)
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				at := join(path, n.Content[i].Value)
				walk(n.Content[i+1], at, in || slices.Contains(keys, at))
			}
		case yaml.SequenceNode, yaml.DocumentNode:
			for _, c := range n.Content {
				walk(c, path, in)
			}
		}
	}
	walk(&root, "", false)
	return all, nil
}
