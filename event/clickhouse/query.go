package clickhouse

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"shuultuur/event"
	"shuultuur/lib/ascii"
)

// piece is the number of rows requested at once.
const piece = 5_000

// Query implements [event.Reader]. It reads rows a piece at a time, up to the
// last row that existed when the query began.
func (s *Store) Query(ctx context.Context, f event.Filter, p event.Page) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		fail := func(err error) { yield(event.Row{}, fmt.Errorf("read events from ClickHouse: %w", err)) }
		if err := s.ready(ctx); err != nil {
			fail(err)
			return
		}
		top, err := s.number(ctx, "SELECT max(seq) FROM event")
		if err != nil {
			fail(err)
			return
		}
		at, left := p.After, p.Limit
		for {
			want := piece
			if p.Limit > 0 {
				want = min(piece, left)
			}
			lines, err := s.lines(ctx, &f, p.Newest, at, top, want)
			if err != nil {
				fail(err)
				return
			}
			for _, l := range lines {
				at = l.seq
				r, err := s.Parse([]byte(l.text))
				if err == nil {
					err = ctx.Err()
				}
				if err != nil {
					fail(fmt.Errorf("event %d: %w", l.seq, err))
					return
				}
				if r.Seq = l.seq; !f.Match(&r) { // the server's conditions may match too many rows
					continue
				}
				if !yield(r, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if len(lines) < want {
				return
			}
		}
	}
}

// A line is a stored row.
type line struct {
	seq  int64
	text string
}

// lines returns the next rows that may match f, after a place (0 for the
// beginning) and up to the place top.
func (s *Store) lines(ctx context.Context, f *event.Filter, newest bool, after, top int64, limit int) ([]line, error) {
	where, _ := conditions(f)
	where = append(where, fmt.Sprintf("seq <= %d", top))
	order := "seq"
	if newest {
		order += " DESC"
	}
	if after != 0 {
		where = append(where, "seq "+map[bool]string{true: "< ", false: "> "}[newest]+strconv.FormatInt(after, 10))
	}
	return s.readLines(ctx, fmt.Sprintf("SELECT seq, line FROM event WHERE %s ORDER BY %s LIMIT %d", strings.Join(where, " AND "), order, limit))
}

// readLines runs a query for places and lines.
func (s *Store) readLines(ctx context.Context, query string) (all []line, err error) {
	err = s.ask(ctx, query, func(d *decoder) {
		if l := (line{d.int64(), d.text()}); d.err == nil {
			all = append(all, l)
		}
	})
	return all, err
}

// Count implements [event.Reader]. The server groups and counts. Rows are read
// only for questions that search texts.
func (s *Store) Count(ctx context.Context, questions ...event.Question) ([][]event.Tally, error) {
	if _, err := event.NewCounter(questions); err != nil { // whether rows can be counted by the field
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	top, err := s.number(ctx, "SELECT max(seq) FROM event")
	if err != nil {
		return nil, fmt.Errorf("count events in ClickHouse: %w", err)
	}
	all := make([][]event.Tally, len(questions))
	for i := range questions {
		q := &questions[i]
		if where, exact := conditions(&q.Filter); exact {
			all[i], err = s.group(ctx, q, append(where, fmt.Sprintf("seq <= %d", top)))
		} else {
			all[i], err = s.countRows(ctx, q)
		}
		if err != nil {
			return nil, fmt.Errorf("count events in ClickHouse: %w", err)
		}
	}
	return all, nil
}

// countRows reads and counts the rows of a question.
func (s *Store) countRows(ctx context.Context, q *event.Question) ([]event.Tally, error) {
	c, err := event.NewCounter([]event.Question{*q})
	if err != nil {
		return nil, err
	}
	for r, err := range s.Query(ctx, q.Filter, event.Page{}) {
		if err != nil {
			return nil, err
		}
		c.Add(&r)
	}
	return c.Tallies()[0], nil
}

// maxTallies is the most tallies for a question without a limit.
const maxTallies = 1_000_000

// group answers a question with the counts that the server makes.
func (s *Store) group(ctx context.Context, q *event.Question, where []string) (all []event.Tally, err error) {
	name, by := "''", ""
	switch q.By {
	case event.Text:
	case event.Rule:
		name, by = "concat(policy, '/', rule)", "rule"
	default:
		name, by = q.By.String(), q.By.String()
	}
	query := "SELECT toString(" + name + ") AS name, toInt64(count()) AS events, toInt64(countIf(action = 'block')) FROM event WHERE "
	if by != "" {
		where = append(where, by+" != ''")
	}
	query += strings.Join(where, " AND ")
	if by != "" {
		limit := maxTallies
		if q.Top > 0 {
			limit = min(limit, q.Top)
		}
		query += fmt.Sprintf(" GROUP BY name ORDER BY events DESC, name LIMIT %d", limit)
	}
	err = s.ask(ctx, query, func(d *decoder) {
		t := event.Tally{Name: d.text(), Events: int(d.int64()), Blocked: int(d.int64())}
		if d.err == nil {
			all = append(all, t)
		}
	})
	return all, err
}

// conditions returns those conditions of a filter that the server can check. exact reports that
// they match exactly the rows that the filter matches.
func conditions(f *event.Filter) (where []string, exact bool) {
	where, exact = []string{"1"}, true
	if !f.Since.IsZero() {
		where = append(where, "time >= "+micros(event.RoundUp(f.Since)))
	}
	if !f.Until.IsZero() {
		where = append(where, "time < "+micros(event.RoundUp(f.Until)))
	}
	for i := range f.Terms {
		t := &f.Terms[i]
		condition, whole := "", true
		switch {
		case t.Field == event.Client:
			condition = clients(t)
		case t.Field == event.Host:
			condition = hosts(t.Values)
		case slices.Contains(fields[:], t.Field):
			condition = t.Field.String() + " IN " + literals(t.Values)
		default:
			condition, whole = inLine(t), false
		}
		exact = exact && whole
		switch {
		case t.Not && !whole: // a match in the line may be in another field
		case t.Not:
			where = append(where, "NOT ("+condition+")")
		case condition != "":
			where = append(where, "("+condition+")")
		}
	}
	return where, exact
}

// clients returns the condition that a client is in a network of the term, or
// unknown.
func clients(t *event.Term) string {
	var any []string
	for _, p := range t.Networks() {
		first := p.Masked().Addr().As16()
		last := first
		for bit := p.Bits() + 128 - p.Addr().BitLen(); bit < 128; bit++ {
			last[bit/8] |= 0x80 >> (bit % 8)
		}
		any = append(any, fmt.Sprintf("client != '' AND address BETWEEN toIPv6('%v') AND toIPv6('%v')", netip.AddrFrom16(first), netip.AddrFrom16(last)))
	}
	if len(t.Values) > 0 { // "" alone means no network
		any = append(any, "client = ''")
	}
	return strings.Join(any, " OR ")
}

// hosts returns the condition that a host is in domains or a subdomain of one.
func hosts(domains []string) string {
	any := []string{"host IN " + literals(domains)}
	for _, d := range domains {
		if d != "" {
			any = append(any, "endsWith(host, "+literal("."+d)+")")
		}
	}
	return strings.Join(any, " OR ")
}

// inLine returns the condition that the line, or the words, of a row contain a
// value of the term; "" if every row may match.
func inLine(t *event.Term) string {
	var any []string
	for _, v := range t.Values {
		if v == "" {
			return "" // matches rows without the field
		}
		if t.Field == event.Text {
			any = append(any, "position(words, "+literal(ascii.ToLower(v))+") > 0")
			continue
		}
		text := string(event.AppendJSON(nil, v))
		any = append(any, "position(line, "+literal(text[1:len(text)-1])+") > 0")
	}
	return strings.Join(any, " OR ")
}
