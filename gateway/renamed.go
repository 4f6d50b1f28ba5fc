package gateway

import (
	"slices"
	"time"

	"shuultuur/engine"
)

// renamed returns the new names of people who have other names in new addresses: each keeps all devices.
func renamed(old, now map[string][]string) map[string]string {
	names := map[string]string{}
	sorted := func(all []string) []string { return slices.Sorted(slices.Values(all)) }
	for from, devices := range old {
		if _, kept := now[from]; kept || len(devices) == 0 {
			continue
		}
		for to, have := range now {
			if _, known := old[to]; !known && slices.Equal(sorted(devices), sorted(have)) {
				names[from] = to
			}
		}
	}
	return names
}

// follow gives people who were renamed what was decided for them by hand: pauses, time, and sites. It
// follows a way back, too.
func (g *Gateway) follow(e, old *engine.Engine) {
	now := time.Now()
	const by = "the new name"
	for from, to := range renamed(old.Settings.Identity.Addresses, e.Settings.Identity.Addresses) {
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
		for _, err := range failed {
			g.log.Error("what was decided for a person does not follow the new name", "from", from, "to", to, "error", err)
		}
	}
}
