//go:build unix

package setting

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// doubling returns a text whose aliases stand for 2 to the n values.
func doubling(n int) string {
	text := "many:\n  a0: &a0 [x, y]\n"
	for i := range n {
		text += fmt.Sprintf("  a%d: &a%[1]d [*a%d, *a%[2]d]\n", i+1, i)
	}
	return text
}

// TestSecretsElsewhereAreReadSafely: what is no secret of one line is refused, neither an alias nor a key
// that is no secret gets one, and mistakes do not tell it.
func TestSecretsElsewhereAreReadSafely(t *testing.T) {
	type settings struct {
		Token string            `yaml:"token" secret:"yes"`
		Count Count             `yaml:"count" secret:"yes"`
		Name  string            `yaml:"name"`
		Many  map[string]string `yaml:"many" secret:"yes"`
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"word": "geheim\r\n", "digits": "0123", "empty": "\n", "lines": "a\nb\n", "large": strings.Repeat("x", maxSecret+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(text string) (settings, *Text, error) {
		var s settings
		text1, err := Read(filepath.Join(dir, "s.yaml"), []byte(text), &s)
		return s, text1, err
	}
	for text, want := range map[string]string{
		"token: secret-file:word":                                  "geheim",
		"token: secret-file:digits":                                "0123",
		"token: 'secret-file:word'\nmany: {a: secret-file:digits}": "geheim",
		"token: x\nname: secret-file:word":                         "x",
	} {
		s, of, err := read(text)
		if err != nil || s.Token != want || strings.Contains(s.Name, "geheim") {
			t.Errorf("%s: %+v, %v", text, s, err)
			continue
		}
		if strings.Contains(string(of.Data()), "geheim") || of.DecodeInto(&settings{}) != nil {
			t.Errorf("%s: the text is not as it was", text)
		}
	}
	for text, want := range map[string]string{
		"token: secret-file:empty":                       "one line",
		"token: secret-file:lines":                       "one line",
		"token: secret-file:large":                       "one line",
		"token: secret-file:pipe":                        "not a regular file",
		"token: secret-file:.":                           "not a regular file",
		"token: &t secret-file:word\nname: *t":           "no anchors and aliases",
		"count: secret-file:word":                        `"secret-file:word" is not a count`,
		"name: x\ntoken: secret-file:gone\nunknown: yes": "s.yaml:2: token: ",
		"many: &a {a: *a}":                               "its aliases",
		"many: &a [*a, {b: [*a]}]":                       "its aliases",
		doubling(40):                                     "alias",
	} {
		_, _, err := read(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	_, of, err := read("token: secret-file:word\nmany: {a: secret-env:PATH}")
	if err != nil || len(of.SecretFiles()) != 1 {
		t.Errorf("%v, watched: %v", err, of.SecretFiles())
	} else if err := of.Mistakes(At("token", &os.PathError{Op: "open", Path: "geheim", Err: os.ErrNotExist})); strings.Contains(err.Error(), "geheim") {
		t.Errorf("a mistake tells the secret: %v", err)
	}
	was := []byte("many: {a: secret-file:x}\n")
	for text, want := range map[string]string{
		"token: t\nmany: {a: secret-file:x}": "",
		"many: {a: secret-file:y}":           "many.a: secret-file:y",
		"token: secret-file:x":               "token: secret-file:x",
		"name: secret-file:x":                "",
	} {
		if got := NewSecretPlace(was, []byte(text), &settings{}); got != want {
			t.Errorf("%s: new is %q, want %q", text, got, want)
		}
	}
}
