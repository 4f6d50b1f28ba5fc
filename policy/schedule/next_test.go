package schedule

import (
	"testing"
	"time"
)

func TestTheNextChangeOfASchedule(t *testing.T) {
	for _, tt := range []struct {
		window    Window
		now, want string // "": none within two hours
	}{
		{Window{Hours: "21:00-07:00", Zone: "UTC"}, "2026-05-01T20:30:30Z", "2026-05-01T21:00:00Z"},
		{Window{Hours: "21:00-07:00", Zone: "UTC"}, "2026-05-01T21:00:00Z", ""},
		{Window{Hours: "21:00-07:00", Zone: "UTC"}, "2026-05-01T06:59:59.9Z", "2026-05-01T07:00:00Z"},
		{Window{Hours: "21:00-07:00", Zone: "UTC"}, "2026-05-01T12:00:00Z", ""},
		{Window{Days: "sat", Zone: "UTC"}, "2026-05-01T23:00:00Z", "2026-05-02T00:00:00Z"},
		{Window{Hours: "02:30-03:30", Zone: "Europe/Berlin"}, "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z"},
		{Window{Hours: "02:30-03:30", Zone: "Europe/Berlin"}, "2026-10-25T00:45:00Z", "2026-10-25T01:00:00Z"}, // 03:00 becomes 02:00
		{Window{Hours: "02:30-03:30", Zone: "Europe/Berlin"}, "2026-10-25T01:10:00Z", "2026-10-25T01:30:00Z"}, // 02:30 again
		{Window{Hours: "02:30-03:30", Zone: "Europe/Berlin"}, "2026-03-29T00:59:00Z", "2026-03-29T01:00:00Z"}, // 02:00 becomes 03:00
	} {
		hs, err := Schedule{tt.window}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		now, _ := time.Parse(time.RFC3339, tt.now)
		at, ok := hs.Next(now, 2*time.Hour)
		got := at.UTC().Format(time.RFC3339)
		if !ok {
			got = ""
		}
		if got != tt.want {
			t.Errorf("%+v at %s changes at %q, want %q", tt.window, tt.now, got, tt.want)
		}
	}
}
