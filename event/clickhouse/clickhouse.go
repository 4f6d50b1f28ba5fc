// Package clickhouse keeps events in ClickHouse, for fleets with very many events. Several
// gateways write to one table, and each reads all of it.
//
// The package speaks ClickHouse's HTTP interface with net/http; rows travel in its format
// RowBinary. A batch is inserted day by day, with a token by which the server recognises a
// batch that it already has, so that a batch whose acknowledgement was lost counts once. The
// table is divided by day, and days that are too old are dropped whole. A row is kept as a line
// of text (see [event.Codec]), and its fields in columns, by which the server filters and
// counts.
//
// The server may be away when the gateway starts or later: [event.Log] repeats failed writes.
package clickhouse

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"shuultuur/event"
	"shuultuur/lib/clock"
)

const (
	patience   = 30 * time.Second // for the server to take a batch
	sweepEvery = time.Hour
	dayForm    = "20060102"
)

// table creates the table if it does not exist. Replaced parts are removed from
// the disk within seconds, because they may contain erased rows. An insert is
// on disk before it is acknowledged.
const table = `CREATE TABLE IF NOT EXISTS event (
	seq Int64, -- in the order of recording: microseconds of the server, and the node
	time DateTime64(6, 'UTC'),
	client String, -- '' when not known
	address IPv6, -- the client, IPv4 mapped
	user String,
	host String,
	action LowCardinality(String),
	policy LowCardinality(String),
	rule LowCardinality(String),
	category LowCardinality(String),
	proto LowCardinality(String),
	method LowCardinality(String),
	status LowCardinality(String),
	type LowCardinality(String),
	learned LowCardinality(String),
	source LowCardinality(String),
	unread LowCardinality(String),
	cache LowCardinality(String),
	words String CODEC(ZSTD(1)), -- what a search for text looks at, in small letters
	line String CODEC(ZSTD(3)), -- all of the row, as JSON
	anonymous UInt8, -- no longer says who was behind it
	INDEX times time TYPE minmax GRANULARITY 1
) ENGINE = MergeTree PARTITION BY toYYYYMMDD(time) ORDER BY seq
SETTINGS non_replicated_deduplication_window = 1000, old_parts_lifetime = 5, fsync_after_insert = 1`

// columns are in the order in which [appendRow] writes them.
const columns = "seq, time, client, address, user, host, action, policy, rule, category, proto, method, status, type, learned, source, unread, cache, words, line, anonymous"

// fields are those with a column.
var fields = [...]event.Field{event.User, event.Host, event.Action, event.Policy, event.Rule, event.Category, event.Proto,
	event.Method, event.Status, event.Type, event.Learned, event.Source, event.Unread, event.Cache}

// A Store is a table of events.
type Store struct {
	event.Codec
	server   *url.URL // without user and database
	user     string
	password string
	database string
	client   *http.Client
	keep     time.Duration
	node     int64 // the low bits of seq
	after    time.Duration
	clock    *clock.Guard

	mu          sync.Mutex
	tableExists bool          // the table exists
	ahead       time.Duration // how far the server's clock is behind ours
	last        int64         // seq of the newest row, without the node
	nextSweep   time.Time
	nextNames   time.Time // when to look for days to anonymise
}

// Address is the setting of the store: the HTTP address of a ClickHouse database.
type Address string

// Open implements [event.Setting]. It does not connect.
func (u Address) Open(o event.Opening) ([]event.Store, error) {
	return event.Only(Open(string(u), o.Keep, o.Lines))
}

// Look implements [event.Readable].
func (u Address) Look(o event.Opening) (event.Reader, func() error, error) {
	s, err := Open(string(u), o.Keep, o.Lines)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// Open prepares a store for the database at address, such as
// https://gateway:secret@clickhouse.example:8443/shuultuur; it connects to
// nothing. Days that ended longer than keep ago are dropped.
func Open(address string, keep time.Duration, lines event.Codec) (*Store, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("open events in ClickHouse: %w", err.(*url.Error).Err) // without the password
	}
	database := strings.Trim(u.Path, "/")
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("open events in ClickHouse: %q is not an address: write http://USER:PASSWORD@HOST:8123/DATABASE", u.Redacted())
	case database == "" || strings.Trim(strings.ToLower(database), "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
		return nil, fmt.Errorf("open events in ClickHouse: %q names no database: write http://USER:PASSWORD@HOST:8123/DATABASE", u.Redacted())
	case keep <= 0:
		return nil, fmt.Errorf("open events in ClickHouse: keep %v is not above zero", keep)
	}
	var node [2]byte
	_, _ = rand.Read(node[:]) // a hash never fails
	s := &Store{Codec: lines, database: database, keep: keep, client: &http.Client{}, node: int64(binary.LittleEndian.Uint16(node[:]) % nodes)}
	s.user = u.User.Username()
	s.password, _ = u.User.Password()
	s.server = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}
	return s, nil
}

// Name returns "clickhouse".
func (s *Store) Name() string { return "clickhouse" }

// Close closes the connections.
func (s *Store) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Anonymise implements [event.Anonymiser].
func (s *Store) Anonymise(after time.Duration) { s.after = after }

// ready creates the table and compares clocks, once for each store.
func (s *Store) ready(ctx context.Context) error {
	s.mu.Lock()
	exists := s.tableExists
	s.mu.Unlock()
	if exists {
		return nil
	}
	err := s.exec(ctx, table)
	if isUnknownDatabase(err) {
		if err = s.createDatabase(ctx); err == nil {
			err = s.exec(ctx, table)
		}
	}
	if err != nil {
		return fmt.Errorf("make the table of events in ClickHouse: %w", err)
	}
	began := time.Now()
	now, err := s.number(ctx, serverTime)
	if err != nil {
		return fmt.Errorf("ask ClickHouse for its time: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tableExists, s.ahead = true, time.UnixMicro(now).Sub(began.Add(time.Since(began)/2))
	return nil
}

// nodes is the number of nodes that can each have a place within one microsecond.
const nodes = 1 << 10

// Places count microseconds since the epoch, so that 63 bits last for 280 years.
var epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// places reserves places for n rows and returns the first. Successive places differ by nodes.
func (s *Store) places(n int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := max(time.Now().Add(s.ahead).Sub(epoch).Microseconds(), s.last+1)
	s.last = first + int64(n) - 1
	return first*nodes + s.node
}

// Mind implements [event.Ager].
func (s *Store) Mind(g *clock.Guard) { s.clock = g }

// believed reports whether rows may be dropped or made anonymous by their age: the clock has run
// steadily, and the server's shows the same time.
func (s *Store) believed(ctx context.Context) (bool, error) {
	return s.clock.CheckWith(func() (time.Time, error) {
		return s.moment(ctx, "SELECT toUnixTimestamp64Micro(time) FROM event ORDER BY time DESC LIMIT 1")
	}, func() (time.Time, error) {
		return s.moment(ctx, serverTime)
	})
}

const serverTime = "SELECT toInt64(toUnixTimestamp64Micro(now64(6)))"

// moment asks for one time, which is zero if there is no row.
func (s *Store) moment(ctx context.Context, query string) (time.Time, error) {
	n, err := s.number(ctx, query)
	if err != nil || n == 0 {
		return time.Time{}, err
	}
	return time.UnixMicro(n), nil
}

// Write inserts rows and drops days that are too old. Rows of several days are
// inserted day by day. If one insert fails and all rows are given again, the
// server skips those that it has.
func (s *Store) Write(ctx context.Context, rows []event.Row) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.ready(ctx); err != nil {
		return err
	}
	believed, err := s.believed(ctx)
	if err != nil {
		return fmt.Errorf("compare the clock with ClickHouse: %w", err)
	}
	if now := s.clock.Now(); believed {
		if err := s.sweep(ctx, now); err != nil {
			return err
		}
		if err := s.forgetClients(ctx, now); err != nil {
			return fmt.Errorf("anonymise old events in ClickHouse: %w", err)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := s.insertRows(ctx, rows); err != nil {
		s.mu.Lock()
		s.tableExists = false // the table may have been removed
		s.mu.Unlock()
		return fmt.Errorf("write %d events to ClickHouse: %w", len(rows), err)
	}
	return nil
}

func (s *Store) insertRows(ctx context.Context, rows []event.Row) error {
	now := s.clock.Certain()
	place := s.places(len(rows))
	b := s.batch(false)
	for i := range rows {
		r := &rows[i]
		anonymous := s.after > 0 && !r.Time.After(now.Add(-s.after))
		if anonymous {
			c := *r
			c.Anonymise()
			r = &c
		}
		b.add(place+int64(i)*nodes, r, anonymous)
	}
	return b.insert(ctx, fmt.Sprintf("rows-%d", s.node))
}

// A batch is a number of rows that are inserted day by day.
type batch struct {
	store  *Store
	placed bool     // the rows have places, which the digest includes
	days   []string // in the order of their first rows
	of     map[string]*dayRows
}

type dayRows struct {
	body   []byte
	digest uint64 // hash of the lines
}

func (s *Store) batch(placed bool) *batch {
	return &batch{store: s, placed: placed, of: map[string]*dayRows{}}
}

func (b *batch) add(place int64, r *event.Row, anonymous bool) {
	day := r.Time.UTC().Format(dayForm)
	rows := b.of[day]
	if rows == nil {
		rows = &dayRows{}
		b.of[day], b.days = rows, append(b.days, day)
	}
	line := b.store.Append(nil, r)
	rows.body = appendRow(rows.body, place, r, line, anonymous)
	h := fnv.New64a()
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, rows.digest)) // a hash never fails
	_, _ = h.Write(line)
	if b.placed {
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(place)))
	}
	rows.digest = h.Sum64()
}

// insert inserts the rows. For each kind and digest, the server accepts the rows
// of a day once.
func (b *batch) insert(ctx context.Context, kind string) error {
	for _, day := range b.days {
		rows := b.of[day]
		if err := b.store.insert(ctx, rows.body, fmt.Sprintf("%s-%s-%016x-%d", kind, day, rows.digest, len(rows.body))); err != nil {
			return err
		}
	}
	return nil
}

// appendRow writes a row in the format RowBinary, in the order of columns.
func appendRow(dst []byte, seq int64, r *event.Row, line []byte, anonymous bool) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(seq))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.Time.UnixMicro()))
	dst = appendText(dst, event.Client.Of(r))
	var address [16]byte
	if r.Client.IsValid() {
		address = r.Client.As16()
	}
	dst = append(dst, address[:]...)
	for _, f := range fields {
		dst = appendText(dst, f.Of(r))
	}
	dst = appendText(dst, r.SearchText())
	dst = appendText(dst, string(line))
	if anonymous {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// sweep drops the days that ended longer than keep ago.
func (s *Store) sweep(ctx context.Context, now time.Time) error {
	s.mu.Lock()
	due := !now.Before(s.nextSweep)
	s.mu.Unlock()
	if !due {
		return nil
	}
	days, err := s.days(ctx, "")
	if err != nil {
		return fmt.Errorf("look for old events in ClickHouse: %w", err)
	}
	for _, day := range days {
		begin, err := time.Parse(dayForm, day)
		if err != nil || begin.AddDate(0, 0, 1).Add(s.keep).After(now) {
			continue
		}
		if err := s.exec(ctx, "ALTER TABLE event DROP PARTITION "+day); err != nil {
			return fmt.Errorf("drop the events of %s from ClickHouse: %w", day, err)
		}
	}
	s.mu.Lock()
	s.nextSweep = now.Add(sweepEvery)
	s.mu.Unlock()
	return nil
}

// days returns the days of rows that meet a condition, "" for all, in the form
// 20260131.
func (s *Store) days(ctx context.Context, where string) (days []string, err error) {
	query := "SELECT DISTINCT toString(toYYYYMMDD(time)) AS day FROM event"
	if where != "" {
		query += " WHERE " + where
	}
	err = s.ask(ctx, query+" ORDER BY day", func(d *decoder) { days = append(days, d.text()) })
	return days, err
}

// number runs a query for one number.
func (s *Store) number(ctx context.Context, query string) (n int64, err error) {
	err = s.ask(ctx, query, func(d *decoder) { n = d.int64() })
	return n, err
}

// literal returns a text as a literal of ClickHouse's SQL. Only quotation marks
// and backslashes need escaping.
func literal(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\x00", `\0`).Replace(s) + "'"
}

// literals returns texts as literals in parentheses.
func literals(all []string) string {
	quoted := make([]string, len(all))
	for i, v := range all {
		quoted[i] = literal(v)
	}
	return "(" + strings.Join(quoted, ", ") + ")"
}

// micros returns a time in SQL.
func micros(t time.Time) string {
	return "fromUnixTimestamp64Micro(" + strconv.FormatInt(t.UnixMicro(), 10) + ", 'UTC')"
}
