package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/metric"
	"shuultuur/lib/problem"
)

const (
	lookEvery   = time.Minute     // how often a refresher checks which items are due
	lookSoon    = 2 * time.Second // the same while an item has no version
	repairEvery = time.Minute     // between attempts to fetch an item again that is damaged
	mostLate    = time.Hour       // within which gateways fetch what is due for all of them at the same moment, such as at a start

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
	heard    map[string]news // of items that other nodes have; guarded by mu
}

// A news is a version that another node has.
type news struct {
	version string
	at      time.Time
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
	return &Refresher{current: current, use: use, log: log, seed: rand.Uint64(), turn: make(chan struct{}, 1), stale: map[string]string{}, arriving: map[string]Progress{}, heard: map[string]news{},
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
	turn := it.Source.turn(part)
	switch {
	case it.Damaged && time.Since(st.Checked) >= repairEvery:
		return true, missing
	case !st.isLater(time.Now()) && r.isBehind(name, it.InUse, turn):
		return true, missing
	case !st.Due(it.Source, part, time.Now()):
		return false, missing
	case missing || st.URL != it.Source.Place():
		return true, missing
	}
	// After a power failure a whole town starts at once.
	return running >= turn, missing
}

// turn returns how long after what many gateways see at the same moment the one with a part fetches the
// source.
func (src Source) turn(part float64) time.Duration {
	return time.Duration(part * float64(min(mostLate, src.Every/4)))
}

// isBehind reports whether another node has had a version other than the one in use for a time.
func (r *Refresher) isBehind(name, inUse string, since time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.heard[name]
	if ok && n.version == inUse {
		delete(r.heard, name)
		return false
	}
	return ok && time.Since(n.at) >= since
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
	r.mu.Lock()
	delete(r.heard, name) // what its server has now is tried; what fails is tried again as usual
	r.mu.Unlock()
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

// Newer is called when another node has a version of the item called name. Unless that is in use here,
// it is fetched when this gateway's turn has come: all nodes of a fleet hear of it at the same moment, and
// their requests may come from one address.
func (r *Refresher) Newer(name, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard[name] = news{version, time.Now()}
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

// Problems returns the items that could not be refreshed, by whatever program tried last, and since when
// those are awaited of which there is no version.
func (r *Refresher) Problems() (all []problem.Problem) {
	store, items := r.current()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(items)) {
		it, kind := items[name], problem.Lists
		st, err := store.stateOrNew(name)
		text := cmp.Or(st.Problem, r.stale[name])
		if err != nil {
			text = err.Error()
		}
		if it.InUse == "" {
			kind = problem.Awaited
			if !st.Awaited.IsZero() {
				text = fmt.Sprintf("%s; awaited since %s", cmp.Or(text, it.kind()+" "+name+": its server is being asked"), st.Awaited.Format(time.RFC3339))
			}
		}
		if text != "" {
			all = append(all, problem.Problem{Kind: problem.Because(kind, err), Text: text})
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
