package event

import (
	"slices"
	"testing"
	"time"

	"shuultuur/filter"
)

// TestARowKeepsTheMinutesOfUse: also where the rounding of its times would move the first one.
func TestARowKeepsTheMinutesOfUse(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	first := filter.MinuteOf(noon)
	for what, tt := range map[string]struct {
		start   time.Time
		took    time.Duration
		minutes filter.Minutes
		text    string
		want    filter.Minutes
	}{
		"short":                   {noon, time.Second, nil, "", filter.Minutes{{First: first, Last: first}}},
		"over the turn":           {noon.Add(59 * time.Second), 2 * time.Second, nil, "0-1", filter.Minutes{{First: first, Last: first + 1}}},
		"silent":                  {noon, time.Hour, filter.Minutes{{First: first, Last: first}}, "", filter.Minutes{{First: first, Last: first}}},
		"now and then":            {noon, time.Hour, filter.Minutes{{First: first, Last: first + 2}, {First: first + 59, Last: first + 59}}, "0-2,59", filter.Minutes{{First: first, Last: first + 2}, {First: first + 59, Last: first + 59}}},
		"less than a microsecond": {noon.Add(-400), time.Minute + 700, filter.Minutes{{First: first - 1, Last: first + 1}}, "0-1", filter.Minutes{{First: first, Last: first + 1}}},
		"and nothing else":        {noon.Add(-400), time.Minute + 700, filter.Minutes{{First: first - 1, Last: first - 1}}, "", filter.Minutes{{First: first, Last: first}}},
		"after the clock was set": {noon, time.Hour, filter.Minutes{{First: first - 90, Last: first - 80}, {First: first, Last: first + 1}}, "0-1", filter.Minutes{{First: first, Last: first + 1}}},
	} {
		row := NewRow(&filter.Transaction{Start: tt.start, Record: filter.Record{Duration: tt.took, Minutes: tt.minutes, BytesOut: 1}})
		if got := row.Used(); row.Minutes != tt.text || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, which is %v, want %q and %v", what, row.Minutes, got, tt.text, tt.want)
		}
	}
}
