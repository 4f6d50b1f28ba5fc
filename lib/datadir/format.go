package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/release"
)

// FormatFile is the name of the file with the format of the folder.
const FormatFile = "format.json"

// maxFormatFile is how many bytes of the file are read.
const maxFormatFile = 4096

// A Format is the format of all files in a data folder or a backup. Older programs cannot read
// a higher number, or would damage it.
type Format struct {
	Number  int    `json:"format"`
	Program string `json:"program,omitempty"` // version of the program that wrote it last
}

// A step migrates a folder to the next format. It may have run before, completely or partly,
// and any file may be missing: an interrupted step is run again, and a backup may restore
// older files among newer ones.
type step func(dir string) error

// steps migrate format 1 to 2, format 2 to 3, and so on. So far there is one format.
var steps []step

// Current returns the format that this program writes.
func Current() Format { return Format{Number: 1 + len(steps), Program: release.Version()} }

// FormatOf returns the format of the folder dir: 1 if there is no format file, or no folder.
func FormatOf(dir string) (Format, error) {
	path := filepath.Join(dir, FormatFile)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Format{Number: 1}, nil
	}
	if err != nil {
		return Format{}, fmt.Errorf("reading the format of the data folder: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFormatFile))
	if err != nil {
		return Format{}, fmt.Errorf("reading the format of the data folder: %w", err)
	}
	f, err := ParseFormat(text)
	if err != nil {
		return f, fmt.Errorf("%s: %w; restore a backup, or delete this file if no newer program has used the folder", path, err)
	}
	return f, nil
}

// ParseFormat parses a format file.
func ParseFormat(text []byte) (f Format, err error) {
	if err := json.Unmarshal(text, &f); err != nil {
		return Format{}, fmt.Errorf("it does not say which format it is about: %w", err)
	}
	if f.Number < 1 {
		return Format{}, fmt.Errorf("there is no format %d", f.Number)
	}
	return f, nil
}

// Known returns an error if this program does not know the format. what names the folder or
// backup in the error.
func (f Format) Known(what string) error {
	own := Current()
	if f.Number <= own.Number {
		return nil
	}
	by := "a newer program"
	if f.Program != "" {
		by = "shuultuur " + f.Program
	}
	return fmt.Errorf("%s is in data format %d, written by %s; this is shuultuur %s, which knows formats up to %d: install %s again, or restore a backup of an older format into an empty data folder",
		what, f.Number, by, own.Program, own.Number, by)
}

// Check returns an error if this program does not know the format of the folder dir. It writes
// nothing.
func Check(dir string) error {
	f, err := FormatOf(dir)
	if err != nil {
		return err
	}
	return f.Known(dir)
}

// Migrate migrates the folder to the current format, step by step, and records each step. The
// folder must be taken.
func (f *Folder) Migrate() error {
	is, err := FormatOf(f.Dir)
	if err != nil {
		return err
	}
	if err := is.Known(f.Dir); err != nil {
		return err
	}
	for own := Current(); is.Number < own.Number; {
		if err := steps[is.Number-1](f.Dir); err != nil {
			return fmt.Errorf("%s: making data format %d of format %d: %w; repair this and start again, or go back to shuultuur %s", f.Dir, is.Number+1, is.Number, err, is.Program)
		}
		is.Number++
		if err := f.Note(is); err != nil {
			return err
		}
	}
	return f.Note(Current())
}

// Note records the format of the folder, which must be taken.
func (f *Folder) Note(now Format) error {
	if is, err := FormatOf(f.Dir); err == nil && is == now {
		return nil
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(filepath.Join(f.Dir, FormatFile), 0o644, append(text, '\n')); err != nil {
		return fmt.Errorf("noting the format of the data folder: %w", err)
	}
	return nil
}
