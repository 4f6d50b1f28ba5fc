package zone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

// Config is the settings of zone files.
type Config struct {
	Files []File `yaml:"files,omitempty"`
	// Reread is how often the files are checked for changes; default 1s. With off they are read
	// only at start and reload.
	Reread setting.Duration `yaml:"reread,omitempty"`
}

// A File is a zone file, or a folder in which each *.zone is one.
type File struct {
	Path setting.Source `yaml:"path"`
	// Origin is the zone's name; default: the file name without .zone.
	Origin string `yaml:"origin,omitempty"`
	// View and Clients: see [Zone].
	View    string           `yaml:"view,omitempty"`
	Clients setting.Networks `yaml:"clients,omitempty" names:"people"`
}

// A Target serves zones: a [Responder], or the signer and announcer before it.
type Target interface {
	Replace(zones ...*Zone) error
	Remove(origin, view string) bool
}

// A Fault is a zone that is not served as in its file.
type Fault struct {
	Key          string // of the settings: "files[0].path"
	Origin, View string // Origin is "" for a folder that cannot be listed
	Err          error
	Instead      string // the substitute that is served
}

func (f Fault) String() string {
	if f.Origin == "" {
		return fmt.Sprintf("zone files: %v; %s", f.Err, f.Instead)
	}
	name := f.Origin
	if f.View != "" {
		name += " (view " + f.View + ")"
	}
	return fmt.Sprintf("zone %s cannot be read: %v; %s", name, f.Err, f.Instead)
}

// Files are the zone files of the settings. They pass zones to a Target, and again when the
// files change.
type Files struct {
	cfg    Config
	reread time.Duration
	copies copies
	to     Target
	log    *slog.Logger

	reading sync.Mutex // held while files are read or written
	sources []*source

	mu     sync.Mutex
	faults []Fault            // of the last round, in the order of the settings
	served map[[2]string]bool // zones that were served after it, by origin and view
}

// A source is one zone file and its state.
type source struct {
	File
	key    string  // of the settings
	err    error   // why it cannot be read
	lost   bool    // it is a folder that cannot be listed
	stamps []stamp // of the files that were last read
	seen   []stamp // of a change seen once: it is read when seen twice, as it may still be being written
	served bool    // its zone, or its last good copy, is served
	copied bool    // the last good copy equals the file

	outside []Outside
	fault   *Fault
}

// A stamp identifies a version of a file.
type stamp struct {
	path string
	size int64
	time time.Time
}

// NewFiles reads all zones of the settings and passes them to a Target. An error is a mistake
// in the settings. A zone whose file has a mistake is a fault: the Target keeps the zone if
// previous served it. Otherwise it gets the last good copy from folder, or a zone that is
// unavailable. previous may be nil; folder may be "" for no copies.
func NewFiles(cfg Config, folder string, to Target, previous *Files, log *slog.Logger) (*Files, error) {
	f := &Files{cfg: cfg, reread: cfg.Reread.Or(time.Second), copies: copies{folder}, to: to, log: log}
	var err error
	if f.sources, err = f.list(); err != nil {
		return nil, err
	}
	for _, s := range f.sources {
		s.served = previous.has(s.Origin, s.View)
		// One at a time: records take many times the memory of the compiled zone.
		if err := f.serve(s); err != nil {
			f.fallBack(s, err)
		}
	}
	f.report()
	return f, nil
}

// has reports whether a zone was served from a file after the last round. Run may be running.
func (f *Files) has(origin, view string) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.served[[2]string{origin, view}]
}

// Has reports whether a zone belongs to a file of the settings. Do not call it while Run runs.
func (f *Files) Has(origin, view string) bool {
	return slices.ContainsFunc(f.sources, func(s *source) bool { return s.Origin == origin && s.View == view })
}

// Path returns the path of the file of a zone, "" for none.
func (f *Files) Path(origin, view string) string {
	sources, err := f.list()
	if err != nil {
		return ""
	}
	for _, s := range sources {
		if s.Origin == origin && s.View == view && !s.lost {
			return string(s.Path)
		}
	}
	return ""
}

// Folder returns the first folder of the settings whose zones everybody sees, "" for none.
func (f *Files) Folder() string {
	for _, file := range f.cfg.Files {
		if info, err := os.Stat(string(file.Path)); err == nil && info.IsDir() && file.View == "" && len(file.Clients) == 0 {
			return string(file.Path)
		}
	}
	return ""
}

// IndexOf returns the index of the entry of the settings that names a file itself, not its
// folder; -1 for none.
func (f *Files) IndexOf(path string) int {
	return slices.IndexFunc(f.cfg.Files, func(file File) bool { return string(file.Path) == path })
}

// Faults lists the zones that are not served as in their files.
func (f *Files) Faults() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.faults)
}

// report publishes which sources are served and their faults, and logs new ones.
func (f *Files) report() {
	var now []Fault
	served := map[[2]string]bool{}
	for _, s := range f.sources {
		if s.served {
			served[[2]string{s.Origin, s.View}] = true
		}
		if s.fault != nil {
			now = append(now, *s.fault)
		}
	}
	f.mu.Lock()
	before := f.faults
	f.faults, f.served = now, served
	f.mu.Unlock()
	for _, x := range now {
		if !slices.ContainsFunc(before, func(o Fault) bool { return o.String() == x.String() }) {
			f.log.Error(x.String())
		}
	}
}

// list lists the zone files that exist now. An error is a mistake in the settings; an
// unreadable file is a source with an err.
func (f *Files) list() ([]*source, error) {
	var all []*source
	taken := map[string]string{}
	for i, file := range f.cfg.Files {
		key := fmt.Sprintf("files[%d]", i)
		if err := file.validate(); err != nil {
			return nil, setting.At(key, err)
		}
		for _, s := range f.expand(file, key+".path") {
			name := s.Origin + " " + s.View
			if other := taken[name]; other != "" && s.Origin != "" {
				return nil, setting.At(key, fmt.Errorf("zone %q of view %q is in %q and %q: give one of them another view", s.Origin, s.View, other, s.Path))
			}
			taken[name] = string(s.Path)
			all = append(all, s)
		}
	}
	return all, nil
}

// validate returns the first mistake in f that shows without the files.
func (f File) validate() error {
	if f.Path == "" {
		return setting.At("path", errors.New("give a file or a folder"))
	}
	for i, p := range f.Clients {
		if !p.IsValid() {
			return setting.At(fmt.Sprintf("clients[%d]", i), errors.New("not a network: write 192.0.2.0/24 or 2001:db8::/32"))
		}
		if p.Masked() != p {
			return setting.At(fmt.Sprintf("clients[%d]", i), fmt.Errorf("%v has bits set beyond its length: write %v", p, p.Masked()))
		}
	}
	if f.Origin != "" {
		if _, err := dns.Name(f.Origin); err != nil {
			return setting.At("origin", err)
		}
		if info, err := os.Stat(string(f.Path)); err == nil && info.IsDir() {
			return setting.At("origin", fmt.Errorf("%q is a folder: the names of its files are their origins", f.Path))
		}
	}
	return nil
}

// expand finds the zone files of one entry of the settings. For a folder that cannot be
// listed, it returns those that have copies.
func (f *Files) expand(file File, key string) []*source {
	path := string(file.Path)
	one := func(path string) *source {
		s := &source{File: file, key: key}
		s.Path = setting.Source(path)
		if s.Origin == "" {
			s.Origin = strings.TrimSuffix(filepath.Base(path), ".zone")
		}
		if name, err := dns.Name(s.Origin); err != nil {
			s.Origin, s.err = "", fmt.Errorf("%s: the name of the file is not that of a zone: %w", path, err)
		} else {
			s.Origin = dns.Text(name)
		}
		return s
	}
	info, err := os.Stat(path)
	lost := errors.Is(err, fs.ErrNotExist) && file.Origin == "" && filepath.Ext(path) != ".zone" && !f.copies.has(path)
	if err == nil && !info.IsDir() || err != nil && !lost {
		return []*source{one(path)}
	}
	var names []string
	if err == nil {
		names, err = zoneFiles(path)
	}
	if err != nil {
		sources := []*source{{File: File{Path: file.Path}, key: key, err: err, lost: true}}
		for _, name := range f.copies.zoneFilesIn(path) {
			s := one(name)
			s.err = err
			sources = append(sources, s)
		}
		return sources
	}
	var sources []*source
	for _, name := range names {
		sources = append(sources, one(filepath.Join(path, name)))
	}
	return sources
}

// zoneFiles lists the zone files in a folder.
func zoneFiles(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".zone") && !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// read reads the zone and notes the stamps of its files.
func (s *source) read() (*Zone, error) {
	s.stamps = stampsOf([]string{string(s.Path)}) // before reading, so that a change in the meantime is noticed
	if s.err != nil {
		return nil, s.err
	}
	z, err := ReadFile(string(s.Path), s.Origin)
	if err != nil {
		return nil, err
	}
	if included := stampsOf(z.files); len(included) > 1 {
		s.stamps = included
	}
	z.View, z.Clients = s.View, s.Clients
	s.outside = z.Outside()
	return z, nil
}

// stampsOf takes the stamps of files. A missing file has an empty one.
func stampsOf(paths []string) []stamp {
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

// serve reads a zone and passes it to the Target.
func (f *Files) serve(s *source) error {
	z, err := s.read()
	if err == nil {
		err = f.copies.damaged(s)
	}
	if err != nil {
		return err
	}
	if err := f.to.Replace(z); err != nil {
		if s.Path != "" && !strings.Contains(err.Error(), string(s.Path)) {
			err = fmt.Errorf("%s: %w", s.Path, err)
		}
		return err
	}
	s.served, s.copied, s.fault = true, false, nil
	if len(s.outside) > 0 {
		f.log.Warn("records outside the zone are not served", "zone", s.Origin, "records", len(s.outside), "first", s.outside[0].String())
	}
	return nil
}

// fallBack serves the best replacement for a bad file: the zone as it is served already, else the
// last good copy, else SERVFAIL.
func (f *Files) fallBack(s *source, err error) {
	s.fault = &Fault{Key: s.key, Origin: s.Origin, View: s.View, Err: err, Instead: "it is served as it was before"}
	s.copied = true // the copy is better than the file
	switch {
	case s.lost:
		s.fault.Instead = "its zones are served from their last good copies"
		return
	case s.Origin == "":
		s.fault.Instead = "the file is ignored"
		return
	case s.served:
		return
	}
	z, at, failed := f.copies.read(s)
	if failed == nil {
		failed = f.to.Replace(z)
	}
	if failed == nil {
		s.served = true
		s.fault.Instead = "it is served from its last good copy, of " + at.Format(time.RFC3339)
		return
	}
	s.fault.Instead = "there is no good copy: its names answer SERVFAIL"
	if !errors.Is(failed, fs.ErrNotExist) {
		s.fault.Instead = fmt.Sprintf("its last good copy cannot be used either: %v; its names answer SERVFAIL", failed)
	}
	if failed := f.to.Replace(&Zone{Origin: s.Origin, View: s.View, Clients: s.Clients, Unavailable: "the file of this zone cannot be read"}); failed != nil {
		s.fault.Instead += fmt.Sprintf("; that failed: %v", failed)
	}
}

// Run reads changed files, adds new files in folders and removes zones whose file is gone,
// until ctx ends. A zone with a mistake stays as it is served. It keeps a last good copy of
// each zone that was read.
func (f *Files) Run(ctx context.Context) error {
	f.once(f.keepCopies)
	if f.reread == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(f.reread)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			f.once(f.keepCopies)
			return nil
		case <-tick.C:
			f.once(f.round, f.keepCopies)
		}
	}
}

// once does things while nobody else reads or writes files.
func (f *Files) once(do ...func()) {
	f.reading.Lock()
	defer f.reading.Unlock()
	for _, each := range do {
		each()
	}
}

// Write replaces the file at path by a text, durably, and serves its zone, which is z. After an error
// the file is as it was, unless the error is [ErrNotServed].
func (f *Files) Write(path string, text []byte, z *Zone) error {
	f.reading.Lock()
	defer f.reading.Unlock()
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := atomicfile.WriteBytes(path, mode, text); err != nil {
		return err
	}
	i := slices.IndexFunc(f.sources, func(s *source) bool { return string(s.Path) == path && s.Origin == z.Origin })
	if i < 0 {
		return nil // a new file, which the next round reads
	}
	s := f.sources[i]
	z.View, z.Clients = s.View, s.Clients
	if err := f.to.Replace(z); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrNotServed, err)
	}
	s.stamps, s.seen, s.outside = stampsOf(z.files), nil, z.Outside()
	s.served, s.copied, s.fault, s.err = true, false, nil, nil
	if f.copies.damaged(s) != nil { // it is less than half of the copy, on purpose
		f.keepCopies()
	}
	f.report()
	return nil
}

// ErrNotServed reports that a file was written, and its zone is served as it was before.
var ErrNotServed = errors.New("the file is written, but the zone cannot be served as it is there")

// keepCopies copies the zones that were read since the last copy.
func (f *Files) keepCopies() {
	for _, s := range f.sources {
		if s.served && !s.copied {
			s.copied = true
			if err := f.copies.write(s); err != nil {
				f.log.Error("the last good copy of a zone cannot be written", "zone", s.Origin, "file", s.Path, "error", err)
			}
		}
	}
}

// round checks all files once.
func (f *Files) round() {
	f.relist()
	for _, s := range f.sources {
		var paths []string
		for _, st := range s.stamps {
			paths = append(paths, st.path)
		}
		now := stampsOf(paths)
		if same(now, s.stamps) {
			s.seen = nil
			continue
		}
		if !same(now, s.seen) { // it may still be being written
			s.seen = now
			continue
		}
		s.seen = nil
		if err := f.serve(s); err != nil {
			s.stamps = now
			f.fallBack(s, err)
			continue
		}
		f.log.Info("zone read again", "zone", s.Origin, "file", s.Path)
	}
	f.report()
}

// relist adds new files in folders and removes zones whose file is gone. A file that the
// settings name stays a source.
func (f *Files) relist() {
	now, err := f.list()
	lost := func(s *source) bool { return s.lost }
	if i := slices.IndexFunc(now, lost); i >= 0 {
		err = now[i].err
	}
	if err != nil {
		f.unlisted(err)
		return
	}
	f.sources = slices.DeleteFunc(f.sources, lost)
	at := func(all []*source, s *source) int {
		return slices.IndexFunc(all, func(o *source) bool { return o.Path == s.Path && o.Origin == s.Origin && o.View == s.View })
	}
	f.sources = slices.DeleteFunc(f.sources, func(s *source) bool {
		gone := at(now, s) < 0
		if gone {
			f.to.Remove(s.Origin, s.View)
			f.copies.remove(s)
			f.log.Info("zone removed: its file is gone", "zone", s.Origin, "file", s.Path)
		}
		return gone
	})
	for _, s := range now {
		i := at(f.sources, s)
		if i < 0 {
			s.stamps = []stamp{{path: string(s.Path)}} // differs from the file, so that it is read
			f.sources = append(f.sources, s)
		} else if f.sources[i].err != nil && s.err == nil {
			f.sources[i].err, f.sources[i].stamps = nil, []stamp{{path: string(s.Path)}}
		}
	}
	slices.SortStableFunc(f.sources, func(a, b *source) int { return cmp.Compare(a.key, b.key) })
}

// unlisted notes that the files cannot be listed. The zones stay.
func (f *Files) unlisted(err error) {
	fault := &Fault{Key: "files", Err: err, Instead: "zones stay as they are"}
	if i := slices.IndexFunc(f.sources, func(s *source) bool { return s.lost }); i >= 0 {
		f.sources[i].fault = fault
		return
	}
	f.sources = append(f.sources, &source{lost: true, fault: fault})
}

func same(a, b []stamp) bool {
	return slices.EqualFunc(a, b, func(x, y stamp) bool { return x.path == y.path && x.size == y.size && x.time.Equal(y.time) })
}
