// Package postgres connects package database/sql to PostgreSQL.
//
// It uses the connections of pgx but not pgx's types, which know every type of
// PostgreSQL and are larger than the rest of pgx. Here a value is sent as text,
// because the server knows which type it expects. Values that return are
// integers, floats, bools, times, bytes or text. [Copy] inserts rows in bulk.
package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A connector makes connections.
type connector struct {
	config *pgconn.Config
	ready  func(ctx context.Context, exec func(sql string) error) error
}

// Open prepares connections to the database at a URL such as
// postgres://gateway@db.example/shuultuur; libpq's form and its environment
// variables work (PostgreSQL 17, section 32.1). It does not connect. An attempt
// to connect is given up after wait unless the URL has a connect_timeout.
// ready, unless nil, is called on each new connection before it is used; its
// exec runs statements without values, several at a time. Errors do not contain
// the password.
func Open(url string, wait time.Duration, ready func(ctx context.Context, exec func(sql string) error) error) (*sql.DB, error) {
	c, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = wait
	}
	c.RuntimeParams["timezone"] = "UTC" // so that times are always written in one form
	c.RuntimeParams["datestyle"] = "ISO"
	return sql.OpenDB(&connector{c, ready}), nil
}

// Connect makes a connection.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	pg, err := pgconn.ConnectConfig(ctx, c.config)
	if err != nil {
		return nil, err
	}
	if c.ready != nil {
		err := c.ready(ctx, func(text string) error { return pg.Exec(ctx, text).Close() })
		if err != nil {
			_ = pg.Close(ctx) // it is unusable
			return nil, err
		}
	}
	return &conn{pg}, nil
}

// Driver is required by the interface; only Connect makes connections.
func (c *connector) Driver() driver.Driver { return nil }

// A conn is one connection.
type conn struct{ *pgconn.PgConn }

var errUse = errors.New("package postgres needs a context and prepares nothing")

// Prepare is required by the interface; statements are sent whole.
func (c *conn) Prepare(text string) (driver.Stmt, error) { return nil, errUse }

// Begin is required by the interface; BeginTx is used.
func (c *conn) Begin() (driver.Tx, error) { return nil, errUse }

// Close ends the connection.
func (c *conn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return c.PgConn.Close(ctx)
}

// IsValid reports whether the connection can be reused: not if it was lost or is
// in a transaction.
func (c *conn) IsValid() bool { return !c.IsClosed() && c.TxStatus() == 'I' }

// ResetSession is called before the connection is reused.
func (c *conn) ResetSession(context.Context) error {
	if !c.IsValid() || c.CheckConn() != nil {
		return driver.ErrBadConn
	}
	return nil
}

// CheckNamedValue accepts the values that [appendText] can write.
func (c *conn) CheckNamedValue(v *driver.NamedValue) (err error) {
	if _, ok := v.Value.([]string); !ok {
		v.Value, err = driver.DefaultParameterConverter.ConvertValue(v.Value)
	}
	return err
}

// BeginTx begins a transaction.
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	text := "BEGIN"
	if level := sql.IsolationLevel(o.Isolation); level != sql.LevelDefault {
		text += " ISOLATION LEVEL " + level.String()
	}
	if o.ReadOnly {
		text += " READ ONLY"
	}
	if err := c.Exec(ctx, text).Close(); err != nil {
		return nil, err
	}
	return &transaction{c}, nil
}

// A transaction does not end with the context that began it, which may be over.
type transaction struct{ c *conn }

const endWait = 30 * time.Second // for a server to end a transaction

func (t *transaction) end(text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	all, err := t.c.Exec(ctx, text).ReadAll()
	if err == nil && len(all) == 1 && all[0].CommandTag.String() != text {
		return fmt.Errorf("the transaction failed before: %s was answered by %s", text, all[0].CommandTag)
	}
	return err
}

func (t *transaction) Commit() error   { return t.end("COMMIT") }
func (t *transaction) Rollback() error { return t.end("ROLLBACK") }

// ExecContext runs a statement, or several if there are no values.
func (c *conn) ExecContext(ctx context.Context, text string, values []driver.NamedValue) (driver.Result, error) {
	if len(values) == 0 {
		all, err := c.Exec(ctx, text).ReadAll()
		if err != nil || len(all) == 0 {
			return driver.RowsAffected(0), err
		}
		return driver.RowsAffected(all[len(all)-1].CommandTag.RowsAffected()), nil
	}
	tag, err := c.send(ctx, text, values).Close()
	return driver.RowsAffected(tag.RowsAffected()), err
}

// QueryContext runs a statement that returns rows.
func (c *conn) QueryContext(ctx context.Context, text string, values []driver.NamedValue) (driver.Rows, error) {
	r := &rows{from: c.send(ctx, text, values)}
	r.more = r.from.NextRow() // an error of the statement appears here
	if fields := r.from.FieldDescriptions(); r.more || fields != nil {
		for _, f := range fields {
			r.columns, r.types = append(r.columns, f.Name), append(r.types, f.DataTypeOID)
		}
		return r, nil
	}
	_, err := r.from.Close()
	return r, err
}

func (c *conn) send(ctx context.Context, text string, values []driver.NamedValue) *pgconn.ResultReader {
	sent := make([][]byte, len(values))
	for i := range values {
		if values[i].Value != nil {
			sent[i] = appendText([]byte{}, values[i].Value)
		}
	}
	return c.ExecParams(ctx, text, sent, nil, nil, nil)
}

// rows are the result of a statement, read as it arrives.
type rows struct {
	from    *pgconn.ResultReader
	more    bool // a row is ready
	columns []string
	types   []uint32
}

func (r *rows) Columns() []string { return r.columns }

func (r *rows) Close() error {
	_, err := r.from.Close()
	return err
}

func (r *rows) Next(into []driver.Value) (err error) {
	if !r.more {
		if err := r.Close(); err != nil {
			return err
		}
		return io.EOF
	}
	for i, v := range r.from.Values() {
		if into[i], err = parse(r.types[i], v); err != nil {
			return fmt.Errorf("column %s: %w", r.columns[i], err)
		}
	}
	r.more = r.from.NextRow()
	return nil
}

// Copy inserts rows into a table by COPY, on a connection that may be in a
// transaction, and returns their number. Rows are read while they are sent;
// each has a value for every column. Names are not quoted.
func Copy(ctx context.Context, on *sql.Conn, table string, columns []string, rows iter.Seq[[]any]) (n int64, err error) {
	err = on.Raw(func(c any) error {
		next, stop := iter.Pull(rows)
		defer stop()
		tag, err := c.(*conn).CopyFrom(ctx, &copied{next: next}, "COPY "+table+" ("+strings.Join(columns, ", ")+") FROM STDIN")
		n = tag.RowsAffected()
		return err
	})
	return n, err
}

// copied is rows in the text form of COPY, read on demand.
type copied struct {
	next func() ([]any, bool)
	buf  []byte
	at   int // read so far
}

func (c *copied) Read(p []byte) (int, error) {
	if c.at == len(c.buf) {
		c.buf, c.at = c.buf[:0], 0
		for len(c.buf) < len(p) {
			row, ok := c.next()
			if !ok {
				break
			}
			c.buf = appendRow(c.buf, row)
		}
	}
	n := copy(p, c.buf[c.at:])
	if c.at += n; n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
