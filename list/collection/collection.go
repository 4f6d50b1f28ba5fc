// Package collection holds the lists of the settings: read from files or
// fetched, compiled, opened, changed by hand and kept fresh.
//
// Data moves so. [Open] compiles what has changed into the data folder and
// opens every list; the [Collection] never changes after that. A list that
// cannot be compiled keeps its last good version, which is a fault that the
// collection reports. A [source.Refresher] fetches lists that are due into
// the data folder and asks for a reload, which opens the next collection.
package collection

import (
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

	"shuultuur/list"
	"shuultuur/list/source"
	"shuultuur/setting"
)

// Config is the lists of the settings, by name.
type Config map[string]List

// A List is read from a file or folder, or else fetched.
type List struct {
	list.Config `yaml:",inline"`
	Fetch       source.Config `yaml:",inline"`
	// Zone is a response policy zone that the name server fetches: one of the
	// secondary zones of the settings. The list changes with it.
	Zone string `yaml:"zone"`
	// ZoneFile is the file that the name server keeps the zone in.
	ZoneFile string `yaml:"-"`
}

// ofZone says how the list of a zone is read.
func (l *List) ofZone() (cfg list.Config, err error) {
	cfg = l.Config
	switch {
	case cfg.Path != "" || l.Fetch.Source != "" || l.Fetch.URL != "":
		return cfg, setting.At("zone", errors.New("a list has a zone, a path, a source or a url, not several"))
	case cfg.Format != "" && cfg.Format != list.RPZ:
		return cfg, setting.At("format", fmt.Errorf("%q is not the format of a zone, which is rpz", cfg.Format))
	case l.ZoneFile == "":
		return cfg, setting.At("zone", fmt.Errorf("%q is not one of dns.zones.secondary; add it there, with its primaries", l.Zone))
	}
	cfg.Format, cfg.Path = list.RPZ, setting.Source(l.ZoneFile)
	_, _, _, err = l.Fetch.Resolve(cfg) // nothing else that is for lists on the web
	return cfg, err
}

// A Collection is the lists of the settings as they are in use.
type Collection struct {
	Lists map[string]*list.File

	cfg     Config
	data    string // folder
	fetched source.Items
	missing []string // lists that have not been fetched yet
	reports map[string]list.Report
	faults  map[string]error // by the name of the list
	files   []string
}

// Open compiles the lists that have changed and opens all of them. Compiled
// lists are in the folder data. previous may be nil; a list that cannot be
// compiled stays as it is there, or as it was last compiled with the same
// settings, and is one of the [Collection.Faults]. Without either it is an
// error.
func Open(ctx context.Context, cfg Config, data string, previous *Collection, log *slog.Logger) (*Collection, error) {
	c := &Collection{Lists: map[string]*list.File{}, cfg: cfg, data: data,
		fetched: source.Items{}, reports: map[string]list.Report{}, faults: map[string]error{}}
	if err := os.MkdirAll(c.compiled(), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder for compiled lists: %w", err)
	}
	anew := false
	for _, name := range slices.Sorted(maps.Keys(cfg)) {
		rep, err := c.open(ctx, name, log)
		if err != nil {
			if ctx.Err() != nil || !c.stays(name, previous) {
				return nil, setting.At(name, err)
			}
			c.faults[name] = setting.At(name, err)
			continue
		}
		anew = anew || !rep.Reused
	}
	if anew {
		debug.FreeOSMemory() // a small machine needs the memory that sorting took
	}
	return c, nil
}

// compiled is the folder of the compiled lists.
func (c *Collection) compiled() string { return filepath.Join(c.data, "lists") }

// file is where the list called name is compiled to.
func (c *Collection) file(name string) string { return filepath.Join(c.compiled(), name+".list") }

// store returns the store of lists that are fetched with a client.
func (c *Collection) store(client *http.Client) *source.Store {
	return source.In(c.data, client)
}

// resolve says from where the list called name is fetched, if it is, and how
// it is read: with the path where it is or will be.
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
		return src, cfg, false, setting.At("source", fmt.Errorf("%s has signature rules, and is no list: name it under checks.signature.sources", l.Fetch.Source))
	}
	c.fetched[name] = source.Item{Source: src, Try: source.TryList(name, cfg)}
	cfg.Path = setting.Source(c.store(nil).Path(name))
	return src, cfg, true, nil
}

// open compiles the list called name if it has changed, and opens it. One that
// is still to be fetched is empty.
func (c *Collection) open(ctx context.Context, name string, log *slog.Logger) (report list.Report, err error) {
	src, cfg, fetched, err := c.resolve(name)
	if err != nil {
		return report, err
	}
	dst := c.file(name)
	c.files = append(c.files, string(cfg.Path), dst+".overlay")
	if fetched {
		if c.fetched[name], err = c.store(nil).Used(name, c.fetched[name]); err != nil {
			return report, err
		}
	}
	start := time.Now()
	if _, gone := os.Stat(string(cfg.Path)); (fetched || c.cfg[name].Zone != "") && errors.Is(gone, fs.ErrNotExist) {
		c.missing = append(c.missing, name)
		err = c.store(nil).Empty(ctx, name, src, cfg, dst)
		report = list.Report{Name: name, Reused: true}
	} else {
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

func (c *Collection) take(name string, f *list.File, report list.Report) {
	c.Lists[name], c.reports[name] = f, report
	for _, src := range report.Sources { // with those that are included
		c.files = append(c.files, src.Path)
	}
}

// stays has the list called name stay as it is, or as it was last compiled,
// and says whether there is such a version of it.
func (c *Collection) stays(name string, previous *Collection) bool {
	if previous != nil {
		f := previous.Lists[name]
		if f == nil || !reflect.DeepEqual(previous.cfg[name], c.cfg[name]) {
			return false
		}
		c.take(name, f, previous.reports[name])
		return true
	}
	_, cfg, _, err := c.resolve(name)
	if err != nil {
		return false
	}
	report, err := list.LastGood(name, cfg, c.file(name))
	if err != nil {
		return false
	}
	f, err := list.Open(c.file(name))
	if err != nil {
		return false
	}
	c.take(name, f, report)
	return true
}

// Files are the files that the lists were read from, and those with changes
// made by hand, which need not exist.
func (c *Collection) Files() []string { return c.files }

// Faults say why lists are not what their files say: each serves from its last
// good version. They are [setting.Error]s below the name of the list.
func (c *Collection) Faults() (all []error) {
	for _, name := range slices.Sorted(maps.Keys(c.faults)) {
		all = append(all, c.faults[name])
	}
	return all
}

// Fetched are the lists that are fetched.
func (c *Collection) Fetched() source.Items { return c.fetched }

// Reports says what became of the lines of each list, in the order of their
// names.
func (c *Collection) Reports() []list.Report {
	var all []list.Report
	for _, name := range slices.Sorted(maps.Keys(c.reports)) {
		all = append(all, c.reports[name])
	}
	return all
}

// Missing says whether the list called name has not been fetched yet.
func (c *Collection) Missing(name string) bool { return slices.Contains(c.missing, name) }

// HasAddresses says whether a list knows addresses.
func (c *Collection) HasAddresses() bool {
	for _, f := range c.Lists {
		if f.HasAddresses() {
			return true
		}
	}
	return false
}

// Problems are what keeps the lists from doing their work, for the operator.
// Lines that were refused are not: they are in metrics, on the page of lists and
// in what "shuultuur check" prints.
func (c *Collection) Problems() []string {
	switch n := len(c.missing); n {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("list %s: not fetched yet, and empty until it is", c.missing[0])}
	default:
		return []string{fmt.Sprintf("%d lists are not fetched yet, and empty until they are: %s", n, strings.Join(c.missing, ", "))}
	}
}

// Print writes what became of the lists, with every line that is worth a look.
func (c *Collection) Print(w io.Writer) {
	for _, r := range c.Reports() {
		for _, p := range r.Problems {
			fmt.Fprintln(w, p)
		}
		fmt.Fprintf(w, "list %s: %d entries, %d of them URLs, %d categories; %d lines, %d refused, %d ignored, %d twice\n",
			r.Name, r.Entries, r.URLs, len(r.Categories), r.Lines, r.Bad, r.Ignored, r.Duplicates)
	}
	for _, name := range c.missing {
		fmt.Fprintf(w, "list %s: not fetched yet, and empty until it is; \"shuultuur list update\" fetches it\n", name)
	}
}
