package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"shuultuur/lib/platform"
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
// cuts off a torn last line. A file that does not begin like a log of this kind is refused, and
// stays as it is.
type File struct {
	Kind
	path string
	line func([]byte, *Row) []byte
	buf  []byte

	mu   sync.Mutex // Reopen may be called during a write
	f    *os.File
	torn int64
}

// A Kind is a kind of log file.
type Kind struct {
	Store string         // name of the store
	Entry *regexp.Regexp // matches the beginning of every line
}

// OpenFile opens or creates the log file of a kind at path, readable by owner and group. line
// appends the line of one row, including its end.
func OpenFile(k Kind, path string, line func([]byte, *Row) []byte) (*File, error) {
	f, torn, err := k.open(path)
	if err != nil {
		return nil, err
	}
	return &File{Kind: k, path: path, line: line, f: f, torn: torn}, nil
}

func (k Kind) open(path string) (f *os.File, torn int64, err error) {
	if f, err = os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640); err != nil {
		if known := k.Check(path); known != nil { // in the words of a check
			return nil, 0, known
		}
		return nil, 0, fmt.Errorf("open event log: %w", err)
	}
	end, size, err := k.end(f)
	if err == nil && end < size {
		err = f.Truncate(end)
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open event log %q: %w", path, err), f.Close())
	}
	return f, size - end, nil
}

// Check returns the error that [OpenFile] would, as far as that is known without writing. It
// opens no file for writing and creates none.
func (k Kind) Check(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = platform.Writable(filepath.Dir(path))
	case err == nil && info.IsDir():
		err = errors.New("it is a folder: name a file")
	case err == nil:
		err = platform.Writable(path)
	}
	if err == nil && info != nil && info.Mode().IsRegular() {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			_, _, err = k.end(f)
			f.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("open event log %q: %w", path, err)
	}
	return nil
}

// entrySize is more than the part of a line that [Kind.Entry] looks at.
const entrySize = 1 << 10

// end returns where the last complete line of a file ends, and the size of the file. Both are 0
// for pipes and devices. A file is refused if something in it does not look like a log of this
// kind, because what another program wrote is not ours to cut off.
func (k Kind) end(f *os.File) (end, size int64, err error) {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() == 0 {
		return 0, 0, err
	}
	size = st.Size()
	first := make([]byte, min(entrySize, size))
	if _, err := f.ReadAt(first, 0); err != nil && err != io.EOF {
		return 0, 0, err
	}
	first, _, _ = bytes.Cut(first, []byte("\n"))
	if !k.Entry.Match(first) {
		return 0, 0, fmt.Errorf("it does not begin like a log of the kind %s, and stays as it is: name another file, or move this one away", k.Store)
	}
	if end, err = lastLine(f, size); err != nil || end == size {
		return end, size, err
	}
	torn := make([]byte, min(entrySize, size-end))
	if _, err := f.ReadAt(torn, end); err != nil && err != io.EOF {
		return 0, 0, err
	}
	// A line may be torn before the part that tells its kind is complete.
	if whole := append(torn, first[min(len(torn), len(first)):]...); !k.Entry.Match(whole) {
		return 0, 0, fmt.Errorf("its last line has no end, and does not begin like one of a log of the kind %s: name another file, or end the line", k.Store)
	}
	return end, size, nil
}

// lastLine returns where the last complete line ends.
func lastLine(f *os.File, size int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		n := min(int64(len(buf)), end)
		if _, err := f.ReadAt(buf[:n], end-n); err != nil && err != io.EOF {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
		if size-end > MaxLine {
			return 0, errors.New("its last line is longer than 1 MiB: this is not an event log; name another file")
		}
	}
	return 0, nil
}

// Name returns the name of the store.
func (l *File) Name() string { return l.Store }

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
	f, torn, err := l.open(l.path)
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
