// Package record opens the event stores that the settings name, together with the log that
// writes to them. It alone depends on all stores.
package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"time"

	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/event/spool"
	"shuultuur/lib/clock"
	"shuultuur/lib/metric"
	"shuultuur/lib/problem"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
)

// Config has the settings of the record. A store is a field of [Kept] or [Sent], whose type its
// folder declares: its key, schema and default follow from the field.
type Config struct {
	Kept         `yaml:",inline"`
	Sent         `yaml:",inline"`
	event.Config `yaml:",inline"`
}

// WithDefaults returns c with defaults for zero values, or a mistake.
func (c Config) WithDefaults() (Config, error) {
	if c.Kept == (Kept{}) {
		c.Kept = standard
	}
	var err error
	c.Config, err = c.Config.WithDefaults()
	return c, err
}

// Places returns the files and folders of stores, which may be relative to the data folder.
func (c Config) Places() (all []string) {
	for _, s := range append(stores(c.Kept), stores(c.Sent)...) {
		if p, ok := s.Setting.(event.Placed); ok && p.Place() != "" {
			all = append(all, p.Place())
		}
	}
	return all
}

// A named is a setting of a store with its key.
type named struct {
	key string
	event.Setting
}

// stores returns the fields of a [Kept] or [Sent] that the settings have, in order.
func stores(table any) (all []named) {
	v := reflect.ValueOf(table)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if v.Field(i).IsZero() {
			continue
		}
		s, ok := v.Field(i).Interface().(event.Setting)
		if !ok {
			s = lacking(f.Tag.Get("lacks"))
		}
		all = append(all, named{f.Tag.Get("yaml"), s})
	}
	return all
}

// lacking is the setting of a store that this build lacks: its name.
type lacking string

// Open implements [event.Setting].
func (l lacking) Open(event.Opening) ([]event.Store, error) { return nil, release.Lacks(string(l)) }

// A Record is the log of events and its stores.
type Record struct {
	*event.Log
	Stores []event.Store
	reader event.Reader            // see Reader
	clocks map[string]*clock.Guard // by the name of the store
	ran    bool                    // whether the log has closed the stores
}

// Parts is what a record needs besides its settings.
type Parts struct {
	Data  string // folder of the gateway; relative paths are below it
	Trial bool   // open nothing for writing, create nothing and do not spool
	Log   *slog.Logger
}

// Reader returns the first store that can be queried, or nil. Whoever asks it sees what had been
// recorded a second before, however seldom batches are written.
func (r *Record) Reader() event.Reader { return r.reader }

// Open opens every event store that the settings name.
func Open(c Config, parts Parts) (_ *Record, err error) {
	cfg, err := c.WithDefaults()
	if err != nil {
		return nil, err
	}
	r, o := &Record{}, opening(cfg, parts.Data)
	o.Trial = parts.Trial
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	for _, s := range stores(cfg.Kept) {
		all, err := s.Open(o)
		if err != nil {
			return nil, setting.At(s.key, err)
		}
		r.Stores = append(r.Stores, all...)
	}
	for _, s := range stores(cfg.Sent) {
		all, err := s.Open(o)
		if err != nil {
			return nil, setting.At(s.key, err)
		}
		for _, st := range all {
			if !parts.Trial && !cfg.Spool.Off() {
				kept, err := spool.Open(st, filepath.Join(parts.Data, "spool", st.Name()), cfg.Spool.Or(1<<30), jsonl.Codec, parts.Log)
				if err != nil {
					return nil, setting.At(s.key, err)
				}
				st = kept
			}
			r.Stores = append(r.Stores, st)
		}
	}
	r.guard(parts)
	if after := cfg.Anonymise.Or(0); after > 0 {
		for _, s := range r.Stores {
			if a, ok := s.(event.Anonymiser); ok {
				a.Anonymise(after)
			}
		}
	}
	if r.Log, err = event.New(cfg.Config, parts.Log, r.Stores...); err != nil {
		return nil, err
	}
	r.findReader(cfg.Every)
	return r, nil
}

// findReader finds the store that can be queried. Batches that come every second are fresh enough.
func (r *Record) findReader(every time.Duration) {
	for _, s := range r.Stores {
		q, ok := s.(event.Reader)
		if !ok {
			continue
		}
		if r.reader = q; every > time.Second {
			r.reader = event.Fresh(q, func(ctx context.Context) {
				ctx, cancel := context.WithTimeout(ctx, freshTime)
				defer cancel()
				_ = r.Log.Flush(ctx, s) // Problems says what ails a store, and what it has can be asked meanwhile
			})
		}
		return
	}
}

func opening(cfg Config, data string) event.Opening {
	return event.Opening{Data: data, Keep: time.Duration(cfg.Keep), Lines: jsonl.Codec, Every: cfg.Every}
}

// guard gives each store that forgets by age a guard of the clock. Each has its own, because
// what it has stored is a part of what the guard knows.
func (r *Record) guard(parts Parts) {
	r.clocks = map[string]*clock.Guard{}
	for _, s := range r.Stores {
		a, ok := s.(event.Ager)
		if !ok {
			continue
		}
		cfg := clock.Config{Log: parts.Log.With("store", s.Name())}
		if !parts.Trial {
			cfg.File = filepath.Join(parts.Data, "clock-"+s.Name()+".json")
		}
		g := clock.New(cfg)
		r.clocks[s.Name()] = g
		a.Mind(g)
	}
}

var (
	doubtfulDesc = metric.NewDesc("shuultuur_events_clock_doubtful", "1 while a store deletes and anonymises nothing because the clock may be wrong.", "store")
	doubtsDesc   = metric.NewDesc("shuultuur_events_clock_doubts_total", "Times that the clock became doubtful.", "store")
)

// Collect implements [metric.Collector].
func (r *Record) Collect(ch chan<- metric.Metric) {
	r.Log.Collect(ch)
	for name, g := range r.clocks {
		doubtful := 0.0
		if g.Doubtful() {
			doubtful = 1
		}
		ch <- metric.New(doubtfulDesc, metric.Gauge, doubtful, name)
		ch <- metric.New(doubtsDesc, metric.Count, float64(g.Doubts()), name)
	}
}

// Run writes events until ctx ends, and closes the stores.
func (r *Record) Run(ctx context.Context) error {
	r.ran = true
	return r.Log.Run(ctx)
}

// Close closes the stores of a log that did not run.
func (r *Record) Close() error {
	var errs []error
	for _, s := range r.Stores {
		if !r.ran {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// writtenTime is how long Flush waits for the stores, and freshTime how long a question waits for the
// one that it asks.
const (
	writtenTime = 30 * time.Second
	freshTime   = 2 * time.Second
)

// Flush waits until the stores have written the rows that are queued now.
func (r *Record) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writtenTime)
	defer cancel()
	if r.Log.Flush(ctx) != nil {
		return errors.New("rows are still queued: a store does not write; see /health, and erase again")
	}
	return nil
}

// HandOver moves the waiting rows to disk for another process. The stores must not
// be used afterwards.
func (r *Record) HandOver() error {
	var errs []error
	for _, st := range r.Stores {
		if s, ok := st.(*spool.Store); ok {
			errs = append(errs, s.HandOver())
		}
	}
	return errors.Join(errs...)
}

// Problems returns the errors of failing stores, and what is wrong with the clock.
func (r *Record) Problems() (all []problem.Problem) {
	for _, s := range r.Stats() {
		if s.Err != nil {
			all = append(all, problem.Problem{Kind: problem.Because(problem.Log, s.Err), Text: fmt.Sprintf("events: %s is not written since %s, %d events wait and %d were dropped: %v",
				s.Store, s.Since.UTC().Format(time.RFC3339), uint64(s.Queued)+s.Spooled, s.Dropped, s.Err)})
		}
		if p := r.clocks[s.Store].Problem(); p != "" {
			all = append(all, problem.Problem{Kind: problem.Clock, Text: fmt.Sprintf("events: %s: %s", s.Store, p)})
		}
	}
	return all
}

// Look opens, beside a running gateway with the data folder data, the store that can be
// queried. The returned function closes it.
func Look(c Config, data string) (event.Reader, func() error, error) {
	cfg, err := c.WithDefaults()
	if err != nil {
		return nil, nil, err
	}
	for _, s := range stores(cfg.Kept) {
		if of, ok := s.Setting.(event.Readable); ok {
			r, done, err := of.Look(opening(cfg, data))
			if err != nil {
				return nil, nil, setting.At(s.key, err)
			}
			return r, done, nil
		}
	}
	return nil, nil, errors.New("no store is kept that can be asked: see events in the settings")
}
