package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"shuultuur/event"
)

// counted names the columns by which the server groups rows, by field. Rule has the column of
// policy/rule.
var counted = map[event.Field]string{
	event.Client: "coalesce(host(client), '')", event.User: "name", event.Host: "host", event.Action: "action",
	event.Rule: "rule", event.Category: "category", event.Policy: "policy", event.Proto: "proto", event.Method: "method",
	event.Status: "status", event.Type: "type", event.Learned: "learned", event.Source: "source", event.Unread: "unread", event.Cache: "cache",
}

// apart are the fields in the last columns, in order. A row has all of them or
// none. It has none if an older program wrote it, or if a text has bytes that
// no column accepts; then it is counted by its line.
var apart = [...]event.Field{event.Policy, event.Proto, event.Method, event.Status, event.Type, event.Learned, event.Source, event.Unread, event.Cache}

const asLine = "proto IS NULL"

// split stores the fields apart of a row in to.
func split(r *event.Row, to []any) {
	whole := true
	for _, f := range [...]event.Field{event.User, event.Host, event.Rule, event.Category} {
		v := f.Of(r)
		whole = whole && plain(v) == v
	}
	for i, f := range apart {
		v := f.Of(r)
		to[i] = v
		whole = whole && plain(v) == v
	}
	if !whole {
		clear(to)
	}
}

// Count implements [event.Reader]. The server groups and counts. Rows are read
// only for questions that search texts.
func (s *Store) Count(ctx context.Context, questions ...event.Question) ([][]event.Tally, error) {
	var grouped, others []event.Question
	var order []*[]event.Question // the group of each question
	for _, q := range questions {
		to := &grouped
		if slices.ContainsFunc(q.Filter.Terms, func(t event.Term) bool { return counted[t.Field] == "" }) {
			to = &others
		}
		*to, order = append(*to, q), append(order, to)
	}
	byGroup, err := event.NewCounter(grouped)
	if err != nil {
		return nil, err
	}
	byRow, err := event.NewCounter(others)
	if err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("count events in PostgreSQL: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	lines := false
	for _, some := range together(grouped) {
		more, err := group(ctx, tx, byGroup, grouped, some)
		if err != nil {
			return nil, fmt.Errorf("count events in PostgreSQL: %w", err)
		}
		lines = lines || more
	}
	if lines {
		err = s.addAll(ctx, tx, byGroup, grouped, asLine)
	}
	if err == nil && len(others) > 0 {
		err = s.addAll(ctx, tx, byRow, others, "")
	}
	if err != nil {
		return nil, err
	}
	a, b := byGroup.Tallies(), byRow.Tallies()
	var all [][]event.Tally
	for _, from := range order {
		if from == &grouped {
			all, a = append(all, a[0]), a[1:]
		} else {
			all, b = append(all, b[0]), b[1:]
		}
	}
	return all, nil
}

// addAll reads rows and counts them.
func (s *Store) addAll(ctx context.Context, db asker, c *event.Counter, questions []event.Question, also string) error {
	f := times(questions)
	if len(questions) == 1 {
		f = questions[0].Filter
	}
	for r, err := range s.readAll(ctx, db, &f, &event.Page{}, also) {
		if err != nil {
			return err
		}
		c.Add(&r)
	}
	return nil
}

// together divides the questions, given by their numbers, into those that one query answers: they
// have the same filter, and need rows grouped by no more than one field with many values. Groups
// by two of these would be nearly as many as rows.
func together(questions []event.Question) (all [][]int) {
	const many = 1<<event.Client | 1<<event.User | 1<<event.Host
	var fields []uint32
next:
	for i := range questions {
		of := fieldsOf(&questions[i])
		for n, some := range all {
			both := (fields[n] | of) & many
			if both&(both-1) == 0 && reflect.DeepEqual(questions[some[0]].Filter, questions[i].Filter) {
				all[n], fields[n] = append(some, i), fields[n]|of
				continue next
			}
		}
		all, fields = append(all, []int{i}), append(fields, of)
	}
	return all
}

// fieldsOf returns the fields by which rows must be grouped to answer a question, as bits.
func fieldsOf(q *event.Question) (all uint32) {
	if q.By != event.Text {
		all = 1 << q.By
	}
	for _, t := range q.Filter.Terms {
		all |= 1 << t.Field
	}
	if all&(1<<event.Rule) != 0 { // its column begins with the policy
		all |= 1 << event.Policy
	}
	return all
}

// group answers some of the questions, which one query answers, from groups of rows with equal
// fields. lines reports that some rows must be read.
func group(ctx context.Context, db asker, c *event.Counter, questions []event.Question, some []int) (lines bool, err error) {
	all := uint32(0)
	for _, i := range some {
		all |= fieldsOf(&questions[i])
	}
	var values [event.Picture]string // by field
	var events, blocked int
	to := []any{&lines, &events, &blocked}
	text := "SELECT " + asLine + ", count(*), count(*) FILTER (WHERE action = 'block')"
	by := " GROUP BY 1"
	for f := range values {
		if all&(1<<f) != 0 {
			text += ", coalesce(" + counted[event.Field(f)] + ", '')"
			to = append(to, &values[f])
			by += fmt.Sprintf(", %d", len(to))
		}
	}
	a := conditions(&questions[some[0]].Filter)
	rows, err := db.QueryContext(ctx, text+" FROM event WHERE "+strings.Join(a.where, " AND ")+by, a.args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return false, err
		}
		if lines {
			found = true
			continue
		}
		for _, i := range some {
			if name, ok := named(&questions[i], &values); ok {
				c.AddSum(i, name, events, blocked)
			}
		}
	}
	return found, rows.Err()
}

// named returns the name under which a question counts rows with these values, by field; false if
// it does not count them.
func named(q *event.Question, values *[event.Picture]string) (string, bool) {
	of := func(f event.Field) string { return values[f] }
	rule := func() string { return strings.TrimPrefix(of(event.Rule), of(event.Policy)+"/") }
	for i := range q.Filter.Terms {
		t := &q.Filter.Terms[i]
		v := of(t.Field)
		if t.Field == event.Rule {
			v = rule()
		}
		if !t.Matches(v) {
			return "", false
		}
	}
	switch q.By {
	case event.Text:
		return "", true
	case event.Rule:
		return of(event.Rule), rule() != ""
	}
	return of(q.By), of(q.By) != ""
}

// times returns a filter for the times of all questions.
func times(questions []event.Question) (f event.Filter) {
	for i := range questions {
		q := &questions[i].Filter
		if i == 0 {
			f.Since, f.Until = q.Since, q.Until
			continue
		}
		if q.Since.Before(f.Since) {
			f.Since = q.Since // the zero time is before any other
		}
		if q.Until.IsZero() || !f.Until.IsZero() && q.Until.After(f.Until) {
			f.Until = q.Until
		}
	}
	return f
}
