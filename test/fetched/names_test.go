// Package fetched tests that what comes from the world may block something, and nothing else.
package fetched

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/check/phrase"
	"shuultuur/check/signature"
	"shuultuur/lib/neural"
	"shuultuur/lib/neural/nettest"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/zone"
)

// naming are the formats in which content can name a file, with a line that names NAME, a text
// that an included file would add, and a reader. The reader returns what is there of the text, and
// what it says of the line.
var naming = []struct {
	format   string
	line     string
	included string
	read     func(t *testing.T, format, file string) (added bool, remarks string)
}{
	{"e2guardian", ".Include<NAME>", "outside.example", fetchedList},
	{"e2guardian-regexp", ".Include<NAME>", "outside[.]example", fetchedList},
	{"rpz", "$INCLUDE NAME", "outside.example CNAME .", fetchedList},
	{"unbound", `include: "NAME"`, `local-zone: "outside.example" always_nxdomain`, fetchedList},
	{"dnsmasq", "conf-file=NAME", "address=/outside.example/", fetchedList},
	{"adblock", "!#include NAME", "||outside.example^", fetchedList},
	{"e2guardian", ".Include<NAME>", "outside.example", ownList},
	{"adblock", "!#include NAME", "||outside.example^", ownList},
	{"auto", "!#include NAME\n||a.example^", "||outside.example^", ownList},
	{"phrases", ".Include<NAME>", "<outside><50>", phrases},
	{"zone", "$INCLUDE NAME", "outside.example. A 192.0.2.1", zoneFile},
	{"rules", "alert http any any -> any any (http.uri; dataset:isset,x,type string,load NAME; sid:1;)", "b3V0c2lkZQ==", rules},
	{"rules", "alert http any any -> any any (http.uri; dataset:set,x,type string,state NAME; sid:1;)", "b3V0c2lkZQ==", rules},
	{"rules", `alert http any any -> any any (content:"x"; lua:NAME; sid:1;)`, "function init() return {} end function match() return 1 end", rules},
}

func fetchedList(t *testing.T, format, file string) (bool, string) {
	return readList(t, format, file, true)
}
func ownList(t *testing.T, format, file string) (bool, string) {
	return readList(t, format, file, false)
}

func readList(t *testing.T, format, file string, fetched bool) (bool, string) {
	dst := filepath.Join(t.TempDir(), "x.list")
	r, err := list.Compile(t.Context(), "x", list.Config{Format: list.FormatName(format), Path: setting.Source(file), Fetched: fetched}, dst)
	if err != nil {
		t.Fatal(err)
	}
	f, err := list.Open(dst)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found, err := f.Ask("outside.example")
	if err != nil {
		t.Fatal(err)
	}
	var remarks strings.Builder
	for _, p := range r.Problems {
		remarks.WriteString(p.String() + "\n")
	}
	return len(found) > 0, remarks.String()
}

func phrases(t *testing.T, _, file string) (bool, string) {
	c, err := phrase.New(phrase.Config{Weighted: []setting.File{setting.File(file)}}, filepath.Dir(file), time.Now)
	if err != nil {
		return false, err.Error()
	}
	return len(c.Categories()) > 0, ""
}

func zoneFile(_ *testing.T, _, file string) (bool, string) {
	z, err := zone.ReadFile(file, "example")
	if err != nil {
		return false, err.Error()
	}
	return len(z.Records) > 0, ""
}

func rules(t *testing.T, _, file string) (bool, string) {
	c, err := signature.New(signature.Config{Rules: []setting.File{setting.File(file)}}, signature.Parts{Now: time.Now, Data: t.TempDir()})
	if err != nil {
		return false, err.Error()
	}
	defer c.Close()
	var remarks strings.Builder
	for _, m := range c.Mistakes() {
		remarks.WriteString(m.Error() + "\n")
	}
	return len(c.Mistakes()) == 0, remarks.String()
}

// TestModelsNameNoFiles: the weights of a model are in it, not even in a file beside it.
func TestModelsNameNoFiles(t *testing.T) {
	own := t.TempDir()
	if err := os.WriteFile(filepath.Join(own, "weights"), make([]byte, 64), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(own)
	for _, name := range []string{"weights", "./weights", filepath.Join(own, "weights"), "../weights", "/dev/zero", ""} {
		g, err := neural.Read(nettest.New(13, 1, 1).Outside("w", name).Op("MatMul", "out", nil, "in", "w").File("out"))
		if err == nil || !strings.Contains(err.Error(), "in another file") {
			t.Errorf("a model whose weights are in %q: %v, %v", name, g, err)
		}
	}
}

// TestContentNamesNoFilesOutside: a name that is written in content is one of a file in the folder
// of the content, whatever the format. All that signature rules can name is tested beside their check.
func TestContentNamesNoFilesOutside(t *testing.T) {
	machine := t.TempDir()
	own, outside := filepath.Join(machine, "own"), filepath.Join(machine, "outside")
	for _, dir := range []string{own, outside} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(outside, "file"), filepath.Join(own, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(own, "linked")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(own, "sub"), 0o700), pipe(filepath.Join(own, "pipe"))); err != nil {
		t.Fatal(err)
	}
	for _, x := range naming {
		if err := os.WriteFile(filepath.Join(outside, "file"), []byte(x.included+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{filepath.Join(outside, "file"), "../outside/file", "../own/../outside/file", "link", "linked/file", "./sub/../../outside/file", "pipe", "/dev/zero", "/proc/self/environ", ".", "sub", "a\x00b", strings.Repeat("a", 5000), strings.Repeat("../", 40) + "etc/passwd"} {
			file := filepath.Join(own, "content")
			if err := os.WriteFile(file, []byte(strings.Replace(x.line, "NAME", name, 1)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			added, remarks := x.read(t, x.format, file)
			if added {
				t.Errorf("%s: %q read the file outside", x.format, name)
			}
			if !strings.Contains(remarks, ":1") || strings.Contains(remarks, x.included) {
				t.Errorf("%s: %q: the remarks are %q; they should name the line, and nothing of the file", x.format, name, remarks)
			}
		}
	}
}

// TestContentIncludesFilesBesideIt: the folder of a list is still its own.
func TestContentIncludesFilesBesideIt(t *testing.T) {
	own := t.TempDir()
	for _, x := range naming[6:] {
		if err := os.WriteFile(filepath.Join(own, "beside"), []byte(x.included+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(own, "content")
		if err := os.WriteFile(file, []byte(strings.Replace(x.line, "NAME", "beside", 1)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if added, remarks := x.read(t, x.format, file); !added {
			t.Errorf("%s: the file beside it is not read: %s", x.format, remarks)
		}
	}
}
