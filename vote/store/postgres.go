package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"shuultuur/vote"
)

// connectWait bounds how long a connection is waited for.
const connectWait = 5 * time.Second

// openPostgres opens a database at a URL. It need not be reachable: the tables
// are made by the first connection.
func openPostgres(place string) (*DB, error) {
	config, err := pgx.ParseConfig(place)
	if err != nil {
		return nil, fmt.Errorf("the URL of the database: %w", err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectWait
	}
	var mu sync.Mutex
	made := false
	text := strings.NewReplacer("{blob}", "BYTEA", "{compact}", "").Replace(schema)
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		mu.Lock()
		defer mu.Unlock()
		if made {
			return nil
		}
		// One node at a time makes the tables.
		_, err := c.Exec(ctx, "BEGIN; SELECT pg_advisory_xact_lock(7316001);"+text+"COMMIT;")
		if err != nil {
			return fmt.Errorf("making the tables of votes: %w", err)
		}
		made = true
		return nil
	}))
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
	source := pgx.CopyFromSlice(len(votes), func(n int) ([]any, error) { return values(&votes[n]), nil })
	err := on.Raw(func(c any) error { // in the transaction, which has this connection
		raw, ok := c.(*stdlib.Conn)
		if !ok {
			return errDriver
		}
		_, err := raw.Conn().CopyFrom(ctx, pgx.Identifier{"incoming"}, columns, source)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("copying into the staging table: %w", err)
	}
	found, err := tx.QueryContext(ctx, "INSERT INTO vote SELECT * FROM incoming ORDER BY id ON CONFLICT DO NOTHING RETURNING id")
	if err != nil {
		return nil, err
	}
	fresh := make(map[vote.ID]bool, len(votes))
	return fresh, scanIDs(found, fresh)
}

var errDriver = errors.New("the connection is not that of the driver")
