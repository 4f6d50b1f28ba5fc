package platform

import (
	"fmt"
	"os"
)

// LockPath waits for the exclusive lock of the file at path, which it makes if there is none, with mode perm.
// unlock, or the end of the process, releases it.
func LockPath(path string, perm os.FileMode) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, perm)
	if err != nil {
		return nil, err
	}
	if err := Lock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
