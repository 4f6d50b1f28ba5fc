package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

const (
	// MaxLine is the longest line of a log file in bytes, including its end. Lines
	// of rows are far shorter.
	MaxLine = 1 << 20

	flushSize = 256 << 10
)

// A File is a store that appends a line per row to a text file.
//
// It writes lines a batch at a time and does not sync them to disk. A power cut may lose the
// last seconds; a killed process loses at most the batch that it was writing. Opening the file
// cuts off a torn last line.
type File struct {
	name, path string
	line       func([]byte, *Row) []byte
	buf        []byte

	mu   sync.Mutex // Reopen may be called during a write
	f    *os.File
	torn int64
}

// OpenFile opens or creates the log file at path, readable by owner and group. line appends the
// line of one row, including its end.
func OpenFile(name, path string, line func([]byte, *Row) []byte) (*File, error) {
	f, torn, err := openLines(path)
	if err != nil {
		return nil, err
	}
	return &File{name: name, path: path, line: line, f: f, torn: torn}, nil
}

func openLines(path string) (f *os.File, torn int64, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return nil, 0, fmt.Errorf("open event log: %w", err)
	}
	if torn, err = repair(f); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open event log %q: %w", path, err), f.Close())
	}
	return f, torn, nil
}

// repair cuts off an incomplete last line and returns its length. It does not
// touch pipes and devices.
func repair(f *os.File) (torn int64, err error) {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() == 0 {
		return 0, err
	}
	size := st.Size()
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		n := min(int64(len(buf)), end)
		if _, err := f.ReadAt(buf[:n], end-n); err != nil && err != io.EOF {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			end = end - n + int64(i) + 1
			if end == size {
				return 0, nil
			}
			return size - end, f.Truncate(end)
		}
		end -= n
		if size-end > MaxLine {
			return 0, errors.New("its last line is longer than 1 MiB: this is not an event log; name another file")
		}
	}
	return size, f.Truncate(0)
}

// Name returns the name that was given to OpenFile.
func (l *File) Name() string { return l.name }

// Torn returns the length of the incomplete last line that was cut off when the
// file was opened.
func (l *File) Torn() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.torn
}

// Write appends a line per row. If the disk is full, it removes the written part
// of the batch.
func (l *File) Write(ctx context.Context, rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	st, err := l.f.Stat()
	if err != nil {
		return fmt.Errorf("write event log %q: %w", l.path, err)
	}
	l.buf = l.buf[:0]
	for i := range rows {
		l.buf = l.line(l.buf, &rows[i])
		if len(l.buf) < flushSize && i < len(rows)-1 {
			continue
		}
		if err = ctx.Err(); err == nil {
			_, err = l.f.Write(l.buf)
		}
		if err != nil {
			if st.Mode().IsRegular() {
				err = errors.Join(err, l.f.Truncate(st.Size()))
			}
			return fmt.Errorf("write event log %q: %w", l.path, err)
		}
		l.buf = l.buf[:0]
	}
	return nil
}

// Reopen opens the path again after the file was moved away. If that fails, the
// old file stays in use.
func (l *File) Reopen() error {
	l.mu.Lock() // wait first, because a line that is being written looks incomplete
	defer l.mu.Unlock()
	f, torn, err := openLines(l.path)
	if err != nil {
		return err
	}
	old := l.f
	l.f = f
	l.torn += torn
	if err := old.Close(); err != nil {
		return fmt.Errorf("close event log %q: %w", l.path, err)
	}
	return nil
}

// Close closes the file.
func (l *File) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("close event log %q: %w", l.path, err)
	}
	return nil
}

// AppendEscaped appends s with control characters, bytes above 0x7e and the characters in also
// written as %XX. So a client's text cannot end a line or, with a blank in also, a field. A
// percent sign stays as it is unless it is in also.
func AppendEscaped(dst []byte, s, also string) []byte {
	const upperHex = "0123456789ABCDEF"
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c < 0x7f && strings.IndexByte(also, c) < 0 {
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		start = i + 1
	}
	return append(dst, s[start:]...)
}
