// Package postgres keeps events in PostgreSQL, for fleets. Several gateways write to one table,
// and each reads all of it.
//
// The table is divided by day. A batch is copied (COPY) into the days of its rows in one
// transaction. Days that are too old are dropped whole, which costs the same however many rows
// they have. A row is kept as a line of text (see [event.Codec]), with its time and the columns
// that people query with SQL tools. A second table says which rows may contain a text (see
// [part]).
//
// The server may be away when the gateway starts or later: connections are made when they are
// needed, and [event.Log] repeats failed writes.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"shuultuur/event"
	"shuultuur/lib/clock"
	"shuultuur/lib/postgres"
)

const (
	connections = 8                // most connections of a store to its server
	patience    = 30 * time.Second // timeout for writing a batch
	sweepEvery  = time.Hour
	dayForm     = "20060102"
)

// tables creates the table if it does not exist. A lock prevents gateways that
// start together from creating it twice.
const tables = `
SELECT pg_advisory_xact_lock(7305805);
CREATE TABLE IF NOT EXISTS event (
	seq      bigint GENERATED ALWAYS AS IDENTITY,
	time     timestamptz NOT NULL,
	client   inet,
	name     text NOT NULL, -- of the user
	host     text NOT NULL,
	action   text NOT NULL,
	rule     text NOT NULL, -- policy/rule
	category text NOT NULL,
	line     text NOT NULL  -- all of the row, as JSON
) PARTITION BY RANGE (time);
CREATE INDEX IF NOT EXISTS event_seq ON event (seq);
DROP INDEX IF EXISTS event_host; -- of before: see domain
CREATE INDEX IF NOT EXISTS event_client ON event (client);
DO $$ BEGIN -- asked first: to alter a table waits for all who read it
	IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'event'::regclass AND attname = 'proto') THEN
		ALTER TABLE event ADD COLUMN policy text, ADD COLUMN proto text, ADD COLUMN method text, ADD COLUMN status text,
			ADD COLUMN type text, ADD COLUMN learned text, ADD COLUMN source text, ADD COLUMN unread text, ADD COLUMN cache text;
	END IF;
	IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'event'::regclass AND attname = 'words') THEN
		ALTER TABLE event ADD COLUMN words text; -- what a search for text looks at, in small letters
	END IF;
END $$;
` + partTable

// indexes are created with the table of a day.
var indexes = [...]string{
	"CREATE INDEX IF NOT EXISTS DAY_domain ON DAY (reverse(host) text_pattern_ops)", // also finds subdomains
	"CREATE INDEX IF NOT EXISTS DAY_time ON DAY (time)",
	"CREATE INDEX IF NOT EXISTS DAY_blocked ON DAY (time) WHERE action = 'block'",
	"CREATE INDEX IF NOT EXISTS DAY_as_line ON DAY (seq) WHERE " + asLine,
}

var columns = []string{"time", "client", "name", "host", "action", "rule", "category", "line",
	"policy", "proto", "method", "status", "type", "learned", "source", "unread", "cache", "words"}

// partitions selects the names of all partitions.
const partitions = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'event'::regclass"

// A Store is a table of events.
type Store struct {
	event.Codec
	db    *sql.DB
	keep  time.Duration
	clock *clock.Guard

	mu          sync.Mutex
	tableExists bool            // the table exists
	days        map[string]bool // days whose partition this store has created
	nextSweep   time.Time

	nameless nameless  // used by Write
	unsealed int       // rows that this store wrote since it made parts; used by Write
	nextSeal time.Time // when to look for rows without a part at the latest
}

// URL is the setting of the store: the URL of a PostgreSQL database.
type URL string

// Open implements [event.Setting]. It does not connect.
func (u URL) Open(o event.Opening) ([]event.Store, error) {
	return event.Only(Open(string(u), o.Keep, o.Lines))
}

// Look implements [event.Readable].
func (u URL) Look(o event.Opening) (event.Reader, func() error, error) {
	s, err := Open(string(u), o.Keep, o.Lines)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// Open prepares a store for the database at url, such as
// postgres://gateway@db.example/shuultuur (libpq's form and its environment
// variables work). It does not connect. Days that ended longer than keep ago
// are dropped. lines must write texts as [event.AppendJSON] does, because the
// server searches them.
func Open(url string, keep time.Duration, lines event.Codec) (*Store, error) {
	if keep <= 0 {
		return nil, fmt.Errorf("open events in PostgreSQL: keep %v is not above zero", keep)
	}
	db, err := postgres.Open(url, patience/3, func(_ context.Context, exec func(string) error) error {
		// If it expects to read much, the server would compile queries to machine code, which
		// takes longer than answering them. Its workers send few rows, so it may use them more often.
		return exec("SELECT set_config(name, 'off', false) FROM pg_settings WHERE name = 'jit'; SET parallel_tuple_cost = 0.01")
	})
	if err != nil {
		return nil, fmt.Errorf("open events in PostgreSQL: %w", err) // pgx leaves out the password
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(time.Minute)
	return &Store{Codec: lines, db: db, keep: keep, days: map[string]bool{}}, nil
}

// Name returns "postgres".
func (s *Store) Name() string { return "postgres" }

// Close closes the connections.
func (s *Store) Close() error { return s.db.Close() }

// ready creates the table, once for each store.
func (s *Store) ready(ctx context.Context) error {
	s.mu.Lock()
	exists := s.tableExists
	s.mu.Unlock()
	if exists {
		return nil
	}
	if _, err := s.db.ExecContext(ctx, tables); err != nil {
		return fmt.Errorf("make the table of events in PostgreSQL: %w", err)
	}
	s.mu.Lock()
	s.tableExists = true
	s.mu.Unlock()
	return nil
}

// Mind implements [event.Ager].
func (s *Store) Mind(g *clock.Guard) { s.clock = g }

// believed reports whether rows may be dropped or made anonymous by their age: the clock has run
// steadily, and the server's shows the same time.
func (s *Store) believed(ctx context.Context) (bool, error) {
	return s.clock.CheckWith(func() (time.Time, error) {
		return s.moment(ctx, "SELECT time FROM event ORDER BY time DESC LIMIT 1")
	}, func() (time.Time, error) {
		return s.moment(ctx, "SELECT clock_timestamp()")
	})
}

// moment asks for one time, which is zero if there is no row.
func (s *Store) moment(ctx context.Context, query string) (at time.Time, err error) {
	if err = s.db.QueryRowContext(ctx, query).Scan(&at); errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return at, err
}

// Write keeps rows in one transaction, and drops days that are too old.
func (s *Store) Write(ctx context.Context, rows []event.Row) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.ready(ctx); err != nil {
		return err
	}
	believed, err := s.believed(ctx)
	if err != nil {
		return fmt.Errorf("compare the clock with PostgreSQL: %w", err)
	}
	if now := s.clock.Now(); believed {
		if err := s.sweep(ctx, now); err != nil {
			return err
		}
		if err := s.forgetClients(ctx, now, len(rows)); err != nil {
			return fmt.Errorf("anonymise old events in PostgreSQL: %w", err)
		}
	}
	if err := s.seal(ctx, time.Now(), len(rows)); err != nil {
		return fmt.Errorf("index old events in PostgreSQL: %w", err)
	}
	if len(rows) == 0 {
		return nil
	}
	fresh, err := s.write(ctx, rows)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.tableExists = false // the tables may have been removed
		clear(s.days)
		return fmt.Errorf("write %d events to PostgreSQL: %w", len(rows), err)
	}
	for _, day := range fresh {
		s.days[day] = true
	}
	return nil
}

// write copies rows in one transaction, and returns the partitions that it
// created.
func (s *Store) write(ctx context.Context, rows []event.Row) (fresh []string, err error) {
	on, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer on.Close()
	tx, err := on.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // unless it was committed
	if fresh, err = s.partitions(ctx, tx, rows); err != nil {
		return nil, err
	}
	if _, err := postgres.Copy(ctx, on, "event", columns, s.values(rows)); err != nil {
		return nil, err
	}
	return fresh, tx.Commit()
}

// partitions creates the missing partitions for the days of rows, and returns
// their names.
func (s *Store) partitions(ctx context.Context, tx *sql.Tx, rows []event.Row) (fresh []string, err error) {
	seen, last := map[string]bool{}, ""
	for i := range rows {
		at := rows[i].Time.UTC()
		day := at.Format(dayForm)
		if day == last || seen[day] {
			continue
		}
		last, seen[day] = day, true
		s.mu.Lock()
		known := s.days[day]
		s.mu.Unlock()
		if known {
			continue
		}
		if len(fresh) == 0 { // gateways that begin a day together wait for each other here
			if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(7305805)"); err != nil {
				return nil, err
			}
		}
		begin := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("CREATE TABLE IF NOT EXISTS event_%s PARTITION OF event FOR VALUES FROM ('%s') TO ('%s')",
			day, begin.Format(time.RFC3339), begin.AddDate(0, 0, 1).Format(time.RFC3339))); err != nil {
			return nil, err
		}
		for _, index := range indexes { // an old day has no indexes: creating them now would delay the writing of rows
			if _, err := tx.ExecContext(ctx, strings.ReplaceAll(index, "DAY", "event_"+day)); err != nil {
				return nil, err
			}
		}
		fresh = append(fresh, day)
	}
	return fresh, nil
}

// sweep drops the days that ended longer than keep ago.
func (s *Store) sweep(ctx context.Context, now time.Time) error {
	s.mu.Lock()
	due := !now.Before(s.nextSweep)
	s.mu.Unlock()
	if !due {
		return nil
	}
	names, err := s.texts(ctx, partitions)
	if err != nil {
		return fmt.Errorf("look for old events in PostgreSQL: %w", err)
	}
	for _, name := range names {
		end, ok := dayEnd(name)
		if !ok || end.Add(s.keep).After(now) {
			continue // not a day that this store made, or a recent one
		}
		_, day, _ := strings.Cut(name, "event_")
		if _, err := s.db.ExecContext(ctx, "DROP TABLE IF EXISTS event_"+day); err != nil {
			return fmt.Errorf("drop the events of %s from PostgreSQL: %w", day, err)
		}
		s.mu.Lock()
		delete(s.days, day)
		s.mu.Unlock()
	}
	if _, err := s.db.ExecContext(ctx, "DELETE FROM event_part WHERE until < $1", now.Add(-s.keep).UTC().Truncate(24*time.Hour)); err != nil {
		return fmt.Errorf("drop the index of old events from PostgreSQL: %w", err)
	}
	s.mu.Lock()
	s.nextSweep = now.Add(sweepEvery)
	s.mu.Unlock()
	return nil
}

// texts returns the only column of the answer to a query.
func (s *Store) texts(ctx context.Context, query string, args ...any) (all []string, err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}

// values yields the rows as values for COPY.
func (s *Store) values(rows []event.Row) iter.Seq[[]any] {
	var line []byte
	now := s.clock.Certain()
	to := make([]any, len(columns))
	return func(yield func([]any) bool) {
		for i := range rows {
			r := s.nameless.anonymousIfOld(&rows[i], now)
			line = s.Append(line[:0], r)
			var client any
			if r.Client.IsValid() {
				client = r.Client.WithZone("").String()
			}
			*(*[8]any)(to) = [8]any{r.Time, client, plain(r.User), plain(r.Host), r.Action.String(), plain(r.Policy + "/" + r.Rule), plain(r.Category), string(line)}
			split(r, to[8:len(to)-1])
			to[len(to)-1] = searched(r)
			if !yield(to) {
				return
			}
		}
	}
}

// searched returns the text that searches look at. Characters that no column
// accepts are removed on both sides, see [sayable].
func searched(r *event.Row) string { return plain(r.SearchText()) }

// plain removes bytes that PostgreSQL accepts in no text. The line has them, escaped.
func plain(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "") }
