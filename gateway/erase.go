package gateway

import (
	"context"
	"errors"
	"time"

	"shuultuur/admin"
	"shuultuur/event"
)

// holders are what has data about people, besides the audit log.
func (g *Gateway) holders() (all []admin.Holder) {
	r := g.engine.Load().events
	for _, s := range r.stores {
		h := admin.Holder{Name: "events in " + s.Name()}
		if e, ok := s.(event.Eraser); ok {
			h.Erase = func(ctx context.Context, p event.Person) (int64, error) {
				if err := r.written(ctx); err != nil {
					return 0, err
				}
				return e.Erase(ctx, p)
			}
		}
		all = append(all, h)
	}
	return all
}

// writtenTime is how long a store may take to write what is queued.
const writtenTime = 30 * time.Second

// written waits until the stores have written the rows that are queued now.
func (r *record) written(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writtenTime)
	defer cancel()
	want := map[string]uint64{}
	for _, s := range r.Stats() {
		want[s.Store] = s.Written + uint64(s.Queued)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		late := false
		for _, s := range r.Stats() {
			late = late || s.Written+s.Dropped < want[s.Store] && s.Queued > 0
		}
		if !late {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("rows are still queued: a store does not write; see /health, and erase again")
		case <-tick.C:
		}
	}
}
