package gateway

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"shuultuur/atomicfile"
	"shuultuur/filter"
)

// The starter settings: a small filter that works as it is.
//
//go:embed starter
var starter embed.FS

// WriteStarter writes the starter settings with their lists into dir. Files
// that are there already stay as they are.
func WriteStarter(dir string) error {
	return fs.WalkDir(starter, "starter", func(path string, d fs.DirEntry, err error) error {
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
		data, err := starter.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return atomicfile.WriteBytes(file, 0o644, data)
	})
}

// Explain builds the engine of the settings in file ("" for the starter
// settings) for a look at what it would decide. Nothing listens and nothing
// is recorded; a pause counts that was kept in the data folder. The returned function lets go of it.
func Explain(ctx context.Context, file string) (*Engine, func(), error) {
	clean := func() {}
	if file == "" {
		dir, err := os.MkdirTemp("", "shuultuur-")
		if err != nil {
			return nil, nil, err
		}
		clean = func() { os.RemoveAll(dir) }
		if err := WriteStarter(dir); err != nil {
			clean()
			return nil, nil, err
		}
		file = filepath.Join(dir, "shuultuur.yaml")
	}
	s, err := Read(file)
	if err != nil {
		clean()
		return nil, nil, err
	}
	s.Checks.Full()
	var rest pauses
	if err := rest.load(s.pausesFile()); err != nil {
		clean()
		return nil, nil, s.mistake(filter.Setting("data", err))
	}
	e, err := build(ctx, s, nil, nil, &rest.Pauses, slog.New(slog.DiscardHandler))
	if err != nil {
		clean()
		return nil, nil, err
	}
	if err := s.tryZones(); err != nil {
		e.close()
		clean()
		return nil, nil, s.mistake(err)
	}
	return e, func() { e.close(); clean() }, nil
}
