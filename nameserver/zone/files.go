package zone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/filter"
)

// Config is the settings of zones that are read from files.
type Config struct {
	Files []File `yaml:"files"`
	// Reread is how often the files are looked at for changes; default 1s.
	Reread time.Duration `yaml:"reread"`
}

// A File is a zone file, or a folder of which every file *.zone is one.
type File struct {
	Path string `yaml:"path"`
	// Origin is the zone's name; default is that of the file without .zone.
	Origin string `yaml:"origin"`
	// View and Clients: see [Zone].
	View    string         `yaml:"view"`
	Clients []netip.Prefix `yaml:"clients"`
}

// source is one zone file, and what is known of it.
type source struct {
	File
	stamps []stamp // of the files the served zone was made of
	seen   []stamp // when a change was seen first: it is read when it has come to rest
	served string  // origin that is served from it
}

// stamp is what a file looked like.
type stamp struct {
	path string
	size int64
	time time.Time
}

// A Target is who serves zones: a [Responder], or who signs and announces them
// before.
type Target interface {
	Replace(zones ...*Zone) error
	Remove(origin, view string) bool
}

// Files are the zone files of the settings, served by a Target and read again
// when they change.
type Files struct {
	cfg     Config
	to      Target
	log     *slog.Logger
	sources []*source
}

// Load reads all zones of the settings. Mistakes are named by setting, file
// and line, all of them at once.
func Load(cfg Config) ([]*Zone, error) {
	sources, err := cfg.sources()
	if err != nil {
		return nil, err
	}
	var zones []*Zone
	var errs []error
	for _, s := range sources {
		z, err := s.read()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		zones = append(zones, z)
	}
	return zones, errors.Join(errs...)
}

// NewFiles reads all zones of the settings and has a Target serve them. A
// mistake in one is an error; zones without are served all the same, so that
// who starts may go on.
func NewFiles(cfg Config, to Target, log *slog.Logger) (*Files, error) {
	if cfg.Reread == 0 {
		cfg.Reread = time.Second
	}
	f := &Files{cfg: cfg, to: to, log: log}
	var err error
	if f.sources, err = cfg.sources(); err != nil {
		return nil, err
	}
	var errs []error
	for _, s := range f.sources {
		// One at a time: a zone as read is many times what is served.
		if err := f.serve(s); err != nil {
			errs = append(errs, err)
		}
	}
	return f, errors.Join(errs...)
}

// sources lists the zone files there are now.
func (c Config) sources() ([]*source, error) {
	if c.Reread < 0 {
		return nil, filter.Setting("reread", fmt.Errorf("%v is less than nothing", c.Reread))
	}
	var all []*source
	taken := map[string]string{}
	for i, f := range c.Files {
		key := fmt.Sprintf("files[%d]", i)
		files, err := f.expand()
		if err != nil {
			return nil, filter.Setting(key, err)
		}
		for _, one := range files {
			name := one.Origin + " " + one.View
			if other := taken[name]; other != "" {
				return nil, filter.Setting(key, fmt.Errorf("zone %q of view %q is in %q and %q", one.Origin, one.View, other, one.Path))
			}
			taken[name] = one.Path
			all = append(all, &source{File: one})
		}
	}
	return all, nil
}

// expand finds the zone files of one entry of the settings.
func (f File) expand() ([]File, error) {
	if f.Path == "" {
		return nil, filter.Setting("path", errors.New("a file or folder is needed"))
	}
	for i, p := range f.Clients {
		if !p.IsValid() {
			return nil, filter.Setting(fmt.Sprintf("clients[%d]", i), errors.New("not a network"))
		}
		if p.Masked() != p {
			return nil, filter.Setting(fmt.Sprintf("clients[%d]", i), fmt.Errorf("%v is an address in a network: write %v", p, p.Masked()))
		}
	}
	info, err := os.Stat(f.Path)
	if err != nil {
		return nil, filter.Setting("path", err)
	}
	if !info.IsDir() {
		if f.Origin == "" {
			f.Origin = strings.TrimSuffix(filepath.Base(f.Path), ".zone")
		}
		name, err := wireName(f.Origin)
		if err != nil {
			return nil, filter.Setting("origin", err)
		}
		f.Origin = printName(name)
		return []File{f}, nil
	}
	if f.Origin != "" {
		return nil, filter.Setting("origin", fmt.Errorf("%q is a folder: its files' names are their origins", f.Path))
	}
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, filter.Setting("path", err)
	}
	var files []File
	for _, e := range entries {
		origin, ok := strings.CutSuffix(e.Name(), ".zone")
		if !ok || strings.HasPrefix(e.Name(), ".") || e.IsDir() {
			continue
		}
		name, err := wireName(origin)
		if err != nil {
			return nil, filter.Setting("path", fmt.Errorf("%q: %w", filepath.Join(f.Path, e.Name()), err))
		}
		files = append(files, File{filepath.Join(f.Path, e.Name()), printName(name), f.View, f.Clients})
	}
	return files, nil
}

// read reads the zone and notes what it was made of.
func (s *source) read() (*Zone, error) {
	s.stamps = look([]string{s.Path}) // before: a change meanwhile is seen
	z, err := ReadFile(s.Path, s.Origin)
	if err != nil {
		return nil, err
	}
	if included := look(z.files); len(included) > 1 {
		s.stamps = included
	}
	z.View, z.Clients = s.View, s.Clients
	return z, nil
}

// look takes stamps of files. One that is not there has an empty one.
func look(paths []string) []stamp {
	var all []stamp
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			all = append(all, stamp{path: p})
			continue
		}
		all = append(all, stamp{p, info.Size(), info.ModTime()})
	}
	return all
}

// serve reads a zone and has it served.
func (f *Files) serve(s *source) error {
	z, err := s.read()
	if err != nil {
		return err
	}
	if err := f.to.Replace(z); err != nil {
		return fmt.Errorf("%s: %w", s.Path, err)
	}
	s.served = s.Origin
	return nil
}

// Run reads zones again when their files have changed and come to rest, takes
// up new ones and drops those whose file has gone, until ctx ends. A zone with
// a mistake stays as it is served, and the mistake is logged once.
func (f *Files) Run(ctx context.Context) error {
	tick := time.NewTicker(f.cfg.Reread)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			f.reread()
		}
	}
}

func (f *Files) reread() {
	f.list()
	for _, s := range f.sources {
		var paths []string
		for _, st := range s.stamps {
			paths = append(paths, st.path)
		}
		now := look(paths)
		if same(now, s.stamps) {
			s.seen = nil
			continue
		}
		if !same(now, s.seen) { // it may still be written
			s.seen = now
			continue
		}
		s.seen = nil
		if err := f.serve(s); err != nil {
			s.stamps = now
			f.log.Error("zone not read again: it is served as it was", "zone", s.Origin, "error", err)
			continue
		}
		f.log.Info("zone read again", "zone", s.Origin, "file", s.Path)
	}
}

// list takes up files that are new in a folder and drops zones whose file has
// gone.
func (f *Files) list() {
	now, err := f.cfg.sources()
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.log.Error("zone files not listed", "error", err)
		}
		return
	}
	at := func(all []*source, s *source) int {
		return slices.IndexFunc(all, func(o *source) bool { return o.Path == s.Path && o.Origin == s.Origin && o.View == s.View })
	}
	f.sources = slices.DeleteFunc(f.sources, func(s *source) bool {
		gone := at(now, s) < 0
		if gone && s.served != "" {
			f.to.Remove(s.Origin, s.View)
			f.log.Info("zone dropped: its file has gone", "zone", s.Origin, "file", s.Path)
		}
		return gone
	})
	for _, s := range now {
		if at(f.sources, s) < 0 {
			s.stamps = []stamp{{path: s.Path}} // unlike what is there, so it is read
			f.sources = append(f.sources, s)
		}
	}
}

func same(a, b []stamp) bool {
	return slices.EqualFunc(a, b, func(x, y stamp) bool { return x.path == y.path && x.size == y.size && x.time.Equal(y.time) })
}
