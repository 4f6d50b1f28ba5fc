package shuultuur

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// These limits bound the number of things that a reader has to keep in mind.
const (
	maxMethods = 40 // methods of a type
	maxFields  = 25 // fields of a struct that is not settings
	maxLines   = 80 // lines of a function, unless its comment says "Long because …"
	maxShare   = 18 // per cent of the code in one top-level folder
)

func TestNothingIsLargerThanAReaderCanHold(t *testing.T) {
	methods := map[string]int{}
	lines := map[string]int{}
	total := 0
	eachSource(t, func(path string, fset *token.FileSet, f *ast.File) {
		dir := filepath.ToSlash(filepath.Dir(path))
		top, _, _ := strings.Cut(dir, "/")
		n := fset.Position(f.End()).Line
		lines[top] += n
		total += n
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if r := receiver(d); r != "" {
					methods[dir+"."+r]++
				}
				length := fset.Position(d.End()).Line - fset.Position(d.Pos()).Line + 1
				if length > maxLines && !strings.Contains(d.Doc.Text(), "Long because ") {
					t.Errorf("%s: %s has %d lines, at most %d; split it, or begin a sentence of its comment with \"Long because\"", fset.Position(d.Pos()), d.Name.Name, length, maxLines)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if ts, ok := s.(*ast.TypeSpec); ok {
						if st, ok := ts.Type.(*ast.StructType); ok {
							if n := fields(st); n > maxFields {
								t.Errorf("%s: %s has %d fields, at most %d", fset.Position(ts.Pos()), ts.Name.Name, n, maxFields)
							}
						}
					}
				}
			}
		}
	})
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods, at most %d", name, n, maxMethods)
		}
	}
	for dir, n := range lines {
		if n*100 > maxShare*total {
			t.Errorf("%s/ has %d of %d lines of code, more than %d %%", dir, n, total, maxShare)
		}
	}
}

// eachSource calls f for every source file of the project that is not a test.
func eachSource(t *testing.T, f func(path string, fset *token.FileSet, file *ast.File)) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(file) {
			seen++
			f(path, fset, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Fatalf("the walk found only %d files", seen)
	}
}

// receiver returns the name of the type that d is a method of, or "".
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) != 1 {
		return ""
	}
	x := d.Recv.List[0].Type
	for {
		switch e := x.(type) {
		case *ast.StarExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.IndexListExpr:
			x = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// fields counts the fields of a struct that are not read from settings.
func fields(st *ast.StructType) int {
	n := 0
	for _, f := range st.Fields.List {
		if f.Tag == nil || !strings.Contains(f.Tag.Value, `yaml:"`) {
			n += max(1, len(f.Names))
		}
	}
	return n
}
