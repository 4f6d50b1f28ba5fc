package cache

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestPurgesGoByTheirOrder: a purge removes what was stored before it and nothing that was stored after
// it, wherever the clock stood at either, and over restarts.
func TestPurgesGoByTheirOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		step time.Duration // of the clock, after the purge
	}{
		{"the clock was right", time.Second},
		{"the clock was an hour ahead", -time.Hour},
		{"the clock was a year ahead", -365 * 24 * time.Hour},
		{"the clock was a year behind", 365 * 24 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			c1 := open(t, Config{}, Parts{})
			at := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
			store := func(received time.Time) {
				o := textObject("http://a.example/", "x")
				o.facts.Received = received
				c1.put([]byte(o.name), nil, o, c1.changes.now())
			}
			store(at)
			if err := c1.Purge("host", "example.org"); err != nil {
				t.Fatal(err)
			}
			if c1.get([]byte("http://a.example/")) != nil {
				t.Error("what was stored before the purge is served")
			}
			store(at.Add(c.step))
			if c1.get([]byte("http://a.example/")) == nil {
				t.Error("what was stored after the purge is not served")
			}
		})
	}
}

// TestPurgesOfOlderReleasesHold: their file has times, and their objects no number.
func TestPurgesOfOlderReleasesHold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "purged")
	b, err := json.Marshal(map[string]time.Time{"host a.example": time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(append(b, '\n'), sumOf(b)...), 0o600); err != nil {
		t.Fatal(err)
	}
	numbers, err := readPurged(file)
	if err != nil {
		t.Fatal(err)
	}
	var s shelf
	s.purged.Store(newPurged(numbers))
	o := textObject("http://a.example/", "x")
	o.host = "a.example"
	if !s.isPurged(o) {
		t.Error("an object of an older release is served though it was purged")
	}
	if o.purges = s.purges(); s.isPurged(o) {
		t.Error("an object that was stored after the purge is not served")
	}
}
