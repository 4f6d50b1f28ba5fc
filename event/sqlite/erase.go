package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shuultuur/event"
)

// checkpointTries is the number of attempts to write the log back while readers prevent it, at
// intervals of checkpointPause.
const (
	checkpointTries = 100
	checkpointPause = 50 * time.Millisecond
)

// Erase removes the rows of a person, and notes in other rows that name the
// person. It rewrites the database and its log, so that neither contains these
// bytes any longer. The index is rebuilt from the remaining rows.
func (s *Store) Erase(ctx context.Context, p event.Person, dry bool) (rows int64, err error) {
	if dry {
		return p.Count(ctx, s)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	fail := func(err error) (int64, error) { return rows, fmt.Errorf("erase events from %q: %w", s.path, err) }
	if err := s.w.exec("PRAGMA secure_delete = ON"); err != nil {
		return fail(err)
	}
	err = s.w.transaction(func() error {
		var errs []error
		for _, u := range p.Users {
			errs = append(errs, s.execEach("DELETE FROM event WHERE user = ?", u, &rows), s.execEach("UPDATE event SET note = NULL WHERE instr(note, ?) > 0", u, nil))
		}
		for _, a := range p.Clients {
			errs = append(errs, s.execEach("DELETE FROM event WHERE client = ?", a.String(), &rows), s.execEach("UPDATE event SET note = NULL WHERE instr(note, ?) > 0", a.String(), nil))
		}
		return errors.Join(append(errs, s.w.exec("DELETE FROM segment; DELETE FROM part; DELETE FROM total"))...)
	})
	if err != nil {
		return fail(err)
	}
	s.tail.forget()
	if err := s.index.place(s.w, s.last); err != nil {
		return fail(err)
	}
	if err := s.w.exec("VACUUM"); err != nil {
		return fail(err)
	}
	for range checkpointTries {
		busy, err := s.w.int("PRAGMA wal_checkpoint(TRUNCATE)")
		if err != nil {
			return fail(err)
		}
		if busy == 0 {
			return rows, nil
		}
		select {
		case <-ctx.Done():
			return fail(ctx.Err())
		case <-time.After(checkpointPause):
		}
	}
	return fail(errors.New("the rows are deleted, but readers keep the log from being written back; erase again"))
}

// execEach runs a statement with a text, and adds the number of changed rows.
func (s *Store) execEach(sql, text string, rows *int64) error {
	st, err := s.w.prepare(sql)
	if err != nil {
		return err
	}
	defer st.close()
	if err := st.begin(len(text)); err != nil {
		return err
	}
	st.bindText(1, text)
	if err := st.run(); err != nil {
		return err
	}
	if rows != nil {
		*rows += s.w.changes()
	}
	return nil
}

// forget drops the kept segment of rows that the index lacks.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept, t.gram = nil, nil
}
