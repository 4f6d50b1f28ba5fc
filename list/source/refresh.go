package source

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/metric"
	"shuultuur/lib/problem"
	"shuultuur/lib/wait"
)

const (
	lookEvery   = time.Minute     // how often a refresher checks which items are due
	lookSoon    = 2 * time.Second // the same while an item has no version
	repairEvery = time.Minute     // between attempts to fetch an item again that is damaged
	lateStart   = time.Hour       // within which items that are due at the start are fetched, if they have a version

	// atOnce is how many items are fetched at a time. What has come is tried one after the other,
	// because that takes memory.
	atOnce = 8

	// together is how long new versions wait for others, to be put into use with them.
	together = 5 * time.Second
)

// A Refresher fetches items when they are due.
type Refresher struct {
	current func() (*Store, Items)
	use     func(ctx context.Context, why string)
	log     *slog.Logger
	seed    uint64 // of this gateway, to spread requests of many gateways
	fetches *metric.CounterVec
	turn    chan struct{} // to try a version

	mu       sync.Mutex
	stale    map[string]string // why items could not be refreshed, if their states do not say; guarded by mu
	arriving map[string]Progress
}

// A Progress says how much of an item has been fetched.
type Progress struct {
	Name  string
	Done  int64 // bytes
	Total int64 // bytes; -1 if the server does not say
}

// Progress returns what is being fetched, by name.
func (r *Refresher) Progress() (all []Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.arriving)) {
		all = append(all, r.arriving[name])
	}
	return all
}

func (r *Refresher) arrive(name string, done, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arriving[name] = Progress{name, done, total}
}

// NewRefresher returns a refresher of the result of current. use puts new versions into use.
func NewRefresher(current func() (*Store, Items), use func(ctx context.Context, why string), log *slog.Logger) *Refresher {
	return &Refresher{current: current, use: use, log: log, seed: rand.Uint64(), turn: make(chan struct{}, 1), stale: map[string]string{}, arriving: map[string]Progress{},
		fetches: metric.NewCounterVec("shuultuur_list_fetches_total", "Looks for a newer version of a list that is fetched: taken, unchanged, or refused because it could not be fetched or used.", "list", "result")}
}

// part returns a share for an item, another one after each time that it was looked for.
func (r *Refresher) part(name string, checked time.Time) float64 {
	b := binary.LittleEndian.AppendUint64(nil, r.seed)
	b = binary.LittleEndian.AppendUint64(b, uint64(checked.UnixNano()))
	sum := sha256.Sum256(append(b, name...))
	return float64(binary.LittleEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// A fetched says which item was looked for, and whether there is a new version.
type fetched struct {
	name  string
	newer bool
}

// Run fetches items that are due until ctx ends. A slow server delays no other item: each is fetched by
// itself, and put into use when it is there.
func (r *Refresher) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	began, busy, places := time.Now(), map[string]bool{}, make(chan struct{}, atOnce)
	done := make(chan fetched)
	var changed []string
	look, put := time.NewTimer(0), time.NewTimer(together)
	defer look.Stop()
	put.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			store, items := r.current()
			pause := lookEvery
			for _, name := range slices.Sorted(maps.Keys(items)) {
				it := items[name]
				due, missing := r.due(store, name, it, time.Since(began))
				if missing {
					pause = lookSoon
				}
				if !due || busy[name] {
					continue
				}
				busy[name] = true
				all.Go(func() {
					select {
					case places <- struct{}{}:
					case <-ctx.Done():
						return
					}
					newer := r.fetch(ctx, store, name, it)
					<-places
					select {
					case done <- fetched{name, newer}:
					case <-ctx.Done():
					}
				})
			}
			look.Reset(pause)
			continue
		case f := <-done:
			delete(busy, f.name)
			if f.newer {
				if changed = append(changed, f.name); len(changed) == 1 {
					put.Reset(together)
				}
			}
			if len(busy) > 0 || len(changed) == 0 {
				continue
			}
		case <-put.C:
		}
		put.Stop()
		slices.Sort(changed)
		r.use(ctx, "fetched: "+strings.Join(changed, ", "))
		changed = nil
	}
}

// due reports whether to fetch an item, some time after the start, and whether it has no version.
func (r *Refresher) due(store *Store, name string, it Item, running time.Duration) (due, missing bool) {
	st, err := store.stateOrNew(name)
	if err != nil {
		r.note(name, err)
		return false, false
	}
	missing = st.inUse() == nil
	part := r.part(name, st.Checked)
	switch {
	case it.Damaged && time.Since(st.Checked) >= repairEvery:
		return true, missing
	case !st.Due(it.Source, part, time.Now()):
		return false, missing
	case missing || st.URL != it.Source.Place():
		return true, missing
	}
	// After a power failure a whole town starts at once.
	return running >= time.Duration(part*float64(min(lateStart, it.Source.Every/4))), missing
}

// note notes why an item could not be refreshed, if its state does not say.
func (r *Refresher) note(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.stale, name)
	} else {
		r.stale[name] = err.Error()
	}
}

// fetch fetches an item, and reports whether there is a new version.
func (r *Refresher) fetch(ctx context.Context, store *Store, name string, it Item) bool {
	own := &Store{Dir: store.Dir, Client: store.Client, Progress: r.arrive, wait: store.wait, turn: r.turn}
	got, err := own.Update(ctx, name, it)
	r.mu.Lock()
	delete(r.arriving, name)
	r.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	r.count(name, got.Updated, err)
	if got.Updated {
		r.log.Info(it.kind()+" fetched", "name", name, "entries", got.Entries, "was", got.Was, "bytes", got.Bytes)
	} else if err != nil {
		r.log.Warn(it.kind()+" not updated; the version in use stays", "error", err)
	}
	if now, failed := store.stateOrNew(name); err != nil && failed == nil && now.Problem != "" {
		err = nil // the state says it
	}
	r.note(name, err)
	return got.Updated
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

// Problems returns the items that could not be refreshed, by whatever program tried last.
// One of which there is no version is still awaited.
func (r *Refresher) Problems() (all []problem.Problem) {
	store, items := r.current()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(items)) {
		kind := problem.Lists
		if items[name].InUse == "" {
			kind = problem.Awaited
		}
		switch st, err := store.stateOrNew(name); {
		case err != nil:
			all = append(all, problem.Problem{Kind: problem.Because(kind, err), Text: err.Error()})
		case st.Problem != "":
			all = append(all, problem.Problem{Kind: kind, Text: st.Problem})
		case r.stale[name] != "":
			all = append(all, problem.Problem{Kind: kind, Text: r.stale[name]})
		}
	}
	return all
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
