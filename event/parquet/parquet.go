// Package parquet writes events to Parquet files, in a folder or in a bucket of an
// object store with the S3 interface, for data lakes and for programs such as DuckDB
// and Spark.
//
// Data moves as follows. The store asks for many rows at once ([Store.Batch]): the
// spool in front of it (package spool) gathers them on disk meanwhile, so that none is
// lost. [Store.Write] makes one file (file.go, thrift.go), named after its first and
// last event, and stores it (package objectstore). The same rows make the same file, so a file that
// is stored twice exists once.
package parquet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/objectstore"
	"shuultuur/lib/setting"
)

// most is the most rows in a file, except for a longer batch of a log without a spool.
const most = 20_000

// Config sets where files with events are stored.
type Config struct {
	To       string           `yaml:"to"`                    // a folder, or s3://bucket/prefix
	Every    setting.Duration `yaml:"every"`                 // longest time between an event and its file; default 5m
	Endpoint string           `yaml:"endpoint" secret:"url"` // URL of the object store; default Amazon's in the region
	Region   string           `yaml:"region"`                // default us-east-1
	Key      string           `yaml:"key" secret:"yes"`      // access key
	Secret   string           `yaml:"secret" secret:"yes"`   // that belongs to it
}

// Open implements [event.Setting]. It does not connect.
func (c *Config) Open(o event.Opening) ([]event.Store, error) { return event.Only(Open(*c, o.Data)) }

// Place implements [event.Placed].
func (c *Config) Place() string {
	if strings.Contains(c.To, "://") {
		return ""
	}
	return c.To
}

// A Store writes files to one place.
type Store struct {
	folder string
	bucket *objectstore.Bucket // nil: folder
	every  time.Duration
	buf    []byte
}

// Open reads the settings. Relative folders are below data.
func Open(cfg Config, data string) (*Store, error) {
	s := &Store{every: cfg.Every.Or(5 * time.Minute)}
	if s.every < time.Second || s.every > 24*time.Hour {
		return nil, setting.At("every", fmt.Errorf("%v is not between 1s and 24h", s.every))
	}
	name, remote := strings.CutPrefix(cfg.To, "s3://")
	switch {
	case cfg.To == "":
		return nil, setting.At("to", errors.New(`is missing: write a folder, or "s3://bucket/prefix"`))
	case !remote && (cfg.Endpoint != "" || cfg.Key != "" || cfg.Secret != "" || cfg.Region != ""):
		return nil, setting.At("to", fmt.Errorf("%q is a folder; endpoint, region, key and secret are for s3://", cfg.To))
	case !remote:
		s.folder = cfg.To
		if !filepath.IsAbs(s.folder) {
			s.folder = filepath.Join(data, s.folder)
		}
		if info, err := os.Stat(s.folder); err == nil && !info.IsDir() {
			return nil, setting.At("to", fmt.Errorf("%q is a file: name a folder", s.folder))
		}
		return s, nil
	}
	var err error
	s.bucket, err = objectstore.Open(objectstore.Config{To: name, Endpoint: cfg.Endpoint, Region: cfg.Region, Key: cfg.Key, Secret: cfg.Secret})
	return s, err
}

// Name implements [event.Store].
func (s *Store) Name() string { return "parquet" }

// Batch returns the number of rows that the store wants at once, and how long
// they may wait.
func (s *Store) Batch() (rows int, every time.Duration) { return most, s.every }

// Close implements [event.Store].
func (s *Store) Close() error {
	if s.bucket != nil {
		s.bucket.Close()
	}
	return nil
}

// Write implements [event.Store]. The rows become one file.
func (s *Store) Write(ctx context.Context, rows []event.Row) error {
	if len(rows) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.buf = Append(s.buf[:0], rows)
	first, last := &rows[0], &rows[len(rows)-1]
	name := fmt.Sprintf("date=%s/%s-%s-%s.parquet", first.Time.UTC().Format("2006-01-02"), first.Time.UTC().Format("150405"), plain(first.ID), plain(last.ID))
	if s.bucket != nil {
		if err := s.bucket.Put(ctx, name, "application/vnd.apache.parquet", s.buf); err != nil {
			return fmt.Errorf("put %d events into %s/%s: %w", len(rows), s.bucket, name, err)
		}
		return nil
	}
	file := filepath.Join(s.folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return fmt.Errorf("events.parquet.to: %w", err)
	}
	if err := atomicfile.WriteBytes(file, 0o640, s.buf); err != nil {
		return fmt.Errorf("events.parquet.to: %w", err)
	}
	return nil
}

// plain returns an ID in a form that is safe in a file name.
func plain(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, id[:min(len(id), 64)])
}
