// Package record opens the event stores that the settings name, together with the log that
// writes to them. It alone depends on all stores.
package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/event/spool"
	"shuultuur/event/syslog"
	"shuultuur/release"
	"shuultuur/setting"
)

// A readable store can be queried and closed.
type readable interface {
	event.Reader
	Close() error
}

// A fleetStore is a store that several gateways share.
type fleetStore interface {
	event.Store
	event.Reader
}

// fleetStores returns the shared stores of the settings.
func fleetStores(c event.Config) []fleetEntry {
	return slices.DeleteFunc([]fleetEntry{
		{"postgres", c.Postgres, openPostgres},
		{"clickhouse", c.ClickHouse, openClickHouse},
	}, func(e fleetEntry) bool { return e.address == "" })
}

type fleetEntry struct {
	key, address string
	openAt       func(address string, keep time.Duration) (fleetStore, error)
}

func (e fleetEntry) open(keep setting.Duration) (fleetStore, error) {
	st, err := e.openAt(e.address, time.Duration(keep))
	if err != nil {
		return nil, setting.At(e.key, err)
	}
	return st, nil
}

// A Record is the log of events and its stores.
type Record struct {
	*event.Log
	Stores []event.Store
	ran    bool // whether the log has closed the stores
}

// Parts is what a record needs besides its settings.
type Parts struct {
	Data  string // folder of the gateway; relative paths are below it
	Trial bool   // create no files and do not spool
	Log   *slog.Logger
}

// Reader returns the first store that can be queried, or nil.
func (r *Record) Reader() event.Reader {
	for _, s := range r.Stores {
		if q, ok := s.(event.Reader); ok {
			return q
		}
	}
	return nil
}

// Open opens every event store that the settings name.
func Open(c event.Config, parts Parts) (_ *Record, err error) {
	cfg, err := c.WithDefaults()
	if err != nil {
		return nil, err
	}
	r := &Record{}
	for _, e := range fleetStores(cfg) {
		st, err := e.open(cfg.Keep)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.Stores = append(r.Stores, st)
	}
	if err := r.openReceivers(cfg, parts); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for _, o := range []struct {
		key, path string
		open      func(path string) (event.Store, error)
	}{
		{"sqlite", cfg.SQLite, func(p string) (event.Store, error) { return openSQLite(p, time.Duration(cfg.Keep)) }},
		{"jsonl", cfg.JSONL, openJSONL},
		{"squid", cfg.Squid, openSquid},
		{"dansguardian", cfg.DansGuardian, openDansGuardian},
	} {
		if o.path == "" {
			continue
		}
		path := setting.Path(parts.Data, o.path)
		if parts.Trial && creatable(path) {
			continue
		}
		st, err := o.open(path)
		if err != nil {
			return nil, errors.Join(setting.At(o.key, err), r.Close())
		}
		r.Stores = append(r.Stores, st)
	}
	if after := cfg.Anonymise.Or(0); after > 0 {
		for _, s := range r.Stores {
			if a, ok := s.(event.Anonymiser); ok {
				a.Anonymise(after)
			}
		}
	}
	if r.Log, err = event.New(c, parts.Log, r.Stores...); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// smallLog is the size in bytes at which the small build rotates its log; there
// are at most two such files.
const smallLog = 8 << 20

func openJSONL(path string) (event.Store, error) {
	s, err := jsonl.Open(path)
	if err != nil {
		return nil, err
	}
	if release.Small {
		s.Bound(smallLog)
	}
	return s, nil
}

// openReceivers opens the stores that send events elsewhere, each with a spool
// for the time when its receiver is away.
func (r *Record) openReceivers(cfg event.Config, parts Parts) error {
	for _, o := range []struct {
		key  string
		want bool
		open func() (event.Store, error)
	}{
		{"syslog", cfg.Syslog != nil, func() (event.Store, error) { return syslog.Open(*cfg.Syslog) }},
		{"otlp", cfg.OTLP != nil && (cfg.OTLP.To != "" || cfg.OTLP.Traces == ""), func() (event.Store, error) { return openOTLP(*cfg.OTLP) }},
		{"otlp-traces", cfg.OTLP != nil && cfg.OTLP.Traces != "", func() (event.Store, error) { return openTraces(*cfg.OTLP) }},
		{"kafka", cfg.Kafka != nil, func() (event.Store, error) { return openKafka(*cfg.Kafka) }},
		{"parquet", cfg.Parquet != nil, func() (event.Store, error) { return openParquet(*cfg.Parquet, parts.Data) }},
	} {
		if !o.want {
			continue
		}
		st, err := o.open()
		if err == nil && !parts.Trial && !cfg.Spool.Off() {
			folder := filepath.Join(parts.Data, "spool", o.key)
			st, err = spool.Open(st, folder, cfg.Spool.Or(1<<30), jsonl.Codec, parts.Log)
		}
		if err != nil {
			return setting.At(strings.TrimSuffix(o.key, "-traces"), err)
		}
		r.Stores = append(r.Stores, st)
	}
	return nil
}

// creatable reports whether a file does not exist and can be created.
func creatable(path string) bool {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o640)
	if err != nil {
		return false
	}
	f.Close()
	return os.Remove(path) == nil
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

// writtenTime is how long Written waits for a store.
const writtenTime = 30 * time.Second

// Flush waits until the stores have written the rows that are queued now.
func (r *Record) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writtenTime)
	defer cancel()
	want := map[string]uint64{}
	for _, s := range r.Stats() {
		want[s.Store] = s.Written + uint64(s.Queued)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		late := false
		for _, s := range r.Stats() {
			late = late || s.Written+s.Dropped < want[s.Store] && s.Queued > 0
		}
		if !late {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("rows are still queued: a store does not write; see /health, and erase again")
		case <-tick.C:
		}
	}
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

// Problems returns the errors of failing stores.
func (r *Record) Problems() (all []string) {
	for _, s := range r.Stats() {
		if s.Err != nil {
			all = append(all, fmt.Sprintf("events: %s is not written since %s, %d events wait and %d were dropped: %v",
				s.Store, s.Since.UTC().Format(time.RFC3339), s.Queued, s.Dropped, s.Err))
		}
	}
	return all
}

// Look opens, beside a running gateway with the data folder data, the store that can be
// queried. The returned function closes it.
func Look(c event.Config, data string) (event.Reader, func() error, error) {
	cfg, err := c.WithDefaults()
	if err != nil {
		return nil, nil, err
	}
	if cfg.SQLite != "" {
		file := setting.Path(data, cfg.SQLite)
		r, err := readSQLite(file)
		if err != nil {
			return nil, nil, setting.At("sqlite", fmt.Errorf("cannot read the record %s: %w", file, err))
		}
		return r, r.Close, nil
	}
	if all := fleetStores(cfg); len(all) > 0 {
		st, err := all[0].open(cfg.Keep)
		if err != nil {
			return nil, nil, err
		}
		return st, st.Close, nil
	}
	if cfg.JSONL != "" {
		return jsonl.Reader(setting.Path(data, cfg.JSONL)), func() error { return nil }, nil
	}
	return nil, nil, errors.New("neither sqlite, postgres, clickhouse nor jsonl is kept, so there is nothing to ask")
}
