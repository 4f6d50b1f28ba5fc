//go:build !linux

package atomicfile

import "os"

func datasync(f *os.File) error { return f.Sync() }
