package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/atomicfile"
)

// errDamaged reports that there is no complete frame of the segment.
var errDamaged = errors.New("damaged frame")

// A scanner reads frames from a segment.
type scanner struct {
	in          io.ReaderAt
	offset      int64
	end         int64  // end of the valid data
	least, most uint64 // sequence numbers that the segment may have; 0 is no limit
}

// next reads a frame and appends copies of its records to dst. The error is
// io.EOF at the end, and errDamaged if there is no complete frame.
func (s *scanner) next(dst [][]byte) (_ [][]byte, h head, err error) {
	left := s.end - s.offset
	if left <= 0 {
		return dst, h, io.EOF
	}
	if left < frameHead {
		return dst, h, errDamaged
	}
	var b [frameHead]byte
	if _, err := s.in.ReadAt(b[:], s.offset); err != nil {
		return dst, h, readError(err)
	}
	h, ok := parseHead(b[:])
	if !ok || int64(h.length) > left-frameHead {
		return dst, h, errDamaged
	}
	frame := make([]byte, frameHead+h.length) // the records point into it
	if _, err := s.in.ReadAt(frame, s.offset); err != nil {
		return dst, h, readError(err)
	}
	n := len(dst)
	if dst, h, ok = split(dst, frame); !ok {
		return dst, h, errDamaged
	}
	if h.first < s.least || s.most > 0 && h.first+uint64(h.records) > s.most { // bytes of another segment
		return dst[:n], h, errDamaged
	}
	s.offset += int64(len(frame))
	return dst, h, nil
}

func readError(err error) error {
	if errors.Is(err, io.EOF) {
		return errDamaged // the file has become shorter
	}
	return err
}

// resync moves to the next complete frame after a damaged one, and reports
// whether there is one.
func (s *scanner) resync() bool {
	var want [4]byte
	binary.LittleEndian.PutUint32(want[:], mark)
	buf := make([]byte, 64<<10)
	tried := 0
	for at := s.offset + 1; at+frameHead <= s.end && tried < 1000; {
		n, err := s.in.ReadAt(buf[:min(int64(len(buf)), s.end-at)], at)
		if n < len(want) || err != nil && !errors.Is(err, io.EOF) {
			return false
		}
		i := bytes.Index(buf[:n], want[:])
		if i < 0 {
			at += int64(n - len(want) + 1)
			continue
		}
		try := *s
		try.offset = at + int64(i)
		if _, _, err := try.next(nil); err == nil {
			s.offset = at + int64(i)
			return true
		}
		tried++
		at += int64(i) + 1
	}
	return false
}

// A Reader reads the log from its own position. Only one goroutine may use it
// at a time.
type Reader struct {
	l    *Log
	name string

	mu       sync.Mutex // protects in from a concurrent Close
	in       *os.File   // the current segment; nil before the first
	scan     scanner
	segment  uint64 // number of its first record
	next     uint64 // sequence number of the next record
	position atomic.Uint64
}

const positionSuffix = ".position"

// Reader returns the reader with a name. If there is no file with its position,
// it is new and begins with the oldest record. A segment stays until every
// reader has read it.
func (l *Log) Reader(name string) (*Reader, error) {
	if name == "" || strings.ContainsAny(name, "/\x00.") {
		return nil, fmt.Errorf("%q cannot name a reader", name)
	}
	l.readers.Lock()
	defer l.readers.Unlock()
	if r := l.readers.all[name]; r != nil {
		return r, nil
	}
	r := &Reader{l: l, name: name}
	n, err := readPosition(r.file())
	var damaged *positionError
	if errors.As(err, &damaged) || err == nil && n > l.tail.Load().next {
		// It reads everything again, which loses nothing: what is handed over twice counts once.
		if err = atomicfile.SetAside(r.file()); err == nil {
			n, err = 0, r.savePosition(0)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := r.savePosition(0); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("the position of reader %q: %w", name, err)
	}
	r.next = n
	r.position.Store(n)
	l.readers.all[name] = r
	return r, nil
}

func readPosition(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, &positionError{path, string(text)}
	}
	return n, nil
}

// A positionError reports a damaged file of a position.
type positionError struct{ path, text string }

func (e *positionError) Error() string {
	return fmt.Sprintf("%s: %.40q is not a position", e.path, e.text)
}

// farthest returns the highest position of all readers, at which a log without
// segments continues.
func (l *Log) farthest() (n uint64, err error) {
	names, err := filepath.Glob(filepath.Join(l.config.Folder, "*"+positionSuffix))
	for _, path := range names {
		at, err := readPosition(path)
		if damaged := (*positionError)(nil); errors.As(err, &damaged) {
			continue // its reader begins anew
		}
		if err != nil {
			return 0, err
		}
		n = max(n, at)
	}
	return n, err
}

func (r *Reader) file() string {
	return filepath.Join(r.l.config.Folder, r.name+positionSuffix)
}

// Next waits for records and returns them: at least one batch, and about most at
// most, or those that exist after wait. Call [Reader.Done] with next when they
// are processed. The records belong to the caller.
func (r *Reader) Next(ctx context.Context, most int, wait time.Duration) (records [][]byte, next uint64, err error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		t := r.l.tail.Load()
		if records, err = r.read(records, most, t); err != nil || len(records) >= most {
			return records, r.next, err
		}
		select {
		case <-t.newer:
		case <-timer.C:
			return records, r.next, nil
		case <-r.l.closed:
			return records, r.next, ctx.Err()
		case <-ctx.Done():
			return records, r.next, ctx.Err()
		}
	}
}

// read appends records that are on disk.
func (r *Reader) read(records [][]byte, most int, t *tail) ([][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(records) < most && r.next < t.next {
		if r.in == nil {
			if err := r.find(t); err != nil {
				return records, err
			}
		}
		r.scan.end, r.scan.most = r.end(t)
		before := len(records)
		all, h, err := r.scan.next(records)
		switch {
		case err == nil:
			records = all
			if end := h.first + uint64(h.records); end <= r.next {
				records = records[:before] // earlier calls returned these
				continue
			} else if h.first < r.next {
				records = append(records[:before], all[before+int(r.next-h.first):]...)
			}
			records = append(records[:before], slices.DeleteFunc(records[before:], isErased)...)
			r.next = h.first + uint64(h.records)
		case errors.Is(err, io.EOF):
			if !r.after(t) {
				return records, nil
			}
		case errors.Is(err, errDamaged):
			r.l.stats.damaged.Add(1)
			r.l.log.Error("a batch in the log is damaged; its records are lost", "file", r.in.Name(), "after", r.next)
			if !r.scan.resync() {
				r.scan.offset = r.scan.end
			}
		default:
			return records, fmt.Errorf("reading the log: %w", err)
		}
	}
	return records, nil
}

// end returns the valid length of the current segment, and the number at which the next one begins.
func (r *Reader) end(t *tail) (int64, uint64) {
	for n, s := range t.segments {
		if s.first == r.segment && n+1 < len(t.segments) {
			return s.end, t.segments[n+1].first
		}
	}
	return t.offset, t.next
}

// find opens the segment with the next record.
func (r *Reader) find(t *tail) error {
	at := -1
	for n, s := range t.segments {
		if n == 0 || s.first <= r.next {
			at = n
		}
	}
	if at < 0 {
		return errors.New("the log has no segment")
	}
	return r.use(t.segments[at])
}

func (r *Reader) use(s segment) error {
	r.closeIn()
	f, err := os.Open(s.path)
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	r.in, r.segment = f, s.first
	r.scan = scanner{in: f, offset: segmentHead, least: s.first}
	r.next = max(r.next, s.first)
	return nil
}

// after moves to the segment after the current one.
func (r *Reader) after(t *tail) bool {
	for _, s := range t.segments {
		if s.first > r.segment {
			// A batch that failed may have had the numbers between: it is behind the end.
			if info, err := r.in.Stat(); err == nil && r.next < s.first && info.Size() <= r.scan.end {
				r.l.stats.damaged.Add(1)
				r.l.log.Error("the log lacks records: a batch of them is damaged, or a segment is gone", "file", r.in.Name(), "from", r.next, "to", s.first)
			}
			return r.use(s) == nil
		}
	}
	return false
}

func (r *Reader) closeIn() {
	if r.in != nil {
		r.in.Close()
		r.in = nil
	}
}

func (r *Reader) closeFile() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeIn()
}

// Done stores the position of the reader: a reader of the same name begins with
// the record next, even after a crash. Segments that no reader needs are deleted.
func (r *Reader) Done(next uint64) error {
	if next <= r.position.Load() {
		return nil
	}
	if err := r.savePosition(next); err != nil {
		return err
	}
	r.position.Store(next)
	return r.l.trim()
}

// Rewind makes the reader begin again with the first record that is not done.
func (r *Reader) Rewind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeIn()
	r.next = r.position.Load()
}

func (r *Reader) savePosition(next uint64) error {
	if err := atomicfile.WriteBytes(r.file(), 0o640, []byte(strconv.FormatUint(next, 10)+"\n")); err != nil {
		return fmt.Errorf("keeping the position of reader %q: %w", r.name, err)
	}
	return nil
}

// trim deletes segments that all readers have passed, except the last one.
// Positions of readers that this process has not opened are read from their
// files.
func (l *Log) trim() error {
	names, err := filepath.Glob(filepath.Join(l.config.Folder, "*"+positionSuffix))
	if err != nil || len(names) == 0 {
		return err
	}
	least := ^uint64(0)
	for _, path := range names {
		at, err := readPosition(path)
		if err != nil {
			return err
		}
		least = min(least, at)
	}
	l.trimmed.Store(least)
	l.files.Lock()
	defer l.files.Unlock()
	t := l.tail.Load()
	for n := 0; n+1 < len(t.segments) && t.segments[n+1].first <= least; n++ {
		if err := os.Remove(t.segments[n].path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("deleting a segment that has been read: %w", err)
		}
	}
	return nil
}
