//go:build !amd64

package multimatch

// vectors reports whether there are vector instructions.
const vectors = false

func siftAVX2(*marks, *byte, int, *filters) {}
