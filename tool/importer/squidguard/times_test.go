package squidguard

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/report"
)

func TestTimesOfSquidGuardAreMetAndTurnedAround(t *testing.T) {
	read := func(lines ...string) *calendar {
		w := new(calendar)
		for _, s := range lines {
			days, stretches, why := weekly(strings.Fields(s))
			if why != "" {
				t.Fatalf("weekly(%q) fails: %s", s, why)
			}
			w.add(days, stretches)
		}
		return w
	}
	work := read("mtwhf 08:00-12:00 13:00 - 17:00")
	for _, c := range []struct {
		name string
		week *calendar
		want policy.Schedule
	}{
		{"no time", nil, nil},
		{"all the week", read("*"), nil},
		{"days by letters and names, in a list", read("m", "saturdays,sundays 10:00-12:00"), policy.Schedule{{Days: "sun,sat", Hours: "10:00-12:00"}, {Days: "mon"}}},
		{"into the day after", read("a 22:00-06:00"), policy.Schedule{{Days: "sun", Hours: "00:00-06:00"}, {Days: "sat", Hours: "22:00-24:00"}}},
		{"every day", read("* 00:00-08:00"), policy.Schedule{{Hours: "00:00-08:00"}}},
		{"the last minute", read("* 20:00-23:59"), policy.Schedule{{Hours: "20:00-24:00"}}},
		{"outside", work.outside(), policy.Schedule{{Days: "sun,sat"}, {Days: "mon,tue,wed,thu,fri", Hours: "00:00-08:00,12:00-13:00,17:00-24:00"}}},
		{"both", work.and(read("mf 11:00-14:00")), policy.Schedule{{Days: "mon,fri", Hours: "11:00-12:00,13:00-14:00"}}},
	} {
		if got, ok := c.week.schedule(); !ok || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, ok, c.want)
		}
	}
	if got, ok := work.and(work.outside()).schedule(); ok || len(got) > 0 {
		t.Errorf("the intersection of a time and its complement is %v, %v; want no minute", got, ok)
	}
	for _, s := range []string{"", "monday-friday 08:00-12:00", "somedays 08:00-12:00", "m 08:00-25:00", "m 08:00-08:00", "m 8", "08:00-12:00", "m 08:00-12:00 later"} {
		if _, _, why := weekly(strings.Fields(s)); why == "" {
			t.Errorf("weekly(%q) does not fail", s)
		}
	}
}

func TestDatesOfSquidGuardBecomeWindows(t *testing.T) {
	q := &config{w: build.New(t.Context(), "squidguard", "", ""), times: map[string]*calendar{}}
	say := func(name string, lines ...string) {
		var body []statement
		for _, s := range lines {
			body = append(body, statement{words: strings.Fields(s)})
		}
		q.time(name, body)
	}
	say("plain", "weekly mtwhf 08:00-16:00")
	say("feast", "date *-12-24", "date 2026.06.01-2026.08.31 10:00-12:00")
	say("mixed", "weekly * 08:00-16:00", "date 2026-12-31 18:00-24:00")
	say("wrong", "date 2026-13-01", "date soon", "date 2026-01-01 8", "yearly x")
	if q.times["wrong"] != nil || len(q.w.Report.Notes) != 5+4 {
		t.Errorf("the faulty time space is %v, with %d notes; want nil and 9", q.times["wrong"], len(q.w.Report.Notes))
	}
	at := report.Place{}
	for _, c := range []struct {
		name string
		of   *calendar
		in   map[string]bool
	}{
		{"feast", q.within("feast", false, at), map[string]bool{"2027-12-24 03:00": true, "2027-12-25 03:00": false, "2026-07-01 11:00": true, "2026-07-01 12:00": false, "2027-07-01 11:00": false}},
		{"not feast", q.within("feast", true, at), map[string]bool{"2027-12-24 03:00": false, "2027-12-25 03:00": true, "2026-07-01 11:00": false, "2026-07-01 12:00": true, "2027-07-01 11:00": true}},
		{"mixed", q.within("mixed", false, at), map[string]bool{"2026-12-31 09:00": true, "2026-12-31 17:00": false, "2026-12-31 19:00": true, "2026-12-30 19:00": false}},
		{"not mixed", q.within("mixed", true, at), map[string]bool{"2026-12-31 09:00": false, "2026-12-31 17:00": true, "2026-12-31 19:00": false, "2026-12-30 19:00": true}},
		{"plain but feast", q.within("plain", false, at).and(q.within("feast", true, at)), map[string]bool{"2026-12-24 09:00": false, "2026-12-23 09:00": true, "2026-12-23 19:00": false, "2026-07-01 11:00": false, "2026-07-01 09:00": true}},
		{"feast but mixed", q.within("feast", false, at).and(q.within("mixed", false, at)), map[string]bool{"2026-12-24 09:00": true, "2026-12-24 17:00": false, "2026-12-31 19:00": false}},
	} {
		s, ok := c.of.schedule()
		hours, err := s.Compile()
		if !ok || err != nil {
			t.Fatalf("%s: compiling %v: %v", c.name, s, err)
		}
		for text, want := range c.in {
			when, err := time.ParseInLocation("2006-01-02 15:04", text, time.Local)
			if err != nil {
				t.Fatal(err)
			}
			if got := hours.Open(when); got != want {
				t.Errorf("%s at %s: open %v, by the windows %v", c.name, text, got, s)
			}
		}
	}
}
