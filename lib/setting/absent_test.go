package setting

import (
	"os"
	"path/filepath"
	"testing"
)

// TestEveryFileThatIsNotThereIsNamed: each where the text names it, in lists and in values with their
// own syntax of files, too.
func TestEveryFileThatIsNotThereIsNamed(t *testing.T) {
	type named struct {
		One    File              `yaml:"one"`
		Many   []File            `yaml:"many"`
		Source map[string]Source `yaml:"source"`
		Folder Folder            `yaml:"folder"`
		Text   string            `yaml:"text"`
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "there"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"one: there\n":                   "",
		"folder: new\ntext: gone\n":      "", // it is made, and it is no file
		"one: \"\"\n":                    "",
		"one: gone\n":                    "s.yaml:1: one: gone: no such file",
		"text: x\nmany: [there, a, b]\n": "s.yaml:2: many: a: no such file\ns.yaml:2: many: b: no such file",
		"source:\n  x: a\n  y: there\n  z: /none/at/all\n":       "s.yaml:2: source.x: a: no such file\ns.yaml:4: source.z: /none/at/all: no such file",
		"# gone\none: gone # gone\nmany:\n  - there\n  - gone\n": "s.yaml:2: one: gone: no such file\ns.yaml:5: many: gone: no such file",
	} {
		var v named
		file := filepath.Join(dir, "s.yaml")
		read, err := Read(file, []byte(text), &v)
		if err != nil {
			t.Fatal(err)
		}
		got := read.Absent(&v, nil)
		for i := range got {
			got[i].File = filepath.Base(got[i].File)
		}
		if got.Error() != want {
			t.Errorf("%q: got %q, want %q", text, got.Error(), want)
		}
		for i := range got { // what is known is not told again
			if rest := read.Absent(&v, got[i:i+1]); len(rest) != len(got)-1 {
				t.Errorf("%q: beside %q there are %q", text, got[i], rest)
			}
		}
	}
}
