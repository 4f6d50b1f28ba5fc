// Package atomicfile writes files atomically: after a crash of the program or the machine, a
// file is either complete or as before. It writes a new file beside the old one, syncs it,
// renames it, and syncs the folder, without which a power failure can undo the rename.
//
// A program that is killed meanwhile leaves the new file, which has the name of the old one
// followed by a number and ".tmp".
package atomicfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Write calls fill to write a new file that replaces file, with exactly the permissions of
// mode. After an error file is unchanged, with one exception: if the folder cannot be synced,
// the new file is in place but may not survive a power failure. Files that root writes belong
// to the owner of the previous file, or else of the folder.
func Write(file string, mode fs.FileMode, fill func(*os.File) error) error {
	return write(file, mode, fill, os.Rename)
}

// WriteBytes is Write for data.
func WriteBytes(file string, mode fs.FileMode, data []byte) error {
	return Write(file, mode, writeAll(data))
}

// Create is Write for a file that does not exist; otherwise it returns an error that is
// fs.ErrExist.
func Create(file string, mode fs.FileMode, fill func(*os.File) error) error {
	return write(file, mode, fill, linkNew)
}

// CreateBytes is Create for data.
func CreateBytes(file string, mode fs.FileMode, data []byte) error {
	return Create(file, mode, writeAll(data))
}

// Rename moves old, a file or link, to file in the same folder, durably. Old must have been
// synced.
func Rename(old, file string) error {
	if err := os.Rename(old, file); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(file))
}

func writeAll(data []byte) func(*os.File) error {
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
	defer os.Remove(f.Name()) // if all went well, it was renamed already
	err = fill(f)
	if err == nil {
		err = errors.Join(give(f, file), setMode(f, mode), Sync(f))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := place(f.Name(), file); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(file))
}

// A modeFile is a new file. File systems whose files have no permissions are rare where tests run.
type modeFile interface {
	Name() string
	Chmod(fs.FileMode) error
	Stat() (fs.FileInfo, error)
}

// setMode sets the permissions of a new file. File systems such as FAT give all files the
// permissions of the mount, and refuse others or take no notice. That is enough where nobody else
// gets more than mode gives, or into the folder.
func setMode(f modeFile, mode fs.FileMode) error {
	failed := f.Chmod(mode)
	if failed != nil && !errors.Is(failed, syscall.EPERM) && !errors.Is(failed, syscall.ENOTSUP) {
		return failed
	}
	const forOthers = 0o066 // reading and writing; FAT says that all files can be run
	info, err := f.Stat()
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&^mode&forOthers == 0 {
		return err
	}
	if dir, err := os.Stat(filepath.Dir(f.Name())); err == nil && dir.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return fmt.Errorf("the file system gives %s the mode %04o instead of %04o: mount it with umask=077 and the user of this program (uid=), or use another one: %w",
		f.Name(), info.Mode().Perm(), mode.Perm(), cmp.Or(failed, error(syscall.EPERM)))
}

// linkNew moves a file to a name that does not exist. Unlike a rename, a link fails if the name
// exists; where there are no links, an empty file takes the name first.
func linkNew(from, to string) error {
	err := os.Link(from, to)
	if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	return os.Rename(from, to)
}

// SyncFolder makes durable which files a folder has. On Windows that is up to the system.
func SyncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing a folder: %w", err)
	}
	defer d.Close()
	// Some network file systems do not support it, and return one of these errors.
	if err := Sync(d); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}
