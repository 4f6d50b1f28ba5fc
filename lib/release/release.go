// Package release has the version of this program.
package release

import (
	"cmp"
	"runtime/debug"
)

// Linked is the version set by the linker; it is empty unless the program was
// built from a tag. The main package sets it before anything runs.
var Linked string

// Version returns the version of this program: the released one, or the one
// that the go command recorded for the module, or "devel".
func Version() string {
	var known string
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		known = info.Main.Version
	}
	return cmp.Or(Linked, known, "devel")
}
