package picture

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"shuultuur/filter"
)

// A Gallery keeps the latest findings in pictures, each with a blurred thumbnail, in memory
// only. It outlives checks.
type Gallery struct {
	mu   sync.Mutex
	last []GalleryItem // newest last
}

// A GalleryItem is a finding in a picture for one client.
type GalleryItem struct {
	ID       string           `json:"id"`   // of the thumbnail: hexadecimal digits of the picture's SHA-256
	Time     time.Time        `json:"time"` // the last time
	Times    int              `json:"times"`
	URL      string           `json:"url"`
	Client   netip.Addr       `json:"client,omitzero"`
	User     string           `json:"user,omitempty"`
	Findings []filter.Finding `json:"findings"`
	// Thumbnail is a JPEG of at most 160 × 160 pixels, as blurred as the pictures that clients
	// get; nil for pictures on locked lists.
	Thumbnail []byte `json:"-"`
}

const (
	maxFinds  = 500
	noteworth = 50 // lowest score of a picture that is kept
)

// All returns the findings, newest first.
func (g *Gallery) All() []GalleryItem {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := slices.Clone(g.last)
	slices.Reverse(all)
	return all
}

// Erase deletes the findings for clients and users, and returns their number.
func (g *Gallery) Erase(clients []netip.Addr, users []string, dry bool) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(g.last), func(f GalleryItem) bool {
		return slices.Contains(clients, f.Client) || f.User != "" && slices.Contains(users, f.User)
	})
	if n = len(g.last) - len(left); !dry {
		g.last = left
	}
	return n
}
