package setting

import (
	"cmp"
	"math"
	"reflect"
	"strings"
	"time"
)

// A Key is a key of the settings file. Its path omits names and indexes that the administrator
// chooses: "lists.path", "policies.rules.action".
type Key struct {
	Path   string
	Group  bool   // other keys are below it
	People bool   // it names people, devices or clients: its field has the tag names:"people"
	Role   string // who may change it, if not everyone who may change settings: tag role
	Secret string // how its value is secret: tag secret
	Two    bool   // two people change it where two are needed to look into browsing: tag two
}

// Keys lists every key of the settings v in order, groups before their keys.
func Keys(v any) []Key {
	var all []Key
	var walk func(t reflect.Type, above Key)
	walk = func(t reflect.Type, above Key) {
		for _, f := range fieldsOf(t) {
			of, group := groupOf(f.of.Type)
			tag := f.of.Tag
			k := Key{join(above.Path, f.name), group, tag.Get("names") == "people", cmp.Or(tag.Get("role"), above.Role), cmp.Or(tag.Get("secret"), above.Secret), tag.Get("two") == "people" || above.Two}
			all = append(all, k)
			if group {
				walk(of, k)
			}
		}
	}
	walk(bare(reflect.TypeOf(v)), Key{})
	return all
}

// groupOf returns the struct with the keys below a type: the type itself, or its elements.
func groupOf(t reflect.Type) (reflect.Type, bool) {
	for {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			t = t.Elem()
		case reflect.Struct:
			return t, !isText(t) && len(fieldsOf(t)) > 0
		default:
			return t, false
		}
	}
}

func isText(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textType) }

// Schema returns the JSON schema (draft 2020-12) of the settings v, with the manual's
// descriptions by key.
func Schema(v any, manual map[string]Row) map[string]any {
	s := &schema{manual: manual}
	all := s.of(reflect.TypeOf(v), "")
	all["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	all["title"] = "Settings of Shuultuur"
	return all
}

type schema struct{ manual map[string]Row }

type object = map[string]any

// A choice is a text with only these values.
type choice interface{ Choices() []string }

func (s *schema) of(t reflect.Type, path string) object {
	t = bare(t)
	if x := knownSchema(t); x != nil {
		return x
	}
	shape := s.shape(t, path)
	if _, own := reflect.PointerTo(t).MethodByName("UnmarshalYAML"); own {
		// The setting has other forms; the shortest is a single value.
		forms := []any{object{"type": []any{"string", "number", "boolean"}}, shape}
		if t.Kind() == reflect.Slice {
			forms = append(forms, s.of(t.Elem(), path))
		}
		return object{"anyOf": forms}
	}
	return shape
}

// knownSchema returns the schema of a value type of this package, or a text type.
func knownSchema(t reflect.Type) object {
	off := object{"const": offWord}
	switch t {
	case reflect.TypeFor[Duration](), reflect.TypeFor[time.Duration]():
		return object{"type": []any{"string", "integer"}, "pattern": `^(off|0|(\d+d)?((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*)$`, "maximum": 0, "minimum": 0}
	case reflect.TypeFor[Size]():
		return object{"type": []any{"string", "integer"}, "pattern": `^(off|\d+ ?([KMGT]i?B|kB|B)?)$`, "minimum": 0}
	case reflect.TypeFor[Count]():
		return object{"anyOf": []any{object{"type": "integer", "minimum": 0, "maximum": math.MaxInt32}, off}}
	}
	if t.Kind() == reflect.Slice && t.Implements(mayBeOffType) {
		return nil
	}
	if _, yamlToo := reflect.PointerTo(t).MethodByName("UnmarshalYAML"); !yamlToo && isText(t) {
		return object{"type": []any{"string", "number", "boolean"}}
	}
	return nil
}

func (s *schema) shape(t reflect.Type, path string) object {
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		if c, ok := reflect.Zero(t).Interface().(choice); ok {
			return object{"enum": c.Choices()}
		}
		return object{"type": []any{"string", "number", "boolean"}} // other scalars are read as text
	case reflect.Int, reflect.Int64, reflect.Int32:
		return object{"type": "integer"}
	case reflect.Uint, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return object{"type": "integer", "minimum": 0, "maximum": uint64(1)<<t.Bits() - 1}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": s.of(t.Elem(), path)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem(), path)}
	case reflect.Struct:
		if isText(t) || len(fieldsOf(t)) == 0 {
			return object{"type": []any{"string", "number", "boolean"}}
		}
		return s.group(t, path)
	}
	return object{}
}

func (s *schema) group(t reflect.Type, path string) object {
	keys := object{}
	for _, f := range fieldsOf(t) {
		at := join(path, f.name)
		of := s.of(f.of.Type, at)
		if doc, ok := s.manual[at]; ok {
			of["description"] = doc.Meaning
			if doc.Default != "" {
				of["description"] = strings.TrimRight(doc.Meaning, ". ") + ". Default: " + doc.Default + "."
			}
		}
		keys[f.name] = of
	}
	return object{"type": "object", "properties": keys, "additionalProperties": false}
}
