package main

import (
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

// writeStarter writes the starter settings with their lists into dir. Files
// that are there already stay as they are.
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

// usualFile is the settings file to ask when file is "": that in this folder, or
// the starter's, which may have been changed; "" when there is neither.
func usualFile(file string) string {
	for _, f := range []string{file, "shuultuur.yaml", filepath.Join("data", "starter", "shuultuur.yaml")} {
		if _, err := os.Stat(f); f != "" && (f == file || err == nil) {
			return f
		}
	}
	return ""
}

// explain is engine.Explain, of the usual settings when file is "".
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
