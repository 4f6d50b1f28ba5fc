package jsonl

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"time"
)

// Old lines are overwritten where they are: what is left of one is shorter, and
// blanks fill the room. So nothing is copied however long the file is, and
// readers find every line where it was.

const (
	anonymousPause = 10 * time.Minute // after all old lines are done
	anonymousLines = 2000             // that a write looks at besides twice its own
)

// A nameless is what a store knows of lines that it has made anonymous.
type nameless struct {
	after time.Duration // age of rows; 0: none are
	file  os.FileInfo   // that at is of
	at    int64         // lines before that are done
	next  time.Time     // when to look again
}

// Anonymise implements [event.Anonymiser]. Files that were rotated away are not
// touched.
func (s *Store) Anonymise(after time.Duration) { s.nameless.after = after }

// forgetClients anonymises lines that are old enough: more than are being
// written, so that it keeps up, and few enough to delay no batch for long.
func (s *Store) forgetClients(now time.Time, writing int) error {
	n := &s.nameless
	if n.after == 0 || now.Before(n.next) {
		return nil
	}
	f, err := os.OpenFile(string(s.Reader), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) { // moved away, and not made again yet
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

// forget overwrites a line of f unless it is young. A line that is no row says
// nothing of its age and stays.
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
		return false, nil // AppendLine did not write it
	}
	less = append(less[:len(less)-1], bytes.Repeat([]byte(" "), len(line)-len(less))...)
	_, err = f.WriteAt(append(less, '\n'), at)
	return false, err
}
