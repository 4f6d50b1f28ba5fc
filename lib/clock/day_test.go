package clock

import (
	"testing"
	"time"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestMomentIsTheFirstThatShowsATime(t *testing.T) {
	for _, tt := range []struct {
		zone       string
		y, m, d    int
		minutes    int
		want, note string
	}{
		{"UTC", 2026, 11, 29, 0, "2026-11-29T00:00:00Z", "an ordinary day"},
		{"Europe/Berlin", 2026, 3, 29, 0, "2026-03-29T00:00:00+01:00", "a day whose clock is set forward later"},
		{"Europe/Berlin", 2026, 3, 29, 150, "2026-03-29T03:00:00+02:00", "a time in the gap"},
		{"Europe/Berlin", 2026, 10, 25, 150, "2026-10-25T02:30:00+02:00", "a time shown twice"},
		{"Europe/Berlin", 2026, 10, 25, 180, "2026-10-25T03:00:00+01:00", "the time after those shown twice"},
		{"America/Santiago", 2026, 9, 6, 0, "2026-09-06T01:00:00-03:00", "no midnight"},
		{"America/Santiago", 2026, 9, 6, 30, "2026-09-06T01:00:00-03:00", "a time in its gap"},
		{"America/Santiago", 2026, 4, 5, 0, "2026-04-05T00:00:00-04:00", "the evening before is an hour longer"},
		{"America/Havana", 2026, 3, 8, 0, "2026-03-08T01:00:00-04:00", "no midnight"},
		{"America/Havana", 2026, 11, 1, 0, "2026-11-01T00:00:00-04:00", "two midnights"},
		{"Atlantic/Azores", 2026, 3, 29, 0, "2026-03-29T01:00:00Z", "no midnight"},
		{"Atlantic/Azores", 2026, 10, 25, 0, "2026-10-25T00:00:00Z", "two midnights"},
		{"Asia/Beirut", 2026, 3, 29, 0, "2026-03-29T01:00:00+03:00", "no midnight"},
		{"Pacific/Apia", 2011, 12, 30, 0, "2011-12-31T00:00:00+14:00", "no such day"},
		{"Pacific/Apia", 2011, 12, 31, 0, "2011-12-31T00:00:00+14:00", "the day after it"},
		{"Australia/Lord_Howe", 2026, 10, 4, 130, "2026-10-04T02:30:00+11:00", "a gap of half an hour"},
		{"UTC", 2026, 12, 32, 0, "2027-01-01T00:00:00Z", "a day beyond the year"},
		{"UTC", 2026, 1, 0, 1440 + 5, "2026-01-01T00:05:00Z", "minutes beyond the day"},
	} {
		got := Moment(tt.y, time.Month(tt.m), tt.d, tt.minutes, zone(t, tt.zone)).Format(time.RFC3339)
		if got != tt.want {
			t.Errorf("%s %d-%d-%d +%d min, %s: %s, want %s", tt.zone, tt.y, tt.m, tt.d, tt.minutes, tt.note, got, tt.want)
		}
	}
}

// Each date begins at the first moment that shows it: the moment before shows an earlier one.
func TestDaysFollowEachOther(t *testing.T) {
	for _, name := range []string{"America/Santiago", "America/Havana", "Atlantic/Azores", "Asia/Beirut", "Africa/Cairo", "Europe/London", "Pacific/Apia", "America/Asuncion", "Asia/Kathmandu", "UTC"} {
		now := time.Date(2009, 1, 1, 12, 0, 0, 0, zone(t, name))
		begin := Day(now, 0)
		for begin.Year() < 2030 {
			end := Day(begin, 1)
			before := end.Add(-time.Nanosecond)
			if !end.After(begin) || before.Format(time.DateOnly) >= end.Format(time.DateOnly) || Day(before, 0).Format(time.DateOnly) != begin.Format(time.DateOnly) {
				t.Fatalf("%s: the day from %v ends at %v", name, begin, end)
			}
			if long := end.Sub(begin); long < 23*time.Hour || long > 25*time.Hour {
				t.Errorf("%s: %v has %v", name, begin, long)
			}
			if back := Day(end, -1); !back.Equal(begin) && name != "Pacific/Apia" {
				t.Errorf("%s: the day before %v began at %v, want %v", name, end, back, begin)
			}
			begin = end
		}
	}
}
