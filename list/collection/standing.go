package collection

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"shuultuur/list"
	"shuultuur/list/source"
)

// A Status describes a list, without its entries.
type Status struct {
	Report  list.Report
	Path    string // its source
	Missing bool   // not fetched yet
	Fault   string // why its last good version serves, "" if the current one does
	Fetched bool   // the list is fetched, and the following fields apply
	URL     string // without a password
	Known   source.CatalogueEntry
	Every   time.Duration
	State   source.State
}

// StatusOf describes the list called name, or returns [ErrNoList].
func (c *Collection) StatusOf(name string) (*Status, error) {
	if c.Lists[name] == nil {
		return nil, ErrNoList
	}
	s := &Status{Report: c.reports[name], Missing: c.Missing(name)}
	if f := c.faults[name]; f != nil {
		s.Fault = f.Error()
	}
	src, cfg, fetched, err := c.resolve(name)
	if err != nil {
		return nil, err
	}
	s.Path, s.Fetched = string(cfg.Path), fetched
	if !fetched {
		return s, nil
	}
	s.URL, s.Every = src.Place(), src.Every
	all := source.Catalogue()
	if i := slices.IndexFunc(all, func(k source.CatalogueEntry) bool { return k.Name == c.cfg[name].Fetch.Source }); i >= 0 {
		s.Known = all[i]
	}
	s.State, err = c.store(nil).State(name)
	return s, err
}

var errNotFetched = errors.New("it is not fetched: the settings name its file; change that file")

// Update fetches a newer version of a list, and reports whether there is one to put into use.
func (c *Collection) Update(ctx context.Context, client *http.Client, name string) (source.Change, error) {
	it, ok := c.fetched[name]
	switch {
	case c.Lists[name] == nil:
		return source.Change{}, ErrNoList
	case !ok:
		return source.Change{}, &BadChange{errNotFetched}
	}
	got, err := c.store(client).Update(ctx, name, it)
	if err != nil {
		err = &BadChange{err}
	}
	return got, err
}

// Rollback returns a fetched list to the version before the one in use. The caller puts it
// into use.
func (c *Collection) Rollback(name string) (source.Version, error) {
	_, ok := c.fetched[name]
	switch {
	case c.Lists[name] == nil:
		return source.Version{}, ErrNoList
	case !ok:
		return source.Version{}, &BadChange{errNotFetched}
	}
	v, err := c.store(nil).Rollback(name)
	if err != nil {
		err = &BadChange{err}
	}
	return v, err
}

// Lint reads a list again and reports odd lines.
func (c *Collection) Lint(ctx context.Context, name string) (*list.Lint, error) {
	if c.Lists[name] == nil {
		return nil, ErrNoList
	}
	if c.Missing(name) {
		return nil, &BadChange{errors.New("it has not been fetched yet: there is nothing to read")}
	}
	_, cfg, _, err := c.resolve(name)
	if err != nil {
		return nil, err
	}
	return list.Examine(ctx, name, cfg)
}
