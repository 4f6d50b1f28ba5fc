package gateway

import (
	"context"
	"path/filepath"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/search"
	"shuultuur/engine"
	"shuultuur/event"
	"shuultuur/vote"
)

// openAccess opens the accounts of the admin address.
func (g *pages) openAccess(first *engine.Engine) (admin.Access, error) {
	dir := account.Folder(string(first.Settings.Data))
	rules := func() *admin.Rules {
		if e := g.engine.Load(); e != nil {
			return e.Access
		}
		return first.Access
	}
	book, err := account.Open(dir, func() account.Rules { return rules().Session })
	if err != nil {
		return admin.Access{}, err
	}
	return admin.Access{
		Accounts: book, Audit: account.NewLog(dir), Looks: &admin.Looks{},
		Searches: &search.Book{File: filepath.Join(dir, "searches.json")},
		Holders:  g.holders,
		Rules:    rules,
		Names:    func() []string { return rules().Names },
		Privacy:  func() admin.Privacy { return rules().Privacy },
		Groups:   g.host.GroupsOf,
	}, nil
}

// holders returns the stores of data about people, besides the audit log.
func (g *pages) holders() (all []admin.Holder) {
	r := g.engine.Load().Events
	for _, s := range r.Stores {
		h := admin.Holder{Name: "events in " + s.Name()}
		if e, ok := s.(event.Eraser); ok {
			h.Erase = func(ctx context.Context, p event.Person, dry bool) (int64, error) {
				if err := r.Flush(ctx); err != nil {
					return 0, err
				}
				return e.Erase(ctx, p, dry)
			}
		}
		all = append(all, h)
	}
	e := g.engine.Load()
	shared := e.SharesState()
	if v := e.Votes; v != nil {
		all = append(all, admin.Holder{Name: "votes", Erase: func(ctx context.Context, p event.Person, dry bool) (int64, error) {
			return v.Erase(ctx, voterOf(&p), dry)
		}})
		if to := v.ForwardsTo(); to != "" && !shared {
			all = append(all, admin.Holder{Name: "votes that were forwarded to " + to})
		}
	}
	if shared { // even on a node that accepts no votes
		all = append(all, admin.Holder{Name: "votes on the other nodes of the fleet, which have the instruction", Erase: func(_ context.Context, p event.Person, dry bool) (int64, error) {
			if dry {
				return 0, nil
			}
			return 0, g.node.ErasePerson(p.Users, p.Clients)
		}})
	}
	if a := e.Alerts; a != nil {
		all = append(all, admin.Holder{Name: "alerts", Erase: a.Desk.Erase})
	}
	all = append(all, admin.Holder{Name: "findings in pictures", Erase: func(_ context.Context, p event.Person, dry bool) (int64, error) {
		return int64(g.pictures.Erase(p.Clients, p.Users, dry)), nil
	}})
	return append(all, admin.Holder{Name: "sessions, pauses, decisions and time given", Erase: func(_ context.Context, p event.Person, dry bool) (int64, error) {
		return g.node.Erase(p.Users, p.Clients, dry)
	}}, admin.Holder{Name: "the use of limits and quotas", Erase: func(ctx context.Context, p event.Person, dry bool) (int64, error) {
		if dry {
			return 0, nil
		}
		return 0, g.node.Forget(ctx, g.engine.Load().Policies.Counters(p.Users, p.Clients, time.Now()))
	}})
}

// voterOf returns a person in the form that votes use.
func voterOf(p *event.Person) *vote.Person {
	v := &vote.Person{Users: p.Users, Named: p.In}
	for _, a := range p.Clients {
		v.Clients = append(v.Clients, a.String())
	}
	return v
}
