// Package reading has what tests of package content and of the packages below it share: ways to read a
// body, and inputs.
package reading

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// limits returns the constants of content and of the packages below it that are limits, by name.
var limits = sync.OnceValue(func() map[string]int {
	all := map[string]int{}
	fset := token.NewFileSet()
	root := "." // tests run in the folder of content, or in one below it
	if wd, err := os.Getwd(); err == nil && filepath.Base(wd) != "content" {
		root = ".."
	}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return nil
		}
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.ValueSpec)
			if !ok || len(s.Names) != 1 || len(s.Values) != 1 {
				return true
			}
			if v, err := types.Eval(fset, nil, token.NoPos, types.ExprString(s.Values[0])); err == nil && v.Value != nil && v.Value.Kind() == constant.Int {
				n, _ := constant.Int64Val(v.Value)
				all[s.Names[0].Name] = int(n)
			}
			return true
		})
		return nil
	})
	return all
})

// Limit returns the value of a limit.
func Limit(name string) int {
	n, ok := limits()[name]
	if !ok {
		panic("no limit is called " + name)
	}
	return n
}
