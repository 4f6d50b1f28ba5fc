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

// A Standing is what there is to know of one list besides its entries.
type Standing struct {
	Report  list.Report
	Path    string // what it is read from
	Missing bool   // still to be fetched
	Fault   string // why its last good version serves, "" if the present one does
	Fetched bool   // from the web; what follows is of such lists
	URL     string // without a password
	Known   source.Known
	Every   time.Duration
	State   source.State
}

// Standing returns that of the list called name, or [ErrNoList].
func (c *Collection) Standing(name string) (*Standing, error) {
	if c.Lists[name] == nil {
		return nil, ErrNoList
	}
	s := &Standing{Report: c.reports[name], Missing: c.Missing(name)}
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
	if i := slices.IndexFunc(all, func(k source.Known) bool { return k.Name == c.cfg[name].Fetch.Source }); i >= 0 {
		s.Known = all[i]
	}
	s.State, err = c.store(nil).State(name)
	return s, err
}

var errNotFetched = errors.New("it is not fetched: the settings name its file; change that instead")

// Update asks for a newer version of a list that is fetched, and says whether
// there is one to be taken into use.
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

// Rollback moves a list that is fetched to the version before the one in use,
// which is still to be taken into use.
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

// Lint reads a list once more and says what is odd about its lines.
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
