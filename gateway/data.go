package gateway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"shuultuur/admin"
	"shuultuur/event"
	"shuultuur/event/dansguardian"
	"shuultuur/event/jsonl"
	"shuultuur/event/sqlite"
	"shuultuur/event/squid"
	"shuultuur/filter"
)

// lockData takes the data folder for this process, so that two gateways do
// not write into one another's files. The lock goes with the process, however
// it ends.
func lockData(s *Settings) (*os.File, error) {
	dir := s.path(s.Data)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, s.mistake(filter.Setting("data", err))
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, s.mistake(filter.Setting("data", err))
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%s is in use by another gateway; give this one a data folder of its own", dir)
		}
		return nil, s.mistake(filter.Setting("data", err))
	}
	return f, nil
}

// openStores opens every event store that the settings name.
func openStores(s *Settings) (stores []event.Store, err error) {
	cfg, err := s.Events.WithDefaults()
	if err != nil {
		return nil, s.mistake(filter.Setting("events", err))
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
		st, err := o.open(s.record(o.path))
		if err != nil {
			for _, s := range stores {
				s.Close()
			}
			return nil, s.mistake(filter.Setting("events."+o.key, err))
		}
		stores = append(stores, st)
	}
	return stores, nil
}

// Events opens the record that the settings in file name, to be asked beside
// a running gateway.
func Events(file string) (event.Querier, func() error, error) {
	s, err := Read(file)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := s.Events.WithDefaults()
	if err != nil {
		return nil, nil, s.mistake(filter.Setting("events", err))
	}
	switch {
	case cfg.SQLite != "":
		file := s.record(cfg.SQLite)
		r, err := sqlite.OpenReader(file)
		if err != nil {
			return nil, nil, s.mistake(filter.Setting("events.sqlite", fmt.Errorf("cannot read the record %s: %w", file, err)))
		}
		return r, r.Close, nil
	case cfg.JSONL != "":
		return jsonl.Reader(s.record(cfg.JSONL)), func() error { return nil }, nil
	}
	return nil, nil, s.mistake(filter.Setting("events", errors.New("neither sqlite nor jsonl is kept, so there is nothing to ask")))
}

// record is what the admin address may ask about events: nil where they are not
// kept in SQLite.
func (g *Gateway) record() *admin.Events {
	for _, s := range g.stores {
		if db, ok := s.(*sqlite.Store); ok {
			return &admin.Events{Query: db.Query, Sums: db.Sums, Names: g.clientNames}
		}
	}
	return nil
}

// record returns the path of an event store: relative ones are in the data
// folder.
func (s *Settings) record(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(s.path(s.Data), p)
}
