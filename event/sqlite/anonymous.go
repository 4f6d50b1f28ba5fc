package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"shuultuur/event"
)

// Old rows are made anonymous a segment at a time: the rows, the texts of clients and users in
// the index, and their totals. A number in the table anonymous marks which rows are done.
// Deleted bytes are overwritten and the write-ahead log is written back, so that the files do
// not contain them either.

const (
	anonymousPause = 10 * time.Minute // after all old rows are done
	anonymousPage  = 500              // rows held in memory at a time
)

// marks is created when rows are to be made anonymous. Older programs ignore
// it.
const marks = "CREATE TABLE IF NOT EXISTS anonymous (one INTEGER PRIMARY KEY CHECK (one = 1), next INTEGER NOT NULL) -- rows with ids below next are done"

// A nameless records which rows of a store are anonymous.
type nameless struct {
	after time.Duration // age of rows; 0: never
	ready bool          // the table exists, and deleted bytes are overwritten
	log   bool          // the write-ahead log may contain overwritten bytes
	next  time.Time     // when to look again
}

// Anonymise implements [event.Anonymiser].
func (s *Store) Anonymise(after time.Duration) { s.nameless.after = after }

// forgetClients makes old rows anonymous: twice as many as are written at the same time, plus a
// segment. So it keeps up without delaying a batch for long.
func (s *Store) forgetClients(ctx context.Context, now time.Time, writing int) error {
	n := &s.nameless
	if n.after == 0 || now.Before(n.next) {
		return nil
	}
	if !n.ready {
		if err := s.w.exec("PRAGMA secure_delete = ON; " + marks); err != nil {
			return err
		}
		// The previous process may have ended between the change and the write-back.
		n.ready, n.log = true, true
	}
	for left := 2*writing + 1; left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		done, err := s.anonymiseSome(now.Add(-n.after).UnixMicro())
		if err != nil {
			return err
		}
		if done == 0 {
			return s.forgetLog(now)
		}
		n.log = true
		left -= done
	}
	return nil
}

// forgetLog writes the log back when all old rows are done. If readers prevent that, it tries
// again a minute later.
func (s *Store) forgetLog(now time.Time) error {
	n := &s.nameless
	n.next = now.Add(anonymousPause)
	if !n.log {
		return nil
	}
	// It does not wait for readers, because rows wait to be written.
	sqlite3.Xsqlite3_busy_timeout(s.w.tls, s.w.db, 0)
	busy, err := s.w.int("PRAGMA wal_checkpoint(TRUNCATE)")
	sqlite3.Xsqlite3_busy_timeout(s.w.tls, s.w.db, busyTime)
	if n.log = busy != 0 || err != nil; n.log {
		n.next = now.Add(time.Minute)
	}
	return err
}

// anonymiseSome makes the next rows with ids below end anonymous, at most a
// segment, and returns the number of rows examined.
func (s *Store) anonymiseSome(end int64) (done int, err error) {
	var in span
	err = s.w.transaction(func() error {
		var err error
		if in, err = s.w.nameable(end); err != nil || in.first > in.last {
			return err
		}
		var changed []int64
		if done, changed, err = s.w.anonymise(in); err != nil {
			return err
		}
		if err := s.w.anonymiseIndex(in, changed); err != nil {
			return err
		}
		return s.w.exec(fmt.Sprintf("INSERT OR REPLACE INTO anonymous VALUES (1, %d)", in.last+1))
	})
	if err != nil || done == 0 {
		return 0, err
	}
	// The part of the index that is still in memory names clients, too.
	if s.index.sums.known = false; in.last >= s.index.next {
		s.index.behind = true
		s.index.b.begin(s.index.next)
	}
	s.tail.forget()
	return done, nil
}

// nameable returns the ids of the next rows below end that may name their
// clients, within one segment. The span is empty if there are none.
func (w *writer) nameable(end int64) (in span, err error) {
	none := span{1, 0}
	in.first, err = w.int(fmt.Sprintf("SELECT coalesce(min(id), %[1]d) FROM event WHERE id >= (SELECT coalesce(max(next), 0) FROM anonymous) AND id < %[1]d", end))
	if err != nil || in.first >= end {
		return none, err
	}
	in.last, err = w.int(fmt.Sprintf("SELECT coalesce((SELECT last FROM segment WHERE first <= %[1]d AND last >= %[1]d), (SELECT first - 1 FROM segment WHERE first > %[1]d ORDER BY first LIMIT 1), %[2]d)", in.first, end))
	if err != nil {
		return none, err
	}
	in.last = min(in.last, end-1)
	last, err := w.int(fmt.Sprintf("SELECT coalesce(max(id), 0) FROM (SELECT id FROM event WHERE id BETWEEN %d AND %d ORDER BY id LIMIT %d)", in.first, in.last, segmentRows))
	in.last = last
	return in, err
}

// anonymise rewrites the rows in a span of ids. It returns their number and the
// ids of rows that named somebody.
func (w *writer) anonymise(in span) (rows int, changed []int64, err error) {
	var find, set, wipe *stmt
	defer func() { find.close(); set.close(); wipe.close() }()
	for _, p := range []struct {
		to   **stmt
		text string
	}{
		{&find, fmt.Sprintf("SELECT id, client, user, note, evidence, findings FROM event WHERE id BETWEEN ? AND ? ORDER BY id LIMIT %d", anonymousPage)},
		{&set, "UPDATE event SET client = ?, user = NULL, note = NULL WHERE id = ?"},
		{&wipe, "UPDATE event SET evidence = NULL, findings = NULL WHERE id = ?"},
	} {
		if *p.to, err = w.prepare(p.text); err != nil {
			return 0, nil, err
		}
	}
	type oldRows struct {
		id int64
		event.Row
	}
	addrs := addresses{}
	for in.first <= in.last {
		find.bindNumber(1, in.first)
		find.bindNumber(2, in.last)
		var page []oldRows
		for {
			ok, err := find.step()
			if err != nil {
				return 0, nil, err
			}
			if !ok {
				break
			}
			o := oldRows{id: find.int(0)}
			o.User, o.Note = strings.Clone(find.text(2)), strings.Clone(find.text(3))
			o.Evidence, o.Findings = strings.Clone(find.text(4)), strings.Clone(find.text(5))
			if o.Client, err = addrs.parse(find.text(1)); err != nil {
				return 0, nil, err
			}
			page = append(page, o)
		}
		find.reset()
		for i := range page {
			o := &page[i]
			why := o.Evidence + o.Findings
			if !o.Anonymise() {
				continue
			}
			if err := set.begin(addressRoom); err != nil {
				return 0, nil, err
			}
			set.bindAddr(1, o.Client)
			set.bindNumber(2, o.id)
			if err := set.run(); err != nil {
				return 0, nil, err
			}
			if why != o.Evidence+o.Findings {
				wipe.bindNumber(1, o.id)
				if err := wipe.run(); err != nil {
					return 0, nil, err
				}
			}
			changed = append(changed, o.id)
		}
		rows += len(page)
		if len(page) < anonymousPage {
			break
		}
		in.first = page[len(page)-1].id + 1
	}
	return rows, changed, nil
}

// anonymiseIndex removes the former names of rows from their segment and from
// the totals that include it.
func (w *writer) anonymiseIndex(in span, changed []int64) error {
	if len(changed) == 0 {
		return nil
	}
	segments, err := w.spans(fmt.Sprintf("SELECT first, last, rows, lag FROM segment WHERE first <= %d AND last >= %d", in.last, in.first))
	if err != nil {
		return err
	}
	for _, s := range segments {
		ids, err := s.ids()
		if err != nil {
			return err
		}
		for c, name := range map[column]func(string) string{columnClient: network, columnUser: nobody} {
			if err := w.rename(s, c, ids, changed, name); err != nil {
				return err
			}
		}
	}
	// An empty total marks one that is too large to store: its segments are counted instead.
	return w.exec(fmt.Sprintf("UPDATE total SET data = x'' WHERE id & %d IN (%d, %d) AND last >= %d AND id / %d <= %d AND length(data) > 0",
		totalColumnsMax-1, columnClient, columnUser, in.first, maxParts, in.last))
}

// rename rewrites a column of a segment with new texts for the changed rows.
func (w *writer) rename(s *segment, c column, ids, changed []int64, name func(string) string) error {
	texts, err := s.dictionary(c)
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	codes, err := s.codes(c)
	if err != nil {
		return err
	}
	var b columnBuilder
	for i := range s.rows {
		old := ""
		if n := codes.at(i); n < texts.n {
			old = texts.at(n)
		}
		if _, ok := slices.BinarySearch(changed, ids[i]); ok {
			old = name(old)
		}
		b.addText(old)
	}
	insert, err := w.prepare("INSERT OR REPLACE INTO part VALUES (?, ?)")
	if err != nil {
		return err
	}
	defer insert.close()
	for part, blob := range map[int][]byte{c.dictionary(): b.appendDictionary(nil), c.numbers(): b.appendCodes(nil)} {
		if len(blob) == 0 {
			if err := w.exec(fmt.Sprintf("DELETE FROM part WHERE id = %d", partID(s.first, part))); err != nil {
				return err
			}
			continue
		}
		if err := insert.begin(len(blob)); err != nil {
			return err
		}
		insert.bindNumber(1, partID(s.first, part))
		insert.bindBlob(2, blob)
		if err := insert.run(); err != nil {
			return err
		}
	}
	return nil
}

// network returns the anonymous form of a client's text.
func network(client string) string {
	a, err := netip.ParseAddr(client)
	if err != nil {
		return ""
	}
	return event.Anonymous(a).String()
}

func nobody(string) string { return "" }
