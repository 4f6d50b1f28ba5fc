// Package geo locates addresses: country, autonomous system and coordinates, from MaxMind DB
// files (GeoLite2, GeoIP2 or compatible).
//
// The files are read into memory, so that overwriting one is harmless, and read again when
// they change. A lookup walks the file's tree and takes decoded records from a small table; it
// allocates only for a record that is not in the table.
package geo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"

	"shuultuur/lib/setting"
)

// Config names the files; both are optional.
type Config struct {
	// Country is a GeoLite2-Country or GeoLite2-City file (or GeoIP2's). A City file also has
	// coordinates, which nearest-first answers need.
	Country setting.Source `yaml:"country,omitempty"`
	// ASN is a GeoLite2-ASN or GeoIP2-ISP file.
	ASN setting.Source `yaml:"asn,omitempty"`
}

// every is how often the files are checked.
const every = 5 * time.Second

// most is the largest file that is read, in bytes.
const most = 1 << 30

// A Country is an ISO 3166-1 two-letter code in upper case, as a number; 0 is unknown.
type Country uint16

// ParseCountry parses a two-letter code in either case. The empty string is 0.
func ParseCountry(s string) (Country, error) {
	if s == "" {
		return 0, nil
	}
	if len(s) != 2 || !letter(s[0]) || !letter(s[1]) {
		return 0, fmt.Errorf("country %q: must be two letters, such as \"DE\"", s)
	}
	return Country(s[0]&^0x20)<<8 | Country(s[1]&^0x20), nil
}

func letter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

func (c Country) String() string {
	if c == 0 {
		return ""
	}
	return string([]byte{byte(c >> 8), byte(c)})
}

// A Spot is a point on the globe as a unit vector: the nearer two points are, the larger is
// their dot product. The zero Spot is unknown.
type Spot [3]float64

// At returns the spot at a latitude and longitude in degrees.
func At(latitude, longitude float64) Spot {
	lat, lon := latitude*math.Pi/180, longitude*math.Pi/180
	return Spot{math.Cos(lat) * math.Cos(lon), math.Cos(lat) * math.Sin(lon), math.Sin(lat)}
}

// Known reports whether the spot is known.
func (s Spot) Known() bool { return s != Spot{} }

// Cosine is 1 for the same place and −1 for the other side of the globe: the
// cosine of the great-circle angle.
func (s Spot) Cosine(o Spot) float64 { return s[0]*o[0] + s[1]*o[1] + s[2]*o[2] }

// A Place is the entry of the country file for an address.
type Place struct {
	Country Country
	Spot    Spot
	// Bits is the length of the network with this data.
	Bits uint8
}

// A DB answers lookups. It is safe for concurrent use.
type DB struct {
	country, asn *file // nil if not configured
	log          *slog.Logger
}

// New reads the files.
func New(cfg Config, log *slog.Logger) (*DB, error) {
	db := &DB{log: log}
	for _, f := range []struct {
		key  string
		path setting.Source
		to   **file
	}{{"country", cfg.Country, &db.country}, {"asn", cfg.ASN, &db.asn}} {
		if f.path == "" {
			continue
		}
		opened := &file{path: string(f.path)}
		if _, err := opened.reload(); err != nil {
			return nil, setting.At(f.key, err)
		}
		*f.to = opened
	}
	return db, nil
}

// Has reports which questions can be answered. A nil DB answers none.
func (db *DB) Has() (country, asn bool) {
	if db == nil {
		return false, false
	}
	return db.country != nil, db.asn != nil
}

// Place returns the entry of the country file for an address. If it has nothing,
// only Bits is set.
func (db *DB) Place(a netip.Addr) Place {
	if db == nil || db.country == nil {
		return Place{}
	}
	e, bits := db.country.lookup(a)
	return Place{Country: e.country, Spot: e.spot, Bits: bits}
}

// ASN returns the autonomous system number of an address, 0 if unknown, and the length of the
// network with this number.
func (db *DB) ASN(a netip.Addr) (asn uint32, bits uint8) {
	if db == nil || db.asn == nil {
		return 0, 0
	}
	e, bits := db.asn.lookup(a)
	return e.asn, bits
}

// Generation changes when the country file was read again: earlier results of Place may be out
// of date.
func (db *DB) Generation() uint64 {
	if db == nil || db.country == nil {
		return 0
	}
	return db.country.now.Load().generation
}

// Reload reads files that have changed. If a file cannot be used, the previous contents stay.
func (db *DB) Reload() error {
	var errs []error
	for _, f := range []*file{db.country, db.asn} {
		if f == nil {
			continue
		}
		switch changed, err := f.reload(); {
		case err != nil:
			errs = append(errs, err)
		case changed:
			db.log.Info("geography read again", "file", f.path)
		}
	}
	return errors.Join(errs...)
}

// Run reads files again when they change, until ctx ends.
func (db *DB) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	reported := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := db.Reload()
		if err == nil {
			reported = ""
		} else if reported != err.Error() { // once, not every five seconds
			reported = err.Error()
			db.log.Warn("geography stays as it was read before", "error", err)
		}
	}
}

// A file is one MaxMind DB file, which may be replaced while in use.
type file struct {
	path string
	now  atomic.Pointer[contents]
	seen os.FileInfo // of the last attempt; only Reload uses it
}

// contents is a file in memory. Only the table of decoded entries changes; entries are
// immutable.
type contents struct {
	reader     *maxminddb.Reader
	generation uint64
	decoded    [1 << 12]atomic.Pointer[entry]
}

// An entry is a decoded record of the file.
type entry struct {
	offset  uintptr
	country Country
	asn     uint32
	spot    Spot
}

func (f *file) reload() (changed bool, err error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return false, err
	}
	if f.seen != nil && os.SameFile(info, f.seen) && info.ModTime().Equal(f.seen.ModTime()) && info.Size() == f.seen.Size() {
		return false, nil
	}
	if info.Size() > most {
		return false, fmt.Errorf("%s: %d bytes are too many, at most %d are read", f.path, info.Size(), most)
	}
	b, err := os.ReadFile(f.path)
	if err != nil {
		return false, err
	}
	r, err := maxminddb.OpenBytes(b)
	if err != nil {
		return false, fmt.Errorf("%s: %w; is it a complete MaxMind DB file (.mmdb)?", f.path, err)
	}
	f.seen = info
	next := &contents{reader: r, generation: 1}
	if old := f.now.Load(); old != nil {
		next.generation = old.generation + 1
	}
	f.now.Store(next)
	return true, nil
}

var nothing = &entry{}

func (f *file) lookup(a netip.Addr) (*entry, uint8) {
	c := f.now.Load()
	r := c.reader.Lookup(a)
	bits := uint8(max(0, r.Prefix().Bits()))
	if !r.Found() {
		return nothing, bits
	}
	offset := r.Offset()
	slot := &c.decoded[(uint64(offset)*0x9e3779b97f4a7c15)>>52]
	if e := slot.Load(); e != nil && e.offset == offset {
		return e, bits
	}
	e := decode(r)
	e.offset = offset
	slot.Store(e)
	return e, bits
}

// decode extracts the useful fields of a record. Missing fields, or fields of another type,
// are unknown.
func decode(r maxminddb.Result) *entry {
	e := &entry{}
	var code string
	for _, where := range []string{"country", "registered_country"} {
		if r.DecodePath(&code, where, "iso_code") == nil && code != "" {
			if c, err := ParseCountry(code); err == nil {
				e.country = c
				break
			}
		}
	}
	var lat, lon *float64
	if r.DecodePath(&lat, "location", "latitude") == nil && r.DecodePath(&lon, "location", "longitude") == nil && lat != nil && lon != nil {
		if s := At(*lat, *lon); !math.IsNaN(s[0] + s[1] + s[2]) {
			e.spot = s
		}
	}
	if r.DecodePath(&e.asn, "autonomous_system_number") != nil {
		e.asn = 0
	}
	return e
}
