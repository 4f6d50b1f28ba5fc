package collection

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/setting"
	"shuultuur/list"
)

// A candidate is a fetched list that the settings do not name yet. It is fetched into the folder
// that it will have, so that what was looked at comes into use.

// A Candidate describes the content of a candidate.
type Candidate struct {
	File   string // what was fetched
	Bytes  int64
	Report list.Report
}

// LookAt fetches a list that the settings do not name, unless that was done a moment ago, and reads
// it as it would be read in use.
func (c *Collection) LookAt(ctx context.Context, client *http.Client, name string, l List, progress func(done, total int64)) (*Candidate, error) {
	with, err := c.with(name, l)
	if err != nil {
		return nil, err
	}
	_, cfg, _, err := with.plan(name)
	if err != nil {
		return nil, &BadChange{err}
	}
	c.sweep()
	store, it := c.store(client), with.fetched[name]
	if progress != nil {
		store.Progress = func(_ string, done, total int64) { progress(done, total) }
	}
	file, ok := store.Seen(name, it.Source)
	if !ok {
		found, err := store.Newer(ctx, name, it, func(f string) error { file = f; return nil })
		if err != nil {
			return nil, errors.Join(&BadChange{err}, c.forgetEmpty(name))
		}
		if !found { // it was in use before
			file = store.Path(name)
		}
	}
	cfg.Path = setting.Source(file)
	return read(ctx, name, cfg)
}

// read reads a list from the file of its settings, without keeping anything.
func read(ctx context.Context, name string, cfg list.Config) (*Candidate, error) {
	dir, err := os.MkdirTemp("", "shuultuur-look-")
	if err != nil {
		return nil, fmt.Errorf("making a folder to read list %q in: %w", name, err)
	}
	defer os.RemoveAll(dir)
	r, err := list.Compile(ctx, name, cfg, filepath.Join(dir, "look.list"))
	if err != nil {
		return nil, &BadChange{err}
	}
	info, err := os.Stat(string(cfg.Path))
	if err != nil {
		return nil, err
	}
	return &Candidate{File: string(cfg.Path), Bytes: info.Size(), Report: r}, nil
}

// Take puts what was looked at last into the place from which the list is read in use.
func (c *Collection) Take(ctx context.Context, client *http.Client, name string, l List) error {
	with, err := c.with(name, l)
	if err != nil {
		return err
	}
	if _, _, _, err := with.plan(name); err != nil {
		return &BadChange{err}
	}
	if _, err = c.store(client).Update(ctx, name, with.fetched[name]); err != nil {
		return &BadChange{err}
	}
	return nil
}

// sweep removes what was looked at some time ago, and is not in the settings.
func (c *Collection) sweep() {
	store := c.store(nil)
	all, _ := os.ReadDir(store.Dir) // missing: nothing was fetched yet
	for _, e := range all {
		name := e.Name()
		if st, err := store.State(name); err == nil && !c.Has(name) && st.Seen.IsOld() && len(st.Versions) == 0 {
			_ = os.RemoveAll(filepath.Join(store.Dir, name)) // it is tried again the next time
		}
	}
}

// forgetEmpty removes the folder of a list of which nothing could be fetched.
func (c *Collection) forgetEmpty(name string) error {
	store := c.store(nil)
	if st, err := store.State(name); err != nil || len(st.Versions) > 0 {
		return err
	}
	return os.RemoveAll(filepath.Join(store.Dir, name))
}

// with returns a view of the settings with one more list.
func (c *Collection) with(name string, l List) (*Collection, error) {
	if _, used := c.cfg[name]; used {
		return nil, &BadChange{fmt.Errorf("there is a list %q already: give this one another name", name)}
	}
	all := maps.Clone(c.cfg)
	if all == nil {
		all = Config{}
	}
	all[name] = l
	w := newCollection(all, c.data)
	w.reports = c.reports
	return w, nil
}

// Has reports whether the settings name a list.
func (c *Collection) Has(name string) bool { _, ok := c.cfg[name]; return ok }

// Sources returns the lists by the catalogue names that they are fetched by.
func (c *Collection) Sources() map[string]string {
	all := map[string]string{}
	for name, l := range c.cfg {
		if l.Fetch.Source != "" {
			all[l.Fetch.Source] = name
		}
	}
	return all
}

// CategoriesOf returns the categories of a list: that of the settings, or those of its content.
func (c *Collection) CategoriesOf(name string) []string {
	if l := c.cfg[name]; l.Category != "" {
		return []string{l.Category}
	}
	return slices.Sorted(maps.Keys(c.reports[name].Categories))
}

// OwnFile returns the file of a list that is neither fetched nor a zone.
func (c *Collection) OwnFile(name string) (string, bool) {
	l, ok := c.cfg[name]
	return string(l.Path), ok && l.Path != "" && l.Zone == ""
}

// ReadAs reads a file as the list called name would be read, which the settings need not have: then l
// says how.
func (c *Collection) ReadAs(ctx context.Context, name string, l List, file string) (*Candidate, error) {
	cfg := l.Config
	if own, ok := c.cfg[name]; ok {
		cfg = own.Config
	}
	cfg.Path = setting.Source(file)
	return read(ctx, name, cfg)
}

// Rewrite writes the file of a list that is neither fetched nor a zone. That it becomes shorter is
// meant, so it is not compared with what was there.
func (c *Collection) Rewrite(name string, text []byte) error {
	file, ok := c.OwnFile(name)
	if !ok {
		return ErrNoList
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	if err := atomicfile.WriteBytes(file, mode, text); err != nil {
		return err
	}
	if err := os.Remove(c.file(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// History returns the folder for earlier texts of a list.
func (c *Collection) History(name string) string {
	return filepath.Join(c.data, "versions", "lists", name)
}
