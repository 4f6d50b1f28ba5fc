package files

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// RemoveLeftovers removes temporary files of a killed Compile. A recent one may belong to a
// running process.
func RemoveLeftovers(dst string) {
	old, _ := filepath.Glob(globEscape(dst) + ".*.tmp")
	for _, f := range old {
		if info, err := os.Stat(f); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.Remove(f)
		}
	}
}

func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}
