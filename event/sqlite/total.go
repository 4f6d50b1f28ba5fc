package sqlite

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"shuultuur/event"
	"shuultuur/filter"
)

// Totals are the counts of all rows of many segments, for the columns by which people count:
// each text with its events and its blocked events. Every 16 segments get a total of the first
// level, and every 16 of these one of the second.

const (
	segmentsOfTotal = 16
	totalColumnsMax = 16 // room for columns in the id of a total
	// clients can invent names, so a total with more names is not worth storing
	maxTotalNames = 1 << 18
)

var totalColumns = [...]column{columnClient, columnUser, columnHost, columnRule, columnCategory}

// totalID returns the id of the total of a level (1 or above) that begins with
// first.
func totalID(first int64, level int, c column) int64 {
	return first*maxParts + int64(level*totalColumnsMax) + int64(c)
}

// A total is stored as a blob with the segments that it counts.
type total struct {
	first, last int64
	lag         int64
	level       int
}

// appendTotal appends the number of texts; for each text its end, its events
// and its blocked events; and the texts.
func appendTotal(dst []byte, all []event.Tally) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(all)))
	end := 0
	for i := range all {
		t := &all[i]
		end += len(t.Name)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(end))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(t.Events))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(t.Blocked))
	}
	for i := range all {
		dst = append(dst, all[i].Name...)
	}
	return dst
}

// eachTotal yields the entries that appendTotal wrote.
func eachTotal(b []byte, yield func(name []byte, events, blocked int)) error {
	if len(b) < 4 {
		return errGone
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n > maxTotalNames || len(b) < 4+12*n {
		return errGone
	}
	entries, texts := b[4:4+12*n], b[4+12*n:]
	start := uint32(0)
	for ; len(entries) > 0; entries = entries[12:] {
		end := binary.LittleEndian.Uint32(entries)
		if end < start || int(end) > len(texts) {
			return errGone
		}
		yield(texts[start:end], int(binary.LittleEndian.Uint32(entries[4:])), int(binary.LittleEndian.Uint32(entries[8:])))
		start = end
	}
	return nil
}

// A totalBuilder adds up segments as they are written. Callers of its methods
// have begun a transaction.
type totalBuilder struct {
	known    bool // whether sums has all segments without a total
	segments []*segment
	sums     *event.Counter // a question for each of totalColumns
}

// add counts the segment in b, which was written, and writes the totals that it
// completes.
func (t *totalBuilder) add(w *writer, b *builder) error {
	if !t.known {
		if err := t.load(w); err != nil {
			return err
		}
	} else {
		t.segments = append(t.segments, &segment{first: b.first, last: b.ids[len(b.ids)-1], lag: b.lag()})
		for i, c := range totalColumns {
			b.tally(c, func(name string, events, blocked int) { t.sums.AddSum(i, name, events, blocked) })
		}
	}
	if len(t.segments) < w.group {
		return nil
	}
	for i, c := range totalColumns {
		if err := w.writeTotal(c, 1, t.segments, t.sums, i); err != nil {
			return err
		}
	}
	t.known = false // then load counts them
	return w.totals()
}

// load counts the segments without a total.
func (t *totalBuilder) load(w *writer) (err error) {
	if t.sums, err = event.NewCounter(make([]event.Question, len(totalColumns))); err != nil {
		return err
	}
	t.segments, err = w.spans(fmt.Sprintf(`SELECT first, last, rows, lag FROM segment
		WHERE first > coalesce((SELECT max(last) FROM total WHERE (id & %d) / %d = 1), -1) ORDER BY first LIMIT %d`, maxParts-1, totalColumnsMax, w.group))
	if err != nil {
		return err
	}
	for _, s := range t.segments {
		for i, c := range totalColumns {
			names, err := s.dictionary(c)
			if err != nil {
				return err
			}
			events, blocked, err := s.tally(c, names.n, allRows(s.rows))
			if err != nil {
				return err
			}
			for n := range events {
				t.sums.AddSum(i, names.at(n), events[n], blocked[n])
			}
		}
		s.parts = nil
	}
	t.known = true
	return nil
}

// tally counts the rows in b by their text in a column.
func (b *builder) tally(c column, add func(name string, events, blocked int)) {
	kinds, col := &b.cols[columnKind], &b.cols[c]
	block := make([]int, len(kinds.numbers))
	for i, k := range kinds.numbers {
		if kind(k).action() == filter.Block {
			block[i] = 1
		}
	}
	type count struct{ events, blocked int }
	counts := make([]count, len(col.ends))
	for i, code := range col.codes {
		n := &counts[code]
		n.events++
		n.blocked += block[kinds.codes[i]]
	}
	for code, n := range counts {
		if n.events > 0 {
			add(col.text(uint16(code)), n.events, n.blocked)
		}
	}
}

// totals writes totals of the second level when there are enough of the first.
func (w *writer) totals() error {
	groups, err := w.spans(fmt.Sprintf(`SELECT id / %[1]d, last, 0, lag FROM total WHERE id & %[2]d = %[3]d AND
		id / %[1]d > coalesce((SELECT max(last) FROM total WHERE id & %[2]d = %[4]d), -1) ORDER BY id LIMIT %[5]d`,
		maxParts, maxParts-1, totalColumnsMax+int(columnClient), 2*totalColumnsMax+int(columnClient), w.group))
	if err != nil || len(groups) < w.group {
		return err
	}
	for _, c := range totalColumns {
		sums, err := event.NewCounter(make([]event.Question, 1))
		if err != nil {
			return err
		}
		for _, s := range groups {
			b, err := w.blob("total", totalID(s.first, 1, c))
			if err != nil {
				return err
			}
			if len(b) == 0 { // it has too many names
				sums = nil
				break
			}
			if err := eachTotal(b, func(name []byte, events, blocked int) { sums.AddSum(0, text(name), events, blocked) }); err != nil {
				return err
			}
		}
		if err := w.writeTotal(c, 2, groups, sums, 0); err != nil {
			return err
		}
	}
	return nil
}

// spans reads rows of first, last, number of rows and lag.
func (w *writer) spans(query string) ([]*segment, error) {
	q, err := w.prepare(query)
	if err != nil {
		return nil, err
	}
	defer q.close()
	var all []*segment
	for {
		ok, err := q.step()
		if !ok {
			return all, err
		}
		s := &segment{first: q.int(0), last: q.int(1), rows: int(q.int(2)), lag: q.int(3), parts: map[int][]byte{}}
		s.load = func(parts []int) error {
			for _, p := range parts {
				b, err := w.blob("part", partID(s.first, p))
				if err != nil {
					return err
				}
				s.parts[p] = b
			}
			return nil
		}
		all = append(all, s)
	}
}

// blob reads the data of a row, or returns nil if there is no such row.
func (w *writer) blob(table string, id int64) ([]byte, error) {
	q, err := w.prepare(fmt.Sprintf("SELECT data FROM %s WHERE id = %d", table, id))
	if err != nil {
		return nil, err
	}
	defer q.close()
	if ok, err := q.step(); !ok {
		return nil, err
	}
	return []byte(q.text(0)), nil
}

// writeTotal writes the total of one column: question i of sums. It is empty if
// sums is nil or has too many names.
func (w *writer) writeTotal(c column, level int, of []*segment, sums *event.Counter, i int) error {
	lag := int64(0)
	for _, s := range of {
		lag = max(lag, s.lag)
	}
	var blob []byte
	if sums != nil && sums.Names(i) <= maxTotalNames {
		blob = appendTotal(nil, sums.Unsorted(i))
	}
	insert, err := w.prepare("INSERT INTO total VALUES (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer insert.close()
	if err := insert.begin(len(blob)); err != nil {
		return err
	}
	insert.bindNumber(1, totalID(of[0].first, level, c))
	insert.bindNumber(2, of[len(of)-1].last)
	insert.bindNumber(3, lag)
	insert.bindBlob(4, blob)
	return insert.run()
}

// deleteTotals deletes totals that include rows of a span of ids.
func (w *writer) deleteTotals(in span) error {
	return w.exec(fmt.Sprintf("DELETE FROM total WHERE last >= %d AND id <= %d", in.first, min(in.last, math.MaxInt64/maxParts-1)*maxParts+maxParts-1))
}

// totals answers question i from totals, and returns the ids of the rows that these count.
func (d *Reader) totals(ctx context.Context, c *event.Counter, i int, q *event.Question, all span) (counted []span, err error) {
	by, _ := columnOf(q.By)
	var onlyBlocked, onlyNobody bool
	switch terms := q.Filter.Terms; {
	case !slices.Contains(totalColumns[:], by) || len(terms) > 1:
		return nil, nil
	case len(terms) == 1:
		onlyBlocked, onlyNobody = isOnly(&terms[0], event.Action, "block"), isOnly(&terms[0], event.User, "")
		if !onlyBlocked && !onlyNobody {
			return nil, nil
		}
	}
	known, err := d.knownTotals(ctx, by, &q.Filter, all)
	if err != nil {
		return nil, err
	}
	value := nameOf(q.By)
	for _, t := range known {
		if len(counted) > 0 && t.first <= counted[len(counted)-1].last {
			continue // part of a total of a higher level
		}
		if onlyNobody {
			named, nameless, err := d.users(ctx, t)
			if err != nil {
				return nil, err
			}
			if named == nameless { // some rows are meant, and the total does not say which, or it has no names
				continue
			}
			if named {
				counted = append(counted, span{t.first, t.last})
				continue
			}
		}
		b, err := d.totalOf(ctx, t, by)
		if err != nil {
			return nil, err
		}
		if len(b) == 0 {
			continue
		}
		if err := eachTotal(b, func(name []byte, events, blocked int) {
			if onlyBlocked {
				events = blocked
			}
			if n := value(text(name)); n != "" && events > 0 {
				c.AddSum(i, n, events, blocked)
			}
		}); err != nil {
			return nil, err
		}
		counted = append(counted, span{t.first, t.last})
	}
	return counted, nil
}

// totalOf reads the total of a column.
func (d *Reader) totalOf(ctx context.Context, t total, c column) (b []byte, err error) {
	err = d.rows.use(ctx, d.path, func(r *rowReader) (err error) {
		b, err = r.totalOf(totalID(t.first, t.level, c))
		return err
	})
	return b, err
}

// users reports whether a total has rows with a user, and rows without one.
func (d *Reader) users(ctx context.Context, t total) (named, nameless bool, err error) {
	b, err := d.totalOf(ctx, t, columnUser)
	if err != nil || len(b) == 0 {
		return false, false, err
	}
	err = eachTotal(b, func(name []byte, _, _ int) {
		named, nameless = named || len(name) > 0, nameless || len(name) == 0
	})
	return named, nameless, err
}

// isOnly reports whether a term asks for one value of a field.
func isOnly(t *event.Term, f event.Field, value string) bool {
	return t.Field == f && !t.Not && slices.Equal(t.Values, []string{value})
}

// knownTotals returns the totals whose rows are all in the span of ids and in
// the filter's span of time, in order, higher levels first.
func (d *Reader) knownTotals(ctx context.Context, c column, f *event.Filter, all span) (known []total, err error) {
	rows, err := d.db.QueryContext(ctx, `SELECT id / ?1, last, lag, (id & (?1 - 1)) / ?2 AS level FROM total
		WHERE id & (?2 - 1) = ?3 AND id >= ?4 AND last <= ?5 ORDER BY 1, level DESC`, maxParts, totalColumnsMax, int(c), all.first*maxParts, all.last)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t total
		if err := rows.Scan(&t.first, &t.last, &t.lag, &t.level); err != nil {
			return nil, err
		}
		if (f.Since.IsZero() || ceilMicro(f.Since) <= t.first-t.lag) && (f.Until.IsZero() || ceilMicro(f.Until) > t.last) {
			known = append(known, t)
		}
	}
	return known, rows.Err()
}
