package gateway

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"shuultuur/admin"
	"shuultuur/list"
)

// lists is what the admin address may do with the lists in use.
func (g *Gateway) lists() *admin.Lists {
	return &admin.Lists{All: g.allLists, Search: g.searchLists, Change: g.changeList}
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

// changeList makes changes to a list and takes them into use before it
// returns.
func (g *Gateway) changeList(ctx context.Context, name string, changes []list.Change) error {
	e := g.engine.Load()
	if e == nil || e.lists[name] == nil {
		return admin.ErrNoList
	}
	file := filepath.Join(e.settings.compiledLists(), name+".list")
	if err := list.Amend(ctx, file, changes...); err != nil {
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			return err // ours, or the disk's
		}
		return &admin.BadChange{Err: err}
	}
	g.log.Info("list changed", "list", name, "entries", len(changes))
	return g.Reload(context.WithoutCancel(ctx))
}
