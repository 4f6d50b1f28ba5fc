package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"shuultuur/lib/atomicfile"
)

// isErased reports whether a record was erased: it is not empty and consists of
// zeros. No other record does.
func isErased(record []byte) bool {
	for _, c := range record {
		if c != 0 {
			return false
		}
	}
	return len(record) > 0
}

// order makes the goroutine of Run call do between two batches.
func (l *Log) order(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	select {
	case l.orders <- func() { done <- do() }:
		return <-done
	case <-l.closed:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Erase overwrites the records that match, even if all readers have passed them,
// and returns their number. When it returns, no segment contains them and no
// reader returns them. Damaged batches are overwritten too, because their person
// is unknown. Gathered records are written first, so that they are searched. Run
// must be running. With dry it only counts.
func (l *Log) Erase(ctx context.Context, match func(record []byte) bool, dry bool) (n int64, err error) {
	err = l.order(ctx, func() error {
		l.write()
		l.files.Lock()
		defer l.files.Unlock()
		t := l.tail.Load()
		for i, s := range t.segments {
			end := s.end
			if i == len(t.segments)-1 {
				end = t.offset
			}
			found, err := l.eraseIn(s, end, i == len(t.segments)-1, match, dry)
			if err != nil {
				return fmt.Errorf("erasing records in %s: %w", s.path, err)
			}
			n += found
		}
		return nil
	})
	return n, err
}

// eraseIn rewrites a segment without the records that match. Positions and
// numbers of the others do not change.
func (l *Log) eraseIn(s segment, end int64, last bool, match func([]byte) bool, dry bool) (n int64, err error) {
	in, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) { // it was deleted because all readers had passed it
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer in.Close()
	if last && l.disk.out != nil && !dry { // zeros that were written ahead are not data
		if err := l.disk.out.Truncate(end); err != nil {
			return 0, err
		}
	}
	info, err := in.Stat()
	if err != nil {
		return 0, err
	}
	e := eraser{scan: scanner{in: in, offset: segmentHead, end: end}, match: match}
	if err := e.copy(nil); err != nil {
		return 0, err
	}
	if n = e.erased; dry || n == 0 && !e.damaged && info.Size() <= end {
		return n, nil
	}
	if last { // the next batch begins a new segment
		if err := l.disk.close(); err != nil {
			return 0, err
		}
	}
	err = atomicfile.Write(s.path, info.Mode().Perm(), func(out *os.File) error {
		head := make([]byte, segmentHead)
		if _, err := in.ReadAt(head, 0); err != nil {
			return err
		}
		if _, err := out.Write(head); err != nil {
			return err
		}
		e.scan.offset = segmentHead
		return e.copy(out)
	})
	if err != nil {
		return 0, err
	}
	l.readers.Lock()
	defer l.readers.Unlock()
	for _, r := range l.readers.all {
		r.closeFile() // it still has the old file open
	}
	return n, nil
}

// An eraser scans a segment.
type eraser struct {
	scan    scanner
	match   func(record []byte) bool
	erased  int64 // records erased in the last pass
	damaged bool
}

// copy writes the batches to out, unless it is nil. It writes zeros in place of
// matching records and damaged data.
func (e *eraser) copy(out io.Writer) error {
	e.erased = 0
	for {
		at := e.scan.offset
		records, h, err := e.scan.next(nil)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errDamaged):
			e.damaged = true
			if !e.scan.resync() {
				e.scan.offset = e.scan.end
			}
			if err := zeros(out, e.scan.offset-at); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		changed := false
		for _, r := range records {
			if !isErased(r) && len(r) > 0 && e.match(r) {
				clear(r)
				e.erased++
				changed = true
			}
		}
		if out == nil {
			continue
		}
		frame := make([]byte, e.scan.offset-at)
		if _, err := e.scan.in.ReadAt(frame, at); err != nil {
			return err
		}
		if changed {
			rest := frame[frameHead:frameHead]
			for _, r := range records {
				rest = appendRecord(rest, r)
			}
			if len(rest) != len(frame)-frameHead { // our encoding would have another length
				return fmt.Errorf("the batch at %d has lengths of another program", at)
			}
			seal(frame, h.first, h.records)
		}
		if _, err := out.Write(frame); err != nil {
			return err
		}
	}
}

func zeros(out io.Writer, n int64) error {
	if out == nil {
		return nil
	}
	_, err := io.Copy(out, io.LimitReader(nothing{}, n))
	return err
}

// nothing is an endless source of zeros.
type nothing struct{}

func (nothing) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Rotate begins a new segment, so that records that all readers have passed are
// deleted before their segment is full. Run must be running.
func (l *Log) Rotate(ctx context.Context) error {
	return l.order(ctx, func() error {
		t := l.tail.Load()
		if len(t.segments) == 0 || t.offset <= segmentHead {
			return nil
		}
		if err := l.disk.close(); err != nil {
			return fmt.Errorf("closing a segment: %w", err)
		}
		first := max(t.next, l.disk.taken)
		segments, err := l.begin(first, t)
		if err != nil {
			return err
		}
		l.advance(&tail{segments: segments, offset: l.disk.size, next: t.next, newer: make(chan struct{})})
		return l.trim()
	})
}
