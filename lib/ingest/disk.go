package ingest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"shuultuur/lib/atomicfile"
)

// A file is the segment that is being written.
type file interface {
	io.Writer
	Datasync() error
	Truncate(size int64) error
	Close() error
}

// An osFile is a file of the operating system. It writes zeros ahead of the data, because a
// sync of bytes within the file's size need not wait for the journal of the file system. With
// the journal it takes several times as long, above all while other processes write.
type osFile struct {
	*os.File
	at     int64 // position of the next write
	filled int64 // end of the zeros
	ahead  int64 // how many zeros are written at once
}

// maxAhead bounds the zeros ahead of the data. It is less for small segments.
const maxAhead = 256 << 10

// room is a block of zeros.
var room [maxAhead]byte

func ahead(segment int64) int64 { return min(maxAhead, segment/4) }

// Write appends p. It writes no zeros ahead of the head of a file, which is written first. So
// if a file is longer than its head, its head is on disk.
func (f *osFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.at)
	head := f.at == 0
	f.at += int64(n)
	if err == nil && !head && f.at > f.filled && f.ahead > 0 {
		n, _ := f.WriteAt(room[:f.ahead], f.at) // if this fails, the next write fails with the error
		f.filled = f.at + int64(n)
	}
	return n, err
}

// Truncate implements file.
func (f *osFile) Truncate(size int64) error {
	err := f.File.Truncate(size)
	if err == nil {
		f.at, f.filled = size, size
	}
	return err
}

// Close removes the zeros at the end.
func (f *osFile) Close() error {
	var err error
	if f.filled > f.at {
		err = f.Truncate(f.at)
	}
	return errors.Join(err, f.File.Close())
}

// Datasync writes to disk the data and the metadata that are needed to read it.
func (f *osFile) Datasync() error { return atomicfile.Datasync(f.File) }

func openFile(path string, segment int64) (file, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f, ahead: ahead(segment)}, nil
}

// A diskState is the segment that is being written. Only the goroutine of Run
// uses it.
type diskState struct {
	out   file // nil: the next batch begins a new segment
	size  int64
	taken uint64 // a sequence number that a failed batch may have used; 0 is none
}

func (d *diskState) close() error {
	if d.out == nil {
		return nil
	}
	err := d.out.Close()
	d.out = nil
	return err
}

// writeBatch writes a batch. When it returns without an error, the batch is on disk.
func (l *Log) writeBatch(b *batch) error {
	d := &l.disk
	t := l.tail.Load()
	first := max(t.next, d.taken)
	segments := t.segments
	if d.out != nil && d.size >= int64(l.config.Segment) {
		if err := d.close(); err != nil {
			return fmt.Errorf("closing a segment: %w", err)
		}
	}
	if d.out == nil {
		s, err := l.begin(first, t)
		if err != nil {
			l.stats.failures.Add(1)
			return err
		}
		segments = s
	}
	seal(b.frame, first, b.records)
	b.first = first
	_, err := d.out.Write(b.frame)
	if err == nil {
		err = d.out.Datasync()
	}
	if err != nil {
		l.stats.failures.Add(1)
		l.abandon(segments, t, first+uint64(b.records))
		return fmt.Errorf("writing a batch of %d records: %w", b.records, err)
	}
	d.size += int64(len(b.frame))
	l.stats.syncs.Add(1)
	l.stats.records.Add(int64(b.records))
	l.stats.bytes.Add(int64(len(b.frame)))
	l.advance(&tail{segments: segments, offset: d.size, next: first + uint64(b.records), newer: make(chan struct{})})
	return nil
}

// advance moves the tail, which is as far as readers read.
func (l *Log) advance(t *tail) {
	old := l.tail.Swap(t)
	if old != nil {
		close(old.newer)
	}
}

// begin begins a new segment. It returns all segments, including this one.
func (l *Log) begin(first uint64, t *tail) ([]segment, error) {
	segments := append([]segment(nil), t.segments...)
	for len(segments) > 1 && segments[1].first <= l.trimmed.Load() {
		segments = segments[1:]
	}
	var before int64
	if n := len(segments); n > 0 {
		segments[n-1].end = t.offset
		before = t.offset
		if segments[n-1].first == first { // the last one has no valid batch
			if err := os.Remove(segments[n-1].path); err != nil {
				return nil, fmt.Errorf("removing an empty segment: %w", err)
			}
			segments = segments[:n-1]
			before = 0
			if n > 1 {
				before = segments[n-2].end
			}
		}
	}
	path := filepath.Join(l.config.Folder, fmt.Sprintf("%016x%s", first, suffix))
	out, err := l.open(path, int64(l.config.Segment))
	if err != nil {
		return nil, fmt.Errorf("beginning a segment: %w", err)
	}
	_, err = out.Write(newSegmentHead(first, before))
	if err == nil {
		err = out.Datasync()
	}
	if err == nil {
		err = atomicfile.SyncFolder(l.config.Folder)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("beginning a segment: %w", err), out.Close(), os.Remove(path))
	}
	l.disk.out, l.disk.size = out, segmentHead
	return append(segments, segment{first: first, path: path}), nil
}

// abandon gives up the current segment, because it is unknown how much of the
// failed batch is on disk. If the file cannot be cut off before that batch, the
// next batch begins a new segment with other sequence numbers.
func (l *Log) abandon(segments []segment, t *tail, taken uint64) {
	d := &l.disk
	size := d.size
	d.taken = taken
	if d.out.Truncate(size) == nil && d.out.Datasync() == nil {
		d.taken = 0
	}
	if err := d.close(); err != nil {
		l.log.Warn("closing a segment that cannot be written", "error", err)
	}
	l.advance(&tail{segments: segments, offset: size, next: t.next, newer: make(chan struct{})})
}

// recover finds the end of the log: the last complete batch of the last
// segment. Data after it was not acknowledged and is cut off.
func (l *Log) recover() error {
	segments, err := segmentsOf(l.config.Folder)
	if err != nil {
		return err
	}
	heads := make([]segmentStart, len(segments))
	for n, s := range segments {
		if heads[n], err = readSegmentStart(s); err != nil {
			return err
		}
	}
	// A crash may leave a new segment without a complete head.
	for n := len(segments) - 1; n >= 0 && !heads[n].ok && heads[n].size <= segmentHead; n-- {
		l.log.Warn("a segment that has no whole head is removed: nothing in it was acknowledged", "file", segments[n].path)
		l.stats.torn.Add(1)
		if err := os.Remove(segments[n].path); err != nil {
			return err
		}
		segments = segments[:n]
	}
	for n := range segments {
		if n+1 < len(segments) {
			if segments[n].end, err = l.endOf(segments[n], heads[n].size, segments[n+1].first, heads[n+1]); err != nil {
				return err
			}
		}
		if !heads[n].ok {
			var before int64
			if n > 0 {
				before = segments[n-1].end
			}
			l.mendHead(segments[n], before)
		}
	}
	t := &tail{segments: segments, newer: make(chan struct{})}
	if n := len(segments); n > 0 {
		if err := l.recoverLast(t, &segments[n-1]); err != nil {
			return err
		}
	} else if t.next, err = l.farthest(); err != nil {
		return err
	}
	l.tail.Store(t)
	return atomicfile.SyncFolder(l.config.Folder)
}

// A segmentStart is what a segment says before its first batch.
type segmentStart struct {
	before int64 // how many bytes of the segment before count
	ok     bool  // it has a head, which is its own
	size   int64 // of the file
}

func readSegmentStart(s segment) (h segmentStart, err error) {
	f, err := os.Open(s.path)
	if err != nil {
		return h, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return h, err
	}
	h.size = info.Size()
	var b [segmentHead]byte
	if _, err := io.ReadFull(f, b[:]); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return h, nil
		}
		return h, fmt.Errorf("reading the head of %s: %w", s.path, err)
	}
	first, before, ok := parseSegmentHead(b[:])
	h.before, h.ok = before, ok && first == s.first
	return h, nil
}

// endOf returns the valid length of a segment that is not the last, as the head of the next one says.
// If that head is damaged, or speaks of a segment that is gone, the batches themselves show where the
// segment ends.
func (l *Log) endOf(s segment, size int64, next uint64, after segmentStart) (int64, error) {
	if after.ok && after.before == size {
		return size, nil
	}
	f, err := os.Open(s.path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	in := scanner{in: f, offset: segmentHead, end: size, least: s.first, most: next}
	before, last, err := l.batches(&in, s)
	if err != nil {
		return 0, err
	}
	if after.ok && before.end == after.before && last.next == next {
		return after.before, nil // a batch follows that failed and could not be cut off
	}
	if after.ok && last.end == after.before {
		return last.end, nil // part of such a batch follows
	}
	if last.next < next {
		l.stats.damaged.Add(1)
		l.log.Error("the log lacks records: a segment is shorter than it was, or one is gone", "file", s.path, "from", last.next, "to", next)
	}
	return last.end, nil
}

// A batchEnd is where a batch ends, and the sequence number after it.
type batchEnd struct {
	end  int64
	next uint64
}

// batches reads a segment and returns the ends of its last batch and of the one before. Before the first
// batch is the head.
func (l *Log) batches(in *scanner, s segment) (before, last batchEnd, err error) {
	last = batchEnd{segmentHead, s.first}
	for {
		_, h, err := in.next(nil)
		if errors.Is(err, io.EOF) {
			return before, last, nil
		}
		if errors.Is(err, errDamaged) {
			// Complete batches after a damaged one were synced later, so the damage was not
			// an unfinished write.
			if !in.resync() {
				return before, last, nil
			}
			l.stats.damaged.Add(1)
			l.log.Error("a batch in the log is damaged; its records are lost", "file", s.path, "after", last.next)
			continue
		}
		if err != nil {
			return before, last, err
		}
		before, last = last, batchEnd{in.offset, h.first + uint64(h.records)}
	}
}

// mendHead writes the head of a segment anew. Nothing is lost with it: the name of the file has its
// number, and the batches have theirs. If the disk does not take it, the next start tries again.
func (l *Log) mendHead(s segment, before int64) {
	l.stats.damaged.Add(1)
	err := func() error {
		f, err := os.OpenFile(s.path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		var was [segmentHead]byte
		n, err := f.ReadAt(was[:], 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := atomicfile.KeepAside(s.path, was[:n]); err != nil {
			return err
		}
		if _, err := f.WriteAt(newSegmentHead(s.first, before), 0); err != nil {
			return err
		}
		return atomicfile.Datasync(f)
	}()
	if err != nil {
		l.log.Error("the head of a segment is damaged and cannot be written again; its batches are read all the same", "file", s.path, "error", err)
		return
	}
	l.log.Error("the head of a segment was damaged and is written again; the damaged one is kept beside it", "file", s.path)
}

// recoverLast finds the end of the last segment, in which the log continues.
func (l *Log) recoverLast(t *tail, last *segment) error {
	f, err := os.Open(last.path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, end, err := l.batches(&scanner{in: f, offset: segmentHead, end: info.Size(), least: last.first}, *last)
	if err != nil {
		return err
	}
	t.next, t.offset = end.next, end.end
	rest, err := onlyZeros(f, t.offset, info.Size())
	if err != nil {
		return err
	}
	if !rest { // it has more than the zeros that were written ahead
		l.stats.torn.Add(1)
		l.log.Warn("a torn batch at the end of the log is removed: it was not acknowledged", "file", last.path, "bytes", info.Size()-t.offset)
	}
	w, err := os.OpenFile(last.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	out := &osFile{File: w, ahead: ahead(int64(l.config.Segment))}
	// The writes of a killed process may not be on disk yet.
	if err := errors.Join(out.Truncate(t.offset), atomicfile.Sync(out.File)); err != nil {
		return errors.Join(err, out.Close())
	}
	l.disk.out, l.disk.size = out, t.offset
	return nil
}

// onlyZeros reports whether f contains only zeros between two offsets.
func onlyZeros(f io.ReaderAt, from, to int64) (bool, error) {
	in := io.NewSectionReader(f, from, to-from)
	for buf := make([]byte, 64<<10); ; {
		n, err := in.Read(buf)
		for _, c := range buf[:n] {
			if c != 0 {
				return false, nil
			}
		}
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return true, err
		}
	}
}
