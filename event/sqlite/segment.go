package sqlite

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"shuultuur/event"
)

// A segment is the index of all rows with ids from first to last.
type segment struct {
	first, last int64
	rows        int
	lag         int64 // the largest difference between an id and the time of its row
	none        bool  // it has no row of a wanted host
	parts       map[int][]byte
	numbers     []int64 // the ids, once they were wanted
	lags        []int64 // likewise
	// wanted has which names of a dictionary a term wants: many questions at once have the same terms.
	wanted map[string]wanted
	// load reads parts that are not in the map yet. It is nil if all are.
	load func(parts []int) error
	// grams returns a part of the grams; nil means that any gram may occur.
	grams func(part int) ([]byte, error)
}

// A wanted has the names of a dictionary that a term wants.
type wanted struct {
	names []bool
	all   bool
}

// errGone reports that the segment was deleted meanwhile, with its rows.
var errGone = errors.New("segment is gone")

// need loads parts, all from the same state of the database.
func (s *segment) need(parts ...int) error {
	missing := slices.DeleteFunc(parts, func(p int) bool { _, ok := s.parts[p]; return ok })
	if len(missing) == 0 || s.load == nil {
		return nil
	}
	return s.load(missing)
}

func (s *segment) dictionary(c column) (dictionary, error) {
	parts := []int{c.dictionary()}
	if c == columnClient || c == columnUser {
		parts = append(parts, c.numbers()) // both come from the same state, because they change together when rows are made anonymous
	}
	if err := s.need(parts...); err != nil {
		return dictionary{}, err
	}
	d := dictionaryOf(s.parts[c.dictionary()])
	if d.n == 0 {
		return d, errGone
	}
	return d, nil
}

// codes are the numbers of a column, one for each row; nil stands for zeros.
type codes struct {
	narrow []byte
	wide   []byte
}

func (s *segment) codes(c column) (codes, error) {
	if err := s.need(c.numbers()); err != nil {
		return codes{}, err
	}
	switch b := s.parts[c.numbers()]; len(b) {
	case s.rows:
		return codes{narrow: b}, nil
	case 2 * s.rows:
		return codes{wide: b}, nil
	}
	return codes{}, nil
}

func (c *codes) at(i int) int {
	switch {
	case c.narrow != nil:
		return int(c.narrow[i])
	case c.wide != nil:
		return int(binary.LittleEndian.Uint16(c.wide[2*i:]))
	}
	return 0
}

// ids returns the ids of the rows.
func (s *segment) ids() ([]int64, error) {
	if s.numbers != nil {
		return s.numbers, nil
	}
	if err := s.need(partIDs); err != nil {
		return nil, err
	}
	all, last := numbersOf(s.parts[partIDs], s.rows), s.first
	for i, step := range all {
		last += step
		all[i] = last
	}
	if s.load != nil { // others may use a segment of the tail
		s.numbers = all
	}
	return all, nil
}

// A selection is a set of rows of a segment, one bit each.
type selection []uint64

// isAll reports whether all rows of a segment are selected.
func (s selection) isAll(rows int) bool {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n == rows
}

func allRows(rows int) selection {
	s := make(selection, (rows+63)/64)
	for i := range s {
		s[i] = ^uint64(0)
	}
	if rows%64 != 0 {
		s[len(s)-1] = 1<<(rows%64) - 1
	}
	return s
}

func (s selection) empty() bool {
	return !slices.ContainsFunc(s, func(w uint64) bool { return w != 0 })
}

// filter removes rows for which ok is false.
func (s selection) filter(ok func(i int) bool) {
	for w := range s {
		for left := s[w]; left != 0; left &= left - 1 {
			if i := bits.TrailingZeros64(left); !ok(w*64 + i) {
				s[w] &^= 1 << i
			}
		}
	}
}

// only removes rows before lo, and those from hi on.
func (s selection) only(lo, hi int) {
	for w := range s {
		switch {
		case w*64+63 < lo || w*64 >= hi:
			s[w] = 0
		case w*64 < lo || w*64+63 >= hi:
			for i := range 64 {
				if at := w*64 + i; at < lo || at >= hi {
					s[w] &^= 1 << i
				}
			}
		}
	}
}

// eachRow yields the rows in order.
func (s selection) eachRow(yield func(i int) bool) {
	for w := range s {
		for left := s[w]; left != 0; left &= left - 1 {
			if !yield(w*64 + bits.TrailingZeros64(left)) {
				return
			}
		}
	}
}

// A span is a range of ids, both ends included.
type span struct{ first, last int64 }

// find selects the rows in a span of ids that may match f. rest are the terms
// that only the rows can decide.
func (s *segment) find(f *event.Filter, in span) (sel selection, rest []*event.Term, err error) {
	if s.none {
		return nil, nil, nil
	}
	sel = allRows(s.rows)
	if err := s.within(f, in, sel); err != nil { // first, so that terms look at few rows
		return nil, nil, err
	}
	for i := range f.Terms {
		t := &f.Terms[i]
		exact, err := s.term(t, sel)
		if err != nil {
			return nil, nil, err
		}
		if !exact {
			rest = append(rest, t)
		}
		if sel.empty() {
			return nil, nil, nil
		}
	}
	return sel, rest, nil
}

// overlaps reports whether the segment may have rows in the filter's span of time.
func (s *segment) overlaps(f *event.Filter) bool {
	return (f.Since.IsZero() || ceilMicro(f.Since) <= s.last) && (f.Until.IsZero() || ceilMicro(f.Until) > s.first-s.lag)
}

// cut reports whether rows of the segment may be before or after the filter's span of time.
func (s *segment) cut(f *event.Filter) (early, late bool) {
	return !f.Since.IsZero() && ceilMicro(f.Since) > s.first-s.lag, !f.Until.IsZero() && ceilMicro(f.Until) <= s.last
}

// within keeps rows in a span of ids and in the filter's span of time.
func (s *segment) within(f *event.Filter, in span, sel selection) error {
	early, late := s.cut(f)
	if in.first <= s.first && in.last >= s.last && !early && !late {
		return nil
	}
	ids, err := s.ids()
	if err != nil {
		return err
	}
	from, to := int64(-1<<63), int64(1<<63-1)
	if early {
		from = ceilMicro(f.Since)
	}
	if late {
		to = ceilMicro(f.Until) - 1
	}
	// An id is never before the time of its row, and never later than by the largest lag.
	lo, _ := slices.BinarySearch(ids, max(in.first, from))
	hi := len(ids)
	if end := in.last; late || end < s.last {
		if late && to < end-s.lag {
			end = to + s.lag
		}
		hi, _ = slices.BinarySearch(ids, end+1)
	}
	sel.only(lo, hi)
	if s.lag == 0 || !early && !late {
		return nil
	}
	// Only the rows at both ends may have another time than their id says.
	lags, err := s.lagsOf()
	if err != nil {
		return err
	}
	drop := func(i int) {
		if at := ids[i] - lags[i]; at < from || at > to {
			sel[i/64] &^= 1 << (i % 64)
		}
	}
	for i := lo; early && i < hi && ids[i] < from+s.lag; i++ {
		drop(i)
	}
	for i := hi - 1; late && i >= lo && ids[i] > to; i-- {
		drop(i)
	}
	return nil
}

// lagsOf returns how much later each id is than the time of its row.
func (s *segment) lagsOf() ([]int64, error) {
	if s.lags != nil {
		return s.lags, nil
	}
	if err := s.need(partLags); err != nil {
		return nil, err
	}
	all := numbersOf(s.parts[partLags], s.rows)
	if s.load != nil { // others may use a segment of the tail
		s.lags = all
	}
	return all, nil
}

// term keeps the rows that may match t. exact reports that all of them match.
func (s *segment) term(t *event.Term, sel selection) (exact bool, err error) {
	switch {
	case t.Field == event.Text && t.Not:
		return false, nil
	case t.Field == event.Text:
		return false, s.text(t, sel)
	case t.Field == event.ID:
		return false, s.ref(t, sel)
	case !isColumn(t.Field):
		return s.rare(t, sel)
	}
	c, value := columnOf(t.Field)
	d, err := s.dictionary(c)
	if err != nil {
		return false, err
	}
	key := t.Key()
	want, known := s.wanted[key]
	if !known {
		want = wanted{make([]bool, d.n), true}
		matches := matcher(t)
		for i := range want.names {
			want.names[i] = matches(value(d.at(i)))
			want.all = want.all && want.names[i]
		}
		if s.load != nil { // others may use a segment of the tail
			if s.wanted == nil {
				s.wanted = map[string]wanted{}
			}
			s.wanted[key] = want
		}
	}
	if want.all {
		return true, nil
	}
	return true, s.keepCodes(c, want.names, sel)
}

// manyValues is from how many values on a table finds one faster than a look at each.
const manyValues = 5

// matcher returns a function for the texts of a dictionary, of which there may be thousands.
func matcher(t *event.Term) func(string) bool {
	if len(t.Values) < manyValues || t.Field == event.Client || t.Field == event.Host {
		return t.Matches
	}
	values := make(map[string]bool, len(t.Values))
	for _, v := range t.Values {
		values[v] = true
	}
	return func(v string) bool { return values[v] != t.Not }
}

// keepCodes keeps the rows whose number in a column is wanted.
func (s *segment) keepCodes(c column, want []bool, sel selection) error {
	if !slices.Contains(want, true) {
		clear(sel)
		return nil
	}
	codes, err := s.codes(c)
	if err != nil {
		return err
	}
	sel.filter(func(i int) bool {
		n := codes.at(i)
		return n < len(want) && want[n]
	})
	return nil
}

// rare drops rows that lack the field, if the term requires it.
func (s *segment) rare(t *event.Term, sel selection) (exact bool, err error) {
	d, err := s.dictionary(columnKind)
	if err != nil {
		return false, err
	}
	want, exact := make([]bool, d.n), true
	for i := range want {
		if kindIn(d.at(i)).has(t.Field) {
			want[i], exact = true, false
		} else {
			want[i] = t.Matches("")
		}
	}
	return exact, s.keepCodes(columnKind, want, sel)
}

// ref keeps rows whose identifier has the hash of a wanted one.
func (s *segment) ref(t *event.Term, sel selection) error {
	if t.Not {
		return nil
	}
	if err := s.need(partRefs); err != nil {
		return err
	}
	var hashes []uint16
	for _, v := range t.Values {
		hashes = append(hashes, refHash(v))
	}
	b := s.parts[partRefs]
	if len(b) != 2*s.rows {
		return nil
	}
	sel.filter(func(i int) bool { return slices.Contains(hashes, binary.LittleEndian.Uint16(b[2*i:])) })
	return nil
}

// text keeps rows that may contain one of the term's texts: in host or rule, as
// identifier, or in a text without a column.
func (s *segment) text(t *event.Term, sel selection) error {
	hosts, err := s.dictionary(columnHost)
	if err != nil {
		return err
	}
	rules, err := s.dictionary(columnRule)
	if err != nil {
		return err
	}
	inHost, inRule := make([]bool, hosts.n), make([]bool, rules.n)
	for i := range inHost {
		inHost[i] = t.InText(hosts.at(i))
	}
	for i := range inRule {
		_, rule := unpair(rules.at(i))
		inRule[i] = t.InText(rule)
	}
	blocks := uint64(0)
	for _, v := range t.Values {
		b, err := blocksWith(v, s.grams)
		if err != nil {
			return err
		}
		blocks |= b
	}
	byHost, err := s.codes(columnHost)
	if err != nil {
		return err
	}
	byRule, err := s.codes(columnRule)
	if err != nil {
		return err
	}
	byRef := allRows(s.rows)
	if err := s.ref(&event.Term{Values: t.Values}, byRef); err != nil {
		return err
	}
	sel.filter(func(i int) bool {
		h, r := byHost.at(i), byRule.at(i)
		return blocks&(1<<(i/blockRows)) != 0 || h < hosts.n && inHost[h] || r < rules.n && inRule[r] || byRef[i/64]&(1<<(i%64)) != 0
	})
	return nil
}

// isColumn reports whether a column has the values of a field.
func isColumn(f event.Field) bool {
	switch f {
	case event.Text, event.ID, event.Monitored, event.Signature, event.Picture, event.Conversation:
		return false
	}
	return true
}

// columnOf returns the column of a field, and the function from a text of its
// dictionary to the value of the field.
func columnOf(f event.Field) (column, func(string) string) {
	same := func(s string) string { return s }
	switch f {
	case event.Client:
		return columnClient, same
	case event.User:
		return columnUser, same
	case event.Host:
		return columnHost, same
	case event.Policy:
		return columnRule, func(s string) string { policy, _ := unpair(s); return policy }
	case event.Rule:
		return columnRule, func(s string) string { _, rule := unpair(s); return rule }
	case event.Category:
		return columnCategory, same
	case event.Method:
		return columnMethod, same
	case event.Type:
		return columnType, same
	case event.Source:
		return columnSource, same
	case event.Unread:
		return columnUnread, same
	case event.Cache:
		return columnCache, same
	case event.Status:
		return columnStatus, func(s string) string {
			if s == "0" {
				return ""
			}
			return s
		}
	case event.Action:
		return columnKind, func(s string) string { return kindIn(s).action().String() }
	case event.Proto:
		return columnKind, func(s string) string { return kindIn(s).proto().String() }
	}
	// Learned, and Text for all rows
	return columnKind, func(s string) string {
		if kindIn(s).has(event.Learned) {
			return "yes"
		}
		return ""
	}
}

func kindIn(s string) kind {
	n, _ := strconv.Atoi(s) // we wrote it
	return kind(n)
}

// ceilMicro returns t in microseconds, rounded up: rows have whole ones.
func ceilMicro(t time.Time) int64 {
	return t.Add(time.Microsecond - 1).UnixMicro()
}
