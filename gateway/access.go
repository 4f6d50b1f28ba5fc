package gateway

import (
	"context"

	"shuultuur/admin"
	"shuultuur/admin/account"
)

func newAccess(_ context.Context, b *builder) (*admin.Rules, error) {
	return b.settings.Access.Rules(b.data.Key)
}

// openAccess opens what is known of those who may use the admin address.
func (g *Gateway) openAccess(b *builder) (admin.Access, error) {
	dir := account.Folder(string(b.settings.Data))
	first := b.access
	rules := func() *admin.Rules {
		if e := g.engine.Load(); e != nil {
			return e.access
		}
		return first
	}
	book, err := account.Open(dir, func() account.Rules { return rules().Session })
	if err != nil {
		return admin.Access{}, err
	}
	return admin.Access{
		Accounts: book, Audit: account.NewLog(dir), Looks: &admin.Looks{},
		Holders: g.holders,
		Rules:   rules,
		Names:   func() []string { return rules().Names },
		Privacy: func() admin.Privacy { return rules().Privacy },
		Groups:  g.groupsOf,
	}, nil
}
