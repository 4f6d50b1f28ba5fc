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

// Fetched is a look at the lists that are fetched, beside a running gateway.
type Fetched struct {
	Store *source.Store
	lists map[string]download
}

// ReadFetched reads which lists the settings in file fetch.
func ReadFetched(file string) (*Fetched, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	f := &Fetched{lists: map[string]download{}}
	if f.Store, err = s.store(); err != nil {
		return nil, s.mistake(err)
	}
	for name, l := range s.Lists {
		src, cfg, fetched, err := l.Fetch.Resolve(l.Config)
		if err == nil && !plainName(name) {
			err = fmt.Errorf("%q cannot name a list: use letters, digits, - and _", name)
		}
		if err != nil {
			return nil, s.mistake(filter.Setting("lists."+name, err))
		}
		if fetched {
			f.lists[name] = download{src, cfg}
		}
	}
	return f, nil
}

// Names are the names of all lists that are fetched.
func (f *Fetched) Names() []string { return slices.Sorted(maps.Keys(f.lists)) }

// Update asks for a newer version of the list called name. A gateway that runs
// takes it into use by itself.
func (f *Fetched) Update(ctx context.Context, name string) (source.Change, error) {
	d, ok := f.lists[name]
	if !ok {
		return source.Change{}, fmt.Errorf("list %s is not one that the settings fetch", name)
	}
	return f.Store.Update(ctx, name, d.source, d.list)
}

// CompiledLists returns the compiled lists of the settings in file, by name,
// as far as they are there.
func CompiledLists(file string) (map[string]string, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for name := range s.Lists {
		path := filepath.Join(s.path(s.Data), "lists", name+".list")
		if _, err := os.Stat(path); err == nil {
			found[name] = path
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return found, nil
}

// ListConfigs says for every list of the settings in file where it is and how
// it is read. Lists that have not been fetched yet are left out.
func ListConfigs(file string) (map[string]list.Config, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	store, err := s.store()
	if err != nil {
		return nil, s.mistake(err)
	}
	found := map[string]list.Config{}
	for name, l := range s.Lists {
		_, cfg, fetched, err := l.Fetch.Resolve(l.Config)
		if err != nil {
			return nil, s.mistake(filter.Setting("lists."+name, err))
		}
		cfg.Path = s.path(cfg.Path)
		if fetched {
			cfg.Path = store.Path(name)
			if _, err := os.Stat(cfg.Path); errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		found[name] = cfg
	}
	return found, nil
}
