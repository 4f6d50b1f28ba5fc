package atomicfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileThatWasCutEmptiedOrOverwrittenIsDamaged(t *testing.T) {
	long := strings.Repeat("a line of words\n", 100)
	for name, c := range map[string]struct{ was, is, want string }{
		"the same":                       {long, long, ""},
		"emptied":                        {long, "", "is empty"},
		"it was empty":                   {"", "", ""},
		"it was empty and has something": {"", "x\n", ""},
		"cut in a line":                  {long, long[:805], "cut short"},
		"cut in the first line":          {long, "a li", "cut short"},
		"without its last lines":         {long, long[:1600-32], ""},
		"cut at the end of a line":       {long, long[:320], "delete "},
		"without its first lines":        {long, long[1280:] + "x\n", ""},
		"without a few of few lines":     {long[:160], long[:32], ""},
		"without the last line feed":     {long, long[:1599], ""},
		"of Windows, without its end":    {"one\r\ntwo\r\n", "one\r\ntwo", ""},
		"another text":                   {long, "another\n", ""},
		"one more line":                  {long, long + "more\n", ""},
		"zeros":                          {long, string(make([]byte, len(long))), ":1: "},
		"zeros at its end":               {long, long[:800] + string(make([]byte, 800)), ":51: "},
		"rubbish":                        {long, "\x01\x02\xfe\x10", "0x01"},
		"in another charset":             {"\xef\xf0\xe8\xe2\xe5\xf2\n", "\xef\xf0\xe8\xe2\xe5\n", ""},
		"tabs and form feeds":            {long, "a\tb\f\v\n", ""},
		"a page of an error":             {long, "\n<!DOCTYPE HTML>\n<p>404", "HTML"},
		"it was a page":                  {"<html><p>no", "<html><p>never", ""},
		"a binary file that was cut":     {"\x00\x01model\n\x00", "\x00\x01model\n", "cut short"},
		"another binary file":            {"\x00\x01model\n\x00", "\x00\x02", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "words")
			copies := Copies{filepath.Join(dir, "copies")}
			write := func(text string) {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(c.was)
			if err := copies.Keep([]string{dir}); err != nil { // as a folder
				t.Fatal(err)
			}
			write(c.is)
			for what, err := range map[string]error{"the file": copies.Damaged(file), "the folder": copies.Damaged(dir)} {
				if got := ""; err != nil {
					got = err.Error()
					if c.want == "" || !strings.Contains(got, c.want) || !strings.Contains(got, file) {
						t.Errorf("%s is damaged: %s; want %q", what, got, c.want)
					}
				} else if c.want != "" {
					t.Errorf("%s is not damaged, want %q", what, c.want)
				}
			}
		})
	}
	if err := Damaged(filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestWhatWasSetAsideIsKept: also when it is damaged again at once.
func TestWhatWasSetAsideIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	for i := range 100 {
		if err := os.WriteFile(file, []byte{byte(i)}, 0o600); err != nil {
			t.Fatal(err)
		}
		keep := SetAside
		if i%2 == 0 {
			keep = func(file string, _ ...string) error { return CopyAside(file) }
		}
		if err := keep(file); err != nil {
			t.Fatal(err)
		}
	}
	all, err := filepath.Glob(file + ".damaged-*")
	if err != nil || len(all) != 100 {
		t.Errorf("%d of 100 are kept, %v", len(all), err)
	}
	for _, name := range all {
		if AsideOf(name) != file {
			t.Errorf("%s was %q", name, AsideOf(name))
		}
	}
}
