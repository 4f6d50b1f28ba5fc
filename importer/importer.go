// Package importer converts the settings of other filters to ours: e2guardian, DansGuardian,
// squidGuard, Squid, Pi-hole, AdGuard Home, Blocky, Unbound, dnsmasq, Privoxy, Technitium,
// NextDNS, OPNsense.
//
// Data moves as follows: [Run] reads the other program's configuration and writes a settings
// file into a folder. The settings name the lists where they are, or copies of lists in formats
// that we cannot read. Then it compiles every list once, as the gateway will. A [Report],
// written beside the settings as text and HTML, lists what was carried over, what was not and
// why, and every line of a list that does not have its apparent effect.
//
// A decision should be that of the other program, except for its faults. Where our settings
// cannot express it, the report says so; nothing is omitted silently.
package importer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"shuultuur/check/category"
	"shuultuur/event"
	"shuultuur/list"
	"shuultuur/list/collection"
	listsource "shuultuur/list/source"
	"shuultuur/policy"
	"shuultuur/setting"
)

// These programs are read, from these kinds of paths.
const (
	E2guardian   = "e2guardian"   // the folder of e2guardian.conf
	DansGuardian = "dansguardian" // the folder of dansguardian.conf
	SquidGuard   = "squidguard"   // squidGuard.conf
	Pihole       = "pihole"       // a folder with gravity.db, or of an export
	AdGuardHome  = "adguardhome"  // AdGuardHome.yaml
	Blocky       = "blocky"       // config.yml
	Unbound      = "unbound"      // unbound.conf, or a file it includes
	Dnsmasq      = "dnsmasq"      // dnsmasq.conf, or a file it includes
	Squid        = "squid"        // squid.conf
	Privoxy      = "privoxy"      // the folder of config, config itself, or a file of actions, such as user.action
	Technitium   = "technitium"   // the response of its API to settings/get, as JSON
	NextDNS      = "nextdns"      // a profile as its API returns it, as JSON
	OPNsense     = "opnsense"     // config.xml
)

// Programs lists all programs.
func Programs() []string {
	return []string{E2guardian, DansGuardian, SquidGuard, Pihole, AdGuardHome,
		Blocky, Unbound, Dnsmasq, Squid, Privoxy, Technitium, NextDNS, OPNsense}
}

// SettingsFile is the name of the settings file that Run writes.
const SettingsFile = "shuultuur.yaml"

// Bounds on the reading of a configuration.
const (
	maxFile  = 64 << 20 // bytes of a file that is read whole
	maxFiles = 2000     // files of a list, and settings files in all
	maxDepth = 10       // of includes
	maxLine  = 1 << 20  // bytes of a line
	maxRules = 500      // rules in a policy of the result

	maxOptions  = 100_000 // of e2guardian, in all files
	maxNetworks = 100_000 // of a policy, and names with addresses
	maxServers  = 1000    // addresses of a name, and servers of a domain or of all
)

// Run reads the configuration of program at path and writes the settings, the converted lists
// and the report into the folder to, which it makes if necessary. It does not overwrite
// existing settings.
func Run(ctx context.Context, program, path, to string) (*Report, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if to, err = filepath.Abs(to); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(to, SettingsFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is there already; name another folder with -to", filepath.Join(to, SettingsFile))
	}
	w := &work{
		ctx: ctx, to: to, lists: map[string]list.Config{}, byPath: map[string]string{}, origin: map[string]string{}, places: map[string][]place{},
		rep: &Report{Program: program, From: abs},
	}
	read := map[string]func(string) error{
		E2guardian: w.e2guardian, DansGuardian: w.e2guardian,
		SquidGuard: w.squidGuard, Pihole: w.pihole, AdGuardHome: w.adGuardHome,
	}[program]
	if of := map[string]func(*work, string) error{
		Blocky: readBlocky, Unbound: readUnbound, Dnsmasq: readDnsmasq, Squid: readSquid, Privoxy: readPrivoxy,
		Technitium: readTechnitium, NextDNS: readNextDNS, OPNsense: readOPNsense,
	}[program]; of != nil {
		read = func(path string) error { return of(w, path) }
	}
	if read == nil {
		return nil, fmt.Errorf("%q is not a program whose settings can be imported; write one of %s", program, strings.Join(Programs(), ", "))
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, err
	}
	if err := cmp.Or(read(abs), w.rep.checkKnown()); err != nil {
		return nil, fmt.Errorf("importing %s from %q: %w", program, path, err)
	}
	w.finish()
	data, err := w.set.marshal(program, abs)
	if err != nil {
		return nil, err
	}
	if err := w.rep.write(to); err != nil {
		return nil, err
	}
	return w.rep, os.WriteFile(filepath.Join(to, SettingsFile), data, 0o644)
}

// A work is one import in progress.
type work struct {
	ctx     context.Context
	to      string
	set     settings
	rep     *Report
	lists   map[string]list.Config // by name, with the path for compiling
	byPath  map[string]string      // name of the list made from a file; "" for an empty one
	origin  map[string]string      // the original file of each copy
	places  map[string][]place     // where the lines of a converted list were written, by its path
	read    int                    // settings files
	fetched bool                   // a list is not here yet, and will be fetched
	decrypt bool                   // policies decrypt TLS
	first   []policy.Rule          // rules of every policy
}

// finish adds the settings that all programs have in common.
func (w *work) finish() {
	if len(w.set.Lists) > 0 {
		w.set.Checks.Category = &category.Config{}
		w.set.Checks.Category.Lists = append(w.set.Checks.Category.Lists, sortedKeys(w.set.Lists)...)
	}
	if len(w.set.Listen.Proxy) == 0 {
		w.set.Listen.Proxy = setting.OneOrMore[setting.Address]{"127.0.0.1:8080"}
	}
	w.set.Data = "data"
	if w.set.Events == (event.Config{}) {
		w.set.Events.SQLite = "events.db"
	}
}

// addList compiles a list, reports on its lines and puts it into the settings. It leaves out an
// empty list, because a rule must not name a category that no list has. It returns the name, or
// "" for an empty list. at is the option that names it.
func (w *work) addList(name string, cfg list.Config, at place) (string, error) {
	name = w.freeName(name)
	if cfg.Category == "" {
		cfg.Category = name
	}
	dir := filepath.Join(w.to, "data", "lists")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	dst := filepath.Join(dir, name+".list")
	r, err := list.Compile(w.ctx, name, cfg, dst)
	if w.ctx.Err() != nil {
		return "", w.ctx.Err()
	}
	if err != nil {
		w.rep.add(&Note{Kind: Lost, place: at, What: at.what, Why: "the list cannot be read: " + err.Error()})
		return "", nil
	}
	w.rep.Lines += r.Lines
	w.rep.Entries += r.Entries + r.Exprs + r.Networks + r.Rules
	w.rep.Refused += r.Bad
	w.rep.Duplicates += r.Duplicates
	for _, p := range r.Problems {
		w.problem(p)
	}
	if r.Entries+r.Exprs+r.Networks+r.Rules == 0 {
		os.Remove(dst)
		w.rep.add(&Note{Kind: Empty, place: at, What: at.what, Why: "it is empty, so no list is written; import again when it has entries"})
		return "", nil
	}
	w.lists[name] = cfg
	out := collection.List{Config: cfg}
	if rel, err := filepath.Rel(w.to, string(cfg.Path)); err == nil && filepath.IsLocal(rel) {
		out.Path = setting.Source(rel)
	}
	if out.Match == list.Boundary {
		out.Match = ""
	}
	if w.set.Lists == nil {
		w.set.Lists = collection.Config{}
	}
	w.set.Lists[name] = out
	w.rep.add(&Note{Kind: Carried, place: at, What: at.what, Ours: fmt.Sprintf("lists.%s (%d entries)", name, r.Entries+r.Exprs+r.Networks+r.Rules)})
	return name, nil
}

func isURL(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// keepFetching turns the list of a local copy into a fetched one, which starts with the copy.
func (w *work) keepFetching(name, url string) error {
	if !isURL(url) {
		return nil
	}
	l, local := w.set.Lists[name], w.lists[name]
	l.Path, l.Fetch.URL = "", url
	src, cfg, _, err := l.Fetch.Resolve(l.Config)
	if err != nil {
		return nil // it remains a copy
	}
	store := listsource.In(filepath.Join(w.to, "data"), nil)
	if err := store.Seed(w.ctx, name, listsource.Item{Source: src, Try: listsource.TryList(name, cfg)}, string(local.Path)); err != nil {
		return fmt.Errorf("keeping the copy of %s: %w", url, err)
	}
	w.set.Lists[name] = l
	return nil
}

// problem converts a remark of list.Compile on a line to a note.
func (w *work) problem(p list.Problem) {
	file := p.File
	if o, ok := w.origin[file]; ok {
		file = o
	}
	n := &Note{Kind: Line, place: place{file: file, line: p.Line}, What: p.Reason}
	if from := w.places[p.File]; p.Line > 0 && p.Line <= len(from) {
		n.place = from[p.Line-1]
	}
	if strings.Contains(p.Reason, "does not compile") {
		n.Kind = Regexp
	}
	switch {
	case p.Kept:
		n.Why = "kept"
	default:
		n.Why = "left out"
	}
	w.rep.add(n)
}

// freeName makes an unused name of a list from any text.
func (w *work) freeName(s string) string {
	b := []byte(s)
	for i, c := range b {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			b[i] = '-'
		}
	}
	s = strings.Trim(string(b[:min(len(b), 60)]), "-")
	if s == "" {
		s = "list"
	}
	name := s
	for n := 2; ; n++ {
		if _, taken := w.lists[name]; !taken {
			return name
		}
		name = fmt.Sprintf("%s-%d", s, n)
	}
}

// create opens a file below the output folder, for a converted list.
func (w *work) create(name string, write func(io.Writer) error) (path string, err error) {
	path = filepath.Join(w.to, "lists", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	return path, errors.Join(write(f), f.Close())
}

// ownLines writes a list from lines of other files. The text of each place is the line.
func (w *work) ownLines(name string, lines []place) (path string, err error) {
	path, err = w.create(name, func(to io.Writer) error {
		b := bufio.NewWriter(to)
		for _, l := range lines {
			b.WriteString(oneLine(l.what))
			b.WriteByte('\n')
		}
		return b.Flush()
	})
	w.places[path] = lines
	return path, err
}

// readWhole reads a file, and returns an error if it is too large.
func readWhole(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a named pipe would wait
		return nil, fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxFile>>20)
	}
	return b, err
}

// readText reads a text file, and returns an error if it is binary.
func readText(path string) ([]byte, error) {
	b, err := readWhole(path)
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return nil, fmt.Errorf("%s:%d: the file is not text: it has a byte of 0; if it is in UTF-16, save it in UTF-8", path, 1+bytes.Count(b[:i], []byte("\n")))
	}
	return bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), err
}

// fileIn returns a file, or the usual one in a folder.
func fileIn(path, usual string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, usual)
	}
	return path
}
