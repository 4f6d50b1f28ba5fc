// Package atomicfile writes files that are there whole or as they were before,
// whatever stops the program or the machine: beside the old file, synced,
// renamed over it, and the folder synced, without which a power cut can undo
// the rename.
//
// A program that is killed meanwhile leaves the file it was writing, which is
// called as the file it was to become, with a number and ".tmp" behind.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Write has fill write a new file and puts it in the place of file, with
// exactly the permissions of mode. An error leaves file as it was, with one
// exception: when the folder cannot be synced, the new file is there but may
// not outlast a power cut.
func Write(file string, mode fs.FileMode, fill func(*os.File) error) error {
	return write(file, mode, fill, os.Rename)
}

// WriteBytes does what Write does, with data.
func WriteBytes(file string, mode fs.FileMode, data []byte) error {
	return Write(file, mode, filled(data))
}

// Create does what Write does where there is no file of that name; else it
// returns an error that is fs.ErrExist.
func Create(file string, mode fs.FileMode, fill func(*os.File) error) error {
	// Unlike a rename, a link fails where there is a file.
	return write(file, mode, fill, os.Link)
}

// CreateBytes does what Create does, with data.
func CreateBytes(file string, mode fs.FileMode, data []byte) error {
	return Create(file, mode, filled(data))
}

// Rename puts what is called old, file or link, in the place of file in the
// same folder, and makes that last. Old must have been synced.
func Rename(old, file string) error {
	if err := os.Rename(old, file); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(file))
}

func filled(data []byte) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.Write(data)
		return err
	}
}

func write(file string, mode fs.FileMode, fill func(*os.File) error, place func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already after a rename
	err = fill(f)
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := place(f.Name(), file); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(file))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing a folder: %w", err)
	}
	defer d.Close()
	// Some file systems of the network cannot, and say so in these two ways.
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}
