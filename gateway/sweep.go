package gateway

import (
	"context"
	"time"

	"shuultuur/lib/datadir"
)

// stale is how long nobody has written to a file that nobody writes any more. Another program may write
// into the data folder, such as the one that this one replaces.
const stale = time.Minute

// sweep removes files that a program has left which was killed while it wrote them: at the start, and
// once more for those that were too fresh then.
func (g *Gateway) sweep(ctx context.Context) {
	g.removeLeftovers(time.Now().Add(-stale), false)
	select {
	case <-ctx.Done():
	case <-time.After(2 * stale):
		g.removeLeftovers(g.started, false)
	}
}

// removeLeftovers removes files that nobody has written to since a time, and returns how many.
func (g *Gateway) removeLeftovers(since time.Time, dry bool) int {
	removed := g.engine.Load().Data.Leftovers(since, dry)
	if !dry {
		removed = append(removed, datadir.LeftoversOf(g.file, since)...)
	}
	if len(removed) > 0 && !dry {
		g.log.Info("files of a program that was killed while it wrote them are removed", "files", removed)
	}
	return len(removed)
}
