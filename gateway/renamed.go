package gateway

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"shuultuur/engine"
	"shuultuur/policy/rename"
)

// renamed returns the new names of people who have other names in new addresses: each keeps all devices. So
// it is with groups, which keep their members.
func renamed(old, now map[string][]string) map[string]string {
	names := map[string]string{}
	sorted := func(all []string) []string { return slices.Sorted(slices.Values(all)) }
	// with returns the names with some devices that are not in the other mapping.
	with := func(all, other map[string][]string, devices []string) (found []string) {
		for n, have := range all {
			if _, known := other[n]; !known && slices.Equal(sorted(devices), sorted(have)) {
				found = append(found, n)
			}
		}
		return found
	}
	for from, devices := range old {
		if _, kept := now[from]; kept || len(devices) == 0 {
			continue
		}
		if to := with(now, old, devices); len(to) == 1 && len(with(old, now, devices)) == 1 {
			names[from] = to[0]
		}
	}
	return names
}

// countOn lets what was used of quotas count on where a policy has another name in e, which is about to be in
// use.
func (g *Gateway) countOn(e *engine.Engine) {
	var err error
	if g.quotas == nil {
		file := ""
		if e.Data.Dir != "" {
			file = filepath.Join(e.Data.Dir, "quotas.json")
		}
		g.quotas, err = rename.Open(file)
	}
	if err = errors.Join(err, g.quotas.Use(e.Settings.Policies, time.Now(), &e.Decisions.Decisions)); err != nil {
		g.log.Warn("what was used of quotas may begin anew where a policy gets another name", "error", err)
	}
}

// follow gives people and groups that were renamed what was decided for them by hand: pauses, time, and
// sites, and those who look after a group stay with it. It follows a way back, too.
func (g *Gateway) follow(e, old *engine.Engine) {
	now := time.Now()
	const by = "the new name"
	was, is := &old.Settings.Identity, &e.Settings.Identity
	groups := renamed(was.Groups, is.Groups)
	names := renamed(was.Addresses, is.Addresses)
	maps.Copy(names, groups)
	for from, to := range names {
		var failed []error
		note := func(err error) {
			if err != nil {
				failed = append(failed, err)
			}
		}
		for _, d := range e.Decisions.Sites(now) {
			if d.Who != from {
				continue
			}
			moved := d
			moved.Who = to
			if err := e.Decisions.Rule(moved, false, by); err != nil {
				note(err)
				continue
			}
			note(e.Decisions.Rule(d, true, by))
		}
		for _, b := range e.Decisions.Bonuses(now) {
			if b.Who != from {
				continue
			}
			_, err := e.Decisions.GiveTime(to, b.Minutes, now, by)
			if err == nil {
				_, err = e.Decisions.GiveTime(from, 0, now, by)
			}
			note(err)
		}
		for _, p := range e.Pauses.At(now) {
			if p.Who != from {
				continue
			}
			_, err := e.Pauses.Set(to, p.Until, now, by)
			if err == nil {
				_, err = e.Pauses.Set(from, time.Time{}, now, by)
			}
			note(err)
		}
		if a := g.access.Load(); a != nil && groups[from] != "" {
			note(a.book.RenameGroup(from, to))
		}
		for _, err := range failed {
			g.log.Error("what was decided for a name does not follow the new one", "from", from, "to", to, "error", err)
		}
	}
}
