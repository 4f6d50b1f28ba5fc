package build

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"shuultuur/tool/importer/report"
)

// MaxKeys bounds the entries that are compared with each other.
const MaxKeys = 3_000_000

// An Index finds the place of each entry of a list.
type Index struct {
	title string
	files []string
	at    map[string]spot
	// squidGuard matches entries with a prefix by its own rule, so they cover longer paths only
	// after a boundary
	HostsOnly bool
}

type spot struct{ file, line uint32 }

func NewIndex(title string) *Index { return &Index{title: title, at: map[string]spot{}} }

func (x *Index) place(s spot) report.Place {
	return report.Place{File: x.files[s.file], Line: int(s.line)}
}

// Add adds an entry. If it was there already, add returns its earlier place.
func (x *Index) Add(key string, p report.Place) (before report.Place, twice bool) {
	if s, ok := x.at[key]; ok {
		return x.place(s), true
	}
	if n := len(x.files); n == 0 || x.files[n-1] != p.File {
		x.files = append(x.files, p.File)
	}
	if len(x.at) < MaxKeys {
		x.at[key] = spot{uint32(len(x.files) - 1), uint32(p.Line)}
	}
	return report.Place{}, false
}

// EntryKey brings a site or URL into the form in which entries are compared.
func EntryKey(s []byte) string {
	if i := bytes.Index(s, []byte("://")); i >= 0 && i < 8 {
		s = s[i+3:]
	}
	s = bytes.TrimSuffix(s, []byte("/"))
	return strings.ToLower(strings.TrimPrefix(string(s), "."))
}

// cover finds a wider entry that covers key. With itself, an equal entry covers key, too.
func (x *Index) cover(key string, itself bool) (string, report.Place, bool) {
	hit := func(k string) (string, report.Place, bool) {
		if s, ok := x.at[k]; ok && (itself || k != key) {
			return k, x.place(s), true
		}
		return "", report.Place{}, false
	}
	host, path := key, ""
	if i := strings.IndexAny(key, "/?"); i >= 0 {
		host, path = key[:i], key[i:]
	}
	if len(host) > 0 && host[len(host)-1] >= '0' && host[len(host)-1] <= '9' {
		return hit(host) // an address has no parent
	}
	for h := host; ; {
		if k, p, ok := hit(h); ok {
			return k, p, true
		}
		if !x.HostsOnly {
			for i := 1; i < len(path); i++ {
				if strings.IndexByte("/?&=", path[i]) >= 0 {
					if k, p, ok := hit(h + path[:i]); ok {
						return k, p, true
					}
				}
			}
			if path != "" && h != host {
				if k, p, ok := hit(h + path); ok {
					return k, p, true
				}
			}
		}
		_, parent, ok := strings.Cut(h, ".")
		if !ok {
			return "", report.Place{}, false
		}
		h = parent
	}
}

// ReportShadows reports the entries of inner that have no effect because outer has a wider one.
func ReportShadows(w *Work, inner, outer *Index, why string) {
	if inner == nil || outer == nil || len(outer.at) == 0 {
		return
	}
	n := 0
	for _, key := range slices.Sorted(maps.Keys(inner.at)) {
		k, p, ok := outer.cover(key, inner != outer)
		if !ok {
			continue
		}
		if n++; n > report.MaxNotes {
			w.Report.Count[report.Line]++
			continue
		}
		w.Report.Add(&report.Note{Kind: report.Line, Place: inner.place(inner.at[key]), What: fmt.Sprintf("%q is covered by %q in %s", key, k, p), Why: why})
	}
}
