package jsonl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"shuultuur/event"
	"shuultuur/lib/clock"
)

// Old lines are overwritten in place: an anonymous line is shorter, and blanks fill the rest.
// So no file is copied, however long it is, and readers find every line at its old position.

const (
	anonymousPause = 10 * time.Minute // after all old lines are done
	anonymousLines = 2000             // lines that a write examines in addition to twice its own
)

// A nameless records which lines of a store are anonymous.
type nameless struct {
	after time.Duration // age of rows; 0: never
	file  os.FileInfo   // the file that at refers to
	at    int64         // lines before this offset are done
	next  time.Time     // when to look again
}

// Anonymise implements [event.Anonymiser]. It does not touch rotated files.
func (s *Store) Anonymise(after time.Duration) { s.nameless.after = after }

// Mind implements [event.Ager].
func (s *Store) Mind(g *clock.Guard) { s.clock = g }

// newest returns the time of the last line that is a row, zero if there is none.
func (s *Store) newest(ctx context.Context) (at time.Time, err error) {
	for r, err := range s.rows(ctx, event.Page{Newest: true}) {
		if err != nil { // there is no file, or its end is not ours
			return at, ctx.Err()
		}
		return r.Time, nil
	}
	return at, nil
}

// forgetClients makes old lines anonymous: more lines than are written at the same time, so
// that it keeps up, but few enough that no batch waits long.
func (s *Store) forgetClients(ctx context.Context, writing int) error {
	n := &s.nameless
	if n.after == 0 {
		return nil
	}
	now := s.clock.Now()
	believed, err := s.clock.Check(func() (time.Time, error) { return s.newest(ctx) })
	if err != nil || !believed || now.Before(n.next) {
		return err
	}
	f, err := os.OpenFile(string(s.Reader), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) { // moved away and not created again yet
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return err
	}
	if n.file == nil || !os.SameFile(n.file, st) || st.Size() < n.at {
		n.at = 0
	}
	n.file = st
	before := now.Add(-n.after)
	in := bufio.NewReaderSize(io.NewSectionReader(f, n.at, st.Size()-n.at), 1<<16)
	for range 2*writing + anonymousLines {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			n.next = now.Add(anonymousPause)
			return nil
		}
		if err != nil {
			return err
		}
		young, err := forget(f, n.at, line, before)
		if err != nil {
			return err
		}
		if young {
			n.next = now.Add(anonymousPause)
			return nil
		}
		n.at += int64(len(line))
	}
	return nil
}

// forget overwrites a line of f if it is old. A line that is not a row has no age and stays.
func forget(f *os.File, at int64, line []byte, before time.Time) (young bool, err error) {
	r, err := ParseLine(bytes.TrimRight(line, "\n"))
	if err != nil {
		return false, nil
	}
	if !r.Time.Before(before) {
		return true, nil
	}
	if !r.Anonymise() {
		return false, nil
	}
	less := AppendLine(nil, &r)
	if len(less) > len(line) {
		return false, nil // not written by AppendLine
	}
	less = append(less[:len(less)-1], bytes.Repeat([]byte(" "), len(line)-len(less))...)
	_, err = f.WriteAt(append(less, '\n'), at)
	return false, err
}
