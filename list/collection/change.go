package collection

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"

	"shuultuur/lib/atomicfile"
	"shuultuur/list"
)

// A Hit is a list's entry on a name.
type Hit struct {
	List  string
	Found list.FoundEntry
}

// Search returns the entries of the lists on a host, URL or address.
func (c *Collection) Search(name string) (hits []Hit, err error) {
	for _, of := range slices.Sorted(maps.Keys(c.Lists)) {
		found, err := c.Lists[of].Ask(name)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			hits = append(hits, Hit{of, f})
		}
	}
	return hits, nil
}

// ErrNoList reports that there is no list of that name.
var ErrNoList = errors.New("there is no list with this name")

// A BadChange is a change that a list cannot accept.
type BadChange struct{ Err error }

func (e *BadChange) Error() string { return e.Err.Error() }
func (e *BadChange) Unwrap() error { return e.Err }

// Change changes lists, by name, and calls use to put them into use. If a change cannot be
// made or used, all are undone. The error is [ErrNoList], a [*BadChange], that of the file
// system or that of use; errors of undoing are joined to it. It is not for concurrent use: a node
// of a fleet makes one change after the other.
func (c *Collection) Change(ctx context.Context, changes map[string][]list.Change, use func() error) (err error) {
	for name := range changes {
		if c.Lists[name] == nil {
			return ErrNoList
		}
	}
	var undo []func() error
	defer func() {
		if err == nil {
			return
		}
		for _, back := range undo {
			err = errors.Join(err, back())
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		back, err := asItIs(c.file(name) + ".overlay")
		if err != nil {
			return err
		}
		undo = append(undo, back)
		if err := list.Amend(ctx, c.file(name), changes[name]...); err != nil {
			if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
				return err
			}
			return &BadChange{err}
		}
	}
	return use()
}

// asItIs returns a function that restores a file, or removes it if it does not exist now.
func asItIs(file string) (back func() error, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return func() error {
			if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}, nil
	}
	return func() error { return atomicfile.WriteBytes(file, 0o644, data) }, err
}
