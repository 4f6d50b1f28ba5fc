package source

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/metric"
	"shuultuur/lib/wait"
)

// lookEvery is how often a refresher checks which items are due.
const lookEvery = time.Minute

// repairEvery is the time between attempts to fetch an item again that is damaged.
const repairEvery = time.Minute

// A Refresher fetches items when they are due.
type Refresher struct {
	current func() (*Store, Items)
	use     func(ctx context.Context, why string)
	log     *slog.Logger
	part    float64 // offset of this gateway, to spread requests of many gateways
	fetches *metric.CounterVec

	mu    sync.Mutex
	stale []string // problems; guarded by mu
	now   Progress // guarded by mu
}

// A Progress says how much of an item has been fetched.
type Progress struct {
	Name  string // "" if nothing is being fetched
	Done  int64  // bytes
	Total int64  // bytes; -1 if the server does not say
}

// Progress returns what is being fetched.
func (r *Refresher) Progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *Refresher) arrive(name string, done, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = Progress{name, done, total}
}

// NewRefresher returns a refresher of the result of current. use puts new versions into use.
func NewRefresher(current func() (*Store, Items), use func(ctx context.Context, why string), log *slog.Logger) *Refresher {
	return &Refresher{current: current, use: use, log: log, part: rand.Float64(),
		fetches: metric.NewCounterVec("shuultuur_list_fetches_total", "Looks for a newer version of a list that is fetched: taken, unchanged, or refused because it could not be fetched or used.", "list", "result")}
}

// Run fetches items that are due until ctx ends.
func (r *Refresher) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if store, items := r.current(); len(items) > 0 {
			r.fetch(ctx, store, items)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// fetch fetches the items that are due, one after the other.
func (r *Refresher) fetch(ctx context.Context, store *Store, items Items) {
	var changed, stale []string
	store.Progress = r.arrive
	defer r.arrive("", 0, 0)
	for _, name := range slices.Sorted(maps.Keys(items)) {
		it := items[name]
		st, err := store.stateOrNew(name)
		if err == nil && (st.Due(it.Source, r.part, time.Now()) || it.Damaged && time.Since(st.Checked) >= repairEvery) && ctx.Err() == nil {
			var got Change
			got, err = store.Update(ctx, name, it)
			r.count(name, got.Updated, err)
			if got.Updated {
				changed = append(changed, name)
				r.log.Info(it.kind()+" fetched", "name", name, "entries", got.Entries, "was", got.Was, "bytes", got.Bytes)
			} else if err != nil && ctx.Err() == nil {
				r.log.Warn(it.kind()+" not updated; the version in use stays", "error", err)
			}
		} else if err == nil && st.Problem != "" {
			err = errors.New(st.Problem)
		}
		if err != nil {
			stale = append(stale, err.Error())
		}
	}
	r.mu.Lock()
	r.stale = stale
	r.mu.Unlock()
	if len(changed) > 0 && ctx.Err() == nil {
		r.use(ctx, "fetched: "+strings.Join(changed, ", "))
	}
}

// Newer is called when another node has a version of the item called name. It fetches that
// unless the version is in use, and reports whether there is something new to put into use.
func (r *Refresher) Newer(ctx context.Context, name, version string) bool {
	store, items := r.current()
	it, ours := items[name]
	if !ours || it.InUse == version && !it.Damaged {
		return false
	}
	got, err := store.Update(ctx, name, it)
	for try := 1; err != nil && try < 3 && wait.For(ctx, time.Second) == nil; try++ { // this node may be fetching it already
		got, err = store.Update(ctx, name, it)
	}
	r.count(name, got.Updated, err)
	if err != nil && ctx.Err() == nil {
		r.log.Warn(it.kind()+" not updated, though another node has a newer version; the one in use stays", "error", err)
	}
	return got.Updated
}

func (r *Refresher) count(list string, taken bool, err error) {
	result := "unchanged"
	switch {
	case err != nil:
		result = "refused"
	case taken:
		result = "taken"
	}
	r.fetches.With(list, result).Inc()
}

// Problems returns the items that could not be refreshed.
func (r *Refresher) Problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stale
}

// Collect implements [metric.Collector]. Every counter is there before its first event, in which
// Prometheus would see no increase otherwise.
func (r *Refresher) Collect(ch chan<- metric.Metric) {
	_, items := r.current()
	for name := range items {
		for _, result := range []string{"taken", "unchanged", "refused"} {
			r.fetches.With(name, result)
		}
	}
	r.fetches.Collect(ch)
}
