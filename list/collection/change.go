package collection

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"

	"shuultuur/atomicfile"
	"shuultuur/list"
)

// A Hit is what a list has about a name.
type Hit struct {
	List  string
	Found list.Found
}

// Search returns what the lists have about a host, URL or address.
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

// ErrNoList says that there is no list of that name.
var ErrNoList = errors.New("there is no list of that name")

// A BadChange is a change that cannot be made to a list.
type BadChange struct{ Err error }

func (e *BadChange) Error() string { return e.Err.Error() }
func (e *BadChange) Unwrap() error { return e.Err }

// Change makes changes to lists, by their names, and has use take them into
// use. When one of them cannot be made or used, all are undone. The error is
// [ErrNoList], a [*BadChange], that of the file system or that of use; undo
// that failed is joined to it. Callers take turns.
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

// asItIs returns what makes a file again what it is, or removes it when it is
// not there.
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
