package collection

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"shuultuur/list"
)

// Limits of looking through the entries of a list.
const (
	mostFound = 5000                   // entries of an answer that are sorted
	findTime  = 200 * time.Millisecond // after which an answer says that there may be more
)

// An OwnEntry is an entry of a list, with what was changed by hand.
type OwnEntry struct {
	list.Entry
	By string // "" as in the source; added, excepted or removed by hand
}

// FoundEntries are the entries of a list in which a text occurs.
type FoundEntries struct {
	Entries []OwnEntry
	All     int  // how many were found
	Cut     bool // there may be more
}

// Find returns the entries of a list in which a text occurs, those changed by hand first, then in
// alphabetical order, from the entry number from on and at most most. What takes long is cut.
func (c *Collection) Find(name, text string, from, most int) (*FoundEntries, error) {
	f := c.Lists[name]
	if f == nil {
		return nil, ErrNoList
	}
	changed, err := c.byHandIn(name)
	if err != nil {
		return nil, err
	}
	text = strings.ToLower(strings.TrimSpace(text))
	found := &FoundEntries{}
	for _, e := range changed {
		if strings.Contains(e.Key, text) {
			found.Entries = append(found.Entries, e)
		}
	}
	slices.SortFunc(found.Entries, byKey)
	own := len(found.Entries)
	end, n := time.Now().Add(findTime), 0
	err = f.Entries(func(e list.Entry) bool {
		if n++; n&0x3fff == 0 && time.Now().After(end) || len(found.Entries) >= own+mostFound {
			found.Cut = true
			return false
		}
		_, by := changed[key(e)]
		_, gone := changed[e.Key+"\n"] // of all categories
		if !by && !gone && strings.Contains(e.Key, text) {
			found.Entries = append(found.Entries, OwnEntry{Entry: e})
		}
		return true
	})
	if err == nil && !found.Cut {
		err = f.Texts(func(s string) bool {
			if found.Cut = len(found.Entries) >= own+mostFound || time.Now().After(end); found.Cut {
				return false
			}
			if strings.Contains(strings.ToLower(s), text) {
				found.Entries = append(found.Entries, OwnEntry{Entry: list.Entry{Key: s}})
			}
			return true
		})
	}
	slices.SortFunc(found.Entries[own:], byKey)
	found.All = len(found.Entries)
	found.Entries = found.Entries[min(from, found.All):min(from+most, found.All)]
	return found, err
}

func byKey(a, b OwnEntry) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.By, b.By))
}

// key is what a change by hand is about.
func key(e list.Entry) string { return e.Key + "\n" + e.Category }

// byHandIn returns what was changed by hand in a list. Of two changes of an entry the later one counts.
func (c *Collection) byHandIn(name string) (map[string]OwnEntry, error) {
	all := map[string]OwnEntry{}
	for _, suffix := range []string{".edits", ".overlay"} {
		f, err := list.Open(c.file(name) + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		err = f.Entries(func(e list.Entry) bool {
			by := "added"
			category, removed := strings.CutPrefix(e.Category, "\x00")
			switch {
			case removed:
				by = "removed"
			case e.Exception:
				by = "excepted"
			}
			e.Category = category
			all[key(e)] = OwnEntry{e, by}
			return true
		})
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
