package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net/url"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"shuultuur/event"
)

var errTaken = errors.New("id is taken")

type writer struct {
	c    driver.Conn
	stmt driver.Stmt
	args []driver.NamedValue
}

func openWriter(path string) (*writer, error) {
	cn, err := sqlite.NewConnector("file:" + (&url.URL{Path: path}).EscapedPath())
	if err != nil {
		return nil, err
	}
	c, err := cn.Connect(context.Background())
	if err != nil {
		return nil, err
	}
	w := &writer{c: c}
	for _, p := range []string{
		"PRAGMA busy_timeout = 5000",
		"PRAGMA journal_mode = WAL",
		"PRAGMA synchronous = NORMAL",
		"PRAGMA cache_size = -2048",
		"PRAGMA journal_size_limit = 8388608",
	} {
		if err := w.exec(p); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return w, nil
}

func (w *writer) exec(q string) error {
	_, err := w.c.(driver.ExecerContext).ExecContext(context.Background(), q, nil)
	return err
}

func (w *writer) int(q string) (int64, error) {
	rows, err := w.c.(driver.QueryerContext).QueryContext(context.Background(), q, nil)
	if err != nil {
		return 0, err
	}
	v := make([]driver.Value, 1)
	if err := rows.Next(v); err != nil && err != io.EOF {
		return 0, errors.Join(err, rows.Close())
	}
	n, _ := v[0].(int64)
	return n, rows.Close()
}

func (w *writer) prepare() (err error) {
	w.stmt, err = w.c.Prepare("INSERT INTO event VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
	w.args = make([]driver.NamedValue, 25)
	for i := range w.args {
		w.args[i].Ordinal = i + 1
	}
	return err
}

func (w *writer) insert(last int64, rows []event.Row) (int64, error) {
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return 0, err
	}
	st := w.stmt.(driver.StmtExecContext)
	for i := range rows {
		r := &rows[i]
		k := 0
		num := func(v int64) {
			w.args[k].Value = nil
			if v != 0 {
				w.args[k].Value = v
			}
			k++
		}
		text := func(v string) {
			w.args[k].Value = nil
			if v != "" {
				w.args[k].Value = v
			}
			k++
		}
		t := r.Time.UnixMicro()
		last = max(last+1, t)
		num(last)
		if last == t {
			t = 0
		}
		num(t)
		num(r.Duration.Microseconds())
		num(int64(r.Proto))
		num(int64(r.Action))
		if r.Learned {
			num(1)
		} else {
			num(0)
		}
		num(int64(r.Status))
		num(int64(r.Port))
		num(r.BytesIn)
		num(r.BytesOut)
		num(r.Looked)
		num(int64(r.Score))
		text(r.ID)
		if r.Client.IsValid() {
			text(r.Client.String())
		} else {
			text("")
		}
		text(r.User)
		text(r.Policy)
		text(r.Rule)
		text(r.Method)
		text(r.Host)
		text(r.Type)
		text(r.URL)
		text(r.Category)
		text(r.Evidence)
		text(r.Findings)
		text(r.Note)
		if _, err := st.ExecContext(context.Background(), w.args); err != nil {
			return 0, w.rollback(err)
		}
	}
	if err := w.exec("COMMIT"); err != nil {
		return 0, w.rollback(err)
	}
	return last, nil
}

func (w *writer) rollback(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY {
		err = errTaken
	}
	return errors.Join(err, w.exec("ROLLBACK"))
}

func (w *writer) deleteBefore(at int64) (int64, error) {
	res, err := w.c.(driver.ExecerContext).ExecContext(context.Background(),
		"DELETE FROM event WHERE id < ?1 AND id <= coalesce((SELECT id FROM event ORDER BY id LIMIT 1 OFFSET 1999), ?1)",
		[]driver.NamedValue{{Ordinal: 1, Value: at}})
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (w *writer) close() error {
	var err error
	if w.stmt != nil {
		err = w.stmt.Close()
	}
	return errors.Join(err, w.c.Close())
}
