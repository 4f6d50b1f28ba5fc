package geo

import (
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/test/geotest"
)

func write(t testing.TB, name string, networks ...geotest.Network) string {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.TempDir(), name)
	}
	if err := os.WriteFile(name+".new", geotest.File(networks), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
	return name
}

func open(t testing.TB, country, asn string) *DB {
	t.Helper()
	db, err := New(Config{Country: setting.Source(country), ASN: setting.Source(asn)}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestAnAddressIsPlaced(t *testing.T) {
	db := open(t,
		write(t, "city.mmdb",
			geotest.Network{Prefix: "192.0.2.0/24", Country: "DE", HasPlace: true, Lat: 52.5, Lon: 13.4},
			geotest.Network{Prefix: "192.0.2.128/25", Country: "fr", HasPlace: true, Lat: 48.9, Lon: 2.4},
			geotest.Network{Prefix: "198.51.100.0/24", Unrelated: true},
			geotest.Network{Prefix: "2001:db8::/32", Country: "MN"}),
		write(t, "asn.mmdb",
			geotest.Network{Prefix: "192.0.2.0/26", ASN: 64500},
			geotest.Network{Prefix: "2001:db8:1::/48", ASN: 4200000000}))
	for _, c := range []struct {
		addr    string
		country string
		bits    uint8
		located bool
		asn     uint32
		asnBits uint8
	}{
		{"192.0.2.1", "DE", 25, true, 64500, 26},
		{"192.0.2.200", "FR", 25, true, 0, 25},
		{"198.51.100.7", "", 24, false, 0, 6},
		{"203.0.113.9", "", 5, false, 0, 5},
		{"2001:db8:1::5", "MN", 32, false, 4200000000, 48},
	} {
		a := netip.MustParseAddr(c.addr)
		for range 2 { // the second lookup comes from the table
			p := db.Place(a)
			if p.Country.String() != c.country || p.Spot.Known() != c.located {
				t.Errorf("%s: got country %q, located %v, want %q, %v", a, p.Country, p.Spot.Known(), c.country, c.located)
			}
			if c.country != "" && p.Bits != c.bits {
				t.Errorf("%s: got a network of %d bits, want %d", a, p.Bits, c.bits)
			}
			asn, bits := db.ASN(a)
			if asn != c.asn || c.asn != 0 && bits != c.asnBits {
				t.Errorf("%s: got AS%d/%d, want AS%d/%d", a, asn, bits, c.asn, c.asnBits)
			}
		}
	}
}

func TestNearIsGreatCircle(t *testing.T) {
	berlin, paris, tokyo := At(52.52, 13.41), At(48.86, 2.35), At(35.68, 139.69)
	km := math.Acos(berlin.Cosine(paris)) * 6371
	if math.Abs(km-878) > 10 {
		t.Errorf("from Berlin to Paris %.0f km, want about 878", km)
	}
	if berlin.Cosine(paris) <= berlin.Cosine(tokyo) {
		t.Error("Tokyo is not nearer to Berlin than Paris")
	}
	if a, b := At(0, 179.9), At(0, -179.9); a.Cosine(b) < 0.999 {
		t.Error("spots on both sides of the date line are not near each other")
	}
}

func TestLookupsDoNotAllocate(t *testing.T) {
	db := open(t,
		write(t, "c.mmdb", geotest.Network{Prefix: "192.0.2.0/24", Country: "DE"}),
		write(t, "a.mmdb", geotest.Network{Prefix: "192.0.2.0/24", ASN: 1}))
	hit, miss := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	if n := testing.AllocsPerRun(100, func() {
		db.Place(hit)
		db.ASN(hit)
		db.Place(miss)
		db.ASN(miss)
	}); n != 0 {
		t.Errorf("%v allocations per lookup, want none", n)
	}
}

func TestAChangedFileIsReadAgain(t *testing.T) {
	path := write(t, "c.mmdb", geotest.Network{Prefix: "192.0.2.0/24", Country: "DE"})
	db := open(t, path, "")
	a, before := netip.MustParseAddr("192.0.2.1"), db.Generation()
	country := func() string { return db.Place(a).Country.String() }
	if country() != "DE" {
		t.Fatal("before the change: the country is not DE")
	}
	write(t, path, geotest.Network{Prefix: "192.0.2.0/24", Country: "AT"})
	if err := db.Reload(); err != nil || country() != "AT" {
		t.Fatalf("after the change of the file: got %s, %v, want AT", country(), err)
	}
	if db.Generation() == before {
		t.Error("Generation stayed the same after the file changed")
	}
	if err := os.WriteFile(path, []byte("not a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := db.Reload(); err == nil || !strings.Contains(err.Error(), "MaxMind") {
		t.Errorf("Reload of a file that is not a database: got %v", err)
	}
	if country() != "AT" {
		t.Error("a damaged file replaced the previous contents")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if db.Reload() == nil || country() != "AT" {
		t.Error("the previous contents were lost with the file")
	}
}

func TestFilesThatCannotBeUsedAreRefused(t *testing.T) {
	for _, cfg := range []Config{{Country: "/nowhere/c.mmdb"}, {ASN: "geo.go"}} {
		if _, err := New(cfg, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("New accepted %+v", cfg)
		}
	}
	var none *DB
	if c, a := none.Has(); c || a || none.Place(netip.MustParseAddr("::1")).Country != 0 || none.Generation() != 0 {
		t.Error("a nil DB claims to have data")
	}
}

func TestCountriesAreTwoLetters(t *testing.T) {
	for _, c := range []struct {
		in, want string
		ok       bool
	}{{"de", "DE", true}, {"US", "US", true}, {"", "", true}, {"DEU", "", false}, {"1A", "", false}, {"D", "", false}} {
		got, err := ParseCountry(c.in)
		if got.String() != c.want || (err == nil) != c.ok {
			t.Errorf("ParseCountry(%q) = %q, %v", c.in, got, err)
		}
	}
}
