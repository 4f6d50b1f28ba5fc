package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"shuultuur/atomicfile"
	"shuultuur/engine"
)

// The starter settings: a small filter that works as it is.
//
//go:embed starter
var starterFiles embed.FS

// writeStarter writes the starter settings with their lists into dir. Existing
// files stay unchanged.
func writeStarter(dir string) error {
	return fs.WalkDir(starterFiles, "starter", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel("starter", path)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, rel)
		if _, err := os.Stat(file); err == nil {
			return nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		data, err := starterFiles.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return atomicfile.WriteBytes(file, 0o644, data)
	})
}

// installed are the settings files of packages.
var installed = []string{"/etc/shuultuur/shuultuur.yaml", "/usr/local/etc/shuultuur/shuultuur.yaml"}

// usualFile returns the settings file to use for "": the one in this folder, the starter
// settings, which may have been changed, or that of the service; "" if there is none. It
// returns a file even if this user may not read it, so that no command uses another one
// instead.
func usualFile(file string) string {
	if file != "" {
		return file
	}
	for _, f := range append([]string{"shuultuur.yaml", filepath.Join("data", "starter", "shuultuur.yaml")}, installed...) {
		if _, err := os.Stat(f); err == nil || errors.Is(err, fs.ErrPermission) {
			return f
		}
	}
	return ""
}

// askedFile is usualFile for commands that require settings.
func askedFile(file string) string { return cmp.Or(usualFile(file), "shuultuur.yaml") }

// explain is engine.Explain, with the usual settings if file is "".
func explain(ctx context.Context, file string) (*engine.Engine, func(), error) {
	if file = usualFile(file); file != "" {
		return engine.Explain(ctx, file)
	}
	dir, err := os.MkdirTemp("", "shuultuur-")
	if err != nil {
		return nil, nil, err
	}
	clean := func() { os.RemoveAll(dir) }
	if err := writeStarter(dir); err != nil {
		clean()
		return nil, nil, err
	}
	e, done, err := engine.Explain(ctx, filepath.Join(dir, "shuultuur.yaml"))
	if err != nil {
		clean()
		return nil, nil, err
	}
	return e, func() { done(); clean() }, nil
}
