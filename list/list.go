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

	"shuultuur/content/charset"
	"shuultuur/setting"
)

// Formats of a list's source.
const (
	Auto     = "auto"     // detected from the content
	UT1      = "ut1"      // a folder per category with domains and urls, or a tar.gz of that
	Domains  = "domains"  // a host name or URL on each line
	Hosts    = "hosts"    // hosts(5): address, names
	Adblock  = "adblock"  // ||host^ rules, @@||host^ exceptions
	Wildcard = "wildcard" // *.host on each line
	Dnsmasq  = "dnsmasq"  // address=/host/, server=/host/
	Unbound  = "unbound"  // local-zone: "host" always_nxdomain
	RPZ      = "rpz"      // a response policy zone: host CNAME .
	Networks = "networks" // addresses, networks, ranges
	JSON     = "json"     // an array of names, or of objects with entry, category …
	CSV      = "csv"      // the same in columns

	// A site, URL or IP list of e2guardian or DansGuardian, with its includes; and a list of
	// regular expressions for URLs.
	E2guardian       = "e2guardian"
	E2guardianRegexp = "e2guardian-regexp"
	Pihole           = "pihole"      // a regular expression of Pi-hole on each line
	Expressions      = "expressions" // a POSIX regular expression on each line
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
	Format string `yaml:"format"` // one of the formats; "squidguard" is "ut1"; default auto
	// Path is a file (plain, gzip or zstd), a zip or tar archive, or for ut1 a folder. Evidence
	// uses it as written here. From an archive, ut1 takes the files called domains, urls and
	// expressions, other formats all files.
	Path setting.Source `yaml:"path"`
	// Category of all entries; default: the list's name, and for ut1 the name of each folder.
	Category string `yaml:"category"`
	// Subdomains reports whether entries match subdomains. Default: no for hosts, yes for others.
	Subdomains *bool  `yaml:"subdomains"`
	Match      string `yaml:"match"` // boundary (default) or prefix
	// Longest lets the longer of two entries decide when a host is both in a category and
	// excepted from it; otherwise an exception always wins.
	Longest bool `yaml:"longest"`
	// Charset of the source, by a name of the WHATWG Encoding Standard. Default: from the byte
	// order mark or a name like russian-koi8-r, else UTF-8.
	Charset string `yaml:"charset"`
}

// Formats returns the names of all formats.
func Formats() []string {
	return []string{Auto, UT1, Domains, Hosts, Adblock, Wildcard, Dnsmasq, Unbound, RPZ, Networks, JSON, CSV, E2guardian, E2guardianRegexp, Pihole, Expressions}
}

// normal checks c and fills in defaults.
func (c Config) normal() (Config, error) {
	switch c.Format = strings.ToLower(c.Format); {
	case c.Format == "":
		c.Format = Auto
	case c.Format == "squidguard":
		c.Format = UT1
	case !slices.Contains(Formats(), c.Format):
		return c, setting.At("format", fmt.Errorf("%q is not a list format; known are %s", c.Format, strings.Join(Formats(), ", ")))
	}
	if c.Charset != "" && charset.Get(c.Charset) == nil {
		return c, setting.At("charset", fmt.Errorf("%q is not a charset; write one like windows-1251", c.Charset))
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
// made from the same sources (by path, size and modification time) and settings, it is kept
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
	removeLeftovers(dst)

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
	if err := b.read(); err != nil {
		return Report{}, fmt.Errorf("reading list %q: %w", name, err)
	}
	b.report.Note, b.report.Settings = note, cfg.digest(name)
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
	return f.Report()
}

// digest returns a digest of the settings of the list called name.
func (c Config) digest(name string) string {
	sub := "-"
	if c.Subdomains != nil {
		sub = fmt.Sprint(*c.Subdomains)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %q %q %q %q %q %q %q %v\n", version, compilerVersion, name, c.Format, c.Path, c.Category, sub, c.Match, c.Charset, c.Longest))
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
	if cfg.items() && !info.IsDir() {
		return stampItems(h, string(cfg.Path))
	}
	if !info.IsDir() {
		fmt.Fprintf(h, "%d %d\n", info.Size(), info.ModTime().UnixNano())
		return [32]byte(h.Sum(nil)), nil
	}
	t, err := walk(string(cfg.Path))
	if err != nil {
		return sum, err
	}
	for _, f := range t.files {
		fmt.Fprintf(h, "%q %d %d\n", f.path, f.size, f.changed)
	}
	for _, a := range t.aliases {
		fmt.Fprintf(h, "%q -> %q\n", a.name, a.target)
	}
	return [32]byte(h.Sum(nil)), nil
}

// items reports whether files of the format include others.
func (c Config) items() bool { return c.Format == E2guardian || c.Format == E2guardianRegexp }

func stampItems(h hash.Hash, path string) (sum [32]byte, err error) {
	x, err := findItemFiles(path)
	if err != nil {
		return sum, err
	}
	for _, f := range x.files {
		info, err := os.Stat(f.path)
		if err != nil {
			return sum, err
		}
		fmt.Fprintf(h, "%q %d %d\n", f.path, info.Size(), info.ModTime().UnixNano())
	}
	for _, p := range x.problems {
		fmt.Fprintf(h, "%s\n", p)
	}
	return [32]byte(h.Sum(nil)), nil
}

// removeLeftovers removes temporary files of a killed Compile. A recent one may belong to a
// running process.
func removeLeftovers(dst string) {
	old, _ := filepath.Glob(globEscape(dst) + ".*.tmp")
	for _, f := range old {
		if info, err := os.Stat(f); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.Remove(f)
		}
	}
}

func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

func randomSeed() uint64 {
	s := sha256.Sum256(fmt.Append(nil, time.Now().UnixNano(), os.Getpid()))
	return binary.LittleEndian.Uint64(s[:])
}
