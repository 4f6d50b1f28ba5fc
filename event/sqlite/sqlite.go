// Package sqlite keeps events in an SQLite database, the default store.
//
// One table, event, one row per transaction, and no index but the row number:
// id is the time of recording in microseconds since 1970, pushed forward where
// two rows would share it, so that rows are only ever appended and a query
// over a span of time reads just that span. Everything else a query asks for is
// found by reading the span. Texts that are empty and numbers that are zero are
// NULL, which takes no room. The view events shows the same for a person:
//
//	sqlite3 events.db "SELECT * FROM events WHERE action = 'block' LIMIT 10"
//
// A batch is one transaction in write-ahead mode, synchronous=NORMAL: what a
// Write has kept survives a killed process; a power cut may take the batches
// since the last checkpoint, never more and never the file.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"shuultuur/event"
)

const (
	version = 1 // of the schema, in PRAGMA user_version

	// clockSlack is how far ids may run ahead of the clock, after it was set
	// back. Queries look that much further.
	clockSlack = time.Hour

	deleteStep  = 2000 // rows deleted in one transaction
	deletePause = time.Minute
)

const schema = `
CREATE TABLE event (
	id        INTEGER PRIMARY KEY, -- microseconds since 1970, unique
	time      INTEGER,             -- microseconds since 1970, NULL when equal to id
	duration  INTEGER,             -- microseconds
	proto     INTEGER,             -- 0 http, 1 tls, 2 dns
	action    INTEGER,             -- 0 pass, 1 allow, 2 warn, 3 block, 4 redirect
	learned   INTEGER,
	status    INTEGER,
	port      INTEGER,
	bytes_in  INTEGER,
	bytes_out INTEGER,
	looked    INTEGER,
	score     INTEGER,
	ref       TEXT,                -- the transaction's identifier
	client    TEXT,
	user      TEXT,
	policy    TEXT,
	rule      TEXT,
	method    TEXT,
	host      TEXT,
	type      TEXT,
	url       TEXT,
	category  TEXT,
	evidence  TEXT,
	findings  TEXT,
	note      TEXT
);
CREATE VIEW events AS SELECT
	strftime('%Y-%m-%d %H:%M:%f', coalesce(time, id) / 1e6, 'unixepoch') AS time,
	ref AS id, client, user, policy, rule,
	CASE action WHEN 1 THEN 'allow' WHEN 2 THEN 'warn' WHEN 3 THEN 'block' WHEN 4 THEN 'redirect' ELSE 'pass' END AS action,
	CASE proto WHEN 1 THEN 'tls' WHEN 2 THEN 'dns' ELSE 'http' END AS proto,
	method, url, host, port, status, type,
	coalesce(bytes_in, 0) AS bytes_in, coalesce(bytes_out, 0) AS bytes_out, coalesce(looked, 0) AS looked,
	coalesce(duration, 0) / 1e3 AS ms, coalesce(score, 0) AS score, category, evidence, findings,
	coalesce(learned, 0) AS learned, note
FROM event;
PRAGMA user_version = 1;
`

// A Store is a database that is written to.
type Store struct {
	*Reader
	keep time.Duration
	w    *writer

	last      int64     // highest id given
	nextSweep time.Time // when to look for rows that are too old
}

// Open opens or makes the database at path. Rows older than keep are deleted,
// a few at a time.
func Open(path string, keep time.Duration) (*Store, error) {
	if keep <= 0 {
		return nil, fmt.Errorf("open event database %q: keep %v is not above zero", path, keep)
	}
	s := &Store{Reader: &Reader{path: path}, keep: keep}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open event database %q: %w", path, errors.Join(err, s.Close()))
	}
	return s, nil
}

func (s *Store) open() (err error) {
	// Made here for its mode: events are about people.
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if s.w, err = openWriter(s.path); err != nil {
		return err
	}
	if err := s.migrate(); err != nil {
		return err
	}
	if err := s.place(time.Now()); err != nil {
		return err
	}
	return s.Reader.open()
}

// migrate makes the tables of a new database and refuses one that a newer
// program made.
func (s *Store) migrate() error {
	v, err := s.w.int("PRAGMA user_version")
	if err != nil {
		return err
	}
	if v == 0 {
		return s.w.exec("BEGIN IMMEDIATE; " + schema + " COMMIT")
	}
	return checkVersion(v)
}

func checkVersion(v int64) error {
	if v == version {
		return nil
	}
	return fmt.Errorf("its schema is version %d, this program knows %d: use the program that made it, or another file", v, version)
}

// place finds the id to go on from: the highest that is not far in the
// future. Ids are there when the clock was wrong once, and must not drag all
// later rows with them.
func (s *Store) place(now time.Time) (err error) {
	s.last, err = s.w.int(fmt.Sprintf("SELECT coalesce(max(id), 0) FROM event WHERE id < %d", now.Add(clockSlack).UnixMicro()))
	return err
}

// Name returns "sqlite".
func (s *Store) Name() string { return "sqlite" }

// Write keeps rows in one transaction, and deletes some that are too old.
func (s *Store) Write(ctx context.Context, rows []event.Row) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := time.Now()
	// Deleting comes first: if it fails, none of rows is kept, as promised.
	if err := s.sweep(now, len(rows)); err != nil {
		return fmt.Errorf("delete old events from %q: %w", s.path, err)
	}
	if len(rows) == 0 {
		return nil
	}
	if err := s.insert(now, rows); err != nil {
		return fmt.Errorf("write %d events to %q: %w", len(rows), s.path, err)
	}
	return nil
}

func (s *Store) insert(now time.Time, rows []event.Row) error {
	if s.last > now.Add(clockSlack).UnixMicro() {
		if err := s.place(now); err != nil {
			return err
		}
	}
	last, err := s.w.write(s.last, rows)
	if errors.Is(err, errTaken) {
		// The clock has come to where rows lie from a time when it ran ahead.
		if s.last, err = s.w.int("SELECT max(id) FROM event"); err == nil {
			last, err = s.w.write(s.last, rows)
		}
	}
	if err != nil {
		return err
	}
	s.last = last
	return nil
}

// sweep deletes rows that are too old: twice as many as are being written and a
// step more, so that it keeps up without holding anybody up.
func (s *Store) sweep(now time.Time, writing int) error {
	if now.Before(s.nextSweep) {
		return nil
	}
	for n := 2*writing + deleteStep; n > 0; n -= deleteStep {
		deleted, err := s.w.deleteBefore(now.Add(-s.keep).UnixMicro())
		if err != nil {
			return err
		}
		if deleted < deleteStep {
			s.nextSweep = now.Add(deletePause)
			return nil
		}
	}
	return nil
}

// Close writes the log back into the database file and closes it.
func (s *Store) Close() error {
	err := s.Reader.Close()
	if s.w != nil {
		err = errors.Join(err, s.w.close())
	}
	if err != nil {
		return fmt.Errorf("close event database %q: %w", s.path, err)
	}
	return nil
}
