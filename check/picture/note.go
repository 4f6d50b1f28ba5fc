//go:build !small

package picture

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/picture"
)

// note records findings in a picture, whose bytes are b.
func (g *Gallery) note(t *filter.Transaction, sum [32]byte, b []byte, found []filter.Finding, locked bool) {
	var keep []filter.Finding
	for _, f := range found {
		if f.Category != Unread && (f.Score >= noteworth || strings.HasPrefix(f.Category, Listed)) {
			keep = append(keep, f)
		}
	}
	if len(keep) == 0 {
		return
	}
	f := GalleryItem{ID: hex.EncodeToString(sum[:16]), Time: time.Now(), Times: 1, URL: t.URL, Client: t.Client.Addr, User: t.Client.User, Findings: keep}
	g.mu.Lock()
	for i := range g.last {
		o := &g.last[i]
		if o.ID != f.ID {
			continue
		}
		f.Thumbnail = o.Thumbnail
		if o.Client == f.Client && o.User == f.User {
			f.Times += o.Times
			g.last = slices.Delete(g.last, i, i+1)
			break
		}
	}
	g.mu.Unlock()
	if f.Thumbnail == nil && !locked {
		f.Thumbnail = picture.Thumbnail(b)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.last) >= maxFinds {
		g.last = slices.Delete(g.last, 0, len(g.last)-maxFinds+1)
	}
	g.last = append(g.last, f)
}
