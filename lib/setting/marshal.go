package setting

import (
	"encoding"
	"fmt"
	"reflect"
	"sort"

	"go.yaml.in/yaml/v4"
)

// Marshal writes the settings v as YAML, in the form that Read reads. Omitted settings stay
// omitted.
func Marshal(v any) ([]byte, error) {
	n, err := nodeOf(reflect.ValueOf(v))
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(n)
}

// flowWidth is the length of the longest list written in one line, in bytes.
const flowWidth = 100

var (
	mayBeOffType = reflect.TypeFor[interface{ mayBeOff() }]()
	yamlType     = reflect.TypeFor[yaml.Marshaler]()
	marshalType  = reflect.TypeFor[encoding.TextMarshaler]()
)

// nodeOf returns the YAML node of a value.
func nodeOf(v reflect.Value) (*yaml.Node, error) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return scalar(nil)
		}
		v = v.Elem()
	}
	if v.Type().Implements(yamlType) {
		x, err := v.Interface().(yaml.Marshaler).MarshalYAML()
		if err != nil {
			return nil, err
		}
		return nodeOf(reflect.ValueOf(x))
	}
	if v.Type().Implements(marshalType) {
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return nil, err
		}
		return scalar(string(text))
	}
	switch v.Kind() {
	case reflect.Struct:
		return structNode(v)
	case reflect.Map:
		return mapNode(v)
	case reflect.Slice, reflect.Array:
		return listNode(v)
	}
	return scalar(v.Interface())
}

func scalar(v any) (*yaml.Node, error) {
	n := new(yaml.Node)
	return n, n.Encode(v)
}

func structNode(v reflect.Value) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range fieldsOf(v.Type()) {
		of := v.FieldByIndex(f.at)
		off := of.Kind() == reflect.Slice && !of.IsNil() && of.Type().Implements(mayBeOffType)
		if of.IsZero() || (of.Kind() == reflect.Slice || of.Kind() == reflect.Map) && of.Len() == 0 && !off {
			continue
		}
		value, err := nodeOf(of)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if value.Kind == yaml.MappingNode && len(value.Content) == 0 && of.Kind() == reflect.Struct {
			continue
		}
		if err := add(n, f.name, value); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func mapNode(v reflect.Value) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	keys := v.MapKeys()
	sort.Slice(keys, func(i, j int) bool { return fmt.Sprint(keys[i]) < fmt.Sprint(keys[j]) })
	for _, k := range keys {
		value, err := nodeOf(v.MapIndex(k))
		if err != nil {
			return nil, fmt.Errorf("%v: %w", k, err)
		}
		if err := add(n, fmt.Sprint(k), value); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// add adds a key with its value to a group of settings.
func add(n *yaml.Node, key string, value *yaml.Node) error {
	k, err := scalar(key)
	n.Content = append(n.Content, k, value)
	return err
}

// listNode writes short lists of scalars in one line, and a list that is off as that word.
func listNode(v reflect.Value) (*yaml.Node, error) {
	if v.Type().Implements(mayBeOffType) && v.Len() == 0 {
		return scalar(offWord)
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	width := 0
	for i := range v.Len() {
		value, err := nodeOf(v.Index(i))
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		if width += len(value.Value) + 2; value.Kind != yaml.ScalarNode || width > flowWidth {
			n.Style = 0
		}
		n.Content = append(n.Content, value)
	}
	return n, nil
}
