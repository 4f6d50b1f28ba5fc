package collection

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"shuultuur/lib/setting"
	"shuultuur/list"
)

// Trials find mistakes in lists, and show the effect of changed ones. What they compile is in a
// temporary folder until it is mapped: the data folder belongs to the process that runs.

// Try is [Open] for a collection that only answers questions. It uses the compiled lists in the
// folder data that are up to date, and writes nothing there. alter may change lists; nil for none.
func Try(ctx context.Context, cfg Config, data string, alter func(*Collection), log *slog.Logger) (*Collection, error) {
	c := newCollection(cfg, data)
	var err error
	if c.aside, err = os.MkdirTemp("", "shuultuur-trial-"); err != nil {
		return nil, fmt.Errorf("making a folder for the lists of a trial: %w", err)
	}
	defer os.RemoveAll(c.aside) // the lists stay mapped
	if err := c.openAll(ctx, nil, log); err != nil {
		return nil, err
	}
	if alter != nil {
		alter(c)
	}
	return c, nil
}

// besides returns the file to compile a list to on trial, which has the changes by hand beside it.
func (c *Collection) besides(name string) (string, error) {
	to := filepath.Join(c.aside, name+".list")
	return to, c.copyChanges(name, to)
}

// copyChanges copies the changes by hand of a compiled list, or their last copies.
func (c *Collection) copyChanges(name, to string) error {
	for _, suffix := range byHand {
		from := c.file(name) + suffix
		if isDamaged(from) {
			if from = c.changes().Path(from); isDamaged(from) {
				continue
			}
		}
		if err := copied(from, to+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// byHand are the files beside a compiled list that hold changes by hand.
var byHand = []string{".overlay", ".edits"}

// TryChanges has c use copies of lists with changes, which [Collection.Change] would make. The
// error is [ErrNoList], a [*BadChange] or that of the file system.
func (c *Collection) TryChanges(ctx context.Context, changes map[string][]list.Change) error {
	for name, all := range changes {
		err := c.try(name, func(to string) error {
			from, err := filepath.Abs(c.opened[name])
			if err == nil {
				err = os.Symlink(from, to)
			}
			if err != nil {
				if err := copied(c.opened[name], to); err != nil {
					return err
				}
			}
			err = list.Amend(ctx, to, all...)
			if pe := (*fs.PathError)(nil); err == nil || errors.As(err, &pe) {
				return err
			}
			return &BadChange{err}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// TryVersion has c use a list as it would be read from another file.
func (c *Collection) TryVersion(ctx context.Context, name, file string) error {
	return c.try(name, func(to string) error {
		_, cfg, _, err := c.resolve(name)
		if err != nil {
			return err
		}
		cfg.Path = setting.Source(file)
		_, err = list.Compile(ctx, name, cfg, to)
		return err
	})
}

// try has c use the list that alter makes of the files beside the compiled one.
func (c *Collection) try(name string, alter func(to string) error) error {
	if c.Lists[name] == nil {
		return ErrNoList
	}
	dir, err := os.MkdirTemp(c.aside, "changed-*")
	if err != nil {
		return err
	}
	to := filepath.Join(dir, name+".list")
	if err := c.copyChanges(name, to); err != nil {
		return err
	}
	if err := alter(to); err != nil {
		return err
	}
	f, err := list.Open(to)
	if err == nil {
		c.Lists[name] = f
	}
	return err
}

func copied(from, to string) error {
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	return err
}

// Newer fetches a newer version of a list, hands its file to look, and removes it. It reports
// whether there is one; nothing else changes.
func (c *Collection) Newer(ctx context.Context, client *http.Client, name string, look func(file string) error) (bool, error) {
	it, ok := c.fetched[name]
	switch {
	case c.Lists[name] == nil:
		return false, ErrNoList
	case !ok:
		return false, &BadChange{errNotFetched}
	}
	var failed error
	found, err := c.store(client).Newer(ctx, name, it, func(file string) error {
		failed = look(file)
		return nil
	})
	if err != nil {
		return false, &BadChange{err}
	}
	return found, failed
}

// OlderVersion returns the file of the version before the one in use of a fetched list, to which
// [Collection.Rollback] would return.
func (c *Collection) OlderVersion(name string) (string, error) {
	_, ok := c.fetched[name]
	switch {
	case c.Lists[name] == nil:
		return "", ErrNoList
	case !ok:
		return "", &BadChange{errNotFetched}
	}
	file, err := c.store(nil).OlderVersion(name)
	if err != nil {
		err = &BadChange{err}
	}
	return file, err
}
