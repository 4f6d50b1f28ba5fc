package importer

import (
	"reflect"
	"strings"
	"testing"

	"shuultuur/policy"
)

func TestTimesOfSquidGuardAreMetAndTurnedAround(t *testing.T) {
	read := func(lines ...string) *week {
		w := new(week)
		for _, s := range lines {
			days, stretches, why := weekly(strings.Fields(s))
			if why != "" {
				t.Fatalf("%q: %s", s, why)
			}
			w.add(days, stretches)
		}
		return w
	}
	work := read("mtwhf 08:00-12:00 13:00 - 17:00")
	for _, c := range []struct {
		name string
		week *week
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
		t.Errorf("no minute of the week is %v, %v", got, ok)
	}
	for _, s := range []string{"", "monday-friday 08:00-12:00", "somedays 08:00-12:00", "m 08:00-25:00", "m 08:00-08:00", "m 8", "08:00-12:00", "m 08:00-12:00 later"} {
		if _, _, why := weekly(strings.Fields(s)); why == "" {
			t.Errorf("%q is read", s)
		}
	}
}
