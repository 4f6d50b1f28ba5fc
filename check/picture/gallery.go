package picture

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"shuultuur/filter"
)

// A Gallery keeps what was found in the last pictures, each with a blurred
// thumbnail, in memory alone. It outlives checks.
type Gallery struct {
	mu   sync.Mutex
	last []Find // the newest last
}

// A Find is a picture in which something was found, for one client.
type Find struct {
	ID       string           `json:"id"`   // of the thumbnail: digits of the picture's SHA-256
	Time     time.Time        `json:"time"` // the last time
	Times    int              `json:"times"`
	URL      string           `json:"url"`
	Client   netip.Addr       `json:"client,omitzero"`
	User     string           `json:"user,omitempty"`
	Findings []filter.Finding `json:"findings"`
	// Thumbnail is a JPEG of at most 160 pixels a side, as blurred as what clients
	// get; nil of pictures on locked lists.
	Thumbnail []byte `json:"-"`
}

const (
	maxFinds  = 500
	noteworth = 50 // score from which on a picture is kept
)

// All returns the finds, the newest first.
func (g *Gallery) All() []Find {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := slices.Clone(g.last)
	slices.Reverse(all)
	return all
}

// Erase forgets what was found for clients and users, and returns how much.
func (g *Gallery) Erase(clients []netip.Addr, users []string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.last)
	g.last = slices.DeleteFunc(g.last, func(f Find) bool {
		return slices.Contains(clients, f.Client) || f.User != "" && slices.Contains(users, f.User)
	})
	return n - len(g.last)
}
