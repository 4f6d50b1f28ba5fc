//go:build !amd64 && !arm64

package prose

const vectors = false

func foldRun(dst, src []byte, t *Table, last byte) (used, made int) { return 0, 0 }
