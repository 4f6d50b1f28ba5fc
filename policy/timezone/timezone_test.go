package timezone

import (
	"errors"
	"os"
	"testing"
	"time"
)

func TestCarriedZonesHaveTheirOffsetsAndNames(t *testing.T) {
	for _, c := range []struct{ name, at, want string }{
		{"Asia/Tashkent", "2026-07-01T00:00:00Z", "2026-07-01T05:00:00+05:00"},
		{"Asia/Ulaanbaatar", "2016-07-01T00:00:00Z", "2016-07-01T09:00:00+09:00"}, // summer time was tried
		{"Asia/Ulaanbaatar", "2026-07-01T00:00:00Z", "2026-07-01T08:00:00+08:00"},
		{"Asia/Ulan_Bator", "2026-07-01T00:00:00Z", "2026-07-01T08:00:00+08:00"}, // its old name
		{"Asia/Almaty", "2023-07-01T00:00:00Z", "2023-07-01T06:00:00+06:00"},
		{"Europe/Berlin", "2026-03-29T00:59:59Z", "2026-03-29T01:59:59+01:00"},
		{"Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T03:00:00+02:00"},
		{"Europe/Berlin", "2090-07-01T00:00:00Z", "2090-07-01T02:00:00+02:00"}, // by the rule for years to come
		{"America/New_York", "1970-01-01T00:00:00Z", "1969-12-31T19:00:00-05:00"},
		{"Australia/Lord_Howe", "2026-01-01T00:00:00Z", "2026-01-01T11:00:00+11:00"},
		{"Etc/GMT+12", "2026-01-01T00:00:00Z", "2025-12-31T12:00:00-12:00"},
		{"UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"},
	} {
		zone, err := carried(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := at.In(zone).Format(time.RFC3339); got != c.want || zone.String() != c.name {
			t.Errorf("%s in %s: got %s in %s, want %s", c.at, c.name, got, zone, c.want)
		}
	}
}

func TestUnknownZonesAreRefused(t *testing.T) {
	for _, name := range []string{"Asia/Samarqand", "asia", "Asia/Tashkent ", "../etc/passwd", "Asia/Tashkent Asia/Almaty", "\n"} {
		if zone, err := Load(name); err == nil {
			t.Errorf("Load(%q) = %v, want an error", name, zone)
		}
	}
}

func TestTZNamesAZoneWithoutFiles(t *testing.T) {
	none := func(string) (*time.Location, error) { return nil, errors.New("no files") }
	for tz, want := range map[string]string{
		"Asia/Tashkent":  "Asia/Tashkent",
		":Europe/Berlin": "Europe/Berlin",
		"Nowhere/At_All": "",
		"/etc/localtime": "",
		"":               "",
	} {
		got := ""
		if zone := missing(tz, none); zone != nil {
			got = zone.String()
		}
		if got != want {
			t.Errorf("TZ=%q: got zone %q, want %q", tz, got, want)
		}
	}
	if zone := missing("Asia/Tashkent", time.LoadLocation); zone != nil && fileExists("/usr/share/zoneinfo/Asia/Tashkent") {
		t.Errorf("got %v of the program, want the machine's file", zone)
	}
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
