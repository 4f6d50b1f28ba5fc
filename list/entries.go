package list

import (
	"runtime"
)

// An Entry is a normalised host or URL of a list.
type Entry struct {
	Key       string // host, or host and path
	Category  string // several are joined by commas
	Exception bool   // removes the host from a category
	Exact     bool   // the host only, without subdomains
	Below     bool   // subdomains only, without the host
}

// String formats the entry in the syntax of ad blockers and wildcard lists.
func (e Entry) String() string {
	s := e.Key
	switch {
	case e.Exact:
		s = "=" + s
	case e.Below:
		s = "*." + s
	}
	if e.Exception {
		s = "@@" + s
	}
	return s
}

// Entries calls yield with each host and URL of the compiled file, in no particular order,
// until it returns false. An entry of several categories may occur more than once. The
// overlay, networks, expressions and rules that are more than a host are not included.
func (f *File) Entries(yield func(Entry) bool) error {
	defer runtime.KeepAlive(f)
	for b := f.table.records; len(b) > 0; {
		r, n := f.table.record(b)
		if n == 0 {
			return f.damaged
		}
		category, ok := f.joined(r)
		if !ok {
			return f.damaged
		}
		if !yield(Entry{string(r.key), category, r.set&flagException != 0, r.set&flagExact != 0, r.set&flagBelow != 0}) {
			return nil
		}
		b = b[n:]
	}
	return nil
}

// joined returns the categories of a record, joined by commas.
func (f *File) joined(r record) (category string, ok bool) {
	from, to, ok := f.table.sets.of(r.set >> flagBits)
	if !ok {
		return "", false
	}
	for i := from; i < to; i++ {
		for _, name := range f.names[f.table.sets.category(i)] {
			if category != "" {
				category += ","
			}
			category += name
		}
	}
	return category, true
}
