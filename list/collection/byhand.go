package collection

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"shuultuur/lib/atomicfile"
	"shuultuur/list"
)

// What people have changed by hand is nowhere else than in the files beside the compiled lists. A copy
// of each is kept, for when one is damaged.

func (c *Collection) changes() atomicfile.Copies {
	return atomicfile.Copies{Dir: filepath.Join(c.data, "last-good", "lists")}
}

// keepChanges copies the changes by hand of all lists.
func (c *Collection) keepChanges(log *slog.Logger) {
	var all []string
	for name := range c.cfg {
		for _, suffix := range byHand {
			all = append(all, c.file(name)+suffix)
		}
	}
	if err := c.changes().Keep(all); err != nil {
		log.Error("changes of lists by hand are in use, and not copied", "error", err)
	}
}

// mendChanges sets damaged changes by hand aside, and puts their last copies in their place.
func (c *Collection) mendChanges(name string, log *slog.Logger) error {
	for _, suffix := range byHand {
		file := c.file(name) + suffix
		if !isDamaged(file) {
			continue
		}
		if err := atomicfile.SetAside(file); err != nil {
			return err
		}
		last := c.changes().Path(file)
		if last == file || isDamaged(last) {
			log.Error("what was changed in a list by hand is damaged, set aside and not in use; there is no copy", "file", file)
			continue
		}
		data, err := os.ReadFile(last)
		if err == nil {
			err = atomicfile.WriteBytes(file, 0o644, data)
		}
		if err != nil {
			return fmt.Errorf("putting a copy in the place of damaged changes of list %q: %w", name, err)
		}
		log.Error("what was changed in a list by hand is damaged and set aside; the last copy is in use", "file", file)
	}
	return nil
}

// isDamaged reports whether there is a file of changes by hand that cannot be read.
func isDamaged(file string) bool {
	f, err := list.Open(file)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
	}
	defer f.Close()
	return f.Verify() != nil
}
