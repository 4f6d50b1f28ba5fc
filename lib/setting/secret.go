package setting

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// A secret may be elsewhere than in the settings file: the value of every key that is one (tag
// secret) may name its place. Only [Read] knows of this; parts get the secret itself.

// serviceCredentials is where systemd has the credentials of the package's service. Commands that an
// administrator types do not have the variable that tells the service.
const serviceCredentials = "/run/credentials/shuultuur.service"

// maxSecret bounds a file with a secret.
const maxSecret = 64 << 10

// secretPlaces are the beginnings of values that name the place of a secret, and how it is read there.
// A file is returned also with an error.
var secretPlaces = map[string]func(dir, name string) (value, file string, err error){
	"secret-file:": func(dir, name string) (string, string, error) {
		file := Path(dir, name)
		value, err := readSecret(file)
		return value, file, err
	},
	"secret-credential:": func(_, name string) (string, string, error) {
		dir := os.Getenv("CREDENTIALS_DIRECTORY")
		if dir == "" {
			dir = serviceCredentials
		}
		if filepath.Base(name) != name || !filepath.IsLocal(name) {
			return "", "", fmt.Errorf("%.80q is not the name of a credential: write it as after LoadCredential=", name)
		}
		file := filepath.Join(dir, name)
		value, err := readSecret(file)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; systemd puts it there while the service runs, if the unit has LoadCredential=%s:FILE", err, name)
		}
		return value, file, err
	},
	"secret-env:": func(_, name string) (string, string, error) {
		value := os.Getenv(name)
		if value == "" {
			return "", "", fmt.Errorf("the environment of this process has no %.80s: set it for the service, and for commands that read its settings", name)
		}
		return value, "", nil
	},
}

// readSecret returns the one line of a file.
func readSecret(file string) (string, error) {
	// A pipe would hold up whoever opens it.
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("reading the secret: %s is not a regular file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("reading the secret: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("reading the secret: %w", err)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if value == "" || len(b) > maxSecret || strings.ContainsAny(value, "\r\n\x00") {
		return "", fmt.Errorf("reading the secret: %s has to have it as its one line, of at most %d bytes", file, maxSecret)
	}
	return value, nil
}

// secretPlace returns how the secret is read that a value names, nil if it names none.
func secretPlace(value string) (read func(dir, name string) (string, string, error), name string) {
	for prefix, read := range secretPlaces {
		if name, ok := strings.CutPrefix(value, prefix); ok {
			return read, name
		}
	}
	return nil, ""
}

// secretsIn returns the places of secrets that a text names for settings of v's type: key and value. A
// text that cannot be read names none.
func secretsIn(text []byte, v any) (all []string) {
	var root yaml.Node
	if err := yaml.Load(text, &root); err != nil || root.Kind == 0 {
		return nil
	}
	t := &Text{lines: map[string]int{}, paths: map[place]string{}}
	t.walk(&root, "", 0)
	_ = eachSecret(&root, bare(reflect.TypeOf(v)), "", func(n *yaml.Node, secret string) error {
		if read, _ := secretPlace(n.Value); read != nil && secret != "" {
			all = append(all, withoutIndexes(t.paths[place{n.Line, n.Column}])+": "+n.Value)
		}
		return nil
	})
	return all
}

// NewSecretPlace returns a place of a secret that a text names for settings of v's type, and another
// text does not; "" if there is none. Who writes such a text can have any file read by the program.
func NewSecretPlace(was, is []byte, v any) string {
	known := secretsIn(was, v)
	for _, at := range secretsIn(is, v) {
		if !slices.Contains(known, at) {
			return at
		}
	}
	return ""
}

// withoutIndexes returns a path without the numbers of elements, which change when others go.
func withoutIndexes(path string) string {
	var b strings.Builder
	inside := false
	for _, c := range path {
		if inside = inside && c != ']' || c == '['; !inside && c != ']' {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// SecretFiles returns the files from which secrets of the text were read, with their stamps from before.
func (t *Text) SecretFiles() map[string]string { return maps.Clone(t.secretFiles) }

// load reads the text into a value, with the secrets that it names elsewhere.
func (t *Text) load(into any) error {
	var wrong Mistakes
	named := map[*yaml.Node]string{} // a node, and its secret
	err := eachSecret(&t.root, t.of, "", func(n *yaml.Node, secret string) error {
		read, name := secretPlace(n.Value)
		if read == nil || secret == "" {
			return nil
		}
		since := time.Now()
		value, file, err := read(filepath.Dir(t.File), name)
		if file != "" {
			t.secretFiles[file] = Stamp(file, since)
		}
		if err != nil {
			wrong = append(wrong, Mistake{File: t.File, Line: n.Line, Key: t.paths[place{n.Line, n.Column}], Text: err.Error()})
			return nil
		}
		named[n], t.secrets[value] = value, n.Value
		return nil
	})
	switch {
	case err != nil:
		return Mistakes{{File: t.File, Text: err.Error()}}
	case len(wrong) > 0:
		return wrong
	case len(named) == 0:
		return yaml.Load(t.data, into, yaml.WithKnownFields(), yaml.WithUniqueKeys(false))
	case hasAliases(&t.root): // the secret could be read under the key of another alias
		return Mistakes{{File: t.File, Text: "settings that name secrets elsewhere have no anchors and aliases: write out what they stand for"}}
	}
	for n, value := range named {
		was := *n
		n.Value, n.Tag, n.Style = value, "!!str", yaml.DoubleQuotedStyle
		defer func() { *n = was }()
	}
	return t.root.Load(into, yaml.WithKnownFields(), yaml.WithUniqueKeys(false))
}

// conceal replaces the secrets from elsewhere in mistakes by where they are.
func (t *Text) conceal(m Mistakes) Mistakes {
	for value, at := range t.secrets {
		if len(value) > 2 {
			for i := range m {
				m[i].Text = strings.ReplaceAll(m[i].Text, value, at)
			}
		}
	}
	return m
}
