//go:build small

package release

// Small reports whether this is the build for small devices (-tags small), which
// lacks some parts. As a constant it keeps their code out of the program:
// nothing below "if Small { return ... }" is compiled.
const Small = true
