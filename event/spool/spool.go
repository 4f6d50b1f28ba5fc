// Package spool keeps events on disk while their receiver is away: a log server, a collector, a
// database on another machine.
//
// Data moves as follows: [Store.Write] hands a batch to the receiver. If that fails, the batch
// goes into a durable log (package ingest), and so do all later ones until the log is empty, so
// that the order stays. The log is tried once a second. After a crash, events that the receiver
// accepted may be sent again if the log had not recorded that yet; readers recognise them by
// their IDs.
package spool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/event"
	"shuultuur/lib/ingest"
	"shuultuur/lib/setting"
)

const (
	segment  = 8 << 20
	batch    = 1000            // most events sent together from the disk
	tryEvery = time.Second     // interval of attempts while the receiver is away
	turn     = 2 * time.Second // longest time for reading the disk before new events are accepted
	most     = 4 << 20         // most bytes written to disk together
)

// A Batcher is a receiver that wants many rows at once. They wait on disk until
// there are enough, or the first has waited long enough.
type Batcher interface {
	Batch() (rows int, every time.Duration)
}

// A Store is a receiver with a spool in front of it.
type Store struct {
	to     event.Store
	codec  event.Codec
	folder string
	limit  int64
	rows   int           // rows that are sent together
	every  time.Duration // how long a row waits for others; 0: not at all
	log    *slog.Logger

	records *ingest.Log
	reader  *ingest.Reader
	end     context.CancelFunc
	ended   chan error
	writing sync.Mutex // held by Write, Erase and HandOver
	left    bool       // guarded by writing: the folder belongs to another process
	again   time.Time  // when to try the receiver again
	dropped atomic.Uint64

	mu  sync.Mutex
	err error // last error of the receiver
}

// Open returns a store that sends events to another store, which it closes.
// While that fails, it keeps events in a folder, at most limit bytes.
func Open(to event.Store, folder string, limit int64, codec event.Codec, log *slog.Logger) (*Store, error) {
	records, err := ingest.Open(ingest.Config{Folder: folder, Segment: setting.Size(min(segment, max(limit/4, 64<<10)))}, log)
	if err != nil {
		return nil, fmt.Errorf("the events that %s has not taken: %w", to.Name(), err)
	}
	reader, err := records.Reader("receiver")
	if err != nil {
		return nil, errors.Join(err, records.Close())
	}
	s := &Store{to: to, codec: codec, folder: folder, limit: limit, log: log.With("store", to.Name()), records: records, reader: reader, rows: batch, ended: make(chan error, 1)}
	if b, ok := to.(Batcher); ok {
		s.rows, s.every = b.Batch()
		s.again = time.Now().Add(s.every)
	}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	go func() { s.ended <- records.Run(ctx) }()
	return s, nil
}

// Name implements [event.Store].
func (s *Store) Name() string { return s.to.Name() }

// Close implements [event.Store].
func (s *Store) Close() error {
	if s.every > 0 {
		s.writing.Lock()
		if !s.left {
			ctx, end := context.WithTimeout(context.Background(), turn)
			s.drain(ctx)
			end()
		}
		s.writing.Unlock()
	}
	return errors.Join(s.to.Close(), s.HandOver())
}

// HandOver releases the folder for another process. From then on, events that the
// receiver does not accept are lost.
func (s *Store) HandOver() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.left {
		return nil
	}
	s.left = true
	s.end()
	return <-s.ended
}

// Spooled implements [event.Spooler].
func (s *Store) Spooled() (waiting, dropped uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records.Pending(s.reader), s.dropped.Load(), s.err
}

func (s *Store) waiting() bool { return s.records.Pending(s.reader) > 0 }

// Write implements [event.Store].
func (s *Store) Write(ctx context.Context, rows []event.Row) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.left {
		err := s.to.Write(ctx, rows)
		s.note(err)
		return err
	}
	if s.every > 0 {
		return s.gather(ctx, rows)
	}
	if !s.waiting() {
		err := s.to.Write(ctx, rows)
		if s.note(err); err == nil || len(rows) == 0 || refused(err) {
			return err
		}
		return s.storeRows(ctx, rows)
	}
	if err := s.storeRows(ctx, rows); err != nil {
		return err
	}
	if !time.Now().Before(s.again) {
		s.drain(ctx)
	}
	return nil
}

// gather keeps rows until there are enough, or until the longest permitted time is over.
func (s *Store) gather(ctx context.Context, rows []event.Row) error {
	if err := s.storeRows(ctx, rows); err != nil {
		return err
	}
	now := time.Now()
	switch n := s.records.Pending(s.reader); {
	case n == 0:
		s.again = now.Add(s.every)
		return nil
	case s.lastFailed() && now.Before(s.again), n < uint64(s.rows) && now.Before(s.again):
		return nil
	}
	s.drain(ctx)
	if !s.lastFailed() {
		s.again = time.Now().Add(s.every)
	}
	return nil
}

// lastFailed reports whether the last attempt failed.
func (s *Store) lastFailed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// Erase implements [event.Eraser]: it erases the person's waiting rows, and lets the receiver
// erase if it is an Eraser, too.
func (s *Store) Erase(ctx context.Context, p event.Person, dry bool) (rows int64, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.left {
		return 0, fmt.Errorf("the spool %q belongs to the process that has taken over: ask that one", s.folder)
	}
	rows, err = s.records.Erase(ctx, func(b []byte) bool {
		r, err := s.codec.Parse(b)
		return err == nil && (p.Of(&r) || p.In(r.Note))
	}, dry)
	if err != nil {
		return 0, fmt.Errorf("erase events in the spool %q: %w", s.folder, err)
	}
	e, ok := s.to.(event.Eraser)
	if !ok {
		return rows, fmt.Errorf("this is about the spool; what %s has taken is to be erased there", s.to.Name())
	}
	there, err := e.Erase(ctx, p, dry)
	return max(rows, there), err
}

func refused(err error) bool {
	_, ok := errors.AsType[*event.Refused](err)
	return ok
}

// unacceptable returns how many of n events the receiver will never accept.
func unacceptable(err error, n int) int {
	if r, ok := errors.AsType[*event.Refused](err); ok {
		return r.Of(n)
	}
	return 0
}

// note logs when the receiver begins to fail and when it works again.
func (s *Store) note(err error) {
	if refused(err) {
		return
	}
	s.mu.Lock()
	was := s.err
	s.err = err
	s.mu.Unlock()
	switch {
	case err != nil:
		s.again = time.Now().Add(tryEvery)
		if was == nil {
			s.log.Error("events are not taken; they are kept on the disk", "folder", s.folder, "error", err)
		}
	case was != nil:
		s.log.Info("events are taken again", "waiting", s.records.Pending(s.reader))
	}
}

// storeRows writes rows to disk.
func (s *Store) storeRows(ctx context.Context, rows []event.Row) error {
	if len(rows) == 0 {
		return nil
	}
	size, err := s.size()
	if err == nil && size >= s.limit {
		err = fmt.Errorf("the spool %s holds %d bytes (events.spool)", s.folder, size)
	}
	var buf []byte
	var ends []int
	flush := func() error {
		records := make([][]byte, len(ends))
		from := 0
		for i, to := range ends {
			records[i] = buf[from:to]
			from = to
		}
		// A cancelled Append may or may not have stored the rows, so that they might be stored
		// twice.
		if err := s.records.Append(context.WithoutCancel(ctx), records...); err != nil {
			return err
		}
		buf, ends = buf[:0], ends[:0]
		return nil
	}
	for i := range rows {
		if err != nil {
			break
		}
		buf = s.codec.Append(buf, &rows[i])
		if ends = append(ends, len(buf)); len(buf) >= most || len(ends) == batch {
			err = flush()
		}
	}
	if err == nil && len(ends) > 0 {
		err = flush()
	}
	if err != nil {
		return fmt.Errorf("keep %d events on the disk: %w", len(rows), err)
	}
	return nil
}

// size returns the disk space of the spool in bytes.
func (s *Store) size() (n int64, err error) {
	files, err := os.ReadDir(s.folder)
	for _, f := range files {
		if info, err := f.Info(); err == nil && filepath.Ext(f.Name()) != ".position" {
			n += info.Size()
		}
	}
	return n, err
}

// drain sends events from the disk, for a while.
func (s *Store) drain(ctx context.Context) {
	end := time.Now().Add(turn)
	for s.waiting() && time.Now().Before(end) && ctx.Err() == nil {
		records, next, err := s.reader.Next(ctx, s.rows, 0)
		if err != nil {
			s.reader.Rewind()
			s.note(fmt.Errorf("read the spool: %w", err))
			return
		}
		rows := make([]event.Row, 0, len(records))
		for _, b := range records {
			r, err := s.codec.Parse(b)
			if err != nil { // written by another version
				s.dropped.Add(1)
				continue
			}
			rows = append(rows, r)
		}
		if len(rows) > 0 {
			err = s.to.Write(ctx, rows)
			s.note(err)
		}
		switch {
		case refused(err):
			n := unacceptable(err, len(rows))
			s.dropped.Add(uint64(n))
			s.log.Error("events are refused, and dropped", "events", n, "error", err)
		case err != nil:
			s.reader.Rewind()
			return
		}
		if err := s.reader.Done(next); err != nil { // otherwise they are sent again
			s.reader.Rewind()
			s.note(err)
			return
		}
	}
}
