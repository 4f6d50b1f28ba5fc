package importer

import (
	"bytes"
	"fmt"
	"strings"
)

// maxKeys bounds the entries that are compared with each other.
const maxKeys = 3_000_000

// An index finds the place of each entry of a list.
type index struct {
	title string
	files []string
	at    map[string]spot
	// squidGuard matches entries with a prefix by its own rule, so they cover longer paths only
	// after a boundary
	hostsOnly bool
}

type spot struct{ file, line uint32 }

func newIndex(title string) *index { return &index{title: title, at: map[string]spot{}} }

func (x *index) place(s spot) place {
	return place{file: x.files[s.file], line: int(s.line)}
}

// add adds an entry. If it was there already, add returns its earlier place.
func (x *index) add(key string, p place) (before place, twice bool) {
	if s, ok := x.at[key]; ok {
		return x.place(s), true
	}
	if n := len(x.files); n == 0 || x.files[n-1] != p.file {
		x.files = append(x.files, p.file)
	}
	if len(x.at) < maxKeys {
		x.at[key] = spot{uint32(len(x.files) - 1), uint32(p.line)}
	}
	return place{}, false
}

// entryKey brings a site or URL into the form in which entries are compared.
func entryKey(s []byte) string {
	if i := bytes.Index(s, []byte("://")); i >= 0 && i < 8 {
		s = s[i+3:]
	}
	s = bytes.TrimSuffix(s, []byte("/"))
	return strings.ToLower(strings.TrimPrefix(string(s), "."))
}

// cover finds a wider entry that covers key. With itself, an equal entry covers key, too.
func (x *index) cover(key string, itself bool) (string, place, bool) {
	hit := func(k string) (string, place, bool) {
		if s, ok := x.at[k]; ok && (itself || k != key) {
			return k, x.place(s), true
		}
		return "", place{}, false
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
		if !x.hostsOnly {
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
			return "", place{}, false
		}
		h = parent
	}
}

// reportShadows reports the entries of inner that have no effect because outer has a wider one.
func reportShadows(w *work, inner, outer *index, why string) {
	if inner == nil || outer == nil || len(outer.at) == 0 {
		return
	}
	n := 0
	for _, key := range sortedKeys(inner.at) {
		k, p, ok := outer.cover(key, inner != outer)
		if !ok {
			continue
		}
		if n++; n > maxNotes {
			w.rep.Count[Line]++
			continue
		}
		w.rep.add(&Note{Kind: Line, place: inner.place(inner.at[key]), What: fmt.Sprintf("%q is covered by %q in %s", key, k, p), Why: why})
	}
}
