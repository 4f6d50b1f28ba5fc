package shuultuur

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"shuultuur/test/race"
)

// A commented package is what its comments may speak of: its files, for every system, and
// the names declared in them.
type commented struct {
	name  string // in its package clause, without _test
	files map[string]*ast.File
	names map[string]bool // Name and Type.Name, also of fields and methods of interfaces
	types map[string]bool // those that embed something, thus have more names than we see
	funcs map[string]bool // names of functions and methods
}

// commentedPackages returns the packages of the module by import path. Tests count to the
// package that they test.
func commentedPackages(t *testing.T) map[string]*commented {
	t.Helper()
	all := map[string]*commented{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(file) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(f) {
			return err
		}
		dir := path.Join("shuultuur", filepath.ToSlash(filepath.Dir(file)))
		if all[dir] == nil {
			all[dir] = &commented{files: map[string]*ast.File{}, names: map[string]bool{}, types: map[string]bool{}, funcs: map[string]bool{}}
		}
		p := all[dir]
		p.files[file] = f
		if name := f.Name.Name; p.name == "" || !strings.HasSuffix(file, "_test.go") {
			p.name = strings.TrimSuffix(name, "_test")
		}
		p.declare(f)
		return nil
	})
	if err != nil || len(all) < 50 {
		t.Fatalf("found only %d packages, %v", len(all), err)
	}
	return all
}

// declare adds the names that a file declares.
func (p *commented) declare(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			p.funcs[name] = true
			if d.Recv != nil {
				name = typeName(d.Recv.List[0].Type, "", nil) + "." + name
			}
			p.names[name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						p.names[n.Name] = true
					}
				case *ast.TypeSpec:
					p.names[s.Name.Name] = true
					p.members(s)
				}
			}
		}
	}
}

// members adds the fields of a struct and the methods of an interface.
func (p *commented) members(s *ast.TypeSpec) {
	var fields *ast.FieldList
	switch x := s.Type.(type) {
	case *ast.StructType:
		fields = x.Fields
	case *ast.InterfaceType:
		fields = x.Methods
	default:
		p.types[s.Name.Name] = s.Assign != 0
		return
	}
	for _, f := range fields.List {
		if len(f.Names) == 0 {
			p.types[s.Name.Name] = true
		}
		for _, n := range f.Names {
			p.names[s.Name.Name+"."+n.Name] = true
		}
	}
}

// has reports whether the package declares Name or Type.Name.
func (p *commented) has(name string) bool {
	of, _, _ := strings.Cut(name, ".")
	return p.names[name] || p.types[of] && p.names[of]
}

var (
	linkPattern  = regexp.MustCompile(`\[\*?([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*){0,2})\]`)
	beginPattern = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{2,})(?:[,:.]|\s(\w*)|$)`)
)

// TestCommentsNameWhatTheyDescribe: a doc comment does not begin with the name that its
// function, type or value had before, and a link leads to something that exists.
func TestCommentsNameWhatTheyDescribe(t *testing.T) {
	race.Without(t)
	all := commentedPackages(t)
	for _, p := range all {
		for file, f := range p.files {
			for _, m := range misnamed(p, f) {
				t.Errorf("%s: %s", file, m)
			}
			for _, m := range brokenLinks(all, p, f) {
				t.Errorf("%s: %s", file, m)
			}
		}
	}
}

// misnamed returns the doc comments that begin with another name than that of what they
// describe. A word is taken for a name if it has a capital inside, or is a function's and a
// verb follows.
func misnamed(p *commented, f *ast.File) (all []string) {
	check := func(doc *ast.CommentGroup, name string) {
		if doc == nil {
			return
		}
		m := beginPattern.FindStringSubmatch(strings.TrimSpace(doc.Text()))
		if m == nil || m[1] == name {
			return
		}
		word := m[1]
		inner := strings.IndexFunc(word[1:], unicode.IsUpper) >= 0 && word != strings.ToUpper(word)
		if inner || strings.EqualFold(word, name) || p.funcs[word] && strings.HasSuffix(m[2], "s") {
			all = append(all, fmt.Sprintf("the comment of %s begins with %s", name, word))
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			check(d.Doc, d.Name.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				var name, doc = "", (*ast.CommentGroup)(nil)
				switch s := s.(type) {
				case *ast.TypeSpec:
					name, doc = s.Name.Name, s.Doc
				case *ast.ValueSpec:
					if len(s.Names) > 1 {
						continue
					}
					name, doc = s.Names[0].Name, s.Doc
				default:
					continue
				}
				if d.Lparen == token.NoPos {
					doc = d.Doc
				}
				check(doc, name)
			}
		}
	}
	return all
}

// brokenLinks returns the links in doc comments, to a name here or in an imported package, that lead to
// nothing in the module.
func brokenLinks(all map[string]*commented, p *commented, f *ast.File) (broken []string) {
	imported := map[string]*commented{p.name: p}
	others := map[string]bool{} // imports from elsewhere
	for _, s := range f.Imports {
		at, _ := strconv.Unquote(s.Path.Value)
		name := path.Base(at)
		if to := all[at]; to != nil {
			name = to.name
		}
		if s.Name != nil {
			name = s.Name.Name
		}
		imported[name], others[name] = all[at], all[at] == nil
	}
	byName := map[string]bool{}
	for _, to := range all {
		byName[to.name] = true
	}
	for _, g := range f.Comments {
		for line := range strings.Lines(g.Text()) {
			if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, " ") {
				continue // an example
			}
			for _, m := range linkPattern.FindAllStringSubmatch(line, -1) {
				link := m[1]
				head, tail, dotted := strings.Cut(link, ".")
				switch to := imported[head]; {
				case unicode.IsUpper(rune(head[0])):
					if !p.has(link) && (dotted || strings.ToUpper(link) != link) {
						broken = append(broken, "["+link+"] names nothing in its package")
					}
				case !dotted || !unicode.IsUpper(rune(tail[0])):
				case to != nil:
					if !to.has(tail) {
						broken = append(broken, "["+link+"] names nothing in "+to.name)
					}
				case !others[head] && byName[head]:
					broken = append(broken, "["+link+"]: the file does not import "+head)
				}
			}
		}
	}
	return broken
}

func TestMisnamedCommentsAndBrokenLinksAreFound(t *testing.T) {
	const text = `package p

import "shuultuur/q"

// OldName does something. See [Thing], [Gone], [q.There], [q.Gone] and [Thing.Len].
func newName() { q.There() }

// A Thing is fine, [RFC 1] and [UTF] too.
type Thing struct{ Len int }

// newName returns nothing.
func other() {}

const (
	// mostThings there are.
	manyThings = 1
)
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	p := &commented{name: "p", names: map[string]bool{}, types: map[string]bool{}, funcs: map[string]bool{}}
	p.declare(f)
	q := &commented{name: "q", names: map[string]bool{"There": true}}
	found := append(misnamed(p, f), brokenLinks(map[string]*commented{"shuultuur/p": p, "shuultuur/q": q}, p, f)...)
	want := map[string]bool{
		"the comment of newName begins with OldName":       true,
		"the comment of other begins with newName":         true,
		"the comment of manyThings begins with mostThings": true,
		"[Gone] names nothing in its package":              true,
		"[q.Gone] names nothing in q":                      true,
	}
	got := map[string]bool{}
	for _, m := range found {
		got[m] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("found %q", found)
	}
}
