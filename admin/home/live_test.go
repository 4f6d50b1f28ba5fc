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
	verdicts, latency := r.graphs()
	if n := len(verdicts.Rows); n != 60 || len(latency.Rows) != 60 || len(verdicts.Columns) != 2 ||
		!slices.Equal(verdicts.Rows[n-1].Values, []string{"0", "1"}) || !slices.Equal(verdicts.Rows[n-31].Values, []string{"9", "0"}) || !slices.Equal(latency.Rows[n-31].Values, []string{"0.128", "0.128"}) || !slices.Equal(latency.Rows[0].Values, []string{"", ""}) {
		t.Errorf("drawn %v and %v", verdicts, latency)
	}
	if r := l.Recent(now.Add(3 * time.Hour)); r.Queries+r.Requests != 0 {
		t.Errorf("after three hours the counts are %+v, want none", r.Actions)
	}
}
