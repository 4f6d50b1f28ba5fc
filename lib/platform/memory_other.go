//go:build !linux

package platform

// MemoryLimit returns 0: there are no control groups.
func MemoryLimit() int64 { return 0 }
