// Package search keeps the searches of the record that people have saved, each with a name and
// a filter, separately for every account.
package search

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/event"
	"shuultuur/lib/atomicfile"
)

// Limits of saved searches.
const (
	MaxEach   = 50 // of one account
	maxAll    = 2000
	maxName   = 100
	maxFilter = 1000
)

// A Search is a saved search.
type Search struct {
	By     string `json:"by"` // account that owns it
	Name   string `json:"name"`
	Filter string `json:"filter"` // in the language of [event.ParseFilter]
	Last   string `json:"last"`   // how long it looks back
}

// A Book keeps searches in a file.
type Book struct {
	File string
	mu   sync.Mutex
}

// Of returns the searches of an account, by name.
func (b *Book) Of(who string) ([]Search, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, err := b.read()
	return slices.DeleteFunc(all, func(s Search) bool { return s.By != who }), err
}

// Put saves a search, which replaces the one with the same name. Without a filter it removes
// that.
func (b *Book) Put(s Search) error {
	s.Name, s.Filter = strings.Join(strings.Fields(s.Name), " "), strings.TrimSpace(s.Filter)
	if s.Name == "" || len(s.Name) > maxName || len(s.Filter) > maxFilter || len(s.Last) > maxName {
		return fmt.Errorf("a search has a name of at most %d bytes and a filter of at most %d", maxName, maxFilter)
	}
	if _, err := event.ParseFilter(s.Filter, time.Now()); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	all, err := b.read()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(o Search) bool { return o.By == s.By && o.Name == s.Name })
	if s.Filter != "" {
		own := 0
		for _, o := range all {
			if o.By == s.By {
				own++
			}
		}
		if own >= MaxEach || len(all) >= maxAll {
			return fmt.Errorf("there are %d searches already; remove one first", MaxEach)
		}
		all = append(all, s)
	}
	return b.write(all)
}

// Erase removes the searches that name a person, and returns their number.
func (b *Book) Erase(p event.Person, dry bool) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, err := b.read()
	if err != nil {
		return 0, err
	}
	n := len(all)
	all = slices.DeleteFunc(all, func(s Search) bool { return slices.Contains(p.Users, s.By) || p.In(s.Name+" "+s.Filter) })
	if dry || len(all) == n {
		return int64(n - len(all)), nil
	}
	return int64(n - len(all)), b.write(all)
}

func (b *Book) read() (all []Search, err error) {
	data, err := os.ReadFile(b.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading saved searches: %w", err)
	}
	if json.Unmarshal(data, &all) != nil {
		return nil, atomicfile.SetAside(b.File)
	}
	return all, nil
}

func (b *Book) write(all []Search) error {
	slices.SortStableFunc(all, func(x, y Search) int { return cmp.Or(strings.Compare(x.By, y.By), strings.Compare(x.Name, y.Name)) })
	data, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(b.File), 0o700); err != nil {
		return err
	}
	return atomicfile.WriteBytes(b.File, 0o600, append(data, '\n'))
}
