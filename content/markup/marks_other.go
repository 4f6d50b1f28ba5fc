//go:build !amd64

package markup

func markBits(found *[markWords]uint64, p []byte, n int) { markBitsSlowly(found, p, n) }
