// Package sqlite keeps events in an SQLite database, the default store.
//
// The table event has one row for each transaction. Its key id is the time of recording in
// microseconds since 1970, advanced where two rows would share it. So rows are only ever
// appended, and the rows of a span of time are neighbours. Texts that are empty and numbers
// that are zero are NULL, which takes no room. The view events shows the rows to people:
//
//	sqlite3 events.db "SELECT * FROM events WHERE action = 'block' LIMIT 10"
//
// The tables segment and part are the index (index.go): the values that every 16,384 rows have
// in the fields that filters and counts examine. Queries and counts read the index, and the
// rows that it points to. It is derived from the rows: where it is missing, it is rebuilt in
// the background.
//
// A batch is one transaction in write-ahead mode, synchronous=NORMAL. Rows that Write has kept
// survive a killed process. A power cut may lose the batches since the last checkpoint, but
// neither more nor the file. A store that is written seldom spares the disk instead ([rare]): what
// Write has kept survives a power cut, too.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"

	"shuultuur/event"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/clock"
	"shuultuur/lib/setting"
)

const (
	version = 2 // version of the schema, in PRAGMA user_version

	// clockSlack is how far ids may be ahead of the clock after someone set it back.
	clockSlack = time.Hour

	deleteStep  = 2000 // rows deleted in one transaction
	deletePause = time.Minute
	indexSteps  = 8 // most segments that are added in one quiet minute
)

// tables is the schema of version 1, from which every database is upgraded.
const tables = `
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
CREATE VIEW events AS SELECT 1;
`

// upgrade2 converts version 1 to version 2.
const upgrade2 = `
ALTER TABLE event RENAME COLUMN learned TO flags; -- 1 learned, 2 server is a parent proxy
ALTER TABLE event ADD COLUMN head_out INTEGER;
ALTER TABLE event ADD COLUMN length   INTEGER; -- NULL when equal to looked
ALTER TABLE event ADD COLUMN server   TEXT;
ALTER TABLE event ADD COLUMN more     TEXT;    -- JSON object
CREATE TABLE segment (
	first INTEGER PRIMARY KEY, -- it has all rows with ids from first to last
	last  INTEGER NOT NULL,
	rows  INTEGER NOT NULL,
	lag   INTEGER NOT NULL,    -- the most that an id is above the time of its row
	hosts BLOB NOT NULL        -- Bloom filter of hosts and the domains above them
);
CREATE TABLE total (
	id   INTEGER PRIMARY KEY, -- first of the segments * 64 + level * 16 + column
	last INTEGER NOT NULL,
	lag  INTEGER NOT NULL,
	data BLOB NOT NULL
);
CREATE TABLE part (
	id   INTEGER PRIMARY KEY, -- first of the segment * 64 + place of the part
	data BLOB NOT NULL
);
DROP VIEW events;
CREATE VIEW events AS SELECT
	strftime('%Y-%m-%d %H:%M:%f', coalesce(time, id) / 1e6, 'unixepoch') AS time,
	ref AS id, client, user, policy, rule,
	CASE action WHEN 1 THEN 'allow' WHEN 2 THEN 'warn' WHEN 3 THEN 'block' WHEN 4 THEN 'redirect' ELSE 'pass' END AS action,
	CASE proto WHEN 1 THEN 'tls' WHEN 2 THEN 'dns' ELSE 'http' END AS proto,
	method, url, host, port, status, type, server,
	coalesce(bytes_in, 0) AS bytes_in, coalesce(bytes_out, 0) AS bytes_out, coalesce(head_out, 0) AS head_out,
	coalesce(looked, 0) AS looked, coalesce(length, looked, 0) AS length,
	coalesce(duration, 0) / 1e3 AS ms, coalesce(score, 0) AS score, category, evidence, findings,
	coalesce(flags, 0) & 1 AS learned, (coalesce(flags, 0) & 2) / 2 AS parent, note,
	json_extract(more, '$.source') AS source, json_extract(more, '$.unread') AS unread, json_extract(more, '$.cache') AS cache,
	json_extract(more, '$.picture') AS picture, json_extract(more, '$.conversation') AS conversation,
	json_extract(more, '$.monitored') AS monitored, json_extract(more, '$.signatures') AS signatures
FROM event;
PRAGMA user_version = 2;
`

// A Store is a database for writing.
type Store struct {
	*Reader
	keep  time.Duration
	clock *clock.Guard
	mu    sync.Mutex // held by Write and Erase
	w     *writer

	last      int64     // highest id given
	limit     int64     // rows from a time when the clock was ahead have the ids from here on
	nextSweep time.Time // when to look for old rows
	index     indexer
	nameless  nameless
}

// Path is the setting of the store: the name of its database file.
type Path string

// Open implements [event.Setting].
func (p Path) Open(o event.Opening) ([]event.Store, error) {
	return o.OpenFile(string(p), func(path string) error {
		if err := Check(path); !ours(o, path, err) {
			return err
		}
		return nil
	}, func(path string) (event.Store, error) {
		s, err := (*Store)(nil), error(errNoDatabase)
		if !ours(o, path, err) || !isEmptied(path) {
			s, err = openStore(path, o.Keep, o.Every)
		}
		if ours(o, path, err) {
			if aside := atomicfile.SetAside(path, "-wal", "-shm", "-journal"); aside != nil {
				return nil, errors.Join(err, aside)
			}
			s, err = openStore(path, o.Keep, o.Every)
		}
		return s, err
	})
}

// isEmptied reports whether a file has nothing: a database of ours had something since it was made.
func isEmptied(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// ours reports whether a database is damaged and ours, so that it is set aside and a new one begun: it
// is in the data folder and named as databases are. Other files may be somebody's.
func ours(o event.Opening, path string, err error) bool {
	var damage *sqlite.Error // of the driver
	if !errors.Is(err, errNoDatabase) && !errors.Is(err, errDamaged) && !(errors.As(err, &damage) && isDamage(int32(damage.Code()))) {
		return false
	}
	below, outside := filepath.Rel(o.Data, path)
	return outside == nil && filepath.IsLocal(below) && filepath.Ext(path) == ".db"
}

// Look implements [event.Readable].
func (p Path) Look(o event.Opening) (event.Reader, func() error, error) {
	file := setting.Path(o.Data, string(p))
	r, err := OpenReader(file)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the record %s: %w", file, err)
	}
	return r, r.Close, nil
}

// Place implements [event.Placed].
func (p Path) Place() string { return string(p) }

// Open opens or creates the database at path. Rows older than keep are deleted
// a few at a time.
func Open(path string, keep time.Duration) (*Store, error) { return openStore(path, keep, time.Second) }

// openStore opens a store that is written at intervals of every.
func openStore(path string, keep, every time.Duration) (*Store, error) {
	if keep <= 0 {
		return nil, fmt.Errorf("open event database %q: keep %v is not above zero", path, keep)
	}
	if err := Check(path); err != nil {
		return nil, err
	}
	s := &Store{Reader: &Reader{path: path}, keep: keep}
	if err := s.open(every); err != nil {
		return nil, fmt.Errorf("open event database %q: %w", path, errors.Join(err, s.Close()))
	}
	return s, nil
}

func (s *Store) open(every time.Duration) (err error) {
	// The file is created here with its mode, because events are about people.
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if s.w, err = openWriter(s.path, every); err != nil {
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

// migrate creates the tables of a new database, upgrades an old one and refuses
// one of a newer program.
func (s *Store) migrate() error {
	v, err := s.w.int("PRAGMA user_version")
	if err != nil {
		return err
	}
	return s.w.transaction(func() error {
		if v == 0 {
			if err := s.w.exec(tables); err != nil {
				return err
			}
		}
		if v < 2 {
			return s.w.exec(upgrade2)
		}
		return checkVersion(v)
	})
}

func checkVersion(v int64) error {
	if v == version {
		return nil
	}
	return fmt.Errorf("its schema is version %d, this program knows %d: use the program that made it, or another file", v, version)
}

// place finds the id to continue from: the highest one that is not far in the future. There are
// later ids if the clock was once ahead; new rows must not follow them.
func (s *Store) place(now time.Time) (err error) {
	if s.w.seen, err = s.w.foreignWrites(); err != nil {
		return err
	}
	if s.last, err = s.w.int(fmt.Sprintf("SELECT coalesce(max(id), 0) FROM event WHERE id < %d", now.Add(clockSlack).UnixMicro())); err != nil {
		return err
	}
	if s.limit, err = s.w.int(fmt.Sprintf("SELECT coalesce(min(id), %d) FROM event WHERE id > %d", int64(math.MaxInt64), s.last)); err != nil {
		return err
	}
	return s.index.place(s.w, s.last)
}

// Name returns "sqlite".
func (s *Store) Name() string { return "sqlite" }

// Mind implements [event.Ager].
func (s *Store) Mind(g *clock.Guard) { s.clock = g }

// newest returns the time of the last row, zero if there is none.
func (s *Store) newest() (time.Time, error) {
	id, err := s.w.int("SELECT coalesce(max(id), 0) FROM event")
	if err != nil || id == 0 {
		return time.Time{}, err
	}
	return time.UnixMicro(id), nil
}

// Write stores rows in one transaction and deletes some old ones.
func (s *Store) Write(ctx context.Context, rows []event.Row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	now := s.clock.Now()
	// Upkeep comes first: if it fails, no row is kept, as Write promises.
	believed, err := s.clock.Check(s.newest)
	if err != nil {
		return fmt.Errorf("look for the newest event in %q: %w", s.path, err)
	}
	if believed {
		if err := s.sweep(now, len(rows)); err != nil {
			return fmt.Errorf("delete old events from %q: %w", s.path, err)
		}
		if err := s.forgetClients(ctx, now, len(rows)); err != nil {
			return fmt.Errorf("anonymise old events in %q: %w", s.path, err)
		}
	}
	err = s.add(ctx, now, rows)
	for try := 0; errors.Is(err, errMoved) && try < placeTries; try++ {
		if err = s.place(now); err == nil {
			err = s.add(ctx, now, rows)
		}
	}
	return err
}

// placeTries is how often a batch looks for a new place while another process writes, too. Such
// a process writes about once a second.
const placeTries = 5

// add indexes and inserts rows.
func (s *Store) add(ctx context.Context, now time.Time, rows []event.Row) error {
	steps := 1
	if len(rows) == 0 {
		steps = indexSteps
	}
	if err := s.index.step(ctx, s.w, s.last, steps); err != nil {
		return fmt.Errorf("index events in %q: %w", s.path, err)
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
	last, err := s.index.write(s.w, s.last, s.limit, rows)
	if errors.Is(err, errTaken) {
		// The clock has reached rows from a time when it was ahead. Continue after them.
		if err := s.place(time.UnixMicro(math.MaxInt64 - 2*clockSlack.Microseconds())); err != nil {
			return err
		}
		last, err = s.index.write(s.w, s.last, s.limit, rows)
	}
	if err != nil {
		return err
	}
	s.last = last
	return nil
}

// sweep deletes old rows: twice as many as are written at the same time, plus a step. So it
// keeps up without delaying a batch for long.
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
			return s.w.deleteSegments(now.Add(-s.keep).UnixMicro())
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
