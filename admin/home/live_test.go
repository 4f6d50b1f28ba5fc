package home

import (
	"slices"
	"testing"
	"time"

	"shuultuur/filter"
)

func TestTheLastHourIsCountedByVerdict(t *testing.T) {
	var l Live
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	add := func(ago time.Duration, p filter.Proto, a filter.Action, took time.Duration) {
		t := filter.Transaction{Proto: p, Verdict: filter.Verdict{Action: a}}
		t.Duration = took
		l.Add(now.Add(-ago), &t)
	}
	add(2*time.Hour, filter.HTTP, filter.Block, time.Second) // long ago
	for range 9 {
		add(30*time.Minute, filter.DNS, filter.Pass, 100*time.Microsecond)
	}
	add(0, filter.HTTP, filter.Block, 50*time.Millisecond)
	r := l.Recent(now)
	if r.Queries != 9 || r.Requests != 1 || r.Actions["block"] != 1 || r.Actions["pass"] != 9 || len(r.Moments) != slots {
		t.Errorf("the counts are %+v", r.Actions)
	}
	if r.Half < 100*time.Microsecond || r.Half > 200*time.Microsecond || r.Slow < 50*time.Millisecond || r.Slow > 100*time.Millisecond {
		t.Errorf("half took up to %v, 95 of 100 up to %v", r.Half, r.Slow)
	}
	chart := r.chart()
	if n := len(chart.Table.Rows); n != 60 || len(chart.Table.Columns) != 2 ||
		!slices.Equal(chart.Table.Rows[n-1].Values, []string{"0", "1"}) || !slices.Equal(chart.Table.Rows[n-31].Values, []string{"9", "0"}) {
		t.Errorf("the table of the chart is %v", chart.Table)
	}
	want := []hourBars{{"pass", "M291 70.0v-59.4h8v59.4z"}, {"block", "M591 70.8v6.6h8v-6.6z"}} // nine of ten above the line, one below it
	if chart.Top != 10 || chart.Half != 5 || !slices.Equal(chart.Bars, want) || len(chart.Times) != 6 {
		t.Errorf("drawn up to %d, %v with the times %v, want up to 10, %v with six times", chart.Top, chart.Bars, chart.Times, want)
	}
	if r := l.Recent(now.Add(3 * time.Hour)); r.Queries+r.Requests != 0 {
		t.Errorf("after three hours the counts are %+v, want none", r.Actions)
	}
}
