package setting

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	"go.yaml.in/yaml/v4"
)

// maxText bounds a settings file; lists belong in separate files.
const maxText = 4 << 20

// A Text is the text of a settings file, with the line of every key.
type Text struct {
	File  string // the name it was read under
	data  []byte
	root  yaml.Node
	of    reflect.Type
	lines map[string]int
	paths map[place]string
	empty Mistakes // elements of lists without a value

	secrets     map[string]string // secrets from elsewhere, and how the text names their places
	secretFiles map[string]string // their files, with stamps
}

// A place is where a node of the YAML file begins.
type place struct{ line, column int }

// ReadFile reads the settings in file, of at most 4 MiB, into the struct that
// into points to. See [Read].
func ReadFile(file string, into any) (*Text, error) { return ReadFileAs(file, file, into) }

// ReadFileAs is ReadFile for a copy of the file called as.
func ReadFileAs(file, as string, into any) (*Text, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, unreadable(file, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err != nil {
		return nil, unreadable(file, err)
	}
	if len(data) > maxText {
		return nil, Mistakes{{File: file, Text: fmt.Sprintf("the settings are larger than %d bytes: put lists into files of their own", maxText)}}
	}
	return Read(as, data, into)
}

// unreadable removes the operation from a path error, because the surrounding sentence
// describes it.
func unreadable(file string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return Mistakes{{File: file, Text: "cannot read the settings: " + err.Error()}}
}

// Read reads settings in memory. Mistakes name file, which need not exist, and relative paths
// are relative to its folder ([Locate]). Unknown keys and values of the wrong type are
// refused; the error has all of them, as [Mistakes].
func Read(file string, data []byte, into any) (*Text, error) {
	t := &Text{File: file, data: data, of: reflect.TypeOf(into).Elem(), lines: map[string]int{}, paths: map[place]string{}, secrets: map[string]string{}, secretFiles: map[string]string{}}
	if len(bytes.TrimSpace(data)) > 0 {
		if err := yaml.Load(data, &t.root); err != nil {
			return nil, t.unreadable(err)
		}
	}
	t.walk(&t.root, "", 0)
	var wrong Mistakes
	for _, r := range repeatedIn(&t.root, nil) {
		wrong = append(wrong, Mistake{File: file, Line: r.key.Line, Key: t.paths[place{r.key.Line, r.key.Column}], Text: r.Error()})
	}
	if t.root.Kind != 0 {
		if err := t.load(into); err != nil {
			wrong = append(wrong, t.conceal(t.unreadable(err))...)
			sort.SliceStable(wrong, func(i, j int) bool { return wrong[i].Line < wrong[j].Line })
		}
	}
	if wrong = append(wrong, t.empty...); len(wrong) > 0 {
		return nil, wrong
	}
	Locate(into, filepath.Dir(file))
	return t, nil
}

// DecodeInto parses the text again into the struct that into points to.
func (t *Text) DecodeInto(into any) error {
	_, err := Read(t.File, t.data, into)
	return err
}

// Data returns the original text.
func (t *Text) Data() []byte { return t.data }

// Value returns the value of a top-level key, untyped; nil if it is omitted. Paths in it are
// as written.
func (t *Text) Value(key string) (any, error) {
	if t.root.Kind == 0 {
		return nil, nil
	}
	if top := t.root.Content[0]; top.Kind == yaml.MappingNode && !hasAliases(top) {
		for i := 0; i+1 < len(top.Content); i += 2 {
			if top.Content[i].Value == key {
				var value any
				err := top.Content[i+1].Load(&value, yaml.WithUniqueKeys(false))
				return value, err
			}
		}
		return nil, nil
	}
	var all map[string]any
	if err := t.root.Load(&all, yaml.WithUniqueKeys(false)); err != nil {
		return nil, err
	}
	return all[key], nil
}

// hasAliases reports whether a part of a text can only be read with the rest.
func hasAliases(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || n.Anchor != "" || n.Kind == yaml.ScalarNode && n.Value == "<<" || slices.ContainsFunc(n.Content, hasAliases)
}

// walk records the place of every key below n.
func (t *Text) walk(n *yaml.Node, path string, depth int) {
	if n == nil || depth > 64 {
		return
	}
	at := place{n.Line, n.Column}
	if _, taken := t.paths[at]; !taken || n.Kind == yaml.ScalarNode {
		t.paths[at] = path
	}
	if _, taken := t.lines[path]; !taken {
		t.lines[path] = n.Line
	}
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			t.walk(c, path, depth+1)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			sub := join(path, key.Value)
			t.lines[sub] = key.Line
			t.paths[place{key.Line, key.Column}] = sub
			t.walk(n.Content[i+1], sub, depth+1)
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			sub := fmt.Sprintf("%s[%d]", path, i)
			if c.Kind == yaml.ScalarNode && c.Tag == "!!null" {
				t.empty = append(t.empty, Mistake{File: t.File, Line: c.Line, Key: sub, Text: "this element of the list is empty: give it a value, or remove it"})
			}
			t.walk(c, sub, depth+1)
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// parent returns the path above path, "" if there is none.
func parent(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

// line returns the line of the key at path, or of the nearest parent in the file.
func (t *Text) line(path string) int {
	for ; path != ""; path = parent(path) {
		if l, ok := t.lines[path]; ok {
			return l
		}
	}
	return 0
}

// Line returns the line of the key at path, such as policies[1].rules[0]; 0 if neither it nor
// a parent is in the file.
func (t *Text) Line(path string) int { return t.line(path) }

// Has reports whether the key at path is in the file, whatever its value is.
func (t *Text) Has(path string) bool {
	_, there := t.lines[path]
	return there
}

// Mistakes converts an error about settings ([At]) to Mistakes with lines. Each of several
// joined errors is a mistake.
func (t *Text) Mistakes(err error) error {
	if err == nil {
		return nil
	}
	return t.conceal(t.mistakes(err))
}

func (t *Text) mistakes(err error) (m Mistakes) {
	if errors.As(err, &m) {
		return m
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // joined errors inside one mistake stay together
		for _, e := range many.Unwrap() {
			m = append(m, t.mistakes(e)...)
		}
		return m
	}
	var s *Error
	if errors.As(err, &s) {
		return Mistakes{{File: t.File, Line: t.line(s.Key), Key: s.Key, Text: s.Err.Error()}}
	}
	return Mistakes{{File: t.File, Text: err.Error()}}
}

// unreadable converts an error of the YAML reader to mistakes with keys.
func (t *Text) unreadable(err error) Mistakes {
	var known Mistakes
	if errors.As(err, &known) {
		return known
	}
	var many *yaml.LoadErrors
	if errors.As(err, &many) {
		var m Mistakes
		for _, e := range many.Errors {
			m = append(m, t.mistake(e))
		}
		sort.SliceStable(m, func(i, j int) bool { return m[i].Line < m[j].Line })
		return m
	}
	var one *yaml.LoadError
	if errors.As(err, &one) {
		return Mistakes{t.mistake(one)}
	}
	return Mistakes{{File: t.File, Text: strings.TrimPrefix(err.Error(), "yaml: ")}}
}

func (t *Text) mistake(e *yaml.LoadError) Mistake {
	m := Mistake{File: t.File, Line: e.Mark.Line, Text: strings.TrimPrefix(e.Message, "yaml: ")}
	m.Key = t.paths[place{e.Mark.Line, e.Mark.Column}]
	if e.ContextMsg != "" && m.Key == "" {
		m.Text = e.ContextMsg + ": " + m.Text
	}
	if rest, ok := strings.CutPrefix(m.Text, "field "); ok {
		if name, _, ok := strings.Cut(rest, " not found in type "); ok {
			m.Text = fmt.Sprintf("there is no setting %q here", name) + t.suggestKey(m.Key, name)
		}
	}
	if strings.HasPrefix(m.Text, "cannot construct !!") {
		m.Text = plainType(m.Text, typeAt(t.of, m.Key))
	}
	return m
}

// plainType replaces Go types in the YAML reader's messages by words.
func plainType(s string, of reflect.Type) string {
	got, _, ok := strings.Cut(strings.TrimPrefix(s, "cannot construct !!"), " into ")
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
	return "this is " + kind + ", it should be " + form(of)
}

// form describes how values of a type are written.
func form(t reflect.Type) string {
	if t == nil {
		return "something else"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		if !reflect.PointerTo(t).Implements(textType) {
			return "a group of settings"
		}
	case reflect.String:
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return fmt.Sprintf("a whole number from 0 to %d", uint64(1)<<t.Bits()-1)
	case reflect.Uint, reflect.Uint64:
		return "a whole number, 0 or more"
	default:
		if !reflect.PointerTo(t).Implements(textType) {
			return "a whole number"
		}
	}
	return "a single value"
}

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

// suggestKey suggests the intended key for a misspelt name at path.
func (t *Text) suggestKey(path, name string) string {
	for _, k := range []string{strings.ReplaceAll(strings.ToLower(name), "_", "-"), name} {
		var names []string
		for _, f := range fieldsAt(t.of, parent(path)) {
			names = append(names, f.name)
		}
		if best := Nearest(k, names); best != "" {
			return fmt.Sprintf("; did you mean %q?", best)
		}
	}
	return ""
}

// Nearest returns the name of which word may be a misspelling, with at most two different
// letters, or "".
func Nearest(word string, names []string) string {
	best, least := "", 3
	for _, n := range names {
		if d := Distance(word, n); d < least && d < len(n) {
			best, least = n, d
		}
	}
	return best
}

// DidYouMean returns "; did you mean" and the name of which word may be a misspelling, or "".
func DidYouMean(word string, names iter.Seq[string]) string {
	if near := Nearest(word, slices.Sorted(names)); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// Distance returns the number of letters to add, remove, replace or swap with their neighbour
// to turn a into b.
func Distance(a, b string) int {
	two, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], two[j-1]+1)
			}
		}
		two, last = last, row
	}
	return last[len(b)]
}
