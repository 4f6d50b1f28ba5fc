package gateway

import (
	"context"
	"net/netip"
	"path/filepath"

	"shuultuur/admin/report"
)

func newReports(_ context.Context, b *builder) (*report.Sending, error) {
	r := &report.Sending{Schedules: b.settings.Reports, Mail: b.mail, Texts: b.g.texts, File: filepath.Join(string(b.settings.Data), "reports.json"), Log: b.log}
	if g := b.g; g != nil {
		r.Source = func() report.Source {
			if s := g.Store(); s != nil {
				return s
			}
			return nil
		}
		r.Groups = g.groupsOf
	}
	return r, r.Check()
}

// groupsOf says in which groups somebody is.
func (g *Gateway) groupsOf(addr netip.Addr, user string) []string {
	return g.engine.Load().identity.Named(addr, user, nil, "").Groups
}
