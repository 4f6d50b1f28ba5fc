package gateway

import (
	"context"
	"path/filepath"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/accounts"
	"shuultuur/admin/privacy"
	"shuultuur/admin/search"
	"shuultuur/admin/web"
	"shuultuur/engine"
	"shuultuur/event"
	"shuultuur/identity/oidc"
	"shuultuur/vote"
)

// An access is who may use the admin address: it stays when the address changes.
type access struct {
	book     *account.Book
	log      *account.Log
	looks    *privacy.Looks
	searches *search.Book
}

// openAccess opens the accounts of the admin address, and says who may see what.
func (p *pages) openAccess(first *engine.Engine, parts *admin.Parts) error {
	dir := account.Folder(string(first.Settings.Data))
	rules := func() *accounts.Rules {
		if e := p.gateway.engine.Load(); e != nil {
			return e.Access
		}
		return first.Access
	}
	a := p.gateway.access.Load()
	if a == nil {
		book, err := account.Open(dir, func() account.Rules { return rules().Session })
		if err != nil {
			return err
		}
		a = &access{book, account.NewLog(dir), &privacy.Looks{}, &search.Book{File: filepath.Join(dir, "searches.json")}}
		p.gateway.access.Store(a)
	}
	parts.Accounts, parts.Audit, parts.Looks, parts.Searches = a.book, a.log, a.looks, a.searches
	parts.Holders, parts.Groups = p.holders, p.gateway.host.GroupsOf
	parts.Names = func() []string { return rules().Names }
	parts.Privacy = func() web.Privacy { return rules().Privacy }
	parts.SignIn = func() (*accounts.SignIn, *oidc.Provider) { r := rules(); return r.SignIn, r.OpenID }
	return nil
}

// holders returns the stores of data about people, besides the audit log.
func (p *pages) holders() (all []privacy.Holder) {
	r := p.gateway.engine.Load().Events
	for _, s := range r.Stores {
		h := privacy.Holder{Name: "events in " + s.Name()}
		if e, ok := s.(event.Eraser); ok {
			h.Erase = func(ctx context.Context, who event.Person, dry bool) (int64, error) {
				if err := r.Flush(ctx); err != nil {
					return 0, err
				}
				return e.Erase(ctx, who, dry)
			}
		}
		all = append(all, h)
	}
	all = append(all, privacy.Holder{Name: "files that were not completed", Erase: func(_ context.Context, _ event.Person, dry bool) (int64, error) {
		return int64(p.gateway.removeLeftovers(time.Now().Add(-stale), dry)), nil
	}})
	e := p.gateway.engine.Load()
	shared := e.SharesState()
	if v := e.Votes; v != nil {
		all = append(all, privacy.Holder{Name: "votes", Erase: func(ctx context.Context, who event.Person, dry bool) (int64, error) {
			return v.Erase(ctx, voterOf(&who), dry)
		}})
		if to := v.ForwardsTo(); to != "" && !shared {
			all = append(all, privacy.Holder{Name: "votes that were forwarded to " + to})
		}
	}
	if shared { // even on a node that accepts no votes
		all = append(all, privacy.Holder{Name: "votes on the other nodes of the fleet, which have the instruction", Erase: func(_ context.Context, who event.Person, dry bool) (int64, error) {
			if dry {
				return 0, nil
			}
			return 0, p.gateway.node.ErasePerson(who.Users, who.Clients)
		}})
	}
	if a := e.Alerts; a != nil {
		all = append(all, privacy.Holder{Name: "alerts", Erase: a.Desk.Erase})
	}
	all = append(all, privacy.Holder{Name: "findings in pictures", Erase: func(_ context.Context, who event.Person, dry bool) (int64, error) {
		return int64(p.gateway.pictures.Erase(who.Clients, who.Users, dry)), nil
	}})
	return append(all, privacy.Holder{Name: "sessions, pauses, decisions and time given", Erase: func(_ context.Context, who event.Person, dry bool) (int64, error) {
		return p.gateway.node.Erase(who.Users, who.Clients, dry)
	}}, privacy.Holder{Name: "the use of limits and quotas", Erase: func(ctx context.Context, who event.Person, dry bool) (int64, error) {
		if dry {
			return 0, nil
		}
		return 0, p.gateway.node.Forget(ctx, p.gateway.engine.Load().Policies.Counters(who.Users, who.Clients, time.Now()))
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
