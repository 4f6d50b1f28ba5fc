package shuultuur

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	slashpath "path"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/test/race"
)

// These limits bound the number of things that a reader has to keep in mind. A limit that stands
// in the way of a good structure says that a subject is two subjects.
const (
	maxMethods = 60   // of a type, as [typeSize] counts
	maxPackage = 6000 // lines of a package, without tests
	maxShare   = 18   // per cent of the code in one top-level folder
)

// A typeSize is what a reader of a type has to know: its methods, the functions of its package
// whose first parameter (after a context) points to it, which are methods in another form, and
// what it promotes from the types of the project that it embeds.
type typeSize struct {
	methods, functions int
	embeds             []string // folder.Type
}

// promoted returns the number of methods that a type has by what it embeds.
func (s *typeSize) promoted(all map[string]*typeSize, seen map[string]bool) (n int) {
	for _, name := range s.embeds {
		if e := all[name]; e != nil && !seen[name] {
			seen[name] = true
			n += e.methods + e.promoted(all, seen)
		}
	}
	return n
}

func TestNothingIsLargerThanAReaderCanHold(t *testing.T) {
	race.Without(t)
	types := map[string]*typeSize{}
	of := func(name string) *typeSize {
		if types[name] == nil {
			types[name] = &typeSize{}
		}
		return types[name]
	}
	tops, packages, total := map[string]int{}, map[string]int{}, 0
	eachSource(t, func(path string, fset *token.FileSet, f *ast.File) {
		dir := filepath.ToSlash(filepath.Dir(path))
		top, _, _ := strings.Cut(dir, "/")
		n := fset.Position(f.End()).Line
		tops[top] += n
		packages[dir] += n
		total += n
		imports := map[string]string{} // folders of the project, by the name of the import
		for _, i := range f.Imports {
			if folder, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ok {
				name := slashpath.Base(folder)
				if i.Name != nil {
					name = i.Name.Name
				}
				imports[name] = folder
			}
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					of(dir+"."+typeName(d.Recv.List[0].Type, dir, nil)).methods++
				} else if name := firstType(d.Type); name != "" && !strings.HasPrefix(strings.ToLower(d.Name.Name), "new") {
					of(dir+"."+name).functions++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					ts, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					size := of(dir + "." + ts.Name.Name)
					switch x := ts.Type.(type) {
					case *ast.StructType:
						for _, field := range x.Fields.List {
							if len(field.Names) == 0 {
								size.embeds = append(size.embeds, typeName(field.Type, dir, imports))
							}
						}
					case *ast.InterfaceType:
						for _, m := range x.Methods.List {
							if len(m.Names) == 0 {
								size.embeds = append(size.embeds, typeName(m.Type, dir, imports))
							}
							size.methods += len(m.Names)
						}
					}
				}
			}
		}
	})
	for name, s := range types {
		p := s.promoted(types, map[string]bool{name: true})
		if s.methods == 0 {
			s.functions = 0 // functions on a record are the usual form
		}
		if n := s.methods + s.functions + p; n > maxMethods {
			t.Errorf("%s has %d methods (%d methods, %d functions on it, %d promoted), at most %d: find the second subject in it",
				name, n, s.methods, s.functions, p, maxMethods)
		}
	}
	for dir, n := range packages {
		if n > maxPackage && dir != "bench" { // nothing imports bench, a file for each of its tables
			t.Errorf("package %s has %d lines, at most %d", dir, n, maxPackage)
		}
	}
	for dir, n := range tops {
		if n*100 > maxShare*total {
			t.Errorf("%s/ has %d of %d lines of code, more than %d %%", dir, n, total, maxShare)
		}
	}
}

// firstType returns the name of the package's type to which the first parameter of a function,
// after a context, is a pointer, or "".
func firstType(f *ast.FuncType) string {
	for _, p := range f.Params.List {
		if s, ok := p.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Context" {
			continue
		}
		if s, ok := p.Type.(*ast.StarExpr); ok {
			return typeName(s, "", nil)
		}
		break
	}
	return ""
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

// typeName returns the name of a type, without pointers and type arguments. With imports, the
// name has the type's folder before it.
func typeName(x ast.Expr, dir string, imports map[string]string) string {
	for {
		switch e := x.(type) {
		case *ast.StarExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.IndexListExpr:
			x = e.X
		case *ast.Ident:
			if imports == nil {
				return e.Name
			}
			return dir + "." + e.Name
		case *ast.SelectorExpr:
			if id, ok := e.X.(*ast.Ident); ok {
				return imports[id.Name] + "." + e.Sel.Name
			}
			return ""
		default:
			return ""
		}
	}
}
