package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"shuultuur/admin/backup"
	"shuultuur/engine/configuration"
	"shuultuur/lib/atomicfile"
)

// CheckBackup finds out whether a gateway could start with a backup that is restored as file, before
// anything is written: its files are unpacked elsewhere and checked there. address, unless it is "",
// takes the place of the one that the settings listen on and this machine does not have. remarks are for
// people.
func CheckBackup(ctx context.Context, b *backup.Backup, file, address string) (remarks []string, err error) {
	text, err := configuration.Readdress(b.Text(), address)
	if err != nil {
		return nil, err
	}
	b.SetText(text)
	dir, err := os.MkdirTemp("", "shuultuur-restore-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s, err := configuration.Unpacked(b, file, dir)
	if err != nil {
		return nil, fmt.Errorf("the settings in the backup: %w", err)
	}
	_, done, err := Try(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("a gateway could not start with this backup, so that nothing is restored: %w", err)
	}
	done()
	elsewhere, err := configuration.Elsewhere(text)
	for _, a := range elsewhere {
		remarks = append(remarks, fmt.Sprintf("the settings listen on %v, which this machine does not have", a))
	}
	return remarks, err
}

// Restore restores a backup beside and around the settings in file, once it has been checked. The
// gateway that runs with these settings, if there is one, does that itself, and starts again. lines say
// what was done.
func Restore(ctx context.Context, r io.Reader, file, address string) (lines []string, err error) {
	b, err := backup.Read(r)
	if err != nil {
		return nil, err
	}
	if h, err := configuration.HolderOf(file); err == nil && h.Serving {
		c, err := configuration.Client(file)
		if err != nil {
			return nil, err
		}
		var packed bytes.Buffer
		if err := b.Pack(&packed); err != nil {
			return nil, err
		}
		return c.Restore(ctx, packed.Bytes(), address)
	}
	remarks, err := CheckBackup(ctx, b, file, address)
	if err != nil {
		return nil, err
	}
	names, err := configuration.PutBack(b, file)
	return append(names, remarks...), err
}

// RestoreFiles are where a gateway that runs keeps a backup until it starts again, and what that
// replaces.
const (
	RestoreFile  = "restore.pending"
	ReplacedFile = "restore.before"
)

// RestorePending restores the backup that waits in the data folder of the settings in file, if there is
// one. undo puts back what was replaced.
func RestorePending(file string) (undo func() error, err error) {
	s, err := configuration.Read(file)
	if err != nil {
		return nil, nil //nolint:nilerr // the start names the mistakes
	}
	pending, before := filepath.Join(string(s.Data), RestoreFile), filepath.Join(string(s.Data), ReplacedFile)
	b, err := waiting(pending)
	if b == nil || err != nil {
		return nil, err
	}
	err = atomicfile.Write(before, 0o600, func(w *os.File) error {
		_, err := configuration.Backup(w, file)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keeping what the restored backup replaces: %w", err), atomicfile.SetAside(pending))
	}
	undo = func() error {
		b, err := waiting(before)
		if err != nil || b == nil {
			return err
		}
		_, err = configuration.PutBack(b, file)
		return err
	}
	if _, err := configuration.PutBack(b, file); err != nil {
		return nil, errors.Join(fmt.Errorf("restoring a backup: %w", err), undo(), atomicfile.SetAside(pending))
	}
	return undo, os.Remove(pending)
}

// waiting reads a backup that may be there. One that cannot be read is set aside.
func waiting(file string) (*backup.Backup, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("restoring a backup: %w", err)
	}
	b, err := backup.Read(f)
	f.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("restoring %s: %w", file, err), atomicfile.SetAside(file))
	}
	return b, nil
}
