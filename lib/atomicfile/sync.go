package atomicfile

import (
	"os"
	"sync/atomic"
)

// Sync makes a file, or the names in a folder, durable. Whatever is acknowledged goes through it or
// through [Datasync], so that a test sees what would be left after a power failure.
func Sync(f *os.File) error { return watched(f, f.Sync) }

// Datasync is Sync for the data of a file and what is needed to read them.
func Datasync(f *os.File) error {
	return watched(f, func() error { return datasync(f) })
}

type watcher func(f *os.File, sync func() error) error

var watching atomic.Pointer[watcher]

// Watch makes all syncs of this process go through watch, or through none if it is nil. Package powercut
// does it.
func Watch(watch func(f *os.File, sync func() error) error) {
	if watch == nil {
		watching.Store(nil)
		return
	}
	watching.Store((*watcher)(&watch))
}

func watched(f *os.File, sync func() error) error {
	if w := watching.Load(); w != nil {
		return (*w)(f, sync)
	}
	return sync()
}
