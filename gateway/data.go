package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shuultuur/datadir"
	"shuultuur/event"
	"shuultuur/event/dansguardian"
	"shuultuur/event/jsonl"
	"shuultuur/event/kafka"
	"shuultuur/event/otlp"
	"shuultuur/event/parquet"
	"shuultuur/event/postgres"
	"shuultuur/event/spool"
	"shuultuur/event/sqlite"
	"shuultuur/event/squid"
	"shuultuur/event/syslog"
	"shuultuur/setting"
)

func openData(_ context.Context, b *builder) (*datadir.Folder, error) {
	return datadir.Open(string(b.settings.Data), !b.trial())
}

// record is the log of events and its stores.
type record struct {
	*event.Log
	stores []event.Store
	ran    bool // then the log has closed the stores
}

// reader is the first store that can be asked, nil if none can.
func (r *record) reader() event.Reader {
	for _, s := range r.stores {
		if q, ok := s.(event.Reader); ok {
			return q
		}
	}
	return nil
}

// openRecord opens every event store that the settings name.
func openRecord(_ context.Context, b *builder) (_ *record, err error) {
	cfg, err := b.settings.Events.WithDefaults()
	if err != nil {
		return nil, err
	}
	r := &record{}
	if cfg.Postgres != "" {
		st, err := postgres.Open(cfg.Postgres, time.Duration(cfg.Keep), postgres.Codec{Append: jsonl.AppendLine, Parse: jsonl.ParseLine})
		if err != nil {
			return nil, setting.At("postgres", err)
		}
		r.stores = append(r.stores, st)
	}
	if err := r.openReceivers(b, cfg); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for _, o := range []struct {
		key, path string
		open      func(path string) (event.Store, error)
	}{
		{"sqlite", cfg.SQLite, func(p string) (event.Store, error) { return sqlite.Open(p, time.Duration(cfg.Keep)) }},
		{"jsonl", cfg.JSONL, func(p string) (event.Store, error) { return jsonl.Open(p) }},
		{"squid", cfg.Squid, func(p string) (event.Store, error) { return squid.Open(p) }},
		{"dansguardian", cfg.DansGuardian, func(p string) (event.Store, error) { return dansguardian.Open(p) }},
	} {
		if o.path == "" {
			continue
		}
		path := b.settings.record(o.path)
		if b.trial() && creatable(path) {
			continue
		}
		st, err := o.open(path)
		if err != nil {
			return nil, errors.Join(setting.At(o.key, err), r.Close())
		}
		r.stores = append(r.stores, st)
	}
	if r.Log, err = event.New(b.settings.Events, b.log, r.stores...); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// openReceivers opens the stores that send events elsewhere, each with a spool
// for the time in which nobody takes them.
func (r *record) openReceivers(b *builder, cfg event.Config) error {
	for _, o := range []struct {
		key  string
		want bool
		open func() (event.Store, error)
	}{
		{"syslog", cfg.Syslog != nil, func() (event.Store, error) { return syslog.Open(*cfg.Syslog) }},
		{"otlp", cfg.OTLP != nil && (cfg.OTLP.To != "" || cfg.OTLP.Traces == ""), func() (event.Store, error) { return otlp.Open(*cfg.OTLP) }},
		{"otlp-traces", cfg.OTLP != nil && cfg.OTLP.Traces != "", func() (event.Store, error) { return otlp.OpenTraces(*cfg.OTLP) }},
		{"kafka", cfg.Kafka != nil, func() (event.Store, error) { return kafka.Open(*cfg.Kafka, jsonl.AppendLine) }},
		{"parquet", cfg.Parquet != nil, func() (event.Store, error) { return parquet.Open(*cfg.Parquet, string(b.settings.Data)) }},
	} {
		if !o.want {
			continue
		}
		st, err := o.open()
		if err == nil && !b.trial() && !cfg.Spool.Off() {
			folder := filepath.Join(string(b.settings.Data), "spool", o.key)
			st, err = spool.Open(st, folder, cfg.Spool.Or(1<<30), spool.Codec{Append: jsonl.AppendLine, Parse: jsonl.ParseLine}, b.log)
		}
		if err != nil {
			return setting.At(strings.TrimSuffix(o.key, "-traces"), err)
		}
		r.stores = append(r.stores, st)
	}
	return nil
}

// creatable says that a file does not exist and could be made.
func creatable(path string) bool {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o640)
	if err != nil {
		return false
	}
	f.Close()
	return os.Remove(path) == nil
}

// Run writes events until ctx ends, and closes the stores.
func (r *record) Run(ctx context.Context) error {
	r.ran = true
	return r.Log.Run(ctx)
}

// Close closes the stores of a log that did not run.
func (r *record) Close() error {
	var errs []error
	for _, s := range r.stores {
		if !r.ran {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// Events opens the record that the settings in file name, for queries beside a
// running gateway.
func Events(file string) (event.Reader, func() error, error) {
	s, err := Read(file)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := s.Events.WithDefaults()
	if err != nil {
		return nil, nil, s.text.Mistakes(setting.At("events", err))
	}
	switch {
	case cfg.SQLite != "":
		file := s.record(cfg.SQLite)
		r, err := sqlite.OpenReader(file)
		if err != nil {
			return nil, nil, s.text.Mistakes(setting.At("events.sqlite", fmt.Errorf("cannot read the record %s: %w", file, err)))
		}
		return r, r.Close, nil
	case cfg.Postgres != "":
		r, err := postgres.Open(cfg.Postgres, time.Duration(cfg.Keep), postgres.Codec{Append: jsonl.AppendLine, Parse: jsonl.ParseLine})
		if err != nil {
			return nil, nil, s.text.Mistakes(setting.At("events.postgres", err))
		}
		return r, r.Close, nil
	case cfg.JSONL != "":
		return jsonl.Reader(s.record(cfg.JSONL)), func() error { return nil }, nil
	}
	return nil, nil, s.text.Mistakes(setting.At("events", errors.New("neither sqlite, postgres nor jsonl is kept, so there is nothing to ask")))
}
