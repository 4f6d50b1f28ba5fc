package gateway

import (
	"context"
	"iter"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/engine/configuration"
	"shuultuur/event"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/whatif"
)

// maxTouched is the most addresses for which rows are sought. A change for more of them is judged on all
// rows.
const maxTouched = 200

// A touched is the part of a record on which a change of who has an address, or is in a group, can have an
// effect: the rows of some addresses. Everybody else is judged as before.
type touched struct {
	event.Reader
	term event.Term
}

// Query implements [event.Reader].
func (x *touched) Query(ctx context.Context, f event.Filter, p event.Page) iter.Seq2[event.Row, error] {
	f.Terms = append(slices.Clone(f.Terms), x.term)
	return x.Reader.Query(ctx, f, p)
}

// touches returns the rows of a record since a time on which a change can have an effect, and how many
// others there are. They are all rows, unless the change is only in the addresses and groups of people.
func touches(ctx context.Context, r event.Reader, f event.Filter, t *web.Trial, judges *[2]whatif.Judge, was, is *configuration.Settings) (some event.Reader, others int, err error) {
	if t.Text == nil || len(t.Lists)+len(t.Decisions)+len(t.Votes) > 0 || t.File != "" || t.Pause != nil || t.Bonus != nil || sharesCounts(was.Policies) || !onlyClients(was, is) {
		return r, 0, nil
	}
	c := concerned{r: r, f: f, judges: judges, clients: map[string]bool{}, users: map[string]bool{}}
	all, err := r.Count(ctx, event.Question{Filter: f, By: event.Client}, event.Question{Filter: f, By: event.User}, event.Question{Filter: f})
	if err != nil {
		return nil, 0, err
	}
	rows := 0
	for _, n := range all[0] {
		rows += n.Events
		c.place(ctx, n.Name)
	}
	for _, n := range all[1] {
		if changed, _ := c.ask(ctx, whatif.Entry{Client: netip.IPv4Unspecified(), User: n.Name}); changed {
			c.users[n.Name] = true
		}
	}
	if rows < all[2][0].Events { // some have no address
		return r, 0, nil
	}
	for n := -1; n < len(c.clients)+len(c.users); {
		if n = len(c.clients) + len(c.users); len(c.clients) > maxTouched {
			return r, 0, nil
		}
		if err := c.grow(ctx, all); err != nil {
			return nil, 0, err
		}
	}
	addresses := slices.Sorted(maps.Keys(c.clients))
	if slices.ContainsFunc(addresses, func(a string) bool { return strings.Contains(a, ":") }) && counts(was.Policies) {
		return r, 0, nil // its neighbours share its counters
	}
	x := &touched{Reader: r, term: event.Term{Field: event.Client, Values: addresses}}
	if len(addresses) > 0 {
		if x.term, err = event.NewTerm(event.Client, false, addresses...); err != nil {
			return nil, 0, err
		}
	}
	for _, n := range all[0] {
		if c.clients[n.Name] {
			rows -= n.Events
		}
	}
	return x, rows, nil
}

// A concerned finds whom a change concerns: the addresses and users for whom it gives another client, and
// whoever shares with them what is counted, a person with several devices, and a device of several people.
type concerned struct {
	r       event.Reader
	f       event.Filter
	judges  *[2]whatif.Judge
	clients map[string]bool
	users   map[string]bool
	holders [][]string // of the addresses of the record, in lower case
}

// ask reports whether the judges see another client, and which users they see.
func (c *concerned) ask(ctx context.Context, e whatif.Entry) (changed bool, users []string) {
	a, b := c.judges[0].Client(ctx, &e), c.judges[1].Client(ctx, &e)
	for _, u := range []string{a.User, b.User} {
		if u != "" {
			users = append(users, strings.ToLower(u))
		}
	}
	return !reflect.DeepEqual(a, b), users
}

// place looks at an address of the record.
func (c *concerned) place(ctx context.Context, address string) {
	addr, _ := netip.ParseAddr(address) // the zero Addr is nobody's
	changed, users := c.ask(ctx, whatif.Entry{Client: addr})
	if changed {
		c.clients[address] = true
	}
	c.holders = append(c.holders, users)
}

// grow adds the addresses of those who are concerned, and the users of these addresses. all are the addresses
// and users of the record.
func (c *concerned) grow(ctx context.Context, all [][]event.Tally) error {
	people := map[string]bool{}
	for u := range c.users {
		people[strings.ToLower(u)] = true
	}
	for i, n := range all[0] {
		if c.clients[n.Name] {
			for _, u := range c.holders[i] {
				people[u] = true
			}
		}
	}
	for i, n := range all[0] {
		if slices.ContainsFunc(c.holders[i], func(u string) bool { return people[u] }) {
			c.clients[n.Name] = true
		}
	}
	for _, n := range all[1] {
		if people[strings.ToLower(n.Name)] {
			c.users[n.Name] = true
		}
	}
	for _, side := range []struct {
		of, by event.Field
		known  map[string]bool
		to     map[string]bool
	}{{event.Client, event.User, c.clients, c.users}, {event.User, event.Client, c.users, c.clients}} {
		if len(side.known) == 0 {
			continue
		}
		t, err := event.NewTerm(side.of, false, slices.Sorted(maps.Keys(side.known))...)
		if err != nil {
			return err
		}
		f := c.f
		f.Terms = append(slices.Clone(f.Terms), t)
		found, err := c.r.Count(ctx, event.Question{Filter: f, By: side.by})
		if err != nil {
			return err
		}
		for _, n := range found[0] {
			side.to[n.Name] = true
		}
	}
	return nil
}

// counts reports whether policies count what clients do.
func counts(c policy.Config) bool {
	return slices.ContainsFunc(c, func(p policy.Policy) bool { return len(p.Limits)+len(p.Quotas) > 0 })
}

// sharesCounts reports whether clients of different people share a counter, so that one may have less because
// another comes.
func sharesCounts(c policy.Config) bool {
	return slices.ContainsFunc(c, func(p policy.Policy) bool {
		return slices.ContainsFunc(p.Limits, func(l policy.Limit) bool { return l.By == "policy" || l.By == "host" }) ||
			slices.ContainsFunc(p.Quotas, func(q policy.Quota) bool { return q.By == "policy" })
	})
}

// onlyClients reports whether settings differ in nothing but the addresses and groups of people.
func onlyClients(was, is *configuration.Settings) bool {
	a, b := *was, *is
	for _, s := range []*configuration.Settings{&a, &b} {
		s.Identity.Addresses, s.Identity.Groups, s.Text, s.Stamp = nil, nil, nil, ""
	}
	return setting.Digest(a) == setting.Digest(b)
}
