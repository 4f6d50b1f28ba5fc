// Package store counts votes in a database: SQLite, the default, or PostgreSQL.
//
// A batch is one transaction. Votes with an identifier that is already there are
// left out (ON CONFLICT DO NOTHING); those that were inserted add to the tallies
// and to their case in the same transaction. So tallies always agree with the
// rows, and a batch that comes twice counts once. Of several votes with the token
// of one event, all have a row, and the first adds to tallies and case.
//
// Both databases have the same tables and get the same statements, but for the
// insertion of votes: SQLite gets rows, PostgreSQL a COPY into a
// staging table.
package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/vote"
)

const schema = `
CREATE TABLE IF NOT EXISTS vote (
	id       {blob} PRIMARY KEY,
	at       BIGINT NOT NULL, -- milliseconds since 1970
	kind     INTEGER NOT NULL, -- 1 wrong, 2 dangerous
	remedy   BIGINT NOT NULL,
	voter    TEXT NOT NULL,
	client   TEXT NOT NULL,
	login    TEXT NOT NULL,
	groups   TEXT NOT NULL, -- a line for each
	host     TEXT NOT NULL,
	url      TEXT NOT NULL,
	policy   TEXT NOT NULL,
	rule     TEXT NOT NULL,
	ref      TEXT NOT NULL,
	comment  TEXT NOT NULL,
	mail     TEXT NOT NULL,
	node     TEXT NOT NULL
) {compact};
CREATE INDEX IF NOT EXISTS vote_remedy ON vote (remedy, at);
CREATE TABLE IF NOT EXISTS occasion ( -- events that have a vote
	id   {blob} PRIMARY KEY,
	vote {blob} NOT NULL,
	at   BIGINT NOT NULL
) {compact};
CREATE TABLE IF NOT EXISTS repeated ( -- votes on such an event, which add to nothing
	id {blob} PRIMARY KEY,
	at BIGINT NOT NULL
) {compact};
CREATE TABLE IF NOT EXISTS tally (
	dimension INTEGER NOT NULL,
	name      TEXT NOT NULL,
	kind      INTEGER NOT NULL,
	n         BIGINT NOT NULL,
	PRIMARY KEY (dimension, name, kind)
) {compact};
CREATE INDEX IF NOT EXISTS tally_most ON tally (dimension, n);
CREATE TABLE IF NOT EXISTS matter (
	id       BIGINT PRIMARY KEY, -- number of the remedy
	remedy   TEXT NOT NULL,
	kind     INTEGER NOT NULL,
	host     TEXT NOT NULL,
	checked  TEXT NOT NULL,
	category TEXT NOT NULL,
	n        BIGINT NOT NULL, -- votes since the last decision
	people   BIGINT NOT NULL,
	first_at BIGINT NOT NULL,
	last_at  BIGINT NOT NULL,
	since    BIGINT NOT NULL, -- of the last decision
	decision BIGINT NOT NULL -- the last one, 0 is none
);
CREATE INDEX IF NOT EXISTS matter_most ON matter (people, n);
CREATE TABLE IF NOT EXISTS person (
	remedy BIGINT NOT NULL,
	voter  TEXT NOT NULL,
	PRIMARY KEY (remedy, voter)
) {compact};
CREATE TABLE IF NOT EXISTS decision (
	id     BIGINT PRIMARY KEY,
	remedy TEXT NOT NULL,
	site   TEXT NOT NULL,
	action TEXT NOT NULL,
	who    TEXT NOT NULL,
	until  BIGINT NOT NULL, -- 0 is for good
	reason TEXT NOT NULL,
	author TEXT NOT NULL,
	at     BIGINT NOT NULL,
	n      BIGINT NOT NULL,
	ended  BIGINT NOT NULL
);
`

// columns are the columns of the table vote.
var columns = []string{"id", "at", "kind", "remedy", "voter", "client", "login", "groups", "host", "url", "policy", "rule", "ref", "comment", "mail", "node"}

// A DB is a [vote.Store].
type DB struct {
	db       *sql.DB // one connection writes
	read     *sql.DB
	postgres bool
	insert   func(ctx context.Context, on *sql.Conn, tx *sql.Tx, votes []vote.Vote) (fresh map[vote.ID]bool, err error)
}

// Open opens the database at a place: the URL of a PostgreSQL database, or the
// path of an SQLite file. PostgreSQL does not have to be reachable yet.
func Open(ctx context.Context, place string) (*DB, error) {
	if IsURL(place) {
		return openPostgres(place)
	}
	return openSQLite(ctx, place)
}

// Check finds mistakes in a place, without connecting to a database.
func Check(place string) error {
	if !IsURL(place) {
		return nil
	}
	d, err := openPostgres(place) // which connects when it is used
	if err != nil {
		return err
	}
	return d.Close()
}

// IsURL reports whether a place is the URL of a PostgreSQL database.
func IsURL(place string) bool {
	return strings.HasPrefix(place, "postgres://") || strings.HasPrefix(place, "postgresql://")
}

// Close closes the database.
func (d *DB) Close() error {
	if d.read != d.db {
		return errors.Join(d.read.Close(), d.db.Close())
	}
	return d.db.Close()
}

// q writes a statement with the database's own placeholders.
func (d *DB) q(s string) string {
	if !d.postgres {
		return s
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, more := strings.Cut(s, "?")
		b.WriteString(before)
		if !more {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		s = after
	}
}

// values returns a vote's values in the order of columns.
func values(v *vote.Vote) []any {
	e := &v.Event
	return []any{v.ID[:], v.At.UnixMilli(), int64(v.Kind), vote.RemedyKey(v.Remedy()), v.Voter(), e.Client, e.User,
		strings.Join(e.Groups, "\n"), e.Host, e.URL, e.Policy, e.Rule, e.Ref, v.Comment, v.Mail, v.Node}
}

// Count implements [vote.Store].
func (d *DB) Count(ctx context.Context, votes []vote.Vote) (fresh []vote.Vote, err error) {
	for n := range votes {
		clean(&votes[n])
	}
	return fresh, d.change(ctx, func(on *sql.Conn, tx *sql.Tx) error {
		ids, err := d.insert(ctx, on, tx, votes)
		if err != nil {
			return err
		}
		fresh = make([]vote.Vote, 0, len(ids))
		for n := range votes {
			if id := votes[n].ID; ids[id] {
				delete(ids, id) // the first of those with the same identifier
				fresh = append(fresh, votes[n])
			}
		}
		if fresh, err = d.first(ctx, tx, fresh); err != nil {
			return fmt.Errorf("looking for votes on the same event: %w", err)
		}
		if err := d.tally(ctx, tx, fresh); err != nil {
			return fmt.Errorf("adding to tallies: %w", err)
		}
		if err := d.file(ctx, tx, fresh); err != nil {
			return fmt.Errorf("adding to cases: %w", err)
		}
		return nil
	})
}

// first notes the events of votes, and returns the votes that are the first on
// theirs, and those without one.
func (d *DB) first(ctx context.Context, tx *sql.Tx, fresh []vote.Vote) ([]vote.Vote, error) {
	var args []any
	votes := make(map[vote.ID]vote.ID) // by event
	later := make(map[vote.ID]bool)
	for n := range fresh {
		v := &fresh[n]
		id, ok := v.Occasion()
		if _, twice := votes[id]; !ok || twice {
			later[v.ID] = ok
			continue
		}
		votes[id] = v.ID
		args = append(args, id[:], v.ID[:], v.At.UnixMilli())
	}
	added, err := addRows(ctx, tx, d.q, "occasion", 3, args)
	if err != nil {
		return nil, err
	}
	for id, v := range votes {
		later[v] = !added[id]
	}
	args = args[:0]
	kept := fresh[:0]
	for n := range fresh {
		if v := &fresh[n]; later[v.ID] {
			args = append(args, slices.Clone(v.ID[:]), v.At.UnixMilli())
		} else {
			kept = append(kept, *v)
		}
	}
	_, err = addRows(ctx, tx, d.q, "repeated", 2, args)
	return kept, err
}

// addRows inserts rows that are not there yet and returns their identifiers.
func addRows(ctx context.Context, tx *sql.Tx, q func(string) string, table string, columns int, args []any) (map[vote.ID]bool, error) {
	added := make(map[vote.ID]bool, len(args)/columns)
	for part := range slices.Chunk(args, 40*columns) {
		found, err := tx.QueryContext(ctx, q("INSERT INTO "+table+" VALUES "+rows(len(part)/columns, columns)+" ON CONFLICT DO NOTHING RETURNING id"), part...)
		if err != nil {
			return nil, err
		}
		if err := scanIDs(found, added); err != nil {
			return nil, err
		}
	}
	return added, nil
}

// clean removes zero bytes, which PostgreSQL does not take in texts.
func clean(v *vote.Vote) {
	e := &v.Event
	for _, s := range []*string{&v.Comment, &v.Mail, &v.Node, &e.Client, &e.User, &e.Host, &e.URL, &e.Policy, &e.Rule, &e.Ref, &e.Check, &e.Category, &e.Entry} {
		if strings.IndexByte(*s, 0) >= 0 {
			*s = strings.ReplaceAll(*s, "\x00", "")
		}
	}
	for n := range e.Groups {
		e.Groups[n] = strings.ReplaceAll(e.Groups[n], "\x00", "")
	}
}

func (d *DB) change(ctx context.Context, do func(on *sql.Conn, tx *sql.Tx) error) error {
	on, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer on.Close()
	tx, err := on.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(on, tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

type tallyKey struct {
	dimension int
	name      string
	kind      vote.Kind
}

// tally adds votes to the tallies. Rows are always updated in the same order, so that two nodes
// that write cannot deadlock.
func (d *DB) tally(ctx context.Context, tx *sql.Tx, fresh []vote.Vote) error {
	sums := map[tallyKey]int64{}
	for n := range fresh {
		v := &fresh[n]
		e := &v.Event
		for dim, name := range []string{e.Host, e.URL, e.Category, e.Entry} {
			if name != "" {
				sums[tallyKey{dim, name, v.Kind}]++
			}
		}
		for _, g := range e.Groups {
			sums[tallyKey{4, g, v.Kind}]++
		}
	}
	keys := make([]tallyKey, 0, len(sums))
	for k := range sums {
		keys = append(keys, k)
	}
	slices.SortStableFunc(keys, func(a, b tallyKey) int {
		return cmp.Or(a.dimension-b.dimension, strings.Compare(a.name, b.name), int(a.kind)-int(b.kind))
	})
	for part := range slices.Chunk(keys, 40) {
		args := make([]any, 0, 4*len(part))
		for _, k := range part {
			args = append(args, int64(k.dimension), k.name, int64(k.kind), sums[k])
		}
		_, err := tx.ExecContext(ctx, d.q(`INSERT INTO tally (dimension, name, kind, n) VALUES `+rows(len(part), 4)+
			` ON CONFLICT (dimension, name, kind) DO UPDATE SET n = tally.n + excluded.n`), args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// rows writes placeholders.
func rows(n, columns int) string {
	one := "(" + strings.TrimSuffix(strings.Repeat("?,", columns), ",") + ")"
	return strings.TrimSuffix(strings.Repeat(one+",", n), ",")
}

// file adds votes to their cases.
func (d *DB) file(ctx context.Context, tx *sql.Tx, fresh []vote.Vote) error {
	type matter struct {
		first     *vote.Vote
		n, people int64
		from, to  int64
	}
	type person struct {
		remedy int64
		voter  string
	}
	matters, people := map[int64]*matter{}, map[person]bool{}
	for n := range fresh {
		v := &fresh[n]
		key, at := vote.RemedyKey(v.Remedy()), v.At.UnixMilli()
		m := matters[key]
		if m == nil {
			m = &matter{first: v, from: at, to: at}
			matters[key] = m
		}
		m.n++
		m.from, m.to = min(m.from, at), max(m.to, at)
		people[person{key, v.Voter()}] = true
	}
	all := make([]person, 0, len(people))
	for p := range people {
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b person) int {
		return cmp.Or(cmp.Compare(a.remedy, b.remedy), strings.Compare(a.voter, b.voter))
	})
	for part := range slices.Chunk(all, 60) {
		args := make([]any, 0, 2*len(part))
		for _, p := range part {
			args = append(args, p.remedy, p.voter)
		}
		found, err := tx.QueryContext(ctx, d.q(`INSERT INTO person (remedy, voter) VALUES `+rows(len(part), 2)+` ON CONFLICT DO NOTHING RETURNING remedy`), args...)
		if err != nil {
			return err
		}
		for found.Next() {
			var remedy int64
			if err := found.Scan(&remedy); err != nil {
				return errors.Join(err, found.Close())
			}
			matters[remedy].people++
		}
		if err := errors.Join(found.Err(), found.Close()); err != nil {
			return err
		}
	}
	keys := make([]int64, 0, len(matters))
	for k := range matters {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for part := range slices.Chunk(keys, 15) {
		args := make([]any, 0, 12*len(part))
		for _, k := range part {
			m := matters[k]
			v := m.first
			args = append(args, k, v.Remedy(), int64(v.Kind), v.Event.Host, v.Event.Check, v.Event.Category, m.n, m.people, m.from, m.to, int64(0), int64(0))
		}
		_, err := tx.ExecContext(ctx, d.q(`INSERT INTO matter (id, remedy, kind, host, checked, category, n, people, first_at, last_at, since, decision) VALUES `+rows(len(part), 12)+
			` ON CONFLICT (id) DO UPDATE SET n = matter.n + excluded.n, people = matter.people + excluded.people, last_at = excluded.last_at,
			first_at = CASE WHEN matter.n = 0 THEN excluded.first_at ELSE matter.first_at END`), args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// Total implements [vote.Store].
func (d *DB) Total(ctx context.Context) (n int64, err error) {
	return n, d.read.QueryRowContext(ctx, "SELECT count(*) FROM vote").Scan(&n)
}

// State implements [vote.Store].
func (d *DB) State(ctx context.Context, id vote.ID) (s vote.State, err error) {
	var decision, at, since int64
	err = d.read.QueryRowContext(ctx, d.q(`SELECT m.decision, v.at, m.since FROM vote v JOIN matter m ON m.id = v.remedy WHERE v.id = ?`), id[:]).Scan(&decision, &at, &since)
	if errors.Is(err, sql.ErrNoRows) {
		return s, vote.ErrUnknown
	}
	s.State = "counted"
	if err != nil || decision == 0 || at > since {
		return s, err
	}
	all, err := d.decisions(ctx, `WHERE id = ?`, decision)
	if err == nil && len(all) == 1 {
		s.State, s.Decision = "decided", &all[0]
	}
	return s, err
}

// Tallies implements [vote.Store].
func (d *DB) Tallies(ctx context.Context, dimension, name string, most int) (all []vote.Tally, err error) {
	dim := slices.Index(vote.Dimensions(), dimension)
	if dim < 0 {
		return nil, fmt.Errorf("votes are not counted by %.40q but by %s", dimension, strings.Join(vote.Dimensions(), ", "))
	}
	which, args := `WHERE dimension = ?`, []any{dim}
	if name != "" {
		which, args = which+` AND name = ?`, append(args, name)
	}
	found, err := d.read.QueryContext(ctx, d.q(`SELECT name, kind, n FROM tally `+which+` ORDER BY n DESC, name LIMIT ?`), append(args, most)...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var t vote.Tally
		var kind int
		if err := found.Scan(&t.Key, &kind, &t.N); err != nil {
			return nil, err
		}
		t.Kind = vote.Kind(kind).String()
		all = append(all, t)
	}
	return all, found.Err()
}

const caseColumns = `SELECT remedy, kind, host, checked, category, n, people, first_at, last_at FROM matter `

func scanCase(row interface{ Scan(...any) error }) (c vote.Case, err error) {
	var kind, first, last int64
	err = row.Scan(&c.Remedy, &kind, &c.Host, &c.Check, &c.Category, &c.Votes, &c.People, &first, &last)
	c.Kind, c.First, c.Last = vote.Kind(kind).String(), time.UnixMilli(first), time.UnixMilli(last)
	return c, err
}

// Queue implements [vote.Store].
func (d *DB) Queue(ctx context.Context, most int) (all []vote.Case, err error) {
	found, err := d.read.QueryContext(ctx, d.q(caseColumns+`WHERE n > 0 ORDER BY people DESC, n DESC LIMIT ?`), most)
	if err != nil {
		return nil, err
	}
	for found.Next() {
		c, err := scanCase(found)
		if err != nil {
			return nil, errors.Join(err, found.Close())
		}
		all = append(all, c)
	}
	if err := errors.Join(found.Err(), found.Close()); err != nil {
		return nil, err
	}
	for n := range all {
		if err := d.examples(ctx, &all[n], 3); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Case implements [vote.Store].
func (d *DB) Case(ctx context.Context, remedy string) (vote.Case, error) {
	c, err := scanCase(d.read.QueryRowContext(ctx, d.q(caseColumns+`WHERE id = ?`), vote.RemedyKey(remedy)))
	if errors.Is(err, sql.ErrNoRows) {
		return c, fmt.Errorf("there is no vote for the remedy %.100q", remedy)
	}
	if err != nil {
		return c, err
	}
	return c, d.examples(ctx, &c, 100)
}

// examples adds the newest votes to a case, those with a comment first.
func (d *DB) examples(ctx context.Context, c *vote.Case, most int) error {
	found, err := d.read.QueryContext(ctx, d.q(`SELECT url, comment, voter, groups, policy, at FROM
		(SELECT * FROM vote WHERE remedy = ? ORDER BY at DESC LIMIT 200) AS v
		ORDER BY CASE WHEN comment = '' THEN 1 ELSE 0 END, at DESC LIMIT ?`), vote.RemedyKey(c.Remedy), most)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var e vote.Example
		var at int64
		if err := found.Scan(&e.URL, &e.Comment, &e.Voter, &e.Groups, &e.Policy, &at); err != nil {
			return err
		}
		e.At, e.Groups = time.UnixMilli(at), strings.ReplaceAll(e.Groups, "\n", ", ")
		c.Examples = append(c.Examples, e)
	}
	return found.Err()
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Decide implements [vote.Store].
func (d *DB) Decide(ctx context.Context, n *vote.Decision) error {
	return d.change(ctx, func(_ *sql.Conn, tx *sql.Tx) error {
		key := vote.RemedyKey(n.Remedy)
		err := tx.QueryRowContext(ctx, d.q(`SELECT n FROM matter WHERE id = ?`), key).Scan(&n.Votes)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var last sql.NullInt64
		if err := tx.QueryRowContext(ctx, `SELECT max(id) FROM decision`).Scan(&last); err != nil {
			return err
		}
		n.ID = last.Int64 + 1
		if _, err := tx.ExecContext(ctx, d.q(`INSERT INTO decision (id, remedy, site, action, who, until, reason, author, at, n, ended) VALUES `+rows(1, 11)),
			n.ID, n.Remedy, n.Site, string(n.Action), n.Who, millis(n.Until), n.Reason, n.By, millis(n.At), n.Votes, int64(0)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, d.q(`UPDATE matter SET n = 0, people = 0, since = ?, decision = ? WHERE id = ?`), millis(n.At), n.ID, key); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, d.q(`DELETE FROM person WHERE remedy = ?`), key)
		return err
	})
}

// Decision implements [vote.Store].
func (d *DB) Decision(ctx context.Context, id int64) (n vote.Decision, err error) {
	all, err := d.decisions(ctx, `WHERE id = ?`, id)
	if err != nil {
		return n, err
	}
	if len(all) == 0 {
		return n, fmt.Errorf("there is no decision %d", id)
	}
	return all[0], nil
}

// Withdraw implements [vote.Store].
func (d *DB) Withdraw(ctx context.Context, id int64, now time.Time) (n vote.Decision, err error) {
	if n, err = d.Decision(ctx, id); err != nil {
		return n, err
	}
	if !n.Ended.IsZero() {
		return n, fmt.Errorf("decision %d was withdrawn at %s", id, n.Ended.Format(time.DateTime))
	}
	n.Ended = now
	_, err = d.db.ExecContext(ctx, d.q(`UPDATE decision SET ended = ? WHERE id = ?`), millis(now), id)
	return n, err
}

// Decisions implements [vote.Store].
func (d *DB) Decisions(ctx context.Context, most int) ([]vote.Decision, error) {
	return d.decisions(ctx, `ORDER BY id DESC LIMIT ?`, most)
}

func (d *DB) decisions(ctx context.Context, which string, args ...any) (all []vote.Decision, err error) {
	found, err := d.read.QueryContext(ctx, d.q(`SELECT id, remedy, site, action, who, until, reason, author, at, n, ended FROM decision `+which), args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var n vote.Decision
		var until, at, ended int64
		if err := found.Scan(&n.ID, &n.Remedy, &n.Site, &n.Action, &n.Who, &until, &n.Reason, &n.By, &at, &n.Votes, &ended); err != nil {
			return nil, err
		}
		n.Until, n.At, n.Ended = moment(until), moment(at), moment(ended)
		all = append(all, n)
	}
	return all, found.Err()
}

// Voters implements [vote.Store].
func (d *DB) Voters(ctx context.Context, remedy string, since time.Time, groups []string, most int) (int, error) {
	key := vote.RemedyKey(remedy)
	found, err := d.read.QueryContext(ctx, d.q(`SELECT v.voter, v.groups FROM vote v JOIN matter m ON m.id = v.remedy
		WHERE v.remedy = ? AND v.at >= ? AND v.at > m.since ORDER BY v.at DESC LIMIT 100000`), key, millis(since))
	if err != nil {
		return 0, err
	}
	defer found.Close()
	seen := map[string]bool{}
	for found.Next() && len(seen) < most {
		var voter, in string
		if err := found.Scan(&voter, &in); err != nil {
			return 0, err
		}
		if len(groups) == 0 || slices.ContainsFunc(strings.Split(in, "\n"), func(g string) bool { return slices.Contains(groups, g) }) {
			seen[voter] = true
		}
	}
	return len(seen), found.Err()
}

// Mails implements [vote.Store].
func (d *DB) Mails(ctx context.Context, remedy string, most int) (all []string, err error) {
	found, err := d.read.QueryContext(ctx, d.q(`SELECT DISTINCT v.mail FROM vote v JOIN matter m ON m.id = v.remedy
		WHERE v.remedy = ? AND v.at > m.since AND v.mail <> '' LIMIT ?`), vote.RemedyKey(remedy), most)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var s string
		if err := found.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, found.Err()
}

// Newest implements [vote.Store].
func (d *DB) Newest(ctx context.Context) (time.Time, error) {
	var at sql.NullInt64
	err := d.db.QueryRowContext(ctx, `SELECT MAX(last_at) FROM matter`).Scan(&at)
	if err != nil || !at.Valid {
		return time.Time{}, err
	}
	return time.UnixMilli(at.Int64), nil
}

// Prune implements [vote.Store]. It deletes a little at a time, so that
// counting continues.
func (d *DB) Prune(ctx context.Context, before time.Time) (n int64, err error) {
	// People who wait for a case without recent votes.
	if _, err := d.db.ExecContext(ctx, d.q(`DELETE FROM person WHERE remedy IN (SELECT id FROM matter WHERE last_at < ?)`), millis(before)); err != nil {
		return 0, err
	}
	for _, table := range []string{"occasion", "repeated"} { // a token is valid for a day, and votes are kept for at least one
		if _, err := d.db.ExecContext(ctx, d.q(`DELETE FROM `+table+` WHERE at < ?`), millis(before)); err != nil {
			return 0, err
		}
	}
	for {
		done, err := d.db.ExecContext(ctx, d.q(`DELETE FROM vote WHERE id IN (SELECT id FROM vote WHERE at < ? LIMIT 5000)`), millis(before))
		if err != nil {
			return n, err
		}
		rows, err := done.RowsAffected()
		if n += rows; err != nil || rows < 5000 {
			return n, err
		}
	}
}
