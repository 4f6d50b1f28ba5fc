package sqlite

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"shuultuur/event"
)

// A writer is the one connection that changes the database.
type writer struct {
	*conn
	insert   *stmt  // of one row
	several  *stmt  // of severalRows
	moreText []byte // of the row being written
	group    int    // segments that one total counts
	seen     int64  // PRAGMA data_version when the store determined its place
}

// Parameters of the insert statement.
const (
	pID = iota + 1
	pTime
	pDuration
	pProto
	pAction
	pFlags
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
	pHeadOut
	pLength
	pServer
	pMore
)

// rowColumns are those of the parameters, in their order.
const rowColumns = `id, time, duration, proto, action, flags, status, port, bytes_in, bytes_out, looked, score, ref,
	client, user, policy, rule, method, host, type, url, category, evidence, findings, note, head_out, length, server, more`

// OR FAIL saves SQLite the preparations for undoing one statement, because we undo whole
// transactions.
const insertRow = "INSERT OR FAIL INTO event (" + rowColumns + ") VALUES "

const (
	rowValues = "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"

	// severalRows is the number of rows inserted by one statement, which saves a quarter of the
	// time.
	severalRows = 64
)

const (
	flagLearned = 1
	flagParent  = 2
)

// rare is the time between two batches from which a database is kept in the way that writes the
// fewest bytes, for SD cards. A write-ahead log has every page once more; a rollback journal has only
// the three pages that a batch changes. It makes readers and the writer wait for each other, which
// is short: a batch is a few hundred rows, and no reader keeps a transaction open while it is read from.
// Each batch is synchronised, which would cost too much every second.
const rare = 10 * time.Second

// Pages are large, because they need fewer system calls per row, or where batches are rare, small:
// each batch writes the last page again, and those that lead to it.
const (
	pageSize     = 16 << 10
	rarePageSize = 4 << 10
	logSize      = 4 << 20 // a longer write-ahead log is written back
)

func openWriter(path string, every time.Duration) (*writer, error) {
	c, err := openConn(path)
	if err != nil {
		return nil, err
	}
	w := &writer{conn: c, group: segmentsOfTotal}
	if err := w.prepareFile(every >= rare); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *writer) prepareFile(rarely bool) error {
	page := pageSize
	if rarely {
		page = rarePageSize
	}
	if err := w.exec(fmt.Sprintf("PRAGMA page_size = %d; PRAGMA cache_size = -2048", page)); err != nil { // of a new file; KiB
		return err
	}
	if err := w.keepJournal(rarely); err != nil {
		return err
	}
	size, err := w.int("PRAGMA page_size")
	if err != nil {
		return err
	}
	return w.exec(fmt.Sprintf("PRAGMA wal_autocheckpoint = %d; PRAGMA journal_size_limit = %d", logSize/max(size, 1), 2*logSize))
}

// keepJournal chooses how transactions are made whole. A database that another process has open
// keeps its write-ahead log, until it is opened alone.
func (w *writer) keepJournal(rarely bool) error {
	if !rarely {
		return w.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
	}
	sqlite3.Xsqlite3_busy_timeout(w.tls, w.db, 0)
	defer sqlite3.Xsqlite3_busy_timeout(w.tls, w.db, busyTime)
	if err := w.exec("PRAGMA journal_mode = TRUNCATE"); err != nil && !errors.Is(err, errBusy) {
		return err
	}
	return w.exec("PRAGMA synchronous = FULL")
}

// errMoved reports that another process has written since the store determined its
// place.
var errMoved = errors.New("another process writes to the database at the same time")

// foreignWrites returns a number that changes when another connection writes. It is constant
// within a transaction.
func (w *writer) foreignWrites() (int64, error) { return w.int("PRAGMA data_version") }

// inTransaction runs f in a transaction, or returns errMoved. After an upgrade, the previous
// process may still write. Ids must be above all existing ones, because the index would not
// find rows between those of a segment.
func (w *writer) inTransaction(f func() error) error {
	return w.transaction(func() error {
		now, err := w.foreignWrites()
		if err == nil && now != w.seen {
			err = errMoved
		}
		if err != nil {
			return err
		}
		return f()
	})
}

// write inserts rows in one transaction, with ids above last and below limit, and returns the
// highest id. It calls each for every row while the row's texts are in the processor's cache;
// what each writes is part of the transaction.
func (w *writer) write(last, limit int64, rows []event.Row, each func(id int64, r *event.Row) error) (int64, error) {
	if w.insert == nil {
		var err error
		if w.insert, err = w.prepare(insertRow + rowValues); err != nil {
			return 0, err
		}
		if w.several, err = w.prepare(insertRow + strings.Repeat(rowValues+",", severalRows-1) + rowValues); err != nil {
			return 0, err
		}
	}
	var ids [severalRows]int64
	err := w.inTransaction(func() error {
		for len(rows) > 0 {
			s, n := w.insert, 1
			if len(rows) >= severalRows {
				s, n = w.several, severalRows
			}
			if err := w.begin(s, rows[:n]); err != nil {
				return err
			}
			for i := range rows[:n] {
				if last = max(last+1, rows[i].Time.UnixMicro()); last >= limit {
					return errTaken
				}
				ids[i] = last
				s.from = int32(i * pMore)
				w.row(s, last, &rows[i])
			}
			if err := s.run(); err != nil {
				return err
			}
			for i := range rows[:n] {
				if err := each(ids[i], &rows[i]); err != nil {
					return err
				}
			}
			rows = rows[n:]
		}
		return nil
	})
	return last, err
}

// addressRoom is more than the text of the longest address.
const addressRoom = 64

// begin reserves memory for the values of rows.
func (w *writer) begin(s *stmt, rows []event.Row) error {
	n := 0
	for i := range rows {
		n += rows[i].TextSize() + 2*addressRoom + maxKeys + 5*len(rows[i].Source+rows[i].Unread+rows[i].Cache+rows[i].Picture+rows[i].Conversation+rows[i].Minutes)
	}
	return s.begin(n)
}

// maxKeys is more than the keys of AppendTexts.
const maxKeys = 256

// row binds the values of a row.
func (w *writer) row(s *stmt, id int64, r *event.Row) {
	w.moreText = r.AppendTexts(w.moreText[:0])
	at, flags := r.Time.UnixMicro(), int64(0)
	if id == at {
		at = 0
	}
	if r.Learned {
		flags |= flagLearned
	}
	if r.Parent {
		flags |= flagParent
	}
	s.bindInt(pID, id)
	s.bindInt(pTime, at)
	s.bindInt(pDuration, r.Duration.Microseconds())
	s.bindInt(pProto, int64(r.Proto))
	s.bindInt(pAction, int64(r.Action))
	s.bindInt(pFlags, flags)
	s.bindInt(pStatus, int64(r.Status))
	s.bindInt(pPort, int64(r.Port))
	s.bindInt(pBytesIn, r.BytesIn)
	s.bindInt(pBytesOut, r.BytesOut)
	s.bindInt(pHeadOut, r.HeadOut)
	s.bindInt(pLooked, r.Looked)
	if r.Length == r.Looked { // true for nearly all rows
		s.bindNull(pLength)
	} else {
		s.bindNumber(pLength, r.Length)
	}
	s.bindInt(pScore, int64(r.Score))
	s.bindText(pRef, r.ID)
	s.bindAddr(pClient, r.Client)
	s.bindText(pUser, r.User)
	s.bindAddr(pServer, r.Server)
	s.bindText(pPolicy, r.Policy)
	s.bindText(pRule, r.Rule)
	s.bindText(pMethod, r.Method)
	s.bindText(pHost, r.Host)
	s.bindText(pType, r.Type)
	s.bindText(pURL, r.URL)
	s.bindText(pCategory, r.Category)
	s.bindText(pEvidence, r.Evidence)
	s.bindText(pFindings, r.Findings)
	s.bindText(pNote, r.Note)
	if len(w.moreText) > 0 {
		w.moreText[0] = '{' // for the comma
		w.moreText = append(w.moreText, '}')
	}
	s.bindText(pMore, text(w.moreText))
}

func (s *stmt) bindAddr(n int32, a netip.Addr) {
	if !a.IsValid() {
		s.bindNull(n)
		return
	}
	b := a.AppendTo(s.c.bytes[s.c.used:s.c.used])
	s.bindHeld(n, len(b))
}

// deleteBefore deletes the oldest rows with ids below id, at most deleteStep,
// and returns their number.
func (w *writer) deleteBefore(id int64) (int64, error) {
	err := w.exec(fmt.Sprintf(`DELETE FROM event WHERE id < %d AND
		id < coalesce((SELECT id FROM event ORDER BY id LIMIT 1 OFFSET %d), %[1]d)`, id, deleteStep))
	if err != nil {
		return 0, err
	}
	return w.changes(), nil
}

// deleteSegments deletes segments whose rows all have ids below id.
func (w *writer) deleteSegments(id int64) error {
	return w.transaction(func() error {
		return w.exec(fmt.Sprintf(`DELETE FROM segment WHERE last < %d;
			DELETE FROM part WHERE id < (SELECT coalesce(min(first), %d) FROM segment) * %d;
			DELETE FROM total WHERE id < (SELECT coalesce(min(first), %[2]d) FROM segment) * %[3]d`, id, int64(math.MaxInt64/maxParts), maxParts))
	})
}

func (w *writer) close() error {
	w.insert.close()
	w.several.close()
	return w.conn.close()
}
