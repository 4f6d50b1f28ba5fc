// Package eventtest holds the tests every event store passes, and rows to
// test and measure with.
package eventtest

import (
	"fmt"
	"net/netip"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
)

// Rows returns n rows as a school's proxy makes them: most pages pass, some
// are blocked with findings. They are the same every time.
func Rows(n int) []event.Row {
	start := time.Date(2026, 1, 15, 8, 0, 0, 0, time.UTC)
	rows := make([]event.Row, n)
	for i := range rows {
		r := &rows[i]
		*r = event.Row{
			Time:     start.Add(time.Duration(i) * 50 * time.Microsecond),
			Duration: time.Duration(1000+i%5000) * time.Microsecond,
			ID:       fmt.Sprintf("0j%012x", i*7919),
			Client:   netip.AddrFrom4([4]byte{10, 1, byte(i >> 5), byte(i)}),
			User:     fmt.Sprintf("pupil%03d", i%400),
			Policy:   "pupils",
			Method:   "GET",
			Host:     fmt.Sprintf("www.site-%d.example.com", i%1000),
			URL:      fmt.Sprintf("https://www.site-%d.example.com/articles/2026/01/page-%d.html?ref=home", i%1000, i),
			Type:     "text/html",
			BytesOut: int64(5000 + i%60000),
			Looked:   int64(5000 + i%60000),
			Status:   200,
			Port:     443,
		}
		if i%10 == 0 {
			r.Action, r.Rule, r.Status, r.Score = filter.Block, "words", 403, 120
			r.Category, r.Evidence = "phrase", "gambling: casino (w.list:12) 80; poker (w.list:40) 40"
			r.Findings = `[{"check":"phrase","category":"phrase","score":120,"evidence":"gambling: casino (w.list:12) 80; poker (w.list:40) 40"}]`
		}
	}
	return rows
}
