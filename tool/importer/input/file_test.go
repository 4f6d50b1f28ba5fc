package input

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/setting"
	"shuultuur/tool/importer/report"
)

// folder writes files into a new folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFilesAreReadWholeAndAsText(t *testing.T) {
	dir := folder(t, map[string]string{"a": "\xef\xbb\xbftext\n", "wide": "one\ntwo\x00", "empty": ""})
	if b, err := Text(filepath.Join(dir, "a")); string(b) != "text\n" || err != nil {
		t.Errorf("a file with a byte order mark: %q, %v", b, err)
	}
	if b, err := Text(filepath.Join(dir, "empty")); len(b) != 0 || err != nil {
		t.Errorf("an empty file: %q, %v", b, err)
	}
	if _, err := Text(filepath.Join(dir, "wide")); err == nil || !strings.Contains(err.Error(), "wide:2:") {
		t.Errorf("a binary file: %v, want its line", err)
	}
	if _, err := Whole(dir); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("a folder: %v, want that it is no file", err)
	}
	if _, err := Whole(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	large := filepath.Join(dir, "large")
	if err := errors.Join(os.WriteFile(large, nil, 0o644), os.Truncate(large, MaxFile+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := Whole(large); err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("a file that is too large: %v, want the limit", err)
	}
}

func TestLinesAreNumberedAndTrimmed(t *testing.T) {
	dir := folder(t, map[string]string{"a": "\xef\xbb\xbf one \r\n\n\t\ntwo", "long": "x\n" + strings.Repeat("y", MaxLine+1)})
	type line struct {
		n int
		s string
	}
	var got []line
	take := func(n int, s []byte) error { got = append(got, line{n, string(s)}); return nil }
	if err := Lines(filepath.Join(dir, "a"), take); err != nil || !slices.Equal(got, []line{{1, "one"}, {4, "two"}}) {
		t.Errorf("the lines are %v, %v", got, err)
	}
	if err := Lines(filepath.Join(dir, "long"), take); err == nil || !strings.Contains(err.Error(), "long:2:") {
		t.Errorf("a line that is too long: %v, want its number", err)
	}
	stop := errors.New("enough")
	if err := Lines(filepath.Join(dir, "a"), func(int, []byte) error { return stop }); err != stop {
		t.Errorf("the error is %v, want that of the caller", err)
	}
}

// Settings name files of the machine from which they were copied.
func TestFilesAreFoundInACopyOfAnotherMachine(t *testing.T) {
	dir := folder(t, map[string]string{"etc/squid/list": "", "squid/other": "", "conf.d/b.conf": "", "conf.d/a.conf": "", "conf.d/sub.conf/x": ""})
	for file, want := range map[string]string{
		"etc/squid/list": "etc/squid/list", "/etc/squid/list": "etc/squid/list", "/etc/squid/other": "squid/other", "/srv/etc/squid/list": "etc/squid/list", "none": "none",
	} {
		if got := Find(dir, file); got != filepath.Join(dir, want) {
			t.Errorf("%s is found at %s, want %s", file, got, want)
		}
	}
	if got := Find(dir, ""); got != "" {
		t.Errorf("no file is found at %s", got)
	}
	if got := Find(dir, "/nowhere/none"); got != "/nowhere/none" {
		t.Errorf("a file that is nowhere is found at %s", got)
	}
	for pattern, want := range map[string]string{"conf.d/*.conf": "a.conf b.conf", "/etc/conf.d/*.conf": "a.conf b.conf", "/*.conf": "", "*.none": ""} {
		var names []string
		for _, f := range Glob(dir, pattern) {
			names = append(names, filepath.Base(f))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s names %q, want %q", pattern, got, want)
		}
	}
	if got := In(dir, "squid.conf"); got != filepath.Join(dir, "squid.conf") {
		t.Errorf("the usual file is %s", got)
	}
	if file := filepath.Join(dir, "squid/other"); In(file, "squid.conf") != file || !IsFile(file) || IsFile(dir) || IsFile(file+"x") {
		t.Error("a file is not taken for itself")
	}
}

func TestOptionsOfFilesThatIncludeEachOther(t *testing.T) {
	dir := folder(t, map[string]string{
		"main":  "a=1 # note\n# b=2\n\ninclude=other\nserver: c = 3\nd\ne=5\t#x\ninclude=none\n",
		"other": "x=1\ninclude=main\ninclude=other\ny=a=b\n",
	})
	o := &OptionFiles{Separator: "=", Section: func(key string) bool { return key == "section" }, Included: func(dir, key, value string) ([]string, bool) {
		if key != "include" {
			return nil, false
		}
		return Glob(dir, value), true
	}}
	var got []string
	err := o.Each(filepath.Join(dir, "main"), func(at report.Place, key, value string) {
		got = append(got, filepath.Base(at.String())+" "+key+"|"+value)
	})
	if err != nil {
		t.Fatal(err)
	}
	var pairs []string
	for _, s := range got {
		_, pair, _ := strings.Cut(s, " ")
		pairs = append(pairs, pair[strings.LastIndex(pair, " ")+1:])
	}
	if want := []string{"a|1", "include|other", "x|1", "include|main", "include|other", "y|a=b"}; len(pairs) < 6 || !slices.Equal(pairs[:6], want) {
		t.Errorf("the options are %q, want first %q: an included file comes where it is named, and once", pairs, want)
	}
	if n := len(pairs); n != 10 || pairs[7] != "d|" || pairs[8] != "e|5" {
		t.Errorf("the options are %q, want ten, with d alone and e without its note", pairs)
	}
	if err := (&OptionFiles{Separator: "=", Included: o.Included}).Each(filepath.Join(dir, "missing"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestASectionMayHaveAnOptionOnItsLine(t *testing.T) {
	dir := folder(t, map[string]string{"a": "server: port: 53\nserver:\n"})
	o := &OptionFiles{Separator: ":", Section: func(key string) bool { return key == "server" }, Included: func(string, string, string) ([]string, bool) { return nil, false }}
	var got []string
	if err := o.Each(filepath.Join(dir, "a"), func(_ report.Place, key, value string) { got = append(got, key+"="+value) }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"server=", "port=53", "server="}; !slices.Equal(got, want) {
		t.Errorf("the options are %q, want %q", got, want)
	}
}

func TestValuesOfYAMLHaveTheirLines(t *testing.T) {
	const doc = "a:\n  b: 1\n  c:\n    - x\n    - {d: 2}\ne: ''\n"
	f := NewTree("f.yaml", []byte(doc))
	for path, want := range map[string]int{"a": 1, "a.b": 2, "a.c": 3, "a.c.0": 4, "a.c.1": 5, "a.c.1.d": 5, "e": 6, "none": 0} {
		if got := f.At(path); got.Line != want || got.File != "f.yaml" {
			t.Errorf("%s is at %v, want line %d", path, got, want)
		}
	}
	if got := f.ValueAt("a.c", 1).Line; got != 5 {
		t.Errorf("the second value is on line %d, want 5", got)
	}
	if got := NewTree("f", []byte("a: [")).At("a").Line; got != 0 {
		t.Errorf("a file that cannot be read has a value on line %d", got)
	}
	var v any
	if err := setting.LoadYAML([]byte(doc), &v); err != nil {
		t.Fatal(err)
	}
	var got []string
	Flatten(v, "", "", func(path, exact, value string) { got = append(got, path+" "+exact+" "+value) })
	if want := []string{"a.b a.b 1", "a.c a.c.0 x", "a.c.1.d a.c.1.d 2", "e e "}; !slices.Equal(got, want) {
		t.Errorf("the values are %q, want %q", got, want)
	}
	leaves := map[string]any{}
	Leaves(v, "", leaves)
	if want := map[string]any{"a.b": 1, "a.c": []any{"x", map[string]any{"d": 2}}, "e": ""}; !reflect.DeepEqual(leaves, want) {
		t.Errorf("the leaves are %v, want %v", leaves, want)
	}
	if got := Strings([]any{" x ", 1, nil, "y"}); !slices.Equal(got, []string{"x", "y"}) || Strings("x") != nil {
		t.Errorf("the texts are %q", got)
	}
	for want, v := range map[string]any{"1 x": []any{1, "x"}, "": nil, "true": true} {
		if got := Plain(v); got != want {
			t.Errorf("Plain(%v) = %q, want %q", v, got, want)
		}
	}
}
