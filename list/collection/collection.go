// Package collection holds the lists of the settings: it reads or fetches, compiles, opens,
// changes and refreshes them.
//
// [Open] compiles changed lists into the data folder and opens all of them; the [Collection]
// never changes after that. A list that cannot be compiled keeps its last good version, and
// the collection reports a fault. A [source.Refresher] fetches due lists into the data folder
// and requests a reload, which opens the next collection.
package collection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/files"
	"shuultuur/list/source"
)

// Config is the lists of the settings, by name.
type Config map[string]List

// A List is read from a file or folder, or fetched.
type List struct {
	list.Config `yaml:",inline"`
	Fetch       source.Config `yaml:",inline"`
	// Zone is a response policy zone that the name server fetches: one of the secondary zones of
	// the settings. The list follows its changes.
	Zone string `yaml:"zone"`
	// ZoneFile is the name server's file of the zone.
	ZoneFile string `yaml:"-"`
}

// ofZone returns how to read the list of a zone.
func (l *List) ofZone() (cfg list.Config, err error) {
	cfg = l.Config
	switch {
	case cfg.Path != "" || l.Fetch.Source != "" || len(l.Fetch.URL) > 0:
		return cfg, setting.At("zone", errors.New("a list has only one of zone, path, source and url"))
	case cfg.Format != "" && cfg.Format != list.RPZ:
		return cfg, setting.At("format", fmt.Errorf("%q is not the format of a zone, which is rpz", cfg.Format))
	case l.ZoneFile == "":
		return cfg, setting.At("zone", fmt.Errorf("%q is not one of dns.zones.secondary; add it there, with its primaries", l.Zone))
	}
	cfg.Format, cfg.Path = list.RPZ, setting.Source(l.ZoneFile)
	_, _, _, err = l.Fetch.Resolve(cfg) // nothing else that only fetched lists have
	return cfg, err
}

// A Collection is the lists of the settings in use.
type Collection struct {
	Lists map[string]*list.File

	cfg     Config
	data    string            // folder
	aside   string            // folder for what a trial compiles; "" for none
	opened  map[string]string // the compiled file of each list
	fetched source.Items
	missing []string // lists that were not fetched yet
	reports map[string]list.Report
	faults  map[string]error // by name of the list
	files   []string
}

// Open compiles changed lists and opens all of them. Compiled lists are in the folder data. A
// list that cannot be compiled stays as in previous, which may be nil, or as last compiled
// with the same settings, and becomes one of the [Collection.Faults]. Without either version
// it is an error.
func Open(ctx context.Context, cfg Config, data string, previous *Collection, log *slog.Logger) (*Collection, error) {
	c := newCollection(cfg, data)
	if err := os.MkdirAll(c.compiled(), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder for compiled lists: %w", err)
	}
	return c, c.openAll(ctx, previous, log)
}

func newCollection(cfg Config, data string) *Collection {
	return &Collection{Lists: map[string]*list.File{}, cfg: cfg, data: data,
		fetched: source.Items{}, reports: map[string]list.Report{}, faults: map[string]error{}, opened: map[string]string{}}
}

func (c *Collection) openAll(ctx context.Context, previous *Collection, log *slog.Logger) error {
	anew := false
	for _, name := range c.inOrder() {
		rep, err := c.open(ctx, name, log)
		if err != nil {
			if ctx.Err() != nil || !c.keepPrevious(ctx, name, previous, err) {
				return setting.At(name, err)
			}
			c.faults[name] = setting.At(name, err)
			continue
		}
		anew = anew || !rep.Reused
	}
	if c.aside == "" {
		c.keepChanges(log)
	}
	if anew {
		debug.FreeOSMemory() // small machines need the memory that sorting took
	}
	return nil
}

// inOrder returns the names of the lists as they are opened: those that are fetched after the
// others, whose categories they must not enter.
func (c *Collection) inOrder() []string {
	names := slices.Sorted(maps.Keys(c.cfg))
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(c.cfg[a].fetched(), c.cfg[b].fetched())
	})
	return names
}

// fetched is 1 for a list that is fetched from the web, else 0.
func (l List) fetched() int {
	if l.Fetch.Source != "" || len(l.Fetch.URL) > 0 {
		return 1
	}
	return 0
}

// Owned reports whether only an owner may change the settings.
func (l List) Owned() bool { return l.Fetch.Owned() }

// compiled returns the folder of the compiled lists.
func (c *Collection) compiled() string { return filepath.Join(c.data, "lists") }

// file returns the path of the compiled list called name.
func (c *Collection) file(name string) string { return filepath.Join(c.compiled(), name+".list") }

// store returns the store of lists that are fetched with a client.
func (c *Collection) store(client *http.Client) *source.Store {
	return source.In(c.data, client)
}

// resolve returns where the list called name is fetched from, if it is, and how it is read,
// including its present or future path.
func (c *Collection) resolve(name string) (src source.Source, cfg list.Config, fetched bool, err error) {
	if !source.PlainName(name) {
		return src, cfg, false, fmt.Errorf("%q cannot name a list: use letters, digits, - and _", name)
	}
	l := c.cfg[name]
	if l.Zone != "" {
		cfg, err = l.ofZone()
		return src, cfg, false, err
	}
	if src, cfg, fetched, err = l.Fetch.Resolve(l.Config); !fetched || err != nil {
		return src, cfg, fetched, err
	}
	if cfg.Format == source.Rules {
		return src, cfg, false, setting.At("source", fmt.Errorf("%s contains signature rules and is not a list: name it under checks.signature.sources", l.Fetch.Source))
	}
	c.fix(name, src, &cfg)
	cfg.Path = setting.Source(c.store(nil).Path(name))
	return src, cfg, true, nil
}

// plan is resolve for a collection that is being built: it notes what is to be fetched. Whoever asks a
// collection in use must not change it, because others ask at the same time.
func (c *Collection) plan(name string) (src source.Source, cfg list.Config, fetched bool, err error) {
	if src, cfg, fetched, err = c.resolve(name); fetched && err == nil {
		how := cfg
		how.Path = ""
		c.fetched[name] = source.Item{Source: src, Try: source.TryList(name, how), Includes: how.Format == list.Auto || how.Format == list.Adblock || how.Format == "", How: setting.Digest(how) + fmt.Sprint(how.Barred)}
	}
	return src, cfg, fetched, err
}

// fix lets a fetched list be only what the settings say, or else what it was taken for at first: its
// format and its categories, which are none of another list.
func (c *Collection) fix(name string, src source.Source, cfg *list.Config) {
	st, err := c.store(nil).State(name)
	if err != nil || st.URL != src.Place() {
		st = source.State{}
	}
	if cfg.Format == "" || cfg.Format == list.Auto {
		cfg.Format = st.Format
	}
	if cfg.Category != "" || !cfg.Format.NamesCategories() {
		return
	}
	first := len(src.Categories)+len(st.Categories) == 0
	if len(cfg.Categories) == 0 && len(st.Categories) > 0 {
		cfg.Categories = slices.Concat(st.Categories, src.Categories)
	}
	for other := range c.cfg {
		if other == name {
			continue
		}
		for _, category := range c.owned(other, first) {
			if !slices.Contains(src.Categories, category) && !slices.Contains(cfg.Barred, category) {
				cfg.Barred = append(cfg.Barred, category)
			}
		}
	}
	slices.Sort(cfg.Barred)
}

// owned returns the categories of the list called name: those that the settings give it, and those
// of a list that is not fetched. With first it includes those that a fetched list was taken for.
func (c *Collection) owned(name string, first bool) []string {
	l := c.cfg[name]
	all := append([]string{name, cmp.Or(l.Category, name)}, l.Categories...)
	if l.fetched() == 1 {
		src, _, _, err := l.Fetch.Resolve(l.Config)
		if err != nil {
			return all
		}
		all = append(all, src.Categories...)
		if st, err := c.store(nil).State(name); first && l.Category == "" && err == nil && st.URL == src.Place() {
			all = append(all, st.Categories...)
		}
		return all
	}
	report, open := c.reports[name]
	if !open { // only looked at
		if f, err := list.Open(c.file(name)); err == nil {
			report, _ = f.Report()
			f.Close()
		}
	}
	return append(all, slices.Collect(maps.Keys(report.Categories))...)
}

// open compiles the list called name if it has changed, and opens it. A list that was not
// fetched yet is empty.
func (c *Collection) open(ctx context.Context, name string, log *slog.Logger) (report list.Report, err error) {
	src, cfg, fetched, err := c.plan(name)
	if err != nil {
		return report, err
	}
	dst := c.file(name)
	c.files = append(c.files, string(cfg.Path), dst+".overlay")
	if c.aside == "" {
		if err := c.mendChanges(name, log); err != nil {
			return report, err
		}
	}
	if fetched {
		if cfg.Digest, err = c.digest(name); err != nil {
			return report, err
		}
	} else if c.cfg[name].Zone == "" {
		before := cfg
		cfg.Accept = func(r *list.Report) error {
			if was, err := list.LastGood(name, before, c.file(name)); err == nil {
				return shrunk(r, &was)
			}
			return r.Useless() // there is nothing to compare it with
		}
	}
	start := time.Now()
	current := false
	if c.aside != "" {
		if report, current = list.Current(name, cfg, dst); !current {
			if dst, err = c.besides(name); err != nil {
				return report, err
			}
		}
	}
	c.opened[name] = dst
	_, err = os.Stat(string(cfg.Path))
	switch gone := errors.Is(err, fs.ErrNotExist); {
	case current:
		err = nil
	case gone && cfg.Digest != "":
		return report, &files.DamagedError{Why: "its file is gone"}
	case gone && (fetched || c.cfg[name].Zone != ""):
		c.missing = append(c.missing, name)
		err = source.In(cmp.Or(c.aside, c.data), nil).Empty(ctx, name, src, cfg, dst)
		report = list.Report{Name: name, Reused: true}
	default:
		report, err = list.Compile(ctx, name, cfg, dst)
	}
	if err != nil {
		return report, err
	}
	f, err := list.Open(dst)
	if err != nil {
		return report, err
	}
	c.take(name, f, report)
	if !report.Reused {
		log.Info("list compiled", "list", name, "entries", report.Entries, "refused", report.Bad, "took", time.Since(start).Round(time.Millisecond))
	}
	if report.Note != "" {
		log.Warn(report.Note, "list", name)
	}
	return report, nil
}

// digest returns the digest of the fetched version in use, "" if the list was never fetched. What
// is there without its record, or recorded and not there, is damaged.
func (c *Collection) digest(name string) (string, error) {
	store := c.store(nil)
	it, err := store.InUse(name, c.fetched[name])
	c.fetched[name] = it
	if err != nil {
		return "", &files.DamagedError{Why: err.Error()}
	}
	if it.InUse != "" {
		return it.InUse, nil
	}
	st, err := store.State(name)
	if err != nil {
		return "", &files.DamagedError{Why: err.Error()}
	}
	_, gone := os.Lstat(store.Path(name))
	_, compiled := c.compiledBefore(name)
	switch {
	case gone == nil:
		return "", &files.DamagedError{Why: "nothing says what was fetched"}
	case len(st.Versions) > 0 || compiled:
		return "", &files.DamagedError{Why: "its file is gone"}
	}
	return "", nil
}

// compiledBefore returns the report of the compiled list called name if it has entries and was made
// from what was fetched, with the same settings.
func (c *Collection) compiledBefore(name string) (report list.Report, ok bool) {
	_, cfg, _, err := c.resolve(name)
	if err != nil {
		return report, false
	}
	report, err = list.LastGood(name, cfg, c.file(name))
	return report, err == nil && !report.IsEmpty()
}

// keepPrevious keeps the list called name in its previous version, or as last compiled, or as an
// older fetched version has it, and reports whether there is one.
func (c *Collection) keepPrevious(ctx context.Context, name string, previous *Collection, fault error) bool {
	if c.cfg[name].Zone == "" && c.repair(ctx, name, previous, fault) {
		return true
	}
	if _, cfg, _, err := c.resolve(name); err == nil {
		// It is opened again, because entries may have been changed by hand since.
		if report, err := list.LastGood(name, cfg, c.file(name)); err == nil && c.openAs(name, c.file(name), report) {
			return true
		}
	}
	if previous == nil || previous.Lists[name] == nil || !reflect.DeepEqual(previous.cfg[name], c.cfg[name]) {
		return false
	}
	c.take(name, previous.Lists[name], previous.reports[name])
	return true
}

// repair keeps a list whose fetched version is damaged as good as possible until it is fetched
// again, which it asks for: as it was compiled before, as the newest older version has it, or else
// empty, as before the first fetch.
func (c *Collection) repair(ctx context.Context, name string, previous *Collection, fault error) bool {
	it, fetched := c.fetched[name]
	if damaged := (*files.DamagedError)(nil); !fetched || !errors.As(fault, &damaged) {
		return false
	}
	it.Damaged = true
	c.fetched[name] = it
	if report, ok := c.compiledBefore(name); ok && c.openAs(name, c.file(name), report) {
		return true
	}
	dst := c.file(name)
	if c.aside != "" {
		var err error
		if dst, err = c.besides(name); err != nil {
			return false
		}
	}
	src, cfg, _, err := c.resolve(name)
	if err != nil {
		return false
	}
	store := c.store(nil)
	for _, v := range store.Intact(name) {
		as := cfg
		as.Path, as.Digest = setting.Source(v.Path), v.SHA256
		report, err := list.Compile(ctx, name, as, dst)
		if err == nil && c.openAs(name, dst, report) {
			return true
		}
	}
	if previous != nil && !previous.Missing(name) && previous.Lists[name] != nil && reflect.DeepEqual(previous.cfg[name], c.cfg[name]) && verified(previous.Lists[name]) {
		c.take(name, previous.Lists[name], previous.reports[name])
		return true
	}
	if it.InUse == "" { // what is there cannot be compared with anything, and is better than nothing
		report, err := list.Compile(ctx, name, cfg, dst)
		if err == nil && !report.IsEmpty() && c.openAs(name, dst, report) {
			return true
		}
	}
	if err := source.In(cmp.Or(c.aside, c.data), nil).Empty(ctx, name, src, cfg, dst); err != nil {
		return false
	}
	c.missing = append(c.missing, name)
	return c.openAs(name, dst, list.Report{Name: name, Reused: true})
}

// openAs opens a file as the compiled list called name.
func (c *Collection) openAs(name, file string, report list.Report) bool {
	f, err := list.Open(file)
	if err != nil {
		return false
	}
	c.opened[name] = file
	c.take(name, f, report)
	return true
}

// verified reports whether a list that is open is undamaged, even if its file was cut short since.
func verified(f *list.File) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return f.Verify() == nil
}

func (c *Collection) take(name string, f *list.File, report list.Report) {
	c.Lists[name], c.reports[name] = f, report
	for _, src := range report.Sources { // including included files
		c.files = append(c.files, src.Path)
	}
}

// Files returns the files that the lists were read from, and those with manual changes, which
// need not exist.
func (c *Collection) Files() []string { return c.files }

// Faults returns why lists serve their last good version. They are [setting.Error]s below the
// name of the list.
func (c *Collection) Faults() (all []error) {
	for _, name := range slices.Sorted(maps.Keys(c.faults)) {
		all = append(all, c.faults[name])
	}
	return all
}

// Fetched returns the lists that are fetched.
func (c *Collection) Fetched() source.Items { return c.fetched }

// Reports returns the report of each list, sorted by name.
func (c *Collection) Reports() []list.Report {
	var all []list.Report
	for _, name := range slices.Sorted(maps.Keys(c.reports)) {
		all = append(all, c.reports[name])
	}
	return all
}

// Missing reports whether the list called name was not fetched yet.
func (c *Collection) Missing(name string) bool { return slices.Contains(c.missing, name) }

// HasAddresses reports whether a list contains addresses.
func (c *Collection) HasAddresses() bool {
	for _, f := range c.Lists {
		if f.HasAddresses() {
			return true
		}
	}
	return false
}

// Problems returns the faults that keep the lists from working, for the operator. Refused
// lines are not included: metrics, the page of lists and "shuultuur check" show them.
func (c *Collection) Problems() (all []problem.Problem) {
	add := func(k problem.Kind, text string) { all = append(all, problem.Problem{Kind: k, Text: text}) }
	var waiting []string
	for _, name := range c.missing {
		if c.faults[name] == nil {
			waiting = append(waiting, name)
		}
	}
	switch n := len(waiting); n {
	case 0:
	case 1:
		add(problem.Awaited, fmt.Sprintf("list %s: not fetched yet and empty until then", waiting[0]))
	default:
		add(problem.Awaited, fmt.Sprintf("%d lists have not been fetched yet and are empty: %s", n, strings.Join(waiting, ", ")))
	}
	for _, name := range slices.Sorted(maps.Keys(c.faults)) {
		until := "its last good version serves until this is mended"
		switch shrunk := (*shrunkError)(nil); {
		case errors.As(c.faults[name], &shrunk):
			until = fmt.Sprintf("its last good version serves until this is mended; if it is right, delete %s and reload", c.file(name))
		case c.Missing(name):
			until = "no good version is left, and it is empty until it is fetched again"
		case c.fetched[name].Damaged:
			until = "its last good version serves until it is fetched again"
		}
		add(problem.Because(problem.Lists, c.faults[name]), fmt.Sprintf("%s; %s", setting.At("lists", c.faults[name]), until))
	}
	for _, name := range slices.Sorted(maps.Keys(c.reports)) {
		if r := c.reports[name]; r.Bad > 0 && r.IsEmpty() {
			add(problem.Lists, fmt.Sprintf("list %s: all of its lines are refused, so it has no entries; is its file a list, and of this format?", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.reports)) {
		if out := c.reports[name].Outside; len(out) > 0 {
			add(problem.Lists, fmt.Sprintf("list %s: it names categories that it may not, whose entries are left out: %s; if they are right, name its categories in lists.%s.categories", name, strings.Join(out, ", "), name))
		}
	}
	return all
}

// Print writes the report of each list, with every notable line.
func (c *Collection) Print(w io.Writer) {
	for _, r := range c.Reports() {
		for _, p := range r.Problems {
			fmt.Fprintln(w, p)
		}
		fmt.Fprintf(w, "list %s: %d entries, %d of them URLs, %d categories; %d lines, %d refused, %d ignored, %d twice\n",
			r.Name, r.Entries, r.URLs, len(r.Categories), r.Lines, r.Bad, r.Ignored, r.Duplicates)
	}
	for _, name := range c.missing {
		fmt.Fprintf(w, "list %s: not fetched yet and empty until then; \"shuultuur list update\" fetches it\n", name)
	}
}
