package shuultuur

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// floors is the floor table of ARCHITECTURE.md. A package may import folders
// on lower floors and folders inside its own, nothing else of ours.
var floors = map[string]int{
	"cmd/shuultuur":   7,
	"test":            7,
	"bench":           7,
	"gateway":         6,
	"admin":           5,
	"load":            5,
	"doctor":          5,
	"profile":         5,
	"importer":        5,
	"proxy":           4,
	"nameserver":      5,
	"nameserver/zone": 4,
	"check":           4,
	"policy":          4,
	"identity":        4,
	"event":           4,
	"nameserver/wire": 3,
	"intercept":       3,
	"list":            3,
	"state":           3,
	"filter":          2,
	"content":         1,
	"message":         1,
	"atomicfile":      0,
	"peertest":        0,
	"realdata":        0,
}

// room returns the folder of the floor table that dir lies in, "" if none.
func room(dir string) string {
	for dir != "." && dir != "" {
		if _, ok := floors[dir]; ok {
			return dir
		}
		dir = filepath.ToSlash(filepath.Dir(dir))
	}
	return ""
}

// inside says whether a folder lies in another or is the same.
func inside(dir, in string) bool { return dir == in || strings.HasPrefix(dir, in+"/") }

func TestImportsPointDown(t *testing.T) {
	files := 0
	documented := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || filepath.Dir(path) == "." {
			return nil
		}
		files++
		dir := filepath.ToSlash(filepath.Dir(path))
		mine := room(dir)
		if mine == "" {
			t.Errorf("%s: folder %s has no floor; add it to the table here and in ARCHITECTURE.md", path, dir)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if f.Doc != nil {
			documented[dir] = true
		} else if _, seen := documented[dir]; !seen {
			documented[dir] = false
		}
		for _, im := range f.Imports {
			to, _ := strconv.Unquote(im.Path.Value)
			to, ours := strings.CutPrefix(to, "shuultuur/")
			if !ours || inside(to, dir) || inside(dir, to) {
				continue
			}
			theirs := room(to)
			if theirs == mine && strings.HasSuffix(path, "_test.go") {
				continue // conformance suites lie beside what they test
			}
			if theirs == "" || floors[theirs] >= floors[mine] && mine != "cmd/shuultuur" && mine != "test" && mine != "bench" {
				t.Errorf("%s (floor %d) imports %s (floor %d): imports point down", path, floors[mine], to, floors[theirs])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Fatalf("looked at %d files only: the walk does not see the tree", files)
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package in %s has no package comment", dir)
		}
	}
}
