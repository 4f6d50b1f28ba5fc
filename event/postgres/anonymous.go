package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"shuultuur/event"
)

// Old rows are made anonymous a day at a time. A comment on the table of a day marks it as
// done, so that only one gateway of a fleet does the work, once. Late rows are made anonymous
// before they are written.

const (
	anonymousDone = "anonymous" // the comment
	anonymousRows = 2000        // changed in one transaction
)

// A nameless records which days of a store are anonymous.
type nameless struct {
	after time.Duration // age of rows; 0: never
	next  time.Time     // when to look for days
	days  []string      // tables of old days that are not done
	seq   int64         // rows of the first table with a Seq up to this are done
}

// Anonymise implements [event.Anonymiser].
func (s *Store) Anonymise(after time.Duration) { s.nameless.after = after }

// forgetClients makes rows of old days anonymous: more rows than are written at the same time,
// so that it keeps up, but few enough that no batch waits long.
func (s *Store) forgetClients(ctx context.Context, now time.Time, writing int) (err error) {
	n := &s.nameless
	if n.after == 0 {
		return nil
	}
	if len(n.days) == 0 {
		if now.Before(n.next) {
			return nil
		}
		if n.days, err = s.nameable(ctx, now.Add(-n.after)); err != nil {
			return err
		}
		n.next, n.seq = now.Add(sweepEvery), 0
	}
	for left := 2*writing + 1; left > 0 && len(n.days) > 0; left -= anonymousRows {
		last, err := s.anonymiseSome(ctx, n.days[0], n.seq)
		if err != nil {
			n.days = nil // a table may have been dropped
			return err
		}
		if n.seq = last; last == 0 {
			n.days = n.days[1:]
		}
	}
	return nil
}

// nameable returns the tables of days that ended before a time and are not
// anonymous.
func (s *Store) nameable(ctx context.Context, before time.Time) (days []string, err error) {
	names, err := s.texts(ctx, partitions+" AND obj_description(inhrelid, 'pg_class') IS DISTINCT FROM $1 ORDER BY 1", anonymousDone)
	for _, name := range names {
		if end, ok := dayEnd(name); ok && !end.After(before) {
			days = append(days, name)
		}
	}
	return days, err
}

// anonymiseSome makes the next rows of a day after seq anonymous, and returns the Seq of the
// last one. It returns 0 if there are none: the day is done.
func (s *Store) anonymiseSome(ctx context.Context, day string, seq int64) (last int64, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // unless it was committed
	changed, last, err := s.namesOf(ctx, tx, day, seq)
	if err != nil {
		return 0, err
	}
	if len(changed.seqs) > 0 {
		if _, err := tx.ExecContext(ctx, "UPDATE "+day+" AS e SET client = nullif(n.client, '')::inet, name = '', line = n.line, words = n.words FROM unnest($1::text[]::bigint[], $2::text[], $3::text[], $4::text[]) AS n (seq, client, line, words) WHERE e.seq = n.seq",
			changed.seqs, changed.clients, changed.lines, changed.words); err != nil {
			return 0, err
		}
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	if err := s.renew(ctx, changed.silent); err != nil || last > 0 {
		return last, err
	}
	// The server's next vacuum removes the old versions of rows. So many changes trigger one
	// soon; waiting for it would delay the writing of rows.
	_, err = s.db.ExecContext(ctx, fmt.Sprintf("COMMENT ON TABLE %s IS '%s'", day, anonymousDone))
	return 0, err
}

// changes has columns of rows that become anonymous.
type changes struct {
	seqs, clients, lines, words []string
	silent                      []string // seqs of rows that lost words
}

// namesOf reads the next rows of a day after seq. It returns the anonymous form
// of those that named somebody, and the last row read.
func (s *Store) namesOf(ctx context.Context, tx *sql.Tx, day string, seq int64) (c changes, last int64, err error) {
	rows, err := tx.QueryContext(ctx, fmt.Sprintf("SELECT seq, line FROM %s WHERE seq > $1 ORDER BY seq LIMIT %d", day, anonymousRows), seq)
	if err != nil {
		return c, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&last, &line); err != nil {
			return c, 0, err
		}
		r, err := s.Parse([]byte(line))
		if err != nil {
			return c, 0, fmt.Errorf("event %d: %w", last, err)
		}
		words := searched(&r)
		if !r.Anonymise() {
			continue
		}
		client := ""
		if r.Client.IsValid() {
			client = r.Client.String()
		}
		c.seqs = append(c.seqs, strconv.FormatInt(last, 10))
		if searched(&r) != words {
			c.silent = append(c.silent, c.seqs[len(c.seqs)-1])
		}
		c.clients, c.lines, c.words = append(c.clients, client), append(c.lines, string(s.Append(nil, &r))), append(c.words, searched(&r))
	}
	return c, last, rows.Err()
}

// dayEnd returns the end of the day of a table; false if the table is not one
// of a day.
func dayEnd(table string) (time.Time, bool) {
	_, day, _ := strings.Cut(table, "event_")
	begin, err := time.Parse(dayForm, day)
	return begin.AddDate(0, 0, 1), err == nil
}

// anonymousIfOld returns the row, anonymous if it is old.
func (n *nameless) anonymousIfOld(r *event.Row, now time.Time) *event.Row {
	if n.after == 0 || r.Time.After(now.Add(-n.after)) {
		return r
	}
	c := *r
	c.Anonymise()
	return &c
}
