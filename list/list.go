// Package list holds block lists: millions of host names and URLs, each in one or more
// categories.
//
// [Compile] reads the sources of one list (a squidGuard tree, a hosts file, …) line by line,
// normalises every entry, and writes one immutable file. [Open] maps that file into memory. A
// [Query] is made once per host and path, and looked up in any number of Files with
// [File.Lookup]. A match can name its source ([File.Evidence]). A changed list is compiled to
// a new file of the same name and opened; the caller replaces the old File, which is unmapped
// when its last reader is gone.
//
// Answers are exact. Hashes only say where to look; the entry itself is in the file and is
// compared byte by byte, so no two names are ever confused, by accident or by design.
package list

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"shuultuur/lib/charset"
	"shuultuur/lib/datadir"
	"shuultuur/lib/setting"
	"shuultuur/list/files"
	"shuultuur/list/width"
)

// How a URL entry matches a path.
const (
	// Boundary: the entry matches its host, its subdomains, and every path that continues after
	// it with nothing, "/", "?", "&" or "=". e2guardian does the same.
	Boundary = "boundary"
	// Prefix: the entry matches only its host (also with a first label "www", "www1", …), and
	// every path that begins with its bytes. squidGuard does the same.
	Prefix = "prefix"
)

// Config sets where a list comes from and how to read it.
type Config struct {
	Format FormatName `yaml:"format"` // default auto
	// Path is a file (plain, gzip or zstd), a zip or tar archive, or for ut1 a folder. Evidence
	// uses it as written here. From an archive, ut1 takes the files called domains, urls and
	// expressions, other formats all files.
	Path setting.Source `yaml:"path"`
	// Category of all entries; default: the list's name, and for ut1 the name of each folder.
	Category string `yaml:"category"`
	// Categories are those that the content may name, where it names some itself; default: all.
	// Entries in others are left out.
	Categories []string `yaml:"categories"`
	// Subdomains reports whether entries match subdomains. Default: no for hosts, yes for others.
	Subdomains *bool  `yaml:"subdomains"`
	Match      string `yaml:"match"` // boundary (default) or prefix
	// Longest lets the longer of two entries decide when a host is both in a category and
	// excepted from it; otherwise an exception always wins.
	Longest bool `yaml:"longest"`
	// Charset of the source, by a name of the WHATWG Encoding Standard. Default: from the byte
	// order mark or a name like russian-koi8-r, else UTF-8.
	Charset string `yaml:"charset"`
	// Digest is the SHA-256 of the file, in hexadecimal, if that is known: other content is
	// refused with a [files.DamagedError]. "" accepts any.
	Digest string `yaml:"-"`
	// Accept returns why a list that was read must not be written; nil accepts any.
	Accept func(*Report) error `yaml:"-"`
	// Fetched says that the content comes from a server: it may block something and do nothing
	// else. It includes no files.
	Fetched bool `yaml:"-"`
	// Trusted lets a fetched list say how names are answered.
	Trusted bool `yaml:"trusted"`
	// Barred are categories that the content must not name: those of other lists.
	Barred []string `yaml:"-"`
}

// mayName reports whether the content may put entries into a category.
func (c *Config) mayName(category string) bool {
	return !slices.Contains(c.Barred, category) && (len(c.Categories) == 0 || slices.Contains(c.Categories, category))
}

// normal checks c and fills in defaults.
func (c Config) normal() (Config, error) {
	switch format, ok := formatOf(FormatName(strings.ToLower(string(c.Format)))); {
	case ok:
		c.Format = format.Name
	case c.Format == "" || strings.EqualFold(string(c.Format), string(Auto)):
		c.Format = Auto
	default:
		return c, setting.At("format", fmt.Errorf("%q is not a list format; known are %s", strings.ToLower(string(c.Format)), strings.Join(FormatNames(), ", ")))
	}
	if c.Charset != "" && charset.Get(c.Charset) == nil {
		return c, setting.At("charset", fmt.Errorf("%q is not a charset; write one like windows-1251", c.Charset))
	}
	if c.Category != "" && len(c.Categories) > 0 {
		return c, setting.At("categories", errors.New("a list has only one of category and categories"))
	}
	if strings.ContainsFunc(c.Category, unicode.IsControl) {
		return c, setting.At("category", fmt.Errorf("%q has control characters", c.Category))
	}
	switch c.Match {
	case "":
		c.Match = Boundary
	case Boundary, Prefix:
	default:
		return c, setting.At("match", fmt.Errorf("%q is neither boundary nor prefix", c.Match))
	}
	if c.Path == "" {
		return c, setting.At("path", errors.New("a list needs a path"))
	}
	return c, nil
}

// Compile makes the list file dst from the sources of cfg. If dst exists undamaged and was
// made from the same sources (by path, size, modification time and digest) and settings, it is kept
// and its report returned.
//
// The new file is written beside dst and renamed when it is complete and synced, so dst is at
// all times absent, the old list, or the new one. Unusable lines are in the report and not an
// error. A source that cannot be read to its end is an error: half a list never replaces a
// whole one.
func Compile(ctx context.Context, name string, cfg Config, dst string) (Report, error) {
	start := time.Now()
	cfg, err := cfg.normal()
	if err != nil {
		return Report{}, err
	}
	stamp, err := stamp(name, cfg)
	if err != nil {
		return Report{}, setting.At("path", fmt.Errorf("reading list %q: %w", name, err))
	}
	var note string
	switch rep, err := upToDate(dst, stamp); {
	case err == nil && !overlayIsLarge(dst, rep.Entries):
		rep.Reused = true
		return rep, nil
	case err == nil:
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errStale):
		note = "made anew: " + err.Error()
	}
	datadir.LeftoversOf(dst, time.Now().Add(-time.Hour)) // a recent one may belong to a running process

	seed := uint64(defaultSeed)
	for range 4 {
		var rep Report
		rep, err = compile(ctx, name, cfg, dst, stamp, seed, note, start)
		if !errors.Is(err, errCrowded) {
			return rep, err
		}
		seed = randomSeed()
	}
	return Report{}, fmt.Errorf("compiling list %q: %w", name, err)
}

func compile(ctx context.Context, name string, cfg Config, dst string, stamp [32]byte, seed uint64, note string, start time.Time) (Report, error) {
	b := newBuilder(ctx, name, cfg, seed)
	b.entries.spill.dir = filepath.Dir(dst)
	defer b.entries.spill.close()
	if cfg.Digest != "" {
		if err := files.CheckDigest(string(cfg.Path), cfg.Digest); err != nil {
			return Report{}, fmt.Errorf("reading list %q: %w", name, err)
		}
	}
	if err := b.read(); err != nil {
		return Report{}, fmt.Errorf("reading list %q: %w", name, err)
	}
	b.report.Note, b.report.Settings = note, cfg.digest(name)
	if cfg.Accept != nil {
		if err := cfg.Accept(&b.report); err != nil {
			return Report{}, fmt.Errorf("reading list %q: %w", name, err)
		}
	}
	settle, err := b.amend(dst)
	if err != nil {
		return Report{}, fmt.Errorf("reading the overlay of list %q: %w", name, err)
	}
	if err := b.write(dst, stamp, start); err != nil {
		return Report{}, fmt.Errorf("writing list %q to %q: %w", name, dst, err)
	}
	if err := settle(); err != nil {
		return Report{}, fmt.Errorf("removing the overlay of list %q: %w", name, err)
	}
	return b.report, nil
}

var errStale = errors.New("sources have changed")

// LastGood returns the report of the list file dst if it is undamaged and was made from the
// list called name with the settings cfg, even if its sources have changed.
func LastGood(name string, cfg Config, dst string) (Report, error) {
	cfg, err := cfg.normal()
	if err != nil {
		return Report{}, err
	}
	f, err := Open(dst)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	rep, err := f.Report()
	if err != nil {
		return Report{}, err
	}
	if rep.Settings != cfg.digest(name) {
		return Report{}, errStale
	}
	rep.Reused = true
	return rep, f.Verify()
}

// Current returns the report of the list file dst if [Compile] would reuse it.
func Current(name string, cfg Config, dst string) (rep Report, ok bool) {
	cfg, err := cfg.normal()
	if err != nil {
		return rep, false
	}
	stamp, err := stamp(name, cfg)
	if err != nil {
		return rep, false
	}
	rep, err = upToDate(dst, stamp)
	rep.Reused = true
	return rep, err == nil && !overlayIsLarge(dst, rep.Entries)
}

// upToDate returns the report of the list file dst if it is undamaged and matches stamp, or
// else why it does not.
func upToDate(dst string, stamp [32]byte) (Report, error) {
	f, err := Open(dst)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	if f.stamp != stamp {
		return Report{}, errStale
	}
	if err := f.Verify(); err != nil {
		return Report{}, err
	}
	rep, err := f.Report()
	if slices.ContainsFunc(rep.Looked, files.Beside.IsOld) {
		return rep, errStale
	}
	return rep, err
}

// digest returns a digest of the settings of the list called name.
func (c Config) digest(name string) string {
	sub := "-"
	if c.Subdomains != nil {
		sub = fmt.Sprint(*c.Subdomains)
	}
	all := fmt.Appendf(nil, "%d %d %q %q %q %q %q %q %q %v\n", version, compilerVersion, name, c.Format, c.Path, c.Category, sub, c.Match, c.Charset, c.Longest)
	if c.Fetched || len(c.Categories) > 0 {
		all = fmt.Appendf(all, "%v %v %q %q\n", c.Fetched, c.Trusted, c.Categories, c.Barred)
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:])
}

// stamp returns a digest of everything that the compiled file depends on, without reading the
// sources.
func stamp(name string, cfg Config) (sum [32]byte, err error) {
	h := sha256.New()
	fmt.Fprintln(h, cfg.digest(name))
	info, err := os.Stat(string(cfg.Path))
	if err != nil {
		return sum, err
	}
	if format, _ := formatOf(cfg.Format); format.shared && !info.IsDir() {
		return stampItems(h, string(cfg.Path), cfg.Fetched)
	}
	if !info.IsDir() {
		fmt.Fprintf(h, "%d %d %s\n", info.Size(), info.ModTime().UnixNano(), cfg.Digest)
		return [32]byte(h.Sum(nil)), nil
	}
	t, err := files.Walk(string(cfg.Path), isTreeFile)
	if err != nil {
		return sum, err
	}
	for _, f := range t.Files {
		fmt.Fprintf(h, "%q %d %d\n", f.Path, f.Size, f.Changed)
	}
	for _, a := range t.Aliases {
		fmt.Fprintf(h, "%q -> %q\n", a.Name, a.Target)
	}
	return [32]byte(h.Sum(nil)), nil
}

func stampItems(h hash.Hash, path string, alone bool) (sum [32]byte, err error) {
	x, err := files.Includes(path, alone)
	if err != nil {
		return sum, err
	}
	for _, f := range x.Files {
		info, err := os.Stat(f.Path)
		if err != nil {
			return sum, err
		}
		fmt.Fprintf(h, "%q %d %d\n", f.Path, info.Size(), info.ModTime().UnixNano())
	}
	for _, p := range x.Problems {
		fmt.Fprintf(h, "%s\n", p)
	}
	return [32]byte(h.Sum(nil)), nil
}

func randomSeed() uint64 {
	s := sha256.Sum256(fmt.Append(nil, time.Now().UnixNano(), os.Getpid()))
	return binary.LittleEndian.Uint64(s[:])
}

func newBuilder(ctx context.Context, name string, cfg Config, seed uint64) *builder {
	return &builder{
		ctx: ctx, name: name, cfg: cfg, path: string(cfg.Path), report: Report{Name: name, Categories: map[string]int{}}, suffixes: width.NewSuffixes(),
		entries: entryBuilder{seed: seed, prefix: cfg.Match == Prefix},
	}
}

// read reads all sources of the list.
func (b *builder) read() error {
	info, err := os.Stat(b.path)
	if err != nil {
		return err
	}
	format, _ := formatOf(b.cfg.Format)
	if b.report.As = b.cfg.Format; b.cfg.Format == Auto {
		b.report.As = UT1 // unless it is one file
	}
	switch {
	case !info.IsDir() && format.shared:
		return b.readItems()
	case !info.IsDir():
		return b.readFile()
	case format.tree || b.cfg.Format == Auto:
		return b.readTree()
	}
	return fmt.Errorf("%s is a folder, and format %s wants a file", b.path, b.cfg.Format)
}
