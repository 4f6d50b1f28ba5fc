package sqlite

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"shuultuur/event"
)

// A writer is the one connection that changes the database.
//
// It calls SQLite itself, not through database/sql and its driver: those take
// a mutex, a heap block and a search of the argument list for every value,
// together more than SQLite needs for the row. Here a row's texts are
// copied into one block that SQLite reads while it works. A writer belongs to
// one goroutine at a time.
type writer struct {
	tls    *libc.TLS
	db     uintptr // sqlite3*
	insert uintptr // sqlite3_stmt*
	bound  uint32  // bit n set: parameter n of insert is not NULL

	text  uintptr // C memory with the texts of the row being written
	bytes []byte  // the same memory
	used  int
}

// Parameters of the insert statement, in the table's order.
const (
	pID = iota + 1
	pTime
	pDuration
	pProto
	pAction
	pLearned
	pStatus
	pPort
	pBytesIn
	pBytesOut
	pLooked
	pScore
	pRef
	pClient
	pUser
	pPolicy
	pRule
	pMethod
	pHost
	pType
	pURL
	pCategory
	pEvidence
	pFindings
	pNote
)

const insertRow = "INSERT INTO event VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"

// errTaken says that a row has the id that was to be given to another.
var errTaken = errors.New("id is taken")

var errMemory = errors.New("out of memory")

func openWriter(path string) (*writer, error) {
	w := &writer{tls: libc.NewTLS()}
	if err := w.open(path); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *writer) open(path string) error {
	if err := w.grow(64 << 10); err != nil {
		return err
	}
	name, err := libc.CString(path)
	if err != nil {
		return err
	}
	defer libc.Xfree(w.tls, name)
	// One goroutine at a time uses the connection, so it needs no mutex.
	rc := sqlite3.Xsqlite3_open_v2(w.tls, name, w.text, sqlite3.SQLITE_OPEN_READWRITE|sqlite3.SQLITE_OPEN_NOMUTEX, 0)
	w.db = w.out()
	if err := w.check(rc); err != nil {
		return err
	}
	sqlite3.Xsqlite3_extended_result_codes(w.tls, w.db, 1)
	sqlite3.Xsqlite3_busy_timeout(w.tls, w.db, 5000)
	return w.exec(`
		PRAGMA journal_mode = WAL;
		PRAGMA synchronous = NORMAL;
		PRAGMA cache_size = -2048; -- KiB
		PRAGMA journal_size_limit = 8388608`)
}

// out returns the pointer that SQLite put at w.text.
func (w *writer) out() uintptr { return *(*uintptr)(unsafe.Pointer(&w.bytes[0])) }

// check returns the error that rc stands for.
func (w *writer) check(rc int32) error {
	switch rc {
	case sqlite3.SQLITE_OK, sqlite3.SQLITE_DONE, sqlite3.SQLITE_ROW:
		return nil
	case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return errTaken
	}
	if w.db == 0 {
		return errMemory
	}
	return fmt.Errorf("sqlite: %s (%d)", libc.GoString(sqlite3.Xsqlite3_errmsg(w.tls, w.db)), rc)
}

// exec runs statements that return nothing.
func (w *writer) exec(sql string) error {
	z, err := libc.CString(sql)
	if err != nil {
		return err
	}
	defer libc.Xfree(w.tls, z)
	return w.check(sqlite3.Xsqlite3_exec(w.tls, w.db, z, 0, 0, 0))
}

// prepare makes a statement of sql.
func (w *writer) prepare(sql string) (stmt uintptr, err error) {
	z, err := libc.CString(sql)
	if err != nil {
		return 0, err
	}
	defer libc.Xfree(w.tls, z)
	rc := sqlite3.Xsqlite3_prepare_v2(w.tls, w.db, z, -1, w.text, 0)
	if err := w.check(rc); err != nil {
		return 0, err
	}
	return w.out(), nil
}

// int returns the number that the query sql yields.
func (w *writer) int(sql string) (n int64, err error) {
	stmt, err := w.prepare(sql)
	if err != nil {
		return 0, err
	}
	rc := sqlite3.Xsqlite3_step(w.tls, stmt)
	if rc == sqlite3.SQLITE_ROW {
		n = sqlite3.Xsqlite3_column_int64(w.tls, stmt, 0)
	}
	err = w.check(rc)
	sqlite3.Xsqlite3_finalize(w.tls, stmt)
	return n, err
}

// write inserts rows in one transaction, with ids above last, and returns the
// highest it gave.
func (w *writer) write(last int64, rows []event.Row) (int64, error) {
	if w.insert == 0 {
		var err error
		if w.insert, err = w.prepare(insertRow); err != nil {
			return 0, err
		}
	}
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return 0, err
	}
	for i := range rows {
		var err error
		if last, err = w.row(last, &rows[i]); err != nil {
			return 0, errors.Join(err, w.rollback())
		}
	}
	if err := w.exec("COMMIT"); err != nil {
		return 0, errors.Join(err, w.rollback())
	}
	return last, nil
}

// rollback ends the transaction if there still is one: SQLite ends it itself
// on some errors.
func (w *writer) rollback() error {
	if sqlite3.Xsqlite3_get_autocommit(w.tls, w.db) != 0 {
		return nil
	}
	return w.exec("ROLLBACK")
}

func (w *writer) row(last int64, r *event.Row) (int64, error) {
	if err := w.grow(r.TextSize() + len(r.Client.Zone()) + 64); err != nil { // 64: an address
		return 0, err
	}
	w.used = 0
	at := r.Time.UnixMicro()
	id := max(last+1, at)
	if id == at {
		at = 0
	}
	learned := int64(0)
	if r.Learned {
		learned = 1
	}
	w.bindInt(pID, id)
	w.bindInt(pTime, at)
	w.bindInt(pDuration, r.Duration.Microseconds())
	w.bindInt(pProto, int64(r.Proto))
	w.bindInt(pAction, int64(r.Action))
	w.bindInt(pLearned, learned)
	w.bindInt(pStatus, int64(r.Status))
	w.bindInt(pPort, int64(r.Port))
	w.bindInt(pBytesIn, r.BytesIn)
	w.bindInt(pBytesOut, r.BytesOut)
	w.bindInt(pLooked, r.Looked)
	w.bindInt(pScore, int64(r.Score))
	w.bindText(pRef, r.ID)
	if r.Client.IsValid() {
		b := r.Client.AppendTo(w.bytes[w.used:w.used])
		w.bind(pClient, w.text+uintptr(w.used), len(b))
		w.used += len(b)
	} else {
		w.bindNull(pClient)
	}
	w.bindText(pUser, r.User)
	w.bindText(pPolicy, r.Policy)
	w.bindText(pRule, r.Rule)
	w.bindText(pMethod, r.Method)
	w.bindText(pHost, r.Host)
	w.bindText(pType, r.Type)
	w.bindText(pURL, r.URL)
	w.bindText(pCategory, r.Category)
	w.bindText(pEvidence, r.Evidence)
	w.bindText(pFindings, r.Findings)
	w.bindText(pNote, r.Note)
	rc := sqlite3.Xsqlite3_step(w.tls, w.insert)
	err := w.check(rc)
	sqlite3.Xsqlite3_reset(w.tls, w.insert) // says again what step said
	return id, err
}

// Binding can only fail for want of memory or a wrong parameter number; a
// value that is missing then is NULL.

func (w *writer) bindInt(n int32, v int64) {
	if v == 0 {
		w.bindNull(n)
		return
	}
	sqlite3.Xsqlite3_bind_int64(w.tls, w.insert, n, v)
	w.bound |= 1 << n
}

func (w *writer) bindText(n int32, s string) {
	if s == "" {
		w.bindNull(n)
		return
	}
	copy(w.bytes[w.used:], s)
	w.bind(n, w.text+uintptr(w.used), len(s))
	w.used += len(s)
}

func (w *writer) bind(n int32, p uintptr, size int) {
	sqlite3.Xsqlite3_bind_text(w.tls, w.insert, n, p, int32(size), 0) // 0 is SQLITE_STATIC
	w.bound |= 1 << n
}

func (w *writer) bindNull(n int32) {
	if w.bound&(1<<n) != 0 {
		sqlite3.Xsqlite3_bind_null(w.tls, w.insert, n)
		w.bound &^= 1 << n
	}
}

// grow makes the text block hold at least n bytes.
func (w *writer) grow(n int) error {
	if n <= len(w.bytes) {
		return nil
	}
	if n > math.MaxInt32/2 {
		return errMemory
	}
	n = max(n, 2*len(w.bytes))
	p := libc.Xmalloc(w.tls, libc.Tsize_t(n))
	if p == 0 {
		return errMemory
	}
	libc.Xfree(w.tls, w.text)
	w.text, w.bytes = p, libc.GoBytes(p, n)
	return nil
}

// deleteBefore deletes the oldest rows with ids below id, at most deleteStep,
// and returns how many those were.
func (w *writer) deleteBefore(id int64) (int64, error) {
	err := w.exec(fmt.Sprintf(`DELETE FROM event WHERE id < %d AND
		id < coalesce((SELECT id FROM event ORDER BY id LIMIT 1 OFFSET %d), %[1]d)`, id, deleteStep))
	if err != nil {
		return 0, err
	}
	return int64(sqlite3.Xsqlite3_changes(w.tls, w.db)), nil
}

func (w *writer) close() error {
	var err error
	if w.insert != 0 {
		sqlite3.Xsqlite3_finalize(w.tls, w.insert)
	}
	if w.db != 0 {
		err = w.check(sqlite3.Xsqlite3_close_v2(w.tls, w.db))
	}
	libc.Xfree(w.tls, w.text)
	w.tls.Close()
	return err
}
