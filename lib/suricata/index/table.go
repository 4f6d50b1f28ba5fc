package index

import (
	"sync/atomic"

	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

// A Table has the rules that wait for a pattern in one buffer, in one direction.
type Table struct {
	Buffer rule.Buffer
	Chain  int           // of transforms, 0 for none
	At     rule.Progress // of the message when the buffer exists
	// Streamed says that the rules are tried on the stream, if there is one.
	Streamed bool
	// Fields says that the buffer depends on nothing but the fields of a request.
	Fields bool
	// Twin is a buffer that usually has the same bytes; its patterns are in this table.
	Twin    rule.Buffer
	HasTwin bool
	// Searched counts the bytes, Candidates the positions where a pattern was possible.
	Searched, Candidates atomic.Int64

	head    bool // the buffer is part of a head
	search  *match.Prefilter
	owners  [][]int32 // rules, by pattern
	anchors []anchor
}

// Find searches data, and appends the rules whose pattern occurs. seen records the positions.
func (t *Table) Find(data []byte, seen *match.Sight, hits []int32) []int32 {
	n := t.search.Scan(data, seen, func(p int32) { hits = append(hits, t.owners[p]...) })
	t.Searched.Add(int64(len(data)))
	if n > 0 {
		t.Candidates.Add(int64(n))
	}
	return hits
}

// Anchored appends the rules whose pattern is at its place in a buffer.
func (t *Table) Anchored(data []byte, hits []int32) []int32 {
	for i := range t.anchors {
		a := &t.anchors[i]
		for p := a.from; p <= a.to && p+len(a.pattern) <= len(data); p++ {
			if match.Begins(data[p:], a.pattern) {
				hits = append(hits, a.owner)
				break
			}
		}
	}
	return hits
}

// FindNew is like Find and Anchored for a piece of which the first old bytes were searched before:
// it appends only rules whose pattern ends behind them. skip bytes of the piece are not searched.
func (t *Table) FindNew(data []byte, old, skip int, seen *match.Sight, hits []int32) []int32 {
	for i := range t.anchors {
		a := &t.anchors[i]
		for p := max(a.from, old+1-len(a.pattern)); p <= a.to && p+len(a.pattern) <= len(data); p++ {
			if match.Begins(data[p:], a.pattern) {
				hits = append(hits, a.owner)
				break
			}
		}
	}
	var found []int32
	n := t.search.Scan(data[skip:], seen, func(p int32) { found = append(found, p) })
	for _, p := range found {
		pattern := t.search.Patterns[p]
		for at := max(0, old+1-len(pattern.Text)); at+len(pattern.Text) <= len(data); at++ {
			if pattern.Begins(data[at:]) {
				hits = append(hits, t.owners[p]...)
				break
			}
		}
	}
	t.Searched.Add(int64(len(data) - skip))
	if n > 0 {
		t.Candidates.Add(int64(n))
	}
	return hits
}

// Patterns returns the patterns that are searched for.
func (t *Table) Patterns() []match.Pattern { return t.search.Patterns }

// Longest returns the length of the longest of them.
func (t *Table) Longest() int { return t.search.Longest }

// atLeast is the number of bytes of a body that belong to the beginning of a message: most
// contents that must be at the beginning end there.
const atLeast = 512

// Reach returns how many bytes of the body are searched together with the head, at least
// atLeast. The table's patterns and anchors that are not searched for in the body alone end
// within them.
func (t *Table) Reach() int {
	n := max(t.search.Longest, atLeast)
	for _, a := range t.anchors {
		n = max(n, a.to+len(a.pattern))
	}
	return n
}
