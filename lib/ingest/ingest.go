// Package ingest is a durable append-only log: it acknowledges a record when the
// record is on disk. It does not interpret records.
//
// Data moves through it as follows. [Log.Append] adds records to the batch that
// is being gathered and waits. One goroutine ([Log.Run]) writes the batch as one
// frame with a checksum, calls fdatasync, and then lets all of its waiters
// continue. While the disk is busy the next batch gathers, so that one sync
// serves many clients. A [Reader] reads batches that are on disk, in order, and
// keeps its position in a file. A segment is deleted when all readers have
// passed it. [Log.Erase] removes records from segments that still exist.
//
// A batch that could not be written or synced is not acknowledged: its waiters
// get an [Unavailable], and so do all others until a write succeeds. After a
// failed sync the state of the file is unknown, so the log continues in a new
// segment, whose header has the valid length of the previous one. After a crash
// the log ends with the last complete batch; an incomplete one after it was
// never acknowledged. Package ingesttest is the conformance suite.
//
// Data in other forms than a log shares writes in a [Group].
package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/metric"
	"shuultuur/lib/setting"
)

// Config sets where the log is and how long it gathers.
type Config struct {
	Folder string // created if it does not exist
	// Segment is the size at which a new file begins; default 64MiB.
	Segment setting.Size
	// Gather is the longest time for which a batch gathers; default 2ms.
	Gather time.Duration
}

// Limits of the log.
const (
	defaultSegment = 64 << 20
	defaultGather  = 2 * time.Millisecond
	// lulls is the number of intervals in the gathering time. An interval in which
	// nothing arrives ends the gathering.
	lulls = 20
	// MaxRecords is the most records of a batch.
	MaxRecords = 10_000
	// MaxRecord is the largest size of a record in bytes.
	MaxRecord = 1 << 20
	// maxBatch is the size in bytes at which a batch is written. One Append may
	// exceed it.
	maxBatch = 4 << 20
	// maxGathered is the most bytes that may wait for the disk; more are refused.
	maxGathered = 16 << 20
	// maxAppend bounds one Append.
	maxAppend = 8 << 20
	// retryEvery is the interval of attempts while the log cannot write.
	retryEvery = time.Second
)

// Unavailable is the error of a log that cannot write at present.
type Unavailable struct {
	Cause error
	Retry time.Duration // when to retry
}

func (u *Unavailable) Error() string {
	return fmt.Sprintf("records cannot be kept for now: %v; try again in %v", u.Cause, u.Retry)
}

// Unwrap returns the cause.
func (u *Unavailable) Unwrap() error { return u.Cause }

var (
	errFull   = errors.New("more records arrive than the disk can take")
	errClosed = errors.New("the log is being closed")
	errLarge  = fmt.Errorf("a record exceeds %d bytes, or the records given at once exceed %d", MaxRecord, maxAppend)
	errEmpty  = errors.New("there is no record to keep")
	errZeros  = errors.New("a record of nothing but zero bytes is one that was erased")
)

// A batch has the records that are written and synced together.
type batch struct {
	frame   []byte // header and records
	records int
	first   uint64
	done    chan struct{} // closed when the batch is on the disk, or failed
	err     error         // read after done
}

// A Log is a durable log. It is safe for concurrent use.
type Log struct {
	config Config
	log    *slog.Logger
	open   func(path string, segment int64) (file, error)
	lock   *os.File
	wake   chan struct{} // there is something to write, of length 1
	closed chan struct{} // Run has ended
	orders chan func()   // functions that Run calls between two batches

	retry   time.Duration // retryEvery, or less in tests
	mu      sync.Mutex
	batch   *batch // guarded by mu: the batch being gathered
	spare   *batch // guarded by mu: an old batch whose buffer is reused
	ending  bool   // guarded by mu
	failing error  // guarded by mu: the reason why nothing can be written
	again   time.Time

	disk diskState

	tail    atomic.Pointer[tail] // end of the durable data
	trimmed atomic.Uint64        // segments that end before this number have been deleted
	files   sync.Mutex           // held while segments are deleted or rewritten

	readers struct {
		sync.Mutex
		all map[string]*Reader
	}
	stats stats
}

// A tail is the end of the durable data. Its channel is closed when the next
// tail replaces it.
type tail struct {
	segments []segment // oldest first; the last one is being written
	offset   int64     // in the last segment
	next     uint64    // sequence number of the next record
	newer    chan struct{}
}

// A segment is one file.
type segment struct {
	first uint64
	path  string
	end   int64 // its valid length; 0 for the last one: see tail.offset
}

type stats struct {
	records, bytes, batches, syncs, failures, refused, torn, damaged atomic.Int64
}

// Open opens the log in a folder and recovers it. Records are written only
// while Run runs.
func Open(c Config, log *slog.Logger) (*Log, error) {
	return open(c, log, openFile)
}

func open(c Config, log *slog.Logger, create func(path string, segment int64) (file, error)) (*Log, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c.Segment = setting.Size(c.Segment.Or(defaultSegment))
	if c.Gather == 0 {
		c.Gather = defaultGather
	}
	if err := os.MkdirAll(c.Folder, 0o750); err != nil {
		return nil, fmt.Errorf("making the folder of the log: %w", err)
	}
	lock, err := lockFolder(c.Folder)
	if err != nil {
		return nil, err
	}
	l := &Log{config: c, log: log, open: create, lock: lock, wake: make(chan struct{}, 1), closed: make(chan struct{}), orders: make(chan func()), retry: retryEvery}
	l.batch, l.spare = newBatch(), newBatch()
	l.readers.all = map[string]*Reader{}
	if err := l.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("recovering the log in %s: %w", c.Folder, err), lock.Close())
	}
	return l, nil
}

func newBatch() *batch {
	return &batch{frame: make([]byte, frameHead, 64<<10), done: make(chan struct{})}
}

// Append adds records and returns when all of them are on disk. They are in one batch: after a
// crash, either all or none exist. The error is an [Unavailable] if the disk cannot store them
// at present.
//
// If ctx ends first, the records may be stored or not.
func (l *Log) Append(ctx context.Context, records ...[]byte) error {
	b, err := l.gather(records)
	if err != nil {
		return err
	}
	select {
	case <-b.done:
		return b.err
	default:
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gather adds records to the batch that is being gathered.
func (l *Log) gather(records [][]byte) (*batch, error) {
	size := 0
	for _, r := range records {
		if size += len(r); len(r) > MaxRecord || size > maxAppend {
			return nil, errLarge
		}
		if isErased(r) {
			return nil, errZeros
		}
	}
	if len(records) == 0 {
		return nil, errEmpty
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.batch
	switch {
	case l.ending:
		return nil, &Unavailable{errClosed, l.retry}
	case l.failing != nil && time.Now().Before(l.again):
		l.stats.refused.Add(int64(len(records)))
		return nil, &Unavailable{l.failing, l.retry}
	case len(b.frame)+size > maxGathered:
		l.stats.refused.Add(int64(len(records)))
		return nil, &Unavailable{errFull, l.retry}
	}
	if l.failing != nil {
		l.again = time.Now().Add(l.retry) // one attempt for all waiters
	}
	for _, r := range records {
		b.frame = appendRecord(b.frame, r)
	}
	before := b.records
	b.records += len(records)
	if before == 0 || before < MaxRecords && b.records >= MaxRecords {
		nudge(l.wake)
	}
	return b, nil
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run writes appended records until ctx ends. Then it writes the gathered records
// and closes the log.
func (l *Log) Run(ctx context.Context) error {
	defer close(l.closed)
	for {
		select {
		case <-ctx.Done():
			l.mu.Lock()
			l.ending = true
			l.mu.Unlock()
			l.write()
			return l.close()
		case do := <-l.orders:
			do()
			continue
		case <-l.wake:
		}
		l.gatherMore()
		l.write()
	}
}

// gatherMore waits while the batch grows, for at most the gathering time. If nothing arrives
// for a twentieth of it, most likely all clients wait for this batch, and none can add to it.
func (l *Log) gatherMore() {
	until := time.Now().Add(l.config.Gather)
	for before := 0; ; {
		n, small := l.gathered()
		left := time.Until(until)
		if !small || n == before || left <= 0 {
			return
		}
		before = n
		pause(min(left, l.config.Gather/lulls))
	}
}

// gathered returns the number of records in the batch. small reports that it
// can wait for more.
func (l *Log) gathered() (n int, small bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.batch.records, l.batch.records < MaxRecords && len(l.batch.frame) < maxBatch
}

// write writes the gathered batch and acknowledges it.
func (l *Log) write() {
	l.mu.Lock()
	b := l.batch
	if b.records == 0 {
		l.mu.Unlock()
		return
	}
	l.batch, l.spare = l.spare, nil
	l.mu.Unlock()

	err := l.writeBatch(b)

	l.mu.Lock()
	if err != nil {
		if l.failing == nil {
			l.log.Error("records cannot be kept", "folder", l.config.Folder, "error", err)
		}
		l.failing, l.again = err, time.Now().Add(l.retry)
		b.err = &Unavailable{err, l.retry}
	} else if l.failing != nil {
		l.log.Info("records can be kept again", "folder", l.config.Folder)
		l.failing = nil
	}
	l.spare = newBatchIn(b)
	l.mu.Unlock()
	close(b.done)
}

// newBatchIn returns an empty batch that reuses the buffer of a written one.
func newBatchIn(old *batch) *batch {
	if cap(old.frame) > 2*maxBatch {
		return newBatch()
	}
	return &batch{frame: old.frame[:frameHead], done: make(chan struct{})}
}

// Problems returns the reasons why records cannot be stored.
func (l *Log) Problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing == nil {
		return nil
	}
	return []string{fmt.Sprintf("records cannot be kept in %s: %v", l.config.Folder, l.failing)}
}

// Close closes a log that was not run.
func (l *Log) Close() error { return l.close() }

func (l *Log) close() error {
	l.readers.Lock()
	defer l.readers.Unlock()
	for _, r := range l.readers.all {
		r.closeFile()
	}
	err := l.disk.close()
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
		l.lock = nil
	}
	return err
}

// Next returns the sequence number of the next record, which is the number of
// records so far.
func (l *Log) Next() uint64 { return l.tail.Load().next }

// Pending returns the number of records after a reader's durable position.
func (l *Log) Pending(r *Reader) uint64 {
	next := l.tail.Load().next
	if done := r.position.Load(); done < next {
		return next - done
	}
	return 0
}

var readings = []struct {
	desc  *metric.Desc
	value func(*stats) *atomic.Int64
}{
	{reading("records_total", "Records that were acknowledged."), func(s *stats) *atomic.Int64 { return &s.records }},
	{reading("bytes_total", "Bytes of batches written."), func(s *stats) *atomic.Int64 { return &s.bytes }},
	{reading("syncs_total", "Calls of fdatasync for batches."), func(s *stats) *atomic.Int64 { return &s.syncs }},
	{reading("failures_total", "Batches that could not be written or synced."), func(s *stats) *atomic.Int64 { return &s.failures }},
	{reading("refused_total", "Records refused because the disk could not take them."), func(s *stats) *atomic.Int64 { return &s.refused }},
	{reading("torn_total", "Torn batches removed when the log was opened: none of them was acknowledged."), func(s *stats) *atomic.Int64 { return &s.torn }},
	{reading("damaged_total", "Damaged places in batches that were acknowledged."), func(s *stats) *atomic.Int64 { return &s.damaged }},
}

func reading(name, help string) *metric.Desc {
	return metric.NewDesc("shuultuur_ingest_"+name, help)
}

var waiting = metric.NewDesc("shuultuur_ingest_waiting", "Records that a reader is not done with.", "reader")

// Collect implements [metric.Collector].
func (l *Log) Collect(ch chan<- metric.Metric) {
	for _, r := range readings {
		ch <- metric.New(r.desc, metric.Count, float64(r.value(&l.stats).Load()))
	}
	l.readers.Lock()
	defer l.readers.Unlock()
	for name, r := range l.readers.all {
		ch <- metric.New(waiting, metric.Gauge, float64(l.Pending(r)), name)
	}
}

// Syncs returns the number of synced batches and of their records.
func (l *Log) Syncs() (syncs, records int64) { return l.stats.syncs.Load(), l.stats.records.Load() }

// segmentsOf lists the segments in a folder, oldest first.
func segmentsOf(folder string) (all []segment, err error) {
	names, err := filepath.Glob(filepath.Join(folder, "*"+suffix))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, path := range names {
		var first uint64
		if _, err := fmt.Sscanf(filepath.Base(path), "%016x"+suffix, &first); err == nil {
			all = append(all, segment{first: first, path: path})
		}
	}
	return all, nil
}
