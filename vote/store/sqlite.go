package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite" // the driver

	"shuultuur/lib/atomicfile"
	"shuultuur/vote"
)

// These are the codes of SQLite for damaged files.
const (
	isCorrupt = 11
	isNone    = 26 // no database at all
)

// openSQLite opens a file. Synchronous FULL: the log forgets a batch that is
// counted, so it has to be on the disk.
//
// A damaged file that is named as databases are is set aside, and a new one begun: votes that are not
// counted yet are in the log, and decisions are kept as instructions, too.
func openSQLite(ctx context.Context, path string) (*DB, error) {
	if filepath.Ext(path) != ".db" {
		return openFile(ctx, path)
	}
	if info, err := os.Stat(path); err == nil && info.Size() == 0 { // it had something since it was made
		if err := atomicfile.SetAside(path, "-wal", "-shm"); err != nil {
			return nil, err
		}
	}
	d, err := openFile(ctx, path)
	var damage *sqlite.Error
	if errors.As(err, &damage) && (damage.Code()&0xff == isCorrupt || damage.Code()&0xff == isNone) {
		if aside := atomicfile.SetAside(path, "-wal", "-shm"); aside != nil {
			return nil, errors.Join(err, aside)
		}
		return openFile(ctx, path)
	}
	return d, err
}

func openFile(ctx context.Context, path string) (*DB, error) {
	open := func(more string) (*sql.DB, error) {
		v := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "cache_size(-65536)", "temp_store(MEMORY)", "mmap_size(0)"}}
		return sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+v.Encode()+more)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640) // votes name people
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	db, err := open("&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	text := strings.NewReplacer("{blob}", "BLOB", "{compact}", "WITHOUT ROWID").Replace(schema)
	if _, err := db.ExecContext(ctx, text); err != nil {
		return nil, errors.Join(fmt.Errorf("making the tables of votes in %s: %w", path, err), db.Close())
	}
	read, err := open("&_pragma=query_only(1)")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	read.SetMaxOpenConns(4)
	return &DB{db: db, read: read, insert: insertRows}, nil
}

// insertRows inserts votes and returns those that were not there. Each has its
// own statement: the driver looks for each value of a statement among all of
// them.
func insertRows(ctx context.Context, _ *sql.Conn, tx *sql.Tx, votes []vote.Vote) (fresh map[vote.ID]bool, err error) {
	insert, err := tx.PrepareContext(ctx, "INSERT INTO vote ("+strings.Join(columns, ", ")+") VALUES "+rows(1, len(columns))+" ON CONFLICT DO NOTHING")
	if err != nil {
		return nil, err
	}
	defer insert.Close()
	// The driver starts a goroutine for each statement with a context that may end.
	whole := context.WithoutCancel(ctx)
	fresh = make(map[vote.ID]bool, len(votes))
	for n := range votes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		done, err := insert.ExecContext(whole, values(&votes[n])...)
		if err != nil {
			return nil, err
		}
		if added, err := done.RowsAffected(); err != nil {
			return nil, err
		} else if added > 0 {
			fresh[votes[n].ID] = true
		}
	}
	return fresh, nil
}

func scanIDs(found *sql.Rows, into map[vote.ID]bool) error {
	defer found.Close()
	var b sql.RawBytes
	for found.Next() {
		if err := found.Scan(&b); err != nil {
			return err
		}
		var id vote.ID
		copy(id[:], b)
		into[id] = true
	}
	return found.Err()
}
