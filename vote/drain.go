package vote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"shuultuur/lib/ingest"
	"shuultuur/lib/metric"
)

// A Sink accepts encoded votes. When Take returns without an error, they are
// stored for good. A sink may get the same vote twice.
type Sink interface {
	Take(ctx context.Context, records [][]byte) error
}

// Sizes and times of batches.
const (
	drainMost  = 10_000
	drainWait  = time.Second
	retryFirst = 200 * time.Millisecond
	retryLast  = 15 * time.Second
)

// A Drain moves votes from the log to a sink.
type Drain struct {
	reader  *ingest.Reader
	log     *ingest.Log
	sink    Sink
	logger  *slog.Logger
	drained metric.Counter
	failed  metric.Counter
	moving  sync.Mutex  // held while a batch is moved
	problem func(error) // called with the error when the sink begins to fail, and with nil when it works again
}

// NewDrain returns a drain. problem is called when the sink begins to fail, and
// with nil when it takes votes again.
func NewDrain(l *ingest.Log, name string, sink Sink, problem func(error), logger *slog.Logger) (*Drain, error) {
	r, err := l.Reader(name)
	if err != nil {
		return nil, err
	}
	return &Drain{
		reader: r, log: l, sink: sink, logger: logger, problem: problem,
		drained: metric.NewCounter("shuultuur_votes_drained_total", "Votes that the database or the next node has taken from the log."),
		failed:  metric.NewCounter("shuultuur_votes_drain_failures_total", "Batches of votes that the database or the next node did not take; they are tried again."),
	}, nil
}

// Collect implements [metric.Collector].
func (d *Drain) Collect(ch chan<- metric.Metric) { d.drained.Collect(ch); d.failed.Collect(ch) }

// Pending returns the number of votes that wait in the log.
func (d *Drain) Pending() uint64 { return d.log.Pending(d.reader) }

// Run moves votes until ctx ends.
func (d *Drain) Run(ctx context.Context) error {
	wait := retryFirst
	failing := false
	for ctx.Err() == nil {
		err := d.batch(ctx)
		switch {
		case err == nil:
			if failing {
				failing, wait = false, retryFirst
				d.logger.Info("votes are taken again")
				d.problem(nil)
			}
			continue
		case ctx.Err() != nil:
			return nil
		}
		d.failed.Inc()
		if !failing {
			failing = true
			d.logger.Error("votes are kept in the log for now", "error", err, "waiting", d.Pending())
		}
		d.problem(err)
		d.reader.Rewind()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, retryLast)
	}
	return nil
}

// Between calls do while no batch is being moved.
func (d *Drain) Between(do func() error) error {
	d.moving.Lock()
	defer d.moving.Unlock()
	return do()
}

// batch moves one batch.
func (d *Drain) batch(ctx context.Context) error {
	d.moving.Lock()
	defer d.moving.Unlock()
	records, next, err := d.reader.Next(ctx, drainMost, drainWait)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	if len(records) > 0 {
		if err := d.sink.Take(ctx, records); err != nil {
			return err
		}
		d.drained.Add(float64(len(records)))
	}
	return d.reader.Done(next) // this also skips erased records
}

// A Counter is the sink that counts votes in a store. After is called with the
// votes that were counted for the first time.
type Counter struct {
	Store  Store
	After  func(ctx context.Context, fresh []Vote)
	Logger *slog.Logger
}

// Take implements [Sink].
func (c *Counter) Take(ctx context.Context, records [][]byte) error {
	votes := make([]Vote, 0, len(records))
	for _, r := range records {
		v, err := Parse(r)
		if err != nil { // acknowledged votes always parse
			c.Logger.Error("a record in the log of votes is passed over", "error", err, "bytes", len(r))
			continue
		}
		votes = append(votes, v)
	}
	fresh, err := c.Store.Count(ctx, votes)
	if err != nil {
		return fmt.Errorf("counting %d votes: %w", len(votes), err)
	}
	if c.After != nil && len(fresh) > 0 {
		c.After(ctx, fresh)
	}
	return nil
}
