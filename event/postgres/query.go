package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"shuultuur/event"
	"shuultuur/lib/ascii"
)

// The server checks as much of a filter as it can. Its rows are compared again here, so its
// conditions may match too many rows but never too few.

// nearRows are the numbers of newest rows that are searched first, in order. If they are not
// enough, the server finds all matching rows before it sorts them. Without these steps it would
// guess how far it must go, and scan one index after another.
var nearRows = [...]int64{20_000, 200_000}

// Query implements [event.Reader].
func (s *Store) Query(ctx context.Context, f event.Filter, p event.Page) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		if err := s.ready(ctx); err != nil {
			yield(event.Row{}, err)
			return
		}
		if p.Limit == 0 {
			s.readAll(ctx, s.db, &f, &p, "")(yield)
			return
		}
		if err := s.queryPieces(ctx, &f, p, yield); err != nil {
			yield(event.Row{}, fmt.Errorf("read events from PostgreSQL: %w", err))
		}
	}
}

// queryPieces yields rows up to a limit, a piece at a time, from one snapshot.
func (s *Store) queryPieces(ctx context.Context, f *event.Filter, p event.Page, yield func(event.Row, error) bool) error {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	left := p.Limit
	piece := func(at *span) (bool, error) {
		for {
			at.limit = left
			got, last := 0, int64(0)
			at.seen = func(seq int64) { got, last = got+1, seq }
			for r, err := range s.read(ctx, tx, f, at, "") {
				if err != nil {
					yield(event.Row{}, err)
					return true, nil
				}
				if left--; !yield(r, nil) || left == 0 {
					return true, nil
				}
			}
			if got < at.limit {
				return false, nil
			}
			at.after = last // not all of them matched
		}
	}
	at := &span{newest: p.Newest, after: p.After}
	spans, err := s.spans(ctx, tx, f, &p)
	if err != nil {
		return err
	}
	if spans != nil {
		for _, at := range spans {
			if done, err := piece(at); done || err != nil {
				return err
			}
		}
		return nil
	}
	if p.Newest && len(f.Terms) > 0 {
		end, top := p.After, int64(0)
		if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM event").Scan(&top); err != nil {
			return err
		}
		if end == 0 || end > top {
			end = top + 1
		}
		for _, near := range nearRows {
			done, err := piece(&span{newest: true, after: end, from: end - near})
			if done || err != nil {
				return err
			}
			if end -= near; end <= 1 { // there are no rows below it
				return nil
			}
		}
		at.after, at.sorted = end, true
	}
	_, err = piece(at)
	return err
}

// A span limits and orders the rows of a query.
type span struct {
	newest bool
	after  int64           // the last place in that order; 0: from the beginning
	from   int64           // the lowest place; 0 or less: any
	limit  int             // most rows from the server; 0: all
	parts  []*part         // nil: all rows
	sorted bool            // sort the found rows, instead of following the index
	seen   func(seq int64) // called for each row of the server; may be nil
}

// readAll yields all rows that match, like read, and skips parts without the texts of f.
func (s *Store) readAll(ctx context.Context, db asker, f *event.Filter, p *event.Page, also string) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		spans, err := s.spans(ctx, db, f, p)
		if err != nil {
			yield(event.Row{}, fmt.Errorf("read the index of events from PostgreSQL: %w", err))
			return
		}
		if spans == nil {
			spans = []*span{{newest: p.Newest, after: p.After}}
		}
		for _, at := range spans {
			for r, err := range s.read(ctx, db, f, at, also) {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

// An asker is a database or a transaction.
type asker interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// read yields the rows that match f and the condition also, unless that is "".
func (s *Store) read(ctx context.Context, db asker, f *event.Filter, at *span, also string) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		text, args := query(f, at, also)
		rows, err := db.QueryContext(ctx, text, args...)
		if err != nil {
			yield(event.Row{}, fmt.Errorf("read events from PostgreSQL: %w", err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			var seq int64
			var line string
			err := rows.Scan(&seq, &line)
			var r event.Row
			if err == nil {
				r, err = s.Parse([]byte(line))
			}
			if err != nil {
				yield(event.Row{}, fmt.Errorf("read event %d from PostgreSQL: %w", seq, err))
				return
			}
			if at.seen != nil {
				at.seen(seq)
			}
			if r.Seq = seq; f.Match(&r) && !yield(r, nil) {
				return
			}
		}
		if err := errors.Join(rows.Err(), ctx.Err()); err != nil {
			yield(event.Row{}, fmt.Errorf("read events from PostgreSQL: %w", err))
		}
	}
}

// query returns a query for the rows of a span that may match f.
func query(f *event.Filter, at *span, also string) (text string, args []any) {
	c := conditions(f)
	if also != "" {
		c.where = append(c.where, also)
	}
	order := " ORDER BY seq"
	if at.sorted {
		order += " + 0"
	}
	if at.after != 0 {
		c.add("seq "+map[bool]string{true: "<", false: ">"}[at.newest]+" $", at.after)
	}
	if at.from > 0 {
		c.add("seq >= $", at.from)
	}
	if at.newest {
		order += " DESC"
	}
	text = "SELECT seq, line FROM event WHERE "
	if at.parts != nil { // OFFSET 0 makes the server look up one part after another, where it would read all rows
		text = "SELECT seq, line FROM unnest(" + c.places(at.parts) + ") AS part (first, last, since, until), LATERAL (" + text + ofPart + " AND "
		order = " OFFSET 0) AS found" + order
	}
	text += strings.Join(c.where, " AND ") + order
	if at.limit > 0 {
		text += " LIMIT " + strconv.Itoa(at.limit)
	}
	return text, c.args
}

// A whereClause has conditions and their values.
type whereClause struct {
	where []string
	args  []any
}

// value adds a value and returns its placeholder.
func (a *whereClause) value(v any) string {
	a.args = append(a.args, v)
	return "$" + strconv.Itoa(len(a.args))
}

// add adds a condition with $ in place of its value.
func (a *whereClause) add(condition string, value any) {
	a.where = append(a.where, strings.Replace(condition, "$", a.value(value), 1))
}

// conditions returns the conditions of a filter that the server can check.
func conditions(f *event.Filter) *whereClause {
	a := &whereClause{where: []string{"true"}}
	if !f.Since.IsZero() {
		a.add("time >= $", event.RoundUp(f.Since))
	}
	if !f.Until.IsZero() {
		a.add("time < $", event.RoundUp(f.Until))
	}
	for i := range f.Terms {
		if t := &f.Terms[i]; sayable(t) {
			a.term(t)
		}
	}
	return a
}

// sayable reports whether the values of a term can be sent to the server.
func sayable(t *event.Term) bool {
	for _, v := range t.Values {
		if plain(v) != v || strings.ContainsRune(v, '\ufffd') { // lines have U+FFFD in place of invalid bytes
			return false
		}
	}
	return true
}

// term adds the condition of a term.
func (a *whereClause) term(t *event.Term) {
	condition := ""
	switch t.Field {
	case event.Action:
		condition = "action = ANY(" + a.value(t.Values) + "::text[])"
	case event.Client:
		a.clients(t)
		return
	case event.Host:
		condition = a.hosts(t.Values)
	case event.Rule:
		condition = "substr(rule, length(policy) + 2) = ANY(" + a.value(t.Values) + "::text[])"
	case event.Text, event.ID, event.Picture, event.Conversation, event.Monitored, event.Signature:
		a.lines(t)
		return
	default:
		condition = counted[t.Field] + " = ANY(" + a.value(t.Values) + "::text[])"
	}
	if t.Not {
		condition = "NOT (" + condition + ")"
	}
	if t.Field != event.Action {
		condition = "(" + asLine + " OR " + condition + ")"
	}
	a.where = append(a.where, condition)
}

// clients adds a term about addresses, which have their own column.
func (a *whereClause) clients(t *event.Term) {
	var any []string
	var single, nets []string
	for _, p := range t.Networks() {
		if p.IsSingleIP() {
			single = append(single, p.Addr().String())
		} else {
			nets = append(nets, p.String())
		}
	}
	if len(single) > 0 {
		any = append(any, "client = ANY("+a.value(single)+"::text[]::inet[])")
	}
	if len(nets) > 0 {
		any = append(any, "client <<= ANY("+a.value(nets)+"::text[]::inet[])")
	}
	if len(t.Values) > 0 { // "" alone means no network
		any = append(any, "client IS NULL")
	}
	condition := "coalesce(" + strings.Join(any, " OR ") + ", false)"
	if t.Not {
		condition = "NOT " + condition
	} else {
		condition = "(" + strings.Join(any, " OR ") + ")" // the form that the index supports
	}
	a.where = append(a.where, condition)
}

// hosts returns the condition that a host is in domains or a subdomain of one.
// Both compare the reversed name, which has an index: subdomains follow their
// domain in its order.
func (a *whereClause) hosts(domains []string) string {
	var any []string
	for _, d := range domains {
		if d == "" {
			any = append(any, "host = ''")
			continue
		}
		of := "reverse(" + a.value(d) + "::text)"
		// ~>=~ and ~<~ compare bytes: '.' is followed by '/'.
		any = append(any, "reverse(host) = "+of, "reverse(host) ~>=~ ("+of+" || '.') AND reverse(host) ~<~ ("+of+" || '/')")
	}
	return strings.Join(any, " OR ")
}

// lines adds the condition that the line, or the words, of a row contain one of the values. The
// line has the fields without a column.
func (a *whereClause) lines(t *event.Term) {
	if t.Not {
		return // a match in the line may be in another field
	}
	var any []string
	for _, v := range t.Values {
		if v == "" {
			return // matches rows without the field
		}
		line := string(event.AppendJSON(nil, v))
		line = line[1 : len(line)-1]
		if t.Field == event.Text { // older rows have no words
			any = append(any, `CASE WHEN words IS NULL THEN strpos(lower(line COLLATE "C"), `+a.value(ascii.ToLower(line))+") > 0 ELSE strpos(words, "+a.value(ascii.ToLower(v))+") > 0 END")
			continue
		}
		any = append(any, "strpos(line, "+a.value(line)+") > 0")
	}
	a.where = append(a.where, "("+strings.Join(any, " OR ")+")")
}
