package list

import (
	"cmp"
	"encoding/binary"
	"slices"

	"shuultuur/list/adblock"
)

// Lists of one category act as one engine, as in an ad blocker: an exception in one removes a
// host from the category whichever list has added it, and a badfilter rule removes the rule
// from all. That applies to the category that the settings name for a list. A list that names
// categories itself (folders of an archive, columns, #listcategory) does not affect those of
// others.

// sharedTable: the category from the settings, "" when nothing is in it, the number of rules
// that badfilter rules remove, and these rules.
func (b *builder) sharedTable() []byte {
	own := cmp.Or(b.cfg.Category, b.name)
	if _, ok := b.categories.ids[own]; !ok {
		return nil
	}
	t := appendString(nil, own)
	t = binary.AppendUvarint(t, uint64(len(b.bad)))
	for _, rule := range b.bad {
		t = appendString(t, rule)
	}
	return t
}

// ExceptionFor returns the exception that removes m from its category, nil if there is none. found
// is the result of all lists for one request. Important entries yield only to important
// exceptions. In a list with longest, an entry that is longer than the exception stays.
func ExceptionFor(found []Match, m *Match) *Match {
	for i := range found {
		if x := &found[i]; x.Exception && lifts(x, m) && rewritesAlike(x, m) &&
			(!m.List.longest || x.kind != entryKind || m.kind != entryKind || x.size >= m.size) {
			return x
		}
	}
	return nil
}

// Rewrites reports whether m is a rule with dnsrewrite.
func (m *Match) Rewrites() bool { return m.rewrites }

// HasCategory reports whether f has a category.
func (f *File) HasCategory(name string) bool {
	for _, names := range f.names {
		if slices.Contains(names, name) {
			return true
		}
	}
	return f.overlay != nil && f.overlay.HasCategory(name)
}

// lifts reports whether the exception x applies to the list and the category of m, and is
// strong enough.
func lifts(x, m *Match) bool {
	return x.Category == m.Category && (x.List == m.List || x.List.own == x.Category) && (!m.Important || x.Important)
}

// rewritesAlike reports whether the exception x applies to the kind of m: exceptions with
// dnsrewrite lift rules with dnsrewrite, all of them or those with one value; other exceptions
// lift other rules.
func rewritesAlike(x, m *Match) bool {
	if !x.rewrites && !m.rewrites {
		return true
	}
	if x.rewrites != m.rewrites {
		return false
	}
	value := x.Rewrite()
	return value == "" || value == m.Rewrite()
}

// BadFilters are the rules that badfilter rules of lists remove from other lists, by category.
type BadFilters map[string]*badFilters

type badFilters struct {
	hosts map[string]bool // after their flags
	rules adblock.BadFilters
}

// NewBadFilters returns those of some lists, nil when there are none.
func NewBadFilters(lists []*File) BadFilters {
	var all BadFilters
	for _, f := range lists {
		for _, rule := range f.bad {
			if all == nil {
				all = BadFilters{}
			}
			b := all[f.own]
			if b == nil {
				b = &badFilters{hosts: map[string]bool{}}
				all[f.own] = b
			}
			if rule != "" && rule[0] < 1<<flagBits {
				b.hosts[rule] = true
			} else {
				b.rules.Add(rule)
			}
		}
	}
	return all
}

// Has reports whether m is one of them.
func (b BadFilters) Has(m Match) bool {
	of := b[m.Category]
	if of == nil || m.over {
		return false
	}
	switch m.kind {
	case entryKind:
		var buf [1 + maxKey]byte
		r, _, _, _ := m.List.table.at(m)
		buf[0] = uint8(r.set & (1<<flagBits - 1))
		return of.hosts[string(append(buf[:1], r.key...))]
	case ruleKind:
		return m.List.rules.requests != nil && m.List.rules.requests.IsBad(m.record, &of.rules)
	}
	return false
}
