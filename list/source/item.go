package source

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/files"
)

// An Item is something to fetch: a list, or signature rules.
type Item struct {
	Kind   string // its kind for people; default "list"
	Source Source
	Try    Trial
	// Includes says that lines of ad blockers may include other files of the same server.
	Includes bool
	How      string // digest of the settings by which Try reads
	// InUse is the SHA-256, in hexadecimal, of the content that the gateway uses; "" if there is
	// none.
	InUse string
	// Damaged says that this content cannot be used any more, so it is fetched again soon.
	Damaged bool
}

// Items are the items to fetch into one folder, by name.
type Items map[string]Item

// A Trial reads a file as it will be read in use, and describes its content. It may write
// files to the folder; those that begin with "new-" are removed.
type Trial func(ctx context.Context, file string) (Content, error)

// Content is the description of a file's content.
type Content struct {
	Entries    int
	Categories []string        // nil: unknown, or too many
	Format     string          // name of the format
	Lines, Bad int             // with content, and malformed ones
	Odd        int             // not malformed, and not like what the format is for
	As         list.FormatName // of a list: how later versions are read
	Outside    []string        // categories that it names and may not
}

// InUse returns the item called name with the version in use.
func (s *Store) InUse(name string, it Item) (Item, error) {
	st, err := s.State(name)
	it.InUse = ""
	if v := st.inUse(); v != nil {
		it.InUse = v.SHA256
	}
	return it, err
}

// A Copy is a kept version of an item.
type Copy struct {
	Path string // of its file
	Version
}

// Intact returns the kept versions of the item called name that are as they were fetched, newest
// first, without those that were rolled back from.
func (s *Store) Intact(name string) (all []Copy) {
	st, err := s.State(name)
	if err != nil {
		return nil
	}
	for _, v := range st.Versions {
		file := filepath.Join(s.Dir, name, v.File)
		if !v.Left && files.CheckDigest(file, v.SHA256) == nil {
			all = append(all, Copy{file, v})
		}
	}
	return all
}

// damaged returns why a version is not as it was fetched, nil if it is.
func (s *Store) damaged(name string, v *Version) error {
	return files.CheckDigest(filepath.Join(s.Dir, name, v.File), v.SHA256)
}

// Of returns names, or if there are none the names of all items. An unknown name is an error.
func (all Items) Of(names ...string) ([]string, error) {
	if len(names) == 0 {
		return slices.Sorted(maps.Keys(all)), nil
	}
	for _, name := range names {
		if _, ok := all[name]; !ok {
			return nil, fmt.Errorf("%s is not a list that the settings fetch", name)
		}
	}
	return names, nil
}

// PlainName reports whether s can name a folder of a [Store].
func PlainName(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

func (it *Item) kind() string {
	if it.Kind == "" {
		return "list"
	}
	return it.Kind
}

// Limits of what is odd: a version is refused if more than one in oddShare of its lines is no entry of
// a format that accepts any line, or if the share of refused lines grows by more than moreRefused.
const (
	oddShare    = 5
	moreRefused = 0.1
)

// share returns the share of refused lines.
func share(refused, lines int) float64 { return float64(refused) / float64(max(1, lines)) }

// try tries the file and returns why it must not replace old.
func (it *Item) try(ctx context.Context, file string, old *Version) (c Content, err error) {
	src := it.Source
	c, err = it.Try(ctx, file)
	switch {
	case err != nil:
		return c, err
	case c.Bad > c.Lines/2:
		return c, fmt.Errorf("%d of %d lines are not valid %s; refused", c.Bad, c.Lines, c.Format)
	case (c.Bad+c.Odd)*oddShare > c.Lines && c.Odd > 0:
		return c, fmt.Errorf("%d of %d lines are not valid %s, or not like what such lists have; refused", c.Bad+c.Odd, c.Lines, c.Format)
	case old != nil && old.URL == src.Place() && old.Lines > 0 && src.Shrink < 1 && share(c.Bad, c.Lines) > share(old.Refused, old.Lines)+moreRefused:
		return c, fmt.Errorf("%d of %d lines are not valid %s, and of the version in use %d; if that is right, set shrink to 100%%", c.Bad, c.Lines, c.Format, old.Refused)
	case c.Entries < src.Minimum:
		return c, fmt.Errorf("it has %d entries, fewer than the minimum of %d", c.Entries, src.Minimum)
	case old != nil && old.URL == src.Place() && float64(c.Entries) < float64(old.Entries)*(1-src.Shrink):
		return c, fmt.Errorf("it has shrunk from %d entries to %d, by more than %g%%; if that is right, raise shrink", old.Entries, c.Entries, src.Shrink*100)
	}
	if old != nil && old.URL == src.Place() && src.Shrink < 1 && c.Categories != nil {
		for _, was := range old.Categories {
			if !slices.Contains(c.Categories, was) && !slices.Contains(c.Outside, was) {
				return c, fmt.Errorf("it has lost the category %q, which rules may name; if that is right, set shrink to 100%%", was)
			}
		}
	}
	return c, nil
}

// TryList returns a trial that compiles the list called name. cfg says how to read it; its
// Path is ignored. Categories are not kept if there are more than 1,000.
func TryList(name string, cfg list.Config) Trial {
	return func(ctx context.Context, file string) (c Content, err error) {
		dir, err := os.MkdirTemp(filepath.Dir(file), "new-*")
		if err != nil {
			return c, err
		}
		defer os.RemoveAll(dir)
		cfg := cfg
		cfg.Path = setting.Source(file)
		r, err := list.Compile(ctx, name, cfg, filepath.Join(dir, "trial.list"))
		if err != nil {
			return c, err
		}
		c = Content{Entries: r.Entries + r.Networks + r.Exprs + r.Rules, Format: formats(r), Bad: r.Bad, Odd: r.Odd, As: r.As, Outside: r.Outside}
		c.Lines = c.Entries + r.Cosmetics + r.Duplicates + r.Ignored + r.Bad
		if len(r.Categories) <= 1000 {
			c.Categories = slices.Sorted(maps.Keys(r.Categories))
		}
		return c, nil
	}
}

func formats(r list.Report) string {
	var all []string
	for _, s := range r.Sources {
		if !slices.Contains(all, s.Format) {
			all = append(all, s.Format)
		}
	}
	return strings.Join(all, ", ")
}
