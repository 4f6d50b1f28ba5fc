package sqlite

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
)

const columns = `coalesce(time, id), coalesce(duration, 0), coalesce(proto, 0), coalesce(action, 0),
	coalesce(learned, 0), coalesce(status, 0), coalesce(port, 0), coalesce(bytes_in, 0), coalesce(bytes_out, 0),
	coalesce(looked, 0), coalesce(score, 0), coalesce(ref, ''), coalesce(client, ''), coalesce(user, ''),
	coalesce(policy, ''), coalesce(rule, ''), coalesce(method, ''), coalesce(host, ''), coalesce(type, ''),
	coalesce(url, ''), coalesce(category, ''), coalesce(evidence, ''), coalesce(findings, ''), coalesce(note, '')`

// Query reads the rows of a span of time; without one, of the whole table. It
// sees the table as it was when it began.
func (s *Store) Query(ctx context.Context, f event.Filter) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		query, args := statement(&f)
		rows, err := s.readers.QueryContext(ctx, query, args...)
		if err != nil {
			yield(event.Row{}, fmt.Errorf("query events in %q: %w", s.path, err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			var r event.Row
			var at, duration int64
			var client string
			err = rows.Scan(&at, &duration, &r.Proto, &r.Action, &r.Learned, &r.Status, &r.Port, &r.BytesIn, &r.BytesOut,
				&r.Looked, &r.Score, &r.ID, &client, &r.User, &r.Policy, &r.Rule, &r.Method, &r.Host, &r.Type, &r.URL,
				&r.Category, &r.Evidence, &r.Findings, &r.Note)
			if err == nil && client != "" {
				r.Client, err = netip.ParseAddr(client)
			}
			if err != nil {
				break
			}
			r.Time = time.UnixMicro(at).UTC()
			r.Duration = time.Duration(duration) * time.Microsecond
			if !yield(r, nil) {
				return
			}
		}
		if err == nil {
			err = rows.Err()
		}
		if err != nil {
			yield(event.Row{}, fmt.Errorf("query events in %q: %w", s.path, err))
		}
	}
}

// statement returns the query for f. It must let through what f.Match does.
func statement(f *event.Filter) (query string, args []any) {
	var where []string
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
	query = "SELECT " + columns + " FROM event"
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	query += " ORDER BY id"
	if f.Newest {
		query += " DESC"
	}
	if f.Limit > 0 {
		query += " LIMIT ?"
		args = append(args, f.Limit)
	}
	return query, args
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
