// Package realdata finds the real lists, pages and zones that some tests and benchmarks read.
// They are no part of the project: they are in the folder that SHUULTUUR_DATA names, or in
// shared/data beside the checkout.
package data

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Path returns the path of a file or folder of the data, named by its parts. It skips the test
// if the file does not exist.
func Path(t testing.TB, parts ...string) string {
	t.Helper()
	dir := os.Getenv("SHUULTUUR_DATA")
	if dir == "" {
		_, file, _, _ := runtime.Caller(0) // with -trimpath, the name has no folder
		dir = filepath.Join(filepath.Dir(file), "..", "..", "shared", "data")
	}
	name := filepath.Join(parts...)
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no real data: set SHUULTUUR_DATA to the folder that has %s (%v)", name, err)
	}
	return path
}
