package setting

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Some settings are powerful: who may write them can become an owner, or read what only an owner may.
// Their fields have the tag role:"owner", which includes everything below, or they say so with a method
// Owned. Some settings are secrets: their fields have the tag secret:"yes", or secret:"url" for
// URLs that may contain a password. Some show people's browsing to somebody: their fields have the tag
// two:"people".

// Powers returns digests of the values in the settings v that only a role may change, by key. A key
// without a value is omitted.
func Powers(v any, role string) map[string]string { return digests(v, "role", role) }

// ForTwo returns digests of the values in the settings v that show a person's browsing to somebody, or
// say who may see it, by key: those with the tag two:"people". Where two people are needed for that,
// they are needed to change these.
func ForTwo(v any) map[string]string { return digests(v, "two", "people") }

func digests(v any, tag, value string) map[string]string {
	all := map[string][]string{}
	eachTagged(v, tag, value, func(at string, of reflect.Value) { all[at] = append(all[at], Digest(of.Interface())) })
	sums := map[string]string{}
	for at, digests := range all {
		sums[at] = Digest(digests)
	}
	return sums
}

// PowerFiles returns the files and folders that only a role may name.
func PowerFiles(v any, role string) (all []string) {
	eachTagged(v, "role", role, func(_ string, of reflect.Value) {
		c := reflect.New(of.Type())
		c.Elem().Set(of)
		eachFile(c, func(f reflect.Value) { all = append(all, f.String()) }, func(FileNamer) {})
	})
	return slices.DeleteFunc(all, func(path string) bool { return path == "" })
}

// eachTagged calls f for every value whose field has a tag.
func eachTagged(v any, tag, value string, f func(at string, of reflect.Value)) {
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			if !v.IsNil() {
				walk(v.Elem(), path)
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				walk(v.Index(i), path)
			}
		case reflect.Map:
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			for _, k := range keys {
				walk(v.MapIndex(k), path)
			}
		case reflect.Struct:
			if o, ok := v.Interface().(interface{ Owned() bool }); ok && tag == "role" && o.Owned() {
				f(path, v)
				return
			}
			for _, k := range fieldsOf(v.Type()) {
				at, of := join(path, k.name), v.FieldByIndex(k.at)
				switch {
				case k.of.Tag.Get(tag) != value:
					walk(of, at)
				case !of.IsZero():
					f(at, of)
				}
			}
		}
	}
	walk(reflect.ValueOf(v), "")
}

// A Hidden is a text of settings in which placeholders stand for the secrets.
type Hidden struct {
	Text    []byte
	secrets map[string]string // what the text has in place of each placeholder
	values  map[string]string // placeholder of each secret's value
	places  map[string]bool   // keys and values with placeholders, see placesOf
	lines   map[string]bool   // lines with placeholders
}

var (
	placeholder = regexp.MustCompile(`kept-[0-9a-f]{20}`)
	// secretName matches keys that sound like secrets. It counts where a key is not known.
	secretName = regexp.MustCompile(`(?i)pass|secret|token|key`)

	// withPassword matches URLs with a password before the host. It is a secret under any key.
	withPassword = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#\s@]*:[^/?#\s]+@\S*$`)

	errShape = errors.New("a secret in these settings is written in several lines, so that it cannot be hidden: only an owner can see the text; write the secret on one line, between quotes")
)

// shortest is the length of the shortest secret that is also hidden in comments and other values.
const shortest = 6

// Hide replaces the secrets in a text of settings, which are read into a value of v's type. With the
// same key, a secret always has the same placeholder.
func Hide(text []byte, v any, key []byte) (*Hidden, error) {
	h := &Hidden{Text: text, secrets: map[string]string{}, values: map[string]string{}, lines: map[string]bool{}}
	var root yaml.Node
	if err := yaml.Load(text, &root); err != nil || root.Kind == 0 {
		if len(strings.TrimSpace(string(text))) == 0 {
			return h, nil
		}
		return nil, errors.New("these settings have a mistake in their form, so that secrets in them cannot be found: only an owner can see the text")
	}
	var spans []span
	starts := lineStarts(text)
	values := map[string]bool{}
	seen := map[int]bool{}
	err := eachSecret(&root, bare(reflect.TypeOf(v)), "", func(n *yaml.Node, secret string) error {
		elsewhere, _ := secretPlace(n.Value)
		if elsewhere != nil || secret == "" && !withPassword.MatchString(n.Value) || secret == "url" && !hasCredentials(n.Value) {
			return nil
		}
		s, err := spanOf(text, starts, n)
		if err == nil && !seen[s.from] {
			seen[s.from] = true
			spans = append(spans, s)
			values[n.Value] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	mark := func(source string) string {
		m := hmac.New(sha256.New, append([]byte("secret of the settings"), key...))
		m.Write([]byte(source))
		p := "kept-" + hex.EncodeToString(m.Sum(nil)[:10])
		h.secrets[p] = source
		return p
	}
	slices.SortFunc(spans, func(a, b span) int { return b.from - a.from })
	out := string(text)
	for _, s := range spans {
		out = out[:s.from] + mark(out[s.from:s.to]) + out[s.to:]
	}
	for value := range values {
		h.values[value] = mark(value)
		if len(value) >= shortest {
			out = strings.ReplaceAll(out, value, h.values[value])
		}
	}
	h.Text = []byte(out)
	for line := range strings.Lines(out) {
		if placeholder.MatchString(line) {
			h.lines[strings.TrimRight(line, "\n")] = true
		}
	}
	if h.places, _, err = placesOf(h.Text); err != nil {
		return nil, errShape
	}
	return h, nil
}

// Bounds of the walk for secrets: aliases may lead back to what they are in, or double at each step.
const (
	mostDeep  = 1000
	mostNodes = 4 << 20
)

var errEndless = fmt.Errorf("its aliases make it deeper than %d levels or more than %d values", mostDeep, mostNodes)

// A secretWalk calls a function for every scalar of a text.
type secretWalk struct {
	f    func(n *yaml.Node, secret string) error
	left int // nodes that may still be visited
}

// eachSecret calls f for every scalar below n, which has type t, with the tag that says how it is secret.
func eachSecret(n *yaml.Node, t reflect.Type, secret string, f func(n *yaml.Node, secret string) error) error {
	w := secretWalk{f, mostNodes}
	return w.visit(n, t, secret, 0)
}

func (w *secretWalk) visit(n *yaml.Node, t reflect.Type, secret string, depth int) error {
	if w.left--; w.left < 0 || depth > mostDeep {
		return errEndless
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return w.visit(n.Content[0], t, secret, depth+1)
	case yaml.AliasNode:
		if n.Alias.Kind != yaml.ScalarNode {
			return w.visit(n.Alias, t, secret, depth+1)
		}
		n = n.Alias
	}
	if t != nil {
		t = bare(t)
	}
	switch n.Kind {
	case yaml.ScalarNode:
		if t != nil && t.Kind() == reflect.Slice { // a list may be written as a single value
			t = t.Elem()
		}
		if n.Value == "" || n.Tag == "!!null" {
			return nil
		}
		return w.f(n, secret)
	case yaml.SequenceNode:
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
			t = t.Elem()
		}
		for _, c := range n.Content {
			if err := w.visit(c, t, secret, depth+1); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		for t != nil && t.Kind() == reflect.Slice {
			t = bare(t.Elem())
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			of, tag := typeOfKey(n.Content[i].Value, t, secret)
			if err := w.visit(n.Content[i+1], of, tag, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// typeOfKey returns the type of a key of t, and whether it is secret.
func typeOfKey(key string, t reflect.Type, secret string) (reflect.Type, string) {
	switch {
	case key == "<<":
		return t, secret
	case t != nil && t.Kind() == reflect.Map:
		return t.Elem(), secret
	case t != nil && t.Kind() == reflect.Struct:
		for _, f := range fieldsOf(t) {
			if f.name == key {
				if tag := f.of.Tag.Get("secret"); tag != "" {
					secret = tag
				}
				return f.of.Type, secret
			}
		}
	}
	if secret == "" && secretName.MatchString(key) {
		secret = "yes"
	}
	return nil, secret
}

// HasPlaceholder reports whether a text contains the placeholder of a secret.
func HasPlaceholder(text string) bool { return placeholder.MatchString(text) }

// WithoutCredentials returns a text for people, such as a URL or an error about one: URLs in it have no
// user, and no values in the query that sound like secrets.
func WithoutCredentials(text string) string {
	return anyURL.ReplaceAllStringFunc(text, openURL)
}

// WithoutQuotes returns an error about a line of a file without what it quotes, for people who may not
// read the file.
func WithoutQuotes(text string) string { return inQuotes.ReplaceAllLiteralString(text, `"…"`) }

var inQuotes = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"…?|“[^”]*”|`[^`]*`")

var anyURL = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>]+`)

func openURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || !hasCredentials(s) {
		return s
	}
	u.User = nil
	q := u.Query()
	for name := range q {
		if hasCredentials("?" + name) {
			q.Set(name, "…")
		}
	}
	if u.RawQuery != "" {
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// hasCredentials reports whether a URL contains a user, or something that sounds like a secret in its
// query. A URL that cannot be read may.
func hasCredentials(s string) bool {
	u, err := url.Parse(s)
	if err != nil {
		return strings.ContainsAny(s, "@?")
	}
	for name := range u.Query() {
		if secretName.MatchString(name) || strings.Contains(strings.ToLower(name), "auth") || strings.Contains(strings.ToLower(name), "sig") || strings.Contains(strings.ToLower(name), "license") {
			return true
		}
	}
	return u.User != nil || u.Scheme == "" && strings.Contains(s, "@")
}

// A span is where a scalar is written.
type span struct{ from, to int }

// lineStarts returns the offset of each line.
func lineStarts(text []byte) []int {
	starts := []int{0}
	for i, c := range text {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// spanOf returns where a scalar is written, without its anchor and tag.
func spanOf(text []byte, starts []int, n *yaml.Node) (s span, err error) {
	if n.Line < 1 || n.Line > len(starts) {
		return s, errShape
	}
	at := starts[n.Line-1]
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(text[min(at, len(text)):])
		at += size
	}
	for at < len(text) && (text[at] == '&' || text[at] == '!') {
		for at < len(text) && text[at] != ' ' && text[at] != '\n' {
			at++
		}
		for at < len(text) && text[at] == ' ' {
			at++
		}
	}
	rest := string(text[min(at, len(text)):])
	switch {
	case strings.HasPrefix(rest, `"`):
		for i := 1; i < len(rest); i++ {
			switch rest[i] {
			case '\\':
				i++
			case '"':
				return span{at, at + i + 1}, nil
			}
		}
	case strings.HasPrefix(rest, "'"):
		for i := 1; i < len(rest); i++ {
			if rest[i] != '\'' {
				continue
			}
			if !strings.HasPrefix(rest[i:], "''") {
				return span{at, at + i + 1}, nil
			}
			i++
		}
	case n.Value != "" && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 && strings.HasPrefix(rest, n.Value):
		return span{at, at + len(n.Value)}, nil
	}
	return s, errShape
}

// placesOf returns the keys and values in a text that contain placeholders: paths without indexes,
// and the whole value; and the nodes of the values.
func placesOf(text []byte) (places map[string]bool, nodes map[*yaml.Node]string, err error) {
	var root yaml.Node
	if err := yaml.Load(text, &root); err != nil {
		return nil, nil, err
	}
	places, nodes = map[string]bool{}, map[*yaml.Node]string{}
	var walk func(n *yaml.Node, path string)
	walk = func(n *yaml.Node, path string) {
		switch n.Kind {
		case yaml.ScalarNode:
			if placeholder.MatchString(n.Value) {
				places[path+"\n"+n.Value] = true
				nodes[n] = path
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				key := n.Content[i]
				if placeholder.MatchString(key.Value) {
					places[path+".key\n"+key.Value] = true
					nodes[key] = path + ".key"
				}
				walk(n.Content[i+1], join(path, key.Value))
			}
		case yaml.SequenceNode, yaml.DocumentNode:
			for _, c := range n.Content {
				walk(c, path)
			}
		}
	}
	walk(&root, "")
	return places, nodes, nil
}

// Restore returns a text with the secrets in place of their placeholders. A placeholder stands for its
// secret only under the key where h has it: elsewhere the secret could be read.
func (h *Hidden) Restore(text []byte) ([]byte, error) {
	_, nodes, err := placesOf(text)
	if err != nil {
		return text, nil // reading it reports the mistake
	}
	starts := lineStarts(text)
	var spans []span
	for i, line := range slices.Collect(strings.Lines(string(text))) { // with their comments
		if h.lines[strings.TrimRight(line, "\n")] {
			spans = append(spans, span{starts[i], starts[i] + len(line)})
		}
	}
	for n, path := range nodes {
		if !h.places[path+"\n"+n.Value] {
			return nil, &Error{Key: path, Err: fmt.Errorf("%s stands for a secret that the settings in use do not have here: write the secret itself, or let an owner do this", placeholder.FindString(n.Value))}
		}
		s, err := spanOf(text, starts, n)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(spans, func(line span) bool { return line.from <= s.from && s.from < line.to }) {
			spans = append(spans, s)
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return b.from - a.from })
	out := string(text)
	for _, s := range spans {
		out = out[:s.from] + placeholder.ReplaceAllStringFunc(out[s.from:s.to], func(p string) string {
			if secret, ok := h.secrets[p]; ok {
				return secret
			}
			return p
		}) + out[s.to:]
	}
	return []byte(out), nil
}

// Redact replaces the secrets in a text about the settings, such as an error.
func (h *Hidden) Redact(text string) string {
	values := make([]string, 0, len(h.values))
	for v := range h.values {
		values = append(values, v)
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	for _, v := range values {
		if len(v) > 2 {
			text = strings.ReplaceAll(text, v, h.values[v])
		}
	}
	return text
}
