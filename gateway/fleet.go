package gateway

import (
	"context"
	"errors"
	"io"
	"time"

	"shuultuur/admin/nodes"
	"shuultuur/engine/configuration"
	"shuultuur/fleet/bundle"
	"shuultuur/lib/setting"
)

// This file shows a fleet that takes bundles, and makes what its desk offers.

var errNoDesk = errors.New("this node is no desk: name its secret key under fleet: desk: key")

// fleetParts returns the parts of the admin address for a fleet.
func (p *pages) fleetParts() *nodes.Pages {
	g, u := p.gateway, bundleUser{p.gateway}
	desk := func(do func(d *bundle.Desk) error) error {
		m := g.engine.Load().Bundles
		if m == nil || m.Desk == nil {
			return errNoDesk
		}
		return do(m.Desk)
	}
	return &nodes.Pages{
		Look: func() nodes.Fleet { return u.fleet(time.Now()) },
		Publish: func(ctx context.Context, version, reason string, all bool) error {
			return desk(func(d *bundle.Desk) error {
				c, err := u.content(d.Carries(), version, reason)
				if err == nil && !d.Seals() {
					err = u.withoutSecrets(c.Files[bundle.SettingsName])
				}
				if err == nil {
					_, err = d.Publish(ctx, c, all, time.Now())
				}
				return err
			})
		},
		More: func(ctx context.Context) error {
			return desk(func(d *bundle.Desk) error { return d.More(ctx, time.Now()) })
		},
		Back: func(ctx context.Context) error {
			return desk(func(d *bundle.Desk) error { return d.Back(ctx, "by hand", time.Now()) })
		},
		Bundle: func(ctx context.Context, name string) (io.ReadCloser, error) {
			return g.engine.Load().Bundles.Offered(ctx, name)
		},
	}
}

// withoutSecrets refuses a text of settings that has secrets.
func (u bundleUser) withoutSecrets(text []byte) error {
	h, err := setting.Hide(text, &configuration.Settings{}, u.g.engine.Load().Data.Key)
	if err == nil && setting.HasPlaceholder(string(h.Text)) {
		err = errors.New("the settings that the bundle carries have secrets: name recipients under fleet: desk, so that the nodes alone can read them")
	}
	return err
}

// fleet returns the fleet as this node knows it.
func (u bundleUser) fleet(now time.Time) nodes.Fleet {
	e := u.g.engine.Load()
	f := nodes.Fleet{Nodes: []nodes.Node{}}
	newest := uint64(0)
	if m := e.Bundles; m != nil {
		f.Takes, f.Desk = m.Taker != nil, m.Desk != nil
		if f.Desk {
			s := m.Desk.Status()
			o := &s.Offered
			newest = o.Serial
			f.Offered = nodes.Offered{Serial: o.Serial, Version: o.Version, Reason: o.Reason, Created: o.Created, Expires: o.Expires, Share: o.Share, Files: len(o.Files), Waits: s.Waits, Stopped: s.Stopped, CanBack: s.CanBack}
		}
	}
	reports := bundle.Reports(e.State.InForce(bundle.Topic))
	if !f.Desk { // the newest that anybody runs
		for _, r := range reports {
			newest = max(newest, r.Serial)
		}
	}
	for _, r := range reports {
		n := nodes.Node{Name: r.Node, Serial: r.Serial, Version: r.Version, Since: r.Since, At: r.At, Why: r.Why, Drift: r.Drift, Faults: r.Faults, Requests: r.Now.Requests, Failures: r.Now.Failures, Program: r.Program, State: nodes.Runs}
		switch {
		case !r.Heard(now):
			n.State = nodes.Silent
		case r.Refused != 0 && r.Refused >= r.Serial:
			n.State = nodes.Refused
		case len(r.Drift) > 0:
			n.State = nodes.Drifts
		case r.Serial < newest || r.Serial == 0:
			n.State = nodes.Waits
		}
		f.Nodes = append(f.Nodes, n)
	}
	return f
}
