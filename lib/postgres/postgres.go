// Package postgres opens databases in PostgreSQL with pgx's adapter for
// database/sql, in the way that all our stores need it. [Copy] inserts rows in
// bulk.
//
// A value is sent as the type that the server expects, so a list of texts for
// another type is written $1::text[]::bigint[]. Times belong in columns of the
// type timestamptz, and return in UTC.
package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
)

// Open prepares connections to the database at a URL such as
// postgres://gateway@db.example/shuultuur; libpq's form and its environment
// variables work (PostgreSQL 17, section 32.1). It does not connect. An attempt
// to connect is given up after wait unless the URL has a connect_timeout.
// ready, unless nil, is called on each new connection before it is used; its
// exec runs statements without values, several at a time. Errors do not contain
// the password.
func Open(url string, wait time.Duration, ready func(ctx context.Context, exec func(sql string) error) error) (*sql.DB, error) {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = wait
	}
	c.RuntimeParams["timezone"] = "UTC" // so that the server divides time into the same days as we do
	c.RuntimeParams["datestyle"] = "ISO"
	// Statements are not kept on the server: a pooler may give the next one to another
	// connection, and a table may change.
	if c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	begin := func(ctx context.Context, on *pgx.Conn) error {
		on.TypeMap().RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}})
		if ready == nil {
			return nil
		}
		err := ready(ctx, func(text string) error { return on.PgConn().Exec(ctx, text).Close() })
		if err != nil {
			_ = on.Close(ctx) // it is unusable
		}
		return err
	}
	// A connection that the server has ended is noticed without asking the server.
	alive := func(_ context.Context, on *pgx.Conn) error {
		if on.PgConn().CheckConn() != nil {
			return driver.ErrBadConn
		}
		return nil
	}
	return stdlib.OpenDB(*c, stdlib.OptionAfterConnect(begin), stdlib.OptionResetSession(alive),
		stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false })), nil
}

// Copy inserts rows into a table by COPY, on a connection that may be in a
// transaction, and returns their number. Rows are read while they are sent;
// each has a value for every column.
func Copy(ctx context.Context, on *sql.Conn, table string, columns []string, rows iter.Seq[[]any]) (n int64, err error) {
	err = on.Raw(func(c any) error {
		next, stop := iter.Pull(rows)
		defer stop()
		n, err = c.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromFunc(func() ([]any, error) {
			row, _ := next() // nil ends the rows
			return row, nil
		}))
		return err
	})
	return n, err
}
