package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
)

// A Reader answers questions about a database, which any process may write.
type Reader struct {
	path string
	db   *sql.DB
	tail tail
	rows rowReaders
}

// OpenReader opens the existing database at path.
func OpenReader(path string) (*Reader, error) {
	d := &Reader{path: path}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("open event database %q: %w", path, errors.Join(err, d.Close()))
	}
	return d, nil
}

func (d *Reader) open() (err error) {
	// The connection cannot have mode=ro, because readers of a write-ahead log write to its
	// index.
	d.db, err = sql.Open("sqlite", "file:"+(&url.URL{Path: d.path}).EscapedPath()+
		"?mode=rw&_pragma=busy_timeout(5000)&_pragma=query_only(1)&_pragma=cache_size(-1024)")
	if err != nil {
		return err
	}
	d.db.SetMaxOpenConns(4)
	d.db.SetMaxIdleConns(1)
	d.db.SetConnMaxIdleTime(time.Minute)
	var v int64
	if err := d.db.QueryRow("PRAGMA user_version").Scan(&v); err != nil {
		return err
	}
	if v < version {
		return fmt.Errorf("its schema is version %d, this program reads %d: start the gateway once, which brings it up to date", v, version)
	}
	return checkVersion(v)
}

// Close ends the connections.
func (d *Reader) Close() error {
	err := errors.Join(d.tail.close(), d.rows.close())
	if d.db != nil {
		err = errors.Join(err, d.db.Close())
	}
	return err
}

// pageRows is the number of rows read at a time. No transaction is open between pages:
// otherwise a slow caller would keep the write-ahead log from being written back, and it would
// grow without limit.
const pageRows = 500

// Query finds rows through the index and reads only these, unless a term needs
// more than the index has.
func (d *Reader) Query(ctx context.Context, f event.Filter, p event.Page) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		left := p.Limit
		err := d.query(ctx, &f, p, func(r event.Row) bool {
			left--
			return yield(r, nil) && left != 0
		})
		if err != nil {
			yield(event.Row{}, fmt.Errorf("query events in %q: %w", d.path, err))
		}
	}
}

func (d *Reader) query(ctx context.Context, f *event.Filter, p event.Page, yield func(event.Row) bool) error {
	all, err := d.bounds(ctx)
	if err != nil {
		return err
	}
	if p.After > 0 && p.Newest {
		all.last = min(all.last, p.After-1)
	} else if p.After > 0 {
		all.first = max(all.first, p.After+1)
	}
	for s, err := range d.segments(ctx, f, all, p.Newest) {
		if err != nil {
			return err
		}
		ids, rest, gaps, err := s.idsOf(f, all)
		if err != nil {
			return err
		}
		if p.Newest {
			slices.Reverse(ids)
		}
		size := pageRows
		if p.Limit > 0 && len(rest) == 0 {
			size = min(size, p.Limit)
		}
		for page := range slices.Chunk(ids, size) {
			rows, err := d.rows.read(ctx, d.path, wantedRows{ids: page, gaps: gaps}, rest, p.Newest)
			if err != nil {
				return err
			}
			for _, r := range rows {
				if err := ctx.Err(); err != nil {
					return err
				}
				if !yield(r) {
					return nil
				}
			}
		}
	}
	return nil
}

// bounds returns the ids of the oldest and the latest row, or an empty span.
func (d *Reader) bounds(ctx context.Context) (s span, err error) {
	// There are two subqueries, because SQLite finds a minimum or maximum without reading the
	// table only if it is the only column.
	err = d.db.QueryRowContext(ctx, "SELECT coalesce((SELECT min(id) FROM event), 0), coalesce((SELECT max(id) FROM event), -1)").Scan(&s.first, &s.last)
	return s, err
}

// idsOf returns the ids of the rows that find selects. gaps reports whether other
// rows lie between them.
func (s *segment) idsOf(f *event.Filter, in span) (ids []int64, rest []*event.Term, gaps bool, err error) {
	sel, rest, err := s.find(f, in)
	if err != nil || sel.empty() {
		if errors.Is(err, errGone) {
			err = nil
		}
		return nil, nil, false, err
	}
	at, err := s.ids()
	if err != nil {
		return nil, nil, false, err
	}
	last := -1
	for i := range sel.eachRow {
		gaps = gaps || last >= 0 && i != last+1
		last = i
		ids = append(ids, at[i])
	}
	return ids, rest, gaps, nil
}

// wantedRows has ids of rows in ascending or descending order. Without gaps, all
// rows between two of them are wanted.
type wantedRows struct {
	ids  []int64
	gaps bool
}

// statement returns a query for columns of the rows with ids that rest wants,
// ordered by id.
func statement(columns string, ids wantedRows, rest []*event.Term) (query string, args []any) {
	var b strings.Builder
	b.WriteString("SELECT " + columns + " FROM event WHERE id ")
	if !ids.gaps {
		b.WriteString("BETWEEN ? AND ?") // selecting all columns is a tenth cheaper than naming them
		args = append(args, slices.Min(ids.ids), slices.Max(ids.ids))
	} else {
		b.WriteString("IN (")
		for i, id := range ids.ids {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.FormatInt(id, 10))
		}
		b.WriteByte(')')
	}
	for _, t := range rest {
		cond, more := condition(t)
		b.WriteString(" AND " + cond)
		args = append(args, more...)
	}
	b.WriteString(" ORDER BY id")
	return b.String(), args
}

// condition returns the SQL condition for the part of a term that the index could not decide.
func condition(t *event.Term) (string, []any) {
	var conds []string
	var args []any
	or := func(cond string, values ...string) {
		conds = append(conds, cond)
		for _, v := range values {
			args = append(args, v)
		}
	}
	for _, v := range t.Values {
		switch t.Field {
		case event.Text:
			like := "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(v) + "%"
			for _, c := range []string{"url", "host", "rule", "evidence", "note"} {
				or("coalesce("+c+`, '') LIKE ? ESCAPE '\'`, like)
			}
			or("coalesce(ref, '') = ?", v)
		case event.ID:
			or("coalesce(ref, '') = ?", v)
		case event.Picture, event.Conversation:
			or("coalesce(json_extract(more, '$."+t.Field.String()+"'), '') = ?", v)
		case event.Monitored:
			if v == "" {
				or("json_extract(more, '$.monitored') IS NULL")
			} else {
				or("instr(coalesce(json_extract(more, '$.monitored'), ''), ?) > 0", string(event.AppendJSON(nil, v)))
			}
		case event.Signature:
			if v == "" {
				or("json_extract(more, '$.signatures') IS NULL")
			} else {
				or("instr(',' || trim(coalesce(json_extract(more, '$.signatures'), ''), '[]') || ',', ?) > 0", ","+v+",")
			}
		}
	}
	cond := "(" + strings.Join(conds, " OR ") + ")"
	if t.Not {
		cond = "NOT " + cond
	}
	return cond, args
}

// segments yields in order the segments that may have rows of f within all:
// those of the index, and temporary ones for the rows between and after them.
func (d *Reader) segments(ctx context.Context, f *event.Filter, all span, newest bool) iter.Seq2[*segment, error] {
	return func(yield func(*segment, error) bool) {
		all, err := d.narrow(ctx, f, all)
		if err != nil {
			yield(nil, err)
			return
		}
		if all.first > all.last {
			return
		}
		indexed, err := d.indexed(ctx, f, all)
		if err != nil {
			yield(nil, err)
			return
		}
		if newest {
			slices.Reverse(indexed)
		}
		gap := all // not examined yet
		for _, s := range indexed {
			before := span{gap.first, s.first - 1}
			if newest {
				before = span{s.last + 1, gap.last}
			}
			if !d.tail.segments(ctx, d.path, before, newest, yield) || !yield(s, nil) {
				return
			}
			if newest {
				gap.last = s.first - 1
			} else {
				gap.first = s.last + 1
			}
		}
		d.tail.segments(ctx, d.path, gap, newest, yield)
	}
}

// narrow limits a span of ids to a filter's span of time.
func (d *Reader) narrow(ctx context.Context, f *event.Filter, all span) (span, error) {
	if !f.Until.IsZero() {
		var lag int64
		if err := d.db.QueryRowContext(ctx, "SELECT coalesce(max(lag), 0) FROM segment").Scan(&lag); err != nil {
			return all, err
		}
		all.last = min(all.last, ceilMicro(f.Until)+max(lag, clockSlack.Microseconds()))
	}
	if f.Since.IsZero() || ceilMicro(f.Since) <= all.first {
		return all, nil
	}
	oldest := all.first
	all.first = ceilMicro(f.Since) // an id is never before the time
	// The tail always begins at the same row, so that it can be kept.
	var start, rows int64
	err := d.db.QueryRowContext(ctx, "SELECT coalesce((SELECT last + 1 FROM segment ORDER BY first DESC LIMIT 1), 0)").Scan(&start)
	if start = max(start, oldest); err != nil || all.first <= start {
		return all, err
	}
	err = d.db.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM event WHERE id >= ? LIMIT ?)", start, d.tail.b.room()).Scan(&rows)
	if rows < int64(d.tail.b.room()) {
		all.first = start
	}
	return all, err
}

// indexed returns the segments of the index with rows in a span of ids. It marks segments that
// cannot have the filter's hosts.
func (d *Reader) indexed(ctx context.Context, f *event.Filter, in span) ([]*segment, error) {
	hosts, named := hostsOf(f)
	columns := "first, last, rows, lag, NULL"
	if named {
		columns = "first, last, rows, lag, hosts"
	}
	rows, err := d.db.QueryContext(ctx, "SELECT "+columns+" FROM segment WHERE last >= ? AND first <= ? ORDER BY first", in.first, in.last)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []*segment
	for rows.Next() {
		s := &segment{parts: map[int][]byte{}}
		var has sql.RawBytes
		if err := rows.Scan(&s.first, &s.last, &s.rows, &s.lag, &has); err != nil {
			return nil, err
		}
		if s.rows < 1 || s.rows > segmentRows || s.last < s.first {
			return nil, fmt.Errorf("segment %d of the index is damaged: delete the rows of the table segment, they are made again", s.first)
		}
		s.none = named && !slices.ContainsFunc(hosts, func(domain string) bool { return hostSet(has).has(domain) })
		s.load = func(parts []int) error { return d.load(ctx, s, parts) }
		s.grams = func(part int) ([]byte, error) { err := s.need(part); return s.parts[part], err }
		all = append(all, s)
	}
	return all, rows.Err()
}

// hostsOf returns the domains of a filter of which a row must have one.
func hostsOf(f *event.Filter) ([]string, bool) {
	for i := range f.Terms {
		if t := &f.Terms[i]; t.Field == event.Host && !t.Not && !slices.Contains(t.Values, "") {
			return t.Values, true
		}
	}
	return nil, false
}

// load reads parts of a segment.
func (d *Reader) load(ctx context.Context, s *segment, parts []int) error {
	for some := range slices.Chunk(parts, partsAtOnce) {
		if err := d.rows.use(ctx, d.path, func(r *rowReader) error { return r.segment(s, some) }); err != nil {
			return err
		}
	}
	return nil
}

// partID returns the id of a part of the segment that begins with first.
func partID(first int64, part int) int64 { return first*maxParts + int64(part) }

// Count adds up numbers from the index.
func (d *Reader) Count(ctx context.Context, questions ...event.Question) ([][]event.Tally, error) {
	c, err := event.NewCounter(questions)
	if err == nil {
		err = d.count(ctx, c, questions)
	}
	if err != nil {
		return nil, fmt.Errorf("count events in %q: %w", d.path, err)
	}
	return c.Tallies(), nil
}

func (d *Reader) count(ctx context.Context, c *event.Counter, questions []event.Question) error {
	all, err := d.bounds(ctx)
	if err != nil {
		return err
	}
	var widest event.Filter
	for i, q := range questions {
		if i == 0 || q.Filter.Since.Before(widest.Since) {
			widest.Since = q.Filter.Since
		}
		if i == 0 || q.Filter.Until.IsZero() || !widest.Until.IsZero() && q.Filter.Until.After(widest.Until) {
			widest.Until = q.Filter.Until
		}
	}
	counted := make([][]span, len(questions)) // by totals
	for i := range questions {
		if counted[i], err = d.totals(ctx, c, i, &questions[i], all); err != nil {
			return err
		}
	}
	for s, err := range d.segments(ctx, &widest, all, false) {
		if err == nil {
			err = ctx.Err()
		}
		var open []int // questions that the segment helps to answer
		var parts []int
		for i := 0; i < len(questions) && err == nil; i++ {
			q := &questions[i]
			if s.overlaps(&q.Filter) && !slices.ContainsFunc(counted[i], func(c span) bool { return c.first <= s.first && s.last <= c.last }) {
				open, parts = append(open, i), s.partsFor(parts, q)
			}
		}
		if err == nil && len(open) > 0 {
			err = s.need(parts...)
		}
		for i := 0; i < len(open) && err == nil; i++ {
			err = d.countIn(ctx, s, all, c, open[i], &questions[open[i]])
		}
		if err != nil && !errors.Is(err, errGone) {
			return err
		}
	}
	return nil
}

// partsFor adds the parts that a question needs whatever they hold: reading them one by one costs more
// than the counting.
func (s *segment) partsFor(parts []int, q *event.Question) []int {
	add := func(more ...int) {
		for _, p := range more {
			if !slices.Contains(parts, p) {
				parts = append(parts, p)
			}
		}
	}
	by, _ := columnOf(q.By)
	add(by.dictionary(), by.numbers(), columnKind.dictionary(), columnKind.numbers())
	for i := range q.Filter.Terms {
		if t := &q.Filter.Terms[i]; isColumn(t.Field) {
			c, _ := columnOf(t.Field)
			add(c.dictionary(), c.numbers())
		}
	}
	if early, late := s.cut(&q.Filter); early || late {
		add(partIDs, partLags)
	}
	return parts
}

// countIn answers question i for the rows of one segment.
func (d *Reader) countIn(ctx context.Context, s *segment, all span, c *event.Counter, i int, q *event.Question) error {
	by, _ := columnOf(q.By)
	value := nameOf(q.By)
	sel, rest, err := s.find(&q.Filter, all)
	if err != nil || sel.empty() {
		return err
	}
	if len(rest) > 0 {
		if err := d.refine(ctx, s, sel, rest); err != nil {
			return err
		}
	}
	names, err := s.dictionary(by)
	if err != nil {
		return err
	}
	events, blocked, err := s.tally(by, names.n, sel)
	if err != nil {
		return err
	}
	for n, count := range events {
		if count == 0 {
			continue
		}
		if name := value(names.at(n)); name != "" || q.By == event.Text {
			c.AddSum(i, name, count, blocked[n])
		}
	}
	return nil
}

// nameOf returns the function that maps a text of a dictionary to its name in a
// tally.
func nameOf(by event.Field) func(string) string {
	switch by {
	case event.Text:
		return func(string) string { return "" }
	case event.Rule:
		return func(s string) string {
			if policy, rule := unpair(s); rule != "" {
				return policy + "/" + rule
			}
			return ""
		}
	}
	_, value := columnOf(by)
	return value
}

// tally counts the selected rows by their number in a column.
func (s *segment) tally(c column, n int, sel selection) (events, blocked []int, err error) {
	kinds, err := s.dictionary(columnKind)
	if err != nil {
		return nil, nil, err
	}
	block := make([]int, kinds.n)
	for i := range block {
		if kindIn(kinds.at(i)).action() == filter.Block {
			block[i] = 1
		}
	}
	byKind, err := s.codes(columnKind)
	if err != nil {
		return nil, nil, err
	}
	codes, err := s.codes(c)
	if err != nil {
		return nil, nil, err
	}
	events, blocked = make([]int, n), make([]int, n)
	add := func(i int) bool {
		if v, k := codes.at(i), byKind.at(i); v < n && k < len(block) {
			events[v]++
			blocked[v] += block[k]
		}
		return true
	}
	if !sel.isAll(s.rows) {
		sel.eachRow(add)
		return events, blocked, nil
	}
	for i := range s.rows {
		add(i)
	}
	return events, blocked, nil
}

// refine keeps the rows that match rest, which only the rows can decide.
func (d *Reader) refine(ctx context.Context, s *segment, sel selection, rest []*event.Term) error {
	at, err := s.ids()
	if err != nil {
		return err
	}
	var places []int
	var ids []int64
	for i := range sel.eachRow {
		places, ids = append(places, i), append(ids, at[i])
	}
	clear(sel)
	for len(ids) > 0 {
		n := min(len(ids), pageRows)
		query, args := statement("id", wantedRows{ids: ids[:n], gaps: true}, rest)
		rows, err := d.db.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		for i := 0; rows.Next(); {
			var id int64
			if err := rows.Scan(&id); err != nil {
				return errors.Join(err, rows.Close())
			}
			for ids[i] != id {
				i++
			}
			sel[places[i]/64] |= 1 << (places[i] % 64)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		places, ids = places[n:], ids[n:]
	}
	return nil
}
