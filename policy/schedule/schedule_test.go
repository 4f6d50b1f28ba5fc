package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestSchedule(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("this machine has no time zone data: ", err)
	}
	// 2 March 2026 is a Monday.
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 3, day, hour, minute, 0, 0, berlin) }
	const zone = "Europe/Berlin"
	office := Schedule{{Days: "mon-fri", Hours: "08:00-12:00, 13:00-17:30", Zone: zone}}
	night := Schedule{{Days: "mon-fri", Hours: "21:00-06:00", Zone: zone}}
	tests := map[string]struct {
		s    Schedule
		now  time.Time
		want bool
	}{
		"in the first hours":                {office, at(2, 8, 0), true},
		"in the break":                      {office, at(2, 12, 0), false},
		"in the second hours":               {office, at(6, 17, 29), true},
		"the end is not part of it":         {office, at(6, 17, 30), false},
		"on another day":                    {office, at(7, 9, 0), false},
		"at night":                          {night, at(2, 21, 0), true},
		"past midnight":                     {night, at(3, 5, 59), true},
		"until the morning":                 {night, at(3, 6, 0), false},
		"the night of Friday is Saturday's": {night, at(7, 5, 0), true},
		"the night of Saturday is not in":   {night, at(7, 22, 0), false},
		"nor is its morning":                {night, at(8, 5, 0), false},
		"nor that of Sunday":                {night, at(2, 5, 0), false},
		"another zone's clock":              {night, time.Date(2026, 3, 2, 20, 30, 0, 0, time.UTC), true},
		"days over the weekend":             {Schedule{{Days: "sat-mon", Zone: zone}}, at(2, 0, 0), true},
		"and not after":                     {Schedule{{Days: "sat-mon", Zone: zone}}, at(3, 0, 0), false},
		"days by full names":                {Schedule{{Days: "Monday, Wednesday", Zone: zone}}, at(4, 23, 59), true},
		"one of two windows":                {Schedule{{Days: "mon", Zone: zone}, {Days: "tue", Zone: zone}}, at(3, 9, 0), true},
		"to midnight":                       {Schedule{{Hours: "22:00-24:00", Zone: zone}}, at(3, 23, 59), true},
		"and no further":                    {Schedule{{Hours: "22:00-24:00", Zone: zone}}, at(3, 0, 0), false},
		"the whole day round":               {Schedule{{Days: "mon", Hours: "06:00-06:00", Zone: zone}}, at(3, 5, 59), true},
		// On 29 March the clock moves from 2:00 to 3:00.
		"before summer time":         {Schedule{{Hours: "01:30-03:30", Zone: zone}}, time.Date(2026, 3, 29, 0, 59, 0, 0, time.UTC), true},
		"after the clock went ahead": {Schedule{{Hours: "01:30-03:30", Zone: zone}}, time.Date(2026, 3, 29, 1, 29, 0, 0, time.UTC), true},
		"and its end comes earlier":  {Schedule{{Hours: "01:30-03:30", Zone: zone}}, time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC), false},
		"a night of eight hours":     {night, time.Date(2026, 3, 28, 4, 59, 0, 0, time.UTC), true},
		// Santiago has no midnight on Sunday, 6 September: 00:30 on Monday is of the night before.
		"the night after a day without midnight":  {Schedule{{Days: "sun", Hours: "21:00-06:00", Zone: "America/Santiago"}}, time.Date(2026, 9, 7, 3, 30, 0, 0, time.UTC), true},
		"and not of the day before":               {Schedule{{Days: "sat", Hours: "21:00-06:00", Zone: "America/Santiago"}}, time.Date(2026, 9, 7, 3, 30, 0, 0, time.UTC), false},
		"the night before a day without midnight": {Schedule{{Days: "sat", Hours: "21:00-06:00", Zone: "America/Santiago"}}, time.Date(2026, 9, 6, 4, 0, 0, 0, time.UTC), true},
		"ends on the clock on a wall":             {Schedule{{Days: "sat", Hours: "21:00-06:00", Zone: zone}}, time.Date(2026, 3, 29, 4, 0, 0, 0, time.UTC), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hs, _, err := test.s.Parse()
			if err != nil {
				t.Fatal(err)
			}
			if got := hs.Open(test.now); got != test.want {
				t.Errorf("%v: open %v, want %v", test.now, got, test.want)
			}
		})
	}
}

func TestOldSchedules(t *testing.T) {
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 3, day, hour, minute, 59, 0, time.Local) }
	tests := map[string]struct {
		old  string
		now  time.Time
		want bool
	}{
		"0 is Monday":             {"9 0 17 0 0", at(2, 9, 0), true},
		"6 is Sunday":             {"9 0 17 0 6", at(8, 9, 0), true},
		"4 is Friday":             {"9 0 17 0 01234", at(7, 9, 0), false},
		"the end minute is in":    {"9 0 17 0 01234", at(2, 17, 0), true},
		"the next is not":         {"9 0 17 0 01234", at(2, 17, 1), false},
		"the whole day":           {"0 0 23 59 0123456", at(2, 23, 59), true},
		"past midnight":           {"21 0 6 0 0", at(3, 6, 0), true},
		"not the morning before":  {"21 0 6 0 0", at(2, 5, 0), false},
		"one minute":              {"9 0 9 0 0", at(2, 9, 0), true},
		"one minute and not more": {"9 0 9 0 0", at(2, 9, 1), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hs, err := Schedule{{Old: test.old}}.Compile()
			if err != nil {
				t.Fatal(err)
			}
			if got := hs.Open(test.now); got != test.want {
				t.Errorf("%q at %v: open %v, want %v", test.old, test.now, got, test.want)
			}
		})
	}
	for _, bad := range []string{"9 0 17 0", "9 0 17 0 7", "24 0 17 0 0", "9 60 17 0 0", "a b c d e", "9 0 17 0 01234560", "-1 0 1 0 0"} {
		if _, err := (Schedule{{Old: bad}}).Compile(); err == nil || !strings.Contains(err.Error(), "five numbers") {
			t.Errorf("%q: error %v, want one that shows the form", bad, err)
		}
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add("mon-fri", "21:00-06:00", "", int64(0))
	f.Add("sat,sun", "8:00-12:00,13:00-24:00", "", int64(1e9))
	f.Add("", "", "9 0 17 0 01234", int64(1e9))
	f.Fuzz(func(t *testing.T, days, clock, old string, now int64) {
		hs, err := Schedule{{Days: days, Hours: clock, Zone: "UTC", Old: old}}.Compile()
		if err != nil {
			return
		}
		if len(hs) == 0 {
			t.Error("a compiled schedule has no windows, so it would always be open")
		}
		for _, h := range hs {
			if h.days == 0 && old == "" || h.days > everyDay || h.start < 0 || h.start >= 24*60 || h.end < 0 || h.end > 24*60 {
				t.Errorf("invalid window %+v", h)
			}
		}
		// All weeks are alike.
		when := time.Unix(now%1e10, 0).UTC()
		if old == "" && hs.Open(when) != hs.Open(when.AddDate(0, 0, 7)) {
			t.Errorf("the schedule differs between %v and a week later", when)
		}
	})
}

func TestAWindowHoldsOnDates(t *testing.T) {
	for _, c := range []struct {
		window Window
		in     string
		want   bool
	}{
		{Window{Dates: "2026-12-21..2027-01-06"}, "2026-12-21 00:00", true},
		{Window{Dates: "2026-12-21..2027-01-06"}, "2027-01-06 23:59", true},
		{Window{Dates: "2026-12-21..2027-01-06"}, "2027-01-07 00:00", false},
		{Window{Dates: "*-12-21..*-01-06"}, "2031-01-06 10:00", true},
		{Window{Dates: "*-12-21..*-01-06"}, "2031-02-06 10:00", false},
		{Window{Dates: "*-12-21..*-01-06"}, "2031-12-22 10:00", true},
		{Window{Dates: "*-*-01, 2026-05-02"}, "2026-05-02 10:00", true},
		{Window{Dates: "*-*-01, 2026-05-02"}, "2026-07-01 10:00", true},
		{Window{Dates: "*-*-01, 2026-05-02"}, "2027-05-02 10:00", false},
		{Window{Dates: "not *-12-24", Days: "mon-fri"}, "2026-12-24 10:00", false},
		{Window{Dates: "not *-12-24", Days: "mon-fri"}, "2026-12-23 10:00", true},
		{Window{Dates: "not *-12-24", Days: "mon-fri"}, "2026-12-26 10:00", false},
		{Window{Dates: "2026-12-31", Hours: "22:00-02:00"}, "2027-01-01 01:00", true},
		{Window{Dates: "2026-12-31", Hours: "22:00-02:00"}, "2026-12-31 01:00", false},
		{Window{Dates: "*-02-29"}, "2028-02-29 01:00", true},
	} {
		hs, err := Schedule{c.window}.Compile()
		if err != nil {
			t.Errorf("%+v: %v", c.window, err)
			continue
		}
		when, err := time.ParseInLocation("2006-01-02 15:04", c.in, time.Local)
		if err != nil {
			t.Fatal(err)
		}
		if got := hs.Open(when); got != c.want {
			t.Errorf("window %+v at %s: open %v", c.window, c.in, got)
		}
	}
	for _, s := range []string{"2026-13-01", "2026-02-29", "26-01-01", "2026-1-1", "2026-01-02..2026-01-01", "*-*-01..*-*-05", "*-01-01..2026-01-05", "2026", "not", "not ", "x", "2026-01-01,", "0000-01-01"} {
		if _, err := (Schedule{{Dates: s}}).Compile(); err == nil {
			t.Errorf("Compile accepted the dates %q", s)
		}
	}
	week, err := Schedule{{Days: "mon", Dates: "not *-12-24"}, {Dates: "2026-05-02"}}.Week()
	if err != nil || len(week[0]) != 1 || len(week[5]) != 0 {
		t.Errorf("Week: got %v, %v", week, err)
	}
}
