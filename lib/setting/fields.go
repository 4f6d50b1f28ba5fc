package setting

import (
	"reflect"
	"strings"
	"sync"
)

// A field is a key of a group of settings.
type field struct {
	name string
	of   reflect.StructField
	at   []int // for reflect.Value.FieldByIndex
}

// knownFields has the fields of each type: a text with thousands of policies asks for them at each key.
var knownFields sync.Map // reflect.Type to []field

// fieldsOf lists the keys of a struct in order, including those of inline structs. Callers do not
// change it.
func fieldsOf(t reflect.Type) []field {
	if known, ok := knownFields.Load(t); ok {
		return known.([]field)
	}
	all := readFields(t)
	knownFields.Store(t, all)
	return all
}

func readFields(t reflect.Type) (all []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, flags, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case strings.Contains(flags, "inline"):
			for _, sub := range readFields(f.Type) {
				sub.at = append([]int{i}, sub.at...)
				all = append(all, sub)
			}
		case name == "": // as the YAML reader names it
			all = append(all, field{strings.ToLower(f.Name), f, []int{i}})
		default:
			all = append(all, field{name, f, []int{i}})
		}
	}
	return all
}

// fieldsAt lists the permitted keys at a path below t.
func fieldsAt(t reflect.Type, path string) []field {
	t = typeAt(t, path)
	for t != nil && t.Kind() == reflect.Slice {
		t = bare(t.Elem()) // a list may be written as a single value
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	return fieldsOf(t)
}

func bare(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// typeAt returns the type of the setting at a path below t, nil if there is none.
func typeAt(t reflect.Type, path string) reflect.Type {
	t = bare(t)
	if path == "" {
		return t
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if path[0] == '[' {
			_, path, _ = strings.Cut(path, "]")
		}
		return typeAt(t.Elem(), strings.TrimPrefix(path, "."))
	case reflect.Map:
		// Names may contain dots: use the longest that leaves a known remainder.
		for i := range len(path) + 1 {
			if i == len(path) || path[i] == '.' || path[i] == '[' {
				if found := typeAt(t.Elem(), strings.TrimPrefix(path[i:], ".")); found != nil {
					return found
				}
			}
		}
	case reflect.Struct:
		name, rest := path, ""
		if i := strings.IndexAny(path, ".["); i >= 0 {
			name, rest = path[:i], strings.TrimPrefix(path[i:], ".")
		}
		for _, f := range fieldsOf(t) {
			if f.name == name {
				return typeAt(f.of.Type, rest)
			}
		}
	}
	return nil
}
