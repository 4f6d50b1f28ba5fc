package files

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWindowsGoPastMidnight(t *testing.T) {
	w, ok := parseWindow("22 30 6 0 4") // Friday night
	if !ok {
		t.Fatal("parseWindow refused a valid window")
	}
	for at, want := range map[string]bool{
		"2024-01-05 22:29": false, "2024-01-05 22:30": true, "2024-01-06 06:00": true, "2024-01-06 06:01": false,
		"2024-01-06 23:00": false, "2024-01-05 05:00": false,
	} {
		when, err := time.Parse("2006-01-02 15:04", at)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Open(when); got != want {
			t.Errorf("open at %s: got %v", at, got)
		}
	}
}

// FuzzIncludes: all files that a list includes are in its folder, and its times are valid.
func FuzzIncludes(f *testing.F) {
	f.Add("#listcategory: \"x\"\n#time: 8 0 16 30 01234\n.Include<other>\n.Include</etc/passwd>\n.Include<../../x>\n")
	f.Add("#time: 24 59 99 -1 77\n.Include<main>\n.Include<>\n.Include<\x00>\n.Include<__LISTDIR__/__LISTDIR__>\n")
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		for _, name := range []string{"main", "other"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		x, err := Includes(filepath.Join(dir, "main"), false)
		if err != nil {
			t.Fatal(err)
		}
		if len(x.Files) > 2 {
			t.Errorf("Includes found %d files, but there are two", len(x.Files))
		}
		for _, file := range x.Files {
			if filepath.Dir(file.Path) != dir {
				t.Errorf("Includes found %s, which is not in %s", file.Path, dir)
			}
			if len(file.When) > MaxIncludeDepth+1 {
				t.Errorf("a file has %d windows, more than includes can give it", len(file.When))
			}
			for _, w := range file.When {
				if w.Begin > 1440 || w.End > 1440 || w.Days > 127 {
					t.Errorf("invalid window: %+v", w)
				}
			}
		}
	})
}

func TestUnpackReadsWhatIsCompressed(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write([]byte("a.com\n"))
	w.Close()
	for _, data := range [][]byte{[]byte("a.com\n"), packed.Bytes()} {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := Unpack(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); string(got) != "a.com\n" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

func TestWalkFindsWantedFilesAndAliases(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"adult/domains": "a.com", "adult/readme": "x", "porn": "adult", "games/urls": "b.com/x"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"sex": "adult", "out": "/etc"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := Walk(dir, func(name string) bool { return name == "domains" || name == "urls" })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range tree.Files {
		got = append(got, f.Path)
	}
	for _, a := range tree.Aliases {
		got = append(got, a.Name+" = "+a.Target)
	}
	for _, p := range tree.Problems {
		got = append(got, p.File)
	}
	slices.Sort(got)
	if want := []string{"adult/domains", "adult/readme = adult/x", "games/urls", "out", "porn = adult", "sex = adult"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCharsetIsThatOfTheMarkOrTheName(t *testing.T) {
	for _, tt := range []struct {
		declared, name, text string
		utf8                 bool
	}{
		{"", "x", "a.com", true},
		{"", "russian-koi8-r", "a.com", false},
		{"windows-1251", "x", "a.com", false},
		{"", "x", "\xff\xfea\x00", false},
	} {
		e := CharsetOf(tt.declared, tt.name, bufio.NewReader(strings.NewReader(tt.text)))
		if (e == nil) != tt.utf8 {
			t.Errorf("%+v: got %v", tt, e)
		}
	}
}

func TestCommentsBeginAfterWhiteSpace(t *testing.T) {
	for in, want := range map[string]string{"a.com # x": "a.com", "a.com/#x": "a.com/#x", "#x": "", "a.com": "a.com"} {
		if got := string(CutComment([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
