package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"shuultuur/admin"
	"shuultuur/configuration"
	"shuultuur/dns"
	"shuultuur/resolver"
	"shuultuur/resolver/forward"
)

var errNoForwarding = errors.New("the settings name no upstream under dns.forward that could be asked")

// systemParts returns the functions by which the admin address shows the program.
func (g *pages) systemParts() *admin.System {
	return &admin.System{
		Backup: func(w io.Writer) ([]string, error) { return configuration.Backup(w, g.file) },
		State: func() map[string]any {
			e := g.engine.Load()
			return map[string]any{admin.Remembered: e.State.Stats()}
		},
	}
}

// namesParts returns the functions by which the admin address shows the name server
// in use.
func (g *pages) namesParts() *admin.Names {
	return &admin.Names{
		Upstreams: func() []admin.Upstream {
			all := []admin.Upstream{}
			if f := g.engine.Load().Forward; f != nil {
				for _, u := range f.Upstreams() {
					all = append(all, admin.Upstream{Name: u.To, Up: u.Up, Seconds: u.Seconds, Requests: u.Requests, Errors: u.Errors, Timeouts: u.Timeouts})
				}
			}
			return all
		},
		Cache: func() any {
			if c := g.engine.Load().Cache; c != nil {
				return c.Stats()
			}
			return struct{}{}
		},
		Flush: func() {
			if c := g.engine.Load().Cache; c != nil {
				c.Flush()
			}
		},
		Look: g.lookUp,
	}
}

// lookUp queries the upstreams, not the cache, for records of a name.
func (g *pages) lookUp(ctx context.Context, name, kind string) (*admin.LookupResult, error) {
	f := g.engine.Load().Forward
	if f == nil {
		return nil, &admin.BadChange{Err: errNoForwarding}
	}
	wire, err := dns.Name(name)
	if err != nil {
		return nil, &admin.BadChange{Err: err}
	}
	qtype, err := dns.Type(kind)
	if err != nil {
		return nil, &admin.BadChange{Err: err}
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
	return &admin.LookupResult{Rcode: dns.RcodeName(text.Rcode), Records: text.Records, Upstream: upstream, Took: time.Since(start).Seconds()}, nil
}
