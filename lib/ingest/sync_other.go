//go:build !linux

package ingest

import (
	"os"
	"time"
)

func datasync(f *os.File) error { return f.Sync() }

func pause(d time.Duration) { time.Sleep(d) }
