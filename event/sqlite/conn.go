package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// A conn is a connection that calls SQLite directly, not through database/sql and its driver.
// For each value, these take a mutex, a heap block and a search of the argument list, which
// together cost more than SQLite itself needs for a row. Only one goroutine may use a conn at a
// time.
type conn struct {
	tls *libc.TLS
	db  uintptr // sqlite3*

	text  uintptr // C memory for values that are bound, until the next row
	bytes []byte  // the same memory
	used  int
}

// busyTime is how long a connection waits for another, in milliseconds.
const busyTime = 5000

// errDamaged reports a file that SQLite cannot read as a database.
var errDamaged = errors.New("the database is damaged")

// errBusy reports that another connection uses the database.
var errBusy = errors.New("the database is in use")

// isDamage reports whether a result code of SQLite says so.
func isDamage(rc int32) bool {
	return rc&0xff == sqlite3.SQLITE_CORRUPT || rc&0xff == sqlite3.SQLITE_NOTADB
}

// errTaken reports that another row has the id.
var errTaken = errors.New("id is taken")

var errMemory = errors.New("out of memory")

// openConn opens the database at path, which must exist.
func openConn(path string) (*conn, error) {
	c := &conn{tls: libc.NewTLS()}
	if err := c.open(path); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *conn) open(path string) error {
	if err := c.grow(64 << 10); err != nil {
		return err
	}
	name, err := libc.CString(path)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, name)
	// Only one goroutine at a time uses the connection, so it needs no mutex.
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, c.text, sqlite3.SQLITE_OPEN_READWRITE|sqlite3.SQLITE_OPEN_NOMUTEX, 0)
	c.db = c.columnText()
	if err := c.check(rc); err != nil {
		return err
	}
	sqlite3.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	sqlite3.Xsqlite3_busy_timeout(c.tls, c.db, busyTime)
	return nil
}

func (c *conn) close() error {
	var err error
	if c.db != 0 {
		err = c.check(sqlite3.Xsqlite3_close_v2(c.tls, c.db))
	}
	libc.Xfree(c.tls, c.text)
	c.tls.Close()
	return err
}

// columnText returns the pointer that SQLite put at c.text.
func (c *conn) columnText() uintptr { return *(*uintptr)(unsafe.Pointer(&c.bytes[0])) }

// check returns the error for the result code rc.
func (c *conn) check(rc int32) error {
	switch rc {
	case sqlite3.SQLITE_OK, sqlite3.SQLITE_DONE, sqlite3.SQLITE_ROW:
		return nil
	case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return errTaken
	}
	if c.db == 0 {
		return errMemory
	}
	err := fmt.Errorf("sqlite: %s (%d)", libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db)), rc)
	if rc&0xff == sqlite3.SQLITE_BUSY {
		return fmt.Errorf("%w: %w", errBusy, err)
	}
	if isDamage(rc) {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}

// exec runs statements that return nothing.
func (c *conn) exec(sql string) error {
	z, err := libc.CString(sql)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, z)
	return c.check(sqlite3.Xsqlite3_exec(c.tls, c.db, z, 0, 0, 0))
}

// transaction runs f in a transaction, which is rolled back if f fails.
func (c *conn) transaction(f func() error) error {
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := f()
	if err == nil {
		err = c.exec("COMMIT")
	}
	if err == nil {
		return nil
	}
	if sqlite3.Xsqlite3_get_autocommit(c.tls, c.db) != 0 {
		return err // SQLite ends the transaction itself on some errors
	}
	return errors.Join(err, c.exec("ROLLBACK"))
}

// int returns the number that the query sql yields.
func (c *conn) int(sql string) (n int64, err error) {
	s, err := c.prepare(sql)
	if err != nil {
		return 0, err
	}
	defer s.close()
	if ok, err := s.step(); !ok {
		return 0, err
	}
	return s.int(0), nil
}

// changes returns how many rows the last statement changed.
func (c *conn) changes() int64 { return int64(sqlite3.Xsqlite3_changes(c.tls, c.db)) }

// grow makes the memory for values hold at least n bytes.
func (c *conn) grow(n int) error {
	if n <= len(c.bytes) {
		return nil
	}
	if n > math.MaxInt32/2 {
		return errMemory
	}
	n = max(n, 2*len(c.bytes))
	p := libc.Xmalloc(c.tls, libc.Tsize_t(n))
	if p == 0 {
		return errMemory
	}
	libc.Xfree(c.tls, c.text)
	c.text, c.bytes = p, libc.GoBytes(p, n)
	return nil
}

// A stmt is a prepared statement.
type stmt struct {
	c     *conn
	p     uintptr // sqlite3_stmt*
	bound []bool  // whether the parameter is not NULL
	from  int32   // added to the number of a parameter
}

func (c *conn) prepare(sql string) (*stmt, error) {
	z, err := libc.CString(sql)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, z)
	rc := sqlite3.Xsqlite3_prepare_v2(c.tls, c.db, z, -1, c.text, 0)
	if err := c.check(rc); err != nil {
		return nil, err
	}
	return &stmt{c: c, p: c.columnText(), bound: make([]bool, strings.Count(sql, "?")+1)}, nil
}

func (s *stmt) close() {
	if s != nil {
		sqlite3.Xsqlite3_finalize(s.c.tls, s.p)
	}
}

// step moves to the next row and reports whether there is one.
func (s *stmt) step() (bool, error) {
	rc := sqlite3.Xsqlite3_step(s.c.tls, s.p)
	return rc == sqlite3.SQLITE_ROW, s.c.check(rc)
}

// run executes a statement that returns nothing and readies it for the next
// time.
func (s *stmt) run() error {
	_, err := s.step()
	s.reset()
	return err
}

func (s *stmt) reset() { sqlite3.Xsqlite3_reset(s.c.tls, s.p) } // reset repeats the error of step

func (s *stmt) int(column int32) int64 {
	return sqlite3.Xsqlite3_column_int64(s.c.tls, s.p, column)
}

// null reports whether a column has no value.
func (s *stmt) null(column int32) bool {
	return sqlite3.Xsqlite3_column_type(s.c.tls, s.p, column) == sqlite3.SQLITE_NULL
}

// text returns a column as a string that is valid until the next step.
func (s *stmt) text(column int32) string {
	p := sqlite3.Xsqlite3_column_text(s.c.tls, s.p, column)
	n := sqlite3.Xsqlite3_column_bytes(s.c.tls, s.p, column)
	if p == 0 || n == 0 {
		return ""
	}
	return unsafe.String(unsafe.SliceData(libc.GoBytes(p, int(n))), int(n))
}

// blob returns a copy of the bytes of a column.
func (s *stmt) blob(column int32) []byte {
	p := sqlite3.Xsqlite3_column_blob(s.c.tls, s.p, column) // unlike a text, it gets no zero at its end, and is not moved for that
	n := sqlite3.Xsqlite3_column_bytes(s.c.tls, s.p, column)
	if p == 0 || n == 0 {
		return nil
	}
	return bytes.Clone(libc.GoBytes(p, int(n)))
}

// begin reserves memory for the values of one row: textSize bytes of text.
func (s *stmt) begin(textSize int) error {
	s.c.used = 0
	return s.c.grow(textSize)
}

// Binding fails only if memory is short or a parameter number is wrong. The
// missing value is then NULL.

// bindInt binds a number, 0 as NULL.
func (s *stmt) bindInt(n int32, v int64) {
	if v == 0 {
		s.bindNull(n)
		return
	}
	s.bindNumber(n, v)
}

// bindNumber binds a number, 0 as 0.
func (s *stmt) bindNumber(n int32, v int64) {
	n += s.from
	sqlite3.Xsqlite3_bind_int64(s.c.tls, s.p, n, v)
	s.bound[n] = true
}

// bindText binds a text, "" as NULL.
func (s *stmt) bindText(n int32, v string) {
	if v == "" {
		s.bindNull(n)
		return
	}
	copy(s.c.bytes[s.c.used:], v)
	s.bindHeld(n, len(v))
}

// bindHeld binds the next size bytes of the memory for values as a text.
func (s *stmt) bindHeld(n int32, size int) {
	n += s.from
	sqlite3.Xsqlite3_bind_text(s.c.tls, s.p, n, s.c.text+uintptr(s.c.used), int32(size), 0) // 0 is SQLITE_STATIC
	s.c.used += size
	s.bound[n] = true
}

// bindBlob binds bytes.
func (s *stmt) bindBlob(n int32, v []byte) {
	copy(s.c.bytes[s.c.used:], v)
	n += s.from
	sqlite3.Xsqlite3_bind_blob(s.c.tls, s.p, n, s.c.text+uintptr(s.c.used), int32(len(v)), 0)
	s.c.used += len(v)
	s.bound[n] = true
}

func (s *stmt) bindNull(n int32) {
	if n += s.from; s.bound[n] {
		sqlite3.Xsqlite3_bind_null(s.c.tls, s.p, n)
		s.bound[n] = false
	}
}

// text returns bytes as a string without copying them. They must not change any more.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
