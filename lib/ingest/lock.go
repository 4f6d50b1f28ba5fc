package ingest

import (
	"fmt"
	"os"
	"path/filepath"

	"shuultuur/lib/platform"
)

// lockFolder prevents another process from writing to the same log.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, err
	}
	if err := platform.TryLock(f, false); err != nil {
		f.Close()
		return nil, fmt.Errorf("the log in %s is in use by another process: %w", dir, err)
	}
	return f, nil
}
