package cache

import (
	"net/netip"
	"strings"
	"testing"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

func TestPURGERemovesAURLForPermittedClients(t *testing.T) {
	var asked []string
	origin := answerer(func(q *message.Request) (*message.Response, error) {
		asked = append(asked, q.Method)
		if q.Method == "PURGE" {
			return respond(202, ""), nil
		}
		return respond(200, "x", "Cache-Control", "max-age=600", "Vary", "Accept-Language"), nil
	})
	const url = "http://example.org/a"
	for _, c := range []struct {
		name, from, url string
		purge           []string
		edits           []filter.Edit
		status          int
		fetched         string // methods that reach the origin after the stored object
	}{
		{name: "stored", from: "127.0.0.1", url: url, purge: []string{"127.0.0.1/32"}, status: 200, fetched: "GET GET"},
		{name: "with a parameter that is ignored", from: "127.0.0.1", url: url + "?utm_source=x", purge: []string{"127.0.0.1/32"}, status: 200, fetched: "GET GET"},
		{name: "from the second network", from: "10.1.2.3", url: url, purge: []string{"127.0.0.1/32", "10.0.0.0/8"}, status: 200, fetched: "GET GET"},
		{name: "stored for another policy", from: "127.0.0.1", url: url, purge: []string{"127.0.0.1/32"}, edits: []filter.Edit{{Kind: filter.SetHeader, Name: "A", Value: "b"}}, status: 200, fetched: "GET GET"},
		{name: "another URL", from: "127.0.0.1", url: "http://example.org/b", purge: []string{"127.0.0.1/32"}, status: 404},
		{name: "of a client that may not", from: "10.1.2.3", url: url, purge: []string{"127.0.0.1/32"}, status: 403},
		{name: "without the setting", from: "127.0.0.1", url: "http://example.org/b", status: 202, fetched: "PURGE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked = nil
			cfg := Config{IgnoreQuery: []string{"utm_*"}}
			for _, p := range c.purge {
				cfg.Purge = append(cfg.Purge, netip.MustParsePrefix(p))
			}
			front := open(t, cfg, Parts{}).InFrontOf(origin)
			get := func() {
				ctx := filter.With(t.Context(), &filter.Transaction{Edits: c.edits})
				for _, language := range []string{"en", "mn"} {
					send(t, front, ctx, request("GET", url, "Accept-Language", language))
				}
			}
			get()
			asked = nil
			ctx := filter.With(t.Context(), &filter.Transaction{Client: filter.Client{Addr: netip.MustParseAddr(c.from)}})
			if status, _, _ := send(t, front, ctx, request("PURGE", c.url)); status != c.status {
				t.Errorf("PURGE got status %d, want %d", status, c.status)
			}
			get()
			if got := strings.Join(asked, " "); got != c.fetched {
				t.Errorf("the origin got the requests %q, want %q", got, c.fetched)
			}
			if c.status == 200 {
				if status, _, _ := send(t, front, ctx, request("PURGE", c.url)); status != 200 {
					t.Errorf("PURGE of an object stored again got status %d, want 200", status)
				}
				if status, _, _ := send(t, front, ctx, request("PURGE", c.url)); status != 404 {
					t.Errorf("PURGE of a missing object got status %d, want 404", status)
				}
			}
		})
	}
}
