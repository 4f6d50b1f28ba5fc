package gateway

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"shuultuur/admin"
	"shuultuur/atomicfile"
	"shuultuur/list"
)

// lists is what the admin address may do with the lists in use.
func (g *Gateway) lists() *admin.Lists {
	return &admin.Lists{All: g.allLists, Search: g.searchLists, Change: g.changeLists}
}

func (g *Gateway) allLists() []admin.List {
	var all []admin.List
	e := g.engine.Load()
	if e == nil {
		return nil // stopping
	}
	for _, r := range e.reports {
		all = append(all, admin.List{
			Name: r.Name, Entries: r.Entries, Networks: r.Networks, Exprs: r.Exprs, Rules: r.Rules, Refused: r.Bad,
			Categories: r.Categories, Missing: slices.Contains(e.missing, r.Name),
		})
	}
	return all
}

func (g *Gateway) searchLists(name string) (hits []admin.Hit, err error) {
	e := g.engine.Load()
	if e == nil {
		return nil, nil
	}
	for _, of := range slices.Sorted(maps.Keys(e.lists)) {
		found, err := e.lists[of].Ask(name)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			hits = append(hits, admin.Hit{List: of, Found: f})
		}
	}
	return hits, nil
}

// changeLists makes changes to lists and takes them into use before it returns.
// When one of them cannot be made or taken into use, all are taken back.
func (g *Gateway) changeLists(ctx context.Context, changes map[string][]list.Change) (err error) {
	g.changing.Lock()
	defer g.changing.Unlock()
	e := g.engine.Load()
	for name := range changes {
		if e == nil || e.lists[name] == nil {
			return admin.ErrNoList
		}
	}
	var undo []func() error
	defer func() {
		if err == nil {
			return
		}
		for _, back := range undo {
			if err := back(); err != nil {
				g.log.Error("change of a list not taken back", "error", err)
			}
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		file := filepath.Join(e.settings.compiledLists(), name+".list")
		back, err := asItIs(file + ".overlay")
		if err != nil {
			return err
		}
		undo = append(undo, back)
		if err := list.Amend(ctx, file, changes[name]...); err != nil {
			if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
				return err // ours, or the disk's
			}
			return &admin.BadChange{Err: err}
		}
	}
	if err := g.Reload(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	for name, made := range changes {
		g.log.Info("list changed", "list", name, "entries", len(made))
	}
	return nil
}

// asItIs returns what makes a file again what it is, or not be there.
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
