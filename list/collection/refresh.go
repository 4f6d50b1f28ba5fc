package collection

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/list"
	"shuultuur/list/source"
	"shuultuur/metric"
	"shuultuur/setting"
)

// lookEvery is how often a refresher looks which lists are due.
const lookEvery = time.Minute

// A Refresher fetches lists that are due.
type Refresher struct {
	current func() (*Collection, *http.Client)
	use     func(ctx context.Context, why string)
	log     *slog.Logger
	part    float64 // this gateway's place among all that ask
	fetches *metric.CounterVec

	mu    sync.Mutex
	stale []string // problems; guarded by mu
}

// NewRefresher returns a refresher of the lists that current returns, which
// fetches with the client beside them. use takes new versions into use.
func NewRefresher(current func() (*Collection, *http.Client), use func(ctx context.Context, why string), log *slog.Logger) *Refresher {
	return &Refresher{current: current, use: use, log: log, part: rand.Float64(),
		fetches: metric.NewCounterVec("shuultuur_list_fetches_total", "Looks for a newer version of a list that is fetched: taken, unchanged, or refused because it could not be fetched or used.", "list", "result")}
}

// Run fetches what is due until ctx ends.
func (r *Refresher) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if c, client := r.current(); len(c.downloads) > 0 {
			r.fetch(ctx, c, client)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// fetch fetches the lists that are due, one after the other.
func (r *Refresher) fetch(ctx context.Context, c *Collection, client *http.Client) {
	store := c.store(client)
	var changed, stale []string
	for _, name := range slices.Sorted(maps.Keys(c.downloads)) {
		d := c.downloads[name]
		st, err := store.State(name)
		if err == nil && st.Due(d.source, r.part, time.Now()) && ctx.Err() == nil {
			var got source.Change
			got, err = store.Update(ctx, name, d.source, d.list)
			r.count(name, got.Taken, err)
			if got.Taken {
				changed = append(changed, name)
				r.log.Info("list fetched", "list", name, "entries", got.Entries, "was", got.Was, "bytes", got.Bytes)
			} else if err != nil && ctx.Err() == nil {
				r.log.Warn("list not updated; the version in use stays", "error", err)
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

// Newer is called when another node has a version of a list. It fetches the
// list unless this version is in use, and says whether there is something new
// to be taken into use.
func (r *Refresher) Newer(ctx context.Context, name, version string) bool {
	c, client := r.current()
	d, ours := c.downloads[name]
	if !ours || c.versions[name] == version {
		return false
	}
	store := c.store(client)
	got, err := store.Update(ctx, name, d.source, d.list)
	for try := 1; err != nil && try < 3 && wait(ctx, time.Second); try++ { // this node may be fetching it already
		got, err = store.Update(ctx, name, d.source, d.list)
	}
	r.count(name, got.Taken, err)
	if err != nil && ctx.Err() == nil {
		r.log.Warn("list not updated, though another node has a newer version; the one in use stays", "error", err)
	}
	return got.Taken
}

// wait waits, and says whether ctx goes on.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
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

// Problems say which lists could not be refreshed.
func (r *Refresher) Problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stale
}

// Collect implements [metric.Collector].
func (r *Refresher) Collect(ch chan<- metric.Metric) { r.fetches.Collect(ch) }

// A View is a look at the lists of the settings beside a running gateway.
type View struct {
	Store   *source.Store
	Configs map[string]list.Config // how each is read, and where it is or will be
	c       *Collection
}

// Look returns a view of the lists of cfg that a gateway keeps in the folder
// data. Nothing is compiled or opened.
func Look(cfg Config, data string, client *http.Client) (*View, error) {
	c := &Collection{cfg: cfg, data: data, downloads: map[string]download{}}
	v := &View{Store: c.store(client), Configs: map[string]list.Config{}, c: c}
	for name := range cfg {
		d, fetched, err := c.resolve(name)
		if err != nil {
			return nil, setting.At(name, err)
		}
		v.Configs[name] = d.list
		if fetched {
			c.downloads[name] = d
		}
	}
	return v, nil
}

// Fetched returns names, or when there are none the names of all lists that
// are fetched. One that is not fetched is an error.
func (v *View) Fetched(names ...string) ([]string, error) {
	if len(names) == 0 {
		return slices.Sorted(maps.Keys(v.c.downloads)), nil
	}
	for _, name := range names {
		if _, ok := v.c.downloads[name]; !ok {
			return nil, fmt.Errorf("list %s is not one that the settings fetch", name)
		}
	}
	return names, nil
}

// Missing says whether the list called name has not been fetched yet.
func (v *View) Missing(name string) bool {
	d, fetched := v.c.downloads[name]
	_, err := os.Stat(string(d.list.Path))
	return fetched && errors.Is(err, fs.ErrNotExist)
}

// Update asks for a newer version of a list that is fetched. A gateway that
// runs takes it into use by itself.
func (v *View) Update(ctx context.Context, name string) (source.Change, error) {
	if _, err := v.Fetched(name); err != nil {
		return source.Change{}, err
	}
	d := v.c.downloads[name]
	return v.Store.Update(ctx, name, d.source, d.list)
}

// Compiled returns the files of the lists that are compiled, by name.
func (v *View) Compiled() (map[string]string, error) {
	found := map[string]string{}
	for name := range v.Configs {
		path := v.c.file(name)
		if _, err := os.Stat(path); err == nil {
			found[name] = path
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return found, nil
}
