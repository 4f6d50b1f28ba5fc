package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"shuultuur/admin/backup"
	"shuultuur/admin/network"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
	"shuultuur/engine/configuration"
	"shuultuur/lib/dns"
	"shuultuur/resolver"
	"shuultuur/resolver/forward"
)

var errNoForwarding = errors.New("the settings name no upstream under dns.forward that could be asked")

// systemParts returns the functions by which the admin address shows the program.
func (p *pages) systemParts(kept backup.Folder) *system.System {
	return &system.System{
		Backup: func(w io.Writer) ([]string, error) {
			e := p.gateway.engine.Load()
			if err := writeDown(e); err != nil {
				return nil, fmt.Errorf("writing down what a backup needs: %w", err)
			}
			c, err := configuration.Backup(w, p.gateway.file, slices.Sorted(maps.Keys(e.Seen))...)
			return c.Left, err
		},
		Restore: p.gateway.restore,
		Check:   p.gateway.checkBackup,
		Kept:    kept,
		State: func() map[string]any {
			e := p.gateway.engine.Load()
			return map[string]any{system.Remembered: e.State.Stats()}
		},
	}
}

// namesParts returns the functions by which the admin address shows the name server
// in use.
func (p *pages) namesParts() *network.Names {
	return &network.Names{
		Upstreams: func() []network.Upstream {
			all := []network.Upstream{}
			if f := p.gateway.engine.Load().Forward; f != nil {
				for _, u := range f.Upstreams() {
					all = append(all, network.Upstream{Name: u.To, Up: u.Up, Seconds: u.Seconds, Requests: u.Requests, Errors: u.Errors, Timeouts: u.Timeouts, Reconnections: u.Reconnections})
				}
			}
			return all
		},
		Cache: func() any {
			if c := p.gateway.engine.Load().Cache; c != nil {
				return c.Stats()
			}
			return struct{}{}
		},
		Flush: func() {
			if c := p.gateway.engine.Load().Cache; c != nil {
				c.Flush()
			}
		},
		Look: p.lookUp,
	}
}

// lookUp queries the upstreams, not the cache, for records of a name.
func (p *pages) lookUp(ctx context.Context, name, kind string) (*network.LookupResult, error) {
	f := p.gateway.engine.Load().Forward
	if f == nil {
		return nil, &web.BadChange{Err: errNoForwarding}
	}
	wire, err := dns.Name(name)
	if err != nil {
		return nil, &web.BadChange{Err: err}
	}
	qtype, err := dns.Type(kind)
	if err != nil {
		return nil, &web.BadChange{Err: err}
	}
	start := time.Now()
	msg, upstream, err := f.Exchange(ctx, wire, qtype, 1, forward.Option{})
	if err != nil {
		return nil, fmt.Errorf("asking for %s %s: %w", name, kind, err)
	}
	text, err := resolver.ReadText(msg)
	if err != nil {
		return nil, fmt.Errorf("reading the answer for %s: %w", name, err)
	}
	return &network.LookupResult{Rcode: dns.RcodeName(text.Rcode), Records: text.Records, Upstream: upstream, Took: time.Since(start).Seconds()}, nil
}
