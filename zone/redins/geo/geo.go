// Package geo says where an address is: country, autonomous system and place
// on the globe, from MaxMind DB files (GeoLite2, GeoIP2 or anything in their
// shape).
//
// The files are read whole into memory, so that one that is written over does
// no harm, and read again when they change. A lookup walks the file's tree
// and takes what was decoded before from a small table; it allocates only for
// a record that is not in the table.
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

	"shuultuur/setting"
)

// Config names the files; either may be left out.
type Config struct {
	// Country is a GeoLite2-Country or GeoLite2-City file (or GeoIP2's). A City
	// file gives places too, which nearest-first answers need.
	Country setting.Source `yaml:"country,omitempty"`
	// ASN is a GeoLite2-ASN or GeoIP2-ISP file.
	ASN setting.Source `yaml:"asn,omitempty"`
}

// every is how often the files are looked at.
const every = 5 * time.Second

// most is the largest file that is read.
const most = 1 << 30

// A Country is a two-letter code of ISO 3166-1, upper case, as a number; 0 is
// unknown.
type Country uint16

// ParseCountry reads a two-letter code in either case. The empty string is 0.
func ParseCountry(s string) (Country, error) {
	if s == "" {
		return 0, nil
	}
	if len(s) != 2 || !letter(s[0]) || !letter(s[1]) {
		return 0, fmt.Errorf("country %q: want two letters, such as \"DE\"", s)
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

// A Spot is a place on the globe as a unit vector: the nearer two places are,
// the larger is the product of their vectors. The zero Spot is unknown.
type Spot [3]float64

// At returns the spot at a latitude and longitude in degrees.
func At(latitude, longitude float64) Spot {
	lat, lon := latitude*math.Pi/180, longitude*math.Pi/180
	return Spot{math.Cos(lat) * math.Cos(lon), math.Cos(lat) * math.Sin(lon), math.Sin(lat)}
}

// Known says whether it is a place at all.
func (s Spot) Known() bool { return s != Spot{} }

// Near is 1 for the same place and −1 for the other side of the globe: the
// cosine of the great-circle angle.
func (s Spot) Near(o Spot) float64 { return s[0]*o[0] + s[1]*o[1] + s[2]*o[2] }

// A Place is what the country file knows of an address.
type Place struct {
	Country Country
	Spot    Spot
	// Bits is the length of the network that all of this holds for.
	Bits uint8
}

// A DB answers lookups. It is safe for many goroutines.
type DB struct {
	country, asn *file // nil where not configured
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

// Has says which questions can be answered at all. A nil DB answers none.
func (db *DB) Has() (country, asn bool) {
	if db == nil {
		return false, false
	}
	return db.country != nil, db.asn != nil
}

// Place returns what the country file has on an address: a zero Place with
// Bits when it has nothing.
func (db *DB) Place(a netip.Addr) Place {
	if db == nil || db.country == nil {
		return Place{}
	}
	e, bits := db.country.lookup(a)
	return Place{Country: e.country, Spot: e.spot, Bits: bits}
}

// ASN returns the number of the autonomous system of an address, 0 when
// unknown, and the length of the network it holds for.
func (db *DB) ASN(a netip.Addr) (asn uint32, bits uint8) {
	if db == nil || db.asn == nil {
		return 0, 0
	}
	e, bits := db.asn.lookup(a)
	return e.asn, bits
}

// Generation changes when the country file was read again: what was worked
// out from Place before may be out of date.
func (db *DB) Generation() uint64 {
	if db == nil || db.country == nil {
		return 0
	}
	return db.country.now.Load().generation
}

// Reload reads the files that have changed. A file that cannot be used leaves
// what was read before.
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
	said := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := db.Reload()
		if err == nil {
			said = ""
		} else if said != err.Error() { // once, not every five seconds
			said = err.Error()
			db.log.Warn("geography stays as it was read before", "error", err)
		}
	}
}

// A file is one MaxMind DB file that may be read again while it is used.
type file struct {
	path string
	now  atomic.Pointer[contents]
	seen os.FileInfo // of what was last tried; Reload alone touches it
}

// contents is a file as it was read. Nothing in it changes but the table of
// what was decoded, whose entries are immutable.
type contents struct {
	reader     *maxminddb.Reader
	generation uint64
	decoded    [1 << 12]atomic.Pointer[entry]
}

// An entry is one record of the file, decoded.
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
		return false, fmt.Errorf("%s: %w; is it a MaxMind DB file (.mmdb), whole?", f.path, err)
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

// decode takes what is of use from a record. Fields that are not there, or
// of another type, are unknown.
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
