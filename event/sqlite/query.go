package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

	"shuultuur/event"
	"shuultuur/filter"
)

// A Reader answers queries to a database that this process or another one
// writes.
type Reader struct {
	path string
	db   *sql.DB
}

// OpenReader opens the database at path, which must be there, for queries.
func OpenReader(path string) (*Reader, error) {
	d := &Reader{path: path}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("open event database %q: %w", path, errors.Join(err, d.Close()))
	}
	return d, nil
}

func (d *Reader) open() (err error) {
	// Not mode=ro: readers of a write-ahead log write to its index.
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
	return checkVersion(v)
}

// Close ends the connections.
func (d *Reader) Close() error {
	if d.db == nil {
		return nil
	}
	return d.db.Close()
}

const columns = `id, coalesce(time, id), coalesce(duration, 0), coalesce(proto, 0), coalesce(action, 0),
	coalesce(learned, 0), coalesce(status, 0), coalesce(port, 0), coalesce(bytes_in, 0), coalesce(bytes_out, 0),
	coalesce(looked, 0), coalesce(score, 0), coalesce(ref, ''), coalesce(client, ''), coalesce(user, ''),
	coalesce(policy, ''), coalesce(rule, ''), coalesce(method, ''), coalesce(host, ''), coalesce(type, ''),
	coalesce(url, ''), coalesce(category, ''), coalesce(evidence, ''), coalesce(findings, ''), coalesce(note, '')`

// pageRows is how many rows are read at a time. Between pages no transaction
// is open, so that who reads slowly does not keep the write-ahead log from
// being written back, which would let it grow without end.
const pageRows = 500

// Query reads the rows of a span of time; without one, of the whole table.
// Rows that are recorded after it began are not seen.
func (d *Reader) Query(ctx context.Context, f event.Filter) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		fail := func(err error) { yield(event.Row{}, fmt.Errorf("query events in %q: %w", d.path, err)) }
		var from, to int64 // ids still to be looked at
		// Two questions: only alone is each answered without reading the table.
		err := d.db.QueryRowContext(ctx, "SELECT coalesce((SELECT min(id) FROM event), 0), coalesce((SELECT max(id) FROM event), -1)").Scan(&from, &to)
		if err != nil {
			fail(err)
			return
		}
		left := f.Limit
		for from <= to {
			n := pageRows
			if f.Limit > 0 {
				n = min(n, left)
			}
			rows, last, err := d.page(ctx, &f, from, to, n)
			if err != nil {
				fail(err)
				return
			}
			for _, r := range rows {
				if err := ctx.Err(); err != nil {
					fail(err)
					return
				}
				if !yield(r, nil) {
					return
				}
			}
			if left -= len(rows); len(rows) < n || f.Limit > 0 && left == 0 {
				return
			}
			if f.Newest {
				to = last - 1
			} else {
				from = last + 1
			}
		}
	}
}

// page reads at most n rows with ids between from and to, and returns them
// with the id of the last.
func (d *Reader) page(ctx context.Context, f *event.Filter, from, to int64, n int) (page []event.Row, last int64, err error) {
	query, args := statement(f, from, to, n)
	rows, err := d.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var r event.Row
		var at, duration int64
		var client string
		err := rows.Scan(&last, &at, &duration, &r.Proto, &r.Action, &r.Learned, &r.Status, &r.Port, &r.BytesIn, &r.BytesOut,
			&r.Looked, &r.Score, &r.ID, &client, &r.User, &r.Policy, &r.Rule, &r.Method, &r.Host, &r.Type, &r.URL,
			&r.Category, &r.Evidence, &r.Findings, &r.Note)
		if err == nil && client != "" {
			r.Client, err = netip.ParseAddr(client)
		}
		if err != nil {
			return nil, 0, err
		}
		r.Time = time.UnixMicro(at).UTC()
		r.Duration = time.Duration(duration) * time.Microsecond
		page = append(page, r)
	}
	return page, last, rows.Err()
}

// statement returns the query for n rows of f with ids between from and to. It
// must let through what f.Match does.
func statement(f *event.Filter, from, to int64, n int) (query string, args []any) {
	where, args := conditions(f)
	where, args = where+" AND id BETWEEN ? AND ?", append(args, from, to)
	order := " ORDER BY id"
	if f.Newest {
		order += " DESC"
	}
	return "SELECT " + columns + " FROM event WHERE " + where + order + " LIMIT ?", append(args, n)
}

// conditions returns what f asks of a row.
func conditions(f *event.Filter) (_ string, args []any) {
	where := []string{"true"}
	and := func(cond string, values ...any) {
		where = append(where, cond)
		args = append(args, values...)
	}
	// id is never before the time, and at most clockSlack after it.
	if !f.Since.IsZero() {
		at := ceilMicro(f.Since)
		and("id >= ? AND coalesce(time, id) >= ?", at, at)
	}
	if !f.Until.IsZero() {
		at := ceilMicro(f.Until)
		and("id < ? AND coalesce(time, id) < ?", at+clockSlack.Microseconds(), at)
	}
	if f.Client.IsValid() {
		and("client = ?", f.Client.String())
	}
	if f.User != "" {
		and("user = ?", f.User)
	}
	if f.Policy != "" {
		and("policy = ?", f.Policy)
	}
	if f.Category != "" {
		and("category = ?", f.Category)
	}
	if f.Action != "" {
		and("coalesce(action, 0) = ?", actionNumber(f.Action))
	}
	if f.Host != "" {
		and("(host = ? OR substr(host, -length(?)) = ?)", f.Host, "."+f.Host, "."+f.Host)
	}
	if f.Text != "" {
		like := "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(f.Text) + "%"
		var any []string
		for _, c := range []string{"url", "host", "rule", "evidence", "note", "ref"} {
			any = append(any, c+` LIKE ? ESCAPE '\'`)
			args = append(args, like)
		}
		where = append(where, "("+strings.Join(any, " OR ")+")")
	}
	return strings.Join(where, " AND "), args
}

// kinds are what rows are counted by, with what the row has of it.
var kinds = map[string]string{
	"client": "client", "host": "host", "category": "category", "user": "user", "rule": "coalesce(policy, '') || '/' || rule",
	"": "''", // one sum of all
}

// Top counts the rows that f lets through by what they have in common: by is
// client, host, category (of the finding that decided), rule (as policy/rule)
// or user, or "" for one sum of all. Rows that have none are left out. The n
// with the most rows come first; 0 means all. Order and limit of f are not
// looked at. SQLite reads the whole span of f for it, and sorts in files where
// memory does not do: ctx bounds the time.
func (d *Reader) Top(ctx context.Context, f event.Filter, by string, n int) ([]event.Tally, error) {
	top, err := d.top(ctx, &f, by, n)
	if err != nil {
		return nil, fmt.Errorf("count events in %q: %w", d.path, err)
	}
	return top, nil
}

func (d *Reader) top(ctx context.Context, f *event.Filter, by string, n int) (top []event.Tally, err error) {
	of, ok := kinds[by]
	if !ok {
		return nil, fmt.Errorf("%q is not something to count by: use client, host, category, rule or user", by)
	}
	if n == 0 {
		n = -1 // no limit
	}
	where, args := conditions(f)
	rows, err := d.db.QueryContext(ctx, "SELECT "+of+" AS name, count(*) AS n, coalesce(sum(action = "+strconv.Itoa(int(filter.Block))+"), 0) FROM event WHERE "+
		where+" AND name IS NOT NULL GROUP BY name ORDER BY n DESC, name LIMIT ?", append(args, n)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t event.Tally
		if err := rows.Scan(&t.Name, &t.Events, &t.Blocked); err != nil {
			return nil, err
		}
		top = append(top, t)
	}
	return top, rows.Err()
}

// Sums counts the rows since each of some times, the latest time first, and
// returns for each the n most frequent of what they have in common. The record
// is read once for all: rows that have all in common are counted first, and
// the few that this leaves are put together. SQLite sorts in files where memory
// does not do; ctx bounds the time.
func (d *Reader) Sums(ctx context.Context, since []time.Time, n int) ([]event.Sums, error) {
	sums, err := d.sums(ctx, since, n)
	if err != nil {
		return nil, fmt.Errorf("count events in %q: %w", d.path, err)
	}
	return sums, nil
}

func (d *Reader) sums(ctx context.Context, since []time.Time, n int) ([]event.Sums, error) {
	if len(since) == 0 {
		return nil, nil
	}
	var age strings.Builder
	var args []any
	for i, t := range since[:len(since)-1] {
		fmt.Fprintf(&age, " WHEN coalesce(time, id) >= ? THEN %d", i)
		args = append(args, ceilMicro(t))
	}
	span := strconv.Itoa(len(since) - 1)
	ages := span
	if age.Len() > 0 {
		ages = "CASE" + age.String() + " ELSE " + span + " END"
	}
	block := strconv.Itoa(int(filter.Block))
	where, more := conditions(&event.Filter{Since: since[len(since)-1]})
	args = append(args, more...)
	q := "WITH same AS MATERIALIZED (SELECT client, category, CASE WHEN action = " + block + " THEN host END AS host, " + ages + " AS age, count(*) AS n, " +
		"coalesce(sum(action = " + block + "), 0) AS blocked FROM event WHERE " + where + " GROUP BY 1, 2, 3, 4)"
	for i := range since {
		if i > 0 {
			q += " UNION ALL"
		}
		at := strconv.Itoa(i)
		q += " SELECT " + at + ", '', '', coalesce(sum(n), 0), coalesce(sum(blocked), 0) FROM same WHERE age <= " + at
		for _, by := range []string{"client", "host", "category"} {
			q += " UNION ALL SELECT * FROM (SELECT " + at + ", '" + by + "', " + by + ", sum(n) AS n, sum(blocked) FROM same WHERE age <= " + at + " AND " + by +
				" IS NOT NULL GROUP BY " + by + " ORDER BY n DESC, " + by + " LIMIT " + strconv.Itoa(n) + ")"
		}
	}
	rows, err := d.db.QueryContext(ctx, q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	sums := make([]event.Sums, len(since))
	for rows.Next() {
		var i int
		var by string
		var t event.Tally
		if err := rows.Scan(&i, &by, &t.Name, &t.Events, &t.Blocked); err != nil {
			return nil, err
		}
		switch s := &sums[i]; by {
		case "client":
			s.Clients = append(s.Clients, t)
		case "host":
			s.Blocked = append(s.Blocked, t)
		case "category":
			s.Categories = append(s.Categories, t)
		default:
			s.All = t
		}
	}
	return sums, rows.Err()
}

// ceilMicro returns t in microseconds, rounded up: rows have whole ones.
func ceilMicro(t time.Time) int64 {
	return t.Add(time.Microsecond - 1).UnixMicro()
}

// actionNumber returns the action called name, -1 when there is none.
func actionNumber(name string) int {
	for a := filter.Pass; a <= filter.Redirect; a++ {
		if a.String() == name {
			return int(a)
		}
	}
	return -1
}
