// Package starter has the settings that a new user begins with: a small filter that works as it
// is. [Write] puts them with their lists into a folder. The pages for the first steps ask about
// [Topics], [Compose] leaves out of the settings what the answers exclude, and [Steps] says how
// to try the result.
package starter

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	phrases "shuultuur/check/phrase/starter"
	"shuultuur/lib/atomicfile"
)

//go:embed files
var files embed.FS

// Settings returns the text of the starter settings.
func Settings() []byte {
	text, _ := files.ReadFile("files/shuultuur.yaml") // cannot fail: it is embedded
	return text
}

// Write writes the starter settings with their lists into dir. Existing files stay unchanged.
func Write(dir string) error {
	if err := write(files, "files", dir); err != nil {
		return err
	}
	return write(phrases.Files, ".", filepath.Join(dir, "phrases"))
}

// write writes what is below root into dir.
func write(files fs.FS, root, dir string) error {
	return fs.WalkDir(files, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, rel)
		if _, err := os.Stat(file); err == nil {
			return nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return atomicfile.WriteBytes(file, 0o644, data)
	})
}
