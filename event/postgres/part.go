package postgres

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/lib/ascii"
)

// Searches for text skip most rows by their grams, the pieces of four bytes in their words. Rows
// are divided into parts in the order of recording. Table event_part says for each part, in a
// filter of bits, which grams its rows have. A part without one of the grams of a text has no row
// with that text. Rows after the last part are always searched.

const (
	gramBits = 1 << 14      // of the filter of a part
	fullPart = gramBits / 3 // bits set in a part to which no rows are added
	gramsOf  = 12           // grams of a value that are looked up

	sealMost = 1 << 16 // most rows that one Write divides
)

// sealRows is the number of rows without a part from which on parts are made of them, and partRows
// the most rows of a part.
var sealRows, partRows = 8192, 1024

// partTable creates the table of parts. Filters are neither compressed nor moved out of the
// table, because searches read all of them.
const partTable = `
DO $$ BEGIN
	IF to_regclass('event_part') IS NULL THEN
		CREATE TABLE event_part (
			first bigint NOT NULL, -- seq
			last  bigint PRIMARY KEY,
			since timestamptz NOT NULL, -- lowest and highest time
			until timestamptz NOT NULL,
			grams bytea NOT NULL
		);
		CREATE INDEX event_part_until ON event_part (until);
		ALTER TABLE event_part ALTER COLUMN grams SET STORAGE PLAIN;
	END IF;
END $$;
`

// A part is a number of rows that follow each other.
type part struct {
	first, last  int64     // seq
	since, until time.Time // lowest and highest time
	grams        [gramBits / 8]byte
	rows         int
	set          int // bits of grams
}

// gram returns the number of the bit for the first four bytes of s.
func gram(s string) uint32 {
	return (uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24) * 0x9e3779b1 >> 18
}

// add adds the grams of rows. Rows of an older program have no words, but may have any text.
func (p *part) add(words string, known bool) {
	if !known {
		for i := range p.grams {
			p.grams[i] = 255
		}
		p.set = gramBits
	}
	for ; len(words) >= 4; words = words[1:] {
		h := gram(words)
		if b := &p.grams[h/8]; *b&(1<<(h%8)) == 0 {
			*b |= 1 << (h % 8)
			p.set++
		}
	}
}

// seal makes parts of the rows since the last part, if there are enough.
func (s *Store) seal(ctx context.Context, now time.Time, writing int) error {
	if s.unsealed += writing; s.unsealed < sealRows && now.Before(s.nextSeal) {
		return nil
	}
	s.nextSeal = now.Add(time.Minute)
	end, err := s.final(ctx)
	if err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // unless it was committed
	var mine bool                        // no other gateway is doing this
	if err := tx.QueryRowContext(ctx, "SELECT pg_try_advisory_xact_lock(7305806)").Scan(&mine); err != nil {
		return err
	}
	var begin int64
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(last), 0) FROM event_part").Scan(&begin); err != nil {
		return err
	}
	if !mine || end-begin < int64(sealRows) {
		s.unsealed = 0
		return nil
	}
	// The server joins the words of some rows, because there is a cost for each row of an answer.
	rows, err := tx.QueryContext(ctx, fmt.Sprintf("SELECT min(seq), max(seq), min(time), max(time), string_agg(words, E'\\n'), count(words), count(*) FROM (SELECT seq, time, words FROM event WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT %d) AS row GROUP BY seq / 16 ORDER BY 1", sealMost), begin, end)
	if err != nil {
		return err
	}
	defer rows.Close()
	var all []*part
	p, total := &part{}, 0
	for rows.Next() {
		var g part
		var words sql.NullString
		var known, n int
		if err := rows.Scan(&g.first, &g.last, &g.since, &g.until, &words, &known, &n); err != nil {
			return err
		}
		if total += n; p.rows >= partRows || p.set >= fullPart {
			all, p = append(all, p), &part{}
		}
		if p.rows == 0 {
			p.first, p.since, p.until = g.first, g.since, g.until
		}
		p.rows, p.last = p.rows+n, g.last
		if g.since.Before(p.since) {
			p.since = g.since
		}
		if g.until.After(p.until) {
			p.until = g.until
		}
		p.add(words.String, known == n)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if s.unsealed = 0; total == sealMost { // the next Write goes on
		s.unsealed = sealRows
	}
	if err := save(ctx, tx, all); err != nil { // without the last one, which may get more rows
		return err
	}
	return tx.Commit()
}

// final returns the Seq up to which no row will appear any more. Rows get theirs before their
// transaction ends, in which the table is locked against this lock.
func (s *Store) final(ctx context.Context) (seq int64, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = '1s'; LOCK TABLE ONLY event IN SHARE MODE"); err != nil {
		return 0, ctx.Err() // somebody writes much; there is another time
	}
	return seq, tx.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM event").Scan(&seq)
}

// save stores new parts.
func save(ctx context.Context, tx *sql.Tx, all []*part) error {
	if len(all) == 0 {
		return nil
	}
	grams := make([]string, len(all))
	for i, p := range all {
		grams[i] = `\x` + hex.EncodeToString(p.grams[:])
	}
	a := whereClause{}
	_, err := tx.ExecContext(ctx, "INSERT INTO event_part SELECT * FROM unnest("+a.places(all)+", "+a.value(grams)+"::text[]::bytea[])", a.args...)
	return err
}

// places adds the columns of parts, without their grams, as values and returns their placeholders.
func (a *whereClause) places(all []*part) string {
	var first, last, since, until []string
	for _, p := range all {
		first, last = append(first, strconv.FormatInt(p.first, 10)), append(last, strconv.FormatInt(p.last, 10))
		since, until = append(since, p.since.Format(time.RFC3339Nano)), append(until, p.until.Format(time.RFC3339Nano))
	}
	return a.value(first) + "::text[]::bigint[], " + a.value(last) + "::text[]::bigint[], " + a.value(since) + "::text[]::timestamptz[], " + a.value(until) + "::text[]::timestamptz[]"
}

// ofPart is the condition that a row is one of a part.
const ofPart = "seq BETWEEN first AND last AND time BETWEEN since AND until"

// renew makes the grams of the parts of rows again, after texts were removed from them.
func (s *Store) renew(ctx context.Context, seqs []string) error {
	if len(seqs) == 0 {
		return nil
	}
	rows, err := s.db.QueryContext(ctx, "SELECT first, last, words FROM event_part LEFT JOIN LATERAL (SELECT words FROM event WHERE "+ofPart+
		" OFFSET 0) AS found ON true WHERE last IN (SELECT (SELECT min(last) FROM event_part WHERE last >= gone) FROM unnest($1::text[]::bigint[]) AS gone) ORDER BY last", seqs)
	if err != nil {
		return err
	}
	defer rows.Close()
	p := &part{}
	update := func() error {
		if p.last == 0 { // before the first
			return nil
		}
		_, err := s.db.ExecContext(ctx, "UPDATE event_part SET grams = $2 WHERE last = $1", p.last, p.grams[:])
		return err
	}
	for rows.Next() {
		var first, last int64
		var words sql.NullString
		if err := rows.Scan(&first, &last, &words); err != nil {
			return err
		}
		if last != p.last {
			if err := update(); err != nil {
				return err
			}
			p = &part{first: first, last: last}
		}
		p.add(words.String, words.Valid)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return update()
}

// spans returns the spans in which rows may match f, in the order of p: parts, and the rows after the
// last part. It returns none if f searches for no text, or if so many parts may match that rows
// are found as quickly without them.
func (s *Store) spans(ctx context.Context, db asker, f *event.Filter, p *event.Page) ([]*span, error) {
	a := &whereClause{}
	for i := range f.Terms {
		a.grams(&f.Terms[i])
	}
	if len(a.where) == 0 {
		return nil, nil
	}
	if !f.Since.IsZero() {
		a.add("until >= $", event.RoundUp(f.Since))
	}
	if !f.Until.IsZero() {
		a.add("since < $", event.RoundUp(f.Until))
	}
	// The first row of the answer has the place of all parts.
	rows, err := db.QueryContext(ctx, "SELECT coalesce(min(last), 0), coalesce(max(last), 0), now(), now(), 0 FROM event_part UNION ALL SELECT first, last, since, until, 1 FROM event_part WHERE "+strings.Join(a.where, " AND ")+" ORDER BY 5, 2", a.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var parts []*part
	var found int64 // rows
	for rows.Next() {
		p := &part{}
		if err := rows.Scan(&p.first, &p.last, &p.since, &p.until, new(int64)); err != nil {
			return nil, err
		}
		if parts = append(parts, p); len(parts) > 1 {
			found += p.last - p.first + 1
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	whole, parts := parts[0], parts[1:]
	if found >= (whole.last-whole.first+3)/4 {
		return nil, nil
	}
	all := []*span{{newest: p.Newest, after: p.After, from: whole.last + 1}}
	for n := 0; len(parts) > 0; n++ {
		k, left := len(parts), int64(math.MaxInt64)
		if p.Newest && n < len(nearRows) {
			left = nearRows[n]
		}
		for ; k > 0 && left > 0; k-- {
			left -= parts[k-1].last - parts[k-1].first + 1
		}
		all, parts = append(all, &span{newest: p.Newest, after: p.After, parts: parts[k:]}), parts[:k]
	}
	if !p.Newest {
		slices.Reverse(all)
	}
	return all, nil
}

// grams adds the condition that a part has all grams of one of the values of a term, if the term
// searches for text.
func (a *whereClause) grams(t *event.Term) {
	if t.Field != event.Text && t.Field != event.ID || t.Not || len(t.Values) > gramsOf || !sayable(t) {
		return
	}
	var any []string
	for _, v := range t.Values {
		if len(v) < 4 {
			return // it has no grams
		}
		var bits []string
		v = ascii.ToLower(v)
		step := max(1, (len(v)-3)/gramsOf)
		for i := 0; i+4 <= len(v) && len(bits) < gramsOf; i += step {
			bits = append(bits, fmt.Sprintf("get_bit(grams, %d) = 1", gram(v[i:])))
		}
		any = append(any, strings.Join(bits, " AND "))
	}
	if len(any) > 0 {
		a.where = append(a.where, "("+strings.Join(any, " OR ")+")")
	}
}
