package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/list"
	"shuultuur/list/source"
)

// lookEvery is how often the gateway asks itself which lists are due.
const lookEvery = time.Minute

// A download is a list that is fetched: from where, and how it is read.
type download struct {
	source source.Source
	list   list.Config
}

// refresh fetches lists that are due, one after the other, and reloads when
// one has changed.
func (g *Gateway) refresh(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	part := rand.Float64() // this gateway's place among all that ask
	for {
		e := g.engine.Load()
		if len(e.downloads) > 0 {
			g.fetch(ctx, e, part)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (g *Gateway) fetch(ctx context.Context, e *Engine, part float64) {
	store, err := e.settings.store()
	if err != nil {
		g.log.Error("lists not fetched", "error", err) // tried when the engine was built
		return
	}
	var changed, stale []string
	for _, name := range slices.Sorted(maps.Keys(e.downloads)) {
		d := e.downloads[name]
		st, err := store.State(name)
		if err == nil && st.Due(d.source, part, time.Now()) && ctx.Err() == nil {
			var c source.Change
			c, err = store.Update(ctx, name, d.source, d.list)
			g.metrics.fetched(name, c.Taken, err)
			if c.Taken {
				changed = append(changed, name)
				g.log.Info("list fetched", "list", name, "entries", c.Entries, "was", c.Was, "bytes", c.Bytes)
			} else if err != nil && ctx.Err() == nil {
				g.log.Warn("list not updated; the version in use stays", "error", err)
			}
		} else if err == nil && st.Problem != "" {
			err = errors.New(st.Problem)
		}
		if err != nil {
			stale = append(stale, err.Error())
		}
	}
	g.mu.Lock()
	g.stale = stale
	g.mu.Unlock()
	if len(changed) > 0 && ctx.Err() == nil {
		g.Again(ctx, "fetched: "+strings.Join(changed, ", "))
	}
}

// store returns the store of fetched lists that the settings describe.
func (s *Settings) store() (*source.Store, error) {
	var parent *url.URL
	if s.Proxy.Parent != "" {
		u, err := url.Parse(s.Proxy.Parent)
		if err != nil || u.Scheme != "http" || u.Hostname() == "" {
			return nil, filter.Setting("proxy.parent", errors.New("must look like http://user:password@host:port"))
		}
		if u.Port() == "" {
			u.Host = net.JoinHostPort(u.Hostname(), "3128")
		}
		parent = u
	}
	direct := func(host string) bool {
		return slices.ContainsFunc(s.Proxy.NoParent, func(no string) bool {
			no = strings.ToLower(strings.TrimPrefix(no, "."))
			return host == no || strings.HasSuffix(host, "."+no)
		})
	}
	return &source.Store{Dir: filepath.Join(s.path(s.Data), "sources"), Client: source.NewClient(parent, direct, s.Proxy.DialPublic)}, nil
}

// resolve says from where the list called name is fetched, if it is, and how it
// is read: with the path where it lies or will lie.
func (s *Settings) resolve(name string, store *source.Store) (d download, fetched bool, err error) {
	if !plainName(name) {
		return d, false, fmt.Errorf("%q cannot name a list: use letters, digits, - and _", name)
	}
	l := s.Lists[name]
	if d.source, d.list, fetched, err = l.Fetch.Resolve(l.Config); fetched {
		d.list.Path = store.Path(name)
	} else {
		d.list.Path = s.path(d.list.Path)
	}
	return d, fetched, err
}

// Lists is a look at the lists of the settings, beside a running gateway.
type Lists struct {
	Store    *source.Store
	Configs  map[string]list.Config // how each is read, and where it lies or will lie
	fetched  map[string]download
	compiled string // folder
}

// ReadLists reads which lists the settings in file have.
func ReadLists(file string) (*Lists, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	l := &Lists{Configs: map[string]list.Config{}, fetched: map[string]download{}, compiled: s.compiledLists()}
	if l.Store, err = s.store(); err != nil {
		return nil, s.mistake(err)
	}
	for name := range s.Lists {
		d, fetched, err := s.resolve(name, l.Store)
		if err != nil {
			return nil, s.mistake(filter.Setting("lists."+name, err))
		}
		l.Configs[name] = d.list
		if fetched {
			l.fetched[name] = d
		}
	}
	return l, nil
}

// Fetched returns names, or when there are none the names of all lists that
// are fetched. One that is not fetched is an error.
func (l *Lists) Fetched(names ...string) ([]string, error) {
	if len(names) == 0 {
		return slices.Sorted(maps.Keys(l.fetched)), nil
	}
	for _, name := range names {
		if _, ok := l.fetched[name]; !ok {
			return nil, fmt.Errorf("list %s is not one that the settings fetch", name)
		}
	}
	return names, nil
}

// Missing says whether the list called name has not been fetched yet.
func (l *Lists) Missing(name string) bool {
	d, fetched := l.fetched[name]
	_, err := os.Stat(d.list.Path)
	return fetched && errors.Is(err, fs.ErrNotExist)
}

// Update asks for a newer version of a list that is fetched. A gateway that
// runs takes it into use by itself.
func (l *Lists) Update(ctx context.Context, name string) (source.Change, error) {
	if _, err := l.Fetched(name); err != nil {
		return source.Change{}, err
	}
	d := l.fetched[name]
	return l.Store.Update(ctx, name, d.source, d.list)
}

// Compiled returns the files of the lists that are compiled, by name.
func (l *Lists) Compiled() (map[string]string, error) {
	found := map[string]string{}
	for name := range l.Configs {
		path := filepath.Join(l.compiled, name+".list")
		if _, err := os.Stat(path); err == nil {
			found[name] = path
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return found, nil
}

// compiledLists is the folder of the compiled lists.
func (s *Settings) compiledLists() string { return filepath.Join(s.path(s.Data), "lists") }
