//go:build !amd64 && !arm64

package net

func native() []*kernel { return nil }
