//go:build !amd64 && !arm64

package content

const vectors = false

func foldRun(dst, src []byte, t *byteTable, last byte) (used, made int) { return 0, 0 }
