package event

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"shuultuur/lib/metric"
	"shuultuur/lib/setting"
)

const (
	batchRows  = 10_000           // a batch is written as soon as this many rows wait
	queueBytes = 24 << 20         // most bytes that the rows in a queue use, with their texts
	stopTime   = 10 * time.Second // how long Run continues to write after it was stopped
	pause      = time.Second      // delay before a store that failed is tried again
	idleTime   = time.Minute      // longest interval of writes to a store, for upkeep
)

// Config sets how events are kept, whatever the store.
type Config struct {
	Spool     setting.Size     `yaml:"spool"`     // disk space for events that a receiver has not accepted, for each; default 1 GiB
	Keep      setting.Duration `yaml:"keep"`      // age at which rows are deleted; 0 means 90d
	Anonymise setting.Duration `yaml:"anonymise"` // age at which rows lose client and user; 0 or off: never
	Every     time.Duration    `yaml:"every"`     // time between batches; 0 means 1s
	Queue     int              `yaml:"queue"`     // most rows that wait for a store; 0 means 65536
}

// Refused is the error of a store that will never accept some rows. They are
// dropped and counted.
type Refused struct {
	Err  error
	Rows int // number of dropped rows; 0 is all
}

// Of returns how many of n rows are dropped.
func (r *Refused) Of(n int) int {
	if r.Rows == 0 {
		return n
	}
	return min(r.Rows, n)
}

// Add counts those of n rows that err drops, and reports whether err is a Refused.
func (r *Refused) Add(err error, n int) bool {
	part, ok := errors.AsType[*Refused](err)
	if ok {
		r.Err, r.Rows = part.Err, r.Rows+part.Of(n)
	}
	return ok
}

func (r *Refused) Error() string { return "refused for good: " + r.Err.Error() }

// Unwrap returns the reason.
func (r *Refused) Unwrap() error { return r.Err }

// A Spooler is a [Store] that keeps rows while its receiver is away. While rows wait, the log
// calls Write even without new rows.
type Spooler interface {
	// Spooled returns the number of waiting rows, the number of dropped rows, and the error of
	// the receiver.
	Spooled() (waiting, dropped uint64, err error)
}

// minAnonymise keeps the last day unchanged.
const minAnonymise = 24 * time.Hour

// WithDefaults returns c with defaults for zero values, or a mistake.
func (c Config) WithDefaults() (Config, error) {
	if c.Keep == 0 {
		c.Keep = setting.Duration(90 * 24 * time.Hour)
	}
	if c.Every == 0 {
		c.Every = time.Second
	}
	if c.Queue == 0 {
		c.Queue = 65536
	}
	switch after := c.Anonymise.Or(0); {
	case c.Keep.Or(0) < time.Hour:
		return c, setting.At("keep", fmt.Errorf("%q is less than an hour", c.Keep))
	case after != 0 && after < minAnonymise:
		return c, setting.At("anonymise", fmt.Errorf("%q is less than a day: changes of the settings are tried on the rows of the last day", c.Anonymise))
	case after >= c.Keep.Or(0):
		return c, setting.At("anonymise", fmt.Errorf("%q is not below keep, %q: rows would be deleted first", c.Anonymise, c.Keep))
	case !c.Spool.Off() && c.Spool.Or(1<<30) < 1<<20:
		return c, setting.At("spool", fmt.Errorf("%q is less than 1MiB", c.Spool))
	case c.Every < 10*time.Millisecond || c.Every > time.Minute:
		return c, setting.At("every", fmt.Errorf("%q is not between 10ms and 1m", c.Every))
	case c.Queue < 100 || c.Queue > 10_000_000:
		return c, setting.At("queue", fmt.Errorf("%d is not between 100 and 10000000 rows", c.Queue))
	}
	return c, nil
}

// A Log writes rows to its stores.
type Log struct {
	lanes []*lane
}

// New makes a log with stores, which it will close. It reports failing stores to log.
func New(cfg Config, log *slog.Logger, stores ...Store) (*Log, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{}
	for _, s := range stores {
		l.lanes = append(l.lanes, &lane{
			store: s,
			log:   log.With("store", s.Name()),
			every: cfg.Every,
			most:  cfg.Queue,
			batch: min(batchRows, cfg.Queue),
			now:   make(chan struct{}, 1),
			wrote: make(chan struct{}),
		})
	}
	return l, nil
}

// Add adds a row to every store's queue. It never blocks: rows that do not fit,
// or that come after Run has returned, are dropped and counted.
func (l *Log) Add(r Row) {
	n := rowSize + r.TextSize()
	for _, q := range l.lanes {
		q.add(&r, n)
	}
}

// Run writes batches until ctx ends, then writes the queued rows, for at most
// ten seconds, and closes the stores. The error reports lost rows.
func (l *Log) Run(ctx context.Context) error {
	errs := make([]error, len(l.lanes))
	var wg sync.WaitGroup
	for i, q := range l.lanes {
		wg.Go(func() { errs[i] = q.run(ctx) })
	}
	<-ctx.Done()
	wg.Wait()
	return errors.Join(errs...)
}

// Flush has the rows that are queued now written without waiting for the next batch, by all
// stores or by those given. It returns when they have left the queues, or the error of ctx.
func (l *Log) Flush(ctx context.Context, only ...Store) error {
	errs := make([]error, len(l.lanes))
	var wg sync.WaitGroup
	for i, q := range l.lanes {
		if len(only) == 0 || slices.Contains(only, q.store) {
			wg.Go(func() { errs[i] = q.flush(ctx) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Reopen makes file stores open their paths again, after a log rotation.
func (l *Log) Reopen() error {
	var errs []error
	for _, q := range l.lanes {
		if f, ok := q.store.(interface{ Reopen() error }); ok {
			errs = append(errs, f.Reopen())
		}
	}
	return errors.Join(errs...)
}

// Stats are the counters of one store.
type Stats struct {
	Store   string
	Queued  int    // rows waiting or being written
	Bytes   int    // bytes they take
	Written uint64 // rows the store has kept
	Dropped uint64 // rows lost: the queue was full, or not empty at the end
	Failed  uint64 // writes that failed
	Spooled uint64 // rows on disk that the receiver has not accepted

	Err   error     // of the last write, nil if it succeeded
	Since time.Time // of the first failed write since the last success
}

// Stats returns the counters of every store.
func (l *Log) Stats() []Stats {
	all := make([]Stats, len(l.lanes))
	for i, q := range l.lanes {
		q.mu.Lock()
		all[i] = q.stats
		q.mu.Unlock()
		all[i].Store = q.store.Name()
		if sp, ok := q.store.(Spooler); ok {
			waiting, dropped, err := sp.Spooled()
			all[i].Spooled = waiting
			all[i].Dropped += dropped
			all[i].Err = errors.Join(all[i].Err, err)
		}
	}
	return all
}

var (
	byStore     = []string{"store"}
	writtenDesc = metric.NewDesc("shuultuur_events_written_total", "Events a store has kept.", byStore...)
	droppedDesc = metric.NewDesc("shuultuur_events_dropped_total", "Events lost because a queue was full or the program ended.", byStore...)
	failedDesc  = metric.NewDesc("shuultuur_events_failed_total", "Writes to a store that failed.", byStore...)
	spooledDesc = metric.NewDesc("shuultuur_events_spooled", "Events on the disk that a receiver has not taken.", byStore...)
	queuedDesc  = metric.NewDesc("shuultuur_events_queued", "Events waiting to be written.", byStore...)
)

// Collect implements [metric.Collector].
func (l *Log) Collect(ch chan<- metric.Metric) {
	for _, s := range l.Stats() {
		ch <- metric.New(writtenDesc, metric.Count, float64(s.Written), s.Store)
		ch <- metric.New(droppedDesc, metric.Count, float64(s.Dropped), s.Store)
		ch <- metric.New(failedDesc, metric.Count, float64(s.Failed), s.Store)
		ch <- metric.New(queuedDesc, metric.Gauge, float64(s.Queued), s.Store)
		ch <- metric.New(spooledDesc, metric.Gauge, float64(s.Spooled), s.Store)
	}
}

// A lane is a store with its queue. Run swaps the queue's slice for an empty one, so that it is
// only as large as the traffic requires.
type lane struct {
	store Store
	log   *slog.Logger
	every time.Duration
	most  int
	batch int
	now   chan struct{} // asks Run not to wait for the next batch

	mu     sync.Mutex
	rows   []Row // not yet taken by Run
	stats  Stats // Queued and Bytes include the rows that Run has taken
	closed bool
	left   uint64        // rows that have left the queue since the beginning
	wrote  chan struct{} // closed when rows leave it

	// Run alone uses these.
	taken  []Row // the rows from next on are still to be written
	next   int
	failed bool // whether the last write failed
}

func (q *lane) add(r *Row, size int) {
	q.mu.Lock()
	if q.closed || q.stats.Queued >= q.most || q.stats.Bytes+size > queueBytes {
		q.stats.Dropped++
		q.mu.Unlock()
		return
	}
	q.rows = append(q.rows, *r)
	q.stats.Queued++
	q.stats.Bytes += size
	ready := len(q.rows) == q.batch
	q.mu.Unlock()
	if ready {
		q.hurry()
	}
}

// hurry has Run write what is queued.
func (q *lane) hurry() {
	select {
	case q.now <- struct{}{}:
	default:
	}
}

// flush has the rows that are queued now written, and waits for that.
func (q *lane) flush(ctx context.Context) error {
	want, left, wrote := q.progress()
	for want += left; left < want; _, left, wrote = q.progress() {
		q.hurry()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wrote:
		case <-time.After(pause): // the store failed, and is to be tried again
		}
	}
	return nil
}

// progress returns how many rows are queued, how many have left the queue, and what is closed
// when more leave.
func (q *lane) progress() (queued, left uint64, wrote <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return uint64(q.stats.Queued), q.left, q.wrote
}

// leave notes that rows have left the queue. The caller holds mu.
func (q *lane) leave(rows int) {
	q.left += uint64(rows)
	close(q.wrote)
	q.wrote = make(chan struct{})
}

// take moves the queued rows to taken, if that is empty.
func (q *lane) take() {
	if q.next < len(q.taken) {
		return
	}
	used := len(q.taken)
	clear(q.taken)
	empty := q.taken[:0]
	if cap(empty) > 1024 && used < cap(empty)/8 {
		empty = nil // a burst is over: release its memory
	}
	q.mu.Lock()
	q.taken, q.rows = q.rows, empty
	q.mu.Unlock()
	q.next = 0
}

// release releases the queue's memory if nothing is queued.
func (q *lane) release() {
	q.mu.Lock()
	if q.stats.Queued == 0 {
		q.rows, q.taken, q.next = nil, nil, 0
	}
	q.mu.Unlock()
}

// write writes all rows that are queued now, in batches, until an error occurs.
func (q *lane) write(ctx context.Context) error {
	for range 2 { // the rest after a failure first, then newer rows
		q.take()
		for q.next < len(q.taken) {
			rows := q.taken[q.next:min(q.next+q.batch, len(q.taken))]
			err := q.store.Write(ctx, rows)
			lost := 0
			if err != nil {
				q.count(func(s *Stats) { s.Failed++ })
				refused, ok := errors.AsType[*Refused](err)
				if !ok {
					return err
				}
				lost = refused.Of(len(rows))
				q.log.Error("events are refused, and dropped", "events", lost, "error", err)
			}
			size := 0
			for i := range rows {
				size += rowSize + rows[i].TextSize()
			}
			q.count(func(s *Stats) {
				s.Queued -= len(rows)
				s.Bytes -= size
				s.Dropped += uint64(lost)
				s.Written += uint64(len(rows) - lost)
				q.leave(len(rows))
			})
			q.next += len(rows)
		}
	}
	return nil
}

func (q *lane) count(f func(*Stats)) {
	q.mu.Lock()
	f(&q.stats)
	q.mu.Unlock()
}

func (q *lane) run(ctx context.Context) error {
	tick := time.NewTicker(q.every)
	defer tick.Stop()
	again, last := time.Time{}, time.Now()
	for {
		select {
		case <-ctx.Done():
			return q.stop(ctx)
		case <-q.now:
		case <-tick.C:
		}
		now := time.Now()
		if now.Before(again) {
			continue
		}
		if q.queued() == 0 {
			if now.Sub(last) < idleTime && !q.spooled() {
				continue
			}
			last = now
			q.release()
			q.report(q.store.Write(ctx, nil))
			continue
		}
		last = now
		err := q.write(ctx)
		if err != nil && ctx.Err() != nil {
			return q.stop(ctx)
		}
		q.report(err)
		if again = (time.Time{}); err != nil {
			again = time.Now().Add(pause)
		}
	}
}

// spooled reports whether the store has rows to deliver.
func (q *lane) spooled() bool {
	sp, ok := q.store.(Spooler)
	if !ok {
		return false
	}
	n, _, _ := sp.Spooled()
	return n > 0
}

// queued returns the number of waiting rows.
func (q *lane) queued() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats.Queued
}

// report logs when a store begins to fail and when it works again. It does not log each
// failure.
func (q *lane) report(err error) {
	switch {
	case err != nil && !q.failed:
		q.log.Error("events could not be written; trying again", "error", err, "queued", q.queued())
	case err == nil && q.failed:
		q.log.Info("events are written again", "queued", q.queued())
	}
	q.failed = err != nil
	q.count(func(s *Stats) {
		if s.Err == nil {
			s.Since = time.Now()
		}
		s.Err = err
	})
}

// stop writes the remaining rows. ctx has ended, but its values are used.
func (q *lane) stop(ctx context.Context) error {
	q.count(func(*Stats) { q.closed = true })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	err := q.write(ctx)
	for err != nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		if again := q.write(ctx); again == nil || ctx.Err() == nil {
			err = again
		}
	}
	if left := q.queued(); left > 0 {
		q.count(func(s *Stats) { s.Dropped += uint64(left); s.Queued, s.Bytes = 0, 0; q.leave(left) })
		err = fmt.Errorf("%s: %d events lost: %w", q.store.Name(), left, err)
	}
	return errors.Join(err, q.store.Close())
}
