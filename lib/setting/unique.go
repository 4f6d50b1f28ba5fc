package setting

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

// mostRepeated is the number of keys given twice that are named: a file with more is no work of
// people.
const mostRepeated = 20

// A repeat is a key that its mapping has already.
type repeat struct {
	key   *yaml.Node
	first int // line of the first
}

func (r repeat) Error() string {
	return fmt.Sprintf("the key %.80q is already in line %d: remove one of them", r.key.Value, r.first)
}

// repeatedIn returns the keys below n that are given twice, up to mostRepeated. The YAML reader would
// compare each key with each, which takes minutes in a file of some megabytes, and report each
// pair.
func repeatedIn(n *yaml.Node, found []repeat) []repeat {
	if n.Kind == yaml.MappingNode {
		lines := make(map[string]int, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode {
				continue
			}
			first, taken := lines[key.Value]
			switch {
			case !taken:
				lines[key.Value] = key.Line
			case len(found) < mostRepeated:
				found = append(found, repeat{key, first})
			}
		}
	}
	for _, c := range n.Content {
		found = repeatedIn(c, found)
	}
	return found
}

// LoadYAML reads YAML or JSON in time that grows with its length. A key that is given twice is an
// error.
func LoadYAML(data []byte, into any, options ...yaml.Option) error {
	var root yaml.Node
	if err := yaml.Load(data, &root); err != nil {
		return err
	}
	if again := repeatedIn(&root, nil); len(again) > 0 {
		return again[0]
	}
	return yaml.Load(data, into, append(options, yaml.WithUniqueKeys(false))...)
}
