//go:build !small

// Package entries has the entries of lists, compiled ones and sources alike: [Open] compiles a source
// first, and [Of] returns what is in it in order.
package entries

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/lib/setting"
	"shuultuur/list"
)

// Of returns the distinct entries of a list, sorted. A source is
// compiled first.
func Of(ctx context.Context, format, path string) ([]string, error) {
	f, err := Open(ctx, format, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return sorted(f)
}

// Open opens a compiled list, or compiles a source and opens the result. The
// compiled file is removed from its folder; it lives as long as it is open.
func Open(ctx context.Context, format, path string) (*list.File, error) {
	if f, err := list.Open(path); err == nil {
		return f, nil
	}
	dir, err := os.MkdirTemp("", "shuultuur-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	compiled := filepath.Join(dir, "one.list")
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if _, err := list.Compile(ctx, name, list.Config{Format: list.FormatName(format), Path: setting.Source(path)}, compiled); err != nil {
		return nil, err
	}
	return list.Open(compiled)
}

func sorted(f *list.File) ([]string, error) {
	all := make([]string, 0, f.Len())
	err := f.Entries(func(e list.Entry) bool {
		all = append(all, e.String())
		return true
	})
	if err == nil {
		err = f.Texts(func(s string) bool {
			all = append(all, s)
			return true
		})
	}
	slices.Sort(all)
	return slices.Compact(all), err
}
