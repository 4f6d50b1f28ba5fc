//go:build !linux

package ingest

import "os"

func datasync(f *os.File) error { return f.Sync() }
