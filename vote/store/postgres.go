package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/postgres"
	"shuultuur/vote"
)

// connectWait bounds how long a connection is waited for.
const connectWait = 5 * time.Second

// openPostgres opens a database at a URL. It need not be reachable: the tables
// are created by the first connection.
func openPostgres(place string) (*DB, error) {
	var mu sync.Mutex
	created := false
	text := strings.NewReplacer("{blob}", "BYTEA", "{compact}", "").Replace(schema)
	db, err := postgres.Open(place, connectWait, func(_ context.Context, exec func(string) error) error {
		mu.Lock()
		defer mu.Unlock()
		if created {
			return nil
		}
		// One node at a time makes the tables.
		if err := exec("BEGIN; SELECT pg_advisory_xact_lock(7316001);" + text + "COMMIT;"); err != nil {
			return fmt.Errorf("making the tables of votes: %w", err)
		}
		created = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the URL of the database: %w", err)
	}
	db.SetMaxOpenConns(4)
	db.SetConnMaxIdleTime(time.Minute)
	d := &DB{db: db, read: db, postgres: true}
	d.insert = copyRows
	return d, nil
}

// copyRows copies votes into a staging table and inserts those that are not
// there. It returns them.
func copyRows(ctx context.Context, on *sql.Conn, tx *sql.Tx, votes []vote.Vote) (map[vote.ID]bool, error) {
	if _, err := tx.ExecContext(ctx, "CREATE TEMPORARY TABLE IF NOT EXISTS incoming (LIKE vote) ON COMMIT DELETE ROWS"); err != nil {
		return nil, fmt.Errorf("making the staging table: %w", err)
	}
	rows := func(yield func([]any) bool) {
		for n := range votes {
			if !yield(values(&votes[n])) {
				return
			}
		}
	}
	// The transaction has this connection.
	if _, err := postgres.Copy(ctx, on, "incoming", columns, rows); err != nil {
		return nil, fmt.Errorf("copying into the staging table: %w", err)
	}
	found, err := tx.QueryContext(ctx, "INSERT INTO vote SELECT * FROM incoming ORDER BY id ON CONFLICT DO NOTHING RETURNING id")
	if err != nil {
		return nil, err
	}
	fresh := make(map[vote.ID]bool, len(votes))
	return fresh, scanIDs(found, fresh)
}
