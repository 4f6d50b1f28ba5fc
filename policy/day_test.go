package policy

import (
	"sync/atomic"
	"testing"
	"time"
)

// A quota lasts from the first moment of a date to the first of the next, whether or not the date
// has a midnight, one, or two.
func TestAQuotaCoversAWholeDate(t *testing.T) {
	for _, tt := range []struct{ zone, now, begin, end string }{
		{"Europe/Berlin", "2026-03-29T12:00:00+02:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"America/Santiago", "2026-09-05T23:59:59-04:00", "2026-09-05T00:00:00-04:00", "2026-09-06T01:00:00-03:00"},
		{"America/Santiago", "2026-09-06T01:00:00-03:00", "2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"},
		{"America/Havana", "2026-11-01T00:30:00-05:00", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
	} {
		loc, err := time.LoadLocation(tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, tt.now)
		if err != nil {
			t.Fatal(err)
		}
		e := &Engine{today: new(atomic.Pointer[day])}
		d := e.dayOf(now.In(loc))
		if d.name != tt.now[:10] || d.begin.Format(time.RFC3339) != tt.begin || d.end.Format(time.RFC3339) != tt.end {
			t.Errorf("%s at %s: %s from %v to %v, want %s to %s", tt.zone, tt.now, d.name, d.begin, d.end, tt.begin, tt.end)
		}
		if again := e.dayOf(d.begin); again != d {
			t.Errorf("%s at %s: its first moment belongs to %s", tt.zone, tt.now, again.name)
		}
		if next := e.dayOf(d.end); next.name <= d.name || !next.begin.Equal(d.end) {
			t.Errorf("%s at %s: followed by %s from %v", tt.zone, tt.now, next.name, next.begin)
		}
	}
}
