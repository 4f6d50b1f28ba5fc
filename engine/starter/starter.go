// Package starter has the settings that a new user begins with: a small filter that works as it
// is. [Write] puts them with their lists into a folder. The pages for the first steps ask about
// [Topics], and [Compose] makes of the settings what the answers say.
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

// Welcome is a format that says how to try the starter settings: with the addresses of the proxy and the
// admin address, the file, and the name server in the syntax of dig(1).
const Welcome = `
Shuultuur is running on the starter settings, %[3]s.

Point a browser's HTTP proxy at %[1]s, or try:

  curl -x http://%[1]s http://example.com/
  curl -x http://%[1]s http://ads.doubleclick.net/         blocked, by list
  dig @%[4]s ads.doubleclick.net                  the same by name
  shuultuur why http://www.bet365.com/                      what would happen, and why
  shuultuur events -config %[3]s      what happened
  curl http://%[2]s/metrics

"shuultuur demo" needs no internet. "shuultuur init DIR" writes these settings
where you want to change them. Ctrl-C ends.

`

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
