// Package release says which version this program has.
package release

import (
	"cmp"
	"runtime/debug"
)

// Linked is the version that the linker was given, empty in a program that was
// not built from a tag. The main package sets it before anything runs.
var Linked string

// Version returns the version of this program: the one it was released as, or
// what the go command knows of the module, or "devel".
func Version() string {
	var known string
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		known = info.Main.Version
	}
	return cmp.Or(Linked, known, "devel")
}
