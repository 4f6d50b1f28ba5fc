//go:build !amd64 && !arm64

package neural

func native() []*kernel { return nil }
